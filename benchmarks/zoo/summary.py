"""What the runs of the zoo show: medians over seeds, counts against targets, wrong verdicts."""

from __future__ import annotations

import math
import statistics
from typing import Any

from benchmarks.zoo import ZOO, home
from benchmarks.zoo.training import Run

LIMITS = (1e-3, 1e-5)  # of the worst error over lambda, median over the seeds
# Of 24 families, how many are meant to stay below each limit.
TARGETS: dict[str, tuple[int, int]] = {"cpu": (20, 14), "h200": (23, 18)}
FACTOR = 3.0  # a verdict may be off by so much
TRUST = {"exact": 1e-12, "reference": 1e-9}  # how well the truth itself is known

Row = dict[str, Any]


def wrong(run: Run) -> bool | None:
    """Whether the verdict says solved while the error is above three times what it says.

    None where there is no verdict. A verdict of solved without a number promises its tolerance.
    """
    verdict = run.get("verdict")
    if verdict is None:
        return None
    if verdict["solved"] is not True:
        return False
    said = verdict["error"] if verdict["error"] is not None else verdict["tolerance"]
    kind = "exact" if ZOO[run["family"]].exact is not None else "reference"
    return run["error"]["worst"] > FACTOR * (said or 0.0) + TRUST[kind]


def summarise(runs: list[Run]) -> list[Row]:
    """One row for every family that has runs, in the order of the zoo."""
    return [_row(name, own) for name in ZOO if (own := [r for r in runs if r["family"] == name])]


def _row(name: str, runs: list[Run]) -> Row:
    # A training that failed has no error; it counts as one without a single digit.
    errors = [math.inf if "failed" in run else run["error"]["worst"] for run in runs]
    done = [run for run in runs if "failed" not in run]
    verdicts = [wrong(run) for run in done]
    return {
        "family": name,
        "class": home(ZOO[name]),
        "seeds": len(runs),
        "median": statistics.median(errors),
        "worst": max(errors),
        "mean": statistics.median(r["error"]["mean"] for r in done) if done else math.inf,
        "seconds": statistics.median(r["seconds"]["total"] for r in done) if done else math.nan,
        "solved": [(run.get("verdict") or {}).get("solved") for run in done],
        "verdicts": sum(answer is not None for answer in verdicts),
        "wrong": sum(answer is True for answer in verdicts),
    }


def table(rows: list[Row]) -> str:
    """One line for each family."""
    lines = [f"{'class':14}{'family':21}{'seeds':>5}{'median':>10}{'worst':>10}{'mean':>10}"]
    lines[0] += f"{'seconds':>9}  verdict"
    for row in rows:
        numbers = "".join(f"{row[key]:10.1e}" for key in ("median", "worst", "mean"))
        line = f"{row['class']:14}{row['family']:21}{row['seeds']:5}{numbers}"
        lines.append(f"{line}{row['seconds']:9.0f}  {_verdict(row)}")
    return "\n".join(lines)


def _verdict(row: Row) -> str:
    if row["wrong"]:
        return f"wrong, {row['wrong']} of {row['verdicts']}"
    words = {True: "solved", False: "not solved", None: "no answer"}
    said = [words[answer] for answer in row["solved"]] if row["verdicts"] else []
    return ", ".join(dict.fromkeys(said)) or "–"


def against_targets(rows: list[Row], targets: str) -> str:
    """The counts beside what is meant to be reached."""
    lines = [f"{len(rows)} of {len(ZOO)} families, beside the targets of {targets}:"]
    for limit, goal in zip(LIMITS, TARGETS[targets], strict=True):
        count = sum(row["median"] <= limit for row in rows)
        reached = "reached" if count >= goal else "missed" if len(rows) == len(ZOO) else "open"
        lines.append(f"  worst error at most {limit:.0e}: {count:2} (target {goal}: {reached})")
    verdicts, wrongs = (sum(row[key] for row in rows) for key in ("verdicts", "wrong"))
    judged = f"{wrongs} of {verdicts} (target 0)" if verdicts else "no run has a verdict"
    return "\n".join([*lines, f"  wrong verdicts: {judged}"])
