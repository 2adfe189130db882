"""Flow in a square whose lid moves, for every speed of the lid."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.family import Data, Evaluation, Family
from lcpinn.prior import LogUniform
from lcpinn.reference.cavity import CORNER, VISCOSITY, cavity
from lcpinn.shape import Box
from lcpinn.term import interior, on


class LidDrivenCavity(Family):
    """u·∇u + ∇p = Δu/100, ∇·u = 0 in a square whose lid moves with u = a x (1 - x).

    For every amplitude a; the Reynolds number by the lid's peak speed is 25 a. The pressure is zero
    in the corner at the origin, and unbounded in those of the lid: there u_x is a along the lid and
    0 along the wall. Stokes' flow with these two values is known in closed form; the network learns
    what remains, as in the spectral methods of Botella and Peyret (1998), in units of a: rows of
    slow flows would else be met no better, absolutely, than those of fast ones.
    """

    domain = Box(x=(0.0, 1.0), y=(0.0, 1.0))
    outputs = ("u", "v", "p")
    data = Data(x=[0.0], y=[0.0], p=[0.0])
    evaluation = Evaluation({"x": 41, "y": 41}, {"a": (2.0, 4.0, 8.0, 16.0)}, dense=5)

    def __init__(self, highest: float = 16.0):
        self.parameters = LogUniform(a=(2.0, highest))

    @interior
    def momentum(
        self,
        u: Array,
        v: Array,
        u_x: Array,
        u_y: Array,
        v_x: Array,
        v_y: Array,
        p_x: Array,
        p_y: Array,
        laplacian_u: Array,
        laplacian_v: Array,
    ) -> tuple[Array, Array]:
        return (
            u * u_x + v * u_y + p_x - VISCOSITY * laplacian_u,
            u * v_x + v * v_y + p_y - VISCOSITY * laplacian_v,
        )

    @interior
    def continuity(self, u_x: Array, v_y: Array) -> Array:
        return u_x + v_y

    @on(y=1.0)
    def lid(self, u: Array, v: Array, x: Array, a: Array) -> tuple[Array, Array]:
        return u - a * x * (1 - x), v

    @on(x=(0.0, 1.0), y=0.0)
    def walls(self, u: Array, v: Array) -> tuple[Array, Array]:
        return u, v

    def ansatz(
        self, u: Array, v: Array, p: Array, x: Array, y: Array, a: Array
    ) -> tuple[Array, Array, Array]:
        left, right = corner_flow(x, 1 - y), corner_flow(1 - x, 1 - y)
        # The right corner is the mirror image of the left: u is even, v and p are odd.
        return (
            a * (u + left[0] + right[0]),
            a * (v + left[1] - right[1]),
            a * (p + left[2] - right[2]),
        )

    def reference(
        self, x: np.ndarray, y: np.ndarray, a: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return cavity(a)(x, y)


def corner_flow(along: Array, below: Array) -> tuple[Array, Array, Array]:
    """u, v and p of Stokes' flow in the lid's left corner, with u = x on the lid.

    With θ the angle from the lid, downwards, at x along the lid and d below it:

        u = x + (θ - π/2) d,    v = θ x,    p = 2 ν log r.
    """
    # In the corner itself, where derivatives are not finite, the angle is that of its bisector.
    apart = along**2 + below**2 > CORNER
    x, d = (jnp.where(apart, value, (CORNER / 2) ** 0.5) for value in (along, below))
    angle, square = jnp.arctan2(d, x), x**2 + d**2
    return along + (angle - jnp.pi / 2) * below, angle * along, VISCOSITY * jnp.log(square)
