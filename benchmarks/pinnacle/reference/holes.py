"""Problems on rectangles with round holes: Poisson 2d-C, Poisson 2d-CG and Heat 2d-CG."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchmarks.pinnacle.reference.hyperbola import contour
from benchmarks.pinnacle.reference.trefftz import Condition, Hole, Plate, Solved, solve
from lcpinn.cache import cached

LARGE = ((4.0, 3.0), (4.0, -3.0), (-4.0, 3.0), (-4.0, -3.0), (4.0, 9.0), (4.0, -9.0),
         (-4.0, 9.0), (-4.0, -9.0), (0.0, 0.0), (0.0, 6.0), (0.0, -6.0))  # fmt: skip
SMALL = ((3.2, 6.0), (3.2, -6.0), (-3.2, 6.0), (-3.2, -6.0), (3.2, 0.0), (-3.2, 0.0))
OFFSET = 0.3  # of the four holes of Poisson 2d-C, along both axes
BOLTZMANN_HOLES = (Hole(0.5, 0.5, 0.2), Hole(0.4, -0.4, 0.4), Hole(-0.2, -0.7, 0.1),
                   Hole(-0.6, 0.5, 0.3))  # fmt: skip


@lru_cache(maxsize=16)
def four_holes(radius: float) -> Solved:
    """Δu = 0 in the unit square about the origin, u = 1 on its sides, u = 0 on four holes."""
    holes = tuple(Hole(a * OFFSET, b * OFFSET, radius) for a in (-1, 1) for b in (-1, 1))
    plate = Plate(0.5, 0.5, holes)
    rims = [Condition(plate.rim(hole), 1.0, 0.0, 0.0) for hole in holes]
    return solve(plate, 0.0, [Condition(plate.sides(), 1.0, 0.0, 1.0), *rims])


@lru_cache(maxsize=16)
def _screened(k: float) -> Solved:
    """What is left of Poisson 2d-CG once the source is taken care of: Δw = k²w."""
    plate = Plate(1.0, 1.0, BOLTZMANN_HOLES)
    conditions = []
    for edge, level in [(plate.sides(), 0.2), *((plate.rim(h), 1.0) for h in BOLTZMANN_HOLES)]:
        conditions.append(Condition(edge, 1.0, 0.0, level - screened_particular(edge.x, edge.y, k)))
    return solve(plate, k, conditions)


def screened_source(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The source of Poisson 2d-CG."""
    return 10 * (17 + x**2 + y**2) * np.sin(np.pi * x) * np.sin(4 * np.pi * y)


def screened_particular(x: np.ndarray, y: np.ndarray, k: float) -> np.ndarray:
    """-Δw + k²w = source, in closed form and without any condition.

    With S = sin πx sin 4πy and D = 17π² + k², the operator maps S to D S, x² S to
    D x² S - 2 S - 4π x S_x/π, and x S_x/π to D x S_x/π + 2π S; likewise along y with 4π.
    """
    symbol = 17 * np.pi**2 + k**2
    sin_x, cos_x = np.sin(np.pi * x), np.cos(np.pi * x)
    sin_y, cos_y = np.sin(4 * np.pi * y), np.cos(4 * np.pi * y)
    product = sin_x * sin_y
    quadratic = (x**2 + y**2) * product
    slopes = (4 * np.pi * x * cos_x * sin_y + 16 * np.pi * y * sin_x * cos_y) / symbol
    level = (4 - (8 + 128) * np.pi**2 / symbol) / symbol
    return 10 * (17 * product + quadratic + slopes + level * product) / symbol


def screened(x: np.ndarray, y: np.ndarray, k: float) -> np.ndarray:
    """-Δu + k²u = source on [-1, 1]² with four holes; u = 0.2 on the sides, 1 on the rims."""
    return screened_particular(x, y, k) + _screened(float(k))(x, y)


# -- Heat 2d-CG: the Laplace transform solves Δw = s w, with conditions that are constant over s ---

FIRST, LAST = 0.1, 3.0  # times of the published reference
CONTOUR = contour(FIRST, LAST, 20)
VERSION = 1


@lru_cache(maxsize=4)
def _transforms(h: float) -> list[Solved]:
    """The transform at every point of the contour."""
    large, small = ([Hole(x, y, r) for x, y in c] for c, r in ((LARGE, 1.0), (SMALL, 0.4)))
    plate = Plate(8.0, 12.0, (*large, *small), modes=12, ring=60, corner=16)
    compute = lambda: {f"c{i}": _transform(plate, s, h) for i, s in enumerate(CONTOUR.points)}
    arrays = cached("pinnacle-seventeen-holes", VERSION, {"h": h}, compute)
    return [
        Solved(plate.functions(np.sqrt(s)), arrays[f"c{i}"], np.nan)
        for i, s in enumerate(CONTOUR.points)
    ]


def _transform(plate: Plate, s: complex, h: float) -> np.ndarray:
    levels = [5.0] * len(LARGE) + [1.0] * len(SMALL)
    edges = [(plate.sides(), 0.1)]
    edges += [(plate.rim(hole), level) for hole, level in zip(plate.holes, levels, strict=True)]
    conditions = [Condition(edge, h, 1.0, np.asarray(h * level / s)) for edge, level in edges]
    return solve(plate, np.sqrt(s), conditions).coefficients


def seventeen_holes(t: np.ndarray, x: np.ndarray, y: np.ndarray, h: float) -> np.ndarray:
    """u_t = Δu with u_n = h (T - u) on 17 holes and the sides; t is 0 or between FIRST and LAST."""
    t, x, y = (np.asarray(v, float).ravel() for v in np.broadcast_arrays(t, x, y))
    if np.any((t > 0) & ((t < 0.999 * FIRST) | (t > 1.001 * LAST))):
        raise ValueError(f"this reference is known from t = {FIRST:g} to {LAST:g} alone")
    places, index = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)
    transforms = np.stack([solved(*places.T) for solved in _transforms(float(h))])
    values = np.zeros(len(t))
    for time in np.unique(t[t > 0]):
        here = t == time
        values[here] = np.imag(CONTOUR.kernel(time) @ transforms)[index.ravel()[here]]
    return values
