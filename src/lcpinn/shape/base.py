"""What every shape knows: what is inside, its surfaces, and how shapes combine.

Coordinates and parameters travel together, as named arrays that broadcast: `at["x"]`, `at["r"]`.
Everything works on NumPy's arrays and on traced JAX ones; `xp` is the module to compute with.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.precision import ROUNDING, double
from lcpinn.shape.quantity import Named, Quantity

if TYPE_CHECKING:
    from lcpinn.shape.combination import Difference, Intersection, Product, Union

Extent = dict[str, tuple[Any, Any]]  # name -> (low, high), numbers or an array over lambda


class Shape(ABC):
    """A region of named coordinates whose sizes may depend on parameters."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The coordinates' names, in the order of a point's entries."""

    @property
    @abstractmethod
    def quantities(self) -> tuple[Quantity, ...]:
        """Every size and position."""

    @property
    @abstractmethod
    def surfaces(self) -> tuple[Surface, ...]:
        """The pieces that a boundary of this shape is made of."""

    @abstractmethod
    def level(self, at: Named, xp: ModuleType) -> Any:
        """Negative inside and positive outside; close to the boundary, the distance from it."""

    @abstractmethod
    def extent(self, at: Named, xp: ModuleType) -> Extent:
        """The bounding box at named parameters."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The shape as plain JSON; `shape_from_json` reads it back."""

    def validate(self, at: Named) -> None:
        """Raise what is wrong with sizes at these parameters, as `Invalid`; nothing by default."""
        del at

    @property
    def parts(self) -> tuple[Shape, ...]:
        """The shapes that this one was combined from; none if it is a simple one."""
        return ()

    @property
    def periodic(self) -> tuple[str, ...]:
        """The names of the periodic coordinates."""
        return ()

    @property
    def dim(self) -> int:
        """How many coordinates there are."""
        return len(self.names)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that sizes and positions depend on."""
        return tuple(dict.fromkeys(n for q in self.quantities for n in q.arguments))

    def contains(self, **named: Any) -> np.ndarray:
        """Which named points are inside or on the boundary, up to rounding; broadcasts."""
        needed = (*self.names, *self.parameters)
        missing = [name for name in needed if name not in named]
        if missing:
            raise LcpinnError(f"missing {', '.join(missing)} to say what is inside of {self!r}")
        with double():
            at = {name: np.asarray(value, float) for name, value in named.items()}
            extent = self.extent(at, np)
            size = functools.reduce(np.maximum, (high - low for low, high in extent.values()))
            shape = np.broadcast_shapes(*(array.shape for array in at.values()))
            inside = np.asarray(self.level(at, np)) <= ROUNDING * size
            return np.broadcast_to(inside, shape)

    def __sub__(self, other: object) -> Difference:
        """What is in this shape and not in the other."""
        from lcpinn.shape.combination import Difference

        return Difference.of(self, other) if isinstance(other, Shape) else NotImplemented

    def __or__(self, other: object) -> Union:
        """What is in either shape."""
        from lcpinn.shape.combination import Union

        return Union.of(self, other) if isinstance(other, Shape) else NotImplemented

    def __and__(self, other: object) -> Intersection:
        """What is in both shapes."""
        from lcpinn.shape.combination import Intersection

        return Intersection.of(self, other) if isinstance(other, Shape) else NotImplemented

    def __mul__(self, other: object) -> Product:
        """The product of shapes in different coordinates: a shape through time."""
        from lcpinn.shape.combination import Product

        return Product.of(self, other) if isinstance(other, Shape) else NotImplemented


class Surface(ABC):
    """A piece of a shape's boundary that points can be drawn on.

    `points` maps the unit cube to it. Uniform points of the cube land on an element of area dA with
    probability dA / measure: surfaces that are chosen in proportion to their measures are covered
    evenly, by what is not void (nan).
    """

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The coordinates of the shape that it belongs to."""

    @property
    @abstractmethod
    def unit_dim(self) -> int:
        """The dimension of the unit cube that is mapped to the surface."""

    @abstractmethod
    def points(self, unit: Any, at: Named, xp: ModuleType) -> dict[str, Any]:
        """Coordinates by name, each (n,), from unit (n, unit_dim) and parameters (n,)."""

    @abstractmethod
    def measure(self, at: Named, xp: ModuleType) -> Any:
        """The area, or a multiple of it where only a share of the unit cube is not void."""

    @abstractmethod
    def distance(self, at: Named, xp: ModuleType) -> Any:
        """How far named points are from the surface."""

    @abstractmethod
    def normal(self, at: Named, xp: ModuleType) -> dict[str, Any]:
        """The unit normal out of the shape, by coordinate, at points of the surface."""


class Invalid(Exception):
    """A size that makes no sense at some parameters; whoever knows them says at which."""
