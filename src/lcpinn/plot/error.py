"""The error where the truth is known: over the domain, and over lambda beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from lcpinn.errors import LcpinnError
from lcpinn.evaluation import dense_values, grid_values, true_errors
from lcpinn.plot.outline import outline, row_height
from lcpinn.plot.solution import label_curves
from lcpinn.plot.style import (
    COLOURS,
    DECADES,
    DOUBLE,
    MARKERS,
    SINGLE,
    TITLE,
    Scale,
    above,
    colour_bar,
    image,
    in_style,
    line,
    log_scale,
    logarithmic,
    plain_ticks,
    setting,
    symbol,
    tall,
)
from lcpinn.plot.values import (
    ACROSS,
    Corrected,
    Plane,
    Settings,
    choose,
    corrected_view,
    evolves,
    gap_at,
    known,
    line_points,
    outputs_at,
    planes,
    suffix,
    truth_at,
)
from lcpinn.solution import Solution
from lcpinn.study.paper import paper_row


def against(solution: Solution, run: Path | None = None) -> str | None:
    """Why there is no such picture."""
    if known(solution.family):
        return None
    return f"{solution.family.name} has neither exact nor reference: its error is not known"


@in_style
def figure(solution: Solution, at: Settings = (), corrected: bool = False) -> Figure:
    """The absolute error over the domain, and the relative one over lambda or over time.

    `corrected` adds that of the corrected solution to curves, and draws it in place of the
    network's where there are fields.
    """
    reason = against(solution)
    if reason is not None:
        raise LcpinnError(reason)
    family = solution.family
    shown = corrected_view(solution) if corrected else solution
    if family.domain.dim == 1:
        return _curves_and_lambda(solution, shown, choose(solution, at, most=5))
    chosen = choose(solution, at, most=3)
    if not family.parameters.free and len(chosen) == 1 and family.domain.dim == 2:
        return _field_and_time(shown, chosen[0])
    return _fields_and_lambda(solution, shown, chosen)


# -- One coordinate ------------------------------------------------------------------------------


def _curves_and_lambda(solution: Solution, shown: Solution, chosen: np.ndarray) -> Figure:
    """Curves of the network's error and, where another one is shown, beside them of that."""
    family = solution.family
    over = bool(family.parameters.free)
    num = len(family.outputs) + over
    drawn = Figure(figsize=(SINGLE if num == 1 else DOUBLE, 2.7))
    axes = np.atleast_1d(drawn.subplots(1, num))
    for i in range(len(family.outputs)):
        curves(axes[i], solution, chosen, i)
        if shown is not solution:
            curves(axes[i], shown, chosen, i)
        label_curves(axes[i], solution, chosen)
    if over:
        over_lambda(axes[-1], solution)
        corrected_over_lambda(axes[-1], shown, chosen)
        above(axes[-1], 2)
    return drawn


def curves(axis: Axes, solution: Solution, chosen: np.ndarray, output: int = 0) -> None:
    """The absolute error of one output over the only coordinate, a curve for each setting.

    Those of corrected values are thin, all under one name, and as many decades down as they are.
    """
    family = solution.family
    (name,) = family.domain.names
    points, corrected = line_points(family, name), isinstance(solution, Corrected)
    for i, lam in enumerate(chosen):
        label, look = setting(family.parameters.names, lam) or None, {"lw": 0.9, **line(i)}
        if corrected:
            label = "corrected" if i == len(chosen) - 1 else None
            look |= {"lw": 0.4, "linestyle": "-"}
        # Where a condition is imposed exactly the error is zero, which a logarithm cannot show.
        gap = gap_at(solution, points, lam)[:, output]
        axis.plot(points[:, 0], np.where(gap > 1e-17, gap, np.nan), label=label, **look)
    axis.set(xlabel=symbol(name), ylabel=f"absolute error of {symbol(family.outputs[output])}")
    axis.set_xlim(*family.domain.ranges[name])
    axis.autoscale(axis="y")  # curves that are there already have set limits
    logarithmic(axis, None if corrected else DECADES)


# -- Two coordinates and more --------------------------------------------------------------------


def _field_and_time(solution: Solution, lam: np.ndarray) -> Figure:
    """The field of the error, and beside it the relative error at each time, where there is one."""
    family = solution.family
    (plane,) = planes(family)
    gaps = gap_at(solution, plane.points, lam)
    timed = evolves(family)
    drawn = Figure(figsize=(DOUBLE if timed else SINGLE, tall(len(family.outputs), 2.5)))
    rows = drawn.subplots(len(family.outputs), 1 + timed, squeeze=False)
    for i, axes in enumerate(rows):
        name = symbol(family.outputs[i]) + suffix(solution)
        field(axes[0], plane, gaps[:, i], f"absolute error of {name}")
        outline(axes[0], family, plane, lam)
        if timed:
            over_time(axes[1], solution, plane, lam, i)
    return drawn


def field(axis: Axes, plane: Plane, gap: np.ndarray, label: str) -> None:
    """The field of the absolute error, on a logarithmic scale."""
    colour_bar(image(axis, plane.shaped(gap), plane.extent, *log_scale(gap)), axis, label)
    axis.set(xlabel=symbol(plane.across), ylabel=symbol(plane.up))


def over_time(
    axis: Axes, solution: Solution, plane: Plane, lam: np.ndarray, output: int = 0
) -> None:
    """The relative L² error over space at each time."""
    family = solution.family
    value, truth = (
        plane.shaped(v[:, output])
        for v in (
            outputs_at(solution, plane.points, lam),
            truth_at(family, plane.points, lam),
        )
    )
    if plane.across != "t":
        value, truth = value.T, truth.T
    truth = np.where(np.isnan(value), 0.0, truth)  # outside of the shape nothing is compared
    size = np.linalg.norm(truth, axis=1)
    error = np.linalg.norm(np.nan_to_num(value) - truth, axis=1) / np.where(size > 0, size, 1)
    instants = np.linspace(*family.domain.ranges["t"], ACROSS)
    axis.plot(instants, np.where(error > 1e-17, error, np.nan), **line(0))
    name = symbol(family.outputs[output]) + suffix(solution)
    axis.set(xlabel=symbol("t"), ylabel=rf"relative $L^2$ error of {name}")
    axis.set_xlim(*family.domain.ranges["t"])
    logarithmic(axis)


def _fields_and_lambda(solution: Solution, shown: Solution, chosen: np.ndarray) -> Figure:
    """A column for each setting, a row for each plane and output, and below the error over λ."""
    family = solution.family
    over, shown_planes = bool(family.parameters.free), planes(family)
    gaps = [[gap_at(shown, plane.points, lam) for lam in chosen] for plane in shown_planes]
    num_rows = len(family.outputs) * len(shown_planes)
    each = row_height(family, shown_planes[0], len(chosen))
    heights = [each + TITLE, *[each] * (num_rows - 1), *[2.4] * over]
    drawn = Figure(figsize=(DOUBLE, tall(1, sum(heights))))
    parts = drawn.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for output, name in enumerate(family.outputs):
        scale = log_scale(*(gap[:, output] for row in gaps for gap in row))
        for i, plane in enumerate(shown_planes):
            part, row = parts[output * len(shown_planes) + i], [gap[:, output] for gap in gaps[i]]
            axes = _field_row(part, plane, row, scale, symbol(name) + suffix(shown))
            for axis, lam in zip(axes, chosen, strict=True):
                outline(axis, family, plane, lam)
            if part is parts[0] and family.parameters.dim:
                for axis, lam in zip(axes, chosen, strict=True):
                    axis.set_title(setting(family.parameters.names, lam))
    if over:
        axis = parts[-1].subplots()
        over_lambda(axis, solution)
        corrected_over_lambda(axis, shown, chosen)
        if axis.get_legend_handles_labels()[0]:
            parts[-1].legend(*axis.get_legend_handles_labels(), loc="outside right center")
    return drawn


def _field_row(
    part: SubFigure,
    plane: Plane,
    gaps: Sequence[np.ndarray],
    scale: Scale,
    name: str,
) -> Sequence[Axes]:
    axes = part.subplots(1, len(gaps), sharey=True, squeeze=False)[0]
    pictures = [
        image(axis, plane.shaped(gap), plane.extent, *scale)
        for axis, gap in zip(axes, gaps, strict=True)
    ]
    for axis in axes:
        axis.set_xlabel(symbol(plane.across))
    axes[0].set_ylabel(symbol(plane.up))
    held_at = setting(tuple(plane.held), tuple(plane.held.values()))
    colour_bar(pictures[0], list(axes), f"error of {name}" + (f", {held_at}" if held_at else ""))
    return axes


# -- Over lambda ---------------------------------------------------------------------------------


def over_lambda(axis: Axes, solution: Solution) -> None:
    """The relative L² error over the coefficients: a curve, a map of two, or draws of more."""
    free = solution.family.parameters.free
    if len(free) == 1:
        _over_one(axis, solution)
    elif len(free) == 2:
        _over_two(axis, solution)
    else:
        _over_many(axis, solution)


def corrected_over_lambda(axis: Axes, shown: Solution, chosen: np.ndarray) -> None:
    """The error of corrected values at the settings that are drawn, beside the network's curve."""
    free = shown.family.parameters.free
    if not isinstance(shown, Corrected):
        return
    if len(free) != 1:
        axis.set_title("the network's error")
        return
    along = shown.family.parameters.names.index(*free)
    axis.plot(chosen[:, along], errors(shown, chosen), "D", color=COLOURS[2], mfc="white",
              label="corrected")  # fmt: skip
    axis.autoscale(axis="y")
    logarithmic(axis)


def errors(solution: Solution, settings: np.ndarray) -> np.ndarray:
    relative = true_errors(solution, settings)
    assert relative is not None
    return np.array(relative)


def _over_one(axis: Axes, solution: Solution) -> None:
    """Dense in the coefficient, with the grid of the mean marked, and the paper's numbers."""
    family = solution.family
    (name,) = family.parameters.free
    along = family.parameters.names.index(name)
    dense, grid = dense_values(family), grid_values(family)
    axis.plot(dense[:, along], errors(solution, dense), label="lcpinn", **line(0))
    axis.plot(grid[:, along], errors(solution, grid), "o", color=COLOURS[0],
              label="paper’s grid" if paper_row(family) else "grid")  # fmt: skip
    if family.parameters.axes[along].log:
        axis.set_xscale("log")
    _paper(axis, solution, name)
    axis.set(xlabel=symbol(name), ylabel="relative $L^2$ error")
    logarithmic(axis)


def _paper(axis: Axes, solution: Solution, name: str) -> None:
    """What the paper reports for the same method: at each lambda, or at least the mean."""
    row = paper_row(solution.family, solution.protocol.name)
    if row is None:
        return
    at = [(cell[name], cell["error"]) for cell in row["grid"] if name in cell]
    if at:
        axis.plot(*zip(*at, strict=True), "s", color=COLOURS[1], mfc="white", label="paper")
    else:
        axis.axhline(row["mean"], label="paper, mean", lw=0.9, **line(1))


def _over_two(axis: Axes, solution: Solution) -> None:
    family = solution.family
    names, free = family.parameters.names, family.parameters.free
    dense = dense_values(family)
    a, b = (np.unique(dense[:, names.index(name)]) for name in free)
    relative = errors(solution, dense).reshape(len(a), len(b))
    norm, cmap = log_scale(relative)
    mesh = axis.pcolormesh(a, b, relative.T, norm=norm, cmap=cmap, rasterized=True)
    colour_bar(mesh, axis, "relative $L^2$ error")
    for name, scaled in zip(free, (axis.set_xscale, axis.set_yscale), strict=True):
        if family.parameters.axes[names.index(name)].log:
            scaled("log")
        else:
            plain_ticks(axis.xaxis if name == free[0] else axis.yaxis)
    axis.set(xlabel=symbol(free[0]), ylabel=symbol(free[1]))


def _over_many(axis: Axes, solution: Solution) -> None:
    """Draws from the prior: the error against where each lies in the range of each coefficient."""
    family = solution.family
    draws = family.parameters.sobol(64)
    relative, unit = errors(solution, draws), np.asarray(family.parameters.to_unit(draws))
    for i, name in enumerate(family.parameters.free):
        column = unit[:, family.parameters.names.index(name)]
        axis.plot(column, relative, MARKERS[i % 6], color=COLOURS[i % 6], ms=3, label=symbol(name))
    axis.set(xlabel="position in the range", ylabel="relative $L^2$ error")
    logarithmic(axis)
