"""The zoo: families outside of the paper, each trained in a fresh process, beside the truth.

    python -m benchmarks.zoo [--families a,b] [--classes layers,waves] [--seeds 0,1]
                             [--seconds 120] [--tolerance 1e-6] [--jobs 8] [--resume]
                             [--without-own-solutions]
                             [--out results/zoo-cpu.json]
    python -m benchmarks.zoo --table

Of every run: the worst and the mean relative error over many lambda, seconds and steps, why it
stopped, and its verdict, if it gives one, with whether that is wrong: it says solved while the
error is above three times what it says. `--jobs 8` trains eight at once, each on two cores of its
own; compare times only with runs of the same number. Every finished run is written at once;
`--resume` goes on where a file ends. With `--out` a picture of all families is drawn beside it.
`--table` writes the table of docs/zoo.md out of results/zoo-cpu.json and results/zoo-h200.json.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import WIDTH, among, as_they_end, core_slots, stamp_in_fresh_process
from benchmarks.zoo import CLASSES, ZOO, page
from benchmarks.zoo.picture import draw
from benchmarks.zoo.summary import TARGETS, against_targets, summarise, table, wrong
from benchmarks.zoo.training import Asked, Run
from benchmarks.zoo.training import train_in_fresh_process as train
from lcpinn.files import read_json, write_json

Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    if given.table:
        page.write()
        return
    slots = core_slots(given.jobs)
    origin = stamp_in_fresh_process(given.seeds, slots[0])
    targets = given.targets or ("cpu" if origin["platform"] == "cpu" else "h200")
    result = _begin(given, origin, sys.argv[1:] if arguments is None else arguments)
    asked = _asked(given)
    known = {(r["family"], r["seed"]) for r in result["runs"] if "failed" not in r}
    pending = [(n, s) for s in given.seeds for n in _chosen(given) if (n, s) not in known]
    trained = lambda job, cores: train(job[0], job[1], asked, cores)
    for run in as_they_end(trained, pending, slots):
        _put(result, run)
        print(_line(run), flush=True)
        if given.out is not None:
            write_json(given.out, result)
    if given.out is not None and result["runs"]:
        draw(result, given.out.with_suffix(".png"))
    rows = summarise(result["runs"])
    print(f"\n{table(rows)}\n\n{against_targets(rows, targets)}")
    failed = sum("failed" in run for run in result["runs"])
    if failed:
        sys.exit(f"{failed} trainings failed")


def _asked(given: argparse.Namespace) -> Asked:
    """What every training is asked for."""
    names = ("protocol", "seconds", "jobs", "tolerance")
    asked = {name: getattr(given, name) for name in names}
    return {**asked, "own_solutions": not given.without_own_solutions}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.zoo", description=about)
    parser.add_argument("--families", type=among(ZOO, "family"), help=f"of {', '.join(ZOO)}")
    parser.add_argument("--classes", type=among(CLASSES, "class"), help=f"of {', '.join(CLASSES)}")
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")],
                        default=[0, 1], help="0,1 by default")  # fmt: skip
    parser.add_argument("--seconds", type=float, help="time limit of each, 120 with `fast`")
    parser.add_argument("--tolerance", type=float, help="train until the estimate is below it")
    parser.add_argument("--without-own-solutions", action="store_true",
                        help="residual rows alone, to see what the others are worth")  # fmt: skip
    parser.add_argument("--protocol", default="fast")
    parser.add_argument("--jobs", type=int, default=1, help=f"at once, {WIDTH} cores each")
    parser.add_argument("--targets", choices=TARGETS, help="after the device by default")
    parser.add_argument("--out", type=Path, help="write runs and a picture here")
    parser.add_argument("--table", action="store_true", help="that of docs/zoo.md, and no training")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are there")
    given = parser.parse_args(arguments)
    if given.resume and given.out is None:
        parser.error("--resume needs --out")
    if given.seconds is None and given.protocol == "fast":
        given.seconds = 120.0
    return given


def _chosen(given: argparse.Namespace) -> list[str]:
    """The families named and those of the classes named; all where nothing is."""
    if given.families is None and given.classes is None:
        return list(ZOO)
    members = {made for kind in given.classes or () for made in CLASSES[kind]}
    return [name for name, made in ZOO.items() if name in (given.families or ()) or made in members]


# -- The file of runs ------------------------------------------------------------------------------


def _begin(given: argparse.Namespace, origin: dict[str, Any], options: Sequence[str]) -> Result:
    """An empty result under today's stamp, or that of the file with its runs."""
    command = shlex.join(["python", "-m", "benchmarks.zoo", *options])
    result = {"benchmark": "zoo", "stamp": origin, "command": command, "seconds": given.seconds}
    result["runs"] = []
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
    if given.out is None or not given.resume or not given.out.exists():
        return result
    before = read_json(given.out)
    if "runs" not in before:
        sys.exit(f"{given.out} was written by an earlier version; choose another --out")
    for run in before["runs"]:
        if run.get("device", origin["device"]) != origin["device"]:
            sys.exit(f"{given.out} has runs of another machine ({run['device']})")
        now = _asked(given) | {"jobs": run["asked"]["jobs"]}  # every run says how many there were
        if run["asked"] != now:
            sys.exit(f"{given.out} has runs that were trained with {run['asked']}")
    return result | {"runs": before["runs"]}


def _put(result: Result, run: Run) -> None:
    """Add a run; it replaces one of the same family and seed that failed."""
    key = lambda r: (list(ZOO).index(r["family"]), r["seed"])
    others = [r for r in result["runs"] if key(r) != key(run)]
    run = run if "failed" in run else run | {"wrong": wrong(run)}
    result["runs"] = sorted([*others, run], key=key)


def _line(run: Run) -> str:
    title = f"{run['family']}, seed {run['seed']}"
    if "failed" in run:
        return f"{title}: failed: {run['failed']}"
    error = run["error"]
    numbers = f"worst {error['worst']:.1e}, mean {error['mean']:.1e}"
    return f"{title}: {numbers}, {run['seconds']['total']:.0f} s, {run['steps']} steps"


if __name__ == "__main__":
    main()
