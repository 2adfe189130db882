"""Viscous Burgers in closed form: the Cole-Hopf transformation and Gauss-Hermite quadrature."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

VISCOSITY = 0.01 / np.pi
_CHUNK = 4096  # points evaluated together: a few MiB of work space for any number of points


def burgers(
    t: ArrayLike, x: ArrayLike, nu: float = VISCOSITY, num_nodes: int = 128
) -> NDArray[np.float64]:
    """Solution of Burgers' equation started from a sine wave, to rounding.

    u_t + u u_x = ν u_xx,  u(0, x) = -sin(πx),  periodic on [-1, 1], u(t, ±1) = 0.

    With y = x - z √(4νt), ⟨·⟩ the integral over z against exp(-z²), and
    h(y) = exp(-cos(πy) / (2πν)):  u(t, x) = -⟨sin(πy) h(y)⟩ / ⟨h(y)⟩.

    The integrand is entire, so the rule converges geometrically; at ν = 0.01/π and t <= 1 it has
    reached rounding (2e-15) from 100 nodes on. A rule too small for ν or t is refused.

    Shapes: t and x broadcast; the result has the broadcast shape. t = 0 is exact.
    Reference: Basdevant et al., Computers & Fluids 14 (1986) 23-41.
    """
    times, points = np.broadcast_arrays(np.asarray(t, float), np.asarray(x, float))
    if times.size and not times.min() >= 0.0:
        raise ValueError("Burgers' equation runs forward: t must be non-negative")
    if nu <= 0.0:
        raise ValueError(f"the Cole-Hopf formula needs a positive viscosity, not {nu}")
    if times.size:
        _check_rule(num_nodes, nu, float(times.max()))
    flat_times, flat_points = times.ravel(), points.ravel()
    values = np.empty(times.size)
    for start in range(0, times.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        values[part] = _quadrature(flat_times[part], flat_points[part], nu, num_nodes)
    initial = -np.sin(np.pi * points)
    return np.where(times == 0.0, initial, values.reshape(times.shape))


def _quadrature(
    t: NDArray[np.float64], x: NDArray[np.float64], nu: float, num_nodes: int
) -> NDArray[np.float64]:
    """The ratio of the two integrals at a chunk of points, shape (points,)."""
    nodes, log_weights = _hermite(num_nodes)
    phase = np.pi * (x[:, None] - np.sqrt(4.0 * nu * t)[:, None] * nodes)
    exponent = log_weights - np.cos(phase) / (2.0 * np.pi * nu)
    # The exponents span ±1/(2πν); only their differences matter to the ratio.
    exponent -= exponent.max(axis=1, keepdims=True)
    weight = np.exp(exponent)
    return -np.sum(weight * np.sin(phase), axis=1) / np.sum(weight, axis=1)


@lru_cache
def _hermite(num_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gauss-Hermite nodes and the logarithms of their weights."""
    nodes, weights = np.polynomial.hermite.hermgauss(num_nodes)
    with np.errstate(divide="ignore"):  # underflowed weights become -inf and drop out
        return nodes, np.log(weights)


def _check_rule(num_nodes: int, nu: float, last_time: float) -> None:
    """Refuse a rule that is too narrow for ν or too coarse for t.

    Width: the nodes reach z² = 2n, and h varies by exp(1/(πν)), so z² up to 1/(πν) + 40 counts.
    Spacing: it is π/√(2n), and the integrand's logarithm has curvature at most 2(1 + πt), which
    asks for n >= 19 (1 + πt); measured, they leave 5e-14.
    """
    width = 0.5 / (np.pi * nu) + 20.0
    spacing = 19.0 * (1.0 + np.pi * last_time)
    if width > 340.0:  # beyond z² = 680 the weights underflow, however many nodes there are
        raise ValueError(f"nu = {nu:.3g} is too small for Gauss-Hermite quadrature in float64")
    if num_nodes < max(width, spacing):
        needed = int(np.ceil(max(width, spacing)))
        raise ValueError(f"nu = {nu:.3g}, t = {last_time:.3g} need num_nodes >= {needed}")
