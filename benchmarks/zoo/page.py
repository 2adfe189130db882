"""The table of docs/zoo.md, out of results/zoo-cpu.json and results/zoo-h200.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.zoo import ZOO, home
from benchmarks.zoo.summary import LIMITS, Row, summarise
from lcpinn.files import read_json

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "zoo.md"
FILES = (ROOT / "results" / "zoo-cpu.json", ROOT / "results" / "zoo-h200.json")
BEGIN, END = "<!-- zoo:begin -->", "<!-- zoo:end -->"
WORDS = {True: "solved", False: "not solved", None: "–"}


def write(page: Path = PAGE) -> None:
    """Print the table, and put it between the page's marks."""
    text = render([read_json(file) for file in FILES if file.exists()])
    print(text)
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def render(results: Sequence[dict[str, Any]]) -> str:
    """A line for each family, with the seeds' errors and verdicts on every machine; the counts."""
    heads = [_heading(result) for result in results]
    lines = [f"| class | family | {' | '.join(f'{h} | verdicts' for h in heads)} |"]
    lines.append("| --- | --- |" + " ---: | --- |" * len(heads))
    rows = [{row["family"]: row for row in summarise(result["runs"])} for result in results]
    for name, made in ZOO.items():
        cells = [_cells(result, name) for result in results]
        lines.append(f"| {home(made)} | `{name}` | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(_counts(h, r) for h, r in zip(heads, rows, strict=True))])


def _heading(result: dict[str, Any]) -> str:
    return f"{result['stamp']['device']}, {result['seconds']:g} s"


def _cells(result: dict[str, Any], name: str) -> str:
    runs = [run for run in result["runs"] if run["family"] == name and "failed" not in run]
    errors = ", ".join(f"{run['error']['worst']:.1e}" for run in runs) or "–"
    said = ", ".join(dict.fromkeys(WORDS[(run["verdict"] or {}).get("solved")] for run in runs))
    return f"{errors} | {said or '–'}"


def _counts(heading: str, rows: dict[str, Row]) -> str:
    below = [sum(row["median"] <= limit for row in rows.values()) for limit in LIMITS]
    counts = " and ".join(
        f"{n} at most {limit:.0e}" for n, limit in zip(below, LIMITS, strict=True)
    )
    runs, wrong = (sum(row[key] for row in rows.values()) for key in ("seeds", "wrong"))
    return f"- {heading}: of {len(rows)} families {counts}; of {runs} verdicts {wrong} wrong."
