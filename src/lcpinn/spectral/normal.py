"""Rows on tensor grids, never written out, and their normal matrix in blocks that decouple.

The normal matrix of rows on a tensor grid is a sum of Kronecker products where slopes do not depend
on the place; where they do it is contracted axis by axis (sum factorisation). Two things keep it
small. Of three coordinates and more only the functions within a ball of Euclidean degree are
unknowns, which resolve as much as all of them (Trefethen 2017). And what a page's symmetries keep
apart is factorised apart: even and odd functions of a coordinate with even derivatives alone and
the same conditions at both ends, waves of different numbers along a circle. Which functions are
coupled is found by applying the rows to random ones: a coupling that is overlooked would cost
iterations, and not change what they find.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy

from lcpinn.jet import factorial
from lcpinn.spectral.basis import Axis
from lcpinn.spectral.collocation import LinearisedRows, TensorGrid, apply_axes

JITTERS = (1e-14, 1e-12, 1e-10)  # of the diagonal, the first that will do
ROUNDING = 1e-15  # relative variation of slopes over the points, below which they are constant
DECOUPLED = 1e-10  # the share of a random function's image that counts as none: it is rounding
MOST_WORK = 1.6e12  # the sum of the blocks' sizes cubed: 10 s of a core
MOST_NUMBERS = 1.5e8  # of all blocks together
ELEMENTS = 1 << 23  # of a block, that are contracted at once


class NotSolvable(Exception):
    """The normal matrix is far from positive definite."""


class TooLarge(NotSolvable):
    """Its blocks would take too long to factorise, or too much memory."""


class TensorRows:
    """The rows of a block on a tensor grid, weighted, of size one on average.

    The weights are those in which the highest derivatives of Chebyshev polynomials are orthogonal.
    """

    def __init__(self, block: LinearisedRows):
        assert isinstance(block.collocation, TensorGrid)
        self.block, self.grid = block, block.collocation
        mass = reduce(np.kron, self.grid.row_weights)
        self.tables = {
            s: self.grid.tables(index)
            for s, index in enumerate(self.grid.orders.indices)
            if block.slopes[:, :, s].any()
        }
        squares = np.einsum("n,ncso->s", mass, block.slopes**2)
        trace = sum(squares[s] * self._trace(tables) for s, tables in self.tables.items())
        num = block.slopes.shape[3] * self.grid.basis.size
        self.scale = num / trace if trace > 0 else 1.0
        self.weight = np.sqrt(self.scale * mass)[:, None]

    def _trace(self, tables: Sequence[np.ndarray]) -> float:
        pairs = zip(self.grid.row_weights, tables, strict=True)
        return float(np.prod([mass @ np.sum(table**2, axis=1) for mass, table in pairs]))

    @cached_property
    def constant(self) -> bool:
        """Whether the slopes are the same at all points."""
        slopes = self.block.slopes
        varying = np.ptp(slopes, axis=0) > ROUNDING * np.max(np.abs(slopes), axis=0, initial=0.0)
        return not varying.any()

    def apply(self, coefficients: np.ndarray) -> np.ndarray:
        """The weighted rows (n, c) of an expansion, which is flat."""
        slopes, total = self.block.slopes, np.zeros(self.block.residual.shape)
        for s, tables in self.tables.items():
            for o, one in enumerate(coefficients.reshape(slopes.shape[-1], -1)):
                if slopes[:, :, s, o].any():
                    total += slopes[:, :, s, o] * apply_axes(tables, one)[:, None]
        return self.weight * total

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """The transpose of `apply`."""
        slopes, weighted, parts = self.block.slopes, self.weight * values, []
        for o in range(slopes.shape[-1]):
            gradient = np.zeros(self.grid.basis.size)
            for s, tables in self.tables.items():
                if slopes[:, :, s, o].any():
                    each = np.sum(slopes[:, :, s, o] * weighted, axis=1)
                    gradient += apply_axes([t.T for t in tables], each)
            parts.append(gradient)
        return np.concatenate(parts)


class Factors(NamedTuple):
    """Σ over r of first (r, n, n) ⊗ others (r, m, m): between two outputs' functions.

    n of them are those along the axis that the matrix is divided by, m those of all other axes.
    """

    first: np.ndarray
    others: np.ndarray

    def of_rows(self, group: Group) -> Factors:
        """With the rows of a group's functions alone, as they are along the other axes."""
        if len(group.others) == self.others.shape[1]:
            return self
        return self._replace(others=self.others[:, group.others])


class NormalMatrix:
    """AᵀA for the functions of one basis, as blocks that are factorised one by one."""

    def __init__(self, rows: Sequence[TensorRows]):
        self.rows, self.basis = rows, rows[0].grid.basis
        self.num_outputs = rows[0].block.slopes.shape[3]
        self.along = int(np.argmax(self.basis.shape))  # one axis is treated apart from the others
        self.blocks = list(self._coupled_blocks())
        self._sizes = np.array([sum(len(i) for *_, i in block) for block in self.blocks], float)

    @property
    def share_of_work(self) -> float:
        """What factorising the blocks takes, beside what the whole matrix would."""
        return float(np.sum(self._sizes**3) / np.sum(self._sizes) ** 3)

    @cached_property
    def factorised(self) -> list[tuple[np.ndarray, Any]]:
        """For every block its place among flat coefficients, and Cholesky's factor."""
        if np.sum(self._sizes**3) > MOST_WORK or np.sum(self._sizes**2) > MOST_NUMBERS:
            raise TooLarge
        factors = self._factors()
        return [
            (self._flat(block), factorised(self._matrix(block, factors))) for block in self.blocks
        ]

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """(AᵀA)⁻¹ of flat coefficients; functions that are no unknowns stay zero."""
        solution = np.zeros_like(gradient)
        for index, factor in self.factorised:
            solution[index] = scipy.linalg.cho_solve(factor, gradient[index], check_finite=False)
        return solution

    # -- Which functions are coupled -------------------------------------------------------------

    def _coupled_blocks(self) -> Iterator[list[tuple[int, int, np.ndarray]]]:
        """Coupled functions as (output, its index along the axis apart, those of the others)."""
        classes = [_classes(axis) for axis in self.basis.axes]
        counts = [int(c.max()) + 1 for c in classes]
        coupled = [self._coupled(i, c) for i, c in enumerate(classes)]
        graph = np.block([
            [reduce(np.kron, [c[o, :, p] for c in coupled]) for p in self._outputs]
            for o in self._outputs
        ])  # fmt: skip
        _, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
        at = np.ravel_multi_index(np.ix_(*classes), counts)  # the class of every function
        labels = labels.reshape(self.num_outputs, -1)[:, at]
        labels = np.where(self.basis.kept.reshape(self.basis.shape), labels, -1)
        labels = np.moveaxis(labels, 1 + self.along, 1)
        labels = labels.reshape(*labels.shape[:2], -1)
        for label in np.unique(labels[labels >= 0]):
            members = labels == label
            places = np.argwhere(members.any(axis=2))
            yield [(int(o), int(j), np.flatnonzero(members[o, j])) for o, j in places]

    @property
    def _outputs(self) -> range:
        return range(self.num_outputs)

    def _coupled(self, axis: int, classes: np.ndarray) -> np.ndarray:
        """(outputs, classes, outputs, classes): whether AᵀA couples functions along an axis."""
        count, shape = int(classes.max()) + 1, (self.num_outputs, *self.basis.shape)
        random = np.random.default_rng(0).standard_normal(shape)
        coupled = np.zeros((self.num_outputs, count) * 2, bool)
        for o in self._outputs:
            for c in range(count):
                probe = np.zeros(shape)
                place = (o, *(slice(None),) * axis, classes == c)
                probe[place] = random[place]
                image = sum(r.transposed(r.apply(probe.ravel())) for r in self.rows)
                assert isinstance(image, np.ndarray)
                squares = np.moveaxis(image.reshape(shape) ** 2, 1 + axis, 1)
                squares = squares.reshape(*squares.shape[:2], -1).sum(axis=2)
                sums = np.stack([squares[:, classes == d].sum(axis=1) for d in range(count)], 1)
                coupled[o, c] = sums > DECOUPLED**2 * sums.sum()
                coupled[o, c, o, c] = True
        return coupled | coupled.transpose(2, 3, 0, 1)

    # -- The matrix of a block -------------------------------------------------------------------

    def _factors(self) -> dict[tuple[int, int], list[Factors]]:
        """For two outputs, the second not behind the first, what their functions' products sum to.

        Terms whose derivatives along the axis apart are the same have that factor in common.
        """
        sums: dict[tuple[int, int], list[Factors]] = defaultdict(list)
        for rows in self.rows:
            slopes, indices = rows.block.slopes, rows.grid.orders.indices
            grouped: dict[tuple[int, int, int, int], Any] = {}
            for s in rows.tables:
                for t in rows.tables:
                    products = np.einsum("nco,ncp->opn", slopes[:, :, s], slopes[:, :, t])
                    for o, p in np.argwhere(np.any(products, axis=2)):
                        if p <= o:
                            key = (o, p, indices[s][self.along], indices[t][self.along])
                            first, others = self._pair(rows, products[o, p], s, t)
                            before = grouped.get(key)
                            grouped[key] = (first, others if before is None else before[1] + others)
            for (o, p, *_), (first, others) in grouped.items():
                sums[o, p].append(Factors(first, others))
        return sums

    def _pair(
        self, rows: TensorRows, products: np.ndarray, s: int, t: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The factors of two derivatives whose slopes' products at the points are given."""
        grid, pair = rows.grid, [rows.grid.orders.indices[i] for i in (s, t)]
        share = rows.scale / (factorial(pair[0]) * factorial(pair[1]))
        left, right = (grid.derivatives(index) for index in pair)
        parts = list(zip(left, right, grid.row_weights, strict=True))
        apart = parts.pop(self.along)
        if rows.constant:
            first, *others = (a.T @ (w[:, None] * b) for a, b, w in (apart, *parts))
            return first[None], share * products[0] * reduce(np.kron, others, np.ones((1, 1)))[None]
        a, b, w = apart
        value = share * np.moveaxis(products.reshape(grid.counts), self.along, 0)
        for i, (c, d, v) in enumerate(parts):  # (points apart, pairs, ..., points behind)
            pairs = (v[:, None, None] * c[:, :, None] * d[:, None, :]).reshape(len(c), -1)
            value = np.moveaxis(np.tensordot(value, pairs, (1 + i, 0)), -1, 1 + i)
        sizes = [c.shape[1] for c, _, _ in parts]
        value = value.reshape(len(value), *(n for n in sizes for _ in (0, 1)))
        order = [1 + 2 * i for i in range(len(sizes))] + [2 + 2 * i for i in range(len(sizes))]
        num = int(np.prod(sizes))
        others = value.transpose(0, *order).reshape(len(value), num, num)
        return w[:, None, None] * a[:, :, None] * b[:, None, :], others

    def _matrix(
        self, block: Sequence[tuple[int, int, np.ndarray]],
        factors: dict[tuple[int, int], list[Factors]],
    ) -> np.ndarray:  # fmt: skip
        """A block, complete between functions of one output, and below the diagonal."""
        groups = _grouped(block)
        num = sum(len(index) for _, _, index in block)
        matrix = np.zeros((num, num), order="F")
        for i, mine in enumerate(groups):
            rows = {p: [f.of_rows(mine) for f in factors[mine.output, p]] for p in self._outputs}
            for other in groups[: i + 1]:
                for part in mine.parts(other):
                    total = sum(_contracted(f, part, other) for f in rows[other.output])
                    if isinstance(total, int):
                        continue  # no row has both outputs
                    matrix[np.ix_(part.places, other.places)] = total
                    if mine.output == other.output:
                        matrix[np.ix_(other.places, part.places)] = total.T
        return matrix

    def _flat(self, block: Sequence[tuple[int, int, np.ndarray]]) -> np.ndarray:
        """Where a block's functions are among flat coefficients."""
        shape = self.basis.shape
        at = np.arange(self.num_outputs * self.basis.size).reshape(-1, *shape)
        at = np.moveaxis(at, 1 + self.along, 1).reshape(len(at), shape[self.along], -1)
        return np.concatenate([at[o, j, index] for o, j, index in block])


class Group(NamedTuple):
    """Functions of a block that are products: of each along the axis apart with all the others.

    `places` are theirs in the block, those of the first along the axis apart before the second's.
    """

    output: int
    apart: np.ndarray
    others: np.ndarray
    places: np.ndarray

    def parts(self, beside: Group) -> Iterator[Group]:
        """In as many pieces as it takes for their products with others to fit into memory."""
        each = len(self.others) * len(beside.places)
        step = max(1, ELEMENTS // each)
        for begin in range(0, len(self.apart), step):
            span = slice(begin * len(self.others), (begin + step) * len(self.others))
            yield self._replace(apart=self.apart[begin : begin + step], places=self.places[span])


def _grouped(block: Sequence[tuple[int, int, np.ndarray]]) -> list[Group]:
    """A block's functions, by outputs and by what they are along the other axes."""
    ends = np.cumsum([0, *(len(index) for _, _, index in block)])
    members: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for place, (output, _, index) in enumerate(block):
        members[output, index.tobytes()].append(place)
    return [
        Group(
            output,
            np.array([block[place][1] for place in places]),
            block[places[0]][2],
            np.concatenate([np.arange(ends[place], ends[place + 1]) for place in places]),
        )
        for (output, _), places in members.items()
    ]


def _contracted(factors: Factors, rows: Group, columns: Group) -> np.ndarray:
    """Σ over r of first[r, j, k] others[r, m, n], as a matrix (j and m, k and n): of factors that
    have the rows of that group."""
    first = factors.first[:, rows.apart[:, None], columns.apart]
    others = factors.others
    if len(columns.others) < others.shape[2]:
        others = others[:, :, columns.others]
    product = np.tensordot(first, others, (0, 0)).transpose(0, 2, 1, 3)
    return product.reshape(len(rows.places), len(columns.places))


def _classes(axis: Axis) -> np.ndarray:
    """The class of every function along an axis: even and odd ones, or the number of a wave."""
    k = np.arange(axis.num)
    return (k + 1) // 2 if axis.periodic else k % 2


def factorised(normal: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky's factor of a matrix that is singular to rounding where a level is free.

    Of a function that no row sees, which then has an empty column, nothing is asked.
    """
    diagonal = np.diag(normal).copy()
    diagonal[diagonal <= 0] = 1.0
    for jitter in JITTERS:
        shifted = normal.copy(order="F")
        shifted[np.diag_indices_from(shifted)] = (1 + jitter) * diagonal
        try:
            factor, lower = scipy.linalg.cho_factor(
                shifted, lower=True, overwrite_a=True, check_finite=False
            )
            return factor, bool(lower)
        except np.linalg.LinAlgError:
            continue
    raise NotSolvable
