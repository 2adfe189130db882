"""Burgers' equation, for every weighting of its loss."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.domain import Box
from lcpinn.family import Evaluation, Family
from lcpinn.grading import graded
from lcpinn.reference import cole_hopf, heat_kernel
from lcpinn.term import interior, on

FRONT = 0.05  # in sin(πx); the front itself is a third as wide
NEAR = 0.01  # within which of the front rows lie densest


class Burgers(Family):
    """u_t + u u_x = ν u_xx on t in (0, 1), x in (-1, 1); u(0, x) = -sin(πx), u(t, ±1) = 0.

    ν = 0.01/π is fixed and the network is conditioned on the weights of the loss. The sine wave
    steepens into a standing front at x = 0, steepest near t = 0.5 with a slope of about -150.
    """

    domain = Box(t=(0.0, 1.0), x=(-1.0, 1.0))
    evaluation = Evaluation(points={"t": 101, "x": 256}, shots=100)

    def __init__(self, viscosity: float = cole_hopf.VISCOSITY):
        self.viscosity = viscosity

    def features(self, t: Array, x: Array) -> tuple[Array, ...]:
        """Time, and x on its circle. The solution is odd, so that its front stays at x = 0: the
        last feature resolves it, linear within `FRONT` of it and logarithmic beyond."""
        wave = jnp.sin(jnp.pi * x)
        stretched = jnp.arcsinh(wave / FRONT) / jnp.arcsinh(1 / FRONT)
        return 2 * t - 1, wave, jnp.cos(jnp.pi * x), stretched

    def collocate(self, t: Array, x: Array) -> tuple[Array, Array]:
        """Denser towards the front, where of even rows one in a hundred would be."""
        return t, jnp.sign(x) * graded(jnp.abs(x), NEAR)

    @interior
    def equation(self, u: Array, u_t: Array, u_x: Array, u_xx: Array) -> Array:
        return u_t + u * u_x - self.viscosity * u_xx

    @on(x=(-1.0, 1.0))
    def boundary(self, u: Array) -> Array:
        return u

    @on(t=0.0)
    def initial(self, u: Array, x: Array) -> Array:
        return u + jnp.sin(jnp.pi * x)

    def reference(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """By Cole-Hopf, to rounding."""
        return cole_hopf.burgers(t, x, self.viscosity)

    def solutions(self, initial: np.ndarray, times: np.ndarray) -> np.ndarray:
        """From other initial values (..., n) on x_j = -1 + 2j/n: (..., times, n), periodic.

        For baselines that are supervised; nothing else is trained on it.
        """
        return heat_kernel.solutions(initial, times, self.viscosity)
