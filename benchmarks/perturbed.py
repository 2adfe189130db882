"""Estimates of errors that are made on purpose: exact solutions with known errors added.

    python -m benchmarks.perturbed [--families spring,shaken-beam] [--seconds 5] [--enough 1.0]
                                   [--out results/perturbed-cpu.json]

Families of the paper and the zoo with a closed form and up to two coordinates, at both ends of
their coefficients' ranges. An error is smooth, or a sum of sines as a network's is, with up to
hundreds of waves, or both. Of each: the true error, the estimate or why there is none, and bounds.
An estimate is wrong if it is off by more than a factor of two, a bound if it is on the other side
of the truth; either would make a false verdict. Nothing is trained; the certificate sees the sum
alone. A family that is measured again replaces its entry in the file. `--enough` is what a bound
may be for an error not to be resolved: with 1.0 it is bounds that are measured, and few estimates.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from benchmarks.processes import among
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.certificate import Estimator
from lcpinn.compilation import enable_cache
from lcpinn.families import FAMILIES
from lcpinn.family import Family
from lcpinn.files import read_json, write_json
from lcpinn.jet import Orders, expand
from lcpinn.precision import double

WAVES = 24  # sines in one error
FACTOR, ROUNDING = 2.0, 1.02  # an estimate may be off by the one, a bound by the other
POINTS = 4096  # where true errors are measured
SEED = 3

Row = dict[str, Any]


class Case(NamedTuple):
    """How large the smooth part is, how large the sines, and their angular frequency."""

    smooth: float
    waves: float
    frequency: float


CASES = {
    1: [Case(1e-2, 0, 0), Case(1e-8, 0, 0), Case(0, 1e-3, 30), Case(1e-6, 1e-8, 120),
        Case(0, 1e-6, 400), Case(1e-3, 1e-4, 1500), Case(0, 1e-3, 1500)],
    2: [Case(1e-2, 0, 0), Case(1e-8, 0, 0), Case(0, 1e-3, 30), Case(1e-4, 1e-6, 60),
        Case(0, 1e-6, 60), Case(1e-3, 1e-8, 200), Case(0, 1e-6, 1500)],
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    enable_cache()
    words = sys.argv[1:] if arguments is None else list(arguments)
    command = shlex.join(["python", "-m", "benchmarks.perturbed", *words])
    known, result = families(), _begin(given.out)
    for name in given.families:
        rows = list(measure(known[name], given.seconds, given.enough))
        result["families"][name] = {"command": command, "stamp": stamp(SEED), "rows": rows}
        print(f"{name:22}{summary(rows)}", flush=True)
        if given.out is not None:
            write_json(given.out, result)
    every = [row for entry in result["families"].values() for row in entry["rows"]]
    print(f"\n{'all':22}{summary(every)}")
    if any(row["wrong"] for row in every):
        sys.exit("wrong estimates or bounds")


def _begin(out: Path | None) -> dict[str, Any]:
    """The families that a file has already: one that is measured again replaces its entry."""
    if out is None or not out.exists():
        return {"benchmark": "perturbed", "families": {}}
    return read_json(out)


def families() -> dict[str, Family]:
    """Those that can be judged so."""
    every = {name: make() for name, make in (FAMILIES | ZOO).items()}
    return {
        name: family.unweighted()
        for name, family in every.items()
        if family.exact is not None and family.domain.dim in CASES
    }


def measure(family: Family, seconds: float, enough: float = 0.0) -> Iterator[Row]:
    """Every case at both ends of the coefficients' ranges."""
    estimator, rng = Estimator(family, _jet(family)), np.random.default_rng(SEED)
    points = np.asarray(family.domain.sobol(POINTS))
    ends = family.parameters.grid(2)[[0, -1]] if family.parameters.dim else np.zeros((1, 0))
    for lam in ends:
        for case in CASES[family.domain.dim]:
            error, begun = _drawn(family, case, rng), time.process_time()
            with double():
                asked = {"seconds": seconds, "bounds": True, "enough": enough}
                found = estimator(error, lam, fronts=False, **asked)
                spent = time.process_time() - begun
                truth = np.asarray(family.truth(points, lam)).reshape(POINTS, -1)
                made = estimator.linearisation(error, lam).values(points)
            gaps = np.linalg.norm(made - truth, axis=0) / np.linalg.norm(truth, axis=0)
            true = float(gaps.max())
            yield {
                "at": dict(zip(family.parameters.names, map(float, lam), strict=True)),
                **case._asdict(),
                "true": true,
                "estimate": found.error if math.isfinite(found.error) else None,
                "at_least": found.at_least,
                "at_most": found.at_most if math.isfinite(found.at_most) else None,
                "reason": found.reason,
                "processor_seconds": spent,
                "wrong": wrong(found.error, found.at_least, found.at_most, true),
            }


def wrong(estimate: float, at_least: float, at_most: float, true: float) -> bool:
    """Whether something is claimed that is not so."""
    if math.isfinite(estimate):
        return not true / FACTOR < estimate < FACTOR * true
    return at_least > ROUNDING * true or at_most < true / ROUNDING


def _drawn(family: Family, case: Case, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The sizes, frequencies and phases of an error; whole waves along a circle."""
    domain, outputs = family.domain, len(family.outputs)
    frequencies = rng.normal(size=(WAVES, domain.dim)) * case.frequency / 2
    circles = [name in domain.periodic for name in domain.names]
    frequencies[:, circles] = 2 * np.pi * np.round(frequencies[:, circles] / (2 * np.pi))
    return {
        "amplitudes": case.waves * rng.normal(size=(outputs, WAVES)),
        "frequencies": frequencies,
        "phases": rng.uniform(0, 2 * np.pi, WAVES),
        "smooth": np.asarray(case.smooth, float),
    }


def _jet(family: Family) -> Any:
    """Taylor coefficients of the exact solution with an error, in place of a network's."""
    low, high = (np.array(ends) for ends in zip(*family.domain.ranges.values(), strict=True))
    circles = np.array([name in family.domain.periodic for name in family.domain.names])

    def function(error: dict[str, Array], point: Array, lam: Array) -> Array:
        unit = (point - low) / (high - low)
        shapes = jnp.where(circles, jnp.sin(2 * jnp.pi * unit), unit**3 - 0.3 * unit)
        waves = error["amplitudes"] @ jnp.sin(error["frequencies"] @ unit + error["phases"])
        return family.call("exact", point, lam).ravel() + error["smooth"] * shapes.sum() + waves

    def jet(error: Any, points: Array, lam: Array, weights: Array, orders: Orders) -> Array:
        at = lambda p: expand(lambda q: function(error, q, lam), p, orders)
        return jnp.moveaxis(jax.vmap(at)(points), 0, 1)

    return jet


def summary(rows: Sequence[Row]) -> str:
    """How many have an estimate, how far it is off, and how many have bounds instead."""
    ratios = [row["estimate"] / row["true"] for row in rows if row["estimate"] is not None]
    bounds = sum(row["estimate"] is None and (row["at_most"] or 1.0) < 1 for row in rows)
    off = f"ratio {min(ratios):.3f} to {max(ratios):.3f}" if ratios else "no ratio"
    counts = f"{len(ratios)} of {len(rows)} estimated, {off}, {bounds} bounded instead"
    return f"{counts}, {sum(row['wrong'] for row in rows)} wrong"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.perturbed", description=about)
    names = families()
    parser.add_argument("--families", type=among(names, "family"), default=list(names),
                        help=f"of {', '.join(names)}")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=5.0, help="for each estimate, at most")
    parser.add_argument("--enough", type=float, default=0.0,
                        help="a bound below this is not followed by an estimate")  # fmt: skip
    parser.add_argument("--out", type=Path, help="write to this JSON file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
