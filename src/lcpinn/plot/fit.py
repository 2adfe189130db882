"""Observations against the solution that was fitted to them, and how well it is determined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from lcpinn.inverse import Fit, plus_minus
from lcpinn.plot.style import (
    COLOURS,
    DOUBLE,
    MARKERS,
    in_style,
    line,
    logarithmic,
    save,
    symbol,
)
from lcpinn.solution import Solution

FEW = 60  # observations whose marks stand apart


def write(solution: Solution, columns: Mapping[str, Any], fitted: Fit, path: Path) -> Path:
    """Draw a fit to these observations, named columns as `Solution.fit` takes them."""
    return save(figure(solution, columns, fitted), path)


@in_style
def figure(solution: Solution, columns: Mapping[str, Any], fitted: Fit) -> Figure:
    """Data and solution, residuals, and the misfit over one or two coefficients."""
    arrays = [np.ravel(a) for a in np.broadcast_arrays(*(columns[n] for n in columns))]
    named = dict(zip(columns, arrays, strict=True))
    # A curve belongs to one setting of the coefficients and needs one coordinate to run along.
    along = solution.family.domain.dim == 1 and not _varies(solution, fitted)
    shown = len(fitted.values) <= 2
    drawn = Figure(figsize=(DOUBLE, 2.5))
    axes = np.atleast_1d(drawn.subplots(1, 3 if shown else 2))
    if along:
        _curves(axes[0], solution, named, fitted)
    else:
        _against(axes[0], named, fitted)
    _residuals(axes[1], solution, named, fitted)
    if shown:
        (_misfit if len(fitted.values) == 1 else _misfit_plane)(axes[-1], solution, fitted)
    values = [f"{symbol(n)} = {plus_minus(v, fitted.errors[n])}" for n, v in fitted.values.items()]
    drawn.suptitle(", ".join([solution.family.name, *values]), fontsize=10)
    return drawn


def _varies(solution: Solution, fitted: Fit) -> bool:
    """Whether a coefficient is a column of the observations, with more than one value."""
    given = {**fitted.values, **fitted.held}
    return any(name not in given for name in solution.family.parameters.names)


def _marks(number: int, count: int) -> dict[str, Any]:
    size = 3.5 if count <= FEW else 1.5
    marker = MARKERS[number % len(MARKERS)]
    return {"ls": "none", "marker": marker, "ms": size, "color": COLOURS[number % len(COLOURS)]}


def _line(number: int) -> dict[str, Any]:
    return dict(line(number))


def _curves(axis: Axes, solution: Solution, named: Mapping[str, np.ndarray], fitted: Fit) -> None:
    ((name, (low, high)),) = solution.family.domain.ranges.items()
    x = np.linspace(low, high, 401)
    asked: dict[str, Any] = {name: x, **fitted.held, **fitted.values}
    values = solution(**asked)
    values = values if isinstance(values, dict) else {solution.family.outputs[0]: values}
    for i, output in enumerate(fitted.residuals):
        axis.plot(x, values[output], **_line(i))
        marks = _marks(i, len(named[name]))
        label = f"{symbol(output)} observed" if len(fitted.residuals) > 1 else "observed"
        axis.plot(named[name], named[output], mfc="white", mew=0.8, label=label, **marks)
    axis.set(xlabel=symbol(name), ylabel=", ".join(map(symbol, fitted.residuals)))
    axis.set_title("observations and fit")
    axis.legend()


def _against(axis: Axes, named: Mapping[str, np.ndarray], fitted: Fit) -> None:
    """Fitted values over observed ones: on the diagonal where both agree."""
    for i, (output, residual) in enumerate(fitted.residuals.items()):
        observed = named[output]
        label = symbol(output) if len(fitted.residuals) > 1 else None
        axis.plot(observed, observed + residual, label=label, **_marks(i, len(observed)))
    low = min(axis.get_xlim()[0], axis.get_ylim()[0])
    high = max(axis.get_xlim()[1], axis.get_ylim()[1])
    axis.plot([low, high], [low, high], color="0.4", lw=0.8, zorder=0)
    axis.set(xlabel="observed", ylabel="fitted", xlim=(low, high), ylim=(low, high))
    axis.set_title("observations and fit")
    if len(fitted.residuals) > 1:
        axis.legend()


def _residuals(
    axis: Axes, solution: Solution, named: Mapping[str, np.ndarray], fitted: Fit
) -> None:
    """The residual at every point, in units of sigma: a pattern in it is not noise."""
    names, ranges = solution.family.domain.names, solution.family.domain.ranges
    known = {output: s if np.isfinite(s) and s > 0 else 1.0 for output, s in fitted.sigma.items()}
    scaled = {output: r / known[output] for output, r in fitted.residuals.items()}
    if len(names) == 1:
        axis.axhspan(-1, 1, color="0.92", lw=0)
        axis.axhline(0, color="0.4", lw=0.8)
        for i, residual in enumerate(scaled.values()):
            axis.plot(named[names[0]], residual, **_marks(i, len(residual)))
        axis.set(xlabel=symbol(names[0]))
        axis.set_xlim(*_with_margin(ranges[names[0]]))
    else:
        _map(axis, named, names[:2], np.concatenate(list(scaled.values())))
        axis.set_xlim(*_with_margin(ranges[names[0]]))
        axis.set_ylim(*_with_margin(ranges[names[1]]))
    axis.set_title(r"(fitted − observed) / $\sigma$")


def _map(
    axis: Axes, named: Mapping[str, np.ndarray], names: Sequence[str], residual: np.ndarray
) -> None:
    """Where residuals are large, by the first two coordinates; all outputs together."""
    times = len(residual) // len(named[names[0]])
    across, up = (np.tile(named[name], times) for name in names)
    size = float(np.nanmax(np.abs(residual), initial=1.0))
    look = {"cmap": "RdBu_r", "norm": Normalize(-size, size), "edgecolors": "0.4"}
    dot = 14 if len(residual) <= FEW else 7
    shown = axis.scatter(across, up, c=residual, s=dot, linewidths=0.3, **look)
    axis.figure.colorbar(shown, ax=axis, pad=0.02, aspect=16)
    axis.set(xlabel=symbol(names[0]), ylabel=symbol(names[1]))


def _with_margin(ends: tuple[float, float]) -> tuple[float, float]:
    margin = 0.04 * (ends[1] - ends[0])
    return ends[0] - margin, ends[1] + margin


def _level_name(fitted: Fit) -> str:
    return r"misfit / $\sigma$" if fitted.sigma_given else "relative misfit"


def _misfit(axis: Axes, solution: Solution, fitted: Fit) -> None:
    """The misfit over the range, with the minima that were found."""
    ((name, value),) = fitted.values.items()
    settings, levels = fitted.scan
    axis.plot(settings[:, 0], levels, **_line(0))
    for other in fitted.minima:
        axis.axvline(other.values[name], color="0.6", lw=0.8, ls=":")
    best = np.sqrt(fitted.chi2 / fitted.num_observed) if fitted.sigma_given else fitted.misfit
    axis.plot(value, best, "o", color=COLOURS[1], clip_on=False)
    _along(axis, solution, name, "x")
    logarithmic(axis)
    axis.set(xlabel=symbol(name))
    axis.set_title(_level_name(fitted))


def _misfit_plane(axis: Axes, solution: Solution, fitted: Fit) -> None:
    """The misfit over two coefficients, with the minima that were found."""
    settings, levels = fitted.scan
    finite = np.isfinite(levels)
    lowest, highest = levels[finite].min(), levels[finite].max()
    norm = LogNorm(max(lowest, 1e-3 * highest), highest)
    steps = np.geomspace(norm.vmin or lowest, highest, 16)
    a, b = settings[finite].T
    shown = axis.tricontourf(a, b, levels[finite], steps, norm=norm, cmap="viridis", extend="min")
    ticks = steps[::5]
    bar = axis.figure.colorbar(shown, ax=axis, pad=0.02, aspect=16, ticks=ticks)
    bar.ax.set_yticklabels([f"{tick:.1g}" for tick in ticks])
    bar.ax.minorticks_off()
    for other in fitted.minima:
        axis.plot(*other.values.values(), "o", mfc="none", mec="white", ms=4)
    axis.plot(*fitted.values.values(), "o", color=COLOURS[1], mec="white", mew=0.6)
    names = tuple(fitted.values)
    _along(axis, solution, names[0], "x")
    _along(axis, solution, names[1], "y")
    axis.set(xlabel=symbol(names[0]), ylabel=symbol(names[1]))
    axis.set_title(_level_name(fitted))


def _along(axis: Axes, solution: Solution, name: str, which: str) -> None:
    """The axis runs over the coefficient's range, by its logarithm where the prior's is uniform."""
    prior = solution.family.parameters
    drawn = prior.axes[prior.names.index(name)]
    axis.set(**{f"{which}lim": (drawn.low, drawn.high)})
    if drawn.log:
        axis.set(**{f"{which}scale": "log"})
