"""Any list of families, protocols, settings and seeds as runs of a study; what came of them."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lcpinn.checks import assignments
from lcpinn.errors import LcpinnError
from lcpinn.files import write_atomically
from lcpinn.locate import split
from lcpinn.protocol import PROTOCOLS
from lcpinn.study.budget import OWN
from lcpinn.study.run import Run, source_of
from lcpinn.study.store import Store

COLUMNS = (
    "family", "protocol", "at", "seed", "status", "error_mean", "error_max", "estimated_error",
    "solved", "residual", "parameters", "seconds", "stopped", "directory", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A family with the protocols and settings that a line of a list names; none: those asked."""

    family: str
    protocols: tuple[str, ...] = ()
    settings: tuple[Mapping[str, float], ...] = ()


def entries(words: Iterable[str]) -> list[Entry]:
    """Families as they are typed; FILE.txt is a list of them."""
    listed: list[Entry] = []
    for word in words:
        listed += read_list(Path(word)) if word.endswith(".txt") else [Entry(word)]
    return listed


def read_list(file: Path) -> list[Entry]:
    """One family a line, then protocols, then settings as k=3.25,nu=0.1; # begins a comment."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise LcpinnError(f"cannot read {file}: {reason}") from None
    listed = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            words = shlex.split(line, comments=True)
            if words:
                listed.append(_entry(words))
        except ValueError as error:  # LcpinnError is one
            raise LcpinnError(f"{file}, line {number}: {error}") from None
    if not listed:
        raise LcpinnError(f"{file} names no family")
    return listed


def _entry(words: Sequence[str]) -> Entry:
    family, *rest = words
    protocols = [word for word in rest if "=" not in word]
    unknown = [name for name in protocols if name not in PROTOCOLS]
    if unknown:
        raise LcpinnError(f"there is no protocol {unknown[0]!r}; there are {', '.join(PROTOCOLS)}")
    return Entry(family, tuple(protocols), tuple(setting(w) for w in rest if "=" in w))


def setting(text: str) -> dict[str, float]:
    """'k=3.25,nu=0.1' as numbers by name."""
    return assignments("--at", [text])


def seeds_of(text: str) -> list[int]:
    """'4' for the first four seeds, '0,3,7' for those three."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or numbers == [0] or len(set(numbers)) < len(numbers):
        raise LcpinnError(f"--seeds: {text!r} is neither how many there are nor a list as in 0,3,7")
    return numbers if "," in text else list(range(numbers[0]))


def planned(
    listed: Sequence[Entry],
    protocols: Sequence[str],
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    options: Mapping[str, float],
) -> list[Run]:
    """Every run once; what makes no sense is refused before anything is trained."""
    by_name: dict[str, Run] = {}
    for entry in listed:
        page, source = _absolute(entry.family), source_of(entry.family)
        for protocol in entry.protocols or protocols:
            for at in entry.settings or settings or ({},):
                first = Run(page, protocol, 0, at, OWN, "", options, source)
                _check(first)
                runs = [replace(first, seed=seed) for seed in seeds]
                by_name |= {run.name: run for run in runs}
    return list(by_name.values())


def _absolute(family: str) -> str:
    """As a process in another directory would name it."""
    file, name = split(family)
    return family if file is None else ":".join(filter(None, (str(file.resolve()), name)))


def _check(run: Run) -> None:
    # With a tolerance a protocol looks at solutions first, which takes its time.
    quick = {k: v for k, v in run.options.items() if k != "tolerance"}
    try:
        replace(run, options=quick).how()
    except LcpinnError as error:
        raise LcpinnError(f"{run.label}, {run.protocol}: {error}") from None


# -- What came of them -----------------------------------------------------------------------------


def rows(runs: Iterable[Run], store: Store, reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """A row for every run, those that failed or are not over among them."""
    return [_row(run, store.record(run), store.directory(run), reasons) for run in runs]


def _row(
    run: Run, record: Mapping[str, Any] | None, directory: Path, reasons: Mapping[str, str]
) -> dict[str, Any]:
    at = ",".join(f"{name}={value!r}" for name, value in run.at.items())
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"family": run.label, "protocol": run.protocol, "at": at, "seed": run.seed}
    if record is None:
        reason = reasons.get(run.name)
        return row | {"status": "failed" if reason else "pending", "reason": reason}
    verdict = record["verdict"]
    return row | {
        "status": "done",
        "error_mean": record["error"]["mean"],
        "error_max": record["error"]["dense_max"],
        "estimated_error": verdict["error"],
        "solved": verdict["solved"],
        "residual": record["validation"]["residual"],
        "parameters": record["parameters"],
        "seconds": record["seconds"]["total"],
        "stopped": "; ".join(record["stopped"]),
        "directory": str(directory) if directory.exists() else None,
    }


def line(row: Mapping[str, Any]) -> str:
    """One run in one line."""
    words = " ".join(filter(None, (row["family"], row["protocol"], row["at"])))
    title = f"{words}, seed {row['seed']}"
    if row["status"] != "done":
        return f"{title}: {row['status']}" + (f": {row['reason']}" if row["reason"] else "")
    known = [("error", row["error_mean"]), ("estimated", row["estimated_error"])]
    numbers = [f"{name} {value:.1e}" for name, value in known if value is not None]
    return ", ".join((f"{title}: {row['seconds']:.0f} s", *numbers))


def write_csv(path: Path, table: Sequence[Mapping[str, Any]]) -> None:
    """The rows under their columns' names; nothing where there is nothing."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([COLUMNS, *([row[name] for name in COLUMNS] for row in table)])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LcpinnError(f"cannot write to {path.parent}: {error.strerror}") from None
    write_atomically(path, text.getvalue().encode())
