"""The paper's Adam step on helmholtz-1d, beside the same step in PyTorch and beside its parts.

    python -m benchmarks.step [--steps N] [--no-torch] [--out results/step-cpu.json]

Both are checked to compute the same loss and gradient, then timed in turn, so that other work on
the machine meets both alike. The parts say what is left to gain: the matrix products of one step
alone, and the activations of one step alone.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.stamp import stamp
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.files import write_json
from lcpinn.jet import ACTIVATIONS, Orders, Series
from lcpinn.network import MLP, FiLM
from lcpinn.network.contract import Params
from lcpinn.optimiser import Adam, Setup
from lcpinn.optimiser.stage import objective
from lcpinn.protocol import BOUNDARY_WEIGHT, Protocol, paper
from lcpinn.threads import usable_cores
from lcpinn.training import make_setup

SEED = 0
ROUNDS = 10
Contender = Callable[[], float]  # runs a number of steps and returns milliseconds per step


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("benchmarks.step", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=500, help="timed steps of each contender")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--out", type=Path, help="write the result to this JSON file")
    given = parser.parse_args(arguments)
    family = Helmholtz(1).plain()
    result = measure(paper(family), given.steps, torch=not given.no_torch)
    result["first_step"] = first_steps()
    show(result)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(given.out, result)
        print(f"written to {given.out}")


def measure(protocol: Protocol, steps: int, *, torch: bool, rounds: int = ROUNDS) -> dict[str, Any]:
    """Everything but the time to the first step."""
    setup = make_setup(Helmholtz(1).plain(), protocol)
    block = max(1, steps // rounds)
    contenders = {"lcpinn": lcpinn_step(setup, block)}
    result: dict[str, Any] = {"benchmark": "step", "setting": setting(protocol)}
    if torch:
        from benchmarks.torch_step import TorchStep

        given = protocol.sampling, protocol.network, Adam(), BOUNDARY_WEIGHT
        twin = TorchStep(*given, usable_cores())
        result["same"] = same(setup, twin)
        contenders["torch"] = lambda: timed(lambda: twin.run(block)) / block
    result["ms_per_step"] = in_turn(contenders, rounds)
    if torch:
        # Other work slows PyTorch's threads more than ours: the least times are the fairer ones.
        ours, theirs = (result["ms_per_step"][name] for name in ("lcpinn", "torch"))
        result["times_faster_than_torch"] = {k: theirs[k] / ours[k] for k in ("median", "min")}
    result["parts_ms"] = parts(setup, block, rounds, torch=torch)
    return {**result, **stamp(SEED)}


def setting(protocol: Protocol) -> dict[str, Any]:
    sampling, network = protocol.sampling, protocol.network
    assert sampling is not None
    assert isinstance(network, MLP)
    assert isinstance(network.parameters, FiLM)
    return {
        "family": "helmholtz-1d",
        "protocol": protocol.name,
        "points": f"{sampling.num_lambda} x ({sampling.interior} + {sampling.face})",
        "widths": list(network.widths),
        "generator": network.parameters.hidden,
        "dtype": protocol.dtype,
    }


# -- The contenders ------------------------------------------------------------------------------


def lcpinn_step(setup: Setup, block: int) -> Contender:
    """The optimiser that `train` runs, a block of steps in one call."""
    stage = Adam(block=block).build(setup)
    state = stage.init(setup.problem.init(jax.random.PRNGKey(SEED)), jax.random.PRNGKey(SEED + 1))

    def advance() -> None:
        nonlocal state
        if stage.stopped(state, {}):
            state = state._replace(step=jnp.zeros_like(state.step))
        state, _ = stage.advance(state)
        jax.block_until_ready(state)

    return lambda: timed(advance) / block


def same(setup: Setup, twin: Any) -> dict[str, float]:
    """Relative differences of loss and gradient between the two, on one batch."""
    problem = setup.problem
    params = perturbed(problem.init(jax.random.PRNGKey(SEED)))
    batch = setup.draw(jax.random.PRNGKey(SEED + 2))
    value = lambda params: objective(setup, batch)(params)[0]
    # A GPU multiplies float32 matrices in TF32 unless told otherwise: timed so, compared exactly.
    with jax.default_matmul_precision("highest"):
        loss, gradient = jax.jit(jax.value_and_grad(value))(params)
    ours = float(loss), float(optax.tree.norm(gradient))
    interior, faces = (batch[where] for where in problem.family.groups)
    twin.load(params)
    theirs = twin.loss_at(interior.coordinates, faces.coordinates, interior.parameters[:, 0])
    found = {
        name: abs(a - b) / abs(b)
        for name, a, b in zip(("loss", "gradient"), ours, theirs, strict=True)
    }
    if not max(found.values()) < 1e-4:
        raise SystemExit(f"the two steps differ, so there is nothing to compare: {found}")
    return found


def perturbed(params: Params) -> Params:
    """The generator starts at zero and would hide a difference."""
    rng = np.random.default_rng(SEED)
    return jax.tree.map(lambda p: p + 0.05 * rng.standard_normal(p.shape).astype(p.dtype), params)


# -- What the step is made of --------------------------------------------------------------------


def parts(setup: Setup, block: int, rounds: int, *, torch: bool) -> dict[str, Any]:
    """Milliseconds that a step's matrix products and activations take by themselves."""
    shapes = product_shapes(setup)
    products: dict[str, Contender] = {"jax": jax_products(shapes, block)}
    if jax.default_backend() == "cpu":
        products["numpy"] = lambda: timed(lambda: numpy_products(shapes, block)) / block
    if torch:
        from benchmarks import torch_step

        run = functools.partial(torch_step.products, shapes, block, usable_cores())
        products["torch"] = lambda: timed(run) / block
    found = {name: t["median"] for name, t in in_turn(products, rounds).items()}
    others = {"tanh": tanh_alone(setup, block), "activations": activations(setup, block)}
    others["points"] = points_alone(setup, block)
    return {
        "products": min(found.values()),
        "products_by": found,
        **{name: t["median"] for name, t in in_turn(others, rounds).items()},
    }


def groups(setup: Setup) -> list[tuple[Orders, int]]:
    """The places where terms hold: which derivatives are carried, and at how many points."""
    family, sampling = setup.problem.family, setup.sampling
    assert sampling is not None
    found = []
    for terms in family.groups.values():
        points = sampling.face if terms[0].faces else sampling.interior
        found.append((family.orders(terms), sampling.num_lambda * points))
    return found


def hidden_widths(setup: Setup) -> tuple[int, ...]:
    network = setup.problem.network
    assert isinstance(network, MLP)
    return network.widths


def product_shapes(setup: Setup) -> list[tuple[int, int, int]]:
    """(rows, inputs, outputs) of each layer, a row for each Taylor coefficient of each point.

    A layer has three products: forward, and backward to its inputs (which the first one lacks) and
    to its matrix.
    """
    return [
        (len(orders) * points, inputs, outputs)
        for orders, points in groups(setup)
        for inputs, outputs in itertools.pairwise([1, *hidden_widths(setup), 1])
    ]


def three_products(h: Any, w: Any) -> Any:
    """Every product depends on the last, so that none can be left out or moved from the loop."""
    y = h @ w
    x = y @ w.T if w.shape[0] > 1 else h
    return w + 1e-9 * (x.T @ y)


def matrices(shapes: Sequence[tuple[int, int, int]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(SEED)
    left = [rng.standard_normal((rows, i), np.float32) for rows, i, _ in shapes]
    return left, [rng.standard_normal((i, o), np.float32) for _, i, o in shapes]


def jax_products(shapes: Sequence[tuple[int, int, int]], block: int) -> Contender:
    left, right = (list(map(jnp.asarray, side)) for side in matrices(shapes))

    def body(ws: list[jax.Array], _: None) -> tuple[list[jax.Array], None]:
        return [three_products(h, w) for h, w in zip(left, ws, strict=True)], None

    return looped(body, right, block)


def numpy_products(shapes: Sequence[tuple[int, int, int]], block: int) -> None:
    for h, w in zip(*matrices(shapes), strict=True):
        for _ in range(block):
            w = three_products(h, w)


def tanh_alone(setup: Setup, block: int) -> Contender:
    widths = hidden_widths(setup)
    values = [jnp.ones((points, w)) for _, points in groups(setup) for w in widths]
    return looped(lambda v, _: ([jnp.tanh(x) for x in v], None), values, block)


def activations(setup: Setup, block: int) -> Contender:
    """tanh of every hidden series, forward and backward."""
    widths = hidden_widths(setup)
    cases = [(orders, points, w) for orders, points in groups(setup) for w in widths]
    rng = np.random.default_rng(SEED)
    noise = lambda o, n, w: jnp.asarray(rng.standard_normal((len(o), n, w), np.float32))
    start = [(noise(*case), noise(*case)) for case in cases]

    def both(orders: Orders, h: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
        act = lambda c: Series(orders, c).apply(ACTIVATIONS["tanh"]).coefficients
        value, pull = jax.vjp(act, h)
        return value, pull(cotangent)[0]

    def body(pairs: Any, _: None) -> tuple[Any, None]:
        return [both(case[0], *pair) for case, pair in zip(cases, pairs, strict=True)], None

    return looped(body, start, block)


def points_alone(setup: Setup, block: int) -> Contender:
    def body(key: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        key = jax.random.fold_in(key, 1)
        leaves = jax.tree.leaves(setup.draw(key))
        return key, sum((jnp.sum(leaf) for leaf in leaves), jnp.zeros(()))

    return looped(body, jax.random.PRNGKey(SEED), block)


# -- Time ----------------------------------------------------------------------------------------


def timed(action: Callable[[], Any]) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - begun)


def looped(body: Callable, start: Any, block: int) -> Contender:
    """A loop of `block` steps, compiled as one program: no call overhead in the number."""
    run = jax.jit(lambda s: jax.lax.scan(body, s, None, block))
    return lambda: timed(lambda: jax.block_until_ready(run(start))) / block


def in_turn(contenders: dict[str, Contender], rounds: int) -> dict[str, Any]:
    """Rounds of every contender one after the other, after one that does not count."""
    for contender in contenders.values():
        contender()
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            found[name].append(contender())
    return {
        name: {"median": statistics.median(times), "min": min(times), "rounds": times}
        for name, times in found.items()
    }


_FIRST_STEP = """
import time; begun = time.perf_counter()
import jax, json, lcpinn
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.optimiser import Adam
from lcpinn.protocol import paper
from lcpinn.training import make_setup
imported = time.perf_counter()
family = Helmholtz(1).plain()
setup = make_setup(family, paper(family))
stage = Adam(block=1).build(setup)
params = jax.jit(setup.problem.init)(jax.random.PRNGKey(0))
jax.block_until_ready(stage.advance(stage.init(params, jax.random.PRNGKey(1))))
print(json.dumps({"import": imported - begun, "compile_and_step": time.perf_counter() - imported}))
"""


def first_steps() -> dict[str, dict[str, float]]:
    """Seconds from a fresh interpreter to the first step: nothing compiled yet, then again."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # this process holds most of a GPU's memory
        }
        return {name: _first_step(environment) for name in ("cold", "warm")}


def _first_step(environment: dict[str, str]) -> dict[str, float]:
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_STEP], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"the first step failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) | {"total": time.perf_counter() - begun}


# -- In words ------------------------------------------------------------------------------------


def show(result: dict[str, Any]) -> None:
    what = result["setting"]
    print(f"{what['family']}, {what['points']} points, {result['device']}")
    for name, t in result["ms_per_step"].items():
        print(f"  {name:8} {t['median']:8.3f} ms per step (least {t['min']:.3f})")
    if "torch" in result["ms_per_step"]:
        same = ", ".join(f"{k} {v:.0e}" for k, v in result["same"].items())
        ratio = result["times_faster_than_torch"]
        print(f"  {ratio['median']:.2f} times as fast as PyTorch (by the least {ratio['min']:.2f})")
        print(f"  relative differences of the two on one batch: {same}")
    ours, part = result["ms_per_step"]["lcpinn"]["median"], result["parts_ms"]
    by = ", ".join(f"{name} {t:.3f}" for name, t in part["products_by"].items())
    factor = ours / part["products"]
    print(f"  matrix products alone {part['products']:.3f} ms ({by}): factor {factor:.2f}")
    for name in ("activations", "tanh", "points"):
        print(f"  {name} alone {part[name]:.3f} ms: {part[name] / ours:.0%} of the step")
    for name, t in result.get("first_step", {}).items():
        parts = f"import {t['import']:.1f}, compile and step {t['compile_and_step']:.1f}"
        print(f"  first step, {name} cache: {t['total']:.1f} s ({parts})")


if __name__ == "__main__":
    main()
