"""Dispersive waves: equations of third order."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc


class Soliton(lc.Family):
    """u_t + 6 u u_x + u_xxx = 0: one wave of Korteweg and de Vries, for every speed c.

    A fast one is high and narrow. Third order: one condition at the left end, two at the right.
    """

    domain = lc.Box(t=(0.0, 1.0), x=(-6.0, 8.0))
    parameters = lc.Uniform(c=(1.0, 4.0))

    @lc.interior
    def equation(self, u, u_t, u_x, u_xxx):
        return u_t + 6 * u * u_x + u_xxx

    @lc.on(t=0.0)
    def start(self, u, x, c):
        return u - self.exact(0.0, x, c)

    @lc.on(x=(-6.0, 8.0))
    def ends(self, u, t, x, c):
        return u - self.exact(t, x, c)

    @lc.on(x=8.0)
    def slope(self, u_x, t, x, c):
        return u_x + jnp.sqrt(c) * jnp.tanh(jnp.sqrt(c) / 2 * (x - c * t)) * self.exact(t, x, c)

    def exact(self, t, x, c):
        return c / 2 / jnp.cosh(jnp.sqrt(c) / 2 * (x - c * t)) ** 2


class RingWave(lc.Family):
    """u_t + u_x + b u_xxx = 0 on a ring over twenty laps, for every dispersion b.

    Two harmonics start together; in the end the shorter is late by up to more than its own length.
    """

    domain = lc.Box(t=(0.0, 20.0), x=lc.Periodic(0.0, 1.0))
    parameters = lc.Uniform(b=(0.0, 2e-4))
    evaluation = lc.Evaluation({"t": 401, "x": 24})

    @lc.interior
    def equation(self, u_t, u_x, u_xxx, b):
        return u_t + u_x + b * u_xxx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(2 * jnp.pi * x) - 0.5 * jnp.sin(4 * jnp.pi * x)

    def exact(self, t, x, b):
        harmonic = lambda k: jnp.sin(k * (x - t) + b * k**3 * t)
        return harmonic(2 * jnp.pi) + 0.5 * harmonic(4 * jnp.pi)
