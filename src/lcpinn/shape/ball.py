"""Balls of any dimension: intervals, discs, balls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np
import scipy
from jax.scipy.special import ndtri as traced_ndtri

from lcpinn.errors import LcpinnError
from lcpinn.shape.base import Extent, Invalid, Shape, Surface
from lcpinn.shape.quantity import Named, Quantity, Size, quantity


@final
@dataclass(frozen=True, init=False, repr=False)
class Ball(Shape):
    """Points closer to a centre than the radius: Ball(x=0.0, y="a", radius=lambda r: 2 * r)."""

    centre: tuple[tuple[str, Quantity], ...]
    radius: Quantity

    def __init__(self, /, *, radius: Size, **centre: Size) -> None:
        if not centre:
            raise LcpinnError("Ball() names no coordinate; write Ball(x=0.0, y=0.0, radius=1.0)")
        places = tuple((name, quantity(f"Ball: {name}", value)) for name, value in centre.items())
        object.__setattr__(self, "centre", places)
        object.__setattr__(self, "radius", quantity("Ball: radius", radius))
        if isinstance(self.radius.value, float) and self.radius.value <= 0:
            raise LcpinnError(f"Ball: radius must be positive, not {self.radius.value:g}")

    def __repr__(self) -> str:
        centre = ", ".join(f"{name}={value!r}" for name, value in self.centre)
        return f"Ball({centre}, radius={self.radius!r})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.centre)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return (*(value for _, value in self.centre), self.radius)

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        return (Sphere(self),)

    def offsets(self, at: Named, xp: ModuleType) -> dict[str, Any]:
        """Named points as seen from the centre."""
        return {name: at[name] - value(at, xp) for name, value in self.centre}

    def level(self, at: Named, xp: ModuleType) -> Any:
        squares = sum(offset**2 for offset in self.offsets(at, xp).values())
        return xp.sqrt(squares) - self.radius(at, xp)

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        radius = self.radius(at, xp)
        centre = {name: value(at, xp) for name, value in self.centre}
        return {name: (middle - radius, middle + radius) for name, middle in centre.items()}

    def validate(self, at: Named) -> None:
        radius = float(self.radius(at, np))
        if not radius > 0:
            raise Invalid(f"the radius of {self!r} is {radius:g}")

    def to_json(self) -> dict[str, Any]:
        centre = [[name, value.to_json()] for name, value in self.centre]
        return {"kind": "Ball", "centre": centre, "radius": self.radius.to_json()}


@final
@dataclass(frozen=True)
class Sphere(Surface):
    """The surface of a ball."""

    ball: Ball

    @property
    def names(self) -> tuple[str, ...]:
        return self.ball.names

    @property
    def unit_dim(self) -> int:
        dim = self.ball.dim
        return dim - 1 if dim in (2, 3) else dim

    def points(self, unit: Any, at: Named, xp: ModuleType) -> dict[str, Any]:
        way = direction(unit, self.ball.dim, xp)
        radius = self.ball.radius(at, xp)
        return {
            name: value(at, xp) + radius * part
            for (name, value), part in zip(self.ball.centre, way, strict=True)
        }

    def measure(self, at: Named, xp: ModuleType) -> Any:
        dim = self.ball.dim
        unit = 2 * math.pi ** (dim / 2) / math.gamma(dim / 2)
        return unit * self.ball.radius(at, xp) ** (dim - 1)

    def distance(self, at: Named, xp: ModuleType) -> Any:
        return xp.abs(self.ball.level(at, xp))

    def normal(self, at: Named, xp: ModuleType) -> dict[str, Any]:
        offsets = self.ball.offsets(at, xp)
        length = xp.sqrt(sum(offset**2 for offset in offsets.values()))
        return {name: offset / length for name, offset in offsets.items()}


def direction(unit: Any, dim: int, xp: ModuleType) -> list[Any]:
    """Unit vectors, uniform on the sphere, from points of the unit cube.

    Archimedes' map in three dimensions; in more, normal deviates divided by their length.
    """
    if dim == 1:
        return [xp.where(unit[..., 0] < 0.5, -1.0, 1.0)]
    if dim > 3:
        inverse = scipy.special.ndtri if xp is np else traced_ndtri
        tiny = np.finfo(unit.dtype).eps
        normal = inverse(xp.clip(unit, tiny, 1 - tiny))
        normal = normal / xp.sqrt(xp.sum(normal**2, axis=-1, keepdims=True))
        return [normal[..., i] for i in range(dim)]
    angle = 2 * math.pi * unit[..., 0]
    if dim == 2:
        return [xp.cos(angle), xp.sin(angle)]
    height = 2 * unit[..., 1] - 1
    across = xp.sqrt(xp.maximum(1 - height**2, 0))
    return [across * xp.cos(angle), across * xp.sin(angle), height]
