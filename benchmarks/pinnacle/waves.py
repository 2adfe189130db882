"""Wave 1d-C, Wave-P and Wave 2d-MS: a string with an overtone, and a membrane moved at its rim."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

import lcpinn as lc
from benchmarks.zoo.waves import Overtone


class Wave1d(Overtone):
    """u_tt = 4 u_xx, u = sin πx + sin(aπx)/2 at the start, u_t = 0 there, for every a."""


class Wave2d(lc.Family):
    """u_tt = u_xx + c u_yy on the unit square, moved at its rim, for every c.

    Wave 2d-MS has c = 2. Its declared solution, with cos πt, does not solve the equation; with
    cosh πt in its place it does, and with u_t = 0 at the start, where the statement has nothing, it
    is the only one. For any c the two products grow at rates of their own. The network's unit is
    the largest displacement of the rim, thousands at the start and more later.
    """

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(c=(1.8, 2.2))
    evaluation = lc.Evaluation({"t": 11, "x": 21, "y": 21}, {"c": (1.8, 2.0, 2.2)}, dense=5)

    def ansatz(self, u, t, c):
        return jnp.sinh(3 * jnp.pi) * _grown(9 - 4 * c, t) * u

    @lc.interior
    def equation(self, u_tt, u_xx, u_yy, c):
        return u_tt - u_xx - c * u_yy

    @lc.on(t=0.0)
    def start(self, u, x, y, c):
        return u - self.exact(0.0, x, y, c)

    @lc.on(t=0.0)
    def velocity(self, u_t):
        return u_t

    @lc.on(x=(0.0, 1.0), y=(0.0, 1.0))
    def rim(self, u, t, x, y, c):
        return u - self.exact(t, x, y, c)

    def exact(self, t, x, y, c):
        slow = jnp.sin(jnp.pi * x) * jnp.sinh(jnp.pi * y)
        steep = jnp.sinh(3 * jnp.pi * x) * jnp.sin(2 * jnp.pi * y)
        return slow * _grown(c - 1, t) + steep * _grown(9 - 4 * c, t)


def _grown(square: Array, t: Array) -> Array:
    """What a product of waves has grown to, by the square of its rate in units of π."""
    return jnp.cosh(jnp.pi * jnp.sqrt(square) * t)
