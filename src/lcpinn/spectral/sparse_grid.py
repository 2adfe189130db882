"""Interpolation between settings: nested Chebyshev nodes, and polynomials on sparse grids of them.

Level 0 is the centre of [-1, 1], level l > 0 has the 2^l + 1 points cos(π j / 2^l): every level
contains the ones before (Clenshaw and Curtis). A set of multi-indices of levels, closed downwards,
stands for the sum of tensor interpolants

    Σ over l of c_l I_{l_1} ⊗ ... ⊗ I_{l_d},    c_l = Σ (-1)^|e| over e in {0, 1}^d, l + e in it,

which is Smolyak's construction where the set is a simplex and a tensor grid where it is a box. It
interpolates at the union of all grids, and is exact for the polynomials of every one of them.

References: Smolyak 1963; Gerstner and Griebel, Computing 71 (2003) 65-87, for sets that grow where
something is to be gained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, reduce

import numpy as np

Level = tuple[int, ...]

FINEST = 10  # the highest level that nodes are numbered for
TAIL = 8  # the share of an axis's highest degrees that tell what is missing: one in so many


def degree_of(level: int) -> int:
    """The highest degree of a polynomial on the nodes of a level."""
    return 0 if level == 0 else 2**level


def level_of(degree: int) -> int:
    """The first level that has this degree."""
    return 0 if degree == 0 else max(1, (degree - 1).bit_length())


def axis_positions(level: int) -> np.ndarray:
    """The nodes of a level, as their numbers among those of the finest one."""
    if level == 0:
        return np.array([2 ** (FINEST - 1)])
    return np.arange(2**level + 1) * 2 ** (FINEST - level)


def node(position: np.ndarray) -> np.ndarray:
    """Numbers as nodes in [-1, 1]; the ends and the centre are exact."""
    return np.sin(np.pi * (2.0 * position / 2**FINEST - 1) / 2)


@cache
def axis_transform(level: int) -> np.ndarray:
    """From values at the nodes of a level to Chebyshev coefficients, (degrees, nodes)."""
    degree = degree_of(level)
    if degree == 0:
        return np.ones((1, 1))
    # Nodes ascend, node j being cos(π (degree - j) / degree): the rule of Clenshaw and Curtis.
    angles = np.pi * np.outer(np.arange(degree + 1), degree - np.arange(degree + 1)) / degree
    ends = np.ones(degree + 1)
    ends[[0, -1]] = 0.5
    return 2 / degree * ends[:, None] * np.cos(angles) * ends


class SparseGrid:
    """Nodes (n, d) of a set of levels, degrees (n, d) of its polynomials, and the way between."""

    def __init__(self, levels: Iterable[Level]):
        self.levels = tuple(dict.fromkeys(tuple(map(int, level)) for level in levels))
        self.dim = len(self.levels[0])
        missing = [low for one in self.levels for low in _below(one) if low not in self._set]
        if missing:
            raise ValueError(f"the set is not closed downwards: {missing[0]} is missing")

    @cached_property
    def positions(self) -> np.ndarray:
        """Every node once, (n, d), in the order of the levels: more levels add nodes at the end."""
        seen: dict[tuple[int, ...], None] = {}
        for level in self.levels:
            axes = [axis_positions(n).tolist() for n in level]
            seen.update(dict.fromkeys(itertools.product(*axes)))
        return np.array(list(seen), int).reshape(-1, self.dim)

    @property
    def nodes(self) -> np.ndarray:
        """In [-1, 1]^d, (n, d)."""
        return node(self.positions)

    @cached_property
    def degrees(self) -> np.ndarray:
        """The degrees of all Chebyshev products that are there, (n, d)."""
        boxes = (itertools.product(*map(_degrees, level)) for level in self.levels)
        degrees = sorted(set(itertools.chain.from_iterable(boxes)))
        return np.array(degrees, int).reshape(-1, self.dim)

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """Values at the nodes (n, ...) as coefficients (n, ...) of the Chebyshev products."""
        row = {tuple(p): i for i, p in enumerate(self.positions.tolist())}
        place = {tuple(d): i for i, d in enumerate(self.degrees.tolist())}
        total = np.zeros((len(place), *values.shape[1:]))
        for level in self.levels:
            factor = self._factor(level)
            if factor == 0:
                continue
            nodes = itertools.product(*(axis_positions(n).tolist() for n in level))
            tensor = values[[row[p] for p in nodes]]
            tensor = tensor.reshape(*(degree_of(n) + 1 for n in level), -1)
            for i, n in enumerate(level):
                tensor = np.moveaxis(np.tensordot(axis_transform(n), tensor, (1, i)), 0, i)
            rows = [place[d] for d in itertools.product(*map(_degrees, level))]
            total[rows] += factor * tensor.reshape(len(rows), *values.shape[1:])
        return total

    def _factor(self, level: Level) -> int:
        """c_l: how often the tensor interpolant of a level counts."""
        shifts = itertools.product((0, 1), repeat=self.dim)
        return sum((-1) ** sum(e) for e in shifts if _sum(level, e) in self._set)

    @cached_property
    def _set(self) -> frozenset[Level]:
        return frozenset(self.levels)

    @cached_property
    def beside(self) -> list[Level]:
        """Levels one above a member, whether or not all others below them are members, too."""
        return sorted({up for one in self.levels for up in _above(one)} - self._set)

    def candidates(self) -> list[Level]:
        """Levels that could be added so that the set stays closed downwards."""
        return [one for one in self.beside if all(low in self._set for low in _below(one))]

    def towards(self, level: Level) -> list[Level]:
        """What makes a level beside the set a candidate, in order; itself where it is one."""
        lower = itertools.product(*(range(n + 1) for n in level))
        return [one for one in lower if one != level and one not in self._set] or [level]

    def missing(self, sizes: np.ndarray, level: Level) -> float:
        """What a level beside the set might add, by coefficients' sizes (n,): Σ size² over a tail.

        Its new degrees lie beyond the last ones of each of its parents; the smallest of the tails
        of those that are members bounds it where coefficients decay. A constant along an axis says
        nothing of that, and counts where there is nothing else: of a exp(b) it is zero.
        """
        tails = []
        parents = {i: _lower(level, i) for i in range(self.dim) if level[i] > 0}
        members = {i: parent for i, parent in parents.items() if parent in self._set}
        varying = {i: parent for i, parent in members.items() if parent[i] > 0}
        for i, parent in (varying or members).items():
            inside = np.all(self._block == np.array(parent), axis=1)
            last = degree_of(parent[i])
            first = min(last - max(2, last // TAIL) + 1, last)
            inside &= self.degrees[:, i] >= first
            tails.append(float(np.sqrt(np.sum(sizes[inside] ** 2))))
        return min(tails)

    @cached_property
    def _block(self) -> np.ndarray:
        """For every product of polynomials the level that brings it, (n, d)."""
        return np.vectorize(level_of, otypes=[int])(self.degrees)

    def with_levels(self, levels: Iterable[Level]) -> SparseGrid:
        return SparseGrid([*self.levels, *levels])


def box(level: int, dim: int) -> SparseGrid:
    """The full tensor grid with the same level along every axis."""
    return SparseGrid(itertools.product(range(level + 1), repeat=dim))


def evaluate(degrees: np.ndarray, coefficients: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Σ coefficient · ∏ T_degree(point), at points (m, d): (m, ...)."""
    angles = np.arccos(np.clip(points, -1, 1))
    parts = [np.cos(np.outer(a, d)) for a, d in zip(angles.T, degrees.T, strict=True)]
    products = reduce(np.multiply, parts, np.ones((len(points), len(degrees))))
    return np.tensordot(products, coefficients, 1)


def _sum(level: Level, other: Sequence[int]) -> Level:
    return tuple(a + b for a, b in zip(level, other, strict=True))


def _above(level: Level) -> list[Level]:
    return [_sum(level, unit) for unit in np.eye(len(level), dtype=int).tolist()]


def _below(level: Level) -> list[Level]:
    return [_lower(level, axis) for axis in range(len(level)) if level[axis] > 0]


def _lower(level: Level, axis: int) -> Level:
    return tuple(n - (i == axis) for i, n in enumerate(level))


def _degrees(level: int) -> range:
    return range(degree_of(level) + 1)
