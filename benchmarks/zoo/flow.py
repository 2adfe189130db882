"""Incompressible flow, steady and unsteady: velocity and pressure of Navier and Stokes.

A pressure has a level of its own; both pages fix it along one side, as a gauge there would.
"""

from __future__ import annotations

import math

import jax.numpy as jnp

import lcpinn as lc


class Kovasznay(lc.Family):
    """u·∇u = -∇p + Δu/Re, ∇·u = 0: the wake behind a grid, for every Reynolds number.

    Kovasznay (1948). One period across; velocities are given all round, pressure at the outlet.
    """

    domain = lc.Box(x=(-0.5, 1.0), y=(-0.5, 0.5))
    parameters = lc.LogUniform(Re=(10.0, 100.0))
    outputs = ("u", "v", "p")

    @lc.interior
    def momentum(self, u, v, u_x, u_y, v_x, v_y, p_x, p_y, laplacian_u, laplacian_v, Re):
        return (
            u * u_x + v * u_y + p_x - laplacian_u / Re,
            u * v_x + v * v_y + p_y - laplacian_v / Re,
        )

    @lc.interior
    def continuity(self, u_x, v_y):
        return u_x + v_y

    @lc.on()
    def sides(self, u, v, x, y, Re):
        given = self.exact(x, y, Re)
        return u - given[0], v - given[1]

    @lc.on(x=1.0)
    def outlet(self, p, x, y, Re):
        return p - self.exact(x, y, Re)[2]

    def exact(self, x, y, Re):
        # Re/2 - sqrt(Re²/4 + 4π²), without the cancellation
        rate = -4 * jnp.pi**2 / (Re / 2 + jnp.sqrt(Re**2 / 4 + 4 * jnp.pi**2))
        wake = jnp.exp(rate * x)
        u = 1 - wake * jnp.cos(2 * jnp.pi * y)
        v = rate / (2 * jnp.pi) * wake * jnp.sin(2 * jnp.pi * y)
        return u, v, (1 - wake**2) / 2


class TaylorGreen(lc.Family):
    """u_t + u·∇u = -∇p + νΔu, ∇·u = 0: a vortex that decays in a box, for every viscosity.

    Taylor and Green (1937). The walls let the flow slip; the pressure is known along one of them.
    """

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, math.pi), y=(0.0, math.pi))
    parameters = lc.LogUniform(nu=(0.01, 1.0))
    outputs = ("u", "v", "p")

    @lc.interior
    def momentum(self, u, v, u_t, u_x, u_y, v_t, v_x, v_y, p_x, p_y, laplacian_u, laplacian_v, nu):
        return (
            u_t + u * u_x + v * u_y + p_x - nu * laplacian_u,
            v_t + u * v_x + v * v_y + p_y - nu * laplacian_v,
        )

    @lc.interior
    def continuity(self, u_x, v_y):
        return u_x + v_y

    @lc.on(t=0.0)
    def start(self, u, v, x, y):
        return u - jnp.sin(x) * jnp.cos(y), v + jnp.cos(x) * jnp.sin(y)

    @lc.on(x=(0.0, math.pi))
    def upright_walls(self, u, v_x):
        return u, v_x

    @lc.on(y=(0.0, math.pi))
    def level_walls(self, v, u_y):
        return v, u_y

    @lc.on(x=0.0)
    def gauge(self, p, t, y, nu):
        return p - jnp.exp(-4 * nu * t) * (1 + jnp.cos(2 * y)) / 4

    def exact(self, t, x, y, nu):
        decay = jnp.exp(-2 * nu * t)
        u, v = jnp.sin(x) * jnp.cos(y), -jnp.cos(x) * jnp.sin(y)
        return decay * u, decay * v, decay**2 * (jnp.cos(2 * x) + jnp.cos(2 * y)) / 4
