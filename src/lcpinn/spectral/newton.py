"""Newton's method for an expansion, and what to do where it does not converge by itself.

Steps are damped until the residual falls (Deuflhard 2004). Where that fails, the residual of the
first guess is taken away bit by bit (a Newton homotopy), and where that fails, too, the solution is
followed along the coefficients from a setting where it is found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lcpinn.spectral.collocation import LinearisedRows
from lcpinn.spectral.determinacy import unit_weights
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.least_squares import NotSolvable, Preconditioner, solve
from lcpinn.spectral.linearisation import Linearisation

STEPS = 30
CONVERGED = 1e-11  # the size of a step beside that of the solution
NEARLY = 1e-6  # the same, of a step after which quadratic convergence leaves nothing
GROWS = 2.0  # the residual may by that much, in steps that become shorter
DAMPINGS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
STAGES, SHORTEST = 60, 1e-3  # of a continuation
ACCURACY = 1e-12  # of the linear systems


class NotConverged(Exception):
    """Newton's method found no solution."""


class TimeIsUp(NotConverged):
    """It has not found one yet: other ways to one are not to be tried either."""


def newton(
    expansion: Expansion,
    at: Linearisation,
    coefficients: np.ndarray,
    *,
    offset: Sequence[np.ndarray] | None = None,
    deadline: float = math.inf,
    preconditioner: Preconditioner | None = None,
) -> np.ndarray:
    """Coefficients (outputs, functions) with which the terms vanish, less `offset` where given."""
    if expansion.family.is_linear() and len(expansion.sizes) == 1:
        coefficients = expansion.zero  # derivatives of thousands of functions take long to tabulate
    series = expansion.base(at)
    rows = _rows(expansion, at, coefficients, series, offset)
    weights = [unit_weights(block, uniform=True) for block in rows]
    size, length = _size(rows, weights), np.inf
    kept = Preconditioner() if preconditioner is None else preconditioner
    for _ in range(STEPS):
        if size == 0:
            return coefficients  # no load: nothing is the solution, and no step is short beside it
        if time.perf_counter() > deadline:
            raise TimeIsUp
        solved = solve(rows, ACCURACY, kept)
        step = solved.coefficients.reshape(coefficients.shape)
        if not (np.isfinite(step).all() and np.isfinite(solved.remaining).all()):
            raise NotConverged
        if expansion.family.is_linear():
            return coefficients + step
        before, length = length, float(np.linalg.norm(step))
        for damping in DAMPINGS:
            moved = coefficients + damping * step
            try:
                rows = _rows(expansion, at, moved, series, offset)
            except NotFinite:
                continue
            after = _size(rows, weights)
            # What the functions cannot resolve is left of the residual; steps that become shorter
            # tell of convergence all the same (Deuflhard, Newton Methods for Nonlinear Problems,
            # 2004: the natural monotonicity test).
            shorter = damping == 1 and length < before / 2 and after < GROWS * size
            if after < (1 - damping / 4) * size or shorter or _tiny(length, moved):
                break
        else:
            if length < NEARLY * float(np.linalg.norm(coefficients)):
                return coefficients  # what is left is what the functions cannot resolve
            raise NotConverged
        coefficients, size = moved, after
        contraction = min(1.0, length / before) if np.isfinite(before) else 1.0
        if length * damping * contraction < CONVERGED * float(np.linalg.norm(coefficients)):
            return coefficients
    if length < NEARLY * float(np.linalg.norm(coefficients)):
        return coefficients
    raise NotConverged


def _tiny(length: float, coefficients: np.ndarray) -> bool:
    return length < NEARLY * float(np.linalg.norm(coefficients))


def _rows(
    expansion: Expansion, at: Linearisation, coefficients: np.ndarray,
    series: Sequence[np.ndarray], offset: Sequence[np.ndarray] | None,
) -> list[LinearisedRows]:  # fmt: skip
    rows = expansion.rows(at, coefficients, series)
    if offset is None:
        return rows
    return [replace(r, residual=r.residual - o) for r, o in zip(rows, offset, strict=True)]


def _size(rows: Sequence[LinearisedRows], weights: Sequence[np.ndarray]) -> float:
    pairs = zip(rows, weights, strict=True)
    return float(np.sqrt(sum(np.sum((w * r.residual) ** 2) for r, w in pairs)))


def homotopy(
    expansion: Expansion, at: Linearisation, coefficients: np.ndarray, *,
    deadline: float = math.inf,
) -> np.ndarray:  # fmt: skip
    """T(u) = (1 - s) T(u0) for s from 0 to 1."""
    first = [r.residual for r in expansion.rows(at, coefficients, expansion.base(at))]

    def solved(s: float, current: np.ndarray) -> np.ndarray:
        offset = [(1 - s) * r for r in first]
        return newton(expansion, at, current, offset=offset, deadline=deadline)

    return _continuation(solved, coefficients)


def continued(
    expansion: Expansion, at: Linearisation, coefficients: np.ndarray, *,
    deadline: float = math.inf,
) -> np.ndarray:  # fmt: skip
    """From a setting in the middle or at an end of the ranges to the one that is asked for."""
    prior = at.family.parameters
    if not prior.free:
        raise NotConverged
    target = np.asarray(prior.to_unit(at.parameters))
    for begin in (0.5, 0.0, 1.0):
        start = np.full(len(target), begin)

        def solved(s: float, current: np.ndarray, start: np.ndarray = start) -> np.ndarray:
            setting = np.asarray(prior.from_unit((1 - s) * start + s * target))
            there = replace(at, parameters=setting)
            return newton(expansion, there, current, deadline=deadline)

        try:
            return _continuation(solved, solved(0.0, coefficients))
        except TimeIsUp:
            raise
        except (NotConverged, NotFinite, NotSolvable):
            continue
    raise NotConverged


def _continuation(
    solved: Callable[[float, np.ndarray], np.ndarray], current: np.ndarray
) -> np.ndarray:
    """Follow solutions along s from 0 to 1, in steps that grow while they succeed."""
    reached, step = 0.0, 0.25
    for _ in range(STAGES):
        following = min(1.0, reached + step)
        try:
            current = solved(following, current)
        except TimeIsUp:
            raise
        except (NotConverged, NotFinite, NotSolvable):
            step /= 3
            if step < SHORTEST:
                raise NotConverged from None
            continue
        reached, step = following, 1.5 * step
        if reached == 1.0:
            return current
    raise NotConverged


def first_solution(
    expansions: Sequence[Expansion], at: Linearisation, *, thorough: bool = True,
    deadline: float = math.inf,
) -> tuple[int, np.ndarray]:  # fmt: skip
    """A solution by whichever way leads to one, from nothing; which of the expansions has it.

    The cheap way is tried with all expansions, from coarse to fine, before the others: too few
    functions may have no solution near the true one. Not to be `thorough` is to try no other.
    """
    cheap = at.family.is_linear() or not thorough
    for way in (newton,) if cheap else (newton, homotopy, continued):
        for i, expansion in enumerate(expansions):
            try:
                return i, way(expansion, at, expansion.zero, deadline=deadline)
            except TimeIsUp:
                raise
            except (NotConverged, NotFinite, NotSolvable):
                continue
    raise NotConverged
