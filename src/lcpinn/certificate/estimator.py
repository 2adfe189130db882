"""The estimate at one lambda: an expansion where the error is smooth; where it is not, the page's
own solution if that is, or a march."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lcpinn.certificate import in_frame as frames
from lcpinn.certificate.attempt import Attempts
from lcpinn.certificate.bounds import Bounds, SmallExpansions
from lcpinn.certificate.by_solution import NOT_SMALLER, BySolution
from lcpinn.certificate.estimate import Correction, Estimate, none
from lcpinn.certificate.in_box import NOT_NEEDED, InBox
from lcpinn.certificate.in_slabs import InSlabs
from lcpinn.certificate.marched import marched
from lcpinn.compilation import compiler_options
from lcpinn.family import Family
from lcpinn.jet import Orders
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Points
from lcpinn.spectral.expansion import uses_grids
from lcpinn.spectral.frame import too_many_holes
from lcpinn.spectral.linearisation import PIECE, Linearisation, linearised, pieces, zeroth
from lcpinn.spectral.march import March, march_direction
from lcpinn.threads import blas_threads

SECONDS = 20.0  # that an estimate may take where nothing else is said
MARCH = 20.0  # seconds of a march at the least, in a verdict
REMEMBERED = 24  # sets of points at which a network's derivatives are kept for what follows
DRAWS = 16  # loss weights over whose mean an equation is linearised, though more are judged

# From (params, points (n, dim), parameters (p,), weights (draws, m), orders) to Taylor coefficients
# (s, n, outputs) of the mean over draws.
NetworkJet = Callable[[Any, Array, Array, Array, Orders], Float[Array, "s n out"]]


class Estimator:
    """Estimates for one family; what does not depend on lambda is computed once.

    `jet(params, points, parameters, weights, orders)` gives the Taylor coefficients of whatever is
    to be judged; see `of_network` for a network's. An estimate counts if a coarser one on other
    points gives about the same. `resolution(params)` is what its error needs at the least, where
    that is known: the functions along each coordinate of an expansion.
    """

    def __init__(
        self,
        family: Family,
        jet: NetworkJet,
        resolution: Callable[[Any], tuple[int, ...] | None] = lambda params: None,
    ):
        self.family, self.terms, self._resolution = family, linearised(family), resolution
        self.attempts = Attempts(self.terms)
        self._jet = jax.jit(jet, static_argnums=4, compiler_options=compiler_options())

    def __call__(
        self,
        params: Any,
        parameters: Sequence[float] | np.ndarray,
        weights: np.ndarray | None = None,
        *,
        fronts: bool = True,
        seconds: float = SECONDS,
        bounds: bool = False,
        enough: float = 0.0,
        least: np.ndarray | float = 0.0,
    ) -> Estimate:
        """The error at one setting; with loss weights (draws, m), that of the mean over them.

        Without `fronts` an error that is not smooth stays unknown. Expansions that take more than a
        moment are begun only if they should be done within so many `seconds`. With `bounds`, what
        is not resolved is still bounded where that is possible; and what is bounded by less than
        `enough` is not resolved. A solution whose mean square is below `least` (outputs,) counts as
        that large: of one that vanishes no error is small.
        """
        at = self.linearisation(params, parameters, weights, least)
        return self._judged(params, at, fronts, seconds, bounds, enough).estimate

    def correction(
        self,
        params: Any,
        parameters: Sequence[float] | np.ndarray,
        weights: np.ndarray | None = None,
        *,
        fronts: bool = True,
        seconds: float = SECONDS,
    ) -> Correction:
        """The estimate, and what is judged with its error taken away, as a function of points."""
        at = self.linearisation(params, parameters, weights)
        return self._judged(params, at, fronts, seconds, False, 0.0)

    def _judged(
        self, params: Any, at: Linearisation, fronts: bool, seconds: float, bounds: bool,
        enough: float,
    ) -> Correction:  # fmt: skip
        dim, box = self.family.domain.dim, None
        if dim not in frames.SIZES:
            return none(f"no estimate in {dim} dimensions")
        if not self.terms.interior:
            return none("no equation holds inside of the domain")
        if reason := self._too_many_holes or self.attempts.determinacy.reason:
            return none(reason)
        with blas_threads(1):  # small matrices: more threads wait by spinning
            if self._by_solution.has_served:
                other = self._by_solution(at, seconds)
                if other is not None and not other.estimate.reason:
                    return other  # a moment, where an expansion would take long in vain
            if uses_grids(self.family.domain):
                limits = self.bounds(at) if bounds else None
                sizes = self._resolution(params)
                box = InBox(self.attempts, at, seconds, sizes, limits, self._slabs)
                correction = box.estimate(enough)
                if correction.estimate.reason == NOT_NEEDED:
                    return correction
            else:  # with one coordinate finer ones take a moment, too
                growths = frames.GROWTHS[dim] if fronts or dim == 1 else 1
                correction = frames.in_frame(self.attempts, at, growths)
            if correction.estimate.reason:
                correction = self._unresolved(correction, at, fronts, seconds, bounds)
            if correction.estimate.reason == NOT_SMALLER or box is None:
                return correction
            return box.bounded(correction) if correction.estimate.reason else correction

    def _unresolved(
        self, correction: Correction, at: Linearisation, fronts: bool, seconds: float, bounds: bool
    ) -> Correction:
        """By the page's own solution and by a march; the one that is more likely first.

        What may be a front takes a solver long, and in vain.
        """
        march = self._march if fronts else None
        compared = lambda: self._by_solution(at, seconds / 2)
        first = compared() if march is None or self.family.is_linear() else None
        if first is not None or march is None:
            return first or correction
        followed = marched(march, at, max(seconds, MARCH) if bounds else np.inf)
        if followed.estimate.reason and not self.family.is_linear():
            return compared() or followed
        return followed

    def linearisation(
        self,
        params: Any,
        parameters: Sequence[float] | np.ndarray,
        weights: np.ndarray | None = None,
        least: np.ndarray | float = 0.0,
    ) -> Linearisation:
        """The terms about what is judged, or, with many loss weights, the mean of the first few."""
        draws = np.zeros((1, 0)) if weights is None else np.asarray(weights, float)
        setting, known = np.asarray(parameters, float), {}

        def mean(points: np.ndarray, orders: Orders, draws: np.ndarray) -> np.ndarray:
            parts = []
            with double():
                for piece, count in pieces(points, PIECE):
                    value = self._jet(params, piece, setting, draws, orders)
                    parts.append(np.asarray(value)[:, :count])
            return np.concatenate(parts, axis=1)

        def judged(points: np.ndarray) -> np.ndarray:
            return mean(points, zeroth(points.shape[1]), draws)[0]

        def base(points: np.ndarray, orders: Orders) -> np.ndarray:
            """One program for all terms, and one pass for what is asked of the same points."""
            if not set(orders.indices) <= set(self._orders.indices):
                return mean(points, orders, draws[:DRAWS])
            key = points.tobytes()
            if key not in known:
                while len(known) >= REMEMBERED:
                    del known[next(iter(known))]
                known[key] = mean(points, self._orders, draws[:DRAWS])
            return known[key][[self._orders.indices.index(index) for index in orders.indices]]

        other = judged if len(draws) > DRAWS else None
        return Linearisation(self.terms, setting, base, other, least)

    @cached_property
    def _orders(self) -> Orders:
        """Those of all terms together."""
        return self.family.orders(self.terms.terms)

    @cached_property
    def _too_many_holes(self) -> str:
        return too_many_holes(self.family.domain, len(self.family.outputs))

    def bounds(self, at: Linearisation) -> Bounds | None:
        """Those at a setting; none on shapes, in four coordinates and where a level is free."""
        if not uses_grids(self.family.domain) or self.attempts.determinacy.levels:
            return None
        return Bounds(self._small_expansions, at)

    @cached_property
    def _small_expansions(self) -> SmallExpansions:
        return SmallExpansions(self.terms)

    @cached_property
    def _by_solution(self) -> BySolution:
        # Of a level that is free the solver and the network may have chosen others.
        return BySolution(self.family, allowed=not self.attempts.determinacy.levels)

    @cached_property
    def _slabs(self) -> InSlabs:
        return InSlabs(self.terms, self.attempts.determinacy.note)

    @cached_property
    def _march(self) -> March | None:
        direction = march_direction(self.terms)
        if direction is None or self.attempts.determinacy.levels:  # which a march does not know of
            return None
        return March(self.terms, direction)


def of_network(problem: Problem) -> Estimator:
    """Estimates for a network; called with its parameters.

    Kept with the family, so that estimates while it trains, the verdict and the certificate share
    what does not depend on the parameters: compiled programs, tables, whether it has one solution.
    """
    kept = vars(problem.family).setdefault("_estimators", {})
    key = (problem.network, jnp.dtype(problem.dtype))
    if key not in kept or kept[key].family is not problem.family:  # a copy of a family is another
        kept[key] = _of_network(problem)
    return kept[key]


def _of_network(problem: Problem) -> Estimator:
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

    return Estimator(problem.family, jet, problem.network.resolution)
