"""KS and GS: equations whose solutions form patterns."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.pinnacle.reference import evolution


class KuramotoSivashinsky(lc.Family):
    """u_t + 6.25 u u_x + 100/16² u_xx + d 100/16⁴ u_xxxx = 0, periodic, for every d.

    KS has d = 1 and t up to 1, where the solution is chaotic; here up to 0.4.
    """

    domain = lc.Box(t=(0.0, 0.4), x=lc.Periodic(0.0, 2 * math.pi))
    parameters = lc.Uniform(d=(0.8, 1.2))
    evaluation = lc.Evaluation({"t": 41, "x": 129}, dense=5)

    @lc.interior
    def equation(self, u, u_t, u_x, u_xx, u_xxxx, d):
        spread = 100 / 16**2 * u_xx + d * 100 / 16**4 * u_xxxx
        return u_t + 100 / 16 * u * u_x + spread

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.cos(x) * (1 + jnp.sin(x))

    def reference(self, t, x, d):
        return evolution.kuramoto_sivashinsky(d).ev(t, x)


class GrayScott(lc.Family):
    """u_t = 1e-5 Δu + b (1 - u) - u v², v_t = 5e-6 Δv - 0.1 v + u v², periodic, for every b.

    GS has b = 0.04, and no condition on the sides.
    """

    domain = lc.Box(t=(0.0, 200.0), x=lc.Periodic(-1.0, 1.0), y=lc.Periodic(-1.0, 1.0))
    parameters = lc.Uniform(b=(0.03, 0.05))
    outputs = ("u", "v")
    evaluation = lc.Evaluation(
        {"t": tuple(evolution.GRAY_SCOTT_TIMES), "x": 33, "y": 33}, {"b": (0.04,)}, dense=1
    )

    @lc.interior
    def equation(self, u, v, u_t, v_t, laplacian_u, laplacian_v, b):
        reaction = u * v**2
        return (
            u_t - 1e-5 * laplacian_u - b * (1 - u) + reaction,
            v_t - 5e-6 * laplacian_v + 0.1 * v - reaction,
        )

    @lc.on(t=0.0)
    def start(self, u, v, x, y):
        first = jnp.exp(-80 * ((x + 0.05) ** 2 + (y + 0.02) ** 2))
        second = jnp.exp(-80 * ((x - 0.05) ** 2 + (y - 0.02) ** 2))
        return u - 1 + first, v - second

    def reference(self, t, x, y, b):
        fields = np.pad(evolution.gray_scott(b), ((0, 0), (0, 0), (0, 1), (0, 1)), "wrap")
        grid = np.linspace(-1, 1, fields.shape[-1])
        at = lambda field: evolution.at_levels(
            evolution.GRAY_SCOTT_TIMES, field, (grid, grid), t, x, y
        )
        return at(fields[:, 0]), at(fields[:, 1])
