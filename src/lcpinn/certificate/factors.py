"""Normal matrices of settings that were judged before, as preconditioners at the next one.

Factorising takes most of the time of an expansion with thousands of functions. Where coefficients
are not in the operator (in a load, in conditions), the factors of one setting are those of all;
where an operator varies slowly with them, conjugate gradients take a dozen steps more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lcpinn.spectral.least_squares import AGAIN, NormalMatrix, Preconditioner

NUMBERS = 4e7  # of all factors that are kept, beside the last
MORE = 1.35  # times as many functions along a coordinate, which known factors are worth
FEWEST = 4  # steps that are tried with the factors of another setting: they may be the same
WORK = 8e8  # of a factorisation, in cubes of its blocks' sizes, that takes as long as a step


class Kept(NamedTuple):
    """The factors of an expansion of that size at a setting, in the unit cube."""

    sizes: tuple[int, ...]
    unit: np.ndarray
    normal: NormalMatrix

    def distance(self, unit: np.ndarray) -> float:
        return float(np.linalg.norm(self.unit - unit))


class KeptFactors:
    """Those of the last settings, as many as memory allows."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []  # the last one at the end
        self._served, self._too_far = False, np.inf  # whether they did, and where they did not

    def near(self, sizes: tuple[int, ...], unit: np.ndarray) -> Preconditioner:
        """The factors of the nearest setting, to be tried for no longer than others would take."""
        preconditioner, nearest = Preconditioner(), self._nearest(sizes, unit)
        if nearest is not None and nearest.distance(unit) < self._too_far:
            preconditioner.normal = nearest.normal
            preconditioner.again = int(np.clip(nearest.normal.work / WORK, FEWEST, AGAIN))
        return preconditioner

    def _nearest(self, sizes: tuple[int, ...], unit: np.ndarray) -> Kept | None:
        same = [kept for kept in self._kept if kept.sizes == sizes]
        return min(same, key=lambda kept: kept.distance(unit), default=None)

    def keep(self, sizes: tuple[int, ...], unit: np.ndarray, used: Preconditioner) -> None:
        """Those of a setting, unless they are another one's; the oldest make room."""
        if used.normal is None:
            return
        nearest = self._nearest(sizes, unit)
        if any(kept.normal is used.normal for kept in self._kept):
            self._served = True
            return
        if nearest is not None and nearest.distance(unit) > 0:
            self._too_far = min(self._too_far, nearest.distance(unit))
        self._kept.append(Kept(sizes, unit, used.normal))
        while len(self._kept) > 1 and sum(kept.normal.numbers for kept in self._kept) > NUMBERS:
            del self._kept[0]

    def covering(self, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
        """Sizes with slightly more functions whose factors are known, where these have served."""
        slightly = [
            kept.sizes for kept in self._kept
            if all(a <= b <= MORE * a for a, b in zip(sizes, kept.sizes, strict=True))
        ]  # fmt: skip
        usable = self._served and np.isinf(self._too_far)
        return min(slightly, key=math.prod, default=None) if usable else None
