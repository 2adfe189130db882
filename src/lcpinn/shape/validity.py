"""What can be wrong with a shape at some lambda, found before anything is trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.quadrature import unit_sobol
from lcpinn.shape.base import Invalid, Shape
from lcpinn.shape.combination import Difference, Union
from lcpinn.shape.region import Region

GAP = 1e-4  # closer than this share of the domain's size, a hole counts as touching
FLUSH = 0.05  # unless this share of its boundary does: then both run along each other

Labels = tuple[tuple[str, Shape], ...]


def check(region: Region, labels: Labels) -> None:
    """Raise an error that names the shape and lambda for the first thing that is wrong."""
    _check_parameters(region)
    settings = region.settings()
    for setting in settings:
        at = dict(zip(region.prior.names, setting, strict=True))
        try:
            region.shape.validate(at)
        except Invalid as reason:
            raise LcpinnError(f"{reason}{_at(region, setting)}") from None
    _check_extent(region, settings)
    for node in _nodes(region.shape):
        if not node.parts and not node.periodic:
            _check_walls(region, node, _label(node, labels), settings)
    for node in _nodes(region.shape):
        if isinstance(node, Difference):
            for hole in _members(node.right):
                _check_hole(region, node.left, hole, _label(hole, labels), settings)
    empty = np.flatnonzero(region.fill == 0)
    if len(empty):
        raise LcpinnError(f"the domain {region!r} is empty{_at(region, settings[empty[0]])}")


def _check_parameters(region: Region) -> None:
    for name in region.shape.parameters:
        if name in region.names:
            raise LcpinnError(
                f"a size in {region!r} depends on the coordinate {name}; it may depend on "
                "parameters only"
            )
        if name not in region.prior.names:
            has = ", ".join(region.prior.names) or "none"
            raise LcpinnError(
                f"a size in {region!r} depends on {name!r}, which is no parameter; there are: {has}"
            )


def _check_extent(region: Region, settings: np.ndarray) -> None:
    at = region._named(None, settings, np)
    for name, (low, high) in region.shape.extent(at, np).items():
        width = np.broadcast_to(np.asarray(high) - np.asarray(low), len(settings))
        if not np.all(np.isfinite(width)):
            bad = settings[np.flatnonzero(~np.isfinite(width))[0]]
            raise LcpinnError(f"{name} in {region!r} is NaN or infinite{_at(region, bad)}")
        if np.any(width <= 0):
            bad = settings[np.flatnonzero(width <= 0)[0]]
            raise LcpinnError(f"the domain {region!r} is empty{_at(region, bad)}")


def _check_walls(region: Region, shape: Shape, label: str, settings: np.ndarray) -> None:
    """Along a periodic coordinate nothing reaches across the ends of its range."""
    extent = shape.extent(region._named(None, settings, np), np)
    for name in (n for n in shape.names if n in region.periodic):
        first, last = region.ranges[name]
        low, high = (np.broadcast_to(end, len(settings)) for end in extent[name])
        slack = GAP * (last - first)
        across = (low < first + slack) | (high > last - slack)
        if np.any(across):
            where = _at(region, settings[np.argmax(across)])
            raise LcpinnError(
                f"{label} reaches across an end of the periodic coordinate {name}{where}: begin "
                f"its range, ({first:g}, {last:g}), elsewhere"
            )


def _nodes(shape: Shape) -> list[Shape]:
    return [shape, *(node for part in shape.parts for node in _nodes(part))]


def _members(shape: Shape) -> list[Shape]:
    """The holes that are taken out: those of a union one by one."""
    if isinstance(shape, Union):
        return [member for part in shape.parts for member in _members(part)]
    return [shape]


def _label(shape: Shape, labels: Labels) -> str:
    name = next((name for name, own in labels if own == shape), None)
    return repr(shape) if name is None else f"{name}, {shape!r},"


def _check_hole(region: Region, body: Shape, hole: Shape, label: str, settings: np.ndarray) -> None:
    """A hole lies inside of its body at every lambda, or cuts through its boundary at every one."""
    states: dict[str, np.ndarray] = {}
    for setting in settings:
        state = _state(region, body, hole, setting)
        where = _at(region, setting)
        if state == "outside":
            raise LcpinnError(f"{label} lies outside of what it is taken from{where}")
        if state == "swallows":
            raise LcpinnError(f"{label} swallows all of what it is taken from{where}")
        if state == "touches":
            raise LcpinnError(f"{label} touches the boundary of what it is taken from{where}")
        states.setdefault(state, setting)
    if {"inside", "crosses"} <= states.keys():
        one, other = (region.words(states[state]) for state in ("inside", "crosses"))
        raise LcpinnError(
            f"{label} lies inside of what it is taken from at {one} and cuts through its boundary "
            f"at {other}: in between it touches it"
        )


def _state(region: Region, body: Shape, hole: Shape, setting: np.ndarray) -> str:
    """How a hole lies in its body, from points of its boundary and of the body."""
    lam = dict(zip(region.prior.names, setting, strict=True))
    extent = body.extent(lam, np)
    size = max(float(high) - float(low) for low, high in extent.values())
    # Coordinates that the hole does not have, such as time, are looked at in their middle.
    middle = {name: (low + high) / 2 for name, (low, high) in extent.items()}
    levels = np.concatenate([
        _level(body, {**lam, **middle, **_surface_points(surface, lam)})
        for surface in hole.surfaces
    ])  # fmt: skip
    levels = levels[np.isfinite(levels)]
    near = np.mean(np.abs(levels) <= GAP * size)
    inside, outside = np.any(levels < -GAP * size), np.any(levels > GAP * size)
    if not inside:
        unit = unit_sobol(1024, len(extent), 5)
        place = {
            name: low + (high - low) * unit[:, i] for i, (name, (low, high)) in
            enumerate(extent.items())
        }  # fmt: skip
        own = _level(body, {**lam, **place}) < 0
        swallowed = _level(hole, {**lam, **place})[own] < 0
        return "swallows" if np.all(swallowed) else "outside"
    if outside:
        return "crosses"
    if near >= FLUSH:
        return "flush"
    return "touches" if near > 0 else "inside"


def _surface_points(surface: Any, lam: dict[str, Any]) -> dict[str, Any]:
    return surface.points(unit_sobol(512, surface.unit_dim, 7), lam, np)


def _level(shape: Shape, at: dict[str, Any]) -> np.ndarray:
    return np.atleast_1d(np.asarray(shape.level(at, np)))


def _at(region: Region, setting: np.ndarray) -> str:
    words = region.words(setting)
    return f" at {words}" if words else ""
