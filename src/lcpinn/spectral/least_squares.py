"""Linearised rows, solved for the coefficients of an expansion by least squares.

`dense` writes the matrix out and equilibrates it, rows and columns; singular directions below a
cutoff are left out, so that frames, which are redundant, do not blow up. `iterative` never writes
the matrix out: every column is a product of one function for each axis and is applied as such, by
conjugate gradients. Their preconditioner is the normal matrix, which on tensor grids is a sum of
Kronecker products where slopes do not depend on the place, and is contracted axis by axis (sum
factorisation) where they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy

from lcpinn.spectral.collocation import LinearisedRows, ScatteredPoints, TensorGrid, apply_axes
from lcpinn.spectral.regularisation import iterated_tikhonov

DENSE = 600  # functions in two coordinates or three, above which the matrix is not written out
FRAME = 1e-13  # singular directions of a frame, which is redundant, below which none is used
LARGE = 700  # functions of a frame, above which a factorisation with pivoting takes too long
PIVOTED = 400  # columns, above which the factorisation is one without pivoting
STEPS = 200
RANK = 1e-13  # the least diagonal element of a triangular factor of full rank
ACCURATE = 1e-8  # of the gradient, in the norm of the preconditioner
REFINEMENT = 5  # steps of a second iteration, where more than ACCURATE is asked for
PATIENCE = 8  # steps without a smaller gradient, after which rounding is what is left
JITTERS = (1e-14, 1e-12, 1e-10)  # of the diagonal, the first that will do
ROUNDING = 1e-15  # relative variation of slopes over the points, below which they are constant


Tables = Sequence[np.ndarray]  # for each axis (points, functions)


class NotSolvable(Exception):
    """The normal matrix is far from positive definite."""


class LeastSquares(NamedTuple):
    """Flat coefficients; the norms of the residual, block by block, once they are in and before."""

    coefficients: np.ndarray
    remaining: np.ndarray
    initial: np.ndarray

    @property
    def remaining_share(self) -> float:
        return float(np.linalg.norm(self.remaining) / max(np.linalg.norm(self.initial), 1e-300))


def solve(blocks: Sequence[LinearisedRows], accuracy: float = ACCURATE) -> LeastSquares:
    """The coefficients that the rows ask for, written out or not as their number allows."""
    grids = [b.collocation for b in blocks]
    if all(
        isinstance(grid, TensorGrid) and grid.basis.size > DENSE and len(grid.basis.axes) > 1
        for grid in grids
    ):
        return iterative(blocks, accuracy)
    if all(isinstance(grid, TensorGrid) for grid in grids):
        return dense(blocks)
    large = all(len(g.points[0]) > 2 for g in grids) and _num_columns(blocks[0]) > LARGE
    return regularised(blocks) if large and accuracy >= ACCURATE else dense(blocks, FRAME)


def _num_columns(block: LinearisedRows) -> int:
    assert isinstance(block.collocation, ScatteredPoints)
    return block.slopes.shape[3] * block.collocation.basis.size


# -- The matrix written out ----------------------------------------------------------------------


def equilibrated(blocks: Sequence[LinearisedRows]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Every block's matrix with rows of norm one, and its right-hand side in the same units."""
    matrices, targets = [], []
    for block in blocks:
        matrix = block.matrix()
        size = np.linalg.norm(matrix, axis=1, keepdims=True)
        size = np.where(size > 0, size, 1)
        matrix /= size
        matrices.append(matrix)
        targets.append(-block.residual.ravel() / size[:, 0])
    return matrices, targets


def dense(blocks: Sequence[LinearisedRows], cutoff: float | None = None) -> LeastSquares:
    """Rows and columns of norm one; of several solutions, a small one."""
    return least_squares(*equilibrated(blocks), cutoff)


def regularised(blocks: Sequence[LinearisedRows]) -> LeastSquares:
    """Rows and columns of norm one, by a normal matrix with a small shift (regularisation.py)."""
    matrices, targets = equilibrated(blocks)
    try:
        coefficients = iterated_tikhonov(matrices, targets)
    except np.linalg.LinAlgError:
        raise NotSolvable from None
    remaining = [a @ coefficients - b for a, b in zip(matrices, targets, strict=True)]
    return LeastSquares(coefficients, _norms(remaining), _norms(targets))


def least_squares(
    matrices: Sequence[np.ndarray], targets: Sequence[np.ndarray], cutoff: float | None = None
) -> LeastSquares:
    """By a QR factorisation, the columns scaled to norm one; of a few, with column pivoting."""
    matrix, target = np.concatenate(matrices), np.concatenate(targets)
    column = np.linalg.norm(matrix, axis=0)
    column = np.where(column > 0, column, 1)
    coefficients = None
    if len(column) > PIVOTED and cutoff is None:
        coefficients = _without_pivoting(matrix / column, target)
    if coefficients is None:
        solved = scipy.linalg.lstsq(
            *_triangular(matrix / column, target), cond=cutoff, lapack_driver="gelsy"
        )
        assert solved is not None
        coefficients = np.asarray(solved[0])
    coefficients = coefficients / column
    remaining = [a @ coefficients - b for a, b in zip(matrices, targets, strict=True)]
    return LeastSquares(coefficients, _norms(remaining), _norms(targets))


def _triangular(matrix: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same least-squares problem with as many rows as columns, where there are many of both.

    Pivoting takes several times as long as a factorisation without, and then has fewer rows.
    """
    num = matrix.shape[1]
    if num <= PIVOTED or len(matrix) <= num + 1:
        return matrix, target
    triangle: Any = np.linalg.qr(np.column_stack([matrix, target]), mode="r")
    return triangle[:num, :num], triangle[:num, num]


def _without_pivoting(matrix: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """The solution of a matrix of full rank, several times as fast; None where it is not."""
    if len(matrix) < matrix.shape[1]:
        return None
    gels, workspace = scipy.linalg.get_lapack_funcs(("gels", "gels_lwork"), (matrix,))
    work = int(workspace(*matrix.shape, 1)[0])
    factor, solved, info = gels(matrix, target, lwork=work, overwrite_a=True)
    diagonal = np.abs(np.diag(factor[: matrix.shape[1]]))
    full = info == 0 and diagonal.min() > RANK * diagonal.max() and np.isfinite(solved).all()
    return solved[: matrix.shape[1]] if full else None


# -- Conjugate gradients -------------------------------------------------------------------------


def iterative(blocks: Sequence[LinearisedRows], accuracy: float = ACCURATE) -> LeastSquares:
    """By conjugate gradients on the normal equations (CGLS), preconditioned.

    What is left counts as infinite where the iteration does not converge.
    """
    rows = [TensorRows(block) for block in blocks]
    normal = sum(r.normal() for r in rows)
    assert isinstance(normal, np.ndarray)
    factor = _factorised(normal)
    target = [-r.weight * r.block.residual for r in rows]
    solution, converged = _conjugate_gradients(rows, factor, target, accuracy, STEPS)
    if not converged:
        return LeastSquares(solution, np.full(len(rows), np.inf), _norms(target))
    residual = [t - r.apply(solution) for t, r in zip(target, rows, strict=True)]
    if accuracy < ACCURATE:  # once more, for what rounding has left
        step, _ = _conjugate_gradients(rows, factor, residual, accuracy, REFINEMENT)
        refined = [v - r.apply(step) for v, r in zip(residual, rows, strict=True)]
        if np.linalg.norm(_norms(refined)) < np.linalg.norm(_norms(residual)):
            solution, residual = solution + step, refined
    return LeastSquares(solution, _norms(residual), _norms(target))


def _conjugate_gradients(
    rows: Sequence[TensorRows], factor: Any, residual: list[np.ndarray], accuracy: float, steps: int
) -> tuple[np.ndarray, bool]:
    """The solution that removes a residual, and whether it is as accurate as asked for."""
    solution = np.zeros(len(factor[0]))
    direction, size, first, sizes = solution, 1.0, None, [np.inf]
    for _ in range(steps):
        gradient = sum(r.transposed(v) for r, v in zip(rows, residual, strict=True))
        step = scipy.linalg.cho_solve(factor, gradient, check_finite=False)
        size, before = float(gradient @ step), size
        if first is None:
            first = size
        if size <= accuracy**2 * first or _stagnates(sizes, ACCURATE**2 * first):
            return solution, True
        sizes.append(size)
        direction = step + size / before * direction
        change = [r.apply(direction) for r in rows]
        length = size / max(float(np.sum(_norms(change) ** 2)), np.finfo(float).tiny)
        solution = solution + length * direction
        residual = [v - length * c for v, c in zip(residual, change, strict=True)]
    return solution, False


def _factorised(normal: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky's factor of a matrix that is singular to rounding where a level is free."""
    for jitter in JITTERS:
        shifted = normal.copy()
        shifted[np.diag_indices_from(shifted)] *= 1 + jitter
        try:
            factor, lower = scipy.linalg.cho_factor(
                shifted, lower=True, overwrite_a=True, check_finite=False
            )
            return factor, bool(lower)
        except np.linalg.LinAlgError:
            continue
    raise NotSolvable


def _stagnates(sizes: Sequence[float], enough: float) -> bool:
    """Whether what was accurate enough long ago has not become more so for a while."""
    recent, before = sizes[-PATIENCE:], sizes[:-PATIENCE]
    return bool(before) and min(before) <= enough and min(recent) >= min(before)


def _norms(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([np.linalg.norm(part) for part in parts])


class TensorRows:
    """The rows of a block on a tensor grid, weighted, of size one on average.

    The weights are those in which the highest derivatives of Chebyshev polynomials are orthogonal.
    """

    def __init__(self, block: LinearisedRows):
        assert isinstance(block.collocation, TensorGrid)
        self.block, self.grid = block, block.collocation
        mass = reduce(np.kron, self.grid.row_weights)
        self._tables = {
            s: self.grid.tables(index)
            for s, index in enumerate(self.grid.orders.indices)
            if block.slopes[:, :, s].any()
        }
        squares = np.einsum("n,ncso->s", mass, block.slopes**2)
        trace = sum(squares[s] * self._trace(tables) for s, tables in self._tables.items())
        num = block.slopes.shape[3] * self.grid.basis.size
        self.weight = np.sqrt((num / trace if trace > 0 else 1.0) * mass)[:, None]

    def _trace(self, tables: Tables) -> float:
        pairs = zip(self.grid.row_weights, tables, strict=True)
        return float(np.prod([mass @ np.sum(table**2, axis=1) for mass, table in pairs]))

    def normal(self) -> np.ndarray:
        """The normal matrix of these rows, (outputs functions)²."""
        slopes, num_outputs = self.block.slopes, self.block.slopes.shape[3]
        varying = np.ptp(slopes, axis=0) > ROUNDING * np.max(np.abs(slopes), axis=0, initial=0.0)
        constant = not varying.any()
        first, *others = self.grid.basis.shape
        rest = int(np.prod(others, dtype=int))
        total = np.zeros((num_outputs, num_outputs, first * first, rest * rest))
        constants: dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray]]] = {}
        for s, left in self._tables.items():
            for t, right in self._tables.items():
                products = np.einsum("nco,ncp->opn", slopes[:, :, s], slopes[:, :, t])
                products = products * self.weight[:, 0] ** 2
                for o, p in np.argwhere(np.any(products, axis=2)):
                    if constant:
                        pair = self._constant(products[o, p], left, right)
                        constants.setdefault((o, p), []).append(pair)
                    else:
                        self._varying(total[o, p], products[o, p], left, right)
        for (o, p), pairs in constants.items():  # a sum of outer products is one product
            firsts, rests = (np.stack(parts) for parts in zip(*pairs, strict=True))
            total[o, p] += firsts.T @ rests
        total = total.reshape(num_outputs, num_outputs, first, first, rest, rest)
        size = num_outputs * first * rest
        return self._unfolded(total, others).transpose(0, 2, 4, 1, 3, 5).reshape(size, size)

    @staticmethod
    def _unfolded(total: np.ndarray, others: Sequence[int]) -> np.ndarray:
        """(o, p, j, j', pairs of the other axes) with those as (k l, k' l')."""
        if len(others) < 2:
            return total
        o, p, j, _ = total.shape[:4]
        second, third = others
        pairs = total.reshape(o, p, j, j, second, second, third, third)
        pairs = pairs.transpose(0, 1, 2, 3, 4, 6, 5, 7)
        return pairs.reshape(total.shape)

    def _constant(
        self, products: np.ndarray, left: Tables, right: Tables
    ) -> tuple[np.ndarray, np.ndarray]:
        """The factors of a Kronecker product: the slopes are the same at all points."""
        first, *others = (
            ((a * w[:, None]).T @ b).ravel()
            for a, b, w in zip(left, right, self.grid.row_weights, strict=True)
        )
        rest = reduce(np.outer, others).ravel() if others else np.ones(1)
        return products.sum() * first, rest

    def _varying(
        self, total: np.ndarray, products: np.ndarray, left: Tables, right: Tables
    ) -> None:
        """Add the sum over all points, one axis after the other, the last one first."""
        first, *others = (_pairs(a, b) for a, b in zip(left, right, strict=True))
        value = products.reshape(self.grid.counts)
        if others:
            value = value @ others.pop()
        while others:  # (..., points, pairs of the axes behind)
            value = (others.pop().T @ value).reshape(*value.shape[:-2], -1)
        total += first.T @ value.reshape(self.grid.counts[0], -1)

    def apply(self, coefficients: np.ndarray) -> np.ndarray:
        """The weighted rows (n, c) of an expansion, which is flat."""
        slopes, total = self.block.slopes, np.zeros(self.block.residual.shape)
        for s, tables in self._tables.items():
            for o, one in enumerate(coefficients.reshape(slopes.shape[-1], -1)):
                total += slopes[:, :, s, o] * apply_axes(tables, one)[:, None]
        return self.weight * total

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """The transpose of `apply`."""
        slopes, weighted, parts = self.block.slopes, self.weight * values, []
        for o in range(slopes.shape[-1]):
            gradient = np.zeros(self.grid.basis.size)
            for s, tables in self._tables.items():
                each = np.sum(slopes[:, :, s, o] * weighted, axis=1)
                gradient += apply_axes([t.T for t in tables], each)
            parts.append(gradient)
        return np.concatenate(parts)


def _pairs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(points, functions²): products of two tables at every point."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
