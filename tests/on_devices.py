"""What test_devices.py asks of processes of their own, since JAX counts its devices once.

    python on_devices.py four DIRECTORY            in one process with four devices
    python on_devices.py process I PORT DIRECTORY  as one of two processes

Prints what the tests compare, as JSON.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tracing
from jax.flatten_util import ravel_pytree
from toy import Decay, Oscillator

import lcpinn as lc
from lcpinn.devices import join_processes, make_mesh
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import LBFGS, Adam, GaussNewton
from lcpinn.optimiser.linear_model import RowSystem, Summed
from lcpinn.protocol import Protocol
from lcpinn.rows import Problem
from lcpinn.rundir import RunDirectory
from lcpinn.sampling import Sampling, fixed
from lcpinn.weighting import Fixed

# Small: the programs are compiled anew for every number of devices, and take hardly a moment then.
NETWORK = MLP((5,), "sine", FiLM(0, 2), frequency_scale=2.0)
KILLED = 3  # how many blocks a process gets through before it is killed


def protocol() -> Protocol:
    """Rows that four devices cannot share evenly, and a clock that never ends it."""
    phase = GaussNewton(
        sampling=Sampling(150, 7, 1, "collocation"), steps=8, block=2, solver="cholesky",
        seconds=600.0,
    )  # fmt: skip
    held_out = Sampling(64, 8, 1, "collocation", seed=1009)
    return Protocol(
        "small", NETWORK, Fixed({}), (phase,), sampling=None, held_out=held_out, dtype="float64"
    )


def pinn(family: lc.Family, at: dict[str, float]) -> Protocol:
    """Adam and L-BFGS on 16 points inside, which four devices share, and two that they do not."""
    made = lc.protocol.pinn(family, at=at)
    small = {"interior": 16, "face": 2}
    return replace(
        made,
        network=NETWORK,
        phases=(Adam(steps=15, rate=1e-2, block=5), LBFGS(steps=6, block=3)),
        sampling=replace(made.sampling or Sampling(), **small),
        quadrature=replace(made.quadrature, **small),
        held_out=Sampling(16, 2, 1, "sobol", seed=1009),
        dtype="float64",
    )


train = partial(lc.train, report=False, progress=False)


def flat(solution: lc.Solution) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(solution.params)])


def gap(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    return float(np.max(np.abs(np.asarray(one) - np.asarray(other))) / np.max(np.abs(one)))


class Interrupted(Exception):
    pass


def interrupting(count: int, how) -> None:
    """Run directories that call `how` in place of writing a line, that of this number."""
    calls, log = [], RunDirectory.log

    def counted(self, line):
        calls.append(line)
        if len(calls) == count:
            RunDirectory.log = log
            how()
        log(self, line)

    RunDirectory.log = counted


def interrupt() -> None:
    raise Interrupted


# -- One process, four devices -------------------------------------------------------------------


def four(directory: Path) -> dict[str, object]:
    alone = flat(train(Oscillator(), protocol(), devices=1))
    interrupting(KILLED, interrupt)
    run = {"out": directory / "run", "checkpoint_every": 0.0}
    with contextlib.suppress(Interrupted):
        train(Oscillator(), protocol(), devices=4, **run)
    resumed = train(Oscillator(), protocol(), devices=2, resume=True, **run)
    setting, *others = [{"k": 1.1}, {"k": 0.6}, {"k": 1.7}]
    spread = flat(train(Decay(), pinn(Decay(), setting), devices=4))
    # Each member of a batch is on one device, so that it tells what one device gives.
    batch = lc.retrain(Decay(), pinn, [setting, *others], progress=False, devices=4)
    assert [s.protocol.at for s in batch] == [setting, *others]
    return {
        "gauss_newton": gap(alone, flat(resumed)),
        "first_order": gap(flat(batch[0]), spread),
        **model_of_rows(),
    }


def model_of_rows() -> dict[str, object]:
    """The linear model on four devices beside that on one."""
    family, mesh = Oscillator(), make_mesh(4)
    assert mesh is not None
    with jax.enable_x64(True):
        problem = Problem(family, NETWORK, jnp.float64)
        batch = fixed(family, protocol().phases[0].points(None) or Sampling(), jnp.float64)
        theta, unravel = ravel_pytree(problem.drawing()(jax.random.PRNGKey(0)))
        systems = [RowSystem(problem, Fixed({}), unravel, batch, None, m) for m in (None, mesh)]
        direction = jnp.cos(jnp.arange(theta.size))

        def sums(system, theta):
            """Of what does not depend on the order of rows."""
            model = system.linearised(theta, "cholesky")
            image = model.times(direction)
            back = model.transposed_times(model.rows[None] ** 3)
            whole = system.linearised(theta, "qr")
            ends = jnp.sum(model.rows**2), jnp.sum(image**4), back, jnp.sum(whole.matrix**4)
            return model.normal(), model.gradient(), *ends

        one, many = (jax.jit(partial(sums, system))(theta) for system in systems)
        rows = jax.jit(systems[1].rows)(theta)
        gaps = [gap(a, b) for a, b in zip(one, many, strict=True)]

        def normal(theta):
            model = systems[1].linearised(theta, "cholesky")
            assert isinstance(model, Summed)
            return model.normal()

        assert jax.eval_shape(normal, theta).shape == (theta.size, theta.size)
    return {"model": max(gaps), "shards": [s.data.shape[0] for s in rows.addressable_shards]}


# -- One of two processes ------------------------------------------------------------------------


def process(index: int, port: int, directory: Path) -> dict[str, object]:
    from lcpinn.cli.train import ending_at_once

    join_processes(f"127.0.0.1:{port}", 2, index)
    solution = train(Oscillator(), protocol(), devices=2)
    digest = hashlib.sha256(flat(solution).tobytes()).hexdigest()
    np.save(directory / f"{index}.npy", flat(solution))
    print(json.dumps({"digest": digest, "devices": len(jax.devices())}), flush=True)
    if index == 1:
        interrupting(KILLED, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with ending_at_once():
        train(Oscillator(), protocol(), devices=2, out=directory / "run", checkpoint_every=0.0)
    return {"survived": True}


if __name__ == "__main__":
    tracing.settle()
    what, *given = sys.argv[1:]
    if what == "four":
        print(json.dumps(four(Path(given[0]))))
    else:
        print(json.dumps(process(int(given[0]), int(given[1]), Path(given[2]))))
