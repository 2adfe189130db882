"""Where the coefficients of an equation in one coordinate jump: found by looking at its terms.

The terms are linearised about some function, along a fine grid. A jump is a difference between
neighbours that does not become smaller when the interval between them is halved again and again;
what is merely steep does. It counts where it is at the same place for several settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lcpinn.family import Family
from lcpinn.prior import Coefficients

POINTS = 2000  # an even number of intervals would have a jump in the middle between two of them
SETTINGS = 3
HALVINGS = 44
STANDS_OUT = 8.0  # beside the differences of its neighbours
LEFT = 0.5  # of a difference, that a jump keeps
MOST = 64
SAME = 1e-9  # places, of the coordinate's length

# From points (n,) to numbers (n, k).
Along = Callable[[np.ndarray], np.ndarray]


def jumps(family: Family, along: Callable[[np.ndarray], Along]) -> tuple[float, ...]:
    """Places in between where numbers jump along the only coordinate, at any setting.

    `along` makes of a setting (p,) the function whose jumps are looked for.
    """
    (low, high), prior = next(iter(family.domain.ranges.values())), family.parameters
    found = [jumps_of(along(setting), low, high) for setting in settings(prior)]
    return common(found, low, high)


def settings(prior: Coefficients) -> list[np.ndarray]:
    """A few inner settings (p,) that have nothing in common."""
    every = np.random.default_rng(3).uniform(0.2, 0.8, (SETTINGS, prior.dim))
    return [np.asarray(prior.from_unit(unit)) for unit in every]


def common(found: Sequence[np.ndarray], low: float, high: float) -> tuple[float, ...]:
    """Places that are in all of these sets."""
    near = SAME * (high - low)
    same = [x for x in found[0] if all(_has(other, x, near) for other in found[1:])]
    return tuple(float(_rounded(x, low, high - low)) for x in same)


def _has(places: np.ndarray, x: float, near: float) -> bool:
    return bool(len(places)) and float(np.min(np.abs(places - x))) < near


def _rounded(x: float, low: float, length: float) -> float:
    """A place such as 0.375, of which halving has found all digits but the last."""
    short = low + length * float(f"{(x - low) / length:.10g}")
    return short if abs(short - x) < SAME * length else x


def jumps_of(numbers: Along, low: float, high: float) -> np.ndarray:
    """Where numbers jump between two ends, at one setting."""
    grid = np.linspace(low, high, POINTS)
    values = numbers(grid)
    if not np.isfinite(values).all():
        return np.zeros(0)
    scale = np.abs(values).max(axis=0)
    unit = lambda x: numbers(x) / np.where(scale > 0, scale, 1)
    steps = np.abs(np.diff(values / np.where(scale > 0, scale, 1), axis=0)).max(axis=1)
    around = np.maximum(np.roll(steps, 1), np.roll(steps, -1))
    others = np.median(steps) + np.finfo(float).eps
    suspects = np.flatnonzero((steps > STANDS_OUT * others) & (steps >= around))
    suspects = suspects[np.argsort(-steps[suspects])][:MOST]
    left, right = grid[suspects], grid[suspects + 1]
    if not len(suspects):
        return left
    first, last, before = unit(left), unit(right), steps[suspects]
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        value = unit(middle)
        in_left = np.abs(value - first).max(axis=1) >= np.abs(last - value).max(axis=1)
        left, right = np.where(in_left, left, middle), np.where(in_left, middle, right)
        first = np.where(in_left[:, None], first, value)
        last = np.where(in_left[:, None], value, last)
    kept = np.abs(last - first).max(axis=1) > LEFT * before
    inside = (left > low) & (right < high)
    return np.sort(right[kept & inside & np.isfinite(before)])
