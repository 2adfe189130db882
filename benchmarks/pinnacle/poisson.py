"""Poisson 2d-C, 2d-CG and 3d-CG: plates and a block with holes."""

from __future__ import annotations

from functools import reduce
from operator import or_

import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.pinnacle.inversion import inverted
from benchmarks.pinnacle.reference import cut_cells, holes
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


BALLS = ((0.4, 0.3, 0.6, 0.2), (0.6, 0.7, 0.6, 0.2), (0.2, 0.8, 0.7, 0.1), (0.6, 0.2, 0.3, 0.1))


class Block3d(lc.Family):
    """-Δu + k(z)² u = f in a cube with four balls cut out, u_n = 0 on everything, for every k.

    Poisson 3d-CG: k(z) is k below z = 1/2 and 5k/4 above, 8 and 10 there. The source has five waves
    along y and two and a half along z; the network sees these, a function whose second derivative
    jumps with k, and the coordinates inverted in each ball.
    """

    cube = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0))
    balls = reduce(or_, (lc.Ball(x=x, y=y, z=z, radius=r) for x, y, z, r in BALLS))
    domain = cube - balls
    parameters = lc.Uniform(k=(4.0, 10.0))
    evaluation = lc.Evaluation({"x": 17, "y": 41, "z": 21}, {"k": (8.0,)}, dense=1)

    def features(self, x, y, z):
        height = 2 * z - 1
        turns = 10 * jnp.pi * y, 5 * jnp.pi * z
        waves = [0.5 * wave(turn) for turn in turns for wave in (jnp.sin, jnp.cos)]
        seen = 2 * x - 1, 2 * y - 1, height, height * jnp.abs(height), *waves
        # Half of it: what varies fast is in the waves already, and slow units suffice.
        return tuple(0.5 * value for value in (*seen, *inverted((x, y, z), BALLS)))

    @lc.interior
    def equation(self, u, laplacian_u, x, y, z, k):
        screening = jnp.where(z < 0.5, k**2, (1.25 * k) ** 2)
        square = x**2 + y**2 + z**2
        waves = jnp.sin(jnp.pi * x), jnp.sin(10 * jnp.pi * y), jnp.sin(5 * jnp.pi * z)
        steep = 20 * jnp.exp(waves[0] + waves[1] + waves[2]) * (square - 1) / (square + 1)
        return -laplacian_u + screening * u - steep - 100 * waves[0] * waves[1] * waves[2]

    @lc.on()
    def insulated(self, u_n):
        return u_n

    def reference(self, x, y, z, k):
        return cut_cells.block(k, np.stack([x, y, z], axis=-1))
