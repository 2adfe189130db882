"""Heat 2d-MS and Heat-P, 2d-VC, 2d-CG, 2d-LT: waves, a rough medium, 17 holes, a long time."""

from __future__ import annotations

from functools import reduce
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.pinnacle import medium
from benchmarks.pinnacle.published import heat_conductivity_signs
from benchmarks.pinnacle.reference import evolution, finite_volume, holes

WIDTH = 0.004  # of kinks and steps at an interface: a cell of the medium
REACH = 0.08  # how far from an interface they matter
BAND = 0.006  # about an interface, where rows count less: there the medium is made of cells
RATE = 26 * np.pi**2  # at which the source's wave decays where the conductivity is one


class Waves2d(lc.Family):
    """u_t = u_xx/(500π)² + u_yy/π², u = sin(nπx) sin(πy) at the start, for every n.

    Heat 2d-MS has n = 20, Heat-P n = 5, 10, 20, 40. Where n is no whole number u does not vanish at
    x = 1, but follows the wave. The network sees the angle of that wave in place of x.
    """

    domain = lc.Box(t=(0.0, 5.0), x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.LogUniform(n=(5.0, 40.0))
    evaluation = lc.Evaluation(
        {"t": 11, "x": 201, "y": 11}, {"n": (5.0, 10.0, 20.0, 40.0)}, dense=61
    )

    def features(self, t, x, y, n):
        angle = n * jnp.pi * x
        return 0.4 * t - 1, jnp.sin(angle), jnp.cos(angle), 2 * y - 1

    @lc.interior
    def equation(self, u_t, u_xx, u_yy):
        return u_t - u_xx / (500 * jnp.pi) ** 2 - u_yy / jnp.pi**2

    @lc.on(t=0.0)
    def start(self, u, x, y, n):
        return u - jnp.sin(n * jnp.pi * x) * jnp.sin(jnp.pi * y)

    @lc.on(x=(0.0, 1.0))
    def ends(self, u, t, x, y, n):
        return u - self.exact(t, x, y, n)

    @lc.on(y=(0.0, 1.0))
    def sides(self, u):
        return u

    def exact(self, t, x, y, n):
        decay = jnp.exp(-(1 + (n / 500) ** 2) * t)
        return jnp.sin(n * jnp.pi * x) * jnp.sin(jnp.pi * y) * decay


class TwoMedia(lc.Family):
    """u_t + ∇·q = f, q = -a ∇u: heat in a medium that conducts well (c) here and ill (1) there.

    Heat 2d-VC with c = 2, in the form that its reference solves: fluxes q and r are outputs, since
    they, and not ∇u, are continuous across interfaces. f = 200 sin πx sin 5πy sin πt; u = 0 at the
    start and on the sides. For every c.

    Across an interface u has a kink, and the flux along it a jump. With d the distance from it,
    S = sign d and τ = (-d_y, d_x), u + |d| k and (q, r) + S τ g have these for smooth u, k, q, r
    and g, and ∇·(S τ g) = S τ·∇g has no more than a jump itself: that is what the network learns,
    twice, as the factors of sin πt and of cos πt less its transient. d is a smooth function that
    follows the medium's cells, S and |d| are smooth across one cell.
    """

    domain = lc.Box(t=(0.0, 5.0), x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(c=(1.0, 4.0))
    outputs = ("u", "q", "r", "k", "g", "u2", "q2", "r2", "k2", "g2")
    evaluation = lc.Evaluation({"t": 11, "x": 33, "y": 33}, {"c": (1.0, 2.0, 4.0)}, dense=3)

    def __init__(self) -> None:
        self.signs = heat_conductivity_signs()
        self.levels = medium.signed_distance(self.signs)

    def distance(self, x, y):
        """From the interface, levelling off where it does not matter any more."""
        return REACH * jnp.tanh(medium.at_point(self.levels, x, y) / REACH)

    def features(self, x, y):
        return 2 * x - 1, 2.5 * (2 * y - 1), self.distance(x, y) / REACH

    def ansatz(self, u, q, r, k, g, u2, q2, r2, k2, g2, t, x, y):
        sine = jnp.sin(jnp.pi * t)
        cosine = (jnp.cos(jnp.pi * t) - jnp.exp(-RATE * t)) * jnp.pi / RATE
        at_time = lambda first, second: sine * first + cosine * second
        distance, (along_x, along_y) = jax.value_and_grad(self.distance, (0, 1))(x, y)
        kink = jnp.sqrt(distance**2 + WIDTH**2)
        jump = distance / kink * at_time(g, g2)
        return (
            at_time(u, u2) + kink * at_time(k, k2),
            at_time(q, q2) - jump * along_y,
            at_time(r, r2) + jump * along_x,
            *(k, g, u2, q2, r2, k2, g2),
        )

    def scale(self, x, y):
        square = self.distance(x, y) ** 2
        return jnp.sqrt((square + 1e-3 * BAND**2) / (square + BAND**2))

    def conductivity(self, x, y, c):
        row, column = (jnp.clip(256 * v, 0, 255).astype(int) for v in (y, x))
        return jnp.where(jnp.asarray(self.signs)[row, column], c, 1.0)

    @lc.interior
    def balance(self, u_t, q_x, r_y, t, x, y):
        waves = jnp.sin(jnp.pi * x) * jnp.sin(5 * jnp.pi * y)
        return u_t + q_x + r_y - 200 * waves * jnp.sin(jnp.pi * t)

    @lc.interior
    def flux(self, q, r, u_x, u_y, x, y, c):
        a = self.conductivity(x, y, c)
        return q / a + u_x, r / a + u_y

    @lc.on(t=0.0)
    def start(self, u):
        return u

    @lc.on(x=(0.0, 1.0), y=(0.0, 1.0))
    def sides(self, u):
        return u

    def reference(self, t, x, y, c):
        u, q, r = finite_volume.two_media(np.asarray(self.signs), c)(t, x, y)
        return u, q, r, *[np.full_like(u, np.nan)] * 7  # parts of them, and not unique


def _quarter(centres):
    """Those of the centres that are in the first quadrant, or on its sides."""
    return [(x, y) for x, y in centres if x >= 0 and y >= 0]


# Centre, radius and temperature of every rim, on all of the plate.
RIMS = np.array(
    [(*centre, 1.0, 5.0) for centre in holes.LARGE]
    + [(*centre, 0.4, 1.0) for centre in holes.SMALL]
).T


class SeventeenHoles(lc.Family):
    """u_t = Δu, u_n = h (T - u): a plate with 17 holes is heated, for every transfer coefficient h.

    Heat 2d-CG has h = 1. T is 5 at eleven large holes, 1 at six small ones, 0.1 at the sides; the
    plate is cold at the start. It is even in x and y: of four equal quarters one is solved for.

    At the start the rims demand a flux that the cold plate does not have: u begins with √t there,
    in layers as thin. What each rim would do alone is known but for its curvature's square
    (`heated_by_rim`), and is added; the network learns how the rims act on each other.
    """

    plate = lc.Box(x=(0.0, 8.0), y=(0.0, 12.0))
    large = reduce(or_, (lc.Ball(x=x, y=y, radius=1.0) for x, y in _quarter(holes.LARGE)))
    small = reduce(or_, (lc.Ball(x=x, y=y, radius=0.4) for x, y in _quarter(holes.SMALL)))
    domain = lc.Box(t=(0.0, 3.0)) * (plate - large - small)
    parameters = lc.LogUniform(h=(0.3, 3.0))
    evaluation = lc.Evaluation({"t": 4, "x": 17, "y": 25}, {"h": (1.0,)}, dense=1)

    def ansatz(self, u, t, x, y, h):
        sides = [0.1 * heated_by_side(t, distance, h) for distance in (8 - x, 12 - y)]
        return u + jnp.sum(heated_by_rim(t, x, y, h, *RIMS)) + sum(sides)

    @lc.interior
    def equation(self, u_t, laplacian_u):
        return u_t - laplacian_u

    @lc.on(t=0.0)
    def start(self, u):
        return u

    @lc.on(large)
    def hot(self, u, u_n, h):
        return u_n - h * (5.0 - u)

    @lc.on(small)
    def warm(self, u, u_n, h):
        return u_n - h * (1.0 - u)

    @lc.on(x=8.0, y=12.0)
    def sides(self, u, u_n, h):
        return u_n - h * (0.1 - u)

    @lc.on(x=0.0, y=0.0)
    def symmetry(self, u_n):
        return u_n

    def reference(self, t, x, y, h):
        return holes.seventeen_holes(t, x, y, h)


def heated_by_side(t, distance, h):
    """u of u_t = u_xx, u_n = h (1 - u) on a half-line that is cold at the start."""
    root = jnp.sqrt(jnp.maximum(t, 1e-12))
    near = distance / (2 * root)
    return jax.lax.erfc(near) - jnp.exp(h * distance + h**2 * t) * jax.lax.erfc(near + h * root)


def heated_by_rim(t, x, y, h, *rim):
    """The same outside of a round rim (its centre, radius R and temperature): √(R/r) times what a
    side does whose h is larger by 1/(2R); what it leaves of the equation is u/(4r²)."""
    centre_x, centre_y, radius, temperature = rim  # or arrays of them
    away = jnp.sqrt((x - centre_x) ** 2 + (y - centre_y) ** 2)
    further = h + 0.5 / radius
    reached = heated_by_side(t, away - radius, further)
    return temperature * h / further * jnp.sqrt(radius / away) * reached


class LongHeat(lc.Family):
    """u_t = 0.001 Δu + 5 sin(k u²) (1 + 2 sin(πt/4)) sin 4πx sin 2πy, u = 0 on the sides.

    Heat 2d-LT has k = 1 and t up to 100; here for every k, up to t = 8, the period of the source.
    u = sin 4πx sin 3πy at the start.
    """

    domain = lc.Box(t=(0.0, 8.0), x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))
    evaluation = lc.Evaluation(
        {"t": tuple(evolution.LONG_TIMES[::4]), "x": 33, "y": 33}, {"k": (1.0,)}, dense=1
    )

    @lc.interior
    def equation(self, u, u_t, laplacian_u, t, x, y, k):
        pattern = jnp.sin(4 * jnp.pi * x) * jnp.sin(2 * jnp.pi * y)
        source = 5 * jnp.sin(k * u**2) * (1 + 2 * jnp.sin(jnp.pi * t / 4)) * pattern
        return u_t - 0.001 * laplacian_u - source

    @lc.on(t=0.0)
    def start(self, u, x, y):
        return u - jnp.sin(4 * jnp.pi * x) * jnp.sin(3 * jnp.pi * y)

    @lc.on(x=(0.0, 1.0), y=(0.0, 1.0))
    def sides(self, u):
        return u

    def reference(self, t, x, y, k):
        fields = evolution.long_heat(k)
        grid = np.linspace(0, 1, fields.shape[-1])
        return evolution.at_levels(evolution.LONG_TIMES, fields, (grid, grid), t, x, y)
