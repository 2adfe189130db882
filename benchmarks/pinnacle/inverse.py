"""PInv and HInv: a conductivity that is a function of place, out of noisy temperatures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.pinnacle.published import columns

NOISE = 0.1  # standard deviation
SEED = 20230828  # of the noise


class PoissonInverse(lc.Family):
    """∇·(a ∇u) + f = 0: u and a out of 50² observations of u with noise, and of a on the sides.

    PInv. Its published source has 2x+1 and 2y+1 where the declared a needs 2x-1 and 2y-1; here it
    follows from the declared u and a.
    """

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    outputs = ("u", "a")
    evaluation = lc.Evaluation({"x": 51, "y": 51})

    def __init__(self) -> None:
        grid = np.linspace(0, 1, 50)
        x, y = (v.ravel() for v in np.meshgrid(grid, grid))
        seen = np.sin(np.pi * x) * np.sin(np.pi * y)
        noise = np.random.default_rng(SEED).normal(0, NOISE, x.shape)
        self.data = lc.Data(x=x, y=y, u=seen + noise)

    @lc.interior
    def equation(self, a, a_x, a_y, u_x, u_y, laplacian_u, x, y):
        return a * laplacian_u + a_x * u_x + a_y * u_y - self.minus_source(x, y)

    @lc.on()
    def sides(self, a, x, y):
        return a - self.exact(x, y)[1]

    def exact(self, x, y):
        u = jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
        return u, 1 / (1 + x**2 + y**2 + (x - 1) ** 2 + (y - 1) ** 2)

    def minus_source(self, x, y):
        """∇·(a ∇u) of the declared u and a."""
        u, a = self.exact(x, y)
        slope_u = jax.grad(lambda p: self.exact(*p)[0])(jnp.stack([x, y]))
        slope_a = jax.grad(lambda p: self.exact(*p)[1])(jnp.stack([x, y]))
        return -2 * jnp.pi**2 * a * u + slope_a @ slope_u


class HeatInverse(lc.Family):
    """u_t = ∇·(a ∇u) + f: u and a out of 2500 observations of u with noise, and of a on the sides.

    HInv, at the benchmark's own points. a depends on the place alone: a_t = 0.
    """

    domain = lc.Box(t=(0.0, 1.0), x=(-1.0, 1.0), y=(-1.0, 1.0))
    outputs = ("u", "a")
    evaluation = lc.Evaluation({"t": 9, "x": 25, "y": 25})

    def __init__(self) -> None:
        x, y, t = columns("heatinv_points").T
        seen = np.exp(-t) * np.sin(np.pi * x) * np.sin(np.pi * y)
        noise = np.random.default_rng(SEED).normal(0, NOISE, x.shape)
        self.data = lc.Data(t=t, x=x, y=y, u=seen + noise)

    @lc.interior
    def equation(self, u_t, a, a_x, a_y, u_x, u_y, laplacian_u, t, x, y):
        return u_t - a * laplacian_u - a_x * u_x - a_y * u_y - self.source(t, x, y)

    @lc.interior
    def steady(self, a_t):
        return a_t

    @lc.on(x=(-1.0, 1.0), y=(-1.0, 1.0))
    def sides(self, a, t, x, y):
        return a - self.exact(t, x, y)[1]

    def exact(self, t, x, y):
        waves = jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
        return jnp.exp(-t) * waves, 2 + waves

    def source(self, t, x, y):
        waves = jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
        slopes = (jnp.cos(jnp.pi * x) * jnp.sin(jnp.pi * y)) ** 2
        slopes += (jnp.sin(jnp.pi * x) * jnp.cos(jnp.pi * y)) ** 2
        spread = 2 * jnp.pi**2 * (2 + waves) * waves - jnp.pi**2 * slopes
        return jnp.exp(-t) * (spread - waves)
