"""Reaction fronts whose speed or width is the knob."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc


class Fisher(lc.Family):
    """u_t = u_xx + r u (1 - u): a travelling front, for every growth rate."""

    domain = lc.Box(t=(0.0, 1.0), x=(-5.0, 5.0))
    parameters = lc.Uniform(r=(1.0, 6.0))

    @lc.interior
    def equation(self, u, u_t, u_xx, r):
        return u_t - u_xx - r * u * (1 - u)

    @lc.on(t=0.0)
    def start(self, u, x, r):
        return u - self.exact(0.0, x, r)

    @lc.on(x=(-5.0, 5.0))
    def wall(self, u, t, x, r):
        return u - self.exact(t, x, r)

    def exact(self, t, x, r):
        return (1 + jnp.exp(jnp.sqrt(r / 6) * x - 5 * r / 6 * t)) ** -2


class AllenCahn(lc.Family):
    """u_t = w² u_xx + u - u³: u = 1 takes over where u = 0, for every width w of the front."""

    domain = lc.Box(t=(0.0, 2.0), x=(-1.0, 1.0))
    parameters = lc.LogUniform(w=(0.02, 0.2))
    evaluation = lc.Evaluation({"t": 41, "x": 401})

    @lc.interior
    def equation(self, u, u_t, u_xx, w):
        return u_t - w**2 * u_xx - u + u**3

    @lc.on(t=0.0)
    def start(self, u, x, w):
        return u - self.exact(0.0, x, w)

    @lc.on(x=(-1.0, 1.0))
    def ends(self, u, t, x, w):
        return u - self.exact(t, x, w)

    def exact(self, t, x, w):
        ahead = x + 0.5 - 3 * w / jnp.sqrt(2.0) * t
        return (1 - jnp.tanh(ahead / (2 * jnp.sqrt(2.0) * w))) / 2
