"""Products of one function along each axis, up to a total degree.

Of all products k = (k_1, ..., k_d) with k_i < n_i functions along the axes these are the ones with

    k_1 / n_1 + ... + k_d / n_d < 1.

On a ball polynomials of total degree resolve as much in every direction as along the axes, which a
tensor of them does only in the corners of the cube (on which see Trefethen 2017). In three
coordinates they are a sixth of the tensor, in four a twenty-fourth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lcpinn.jet import MultiIndex, Orders, factorial
from lcpinn.spectral.basis import CHUNK, Axis, tail_length


@dataclass(frozen=True)
class DegreeBasis:
    """Products of limited degree; coefficients are flat, by their indices in lexical order."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.num for axis in self.axes)

    @cached_property
    def degrees(self) -> np.ndarray:
        """The position along every axis of each product's function, (size, dim)."""
        every = np.indices(self.shape).reshape(len(self.axes), -1).T
        return every[self._share(every) < 1 - 1e-12]

    def _share(self, degrees: np.ndarray) -> np.ndarray:
        return (degrees / np.array(self.shape)).sum(axis=1)

    @property
    def size(self) -> int:
        return len(self.degrees)

    def product(self, points: np.ndarray, index: MultiIndex) -> np.ndarray:
        """One Taylor coefficient (n, size) of all products at points (n, dim)."""
        value = np.empty((len(points), self.size))
        self._write_product(value, points, index)
        return value

    def _write_product(self, value: np.ndarray, points: np.ndarray, index: MultiIndex) -> None:
        """In place, and gathered by `take`: this is memory's time, and most of a table's."""
        tables = [axis.values(points[:, i], index[i]) for i, axis in enumerate(self.axes)]
        first = tables[0] / factorial(index)
        np.take(first, self.degrees[:, 0], axis=1, out=value, mode="clip")
        for i, table in enumerate(tables[1:], 1):
            value *= np.take(table, self.degrees[:, i], axis=1)

    def table(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, size) of all products at points (n, dim) in no order."""
        table = np.empty((len(orders), len(points), self.size))
        for value, index in zip(table, orders.indices, strict=True):
            self._write_product(value, points, index)
        return table

    def evaluate(self, coefficients: np.ndarray, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, outputs) of an expansion (outputs, size) at points."""
        values = np.empty((len(orders), len(points), len(coefficients)))
        for piece in self._pieces(len(points)):
            for s, index in enumerate(orders.indices):
                values[s, piece] = self.product(points[piece], index) @ coefficients.T
        return values

    def _pieces(self, num: int) -> Iterator[slice]:
        rows = max(1, CHUNK // max(self.size, 1))
        for start in range(0, num, rows):
            yield slice(start, start + rows)

    def resized(self, coefficients: np.ndarray, other: DegreeBasis) -> np.ndarray:
        """The coefficients (outputs, size) in another basis, cut or padded with zeros."""
        known = {tuple(k): i for i, k in enumerate(self.degrees.tolist())}
        at = [known.get(tuple(k), -1) for k in other.degrees.tolist()]
        padded = np.concatenate([coefficients, np.zeros((len(coefficients), 1))], axis=1)
        return padded[:, at]

    def tails(self, coefficients: np.ndarray) -> list[float]:
        """Along each axis, the share of its last coefficients in an expansion (outputs, size)."""
        whole = max(float(np.linalg.norm(coefficients)), np.finfo(float).tiny)
        return [
            float(np.linalg.norm(coefficients[:, self._is_last(i)])) / whole
            for i in range(len(self.axes))
        ]

    def _is_last(self, axis: int) -> np.ndarray:
        num = self.shape[axis]
        return self.degrees[:, axis] >= num - tail_length(num)

    def last(self, functions: np.ndarray) -> np.ndarray:
        """The coefficients of the highest degrees of several expansions: (k, f) of (o, size, f)."""
        last = self._share(self.degrees) >= min(1 - tail_length(num) / num for num in self.shape)
        return functions[:, last].reshape(-1, functions.shape[2])
