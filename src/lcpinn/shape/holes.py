"""Holes of a region: where they are, and what a network is to see of them.

A function that is smooth between holes is a sum of one that is regular within the outer rim and,
for each hole, one that is regular outside of it (Laurent's theorem, and Vekua 1967 beyond analytic
functions). The second kind is smooth in the coordinates inverted in the hole and has at most a
logarithm beside, in three dimensions a potential 1 / |x| (Kelvin's transform). In the coordinates
themselves it has a scale of the hole's size, which takes many units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.jet import (
    Orders,
    Series,
    coordinate,
    cosh,
    inverse_root,
    logarithm,
    reciprocal,
    sine,
    sinh,
)  # fmt: skip
from lcpinn.quadrature import unit_sobol
from lcpinn.shape.ball import Ball
from lcpinn.shape.base import Shape
from lcpinn.shape.box import Box
from lcpinn.shape.combination import Difference, Union
from lcpinn.shape.quantity import Named, Quantity
from lcpinn.shape.region import Region

if TYPE_CHECKING:
    from lcpinn.family import Family

CANDIDATES = 512  # points among which the middle of a hole is looked for

SCALE = 0.2  # of what is seen of holes, beside coordinates in [-1, 1]: slower units suffice

# points (l, n, dim), parameters (l, p), orders -> (s, l, n, features)
Features = Callable[[Array, Array, Orders], Series]


# -- At one setting --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hole:
    """A place outside of the domain that it surrounds: coordinates, centre, least radius.

    With a `period` it is there again and again, along the first of two coordinates.
    """

    coordinates: tuple[int, ...]
    centre: tuple[float, ...]
    radius: float
    period: float | None = None


def holes_of(region: Region, parameters: np.ndarray) -> tuple[Hole, ...]:
    """Everything that is taken out of something, at one setting (p,)."""
    holes = [_hole(region, shape, parameters) for shape in _taken_out(region.shape)]
    return tuple(hole for hole in holes if hole is not None)


def _taken_out(shape: Shape) -> tuple[Shape, ...]:
    holes = [m for node in _nodes(shape) if isinstance(node, Difference)
             for m in _members(node.right)]  # fmt: skip
    return tuple(dict.fromkeys(holes))


def _nodes(shape: Shape) -> Iterator[Shape]:
    yield shape
    for part in shape.parts:
        yield from _nodes(part)


def _members(shape: Shape) -> list[Shape]:
    """The holes that are taken out: those of a union one by one."""
    if isinstance(shape, Union):
        return [member for part in shape.parts for member in _members(part)]
    return [shape]


def _hole(region: Region, shape: Shape, parameters: np.ndarray) -> Hole | None:
    """Where a shape's functions are singular; None where that would be inside of the domain."""
    at = dict(zip(region.prior.names, map(float, parameters), strict=True))
    periodic = [name for name in shape.names if name in region.periodic]
    if (shape.dim, len(periodic)) not in ((2, 0), (2, 1), (3, 0)):
        return None
    if isinstance(shape, Ball):
        centre = np.array([float(value(at, np)) for _, value in shape.centre])
        radius = float(shape.radius(at, np))
    else:
        centre, radius = _deepest(shape, at)
    coordinates = [region.names.index(name) for name in shape.names]
    middle = np.array([(low + high) / 2 for low, high in region.box_at(parameters).ranges.values()])
    middle[coordinates] = centre
    if radius <= 0 or region.level_at(middle, parameters) <= 0:
        return None
    order, period = np.arange(shape.dim), None
    if periodic:
        first = shape.names.index(periodic[0])
        order, period = np.array([first, 1 - first]), float(np.ptp(region.ranges[periodic[0]]))
    places = tuple(int(coordinates[i]) for i in order)
    return Hole(places, tuple(map(float, centre[order])), radius, period)


def _deepest(shape: Shape, at: Named) -> tuple[np.ndarray, float]:
    """The point inside that is farthest from the rim, about, and its distance from it."""
    extent = shape.extent(at, np)
    low, high = (np.array([float(extent[name][i]) for name in shape.names]) for i in (0, 1))
    inside = low + (high - low) * unit_sobol(CANDIDATES, shape.dim, 3)
    inside = inside[np.asarray(shape.level({**at, **_columns(shape, inside)}, np)) < 0]
    rims = [s.points(unit_sobol(CANDIDATES, s.unit_dim, 5), at, np) for s in shape.surfaces]
    rim = np.concatenate([np.stack([one[name] for name in shape.names], -1) for one in rims])
    rim = rim[np.isfinite(rim).all(axis=1)]
    if not len(inside) or not len(rim):
        return low, 0.0
    distances = np.linalg.norm(inside[:, None] - rim, axis=2).min(axis=1)
    return inside[np.argmax(distances)], float(distances.max())


def _columns(shape: Shape, points: np.ndarray) -> dict[str, np.ndarray]:
    return {name: points[:, i] for i, name in enumerate(shape.names)}


# -- At every setting ------------------------------------------------------------------------------


@dataclass(frozen=True)
class MovingHole:
    """A hole whose centre and radius may depend on parameters."""

    coordinates: tuple[int, ...]
    centre: tuple[Quantity, ...]
    radius: Quantity
    period: float | None = None


@lru_cache
def moving_holes(region: Region) -> tuple[MovingHole, ...]:
    """The holes that are there at every lambda."""
    holes = [_moving(region, shape) for shape in _taken_out(region.shape)]
    return tuple(hole for hole in holes if hole is not None)


def _moving(region: Region, shape: Shape) -> MovingHole | None:
    settings = [np.asarray(lam, float) for lam in region.settings()]
    holes = [_hole(region, shape, lam) for lam in settings]
    middle = holes[len(holes) // 2]
    if middle is None or any(hole is None for hole in holes):
        return None
    if isinstance(shape, Ball):
        by_name = dict(shape.centre)
        centre = tuple(by_name[region.names[i]] for i in middle.coordinates)
        return MovingHole(middle.coordinates, centre, shape.radius, middle.period)
    # Of any other shape the middle is known at single settings: one that serves for all of them.
    place = {region.names[i]: c for i, c in zip(middle.coordinates, middle.centre, strict=True)}
    named = [dict(zip(region.prior.names, lam, strict=True)) | place for lam in settings]
    if max(float(np.asarray(shape.level(at, np))) for at in named) >= 0:
        return None
    centre = tuple(map(Quantity, middle.centre))
    return MovingHole(middle.coordinates, centre, Quantity(middle.radius), middle.period)


# -- What a network sees of them -------------------------------------------------------------------


def visible_holes(family: Family) -> tuple[MovingHole, ...]:
    """The holes that a network can see; none where the family says itself what it sees."""
    domain = family.domain
    if family.features is not None or isinstance(domain, Box):
        return ()
    return moving_holes(domain)


def hole_features(domain: Box | Region) -> Features | None:
    """Features (s, l, n, features) of all holes as series, or None where there is none."""
    holes = () if isinstance(domain, Box) else moving_holes(domain)
    if isinstance(domain, Box) or not holes:
        return None
    names = domain.prior.names

    def features(points: Array, parameters: Array, orders: Orders) -> Series:
        at = {name: parameters[:, i] for i, name in enumerate(names)}
        parts = [part for same in by_kind(holes) for part in _of_kind(same, points, at, orders)]
        return Series(orders, SCALE * jnp.concatenate([p.coefficients for p in parts], axis=-1))

    return features


def by_kind(holes: Sequence[MovingHole]) -> list[list[MovingHole]]:
    """Holes in the same coordinates, together: a trailing axis costs nothing to compile."""
    kinds: dict[Any, list[MovingHole]] = {}
    for hole in holes:
        kinds.setdefault((hole.coordinates, hole.period), []).append(hole)
    return list(kinds.values())


def _of_kind(holes: list[MovingHole], points: Array, at: Named, orders: Orders) -> list[Series]:
    """Inverted coordinates, at most one in size, and potentials of the centres, hole by hole.

    Of x = (point - centre) / radius: x / |x|² and log |x|, in three dimensions 1 / |x|.
    """

    def each(quantities: list[Quantity]) -> Array:
        """(l, 1, holes)"""
        values = [jnp.broadcast_to(q(at, jnp), points.shape[:1]) for q in quantities]
        return jnp.stack(values, axis=-1)[:, None].astype(points.dtype)

    radius = each([hole.radius for hole in holes])
    offsets = [
        coordinate(points[..., i, None] - each([h.centre[k] for h in holes]), i, orders)
        * (1 / radius)
        for k, i in enumerate(holes[0].coordinates)
    ]
    if (period := holes[0].period) is not None:
        return _periodic(offsets[0], offsets[1], 2 * jnp.pi * radius / period)
    square = offsets[0] * offsets[0]
    for offset in offsets[1:]:
        square = square + offset * offset
    inverse = square.apply(reciprocal)
    potential = square.apply(logarithm) * 0.5 if len(offsets) == 2 else square.apply(inverse_root)
    return [*(offset * inverse for offset in offsets), potential]


def _periodic(x: Series, y: Series, turn: Array) -> list[Series]:
    """The same for a hole that is there once in every period of x.

    With z = x + iy and θ = z turn, 1 / z becomes cot(θ / 2) turn / 2, and |z| likewise
    2 |sin(θ / 2)| / turn.
    """
    along, across = x * turn, y * turn
    gap = across.apply(cosh) + (along + jnp.pi / 2).apply(sine) * -1.0  # 2 |sin(θ / 2)|²
    inverse = gap.apply(reciprocal) * (turn / 2)
    inverted = [along.apply(sine) * inverse, across.apply(sinh) * inverse]
    return [*inverted, (gap * (2 / turn**2)).apply(logarithm) * 0.5]
