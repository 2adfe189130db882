"""Collocation: the points where a term is asked to hold, and its linearised rows there.

Two kinds: `TensorGrid`, points on a tensor grid inside the box or on one of its faces, whose rows
are never written out unless they have to be; and `ScatteredPoints`, any points at all. With the
latter a basis on the bounding box of a shape is an extension frame (Adcock and Huybrechs 2019):
redundant on the shape, and solved by truncated least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol

import numpy as np

from lcpinn.jet import MultiIndex, Orders, factorial
from lcpinn.quadrature import tensor
from lcpinn.spectral.basis import CHUNK, TensorBasis
from lcpinn.spectral.frame import Basis, some_of
from lcpinn.spectral.transforms import transforms, values_of
from lcpinn.term import Term

KEPT = 1 << 25  # numbers in a table that is kept for the next step


class Collocation(Protocol):
    """A term, the points (n, dim) where it holds, and the functions there."""

    @property
    def term(self) -> Term: ...
    @property
    def orders(self) -> Orders: ...
    @property
    def points(self) -> np.ndarray: ...

    def series(self, coefficients: np.ndarray) -> np.ndarray:
        """The Taylor coefficients (s, n, outputs) of an expansion (outputs, functions)."""
        ...

    def matrix(self, slopes: np.ndarray) -> np.ndarray:
        """The linearised term of every function, (n c, outputs functions)."""
        ...


class TensorGrid:
    """A tensor of points, inside or on a face, with every axis's functions there."""

    def __init__(self, basis: TensorBasis, fixed: dict[int, float], orders: Orders, term: Term):
        self.basis, self.orders, self.term = basis, orders, term
        axes = basis.axes
        nodes = [np.array([fixed[i]]) if i in fixed else a.nodes() for i, a in enumerate(axes)]
        self.points = tensor(nodes)
        self.counts = [len(x) for x in nodes]
        self.weights = [np.ones(1) if i in fixed else axis.weights() for i, axis in enumerate(axes)]
        highest = [max(index[i] for index in orders.indices) for i in range(len(axes))]
        self.row_weights = [
            np.ones(1) if i in fixed else axis.row_weights(highest[i])
            for i, axis in enumerate(axes)
        ]
        self._nodes = nodes
        self._tables: dict[tuple[int, int], np.ndarray] = {}  # by axis and order, once asked for

    def tables(self, index: MultiIndex) -> list[np.ndarray]:
        """For each axis (points, functions); their product is a Taylor coefficient."""
        first, *others = self.derivatives(index)
        return [first / factorial(index), *others]

    def derivatives(self, index: MultiIndex) -> list[np.ndarray]:
        """For each axis (points, functions), the derivatives themselves."""
        for key in enumerate(index):
            if key not in self._tables:
                axis, order = key
                self._tables[key] = self.basis.axes[axis].values(self._nodes[axis], order)
        return [self._tables[key] for key in enumerate(index)]

    def series(self, coefficients: np.ndarray) -> np.ndarray:
        """The Taylor coefficients (s, n, outputs) of an expansion (outputs, functions)."""
        if self._transforms:
            return values_of(coefficients.T, self.counts[0])[None]
        parts = [
            np.stack([apply_axes(self.tables(index), one) for one in coefficients], axis=-1)
            for index in self.orders.indices
        ]
        return np.stack(parts)

    @property
    def _transforms(self) -> bool:
        """Whether all that is asked for is values along one axis: a table might be too large."""
        one = len(self.basis.axes) == 1 and self.counts[0] > 1 and len(self.orders) == 1
        return one and transforms(self.basis.axes[0])

    def matrix(self, slopes: np.ndarray) -> np.ndarray:
        """The linearised term of every function: (n c, outputs functions)."""
        n, c, _, o = slopes.shape
        total = np.zeros((n, c, o, self.basis.size))
        for s, index in enumerate(self.orders.indices):
            if slopes[:, :, s].any():
                product = reduce(np.kron, self.tables(index))
                total += slopes[:, :, s, :, None] * product[:, None, None]
        return total.reshape(n * c, -1)


def apply_axes(tables: Sequence[np.ndarray], coefficients: np.ndarray) -> np.ndarray:
    """A product of matrices, one for each axis, times a tensor that is given and returned flat."""
    value = coefficients.reshape([table.shape[1] for table in tables])
    for table in tables:  # the axis in front goes to the back, and is the next but all others
        value = np.tensordot(value, table, (0, 1))
    return value.ravel()


@dataclass(frozen=True, eq=False)
class ScatteredPoints:
    """Points in no order, such as those inside a shape or on its boundary."""

    basis: Basis
    points: np.ndarray
    orders: Orders
    term: Term

    @cached_property
    def _table(self) -> np.ndarray | None:
        """(s, n, functions), kept where it is not large."""
        if len(self.orders) * len(self.points) * self.basis.size > KEPT:
            return None
        return self.basis.table(self.points, self.orders)

    def series(self, coefficients: np.ndarray) -> np.ndarray:
        """The Taylor coefficients (s, n, outputs) of an expansion (outputs, functions)."""
        if self._table is None:
            return self.basis.evaluate(coefficients, self.points, self.orders)
        return self._table @ coefficients.T

    def matrix(self, slopes: np.ndarray) -> np.ndarray:
        """The linearised term of every function: (n c, outputs functions)."""
        n, c, _, o = slopes.shape
        total = np.empty((n, c, o, self.basis.size))
        wanted = [int(s) for s in np.flatnonzero(np.any(slopes, axis=(0, 1, 3)))]
        for start in range(0, n, rows := max(1, CHUNK // self.basis.size)):
            piece = slice(start, start + rows)
            total[piece] = np.einsum(
                "ncso,snb->ncob", slopes[piece][:, :, wanted], self._some(piece, wanted),
                optimize=True,
            )  # fmt: skip
        return total.reshape(n * c, o * self.basis.size)

    def row_norms(self, slopes: np.ndarray) -> np.ndarray:
        """The norms (n, c) of the matrix's rows; of products of functions it is not made."""
        if not isinstance(self.basis, TensorBasis):
            return np.linalg.norm(self.matrix(slopes), axis=1).reshape(slopes.shape[:2])
        grams = self.basis.grams(self.points, self.orders)
        return np.sqrt(np.einsum("ncso,nst,ncto->nc", slopes, grams, slopes, optimize=True))

    def _some(self, piece: slice, wanted: Sequence[int]) -> np.ndarray:
        if self._table is None:
            return some_of(self.basis, self.points[piece], self.orders, wanted)
        return self._table[list(wanted)][:, piece]


@dataclass(frozen=True, eq=False)
class LinearisedRows:
    """One term's residual (n, c) at its points, and its slopes (n, c, s, outputs)."""

    collocation: Collocation
    residual: np.ndarray
    slopes: np.ndarray

    def matrix(self) -> np.ndarray:
        """The linearised term of every function: (n c, outputs functions)."""
        return self.collocation.matrix(self.slopes)
