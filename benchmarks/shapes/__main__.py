"""Families on shapes, by the defaults: error, estimate and time, and what sampling costs.

    python -m benchmarks.shapes [--families a,b] [--seeds 0,1] [--seconds 60] [--jobs 8]
                                [--resume [--again]] [--out results/shapes-cpu.json]

Ten families with known solutions, each trained in a fresh process; compilation counts. Of every
run: the mean and the largest relative error over lambda, the verdict, and at nine settings the
estimated error beside the true one. `--jobs 8` trains eight at once, each on two cores of its own.
Every finished run is written at once; `--resume` goes on where a file ends, with `--again` by
training anew what is asked for and keeping all other runs. With `--out` a picture is drawn beside
it. `--sampling` measures instead a million points of a square with four holes, and a training step
on a shape against one on a box with the same rows.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import WIDTH, among, as_they_end, core_slots, stamp_in_fresh_process
from benchmarks.shapes.families import FAMILIES
from benchmarks.shapes.picture import draw
from benchmarks.shapes.training import Run, factor
from benchmarks.shapes.training import train_in_fresh_process as train
from lcpinn.files import read_json, write_json

WITHIN = 3.0  # the factor within which an estimate counts as right
ROUNDING = 1e-9  # a true error below which the factor is not asked for

Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    options = sys.argv[1:] if arguments is None else list(arguments)
    command = shlex.join(["python", "-m", "benchmarks.shapes", *options])
    slots = core_slots(given.jobs, given.width)
    stamp = stamp_in_fresh_process(given.seeds, slots[0])
    result: Result = {"benchmark": "shapes", "stamp": stamp, "command": command}
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
    if given.sampling:
        _measure_sampling(result, given.out)
        return
    asked = {"seconds": given.seconds, "jobs": given.jobs}
    result |= {"seconds": given.seconds, "runs": _before(given, asked)}
    known = {(r["family"], r["seed"]) for r in result["runs"] if "failed" not in r}
    if given.again:
        known = set()
    names = given.families or list(FAMILIES)
    pending = [(n, s) for s in given.seeds for n in names if (n, s) not in known]
    print(HEADER)
    for run in as_they_end(lambda job, cores: train(job[0], job[1], asked, cores), pending, slots):
        _put(result, run)
        print(line(run), flush=True)
        if given.out is not None:
            write_json(given.out, result)
    if given.out is not None and result["runs"]:
        draw(result, given.out.with_suffix(".png"))
    print(f"\n{summary(result['runs'])}")
    failed = sum("failed" in run for run in result["runs"])
    if failed:
        sys.exit(f"{failed} trainings failed")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.shapes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--families", type=among(FAMILIES, "family"),
                        help=f"of {', '.join(FAMILIES)}; all by default")  # fmt: skip
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")],
                        default=[0, 1], help="0,1 by default")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each, 60 s")
    parser.add_argument("--jobs", type=int, default=1, help="at once, --width cores each")
    parser.add_argument("--width", type=int, default=WIDTH, help="cores of one of several jobs, 2")
    parser.add_argument("--sampling", action="store_true", help="measure points and steps alone")
    parser.add_argument("--out", type=Path, help="write runs and a picture here")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are there")
    parser.add_argument("--again", action="store_true", help="but replace those asked for")
    given = parser.parse_args(arguments)
    if given.resume and given.out is None:
        parser.error("--resume needs --out")
    if given.again and not given.resume:
        parser.error("--again needs --resume")
    return given


def _measure_sampling(result: Result, out: Path | None) -> None:
    from benchmarks.shapes.cost import sampling

    result["sampling"] = sampling()
    for name, value in result["sampling"].items():
        print(f"{name:40}{value:10.3g}")
    if out is not None:
        write_json(out, result)


# -- The file of runs ------------------------------------------------------------------------------


def _before(given: argparse.Namespace, asked: dict[str, Any]) -> list[Run]:
    """The runs of the file that is to be resumed; how many ran at once is no matter."""
    if not given.resume or not given.out.exists():
        return []
    runs = read_json(given.out).get("runs", [])
    for run in runs:
        if run["asked"]["seconds"] != asked["seconds"]:
            sys.exit(f"{given.out} has runs that were trained with {run.get('asked')}")
    return runs


def _put(result: Result, run: Run) -> None:
    """Add a run; it replaces one of the same family and seed, which failed or is made again."""
    key = lambda r: (list(FAMILIES).index(r["family"]), r["seed"])
    others = [r for r in result["runs"] if key(r) != key(run)]
    result["runs"] = sorted([*others, run], key=key)


HEADER = (
    f"{'family':12}{'seed':>5}{'mean':>10}{'largest':>10}{'verdict':>12}{'estimated':>11}"
    f"{'off by':>8}{'seconds':>9}"
)


def line(run: Run) -> str:
    """A run: errors over lambda, the verdict, how many settings have an estimate, and how good."""
    title = f"{run['family']:12}{run['seed']:5}"
    if "failed" in run:
        return f"{title}  failed: {run['failed']}"
    error, rows = run["error"], run["settings"]
    factors = [f for f in map(factor, rows) if f is not None]
    solved = {True: "solved", False: "not solved", None: "none"}[run["verdict"]["solved"]]
    worst = f"{max(factors):.2f}" if factors else "-"
    return (
        f"{title}{error['mean']:10.1e}{error['dense_max']:10.1e}{solved:>12}"
        f"{f'{len(factors)} of {len(rows)}':>11}{worst:>8}{run['seconds']:9.0f}"
    )


def summary(runs: Sequence[Run]) -> str:
    """How many settings have an estimate within the factor; and every one that is worse."""
    rows = [(run, s) for run in runs if "failed" not in run for s in run["settings"]]
    known = [(run, s) for run, s in rows if s["estimate"] is not None and s["error"] > ROUNDING]
    wrong = [(run, s) for run, s in known if (factor(s) or 1.0) > WITHIN]
    said = [
        f"{len(known) - len(wrong)} of {len(known)} estimates within a factor of {WITHIN:g}; "
        f"{sum(s['estimate'] is None for _, s in rows)} of {len(rows)} settings have none"
    ]
    for run, s in wrong:
        said.append(
            f"  {run['family']}, seed {run['seed']}, {s['at']}: "
            f"{s['estimate']:.1e} for {s['error']:.1e}"
        )
    return "\n".join(said)


if __name__ == "__main__":
    main()
