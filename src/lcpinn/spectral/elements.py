"""Piecewise polynomials along one coordinate: for coefficients that jump, and for thin layers.

Between breaks the derivative of order m of a function is a polynomial of its own, and the function
itself is its m-fold integral: continuous with all derivatives below, which is what the solution of
an equation of that order is where a coefficient jumps. Legendre polynomials on each element make
these derivatives orthogonal, as on a single one (basis.py). Functions come by degree and then by
element, so that the last ones are those of the highest degree, and more of them are appended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from lcpinn.spectral.basis import Axis, fejer


@dataclass(frozen=True)
class ElementAxis(Axis):
    """Elements, each with as many polynomials whose integrals of order `integrated` are taken.

    `ends` are where one meets the next. `num` is the order with a multiple of their number.
    """

    ends: tuple[float, ...] = ()

    @property
    def breaks(self) -> tuple[float, ...]:
        return self.ends

    @staticmethod
    def with_degree(
        low: float, high: float, order: int, breaks: tuple[float, ...], degree: int
    ) -> ElementAxis:
        """So many polynomials on every element."""
        num = order + degree * (len(breaks) + 1)
        return ElementAxis(low, high, False, num, order, breaks)

    @property
    def order(self) -> int:
        assert self.integrated is not None
        return self.integrated

    @property
    def degree(self) -> int:
        """Polynomials on every element."""
        return (self.num - self.order) // (len(self.breaks) + 1)

    @property
    def edges(self) -> np.ndarray:
        return np.array([self.low, *self.breaks, self.high])

    @property
    def _per_element(self) -> int:
        return -(-4 * self.degree // 3) + 1

    def nodes(self) -> np.ndarray:
        """Chebyshev points of every element, a third more than functions."""
        count, edges = self._per_element, self.edges
        unit = (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2
        return (edges[:-1, None] + np.diff(edges)[:, None] * unit).ravel()

    def weights(self) -> np.ndarray:
        share = np.diff(self.edges) / (self.high - self.low)
        return (share[:, None] * fejer(self._per_element)).ravel()

    def values(self, x: np.ndarray, order: int) -> np.ndarray:
        return self.table(np.asarray(x, float), order, np)

    def table(self, x: Any, order: int, xp: ModuleType) -> Any:
        """Every function's derivative of that order (len(x), num), by NumPy or by jax.numpy."""
        if order > self.order:
            raise ValueError(f"a derivative of order {order} of integrals of order {self.order}")
        slope = 2 / (self.high - self.low)
        s, edges = slope * (x - self.low) - 1, slope * (self.edges - self.low) - 1
        lowest = [_legendre_derivative(s, k, order, xp) for k in range(self.order)]
        pieces = [
            _integrals(s, a, b, last, self.degree, self.order - order, xp)
            for a, b, last in zip(edges[:-1], edges[1:], _is_last(edges), strict=True)
        ]
        columns = xp.stack(pieces, axis=-1).reshape(len(x), -1)  # by degree, then by element
        return slope**order * xp.concatenate([xp.stack(lowest, axis=-1), columns], axis=1)

    def local(self, coefficients: np.ndarray) -> np.ndarray:
        """The polynomials (outputs, degree, elements) of an expansion's highest derivatives."""
        kept = coefficients[:, self.order :]
        return kept.reshape(len(kept), self.degree, len(self.breaks) + 1)

    def projected(self, coefficients: np.ndarray, axis: Axis) -> np.ndarray:
        """An expansion (outputs, functions) in this basis, from one along another axis.

        Its highest derivative element by element, and what it and the others are at the left end.
        """
        slope = 2 / (self.high - self.low)
        points, mass = np.polynomial.legendre.leggauss(self.degree + 2)
        edges = self.edges
        half = np.diff(edges)[:, None] / 2
        x = (edges[:-1, None] + half + half * points).ravel()
        highest = axis.values(x, self.order) @ coefficients.T / slope**self.order
        highest = highest.reshape(len(half), len(points), -1)
        polynomials = _legendre(points, self.degree, np) * mass / 2
        norms = np.sqrt(2 * np.arange(self.degree) + 1)[:, None]
        local = np.einsum("dn,pno->odp", norms * polynomials, highest)
        local *= np.sqrt(half[:, 0] / half.sum())
        left = np.array([self.low])
        known = np.concatenate([axis.values(left, j) / slope**j for j in range(self.order)])
        own = [[_legendre_derivative(-1.0, k, j, np) for k in range(self.order)]
               for j in range(self.order)]  # fmt: skip
        lowest = np.linalg.solve(np.array(own, float), known @ coefficients.T)
        return np.concatenate([lowest.T, local.reshape(len(local), -1)], axis=1)


def _is_last(edges: np.ndarray) -> list[bool]:
    return [i == len(edges) - 2 for i in range(len(edges) - 1)]


def _legendre(s: Any, num: int, xp: ModuleType) -> Any:
    """P_0 .. P_(num-1) at s, (num, len(s))."""
    rows = [xp.ones_like(s), s]
    for k in range(2, num):
        rows.append(((2 * k - 1) * s * rows[-1] - (k - 1) * rows[-2]) / k)
    return xp.stack(rows[:num])


def _legendre_derivative(s: Any, k: int, order: int, xp: ModuleType) -> Any:
    """The derivative of P_k of that order, for a k below the order of an equation."""
    series = np.polynomial.legendre.legder(np.eye(k + 1)[k], order)
    power = np.polynomial.legendre.leg2poly(series)
    value = xp.zeros_like(s)
    for coefficient in power[::-1]:
        value = value * s + coefficient
    return value


def _integrals(
    s: Any, low: float, high: float, last: bool, degree: int, several: int, xp: ModuleType
) -> Any:
    """(n, degree): integrals from the left of an element's polynomials, of mean square one.

    Behind it they go on as what their derivatives at its end say.
    """
    half = (high - low) / 2
    local = xp.clip((s - low) / half - 1, -1.0, 1.0)
    behind = xp.maximum(s - high, 0.0)
    value = 0.0
    if several == 0:
        inside = (s >= low) & ((s <= high) if last else (s < high))
        value = xp.where(inside, _from_left(local, degree, 0, xp), 0.0)
    for j in range(several):
        factor = half ** (several - j) / math.factorial(j)
        there = local if j == 0 else xp.ones_like(local)
        value = value + factor * _from_left(there, degree, several - j, xp) * behind**j
    norms = np.sqrt((2 * np.arange(degree) + 1) / half)[:, None]
    return (norms * value).T


def _from_left(s: Any, degree: int, several: int, xp: ModuleType) -> Any:
    """Integrals of Legendre polynomials from -1 on, (degree, n), several times."""
    values, ends = (
        _legendre(s, degree + several, xp),
        _legendre(np.array([-1.0]), degree + several, np),
    )
    levels = [ends]
    for _ in range(several):
        values, ends = _once(values, xp), _once(ends, np)
        levels.append(ends)
    for j in range(several):  # less the polynomial that it is at the left end
        values = values - levels[several - j][:degree] * (s + 1) ** j / math.factorial(j)
    return values


def _once(table: Any, xp: ModuleType) -> Any:
    """∫ P_k = (P_(k+1) - P_(k-1)) / (2k+1), one k less."""
    below = xp.concatenate([xp.zeros_like(table[:1]), table[:-2]])
    return (table[1:] - below) / (2 * np.arange(len(table) - 1) + 1)[:, None]
