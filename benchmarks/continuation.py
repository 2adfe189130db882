"""Is a network that does not find its way helped by continuation, in a coefficient or in time?

    python -m benchmarks.continuation [--families overtone,ring-wave] [--steps 80] [--parts 4]
                                      [--seed 61] [--out results/continuation-cpu.json]

As many steps of Gauss-Newton on residuals alone, as `fast` without a tolerance takes them, in three
ways. `at once`: on rows of the whole range. `coefficient`: on rows of a quarter of the range of the
coefficient first, then of half of it, and so on, each part from the parameters that the one before
has found. `time`: the same with the interior rows up to a time that moves on. The network and its
first parameters are the same. What is compared is the largest estimated error over nine settings,
and the residual on unseen points of the whole range, relative to that of the first parameters.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import shlex
import sys
from collections.abc import Iterator, Sequence
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
from lcpinn.domain import Box
from lcpinn.files import write_json
from lcpinn.network.contract import Params
from lcpinn.optimiser import GaussNewton, Restarts
from lcpinn.precision import arithmetic
from lcpinn.training import make_setup
from lcpinn.verdict import Judge, worst

WAYS = ("at once", "coefficient", "time")
SETTINGS = 9


def main(given: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.continuation", description=about)
    families = parser.add_argument("--families", type=among(ZOO, "family"))
    families.default = ["overtone", "ring-wave"]
    parser.add_argument("--steps", type=int, default=80, help="in all")
    parser.add_argument("--parts", type=int, default=4, help="of a range")
    parser.add_argument("--seed", type=int, default=61)
    parser.add_argument("--out", type=Path, help="write the result here")
    asked = parser.parse_args(given)
    options = sys.argv[1:] if given is None else list(given)
    result: dict[str, Any] = {"benchmark": "continuation", "stamp": stamp(asked.seed)}
    result |= {"command": shlex.join(["python", "-m", "benchmarks.continuation", *options])}
    result |= {"steps": asked.steps, "parts": asked.parts, "ways": []}
    print(f"{'family':16}{'way':14}{'steps':>7}{'estimate':>11}{'residual':>11}")
    for name in asked.families:
        for entry in ways(ZOO[name](), asked.steps, asked.parts, asked.seed):
            result["ways"].append({"family": name, **entry})
            numbers = f"{entry['steps']:7}{entry['estimate']:11.2e}{entry['residual']:11.2e}"
            print(f"{name:16}{entry['way']:14}{numbers}", flush=True)
            if asked.out is not None:
                write_json(asked.out, result)


def ways(family: lc.Family, steps: int, parts: int, seed: int) -> Iterator[dict[str, Any]]:
    """An entry for each way."""
    protocol = replace(lc.protocol.fast(family, steps=steps), spent=0.0)
    restarts, key = protocol.phases[0], jax.random.PRNGKey(seed)
    assert isinstance(restarts, Restarts)
    phase = restarts.innermost
    assert isinstance(phase, GaussNewton)
    with arithmetic(protocol.dtype):
        problem = make_setup(family, protocol).problem
        drawn = problem.init(jax.random.fold_in(key, 0))
        unseen = make_setup(family, protocol).fixed(protocol.held_out)
        size = jax.jit(lambda p: sum(jnp.mean(r**2) for r in problem.residuals(p, unseen).values()))
        for way in WAYS:
            shares = [1.0] if way == "at once" else [(i + 1) / parts for i in range(parts)]
            part, params, taken = replace(phase, steps=steps // len(shares)), drawn, 0
            for share in shares:
                params, num = run(restricted(family, way, share), protocol, part, params, key)
                taken += num
            estimates = Judge(problem, 1e-6)(params, num=SETTINGS, fronts=True)
            relative = float(jnp.sqrt(size(params) / size(drawn)))
            yield {"way": way, "steps": taken, "estimate": worst(estimates).error,
                   "residual": relative}  # fmt: skip


def restricted(family: lc.Family, way: str, share: float) -> lc.Family:
    """The family with rows in a share of the range of its coefficient, or of its time."""
    if way == "at once" or share == 1:
        return family
    if way == "coefficient":
        other = copy.copy(family)
        other.setting_quantiles = np.linspace(0, share, 33)
        return other
    domain = family.domain
    assert isinstance(domain, Box)
    low, _ = domain.ranges["t"]

    def collocate(*point: jax.Array) -> jax.Array:
        until = [low + share * (c - low) if n == "t" else c
                 for n, c in zip(domain.names, point, strict=True)]  # fmt: skip
        return jnp.stack(until)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(name, kind) for name in domain.names]
    collocate.__signature__ = inspect.Signature(names)  # pyright: ignore[reportFunctionMemberAccess]
    return family.with_observations(family.data, collocate=collocate)


def run(
    family: lc.Family, protocol: lc.Protocol, phase: GaussNewton, params: Params, key: jax.Array
) -> tuple[Params, int]:
    """The parameters with the lowest held-out loss after a phase from these on, and its steps."""
    stage = phase.build(make_setup(family, protocol))
    state = stage.init(params, jax.random.fold_in(key, 2))
    while stage.stopped(state, {}) is None:
        state, _ = stage.advance(state)
    return stage.finish(state)[0], int(state.step)


if __name__ == "__main__":
    main()
