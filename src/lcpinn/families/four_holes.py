"""Pressure in a square plate of ground with four wells, for every radius of the wells."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.family import Evaluation, Family
from lcpinn.prior import Uniform
from lcpinn.shape import Ball, Box
from lcpinn.term import interior, on

CENTRES = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))


class FourHoles(Family):
    """Δu = 0 in a square with four holes of radius r, sources and sinks by turns.

    The flux through the rim of every hole is prescribed, on the sides u is. The exact solution is
    u = Σ ± log(distance from a centre), plus at two opposite ones. It is the same for every radius,
    which the network has to find out.
    """

    square = Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    holes = (
        Ball(x=-0.5, y=-0.5, radius="r")
        | Ball(x=0.5, y=-0.5, radius="r")
        | Ball(x=0.5, y=0.5, radius="r")
        | Ball(x=-0.5, y=0.5, radius="r")
    )
    domain = square - holes
    parameters = Uniform(r=(0.15, 0.35))
    evaluation = Evaluation(points={"x": 65, "y": 65}, at={"r": (0.15, 0.25, 0.35)}, dense=61)

    @interior
    def equation(self, laplacian_u: Array) -> Array:
        return laplacian_u

    @on(holes)
    def flux(self, u_n: Array, n_x: Array, n_y: Array, x: Array, y: Array) -> Array:
        slope_x, slope_y = jax.grad(self.exact, (0, 1))(x, y)
        return u_n - (n_x * slope_x + n_y * slope_y)

    @on(square)
    def sides(self, u: Array, x: Array, y: Array) -> Array:
        return u - self.exact(x, y)

    def exact(self, x: Array, y: Array) -> Array:
        first, second, third, fourth = ((x - a) ** 2 + (y - b) ** 2 for a, b in CENTRES)
        return jnp.log(first * third / (second * fourth)) / 2
