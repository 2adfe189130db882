"""Tensor grids, functions on them, and the linearised rows of a term there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from lcpinn.jet import MultiIndex, Orders, factorial
from lcpinn.quadrature import tensor
from lcpinn.term import Term


@dataclass(frozen=True)
class Axis:
    """Functions along one coordinate."""

    low: float
    high: float
    periodic: bool
    num: int

    @property
    def _unit(self) -> np.ndarray:
        count = -(-4 * self.num // 3)
        return (np.arange(count) + 0.5) / count

    def nodes(self) -> np.ndarray:
        """A third more points than functions; Chebyshev's, or equidistant ones."""
        unit = self._unit if self.periodic else (1 - np.cos(np.pi * self._unit)) / 2
        return self.low + (self.high - self.low) * unit

    def weights(self) -> np.ndarray:
        """What the nodes count for in a mean over the coordinate; they sum to one."""
        mass = np.ones(len(self._unit)) if self.periodic else np.sin(np.pi * self._unit)
        return mass / mass.sum()

    def values(self, x: np.ndarray, order: int) -> np.ndarray:
        """Every function's derivative of that order, (len(x), num)."""
        if self.periodic:
            wave = 2 * np.pi * ((np.arange(self.num) + 1) // 2) / (self.high - self.low)
            phase = np.where(np.arange(self.num) % 2, 0.0, np.pi / 2) + order * np.pi / 2
            return wave**order * np.sin(np.outer(x - self.low, wave) + phase)
        slope = 2 / (self.high - self.low)
        unit = np.eye(self.num)
        table = np.polynomial.chebyshev.chebder(unit, order, axis=0) if order else unit
        s = slope * (x - self.low) - 1
        return slope**order * np.polynomial.chebyshev.chebval(s, table).T


class Grid:
    """A tensor of points, inside or on a face, with every axis's functions there."""

    def __init__(self, axes: Sequence[Axis], held: dict[int, float], orders: Orders, term: Term):
        self.orders, self.term, self.num = orders, term, axes[0].num
        nodes = [np.array([held[i]]) if i in held else a.nodes() for i, a in enumerate(axes)]
        self.points = tensor(nodes)
        self.weights = [np.ones(1) if i in held else axis.weights() for i, axis in enumerate(axes)]
        most = max(max(index) for index in orders.indices)
        self._tables = [
            [axis.values(x, order) for order in range(most + 1)]
            for axis, x in zip(axes, nodes, strict=True)
        ]

    def tables(self, index: MultiIndex) -> list[np.ndarray]:
        """For each axis (points, functions); their product is a Taylor coefficient."""
        found = [table[order] for table, order in zip(self._tables, index, strict=True)]
        return [found[0] / factorial(index), *found[1:]]

    def series(self, coefficients: np.ndarray) -> np.ndarray:
        """The Taylor coefficients (s, n, outputs) of an expansion (outputs, functions)."""
        parts = [
            np.stack([along(self.tables(index), one) for one in coefficients], axis=-1)
            for index in self.orders.indices
        ]
        return np.stack(parts)


def along(tables: Sequence[np.ndarray], tensor_: np.ndarray) -> np.ndarray:
    """A product of matrices, one for each axis, times a tensor that is given and returned flat."""
    value = tensor_.reshape([table.shape[1] for table in tables])
    for table in tables:  # the axis in front goes to the back, and is the next but all others
        value = np.tensordot(value, table, (0, 1))
    return value.ravel()


def scattered(axes: Sequence[Axis], points: np.ndarray, orders: Orders) -> np.ndarray:
    """Taylor coefficients (s, n, functions) of all products, at points in no order."""
    found = []
    for index in orders.indices:
        product = np.ones((len(points), 1)) / factorial(index)
        for axis, x, order in zip(axes, points.T, index, strict=True):
            product = (product[:, :, None] * axis.values(x, order)[:, None]).reshape(len(x), -1)
        found.append(product)
    return np.stack(found)


@dataclass(frozen=True, eq=False)
class Block:
    """The linearised rows of one term on one grid: slopes (n, c, s, outputs), residual (n, c)."""

    grid: Grid
    residual: np.ndarray
    slopes: np.ndarray

    def matrix(self) -> np.ndarray:
        """The linearised term of every function: (n c, outputs functions)."""
        n, c, _, o = self.slopes.shape
        total = np.zeros((n, c, o, self.grid.num ** len(self.grid.weights)))
        for s, index in enumerate(self.grid.orders.indices):
            if self.slopes[:, :, s].any():
                basis = reduce(np.kron, self.grid.tables(index))
                total += self.slopes[:, :, s, :, None] * basis[:, None, None]
        return total.reshape(n * c, -1)
