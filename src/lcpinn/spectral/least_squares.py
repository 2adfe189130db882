"""Linearised rows, solved for the coefficients of an expansion by least squares.

`dense` writes the matrix out and equilibrates it, rows and columns; singular directions below a
cutoff are left out, so that frames, which are redundant, do not blow up. `iterative` never writes
the matrix out: every column is a product of one function for each axis and is applied as such, by
conjugate gradients. Their preconditioner is the normal matrix (normal.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy

from lcpinn.spectral.collocation import Collocation, LinearisedRows, ScatteredPoints, TensorGrid
from lcpinn.spectral.normal import NormalMatrix, NotSolvable, TensorRows, TooLarge
from lcpinn.spectral.regularisation import iterated_tikhonov
from lcpinn.spectral.ultraspherical import banded_solution

__all__ = [
    "LeastSquares",
    "NormalMatrix",
    "NotSolvable",
    "Preconditioner",
    "TensorRows",
    "TooLarge",
    "dense",
    "iterative",
    "least_squares",
    "regularised",
    "solve",
]

DENSE = 300  # functions in two coordinates or three, above which the matrix is not written out
FEW, MOST_DENSE = 64, 2048  # in one coordinate: it is written out at once, and it never is
FRAME = 1e-13  # singular directions of a frame, which is redundant, below which none is used
LARGE = 700  # functions of a frame, above which a factorisation with pivoting takes too long
PIVOTED = 400  # columns, above which the factorisation is one without pivoting
STEPS, AGAIN = 200, 80  # of conjugate gradients; with the preconditioner of other rows
RANK = 1e-13  # the least diagonal element of a triangular factor of full rank
ACCURATE = 1e-8  # of the gradient, in the norm of the preconditioner
REFINEMENT = 5  # steps of a second iteration, where more than ACCURATE is asked for
TRIED = 8  # steps with the factors of other rows, after which their rate is known
PATIENCE = 8  # steps without a smaller gradient, after which rounding is what is left


class LeastSquares(NamedTuple):
    """Flat coefficients; the norms of the residual, block by block, once they are in and before."""

    coefficients: np.ndarray
    remaining: np.ndarray
    initial: np.ndarray

    @property
    def remaining_share(self) -> float:
        return float(np.linalg.norm(self.remaining) / max(np.linalg.norm(self.initial), 1e-300))


class Preconditioner:
    """A normal matrix that is kept from one solution to the next.

    Rows that have changed little, by a step of Newton's method or to a setting near by, are solved
    with the factors of those before in a few more iterations.
    """

    def __init__(self) -> None:
        self.normal: NormalMatrix | None = None
        self.again = AGAIN  # steps with the factors of other rows, after which own ones are made

    def suits(self, rows: Sequence[TensorRows]) -> bool:
        known = self.normal
        return known is not None and known.basis.shape == rows[0].grid.basis.shape


def solve(
    blocks: Sequence[LinearisedRows],
    accuracy: float = ACCURATE,
    preconditioner: Preconditioner | None = None,
) -> LeastSquares:
    """The coefficients that the rows ask for, written out or not as their number allows."""
    grids = [b.collocation for b in blocks]
    if all(
        isinstance(grid, TensorGrid) and grid.basis.size > DENSE and len(grid.basis.axes) > 1
        for grid in grids
    ):
        return iterative(blocks, accuracy, preconditioner)
    if all(isinstance(grid, TensorGrid) for grid in grids):
        if _integrated(grids[0]):
            return least_squares(*weighted(blocks))
        return _along_one_axis(blocks) if len(grids[0].points[0]) == 1 else dense(blocks)
    large = all(len(g.points[0]) > 2 for g in grids) and _num_columns(blocks[0]) > LARGE
    return regularised(blocks) if large and accuracy >= ACCURATE else dense(blocks, FRAME)


def _along_one_axis(blocks: Sequence[LinearisedRows]) -> LeastSquares:
    """Many functions of an ordinary equation as a banded matrix, where there is one."""
    num = blocks[0].slopes.shape[3] * _grid(blocks[0]).basis.size
    if num > FEW and (solution := banded_solution(blocks)) is not None:
        initial = _norms([block.residual for block in blocks])
        return LeastSquares(solution, np.zeros(len(blocks)), initial)  # as many rows as unknowns
    if num > MOST_DENSE:
        raise TooLarge
    return dense(blocks)


def _grid(block: LinearisedRows) -> TensorGrid:
    assert isinstance(block.collocation, TensorGrid)
    return block.collocation


def _integrated(grid: Collocation) -> bool:
    assert isinstance(grid, TensorGrid)
    return any(axis.integrated is not None for axis in grid.basis.axes)


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


def weighted(blocks: Sequence[LinearisedRows]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Every block's matrix on a tensor grid in the weights of its points, and its right-hand side.

    Of each of a term's values, columns are of norm one on average, and a row at a single point is.
    """
    matrices, targets = [], []
    for block in blocks:
        assert isinstance(block.collocation, TensorGrid)
        mass = reduce(np.kron, block.collocation.row_weights)
        matrix = block.matrix().reshape(*block.residual.shape, -1)
        squares = mass @ np.sum(matrix**2, axis=2) / (matrix.shape[2] if len(mass) > 1 else 1)
        weight = np.sqrt(mass[:, None] / np.where(squares > 0, squares, 1))
        matrix *= weight[:, :, None]
        matrices.append(matrix.reshape(-1, matrix.shape[2]))
        targets.append(-(weight * block.residual).ravel())
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


def iterative(
    blocks: Sequence[LinearisedRows],
    accuracy: float = ACCURATE,
    preconditioner: Preconditioner | None = None,
) -> LeastSquares:
    """By conjugate gradients on the normal equations (CGLS), preconditioned.

    What is left counts as infinite where the iteration does not converge.
    """
    rows = [TensorRows(block) for block in blocks]
    kept = Preconditioner() if preconditioner is None else preconditioner
    target = [-r.weight * r.block.residual for r in rows]
    converged, solution = False, np.zeros(0)
    if kept.suits(rows):
        assert kept.normal is not None
        solution, converged = _conjugate_gradients(
            rows, kept.normal, target, accuracy, kept.again, hopeful=False
        )
    if not converged:
        kept.normal = None  # two would take twice the memory
        kept.normal = NormalMatrix(rows)
        solution, converged = _conjugate_gradients(rows, kept.normal, target, accuracy, STEPS)
    if not converged:
        return LeastSquares(solution, np.full(len(rows), np.inf), _norms(target))
    assert kept.normal is not None
    residual = [t - r.apply(solution) for t, r in zip(target, rows, strict=True)]
    if accuracy < ACCURATE:  # once more, for what rounding has left
        step, _ = _conjugate_gradients(rows, kept.normal, residual, accuracy, REFINEMENT)
        refined = [v - r.apply(step) for v, r in zip(residual, rows, strict=True)]
        if np.linalg.norm(_norms(refined)) < np.linalg.norm(_norms(residual)):
            solution, residual = solution + step, refined
    return LeastSquares(solution, _norms(residual), _norms(target))


def _conjugate_gradients(
    rows: Sequence[TensorRows], normal: NormalMatrix, residual: list[np.ndarray], accuracy: float,
    steps: int, *, hopeful: bool = True,
) -> tuple[np.ndarray, bool]:  # fmt: skip
    """The solution that removes a residual, and whether it is as accurate as asked for.

    Without hope it is given up as soon as the steps will not do.

    The gradient is measured beside the residual, as by Paige and Saunders (1982): of one that can
    hardly be made smaller, rounding is all that there is of a gradient from the first step on.
    """
    solution = np.zeros(rows[0].block.slopes.shape[3] * rows[0].grid.basis.size)
    direction, size, sizes = solution, 1.0, [np.inf]
    square = float(np.sum(_norms(residual) ** 2))
    for _ in range(steps):
        gradient = sum(r.transposed(v) for r, v in zip(rows, residual, strict=True))
        assert isinstance(gradient, np.ndarray)
        step = normal.solve(gradient)
        size, before = float(gradient @ step), size
        if size <= accuracy**2 * square or _stagnates(sizes, ACCURATE**2 * square):
            return solution, True
        sizes.append(size)
        if not hopeful and _takes_too_long(sizes[1:], accuracy**2 * square, steps):
            break
        direction = step + size / before * direction
        change = [r.apply(direction) for r in rows]
        length = size / max(float(np.sum(_norms(change) ** 2)), np.finfo(float).tiny)
        solution = solution + length * direction
        residual = [v - length * c for v, c in zip(residual, change, strict=True)]
    return solution, False


def _takes_too_long(sizes: Sequence[float], enough: float, steps: int) -> bool:
    """Whether, by the mean rate until now, twice as many steps would not be enough."""
    if len(sizes) < TRIED or enough <= 0:
        return False
    fall, wanted = np.log(sizes[0] / min(sizes)), np.log(sizes[0] / enough)
    return bool(len(sizes) * wanted > 2 * steps * fall)


def _stagnates(sizes: Sequence[float], enough: float) -> bool:
    """Whether what was accurate enough long ago has not become more so for a while."""
    recent, before = sizes[-PATIENCE:], sizes[:-PATIENCE]
    return bool(before) and min(before) <= enough and min(recent) >= min(before)


def _norms(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([np.linalg.norm(part) for part in parts])
