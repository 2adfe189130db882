"""One family at many settings: every solution makes the next one cheaper.

What is compiled, the determinacy of the page, the tables of functions at their points and the sizes
that resolve it serve all settings. The first is solved as `solve` does it, sizes growing until two
agree; another one is a single least-squares problem (or a few steps of Newton's method from the
nearest solution), unless its coefficients have not decayed: then sizes grow from there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lcpinn.domain import Region
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.precision import double
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.elements import ElementAxis
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.frame import Basis, functions_on, resized
from lcpinn.spectral.least_squares import NotSolvable, Preconditioner
from lcpinn.spectral.linearisation import linearised, zeroth
from lcpinn.spectral.newton import NotConverged, TimeIsUp
from lcpinn.spectral.solver import Resolved, Solver, determined
from lcpinn.threads import blas_threads

MORE = 100.0  # how much more of the residual may be left than where two sizes agreed
ROOM, WORTH = 1.15, 0.75  # functions beyond those of use; a share of all that is worth a change
SHARE = 0.1  # of the tolerance, and again of that: coefficients that are of no use
GUIDES, FAR = 5, 5.0  # solutions that a guess of another one is made of; weights of a far one
SAME = 1e-9  # settings in the unit cube that differ by rounding alone
MOST_DEGREE = 24  # of polynomials on an element
HALVINGS = 4  # of the way from a solution to one that Newton's method does not find


@dataclass(frozen=True, eq=False)
class FamilySolutions:
    """Solutions at settings (n, p), as coefficients (n, outputs, functions) in one basis."""

    family: Family
    settings: np.ndarray
    basis: Basis
    coefficients: np.ndarray
    errors: np.ndarray  # estimated relative errors, (n,)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (n, points, outputs) at points (points, dim) that lie in the domain."""
        num, outputs, size = self.coefficients.shape
        flat = self.coefficients.reshape(num * outputs, size)
        values = self.basis.evaluate(flat, np.asarray(points, float), zeroth(len(self.basis.axes)))
        return np.moveaxis(values[0].reshape(-1, num, outputs), 0, 1)


def solve_family(
    family: Family, settings: np.ndarray | Sequence[Sequence[float]], tolerance: float = 1e-8
) -> FamilySolutions:
    """Solutions at settings (n, p) of the coefficients, in one basis over the domain.

    What is not resolved by an expansion (a front that has to be marched through), not determined,
    or lives on a shape that moves with the coefficients, is an `LcpinnError`.
    """
    solver, rows = FamilySolver(family, tolerance), np.atleast_2d(np.asarray(settings, float))
    for row in rows:
        solver(row)
    return in_one_basis(family, rows, solver.solved)


def in_one_basis(
    family: Family, settings: np.ndarray, solved: Sequence[Resolved]
) -> FamilySolutions:
    """Solutions at settings (n, p) in a basis that is large enough for all of them."""
    basis = common_basis(family, solved)
    coefficients = np.stack([in_basis(one, basis) for one in solved])
    errors = np.array([one.error for one in solved])
    return FamilySolutions(family, settings, basis, coefficients, errors)


def common_basis(family: Family, solved: Sequence[Resolved]) -> Basis:
    """Functions that are enough for all of several solutions; of elements, those of all of them."""
    sizes = tuple(map(max, zip(*(one.expansion.sizes for one in solved), strict=True)))
    axes = [one.expansion.basis.axes[0] for one in solved if len(sizes) == 1]
    breaks = sorted({end for axis in axes for end in axis.breaks})
    if not breaks:
        return functions_on(family.domain, sizes)
    # What is smooth enough to have none is so on the longest element, too.
    degrees = [axis.degree if isinstance(axis, ElementAxis) else axis.num for axis in axes]
    terms, degree = linearised(family), min(max(degrees), MOST_DEGREE)
    return terms.basis((terms.same_order + degree * (len(breaks) + 1),), breaks=tuple(breaks))


def in_basis(resolved: Resolved, basis: Basis) -> np.ndarray:
    """The coefficients (outputs, functions) in a basis that is at least as large."""
    return resized(resolved.coefficients, resolved.expansion.basis, basis)


class Guess(NamedTuple):
    """Coefficients (outputs, functions) in a basis."""

    basis: Basis
    coefficients: np.ndarray


class FamilySolver:
    """Called with one setting after the other; remembers what it has solved.

    Without `elements` a layer is resolved by polynomials over the whole of a coordinate.
    """

    def __init__(self, family: Family, tolerance: float = 1e-8, *, elements: bool = True):
        check_one_basis(family)
        self.family, self.tolerance, self.elements = family, tolerance, elements
        self.known = determined(family)
        self._solved: list[tuple[np.ndarray, Resolved]] = []
        self._waypoints: list[tuple[np.ndarray, Resolved]] = []  # that were not asked for
        self._earlier: dict[tuple[float, ...], Resolved] = {}  # by their place
        self._preconditioner = Preconditioner()
        self._remaining_share = MORE * tolerance  # of the residual that a frame may leave

    @property
    def solved(self) -> list[Resolved]:
        """All solutions, in the order of the calls."""
        return [resolved for _, resolved in self._solved]

    @property
    def settings(self) -> np.ndarray:
        """Where they are, (n, p)."""
        prior = self.family.parameters
        units = np.array([unit for unit, _ in self._solved]).reshape(-1, prior.dim)
        return np.asarray(prior.from_unit(units))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Along each coordinate the most functions that any setting has needed."""
        return tuple(map(max, zip(*(one.expansion.sizes for one in self.solved), strict=True)))

    def __call__(
        self, parameters: np.ndarray, seconds: float | None = None, guess: Guess | None = None
    ) -> Resolved:
        """The solution at one setting (p,), its sizes growing for so many seconds at most.

        A `guess` that is better than the nearest solution saves steps of Newton's method.
        """
        parameters = np.asarray(parameters, float)
        deadline = time.perf_counter() + (math.inf if seconds is None else seconds)
        with double():
            unit = np.asarray(self.family.parameters.to_unit(parameters))
            resolved = self._before(unit)
            if resolved is None:
                resolved = self._guessed(unit, parameters, deadline, guess)
            if resolved is None:
                resolved = self._continued(unit, parameters, deadline, HALVINGS)
        self._solved.append((unit, resolved))
        return resolved

    def begin_with(self, other: FamilySolver) -> None:
        """Take over what another one of the same family has solved, to go on from.

        A linear equation needs no guess, and functions that were enough for a larger tolerance are
        tried in vain at every setting.
        """
        if self.family.is_linear() and other.tolerance > self.tolerance:
            return
        self._waypoints += [*other._solved, *other._waypoints]
        self._earlier |= {_place(unit): one for unit, one in self._waypoints}
        self._remaining_share = max(self._remaining_share, other._remaining_share)

    def _before(self, unit: np.ndarray) -> Resolved | None:
        """What was solved at this very setting, if that is accurate enough."""
        resolved = self._earlier.get(_place(unit))
        return resolved if resolved is not None and resolved.error <= self.tolerance else None

    def _continued(
        self, unit: np.ndarray, parameters: np.ndarray, deadline: float, halvings: int
    ) -> Resolved:
        """The solution; where it is out of reach of Newton's method, by way of one half-way there.

        From the nearest solution, sizes growing on the way as they have to.
        """
        try:
            return self._attempt(unit, parameters, deadline)
        except LcpinnError:
            late = time.perf_counter() > deadline
            if self.family.is_linear() or not self._solved or halvings == 0 or late:
                raise
        middle = (unit + self._nearest_place(unit)) / 2
        between = np.asarray(self.family.parameters.from_unit(middle))
        self._waypoints.append((middle, self._continued(middle, between, deadline, halvings - 1)))
        return self._attempt(unit, parameters, deadline)

    def _guessed(
        self, unit: np.ndarray, parameters: np.ndarray, deadline: float, guess: Guess | None
    ) -> Resolved | None:
        """The solution from a guess, in the largest expansion, if that leads to one."""
        near = None if guess is None or self.family.is_linear() else self._nearest(unit)
        if near is None or guess is None or not isinstance(near.expansion.basis, TensorBasis):
            return None
        begin = resized(guess.coefficients, guess.basis, near.expansion.basis)
        near = near._replace(coefficients=begin)
        return self._at_once(self._solver(parameters, deadline), near)

    def _attempt(self, unit: np.ndarray, parameters: np.ndarray, deadline: float) -> Resolved:
        solver, near = self._solver(parameters, deadline), self._nearest(unit)
        resolved = None if near is None else self._at_once(solver, near)
        return self._thoroughly(solver, near) if resolved is None else resolved

    def _solver(self, parameters: np.ndarray, deadline: float) -> Solver:
        setting = dict(zip(self.family.parameters.names, map(float, parameters), strict=True))
        solver = Solver(self.family, setting, self.known, self.tolerance, None)
        if self.family.is_linear():
            solver.march = None  # it has one expansion, which grows as long as it has to
        solver.end_by(deadline)
        solver.preconditioner = self._preconditioner
        solver.elements = solver.elements and self.elements
        return solver

    def remember(self, parameters: np.ndarray, resolved: Resolved) -> None:
        """Take over a solution that was found before."""
        with double():
            unit = np.asarray(self.family.parameters.to_unit(np.asarray(parameters, float)))
        self._solved.append((unit, resolved))

    def _nearest(self, unit: np.ndarray) -> Resolved | None:
        """The nearest solution, in the largest expansion that there is; of one coefficient, the
        polynomial through the nearest few, from which Newton's method has less of a way to go."""
        every = [*self._solved, *self._waypoints]
        if not every:
            return None
        distances = np.sum((np.array([place for place, _ in every]) - unit) ** 2, axis=1)
        nearest = [every[i] for i in np.argsort(distances, kind="stable")[:GUIDES]]
        _, largest = max(every, key=lambda one: one[1].expansion.basis.size)
        basis, near = largest.expansion.basis, nearest[0][1]
        coefficients = in_basis(near, basis)
        free = self.family.parameters.free
        if len(free) == 1 and len(every) > 2 and isinstance(basis, TensorBasis):
            axis = self.family.parameters.names.index(free[0])
            places = np.array([place[axis] for place, _ in nearest])
            weights = _lagrange(places, float(unit[axis]))
            if np.abs(weights).sum() <= FAR:
                guides = [in_basis(one, basis) for _, one in nearest]
                coefficients = np.tensordot(weights, np.stack(guides), 1)
        return Resolved(near.error, largest.expansion, coefficients)

    def _nearest_place(self, unit: np.ndarray) -> np.ndarray:
        places = [place for place, _ in (*self._solved, *self._waypoints)]
        return min(places, key=lambda place: float(np.sum((place - unit) ** 2)))

    def _thoroughly(self, solver: Solver, near: Resolved | None) -> Resolved:
        """The solution with sizes that grow from those of another one, or from few functions."""
        resolved, why = solver.expanded(near)
        if resolved is None and near is not None and not solver.late:
            resolved, why = solver.expanded()
        if resolved is None:
            raise solver.unresolved(why)
        share = solver.remaining_share(resolved.expansion, resolved.coefficients)
        self._remaining_share = max(self._remaining_share, MORE * share)
        return self._compact(resolved)

    def _compact(self, resolved: Resolved) -> Resolved:
        """The same without functions that are of no use: the last growth may have been a long one,
        and other settings are solved with as many."""
        basis, tolerance = resolved.expansion.basis, self.tolerance
        if not isinstance(basis, TensorBasis) or basis.breaks or resolved.error > tolerance:
            return resolved
        used = basis.used(resolved.coefficients, SHARE * SHARE * tolerance)
        sizes = [min(n, math.ceil(ROOM * m)) for n, m in zip(basis.shape, used, strict=True)]
        if math.prod(sizes) > WORTH * basis.size:
            return resolved
        smaller = Expansion(resolved.expansion.terms, sizes, resolved.expansion.parameters)
        error = max(resolved.error, SHARE * tolerance)
        return Resolved(error, smaller, resized(resolved.coefficients, basis, smaller.basis))

    def _at_once(self, solver: Solver, near: Resolved) -> Resolved | None:
        """The solution with the functions of another one; None where they do not resolve it.

        In a box the last coefficients tell how far off it is. Those of a frame do not; it counts as
        resolved if it leaves about as little of the residual as where two sizes were compared.
        """
        expansion = near.expansion
        try:
            with blas_threads():
                coefficients = solver.solved(expansion, near.coefficients)
                if not solver.resolved(expansion, coefficients):
                    return None
        except TimeIsUp:
            raise solver.unresolved("the time is up") from None
        except (NotConverged, NotFinite, NotSolvable):
            return None
        if expansion.on_box:
            error = max(expansion.basis.tails(coefficients))
            return Resolved(max(error, 1e-15), expansion, coefficients)
        if solver.remaining_share(expansion, coefficients) > self._remaining_share:
            return None
        return Resolved(near.error, expansion, coefficients)


def _place(unit: np.ndarray) -> tuple[float, ...]:
    """A setting in the unit cube without its rounding, to look it up by."""
    return tuple(np.round(unit / SAME).tolist())


def _lagrange(places: np.ndarray, at: float) -> np.ndarray:
    """What values at places (n,) count for in the polynomial through them, somewhere."""
    gaps = places[:, None] - places + np.eye(len(places))
    if not gaps.all():
        return np.full(len(places), np.inf)  # two of them coincide
    ahead = at - places + np.zeros_like(gaps)
    np.fill_diagonal(ahead, 1.0)
    return np.prod(ahead / gaps, axis=1)


def check_one_basis(family: Family) -> None:
    """Refuse a shape that moves: outside of it, a solution is any extension of itself."""
    if isinstance(family.domain, Region) and family.domain.moves:
        raise LcpinnError(
            f"solutions of {family.name} have no domain in common: its shape moves with λ"
        )
