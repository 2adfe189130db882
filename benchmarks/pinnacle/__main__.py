"""PINNacle's problems: one network for each family, beside what was published.

    python -m benchmarks.pinnacle [--problems burgers-1d,cavity] [--seconds 60] [--seed 0]
                                  [--jobs 8] [--again] [--out results/pinnacle-cpu.json]
                                  [--models runs/pinnacle] [--later] [--tolerance best/100]
    python -m benchmarks.pinnacle --measure --out results/pinnacle-h200.json --models runs/pinnacle
    python -m benchmarks.pinnacle --table [results/pinnacle-h200.json ...]
    python -m benchmarks.pinnacle --pictures docs/pictures --models runs/pinnacle

Every problem is trained in a fresh process, one after another on the device that JAX has, or with
`--jobs N` N at once on two cores each. An entry is written as soon as it is there; a problem that
the file has with the same seconds, seed and tolerance is not trained again without `--again`.
With `--later` networks are trained and kept, and neither judged nor compared: `--measure` does both
afterwards, wherever they have been brought to, and does so again where a reference has become
better. Two calls on disjoint cores (`taskset -c 6-15 python -m ...`) do not disturb each other.
`--table` prints the table of docs/pinnacle.md out of the files and writes it there; `--pictures`
draws from the networks that `--models` has kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pinnacle import table
from benchmarks.pinnacle.registry import PROBLEMS
from benchmarks.pinnacle.training import Entry, measure_model, train_in_fresh_process
from benchmarks.processes import WIDTH, among, as_they_end, core_slots
from lcpinn.files import read_json, write_json

Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    if given.table is not None:
        table.write(given.table or table.results(), given.page)
        return
    if given.pictures is not None:
        from benchmarks.pinnacle.pictures import draw_all

        draw_all(Path(given.models), given.pictures)
        return
    result = _begin(given.out)
    if given.measure:
        _measure(result, given)
        return
    asked = {
        name: {
            "seconds": given.seconds,
            "seed": given.seed,
            "jobs": given.jobs,
            "tolerance": _tolerance(given.tolerance, name),
        }
        for name in given.problems
    }
    kept = {"models": given.models, "later": given.later}
    pending = [n for n in given.problems if given.again or not _known(result, n, asked[n])]
    job = lambda name, slot: (
        name, train_in_fresh_process(name, asked[name] | kept, slot)
    )  # fmt: skip
    for name, entry in as_they_end(job, pending, core_slots(given.jobs, given.width)):
        entry = {key: value for key, value in entry.items() if key not in kept}
        print(line(name, entry), flush=True)
        if "failed" in entry and "failed" not in result["problems"].get(name, entry):
            continue  # what succeeded before stays
        result["problems"][name] = entry
        result["problems"] = {n: result["problems"][n] for n in PROBLEMS if n in result["problems"]}
        if given.out is not None:
            write_json(given.out, result)
    print(f"\n{table.summary(result)}")
    failed = [name for name in given.problems if "failed" in result["problems"].get(name, {})]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _measure(result: Result, given: argparse.Namespace) -> None:
    """Verdicts and errors of networks that are kept, each written as soon as it is there."""
    for name in given.problems:
        if name not in result["problems"]:
            continue
        entry = measure_model(name, result["problems"][name], Path(given.models))
        if entry is not None:
            result["problems"][name] = entry
            print(line(name, entry), flush=True)
            write_json(given.out, result)
    print(f"\n{table.summary(result)}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.pinnacle", description=about)
    parser.add_argument("--problems", type=among(PROBLEMS, "problem"), default=list(PROBLEMS),
                        help=f"of {', '.join(PROBLEMS)}; all by default")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each")
    parser.add_argument(
        "--tolerance",
        type=_share_or_number,
        help="train until the estimate is below it, on own solutions, too: a number, or best/100, "
        "a hundredth of the best published error",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="at once, --width cores each")
    parser.add_argument("--width", type=int, default=WIDTH, help="cores of one of several jobs, 2")
    parser.add_argument("--again", action="store_true", help="train what the file has, too")
    parser.add_argument("--out", type=Path, help="the file of entries")
    parser.add_argument("--models", help="keep the trained networks in this folder")
    parser.add_argument("--later", action="store_true", help="train alone; --measure does the rest")
    parser.add_argument("--measure", action="store_true", help="judge and compare what is kept")
    parser.add_argument("--table", type=Path, nargs="*", help="print the table of these files")
    parser.add_argument("--page", type=Path, default=table.PAGE, help="where --table writes it")
    parser.add_argument("--pictures", type=Path, help="draw into this folder, from --models")
    given = parser.parse_args(arguments)
    for option in ("pictures", "measure", "later"):
        if getattr(given, option) and given.models is None:
            parser.error(f"--{option} needs --models")
    if given.measure and given.out is None:
        parser.error("--measure needs --out, the file of entries")
    return given


def _share_or_number(text: str) -> float | str:
    """A tolerance, or `best/N`."""
    if not 0 < float(text.removeprefix("best/")) < float("inf"):
        raise argparse.ArgumentTypeError(f"a positive number, or best/N, not {text}")
    return text if text.startswith("best/") else float(text)


def _tolerance(given: float | str | None, name: str) -> float | None:
    """Of one problem: `best/N` is a share of the least of the best published errors of its rows."""
    if not isinstance(given, str):
        return given
    return min(row.best for row in PROBLEMS[name].rows) / float(given.removeprefix("best/"))


def _begin(out: Path | None) -> Result:
    """The file's entries, or none yet."""
    if out is None:
        return {"benchmark": "pinnacle", "problems": {}}
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists():
        return {"benchmark": "pinnacle", "problems": {}}
    before = read_json(out)
    if before.get("benchmark") != "pinnacle":
        sys.exit(f"{out} is no file of this benchmark; choose another --out")
    return before


def _known(result: Result, name: str, asked: dict[str, Any]) -> bool:
    entry = result["problems"].get(name)
    if entry is None or "failed" in entry:
        return False
    return all(entry.get(key) == asked[key] for key in ("seconds", "seed", "tolerance"))


def line(name: str, entry: Entry) -> str:
    if "failed" in entry:
        return f"{name}: failed: {entry['failed']}"
    total = f"{entry['seconds_spent']['total']:.0f} s"
    if "rows" not in entry:
        return f"{name}: trained, {total}"
    rows = [
        f"{row['name']} {row['error']:.1e} (best published {row['best']:.1e})"
        for row in entry["rows"]
    ]
    verdict = {True: "solved", False: "not solved", None: "no verdict"}[entry["verdict"]["solved"]]
    return f"{name}: {', '.join(rows)}; {verdict}, {total}"


if __name__ == "__main__":
    main()
