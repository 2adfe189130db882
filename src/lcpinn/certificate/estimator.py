"""The estimate at one lambda: an expansion where the error is smooth, a march where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.certificate.expansion import MISFIT, SIZES, TINY, Estimate, Level
from lcpinn.certificate.linear import At, Jet, Linearised
from lcpinn.certificate.march import March, Unresolved, course
from lcpinn.family import Family
from lcpinn.jet import Orders
from lcpinn.network.mlp import Params
from lcpinn.rows import Problem
from lcpinn.sampling import Points
from lcpinn.threads import blas_threads

AGREE, CLOSE = 2.0, 1.25  # factors within which two expansions, and two marches, have to agree
LEAVE, MARCHES = 0.3, 4  # what the first march may leave of the error; and how many there are


class Estimator:
    """Estimates for one family; what does not depend on lambda is computed once.

    `jet(params, points, parameters, weights, orders)` gives the Taylor coefficients of whatever is
    to be judged; see `of_network` for a network's. An estimate counts if a coarser one on other
    points gives about the same.
    """

    def __init__(self, family: Family, jet: Jet):
        self.family = family
        self._linearised = Linearised(family, jet)

    def __call__(
        self,
        params: Any,
        parameters: Sequence[float],
        weights: np.ndarray | None = None,
        *,
        fronts: bool = True,
    ) -> Estimate:
        """The error at one setting; with loss weights (shots, m), that of the mean over them.

        Without `fronts` it takes a moment, and an error that is not smooth stays unknown.
        """
        if self.family.domain.dim not in SIZES:
            return Estimate(np.nan, f"no estimate in {self.family.domain.dim} dimensions")
        if not any(term.where == "interior" for term in self.family.all_terms.values()):
            return Estimate(np.nan, "no equation holds inside of the domain")
        shots = np.zeros((1, 0)) if weights is None else weights
        at = self._linearised.of(params, parameters, shots)
        with blas_threads(1):  # small matrices: more threads wait by spinning
            found = self._expanded(at)
            if not found.reason or not fronts or self._march is None:
                return found
            return self._marched(at)

    @cached_property
    def _levels(self) -> tuple[Level, Level]:
        fine, coarse = SIZES[self.family.domain.dim]
        return Level(self._linearised, fine), Level(self._linearised, coarse, 3 * MISFIT)

    @cached_property
    def _march(self) -> March | None:
        found = course(self.family)
        return None if found is None else March(self._linearised, found)

    def _expanded(self, at: At) -> Estimate:
        fine = self._levels[0](at)
        if fine.reason:
            return fine
        if not _agree(fine.error, self._levels[1](at).error, AGREE):
            return Estimate(np.nan, "expansions of two sizes do not agree: it is not resolved")
        return fine

    def _marched(self, at: At) -> Estimate:
        """Marches that leave less and less, until two of them agree."""
        assert self._march is not None
        try:
            allowed, before = LEAVE * self._march.scan(at), None
            for _ in range(MARCHES):
                now = self._march(at, allowed)
                if before is not None and _agree(now.relative, before.relative, CLOSE):
                    return Estimate(now.relative)
                allowed, before = min(LEAVE * now.largest, allowed) / 3, now
        except Unresolved as why:
            return Estimate(np.nan, f"a front is not resolved: {why}")
        return Estimate(np.nan, "marches of two resolutions do not agree: it is not resolved")


def _agree(one: float, other: float, factor: float) -> bool:
    return 1 / factor < (one + TINY) / (other + TINY) < factor


def of_network(problem: Problem) -> Estimator:
    """Estimates for a network; called with its parameters."""

    def jet(params: Params, points: Array, parameters: Array, weights: Array, orders: Orders):
        count = len(weights)
        batch = Points(
            jnp.broadcast_to(points, (count, *points.shape)),
            jnp.broadcast_to(parameters, (count, *parameters.shape)),
            weights,
            jnp.zeros((count, len(points))),
            jnp.zeros((count, len(points), 0)),
        )
        return problem.outputs(params, batch, orders).mean(axis=1)

    return Estimator(problem.family, jet)
