"""The solver alone: lc.solve at some settings, and the protocol interpolant over all of them.

    python -m benchmarks.solve [--families a,b] [--settings 10] [--tolerance 1e-8] [--seconds 120]
                               [--out results/solve-cpu.json]

For the paper's families, the zoo and five shapes. Every family is solved at settings that are
spread over its coefficients; the first one is solved twice, and its first time, which compiles,
stands apart. The interpolant, compilation included, has at most so many seconds; its error is the
largest at a hundred settings that it has not seen. Errors are relative L2 errors against the
family's closed form or reference. Seconds are those of the wall and, as `cpu_seconds`, those of the
processor, which say more where a machine has other work. A family that is measured again replaces
its old entry in the file; a picture is drawn beside it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

import lcpinn as lc
from benchmarks import shapes
from benchmarks.panels import name_points
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.evaluation import evaluation_points, relative_error
from lcpinn.families import FAMILIES
from lcpinn.files import read_json, write_json
from lcpinn.plot import COLOURS, save

SHAPES = {name: shapes.FAMILIES[name] for name in ("kite", "elbow", "torsion", "pipes", "cylinder")}
ALL = FAMILIES | ZOO | SHAPES
UNSEEN = 100  # settings that the interpolant is compared at


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.solve", description=about)
    parser.add_argument("--families", default=",".join(ALL), help="a,b; default all")
    parser.add_argument("--settings", type=int, default=10, help="of each family")
    parser.add_argument("--tolerance", type=float, default=1e-8)
    parser.add_argument("--seconds", type=float, default=120.0, help="of the interpolant, at most")
    parser.add_argument("--out", type=Path, help="write to this JSON file and a picture beside it")
    parser.add_argument("--draw", action="store_true", help="draw what the file has, run nothing")
    given = parser.parse_args(arguments)
    if given.draw:
        save(figure(read_json(given.out)), given.out.with_suffix(".png"))
        return
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
        entry = {"load": stamp(0)["load"], **measure(name, given.settings, given.tolerance)}
        result["families"][name] = entry
        _write(given.out, result)  # the interpolant may take longer than one waits
        entry["interpolant"] = interpolated(ALL[name](), given.tolerance, given.seconds)
        print(line(name, entry), flush=True)
        _write(given.out, result)


def _write(out: Path | None, result: dict[str, Any]) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, result)
        save(figure(result), out.with_suffix(".png"))


class _Clock:
    """Seconds of the wall and of the processor since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def __call__(self) -> dict[str, float]:
        wall, processor = time.perf_counter(), time.process_time()
        return {"seconds": wall - self._wall, "cpu_seconds": processor - self._processor}


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
        "coefficients": len(prior.free),
        "shape": name in SHAPES,
        "tolerance": tolerance,
        "first_seconds": first,
        "settings": [_solved(family, lam, tolerance) for lam in lambdas],
    }


def _solved(family: lc.Family, lam: np.ndarray, tolerance: float) -> dict[str, Any]:
    at, clock = _named(family, lam), _Clock()
    try:
        solved = lc.solve(family, tolerance=tolerance, **at)
    except lc.LcpinnError as refused:
        return {"at": at, **clock(), "error": None, "reason": str(refused)}
    spent = clock()
    return {
        "at": at,
        **spent,
        "error": _error(family, solved, lam),
        "estimate": solved.error,
        "reason": solved.reason,
        "resolution": solved.resolution,
    }


def interpolated(family: lc.Family, tolerance: float, seconds: float) -> dict[str, Any]:
    """The interpolant's seconds and its errors at settings that it has not seen; or why not."""
    clock = _Clock()
    try:
        protocol = lc.protocol.interpolant(family, tolerance=tolerance, seconds=seconds)
        solution = lc.train(family, protocol, progress=False, report=False)
    except lc.LcpinnError as refused:
        return {**clock(), "error": None, "reason": str(refused)}
    spent = clock()
    unseen = family.parameters.sobol(UNSEEN, seed=13)
    errors = [_error(family, partial(solution, **_named(family, lam)), lam) for lam in unseen]
    judged = _Clock()
    verdict = solution.judged(tolerance, spent["seconds"])
    worst = int(np.argmax(errors))
    return {
        **spent,
        "error": errors[worst],
        "at": _named(family, unseen[worst]),
        "median": float(np.median(errors)),
        "nodes": len(solution.params["coefficients"]),
        "parameters": solution.num_params,
        "stopped": solution.run["training"]["stopped"],
        "reason": "",
        "verdict": {**judged(), "solved": verdict.solved, "error": verdict.error,
                    "reason": verdict.reason},
    }  # fmt: skip


def _named(family: lc.Family, lam: np.ndarray) -> dict[str, float]:
    return dict(zip(family.parameters.names, map(float, lam), strict=True))


def _error(family: lc.Family, values: Callable[..., Any], lam: np.ndarray) -> float:
    """Against the truth, at the family's points; of a shape, at those inside."""
    points = evaluation_points(family)
    points = points[family.domain.covers(points, lam)]
    value = values(**{n: points[:, i] for i, n in enumerate(family.domain.names)})
    columns = list(value.values()) if isinstance(value, dict) else [value]
    truth = family.truth(points, lam)
    assert truth is not None
    return relative_error(np.stack(columns, axis=-1), truth)


def line(name: str, entry: dict[str, Any]) -> str:
    rows, over_all = entry["settings"], entry["interpolant"]
    errors = [row["error"] for row in rows if row["error"] is not None]
    seconds = float(np.median([row["seconds"] for row in rows]))
    worst = f"{max(errors):.1e}" if errors else "-"
    refused = f", {len(rows) - len(errors)} of {len(rows)} refused" * (len(errors) < len(rows))
    between = over_all["reason"] or f"{over_all['nodes']} nodes, error {over_all['error']:.1e}"
    return (
        f"{name:20} {seconds:7.2f} s  largest error {worst}{refused};  "
        f"interpolant {over_all['seconds']:.1f} s, {between}"
    )


def figure(result: dict[str, Any]) -> Figure:
    """Error against seconds: one setting on the left, all of them on the right."""
    drawn = Figure(figsize=(9.5, 5.0), layout="constrained")
    alone, everywhere = drawn.subplots(1, 2, sharey=True)
    middles: dict[Axes, dict[str, tuple[float, float]]] = {alone: {}, everywhere: {}}
    dots: dict[Axes, list[tuple[float, float]]] = {alone: [], everywhere: []}
    for name, entry in result["families"].items():
        style = {"color": COLOURS[entry["coordinates"] - 1], "ms": 3, "alpha": 0.6}
        style["marker"] = "s" if entry.get("shape") else "o"
        rows = [row for row in entry["settings"] if row["error"] is not None]
        over_all = entry.get("interpolant", {"error": None})
        for axis, shown in ((alone, rows), (everywhere, [over_all])):
            points = [(p["seconds"], max(p["error"], 1e-17)) for p in shown if p["error"]]
            if points:
                axis.loglog(*zip(*points, strict=True), ls="", **style)
                dots[axis] += points
                # One of its points, so that a line to it ends somewhere.
                middles[axis][name] = sorted(points)[len(points) // 2]
    for dim in (1, 2, 3):
        label = f"{dim} coordinates" if dim > 1 else "1 coordinate"
        alone.plot([], [], "o", color=COLOURS[dim - 1], label=label)
    alone.plot([], [], "s", color="0.5", label="on a shape")
    alone.set(xlabel="seconds", ylabel="relative $L^2$ error", title="one setting: lc.solve")
    everywhere.set(xlabel="seconds", title="all settings: interpolant, at its worst of 100")
    alone.xaxis.set_minor_formatter(NullFormatter())
    everywhere.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    everywhere.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    everywhere.xaxis.set_minor_locator(NullLocator())
    drawn.suptitle(result["stamp"]["device"], fontsize=9)
    alone.legend(fontsize=7, loc="upper left")
    for axis, named in middles.items():
        axis.margins(0.12, 0.06)
        name_points(axis, named, dots[axis])
    return drawn


if __name__ == "__main__":
    main()
