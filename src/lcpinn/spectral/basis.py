"""Functions along a coordinate, their derivatives, and products of them over several coordinates.

Chebyshev polynomials along an interval, sines and cosines along a circle. Derivatives are taken as
Gegenbauer polynomials (Olver and Townsend 2013),

    d^m T_k / dx^m = 2^(m-1) (m-1)! k C^(m)_(k-m),

whose three-term recurrence keeps its accuracy with a thousand functions, where differentiating
coefficients would lose a digit for every factor of three.

Or integrals of Legendre polynomials, whose derivatives of one order are orthogonal in the plain
mean over the interval. They span the same polynomials, but a differential equation of that order is
then an integral equation of the second kind (Greengard 1991), well conditioned in that norm however
many functions there are; and what least squares leaves in that norm is orthogonal to smooth
functions, and has hardly any solution. What is left in the weights of Gegenbauer polynomials may be
large at the ends, where these vanish: conditions on derivatives there amplify it by powers of the
number of functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from lcpinn.jet import Orders, factorial

CHUNK = 1 << 22  # numbers in one table at scattered points: bounds the memory that it takes
UNUSED, FEW = 1e-14, 4  # the share of a coefficient that is rounding; functions kept beyond
TAIL = 8  # the last coefficients along an axis that tell whether they have decayed: one in so many


@dataclass(frozen=True)
class Axis:
    """Functions along one coordinate, and the collocation points that go with them.

    With `integrated`, an order m, they are m-fold integrals of Legendre polynomials.
    """

    low: float
    high: float
    periodic: bool
    num: int
    integrated: int | None = None

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where one polynomial ends and another one begins (elements.py)."""
        return ()

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
        if self.integrated is not None:
            return fejer(len(self._unit))
        mass = np.ones(len(self._unit)) if self.periodic else np.sin(np.pi * self._unit)
        return mass / mass.sum()

    def row_weights(self, order: int) -> np.ndarray:
        """Weights in which the derivatives of that order of all functions are orthogonal."""
        if self.periodic or self.integrated is not None:
            return self.weights()
        mass = np.sin(np.pi * self._unit) ** (2 * order)
        return mass / mass.sum()

    def values(self, x: np.ndarray, order: int) -> np.ndarray:
        """Every function's derivative of that order, (len(x), num)."""
        if self.periodic:
            wave = 2 * np.pi * ((np.arange(self.num) + 1) // 2) / (self.high - self.low)
            phase = np.where(np.arange(self.num) % 2, 0.0, np.pi / 2) + order * np.pi / 2
            return wave**order * np.sin(np.outer(x - self.low, wave) + phase)
        slope = 2 / (self.high - self.low)
        s = slope * (x - self.low) - 1
        if self.integrated is not None:
            return slope**order * _integrated_legendre(s, self.num, self.integrated, order)
        return slope**order * _chebyshev(s, self.num, order)

    def projected(self, coefficients: np.ndarray, axis: Axis) -> np.ndarray:
        """An expansion (outputs, functions) along another axis, at the points of this one."""
        points = self.nodes()
        values = axis.values(points, 0) @ coefficients.T
        return np.linalg.lstsq(self.values(points, 0), values, rcond=None)[0].T


def _chebyshev(s: np.ndarray, num: int, order: int) -> np.ndarray:
    """Derivatives of T_0 .. T_(num-1) at s, (len(s), num)."""
    table = np.zeros((num, len(s)))
    if order == 0:
        table[:1], table[1:2] = 1.0, s
        for k in range(2, num):
            table[k] = 2 * s * table[k - 1] - table[k - 2]
        return table.T
    if num > order:  # C_0, C_1, ... at rows order, order + 1, ...
        table[order] = 1.0
        table[order + 1 : order + 2] = 2 * order * s
        for n in range(2, num - order):
            recent = 2 * (n + order - 1) * s * table[order + n - 1]
            table[order + n] = (recent - (n + 2 * order - 2) * table[order + n - 2]) / n
    factor = 2.0 ** (order - 1) * math.factorial(order - 1) * np.arange(num)
    return (factor[:, None] * table).T


def _integrated_legendre(s: np.ndarray, num: int, integrals: int, order: int) -> np.ndarray:
    """Derivatives of integrals of normalised Legendre polynomials, below them P_0, P_1, ...

    ∫ P_k = (P_(k+1) - P_(k-1)) / (2k+1), and so on for integrals of integrals.
    """
    if order > integrals:
        raise ValueError(f"a derivative of order {order} of integrals of order {integrals}")
    count, several = max(num - integrals, 0), integrals - order
    table = _legendre(s, count + several)
    for _ in range(several):  # k of them, two less known on each level
        below = np.concatenate([np.zeros((1, len(s))), table[:-2]])
        table = (table[1:] - below) / (2 * np.arange(len(table) - 1) + 1)[:, None]
    table *= np.sqrt(2 * np.arange(count) + 1)[:, None]
    legendre = np.polynomial.legendre
    few = np.eye(integrals)[: min(num, integrals)]
    lowest = [legendre.legval(s, legendre.legder(one, order)) for one in few]
    return np.concatenate([np.reshape(lowest, (len(few), len(s))), table]).T


def _legendre(s: np.ndarray, num: int) -> np.ndarray:
    """P_0 .. P_(num-1) at s, (num, len(s))."""
    table = np.zeros((num, len(s)))
    table[:1], table[1:2] = 1.0, s
    for k in range(2, num):
        table[k] = ((2 * k - 1) * s * table[k - 1] - (k - 1) * table[k - 2]) / k
    return table


@lru_cache(maxsize=256)
def fejer(count: int) -> np.ndarray:
    """Fejér's weights at so many Chebyshev points, for a mean: exact for as many polynomials."""
    angle, even = np.pi * (np.arange(count) + 0.5) / count, np.arange(1, (count + 1) // 2)
    weights = (1 - 2 * np.cos(2 * np.outer(angle, even)) @ (1 / (4.0 * even**2 - 1))) / count
    weights.flags.writeable = False  # one array for all who ask
    return weights


@dataclass(frozen=True)
class TensorBasis:
    """All products of one function along each axis; coefficients are flat, the last axis first."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.num for axis in self.axes)

    @property
    def breaks(self) -> tuple[float, ...]:
        """Those of the only axis that can have some."""
        return self.axes[0].breaks if len(self.axes) == 1 else ()

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def _degrees(self) -> np.ndarray:
        """Of every product its degree along each axis, as a share of the highest: (size, dim)."""
        degrees = np.meshgrid(*(np.arange(n) / n for n in self.shape), indexing="ij")
        return np.stack([d.ravel() for d in degrees], axis=-1)

    @cached_property
    def kept(self) -> np.ndarray:
        """Products that are worth an unknown, (size,): of three axes or more, those in a ball.

        Smooth functions that know no axes have about as small coefficients beyond it as behind the
        last one along an axis (Trefethen 2017, Multivariate polynomial approximation in the
        hypercube).
        """
        if len(self.axes) < 3:
            return np.ones(self.size, bool)
        return np.sum(self._degrees**2, axis=1) <= 1

    def table(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, size) of all products at points (n, dim) in no order."""
        parts = []
        for index in orders.indices:
            product = np.ones((len(points), 1)) / factorial(index)
            for axis, x, order in zip(self.axes, points.T, index, strict=True):
                product = (product[:, :, None] * axis.values(x, order)[:, None]).reshape(len(x), -1)
            parts.append(product)
        return np.stack(parts)

    def evaluate(self, coefficients: np.ndarray, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, outputs) of an expansion (outputs, size) at points (n, dim).

        The axes are contracted one after the other: the table of all products is never made.
        """
        rows = max(1, CHUNK // (self.size * len(coefficients)))
        pieces = [
            self._evaluate(coefficients, points[start : start + rows], orders)
            for start in range(0, len(points), rows)
        ]
        empty = np.zeros((len(orders), 0, len(coefficients)))
        return np.concatenate([empty, *pieces], axis=1)

    def _evaluate(self, coefficients: np.ndarray, points: np.ndarray, orders: Orders) -> np.ndarray:
        values = np.empty((len(orders), len(points), len(coefficients)))
        first, *others = self.axes
        stacked = np.moveaxis(coefficients.reshape(len(coefficients), first.num, -1), 1, 0)
        for s, index in enumerate(orders.indices):
            table = first.values(points[:, 0], index[0]) / factorial(index)
            value = np.tensordot(table, stacked, 1)  # (n, outputs, the other axes)
            for axis, x, order in zip(others, points.T[1:], index[1:], strict=True):
                value = value.reshape(*value.shape[:2], axis.num, -1)
                value = np.einsum("nk,nokr->nor", axis.values(x, order), value)
            values[s] = value.reshape(value.shape[:2])
        return values

    def grams(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Sums over all products of two of their Taylor coefficients at each point, (n, s, s)."""
        total = np.ones((len(points), len(orders), len(orders)))
        for i, (axis, x) in enumerate(zip(self.axes, points.T, strict=True)):
            along = [index[i] for index in orders.indices]
            known = {order: axis.values(x, order) for order in set(along)}
            tables = np.stack([known[order] for order in along], axis=1)
            total *= tables @ tables.swapaxes(1, 2)
        scale = 1 / np.array([factorial(index) for index in orders.indices])
        return scale[:, None] * scale * total

    def resized(self, coefficients: np.ndarray, other: TensorBasis) -> np.ndarray:
        """The coefficients (outputs, size) in another basis, cut or padded with zeros; projected
        where that has other elements."""
        if self.breaks != other.breaks:
            return other.axes[0].projected(coefficients, self.axes[0])
        return padded(coefficients, self.shape, other.shape)

    def tails(self, coefficients: np.ndarray) -> list[float]:
        """Along each axis, the share of its last coefficients in an expansion (outputs, size).

        Of three axes or more, those near the rim of the ball belong to the axis of their highest
        degree.
        """
        last = self._degrees > [1 - (tail_length(num) + 0.5) / num for num in self.shape]
        if len(self.axes) > 2:
            rim = np.linalg.norm(self._degrees, axis=1) > 1 - 1 / TAIL
            highest = np.argmax(self._degrees, axis=1)
            last[rim, highest[rim]] = True
        squares = np.sum(coefficients**2, axis=0)
        whole = max(float(np.sum(squares)), np.finfo(float).tiny)
        return [float(np.sqrt(np.sum(squares[some]) / whole)) for some in last.T]

    def used(self, coefficients: np.ndarray, share: float = UNUSED) -> list[int]:
        """Along each axis, how many functions an expansion (outputs, size) has more of than a share
        of the largest one of an output, and a few more."""
        tensor = np.abs(coefficients.reshape(-1, *self.shape))
        largest = tensor.max(axis=tuple(range(1, tensor.ndim)), keepdims=True)
        tensor, counts = tensor / np.where(largest > 0, largest, 1), []
        for i, num in enumerate(self.shape):
            along = np.moveaxis(tensor, 1 + i, 0).reshape(num, -1).max(axis=1)
            counts.append(min(num, int(np.max(np.flatnonzero(along > share), initial=0)) + 1 + FEW))
        return counts

    def last(self, functions: np.ndarray) -> np.ndarray:
        """The last coefficients along any axis of several expansions: (k, f) of (o, size, f)."""
        num = functions.shape[2]
        tensor = functions.reshape(len(functions), *self.shape, num)
        tails = [
            np.take(tensor, range(n - tail_length(n), n), axis=1 + i).reshape(-1, num)
            for i, n in enumerate(self.shape)
        ]
        return np.concatenate(tails)


def tail_length(num: int) -> int:
    return min(num, max(2, num // TAIL))


def padded(coefficients: np.ndarray, shape: Sequence[int], other: Sequence[int]) -> np.ndarray:
    """Tensors (k, size) of one shape as those of another, cut or padded with zeros."""
    old = coefficients.reshape(-1, *shape)
    new = np.zeros((len(old), *other))
    common = tuple(slice(min(a, b)) for a, b in zip(shape, other, strict=True))
    new[(slice(None), *common)] = old[(slice(None), *common)]
    return new.reshape(len(old), -1)


class Bounded(Protocol):
    """A domain with a bounding box."""

    @property
    def ranges(self) -> dict[str, tuple[float, float]]: ...
    @property
    def periodic(self) -> tuple[str, ...]: ...


def basis_on(
    domain: Bounded, sizes: Sequence[int], integrated: Sequence[int] | None = None
) -> TensorBasis:
    """So many functions along each coordinate of a domain, or of its bounding box.

    `integrated` has an order for each coordinate: integrals of Legendre polynomials are taken.
    """
    orders = (None,) * len(sizes) if integrated is None else integrated
    axes = [
        Axis(low, high, periodic, num, None if periodic else order)
        for (name, (low, high)), num, order in zip(
            domain.ranges.items(), sizes, orders, strict=True
        )
        for periodic in [name in domain.periodic]
    ]
    return TensorBasis(tuple(axes))
