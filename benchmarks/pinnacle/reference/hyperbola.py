"""Inverse Laplace transforms by the trapezoidal rule on a hyperbola.

f(t) = Im Σ w_k e^{s_k t} F(s_k) for real f and all t of one window, with half of the contour
s(θ) = μ (1 + sin(iθ - α)). Weideman and Trefethen, Math. Comp. 76 (2007) 1341-1356.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Contour(NamedTuple):
    """Points s_k and weights w_k, (num,) each."""

    points: np.ndarray
    weights: np.ndarray

    def kernel(self, time: float) -> np.ndarray:
        """w_k e^{s_k t}: the transform's values times this, summed, have f(t) as imaginary part."""
        return self.weights * np.exp(self.points * time)


def contour(first: float, last: float, num: int) -> Contour:
    """For all times from `first` to `last`; singularities lie on the negative real axis."""
    angles = np.linspace(np.pi / 4, np.pi / 2, 2001)[1:-1]
    ratio = last / first
    width = np.arccosh(
        ((np.pi - 2 * angles) * ratio + 4 * angles - np.pi)
        / ((4 * angles - np.pi) * np.sin(angles))
    )
    best = np.argmax((np.pi**2 - 2 * np.pi * angles) / width)  # the rate of convergence
    angle, step = angles[best], width[best] / num
    scale = (4 * np.pi * angle - np.pi**2) / width[best] * num / last
    theta = (np.arange(num) + 0.5) * step
    points = scale * (1 + np.sin(1j * theta - angle))
    return Contour(points, step / np.pi * 1j * scale * np.cos(1j * theta - angle))
