"""Rows on tensor grids, never written out, and their normal matrix in blocks that decouple.

The normal matrix of rows on a tensor grid is a sum of Kronecker products: one, where slopes do not
depend on the place; where they do, as many as separate one axis from the others, which are
contracted one by one (sum factorisation). Two things keep it small. Of three coordinates and more
only the functions within a ball of Euclidean degree are unknowns, which resolve as much as all of
them (Trefethen 2017). And what a page's symmetries keep apart is factorised apart: even and odd
functions of a coordinate with even derivatives alone and the same conditions at both ends, waves of
different numbers along a circle. Which functions are coupled is found by applying the rows to
random ones: a coupling that is overlooked would cost iterations, and not change what they find.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy

from lcpinn.jet import MultiIndex, factorial
from lcpinn.spectral.basis import Axis
from lcpinn.spectral.collocation import LinearisedRows, TensorGrid, apply_axes

JITTERS = (1e-14, 1e-12, 1e-10)  # of the diagonal, the first that will do
SEPARATED = 1e-14  # the share of slopes' singular values that counts as none: it is rounding
DECOUPLED = 1e-10  # the share of a random function's image that counts as none: it is rounding
MOST_WORK = 1.6e12  # the sum of the blocks' sizes cubed: 10 s of a core
MOST_NUMBERS = 1.5e8  # of all blocks together
ELEMENTS = 1 << 21  # of a block, that are contracted at once


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

    def of(self, columns: np.ndarray, rows: np.ndarray | None = None) -> Factors:
        """What concerns some of the second output's other functions, and some of the first's."""
        others = self.others
        if rows is not None and len(rows) < others.shape[1]:
            others = others.take(rows, 1)
        if len(columns) < others.shape[2]:
            others = others.take(columns, 2)
        return Factors(self.first, others)


class Pair(NamedTuple):
    """Two derivatives, and the product of what a term has of them at its points, (n,)."""

    one: MultiIndex
    other: MultiIndex
    products: np.ndarray


class Cholesky(NamedTuple):
    """RᵀR = D A D with a diagonal of ones, slightly shifted."""

    upper: np.ndarray
    scale: np.ndarray  # the diagonal of D

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """A⁻¹ of it."""
        # SciPy's cho_solve is made for many right-hand sides, and takes two or three times as long.
        below = scipy.linalg.blas.dtrsv(self.upper, self.scale * gradient, trans=1)
        return self.scale * scipy.linalg.blas.dtrsv(self.upper, below, overwrite_x=True)


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
        return self.work / float(np.sum(self._sizes)) ** 3

    @property
    def work(self) -> float:
        """The sum of the blocks' sizes cubed."""
        return float(np.sum(self._sizes**3))

    @property
    def numbers(self) -> float:
        """Of all blocks together."""
        return float(np.sum(self._sizes**2))

    @cached_property
    def factorised(self) -> list[tuple[np.ndarray, Cholesky]]:
        """For every block its place among flat coefficients, and Cholesky's factor."""
        if self.work > MOST_WORK or self.numbers > MOST_NUMBERS:
            raise TooLarge
        factors = self._factors()
        return [
            (self._flat(block), factorised(partial(self._matrix, block, factors)))
            for block in self.blocks
        ]

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """(AᵀA)⁻¹ of flat coefficients; functions that are no unknowns stay zero."""
        solution = np.zeros_like(gradient)
        for index, factor in self.factorised:
            solution[index] = factor.solve(gradient[index])
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

    def _factors(self) -> dict[tuple[int, int], Factors]:
        """For two outputs, the second not behind the first, what products of theirs sum to."""
        sums: dict[tuple[int, int], list[Factors]] = defaultdict(list)
        for rows in self.rows:
            for (o, p), pairs in self._pairs(rows):
                sums[o, p].append(self._separated(rows, pairs))
        return {
            key: Factors(
                np.concatenate([f.first for f in several]),
                np.concatenate([f.others for f in several]),
            )
            for key, several in sums.items()
        }

    def _pairs(self, rows: TensorRows) -> Iterator[tuple[tuple[int, int], list[Pair]]]:
        """Two outputs with pairs of their derivatives; those along the axis apart are the same."""
        slopes, indices = rows.block.slopes, rows.grid.orders.indices
        grouped: dict[tuple[int, int, int, int], list[Pair]] = defaultdict(list)
        for s in rows.tables:
            for t in rows.tables:
                products = np.einsum("nco,ncp->opn", slopes[:, :, s], slopes[:, :, t])
                for o, p in np.argwhere(np.any(products, axis=2)):
                    if p <= o:
                        key = (int(o), int(p), indices[s][self.along], indices[t][self.along])
                        grouped[key].append(Pair(indices[s], indices[t], products[o, p]))
        for (o, p, *_), pairs in grouped.items():
            yield (o, p), pairs

    def _separated(self, rows: TensorRows, pairs: Sequence[Pair]) -> Factors:
        """Sums of products of a factor along the axis apart and one along all others.

        As many as it takes to separate the slopes' products over the points: one, where they are
        constant.
        """
        grid = rows.grid
        values = [np.moveaxis(p.products.reshape(grid.counts), self.along, 0) for p in pairs]
        sizes = [float(np.linalg.norm(value)) for value in values]  # small ones count as much
        flat = [v.reshape(len(v), -1) / size for v, size in zip(values, sizes, strict=True)]
        left = _left_factor(np.concatenate(flat, axis=1), SEPARATED)
        a, b = (grid.derivatives(index)[self.along] for index in pairs[0][:2])
        weighted = grid.row_weights[self.along][:, None] * left
        first = np.stack([a.T @ (w[:, None] * b) for w in weighted.T])
        others = sum(
            self._along_others(grid, pair, rows.scale * np.tensordot(left, value, (0, 0)))
            for pair, value in zip(pairs, values, strict=True)
        )
        assert isinstance(others, np.ndarray)
        num, ones = math.isqrt(others[0].size), range(1, others.ndim, 2)  # and the second of pairs
        return Factors(
            first, others.transpose(0, *ones, *(i + 1 for i in ones)).reshape(-1, num, num)
        )

    def _along_others(self, grid: TensorGrid, pair: Pair, value: np.ndarray) -> np.ndarray:
        """Products of two derivatives' functions along all axes but one, (r, m, m, n, n, ...).

        They are summed over the points, for each of some values (r, ...) there.
        """
        parts = list(zip(*map(grid.derivatives, pair[:2]), grid.row_weights, strict=True))
        del parts[self.along]
        for i, (c, d, v) in enumerate(parts):  # (r, pairs, ..., points behind)
            pairs = (v[:, None, None] * c[:, :, None] * d[:, None, :]).reshape(len(c), -1)
            value = np.moveaxis(np.tensordot(value, pairs, (1 + i, 0)), -1, 1 + i)
        sizes = [c.shape[1] for c, _, _ in parts]
        value = value.reshape(len(value), *(n for n in sizes for _ in (0, 1)))
        return value / (factorial(pair.one) * factorial(pair.other))

    def _matrix(
        self, block: Sequence[tuple[int, int, np.ndarray]], factors: dict[tuple[int, int], Factors]
    ) -> np.ndarray:
        """A block, what is on and below its diagonal."""
        groups, factors = _within(_grouped(block), factors)
        num = sum(len(index) for _, _, index in block)
        matrix = np.zeros((num, num))
        for i, other in enumerate(groups):
            known: dict[int, Factors] = {}  # by the other output
            for mine in groups[i:]:
                if (mine.output, other.output) not in factors:
                    continue  # no row has both outputs
                if mine.output not in known:
                    known[mine.output] = factors[mine.output, other.output].of(other.others)
                for part in mine.parts(other):
                    beside = other.before(part) if mine is other else other
                    product = _contracted(known[mine.output], part, beside)
                    _put(matrix, part, beside, product)
                    if other.places[-1] > mine.places[0] and mine is not other:  # interleaved
                        _put(matrix, beside, part, product.transpose(1, 0, 3, 2))
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

    def before(self, part: Group) -> Group:
        """What is not behind the last functions of a part of it."""
        num = int(np.searchsorted(self.places, part.places[-1], "right")) // len(self.others)
        return self._replace(apart=self.apart[:num], places=self.places[: num * len(self.others)])

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


def _within(
    groups: Sequence[Group], factors: dict[tuple[int, int], Factors]
) -> tuple[list[Group], dict[tuple[int, int], Factors]]:
    """Groups and factors with those of the other axes' functions alone that a block has."""
    used = {
        o: np.unique(np.concatenate([g.others for g in groups if g.output == o]))
        for o in {group.output for group in groups}
    }
    groups = [g._replace(others=np.searchsorted(used[g.output], g.others)) for g in groups]
    return groups, {
        (o, p): both.of(used[p], used[o])
        for (o, p), both in factors.items() if o in used and p in used
    }  # fmt: skip


def _contracted(factors: Factors, rows: Group, columns: Group) -> np.ndarray:
    """Σ over r of first[r, j, k] others[r, m, n], as (j, k, m, n)."""
    first = factors.first[:, rows.apart[:, None], columns.apart]
    others = factors.others
    if len(rows.others) < others.shape[1]:
        others = others.take(rows.others, 1)
    return np.tensordot(first, others, (0, 0))


def _put(matrix: np.ndarray, rows: Group, columns: Group, product: np.ndarray) -> None:
    """(j, k, m, n) into the rows (j and m) and columns (k and n) of a matrix."""
    product = product.transpose(0, 2, 1, 3)
    spans = [_span(group.places) for group in (rows, columns)]
    if all(isinstance(span, slice) for span in spans):
        matrix[tuple(spans)].reshape(product.shape)[...] = product  # a view: nothing is copied
    else:
        places = np.ix_(rows.places, columns.places)
        matrix[places] = product.reshape(len(rows.places), len(columns.places))


def _span(places: np.ndarray) -> slice | np.ndarray:
    contiguous = places[-1] - places[0] == len(places) - 1
    return slice(int(places[0]), int(places[-1]) + 1) if contiguous else places


def _left_factor(values: np.ndarray, cut: float) -> np.ndarray:
    """An orthonormal basis of the columns of values (n, m), but for a share of them."""
    triangle: Any = values.T if len(values) > values.shape[1] else np.linalg.qr(values.T, mode="r")
    left, singular, _ = np.linalg.svd(triangle.T, full_matrices=False)
    return left[:, singular > cut * singular[0]]


def _classes(axis: Axis) -> np.ndarray:
    """The class of every function along an axis: even and odd ones, or the number of a wave."""
    k = np.arange(axis.num)
    return (k + 1) // 2 if axis.periodic else k % 2


def factorised(matrix: Callable[[], np.ndarray]) -> Cholesky:
    """Cholesky's factor of a matrix that is singular to rounding where a level is free.

    It is made anew for every attempt, and there is rarely a second: a copy would take twice the
    memory. Of a function that no row sees, which then has an empty column, nothing is asked.
    """
    for jitter in JITTERS:
        below = matrix()
        diagonal = np.diag(below)
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1))
        below *= scale
        below *= scale[:, None]
        np.fill_diagonal(below, 1 + jitter)
        try:
            upper, _ = scipy.linalg.cho_factor(
                below.T, lower=False, overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError:
            continue
        return Cholesky(upper, scale)
    raise NotSolvable
