"""Shapes made of shapes: what is in either, in both, in one and not the other, and products."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from lcpinn.errors import LcpinnError
from lcpinn.shape.base import Extent, Shape, Surface
from lcpinn.shape.quantity import Named, Quantity


@dataclass(frozen=True, repr=False)
class Combination(Shape):
    """Two shapes and what is done with them. The pieces of both may be boundary of the whole."""

    left: Shape
    right: Shape

    @property
    def parts(self) -> tuple[Shape, ...]:
        return self.left, self.right

    @property
    def names(self) -> tuple[str, ...]:
        left, right = self.left.names, self.right.names  # each once: many shapes may be nested
        return left if len(left) >= len(right) else right

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return (*self.left.quantities, *self.right.quantities)

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        return tuple(dict.fromkeys((*self.left.surfaces, *self.right.surfaces)))

    @property
    def periodic(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.left.periodic, *self.right.periodic)))

    def validate(self, at: Named) -> None:
        self.left.validate(at)
        self.right.validate(at)

    def to_json(self) -> dict[str, Any]:
        left, right = self.left.to_json(), self.right.to_json()
        return {"kind": type(self).__name__, "left": left, "right": right}


@final
@dataclass(frozen=True, repr=False)
class Difference(Combination):
    """What is in the left shape and not in the right one: `plate - hole`."""

    @staticmethod
    def of(left: Shape, right: Shape) -> Difference:
        _covered(left, right, "-")
        return Difference(left, right)

    def __repr__(self) -> str:
        return f"{_bracket(self.left, Union)} - {_bracket(self.right, Union, Difference)}"

    def level(self, at: Named, xp: ModuleType) -> Any:
        return xp.maximum(self.left.level(at, xp), -self.right.level(at, xp))

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        return self.left.extent(at, xp)


@final
@dataclass(frozen=True, repr=False)
class Union(Combination):
    """What is in either shape: `a | b`."""

    @staticmethod
    def of(left: Shape, right: Shape) -> Union:
        _covered(left, right, "|")
        _covered(right, left, "|")
        return Union(left, right)

    def __repr__(self) -> str:
        return f"{self.left!r} | {self.right!r}"

    def level(self, at: Named, xp: ModuleType) -> Any:
        return xp.minimum(self.left.level(at, xp), self.right.level(at, xp))

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        one, other = self.left.extent(at, xp), self.right.extent(at, xp)
        return {
            name: (xp.minimum(low, other[name][0]), xp.maximum(high, other[name][1]))
            for name, (low, high) in one.items()
        }


@final
@dataclass(frozen=True, repr=False)
class Intersection(Combination):
    """What is in both shapes: `a & b`."""

    @staticmethod
    def of(left: Shape, right: Shape) -> Intersection:
        wide, narrow = (left, right) if left.dim >= right.dim else (right, left)
        _covered(wide, narrow, "&")
        return Intersection(left, right)

    def __repr__(self) -> str:
        pair = (_bracket(part, Union, Difference) for part in self.parts)
        return " & ".join(pair)

    def level(self, at: Named, xp: ModuleType) -> Any:
        return xp.maximum(self.left.level(at, xp), self.right.level(at, xp))

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        one, other = self.left.extent(at, xp), self.right.extent(at, xp)
        extent: Extent = {}
        for name in self.names:
            ends = [extent[name] for extent in (one, other) if name in extent]
            low, high = ends[0]
            if len(ends) == 2:
                low, high = xp.maximum(low, ends[1][0]), xp.minimum(high, ends[1][1])
            extent[name] = (low, high)
        return extent


@final
@dataclass(frozen=True, repr=False)
class Product(Combination):
    """A shape along other coordinates, usually time: `Box(t=(0, 1)) * plate`."""

    @staticmethod
    def of(left: Shape, right: Shape) -> Product:
        shared = [name for name in right.names if name in left.names]
        if shared:
            raise LcpinnError(
                f"{left!r} * {right!r}: both have the coordinate {shared[0]}; "
                "a product joins different ones"
            )
        return Product(left, right)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.left.names, *self.right.names)

    def __repr__(self) -> str:
        pair = (_bracket(part, Union, Difference, Intersection) for part in self.parts)
        return " * ".join(pair)

    def level(self, at: Named, xp: ModuleType) -> Any:
        return xp.maximum(self.left.level(at, xp), self.right.level(at, xp))

    def extent(self, at: Named, xp: ModuleType) -> Extent:
        return self.left.extent(at, xp) | self.right.extent(at, xp)


def _covered(wide: Shape, narrow: Shape, sign: str) -> None:
    """The coordinates of the narrow shape have to be coordinates of the wide one."""
    extra = [name for name in narrow.names if name not in wide.names]
    if extra:
        has = ", ".join(wide.names)
        raise LcpinnError(
            f"{narrow!r} has the coordinate {extra[0]}, which what it is combined with by {sign} "
            f"does not have ({has})"
        )


def _bracket(shape: Shape, *kinds: type[Shape]) -> str:
    return f"({shape!r})" if isinstance(shape, kinds) else repr(shape)
