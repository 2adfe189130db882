"""Long times: twenty periods."""

from __future__ import annotations

import math

import jax.numpy as jnp

import lcpinn as lc


class Spring(lc.Family):
    """u'' + 2 d u' + 400 u = 0 over twenty periods, for every damping."""

    domain = lc.Box(t=(0.0, 2 * math.pi))
    parameters = lc.Uniform(d=(0.1, 2.0))
    evaluation = lc.Evaluation({"t": 1001})

    @lc.interior
    def equation(self, u, u_t, u_tt, d):
        return u_tt + 2 * d * u_t + 400 * u

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 1.0, u_t

    def exact(self, t, d):
        w = jnp.sqrt(400 - d**2)
        return jnp.exp(-d * t) * (jnp.cos(w * t) + d / w * jnp.sin(w * t))
