"""The estimate of an initial-value problem with many waves: by expansions slab after slab.

An expansion over the whole time takes functions along it for every wave, times those across it, and
their cube to factorise. In a slab of time there are a dozen: what is found at its end begins the
next one, as in a march (spectral/march.py), but with the functions and the accuracy of an
expansion. All slabs are as long, so that the factors of one serve the others where the equation
does not depend on time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lcpinn.certificate.attempt import (
    AGREE,
    BETWEEN,
    CORRECTIONS,
    DISTANCE,
    LARGE,
    MISFIT,
    SETTLED,
)
from lcpinn.certificate.estimate import TINY, Correction, Estimate, agree
from lcpinn.certificate.resolution import FUNCTIONS, Needed, Patience
from lcpinn.domain import Box
from lcpinn.jet import MultiIndex, Orders
from lcpinn.spectral.basis import TensorBasis, basis_on
from lcpinn.spectral.collocation import LinearisedRows, ScatteredPoints, TensorGrid
from lcpinn.spectral.expansion import CHECKS
from lcpinn.spectral.least_squares import ACCURATE, NotSolvable, Preconditioner, solve
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms, zeroth
from lcpinn.spectral.march import MarchDirection, faces_of, initial_coordinate, outflow_sides

MANY = 48  # functions along time, from which on slabs are taken
EACH, BEYOND = 14, 8  # of them in a slab, and more, since it ends where nothing does
ACROSS = 1.15  # times as many functions across as the residual needs, and as many more:
MORE = 4
UNSEEN = 1.2  # times as many waves, where the residual has more than were looked at
LADDER = 1.1  # the factor between numbers of functions: those of several settings are the same
COARSER = 0.85  # functions of the coarser one
BOTH = 1.7  # times what the finer one takes
FINER = 1.25  # more functions where two do not agree, once
AGAIN = 24  # steps of conjugate gradients with the factors of the slab before
SEEN = 1.2 * FUNCTIONS[2]  # functions along a line, beyond which there may be any number
KEPT, NUMBERS = 4, 8e6  # sets of slabs whose tables are kept; and of factors that are


@dataclass(frozen=True, eq=False)
class Slab:
    """A piece of time with its functions; `first` if the page's own conditions begin it."""

    terms: LinearisedTerms
    direction: MarchDirection
    basis: TensorBasis
    begin: float
    first: bool

    @cached_property
    def grids(self) -> list[TensorGrid]:
        """Those of the page's terms that hold in it."""
        family, grids = self.terms.family, []
        names = family.domain.names
        for term in self.terms.terms:
            orders, faces = family.orders([term]), faces_of(term) or [None]
            for face in faces:
                fixed = {} if face is None else {names.index(face.name): face.value}
                if self.first or self.direction.along not in fixed:
                    grids.append(TensorGrid(self.basis, fixed, orders, term))
        return grids

    @cached_property
    def inside(self) -> TensorGrid:
        return TensorGrid(self.basis, {}, zeroth(len(self.basis.axes)), self.terms.terms[0])

    @cached_property
    def mass(self) -> np.ndarray:
        return reduce(np.kron, self.inside.weights)

    def mean_square(self, values: np.ndarray) -> np.ndarray:
        return self.mass @ values**2

    def interface(self, order: int) -> TensorGrid:
        """Where it begins, for derivatives along time of that order."""
        orders = Orders.closure([self.along(order)], len(self.basis.axes))
        begin = {self.direction.along: self.begin}
        return TensorGrid(self.basis, begin, orders, self.terms.interior[0])

    def along(self, order: int) -> MultiIndex:
        """The derivative along time of that order."""
        return tuple(order * (i == self.direction.along) for i in range(len(self.basis.axes)))


class Solved(NamedTuple):
    """A slab with its coefficients (outputs, functions), and sums over its terms."""

    slab: Slab
    coefficients: np.ndarray
    initial: float  # squares of the page's terms before, and of all that is left
    remaining: float


class Factors(NamedTuple):
    """Of the slab that the page's own conditions begin, and of one of the others."""

    first: Preconditioner
    others: Preconditioner


class SlabAttempt(NamedTuple):
    """Slabs one after the other: the error, and what is left of the residual."""

    solved: list[Solved]
    error: float
    share: float
    between: float

    @property
    def resolves(self) -> bool:
        return self.share <= MISFIT and self.between <= BETWEEN


class InSlabs:
    """Slabs for one family; what does not depend on lambda is made once."""

    def __init__(self, terms: LinearisedTerms, note: str):
        self.terms, self.family, self._note = terms, terms.family, note
        self.direction = initial_coordinate(terms) if terms.family.domain.dim == 2 else None
        self._slabs: dict[tuple[int, ...], tuple[list[Slab], Factors]] = {}
        self._grown = 0  # settings where finer ones were needed, less those where they were not
        self._served = True  # whether factors of a setting did at the next
        self._pace = 0.0  # seconds that a function in a slab took, the network's derivatives there

    def suits(self, at: Linearisation, needed: Needed) -> bool:
        """Whether the page begins at one end of time, and the residual has many waves along it."""
        if self.direction is None or needed.enough[self.direction.along] < MANY:
            return False
        return not outflow_sides(at)

    def __call__(self, at: Linearisation, needed: Needed, patience: Patience) -> Correction | None:
        """The estimate, if slabs of two sizes agree; finer ones are tried as patience allows."""
        assert self.direction is not None
        along, first = self.direction.along, int(self._grown > 0)
        waves = needed.enough[along] * (UNSEEN if needed.enough[along] > SEEN else 1.0)
        num = _rounded(waves / EACH)
        sizes = [ACROSS * size + MORE for size in needed.enough]
        sizes[along] = EACH + BEYOND
        factorised = 1 if self.family.is_linear() else num  # times, for all slabs
        for grown in range(first, 2):
            now = tuple(_rounded(FINER**grown * size) for size in sizes)
            if self._pace * num * math.prod(now) > patience.remaining:
                self._pace /= 2  # the first one compiled programs, too
                return None
            if not patience.allows(now, grown - first, factorised):
                return None
            spent = patience.spent
            fine = self._attempt(at, num, now)
            self._pace = BOTH * (patience.spent - spent) / (num * math.prod(now))
            if fine is None:
                return None
            if fine.resolves:
                coarse = self._attempt(at, num, tuple(math.ceil(COARSER * n) for n in now))
                if coarse is not None and self._confirms(at, fine, coarse):
                    self._grown += 1 if grown else -1
                    return self._correction(at, fine)
        return None

    def slabs(self, num: int, sizes: tuple[int, ...]) -> tuple[list[Slab], Factors]:
        """So many, with as many functions each; kept for the next setting, with factors of theirs.

        Where those of one setting did not serve at the next, each has its own.
        """
        if (num, *sizes) not in self._slabs:
            if len(self._slabs) >= KEPT:
                del self._slabs[next(iter(self._slabs))]
            factors = Factors(Preconditioner(), Preconditioner())
            self._slabs[num, *sizes] = (list(self._made(num, sizes)), factors)
        slabs, factors = self._slabs[num, *sizes]
        for each in factors:
            each.again = AGAIN
        return slabs, factors

    def _forget(self, factors: Factors) -> None:
        """What does not serve at other settings, or takes much memory."""
        for each in factors:
            if each.normal is not None and not (self._served and each.normal.numbers <= NUMBERS):
                each.normal = None

    def _made(self, num: int, sizes: tuple[int, ...]) -> Iterator[Slab]:
        assert isinstance(self.family.domain, Box)
        assert self.direction is not None
        whole, (along, start, end, _) = basis_on(self.family.domain, sizes), self.direction
        times = np.linspace(start, end, num + 1)
        for i, (begin, after) in enumerate(pairwise(times)):
            axes = list(whole.axes)
            low, high = sorted((float(begin), float(after)))
            axes[along] = replace(axes[along], low=low, high=high)
            yield Slab(self.terms, self.direction, TensorBasis(tuple(axes)), float(begin), i == 0)

    def _attempt(self, at: Linearisation, num: int, sizes: tuple[int, ...]) -> SlabAttempt | None:
        (slabs, factors), before, made = self.slabs(num, sizes), None, []
        for slab in slabs:
            mine = factors.first if slab.first else factors.others
            known = mine.normal
            before = self._solved(at, slab, before, mine)
            if slab.first and known is not None and mine.normal is not known:
                self._served = False
            if before is None or not np.isfinite(before.coefficients).all():
                self._forget(factors)
                return None
            made.append(before)
        self._forget(factors)
        error, solution = 0.0, 0.0
        for slab, coefficients, *_ in made:
            d, points = slab.inside.series(coefficients)[0], slab.inside.points
            error = error + slab.mean_square(d - at.beyond(points))
            solution = solution + slab.mean_square(at.values(points) + d)
        solution = np.maximum(solution, at.least)
        sizes_of = np.where(solution > 0, solution, 1)
        initial, remaining = (float(np.sqrt(sum(s[i] for s in made))) for i in (2, 3))
        return SlabAttempt(
            made, float(np.sqrt(np.max(error / sizes_of))), remaining / (initial + TINY / MISFIT),
            self._between(at, made),
        )  # fmt: skip

    def _solved(
        self, at: Linearisation, slab: Slab, before: Solved | None, factors: Preconditioner
    ) -> Solved | None:
        """One slab, by Newton's method where the equation is not linear; None if it diverges."""
        series = at.several([(grid.points, grid.orders) for grid in slab.grids])
        d, initial = np.zeros((len(self.family.outputs), slab.basis.size)), 0.0
        for _ in range(1 + CORRECTIONS):
            rows = [
                LinearisedRows(g, *at.slopes(g.term, g.orders, s + g.series(d), g.points))
                for g, s in zip(slab.grids, series, strict=True)
            ]
            if not all(np.isfinite(r.residual).all() and np.isfinite(r.slopes).all() for r in rows):
                return None
            rows += self._continued(slab, before, d)
            try:
                solution = solve(rows, ACCURATE, factors)
            except NotSolvable:
                return None
            initial = max(initial, float(np.sum(solution.initial[: len(slab.grids)] ** 2)))
            step = solution.coefficients.reshape(d.shape)
            d = d + step
            values = slab.inside.series(d)[0]
            size, change = (
                np.sqrt(slab.mean_square(v)) for v in (values, slab.inside.series(step)[0])
            )
            scale = np.sqrt(slab.mean_square(at.values(slab.inside.points) + values))
            settled = np.all((size < LARGE * scale) | (change < SETTLED * size))
            if self.family.is_linear() or settled:
                return Solved(slab, d, initial, float(np.sum(solution.remaining**2)))
        return None

    def _continued(self, slab: Slab, before: Solved | None, d: np.ndarray) -> list[LinearisedRows]:
        """d begins as it ended in the slab before, with its derivatives below the order."""
        if before is None:
            return []
        blocks = []
        for order in range(max(slab.direction.orders)):
            which = [o for o, highest in enumerate(slab.direction.orders) if highest > order]
            grid = slab.interface(order)
            s = grid.orders.indices.index(slab.along(order))
            given = before.slab.basis.evaluate(before.coefficients, grid.points, grid.orders)[s]
            slopes = np.zeros((len(grid.points), len(which), len(grid.orders), len(d)))
            slopes[:, range(len(which)), s, which] = 1.0
            residual = grid.series(d)[s][:, which] - given[:, which]
            blocks.append(LinearisedRows(grid, residual, slopes))
        return blocks

    def _between(self, at: Linearisation, made: Sequence[Solved]) -> float:
        """The share of the residual that is left at points in no regular order."""
        points = np.asarray(self.family.domain.sobol(CHECKS, seed=5))
        squares = np.zeros(2)
        for solved, mine in _by_slab(made, points):
            for term in self.terms.interior:
                orders = self.family.orders([term])
                where = ScatteredPoints(solved.slab.basis, points[mine], orders, term)
                base = at.series(points[mine], orders)
                before, slopes = at.slopes(term, orders, base, points[mine])
                added = solved.slab.basis.evaluate(solved.coefficients, points[mine], orders)
                after, _ = at.slopes(term, orders, base + added, points[mine])
                size = where.row_norms(slopes)
                size = np.where(size > 0, size, 1)
                squares += [np.sum((before / size) ** 2), np.sum((after / size) ** 2)]
        return float(np.sqrt(squares[1]) / (np.sqrt(squares[0]) + 1e-12))

    def _confirms(self, at: Linearisation, fine: SlabAttempt, coarse: SlabAttempt) -> bool:
        """Whether a coarser one finds about the same, in size and as a function."""
        if coarse.share > 3 * MISFIT or coarse.between > BETWEEN:
            return False
        if not agree(fine.error, coarse.error, AGREE):
            return False
        gap, size = 0.0, 0.0
        for one, other in zip(fine.solved, coarse.solved, strict=True):
            slab = one.slab
            d = slab.inside.series(one.coefficients)[0]
            resized = other.slab.basis.resized(other.coefficients, slab.basis)
            gap = gap + slab.mean_square(d - slab.inside.series(resized)[0])
            size = size + slab.mean_square(d)
        return bool(np.all(gap < DISTANCE**2 * np.where(size > 0, size, 1)))

    def _correction(self, at: Linearisation, attempt: SlabAttempt) -> Correction:
        orders = zeroth(self.family.domain.dim)

        def values(points: np.ndarray) -> np.ndarray:
            whole = at.values(points)
            for (slab, coefficients, *_), mine in _by_slab(attempt.solved, points):
                whole[mine] += slab.basis.evaluate(coefficients, points[mine], orders)[0]
            return whole

        return Correction(Estimate(attempt.error, note=self._note), values)


def _rounded(size: float) -> int:
    """The next number of a ladder."""
    return math.ceil(LADDER ** math.ceil(math.log(size) / math.log(LADDER)))


def _by_slab(made: Sequence[Solved], points: np.ndarray) -> Iterator[tuple[Solved, np.ndarray]]:
    """Every slab with the points (n,) that are in it."""
    along = made[0].slab.direction.along
    ends = np.array([solved.slab.basis.axes[along].high for solved in made])
    order = np.argsort(ends)
    which = np.minimum(np.searchsorted(ends[order], points[:, along]), len(made) - 1)
    for i, place in enumerate(order):
        mine = which == i
        if mine.any():
            yield made[place], mine
