"""Corners that point inwards: where solutions of smooth equations are singular."""

from __future__ import annotations

from typing import Any

import numpy as np

from lcpinn.quadrature import unit_sobol
from lcpinn.shape.base import Shape
from lcpinn.shape.box import Box
from lcpinn.shape.combination import Difference, Union
from lcpinn.shape.polygon import Polygon
from lcpinn.shape.quantity import Named


def may_have_inward_corners(shape: Shape, at: Named) -> bool:
    """Whether a boundary may have corners that point inwards, where solutions are singular.

    Those of a polygon that is not convex, of a hole that has corners or cuts through an edge, and
    of a union.
    """
    if isinstance(shape, Polygon):
        return not _is_convex(shape, at)
    if isinstance(shape, Difference):
        pieces = [s.points(unit_sobol(256, s.unit_dim, 7), at, np) for s in shape.right.surfaces]
        levels = [shape.left.level({**_middle_of(shape.left, at), **p}, np) for p in pieces]
        crosses = any(np.any(np.asarray(level) > 0) for level in levels)
        if crosses or _has_corners(shape.right):
            return True
    return isinstance(shape, Union) or any(may_have_inward_corners(p, at) for p in shape.parts)


def _has_corners(shape: Shape) -> bool:
    return isinstance(shape, Polygon | Box) or any(map(_has_corners, shape.parts))


def _is_convex(polygon: Polygon, at: Named) -> bool:
    edges = np.array([[float(v) for v in edge[2:]] for edge in polygon.edges(at, np)])
    following = np.roll(edges, -1, axis=0)
    turns = edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0]
    return bool(np.all(turns >= 0) or np.all(turns <= 0))


def _middle_of(shape: Shape, at: Named) -> dict[str, Any]:
    """Parameters, and coordinates in the middle: those that a hole does not have."""
    extent = shape.extent(at, np)
    return {**at, **{name: (low + high) / 2 for name, (low, high) in extent.items()}}
