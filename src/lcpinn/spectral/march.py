"""Functions with fronts: slab by slab along the coordinate in which they build up.

Where an equation has as many conditions at one end of a coordinate as its order there, a correction
d of u is found slab by slab from that end, as an initial value is: its Cauchy data at a slab's end
are the next one's start. The terms are linearised about u + d and solved for a change of
d until it no longer changes: in a front even a small error need not be a small perturbation. What
then remains of the terms says where the splines are too coarse and whether the slab is too long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy
from numpy.polynomial import Legendre, Polynomial

from lcpinn.domain import Box, Face
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms
from lcpinn.spectral.slab import (
    CONDITION,
    REGULARISATION,
    Diverged,
    OpenSide,
    Slab,
    SlabExpansion,
    SlabInterval,
    SlabRows,
    SolvedSlab,
)
from lcpinn.spectral.splines import DEGREE, NODES, Splines, halved
from lcpinn.term import Term

POWERS = 4  # unknown functions along a slab
COARSE = 16  # intervals across, before any is split
SCAN = 512  # cells in which the solution is searched for fronts
STEEP = 1 / 8  # the share of its range that it may pass through in one interval
SHORTEST = 1e-14  # the share of the march that a slab must be longer than
ROUNDING = 1e-12
MOST_REMAINING = 0.5  # the share of the residual that may be left
LEAST_SHARE = 0.2  # of what may be left, for the shortest slab: layers at the start die out


class Limits(NamedTuple):
    """How many intervals, slabs and seconds a march may take; the weight of d beside the terms."""

    intervals: int = 500
    slabs: int = 400
    regularisation: float = REGULARISATION
    seconds: float = math.inf


class Unresolved(Exception):
    """Why there is no result."""


class MarchDirection(NamedTuple):
    """Which coordinate is marched along, from where to where, and the outputs' orders there."""

    along: int
    start: float
    end: float
    orders: tuple[int, ...]


def initial_coordinate(terms: LinearisedTerms) -> MarchDirection | None:
    """A coordinate with as many conditions at one end, and none at the other, as its order."""
    domain = terms.family.domain
    for along, name in enumerate(domain.names if isinstance(domain, Box) else ()):
        conditions = [t for t in terms.terms if any(f.name == name for f in faces_of(t))]
        ends = {face.value for t in conditions for face in faces_of(t) if face.name == name}
        orders = terms.highest_orders(along)
        given = sum(terms.num_components(t) for t in conditions)
        if len(ends) == 1 and given == sum(orders):
            (start,), (low, high) = ends, domain.ranges[name]
            return MarchDirection(along, start, high if start == low else low, orders)
    return None


def march_direction(terms: LinearisedTerms) -> MarchDirection | None:
    """The coordinate to march along; only in two dimensions."""
    return initial_coordinate(terms) if terms.family.domain.dim == 2 else None


def faces_of(term: Term) -> list[Face]:
    """The faces of a box, among the parts of a boundary that a term holds on."""
    return [face for face in term.faces if isinstance(face, Face)]


def open_sides(terms: LinearisedTerms, coordinate: int) -> list[float]:
    """Ends of a coordinate without a condition although the equations' order asks for more."""
    domain = terms.family.domain
    name = domain.names[coordinate]
    if name in domain.periodic:
        return []
    conditions = [(t, f.value) for t in terms.terms for f in faces_of(t) if f.name == name]
    given = sum(terms.num_components(term) for term, _ in conditions)
    if given >= sum(terms.highest_orders(coordinate)):
        return []
    return [end for end in domain.ranges[name] if end not in {value for _, value in conditions}]


def outflow_sides(at: Linearisation) -> list[tuple[str, float]]:
    """Open sides of an initial-value problem through which the solution is carried outwards.

    What a page leaves open there is settled by convention: a correction has no normal derivative.
    """
    direction = initial_coordinate(at.terms)
    if direction is None:
        return []
    domain, sides = at.family.domain, []
    for coordinate, name in enumerate(domain.names):
        if coordinate == direction.along:
            continue
        high = domain.ranges[name][1]
        for end in open_sides(at.terms, coordinate):
            outwards = (1 if end == high else -1) * np.sign(direction.end - direction.start)
            points = domain.sobol(64, seed=9, face=domain.face(name, end))
            if outwards * _speed(at, points, coordinate, direction.along) > 0:
                sides.append((name, end))
    return sides


def _speed(at: Linearisation, points: np.ndarray, coordinate: int, time: int) -> float:
    """The mean speed along a coordinate with which the linearised equations carry at points."""
    total, dim = 0.0, points.shape[1]
    unit = lambda i: tuple(int(i == j) for j in range(dim))
    for term in at.terms.interior:
        orders = at.family.orders([term])
        if unit(coordinate) in orders.indices and unit(time) in orders.indices:
            _, slopes = at.slopes(term, orders, at.series(points, orders), points)
            s, t = orders.indices.index(unit(coordinate)), orders.indices.index(unit(time))
            total += float(np.mean(np.sum(slopes[:, :, s] * slopes[:, :, t], axis=(1, 2))))
    return total


class CauchyData(NamedTuple):
    """d where a slab begins: for each output its derivatives along the march, (num, order)."""

    splines: Splines
    derivatives: list[np.ndarray]

    def fitted(self, splines: Splines) -> CauchyData:
        """The same in other splines, by least squares."""
        x, mass = splines.nodes
        table, present = splines.values(x, 0), self.splines.values(x, 0)
        weighted = table.T @ scipy.sparse.diags_array(mass)
        solve = scipy.sparse.linalg.splu(scipy.sparse.csc_array(weighted @ table)).solve
        return CauchyData(splines, [solve(weighted @ (present @ d)) for d in self.derivatives])

    def values(self, x: np.ndarray) -> np.ndarray:
        """d itself, (len(x), outputs)."""
        table = self.splines.values(x, 0)
        zero = np.zeros((self.splines.num, 1))
        each = [table @ (d if d.shape[1] else zero)[:, 0] for d in self.derivatives]
        return np.stack(each, axis=-1)


class Totals(NamedTuple):
    """Sums over a march: for each output the error's and the solution's squares; the largest error
    of a slab; the residual, and what is left of it, both as errors that they could cause.
    """

    error: np.ndarray
    solution: np.ndarray
    largest: float
    residual: float
    remaining: float

    @property
    def relative(self) -> float:
        sizes = np.where(self.solution > 0, self.solution, 1)
        return float(np.sqrt(np.max(self.error / sizes)))

    def plus(self, other: Totals) -> Totals:
        return Totals(
            self.error + other.error,
            self.solution + other.solution,
            max(self.largest, other.largest),
            self.residual + other.residual,
            self.remaining + other.remaining,
        )


class March:
    """Marches of one family."""

    def __init__(
        self, terms: LinearisedTerms, direction: MarchDirection, limits: Limits | None = None
    ):
        self.limits = Limits() if limits is None else limits
        self.family, self.direction, domain = terms.family, direction, terms.family.domain
        along, across = domain.names[direction.along], domain.names[1 - direction.along]
        self.low, self.high = domain.ranges[across]
        self.periodic = across in domain.periodic
        self.interior = terms.interior
        self.sides = [(t, f.value) for t in terms.terms for f in faces_of(t) if f.name == across]
        self.initial = [t for t in terms.terms if any(f.name == along for f in faces_of(t))]
        self.across = terms.highest_orders(1 - direction.along)
        self.degree = max(DEGREE, *(order + 1 for order in self.across))
        self.open_sides = open_sides(terms, 1 - direction.along)
        unit, mass = np.polynomial.legendre.leggauss(POWERS + 2)  # two more than there are unknowns
        self.nodes, self.mass = (1 + unit) / 2, mass / 2
        table = [Legendre.basis(k)(unit) * np.sqrt((2 * k + 1) * self.mass) for k in range(POWERS)]
        self._low_powers = np.stack(table)

    def __call__(
        self, at: Linearisation, allowed: float, record: list[SlabExpansion] | None = None
    ) -> Totals:
        """One march, in which the terms may leave what could cause about this much of an error.

        What is found in every slab is appended to `record`, where one is given.
        """
        start, end = self.direction.start, self.direction.end
        state, initial = self._begin(at, LEAST_SHARE * allowed)
        zero = np.zeros(len(self.family.outputs))
        totals = Totals(zero, zero, initial, 0.0, 0.0)
        where, length, breaks = start, (end - start) / 16, None
        began = time.perf_counter()
        for _ in range(self.limits.slabs):
            if time.perf_counter() - began > self.limits.seconds:
                raise Unresolved(f"it takes more than {self.limits.seconds:.0f} s")
            if abs(end - where) < ROUNDING * abs(end - start):
                return self._checked(totals)
            length = end - where if abs(end - where) < 1.5 * abs(length) else length
            share = max(np.sqrt(length / (end - start)), LEAST_SHARE)
            outcome, late, breaks = self._advance(at, state, where, length, share * allowed, breaks)
            if outcome is None:
                length = length / late
                if abs(length) < SHORTEST * abs(end - start):
                    raise Unresolved("no slab is short enough for it")
                continue
            (state, more, expansion), breaks = outcome, None
            if record is not None:
                record.append(expansion)
            totals, where = totals.plus(more), where + length
            length *= 4 if late < 0.02 else 2 if late < 0.2 else 1
        raise Unresolved(f"it takes more than {self.limits.slabs} slabs")

    def _checked(self, totals: Totals) -> Totals:
        rounding = 100 * ROUNDING * float(np.sqrt(totals.solution.max()))
        if totals.remaining > MOST_REMAINING * totals.residual + rounding:
            raise Unresolved("much of the residual is left")
        return totals

    def _advance(
        self, at: Linearisation, state: CauchyData, origin: float, length: float, enough: float,
        breaks: np.ndarray | None,
    ) -> tuple[tuple[CauchyData, Totals, SlabExpansion] | None, float, np.ndarray]:  # fmt: skip
        """The next state with this slab's totals; how far it is from too long.

        None, and by what to shorten it, where it is. The intervals are those of a longer attempt.
        """
        if breaks is None:
            breaks = self._mesh(at, state, origin, length)
        before = [np.inf, np.inf]
        while True:
            breaks, start = self._continued(state, breaks, LEAST_SHARE * enough)
            slab = self._slab(at, start, origin, length)
            try:
                solved = slab.solve(enough / 2, linear=self.family.is_linear())
            except Diverged:
                return None, 4.0, breaks
            coarse, late = self._misfit(solved.remaining, start.splines)
            total = float(np.sqrt(coarse.sum()))
            if max(late, total) <= enough:
                return self._result(slab, solved), late / enough, breaks
            if late > enough or total > 0.8 * before[-2]:  # finer intervals did not help
                by = 2.0 if late < 4 * enough else 4.0 if late < 16 * enough else 16.0
                return None, by, breaks
            before.append(total)
            breaks = self._finer(breaks, coarse, enough)

    def _continued(
        self, state: CauchyData, breaks: np.ndarray, enough: float
    ) -> tuple[np.ndarray, CauchyData]:
        """The state on these intervals, or finer ones where they would lose much of it."""
        while True:
            splines = self._splines(breaks)
            start, unit = state.fitted(splines), np.linspace(0, 1, 5)
            x = (breaks[:-1, None] + np.diff(breaks)[:, None] * unit).ravel()
            gap = np.sum((state.values(x) - start.values(x)) ** 2, axis=-1).reshape(-1, len(unit))
            lost = np.mean(gap, axis=1) * np.diff(breaks) / (self.high - self.low)
            if not np.isfinite(lost).all():
                raise Unresolved("it does not stay finite")
            if np.sqrt(lost.sum()) <= enough:
                return breaks, start
            breaks = self._finer(breaks, lost, enough)

    def _slab(self, at: Linearisation, start: CauchyData, origin: float, length: float) -> Slab:
        functions, known = [], []
        for order, derivatives in zip(self.direction.orders, start.derivatives, strict=True):
            given = [Polynomial.basis(k) / math.factorial(k) for k in range(order)]
            sought = [
                Legendre.basis(k, domain=[0, 1]).integ(order, lbnd=0) if order
                else Legendre.basis(k, domain=[0, 1])
                for k in range(POWERS)
            ]  # fmt: skip
            functions.append([*given, *sought])
            coefficients = np.zeros((start.splines.num, order + POWERS))
            coefficients[:, :order] = derivatives * length ** np.arange(order)
            known.append(coefficients)
        along = SlabInterval(
            self.direction.along, origin, length, self.nodes, self.mass, functions,
            self.direction.orders,
        )  # fmt: skip
        orders = self.family.orders
        blocks = [SlabRows(at, along, start.splines, self.interior, orders(self.interior))]
        for term, side in self.sides:
            blocks.append(SlabRows(at, along, start.splines, [term], orders([term]), side))
        free = [OpenSide(along, start.splines, side, self.across) for side in self.open_sides]
        return Slab(along, start.splines, [*blocks, *free], known, self.limits.regularisation)

    def _result(self, slab: Slab, solved: SolvedSlab) -> tuple[CauchyData, Totals, SlabExpansion]:
        coefficients = solved.coefficients
        d, inside = slab.values(coefficients), slab.blocks[0]
        assert isinstance(inside, SlabRows)
        u = inside.series[0].reshape(d.shape)
        error = d - inside.at.beyond(inside.points).reshape(d.shape)
        end = [
            np.stack([c @ slab.along.table(o, np.ones(1), k)[0] for k in range(order)], axis=-1)
            if order else np.zeros((len(c), 0))
            for o, (c, order) in enumerate(zip(coefficients, self.direction.orders, strict=True))
        ]  # fmt: skip
        squares, size = slab.squares(error), abs(slab.along.length)
        totals = Totals(
            size * squares,
            size * slab.squares(u + d),
            float(np.sqrt(squares.sum())),
            float(np.linalg.norm(solved.initial[0])),
            float(np.linalg.norm(solved.remaining[0])),
        )
        return CauchyData(slab.splines, end), totals, slab.expansion(coefficients)

    def _misfit(
        self, residuals: Sequence[np.ndarray], splines: Splines
    ) -> tuple[np.ndarray, float]:
        """The squared misfit of every interval, and that which is due to the slab's length.

        The unknown functions can follow as many powers along the march as there are; what is left
        of those is for finer splines to take up, what is left of higher ones for a shorter slab.
        """
        inside = residuals[0].reshape(len(splines.breaks) - 1, NODES, len(self.nodes), -1)
        low = np.einsum("pt,iqtc->iqpc", self._low_powers, inside)
        coarse = np.sum(low**2, axis=(1, 2, 3))
        late = np.sum(inside**2) - np.sum(low**2)
        for (_, side), part in zip(self.sides, residuals[1:], strict=False):
            # A wrong value at a side, as from conditions that contradict each other in a corner, is
            # felt in the interval beside it.
            beside = 0 if side == self.low else -1
            reach = np.diff(splines.breaks)[beside] / (self.high - self.low) / CONDITION**2
            coarse[beside] += reach * np.sum(part**2)
        return coarse, float(np.sqrt(max(late, 0.0)))

    def _begin(self, at: Linearisation, enough: float) -> tuple[CauchyData, float]:
        """d where the march begins, from the conditions there; and its size."""
        breaks = self._mesh(at, None, self.direction.start, 0.0)
        orders = self.family.orders(self.initial)
        functions = [
            [Polynomial.basis(k) / math.factorial(k) for k in range(order)]
            for order in self.direction.orders
        ]
        along = SlabInterval(
            self.direction.along, self.direction.start, 1.0, np.zeros(1), np.ones(1), functions,
            [0] * len(functions),
        )  # fmt: skip
        while True:
            splines = self._splines(breaks)
            block = SlabRows(at, along, splines, self.initial, orders)
            none = [np.zeros((splines.num, order)) for order in self.direction.orders]
            slab = Slab(along, splines, [block], none, self.limits.regularisation)
            try:
                solved = slab.solve(enough / 2, linear=self.family.is_linear())
            except Diverged:
                raise Unresolved("the conditions at the start cannot be met") from None
            coefficients, coarse = solved.coefficients, np.sum(solved.remaining[0] ** 2, axis=1)
            coarse = coarse.reshape(-1, NODES).sum(axis=1)
            if np.sqrt(coarse.sum()) <= enough:
                return CauchyData(splines, coefficients), slab.size(coefficients)
            breaks = self._finer(breaks, coarse, enough)

    def _finer(self, breaks: np.ndarray, coarse: np.ndarray, enough: float) -> np.ndarray:
        """Split the intervals that have a large part in the misfit."""
        breaks = halved(breaks, coarse > enough**2 / (2 * len(coarse)))
        if len(breaks) > self.limits.intervals:
            raise Unresolved(f"it takes more than {self.limits.intervals} intervals")
        return breaks

    def _splines(self, breaks: np.ndarray) -> Splines:
        return Splines(breaks, periodic=self.periodic, degree=self.degree)

    def _points(self, along: np.ndarray | float, across: np.ndarray) -> np.ndarray:
        points = np.empty((np.size(along) * len(across), 2))
        points[:, self.direction.along] = np.repeat(along, len(across))
        points[:, 1 - self.direction.along] = np.tile(across, np.size(along))
        return points

    def _mesh(
        self, at: Linearisation, state: CauchyData | None, origin: float, length: float
    ) -> np.ndarray:
        """Intervals in none of which the solution passes through much of its range."""
        x = np.linspace(self.low, self.high, SCAN + 1)
        times = np.array([origin, origin + length])
        u = at.values(self._points(times, x)).reshape(2, len(x), -1)
        shown = [u[0], u[1]] if state is None else [u[1], u[0] + state.values(x), state.values(x)]
        curves = np.concatenate(shown, axis=1)
        allowed = STEEP * np.ptp(curves, axis=0)
        ends = np.arange(0, SCAN + 1, SCAN // COARSE)
        while True:
            ranges = np.stack([np.ptp(curves[a : b + 1], axis=0) for a, b in pairwise(ends)])
            steep = np.any(ranges > allowed, axis=1) & (np.diff(ends) > 1)
            if not steep.any():
                return halved(x[ends], np.zeros(len(ends) - 1, bool))
            ends = np.sort(np.concatenate([ends, ((ends[:-1] + ends[1:]) // 2)[steep]]))

    def data_size(self, at: Linearisation) -> float:
        """How large the data are that the conditions and the interior terms prescribe, about u."""
        domain, sizes = self.family.domain, [self.scan(at)]
        for term in self.initial + [term for term, _ in self.sides]:
            orders = self.family.orders([term])
            for face in faces_of(term):
                points = domain.sobol(128, seed=2, face=face)
                residual, slopes = at.slopes(term, orders, at.series(points, orders), points)
                unit = np.sqrt(np.mean(np.sum(slopes**2, axis=(2, 3)), axis=0))
                ratio = np.sqrt(np.mean(residual**2, axis=0)) / np.where(unit > 0, unit, 1)
                sizes.append(float(np.max(ratio)))
        return max(sizes)

    def scan(self, at: Linearisation) -> float:
        """How large d would be, were no part of the residual to cancel another."""
        unit, mass = np.polynomial.legendre.leggauss(24)
        outputs = self.family.outputs
        length = self.direction.end - self.direction.start
        along = SlabInterval(
            self.direction.along, self.direction.start, length, (1 + unit) / 2, mass / 2,
            [[Polynomial([0])]] * len(outputs), [0] * len(outputs),
        )  # fmt: skip
        splines = self._splines(np.linspace(self.low, self.high, 8 * COARSE + 1))
        block = SlabRows(at, along, splines, self.interior, self.family.orders(self.interior))
        residual, _ = block.about([np.zeros((splines.num, 1))] * len(outputs))
        size = np.sqrt(np.mean(block.series[0] ** 2))
        return float(np.linalg.norm(residual) + ROUNDING * size)


def marched_values(slabs: Sequence[SlabExpansion], along: int, points: np.ndarray) -> np.ndarray:
    """Values (n, outputs) of a march at points (n, 2)."""
    ends = np.array([slab.end for slab in slabs])
    forwards = slabs[0].along.length > 0
    where = points[:, along] if forwards else -points[:, along]
    which = np.minimum(np.searchsorted(ends if forwards else -ends, where), len(slabs) - 1)
    values = np.empty((len(points), len(slabs[0].coefficients)))
    for i in np.unique(which):
        chosen = which == i
        values[chosen] = slabs[i](points[chosen, along], points[chosen, 1 - along])
    return values
