"""The solution itself: curves, fields and slices, over lambda."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from lcpinn.plot.outline import outline, row_height
from lcpinn.plot.style import (
    DOUBLE,
    SINGLE,
    TITLE,
    Scale,
    above,
    colour_bar,
    image,
    in_style,
    line,
    linear_scale,
    setting,
    signed,
    symbol,
    tall,
)
from lcpinn.plot.values import (
    Plane,
    Settings,
    choose,
    corrected_view,
    evolves,
    known,
    line_points,
    outputs_at,
    planes,
    suffix,
    times,
    truth_at,
)
from lcpinn.solution import Solution

COMPARABLE = 5  # fields whose sizes differ by less share one colour scale


@in_style
def figure(solution: Solution, at: Settings = (), corrected: bool = False) -> Figure:
    """Curves over one coordinate, or fields over two at several settings of the coefficients.

    What evolves is also shown at several times, with the truth where it is known. The corrected
    solution takes the network's place: to the eye they are mostly the same.
    """
    family = solution.family
    if corrected:
        solution = corrected_view(solution)
    if family.domain.dim == 1:
        return _curves_of_outputs(solution, choose(solution, at, most=5))
    chosen = choose(solution, at, most=3)
    if evolves(family) and family.domain.dim == 2 and len(chosen) == 1:
        return _fields_beside_slices(solution, chosen[0])
    return _fields_over_settings(solution, chosen)


def _curves_of_outputs(solution: Solution, chosen: np.ndarray) -> Figure:
    outputs = solution.family.outputs
    width = SINGLE if len(outputs) == 1 else DOUBLE
    drawn = Figure(figsize=(width, 2.6))
    for i, axis in enumerate(np.atleast_1d(drawn.subplots(1, len(outputs)))):
        curves(axis, solution, chosen, i)
        label_curves(axis, solution, chosen)
    return drawn


def curves(axis: Axes, solution: Solution, chosen: np.ndarray, output: int = 0) -> None:
    """One output over the only coordinate, a curve for each setting."""
    family = solution.family
    (name,) = family.domain.names
    points = line_points(family, name)
    for i, lam in enumerate(chosen):
        label = setting(family.parameters.names, lam) or None
        axis.plot(
            points[:, 0], outputs_at(solution, points, lam)[:, output], label=label, **line(i)
        )
    axis.set(xlabel=symbol(name), ylabel=symbol(family.outputs[output]) + suffix(solution))
    axis.set_xlim(*family.domain.ranges[name])


def label_curves(axis: Axes, solution: Solution, chosen: np.ndarray) -> None:
    """A legend above the curves, where they are more than one; the setting of a single one."""
    if not solution.family.parameters.dim:
        return
    if len(chosen) == 1:
        axis.set_title(setting(solution.family.parameters.names, chosen[0]))
    else:
        above(axis)


# -- Fields --------------------------------------------------------------------------------------


def _fields_beside_slices(solution: Solution, lam: np.ndarray) -> Figure:
    """Space against time, and beside it slices at several times; a row for each output."""
    family = solution.family
    (plane,) = planes(family)
    values = outputs_at(solution, plane.points, lam)
    drawn = Figure(figsize=(DOUBLE, tall(len(family.outputs), 2.6)))
    rows = drawn.subplots(len(family.outputs), 2, squeeze=False, width_ratios=(1.15, 1))
    for i, (field_axis, slice_axis) in enumerate(rows):
        field(field_axis, plane, values[:, i], symbol(family.outputs[i]) + suffix(solution))
        outline(field_axis, family, plane, lam)
        slices(slice_axis, solution, lam, i)
        above(slice_axis)
        if family.parameters.dim:
            field_axis.set_title(setting(family.parameters.names, lam))
    return drawn


def field(axis: Axes, plane: Plane, values: np.ndarray, label: str) -> None:
    """One field with a colour scale of its own."""
    scale = linear_scale(values)
    colour_bar(image(axis, plane.shaped(values), plane.extent, *scale), axis, label)
    axis.set(xlabel=symbol(plane.across), ylabel=symbol(plane.up))


def slices(axis: Axes, solution: Solution, lam: np.ndarray, output: int = 0) -> None:
    """One output over space at several times, with the truth where it is known."""
    family = solution.family
    (space,) = (name for name in family.domain.names if name != "t")
    for i, time in enumerate(times(family)):
        points = line_points(family, space, {"t": time})
        x = points[:, family.domain.names.index(space)]
        label = setting(("t",), (time,))
        axis.plot(x, outputs_at(solution, points, lam)[:, output], label=label, **line(i))
        if known(family):
            truth = truth_at(family, points, lam)[:, output]
            word = "truth" if time == times(family)[-1] else None
            axis.plot(x, truth, color="black", lw=0.5, ls=(0, (1, 2)), label=word)
    axis.set(xlabel=symbol(space), ylabel=symbol(family.outputs[output]) + suffix(solution))
    axis.set_xlim(*family.domain.ranges[space])


def _fields_over_settings(solution: Solution, chosen: np.ndarray) -> Figure:
    """A column for each setting; a row for each plane and output, and for slices in time."""
    family = solution.family
    sliced = evolves(family) and family.domain.dim == 2
    shown_planes = planes(family)
    num_rows = (len(shown_planes) + sliced) * len(family.outputs)
    width = SINGLE if len(chosen) == 1 else DOUBLE
    each = row_height(family, shown_planes[0], len(chosen))
    title = TITLE if family.parameters.dim else 0.0
    drawn = Figure(figsize=(width, tall(num_rows, each, title)))
    heights = [each + title, *[each] * (num_rows - 1)]
    parts = iter(drawn.subfigures(num_rows, 1, squeeze=False, height_ratios=heights)[:, 0])
    values = [[outputs_at(solution, plane.points, lam) for lam in chosen] for plane in shown_planes]
    first = True
    for output, name in enumerate(family.outputs):
        rows = [[value[:, output] for value in row] for row in values]
        scales = _scales(rows)
        for plane, row in zip(shown_planes, rows, strict=True):
            axes = _field_row(next(parts), plane, row, scales, symbol(name) + suffix(solution))
            for axis, lam in zip(axes, chosen, strict=True):
                outline(axis, family, plane, lam)
            for axis, lam in zip(axes, chosen, strict=True) if first else ():
                axis.set_title(setting(family.parameters.names, lam))
            first = False
        if sliced:
            _slice_row(next(parts), solution, chosen, output)
    return drawn


def _scales(rows: Sequence[Sequence[np.ndarray]]) -> list[Scale]:
    """One colour scale for all, or one for each column where their sizes differ too much."""
    columns = list(zip(*rows, strict=True))
    sizes = [max(float(np.nanmax(np.abs(values))) for values in column) for column in columns]
    every = [values for row in rows for values in row]
    if max(sizes) <= COMPARABLE * min(sizes):
        return [linear_scale(*every)]
    return [linear_scale(*column, both=signed(*every)) for column in columns]


def _field_row(
    part: SubFigure,
    plane: Plane,
    shown: Sequence[np.ndarray],
    scales: Sequence[Scale],
    name: str,
) -> Sequence[Axes]:
    """Fields side by side, with one colour bar or with one each."""
    axes = part.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    held_at = setting(tuple(plane.held), tuple(plane.held.values()))
    label = f"{name},  {held_at}" if held_at else name
    each = scales if len(scales) > 1 else [scales[0]] * len(shown)
    pictures = [
        image(axis, plane.shaped(values), plane.extent, *scale)
        for axis, values, scale in zip(axes, shown, each, strict=True)
    ]
    for axis in axes:
        axis.set_xlabel(symbol(plane.across))
    axes[0].set_ylabel(symbol(plane.up))
    if len(scales) == 1:
        colour_bar(pictures[0], list(axes), label)
        return axes
    for axis, picture in zip(axes, pictures, strict=True):
        colour_bar(picture, axis, label if axis is axes[-1] else "")
    return axes


def _slice_row(part: SubFigure, solution: Solution, chosen: np.ndarray, output: int) -> None:
    axes = part.subplots(1, len(chosen), sharey=True, squeeze=False)[0]
    for axis, lam in zip(axes, chosen, strict=True):
        slices(axis, solution, lam, output)
        axis.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    part.legend(handles, labels, loc="outside right center")
