"""Waves in time, from one wavelength to five and more, where the frequency is the knob."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc


class Wave(lc.Family):
    """u_tt = c² u_xx, for every speed."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(c=(1.0, 3.0))

    @lc.interior
    def equation(self, u_tt, u_xx, c):
        return u_tt - c**2 * u_xx

    @lc.on(t=0.0)
    def start(self, u, u_t, x):
        return u - jnp.sin(jnp.pi * x), u_t

    @lc.on(x=(0.0, 1.0))
    def wall(self, u):
        return u

    def exact(self, t, x, c):
        return jnp.sin(jnp.pi * x) * jnp.cos(c * jnp.pi * t)


class Acoustics(lc.Family):
    """p_t = a v_x, v_t = a p_x: two fields, for every speed."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.5, 2.0))
    outputs = ("p", "v")

    @lc.interior
    def equation(self, p_t, p_x, v_t, v_x, a):
        return p_t - a * v_x, v_t - a * p_x

    @lc.on(t=0.0)
    def start(self, p, v, x):
        return p - jnp.sin(jnp.pi * x), v

    @lc.on(x=(0.0, 1.0))
    def wall(self, p):
        return p

    def exact(self, t, x, a):
        phase = a * jnp.pi * t
        return jnp.sin(jnp.pi * x) * jnp.cos(phase), jnp.cos(jnp.pi * x) * jnp.sin(phase)


class Overtone(lc.Family):
    """u_tt = 4 u_xx with an overtone sin(aπx), one to five wavelengths, for every pitch a.

    Where a is no whole number the overtone does not vanish at x = 1: that end is moved.
    """

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(a=(2.0, 10.0))

    @lc.interior
    def equation(self, u_tt, u_xx):
        return u_tt - 4 * u_xx

    @lc.on(t=0.0)
    def start(self, u, u_t, x, a):
        return u - jnp.sin(jnp.pi * x) - 0.5 * jnp.sin(a * jnp.pi * x), u_t

    @lc.on(x=0.0)
    def fixed(self, u):
        return u

    @lc.on(x=1.0)
    def moved(self, u, t, a):
        return u - 0.5 * jnp.sin(a * jnp.pi) * jnp.cos(2 * a * jnp.pi * t)

    def exact(self, t, x, a):
        mode = lambda n: jnp.sin(n * jnp.pi * x) * jnp.cos(2 * n * jnp.pi * t)
        return mode(1) + 0.5 * mode(a)
