"""Implicit regions: where a function is negative."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.interpreted import Seldom
from lcpinn.quadrature import unit_sobol
from lcpinn.shape.base import Extent, Invalid, Shape, Surface
from lcpinn.shape.box import Box
from lcpinn.shape.quantity import Named, Quantity, Size, function_json, named_arguments

NEEDLE = 0.1  # its length, in widths of the box
HALVINGS = 20
NEWTON = 4
TRIED = 256  # points at which the function has to have a number


@final
@dataclass(frozen=True, init=False, repr=False)
class Inside(Shape):
    """Where a function of coordinates and parameters is negative, within a box.

    Inside(lambda x, y, a: x**2 + y**2 - a, x=(-1, 1), y=(-1, 1)). The function is written with
    jax.numpy and has a slope where it vanishes. Where the region reaches a face of the box, that
    face is a part of its boundary.
    """

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    box: Box

    def __init__(self, function: Callable[..., Any], /, **ranges: tuple[Size, Size]) -> None:
        if not callable(function):
            raise LcpinnError("Inside: the first argument is a function, negative inside")
        if not ranges:
            raise LcpinnError("Inside() names no coordinate; write Inside(f, x=(low, high))")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "arguments", named_arguments("Inside", function))
        object.__setattr__(self, "box", Box(**ranges))

    def __repr__(self) -> str:
        ranges = repr(self.box)[len("Box(") : -1]
        return f"Inside({', '.join(self.arguments)} -> ...; {ranges})"

    @property
    def names(self) -> tuple[str, ...]:
        return self.box.names

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        own = tuple(name for name in self.arguments if name not in self.names)
        return (*self.box.quantities, Quantity(self.function, own))

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        return (ZeroSet(self), *self.box.surfaces)

    def level(self, at: Named, xp: ModuleType) -> Any:
        """f / |∇f|, the distance to first order, or how far outside of the box a point lies."""
        value, slope = self.slope(at, xp)
        length = xp.sqrt(sum(part**2 for part in slope.values()))
        tiny = np.finfo(np.float32).tiny
        return xp.maximum(value / xp.maximum(length, tiny), self.box.level(at, xp))

    def slope(self, at: Named, xp: ModuleType) -> tuple[Any, dict[str, Any]]:
        """The function and its derivative by each coordinate."""
        used = {name: at[name] for name in {*self.arguments, *self.names}}
        run = _slope(self.function, self.arguments, self.names)
        if xp is not np:
            return run.program(used)
        value, slope = run(used)
        return np.asarray(value), {name: np.asarray(part) for name, part in slope.items()}

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        return self.box.extent(at, xp)

    def validate(self, at: Named) -> None:
        """The function has a number at every point of the box: what has none is no region."""
        self.box.validate(at)
        unit, extent = unit_sobol(TRIED, self.dim, 3), self.box.extent(at, np).items()
        place = {n: low + (high - low) * unit[:, i] for i, (n, (low, high)) in enumerate(extent)}
        try:
            value, _ = self.slope({**at, **place}, np)
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise Invalid(f"{self!r} fails: {type(error).__name__}: {reason}") from error
        if np.isnan(value).any():
            bad = int(np.argmax(np.isnan(value)))
            where = ", ".join(f"{name} = {place[name][bad]:g}" for name in self.names)
            raise Invalid(f"{self!r} is NaN at points such as ({where})")

    def to_json(self) -> dict[str, Any]:
        function = function_json(self.function, self.arguments)
        return {"kind": "Inside", "function": function, "box": self.box.to_json()}


@lru_cache(maxsize=64)
def _slope(
    function: Callable[..., Any], arguments: tuple[str, ...], names: tuple[str, ...]
) -> Seldom:
    """The function and its slope, compiled once: pointwise, on arrays that broadcast."""

    def total(place: dict[str, Array], rest: dict[str, Array]) -> tuple[Array, Array]:
        both = place | rest
        value = jnp.asarray(function(*(both[name] for name in arguments)))
        return jnp.sum(value), value

    def run(at: Mapping[str, Any]) -> tuple[Array, dict[str, Array]]:
        shape = jnp.broadcast_shapes(*(jnp.shape(value) for value in at.values()))
        at = {name: jnp.broadcast_to(value, shape) for name, value in at.items()}
        place = {name: at[name] for name in names}
        # The function is pointwise: the slope of the sum has every point's own.
        rest = {name: at[name] for name in at if name not in names}
        slope, value = jax.grad(total, has_aux=True)(place, rest)
        return jnp.broadcast_to(value, shape), slope

    return Seldom(run, jax.jit(run))


@final
@dataclass(frozen=True)
class ZeroSet(Surface):
    """Where the function of an implicit region vanishes.

    Buffon's needles: a segment of length h with a uniform end and a uniform direction crosses an
    element of area dA with probability h c dA / V, c the mean |cosine| of the angle to its normal,
    whatever that normal is. Crossings are thus uniform on the surface, without a parametrisation;
    needles that cross nothing are void. Each crossing is bracketed, halved and polished by Newton.
    """

    region: Inside

    @property
    def names(self) -> tuple[str, ...]:
        return self.region.names

    @property
    def unit_dim(self) -> int:
        return 2 * self.region.dim

    def points(self, unit: Any, at: Named, xp: ModuleType) -> dict[str, Any]:
        from lcpinn.shape.ball import direction

        dim, length, extent = self.region.dim, self._length(at, xp), self._padded(at, xp)
        way = direction(unit[..., dim:], dim, xp)
        start, needle = {}, {}
        for i, (name, (low, high)) in enumerate(extent.items()):
            start[name] = low + (high - low) * unit[..., i]
            needle[name] = length * way[i]

        def along(share: Any) -> dict[str, Any]:
            return {name: start[name] + share * needle[name] for name in self.names}

        low, high = xp.zeros_like(unit[..., 0]), xp.ones_like(unit[..., 0])
        first, last = self._value(along(low), at, xp), self._value(along(high), at, xp)
        crossed = (first < 0) != (last < 0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            same = (self._value(along(middle), at, xp) < 0) == (first < 0)
            low, high = xp.where(same, middle, low), xp.where(same, high, middle)
        share = (low + high) / 2
        for _ in range(NEWTON):
            value, slope = self.region.slope({**at, **along(share)}, xp)
            rate = sum(slope[name] * needle[name] for name in self.names)
            step = value / xp.where(rate == 0, 1.0, rate)
            share = xp.clip(share - step, low, high)
        return {name: xp.where(crossed, value, xp.nan) for name, value in along(share).items()}

    def measure(self, at: Named, xp: ModuleType) -> Any:
        dim = self.region.dim
        cosine = math.gamma(dim / 2) / (math.sqrt(math.pi) * math.gamma((dim + 1) / 2))
        volume = math.prod(high - low for low, high in self._padded(at, xp).values())
        return volume / (cosine * self._length(at, xp))

    def distance(self, at: Named, xp: ModuleType) -> Any:
        value, slope = self.region.slope(at, xp)
        length = xp.sqrt(sum(part**2 for part in slope.values()))
        return xp.abs(value) / xp.maximum(length, np.finfo(np.float32).tiny)

    def normal(self, at: Named, xp: ModuleType) -> dict[str, Any]:
        _, slope = self.region.slope(at, xp)
        length = xp.sqrt(sum(part**2 for part in slope.values()))
        return {name: part / length for name, part in slope.items()}

    def _value(self, place: Named, at: Named, xp: ModuleType) -> Any:
        both = {**at, **place}
        return xp.asarray(self.region.function(*(both[name] for name in self.region.arguments)))

    def _length(self, at: Named, xp: ModuleType) -> Any:
        """A needle is short against the box, and long against what rounding can tell apart."""
        extent = self.region.extent(at, xp)
        length = math.inf
        for low, high in extent.values():
            length = xp.minimum(length, high - low)
        return NEEDLE * length

    def _padded(self, at: Named, xp: ModuleType) -> Extent:
        """The box that needles begin in: a needle may reach the region from outside of its box."""
        length = self._length(at, xp)
        extent = self.region.extent(at, xp)
        return {name: (low - length, high + length) for name, (low, high) in extent.items()}
