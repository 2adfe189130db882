"""Functions that are singular in the holes of a region.

What solves an elliptic equation between holes is a sum of functions, one regular inside of the
rim around all and, for each hole, one regular outside of it (for analytic functions Laurent's
theorem; Vekua 1967 for others). With z = (x + iy - c) / a for a hole of radius a about c, the
functions

    z^-m |z|^2j,    log|z| z^m |z|^2j    and in three dimensions    ξ^α / |x|,  |x|² ξ^α / |x|

with ξ = x / |x|² (Kelvin's transform) have their singularities where the solution has them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from lcpinn.jet import Orders, product_table
from lcpinn.shape.holes import Hole

LOGARITHMIC = 4  # the highest degree of what multiplies a logarithm


class Modes(NamedTuple):
    """Functions of a hole: values (k, s, n), a name and a degree (k,) for each.

    The degree is what a function counts for where products with functions of other coordinates are
    limited; the name is the same in any number of functions.
    """

    values: np.ndarray
    names: list[Hashable]
    degrees: np.ndarray


class Taylor:
    """Arithmetic of Taylor coefficients (s, n), NumPy's and complex, over one set of orders."""

    def __init__(self, orders: Orders):
        self.orders, self._table = orders, product_table(orders)

    def coordinate(self, x: np.ndarray, coordinate: int, slope: complex) -> np.ndarray:
        """Values of something linear in one coordinate."""
        series = np.zeros((len(self.orders), len(x)), np.result_type(x, type(slope)))
        series[0] = x
        for s, index in enumerate(self.orders.indices):
            if sum(index) == 1 and index[coordinate] == 1:
                series[s] = slope
        return series

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.stack([sum(a[i] * b[j] for i, j in pairs) for pairs in self._table])

    def compose(self, series: np.ndarray, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """f(series), for the Taylor coefficients of f at its values, one for each degree."""
        rest = series.copy()
        rest[0] = 0.0
        total = np.zeros_like(series)
        total[0] = coefficients[-1]
        for coefficient in coefficients[-2::-1]:  # Horner's rule
            total = self.product(total, rest)
            total[0] += coefficient
        return total

    def power(self, series: np.ndarray, exponent: float) -> np.ndarray:
        value, factor, coefficients = series[0], 1.0, []
        for k in range(self.orders.degree + 1):
            coefficients.append(factor * value ** (exponent - k))
            factor *= (exponent - k) / (k + 1)
        return self.compose(series, coefficients)

    def log(self, series: np.ndarray) -> np.ndarray:
        value = series[0]
        powers = [-((-1.0 / value) ** k) / k for k in range(1, self.orders.degree + 1)]
        return self.compose(series, [np.log(value), *powers])


def round_modes(
    hole: Hole, degree: int, powers: int, points: np.ndarray, orders: Orders, *,
    limited: bool = False,
) -> Modes:  # fmt: skip
    """Functions of a hole in two coordinates, up to an angular frequency.

    `powers` counts the even powers of |z| beside z^-m, to either side; where they are `limited`
    none falls off faster than |z| to the power of -degree. Functions with a logarithm come first.
    """
    taylor = Taylor(orders)
    z, inverse, square = _planar(taylor, hole, points)
    shrinking = taylor.power(square, -1.0)
    modes: list[np.ndarray] = []
    names: list[Hashable] = []
    degrees: list[int] = []

    def extend(mode: np.ndarray, factor: np.ndarray, num: int, kind: str, m: int, by: int) -> None:
        for j in range(num):
            parts = [np.real(mode), np.imag(mode)] if m else [np.real(mode)]
            modes.extend(parts)
            names.extend((kind, m, j, i) for i in range(len(parts)))
            degrees.extend([m + by * j] * len(parts))
            mode = taylor.product(mode, factor)

    power = (taylor.log(square) / 2).astype(complex)
    for m in range(LOGARITHMIC + 1):
        extend(power, square, (LOGARITHMIC - m) // 2 + 1, "logarithmic", m, 2)
        power = taylor.product(power, z)
    power = inverse
    within = lambda m: min(powers, (degree - m) // 2) if limited else powers
    extend(shrinking.astype(complex), shrinking, within(0), "falling", 0, 2)
    for m in range(1, degree + 1):
        extend(power, shrinking, within(m) + 1, "falling", m, 2)
        extend(taylor.product(power, square), square, min(powers, m - 1), "rising", m, 0)
        power = taylor.product(power, inverse)
    return Modes(np.stack(modes), names, np.array(degrees))


def _planar(
    taylor: Taylor, hole: Hole, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z, 1 / z and |z|², or periodic functions that are like them at every copy of the hole.

    With θ = 2 π a z / L for the period L those are sin θ, cot(θ / 2) and 2 |1 - cos θ|, up to
    factors: sin θ is zero half a period away, too, and its inverse would have a pole there.
    """
    (i, j), (cx, cy), a = hole.coordinates, hole.centre, hole.radius
    z = taylor.coordinate((points[:, i] - cx + 1j * (points[:, j] - cy)) / a, i, 1 / a)
    z = z + taylor.coordinate(np.zeros(len(points)), j, 1j / a)
    if hole.period is None:
        return z, taylor.power(z, -1.0), np.real(taylor.product(z, z.conj()))
    wave = 2 * np.pi * a / hole.period
    degrees = range(taylor.orders.degree + 1)
    quarter = [np.sin(wave * z[0] + k * np.pi / 2) for k in range(4)]  # sine and its derivatives
    factors = [wave**k / math.factorial(k) for k in degrees]
    sine = taylor.compose(z, [factors[k] * quarter[k % 4] for k in degrees])
    rest = taylor.compose(z, [-factors[k] * quarter[(k + 1) % 4] for k in degrees])
    rest[0] += 1.0  # 1 - cos
    inverse = wave / 2 * taylor.product(sine, taylor.power(rest, -1.0))
    modulus = taylor.power(np.real(taylor.product(rest, rest.conj())), 0.5)
    return sine / wave, inverse, 2 * modulus / wave**2


def solid_modes(hole: Hole, degree: int, powers: int, points: np.ndarray, orders: Orders) -> Modes:
    """Functions of a hole in three coordinates: Kelvin's transforms of monomials.

    `powers` counts the even powers of |x| beside; the order is as in two coordinates.
    """
    taylor = Taylor(orders)
    offsets = [
        taylor.coordinate((points[:, i] - c) / hole.radius, i, 1 / hole.radius)
        for i, c in zip(hole.coordinates, hole.centre, strict=True)
    ]
    square = np.sum([taylor.product(x, x) for x in offsets], axis=0)
    potential, shrinking = taylor.power(square, -0.5), taylor.power(square, -1.0)
    inverted = [taylor.product(x, shrinking) for x in offsets]
    modes: list[np.ndarray] = []
    names: list[tuple[Hashable, tuple[int, ...]]] = []
    for same in _monomials(taylor, offsets, potential, 2):
        modes += same.values()
        names += (("potential", index) for index in same)
    for same in _monomials(taylor, inverted, potential, degree)[1:]:
        for j in range(powers + 1):
            modes += same.values()
            names += ((j, index) for index in same)
            same = {index: taylor.product(mode, square) for index, mode in same.items()}
    degrees = np.array([sum(index) for _, index in names])
    return Modes(np.stack(modes), list(names), degrees)


def _monomials(
    taylor: Taylor, factors: Sequence[np.ndarray], first: np.ndarray, degree: int
) -> list[dict[tuple[int, ...], np.ndarray]]:
    """All products of `first` with factors by their powers, for each degree up to the given one."""
    products = [{(0,) * len(factors): first}]
    for _ in range(degree):
        following: dict[tuple[int, ...], np.ndarray] = {}
        for (index, product), axis in itertools.product(products[-1].items(), range(len(factors))):
            raised = tuple(n + (k == axis) for k, n in enumerate(index))
            if raised not in following:
                following[raised] = taylor.product(product, factors[axis])
        products.append(following)
    return products
