"""Errors with fronts: step by step along the coordinate in which they build up.

Where an equation has as many conditions at one end of a coordinate as its order there, its error
is found stretch by stretch from that end, as an initial value is: d at one stretch's end is the
next one's start. The terms are linearised about u + d and solved for a change of d until it no
longer changes: in a front even a small error need not be a small perturbation. What then remains
of the terms says where the splines are too coarse and whether the stretch is too long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Legendre, Polynomial
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import splu

from lcpinn.certificate.linear import At, Linearised
from lcpinn.certificate.patch import CONDITION, Along, Diverged, Free, Patch, Place, Solved
from lcpinn.certificate.splines import DEGREE, NODES, Splines, halved
from lcpinn.family import Family
from lcpinn.term import Term

POWERS = 4  # unknown functions along a stretch
COARSE = 16  # intervals across, before any is split
SCAN = 512  # cells in which the solution is searched for fronts
STEEP = 1 / 8  # the share of its range that it may pass through in one interval
MOST_INTERVALS, MOST_STRETCHES, SHORTEST = 500, 400, 1e-14
ROUNDING = 1e-12
MOST_LEFT = 0.5  # the share of the residual that may be left
LEAST_SHARE = 0.2  # of what may be left, for the shortest stretch: layers at the start die out


class Unresolved(Exception):
    """Why there is no result."""


class Course(NamedTuple):
    """Which coordinate is marched along, from where to where, and the outputs' orders there."""

    along: int
    start: float
    end: float
    orders: tuple[int, ...]


def course(family: Family) -> Course | None:
    """A coordinate with as many conditions at one end, and none at the other, as its order."""
    domain = family.domain
    if domain.dim != 2:
        return None
    terms = [t for t in family.all_terms.values() if t.name != "data"]
    for along, name in enumerate(domain.names):
        there = [t for t in terms if any(face.name == name for face in t.faces)]
        ends = {face.value for t in there for face in t.faces if face.name == name}
        orders = _orders(family, along)
        given = sum(_num_components(family, t) for t in there)
        if len(ends) == 1 and given == sum(orders):
            (start,), (low, high) = ends, domain.ranges[name]
            return Course(along, start, high if start == low else low, orders)
    return None


def _orders(family: Family, coordinate: int) -> tuple[int, ...]:
    """For each output its highest derivative along a coordinate, inside."""
    found = [0] * len(family.outputs)
    for term in family.all_terms.values():
        for argument in term.arguments if not term.faces else ():
            for index in argument.indices:
                found[argument.position] = max(found[argument.position], index[coordinate])
    return tuple(found)


def _num_components(family: Family, term: Term) -> int:
    orders = family.orders([term])
    shapes = [(len(orders), len(family.outputs)), (family.domain.dim,), (family.parameters.dim,)]
    like = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return jax.eval_shape(lambda s, p, lam: term.residual(s, orders, p, lam), *like).shape[0]


class State(NamedTuple):
    """d where a stretch begins: for each output its derivatives along the march, (num, order)."""

    splines: Splines
    derivatives: list[np.ndarray]

    def fitted(self, splines: Splines) -> State:
        """The same in other splines, by least squares."""
        x, mass = splines.nodes
        table, here = splines.values(x, 0), self.splines.values(x, 0)
        weighted = table.T @ diags_array(mass)
        solve = splu(csc_array(weighted @ table)).solve
        return State(splines, [solve(weighted @ (here @ d)) for d in self.derivatives])

    def values(self, x: np.ndarray) -> np.ndarray:
        """d itself, (len(x), outputs)."""
        table = self.splines.values(x, 0)
        zero = np.zeros((self.splines.num, 1))
        each = [table @ (d if d.shape[1] else zero)[:, 0] for d in self.derivatives]
        return np.stack(each, axis=-1)


class Totals(NamedTuple):
    """Sums over a march: for each output the error's and the solution's squares; the largest error
    of a stretch; the residual, and what is left of it, both as errors that they could cause.
    """

    error: np.ndarray
    solution: np.ndarray
    largest: float
    residual: float
    left: float

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
            self.left + other.left,
        )


class March:
    """Marches of one family."""

    def __init__(self, linearised: Linearised, course: Course):
        self.family, self.course, domain = linearised.family, course, linearised.family.domain
        along, across = domain.names[course.along], domain.names[1 - course.along]
        self.low, self.high = domain.ranges[across]
        self.periodic = across in domain.periodic
        self.interior = linearised.interior
        self.sides = [
            (term, face.value)
            for term in linearised.terms
            for face in term.faces
            if face.name == across
        ]
        self.initial = [t for t in linearised.terms if any(f.name == along for f in t.faces)]
        self.across = _orders(self.family, 1 - course.along)
        self.degree = max(DEGREE, *(order + 1 for order in self.across))
        given = sum(_num_components(self.family, term) for term, _ in self.sides)
        held = {side for _, side in self.sides}
        short = given < sum(self.across) and not self.periodic
        self.free = [side for side in (self.low, self.high) if short and side not in held]
        unit, mass = np.polynomial.legendre.leggauss(POWERS + 2)  # two more than there are unknowns
        self.nodes, self.mass = (1 + unit) / 2, mass / 2
        table = [Legendre.basis(k)(unit) * np.sqrt((2 * k + 1) * self.mass) for k in range(POWERS)]
        self._low_powers = np.stack(table)

    def __call__(self, at: At, allowed: float) -> Totals:
        """One march, in which the terms may leave what could cause about this much of an error."""
        start, end = self.course.start, self.course.end
        state, initial = self._begin(at, LEAST_SHARE * allowed)
        zero = np.zeros(len(self.family.outputs))
        totals = Totals(zero, zero, initial, 0.0, 0.0)
        where, length, breaks = start, (end - start) / 16, None
        for _ in range(MOST_STRETCHES):
            if abs(end - where) < ROUNDING * abs(end - start):
                return self._checked(totals)
            length = end - where if abs(end - where) < 1.5 * abs(length) else length
            share = max(np.sqrt(length / (end - start)), LEAST_SHARE)
            done, late, breaks = self._stretch(at, state, where, length, share * allowed, breaks)
            if done is None:
                length = length / late
                if abs(length) < SHORTEST * abs(end - start):
                    raise Unresolved("no stretch is short enough for it")
                continue
            (state, more), breaks = done, None
            totals, where = totals.plus(more), where + length
            length *= 4 if late < 0.02 else 2 if late < 0.2 else 1
        raise Unresolved(f"it takes more than {MOST_STRETCHES} stretches")

    def _checked(self, totals: Totals) -> Totals:
        rounding = 100 * ROUNDING * float(np.sqrt(totals.solution.max()))
        if totals.left > MOST_LEFT * totals.residual + rounding:
            raise Unresolved("much of the residual is left")
        return totals

    def _stretch(
        self, at: At, state: State, origin: float, length: float, enough: float,
        breaks: np.ndarray | None,
    ) -> tuple[tuple[State, Totals] | None, float, np.ndarray]:  # fmt: skip
        """The next state with this stretch's totals; how far it is from too long.

        None, and by what to shorten it, where it is. The intervals are those of a longer attempt.
        """
        if breaks is None:
            breaks = self._mesh(at, state, origin, length)
        before = [np.inf, np.inf]
        while True:
            breaks, start = self._continued(state, breaks, LEAST_SHARE * enough)
            patch = self._patch(at, start, origin, length)
            try:
                solved = patch.solve(enough / 2, linear=self.family.is_linear())
            except Diverged:
                return None, 4.0, breaks
            coarse, late = self._misfit(solved.left, start.splines)
            total = float(np.sqrt(coarse.sum()))
            if max(late, total) <= enough:
                return self._result(patch, solved), late / enough, breaks
            if late > enough or total > 0.8 * before[-2]:  # finer intervals did not help
                by = 2.0 if late < 4 * enough else 4.0 if late < 16 * enough else 16.0
                return None, by, breaks
            before.append(total)
            breaks = self._finer(breaks, coarse, enough)

    def _continued(
        self, state: State, breaks: np.ndarray, enough: float
    ) -> tuple[np.ndarray, State]:
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

    def _patch(self, at: At, start: State, origin: float, length: float) -> Patch:
        functions, known = [], []
        for order, derivatives in zip(self.course.orders, start.derivatives, strict=True):
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
        along = Along(
            self.course.along, origin, length, self.nodes, self.mass, functions, self.course.orders
        )
        orders = self.family.orders
        places = [Place(at, along, start.splines, self.interior, orders(self.interior))]
        for term, side in self.sides:
            places.append(Place(at, along, start.splines, [term], orders([term]), side))
        free = [Free(along, start.splines, side, self.across) for side in self.free]
        return Patch(along, start.splines, [*places, *free], known)

    def _result(self, patch: Patch, solved: Solved) -> tuple[State, Totals]:
        found = solved.found
        d, inside = patch.values(found), patch.places[0]
        assert isinstance(inside, Place)
        u = inside.series[0].reshape(d.shape)
        error = d - inside.at.others(inside.points).reshape(d.shape)
        end = [
            np.stack([c @ patch.along.table(o, np.ones(1), k)[0] for k in range(order)], axis=-1)
            if order else np.zeros((len(c), 0))
            for o, (c, order) in enumerate(zip(found, self.course.orders, strict=True))
        ]  # fmt: skip
        squares, size = patch.squares(error), abs(patch.along.length)
        totals = Totals(
            size * squares,
            size * patch.squares(u + d),
            float(np.sqrt(squares.sum())),
            float(np.linalg.norm(solved.first[0])),
            float(np.linalg.norm(solved.left[0])),
        )
        return State(patch.splines, end), totals

    def _misfit(self, left: Sequence[np.ndarray], splines: Splines) -> tuple[np.ndarray, float]:
        """The squared misfit of every interval, and that which is due to the stretch's length.

        The unknown functions can follow as many powers along the march as there are; what is left
        of those is for finer splines to take up, what is left of higher ones for a shorter stretch.
        """
        inside = left[0].reshape(len(splines.breaks) - 1, NODES, len(self.nodes), -1)
        low = np.einsum("pt,iqtc->iqpc", self._low_powers, inside)
        coarse = np.sum(low**2, axis=(1, 2, 3))
        late = np.sum(inside**2) - np.sum(low**2)
        for (_, side), part in zip(self.sides, left[1:], strict=False):
            # A wrong value at a side, as from conditions that contradict each other in a corner, is
            # felt in the interval beside it.
            beside = 0 if side == self.low else -1
            reach = np.diff(splines.breaks)[beside] / (self.high - self.low) / CONDITION**2
            coarse[beside] += reach * np.sum(part**2)
        return coarse, float(np.sqrt(max(late, 0.0)))

    def _begin(self, at: At, enough: float) -> tuple[State, float]:
        """d where the march begins, from the conditions there; and its size."""
        breaks = self._mesh(at, None, self.course.start, 0.0)
        orders = self.family.orders(self.initial)
        functions = [
            [Polynomial.basis(k) / math.factorial(k) for k in range(order)]
            for order in self.course.orders
        ]
        along = Along(self.course.along, self.course.start, 1.0, np.zeros(1), np.ones(1), functions,
                      [0] * len(functions))  # fmt: skip
        while True:
            splines = self._splines(breaks)
            place = Place(at, along, splines, self.initial, orders)
            none = [np.zeros((splines.num, order)) for order in self.course.orders]
            patch = Patch(along, splines, [place], none)
            try:
                found, (left,), _ = patch.solve(enough / 2, linear=self.family.is_linear())
            except Diverged:
                raise Unresolved("the conditions at the start cannot be met") from None
            coarse = np.sum(left**2, axis=1).reshape(-1, NODES).sum(axis=1)
            if np.sqrt(coarse.sum()) <= enough:
                return State(splines, found), patch.size(found)
            breaks = self._finer(breaks, coarse, enough)

    def _finer(self, breaks: np.ndarray, coarse: np.ndarray, enough: float) -> np.ndarray:
        """Split the intervals that have a large part in the misfit."""
        breaks = halved(breaks, coarse > enough**2 / (2 * len(coarse)))
        if len(breaks) > MOST_INTERVALS:
            raise Unresolved(f"it takes more than {MOST_INTERVALS} intervals")
        return breaks

    def _splines(self, breaks: np.ndarray) -> Splines:
        return Splines(breaks, periodic=self.periodic, degree=self.degree)

    def _points(self, along: np.ndarray | float, across: np.ndarray) -> np.ndarray:
        points = np.empty((np.size(along) * len(across), 2))
        points[:, self.course.along] = np.repeat(along, len(across))
        points[:, 1 - self.course.along] = np.tile(across, np.size(along))
        return points

    def _mesh(self, at: At, state: State | None, origin: float, length: float) -> np.ndarray:
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

    def scan(self, at: At) -> float:
        """How large d would be, were no part of the residual to cancel another."""
        unit, mass = np.polynomial.legendre.leggauss(24)
        outputs = self.family.outputs
        along = Along(self.course.along, self.course.start, self.course.end - self.course.start,
                      (1 + unit) / 2, mass / 2, [[Polynomial([0])]] * len(outputs),
                      [0] * len(outputs))  # fmt: skip
        splines = self._splines(np.linspace(self.low, self.high, 8 * COARSE + 1))
        place = Place(at, along, splines, self.interior, self.family.orders(self.interior))
        left, _ = place.about([np.zeros((splines.num, 1))] * len(outputs))
        size = np.sqrt(np.mean(place.series[0] ** 2))
        return float(np.linalg.norm(left) + ROUNDING * size)
