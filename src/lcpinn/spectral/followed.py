"""Initial-value problems that no expansion resolves: followed twice and more, until two agree.

With one coordinate window by window (windows.py), with two slab by slab (march.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lcpinn.spectral.expansion import NotFinite
from lcpinn.spectral.least_squares import NotSolvable
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.spectral.march import March, MarchDirection, Unresolved, marched_values
from lcpinn.spectral.newton import NotConverged
from lcpinn.spectral.slab import SlabExpansion
from lcpinn.spectral.windows import in_windows

USEFUL = 1e-3  # an error above which a solution is none
FINER, MARCHES = 0.1, 6  # what each march may leave, of the one before; how many there are
LARGER = 1.2  # times the intervals: with fewer more it is the same march again
DECAYS, EVENLY = (1e-6, 1e-8, 1e-10, 1e-12), 4001  # of windows; times that two are compared at


class Followed(NamedTuple):
    """By how much the last two differ, what kept them apart, and the finer one."""

    error: float
    reason: str
    resolution: dict[str, int]
    values: Callable[[np.ndarray], np.ndarray]  # (n, outputs) at points (n, dim)


def windows_that_agree(
    at: Linearisation, stepping: MarchDirection, *, tolerance: float, deadline: float
) -> Followed:
    """Windows in which coefficients decay further and further, until two solutions agree."""
    (name, (low, high)), = at.family.domain.ranges.items()  # fmt: skip
    times, before, error, windows = np.linspace(low, high, EVENLY), None, np.inf, None
    for decayed in DECAYS:
        try:
            windows = in_windows(at, stepping, decayed)
        except (NotConverged, NotFinite, NotSolvable):
            break
        values = windows(times)
        if before is not None:
            error = _distance(values, before)
        if error <= tolerance or time.perf_counter() > deadline:
            break
        before = values
    if windows is None or error > USEFUL:
        raise Unresolved("windows that follow one another do not get to its end")
    why = "" if error <= tolerance else "finer windows do not agree to the tolerance"
    resolution = {name: windows.num_functions}
    return Followed(error, why, resolution, lambda points: windows(points[:, 0]))


def marches_that_agree(
    march: March,
    at: Linearisation,
    allowed: float,
    first: list[SlabExpansion],
    *,
    tolerance: float,
    deadline: float,
) -> Followed:
    """Marches that leave less and less, until two agree to the tolerance.

    The `first` is there already, and left what was `allowed`.
    """
    domain, along = at.family.domain, march.direction.along
    points = domain.sobol(4096, seed=3)
    before, error, why = None, np.inf, ""
    slabs: list[SlabExpansion] = []
    size = 0
    for i in range(MARCHES):
        following = first if i == 0 else []
        try:
            if i > 0:
                march(at, allowed, following)
        except Unresolved as unresolved:
            if error > USEFUL:
                raise
            why = f"a finer march is not resolved: {unresolved}"
            break
        finer = sum(len(s.splines.breaks) for s in following)
        allowed = FINER * allowed
        if finer < LARGER * size:  # as before: that they agree would prove nothing
            continue
        slabs, size = following, finer
        values = at.values(points) + marched_values(slabs, along, points)
        if before is not None:
            error = _distance(values, before)
        if error <= tolerance:
            break
        before = values
        if time.perf_counter() > deadline:
            why = "marches do not reach the tolerance in their time"
            break
    if error > USEFUL:
        raise Unresolved("marches of two resolutions do not agree")
    if error > tolerance and not why:
        why = "marches do not reach the tolerance"
    across = max(len(s.splines.breaks) - 1 for s in slabs)
    resolution = {domain.names[along]: len(slabs), domain.names[1 - along]: across}
    return Followed(
        error, why, resolution, lambda p: at.values(p) + marched_values(slabs, along, p)
    )


def _distance(values: np.ndarray, others: np.ndarray) -> float:
    """Of two functions by their values (n, outputs), relative; the worst output counts."""
    scale = np.sqrt(np.mean(values**2, axis=0))
    gap = np.sqrt(np.mean((values - others) ** 2, axis=0))
    return float(np.max(gap / np.where(scale > 0, scale, 1)))
