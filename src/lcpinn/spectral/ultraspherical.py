"""Ordinary linear equations with thousands of functions: operators as banded matrices.

Derivatives of Chebyshev polynomials are Gegenbauer polynomials; in those of one order, derivatives
of lower order, and products with coefficients that a short series has, are banded matrices (Olver
and Townsend 2013, A fast and well-conditioned spectral method). A condition at a point involves all
functions: its partial sums are unknowns beside the coefficients, each the one before and a term, so
that the whole is banded and takes time in proportion to the number of functions. A layer a
thousandth of its interval wide needs eight thousand, which no dense matrix affords.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from lcpinn.jet import factorial
from lcpinn.spectral.basis import Axis
from lcpinn.spectral.collocation import LinearisedRows, TensorGrid
from lcpinn.spectral.transforms import series_of, transforms

ROUNDING = 1e-15  # the share of a series' largest coefficient below which there is none
DEGREE = 40  # of the longest series of a coefficient
MOST_WORK = 5e10  # unknowns times the bands' widths: some ten seconds of a core

Sparse = Any  # SciPy's arrays: what is known of their types does not tell formats apart


def _diagonals(*arguments: Any, **options: Any) -> Any:
    return scipy.sparse.diags_array(*arguments, **options)  # loaded when it is used


class Operator(NamedTuple):
    """An equation inside: matrices of the outputs' functions, and the right-hand side.

    Rows are coefficients of Gegenbauer polynomials; as many of the last ones are left out as the
    equation has integrations, `freedom`, for conditions to settle.
    """

    matrices: list[Sparse]
    target: np.ndarray
    freedom: int


class Condition(NamedTuple):
    """What a row at a single point asks of the outputs' functions (outputs, functions)."""

    row: np.ndarray
    target: float


def banded_solution(blocks: Sequence[LinearisedRows]) -> np.ndarray | None:
    """Flat coefficients that the rows ask for; None where there is no such matrix.

    There have to be as many equations as outputs, as many conditions as integrations, and short
    series of the equations' coefficients.
    """
    axis = _axis(blocks)
    if axis is None or (inside := _operators(blocks, axis)) is None:
        return None
    conditions = _conditions(blocks)
    if len(conditions) != sum(operator.freedom for operator in inside):
        return None
    return _solved(inside, conditions, axis.num)


def _axis(blocks: Sequence[LinearisedRows]) -> Axis | None:
    grids = [block.collocation for block in blocks]
    if not all(isinstance(grid, TensorGrid) and len(grid.basis.axes) == 1 for grid in grids):
        return None
    assert isinstance(grids[0], TensorGrid)
    (axis,) = grids[0].basis.axes
    return axis if transforms(axis) else None


# -- Equations -----------------------------------------------------------------------------------


def _operators(blocks: Sequence[LinearisedRows], axis: Axis) -> list[Operator] | None:
    """Of every equation inside; None where their coefficients have long series."""
    rows: list[tuple[list[dict[int, np.ndarray]], np.ndarray]] = []
    for block in blocks:
        if len(block.residual) == 1:
            continue
        residual = series_of(-block.residual)
        for c in range(residual.shape[1]):
            rows.append((_coefficients(block, axis, c), residual[:, c]))
    num = len(rows[0][0])
    orders = np.array([[max(one, default=-1) for one in outputs] for outputs, _ in rows])
    longest = max(len(a) for outputs, _ in rows for one in outputs for a in one.values())
    if len(rows) != num or longest > min(DEGREE, axis.num // 4) + 1:
        return None
    # Which output an equation determines: those with which they have most integrations.
    _, determines = scipy.optimize.linear_sum_assignment(orders, maximize=True)
    freedom = orders[range(num), determines]
    if freedom.min() < 0:
        return None
    highest = orders.max(axis=1)
    return [
        Operator(
            [_matrix(one, int(m), axis.num) for one in outputs],
            _converted(target, int(m))[: axis.num],
            int(d),
        )
        for (outputs, target), m, d in zip(rows, highest, freedom, strict=True)
    ]


def _coefficients(block: LinearisedRows, axis: Axis, c: int) -> list[dict[int, np.ndarray]]:
    """Of an equation, for every output by the order of its derivative: the series beside it."""
    every: list[dict[int, np.ndarray]] = [{} for _ in range(block.slopes.shape[3])]
    for s, index in enumerate(block.collocation.orders.indices):
        for o, known in enumerate(every):
            slopes = block.slopes[:, c, s, o]
            if slopes.any():
                unit = (2 / (axis.high - axis.low)) ** index[0] / factorial(index)
                series = series_of(unit * slopes)
                used = np.flatnonzero(np.abs(series) > ROUNDING * np.abs(series).max())
                known[index[0]] = series[: used[-1] + 1]
    return every


def _matrix(series: dict[int, np.ndarray], highest: int, num: int) -> Sparse:
    """Σ a_q(x) d^q/dx^q, from Chebyshev to Gegenbauer polynomials of the highest order."""
    wide = num + max((len(a) for a in series.values()), default=0) + 2 * highest + 2
    total: Sparse = scipy.sparse.csr_array((wide, wide))
    for q, a in series.items():
        matrix = _derivative(wide, q)
        for order in range(q, highest):
            matrix = _conversion(wide, order) @ matrix
        total = total + _product(a, matrix, highest)
    return total[:num, :num].tocsr()


def _derivative(num: int, order: int) -> Sparse:
    """d^m T_k / dx^m = 2^(m-1) (m-1)! k C^(m)_(k-m)."""
    if order == 0:
        return scipy.sparse.eye_array(num, format="csr")
    factor = 2.0 ** (order - 1) * math.factorial(order - 1) * np.arange(order, num)
    return _diagonals(factor, offsets=order, shape=(num, num)).tocsr()


def _conversion(num: int, order: int) -> Sparse:
    """From Gegenbauer polynomials of one order, Chebyshev's for 0, to those of the next."""
    k = np.arange(num)
    share = np.where(k > 0, 0.5, 1.0) if order == 0 else order / (order + k)
    return _diagonals([share, -share[2:]], offsets=[0, 2]).tocsr()


def _converted(series: np.ndarray, order: int) -> np.ndarray:
    for below in range(order):
        series = _conversion(len(series), below) @ series
    return series


def _product(series: np.ndarray, matrix: Sparse, order: int) -> Sparse:
    """A function with Chebyshev coefficients times what a matrix makes, by Clenshaw's recurrence.

    x C_k = ((k + 1) C_(k+1) + (k + 2m - 1) C_(k-1)) / (2 (k + m)).
    """
    if len(series) == 1:
        return series[0] * matrix
    k = np.arange(matrix.shape[0])
    safe = np.maximum(2 * (k + order), 1)
    below = (k + 1) / safe if order else np.where(k > 0, 0.5, 1.0)
    above = (k + 2 * order - 1) / safe if order else np.full(len(k), 0.5)
    times_x = _diagonals([below[:-1], above[1:]], offsets=[-1, 1]).tocsr()
    identity: Sparse = scipy.sparse.eye_array(len(k), format="csr")
    recent, before = series[-1] * identity, 0.0 * identity
    for a in series[-2:0:-1]:
        recent, before = a * identity + 2 * (times_x @ recent) - before, recent
    return (series[0] * identity + times_x @ recent - before) @ matrix


# -- Conditions, and the whole -------------------------------------------------------------------


def _conditions(blocks: Sequence[LinearisedRows]) -> list[Condition]:
    return [
        Condition(row.reshape(block.slopes.shape[3], -1), -float(target))
        for block in blocks if len(block.residual) == 1
        for row, target in zip(block.matrix(), block.residual.ravel(), strict=True)
    ]  # fmt: skip


def _solved(
    inside: Sequence[Operator], conditions: Sequence[Condition], num: int
) -> np.ndarray | None:
    """The coefficients; None where the matrix is singular, or its bands are too wide.

    Unknowns go by degree: all outputs' coefficients of one, and the conditions' partial sums.
    """
    outputs, group = len(inside), len(inside) + len(conditions)
    scale = _scale(inside)
    rows, cols, values, target = [], [], [], np.zeros(num * group)
    places = _places([operator.freedom for operator in inside], len(conditions), num)
    for operator, place in zip(inside, places, strict=False):
        count = num - operator.freedom
        target[place] = operator.target[:count]
        for o, matrix in enumerate(operator.matrices):
            part = matrix[:count].tocoo()
            rows.append(place[part.row])
            cols.append(part.col * group + o)
            values.append(part.data * scale[o, part.col])
    for r, (condition, place) in enumerate(zip(conditions, places[outputs:], strict=True)):
        sums, parts = np.arange(num) * group + outputs + r, scale * condition.row
        size = float(np.linalg.norm(parts)) or 1.0
        rows += [place[:-1], place[1:], *[place[:-1]] * outputs]
        cols += [sums, sums, *(np.arange(num) * group + o for o in range(outputs))]
        following = np.append(-np.ones(num - 1), 1.0)  # the last sum is what is asked for
        values += [np.ones(num), following, *(-parts / size)]
        target[place[-1]] = condition.target / size
    solved = _banded(np.concatenate(rows), np.concatenate(cols), np.concatenate(values), target)
    if solved is None:
        return None
    return (scale * solved.reshape(num, group)[:, :outputs].T).ravel()


def _scale(inside: Sequence[Operator]) -> np.ndarray:
    """What makes columns of norm one, (outputs, functions): derivatives grow with the degree."""
    squares = sum(
        np.array([m.multiply(m).sum(axis=0) for m in operator.matrices]) for operator in inside
    )
    return 1 / np.sqrt(np.where(np.asarray(squares) > 0, squares, 1))


def _places(freedoms: Sequence[int], conditions: int, num: int) -> list[np.ndarray]:
    """The rows of every equation and condition in the whole, beside the unknowns they begin with.

    An equation's first row goes with the degree that its derivatives bring down to zero; a
    condition has a row for each degree, and one behind all others.
    """
    keys = [np.arange(num - d) + d for d in freedoms]
    keys += [np.append(np.arange(num), num)] * conditions
    which = np.concatenate([np.full(len(key), i) for i, key in enumerate(keys)])
    order = np.lexsort([which, np.concatenate(keys)])
    place = np.empty(len(order), int)
    place[order] = np.arange(len(order))
    return np.split(place, np.cumsum([len(key) for key in keys])[:-1])


def _banded(
    rows: np.ndarray, cols: np.ndarray, values: np.ndarray, target: np.ndarray
) -> np.ndarray | None:
    """The solution of a matrix by its entries, rows scaled to norm one, with partial pivoting."""
    used = values != 0
    rows, cols, values = rows[used], cols[used], values[used]
    lower, upper = int(np.max(rows - cols)), int(np.max(cols - rows))
    if len(target) * lower * (lower + upper) > MOST_WORK:
        return None
    size = np.sqrt(np.bincount(rows, values**2, len(target)))
    if not size.all():
        return None
    bands = np.zeros((lower + upper + 1, len(target)))
    np.add.at(bands, (upper + rows - cols, cols), values / size[rows])
    try:
        return scipy.linalg.solve_banded((lower, upper), bands, target / size)
    except np.linalg.LinAlgError:
        return None
