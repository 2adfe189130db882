"""Poisson 2d-C, 2d-CG and 3d-CG: plates and a block with holes."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc
from benchmarks.pinnacle.reference import holes
from benchmarks.pinnacle.reference.holes import OFFSET


class FourHoles2d(lc.Family):
    """Δu = 0 in a square with four holes, u = 1 on its sides and 0 on the rims, for every radius r.

    Poisson 2d-C has r = 0.1 in a square of side 1; squares of other sizes are similar to it.
    """

    square = lc.Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    holes = (
        lc.Ball(x=-OFFSET, y=-OFFSET, radius="r")
        | lc.Ball(x=OFFSET, y=-OFFSET, radius="r")
        | lc.Ball(x=-OFFSET, y=OFFSET, radius="r")
        | lc.Ball(x=OFFSET, y=OFFSET, radius="r")
    )
    domain = square - holes
    parameters = lc.Uniform(r=(0.05, 0.15))
    evaluation = lc.Evaluation({"x": 65, "y": 65}, {"r": (0.05, 0.1, 0.15)}, dense=5)

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on(square)
    def sides(self, u):
        return u - 1.0

    @lc.on(holes)
    def rims(self, u):
        return u

    def reference(self, x, y, r):
        return holes.four_holes(r)(x, y)


class Screened2d(lc.Family):
    """-Δu + k²u = f in a square with four holes, u = 0.2 on its sides and 1 on the rims.

    Poisson 2d-CG (linear, although it is called after Poisson and Boltzmann), which has k = 8; here
    for every k. f = 10 (17 + x² + y²) sin πx sin 4πy.
    """

    square = lc.Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    holes = (
        lc.Ball(x=0.5, y=0.5, radius=0.2)
        | lc.Ball(x=0.4, y=-0.4, radius=0.4)
        | lc.Ball(x=-0.2, y=-0.7, radius=0.1)
        | lc.Ball(x=-0.6, y=0.5, radius=0.3)
    )
    domain = square - holes
    parameters = lc.Uniform(k=(1.0, 10.0))
    evaluation = lc.Evaluation({"x": 65, "y": 65}, {"k": (1.0, 8.0, 10.0)}, dense=5)

    @lc.interior
    def equation(self, u, laplacian_u, x, y, k):
        waves = jnp.sin(jnp.pi * x) * jnp.sin(4 * jnp.pi * y)
        return -laplacian_u + k**2 * u - 10 * (17 + x**2 + y**2) * waves

    @lc.on(square)
    def sides(self, u):
        return u - 0.2

    @lc.on(holes)
    def rims(self, u):
        return u - 1.0

    def reference(self, x, y, k):
        return holes.screened(x, y, k)
