"""Helmholtz's equation for every wavenumber."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.domain import Box
from lcpinn.family import Evaluation, Family
from lcpinn.prior import Uniform
from lcpinn.term import interior, on


class Helmholtz(Family):
    """Δu + k² u = f on the unit box in 1, 2 or 3 dimensions, u = 0 on its faces.

    Manufactured: u = ∏ sin(πq) cos(kq) over the coordinates q. The operator is singular where k² is
    an eigenvalue of -Δ (k = π, 2π, 3π in one dimension): there the residual alone does not fix the
    solution, and errors nearby are amplified by 1/|k² - k_res²|. Look at the maximum over k.
    """

    def __init__(self, dim: int = 1):
        axes = ("x", "y", "z")[:dim]
        self.dim = dim
        self.domain = Box(**dict.fromkeys(axes, (0.0, 1.0)))
        self.parameters = Uniform(k=(1.0, 5.0 if dim == 3 else 10.0))
        grid = {1: (1.0, 3.25, 5.5, 7.75, 10.0), 2: (1.0, 5.5, 10.0), 3: (1.0, 3.0, 5.0)}[dim]
        num = {1: 1024, 2: 64, 3: 24}[dim]
        self.evaluation = Evaluation(points=dict.fromkeys(axes, num), at={"k": grid})

    @property
    def name(self) -> str:
        return f"helmholtz-{self.dim}d"

    @interior
    def equation(self, u: Array, laplacian_u: Array, point: Array, k: Array) -> Array:
        return laplacian_u + k**2 * u - self.forcing(point, k)

    @on()
    def boundary(self, u: Array) -> Array:
        return u

    def ansatz(self, u: Array, point: Array) -> Array:
        return u * jnp.prod(4 * point * (1 - point))

    def exact(self, point: Array, k: Array) -> Array:
        return jnp.prod(jnp.sin(jnp.pi * point) * jnp.cos(k * point))

    def forcing(self, point: Array, k: Array) -> Array:
        """f = -dim (π² + k²) u + k² u - 2πk Σ cos(πq) sin(kq) ∏ over the others."""
        factors = jnp.sin(jnp.pi * point) * jnp.cos(k * point)
        slopes = jnp.cos(jnp.pi * point) * jnp.sin(k * point)
        cross = sum(
            slopes[i] * math.prod(factors[j] for j in range(self.dim) if j != i)
            for i in range(self.dim)
        )
        u = jnp.prod(factors)
        return (k**2 - self.dim * (jnp.pi**2 + k**2)) * u - 2 * jnp.pi * k * cross
