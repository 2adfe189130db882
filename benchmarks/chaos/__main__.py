"""What goes wrong, done on purpose: kills, damaged files, full disks, bad terms, odd pages.

    python -m benchmarks.chaos [--faults kill,files] [--count 20] [--seconds 250] [--seed 0]
                               [--again] [--out results/chaos.json]

Every fault has a number of cases that make up the whole of it. What is in the file already is not
done again: `--count 20` adds at most twenty cases of each fault, `--seconds 250` begins no further
case of any after so long, and `--again` forgets what there is of the faults that are named. The
exit code is 1 if any promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from benchmarks.chaos.fault import Case, Fault
from benchmarks.chaos.registry import FAULTS
from benchmarks.processes import among
from benchmarks.stamp import stamp
from lcpinn.compilation import compiling_quickly, enable_cache
from lcpinn.files import read_json, write_json

ROOT = Path(__file__).resolve().parents[2]
SHOWN = 20  # broken promises that are written down


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    enable_cache()
    ends = time.monotonic() + given.seconds
    parts = {}
    for name in given.faults:
        with compiling_quickly(FAULTS[name].quick):
            parts[name] = _continue(FAULTS[name], given, ends)
    broken = [name for name, part in parts.items() if part["kept"] < part["cases"]]
    if broken:
        sys.exit(f"promises were broken: {', '.join(broken)}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.chaos", description=about)
    parser.add_argument("--faults", type=among(FAULTS, "fault"), default=list(FAULTS),
                        help=f"of {', '.join(FAULTS)}")  # fmt: skip
    parser.add_argument("--count", type=int, help="cases of each, at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="in all, about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="begin anew")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "chaos.json")
    return parser.parse_args(arguments)


def _continue(fault: Fault, given: argparse.Namespace, ends: float) -> dict[str, Any]:
    """Cases of one fault from where the file ends, which is written every few seconds."""
    known = {} if given.again else _read(given.out)["faults"]
    part = known.get(fault.name, empty(fault))
    part["full"] = min(part["full"], fault.full)
    first = part["cases"]
    last = part["full"] if given.count is None else min(part["full"], first + given.count)
    begun, before = time.monotonic(), part["seconds"]
    if first >= last or begun >= ends:
        return part
    part["stamp"] = stamp(given.seed)
    written = begun
    for case in fault.cases(range(first, last), given.seed):
        add(part, case)
        now = time.monotonic()
        part["seconds"] = round(before + now - begun, 1)
        if now - written > 5 or not case.passed:  # seconds
            _write(given.out, fault, part)
            written = now
        if now > ends:
            break
    else:
        if part["cases"] < last:  # there are no more
            part["full"] = part["cases"]
    _write(given.out, fault, part)
    return part


def _read(out: Path) -> dict[str, Any]:
    begun = {"benchmark": "chaos", "command": "python -m benchmarks.chaos", "faults": {}}
    return begun | (read_json(out) if out.exists() else {})


def _write(out: Path, fault: Fault, part: dict[str, Any]) -> None:
    """Into the file as it is now: another process may be at other faults."""
    out.parent.mkdir(parents=True, exist_ok=True)
    lock = out.with_name(f".{out.name}.lock")
    with FileLock(lock):
        result = _read(out)
        faults = result["faults"] | {fault.name: part}
        fields = (*empty(fault), "stamp")  # of a part, as this version knows it
        order = [name for name in FAULTS if name in faults]
        known = {name: {key: faults[name][key] for key in fields} for name in order}
        write_json(out, result | {"faults": known})
    lock.unlink(missing_ok=True)
    print(line(fault, part), flush=True)


def empty(fault: Fault) -> dict[str, Any]:
    """What is known of a fault before anything was tried."""
    about = {"done": fault.done, "promise": fault.promise, "full": fault.full}
    return {**about, "cases": 0, "kept": 0, "seconds": 0.0, "outcomes": {}, "figures": {},
            "broken": []}  # fmt: skip


def add(part: dict[str, Any], case: Case) -> None:
    """One more case in the counts."""
    part["cases"] += 1
    part["kept"] += case.passed
    outcomes = Counter(part["outcomes"]) + Counter([case.outcome])
    part["outcomes"] = dict(sorted(outcomes.items()))
    for name, value in case.figures.items():
        part["figures"][name] = max(value, part["figures"].get(name, value))
    if not case.passed and len(part["broken"]) < SHOWN:
        part["broken"].append({"case": case.number, "detail": case.detail})


def line(fault: Fault, part: dict[str, Any]) -> str:
    broken = part["cases"] - part["kept"]
    said = f"{fault.name}: {part['cases']} of {part['full']}, {broken} broken"
    return f"{said}; {part['broken'][-1]['detail']}" if broken else said


if __name__ == "__main__":
    main()
