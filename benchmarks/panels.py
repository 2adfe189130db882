"""A small panel for every family, with one legend below them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = 3


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
