"""Smooth solutions of everyday equations: what every method should manage."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import lcpinn as lc


class AdvectionDiffusion(lc.Family):
    """u_t + c u_x = ν u_xx on a circle, for every speed and viscosity."""

    domain = lc.Box(t=(0.0, 1.0), x=lc.Periodic(-1.0, 1.0))
    parameters = lc.Uniform(c=(0.5, 2.0)) & lc.LogUniform(nu=(0.005, 0.05))

    @lc.interior
    def equation(self, u_t, u_x, u_xx, c, nu):
        return u_t + c * u_x - nu * u_xx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x)

    def exact(self, t, x, c, nu):
        return jnp.exp(-nu * jnp.pi**2 * t) * jnp.sin(jnp.pi * (x - c * t))


class Heat(lc.Family):
    """u_t = a u_xx with two decaying modes, for every conductivity."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.LogUniform(a=(0.02, 0.2))

    @lc.interior
    def equation(self, u_t, u_xx, a):
        return u_t - a * u_xx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x) - 0.5 * jnp.sin(3 * jnp.pi * x)

    @lc.on(x=(0.0, 1.0))
    def wall(self, u):
        return u

    def exact(self, t, x, a):
        mode = lambda n: jnp.exp(-a * (n * jnp.pi) ** 2 * t) * jnp.sin(n * jnp.pi * x)
        return mode(1) + 0.5 * mode(3)


class Duffing(lc.Family):
    """u'' + u + e u³ = 0 over three to four periods, for every stiffness e."""

    domain = lc.Box(t=(0.0, 20.0))
    parameters = lc.Uniform(e=(0.1, 1.0))

    @lc.interior
    def equation(self, u, u_tt, e):
        return u_tt + u + e * u**3

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 1.0, u_t

    def reference(self, t, e):
        slope = lambda _, y: [y[1], -y[0] - e * y[0] ** 3]
        solved = solve_ivp(
            slope, (0, 20), [1.0, 0.0], "DOP853", dense_output=True, rtol=1e-12, atol=1e-13
        )
        return solved.sol(np.asarray(t))[0]
