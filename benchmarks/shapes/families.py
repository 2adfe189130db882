"""Ten families on shapes with known solutions, in the order in which they are reported.

Three built-in ones whose shape depends on a coefficient, two in three dimensions, two with a time,
an implicit one, polygons, and Robin conditions by `u_n`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

import lcpinn as lc
from lcpinn.families import ON_SHAPES


class Elbow(lc.Family):
    """Δu = 0 on an L-shaped plate, u = sin(kx) sinh(ky) / sinh(k) on its edges."""

    domain = lc.Polygon(x=[-1, 1, 1, 0, 0, -1], y=[-1, -1, 0, 0, 1, 1])
    parameters = lc.Uniform(k=(1.0, 3.0))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def edge(self, u, x, y, k):
        return u - self.exact(x, y, k)

    def exact(self, x, y, k):
        return jnp.sin(k * x) * jnp.sinh(k * y) / jnp.sinh(k)


class Torsion(lc.Family):
    """-Δu = 2 in an ellipse with half-axes a and 1, u = 0 on its rim: the torsion of a bar."""

    bar = lc.Inside(lambda x, y, a: (x / a) ** 2 + y**2 - 1, x=(-2, 2), y=(-1.1, 1.1))
    domain = bar
    parameters = lc.Uniform(a=(1.0, 1.9))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u + 2.0

    @lc.on()
    def rim(self, u):
        return u

    def exact(self, x, y, a):
        return a**2 / (a**2 + 1) * (1 - (x / a) ** 2 - y**2)


class Kite(lc.Family):
    """Δu = k² u on a kite, u = exp(k (0.6 x + 0.8 y)) on its edges."""

    domain = lc.Polygon(x=[0.0, 1.0, 0.0, -1.0], y=[-1.5, 0.0, 0.7, 0.0])
    parameters = lc.Uniform(k=(0.5, 2.0))

    @lc.interior
    def equation(self, u, laplacian_u, k):
        return laplacian_u - k**2 * u

    @lc.on()
    def edge(self, u, x, y, k):
        return u - self.exact(x, y, k)

    def exact(self, x, y, k):
        return jnp.exp(k * (0.6 * x + 0.8 * y))


class Shell(lc.Family):
    """Δu = 0 between spheres of radius r and 1, u = 1 on the inner and u_n = -u on the outer."""

    core = lc.Ball(x=0.0, y=0.0, z=0.0, radius="r")
    skin = lc.Ball(x=0.0, y=0.0, z=0.0, radius=1.0)
    domain = skin - core
    parameters = lc.Uniform(r=(0.3, 0.6))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on(core)
    def hot(self, u):
        return u - 1.0

    @lc.on(skin)
    def losing(self, u, u_n):
        return u_n + u

    # u = a + b / ρ: at ρ = 1, -b + a + b = 0, so that a = 0 and u = r / ρ.
    def exact(self, x, y, z, r):
        return r / jnp.sqrt(x**2 + y**2 + z**2)


class Bore(lc.Family):
    """Δu = 0 in a block with a bore through it, u = z log ρ on its surface."""

    block = lc.Box(x=(-1, 1), y=(-1, 1), z=(0, 1))
    domain = block - lc.Ball(x=0.0, y=0.0, radius=0.4)

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def surface(self, u, x, y, z):
        return u - self.exact(x, y, z)

    def exact(self, x, y, z):
        return z * jnp.log(x**2 + y**2) / 2


class Washer(lc.Family):
    """u_t = Δu / 4 in a ring, known at the start and on its rims."""

    ring = lc.Ball(x=0.0, y=0.0, radius=1.0) - lc.Ball(x=0.0, y=0.0, radius=0.4)
    domain = lc.Box(t=(0, 1)) * ring

    @lc.interior
    def equation(self, u_t, u_xx, u_yy):
        return u_t - (u_xx + u_yy) / 4

    @lc.on(t=0.0)
    def start(self, u, x, y):
        return u - self.exact(0.0, x, y)

    @lc.on(ring)
    def rims(self, u, t, x, y):
        return u - self.exact(t, x, y)

    def exact(self, t, x, y):
        return jnp.exp(-2 * t) * jnp.sin(2 * x + 0.5) * jnp.cos(2 * y)


class Meteor(lc.Family):
    """u_t = Δu / 10 in a ball, u = 0 on its surface: the slowest mode decays."""

    ball = lc.Ball(x=0.0, y=0.0, z=0.0, radius=1.0)
    domain = lc.Box(t=(0, 1)) * ball

    @lc.interior
    def equation(self, u_t, u_xx, u_yy, u_zz):
        return u_t - (u_xx + u_yy + u_zz) / 10

    @lc.on(t=0.0)
    def start(self, u, x, y, z):
        return u - self.exact(0.0, x, y, z)

    @lc.on(ball)
    def cold(self, u):
        return u

    def exact(self, t, x, y, z):
        return jnp.exp(-(jnp.pi**2) * t / 10) * jnp.sinc(jnp.sqrt(x**2 + y**2 + z**2))


FAMILIES: dict[str, Callable[[], lc.Family]] = ON_SHAPES | {
    made.__name__.lower(): made for made in (Elbow, Torsion, Kite, Shell, Bore, Washer, Meteor)
}
