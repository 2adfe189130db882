"""One residual term: where it holds, what its arguments mean, and its value at a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.domain import Face, Part
from lcpinn.errors import LcpinnError
from lcpinn.jet import MultiIndex, Orders, factorial
from lcpinn.shape import Shape

# -- Marks that turn a method into a term --------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """Where a term holds: inside the domain (None), on faces, or on the boundary that shapes make.

    Neither faces nor shapes means the whole boundary.
    """

    faces: tuple[tuple[str, Any], ...] | None
    shapes: tuple[Shape, ...] = ()


def interior(method: Callable) -> Callable:
    """The method's residual vanishes inside the domain."""
    method._lcpinn_mark = Mark(None)  # pyright: ignore[reportFunctionMemberAccess]
    return method


def on(*shapes: Shape, **faces: float | str | Sequence[float]) -> Callable[[Callable], Callable]:
    """The method's residual vanishes on faces: `@on(t=0.0)`, or both with `@on(x=(0.0, 1.0))`.

    `@on(hole)` is the part of the domain's boundary that this shape makes, and `@on()` all of it.
    """
    for shape in shapes:
        if not isinstance(shape, Shape):
            raise LcpinnError(f"@lc.on({shape!r}): name a shape, or a face such as x=0.0")
    pairs = tuple((name, v) for name, value in faces.items() for v in _ends(value))

    def mark(method: Callable) -> Callable:
        method._lcpinn_mark = Mark(pairs, shapes)  # pyright: ignore[reportFunctionMemberAccess]
        return method

    return mark


def _ends(value: Any) -> tuple[Any, ...]:
    """The values of a coordinate on its faces: numbers, or whatever the box has for an end."""
    if isinstance(value, str) or callable(value):
        return (value,)
    return tuple(float(v) for v in np.atleast_1d(value))


# -- Terms, once their names are bound -----------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """One argument of a user's method: what kind of name it is and where to find it."""

    name: str
    kind: str  # output | coordinate | parameter | point | observed | normal | normal derivative
    position: int = 0
    indices: tuple[MultiIndex, ...] = ()


@dataclass(frozen=True, eq=False)
class Term:
    """A residual with its arguments bound; `where` keys the points that it shares with others."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    faces: tuple[Face | Part, ...]
    where: str

    @property
    def indices(self) -> tuple[MultiIndex, ...]:
        return tuple(i for a in self.arguments for i in a.indices)

    @property
    def asks_normals(self) -> bool:
        """Whether an argument is a component of the normal, or a derivative along it."""
        return any(a.kind.startswith("normal") for a in self.arguments)

    def residual(
        self,
        series: Array,
        orders: Orders,
        point: Array,
        parameters: Array,
        observed: Array | None = None,
        normal: Array | None = None,
    ) -> Array:
        """The residual's components at one point; series is (len(orders), outputs)."""  # fmt: skip
        values = [
            lookup(a, series, orders, point, parameters, observed, normal) for a in self.arguments
        ]
        try:
            value = self.function(*values)
        except Exception as error:  # the user's own, and stays what it is
            error.add_note(f"raised by the term {self.name!r}")
            raise
        return _checked(self.name, value)


def lookup(argument: Argument, series: Array, orders: Orders, point: Array, parameters: Array,
            observed: Array | None, normal: Array | None = None) -> Array:  # fmt: skip
    match argument.kind:
        case "output":
            total = 0.0
            for index in argument.indices:
                factor = factorial(index)
                total += factor * series[orders.indices.index(index), argument.position]
            return jnp.asarray(total)
        case "coordinate":
            return point[argument.position]
        case "parameter":
            return parameters[argument.position]
        case "observed":
            assert observed is not None
            return observed[argument.position]
        case "normal":
            assert normal is not None
            return normal[argument.position]
        case "normal derivative":
            assert normal is not None
            rows = [orders.indices.index(index) for index in argument.indices]
            slopes = [series[row, argument.position] for row in rows]
            return sum((n * s for n, s in zip(normal, slopes, strict=True)), jnp.zeros(()))
        case _:
            return point


def _checked(term: str, value: Any) -> Array:
    """A term's components, or one line about what it returned instead."""
    try:
        vector = components(value)
    except (TypeError, ValueError):
        vector = None
    if vector is None or vector.dtype == bool or jnp.iscomplexobj(vector):
        kind = f"{vector.dtype} values" if vector is not None else f"{value!r:.60}"
        raise LcpinnError(
            f"the term {term!r} returns {kind}: a residual is a real number, or a tuple of them"
        )
    return vector


def components(value: Any) -> Array:
    """A scalar, a vector or a tuple of scalars, as one vector."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return jnp.concatenate([jnp.ravel(jnp.asarray(v)) for v in values])
