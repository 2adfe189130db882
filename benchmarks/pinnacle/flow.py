"""NS 2d-C, NS-P and NS 2d-CG: steady flow in a cavity, and over a step."""

from __future__ import annotations

import lcpinn as lc
from benchmarks.pinnacle.reference.cavity import VISCOSITY, cavity


class LidDrivenCavity(lc.Family):
    """u·∇u + ∇p = Δu/100, ∇·u = 0 in a square whose lid moves with u = a x (1 - x).

    For every amplitude a; the Reynolds number by the lid's peak speed is 25 a. The pressure is zero
    in the corner at the origin, and unbounded in those of the lid.
    """

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    outputs = ("u", "v", "p")
    data = lc.Data(x=[0.0], y=[0.0], p=[0.0])
    evaluation = lc.Evaluation({"x": 41, "y": 41}, {"a": (2.0, 4.0, 8.0, 16.0)}, dense=5)

    def __init__(self, highest: float = 16.0):
        self.parameters = lc.LogUniform(a=(2.0, highest))

    @lc.interior
    def momentum(self, u, v, u_x, u_y, v_x, v_y, p_x, p_y, laplacian_u, laplacian_v):
        return (
            u * u_x + v * u_y + p_x - VISCOSITY * laplacian_u,
            u * v_x + v * v_y + p_y - VISCOSITY * laplacian_v,
        )

    @lc.interior
    def continuity(self, u_x, v_y):
        return u_x + v_y

    @lc.on(y=1.0)
    def lid(self, u, v, x, a):
        return u - a * x * (1 - x), v

    @lc.on(x=(0.0, 1.0), y=0.0)
    def walls(self, u, v):
        return u, v

    def reference(self, x, y, a):
        return cavity(a)(x, y)


class BackwardStep(lc.Family):
    """u·∇u + ∇p = ν Δu, ∇·u = 0 in a channel that widens by a step, for every viscosity ν.

    NS 2d-CG, which has ν = 0.01. At the outlet the pressure is zero; that alone leaves the flow
    open, and as in the published reference the velocity is normal to the outlet.
    """

    channel = lc.Box(x=(0.0, 4.0), y=(0.0, 2.0))
    block = lc.Box(x=(-1.0, 2.0), y=(1.0, 3.0))
    domain = channel - block
    parameters = lc.LogUniform(nu=(0.01, 0.1))
    outputs = ("u", "v", "p")

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
