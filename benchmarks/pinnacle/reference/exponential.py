"""ETDRK4: u_t = L u + N(t, u) with a diagonal L, by fourth-order exponential time differencing.

Cox and Matthews (2002); the coefficients by contour integrals, as in Kassam and Trefethen, SIAM J.
Sci. Comput. 26 (2005) 1214-1233.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CONTOUR = np.exp(1j * np.pi * (np.arange(1, 17) - 0.5) / 16)  # half a circle: L is real


def integrate(
    linear: np.ndarray,
    nonlinear: Callable[[float, np.ndarray], np.ndarray],
    start: np.ndarray,
    times: np.ndarray,
    step: float,
) -> np.ndarray:
    """The states at these equispaced times, the first of which is the start's, (times, ...)."""
    per_level = max(1, round((times[1] - times[0]) / step))
    step = (times[1] - times[0]) / per_level
    whole, half = np.exp(step * linear), np.exp(step * linear / 2)
    weights = _weights(linear, step)
    states, state, time = [start], start, float(times[0])
    for _ in range(len(times) - 1):
        for _ in range(per_level):
            state = _step(state, time, step, whole, half, weights, nonlinear)
            time += step
        states.append(state)
    return np.stack(states)


def _weights(linear: np.ndarray, step: float) -> tuple[np.ndarray, ...]:
    z = step * linear[..., None] + CONTOUR
    mean = lambda f: step * np.real(np.mean(f, axis=-1))
    e = np.exp(z)
    return (
        mean((np.exp(z / 2) - 1) / z),
        mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3),
        mean((2 + z + e * (z - 2)) / z**3),
        mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3),
    )


def _step(
    u: np.ndarray,
    t: float,
    h: float,
    whole: np.ndarray,
    half: np.ndarray,
    weights: tuple[np.ndarray, ...],
    nonlinear: Callable[[float, np.ndarray], np.ndarray],
) -> np.ndarray:
    q, first, middle, last = weights
    n0 = nonlinear(t, u)
    a = half * u + q * n0
    n1 = nonlinear(t + h / 2, a)
    b = half * u + q * n1
    n2 = nonlinear(t + h / 2, b)
    c = half * a + q * (2 * n2 - n0)
    n3 = nonlinear(t + h, c)
    return whole * u + first * n0 + 2 * middle * (n1 + n2) + last * n3
