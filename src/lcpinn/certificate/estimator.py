"""The estimate at one lambda: an expansion where the error is smooth, a march where it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lcpinn.certificate.bounds import Bounds, SmallExpansions
from lcpinn.certificate.resolution import QUICK, Patience, needed, num_unknowns
from lcpinn.compilation import compiler_options
from lcpinn.domain import Box
from lcpinn.family import Family
from lcpinn.jet import Orders
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Points
from lcpinn.shape.corners import may_have_inward_corners
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.determinacy import Determinacy, determinacy
from lcpinn.spectral.expansion import Expansion, NotFinite, uses_grids
from lcpinn.spectral.frame import Basis, affordable, functions_on, too_many_holes
from lcpinn.spectral.least_squares import NotSolvable, TooLarge
from lcpinn.spectral.linearisation import (
    PIECE,
    Linearisation,
    linearised,
    pieces,
    zeroth,
)
from lcpinn.spectral.march import March, Unresolved, march_direction, marched_values
from lcpinn.spectral.normal import NormalMatrix, TensorRows
from lcpinn.spectral.slab import SlabExpansion
from lcpinn.threads import blas_threads

# Functions along each coordinate, by the number of coordinates; and of what has to agree with them.
SIZES = {1: (128, 96), 2: (24, 18), 3: (18, 14)}
FRAMES = {1: (64, 48), 2: (22, 18), 3: (16, 14), 4: (14, 12)}  # of frames; any domain of four
GROWTHS = {1: 4, 2: 3, 3: 2}  # how often finer ones are tried where those do not agree
FRAME_GROWTHS = {1: 1, 2: 3, 3: 1, 4: 0}
BEYOND = 0.3  # more functions than an expansion has that is judged itself, relatively
GROWTH = 1.4  # by what factor
LESS = 0.55  # of what is quick, for the coarse one, with many outputs
COARSER = 0.8  # functions of the coarse one, where the residual says how many are needed
FEWEST = {1: 64, 2: 16, 3: 10}  # along a coordinate, where others need many
SECONDS = 20.0  # that an estimate may take where nothing else is said
KEPT = 8  # expansions whose tables are kept for the next setting
REMEMBERED = 24  # sets of points at which a network's derivatives are kept for what follows
SMALL = 8  # functions along each coordinate of one that tells the symmetries
FRAME_GROWTH = 1.2  # the same in a frame, whose matrix is written out: at first, and grown
FIRST_IN_FRAME = {1: 4000, 2: 4000, 3: 3200, 4: 2400}
MOST_IN_FRAME = {1: 2000, 2: 2000, 3: 3200, 4: 2400}
MISFIT = 0.15  # the share of the residual that the expansion may leave; three times for the coarse
BETWEEN = 0.5  # the share that may be left between the points
FRAME_BETWEEN = {1: 0.1, 2: 0.1, 3: 0.35, 4: 0.35}  # in a frame, by the number of coordinates
ON_RIMS = 0.35  # the share of a boundary term's residual that may be left between its points
COARSE = 2.0  # times both of these, for what is only compared with
DISTANCE = 0.5  # of two corrections, beside the finer of them
NEAR = 0.25  # the same, for what a residual that is not resolved will not change much
MARCH = 20.0  # seconds of a march at the least, in a verdict
TINY = 1e-13  # below this, estimates are rounding
LARGE = 1e-3  # a relative error above which a nonlinear equation is linearised again
CORRECTIONS = 4  # how often, at most
SETTLED = 0.1  # the share of the error that the last of them may have changed
AGREE, CLOSE = 2.0, 1.25  # factors within which two expansions, and two marches, have to agree
ALLOWED, MARCHES = 0.3, 4  # what the first march may leave of the error; and how many there are
NOT_NEEDED = "it is bounded, which is enough, and not resolved"
DRAWS = 16  # loss weights over whose mean an equation is linearised, though more are judged

# From (params, points (n, dim), parameters (p,), weights (draws, m), orders) to Taylor coefficients
# (s, n, outputs) of the mean over draws.
NetworkJet = Callable[[Any, Array, Array, Array, Orders], Float[Array, "s n out"]]


class Estimate(NamedTuple):
    """The relative L2 error at one lambda, or nan and why it could not be estimated.

    It is then still known to be `at_most` so much, or `at_least`, where these are not trivial.
    `note` says what the number leaves out: a level that the page does not determine.
    """

    error: float
    reason: str = ""
    at: dict[str, float] | None = None
    note: str = ""
    at_least: float = 0.0
    at_most: float = np.inf


class Correction(NamedTuple):
    """An estimate; and, where there is one, values (n, outputs) at points without that error."""

    estimate: Estimate
    values: Callable[[np.ndarray], np.ndarray] | None


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
        self._jet = jax.jit(jet, static_argnums=4, compiler_options=compiler_options())
        self._expansions: dict[tuple[int, ...], Expansion] = {}

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
    ) -> Estimate:
        """The error at one setting; with loss weights (draws, m), that of the mean over them.

        Without `fronts` an error that is not smooth stays unknown. Expansions that take more than a
        moment are begun only if they should be done within so many `seconds`. With `bounds`, what
        is not resolved is still bounded where that is possible; and what is bounded by less than
        `enough` is not resolved.
        """
        return self._judged(params, parameters, weights, fronts, seconds, bounds, enough).estimate

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
        return self._judged(params, parameters, weights, fronts, seconds, False, 0.0)

    def _judged(
        self, params: Any, parameters: Sequence[float] | np.ndarray, weights: np.ndarray | None,
        fronts: bool, seconds: float, bounds: bool, enough: float,
    ) -> Correction:  # fmt: skip
        if self.family.domain.dim not in FRAMES:
            return _none(f"no estimate in {self.family.domain.dim} dimensions")
        if not self.terms.interior:
            return _none("no equation holds inside of the domain")
        if reason := self._too_many_holes or self._determinacy.reason:
            return _none(reason)
        at = self.linearisation(params, parameters, weights)
        with blas_threads(1):  # small matrices: more threads wait by spinning
            dim, attempts = self.family.domain.dim, []
            limits = self._bounds(at) if bounds else None
            if self._on_grids:
                patience = Patience(seconds, len(self.family.outputs), partial(self._work, at))
                sizes = partial(self._first_sizes, at, patience, self._resolution(params))
                correction = self._in_box(at, patience, attempts, sizes, limits, enough)
                if correction.estimate.reason == NOT_NEEDED:
                    return correction
            else:  # with one coordinate finer ones take a moment, too
                correction = self._in_frame(at, FRAME_GROWTHS[dim] if fronts or dim == 1 else 1)
            if correction.estimate.reason and fronts and self._march is not None:
                correction = self._marched(at, max(seconds, MARCH) if bounds else np.inf)
            if correction.estimate.reason and limits is not None and attempts:
                return self._bounded(at, correction, attempts, limits)
            return correction

    @property
    def _on_grids(self) -> bool:
        return uses_grids(self.family.domain)

    def linearisation(
        self,
        params: Any,
        parameters: Sequence[float] | np.ndarray,
        weights: np.ndarray | None = None,
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

        return Linearisation(self.terms, setting, base, judged if len(draws) > DRAWS else None)

    @cached_property
    def _orders(self) -> Orders:
        """Those of all terms together."""
        return self.family.orders(self.terms.terms)

    @cached_property
    def _too_many_holes(self) -> str:
        return too_many_holes(self.family.domain, len(self.family.outputs))

    @cached_property
    def _determinacy(self) -> Determinacy:
        return determinacy(self.family, observations=False)

    def _expansion(self, sizes: tuple[int, ...], parameters: np.ndarray) -> Expansion:
        """With so many functions a coordinate; its tables are made once, in a box."""
        if not isinstance(self.family.domain, Box):
            return Expansion(self.terms, sizes, parameters)
        if sizes not in self._expansions:
            while len(self._expansions) >= KEPT:
                del self._expansions[next(iter(self._expansions))]
            self._expansions[sizes] = Expansion(self.terms, sizes, integrated=len(sizes) == 1)
        return self._expansions[sizes]

    @cached_property
    def _march(self) -> March | None:
        direction = march_direction(self.terms)
        if direction is None or self._determinacy.levels:  # which a march does not know of
            return None
        return March(self.terms, direction)

    def _in_box(
        self, at: Linearisation, patience: Patience, attempts: list[Attempt],
        sizes: Callable[[], FirstSizes], limits: Bounds | None, enough: float,
    ) -> Correction:  # fmt: skip
        """A bound if that is enough, else by expansions.

        In one coordinate those of what is smooth take no longer than a bound.
        """
        first = sizes() if self.family.domain.dim == 1 else None
        if limits is not None and enough > 0 and (first is None or not first.quick):
            most = self._quickly(at, limits, attempts, enough)
            if most <= enough:
                return _none(NOT_NEEDED, at_most=most)
        return self._expanded(at, patience, attempts, first or sizes())

    def _expanded(
        self, at: Linearisation, patience: Patience, attempts: list[Attempt],
        sizes: FirstSizes,
    ) -> Correction:  # fmt: skip
        """By expansions of two sizes that agree; where they do not, by two that are finer.

        All attempts are kept, the last one at the end; one that was made before serves again.
        """
        known = {attempt.sizes: attempt for attempt in attempts}
        attempt, before = known.get(sizes.fine) or self._attempt(sizes.fine, at), None
        for grown in range(1 + GROWTHS[self.family.domain.dim]):
            if not any(attempt is made for made in attempts):
                attempts.append(attempt)
            if attempt.resolves:
                before = before or self._attempt(sizes.coarse, at)
                agree = _agree(attempt.error(), before.error(), AGREE)
                if agree and self._distance(attempt, before, at) < DISTANCE:
                    return attempt.correction
            more = _grown(attempt)
            if more is None or not patience.allows(more, grown):
                break
            before, attempt = attempt, self._attempt(more, at)
        return _none(_why_not(attempt))

    def _bounded(
        self, at: Linearisation, correction: Correction, attempts: Sequence[Attempt],
        limits: Bounds,
    ) -> Correction:  # fmt: skip
        """What is not resolved, between what two corrections share and what stability allows."""
        estimate, (*others, last) = correction.estimate, attempts
        before = others[-1] if others else last.without()
        if _agree(last.size, before.size, AGREE) and self._distance(last, before, at) < NEAR:
            estimate = estimate._replace(at_least=last.size / 2)
        most = min(_at_most(limits, last), limits.without_correction)
        return correction._replace(estimate=estimate._replace(at_most=most))

    def _bounds(self, at: Linearisation) -> Bounds | None:
        """Those at a setting; none on shapes, in four coordinates and where a level is free."""
        if not self._on_grids or self._determinacy.levels:
            return None
        return Bounds(self._small_expansions, at)

    @cached_property
    def _small_expansions(self) -> SmallExpansions:
        return SmallExpansions(self.terms)

    def _quickly(
        self, at: Linearisation, limits: Bounds, attempts: list[Attempt], enough: float
    ) -> float:
        """A bound without a correction; if that is too large, with one that takes a moment."""
        alone = limits.without_correction
        if alone <= enough or not limits.exist:
            return alone
        attempts.append(self._attempt(self._quick_sizes[0], at))
        return _at_most(limits, attempts[-1])

    def _work(self, at: Linearisation) -> float:
        """What an expansion takes beside one without symmetries."""
        expansion = self._expansion((SMALL,) * self.family.domain.dim, at.parameters)
        try:
            rows = expansion.rows(at, expansion.zero, expansion.base(at))
        except NotFinite:
            return 1.0
        return NormalMatrix([TensorRows(block) for block in rows]).share_of_work

    def _first_sizes(
        self, at: Linearisation, patience: Patience, least: tuple[int, ...] | None
    ) -> FirstSizes:
        """Those of two expansions to begin with: as the residual needs, if that is affordable."""
        dim, (fine, coarse) = self.family.domain.dim, self._quick_sizes
        if least is not None:
            return FirstSizes(self._beyond(least, fine), self._beyond(least, coarse), False)
        if dim == 1 or patience.seconds > 0:
            wanted = tuple(max(num, FEWEST[dim]) for num in needed(at))
            if any(a > b for a, b in zip(wanted, fine, strict=True)):
                if patience.allows(wanted):
                    fine, coarse = wanted, tuple(int(np.ceil(COARSER * num)) for num in wanted)
                return FirstSizes(fine, coarse, False)
        return FirstSizes(fine, coarse, True)

    @property
    def _quick_sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of two expansions that take a moment."""
        dim = self.family.domain.dim
        fine, coarse = ((num,) * dim for num in SIZES[dim])
        quick = QUICK[dim] / len(self.family.outputs)
        return _within(fine, quick), _within(coarse, LESS * quick)

    def _in_frame(self, at: Linearisation, growths: int) -> Correction:
        """The same on shapes and in four coordinates, where corrections themselves are compared.

        What two sizes leave there is not small beside the residual, so that it proves less if the
        norms of what they find agree. A frame that is too coarse for an estimate itself may still
        confirm a finer one; where it is too coarse for that, too, one between them is asked.
        """
        domain, dim, outputs = self.family.domain, self.family.domain.dim, len(self.family.outputs)
        most, fine, coarse = MOST_IN_FRAME[dim] / outputs, *self._first_frames(at)
        attempt, before = self._attempt(fine, at), None
        growths = min(growths, FRAME_GROWTHS[dim])
        for grown in range(1 + growths):
            if attempt.resolves:
                before = before or self._attempt(coarse, at)
                if self._confirms(before, attempt, at):
                    return attempt.correction
            sizes = tuple(int(np.ceil(FRAME_GROWTH * num)) for num in attempt.sizes)
            if grown == growths or not attempt.coefficients.any():
                break
            if functions_on(domain, sizes, at.parameters).size > most:
                break
            before, attempt = attempt, self._attempt(sizes, at)
        if attempt.resolves and before is not None and before.reason(COARSE):
            sizes = tuple((a + b) // 2 for a, b in zip(attempt.sizes, before.sizes, strict=True))
            if sizes != before.sizes and self._confirms(self._attempt(sizes, at), attempt, at):
                return attempt.correction
        reason = _why_not(attempt)
        if not isinstance(domain, Box) and may_have_inward_corners(
            domain.shape, dict(zip(domain.prior.names, at.parameters, strict=True))
        ):
            reason += "; at a corner that points inwards an error is singular"
        return _none(reason)

    def _first_frames(self, at: Linearisation) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of two frames to begin with, smaller ones where there are many outputs."""
        domain, dim = self.family.domain, self.family.domain.dim
        most = FIRST_IN_FRAME[dim] / len(self.family.outputs)
        fine, coarse = ((num,) * dim for num in FRAMES[dim])
        if functions_on(domain, fine, at.parameters).size > most:
            fine = affordable(domain, fine, most, at.parameters)
            fewer = tuple(num - 1 for num in fine)
            coarse = affordable(domain, fewer, LESS * most, at.parameters)
        return fine, coarse

    def _confirms(self, coarse: Attempt, fine: Attempt, at: Linearisation) -> bool:
        """Whether a coarser frame finds about the same, in size and as a function."""
        agree = _agree(fine.error(), coarse.error(COARSE), AGREE)
        return agree and self._distance(fine, coarse, at) < DISTANCE

    def _distance(self, one: Attempt, other: Attempt, at: Linearisation) -> float:
        """Of two corrections over the domain, beside the first; the worst output counts."""
        expansion = self._expansion(one.sizes, at.parameters)
        points, d = expansion.inside.points, expansion.values(one.coefficients)
        if isinstance(one.basis, TensorBasis) and isinstance(other.basis, TensorBasis):
            e = expansion.values(other.basis.resized(other.coefficients, one.basis))
        else:
            orders = zeroth(self.family.domain.dim)
            e = other.basis.evaluate(other.coefficients, points, orders)[0]
        values = at.values(points) + d
        return self._relative(expansion, d - e, values) / (
            self._relative(expansion, d, values) + TINY / DISTANCE
        )

    def _beyond(self, least: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Sizes that go beyond what is judged, in proportion, as far as that is affordable."""
        share = 1 + BEYOND * sizes[0] / SIZES[len(sizes)][0]
        more = tuple(max(a, int(np.ceil(share * b))) for a, b in zip(sizes, least, strict=True))
        outputs = len(self.family.outputs)
        return more if num_unknowns(more) * outputs <= QUICK[len(sizes)] else sizes

    def _attempt(self, sizes: tuple[int, ...], at: Linearisation) -> Attempt:
        """The estimate by one expansion, by Newton's method where the equation is not linear."""
        expansion = self._expansion(sizes, at.parameters)
        series, inside = expansion.base(at), expansion.inside.points
        values, beyond = at.values(inside), at.beyond(inside)
        coefficients, whole, share, error = expansion.zero, 0.0, 0.0, np.nan
        refused = lambda reason: Attempt(
            _none(reason), sizes, coefficients, expansion.basis, share, error
        )
        for _ in range(1 + CORRECTIONS):
            try:
                solved = expansion.step(at, coefficients, series)
            except NotFinite as name:
                return refused(f"the term {str(name)!r} is not finite")
            except TooLarge:
                return refused(_too_few(sizes))
            except NotSolvable:
                return refused("the linearised equations are singular")
            whole = max(whole, float(np.linalg.norm(solved.initial)))
            share = float(np.linalg.norm(solved.remaining)) / (whole + TINY / MISFIT)
            coefficients = coefficients + solved.coefficients
            d, last = expansion.values(coefficients), expansion.values(solved.coefficients)
            error, change = (self._relative(expansion, e, values + d) for e in (d, last))
            if share > 3 * MISFIT:
                return refused(_too_few(sizes))
            if self.family.is_linear() or error < LARGE or change < SETTLED * error:
                least = TINY * float(np.sqrt(expansion.mean_square(values).max()))
                between = _between(expansion, at, coefficients, least)
                error = self._relative(expansion, d - beyond, values + d)
                correction = self._corrected(Estimate(error), at, expansion, coefficients)
                return Attempt(
                    correction, sizes, coefficients, expansion.basis, share, error, between
                )
        return refused("it is too far off for the linearised equation to tell")

    def _corrected(
        self, estimate: Estimate, at: Linearisation, expansion: Expansion, coefficients: np.ndarray
    ) -> Correction:
        orders, basis = zeroth(self.family.domain.dim), expansion.basis  # not its large tables

        def values(points: np.ndarray) -> np.ndarray:
            return at.values(points) + basis.evaluate(coefficients, points, orders)[0]

        return Correction(estimate._replace(note=self._determinacy.note), values)

    def _relative(self, expansion: Expansion, error: np.ndarray, solution: np.ndarray) -> float:
        """The relative error, levels that the page does not determine aside."""
        for output, along in self._determinacy.levels:
            place = self.family.outputs.index(output)
            axes = [self.family.domain.names.index(name) for name in along]
            error, solution = (expansion.without_level(v, place, axes) for v in (error, solution))
        return expansion.relative(error, solution)

    def _marched(self, at: Linearisation, seconds: float) -> Correction:
        """Marches that leave less and less, until two of them agree; so many seconds each."""
        assert self._march is not None
        self._march.limits = self._march.limits._replace(seconds=seconds)
        along = self._march.direction.along
        try:
            allowed, before = ALLOWED * self._march.scan(at), None
            for _ in range(MARCHES):
                slabs: list[SlabExpansion] = []
                now = self._march(at, allowed, slabs)
                if before is not None and _agree(now.relative, before.relative, CLOSE):
                    return Correction(
                        Estimate(now.relative),
                        lambda points, s=slabs: (
                            at.values(points) + marched_values(s, along, points)
                        ),
                    )
                allowed, before = min(ALLOWED * now.largest, allowed) / 3, now
        except Unresolved as why:
            return _none(f"a front is not resolved: {why}")
        return _none("marches of two resolutions do not agree: it is not resolved")


class FirstSizes(NamedTuple):
    """Of two expansions to begin with; `quick` if those that take a moment are fine enough."""

    fine: tuple[int, ...]
    coarse: tuple[int, ...]
    quick: bool


class Between(NamedTuple):
    """Shares of the residual that are left between the points, beside what may be left there.

    Both are one where an estimate of its own is at its limit.
    """

    inside: float = 0.0
    on_rims: float = 0.0


class Attempt(NamedTuple):
    """What an expansion has found, and the share of the residual that it leaves.

    `size` is that of its correction, relative to the solution, whether it is an estimate or not.
    """

    correction: Correction
    sizes: tuple[int, ...]
    coefficients: np.ndarray
    basis: Basis
    remaining_share: float
    size: float
    between: Between = Between()

    def without(self) -> Attempt:
        """The same without a correction."""
        return self._replace(coefficients=np.zeros_like(self.coefficients), size=0.0)

    def reason(self, allowance: float = 1.0) -> str:
        """Why it finds nothing, or nothing that counts if so many times as much may be left."""
        if reason := self.correction.estimate.reason:
            return reason
        if self.between.inside > allowance:
            return "between its points it is not resolved"
        if self.between.on_rims > allowance:
            return "between its points on the boundary it is not resolved"
        return ""

    def error(self, allowance: float = 1.0) -> float:
        """The estimate, or nan where there is a reason against it."""
        return np.nan if self.reason(allowance) else self.correction.estimate.error

    @property
    def resolves(self) -> bool:
        return self.remaining_share <= MISFIT and not self.reason()


def _grown(attempt: Attempt) -> tuple[int, ...] | None:
    """More functions along the coordinates whose coefficients have decayed least, or not at all.

    None where an expansion is not what will resolve it.
    """
    if not np.isfinite(attempt.coefficients).all() or not attempt.coefficients.any():
        return None
    tails = attempt.basis.tails(attempt.coefficients)
    sizes = tuple(
        int(np.ceil(GROWTH * num)) if tail > 0.1 * max(tails) else num + 2
        for num, tail in zip(attempt.sizes, tails, strict=True)
    )
    return sizes


def _between(
    expansion: Expansion, at: Linearisation, coefficients: np.ndarray, least: float
) -> Between:
    """What is left between the points; on the rims of a box nothing is looked at."""
    inside = expansion.remaining_share_between(at, coefficients)
    if expansion.on_box:
        return Between(inside / BETWEEN)
    on_rims = expansion.remaining_share_on_rims(at, coefficients, least)
    return Between(inside / FRAME_BETWEEN[len(expansion.sizes)], on_rims / ON_RIMS)


def _why_not(attempt: Attempt) -> str:
    """Why an attempt is no estimate, though it was the last one."""
    reason = attempt.reason()
    if attempt.remaining_share > MISFIT:
        reason = reason or _too_few(attempt.sizes)
    return reason or "expansions of two sizes do not agree: it is not resolved"


def _too_few(sizes: Sequence[int]) -> str:
    if len(set(sizes)) == 1:
        return f"{sizes[0]} functions a coordinate do not resolve it"
    return f"{' x '.join(map(str, sizes))} functions do not resolve it"


def _none(reason: str, at_most: float = np.inf) -> Correction:
    return Correction(Estimate(np.nan, reason, at_most=at_most), None)


def _at_most(limits: Bounds, attempt: Attempt) -> float:
    assert isinstance(attempt.basis, TensorBasis)
    return limits.with_correction(attempt.size, attempt.basis, attempt.coefficients)


def _within(sizes: tuple[int, ...], most: float) -> tuple[int, ...]:
    """As many functions along each coordinate, or so many that there are at most `most` in all."""
    share = min(1.0, (most / num_unknowns(sizes)) ** (1 / len(sizes)))
    return tuple(int(share * num) for num in sizes)


def _agree(one: float, other: float, factor: float) -> bool:
    return 1 / factor < (one + TINY) / (other + TINY) < factor


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
