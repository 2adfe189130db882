"""Sizes and positions of shapes: a number, the name of a parameter, or a function of parameters."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from lcpinn.errors import LcpinnError
from lcpinn.spec import short

Size = float | str | Callable[..., Any]
Named = Mapping[str, Any]  # coordinates and parameters by name, arrays that broadcast together


@final
@dataclass(frozen=True, repr=False)
class Quantity:
    """A size or a position, and the parameters that it depends on."""

    value: Size
    arguments: tuple[str, ...] = ()

    def __repr__(self) -> str:
        if callable(self.value):
            return f"{getattr(self.value, '__name__', 'function')}({', '.join(self.arguments)})"
        return repr(self.value)

    def __call__(self, at: Named, xp: ModuleType) -> Any:
        """The value at named parameters, a number or an array."""
        if isinstance(self.value, str):
            return at[self.value]
        if callable(self.value):
            # What a user's function returns may be JAX's although NumPy's arrays went in.
            return xp.asarray(self.value(*(at[name] for name in self.arguments)))
        return self.value

    @property
    def label(self) -> str:
        """The quantity as it reads in the name of a boundary."""
        return short(self.value) if isinstance(self.value, float) else repr(self).strip("'")

    def to_json(self) -> Any:
        """A number as itself, a parameter by its name, a function by a hash of its source."""
        if isinstance(self.value, str):
            return {"parameter": self.value}
        return function_json(self.value, self.arguments) if callable(self.value) else self.value


def quantity(owner: str, value: Any) -> Quantity:
    """What a user wrote for a size or a position, checked."""
    if isinstance(value, Quantity):
        return value
    if isinstance(value, str):
        return Quantity(value, (value,))
    if callable(value):
        return Quantity(value, named_arguments(owner, value))
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise LcpinnError(
            f"{owner}: {value!r} is no number, name of a parameter or function of parameters"
        ) from None
    if not math.isfinite(number):
        raise LcpinnError(f"{owner}: {number} is not finite")
    return Quantity(number)


def named_arguments(owner: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments; each has to stand for itself."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        raise LcpinnError(f"{owner}: write the function's arguments out by name")
    return tuple(p.name for p in parameters)


def function_json(function: Callable[..., Any], arguments: tuple[str, ...]) -> dict[str, Any]:
    """A function cannot be stored, only told apart from another: its arguments and a hash."""
    try:
        source = "".join(inspect.getsource(function).split())
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        source = repr(function) if code is None else f"{code.co_code!r}{code.co_consts!r}"
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    return {"function": digest, "arguments": list(arguments)}


def quantity_from_json(data: Any) -> Quantity:
    """The quantity that to_json wrote, unless it was a function."""
    if isinstance(data, Mapping):
        if "function" in data:
            raise LcpinnError("a shape that depends on a function cannot be read from a file")
        return quantity("shape", str(data["parameter"]))
    return quantity("shape", data)
