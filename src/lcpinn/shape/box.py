"""Boxes: points inside and on faces, with the rules that only a tensor product has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float

from lcpinn.checks import checked_count, checked_range
from lcpinn.errors import LcpinnError
from lcpinn.precision import ROUNDING, floating, host_or_device
from lcpinn.quadrature import Rule, tensor, tensor_rule, unit_gauss, unit_grid, unit_sobol
from lcpinn.shape.base import Extent, Invalid, Shape, Surface
from lcpinn.shape.place import Face, Part, Place, as_face
from lcpinn.shape.quantity import Named, Quantity, Size, quantity, quantity_from_json


@final
@dataclass(frozen=True)
class Periodic:
    """A periodic coordinate: high is the same point as low, and there are no faces."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = checked_range("Periodic", (self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


class Coordinate(NamedTuple):
    """One coordinate of a box; its ends are numbers unless the box is a part of a shape."""

    name: str
    low: Any
    high: Any
    periodic: bool

    @property
    def ends(self) -> tuple[Quantity, Quantity]:
        """Low and high as quantities."""
        return quantity(self.name, self.low), quantity(self.name, self.high)


@final
@dataclass(frozen=True, init=False, repr=False)
class Box(Shape):
    """A box of named coordinates: Box(t=(0, 1), x=Periodic(-1, 1)).

    Points are arrays (num, dim), in the order of names. Weights sum to one: rules give means. Ends
    may depend on parameters, Box(x=(0, "L")): then the box is a shape like any other.
    """

    coordinates: tuple[Coordinate, ...]

    def __init__(self, /, **ranges: tuple[Size, Size] | Periodic) -> None:
        if not ranges:
            raise LcpinnError("Box() names no coordinate; write Box(x=(low, high))")
        made = tuple(_coordinate(name, value) for name, value in ranges.items())
        object.__setattr__(self, "coordinates", made)

    def __repr__(self) -> str:
        parts = (
            f"{axis.name}={'Periodic' if axis.periodic else ''}({', '.join(map(repr, axis.ends))})"
            for axis in self.coordinates
        )
        return f"Box({', '.join(parts)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates' names, in the order of a point's entries."""
        return tuple(coordinate.name for coordinate in self.coordinates)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Name -> (low, high)."""
        if self.parameters:
            raise LcpinnError(f"{self!r} depends on parameters; ask family.domain for its ranges")
        return {name: (low, high) for name, low, high, _ in self.coordinates}

    @property
    def periodic(self) -> tuple[str, ...]:
        """The names of the periodic coordinates."""
        return tuple(coordinate.name for coordinate in self.coordinates if coordinate.periodic)

    @property
    def volume(self) -> float:
        """The product of the lengths."""
        return math.prod(high - low for _, low, high, _ in self.coordinates)

    def face(self, name: str, value: float) -> Face:
        """The face where the coordinate name has this value, which must be one of its ends."""
        if name not in self.names:
            has = ", ".join(self.names)
            raise LcpinnError(f"there is no coordinate {name}; the domain has {has}")
        if name in self.periodic:
            raise LcpinnError(f"{name} is periodic and has no faces")
        low, high = self.ranges[name]
        slack = min(ROUNDING * max(abs(low), abs(high)), (high - low) / 4)
        for end in (low, high):
            if abs(value - end) <= slack:
                return Face(name, end)
        raise LcpinnError(
            f"{name} = {value} is not a face of the domain; its faces are {low} and {high}"
        )

    # Maps

    def to_unit(self, points: ArrayLike) -> Float[Array | np.ndarray, "*batch dim"]:
        """Points to the unit cube: (x - low) / (high - low)."""
        x = floating(points)
        low, high = _ends(self.coordinates, jnp, x.dtype)
        return (x - low) / (high - low)

    def from_unit(self, unit: ArrayLike) -> Float[Array | np.ndarray, "*batch dim"]:
        """The inverse of to_unit: low (1 - s) + high s."""
        return _scale(self.coordinates, *host_or_device(unit))

    def normalise(self, points: ArrayLike) -> Float[Array, "*batch dim"]:
        """Points as the network sees them, 2 to_unit(points) - 1, in [-1, 1]."""
        return jnp.asarray(2 * self.to_unit(points) - 1)

    # Points. What depends on parameters in other shapes does not here: they are ignored.

    def random(
        self,
        key: Array,
        num: int,
        *,
        face: Place = None,
        dtype: DTypeLike = float,
        parameters: ArrayLike | None = None,
    ) -> Float[Array, "num dim"]:
        """Draw num independent uniform points, inside or on a face."""
        del parameters
        free = self._free(face)
        unit = jax.random.uniform(key, (num, len(free)), dtype)
        return self._on(face, _scale(free, unit, jnp), jnp)

    def sobol(
        self,
        num: int,
        seed: int = 0,
        *,
        face: Place = None,
        parameters: ArrayLike | None = None,
    ) -> Float[np.ndarray, "num dim"]:
        """Scrambled Sobol points, inside or on a face."""
        del parameters
        free = self._free(face)
        return self._on(face, _scale(free, unit_sobol(num, len(free), seed), np), np)

    def gauss(
        self, num: int | Mapping[str, int], *, face: Place = None
    ) -> tuple[Float[np.ndarray, "num dim"], Float[np.ndarray, " num"]]:
        """Tensor Gauss-Legendre rule, inside or on a face: points (n, dim), weights (n,).

        num is about the total (its root is taken per coordinate), or a count by name. Periodic
        coordinates have the trapezoidal rule, exact there for trigonometric polynomials.
        """
        free = self._free(face)
        counts = self._counts(num, free)
        rules = [_rule(axis, count) for axis, count in zip(free, counts, strict=True)]
        unit, weights = tensor_rule(rules)
        return self._on(face, _scale(free, unit, np), np), weights

    def unit_dim(self, face: Place = None) -> int:
        """The dimension of the unit cube that `place` maps to the box, or to a face."""
        return len(self._free(face))

    def place(
        self, unit: np.ndarray, parameters: np.ndarray, face: Place = None, seed: int = 0
    ) -> Float[np.ndarray, "num dim"]:
        """Points of the unit cube (num, unit_dim) to the box, or to a face."""
        del parameters, seed
        if face is None:
            return np.array(self.from_unit(unit))
        face = as_face(face)
        column = self.names.index(face.name)
        points = np.array(self.from_unit(np.insert(unit, column, 0.0, axis=1)))
        points[:, column] = face.value
        return points

    def rule(
        self, num: int, parameters: np.ndarray, face: Place = None, seed: int = 0
    ) -> tuple[Float[np.ndarray, "l n dim"], Float[np.ndarray, " n"]]:
        """The Gauss rule at each of the parameters (l, p), and its weights."""
        del seed
        points, weights = self.gauss(num, face=face)
        return np.broadcast_to(points, (len(parameters), *points.shape)), weights

    def normals(
        self, points: Any, parameters: Any, faces: Sequence[Face | Part], xp: ModuleType = np
    ) -> Any:
        """Outward normals (..., dim) at points on faces: those of the nearest one."""
        del parameters
        own = [as_face(face) for face in faces]
        axes = [self.names.index(face.name) for face in own]
        gaps = [xp.abs(points[..., i] - f.value) for i, f in zip(axes, own, strict=True)]
        nearest = xp.argmin(xp.stack(gaps), axis=0)
        table = np.zeros((len(own), self.dim))
        for row, (axis, face) in enumerate(zip(axes, own, strict=True)):
            table[row, axis] = 1.0 if face.value == self.ranges[face.name][1] else -1.0
        return xp.asarray(table, points.dtype)[nearest]

    def covers(self, points: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Where a solution answers: everywhere, since beyond a box it may be extrapolated."""
        del parameters
        return np.ones(points.shape[:-1], bool)

    def grid(self, num: int | Mapping[str, int]) -> Float[np.ndarray, "num dim"]:
        """Tensor grid of equispaced points with both ends; periodic ends appear once.

        num is about the total (its root is taken per coordinate), or a count by name.
        """
        counts = self._counts(num, self.coordinates)
        nodes = [
            np.arange(checked_count(count)) / count if axis.periodic else unit_grid(count)
            for axis, count in zip(self.coordinates, counts, strict=True)
        ]
        return _scale(self.coordinates, tensor(nodes), np)

    def to_json(self) -> dict[str, Any]:
        """The box as plain JSON; coordinates are a list, since their order matters."""
        axes = [
            {**axis._asdict(), "low": axis.ends[0].to_json(), "high": axis.ends[1].to_json()}
            for axis in self.coordinates
        ]
        return {"kind": "Box", "coordinates": axes}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Box:
        """The box that to_json wrote; checked as if the user had written it."""
        try:
            ranges: dict[str, tuple[Size, Size] | Periodic] = {}
            for axis in data["coordinates"]:
                low, high = (quantity_from_json(axis[end]).value for end in ("low", "high"))
                ends: Any = low, high
                ranges[str(axis["name"])] = Periodic(*ends) if axis["periodic"] else ends
        except (KeyError, TypeError):
            raise LcpinnError("this is not a domain: its JSON is incomplete") from None
        return Box(**ranges)

    # As a shape

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return tuple(end for axis in self.coordinates for end in axis.ends)

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        flat = [i for i, axis in enumerate(self.coordinates) if not axis.periodic]
        return tuple(Side(self, axis, end) for axis in flat for end in (0, 1))

    def level(self, at: Named, xp: ModuleType) -> Any:
        level = -xp.inf
        for axis in self.coordinates:
            if not axis.periodic:
                low, high = (end(at, xp) for end in axis.ends)
                x = at[axis.name]
                level = xp.maximum(level, xp.maximum(low - x, x - high))
        return level

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        return {
            axis.name: (axis.ends[0](at, xp), axis.ends[1](at, xp)) for axis in self.coordinates
        }

    def validate(self, at: Named) -> None:
        for name, (low, high) in self.extent(at, np).items():
            if not low < high:
                raise Invalid(f"the range of {name} in {self!r} is ({low:g}, {high:g})")

    def _free(self, face: Place) -> tuple[Coordinate, ...]:
        """The coordinates that vary: all, or all but the one that the face fixes."""
        if face is None:
            return self.coordinates
        face = as_face(face)
        self.face(face.name, face.value)  # a face of another box is an error
        return tuple(axis for axis in self.coordinates if axis.name != face.name)

    def _on(self, face: Place, points: Any, xp: ModuleType) -> Any:
        """Put the face's value into its column of points that lack it."""
        if face is None:
            return points
        face = as_face(face)
        at = self.names.index(face.name)
        column = xp.full((len(points), 1), face.value, points.dtype)
        return xp.concatenate([points[:, :at], column, points[:, at:]], axis=1)

    def _counts(
        self, num: int | Mapping[str, int], free: tuple[Coordinate, ...]
    ) -> tuple[int, ...]:
        """Points along each free coordinate; counts of a fixed coordinate are ignored."""
        if not isinstance(num, Mapping):
            each = round(checked_count(num) ** (1 / max(len(free), 1)))
            return (each,) * len(free)
        for name in num:
            if name not in self.names:
                has = ", ".join(self.names)
                raise LcpinnError(f"there is no coordinate {name}; the domain has {has}")
        for axis in free:
            if axis.name not in num:
                raise LcpinnError(f"the number of points along {axis.name} is missing")
        return tuple(num[axis.name] for axis in free)


def _coordinate(name: str, value: Any) -> Coordinate:
    if isinstance(value, Periodic):
        return Coordinate(name, value.low, value.high, periodic=True)
    ends = value if isinstance(value, (tuple, list)) else ()
    if any(isinstance(end, str) or callable(end) for end in ends):
        if len(ends) != 2:
            raise LcpinnError(f"{name}: {value!r} is not a range; write (low, high)")
        low, high = (quantity(name, end).value for end in ends)
        return Coordinate(name, low, high, periodic=False)
    return Coordinate(name, *checked_range(name, value), periodic=False)


def _ends(axes: tuple[Coordinate, ...], xp: ModuleType, dtype: Any) -> tuple[Any, Any]:
    """Low and high, each (dim,), in dtype, so that it is kept."""
    low, high = [axis.low for axis in axes], [axis.high for axis in axes]
    return xp.asarray(low, dtype), xp.asarray(high, dtype)


def _scale(axes: tuple[Coordinate, ...], unit: Any, xp: ModuleType) -> Any:
    """Unit-cube points to the box of these coordinates; both ends are exact."""
    low, high = _ends(axes, xp, unit.dtype)
    return low * (1 - unit) + high * unit


def _rule(axis: Coordinate, num: int) -> Rule:
    """The one-dimensional rule of a coordinate, on the unit interval."""
    if not axis.periodic:
        return unit_gauss(num)
    # Half a cell off the ends: all nodes are interior, as Gauss nodes are, and neither end is
    # preferred to its copy.
    return (np.arange(checked_count(num)) + 0.5) / num, np.full(num, 1 / num)


@final
@dataclass(frozen=True)
class Side(Surface):
    """One face of a box that is a part of a shape: the low (0) or high (1) end of an axis."""

    box: Box
    axis: int
    end: int

    @property
    def names(self) -> tuple[str, ...]:
        return self.box.names

    @property
    def name(self) -> str:
        """The coordinate that is constant."""
        return self.names[self.axis]

    @property
    def value(self) -> Quantity:
        """The value of that coordinate."""
        return self.box.coordinates[self.axis].ends[self.end]

    @property
    def unit_dim(self) -> int:
        return self.box.dim - 1

    def points(self, unit: Any, at: Named, xp: ModuleType) -> dict[str, Any]:
        coordinates, column = {}, 0
        extent = self.box.extent(at, xp)
        for name, (low, high) in extent.items():
            if name == self.name:
                coordinates[name] = self.value(at, xp) + xp.zeros(unit.shape[:-1], unit.dtype)
            else:
                coordinates[name] = low + (high - low) * unit[..., column]
                column += 1
        return coordinates

    def measure(self, at: Named, xp: ModuleType) -> Any:
        extent = self.box.extent(at, xp)
        return math.prod(high - low for n, (low, high) in extent.items() if n != self.name)

    def distance(self, at: Named, xp: ModuleType) -> Any:
        gap = xp.abs(at[self.name] - self.value(at, xp))
        return xp.maximum(gap, self.box.level(at, xp))

    def normal(self, at: Named, xp: ModuleType) -> dict[str, Any]:
        zero = xp.zeros_like(at[self.name])
        out = 1.0 if self.end else -1.0
        return {name: zero + (out if name == self.name else 0.0) for name in self.names}
