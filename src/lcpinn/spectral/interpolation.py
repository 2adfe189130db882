"""Solutions at nested nodes of the coefficients, at more where something is missing between them.

A set of levels of a sparse grid (sparse_grid.py) begins with a small tensor grid and gets, again
and again, those neighbours for which the last coefficients of a parent have more than their share
of a tolerance. The phase `Interpolation` makes a network of it, lcpinn.interpolated a teacher.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network.contract import Params
from lcpinn.prior import Coefficients
from lcpinn.spectral.basis import TensorBasis, basis_on
from lcpinn.spectral.expansion import SMALL, Expansion
from lcpinn.spectral.family_solver import FamilySolver, Guess, in_basis
from lcpinn.spectral.linearisation import linearised, zeroth
from lcpinn.spectral.solver import Resolved
from lcpinn.spectral.sparse_grid import SparseGrid, box, evaluate

SHARE = 0.1  # of the tolerance, for what each setting and what the polynomial in lambda may miss
NEGLIGIBLE = 1e-15  # coefficients along a coordinate that are left out
ROUNDING = 1e-13  # relative, which no tolerance is below
LEVELS = {1: 2, 2: 2}  # along every coefficient to begin with; one where there are more
POINTS = 512  # inside, where solutions are compared
ROUGHLY = 0.1  # what a polynomial may miss to be a guess of the next solutions
NEARLY, GAIN = 1e-5, 0.5  # what is small; by what factor it should fall with further levels


class InterpolationState(NamedTuple):
    """`levels` of a sparse grid, the solutions' coefficients and errors at its first nodes.

    `missing` estimates what the polynomials in lambda left out, relative to the solution.
    """

    params: Params
    step: np.ndarray  # nodes that are solved
    levels: np.ndarray  # (sets, d)
    solutions: np.ndarray  # (nodes, outputs, functions along each coordinate)
    errors: np.ndarray  # (nodes,)
    missing: np.ndarray  # by every set of levels, (rounds,)


def begun(family: Family, params: Params) -> InterpolationState:
    """Nothing solved yet: the first set of levels."""
    dim, outputs = len(family.parameters.free), len(family.outputs)
    first = box(LEVELS.get(dim, 1), dim)
    solutions = np.zeros((0, outputs, *(1 for _ in family.domain.names)))
    none = np.zeros(0)
    return InterpolationState(params, np.array(0), np.array(first.levels), solutions, none, none)


class Growth:
    """What an interpolation does from one call to the next; all that it needs is in the state."""

    def __init__(self, family: Family, tolerance: float, solver: FamilySolver | None = None):
        self.family, self.tolerance = family, tolerance
        self.grid: SparseGrid | None = None  # of the last polynomial
        self._solver = solver

    def advanced(
        self, state: InterpolationState, seconds: float, *, at_most: bool = False
    ) -> InterpolationState:
        """Solve at further nodes for a while; once all are solved, say what is missing.

        With `at_most` a node that is not solved when the seconds are over is an `LcpinnError`.
        """
        grid = SparseGrid(np.asarray(state.levels).tolist())
        settings, began = self.settings(grid), time.monotonic()
        solver, guess = self._resumed(state, settings), self._guess(state)
        for setting in settings[len(solver.solved) :]:
            remaining = seconds - (time.monotonic() - began) if at_most else None
            solver(setting, remaining, None if guess is None else guess(setting))
            if time.monotonic() - began > seconds:
                break
        solved = solver.solved
        if any(
            one.expansion.basis.breaks
            for one in solved
            if isinstance(one.expansion.basis, TensorBasis)
        ):
            raise LcpinnError(f"{self.family.name} has solutions in pieces, no polynomials in x")
        basis = basis_on(self.family.domain, solver.sizes)
        solutions = np.stack([in_basis(one, basis).reshape(-1, *basis.shape) for one in solved])
        errors = np.array([one.error for one in solved])
        state = state._replace(step=np.array(len(solved)), solutions=solutions, errors=errors)
        return state if len(solved) < len(grid.positions) else self._next(state, grid)

    def _next(self, state: InterpolationState, grid: SparseGrid) -> InterpolationState:
        """The polynomial through all nodes, and the levels of the next one.

        Levels that cannot be added yet count, too: of 1 + a exp(b) nothing is missing along b where
        a is zero, at the centre, and by that alone nothing would be added elsewhere either. What is
        below them is added where they are about the largest.
        """
        self.grid = grid
        sizes = relative_sizes(grid, self.values(state.solutions))
        missing = {level: grid.missing(sizes, level) for level in grid.beside}
        largest = max(missing.values())
        worth = min(self.enough(state), largest)
        ready = set(grid.candidates())
        wanted = (
            level
            for level, value in missing.items()
            if value >= (worth if level in ready else max(worth, GAIN * largest))
        )
        grown = grid.with_levels(one for level in wanted for one in grid.towards(level))
        return state._replace(
            params=self._params(grid, state.solutions),
            levels=np.array(grown.levels),
            missing=np.append(state.missing, largest),
        )

    def _guess(self, state: InterpolationState) -> Callable[[np.ndarray], Guess] | None:
        """What the last polynomial says of a setting, where it has begun to be right.

        Of several coefficients: of one, the solver has its own guess, from the nearest few.
        """
        prior = self.family.parameters
        if len(prior.free) < 2 or not len(state.missing) or state.missing[-1] > ROUGHLY:
            return None
        coefficients = np.asarray(state.params["coefficients"])
        degrees = np.stack([np.argmax(one, axis=0) for one in state.params["selections"]], axis=-1)
        basis = basis_on(self.family.domain, coefficients.shape[2:])

        def guess(setting: np.ndarray) -> Guess:
            place = 2 * np.asarray(prior.to_unit(setting)) - 1
            value = evaluate(degrees, coefficients, place[None])[0]
            return Guess(basis, value.reshape(len(value), -1))

        return guess

    def enough(self, state: InterpolationState) -> float:
        """What may be missing; more where the solutions themselves are less accurate."""
        least = max(SHARE * self.tolerance, ROUNDING)
        return max(least, float(np.max(state.errors, initial=0.0)))

    def settings(self, grid: SparseGrid) -> np.ndarray:
        """The coefficients (n, p) at the nodes of a grid, those that are held included."""
        prior = self.family.parameters
        unit = np.full((len(grid.positions), prior.dim), 0.5)
        unit[:, _free(prior)] = (1 + grid.nodes) / 2
        return np.asarray(prior.from_unit(unit))

    def _resumed(self, state: InterpolationState, settings: np.ndarray) -> FamilySolver:
        """The solver; of a state that it did not make, it takes over the solutions."""
        if self._solver is None:
            tolerance = max(SHARE * self.tolerance, ROUNDING)
            self._solver = FamilySolver(self.family, tolerance, elements=False)
            solutions = np.asarray(state.solutions)
            expansion = Expansion(linearised(self.family), solutions.shape[2:], settings[0])
            for setting, error, one in zip(settings, state.errors, solutions, strict=False):
                resolved = Resolved(float(error), expansion, one.reshape(len(one), -1))
                self._solver.remember(setting, resolved)
        return self._solver

    def values(self, solutions: np.ndarray) -> np.ndarray:
        """The solutions (nodes, points, outputs) at points of the domain."""
        nodes, outputs = solutions.shape[:2]
        basis = basis_on(self.family.domain, solutions.shape[2:])
        prior = self.family.parameters
        centre = np.asarray(prior.from_unit(np.full(prior.dim, 0.5)))
        points = self.family.domain.sobol(POINTS, seed=6, parameters=centre)
        flat = solutions.reshape(nodes * outputs, -1)
        values = basis.evaluate(flat, points, zeroth(len(basis.axes)))[0]
        return np.moveaxis(values.reshape(-1, nodes, outputs), 0, 1)

    def _params(self, grid: SparseGrid, solutions: np.ndarray) -> Params:
        """The arrays of an `Interpolant`."""
        if isinstance(self.family.domain, Box):
            solutions = trimmed(solutions, NEGLIGIBLE)
        selections, degrees = [], iter(grid.degrees.T)
        for free in _free(self.family.parameters):
            column = next(degrees) if free else np.zeros(len(grid.degrees), int)
            selections.append((np.arange(column.max() + 1)[:, None] == column).astype(float))
        return {"coefficients": grid.coefficients(solutions), "selections": selections}


def _free(prior: Coefficients) -> list[bool]:
    return [name in prior.free for name in prior.names]


def relative_sizes(grid: SparseGrid, values: np.ndarray) -> np.ndarray:
    """The coefficients in lambda of values (nodes, points, outputs), beside the values: (nodes,).

    Every output counts beside its own size where it is smallest over lambda; the worst one counts.
    """
    size = np.sqrt(np.mean(values**2, axis=1))
    least = np.maximum(size.min(axis=0), SMALL * size.max(axis=0))
    parts = np.sqrt(np.mean(grid.coefficients(values) ** 2, axis=1))
    return np.max(parts / np.where(least > 0, least, 1), axis=1)


def trimmed(solutions: np.ndarray, share: float) -> np.ndarray:
    """Solutions (nodes, outputs, functions...) without last functions whose share is less."""
    squares = solutions**2
    whole = squares.sum(axis=tuple(range(2, squares.ndim)), keepdims=True)
    squares = squares / np.where(whole > 0, whole, 1)
    kept = [slice(None), slice(None)]
    for axis in range(2, squares.ndim):
        others = tuple(i for i in range(2, squares.ndim) if i != axis)
        along = squares.sum(axis=others).reshape(-1, squares.shape[axis])
        tails = np.sqrt(np.cumsum(along[:, ::-1], axis=1)[:, ::-1].max(axis=0))
        kept.append(slice(max(1, int(np.sum(tails > share)))))
    return solutions[tuple(kept)]


def stagnates(missing: np.ndarray) -> bool:
    """Whether the last two sets of levels gained little on what was small before."""
    before, recent = missing[:-2], missing[-2:]
    if len(before) < 2 or before.min() > NEARLY:
        return False
    return bool(recent.min() > GAIN * before.min())
