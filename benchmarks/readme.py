"""The README's table of results, made from results/*.json and never by hand.

    python -m benchmarks.readme           put the table into README.md
    python -m benchmarks.readme --check   say whether it is there; exit code 1 where it is not
    python -m benchmarks.readme --print   print it and leave README.md alone

A file of `python -m benchmarks.families` is {"stamp": {...}, "runs": [...]}; other files of results
are passed over. Every file becomes one table: its runs are of one machine, and of one day.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lcpinn.families import FAMILIES
from lcpinn.study.paper import paper_row

ROOT = Path(__file__).resolve().parent.parent
README, RESULTS = ROOT / "README.md", ROOT / "results"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
PROTOCOL = "fast"
NOTHING = "_No results yet: `python -m benchmarks.families`, then `python -m benchmarks.readme`._"

Result = dict[str, Any]


def collect(folder: Path = RESULTS) -> list[Result]:
    """Every file with runs of the default protocol: CPUs first, then by name."""
    found = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    kept = [r for r in found if isinstance(r, dict) and "stamp" in r and _runs(r)]
    return sorted(kept, key=_on_accelerator)


def render(results: list[Result]) -> str:
    """All that stands between the two marks."""
    return "\n\n".join(_section(result) for result in results) or NOTHING


def _runs(result: Result) -> list[dict[str, Any]]:
    if "benchmark" in result:  # another one, whose runs are something else
        return []
    known = [run for run in result.get("runs", ()) if run["family"] in FAMILIES]
    return [run for run in known if run["protocol"] == PROTOCOL]


def _on_accelerator(result: Result) -> bool:
    """A CPU is described by how many cores it has, an accelerator by its name alone."""
    return re.search(r"\b\d+ cores\b", result["stamp"]["device"]) is None


def _section(result: Result) -> str:
    """A line about the machine, then the table."""
    timed = _on_accelerator(result)
    head = ["family", "paper", "minutes", "lcpinn, median", "worst seed", "largest, any λ and seed"]
    head += ["seconds"] if timed else []
    rows = [_row(result, name, timed) for name in FAMILIES if _of(result, name)]
    align = ["---", *["---:"] * (len(head) - 1)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, align, *rows))
    return f"{_caption(result, timed)}\n\n{table}"


def _caption(result: Result, timed: bool) -> str:
    stamp, runs = result["stamp"], _runs(result)
    counts = sorted({len(_of(result, name)) for name in FAMILIES if _of(result, name)})
    seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    noun = "seed" if counts[-1] == 1 else "seeds"
    jax = stamp.get("versions", {}).get("jax")
    made = f"{stamp['date'][:10]}{f', JAX {jax}' if jax else ''}"
    limit = "" if timed else f", at most {_limit(runs)} s a training with its compilation"
    return f"**{stamp['device']}**, {seeds} {noun}{limit} ({made}):"


def _limit(runs: list[dict[str, Any]]) -> int:
    """A minute; where a run took longer, the next ten seconds above it."""
    return max(60, 10 * math.ceil(max(run["seconds"]["total"] for run in runs) / 10))


def _of(result: Result, name: str) -> list[dict[str, Any]]:
    return [run for run in _runs(result) if run["family"] == name]


def _row(result: Result, name: str, timed: bool) -> list[str]:
    runs, family = _of(result, name), FAMILIES[name]()
    paper = paper_row(family) or {}
    errors = [run["error"]["mean"] for run in runs]
    dense = [run["error"]["dense_max"] for run in runs] if family.parameters.dim else []
    cells = [
        name,
        _error(paper["mean"]) if "mean" in paper else "–",
        f"{paper['wall_minutes']:.0f}" if "wall_minutes" in paper else "–",
        _error(np.median(errors)),
        _error(np.max(errors)),
        _error(np.max(dense)) if dense else "–",
    ]
    seconds = np.median([run["seconds"]["total"] for run in runs])
    return [*cells, *([f"{seconds:.0f}"] if timed else [])]


def _error(value: Any) -> str:
    """9.4e-4 rather than 9.4e-04."""
    return re.sub(r"e([+-])0(\d)$", r"e\1\2", f"{float(value):.1e}")


# -- README.md -----------------------------------------------------------------------------------


def filled(text: str, table: str) -> str:
    """The text with this table between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"README.md has lost the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        "benchmarks.readme", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--check", action="store_true", help="compare only; 1 where they differ")
    parser.add_argument("--print", action="store_true", help="print the table only")
    given = parser.parse_args(arguments)
    table = render(collect())
    if given.print:
        print(table)
        return
    text = README.read_text()
    wanted = filled(text, table)
    if text == wanted:
        print("README.md agrees with results/")
    elif given.check:
        sys.exit("README.md differs from results/; run python -m benchmarks.readme")
    else:
        README.write_text(wanted)
        print("README.md now has the table of results/")


if __name__ == "__main__":
    run(sys.argv[1:])
