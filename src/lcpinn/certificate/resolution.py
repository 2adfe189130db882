"""How many functions an error needs along each coordinate of a box, and how many are affordable.

The error inherits its finest parts from the residual, which is known: its Chebyshev and Fourier
coefficients along a few lines say where an expansion of it has to begin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy

from lcpinn.domain import Box
from lcpinn.spectral.basis import Axis
from lcpinn.spectral.linearisation import Linearisation

# By the number of coordinates: lines along each of them, and functions on each line;
LINES, FUNCTIONS = {1: 1, 2: 6, 3: 6}, {1: 1200, 2: 192, 3: 192}
SHARE = 0.05  # of the residual, that fewer functions may leave,
TOO_MUCH = 0.3  # and what no expansion may that is to count
QUICK = {1: 1000, 2: 3600, 3: 3600}  # unknowns of all outputs that take a moment;
MOST = {1: 3000, 2: 16000, 3: 36000}  # of what may take long;
# and seconds, times unknowns cubed, that an expansion without symmetries takes.
PACE = {1: 2e-10, 2: 3e-11, 3: 3e-11}


class Needed(NamedTuple):
    """Functions along each coordinate that leave a small share of the residual; fewer than the
    `least` of them leave too much."""

    enough: tuple[int, ...]
    least: tuple[int, ...]


def needed(at: Linearisation) -> Needed:
    """How many functions an error needs along each coordinate of a box, by its residual."""
    domain = at.family.domain
    assert isinstance(domain, Box)
    lines = np.asarray(domain.sobol(LINES[domain.dim], seed=17))
    sizes = []
    for i, (name, (low, high)) in enumerate(domain.ranges.items()):
        axis = Axis(low, high, name in domain.periodic, FUNCTIONS[domain.dim])
        nodes = axis.nodes()
        points = np.repeat(lines, len(nodes), axis=0)
        points[:, i] = np.tile(nodes, len(lines))
        energies = _energies(at, points, axis)
        sizes.append([_count(energies, axis.periodic, share) for share in (SHARE, TOO_MUCH)])
    return Needed(*zip(*sizes, strict=True))


def _energies(at: Linearisation, points: np.ndarray, axis: Axis) -> np.ndarray:
    """The residual's squared coefficients along an axis, all lines and equations together."""
    total, lines = np.zeros(1), LINES[at.family.domain.dim]
    for term in at.terms.interior:
        orders = at.family.orders([term])
        residual, slopes = at.slopes(term, orders, at.series(points, orders), points)
        unit = np.sqrt(np.mean(np.sum(slopes**2, axis=(2, 3)), axis=0))  # each equation's own
        values = (residual / np.where(unit > 0, unit, 1)).reshape(lines, -1, residual.shape[1])
        if axis.periodic:
            squares = np.abs(scipy.fft.rfft(values, axis=1)) ** 2
        else:
            squares = scipy.fft.dct(values, axis=1, norm="ortho") ** 2
        total = total + squares.sum(axis=(0, 2))
    return total


def _count(energies: np.ndarray, periodic: bool, share: float) -> int:
    """How many coefficients leave less than the share; all of them where it is not finite."""
    whole = float(energies.sum())
    if not np.isfinite(whole):
        return len(energies)
    remaining = whole - np.cumsum(energies)
    count = int(np.argmax(remaining <= share**2 * whole)) + 1
    return 2 * count - 1 if periodic else count


def num_unknowns(sizes: Sequence[int]) -> float:
    """How many functions are unknowns: of three coordinates those in a ball (basis.py)."""
    return float(np.prod(sizes)) * (0.55 if len(sizes) > 2 else 1.0)


class Patience:
    """Which expansions are affordable: those that take a moment, and what should be done in time.

    Quick ones do not depend on the clock, so that what rests on them can be repeated. `work` is
    what an expansion takes beside one without symmetries.
    """

    def __init__(self, seconds: float, outputs: int, work: Callable[[], float]):
        self.seconds, self._outputs, self._began = seconds, outputs, time.perf_counter()
        self._work = cache(work)

    @property
    def spent(self) -> float:
        return time.perf_counter() - self._began

    @property
    def remaining(self) -> float:
        return self.seconds - self.spent

    def allows(self, sizes: Sequence[int], grown: int = 0, times: int = 1) -> bool:
        """Whether so many expansions are, after others that were smaller."""
        unknowns, dim = num_unknowns(sizes) * self._outputs, len(sizes)
        if unknowns * times ** (1 / 3) <= QUICK[dim] and (grown < 1 or dim == 1):
            return True
        if unknowns > MOST[dim]:
            return False
        takes = times * PACE[dim] * (self._work() if dim > 1 else 1.0) * unknowns**3
        return takes <= self.remaining
