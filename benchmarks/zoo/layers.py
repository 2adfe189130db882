"""Boundary and interior layers whose width spans three decades of the knob."""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.special import erf

import lcpinn as lc


class BoundaryLayer(lc.Family):
    """-ν u'' + u' = 1, u(0) = u(1) = 0, for every viscosity: a layer of width ν at x = 1."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.LogUniform(nu=(1e-3, 1.0))
    evaluation = lc.Evaluation({"x": 4001})

    @lc.interior
    def equation(self, u_x, u_xx, nu):
        return -nu * u_xx + u_x - 1.0

    @lc.on(x=(0.0, 1.0))
    def ends(self, u):
        return u

    def exact(self, x, nu):
        far = jnp.exp(-1 / nu)
        return x - (jnp.exp((x - 1) / nu) - far) / (1 - far)


class InteriorLayer(lc.Family):
    """w² u'' + x u' = 0, u(±1) = ±1, for every width w of the layer about the turning point."""

    domain = lc.Box(x=(-1.0, 1.0))
    parameters = lc.LogUniform(w=(1e-3, 1.0))
    evaluation = lc.Evaluation({"x": 8001})

    @lc.interior
    def equation(self, u_x, u_xx, x, w):
        return w**2 * u_xx + x * u_x

    @lc.on(x=(-1.0, 1.0))
    def ends(self, u, x):
        return u - x

    def exact(self, x, w):
        return erf(x / (jnp.sqrt(2.0) * w)) / erf(1 / (jnp.sqrt(2.0) * w))
