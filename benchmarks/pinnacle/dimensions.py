"""PNd and HNd: five coordinates, and five with a time."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc

DIM = 5
_CUBE = {f"x{i}": (0.0, 1.0) for i in range(1, DIM + 1)}
_CENTRE = {f"x{i}": 0.0 for i in range(1, DIM + 1)}


class Poisson5d(lc.Family):
    """Δu = -(πw)² Σ sin(πw x_i) in a cube of five dimensions, for every frequency w.

    PNd has w = 1/2.
    """

    domain = lc.Box(**_CUBE)
    parameters = lc.Uniform(w=(0.25, 1.0))
    evaluation = lc.Evaluation(dict.fromkeys(_CUBE, 4), dense=21)

    @lc.interior
    def equation(self, laplacian_u, point, w):
        return laplacian_u + (jnp.pi * w) ** 2 * jnp.sum(jnp.sin(jnp.pi * w * point))

    @lc.on()
    def faces(self, u, point, w):
        return u - self.exact(point, w)

    def exact(self, point, w):
        return jnp.sum(jnp.sin(jnp.pi * w * point))


class Heat5d(lc.Family):
    """u_t = Δu/5 + f in the unit ball of five dimensions, for every steepness b of the start.

    The solution is u = exp(b ρ²/2 + t), and its flux through the sphere is prescribed. HNd has
    b = 1.
    """

    ball = lc.Ball(**_CENTRE, radius=1.0)
    domain = lc.Box(t=(0.0, 1.0)) * ball
    parameters = lc.Uniform(b=(0.5, 1.5))
    evaluation = lc.Evaluation({"t": 4, **dict.fromkeys(_CENTRE, 5)}, dense=21)

    @lc.interior
    def equation(self, u_t, laplacian_u, point, b):
        square = jnp.sum(point[1:] ** 2)
        source = (1 - b - b**2 * square / DIM) * self.exact(point, b)
        return u_t - laplacian_u / DIM - source

    @lc.on(t=0.0)
    def start(self, u, point, b):
        return u - self.exact(point, b)

    @lc.on(ball)
    def flux(self, u_n, t, b):
        return u_n - b * jnp.exp(b / 2 + t)

    def exact(self, point, b):
        return jnp.exp(b * jnp.sum(point[1:] ** 2) / 2 + point[0])
