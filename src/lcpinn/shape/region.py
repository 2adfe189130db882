"""A shape together with the prior of its parameters: points inside and on its boundary.

Every row has a lambda of its own and its points are drawn for it, so that the distribution of
lambda is the prior's whatever the size of the shape. Inside, candidates are uniform in the bounding
box at that lambda; on the boundary, uniform over the surfaces of all shapes involved. A candidate
that is not inside, or not on the boundary of the whole, is drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, Float

from lcpinn.errors import LcpinnError
from lcpinn.precision import ROUNDING, double
from lcpinn.prior import Coefficients
from lcpinn.quadrature import unit_sobol
from lcpinn.shape.base import Shape, Surface
from lcpinn.shape.box import Box, Coordinate, Periodic, Side
from lcpinn.shape.place import Face, Part, Place

MOST_ROUNDS = 10_000  # candidates for a row, before the region counts as empty
BESIDE = 1e-3  # of the domain's size: a sensor on its boundary is written down with a few digits


@final
@dataclass(frozen=True, eq=False, repr=False)
class Region:
    """A domain that is no box of numbers. Points are (..., dim), parameters (..., p)."""

    shape: Shape
    prior: Coefficients

    @staticmethod
    def of(shape: Shape, prior: Coefficients, labels: tuple[tuple[str, Shape], ...]) -> Region:
        """The shape with its prior, once nothing is wrong with it at any lambda."""
        return _checked(shape, prior, labels)

    def __repr__(self) -> str:
        return repr(self.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Region)
            and self.shape == other.shape
            and self.prior.axes == other.prior.axes
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.prior.axes))

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates' names, in the order of a point's entries."""
        return self.shape.names

    @property
    def dim(self) -> int:
        """How many coordinates there are."""
        return self.shape.dim

    @property
    def periodic(self) -> tuple[str, ...]:
        """The names of the periodic coordinates."""
        return self.shape.periodic

    @property
    def moves(self) -> bool:
        """Whether the shape depends on a parameter that varies."""
        return any(name in self.prior.free for name in self.shape.parameters)

    @cached_property
    def box(self) -> Box:
        """The bounding box over all lambda."""
        with double():
            settings = self._named(None, self.settings(), np)
            extent = self.shape.extent(settings, np)
        ranges: dict[str, Any] = {}
        for name in self.names:
            low, high = float(np.min(extent[name][0])), float(np.max(extent[name][1]))
            ranges[name] = Periodic(low, high) if name in self.periodic else (low, high)
        return Box(**ranges)

    def box_at(self, parameters: np.ndarray) -> Box:
        """The bounding box at one setting (p,)."""
        with double():
            extent = self.shape.extent(self._named(None, np.asarray(parameters, float), np), np)
        ranges: dict[str, Any] = {}
        for name in self.names:
            low, high = map(float, extent[name])
            ranges[name] = Periodic(low, high) if name in self.periodic else (low, high)
        return Box(**ranges)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Name -> (low, high), over all lambda."""
        return self.box.ranges

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinates of the bounding box."""
        return self.box.coordinates

    @property
    def volume(self) -> float:
        """The volume of the bounding box."""
        return self.box.volume

    def settings(self) -> np.ndarray:
        """Values of lambda to look at, (n, p): a tensor grid with every corner."""
        used = sum(name in self.prior.free for name in self.shape.parameters)
        grid = self.prior.at(**_middle(self.prior, self.shape.parameters))
        return grid.clustered({0: 1, 1: 33, 2: 9, 3: 5}.get(used, 3))

    # Maps of the bounding box

    def to_unit(self, points: ArrayLike) -> Float[Array | np.ndarray, "*batch dim"]:
        """Points to the unit cube of the bounding box."""
        return self.box.to_unit(points)

    def from_unit(self, unit: ArrayLike) -> Float[Array | np.ndarray, "*batch dim"]:
        """The inverse of to_unit."""
        return self.box.from_unit(unit)

    def normalise(self, points: ArrayLike) -> Float[Array, "*batch dim"]:
        """Points as the network sees them, in [-1, 1]."""
        return self.box.normalise(points)

    def grid(self, num: int | Mapping[str, int]) -> Float[np.ndarray, "num dim"]:
        """A grid over the bounding box; `covers` says which of it is inside."""
        return self.box.grid(num)

    # What is inside

    def contains(self, **named: Any) -> np.ndarray:
        """Which named points are inside or on the boundary; held parameters need no naming."""
        values = {**self.prior.held, **named}
        for name, (low, high) in self._periods().items():
            if name in values:
                values[name] = low + np.mod(np.asarray(values[name], float) - low, high - low)
        return self.shape.contains(**values)

    def level_at(self, points: np.ndarray, parameters: np.ndarray) -> Float[np.ndarray, "*batch"]:
        """Negative inside, positive outside, and close to the boundary the distance from it."""
        with double():
            at = self._named(np.asarray(points, float), np.asarray(parameters, float), np)
            return np.broadcast_to(np.asarray(self._level(at, np)), points.shape[:-1])

    def traced_level(self, points: Array, parameters: Array) -> Array:
        """The same for JAX, traceable."""
        return self._level(self._named(points, parameters, jnp), jnp)

    def covers(self, points: np.ndarray, parameters: np.ndarray) -> Bool[np.ndarray, "*batch"]:
        """Which points a solution answers at: inside or on the boundary, up to rounding."""
        return self.level_at(points, parameters) <= ROUNDING * self._size

    def misplaced(
        self, points: np.ndarray, known: np.ndarray, *, at_every_setting: bool = False
    ) -> str:
        """The first of points (n, dim) that is clearly outside, in words; empty where none is.

        known (n, p) has the parameters of each, nan where one is unknown: then a point counts that
        is outside at some of its values, or at every one.
        """
        settings = self.settings()
        lam = np.where(np.isnan(known)[:, None], settings, known[:, None])
        place = np.broadcast_to(points[:, None], (*lam.shape[:2], self.dim))
        outside = self.level_at(place, lam) > BESIDE * self._size
        rows = outside.all(axis=1) if at_every_setting else outside.any(axis=1)
        if not rows.any():
            return ""
        row = int(np.argmax(rows))
        named = ", ".join(f"{n} = {v:.6g}" for n, v in zip(self.names, points[row], strict=True))
        varying = [n for n in self.shape.parameters if n in self.prior.free]
        unknown = [n for n in varying if np.isnan(known[row, self.prior.names.index(n)])]
        where = self.words(lam[row, int(np.argmax(outside[row]))])
        if at_every_setting and unknown:
            where = f"every {' and '.join(unknown)}"
        return f"the point {named} lies outside of the domain{where and ' at ' + where}"

    def _level(self, at: Mapping[str, Any], xp: ModuleType) -> Any:
        wrapped = {
            name: low + xp.mod(at[name] - low, high - low)
            for name, (low, high) in self._periods().items()
        }
        return self.shape.level({**at, **wrapped}, xp)

    def wrapped(self, points: np.ndarray) -> np.ndarray:
        """Points (n, dim) with periodic coordinates brought into their ranges."""
        points = points.copy()
        for name, (low, high) in self._periods().items():
            column = self.names.index(name)
            points[:, column] = low + np.mod(points[:, column] - low, high - low)
        return points

    def _periods(self) -> dict[str, tuple[float, float]]:
        return {name: self.ranges[name] for name in self.periodic}

    @cached_property
    def _size(self) -> float:
        return max(high - low for low, high in self.ranges.values())

    def _named(self, points: Any, parameters: Any, xp: ModuleType) -> dict[str, Any]:
        """Columns of points and parameters by name."""
        del xp
        at = {name: parameters[..., i] for i, name in enumerate(self.prior.names)}
        if points is not None:
            at |= {name: points[..., i] for i, name in enumerate(self.names)}
        return at

    # Boundaries

    def face(self, name: str, value: Any) -> Face:
        """The face where the coordinate name has this value, of whichever box has it."""
        if name not in self.names:
            has = ", ".join(self.names)
            raise LcpinnError(f"there is no coordinate {name}; the domain has {has}")
        if name in self.periodic:
            raise LcpinnError(f"{name} is periodic and has no faces")
        sides = [s for s in self.shape.surfaces if isinstance(s, Side) and s.name == name]
        for side in sides:
            end = side.value.value
            if end == value or self._close(end, value):
                return Face(name, end)  # pyright: ignore[reportArgumentType]
        has = " and ".join(dict.fromkeys(side.value.label for side in sides))
        said = f"its faces are {has}" if sides else f"it has no flat faces along {name}"
        raise LcpinnError(f"{name} = {value} is not a face of the domain; {said}")

    def part(self, shape: Shape, label: str) -> Part:
        """The part of the boundary that a shape makes."""
        own = self.shape.surfaces
        surfaces = tuple(s for s in shape.surfaces if s in own)
        if not surfaces or len(surfaces) < len(shape.surfaces):
            raise LcpinnError(f"{label} makes no boundary of the domain, which is {self!r}")
        return self._real(Part(label, surfaces))

    def boundary(self) -> Part:
        """The whole boundary."""
        return self._real(Part("boundary", self.shape.surfaces))

    def surfaces_of(self, place: Face | Part) -> tuple[Surface, ...]:
        """The surfaces that a face or a part of the boundary lies on."""
        if isinstance(place, Part):
            return place.surfaces
        sides = (side for side in self.shape.surfaces if isinstance(side, Side))
        return tuple(s for s in sides if s.name == place.name and s.value.value == place.value)

    def check_boundary(self, place: Face | Part, label: str) -> None:
        """An error where there is nothing of this boundary at some lambda."""
        shares = sum(self.shares[surface] for surface in self.surfaces_of(place))
        empty = np.flatnonzero(np.asarray(shares) == 0)
        if len(empty):
            settings = self.settings()
            where = "" if len(empty) == len(settings) else f" at {self.words(settings[empty[0]])}"
            raise LcpinnError(f"{label} makes no boundary of the domain{where}")

    def _real(self, part: Part) -> Part:
        """The part without surfaces that are nowhere boundary, at no lambda."""
        real = tuple(s for s in part.surfaces if np.any(self.shares[s] > 0))
        return Part(part.label, real or part.surfaces)

    def _close(self, end: Any, value: Any) -> bool:
        if not (isinstance(end, (int, float)) and isinstance(value, (int, float))):
            return False
        return abs(end - value) <= ROUNDING * max(abs(end), self._size)

    @cached_property
    def shares(self) -> dict[Surface, np.ndarray]:
        """Of every surface, the share of candidates that are boundary, at each of settings()."""
        settings, num = self.settings(), 512
        lam = np.repeat(settings, num, axis=0)
        shares = {}
        with double():
            for i, surface in enumerate(self.shape.surfaces):
                unit = unit_sobol(len(lam), self._surface_dim(surface), i)
                _, accepted = self._on(unit, lam, (surface,), np)
                shares[surface] = accepted.reshape(len(settings), num).mean(axis=1)
        return shares

    @cached_property
    def fill(self) -> np.ndarray:
        """The share of the bounding box that is inside, at each of settings()."""
        settings, num = self.settings(), 2048
        lam = np.repeat(settings, num, axis=0)
        with double():
            _, accepted = self._candidates(unit_sobol(len(lam), self.dim, 3), lam, None, np)
        return accepted.reshape(len(settings), num).mean(axis=1)

    def words(self, setting: np.ndarray) -> str:
        """The parameters that the shape depends on, in words."""
        pairs = zip(self.prior.names, setting, strict=True)
        return ", ".join(f"{n} = {v:.6g}" for n, v in pairs if n in self.shape.parameters)

    # Points

    def unit_dim(self, face: Place = None) -> int:
        """The dimension of the unit cube that `place` maps to the region or its boundary."""
        if face is None:
            return self.dim
        surfaces = self.surfaces_of(face)
        return (len(surfaces) > 1) + max(map(self._surface_dim, surfaces))

    def random(
        self,
        key: Array,
        num: int,
        *,
        face: Place = None,
        dtype: DTypeLike = float,
        parameters: ArrayLike | None = None,
    ) -> Float[Array, "num dim"]:
        """Draw num independent uniform points at parameters (p,) or (num, p); traceable."""
        lam = self._rows(jnp.asarray(self.given(parameters), dtype), num, jnp)
        tries, unit_dim = self._tries(face), self.unit_dim(face)

        def attempt(state: tuple[Array, ...]) -> tuple[Array, ...]:
            key, points, done, count = state
            key, own = jax.random.split(key)
            unit = jax.random.uniform(own, (tries, num, unit_dim), dtype)
            every = jnp.broadcast_to(lam, (tries, *lam.shape))
            candidates, accepted = self._candidates(unit, every, face, jnp)
            first = jnp.argmax(accepted, axis=0)
            chosen = jnp.take_along_axis(candidates, first[None, :, None], axis=0)[0]
            points = jnp.where(done[:, None], points, chosen)
            return key, points, done | jnp.any(accepted, axis=0), count + 1

        def unfinished(state: tuple[Array, ...]) -> Array:
            return ~jnp.all(state[2]) & (state[3] * tries < MOST_ROUNDS)

        start = (key, jnp.zeros((num, self.dim), dtype), jnp.zeros(num, bool), jnp.zeros((), int))
        return jax.lax.while_loop(unfinished, attempt, attempt(start))[1]

    def sobol(
        self,
        num: int,
        seed: int = 0,
        *,
        face: Place = None,
        parameters: ArrayLike | None = None,
    ) -> Float[np.ndarray, "num dim"]:
        """Scrambled Sobol points, inside or on the boundary, at parameters (p,) or (num, p)."""
        lam = self._rows(np.asarray(self.given(parameters), float), num, np)
        return self.place(unit_sobol(num, self.unit_dim(face), seed), lam, face, seed)

    def place(
        self, unit: np.ndarray, parameters: np.ndarray, face: Place = None, seed: int = 0
    ) -> Float[np.ndarray, "num dim"]:
        """Points of the unit cube (num, unit_dim) to the region or its boundary.

        Rows whose candidate is rejected are drawn again from further Sobol sets.
        """
        points = np.empty((len(unit), self.dim))
        pending, tries = np.arange(len(unit)), 1
        with double():
            for attempt in range(MOST_ROUNDS):
                lam = np.tile(parameters[pending], (tries, 1))
                candidates, accepted = self._candidates(unit, lam, face, np)
                accepted = accepted.reshape(tries, -1)
                first = np.argmax(accepted, axis=0) * len(pending) + np.arange(len(pending))
                points[pending] = candidates[first]
                pending = pending[~accepted.any(axis=0)]
                if not len(pending):
                    return points
                tries = max(self._tries(face), min(64, 1024 // len(pending)))
                fresh = seed + 104_729 * (attempt + 1)
                unit = unit_sobol(tries * len(pending), unit.shape[1], fresh)
                # In the order of the sequence they would go along with the rows' lambda.
                unit = np.random.default_rng(fresh).permutation(unit)
        where = self.words(parameters[pending[0]])
        raise LcpinnError(f"found no point of {self!r}{where and ' at ' + where}")

    def rule(
        self, num: int, parameters: np.ndarray, face: Place = None, seed: int = 0
    ) -> tuple[Float[np.ndarray, "l n dim"], Float[np.ndarray, " n"]]:
        """Sobol points at each of the parameters (l, p), of equal weight."""
        lam = np.repeat(parameters, num, axis=0)
        points = self.sobol(len(lam), seed, face=face, parameters=lam)
        return points.reshape(len(parameters), num, self.dim), np.full(num, 1 / num)

    def normals(
        self, points: Any, parameters: Any, faces: Sequence[Face | Part], xp: ModuleType = np
    ) -> Any:
        """Unit normals (..., dim) out of the region, at points of its boundary."""
        at = self._named(points, parameters, xp)
        surfaces = list(dict.fromkeys(s for face in faces for s in self.surfaces_of(face)))
        nearest, normal = xp.inf, xp.zeros_like(points)
        for surface in surfaces:
            distance = surface.distance(at, xp)
            own = self._stacked(surface.normal(at, xp), points, xp)
            normal = xp.where((distance < nearest)[..., None], own, normal)
            nearest = xp.minimum(nearest, distance)
        ahead, behind = self._sides(points, normal, parameters, xp)
        return xp.where((ahead < behind)[..., None], -normal, normal)

    # Candidates

    def given(self, parameters: ArrayLike | None) -> Any:
        """The parameters, or any where the shape does not depend on them."""
        if parameters is not None:
            return parameters
        if self.moves:
            raise LcpinnError(f"points of {self!r} depend on {', '.join(self.shape.parameters)}")
        return self.prior.from_unit(np.full(self.prior.dim, 0.5))

    def _rows(self, parameters: Any, num: int, xp: ModuleType) -> Any:
        return xp.broadcast_to(parameters, (num, self.prior.dim))

    def _tries(self, face: Place) -> int:
        """Candidates for a row at a time: about as many as it takes."""
        if face is None:
            share = float(np.min(self.fill))
        else:
            surfaces = self.surfaces_of(face)
            share = float(np.min(np.mean([self.shares[s] for s in surfaces], axis=0)))
        return int(np.clip(np.ceil(0.5 / max(share, 1e-3)), 1, 32))

    def _candidates(
        self, unit: Any, parameters: Any, face: Place, xp: ModuleType
    ) -> tuple[Any, Any]:
        """Points (..., dim) from the unit cube, and which of them to accept."""
        if face is not None:
            return self._on(unit, parameters, self.surfaces_of(face), xp)
        at = self._named(None, parameters, xp)
        extent = self.shape.extent(at, xp)
        parts = [extent[n][0] + (extent[n][1] - extent[n][0]) * unit[..., i]
                 for i, n in enumerate(self.names)]  # fmt: skip
        points = xp.stack(parts, axis=-1)
        return points, self._level(self._named(points, parameters, xp), xp) < 0

    def _surface_dim(self, surface: Surface) -> int:
        """A surface stretches along every coordinate that its own shape does not have."""
        return surface.unit_dim + self.dim - len(surface.names)

    def _on(
        self, unit: Any, parameters: Any, surfaces: Sequence[Surface], xp: ModuleType
    ) -> tuple[Any, Any]:
        """Points of surfaces, each chosen in proportion to its measure; and which are boundary."""
        at = self._named(None, parameters, xp)
        extent = self.shape.extent(at, xp)
        ends = [0.0]
        for surface in surfaces:
            area = surface.measure(at, xp)
            for name in self._extra(surface):
                area = area * (extent[name][1] - extent[name][0])
            ends.append(ends[-1] + area)
        choice = unit[..., -1] * ends[-1] if len(surfaces) > 1 else None
        points = normal = xp.zeros((*unit.shape[:-1], self.dim), unit.dtype)
        for surface, low, high in zip(surfaces, ends, ends[1:], strict=False):
            if choice is None:
                points, normal = self._surface_points(surface, unit, parameters, xp)
                continue
            chosen = (choice >= low) & (choice < high)
            if xp is np:  # only the rows that it is for
                rows = self._surface_points(surface, unit[chosen], parameters[chosen], xp)
                points, normal = points.copy(), normal.copy()
                points[chosen], normal[chosen] = rows
                continue
            rows = self._surface_points(surface, unit, parameters, xp)
            points, normal = (
                xp.where(chosen[..., None], new, old)
                for new, old in zip(rows, (points, normal), strict=True)
            )
        ahead, behind = self._sides(points, normal, parameters, xp)
        return points, (ahead < 0) != (behind < 0)

    def _extra(self, surface: Surface) -> list[str]:
        """Coordinates along which a surface stretches, since its own shape does not have them."""
        return [name for name in self.names if name not in surface.names]

    def _surface_points(
        self, surface: Surface, unit: Any, parameters: Any, xp: ModuleType
    ) -> tuple[Any, Any]:
        """Points (..., dim) of one surface and its own normals there."""
        at = self._named(None, parameters, xp)
        extent = self.shape.extent(at, xp)
        place = surface.points(unit[..., : surface.unit_dim], at, xp)
        for column, name in enumerate(self._extra(surface), surface.unit_dim):
            start, end = extent[name]
            place[name] = start + (end - start) * unit[..., column]
        normal = surface.normal({**at, **place}, xp)
        like = xp.zeros((*unit.shape[:-1], self.dim), unit.dtype)
        return self._stacked(place, like, xp), self._stacked(normal, like, xp)

    def _sides(self, points: Any, normal: Any, parameters: Any, xp: ModuleType) -> tuple[Any, Any]:
        """The level of the whole shape just before and just behind a surface.

        Boundary of the whole is where it is inside on one side and outside on the other: that also
        holds where surfaces of several shapes coincide. nan, a void candidate, is on no side.
        """
        step = 1e3 * float(np.finfo(points.dtype).eps) * self._size
        ahead = self._level(self._named(points + step * normal, parameters, xp), xp)
        behind = self._level(self._named(points - step * normal, parameters, xp), xp)
        return ahead, behind

    def _stacked(self, place: Mapping[str, Any], like: Any, xp: ModuleType) -> Any:
        """Columns by name as (..., dim); coordinates that are missing are zero."""
        zero = xp.zeros(like.shape[:-1], like.dtype)
        columns = [xp.broadcast_to(place.get(name, zero), zero.shape) for name in self.names]
        return xp.stack(columns, axis=-1).astype(like.dtype)

    def to_json(self) -> dict[str, Any]:
        """The shape as plain JSON; the prior stands beside it in a model file."""
        return self.shape.to_json()


@lru_cache(maxsize=64)
def _checked(shape: Shape, prior: Coefficients, labels: tuple[tuple[str, Shape], ...]) -> Region:
    from lcpinn.shape.validity import check

    region = Region(shape, prior)
    with double():
        check(region, labels)
    return region


def _middle(prior: Coefficients, used: Sequence[str]) -> dict[str, float]:
    """The middle of every coefficient that a shape does not depend on."""
    middle = np.asarray(prior.from_unit(np.full(prior.dim, 0.5)), float)
    pairs = zip(prior.names, middle, strict=True)
    return {name: float(value) for name, value in pairs if name not in used}
