"""Nearly singular problems: a fold or a resonance inside of the range."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import lcpinn as lc


class Bratu(lc.Family):
    """u'' + a exp(u) = 0, u(0) = u(1) = 0: ignition, for every heat a up to the fold at 3.5138.

    Of the two solutions the cool one is meant: it is where one gets to from u = 0. At a = 3.51 it
    changes thirty times as fast with a as it does halfway.
    """

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.5, 3.51))

    @lc.interior
    def equation(self, u, u_xx, a):
        return u_xx + a * jnp.exp(u)

    @lc.on(x=(0.0, 1.0))
    def ends(self, u):
        return u

    def exact(self, x, a):
        def newton(_, theta):  # for θ = sqrt(2a) cosh(θ/4), towards its smaller root from below
            cosh, sinh = jnp.cosh(theta / 4), jnp.sinh(theta / 4)
            root = jnp.sqrt(2 * a)
            return theta - (theta - root * cosh) / (1 - root / 4 * sinh)

        theta = jax.lax.fori_loop(0, 12, newton, jnp.sqrt(2 * a))
        return -2 * jnp.log(jnp.cosh((x - 0.5) * theta / 2) / jnp.cosh(theta / 4))
