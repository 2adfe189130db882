"""The solver alone: seconds and true error of lc.solve, for the paper's families and the zoo.

    python -m benchmarks.solve [--families a,b] [--settings 10] [--tolerance 1e-8]
                               [--out results/solve-cpu.json]

Every family is solved at settings that are spread over its coefficients; the first one is solved
twice, and its first time, which compiles, stands apart. Errors are relative L2 errors against the
family's closed form or reference. A family that is measured again replaces its old entry in the
file; a picture is drawn beside it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import lcpinn as lc
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.evaluation import evaluation_points, relative_error
from lcpinn.families import FAMILIES
from lcpinn.files import read_json, write_json
from lcpinn.plot import COLOURS, save

ALL = FAMILIES | ZOO


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.solve", description=about)
    parser.add_argument("--families", default=",".join(ALL), help="a,b; default all")
    parser.add_argument("--settings", type=int, default=10, help="of each family")
    parser.add_argument("--tolerance", type=float, default=1e-8)
    parser.add_argument("--out", type=Path, help="write to this JSON file and a picture beside it")
    given = parser.parse_args(arguments)
    names = given.families.split(",")
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"no family {unknown[0]!r} here; there are {', '.join(ALL)}")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if given.out is not None and given.out.is_absolute():  # nothing about this machine's folders
        words = [word.replace(str(given.out), given.out.name) for word in words]
    result: dict[str, Any] = {"benchmark": "solve", "stamp": stamp(0), "families": {}}
    if given.out is not None and given.out.exists():
        result["families"] = read_json(given.out)["families"]
    result["command"] = shlex.join(["python", "-m", "benchmarks.solve", *words])
    for name in names:
        entry = measure(name, given.settings, given.tolerance)
        result["families"][name] = {"load": stamp(0)["load"], **entry}
        print(line(name, entry), flush=True)
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(given.out, result)
            save(figure(result), given.out.with_suffix(".png"))


def measure(name: str, settings: int, tolerance: float) -> dict[str, Any]:
    """Every setting's seconds, true error, estimate and resolution, or why it was refused."""
    family = ALL[name]()
    prior = family.parameters
    lambdas = prior.sobol(settings, seed=7) if prior.free else np.zeros((1, prior.dim))
    begun = time.perf_counter()
    _solved(family, lambdas[0], tolerance)
    first = time.perf_counter() - begun
    return {
        "equation": (family.__doc__ or "").split("\n")[0],
        "coordinates": family.domain.dim,
        "tolerance": tolerance,
        "first_seconds": first,
        "settings": [_solved(family, lam, tolerance) for lam in lambdas],
    }


def _solved(family: lc.Family, lam: np.ndarray, tolerance: float) -> dict[str, Any]:
    at = dict(zip(family.parameters.names, map(float, lam), strict=True))
    begun = time.perf_counter()
    try:
        solved = lc.solve(family, tolerance=tolerance, **at)
    except lc.LcpinnError as refused:
        seconds = time.perf_counter() - begun
        return {"at": at, "seconds": seconds, "error": None, "reason": str(refused)}
    seconds = time.perf_counter() - begun
    points = evaluation_points(family)
    value = solved(**{n: points[:, i] for i, n in enumerate(family.domain.names)})
    columns = list(value.values()) if isinstance(value, dict) else [value]
    truth = family.truth(points, lam)
    assert truth is not None
    return {
        "at": at,
        "seconds": seconds,
        "error": relative_error(np.stack(columns, axis=-1), truth),
        "estimate": solved.error,
        "reason": solved.reason,
        "resolution": solved.resolution,
    }


def line(name: str, entry: dict[str, Any]) -> str:
    rows = entry["settings"]
    errors = [row["error"] for row in rows if row["error"] is not None]
    seconds = float(np.median([row["seconds"] for row in rows]))
    worst = f"{max(errors):.1e}" if errors else "-"
    refused = f", {len(rows) - len(errors)} of {len(rows)} refused" * (len(errors) < len(rows))
    return f"{name:20} {seconds:7.2f} s  largest error {worst}{refused}"


def figure(result: dict[str, Any]) -> Figure:
    """Error against seconds: a point for every setting, a colour for the number of coordinates."""
    drawn = Figure(figsize=(6.5, 4.0), layout="constrained")
    axis = drawn.subplots()
    for name, entry in result["families"].items():
        rows = [row for row in entry["settings"] if row["error"] is not None]
        if not rows:
            continue
        seconds, errors = ([row[key] for row in rows] for key in ("seconds", "error"))
        errors = np.maximum(errors, 1e-17)
        colour = COLOURS[entry["coordinates"] - 1]
        axis.loglog(seconds, errors, "o", color=colour, ms=3, alpha=0.6)
        middle = float(np.median(seconds)), float(np.median(errors))
        axis.annotate(name, middle, fontsize=5, xytext=(3, 2), textcoords="offset points")
    for dim in (1, 2, 3):
        axis.plot(
            [],
            [],
            "o",
            color=COLOURS[dim - 1],
            label=f"{dim} coordinates" if dim > 1 else "1 coordinate",
        )
    axis.set(xlabel="seconds", ylabel="relative $L^2$ error", title=result["stamp"]["device"])
    axis.legend()
    return drawn


if __name__ == "__main__":
    main()
