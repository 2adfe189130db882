"""The estimated error against lambda."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lcpinn.plot.style import COLOURS, DOUBLE, in_style, line, logarithmic, save, setting, symbol
from lcpinn.solution import Solution


def write(
    solution: Solution, report: Mapping[str, Any], truth: Sequence[float] | None, path: Path
) -> Path:
    """The estimated error against lambda, the worst of it marked; the true one where known."""
    return save(figure(solution, report, truth), path)


@in_style
def figure(solution: Solution, report: Mapping[str, Any], truth: Sequence[float] | None) -> Figure:
    family, rows = solution.family, report["settings"]
    free = family.parameters.free
    along = [row["at"][free[0]] if len(free) == 1 else i for i, row in enumerate(rows)]
    errors = [np.nan if row["error"] is None else row["error"] for row in rows]
    drawn = Figure(figsize=(0.75 * DOUBLE, 2.8))
    axis = drawn.subplots()
    single = len(rows) == 1  # a point and no curve: a ring around the estimate is the true error
    point: dict[str, Any] = {"marker": "o", "linestyle": "none"} if single else {}
    ring = {**point, "markersize": 11, "mfc": "none", "mew": 2} if single else {}
    if truth is not None:
        axis.plot(along, truth, color=COLOURS[1], lw=2.5, alpha=0.5, label="true", **ring)
    axis.plot(along, errors, label="estimated", **(line(0) | point))
    if single:
        axis.set(xticks=[], xlim=(-1, 1))
    elif report["worst"] is not None:
        worst = rows.index(report["worst"])
        at = report["worst"]["at"]
        text = ", ".join(filter(None, ("worst", setting(tuple(at), tuple(at.values())))))
        axis.plot(along[worst], errors[worst], "o", color="black", label=text)
    if report["tolerance"] is not None:
        axis.axhline(report["tolerance"], color="0.4", ls="--", lw=1, label="tolerance")
    if len(free) == 1 and family.parameters.axes[family.parameters.names.index(free[0])].log:
        axis.set_xscale("log")
    axis.set(xlabel=symbol(free[0]) if len(free) == 1 else "" if single else "setting")
    axis.set(ylabel="relative $L^2$ error")
    axis.set_title(f"{family.name}, {solution.protocol.name}")
    logarithmic(axis)
    axis.legend()
    return drawn
