"""The solution at one setting, without a network.

The resolution grows, coordinate by coordinate, until the expansion's last coefficients have decayed
and two sizes agree. An initial-value problem that no expansion resolves is followed from its
beginning on (followed.py), which is also where Newton's method may begin.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.precision import double
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.collocation import apply_axes
from lcpinn.spectral.determinacy import Determinacy, determinacy
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.followed import USEFUL, marches_that_agree, windows_that_agree
from lcpinn.spectral.frame import resized, too_many_holes
from lcpinn.spectral.least_squares import MOST_DENSE, NotSolvable, Preconditioner, TooLarge
from lcpinn.spectral.linearisation import Jet, Linearisation, linearised, of_ansatz, zero, zeroth
from lcpinn.spectral.march import (
    Limits,
    March,
    Unresolved,
    initial_coordinate,
    march_direction,
    marched_values,
)
from lcpinn.spectral.newton import NotConverged, TimeIsUp, first_solution, newton
from lcpinn.spectral.numerical_solution import NumericalSolution
from lcpinn.spectral.refinement import Piecewise, refined
from lcpinn.spectral.slab import SlabExpansion
from lcpinn.spectral.windows import in_windows
from lcpinn.threads import blas_threads

FIRST = {1: 24, 2: 12, 3: 8}  # functions a coordinate to begin with
MOST = {1: 16384, 2: 12500, 3: 70000}  # functions of all outputs, symmetries permitting
FEW_ALONG = 400  # in one coordinate, before elements are tried
MOST_UNSOLVED = {1: 400, 2: 1000, 3: 1800}  # with which Newton's method is begun
MOST_IN_FRAME = 2400  # of a region that is no box, where the matrix is written out
GROWTH = {1: 2.0, 2: 1.5, 3: 1.35}
SHARE = 0.1  # of the tolerance, that the last coefficients may have
MOST_REMAINING = 1e-2  # the share of the residual that may be left between the points
SLOW = 0.3  # by what two sizes more should lower the distance, where one could march instead
NEAR = 0.1  # the distance within which Newton's method has found what it began with
COARSE = 1e-2  # what the first march may leave of the data
MARCHED, ROUGH = 64, 1e-3  # functions that one is expanded in; coefficients that it is known to
ROOMS = (1.0, 1.5)  # functions that Newton's method begins with, for each that has such ones
LIMITS = Limits(intervals=1500, slabs=2000, regularisation=1e-6)
SECONDS = 60.0  # after which the resolution grows no more
SHORT = 15.0  # the same for an equation that is not linear and can be marched through


def solve(
    family: Family, *, tolerance: float = 1e-8, start: Any = None, **parameters: float
) -> NumericalSolution:
    """The solution at one setting: `lc.solve(family, k=3.25, tolerance=1e-8)`.

    `start`, a trained solution of the same family, is where Newton's method begins. What cannot be
    resolved, or is not determined by the page, is an `LcpinnError` that says why.
    """
    setting = family.parameters.setting(parameters)
    if not 0 < tolerance < 1:
        raise LcpinnError(f"the tolerance must lie between 0 and 1, not be {tolerance}")
    known = determined(family)
    with double():
        return Solver(family, setting, known, tolerance, start).result()


def determined(family: Family) -> Determinacy:
    """What is known of a page that has one solution; of any other, an error that says why."""
    if family.domain.dim not in FIRST:
        raise LcpinnError(
            f"{family.name} has {family.domain.dim} coordinates; solve takes three at most"
        )
    if reason := too_many_holes(family.domain, len(family.outputs)):
        raise LcpinnError(f"{family.name}: {reason}")
    known = determinacy(family, observations=False)
    if known.reason:
        raise LcpinnError(f"{family.name}: {known.reason}")
    return known


class Resolved(NamedTuple):
    """An expansion with the coefficients (outputs, functions) of a solution, and their error.

    `reason` says what kept the error above the tolerance; it is empty where nothing did.
    """

    error: float
    expansion: Expansion
    coefficients: np.ndarray
    reason: str = ""


class Solver:
    """One setting: expansions whose sizes grow, and marches where those do not resolve it."""

    def __init__(
        self, family: Family, setting: dict[str, float], known: Determinacy, tolerance: float,
        start: Any,
    ):  # fmt: skip
        self.family, self.setting, self.known, self.tolerance = family, setting, known, tolerance
        self.terms, self.began = linearised(family), time.perf_counter()
        parameters = np.array(list(setting.values()))
        self.base: Jet = zero(len(family.outputs))
        if start is not None:
            self.base = start.linearisation(**setting).base
        self.at = Linearisation(self.terms, parameters, self.base)
        direction = march_direction(self.terms)
        limits = LIMITS._replace(seconds=SECONDS)
        self.march, self.deadline = None, self.began + SECONDS
        self.latest = self.deadline  # of what turns out to be smooth
        self.preconditioner, self.elements = Preconditioner(), self.terms.same_order > 0
        self.most = self._most_functions()
        # An ordinary equation with initial conditions is solved window by window.
        self.stepping = initial_coordinate(self.terms) if family.domain.dim == 1 else None
        if direction is not None and not known.levels:
            self.march = March(self.terms, direction, limits)
            if not family.is_linear():
                self.deadline = self.began + SHORT

    def result(self) -> NumericalSolution:
        expanded, why = self.expanded()
        solution = None if expanded is None else self._of(expanded)
        if solution is not None and solution.error <= self.tolerance:
            return solution
        if self.march is not None or self.stepping is not None:
            try:
                with blas_threads(1):
                    followed = self._followed()
                if solution is None or followed.error < solution.error:
                    solution = followed
            except Unresolved as unresolved:
                why = f"{why}; a march: {unresolved}"
        if solution is None:
            raise self.unresolved(why)
        return solution

    def end_by(self, deadline: float) -> None:
        """Take no longer than until then."""
        self.deadline, self.latest = min(self.deadline, deadline), min(self.latest, deadline)

    def unresolved(self, why: str) -> LcpinnError:
        """What to say where there is no solution."""
        where = ", ".join(f"{n} = {v:g}" for n, v in self.setting.items()) or "its one setting"
        return LcpinnError(f"{self.family.name} is not resolved at {where}: {why}")

    # Expansions.

    def expanded(self, near: Resolved | None = None) -> tuple[Resolved | None, str]:
        """The solution as an expansion, or why there is none.

        Sizes begin with those of a solution `near` by, where there is one.
        """
        try:
            with blas_threads():
                if self.elements:
                    return self._along_a_line(near)
                return self._expanded(near)
        except TimeIsUp:
            return None, "Newton's method has no solution when the time is up"
        except NotConverged:
            return None, "Newton's method does not converge"
        except (NotFinite, NotSolvable) as name:
            return None, f"the term {str(name)!r} is not finite" if str(name) else "singular"

    def _most_functions(self) -> int:
        """Of all outputs. Of an equation that is not linear slopes have series as long as the
        solution's, so that matrices of one coordinate are not banded."""
        dense = self.family.domain.dim == 1 and not self.family.is_linear()
        return MOST_DENSE if dense else MOST[self.family.domain.dim]

    def _along_a_line(self, near: Resolved | None) -> tuple[Resolved | None, str]:
        """In one coordinate: a few hundred functions resolve what is smooth, and elements that are
        halved what has a thin layer. Where neither does, as many functions as can be had."""
        self.most = FEW_ALONG
        try:
            resolved, _ = self._expanded(near)
        except (NotConverged, NotSolvable):
            resolved = None
        self.most = self._most_functions()
        if resolved is not None and resolved.error <= self.tolerance:
            return resolved, ""
        halved = None if self.late else self._in_elements(resolved)
        return self._expanded(near) if halved is None else (halved, "")

    def _in_elements(self, rough: Resolved | None) -> Resolved | None:
        """The solution in elements as fine as it takes (refinement.py), from what is known."""
        start = None if rough is None else Piecewise(rough.expansion, rough.coefficients)
        pair = refined(self.at, self.tolerance, self.deadline, start)
        if pair is None:
            return None
        coarse, (expansion, coefficients) = pair
        error = self._gap(expansion, coefficients, coarse.on(expansion))
        if error > self.tolerance or not self.resolved(expansion, coefficients):
            return None
        return Resolved(max(error, 1e-15), expansion, coefficients)

    def _expanded(self, near: Resolved | None) -> tuple[Resolved | None, str]:
        """The last of expansions that grow, with its distance to the one before; or why not."""
        expansion, coefficients = self._first() if near is None else self._from(near)
        best: Resolved | None = None
        # A march may be the better way; of a linear equation larger expansions cost less than one,
        # and before its waves are resolved, two sizes need not come closer.
        marches = self.march is not None and not self.family.is_linear()
        worse, why = 0, ""
        while True:
            tails = expansion.basis.tails(coefficients)
            larger = self._larger(
                expansion, coefficients, self._grown(expansion, tails, coefficients)
            )
            if larger is None:
                sizes = " x ".join(map(str, expansion.sizes))
                why = f"{sizes} functions do not resolve it to the tolerance"
                break
            following, guess, finer = larger
            gap = self._gap(following, finer, guess)
            slow = SLOW if marches else 1.0
            worse = worse + 1 if best is not None and gap >= slow * best.error else 0
            if best is None or gap < best.error:
                best = Resolved(gap, following, finer)
            if gap < USEFUL:  # no front: it is better resolved than marched through
                self.deadline = max(self.deadline, self.latest)
            expansion, coefficients = following, finer
            if gap <= self.tolerance and self.resolved(following, finer):
                return Resolved(gap, following, finer), ""
            if worse >= 2 and (best.error < USEFUL or marches):
                why = f"more functions do not help: two sizes differ by {best.error:.0e}"
                break
        if best is None or best.error > USEFUL:
            return None, why
        if best.expansion.on_box and max(best.expansion.basis.tails(best.coefficients)) > USEFUL:
            return None, why
        return best._replace(reason=why), why

    def _larger(
        self, expansion: Expansion, coefficients: np.ndarray, candidates: Sequence[Sequence[int]]
    ) -> tuple[Expansion, np.ndarray, np.ndarray] | None:
        """The solution with the first of several sizes that is affordable, and what it began with.

        None where none is, or the time is up.
        """
        most = self.most if expansion.on_box else MOST_IN_FRAME
        for sizes in candidates:
            following = Expansion(self.terms, sizes, self.at.parameters)
            if following.basis.size * len(self.family.outputs) > most or self.late:
                continue
            guess = resized(coefficients, expansion.basis, following.basis)
            try:
                finer = newton(following, self.at, guess, deadline=self.deadline)
            except TooLarge:
                continue
            except TimeIsUp:
                return None
            return following, guess, self._level(following, finer)
        return None

    def _from(self, near: Resolved) -> tuple[Expansion, np.ndarray]:
        """A solution with the functions of another one, or, where it cannot be had, a coarse one.

        Newton's method begins with the other one; a linear equation needs nothing to begin with.
        """
        try:
            return near.expansion, self.solved(near.expansion, near.coefficients)
        except TimeIsUp:
            raise
        except (NotConverged, NotFinite, NotSolvable):
            return self._first()

    def solved(self, expansion: Expansion, guess: np.ndarray) -> np.ndarray:
        """The coefficients of the solution in an expansion, from a guess of them."""
        start = expansion.zero if self.family.is_linear() else guess
        return self._level(
            expansion,
            newton(
                expansion,
                self.at,
                start,
                deadline=self.deadline,
                preconditioner=self.preconditioner,
            ),
        )

    def _first(self) -> tuple[Expansion, np.ndarray]:
        """A coarse solution to begin with."""
        dim, outputs = self.family.domain.dim, len(self.family.outputs)
        sizes, expansions = [FIRST[dim]] * dim, []
        while not expansions or np.prod(sizes) * outputs <= MOST_UNSOLVED[dim]:
            expansions.append(Expansion(self.terms, sizes, self.at.parameters))
            sizes = [int(np.ceil(GROWTH[dim] * num)) for num in sizes]
        if (stepped := self._in_windows(expansions)) is not None:
            return stepped
        # A front is better marched through than sought for, and so is what windows do not find.
        thorough = self.march is None and self.stepping is None
        try:
            which, coefficients = first_solution(
                expansions, self.at, thorough=thorough, deadline=self.deadline
            )
        except TimeIsUp:
            raise
        except NotConverged:
            if (marched := self._from_march()) is None:
                raise
            return marched
        return expansions[which], self._level(expansions[which], coefficients)

    def _in_windows(self, expansions: list[Expansion]) -> tuple[Expansion, np.ndarray] | None:
        """A nonlinear ordinary equation from its initial value on, where Newton's method does not
        find the whole of its solution at once; with as many functions as it takes."""
        if self.stepping is None or self.family.is_linear():
            return None
        try:
            windows = in_windows(self.at, self.stepping)
        except (NotConverged, NotFinite, NotSolvable):
            return None
        expansion = expansions[0]
        while expansion.basis.size * len(self.family.outputs) <= MOST_DENSE:
            axis = expansion.basis.axes[0]
            times = axis.nodes()
            values = windows(times)
            guess = np.linalg.lstsq(axis.values(times, 0), values, rcond=None)[0].T
            try:
                solved = newton(expansion, self.at, guess, deadline=self.deadline)
                if self._gap(expansion, solved, guess) < NEAR:
                    return expansion, solved
            except (NotConverged, NotFinite, NotSolvable):
                pass
            sizes = [int(GROWTH[1] * expansion.sizes[0])]
            expansion = Expansion(self.terms, sizes, self.at.parameters)
        return None

    def _from_march(self) -> tuple[Expansion, np.ndarray] | None:
        """Newton's method from a coarse march, where that is smooth: a wave, and not a front."""
        if self.march is None:
            return None
        try:
            at, _, slabs = self._coarse_march
        except Unresolved:
            return None
        expansion = Expansion(self.terms, [MARCHED] * 2, self.at.parameters)
        basis, points = expansion.basis, expansion.inside.points
        assert isinstance(basis, TensorBasis)
        values = at.values(points) + marched_values(slabs, self.march.direction.along, points)
        inverses = [np.linalg.pinv(axis.values(axis.nodes(), 0)) for axis in basis.axes]
        moved = (values - self.at.values(points)).T
        guess = np.stack([apply_axes(inverses, one) for one in moved])
        sizes = basis.used(guess, ROUGH)
        if max(sizes) >= MARCHED:
            return None
        self.deadline = min(self.latest, max(self.deadline, time.perf_counter() + SHORT))
        for room in ROOMS:  # too few functions may have no solution near the true one
            fitting = Expansion(self.terms, [int(room * num) for num in sizes], self.at.parameters)
            start = resized(guess, basis, fitting.basis)
            try:
                return fitting, newton(fitting, self.at, start, deadline=self.deadline)
            except TimeIsUp:
                raise
            except (NotConverged, NotFinite, NotSolvable):
                continue
        return None

    @cached_property
    def _coarse_march(self) -> tuple[Linearisation, float, list[SlabExpansion]]:
        """What is marched, how much of the residual may be left, and the first march."""
        assert self.march is not None
        base = of_ansatz(self.family, self.at.parameters)
        at = Linearisation(self.terms, self.at.parameters, base)
        data = Linearisation(self.terms, self.at.parameters, zero(len(self.family.outputs)))
        allowed, slabs = COARSE * self.march.data_size(data), []
        limits = self.march.limits
        left = self.latest - time.perf_counter()
        self.march.limits = limits._replace(seconds=min(limits.seconds, left))
        try:
            with blas_threads(1):
                self.march(at, allowed, slabs)
        finally:
            self.march.limits = limits
        return at, allowed, slabs

    @property
    def late(self) -> bool:
        """Whether its time is up."""
        return time.perf_counter() > self.deadline

    def resolved(self, expansion: Expansion, coefficients: np.ndarray) -> bool:
        """Whether the coefficients have decayed, and the terms hold between the points, too."""
        tails = expansion.basis.tails(coefficients)
        if expansion.on_box and max(tails) > max(self.tolerance, 1e-12):
            return False  # the coefficients of a frame are not unique, and need not decay
        return self.remaining_share(expansion, coefficients) < max(MOST_REMAINING, self.tolerance)

    def remaining_share(self, expansion: Expansion, coefficients: np.ndarray) -> float:
        """The share of the residual that is left between the points."""
        # Rows have the size of the functions: what they leave is in the units of the solution.
        values = expansion.values(coefficients) + self.at.values(expansion.inside.points)
        small = self.tolerance * float(np.sqrt(np.min(expansion.mean_square(values))))
        least = small / MOST_REMAINING + 1e-12
        return expansion.remaining_share_between(self.at, coefficients, least)

    def _grown(
        self, expansion: Expansion, tails: Sequence[float], coefficients: np.ndarray
    ) -> list[list[int]]:
        """More functions along coordinates whose coefficients have not decayed; or along all.

        Where that is too much, few more, and along the others as many as are of use.
        """
        sizes = expansion.sizes
        factor = GROWTH[len(sizes)]
        enough = [tail <= SHARE * self.tolerance for tail in tails]
        if all(enough):
            return [[int(np.ceil(1.2 * num)) for num in sizes]]
        fine, candidates = [num + 2 for num in sizes], []
        for share in (factor, 0.5 + 0.5 * factor, 1.15):
            candidates.append([
                few if done else int(np.ceil(share * num))
                for num, few, done in zip(sizes, fine, enough, strict=True)
            ])  # fmt: skip
            if isinstance(expansion.basis, TensorBasis):
                fine = expansion.basis.used(coefficients)
        return candidates

    def _gap(self, expansion: Expansion, coefficients: np.ndarray, other: np.ndarray) -> float:
        """The relative distance of two expansions; the worst output counts."""
        values, base = expansion.values(coefficients), self.at.values(expansion.inside.points)
        return expansion.relative(values - expansion.values(other), values + base)

    def _level(self, expansion: Expansion, coefficients: np.ndarray) -> np.ndarray:
        """Of outputs that are determined up to a level, that with a mean of zero."""
        for output, _ in self.known.levels:
            o = self.family.outputs.index(output)
            one = expansion.values(coefficients)
            gone = expansion.without_level(one, o, range(len(expansion.sizes)))
            coefficients = coefficients.copy()
            coefficients[o, 0] += gone[0, o] - one[0, o]
        return coefficients

    def _followed(self) -> NumericalSolution:
        """Window by window, or slab by slab, where no expansion resolves it."""
        if self.march is not None:
            found = marches_that_agree(
                self.march, *self._coarse_march, tolerance=self.tolerance,
                deadline=self.began + SHORT + SECONDS,
            )  # fmt: skip
        else:
            assert self.stepping is not None
            found = windows_that_agree(
                self.at, self.stepping, tolerance=self.tolerance, deadline=self.began + SECONDS
            )
        return NumericalSolution(
            self.family, self.setting, max(found.error, 1e-15), found.reason, found.resolution, "",
            found.values,
        )  # fmt: skip

    def _of(self, best: Resolved) -> NumericalSolution:
        error, expansion, coefficients, why = best
        basis = expansion.basis
        orders = zeroth(self.family.domain.dim)

        def values(points: np.ndarray) -> np.ndarray:
            inside = np.asarray(self.family.domain.covers(points, self.at.parameters))
            values = np.full((len(points), len(self.family.outputs)), np.nan)
            own = points[inside]  # functions of a hole are not finite at its centre
            correction = basis.evaluate(coefficients, own, orders)[0]
            values[inside] = self.base(own, orders)[0] + correction
            return values

        resolution = dict(zip(self.family.domain.names, expansion.sizes, strict=True))
        error = max(error, 1e-15)
        return NumericalSolution(
            self.family, self.setting, error, why, resolution, self.known.note, values
        )
