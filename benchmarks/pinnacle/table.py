"""The table of docs/pinnacle.md, out of results/pinnacle-*.json and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pinnacle.registry import LEFT_OUT, PROBLEMS
from lcpinn.files import read_json

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pinnacle.md"
BEGIN, END = "<!-- pinnacle:begin -->", "<!-- pinnacle:end -->"
# Of the best published error, or the reference's own accuracy where that is larger.
SHARES = {"a hundredth": 0.01, "a tenth": 0.1}

Result = dict[str, Any]


def results() -> list[Path]:
    """The files of this benchmark that are in the repository, accelerators last."""
    return sorted((ROOT / "results").glob("pinnacle-*.json"))


def write(files: Sequence[Path], page: Path) -> None:
    """Print the table, and put it between the page's marks where it has any."""
    text = render([read_json(file) for file in files])
    print(text)
    if not page.exists():
        return
    before, mark, rest = page.read_text().partition(BEGIN)
    _, closing, after = rest.partition(END)
    if mark and closing:
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def render(files: Sequence[Result]) -> str:
    """For every file what it is and its rows, then what is left out and why."""
    parts = [
        f"{heading(result)}\n\n{rows(result)}\n\n{summary(result)}"
        for result in files
        if measured_entries(result)
    ]
    return "\n\n".join([*parts, left_out()])


def measured_entries(result: Result) -> list[Result]:
    """Of the networks that were trained, those that have been compared with their references."""
    return [entry for entry in result["problems"].values() if "rows" in entry]


def heading(result: Result) -> str:
    """Device, time limit and date of the entries."""
    entries = measured_entries(result)
    devices = dict.fromkeys(
        e["stamp"]["device"] + (f", {e['jobs']} at once" if e["jobs"] > 1 else "") for e in entries
    )
    seconds = sorted({e["seconds"] for e in entries})
    limits = ", ".join(f"{s:g}" for s in seconds)
    dates = sorted(e["stamp"]["date"][:10] for e in entries)
    seeds = ", ".join(str(s) for s in sorted({e["seed"] for e in entries}))
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f"**{'; '.join(devices)}**, at most {limits} s a family, seed {seeds} ({span}):"


def rows(result: Result) -> str:
    """One line for every published row."""
    lines = [
        "| problem | one network for | vanilla | best published | ours | times better "
        "| against the published file | that file itself | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name in PROBLEMS:
        entry = result["problems"].get(name)
        if entry is None or not {"failed", "rows"} & set(entry):
            continue  # not trained, or not measured yet
        if "failed" in entry:
            names = ", ".join(row.name for row in PROBLEMS[name].rows)
            lines.append(f"| {names} | | | | failed | | | | {entry['failed']} |")
            continue
        lines += [_line(entry, row, name) for row in entry["rows"]]
    return "\n".join(lines)


def _line(entry: Result, row: Result, name: str) -> str:
    settings = [dict(at) for published in PROBLEMS[name].rows for at in published.at
                if published.name == row["name"]]  # fmt: skip
    own = [value for value in entry["values"] if value["at"] in settings]
    ranges = ", ".join(f"{k} {low:g} to {high:g}" for k, (low, high) in entry["ranges"].items())
    ours = f"{row['error']:.1e}"
    if row["error"] <= goal(row, entry, 0.01):
        ours = f"**{ours}**"
    cells = [
        row["name"], ranges or "one problem", f"{row['vanilla']:.1e}",
        f"{row['best']:.1e} ({row['method']})", ours, f"{row['ratio']:.3g}",
        _mean(own, "published"), _mean(own, "reference"), _verdict(entry),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def goal(row: Result, entry: Result, share: float) -> float:
    """A share of the best published error, or what the reference is known to."""
    return max(share * row["best"], entry["accuracy"])


def _mean(values: Sequence[Result], key: str) -> str:
    known = [value[key] for value in values if value.get(key) is not None]
    return f"{sum(known) / len(known):.1e}" if known else "–"


def _verdict(entry: Result) -> str:
    verdict = entry["verdict"]
    if entry["wrong"]:
        return "**wrong**"
    words = {True: "solved", False: "not solved", None: "none"}[verdict["solved"]]
    return words if verdict["error"] is None else f"{words} ({verdict['error']:.1e})"


def summary(result: Result) -> str:
    """How many rows are within a tenth and a hundredth of the best; verdicts, and wrong ones."""
    entries = measured_entries(result)
    pairs = [(row, entry) for entry in entries for row in entry["rows"]]
    counts = [
        f"{sum(row['error'] <= goal(row, entry, share) for row, entry in pairs)} within {words}"
        for words, share in SHARES.items()
    ]
    better = sum(row["error"] < row["best"] for row, _ in pairs)
    wrong = sum(bool(entry["wrong"]) for entry in entries)
    given = sum(entry["verdict"]["solved"] is not None for entry in entries)
    return (
        f"Of {len(pairs)} rows {better} are below the best published error, {', '.join(counts)} of "
        f"it (or of the reference's own accuracy). Of {len(entries)} networks {given} have a "
        f"verdict, of which {wrong} are wrong."
    )


def left_out() -> str:
    """The published rows that no family answers, with the reason."""
    lines = ["| not here | vanilla | best published | why |", "| --- | ---: | ---: | --- |"]
    for row in LEFT_OUT:
        best = f"{row.best:.1e} ({row.method})"
        lines.append(f"| {row.name} | {row.vanilla:.1e} | {best} | {row.reason} |")
    return "\n".join(lines)
