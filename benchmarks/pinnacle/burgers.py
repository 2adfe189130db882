"""Burgers 1d-C: a sine wave steepens, for every viscosity."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc
from lcpinn.families import Burgers
from lcpinn.reference import cole_hopf


class Burgers1d(lc.Family):
    """u_t + u u_x = ν u_xx, u(0, x) = -sin πx, u(t, ±1) = 0, for every viscosity ν.

    The benchmark has ν = 0.01/π. Conditions and solution are periodic, so that the network sees x
    as an angle; and they are odd, so that the front stays at x = 0, where a third feature of x
    resolves it, and rows lie denser.
    """

    domain = lc.Box(t=(0.0, 1.0), x=(-1.0, 1.0))
    parameters = lc.LogUniform(nu=(0.003, 0.1))
    evaluation = lc.Evaluation({"t": 51, "x": 201}, dense=21)

    # The built-in page has one viscosity, and the same front.
    features, collocate = Burgers.features, Burgers.collocate

    @lc.interior
    def equation(self, u, u_t, u_x, u_xx, nu):
        return u_t + u * u_x - nu * u_xx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u + jnp.sin(jnp.pi * x)

    @lc.on(x=(-1.0, 1.0))
    def ends(self, u):
        return u

    def reference(self, t, x, nu):
        return cole_hopf.burgers(t, x, nu)
