"""The whole zoo at one glance: error and verdict of every run, family by family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.zoo import ZOO, classes_of, home
from benchmarks.zoo.summary import LIMITS, wrong
from benchmarks.zoo.training import Run
from lcpinn.plot.style import COLOURS, in_style, save

LOWEST, HIGHEST = 1e-12, 3.0  # of the axis; runs beyond stand at its ends
GAP = 0.7  # between two classes, in rows
BLUE, RED, GREEN = COLOURS[:3]
MARKS: dict[str, dict[str, Any]] = {
    "says solved": {"marker": "o", "mfc": GREEN, "mec": GREEN},
    "says not solved": {"marker": "o", "mfc": "white", "mec": BLUE},
    "no verdict": {"marker": "o", "mfc": "0.6", "mec": "0.6"},
    "says solved, wrong": {"marker": "X", "mfc": RED, "mec": RED, "ms": 7},
    "training failed": {"marker": ">", "mfc": "black", "mec": "black"},
}


@in_style
def draw(result: dict[str, Any], path: Path) -> Path:
    """A row for each family, grouped by class: a mark for every run, and what its verdict says."""
    heights, titles = _rows()
    figure = Figure(figsize=(7.0, 0.19 * max(heights.values()) + 1.3))
    axis = figure.subplots()
    _background(axis, heights, titles)
    runs = result["runs"]
    seeds = sorted({run["seed"] for run in runs})
    for run in runs:
        # Seeds stand one below the other, close enough to belong together.
        spread = 0.0 if len(seeds) == 1 else 0.36 * (seeds.index(run["seed"]) / (len(seeds) - 1))
        _mark(axis, run, heights[run["family"]] + spread - (0.18 if len(seeds) > 1 else 0))
    axis.legend(
        handles=_legend(runs), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3,
        columnspacing=1.2, handletextpad=0.4,
    )  # fmt: skip
    stamp, seconds = result["stamp"], result["seconds"]
    asked = "" if seconds is None else f"; {seconds:g} s each"
    axis.set_xlabel(f"worst relative error over λ ({stamp['device']}{asked})")
    return save(figure, path)


def _rows() -> tuple[dict[str, float], dict[str, float]]:
    """The height of every family and of the title of every class, from the top."""
    heights: dict[str, float] = {}
    titles: dict[str, float] = {}
    height = 0.0
    for name, made in ZOO.items():
        if home(made) not in titles:
            height += GAP if titles else 0.0
            titles[home(made)] = height
        heights[name] = height
        height += 1.0
    return heights, titles


def _background(axis: Axes, heights: dict[str, float], titles: dict[str, float]) -> None:
    axis.set_xscale("log")
    axis.set_xlim(LOWEST / 2, HIGHEST * 2)
    axis.set_ylim(max(heights.values()) + 0.8, -0.8)
    axis.set_yticks(list(heights.values()), [_label(name) for name in heights])
    axis.set_xticks([10.0**n for n in range(-12, 1, 2)])
    axis.tick_params(axis="y", length=0)
    axis.grid(True, axis="y")
    axis.set_axisbelow(True)
    for limit in LIMITS:
        axis.axvline(limit, color="0.5", lw=0.8, ls=(0, (4, 2)), zorder=1)
    for title, height in titles.items():
        axis.text(1.02, height, title.replace("-", " "), transform=axis.get_yaxis_transform(),
                  va="center", style="italic", fontsize=9)  # fmt: skip
        if height:
            axis.axhline(height - (1 + GAP) / 2, color="0.75", lw=0.6)


def _label(name: str) -> str:
    """A family, and the class that it is in besides the one where it stands."""
    others = ", ".join(classes_of(name)[1:]).replace("-", " ")
    return f"{name}, also {others}" if others else name


def _kind(run: Run) -> str:
    if "failed" in run:
        return "training failed"
    if wrong(run):
        return "says solved, wrong"
    solved = (run.get("verdict") or {}).get("solved")
    return {True: "says solved", False: "says not solved", None: "no verdict"}[solved]


def _mark(axis: Axes, run: Run, height: float) -> None:
    kind = _kind(run)
    inside = lambda value: min(max(value, LOWEST), HIGHEST)
    error = inside(HIGHEST if kind == "training failed" else run["error"]["worst"])
    said = (run.get("verdict") or {}).get("error")
    if said is not None:
        colour = MARKS[kind]["mec"]
        axis.plot([error, inside(said)], [height] * 2, color=colour, lw=0.8, zorder=2)
        axis.plot(inside(said), height, "|", color=colour, ms=6, mew=1.2, zorder=2)
    axis.plot(error, height, **{"ms": 4.5, "mew": 0.9, "ls": "", "zorder": 3, **MARKS[kind]})


def _legend(runs: list[Run]) -> list[Line2D]:
    """The marks that occur, and the estimate where one does."""
    present = {_kind(run) for run in runs}
    entries = [
        Line2D([], [], label=kind, **{"ls": "", "ms": 4.5, **mark})
        for kind, mark in MARKS.items()
        if kind in present
    ]
    if any((run.get("verdict") or {}).get("error") is not None for run in runs):
        estimate = {"color": "0.3", "marker": "|", "ls": "", "ms": 6, "mew": 1.2}
        entries.append(Line2D([], [], label="what the verdict says", **estimate))
    return entries
