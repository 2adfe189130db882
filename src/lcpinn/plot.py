"""Pictures of a solution, in the style of a paper and readable by colour-blind people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lcpinn.errors import LcpinnError
from lcpinn.evaluation import dense_values, grid_values, relative_error
from lcpinn.solution import Solution

# Okabe and Ito's palette: distinguishable with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def overview(solution: Solution, path: Path) -> Path:
    """The solution, its error where the truth is known, and the error over lambda."""
    family = solution.family
    known = family.exact is not None or family.reference is not None
    panels = [_curves if family.domain.dim == 1 else _field]
    if known:
        panels.append(_error_curves if family.domain.dim == 1 else _error_field)
        if len(family.parameters.free) == 1:
            panels.append(_error_over_lambda)
    figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained", dpi=150)
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    for panel, axis in zip(panels, axes, strict=True):
        panel(axis, solution)
    how = " at ".join(filter(None, (solution.protocol.name, solution.protocol.setting)))
    figure.suptitle(f"{family.name}, {how} ({solution.num_params} parameters)")
    figure.savefig(path)
    return path


def certificate(
    solution: Solution, report: Mapping[str, Any], truth: Sequence[float] | None, path: Path
) -> Path:
    """The estimated error against lambda, the worst of it marked; the true one where known."""
    family, rows = solution.family, report["settings"]
    free = family.parameters.free
    along = [row["at"][free[0]] if len(free) == 1 else i for i, row in enumerate(rows)]
    errors = [np.nan if row["error"] is None else row["error"] for row in rows]
    figure = Figure(figsize=(5.6, 3.6), layout="constrained", dpi=150)
    axis = figure.subplots()
    alone = {"marker": "o"} if len(rows) == 1 else {}
    if truth is not None:
        axis.semilogy(along, truth, color=COLOURS[1], lw=2.5, alpha=0.5, label="true", **alone)
    axis.semilogy(along, errors, color=COLOURS[0], lw=1.2, label="estimated", **alone)
    if report["worst"] is not None:
        worst = rows.index(report["worst"])
        text = _setting(report["worst"]["at"])
        axis.semilogy(along[worst], errors[worst], "o", color="black", ms=5, label=f"worst{text}")
    if report["tolerance"] is not None:
        axis.axhline(report["tolerance"], color="0.5", ls="--", lw=1, label="tolerance")
    axis.set(xlabel=free[0] if len(free) == 1 else "setting", ylabel="relative L² error")
    axis.set_title(f"{family.name}, {solution.protocol.name}", fontsize=10)
    axis.grid(True, color="0.92", lw=0.6)
    axis.legend(fontsize=8, frameon=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise LcpinnError(f"could not write {path}: {error}") from None
    return path


def _setting(at: Mapping[str, float]) -> str:
    return "".join(f", {name} = {value:.4g}" for name, value in at.items())


def _lambdas(solution: Solution, most: int = 5) -> np.ndarray:
    values = grid_values(solution.family)
    if len(values) <= most:
        return values
    return values[np.linspace(0, len(values) - 1, most).round().astype(int)]


def _label(solution: Solution, lam: np.ndarray) -> str:
    names = solution.family.parameters.names
    return ", ".join(f"{n} = {v:g}" for n, v in zip(names, lam, strict=True))


def _values(solution: Solution, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """The first output, which is the one that is drawn."""
    family = solution.family
    named: dict[str, Any] = {n: points[:, i] for i, n in enumerate(family.domain.names)}
    named |= dict(zip(family.parameters.names, lam, strict=True))
    value = solution(**named)
    return value[family.outputs[0]] if isinstance(value, dict) else value


def _line(solution: Solution) -> np.ndarray:
    low, high = next(iter(solution.family.domain.ranges.values()))
    return np.linspace(low, high, 401)[:, None]


def _curves(axis: Axes, solution: Solution) -> None:
    points = _line(solution)
    for lam, colour in zip(_lambdas(solution), COLOURS, strict=False):
        value = _values(solution, points, lam)
        axis.plot(points[:, 0], value, color=colour, label=_label(solution, lam) or None)
    axis.set(xlabel=solution.family.domain.names[0], ylabel=solution.family.outputs[0])
    axis.set_title("solution", fontsize=10)
    if solution.family.parameters.dim:
        axis.legend(fontsize=7, frameon=False)


def _error_curves(axis: Axes, solution: Solution) -> None:
    points = _line(solution)
    for lam, colour in zip(_lambdas(solution), COLOURS, strict=False):
        truth = solution.family.truth(points, lam)
        assert truth is not None
        gap = np.abs(_values(solution, points, lam) - truth[:, 0])
        # Where a condition is imposed exactly the error is zero, which a logarithm cannot show.
        axis.semilogy(points[:, 0], np.where(gap > 1e-17, gap, np.nan), color=colour, lw=0.9)
    axis.set(xlabel=solution.family.domain.names[0])
    axis.set_title("absolute error", fontsize=10)


def _plane(solution: Solution) -> tuple[np.ndarray, tuple[int, int], list[float]]:
    """Points of a plane through the domain: the first coordinate across, the second up."""
    ranges = list(solution.family.domain.ranges.values())
    (a, b), (c, d) = ranges[:2]
    across, up = np.meshgrid(np.linspace(a, b, 160), np.linspace(c, d, 160), indexing="ij")
    rest = [np.full(across.size, (low + high) / 2) for low, high in ranges[2:]]
    return np.stack([across.ravel(), up.ravel(), *rest], axis=-1), across.shape, [a, b, c, d]


def _image(axis: Axes, solution: Solution, values: np.ndarray, shape: Sequence[int], extent: Any,
           title: str, cmap: str) -> None:  # fmt: skip
    image = axis.imshow(
        values.reshape(shape).T, origin="lower", extent=extent, aspect="auto", cmap=cmap
    )
    axis.figure.colorbar(image, ax=axis, shrink=0.9)
    names = solution.family.domain.names
    axis.set(xlabel=names[0], ylabel=names[1])
    axis.set_title(title, fontsize=10)


def _middle(solution: Solution) -> np.ndarray:
    values = grid_values(solution.family)
    return values[len(values) // 2]


def _field(axis: Axes, solution: Solution) -> None:
    points, shape, extent = _plane(solution)
    lam = _middle(solution)
    title = f"{solution.family.outputs[0]}  {_label(solution, lam)}"
    _image(axis, solution, _values(solution, points, lam), shape, extent, title, "viridis")


def _error_field(axis: Axes, solution: Solution) -> None:
    points, shape, extent = _plane(solution)
    lam = _middle(solution)
    truth = solution.family.truth(points, lam)
    assert truth is not None
    gap = np.abs(_values(solution, points, lam) - truth[:, 0])
    # Six decades: exact zeros, where a condition is imposed, would take up the whole scale.
    logarithm = np.log10(np.maximum(gap, max(1e-6 * float(gap.max()), 1e-18)))
    _image(axis, solution, logarithm, shape, extent, "log₁₀ absolute error", "magma")


def _error_over_lambda(axis: Axes, solution: Solution) -> None:
    family = solution.family
    from lcpinn.evaluation import evaluation_points

    points = evaluation_points(family)

    def error(lam: np.ndarray) -> float:
        truth = family.truth(points, lam)
        assert truth is not None
        return relative_error(_values(solution, points, lam)[:, None], truth[:, :1])

    (name,) = family.parameters.free
    along = family.parameters.names.index(name)
    dense, grid = dense_values(family), grid_values(family)
    axis.semilogy(dense[:, along], [error(lam) for lam in dense], color=COLOURS[0], lw=1)
    axis.semilogy(grid[:, along], [error(lam) for lam in grid], "o", color=COLOURS[1], ms=4)
    axis.set(xlabel=name)
    axis.set_title("relative L² error", fontsize=10)
