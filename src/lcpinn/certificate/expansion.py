"""Smooth errors: one expansion over the whole domain, found by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq

from lcpinn.certificate import iterative
from lcpinn.certificate.grid import Axis, Block, Grid, scattered
from lcpinn.certificate.linear import At, Linearised
from lcpinn.jet import Orders

# Functions along each coordinate, by the number of coordinates; and of what has to agree with them.
SIZES = {1: (128, 96), 2: (24, 18), 3: (15, 12)}
DENSE = 600  # functions in all, above which the matrix is never formed
MISFIT = 0.15  # the share of the residual that the expansion may leave
TINY = 1e-13  # below this, estimates are rounding
LARGE = 1e-3  # a relative error above which a nonlinear equation is linearised again
CORRECTIONS = 4  # how often, at most
CHECKS, ELSEWHERE = 128, 0.5  # points between the grid's; the share that may be left there
SETTLED = 0.1  # the share of the error that the last of them may have changed


class Estimate(NamedTuple):
    """The relative L2 error at one lambda, or nan and why it could not be estimated."""

    error: float
    reason: str = ""
    at: dict[str, float] | None = None


class Level:
    """The expansion with so many functions along every coordinate."""

    def __init__(self, linearised: Linearised, num: int, misfit: float = MISFIT):
        self.family, self.terms, self.misfit = linearised.family, linearised.terms, misfit
        domain = self.family.domain
        self.axes = [Axis(*domain.ranges[n], n in domain.periodic, num) for n in domain.names]

    def __call__(self, at: At) -> Estimate:
        about = [at.series(grid.points, grid.orders) for grid in self._grids]
        values, others = at.values(self._inside.points), at.others(self._inside.points)
        found = np.zeros((len(self.family.outputs), self.axes[0].num ** len(self.axes)))
        whole = 0.0
        for _ in range(1 + CORRECTIONS):
            blocks = []
            for grid, series in zip(self._grids, about, strict=True):
                here = series + grid.series(found)
                residual, slopes = at.slopes(grid.term, grid.orders, here, grid.points)
                if not (np.isfinite(residual).all() and np.isfinite(slopes).all()):
                    return Estimate(np.nan, f"the term {grid.term.name!r} is not finite")
                blocks.append(Block(grid, residual, slopes))
            step, left, size = self._solve(blocks)
            whole = max(whole, size)
            if left > self.misfit * whole + TINY:
                num = self.axes[0].num
                return Estimate(np.nan, f"{num} functions a coordinate do not resolve it")
            found = found + step
            d, last = self._inside.series(found)[0], self._inside.series(step)[0]
            error, change = self._relative(d, values + d), self._relative(last, values + d)
            if self.family.is_linear() or error < LARGE or change < SETTLED * error:
                if self._elsewhere(at, found) > ELSEWHERE:
                    return Estimate(np.nan, "between its points it is not resolved")
                return Estimate(self._relative(d - others, values + d))
        return Estimate(np.nan, "it is too far off for the linearised equation to tell")

    @cached_property
    def _grids(self) -> list[Grid]:
        """Every term with its points inside, or those on each of its faces."""
        names, found = self.family.domain.names, []
        for term in self.terms:
            orders = self.family.orders([term])
            for face in term.faces or (None,):
                held = {} if face is None else {names.index(face.name): face.value}
                found.append(Grid(self.axes, held, orders, term))
        return found

    @cached_property
    def _inside(self) -> Grid:
        return Grid(self.axes, {}, Orders(((0,) * len(self.axes),)), self.terms[0])

    def _solve(self, blocks: Sequence[Block]) -> tuple[np.ndarray, float, float]:
        """The functions' coefficients; the size of what they leave of the residual, and of it."""
        shape = (len(self.family.outputs), -1)
        if self.axes[0].num ** len(self.axes) > DENSE:
            found, left, whole = iterative.solve(blocks)
            return found.reshape(shape), left, whole
        rows, targets = [], []
        for block in blocks:
            matrix = block.matrix()
            size = np.linalg.norm(matrix, axis=1, keepdims=True)
            size = np.where(size > 0, size, 1)
            rows.append(matrix / size)
            targets.append(-block.residual.ravel() / size[:, 0])
        matrix, target = np.concatenate(rows), np.concatenate(targets)
        found = np.asarray(lstsq(matrix, target, lapack_driver="gelsy")[0])  # pyright: ignore[reportOptionalSubscript]
        left = float(np.linalg.norm(matrix @ found - target))
        return found.reshape(shape), left, float(np.linalg.norm(target))

    def _elsewhere(self, at: At, found: np.ndarray) -> float:
        """The share of the residual that is left at points in no regular order.

        What oscillates between the points of a grid can look smooth on it.
        """
        points, before, after = self.family.domain.sobol(CHECKS, seed=5), [], []
        for term in (t for t in self.terms if not t.faces):
            orders = self.family.orders([term])
            series = at.series(points, orders)
            basis = scattered(self.axes, points, orders)
            residual, slopes = at.slopes(term, orders, series, points)
            after_all = series + np.einsum("snb,ob->sno", basis, found)
            rows = np.einsum("ncso,snb->ncob", slopes, basis, optimize=True)
            size = np.sqrt(np.sum(rows**2, axis=(2, 3)))
            size = np.where(size > 0, size, 1)
            before.append(residual / size)
            after.append(at.slopes(term, orders, after_all, points)[0] / size)
        whole, left = (float(np.linalg.norm(np.concatenate(v, axis=1))) for v in (before, after))
        return left / (whole + 10 * TINY)

    def _relative(self, error: np.ndarray, solution: np.ndarray) -> float:
        """The root mean square of an error beside that of the solution; the worst output counts."""
        mass = reduce(np.kron, [axis.weights() for axis in self.axes])
        sizes = mass @ solution**2
        return float(np.sqrt(np.max((mass @ error**2) / np.where(sizes > 0, sizes, 1))))
