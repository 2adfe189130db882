"""NS 2d-CG: steady flow over a step; NS-P: faster lids of the cavity, which is built in."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import lcpinn as lc
from benchmarks.pinnacle.reference.step import step as flow_over_step
from lcpinn.families import LidDrivenCavity

# Of Stokes' flow at a corner of 270 degrees velocities go with these powers of the distance r:
# round the corner, sin 3πλ/2 = λ, and along its two sides, sin 3πλ/2 = -λ (Moffatt 1964).
ROUND, ALONG = 0.544483736782464, 0.908529189846099
HALF = 3 * math.pi / 4  # the angle of either side with the bisector
CORNER = 0.05  # within which of the corner rows lie densest
LAYER = 3.0  # thickness of the layer at the outlet, in units of the viscosity


class FastLids(LidDrivenCavity):
    """The built-in cavity for a from 2 to 32, with lids that are even in a and not in log a.

    Fast flows have most to learn: estimated errors at a = 32 are half as large with it.
    """

    def __init__(self) -> None:
        super().__init__(32.0)
        self.parameters = lc.Uniform(a=(2.0, 32.0))


class BackwardStep(lc.Family):
    """u·∇u + ∇p = ν Δu, ∇·u = 0 in a channel that widens by a step, for every viscosity ν.

    NS 2d-CG, which has ν = 0.01. At the outlet the pressure is zero; that alone leaves the flow
    open, and as in the published reference the velocity is normal to the outlet, to which it turns
    in a layer as thin as the viscosity: the network sees a coordinate that is stretched there, and
    rows lie denser. Of even rows few are so close to the outlet; between those it made up a layer
    of its own, and the pressure of the whole channel was off by what that layer took.

    At the corner that points inwards velocities go with r^0.54 and the pressure with r^-0.46. Two
    flows of Stokes' with such powers are added, times functions s and w that the network learns;
    what remains has a residual of bounded mean square.
    """

    channel = lc.Box(x=(0.0, 4.0), y=(0.0, 2.0))
    block = lc.Box(x=(-1.0, 2.0), y=(1.0, 3.0))
    domain = channel - block
    parameters = lc.LogUniform(nu=(0.01, 0.1))
    outputs = ("u", "v", "p", "s", "w")
    evaluation = lc.Evaluation({"x": 81, "y": 41}, {"nu": (0.01, 0.03, 0.1)}, dense=3)

    def features(self, x, y, nu):
        return x / 2 - 1, y - 1, (4 - x) / (4 - x + LAYER * nu)

    def ansatz(self, u, v, p, s, w, x, y, nu):
        first, second = corner_flow(x, y, ROUND, even=True), corner_flow(x, y, ALONG, even=False)
        return (
            u + s * first[0] + w * second[0],
            v + s * first[1] + w * second[1],
            p + nu * (s * first[2] + w * second[2]),
            s,
            w,
        )

    def collocate(self, x, y, nu):
        """Denser towards the outlet and, less so, towards the corner and the flow behind it."""
        before, behind = 2 * lc.graded(jnp.abs(x - 2) / 2, CORNER, 2), lc.graded(x - 2, CORNER, 2)
        moved = jnp.where(x < 3, 2 + behind, 4 - lc.graded(4 - x, 2 * nu))
        above = jnp.sign(y - 1) * lc.graded(jnp.abs(y - 1), CORNER, 2)
        return jnp.where(x < 2, 2 - before, moved), 1 + above

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
        u, v, p = flow_over_step(nu)(x, y)
        return u, v, p, np.full_like(u, np.nan), np.full_like(u, np.nan)  # s and w are not unique


def corner_flow(x: Array, y: Array, power: float, *, even: bool) -> tuple[Array, Array, Array]:
    """u, v and p/ν of Stokes' flow at the corner (2, 1), with velocities that go with r^power.

    In polar coordinates about the bisector of the flow's side, ψ = r^(λ+1) times

        cos (λ+1)α cos (λ-1)θ - cos (λ-1)α cos (λ+1)θ    (`even`; else with sines),

    which vanishes with its derivative at the sides θ = ±α. With ψ = Re(z̄ φ(z) + χ(z)) the velocity
    follows from z̄ φ' + conj φ + χ', and p/ν is -4 Im φ' (Goursat).
    """
    along, across = (x - 2) - (y - 1), (x - 2) + (y - 1)
    square = jnp.maximum((along**2 + across**2) / 2, 1e-10)
    angle, wave = jnp.arctan2(across, along), math.cos if even else math.sin
    b, a = wave((power + 1) * HALF), -wave((power - 1) * HALF) * (power + 1)
    cos, sin = (lambda m: jnp.cos(m * angle)), (lambda m: jnp.sin(m * angle))
    pressure = square ** ((power - 1) / 2) * 4 * b * power
    if even:
        real = b * power * cos(power - 2) + (b + a) * cos(power)
        imaginary = b * power * sin(power - 2) + (a - b) * sin(power)
        pressure = -pressure * sin(power - 1)
    else:
        real = b * power * sin(power - 2) + (b + a) * sin(power)
        imaginary = -b * power * cos(power - 2) + (b - a) * cos(power)
        pressure = pressure * cos(power - 1)
    # Along the bisector and across it, turned back by 45 degrees.
    size = square ** (power / 2) * 0.5**0.5
    return -size * (imaginary + real), size * (imaginary - real), pressure
