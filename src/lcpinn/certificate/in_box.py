"""The estimate in a box: a bound where that is enough, else by two expansions that agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lcpinn.certificate.attempt import AGREE, DISTANCE, Attempt, Attempts
from lcpinn.certificate.bounds import Bounds
from lcpinn.certificate.estimate import Correction, agree, none
from lcpinn.certificate.in_elements import agreed, in_elements
from lcpinn.certificate.in_slabs import InSlabs
from lcpinn.certificate.resolution import QUICK, Needed, Patience, needed, num_unknowns
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.linearisation import Linearisation

# Functions along each coordinate, by the number of coordinates; and of what has to agree with them.
SIZES = {1: (128, 96), 2: (24, 18), 3: (18, 14)}
GROWTHS = {1: 4, 2: 3, 3: 2}  # how often finer ones are tried where those do not agree
GROWTH = 1.4  # by what factor
BEYOND = 0.3  # more functions than an expansion has that is judged itself, relatively
LESS = 0.55  # of what is quick, for the coarse one, with many outputs
COARSER = 0.8  # functions of the coarse one, where the residual says how many are needed
FEWEST = {1: 64, 2: 16, 3: 10}  # along a coordinate, where others need many
NEAR = 0.25  # the distance of two corrections that a residual which is left will not change much
NOT_NEEDED = "it is bounded, which is enough, and not resolved"


class FirstSizes(NamedTuple):
    """Of two expansions to begin with; `quick` if those that take a moment seem fine enough, and
    `agreed` if they did so at a setting before."""

    fine: tuple[int, ...]
    coarse: tuple[int, ...]
    quick: bool
    agreed: bool = False


class InBox:
    """Attempts at one setting, and what is known by them.

    `least` is what the error needs at the least, where that is known: functions along each
    coordinate. `limits`, where they are given, bound it. Without seconds nothing depends on a
    clock, nor on the settings before.
    """

    def __init__(
        self, attempts: Attempts, at: Linearisation, seconds: float,
        least: tuple[int, ...] | None, limits: Bounds | None, slabs: InSlabs,
    ):  # fmt: skip
        self._attempts = attempts if seconds > 0 else attempts.repeatable()
        self._at, self._least, self._limits = at, least, limits
        self._dim, self._outputs = at.family.domain.dim, len(at.family.outputs)
        self._patience = Patience(seconds, self._outputs, lambda: attempts.work(at))
        self._slabs = slabs
        self._made: list[Attempt] = []  # the last one at the end
        self._needed: Needed | None = None

    def estimate(self, enough: float) -> Correction:
        """By expansions, unless a bound is below what is enough.

        In up to two coordinates those of what is smooth take no longer than a bound.
        """
        first = self._first_sizes() if self._dim < 3 else None
        limits = self._limits if first is None or not first.quick else None
        if limits is not None and enough > 0 and limits.promise:
            most = self._quickly(limits, enough)
            limits.known(below=most <= enough)
            if most <= enough:
                return none(NOT_NEEDED, at_most=most)
        sizes = first or self._first_sizes()
        correction = self._in_elements() or self._in_slabs() or self._expanded(sizes)
        if limits is not None and correction.estimate.error <= enough:
            limits.known(below=True)
        return correction

    def bounded(self, correction: Correction) -> Correction:
        """What is not resolved, between what two corrections share and what stability allows."""
        if self._limits is None or not self._made:
            return correction
        estimate, (*others, last) = correction.estimate, self._made
        before = others[-1] if others else last.without()
        same = agree(last.size, before.size, AGREE)
        if same and self._attempts.distance(last, before, self._at) < NEAR:
            estimate = estimate._replace(at_least=last.size / 2)
        most = min(_at_most(self._limits, last), self._limits.without_correction)
        return correction._replace(estimate=estimate._replace(at_most=most))

    def _quickly(self, limits: Bounds, enough: float) -> float:
        """A bound without a correction; if that is too large, with one that takes a moment."""
        alone = limits.without_correction
        if alone <= enough or not limits.exist:
            return alone
        self._made.append(self._attempts(self._quick_sizes[0], self._at))
        return _at_most(limits, self._made[-1])

    def _in_elements(self) -> Correction | None:
        """Along one coordinate with a layer, where the whole interval takes many functions."""
        if self._dim > 1 or self._needed is None or self._needed.enough[0] <= SIZES[1][0]:
            return None
        made = in_elements(self._attempts, self._at, self._needed.enough[0])
        self._made += made
        return agreed(self._attempts, made, self._at)

    def _in_slabs(self) -> Correction | None:
        """Of an initial value with many waves, slab after slab."""
        if self._dim != 2 or self._needed is None or self._attempts.determinacy.levels:
            return None
        if not self._slabs.suits(self._at, self._needed):
            return None
        return self._slabs(self._at, self._needed, self._patience)

    def _expanded(self, sizes: FirstSizes) -> Correction:
        """By expansions of two sizes that agree; where they do not, by two that are finer.

        One that was made before serves again.
        """
        known, agreed = {attempt.sizes: attempt for attempt in self._made}, self._attempts.agreed
        attempt, before = known.get(sizes.fine) or self._attempts(sizes.fine, self._at), None
        for grown in range(1 + GROWTHS[self._dim]):
            if not any(attempt is made for made in self._made):
                self._made.append(attempt)
            if attempt.resolves:
                before = before or self._attempts(sizes.coarse, self._at)
                same = agree(attempt.error(), before.error(), AGREE)
                if same and self._attempts.distance(attempt, before, self._at) < DISTANCE:
                    if not sizes.agreed:
                        pair = (attempt.sizes, before.sizes)
                        agreed.remember(self._needed, pair, grown=grown > 0)
                    return attempt.correction
            agreed.forget(attempt.sizes)
            more = _grown(attempt)
            if more is None or not self._affordable(more, grown):
                break
            before, attempt = attempt, self._attempts(more, self._at)
        return none(attempt.why_not())

    def _affordable(self, sizes: tuple[int, ...], grown: int) -> bool:
        """Whether a finer one is, and whether one that resolves it would be."""
        least = sizes if self._needed is None else self._needed.least
        several = num_unknowns(sizes) < num_unknowns(least)
        if several and not self._patience.allows(least, grown):
            return num_unknowns(sizes) * self._outputs <= QUICK[self._dim] and grown < 1
        return self._patience.allows(sizes, grown)

    def _first_sizes(self) -> FirstSizes:
        """Those of two expansions to begin with: as the residual needs, if that is affordable."""
        fine, coarse = self._quick_sizes
        if self._least is not None:
            more, less = (self._beyond(self._least, sizes) for sizes in (fine, coarse))
            return FirstSizes(more, less, quick=more == fine)
        looked = self._dim == 1 or self._patience.seconds > 0
        if looked:
            self._needed = needed(self._at)
            known = self._attempts.agreed.near(self._needed)
            if known is not None and self._patience.allows(known[0]):
                return FirstSizes(*known, quick=known == (fine, coarse), agreed=True)
            wanted = tuple(max(num, FEWEST[self._dim]) for num in self._needed.enough)
            if any(a > b for a, b in zip(wanted, fine, strict=True)):
                if self._patience.allows(wanted):
                    fine = self._attempts.factors.covering(wanted) or wanted
                    coarse = tuple(int(np.ceil(COARSER * num)) for num in fine)
                return FirstSizes(fine, coarse, quick=False)
        return FirstSizes(fine, coarse, quick=looked)

    @property
    def _quick_sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of two expansions that take a moment."""
        fine, coarse = ((num,) * self._dim for num in SIZES[self._dim])
        quick = QUICK[self._dim] / self._outputs
        return _within(fine, quick), _within(coarse, LESS * quick)

    def _beyond(self, least: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Sizes that go beyond what is judged, in proportion, as far as that is affordable."""
        share = 1 + BEYOND * sizes[0] / SIZES[self._dim][0]
        more = tuple(max(a, int(np.ceil(share * b))) for a, b in zip(sizes, least, strict=True))
        return more if num_unknowns(more) * self._outputs <= QUICK[self._dim] else sizes


def _at_most(limits: Bounds, attempt: Attempt) -> float:
    assert isinstance(attempt.basis, TensorBasis)
    return limits.with_correction(attempt.size, attempt.basis, attempt.coefficients)


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


def _within(sizes: tuple[int, ...], most: float) -> tuple[int, ...]:
    """As many functions along each coordinate, or so many that there are at most `most` in all."""
    share = min(1.0, (most / num_unknowns(sizes)) ** (1 / len(sizes)))
    return tuple(int(share * num) for num in sizes)
