"""Is a network that stagnates helped by wider layers? One start, and three ways to go on from it.

    python -m benchmarks.growth [--families ring-wave,plate] [--factor 1.25] [--seed 61]
                                [--seconds 60] [--out results/growth-cpu.json]

Of families of the zoo that `fast` with a tolerance fits by regression: one start of it until it
stagnates, or for `--seconds`. Then as long again, from the parameters with the lowest held-out
loss: a wider network that is the same function (`wider`: new units see all of the layer before and
are seen by new ones alone, Chen et al. 2016), by steps that lower the loss each; the same with
another exploration first (`wider, exploring`); and the network as it is, exploring (`as it is`).
Held-out losses are means of squared errors relative to the page's own solutions.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.processes import among
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.files import write_json
from lcpinn.network import MLP
from lcpinn.network.contract import Params
from lcpinn.optimiser import GainRatio, GaussNewton, OwnSolutions, Restarts
from lcpinn.precision import arithmetic
from lcpinn.training import make_setup

TOLERANCE, PATIENT = 1e-6, 3600.0


def main(given: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.growth", description=about)
    parser.add_argument("--families", type=among(ZOO, "family"), default=["ring-wave", "plate"])
    parser.add_argument("--factor", type=float, default=1.25, help="of the widths")
    parser.add_argument("--seed", type=int, default=61)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each part, at most")
    parser.add_argument("--out", type=Path, help="write the result here")
    asked = parser.parse_args(given)
    options = sys.argv[1:] if given is None else list(given)
    result: dict[str, Any] = {"benchmark": "growth", "stamp": stamp(asked.seed)}
    result |= {"command": shlex.join(["python", "-m", "benchmarks.growth", *options])}
    result |= {"factor": asked.factor, "seconds": asked.seconds, "parts": []}
    print(f"{'family':16}{'part':20}{'widths':>14}{'steps':>7}{'seconds':>9}{'held out':>11}")
    for name in asked.families:
        for entry in parts(ZOO[name](), asked.factor, asked.seed, asked.seconds):
            result["parts"].append({"family": name, **entry})
            widths = "x".join(map(str, entry["widths"]))
            numbers = f"{entry['steps']:7}{entry['seconds']:9.1f}{entry['held_out']:11.2e}"
            print(f"{name:16}{entry['part']:20}{widths:>14}{numbers}", flush=True)
            if asked.out is not None:
                write_json(asked.out, result)


def parts(family: lc.Family, factor: float, seed: int, seconds: float):
    """One start, and how it goes on: an entry for each."""
    protocol = lc.protocol.fast(family, seconds=3 * seconds, tolerance=TOLERANCE)
    restarts, network = protocol.phases[0], protocol.network
    assert isinstance(restarts, Restarts)
    assert isinstance(restarts.phase, OwnSolutions)
    assert isinstance(network, MLP)
    taught, key = restarts.phase, jax.random.PRNGKey(seed)
    plain = taught.phase
    assert isinstance(plain, GaussNewton)
    explore = replace(taught, phase=replace(plain, seconds=PATIENT))
    descend = replace(explore, phase=replace(plain, seconds=PATIENT, acceptance=GainRatio()))
    wider = replace(network, widths=tuple(round(factor * width) for width in network.widths))
    with arithmetic(protocol.dtype):
        one, other = (replace(protocol, network=n, spent=0.0) for n in (network, wider))
        drawn = make_setup(family, one).problem.init(jax.random.fold_in(key, 0))
        entry, params = run("one start", family, one, explore, drawn, key, seconds)
        yield entry
        drawn = make_setup(family, other).problem.init(jax.random.fold_in(key, 1))
        grown = widened(params, drawn)
        yield run("wider", family, other, descend, grown, key, seconds)[0]
        yield run("wider, exploring", family, other, explore, grown, key, seconds)[0]
        yield run("as it is", family, one, explore, params, key, seconds)[0]


def run(
    part: str,
    family: lc.Family,
    protocol: lc.Protocol,
    phase: OwnSolutions,
    params: Params,
    key: jax.Array,
    seconds: float,
) -> tuple[dict[str, Any], Params]:
    """A phase from these parameters on, until it stagnates or the time is up."""
    stage = phase.build(make_setup(family, protocol))
    state, began = stage.init(params, jax.random.fold_in(key, 2)), time.monotonic()
    while stage.stopped(state, {}) is None and time.monotonic() - began < seconds:
        state, _ = stage.advance(state)
    best, _ = stage.finish(state)
    entry = {"part": part, "widths": list(widths_of(params)), "steps": int(state.step)}
    entry |= {"seconds": time.monotonic() - began, "held_out": float(state.held_out.best)}
    return entry, best


# -- Wider layers --------------------------------------------------------------------------------


def widths_of(params: Params) -> tuple[int, ...]:
    """The widths of the hidden layers."""
    return tuple(layer["b"].shape[0] for layer in params["layers"][:-1])


def widened(params: Params, drawn: Params) -> Params:
    """The parameters of a trained MLP within those `drawn` for one with wider layers.

    Units keep all that they were; new ones see all of the layer before, as they are drawn, and are
    seen by new ones alone. So the outputs are what they were, and derivatives by the weights with
    which old units and outputs may take notice of new ones are not zero.
    """
    old, new = widths_of(params), widths_of(drawn)
    layers = []
    for narrow, wide in zip(params["layers"], drawn["layers"], strict=True):
        rows, columns = narrow["w"].shape
        w = wide["w"].at[:rows, :columns].set(narrow["w"])
        layers.append({"w": w, "b": wide["b"].at[:columns].set(narrow["b"])})
    for before, after, layer in zip(old, (*old[1:], None), layers[1:], strict=True):
        layer["w"] = layer["w"].at[before:, :after].set(0.0)
    # Scales and shifts of a layer's units come layer by layer along the last axis.
    starts = np.concatenate([[0], np.cumsum(np.repeat(new, 2))[:-1]])
    ends = zip(starts, np.repeat(old, 2), strict=True)
    places = np.concatenate([start + np.arange(width) for start, width in ends])

    def placed(narrow: jax.Array, wide: jax.Array) -> jax.Array:
        return narrow if narrow.shape == wide.shape else wide.at[..., places].set(narrow)

    made = {**drawn, "layers": layers}
    made["conditioning"] = jax.tree.map(placed, params["conditioning"], drawn["conditioning"])
    if "sweeps" in params:
        pairs = zip(params["sweeps"], drawn["sweeps"], strict=True)
        made["sweeps"] = [wide.at[:, : old[0]].set(narrow) for narrow, wide in pairs]
    if "readout" in params:
        w = jnp.zeros_like(drawn["readout"]["w"]).at[: old[-1]].set(params["readout"]["w"])
        made["readout"] = {"w": w, "b": params["readout"]["b"]}
    return made


if __name__ == "__main__":
    main()
