"""Estimated errors against true ones: every family, trained and hardly trained.

    python -m benchmarks.certificate [--families a,b] [--seconds 20] [--seed 0] [--settings 91]
                                     [--weightings 8] [--out results/certificate-cpu.json]

Each family is trained by `fast` for so many seconds and, as a solution that is far off, by `smoke`.
Its certificate is then held against errors that are known: over a dense set of the coefficient, or
where the loss weights are conditioned on, for the mean over them and for single weightings. The
certificate never sees the true solution. A ratio is estimate over true error, taken where the
latter is above 1e-9; below that both are rounding. A family that is measured again replaces its old
entry in the file, the others stay; a picture is drawn beside it.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import lcpinn as lc
from benchmarks.panels import family_panels
from benchmarks.processes import among
from benchmarks.stamp import stamp
from lcpinn import protocol as protocols
from lcpinn.compilation import enable_cache
from lcpinn.evaluation import evaluation_points, relative_error, true_errors
from lcpinn.families import FAMILIES
from lcpinn.files import read_json, write_json
from lcpinn.plot import COLOURS
from lcpinn.solution import Solution

SMALLEST = 1e-9  # true errors below this are not compared
TRAININGS = ("fast", "smoke")

Row = dict[str, Any]  # "at" or "weights", "true", "estimate" (None with a "reason"), "residual"


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    enable_cache()
    for name in given.families:
        entry: dict[str, Any] = {"stamp": stamp(given.seed)}
        for training in TRAININGS:
            entry[training] = measure(name, training, given)
            print(f"{name:18}{training:7}{_line(entry[training]['summary'])}", flush=True)
        if given.out is not None:
            options = sys.argv[1:] if arguments is None else list(arguments)
            result = merged(given.out, name, entry, options)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(given.out, result)
            draw(result, given.out.with_suffix(".png"))
    if given.out is not None:
        print(f"written to {given.out} and {given.out.with_suffix('.png')}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.certificate", description=about)
    parser.add_argument("--families", type=among(FAMILIES, "family"), default=list(FAMILIES),
                        help="a,b; default all")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=20.0, help="for each training by fast")
    parser.add_argument("--settings", type=int, default=91, help="values of a coefficient")
    parser.add_argument("--weightings", type=int, default=8, help="single ones, beside their mean")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write to this JSON file and a picture beside it")
    return parser.parse_args(arguments)


def merged(out: Path, name: str, entry: dict[str, Any], options: Sequence[str]) -> dict[str, Any]:
    """What the file will hold: this entry, and those of other families that it has already."""
    old = read_json(out) if out.exists() else {}
    kept = old.get("families", {}) if old.get("benchmark") == "certificate" else {}
    # The file says nothing about this machine's folders.
    words = [word.replace(str(out), out.name) if out.is_absolute() else word for word in options]
    command = shlex.join(["python", "-m", "benchmarks.certificate", *words])
    families = kept | {name: {"command": command, **entry}}
    ordered = {known: families[known] for known in FAMILIES if known in families}
    return {"benchmark": "certificate", "stamp": entry["stamp"], "families": ordered}


# -- One training --------------------------------------------------------------------------------


def measure(name: str, training: str, given: argparse.Namespace) -> dict[str, Any]:
    """Train, certify, compare."""
    family = FAMILIES[name]()
    if training == "fast":
        protocol = protocols.fast(family, seconds=given.seconds)
    else:
        protocol = protocols.smoke(family)
    solution = lc.train(family, protocol, seed=given.seed, progress=False)
    rows, seconds = compare(solution, given.settings)
    result: dict[str, Any] = {"rows": rows}
    if family.weights is not None:
        result["slices"], slice_seconds = compare_slices(solution, given.weightings)
        seconds += slice_seconds
    everything = [*rows, *result.get("slices", [])]
    asked = {"seconds": given.seconds} if training == "fast" else {}
    return {"asked": asked, "summary": summary(everything, seconds), **result}


def compare(solution: Solution, settings: int) -> tuple[list[Row], list[float]]:
    """Every setting's estimate beside its true error, and the seconds that estimates took."""
    solution.estimate(**solution.family.parameters.held, **_middle(solution))  # compiles
    begun = time.perf_counter()
    num = settings if solution.family.parameters.free else 1
    report = solution.certificate(num)["settings"]
    each = (time.perf_counter() - begun) / len(report)
    truth = true_errors(solution, [list(row["at"].values()) for row in report])
    assert truth is not None
    rows = [
        {
            "at": row["at"],
            "true": true,
            "estimate": row["error"],
            "reason": row["reason"],
            "residual": row["terms"],
        }
        for row, true in zip(report, truth, strict=True)
    ]
    return rows, [each] * len(rows)


def _middle(solution: Solution) -> dict[str, Any]:
    prior = solution.family.parameters
    return dict(zip(prior.names, map(float, prior.grid(3)[len(prior.grid(3)) // 2]), strict=True))


def compare_slices(solution: Solution, num: int) -> tuple[list[Row], list[float]]:
    """Single weightings in place of the mean over them."""
    family = solution.family
    prior, points = family.weights, evaluation_points(family)
    truth = family.truth(points, np.zeros(0))
    assert prior is not None
    assert truth is not None
    columns: dict[str, Any] = {n: points[:, i] for i, n in enumerate(family.domain.names)}
    rows, seconds = [], []
    for draw_ in prior.sobol(num, seed=1):
        weights = dict(zip(prior.names, map(float, draw_), strict=True))
        begun = time.perf_counter()
        found = solution.estimate(weights=weights)
        seconds.append(time.perf_counter() - begun)
        true = relative_error(solution(**columns, weights=weights)[:, None], truth)
        error = found.error if np.isfinite(found.error) else None
        rows.append({"weights": weights, "true": true, "estimate": error, "reason": found.reason})
    return rows, seconds


def summary(rows: Sequence[Row], seconds: Sequence[float]) -> dict[str, Any]:
    """Ratios of estimates to true errors; how many there are none of; what one takes."""
    compared = [row for row in rows if row["true"] > SMALLEST]
    known = [row for row in compared if row["estimate"] is not None]
    ratios = [row["estimate"] / row["true"] for row in known]
    found: dict[str, Any] = {
        "settings": len(rows),
        "compared": len(compared),
        "refused": len(compared) - len(known),
    }
    found |= {"largest_true_error": max(row["true"] for row in rows)}
    if ratios:
        found["ratio"] = {
            "median": statistics.median(ratios),
            "min": min(ratios),
            "max": max(ratios),
        }
    return {**found, "seconds_per_estimate": statistics.median(seconds)}


def _line(found: dict[str, Any]) -> str:
    counts = f"{found['compared']} of {found['settings']} compared, {found['refused']} refused"
    ratio = found.get("ratio")
    if ratio is not None:
        counts += f", ratio {ratio['median']:.3f} ({ratio['min']:.3f} to {ratio['max']:.3f})"
    largest, seconds = found["largest_true_error"], found["seconds_per_estimate"]
    return f"{counts}, errors up to {largest:.1e}, {seconds:.2f} s each"


# -- The picture ---------------------------------------------------------------------------------

LABELS = {"fast": "trained", "smoke": "hardly trained"}


def draw(result: dict[str, Any], path: Path) -> Path:
    """A panel for each family: true errors as a broad line, estimates as a thin one."""
    title = "Errors estimated from the equation alone, beside the true ones"
    figure = family_panels(
        result["families"],
        _panel,
        title=f"{title}: {result['stamp']['device']}",
        ylabel="relative L² error",
    )
    figure.savefig(path)
    return path


def _panel(axis: Axes, entry: dict[str, Any]) -> None:
    axis.grid(True, color="0.92", lw=0.6)
    for training, colour in zip(TRAININGS, COLOURS, strict=False):
        found = entry[training]
        if "slices" in found:
            _weightings(axis, found, training, colour)
        else:
            _curves(axis, found["rows"], training, colour)
    axis.set_yscale("log")


def _curves(axis: Axes, rows: Sequence[Row], training: str, colour: str) -> None:
    (coefficient,) = rows[0]["at"]
    along = [row["at"][coefficient] for row in rows]
    estimates = [np.nan if row["estimate"] is None else row["estimate"] for row in rows]
    label = LABELS[training]
    broad = {"color": colour, "lw": 4, "alpha": 0.35, "solid_capstyle": "butt"}
    axis.plot(along, [row["true"] for row in rows], label=f"{label}, true", **broad)
    axis.plot(along, estimates, color=colour, lw=1, label=f"{label}, estimated")
    axis.set_xlabel(coefficient, fontsize=9)


def _weightings(axis: Axes, found: dict[str, Any], training: str, colour: str) -> None:
    """The mean over loss weights first, then single weightings by their true error."""
    rows = [*found["rows"], *sorted(found["slices"], key=lambda row: row["true"])]
    along = [0, *(i + 1.5 for i in range(len(rows) - 1))]
    estimates = [np.nan if row["estimate"] is None else row["estimate"] for row in rows]
    axis.plot(along, [row["true"] for row in rows], "o", color=colour, ms=8, alpha=0.35, mew=0)
    axis.plot(along, estimates, "x", color=colour, ms=5)
    axis.axvline(0.75, color="0.8", lw=0.8)
    middle = (along[1] + along[-1]) / 2
    axis.set_xticks([0, middle], ["mean", "single weightings"], fontsize=8)
    axis.tick_params(axis="x", length=0)
    axis.grid(False, axis="x")


if __name__ == "__main__":
    main()
