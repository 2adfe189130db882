"""Heat between a pipe and its casing, for every radius of the pipe."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.family import Evaluation, Family
from lcpinn.prior import Uniform
from lcpinn.shape import Ball
from lcpinn.term import interior, on


class Pipes(Family):
    """Δu = 0 between circles of radius r and 1, u = 1 on the inner, u_n + b u = 0 on the outer.

    The pipe is hot and the casing loses heat to the surroundings, the more the larger b is. The
    exact solution is u = 1 + c log(ρ / r) with c = b / (b log r - 1).
    """

    pipe = Ball(x=0.0, y=0.0, radius="r")
    casing = Ball(x=0.0, y=0.0, radius=1.0)
    domain = casing - pipe
    parameters = Uniform(r=(0.2, 0.6), b=(0.5, 5.0))
    evaluation = Evaluation(
        points={"x": 65, "y": 65}, at={"r": (0.2, 0.4, 0.6), "b": (0.5, 2.0, 5.0)}, dense=81
    )

    @interior
    def equation(self, laplacian_u: Array) -> Array:
        return laplacian_u

    @on(pipe)
    def hot(self, u: Array) -> Array:
        return u - 1.0

    @on(casing)
    def losing(self, u: Array, u_n: Array, b: Array) -> Array:
        return u_n + b * u

    def exact(self, x: Array, y: Array, r: Array, b: Array) -> Array:
        slope = b / (b * jnp.log(r) - 1)
        return 1 + slope * jnp.log(jnp.sqrt(x**2 + y**2) / r)
