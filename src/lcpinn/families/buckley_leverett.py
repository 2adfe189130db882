"""Buckley and Leverett's displacement of one fluid by another, for every weighting of its loss."""

from __future__ import annotations

import numpy as np
from jaxtyping import Array

from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.family import Evaluation, Family, interior, on
from lcpinn.reference import finite_volume


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

    def reference(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The implicit solution, good to about 1e-8; the entropy solution where ε = 0."""
        if self.viscosity == 0:
            return finite_volume.inviscid(t, x, self.mobility)
        return finite_volume.buckley_leverett(t, x, self.mobility, self.viscosity)

    def paper_reference(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The paper's own: explicit Lax-Friedrichs on 1000 cells, 1e-2 away from `reference`."""
        t, x = np.broadcast_arrays(np.asarray(t, float), np.asarray(x, float))
        times, which = np.unique(t, return_inverse=True)
        which = which.reshape(t.shape)
        nodes, snapshots = finite_volume.lax_friedrichs(
            times, mobility=self.mobility, viscosity=self.viscosity
        )
        values = np.empty(t.shape)
        for i, snapshot in enumerate(snapshots):
            at = which == i
            values[at] = np.interp(x[at], nodes, snapshot)
        return values
