"""Is a network helped by frequencies that move with a coefficient?

    python -m benchmarks.frequencies [--seconds 60] [--tolerance 1e-5] [--seeds 214,215]
                                     [--out results/frequencies-cpu.json]

A damped oscillator and a plucked string, with friction as a second coefficient and with friction
that is held, each trained as `fast` with a tolerance does it, with the slopes of the first layer
that its solutions suggest (`MLP(sweeps=...)`) and with fixed ones alone. What is compared is the
true error over a grid of settings: both have a closed form.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import lcpinn as lc
from benchmarks.stamp import stamp
from lcpinn.evaluation import true_errors
from lcpinn.files import write_json
from lcpinn.own_solutions import SolvedSettings

SETTINGS = 9  # along each coefficient
WAYS = ("moving", "fixed")


class Ring(lc.Family):
    """u'' + 2 d u' + k² u = 0, u(0) = 1, u'(0) = 0: 3 to 13 periods."""

    domain = lc.Box(t=(0.0, 2.0))
    parameters = lc.Uniform(k=(10.0, 40.0), d=(0.0, 1.0))

    @lc.interior
    def equation(self, u, u_t, u_tt, k, d):
        return u_tt + 2 * d * u_t + k**2 * u

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 1.0, u_t

    def exact(self, t, k, d):
        return decaying(t, k, d)


class Plucked(lc.Family):
    """u_tt + 2 d u_t = c² u_xx from sin³(πx), up to six periods."""

    domain = lc.Box(t=(0.0, 2.0), x=(0.0, 1.0))
    parameters = lc.Uniform(c=(0.5, 2.0), d=(0.0, 1.0))

    @lc.interior
    def equation(self, u_tt, u_t, u_xx, c, d):
        return u_tt + 2 * d * u_t - c**2 * u_xx

    @lc.on(t=0.0)
    def start(self, u, u_t, x):
        return u - jnp.sin(jnp.pi * x) ** 3, u_t

    @lc.on(x=(0.0, 1.0))
    def ends(self, u):
        return u

    def exact(self, t, x, c, d):
        parts = [(1, 0.75), (3, -0.25)]
        return sum(a * jnp.sin(n * jnp.pi * x) * decaying(t, n * jnp.pi * c, d) for n, a in parts)


def decaying(t: Array, k: Array, d: Array) -> Array:
    """The oscillation from rest at one; d is below k."""
    rate = jnp.sqrt(k**2 - d**2)
    return jnp.exp(-d * t) * (jnp.cos(rate * t) + d / rate * jnp.sin(rate * t))


FAMILIES = {
    "ring": Ring(),
    "ring at d = 0.5": Ring().at(d=0.5),
    "plucked": Plucked(),
    "plucked at d = 0.3": Plucked().at(d=0.3),
}


def main(given: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.frequencies", description=about)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each training")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--seeds", default="214,215")
    parser.add_argument("--out", type=Path, help="write the result here")
    asked = parser.parse_args(given)
    options = sys.argv[1:] if given is None else list(given)
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    result: dict[str, Any] = {"benchmark": "frequencies", "stamp": stamp(seeds[0])}
    result |= {"command": shlex.join(["python", "-m", "benchmarks.frequencies", *options])}
    result |= {"seconds": asked.seconds, "tolerance": asked.tolerance, "runs": []}
    print(f"{'family':20}{'frequencies':14}{'seed':>6}{'mean':>10}{'worst':>10}  verdict")
    for name, seed, way in itertools.product(FAMILIES, seeds, WAYS):
        entry = {"family": name, "way": way, "seed": seed}
        entry |= trained(FAMILIES[name], way, asked.seconds, asked.tolerance, seed)
        result["runs"].append(entry)
        numbers = f"{seed:6}{entry['mean']:10.1e}{entry['worst']:10.1e}"
        print(f"{name:20}{way:14}{numbers}  {entry['verdict']}", flush=True)
        if asked.out is not None:
            write_json(asked.out, result)


def trained(
    family: lc.Family, way: str, seconds: float, tolerance: float, seed: int
) -> dict[str, Any]:
    """How a training ends whose frequencies move, or are fixed."""
    moving = SolvedSettings.moving_carriers if way == "moving" else nothing_moves
    with patch.object(SolvedSettings, "moving_carriers", moving):
        protocol = lc.protocol.fast(family, seconds=seconds, tolerance=tolerance)
        solution = lc.train(
            family, protocol, seed=seed, tolerance=tolerance, progress=False, report=False
        )
    errors = true_errors(solution, family.parameters.grid(SETTINGS))
    assert errors is not None
    return {
        "mean": float(np.mean(errors)), "worst": float(np.max(errors)),
        "verdict": str(solution.verdict),
        "parameters": solution.run["training"]["parameters"],
        "stopped": solution.run["training"]["stopped"],
    }  # fmt: skip


def nothing_moves(*_: Any) -> tuple[tuple[()], tuple[()]]:
    return (), ()


if __name__ == "__main__":
    main()
