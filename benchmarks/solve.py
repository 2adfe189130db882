"""The solver alone and beside networks: lc.solve, `interpolant`, `fast`, and `fast` taught by it.

    python -m benchmarks.solve [--families a,b] [--parts solve,interpolant,fast,taught]
                               [--settings 10] [--tolerance 1e-10] [--seconds 60] [--jobs 8]
                               [--resume] [--out results/solve-cpu.json]

For the paper's families, the zoo and five shapes; every part of every family is measured in a fresh
process. `solve` is lc.solve at settings that are spread over the coefficients; the first one is
solved twice, and its first time, which compiles, stands apart. Without a tolerance, what is asked
for is 1e-10 in one and two coordinates, 1e-7 in three, 1e-6 of fronts, and 1e-8 of networks.
`interpolant`, `fast` and `taught` (`fast` with a tolerance and rows of the page's own solutions)
have at most so many seconds, compilation included for the interpolant; their error is the largest
at a hundred settings that they have not seen. Errors are relative L2 errors against the family's
closed form or reference. Seconds are those of the wall and, as `cpu_seconds`, those of the
processor, which say more where a machine has other work. `--jobs 8` measures eight at once, each on
two cores of its own. Every finished part is written at once and replaces its old entry in the file;
`--resume` leaves out those that the file has. A picture is drawn beside it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

import lcpinn as lc
from benchmarks import shapes
from benchmarks.panels import name_points
from benchmarks.processes import (
    WIDTH,
    among,
    answer_of_fresh_process,
    as_they_end,
    core_slots,
    stamp_in_fresh_process,
)
from benchmarks.zoo import CLASSES, ZOO
from benchmarks.zoo.training import without_own_solutions
from lcpinn.evaluation import evaluation_points, relative_error
from lcpinn.families import FAMILIES
from lcpinn.files import read_json, write_json
from lcpinn.machine import device
from lcpinn.optimiser import OwnSolutions, Restarts
from lcpinn.plot import COLOURS, save

SHAPES = {name: shapes.FAMILIES[name] for name in ("kite", "elbow", "torsion", "pipes", "cylinder")}
ALL = FAMILIES | ZOO | SHAPES
FRONTS = {"burgers", "buckley-leverett", *(n for n in ZOO if ZOO[n] in CLASSES["fronts"])}
FRONT, NETWORK = 1e-6, 1e-8  # their tolerances
TOLERANCES = {1: 1e-10, 2: 1e-10, 3: 1e-7}  # of everything else, by the number of coordinates
PARTS = ("solve", "interpolant", "fast", "taught")
CHUNK = 5  # settings that one process solves at
UNSEEN = 100  # settings that networks are compared at

Entry = dict[str, Any]


class Job(NamedTuple):
    """A part of a family; of `solve`, the settings from `begin` on."""

    name: str
    part: str
    begin: int = 0


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    words = list(sys.argv[1:] if arguments is None else arguments)
    if given.out is not None and given.out.is_absolute():  # nothing about this machine's folders
        words = [word.replace(str(given.out), given.out.name) for word in words]
    slots = core_slots(given.jobs)
    families = read_json(given.out)["families"] if given.out and given.out.exists() else {}
    result: Entry = {
        "benchmark": "solve", "command": shlex.join(["python", "-m", "benchmarks.solve", *words]),
        "stamp": stamp_in_fresh_process([0], slots[0]), "families": families,
    }  # fmt: skip
    jobs = _pending(given, families)
    asked = {name: getattr(given, name) for name in ("settings", "tolerance", "seconds", "jobs")}
    for job, answer in as_they_end(partial(_measured, asked), jobs, slots):
        print(line(job, answer), flush=True)
        put(result["families"].setdefault(job.name, {}), job, answer)
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(given.out, result)
    if given.out is not None:
        save(figure(result), given.out.with_suffix(".png"))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.solve", description=about)
    parser.add_argument("--families", type=among(ALL, "family"), default=list(ALL), help="a,b")
    parser.add_argument("--parts", type=among(PARTS, "part"), default=list(PARTS))
    parser.add_argument("--settings", type=int, default=10, help="of each family, for lc.solve")
    parser.add_argument("--tolerance", type=float, help="the same for all, fronts aside")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each training, at most")
    parser.add_argument("--jobs", type=int, default=1, help=f"at once, {WIDTH} cores each")
    parser.add_argument("--resume", action="store_true", help="only what the file lacks")
    parser.add_argument("--out", type=Path, help="write to this JSON file and a picture beside it")
    return parser.parse_args(arguments)


def _pending(given: argparse.Namespace, families: Entry) -> list[Job]:
    """What is to be measured; what takes long comes first, so that no core waits for it alone."""
    jobs = []
    for part in sorted(given.parts, key=("fast", "taught", "interpolant", "solve").index):
        for name in given.families:
            entry = families.get(name, {}) if given.resume else {}
            if part != "solve":
                jobs += [Job(name, part)] * (part not in entry)
                continue
            known = [row is not None for row in entry.get("settings", [])]
            all_known = all(known) and entry.get("coefficients") == 0  # of one setting
            known += [bool(known) and all_known] * (given.settings - len(known))
            begins = range(0, given.settings, CHUNK)
            jobs += [Job(name, part, b) for b in begins if not all(known[b : b + CHUNK])]
    long = [job for job in jobs if job.name in FRONTS]
    return long + [job for job in jobs if job.name not in FRONTS]


def _measured(asked: Entry, job: Job, cores: list[int]) -> tuple[Job, Entry]:
    code = "from benchmarks.solve import measure_here; measure_here()"
    return job, answer_of_fresh_process(code, {**job._asdict(), **asked}, cores)


def put(entry: Entry, job: Job, answer: Entry) -> None:
    """Into a family's entry; settings keep their places, whoever is done first."""
    entry |= answer.pop("family", {})
    if job.part != "solve" or "failed" in answer:
        entry[job.part] = answer
        return
    entry.pop("solve", None)  # that it failed before
    rows = answer.pop("settings")
    if not rows:
        return  # there are fewer settings
    before = entry.get("settings", [])
    before = before + [None] * (job.begin + len(rows) - len(before))
    before[job.begin : job.begin + len(rows)] = rows
    first = answer.pop("first_seconds")
    if job.begin == 0 or "first_seconds" not in entry:
        entry["first_seconds"] = first
    entry |= {**answer, "settings": before}


# -- In the fresh process --------------------------------------------------------------------------


def measure_here() -> None:
    """Measure one part, and print it as the last line."""
    job = json.loads(sys.argv[1])
    warnings.simplefilter("ignore", lc.NotSolvedWarning)
    name, seconds, family = job["name"], job["seconds"], ALL[job["name"]]()
    tolerance = tolerance_of(name, job["part"], job["tolerance"])
    if job["part"] == "solve":
        chosen = range(job["begin"], min(job["begin"] + CHUNK, job["settings"]))
        answer = measure(name, job["settings"], tolerance, chosen)
    elif job["part"] == "interpolant":
        answer = interpolated(family, tolerance, seconds)
    else:
        answer = trained(family, tolerance, seconds, taught=job["part"] == "taught")
    for row in answer.get("settings", [answer]):
        row["device"] = device()
    answer["family"] = {
        "equation": (family.__doc__ or "").split("\n")[0],
        "coordinates": family.domain.dim,
        "coefficients": len(family.parameters.free),
        "shape": name in SHAPES,
    }
    print(json.dumps(answer))


def tolerance_of(name: str, part: str, asked: float | None = None) -> float:
    """What is asked for of a family; of fronts never more than they are known to."""
    if part in ("fast", "taught"):
        return NETWORK if asked is None else asked
    wanted = TOLERANCES[ALL[name]().domain.dim] if asked is None else asked
    return max(wanted, FRONT) if name in FRONTS else wanted


class _Clock:
    """Seconds of the wall and of the processor since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def __call__(self) -> dict[str, float]:
        wall, processor = time.perf_counter(), time.process_time()
        return {"seconds": wall - self._wall, "cpu_seconds": processor - self._processor}


def measure(
    name: str, settings: int, tolerance: float, chosen: Sequence[int] | None = None
) -> Entry:
    """Every setting's seconds, true error, estimate and resolution, or why it was refused.

    `chosen` are some of the settings, all by default.
    """
    family = ALL[name]()
    prior = family.parameters
    lambdas = prior.sobol(settings, seed=7) if prior.free else np.zeros((1, prior.dim))
    lambdas = [lambdas[i] for i in chosen or range(settings) if i < len(lambdas)]
    begun = time.perf_counter()
    if lambdas:
        _solved(family, lambdas[0], tolerance)
    first = time.perf_counter() - begun
    return {
        "tolerance": tolerance,
        "first_seconds": first,
        "settings": [_solved(family, lam, tolerance) for lam in lambdas],
    }


def _solved(family: lc.Family, lam: np.ndarray, tolerance: float) -> Entry:
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


def interpolated(family: lc.Family, tolerance: float, seconds: float) -> Entry:
    """The interpolant's seconds and its errors at settings that it has not seen; or why not."""
    clock = _Clock()
    try:
        protocol = lc.protocol.interpolant(family, tolerance=tolerance, seconds=seconds)
        solution = lc.train(family, protocol, progress=False, report=False)
    except lc.LcpinnError as refused:
        return {**clock(), "error": None, "reason": str(refused)}
    nodes = len(solution.params["coefficients"])
    return {**_over_settings(solution, tolerance, clock()), "nodes": nodes}


def trained(family: lc.Family, tolerance: float, seconds: float, *, taught: bool) -> Entry:
    """The same of `fast`, with rows of the page's own solutions or without; or why not."""
    clock = _Clock()
    protocol = lc.protocol.fast(family, seconds=seconds, tolerance=tolerance if taught else None)
    phase = protocol.phases[0]
    uses = isinstance(phase, Restarts) and isinstance(phase.phase, OwnSolutions)
    if taught and not uses:
        return {**clock(), "error": None, "reason": "fast takes no own solutions of this family"}
    protocol = protocol if taught else without_own_solutions(protocol)
    solution = lc.train(family, protocol, progress=False, report=False)
    solved_at = solution.run["training"].get("solved_at", [])
    return {**_over_settings(solution, None, clock()), "solved_at": len(solved_at)}


def _over_settings(solution: lc.Solution, tolerance: float | None, spent: Entry) -> Entry:
    """The largest and the median error at unseen settings, beside the verdict."""
    family = solution.family
    unseen = family.parameters.sobol(UNSEEN, seed=13)
    errors = [_error(family, partial(solution, **_named(family, lam)), lam) for lam in unseen]
    judged, worst = _Clock(), int(np.argmax(errors))
    verdict = solution.judged(tolerance, spent["seconds"])
    return {
        **spent,
        "error": errors[worst],
        "at": _named(family, unseen[worst]),
        "median": float(np.median(errors)),
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


# -- What is shown ---------------------------------------------------------------------------------


def line(job: Job, answer: Entry) -> str:
    what = f"{job.name:20} {job.part:12}"
    if "failed" in answer:
        return f"{what} failed: {answer['failed']}"
    if job.part != "solve":
        error = answer["reason"] or f"error {answer['error']:.1e}"
        return f"{what} {answer['seconds']:7.1f} s  {error}"
    return f"{what} {_of_settings(answer['settings'])}"


def _of_settings(rows: Sequence[Entry]) -> str:
    errors = [row["error"] for row in rows if row["error"] is not None]
    seconds = float(np.median([row["seconds"] for row in rows] or [0.0]))
    worst = f"{max(errors):.1e}" if errors else "-"
    refused = f", {len(rows) - len(errors)} of {len(rows)} refused" * (len(errors) < len(rows))
    return f"{seconds:7.2f} s  largest error {worst}{refused}"


def figure(result: Entry) -> Figure:
    """Error against seconds: one setting; all of them by the interpolant. Networks: taught against
    alone, those that are not taught on the diagonal."""
    trained = any("fast" in e or "taught" in e for e in result["families"].values())
    drawn = Figure(figsize=(13.5 if trained else 10.0, 5.0), layout="constrained")
    alone, everywhere, *others = drawn.subplots(1, 3 if trained else 2, sharey=True)
    titles = ("one setting: lc.solve", "all settings: interpolant", "all settings: fast, taught")
    middles: dict[Axes, dict[str, tuple[float, float]]] = {}
    dots: dict[Axes, list[tuple[float, float]]] = {}
    for axis, title in zip((alone, everywhere, *others), titles, strict=False):
        axis.set(xlabel="seconds", title=title, xscale="log", yscale="log")
        middles[axis], dots[axis] = {}, []
    for name, entry in result["families"].items():
        style = {"color": COLOURS[entry.get("coordinates", 1) - 1], "ms": 3, "alpha": 0.6}
        style["marker"] = "s" if name in SHAPES else "o"
        shown = {alone: [*map(_point, entry.get("settings", []))]}
        shown[everywhere] = [_point(entry.get("interpolant"))]
        for axis in others:
            shown[axis] = [_taught_against_alone(entry)]
        for axis, given in shown.items():
            points = [point for point in given if point is not None]
            for x, y in points:
                hollow = {"mfc": "none"} if axis in others and x == y else {}
                axis.plot(x, y, ls="", **style, **hollow)
            dots[axis] += points
            if points:  # one of them, so that a line to it ends somewhere
                middles[axis][name] = sorted(points)[len(points) // 2]
    for dim in (1, 2, 3):
        label = f"{dim} coordinates" if dim > 1 else "1 coordinate"
        alone.plot([], [], "o", color=COLOURS[dim - 1], label=label)
    alone.plot([], [], "s", color="0.5", label="on a shape")
    alone.set(ylabel="relative $L^2$ error; over all settings the worst of 100")
    alone.xaxis.set_minor_formatter(NullFormatter())
    for axis in others:
        axis.set(xlabel="error of `fast` alone in as many seconds")
        axis.axline((1e-8, 1e-8), (1.0, 1.0), color="0.7", lw=0.8, zorder=0)
    if dots[everywhere]:
        everywhere.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        everywhere.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        everywhere.xaxis.set_minor_locator(NullLocator())
    drawn.suptitle("; ".join(_devices(result)), fontsize=9)
    alone.legend(fontsize=7, loc="upper left")
    for axis, named in middles.items():
        axis.margins(0.12, 0.06)
        name_points(axis, named, dots[axis])
    return drawn


def _taught_against_alone(entry: Entry) -> tuple[float, float] | None:
    """The errors of `fast` alone and taught; twice the first where it is not taught."""
    by_itself, taught = _point(entry.get("fast")), _point(entry.get("taught"))
    if by_itself is None:
        return None
    return by_itself[1], (taught or by_itself)[1]


def _devices(result: Entry) -> list[str]:
    """The machines that parts were measured on."""
    families = result["families"].values()
    parts = [entry.get(part) for entry in families for part in PARTS]
    parts += [row for entry in families for row in entry.get("settings", [])]
    return sorted({row["device"] for row in parts if row and "device" in row})


def _point(row: Entry | None) -> tuple[float, float] | None:
    """Seconds and error of what was measured and not refused."""
    if row is None or row.get("error") is None:
        return None
    return max(row["seconds"], 1e-3), max(row["error"], 1e-17)


if __name__ == "__main__":
    main()
