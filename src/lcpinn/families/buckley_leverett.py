"""Buckley and Leverett's displacement of one fluid by another, for every weighting of its loss."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array

from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.family import HELP, Evaluation, Family
from lcpinn.reference import finite_volume
from lcpinn.term import interior, on

EARLIEST = 1e-14  # added to t, so that ξ exists at t = 0
ENVELOPE_SPEED = 2.0  # anything above the front's 1.11


class BuckleyLeverett(Family):
    """s_t + f(s)_x = ε s_xx on t in (0, ½), x in (0, 1); s(t, 0) = 1, s(0, x) = 0, free outflow.

    f(s) = s² / (s² + M (1 - s)²), M = 2, ε = 1e-2; the network is conditioned on the weights of the
    loss. The two conditions contradict each other at the corner (0, 0), from which a front of width
    3ε runs off at a speed of 1.11. With ε = 0 the front is a jump, and the paper's methods saturate
    near an error of one half.
    """

    domain = Box(t=(0.0, 0.5), x=(0.0, 1.0))
    outputs = ("s",)
    evaluation = Evaluation(points={"t": (0.1, 0.2, 0.3, 0.4, 0.5), "x": 256}, shots=25)

    def __init__(self, mobility: float = 2.0, viscosity: float = 1e-2):
        if not (mobility > 0 and viscosity >= 0):
            given = f"{mobility} and {viscosity}"
            raise LcpinnError(f"BuckleyLeverett: need mobility > 0, viscosity >= 0, not {given}")
        self.mobility = mobility
        self.viscosity = viscosity
        if viscosity == 0:  # no layer at the corner to be lifted
            for hook in HELP:
                setattr(self, hook, None)

    @interior
    def equation(self, s: Array, s_t: Array, s_x: Array, s_xx: Array) -> Array:
        return s_t + self.flux_slope(s) * s_x - self.viscosity * s_xx

    @on(x=0.0)
    def boundary(self, s: Array) -> Array:
        return s - 1

    @on(t=0.0)
    def initial(self, s: Array) -> Array:
        return s

    def flux_slope(self, s: Array) -> Array:
        """f'(s) = 2M s (1 - s) / (s² + M (1 - s)²)², smooth for every real s without clipping."""
        total = s**2 + self.mobility * (1 - s) ** 2
        return 2 * self.mobility * (s / total) * ((1 - s) / total)

    # Near the corner the solution is a function of ξ = x / √(4εt) alone, and it is smooth only in
    # τ = √t and ξ. The ansatz carries that layer, erfc(ξ), and lets the network add to it only
    # behind an envelope that runs ahead of the front: a wrong state there would cost almost no
    # residual. The condition at the inlet stays soft, so that its weight means something.

    def similarity(self, t: Array, x: Array) -> tuple[Array, Array]:
        """τ and ξ, finite at t = 0 too."""
        tau = jnp.sqrt(t + EARLIEST)
        return tau, x / (2 * tau * self.viscosity**0.5)

    def ansatz(self, s: Array, t: Array, x: Array) -> Array:
        tau, xi = self.similarity(t, x)
        envelope = erfc(xi - ENVELOPE_SPEED * tau / (2 * self.viscosity**0.5)) / 2
        return erfc(xi) + envelope * s

    def features(self, t: Array, x: Array) -> tuple[Array, ...]:
        tau, xi = self.similarity(t, x)
        front = (x - self.front_speed * t) / (5 * self.viscosity)
        return 4 * t - 1, 2.8 * tau - 1, 2 * xi / (1 + xi) - 1, 2 * x - 1, front

    def collocate(self, t: Array, x: Array) -> tuple[Array, Array]:
        """Uniform in τ, and across from the inlet to where the envelope has died out."""
        t = 2 * t**2
        tau, _ = self.similarity(t, x)
        reach = 3.5 + ENVELOPE_SPEED * 1.168 * tau / (4 * self.viscosity**0.5)
        return t, x * jnp.minimum(1.0, reach * 2 * tau * self.viscosity**0.5)

    def scale(self, t: Array) -> Array:
        """In τ and ξ the equation is 4t times what it is in t and x."""
        return 4 * t

    @property
    def front_speed(self) -> float:
        """Welge's tangent: the speed f(s)/s of the front, where it equals f'(s)."""
        front = (self.mobility / (1 + self.mobility)) ** 0.5
        return float(self.flux_slope(front))  # pyright: ignore[reportArgumentType]

    def reference(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The implicit solution, good to about 1e-8; the entropy solution where ε = 0."""
        if self.viscosity == 0:
            return finite_volume.inviscid(t, x, self.mobility)
        return finite_volume.buckley_leverett(t, x, self.mobility, self.viscosity)

    def paper_reference(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The paper's own: local Lax-Friedrichs on 1000 cells, 7e-3 away from `reference`."""
        t, x = np.broadcast_arrays(np.asarray(t, float), np.asarray(x, float))
        times, which = np.unique(t, return_inverse=True)
        which = which.reshape(t.shape)
        nodes, snapshots = finite_volume.rusanov(
            tuple(times.tolist()), mobility=self.mobility, viscosity=self.viscosity
        )
        values = np.empty(t.shape)
        for i, snapshot in enumerate(snapshots):
            at = which == i
            values[at] = np.interp(x[at], nodes, snapshot)
        return values
