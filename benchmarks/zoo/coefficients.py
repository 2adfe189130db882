"""Eight and more coefficients."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc

LAYERS = 8
_LOADS = {f"c{n}": (1.0, 2.0) if n == 1 else (-1.0, 1.0) for n in range(1, 9)}
_SHEETS = {f"k{n}": (1.0, 4.0) for n in range(1, LAYERS + 1)}


class LoadedString(lc.Family):
    """-u'' + k u = Σ c_n sin(nπx), u(0) = u(1) = 0: eight loads on a string, on springs k."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(**_LOADS, k=(0.0, 20.0))
    evaluation = lc.Evaluation(at={**_LOADS, "k": (0.0, 20.0)})

    @lc.interior
    def equation(self, u, u_xx, x, c1, c2, c3, c4, c5, c6, c7, c8, k):
        loads = (c1, c2, c3, c4, c5, c6, c7, c8)
        return -u_xx + k * u - sum(c * jnp.sin(n * jnp.pi * x) for n, c in enumerate(loads, 1))

    @lc.on(x=(0.0, 1.0))
    def ends(self, u):
        return u

    def exact(self, x, c1, c2, c3, c4, c5, c6, c7, c8, k):
        loads = (c1, c2, c3, c4, c5, c6, c7, c8)
        mode = lambda n: jnp.sin(n * jnp.pi * x) / ((n * jnp.pi) ** 2 + k)
        return sum(c * mode(n) for n, c in enumerate(loads, 1))


class LayeredWall(lc.Family):
    """k(x) T' + q = 0, q' = 1, T(0) = 1, T(1) = 0: a heated wall of eight layers, k1 to k8.

    In flux form, since the flux q is smooth where conductivities jump: one page for any number of
    layers, with no condition at their interfaces. T has a kink there.
    """

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(**_SHEETS)
    outputs = ("T", "q")
    evaluation = lc.Evaluation(at=_SHEETS)

    @lc.interior
    def equation(self, T_x, q, q_x, x, k1, k2, k3, k4, k5, k6, k7, k8):
        layer = jnp.clip(LAYERS * x, 0, LAYERS - 1).astype(int)
        conductivity = jnp.stack([k1, k2, k3, k4, k5, k6, k7, k8])[layer]
        return conductivity * T_x + q, q_x - 1.0

    @lc.on(x=0.0)
    def warm(self, T):
        return T - 1.0

    @lc.on(x=1.0)
    def cold(self, T):
        return T

    def exact(self, x, k1, k2, k3, k4, k5, k6, k7, k8):
        resistance = 1 / jnp.stack([k1, k2, k3, k4, k5, k6, k7, k8])
        edge, width = jnp.arange(LAYERS) / LAYERS, 1 / LAYERS
        inflow = 1 - jnp.sum(resistance * width * (edge + width / 2))
        inflow /= jnp.sum(resistance * width)
        depth = jnp.clip(x - edge, 0, width)  # of x within every layer
        fall = resistance * depth * (inflow + edge + depth / 2)
        return 1 - fall.sum(), inflow + x
