"""Elements along one coordinate, halved where a solution needs it (h-refinement).

A layer of width w takes about 1/w polynomials on a single interval, and about log(1/w) elements
with a dozen of them each.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.elements import ElementAxis
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.least_squares import NotSolvable
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.spectral.newton import NotConverged, newton

FIRST = 4  # elements to begin with, beside those that jumps ask for
DEGREE, FINER = 12, 4  # polynomials on each; and so many more, to see what is missing
LAST = 3  # of them, which tell whether they have decayed
MOST = 128  # elements
ROUNDS = 60
SHARE = 0.1  # of the tolerance
WORST = 0.1  # of the largest excess: elements that are halved at a time
ROUNDING = 1e-13


class Piecewise(NamedTuple):
    """An expansion in elements, with its coefficients (outputs, functions)."""

    expansion: Expansion
    coefficients: np.ndarray

    @property
    def axis(self) -> ElementAxis:
        basis = self.expansion.basis
        assert isinstance(basis, TensorBasis)
        assert isinstance(basis.axes[0], ElementAxis)
        return basis.axes[0]

    def on(self, expansion: Expansion) -> np.ndarray:
        """The coefficients in another expansion."""
        assert isinstance(self.expansion.basis, TensorBasis)
        assert isinstance(expansion.basis, TensorBasis)
        return self.expansion.basis.resized(self.coefficients, expansion.basis)


def refined(
    at: Linearisation, tolerance: float, deadline: float, start: Piecewise | None = None
) -> tuple[Piecewise, Piecewise] | None:
    """A solution in elements that are fine enough, and one with more polynomials on the same ones.

    Newton's method begins with `start`, an expansion in any functions of the coordinate. None
    where it does not converge, the elements become too many, or the time is up.
    """
    breaks, now = _first(at), start
    try:
        for _ in range(ROUNDS):
            now = _solved(at, breaks, DEGREE, deadline, now)
            coarse = _coarse(now, at, tolerance)
            if not coarse.any():
                return now, _solved(at, breaks, DEGREE + FINER, deadline, now)
            breaks = _halved(now.axis.edges, coarse)
            if len(breaks) >= MOST or time.perf_counter() > deadline:
                return None
    except (NotConverged, NotFinite, NotSolvable):
        pass
    return None


def _first(at: Linearisation) -> tuple[float, ...]:
    low, high = next(iter(at.family.domain.ranges.values()))
    inner = low + (high - low) * np.arange(1, FIRST) / FIRST
    near = 1e-6 * (high - low)
    jumps = at.terms.jumps
    apart = [float(x) for x in inner if all(abs(x - jump) > near for jump in jumps)]
    return tuple(sorted([*apart, *jumps]))


def _solved(
    at: Linearisation, breaks: tuple[float, ...], degree: int, deadline: float,
    start: Piecewise | None,
) -> Piecewise:  # fmt: skip
    num = at.terms.same_order + degree * (len(breaks) + 1)
    expansion = Expansion(at.terms, (num,), at.parameters, breaks=breaks)
    guess = expansion.zero if start is None else start.on(expansion)
    return Piecewise(expansion, newton(expansion, at, guess, deadline=deadline))


def _coarse(now: Piecewise, at: Linearisation, tolerance: float) -> np.ndarray:
    """Elements (n,) whose last polynomials say that the solution, or the highest derivative as a
    whole, is not known to a share of the tolerance."""
    axis, expansion = now.axis, now.expansion
    local = axis.local(now.coefficients)  # (outputs, degree, elements)
    tails = np.sqrt(np.sum(local[:, -LAST:] ** 2, axis=1))
    whole = np.sqrt(np.sum(local**2, axis=(1, 2)))[:, None] + np.finfo(float).tiny
    values = expansion.values(now.coefficients) + at.values(expansion.inside.points)
    size = np.sqrt(expansion.mean_square(values))[:, None] + np.finfo(float).tiny
    half = np.diff(axis.edges) / (axis.high - axis.low)
    # Constants have polynomials of rounding alone; so has what is resolved to rounding.
    tails = np.where(tails > ROUNDING * whole, tails, 0.0)
    of_solution = half**axis.order * tails / size / (SHARE * tolerance)
    excess = np.max(np.maximum(of_solution, tails / whole / tolerance), axis=0)
    # An unresolved layer disturbs all elements: those that are worst come first.
    return excess > max(1.0, WORST * float(excess.max()))


def _halved(edges: np.ndarray, coarse: np.ndarray) -> tuple[float, ...]:
    middles = ((edges[1:] + edges[:-1]) / 2)[coarse]
    return tuple(map(float, np.sort(np.concatenate([edges[1:-1], middles]))))
