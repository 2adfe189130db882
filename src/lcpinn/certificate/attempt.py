"""What one expansion finds of an error, and whether that counts.

An attempt is an estimate only if a coarser one on other points finds about the same, which
in_box.py and in_frame.py ask for.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lcpinn.certificate.estimate import TINY, Correction, Estimate, none
from lcpinn.certificate.factors import KeptFactors
from lcpinn.certificate.resolution import Needed, num_unknowns
from lcpinn.domain import Box
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.determinacy import Determinacy, determinacy
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.frame import Basis
from lcpinn.spectral.least_squares import NormalMatrix, NotSolvable, TensorRows, TooLarge
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms, zeroth

Sizes = tuple[int, ...]
Pair = tuple[Sizes, Sizes]

SLIGHTLY_LESS, SLIGHTLY_MORE = 0.92, 1.25  # functions that two residuals need, if they are alike
SMALL = 8  # functions along each coordinate of one that tells the symmetries
KEPT = 8  # expansions whose tables are kept for the next setting
MISFIT = 0.15  # the share of the residual that the expansion may leave; three times for the coarse
BETWEEN = 0.5  # the share that may be left between the points
FRAME_BETWEEN = {1: 0.1, 2: 0.1, 3: 0.35, 4: 0.35}  # in a frame, by the number of coordinates
ON_RIMS = 0.35  # the share of a boundary term's residual that may be left between its points
AGREE = 2.0  # the factor within which two expansions have to agree,
DISTANCE = 0.5  # and the distance of their corrections, beside the finer of them
LARGE = 1e-3  # a relative error above which a nonlinear equation is linearised again
CORRECTIONS = 4  # how often, at most
SETTLED = 0.1  # the share of the error that the last of them may have changed


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

    def why_not(self) -> str:
        """Why it is no estimate, though it was the last attempt."""
        reason = self.reason()
        if self.remaining_share > MISFIT:
            reason = reason or _too_few(self.sizes)
        return reason or "expansions of two sizes do not agree: it is not resolved"


class AgreedSizes:
    """Of two expansions that agreed at a setting before, by what the residual needed there.

    Where those to begin with mostly did not, a residual that needs about as many functions begins
    where that one ended: it need not grow anew, and tables and factors are known.
    """

    def __init__(self) -> None:
        self._known: dict[Sizes, Pair] = {}
        self._grown = 0  # settings where finer ones were needed, less those where they were not

    def remember(self, needed: Needed | None, pair: Pair, *, grown: bool) -> None:
        self._grown += 1 if grown else -1
        if needed is not None and grown:
            self._known[needed.enough] = pair

    def forget(self, fine: Sizes) -> None:
        """Those did not agree."""
        self._known = {key: pair for key, pair in self._known.items() if pair[0] != fine}

    def near(self, needed: Needed) -> Pair | None:
        """The smallest ones of residuals that needed about as many functions, or slightly more."""
        alike = []
        for other, pair in self._known.items():
            more = np.divide(other, needed.enough)
            if np.all((more > SLIGHTLY_LESS) & (more < SLIGHTLY_MORE)):
                alike.append(pair)
        if self._grown <= 0:
            return None
        return min(alike, key=lambda pair: num_unknowns(pair[0]), default=None)


class Attempts:
    """Attempts for one family; what does not depend on lambda is computed once."""

    def __init__(self, terms: LinearisedTerms):
        self.terms, self.family = terms, terms.family
        self.expansions: dict[tuple[Sizes, tuple[float, ...]], Expansion] = {}
        self.breaks: tuple[float, ...] = ()  # of elements that the last setting needed
        self.factors, self.agreed = KeptFactors(), AgreedSizes()
        self._work: float | None = None

    def repeatable(self) -> Attempts:
        """The same without what other settings left: what it finds does not depend on them."""
        other = copy.copy(self)
        other.factors, other.agreed, other.breaks = KeptFactors(), AgreedSizes(), ()
        return other

    def work(self, at: Linearisation) -> float:
        """What an expansion takes beside one without symmetries, by the first setting."""
        if self._work is None:
            expansion = self.expansion((SMALL,) * self.family.domain.dim, at.parameters)
            try:
                rows = expansion.rows(at, expansion.zero, expansion.base(at))
            except NotFinite:
                return 1.0
            self._work = NormalMatrix([TensorRows(block) for block in rows]).share_of_work
        return self._work

    @cached_property
    def determinacy(self) -> Determinacy:
        return determinacy(self.family, observations=False)

    def expansion(
        self, sizes: Sizes, parameters: np.ndarray, breaks: tuple[float, ...] = ()
    ) -> Expansion:
        """With so many functions a coordinate; its tables are made once, in a box."""
        if not isinstance(self.family.domain, Box):
            return Expansion(self.terms, sizes, parameters)
        breaks = breaks or self.terms.jumps
        if (sizes, breaks) not in self.expansions:
            while len(self.expansions) >= KEPT:
                del self.expansions[next(iter(self.expansions))]
            made = Expansion(self.terms, sizes, integrated=len(sizes) == 1, breaks=breaks)
            self.expansions[sizes, breaks] = made
        return self.expansions[sizes, breaks]

    def __call__(self, sizes: Sizes, at: Linearisation, breaks: tuple[float, ...] = ()) -> Attempt:
        """The estimate by one expansion, by Newton's method where the equation is not linear."""
        expansion = self.expansion(sizes, at.parameters, breaks)
        series, inside = expansion.base(at), expansion.inside.points
        values, beyond = at.values(inside), at.beyond(inside)
        coefficients, whole, share, error = expansion.zero, 0.0, 0.0, np.nan
        refused = lambda reason: Attempt(
            none(reason), sizes, coefficients, expansion.basis, share, error
        )
        unit = np.asarray(self.family.parameters.to_unit(at.parameters))
        factors = self.factors.near(sizes, unit)
        for _ in range(1 + CORRECTIONS):
            try:
                solved = expansion.step(at, coefficients, series, preconditioner=factors)
            except NotFinite as name:
                return refused(f"the term {str(name)!r} is not finite")
            except TooLarge:
                return refused(_too_few(sizes))
            except NotSolvable:
                return refused("the linearised equations are singular")
            self.factors.keep(sizes, unit, factors)
            whole = max(whole, float(np.linalg.norm(solved.initial)))
            share = float(np.linalg.norm(solved.remaining)) / (whole + TINY / MISFIT)
            coefficients = coefficients + solved.coefficients
            d, last = expansion.values(coefficients), expansion.values(solved.coefficients)
            error, change = (self.relative(expansion, e, values + d) for e in (d, last))
            if share > 3 * MISFIT:
                return refused(_too_few(sizes))
            if self.family.is_linear() or error < LARGE or change < SETTLED * error:
                least = TINY * float(np.sqrt(expansion.mean_square(values).max()))
                between = _between(expansion, at, coefficients, least)
                error = self.relative(expansion, d - beyond, values + d, at.least)
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

        return Correction(estimate._replace(note=self.determinacy.note), values)

    def distance(self, one: Attempt, other: Attempt, at: Linearisation) -> float:
        """Of two corrections over the domain, beside the first; the worst output counts."""
        breaks = one.basis.breaks if isinstance(one.basis, TensorBasis) else ()
        expansion = self.expansion(one.sizes, at.parameters, breaks)
        points, d = expansion.inside.points, expansion.values(one.coefficients)
        if isinstance(one.basis, TensorBasis) and isinstance(other.basis, TensorBasis):
            e = expansion.values(other.basis.resized(other.coefficients, one.basis))
        else:
            orders = zeroth(self.family.domain.dim)
            e = other.basis.evaluate(other.coefficients, points, orders)[0]
        values = at.values(points) + d
        return self.relative(expansion, d - e, values) / (
            self.relative(expansion, d, values) + TINY / DISTANCE
        )

    def relative(
        self, expansion: Expansion, error: np.ndarray, solution: np.ndarray,
        least: np.ndarray | float = 0.0,
    ) -> float:  # fmt: skip
        """The relative error, levels that the page does not determine aside."""
        for output, along in self.determinacy.levels:
            place = self.family.outputs.index(output)
            axes = [self.family.domain.names.index(name) for name in along]
            error, solution = (expansion.without_level(v, place, axes) for v in (error, solution))
        return expansion.relative(error, solution, least)


def _between(
    expansion: Expansion, at: Linearisation, coefficients: np.ndarray, least: float
) -> Between:
    """What is left between the points; on the rims of a box nothing is looked at."""
    inside = expansion.remaining_share_between(at, coefficients)
    if expansion.on_box:
        return Between(inside / BETWEEN)
    on_rims = expansion.remaining_share_on_rims(at, coefficients, least)
    return Between(inside / FRAME_BETWEEN[len(expansion.sizes)], on_rims / ON_RIMS)


def _too_few(sizes: Sequence[int]) -> str:
    if len(set(sizes)) == 1:
        return f"{sizes[0]} functions a coordinate do not resolve it"
    return f"{' x '.join(map(str, sizes))} functions do not resolve it"
