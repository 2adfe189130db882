"""One residual term: where it holds, what its arguments mean, and its value at a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.domain import Face
from lcpinn.jet import MultiIndex, Orders, factorial

# -- Marks that turn a method into a term --------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """Where a term holds: inside the domain (None), or on faces; no face named means all."""

    faces: tuple[tuple[str, float], ...] | None


def interior(method: Callable) -> Callable:
    """The method's residual vanishes inside the domain."""
    method._lcpinn_mark = Mark(None)  # pyright: ignore[reportFunctionMemberAccess]
    return method


def on(**faces: float | Sequence[float]) -> Callable[[Callable], Callable]:
    """The method's residual vanishes on faces: `@on(t=0.0)`, or both with `@on(x=(0.0, 1.0))`.

    `@on()` names none and means every face of the domain.
    """
    pairs = tuple((name, float(v)) for name, value in faces.items() for v in np.atleast_1d(value))

    def mark(method: Callable) -> Callable:
        method._lcpinn_mark = Mark(pairs)  # pyright: ignore[reportFunctionMemberAccess]
        return method

    return mark


# -- Terms, once their names are bound -----------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """One argument of a user's method: what kind of name it is and where to find it."""

    name: str
    kind: str  # output | coordinate | parameter | point | observed
    position: int = 0
    indices: tuple[MultiIndex, ...] = ()


@dataclass(frozen=True, eq=False)
class Term:
    """A residual with its arguments bound; `where` keys the points that it shares with others."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    faces: tuple[Face, ...]
    where: str

    @property
    def indices(self) -> tuple[MultiIndex, ...]:
        return tuple(i for a in self.arguments for i in a.indices)

    def residual(
        self,
        series: Array,
        orders: Orders,
        point: Array,
        parameters: Array,
        observed: Array | None = None,
    ) -> Array:
        """The residual's components at one point; series is (len(orders), outputs)."""  # fmt: skip
        values = [lookup(a, series, orders, point, parameters, observed) for a in self.arguments]
        return components(self.function(*values))


def lookup(argument: Argument, series: Array, orders: Orders, point: Array, parameters: Array,
            observed: Array | None) -> Array:  # fmt: skip
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
        case _:
            return point


def components(value: Any) -> Array:
    """A scalar, a vector or a tuple of scalars, as one vector."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return jnp.concatenate([jnp.ravel(jnp.asarray(v)) for v in values])
