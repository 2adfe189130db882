"""Polygons, given by their corners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.shape.base import Extent, Invalid, Shape, Surface
from lcpinn.shape.quantity import Named, Quantity, Size, quantity


@final
@dataclass(frozen=True, init=False, repr=False)
class Polygon(Shape):
    """The inside of a closed line through corners, in order: Polygon(x=[0, 1, 0], y=[0, 0, 1])."""

    axes: tuple[str, str]
    corners: tuple[tuple[Quantity, Quantity], ...]

    def __init__(self, /, **corners: Sequence[Size]) -> None:
        if len(corners) != 2:
            raise LcpinnError("a Polygon has two coordinates; write Polygon(x=[...], y=[...])")
        (first, xs), (second, ys) = corners.items()
        if len(xs) != len(ys) or len(xs) < 3:
            raise LcpinnError(
                f"a Polygon needs three corners or more, as many {first} as {second}; "
                f"there are {len(xs)} and {len(ys)}"
            )
        pairs = zip(xs, ys, strict=True)
        made = tuple(
            (quantity(f"Polygon: {first}", a), quantity(f"Polygon: {second}", b)) for a, b in pairs
        )
        object.__setattr__(self, "axes", (first, second))
        object.__setattr__(self, "corners", made)
        if not self.parameters:
            try:
                self.validate({})
            except Invalid as reason:
                raise LcpinnError(str(reason)) from None

    def __repr__(self) -> str:
        first, second = ([pair[i] for pair in self.corners] for i in (0, 1))
        return f"Polygon({self.axes[0]}={first!r}, {self.axes[1]}={second!r})"

    @property
    def names(self) -> tuple[str, ...]:
        return self.axes

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return tuple(value for pair in self.corners for value in pair)

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        return (Outline(self),)

    def edges(self, at: Named, xp: ModuleType) -> list[tuple[Any, Any, Any, Any]]:
        """Every edge as (x, y, dx, dy), from its first corner to its second."""
        ends = [(a(at, xp), b(at, xp)) for a, b in self.corners]
        following = [*ends[1:], ends[0]]
        return [(x, y, p - x, q - y) for (x, y), (p, q) in zip(ends, following, strict=True)]

    def turn(self, at: Named, xp: ModuleType) -> Any:
        """Plus one where the corners run anticlockwise, minus one where they run clockwise."""
        return xp.sign(sum(x * dy - y * dx for x, y, dx, dy in self.edges(at, xp)))

    def level(self, at: Named, xp: ModuleType) -> Any:
        """The distance from the nearest edge, negative where a ray crosses an odd number."""
        x, y = (at[name] for name in self.axes)
        odd, nearest = False, xp.inf
        for edge in self.edges(at, xp):
            x0, y0, dx, dy = edge
            above = (y0 > y) != (y0 + dy > y)
            # The division is void (0 / 0) only along edges that the ray is parallel to.
            reach = x0 + dx * (y - y0) / xp.where(dy == 0, 1.0, dy)
            odd = odd ^ (above & (x < reach))
            nearest = xp.minimum(nearest, squared_distance(edge, x, y, xp))
        return xp.where(odd, -1.0, 1.0) * xp.sqrt(nearest)

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        values = [[pair[i](at, xp) for pair in self.corners] for i in (0, 1)]
        extent: Extent = {}
        for name, column in zip(self.axes, values, strict=True):
            low, high = column[0], column[0]
            for value in column[1:]:
                low, high = xp.minimum(low, value), xp.maximum(high, value)
            extent[name] = (low, high)
        return extent

    def validate(self, at: Named) -> None:
        edges = np.array([[float(v) for v in edge] for edge in self.edges(at, np)])
        if np.any(np.hypot(edges[:, 2], edges[:, 3]) == 0):
            raise Invalid(f"{self!r} has a corner twice")
        num = len(edges)
        for i in range(num):
            for j in range(i + 1, num):
                # Neighbours share a corner; they cross only by running back over each other.
                joined = j == i + 1 or (i == 0 and j == num - 1)
                if _overlap(edges[i], edges[j]) if joined else _cross(edges[i], edges[j]):
                    raise Invalid(f"{self!r} intersects itself: edges {i + 1} and {j + 1} meet")

    def to_json(self) -> dict[str, Any]:
        corners = [[a.to_json(), b.to_json()] for a, b in self.corners]
        return {"kind": "Polygon", "axes": list(self.axes), "corners": corners}


@final
@dataclass(frozen=True)
class Outline(Surface):
    """The edges of a polygon."""

    polygon: Polygon

    @property
    def names(self) -> tuple[str, ...]:
        return self.polygon.names

    @property
    def unit_dim(self) -> int:
        return 1

    def points(self, unit: Any, at: Named, xp: ModuleType) -> dict[str, Any]:
        edges = self.polygon.edges(at, xp)
        along = unit[..., 0] * self.measure(at, xp)
        x = y = xp.zeros_like(along)
        for x0, y0, dx, dy in edges:
            length = xp.sqrt(dx**2 + dy**2)
            beyond = along >= 0  # of where the edge begins
            share = along / length
            x, y = xp.where(beyond, x0 + share * dx, x), xp.where(beyond, y0 + share * dy, y)
            along = along - length
        return dict(zip(self.names, (x, y), strict=True))

    def measure(self, at: Named, xp: ModuleType) -> Any:
        return sum(xp.sqrt(dx**2 + dy**2) for _, _, dx, dy in self.polygon.edges(at, xp))

    def distance(self, at: Named, xp: ModuleType) -> Any:
        return xp.abs(self.polygon.level(at, xp))

    def normal(self, at: Named, xp: ModuleType) -> dict[str, Any]:
        x, y = (at[name] for name in self.names)
        turn = self.polygon.turn(at, xp)
        nearest, first, second = xp.inf, 0.0, 0.0
        for edge in self.polygon.edges(at, xp):
            _, _, dx, dy = edge
            square, length = squared_distance(edge, x, y, xp), xp.sqrt(dx**2 + dy**2)
            closer = square < nearest
            nearest = xp.minimum(nearest, square)
            first = xp.where(closer, turn * dy / length, first)
            second = xp.where(closer, -turn * dx / length, second)
        return dict(zip(self.names, (first, second), strict=True))


def squared_distance(edge: tuple[Any, Any, Any, Any], x: Any, y: Any, xp: ModuleType) -> Any:
    """The squared distance of points from a segment."""
    x0, y0, dx, dy = edge
    share = xp.clip(((x - x0) * dx + (y - y0) * dy) / (dx**2 + dy**2), 0, 1)
    return (x - x0 - share * dx) ** 2 + (y - y0 - share * dy) ** 2


def _side(edge: np.ndarray, point: np.ndarray) -> float:
    return edge[2] * (point[1] - edge[1]) - edge[3] * (point[0] - edge[0])


def _cross(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two segments have a point in common, by the sides that their ends lie on."""
    sides = [_side(a, b[:2]), _side(a, b[:2] + b[2:]), _side(b, a[:2]), _side(b, a[:2] + a[2:])]
    if sides[0] * sides[1] > 0 or sides[2] * sides[3] > 0:
        return False
    if any(side != 0 for side in sides):
        return True
    along = [np.sort([e[i], e[i] + e[i + 2]]) for i in (0, 1) for e in (a, b)]
    return all(
        max(along[k][0], along[k + 1][0]) <= min(along[k][1], along[k + 1][1]) for k in (0, 2)
    )


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether neighbouring edges run back over each other."""
    parallel = abs(a[2] * b[3] - a[3] * b[2]) <= 1e-14 * np.hypot(*a[2:]) * np.hypot(*b[2:])
    return bool(parallel and np.dot(a[2:], b[2:]) < 0)
