"""Five and six inputs: coordinates and coefficients together."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc


class Transport(lc.Family):
    """u_t + c u_x = d u_xx - r u: three coefficients."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(c=(0.0, 1.0), d=(0.05, 0.2), r=(0.0, 2.0))

    @lc.interior
    def equation(self, u, u_t, u_x, u_xx, c, d, r):
        return u_t + c * u_x - d * u_xx + r * u

    @lc.on(t=0.0)
    def start(self, u, x, c, d, r):
        return u - self.exact(0.0, x, c, d, r)

    @lc.on(x=(0.0, 1.0))
    def wall(self, u, t, x, c, d, r):
        return u - self.exact(t, x, c, d, r)

    def exact(self, t, x, c, d, r):
        return jnp.exp(-(r + 4 * d) * t) * jnp.cos(2 * (x - c * t))
