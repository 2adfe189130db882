"""How much the answer depends on lambda: over loss weights, or over coefficients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lcpinn.errors import LcpinnError
from lcpinn.evaluation import arguments, dense_values, evaluation_points, relative_error
from lcpinn.plot import error
from lcpinn.plot.outline import outline
from lcpinn.plot.style import (
    COLOURS,
    DOUBLE,
    above,
    colour_bar,
    image,
    in_style,
    line,
    log_scale,
    logarithmic,
    narrow_or_logarithmic,
    setting,
    size_of,
    symbol,
)
from lcpinn.plot.values import Settings, choose, known, line_points, planes, truth_at
from lcpinn.solution import Solution

SHOTS = 100  # weightings: as many as an answer averages over


def against(solution: Solution, run: Path | None = None) -> str | None:
    """Why there is no such picture."""
    family = solution.family
    if family.weights is not None or (known(family) and family.parameters.free):
        return None
    if not family.parameters.free:
        return f"{family.name} has one setting and is not conditioned on loss weights: no spread"
    return (
        f"{family.name} has neither exact nor reference: its error over lambda is not known "
        "(lcpinn certify -o draws an estimate)"
    )


@in_style
def figure(solution: Solution, at: Settings = ()) -> Figure:
    """Over weightings: deviation, errors and their histogram. Over coefficients: the error."""
    reason = against(solution)
    if reason is not None:
        raise LcpinnError(reason)
    if solution.family.weights is None:
        return _over_coefficients(solution)
    return _over_weights(solution, choose(solution, at, most=1)[0])


# -- Coefficients --------------------------------------------------------------------------------


def _over_coefficients(solution: Solution) -> Figure:
    drawn = Figure(figsize=(DOUBLE, 2.6))
    left_axis, right_axis = drawn.subplots(1, 2, width_ratios=(1.6, 1))
    error.over_lambda(left_axis, solution)
    if left_axis.get_legend_handles_labels()[0]:
        above(left_axis)
    errors = error.errors(solution, dense_values(solution.family))
    _histogram(right_axis, errors, "settings")
    middle, worst = float(np.median(errors)), float(errors.max())
    _lines(right_axis, {f"median {size_of(middle)}": middle, f"largest {size_of(worst)}": worst})
    above(right_axis, 1)
    return drawn


def _histogram(axis: Axes, values: np.ndarray, what: str) -> None:
    """Counts over an abscissa that is logarithmic where the values differ by a decade."""
    values = np.maximum(values, 1e-17)
    low, high = values.min(), values.max()
    if high < 1.01 * low:
        low, high = low / 1.01, high * 1.01
    edges = np.geomspace(low, high, 21) if high > 10 * low else np.linspace(low, high, 21)
    axis.hist(values, edges, color=COLOURS[5], edgecolor="white", lw=0.4)
    narrow_or_logarithmic(axis, "x", values)
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set(xlabel="relative $L^2$ error", ylabel=what)


def _lines(axis: Axes, marks: dict[str, float]) -> None:
    for i, (label, value) in enumerate(marks.items()):
        axis.axvline(value, label=label, lw=1, color=COLOURS[i], ls=("-", "--")[i % 2])


# -- Loss weights --------------------------------------------------------------------------------


def _over_weights(solution: Solution, lam: np.ndarray) -> Figure:
    """Above, where weightings differ and by how much; below, which weights the error follows."""
    family = solution.family
    assert family.weights is not None
    drawn = Figure(figsize=(DOUBLE, 4.6))
    (top,), (bottom,) = drawn.subfigures(2, 1, squeeze=False, height_ratios=(1.25, 1))
    left_axis, right_axis = top.subplots(1, 2)
    _deviation(left_axis, solution, lam)
    errors, of_mean, word = _errors_of_slices(solution, lam)
    _histogram(right_axis, errors, "weightings")
    right_axis.set_xlabel(word)
    if of_mean is not None:
        _lines(right_axis, {f"mean of all, {size_of(of_mean)}": of_mean})
        above(right_axis, 1)
    draws = family.weights.sobol(SHOTS, seed=0)
    axes = bottom.subplots(1, len(family.weights.names), sharey=True, squeeze=False)[0]
    for i, (axis, name) in enumerate(zip(axes, family.weights.names, strict=True)):
        axis.plot(draws[:, i], errors, "o", ms=2, mew=0, color=COLOURS[0])
        axis.set(xlabel=f"weight of {name}", xlim=(0, 1))
        axis.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        narrow_or_logarithmic(axis, "y", errors)
        axis.grid(True)
    axes[0].set_ylabel(word)
    return drawn


def _deviation(axis: Axes, solution: Solution, lam: np.ndarray) -> None:
    """The standard deviation across weightings, of the first output."""
    family = solution.family
    name = symbol(family.outputs[0])
    label = f"deviation of {name} across weightings"
    if family.parameters.dim:
        axis.set_title(setting(family.parameters.names, lam))
    if family.domain.dim == 1:
        (along,) = family.domain.names
        points = line_points(family, along)
        axis.plot(points[:, 0], _deviations(solution, points, lam), **line(0))
        axis.set(xlabel=symbol(along), ylabel=label, xlim=family.domain.ranges[along])
        logarithmic(axis)
        return
    plane = planes(family)[0]
    values = _deviations(solution, plane.points, lam)
    colour_bar(image(axis, plane.shaped(values), plane.extent, *log_scale(values)), axis, label)
    outline(axis, family, plane, lam)
    axis.set(xlabel=symbol(plane.across), ylabel=symbol(plane.up))


def _deviations(solution: Solution, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    named = arguments(solution.family, points, lam)
    deviations = solution.spread(shots=SHOTS, **named)
    return deviations[solution.family.outputs[0]] if isinstance(deviations, dict) else deviations


def _errors_of_slices(solution: Solution, lam: np.ndarray) -> tuple[np.ndarray, float | None, str]:
    """For each weighting its error, or its distance from the mean of all where no truth is known.

    And the error of the mean, and what the numbers are.
    """
    family = solution.family
    points = evaluation_points(family)
    points = points[family.domain.covers(points, lam)]
    slices = solution.slices(shots=SHOTS, **arguments(family, points, lam))
    mean = slices.mean(axis=0)
    if not known(family):
        distances = np.array([relative_error(one, mean) for one in slices])
        return distances, None, "relative $L^2$ distance from the mean"
    truth = truth_at(family, points, lam)
    errors = np.array([relative_error(one, truth) for one in slices])
    return errors, relative_error(mean, truth), "relative $L^2$ error"
