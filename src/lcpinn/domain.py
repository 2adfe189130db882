"""The domain of the coordinates: points inside it and on its faces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float, Int

from lcpinn.checks import checked_count, checked_range
from lcpinn.errors import LcpinnError
from lcpinn.precision import ROUNDING, floating, host_or_device
from lcpinn.quadrature import Rule, tensor, tensor_rule, unit_gauss, unit_grid, unit_sobol


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


@final
@dataclass(frozen=True)
class Face:
    """The part of a box's boundary where one coordinate has the value of an end."""

    name: str
    value: float


class Coordinate(NamedTuple):
    """One coordinate of a box."""

    name: str
    low: float
    high: float
    periodic: bool


@final
@dataclass(frozen=True, init=False, repr=False)
class Box:
    """A box of named coordinates: Box(t=(0, 1), x=Periodic(-1, 1)).

    Points are arrays (num, dim), in the order of names. Weights sum to one: rules give means.
    """

    coordinates: tuple[Coordinate, ...]

    def __init__(self, /, **ranges: tuple[float, float] | Periodic) -> None:
        if not ranges:
            raise LcpinnError("Box() names no coordinate; write Box(x=(low, high))")
        made = tuple(_coordinate(name, value) for name, value in ranges.items())
        object.__setattr__(self, "coordinates", made)

    def __repr__(self) -> str:
        parts = (
            f"{name}={'Periodic' if periodic else ''}({low}, {high})"
            for name, low, high, periodic in self.coordinates
        )
        return f"Box({', '.join(parts)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates' names, in the order of a point's entries."""
        return tuple(coordinate.name for coordinate in self.coordinates)

    @property
    def dim(self) -> int:
        """How many coordinates there are."""
        return len(self.coordinates)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Name -> (low, high)."""
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

    # Points

    def random(
        self, key: Array, num: int, *, face: Face | None = None, dtype: DTypeLike = float
    ) -> Float[Array, "num dim"]:
        """Draw num independent uniform points, inside or on a face."""
        free = self._free(face)
        unit = jax.random.uniform(key, (num, len(free)), dtype)
        return self._on(face, _scale(free, unit, jnp), jnp)

    def sobol(
        self, num: int, seed: int = 0, *, face: Face | None = None
    ) -> Float[np.ndarray, "num dim"]:
        """Scrambled Sobol points, inside or on a face."""
        free = self._free(face)
        return self._on(face, _scale(free, unit_sobol(num, len(free), seed), np), np)

    def gauss(
        self, num: int | Mapping[str, int], *, face: Face | None = None
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
        return {"kind": "Box", "coordinates": [axis._asdict() for axis in self.coordinates]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Box:
        """The box that to_json wrote; checked as if the user had written it."""
        try:
            ranges: dict[str, tuple[float, float] | Periodic] = {}
            for axis in data["coordinates"]:
                ends = axis["low"], axis["high"]
                ranges[str(axis["name"])] = Periodic(*ends) if axis["periodic"] else ends
        except (KeyError, TypeError):
            raise LcpinnError("this is not a domain: its JSON is incomplete") from None
        return Box(**ranges)

    def _free(self, face: Face | None) -> tuple[Coordinate, ...]:
        """The coordinates that vary: all, or all but the one that the face fixes."""
        if face is None:
            return self.coordinates
        self.face(face.name, face.value)  # a face of another box is an error
        return tuple(axis for axis in self.coordinates if axis.name != face.name)

    def _on(self, face: Face | None, points: Any, xp: ModuleType) -> Any:
        """Put the face's value into its column of points that lack it."""
        if face is None:
            return points
        return xp.insert(points, self.names.index(face.name), face.value, axis=1)

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


def redraw(
    key: Array, candidates: Float[Array, "n dim"], scores: Float[Array, " scores"], num: int
) -> Int[Array, " num"]:
    """Indices of num candidates, drawn without replacement where the residual is large.

    Candidate i has probability proportional to s_i + mean(s), its score s_i >= 0 plus a floor
    that keeps every region seen (Wu et al. 2023, RAD with k = c = 1). The largest num of
    log p_i + Gumbel noise are such a draw, and have a fixed shape under jit.
    """
    if len(candidates) != len(scores):
        raise LcpinnError(f"there are {len(candidates)} candidates but {len(scores)} scores")
    if num > len(candidates):
        raise LcpinnError(f"cannot redraw {num} of {len(candidates)} candidates")
    scores = floating(scores)
    # The least positive float keeps all-zero scores a uniform draw instead of a row of -inf.
    chance = scores + jnp.mean(scores) + jnp.finfo(scores.dtype).tiny
    noise = jax.random.gumbel(key, scores.shape, scores.dtype)
    return jax.lax.top_k(jnp.log(chance) + noise, num)[1]
