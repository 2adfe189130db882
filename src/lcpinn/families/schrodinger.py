"""Schrödinger's equation in a harmonic well of every strength."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.domain import Box
from lcpinn.family import Evaluation, Family
from lcpinn.prior import Uniform
from lcpinn.term import interior, on


class Schrodinger(Family):
    """-u'' + α² (x - ½)² u = f on (0, 1), u(0) = u(1) = 0.

    Manufactured: u = sin(πx) exp(-α (x - ½)² / 2). The operator is at least π² for every α, so
    that, unlike Helmholtz's, no α is harder for being near a resonance.
    """

    domain = Box(x=(0.0, 1.0))
    parameters = Uniform(alpha=(0.5, 10.0))
    evaluation = Evaluation(points={"x": 1024}, at={"alpha": (0.5, 5.0, 10.0)})

    @property
    def name(self) -> str:
        return "schrodinger-1d"

    @interior
    def equation(self, u: Array, u_xx: Array, x: Array, alpha: Array) -> Array:
        return -u_xx + (alpha * (x - 0.5)) ** 2 * u - self.forcing(x, alpha)

    @on()
    def boundary(self, u: Array) -> Array:
        return u

    def ansatz(self, u: Array, x: Array) -> Array:
        return u * 4 * x * (1 - x)

    def exact(self, x: Array, alpha: Array) -> Array:
        return jnp.sin(jnp.pi * x) * jnp.exp(-alpha * (x - 0.5) ** 2 / 2)

    def forcing(self, x: Array, alpha: Array) -> Array:
        """f = (π² + α) u + 2πα (x - ½) cos(πx) exp(-α (x - ½)² / 2)."""
        y = x - 0.5
        wave = (jnp.pi**2 + alpha) * jnp.sin(jnp.pi * x)
        return (wave + 2 * jnp.pi * alpha * y * jnp.cos(jnp.pi * x)) * jnp.exp(-alpha * y**2 / 2)
