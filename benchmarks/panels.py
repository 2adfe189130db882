"""A small panel for every family with one legend below them; and names beside points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = 3
# Where a name may stand from its point, in points: the nearest place that is free.
DISTANCES, DIRECTIONS = (4, 8, 13, 19, 26, 34, 44, 55), 16
LETTER, LINE = 0.52, 1.15  # the width of a letter and the height of a line, of the font's size


def family_panels(
    families: Mapping[str, Any],
    panel: Callable[[Axes, Any], None],
    *,
    title: str,
    ylabel: str,
    xlabel: str | None = None,
) -> Figure:
    """`panel(axis, entry)` draws one of them; labels stand at the outer panels alone."""
    columns = min(COLUMNS, len(families))
    rows = -(-len(families) // columns)
    figure = Figure(figsize=(3.5 * columns, 2.7 * rows + 0.7), layout="constrained", dpi=150)
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axis, (name, entry) in zip(axes, families.items(), strict=False):
        panel(axis, entry)
        axis.set_title(name, fontsize=10)
        axis.tick_params(labelsize=8)
    for axis in axes[len(families) :]:
        axis.set_visible(False)
    for axis in axes[::columns]:
        axis.set_ylabel(ylabel, fontsize=9)
    for axis in axes[-columns:] if xlabel else ():
        axis.set_xlabel(xlabel, fontsize=9)
    handles = {}
    for axis in axes:
        handles |= {label: h for h, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(len(handles), columns + 1),
        frameon=False,
        fontsize=8,
    )
    figure.suptitle(title, fontsize=10)
    return figure


def name_points(
    axis: Axes,
    points: Mapping[str, tuple[float, float]],
    others: Sequence[tuple[float, float]] = (),
    *,
    size: float = 5.0,
) -> None:
    """Write a name beside each point, where it covers no other name and as few points as it can.

    To be called when everything is drawn: positions are those on the page, and the layout is fixed
    from here on. A name that had to go far is tied to its point by a line.
    """
    figure = axis.get_figure(root=True)
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    to_points = 72 / figure.dpi
    on_page = {n: axis.transData.transform(p) * to_points for n, p in points.items()}
    dots = [*on_page.values(), *(axis.transData.transform(p) * to_points for p in others)]
    frame = np.ravel(axis.get_window_extent().get_points()) * to_points
    taken: list[np.ndarray] = []
    for name, at in sorted(on_page.items(), key=lambda item: -item[1][1]):
        box, offset = min(
            _places(at, LETTER * size * len(name), LINE * size),
            key=lambda place: _cost(place, taken, dots, frame),
        )
        taken.append(box)
        far = math.hypot(*offset) > 2 * DISTANCES[0] + LETTER * size * len(name) / 2
        line = {"arrowstyle": "-", "lw": 0.3, "color": "0.6", "shrinkA": 0, "shrinkB": 1}
        axis.annotate(
            name, points[name], offset, textcoords="offset points", fontsize=size, ha="center",
            va="center", arrowprops=line if far else None,
        )  # fmt: skip


def _places(at: np.ndarray, width: float, height: float) -> list[tuple[np.ndarray, tuple]]:
    """Boxes (left, bottom, right, top) around a point, the nearest first, and their offsets."""
    places = []
    for distance, turn in itertools.product(DISTANCES, range(DIRECTIONS)):
        angle = 2 * math.pi * turn / DIRECTIONS
        across, up = math.cos(angle), math.sin(angle)
        offset = (across * (distance + width / 2), up * (distance + height / 2))
        left, bottom = at[0] + offset[0] - width / 2, at[1] + offset[1] - height / 2
        places.append((np.array([left, bottom, left + width, bottom + height]), offset))
    return places


def _cost(
    place: tuple[np.ndarray, tuple[float, float]],
    taken: Sequence[np.ndarray],
    dots: Sequence[np.ndarray],
    frame: np.ndarray,
) -> float:
    """Names must not cover names or leave the frame, should not cover points, and stay near."""
    (left, bottom, right, top), offset = place
    outside = left < frame[0] or bottom < frame[1] or right > frame[2] or top > frame[3]
    covered = sum(left < b[2] and b[0] < right and bottom < b[3] and b[1] < top for b in taken)
    points = sum(left - 1 < x < right + 1 and bottom - 1 < y < top + 1 for x, y in dots)
    return 1e4 * (covered + outside) + 20 * points + math.hypot(*offset)
