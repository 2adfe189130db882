"""NS 2d-CG: steady flow over a step. The cavity of NS 2d-C and NS-P is built in."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc
from benchmarks.pinnacle.reference.step import step as flow_over_step

SINGULAR = 0.5445  # of Stokes' flow at a corner of 270 degrees velocities go with this power of r


class BackwardStep(lc.Family):
    """u·∇u + ∇p = ν Δu, ∇·u = 0 in a channel that widens by a step, for every viscosity ν.

    NS 2d-CG, which has ν = 0.01. At the outlet the pressure is zero; that alone leaves the flow
    open, and as in the published reference the velocity is normal to the outlet. At the corner that
    points inwards velocities go with r^0.54 (Moffatt 1964); the network sees such functions.
    """

    channel = lc.Box(x=(0.0, 4.0), y=(0.0, 2.0))
    block = lc.Box(x=(-1.0, 2.0), y=(1.0, 3.0))
    domain = channel - block
    parameters = lc.LogUniform(nu=(0.01, 0.1))
    outputs = ("u", "v", "p")
    evaluation = lc.Evaluation({"x": 81, "y": 41}, {"nu": (0.01, 0.03, 0.1)}, dense=3)

    def features(self, x, y):
        # From the bisector of the flow's side, so that the cut of the angle lies in the block.
        along, across = (x - 2) - (y - 1), (x - 2) + (y - 1)
        power = jnp.maximum(along**2 + across**2, 1e-12) ** (SINGULAR / 2)
        angle = SINGULAR * jnp.arctan2(across, along)
        return x / 2 - 1, y - 1, power * jnp.cos(angle), power * jnp.sin(angle)

    @lc.interior
    def momentum(self, u, v, u_x, u_y, v_x, v_y, p_x, p_y, laplacian_u, laplacian_v, nu):
        return (
            u * u_x + v * u_y + p_x - nu * laplacian_u,
            u * v_x + v * v_y + p_y - nu * laplacian_v,
        )

    @lc.interior
    def continuity(self, u_x, v_y):
        return u_x + v_y

    @lc.on(x=0.0)
    def inlet(self, u, v, y):
        return u - 4 * y * (1 - y), v

    @lc.on(x=4.0)
    def outlet(self, v, p):
        return v, p

    @lc.on(block)
    def step(self, u, v):
        return u, v

    @lc.on(y=(0.0, 2.0))
    def walls(self, u, v):
        return u, v

    def reference(self, x, y, nu):
        return flow_over_step(nu)(x, y)
