"""Powers of the coefficients in which solutions are simplest (Box and Cox 1964).

A wall's layers have conductivities k_i, and what counts is the sum of their resistances 1 / k_i: in
these the flux is one over a linear function, in the k_i a polynomial of degree eight over another.
A network of many coefficients sees the first at once, and has to find it out from the second.

Solutions of linear equations are rational functions of what the equations are affine in (Cramer's
rule). So each power is judged by how well solutions at many settings are rational functions of
degree one over one: P_j(z) / Q(z) with one denominator for all components, which is a linear
least-squares problem when it is multiplied out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lcpinn.interpolated import Between
from lcpinn.prior import Coefficients

EXPONENTS = (1.0, 0.5, 0.0, -0.5, -1.0, -2.0)  # zero is the logarithm
SETTINGS, POINTS = 400, 128
SWEEPS = 3  # over all coefficients, of which one is changed at a time
KEPT = 1e-8  # of the largest: components of the solutions that count
POSITIVE = 0.02  # of the denominator's mean: a smaller one is next to a pole
WORTH = 3.0  # how many times less has to be missing for another variable to be seen
DEGREES, ROUNDING = (4, 8, 16, 32, 64), 1e-12


def simplest_powers(known: Between) -> dict[str, float]:
    """Of free coefficients that another variable is better for than their own: the exponents."""
    prior = known.family.parameters
    settings = np.asarray(prior.sobol(SETTINGS, seed=3))
    table = components(known, settings)
    ranges = [prior.ranges[name] for name in prior.names]
    changeable = [
        i for i, name in enumerate(prior.names) if name in prior.free and ranges[i][0] > 0
    ]
    remaining = lambda exponents: missing(settings, table, ranges, exponents)
    own = np.array([0.0 if axis.log else 1.0 for axis in prior.axes])
    exponents = own
    before = lowest = remaining(own)
    # All of them together first, then one at a time, and again.
    for sweep in range(1 + SWEEPS):
        last = exponents
        for which in [changeable] if sweep == 0 else [[i] for i in changeable]:
            for exponent in EXPONENTS:
                tried = exponents.copy()
                tried[which] = exponent
                if not np.array_equal(tried, exponents) and (share := remaining(tried)) < lowest:
                    lowest, exponents = share, tried
        if sweep and exponents is last:
            break
    if lowest * WORTH > before:
        return {}
    return {prior.names[i]: float(exponents[i]) for i in changeable if exponents[i] != own[i]}


def as_polynomials(
    prior: Coefficients, exponents: dict[str, float]
) -> tuple[tuple[float, ...], ...]:
    """Chebyshev coefficients of each variable in [-1, 1], of lambda as networks see it."""
    return tuple(
        _polynomial(prior, i, exponents[name]) if name in exponents else (0.0, 1.0)
        for i, name in enumerate(prior.names)
    )


def _polynomial(prior: Coefficients, index: int, exponent: float) -> tuple[float, ...]:
    bounds = prior.ranges[prior.names[index]]

    def variable(places: Any) -> Any:
        unit = np.full((len(places), prior.dim), 0.5)
        unit[:, index] = (places + 1) / 2
        return _scaled(np.asarray(prior.from_unit(unit))[:, index], bounds, exponent)

    between, fit = np.linspace(-1, 1, 501), np.zeros(1)
    for degree in DEGREES:
        fit = np.polynomial.chebyshev.chebinterpolate(variable, degree)
        missed = np.polynomial.chebyshev.chebval(between, fit) - variable(between)
        if np.abs(missed).max() < ROUNDING:
            break
    return tuple(map(float, fit))


def _scaled(values: np.ndarray, bounds: tuple[float, float], exponent: float) -> np.ndarray:
    """A power of positive values, from -1 to 1 over their range."""
    power = np.log if exponent == 0 else lambda value: np.asarray(value) ** exponent
    low, high = power(np.asarray(bounds))
    return 2 * (power(values) - low) / (high - low) - 1


def components(known: Between, settings: np.ndarray) -> np.ndarray:
    """Solutions (n, m) at settings (n, p): every output relative to its size, in few numbers."""
    points = np.asarray(known.family.domain.sobol(POINTS, seed=9))
    values = np.asarray(known.at_all(points, settings))  # (points, settings, outputs)
    size = np.sqrt(np.mean(values**2, axis=(0, 1)))
    table = np.moveaxis(values / np.where(size > 0, size, 1), 1, 0).reshape(len(settings), -1)
    left, sizes, _ = np.linalg.svd(table, full_matrices=False)
    count = int(np.sum(sizes > KEPT * sizes[0]))
    return left[:, :count] * sizes[:count]


def missing(
    settings: np.ndarray,
    components: np.ndarray,
    ranges: Sequence[tuple[float, float]],
    exponents: np.ndarray,
) -> float:
    """What the best P(z) / Q(z) with linear P and Q leaves of the solutions: its share of them."""
    columns = [
        _scaled(settings[:, i], bounds, exponent) if bounds[0] < bounds[1] else settings[:, i] * 0
        for i, (bounds, exponent) in enumerate(zip(ranges, exponents, strict=True))
    ]
    z = np.stack(columns, axis=1)
    numerators, _ = np.linalg.qr(np.column_stack([np.ones(len(z)), z]))
    beyond = lambda table: table - numerators @ (numerators.T @ table)
    # u Q - P = 0 with Q = 1 + q'z, for what is beyond all P.
    rows = np.stack([beyond(components * z[:, [i]]).ravel() for i in range(z.shape[1])], axis=1)
    q = np.linalg.lstsq(rows, -beyond(components).ravel(), rcond=None)[0]
    denominator = 1 + z @ q
    if denominator.min() < POSITIVE:
        return np.inf
    missed = beyond(components * denominator[:, None]) / denominator[:, None]
    return float(np.linalg.norm(missed) / np.linalg.norm(components))
