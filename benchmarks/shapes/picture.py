"""Families on shapes at one glance: errors of every run, and estimates against true errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.shapes.families import FAMILIES
from lcpinn.plot.style import COLOURS, MARKERS, in_style, save

WITHIN = 3.0  # the factor that the band about the diagonal shows


@in_style
def draw(result: dict[str, Any], path: Path) -> Path:
    """Left the errors over lambda of every run, right every estimate over the true error."""
    runs = [run for run in result["runs"] if "failed" not in run]
    figure = Figure(figsize=(7.0, 3.4))
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.1))
    _errors(left, runs)
    _estimates(right, runs)
    # Runs of one file may come from several machines.
    devices = sorted({run.get("device", result["stamp"]["device"]) for run in runs})
    words = ["relative error: mean (|) and largest (o) over λ", *devices]
    left.set_xlabel("\n".join(words) + f", {result['seconds']:g} s each")
    right.set_xlabel("true relative error at one λ")
    right.set_ylabel("estimate, made without the truth")
    return save(figure, path)


def _names(runs: list[dict[str, Any]]) -> list[str]:
    present = {run["family"] for run in runs}
    return [name for name in FAMILIES if name in present]


def _look(name: str) -> tuple[str, str]:
    place = list(FAMILIES).index(name)
    return COLOURS[place % len(COLOURS)], MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]


def _errors(axis: Axes, runs: list[dict[str, Any]]) -> None:
    names = _names(runs)
    for run in runs:
        height, (colour, _) = names.index(run["family"]), _look(run["family"])
        mean, largest = run["error"]["mean"], run["error"]["dense_max"]
        height += 0.3 * (run["seed"] % 2) - 0.15
        axis.plot([mean, largest], [height] * 2, color=colour, lw=0.8)
        axis.plot(mean, height, "|", color=colour, ms=6)
        axis.plot(largest, height, "o", color=colour, ms=4)
    axis.set_xscale("log")
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(True, axis="y")


def _estimates(axis: Axes, runs: list[dict[str, Any]]) -> None:
    rows = [(run["family"], s) for run in runs for s in run["settings"]]
    known = [(name, s) for name, s in rows if s["estimate"] is not None]
    values = [v for _, s in known for v in (s["error"], s["estimate"])] or [1e-6, 1.0]
    ends = [min(values) / 3, max(values) * 3]
    axis.fill_between(ends, [v / WITHIN for v in ends], [v * WITHIN for v in ends], color="0.93")
    axis.plot(ends, ends, color="0.5", lw=0.8)
    for name in _names(runs):
        colour, marker = _look(name)
        own = [s for other, s in known if other == name]
        none = sum(other == name for other, _ in rows) - len(own)
        label = name if not none else f"{name} ({none} without)"
        axis.plot(
            [s["error"] for s in own], [s["estimate"] for s in own], marker, color=colour, ms=4,
            mfc="white", label=label,
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(ends[0], ends[1])
    axis.set_ylim(ends[0], ends[1])
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
