"""The estimate by the page's own solution, where that is smooth and a network's error is not.

A network may have sines far faster than the solution's own, of amplitudes that hardly matter: no
expansion of its error resolves them. The solution itself (lcpinn.spectral) has none, and does not
depend on the network: it is solved once at a setting, and compared with.
"""

from __future__ import annotations

import numpy as np

from lcpinn.certificate.estimate import Correction, Estimate, agree, none
from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.spectral.family_solver import FamilySolutions, FamilySolver, in_one_basis
from lcpinn.spectral.linearisation import Linearisation

POINTS, SEEDS = 8192, (5, 7)  # of two sets at which they are compared
CLOSE = 1.25  # the factor within which both find the same
NARROW = 30.0  # times its root mean square: an error that is larger somewhere may be missed
TOLERANCE = 1e-8  # of the solution
EXACT = 0.1  # of the distance, that the solution's own error may have if the distance is the error
SAME = 0.1  # a distance within which a solution of a nonlinear equation is the one that is meant
NOT_SMALLER = "it is below what the page is solved to"
TRIALS = 2  # settings that are not solved, after which no other is tried


class BySolution:
    """Estimates of one family by its solutions, each of them kept for the next network."""

    def __init__(self, family: Family, *, allowed: bool = True):
        self.family, self.has_served = family, False
        self._solver: FamilySolver | None = None
        self._known: dict[tuple[float, ...], FamilySolutions] = {}
        box = isinstance(family.domain, Box) and family.domain.dim < 4
        self._trials = TRIALS if allowed and box and family.data is None else 0

    def __call__(self, at: Linearisation, seconds: float) -> Correction | None:
        """None where there is no solution, or none of which it is known that it is the same, and
        where an error is so narrow that points may miss it. Nor without seconds: an estimate that
        is to depend on no clock cannot depend on what was solved before."""
        solution = self._solved(at.parameters, seconds) if seconds > 0 else None
        if solution is None:
            return None
        first, second = (self._distance(at, solution, seed) for seed in SEEDS)
        own, distance = float(solution.errors[0]), max(first, second)
        same = self.family.is_linear() or distance < SAME
        if not (np.isfinite(distance) and agree(first, second, CLOSE) and same):
            return None
        self.has_served = True
        if own > EXACT * distance:
            return none(NOT_SMALLER, at_most=distance + own)
        return Correction(Estimate(distance), lambda points: solution(points)[0])

    def _distance(self, at: Linearisation, solution: FamilySolutions, seed: int) -> float:
        """The relative root mean square at one set of points; the worst output counts."""
        sobol = self.family.domain.sobol(POINTS, seed=seed, parameters=at.parameters)
        points = np.asarray(sobol)
        exact = solution(points)[0]
        square = (at.values(points) - exact) ** 2
        if np.any(square.max(axis=0) > NARROW**2 * np.mean(square, axis=0)):
            return np.nan
        size = np.maximum(np.mean(exact**2, axis=0), at.least)
        return float(np.sqrt(np.max(np.mean(square, axis=0) / np.where(size > 0, size, 1))))

    def _solved(self, parameters: np.ndarray, seconds: float) -> FamilySolutions | None:
        key = tuple(map(float, parameters))
        if key not in self._known and self._trials:
            try:
                self._solver = self._solver or FamilySolver(self.family, TOLERANCE)
                resolved = self._solver(parameters, seconds)
                self._known[key] = in_one_basis(self.family, parameters[None], [resolved])
            except LcpinnError:
                self._trials -= 1
        return self._known.get(key)
