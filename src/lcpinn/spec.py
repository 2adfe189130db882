"""Plain values that describe a run: frozen dataclasses that print, compare and travel as JSON.

A protocol is a tree of them (network, weighting, phases), so a run can be written down, hashed and
rebuilt without running any code from the file that it was read from: only classes registered here
can come out of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

from lcpinn.errors import LcpinnError
from lcpinn.legacy import upgraded

T = TypeVar("T")
_REGISTRY: dict[str, type] = {}
MAPPING = "mapping"  # no spec's name: those are names of classes


@dataclass_transform(frozen_default=True)
def spec(cls: type[T]) -> type[T]:
    """Make a frozen dataclass of the class and register it by its name."""
    made = dataclasses.dataclass(frozen=True)(cls)
    _REGISTRY[cls.__name__] = made
    return made


def to_plain(value: Any) -> Any:
    """A spec, or a container of specs, as JSON types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = [f.name for f in dataclasses.fields(value) if f.compare]
        fields = {name: to_plain(getattr(value, name)) for name in kept}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        plain = {str(k): to_plain(v) for k, v in value.items()}
        # A mapping of the user's own (weights of terms) may have a key `type`, as specs have.
        items = [list(item) for item in plain.items()]
        return {"type": MAPPING, "items": items} if "type" in plain else plain
    if isinstance(value, (tuple, list)):
        return [to_plain(v) for v in value]
    return value


def from_plain(data: Any) -> Any:
    """The value that `to_plain` wrote, be it an older version's; sequences come back as tuples."""
    if isinstance(data, list):
        return tuple(from_plain(v) for v in data)
    if not isinstance(data, dict):
        return data
    if data.get("type") == MAPPING:
        return {k: from_plain(v) for k, v in data["items"]}
    data = upgraded(data)
    fields = {k: from_plain(v) for k, v in data.items() if k != "type"}
    if "type" not in data:
        return fields
    cls = _REGISTRY.get(data["type"])
    if cls is None:
        raise LcpinnError(f"this version of lcpinn knows no {data['type']!r}")
    try:
        return cls(**fields)
    except TypeError as error:
        raise LcpinnError(
            f"this version of lcpinn reads {data['type']} differently: {error}"
        ) from None


def fingerprint(value: Any) -> str:
    """A short content hash of a spec, or of a container of specs."""
    return digest(to_plain(value))


def digest(plain: Any) -> str:
    """A short content hash of plain data."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def short(value: float) -> str:
    """A number as a person would write it, with as many digits as it takes to read it back."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))


def describe(value: Any) -> str:
    """One line for people: a spec with the fields that differ from their defaults."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(describe(v) for v in value) + ")"
        return repr(value)
    changed = [
        f"{f.name}={describe(getattr(value, f.name))}"
        for f in dataclasses.fields(value)
        if f.default is dataclasses.MISSING or getattr(value, f.name) != f.default
    ]
    return f"{type(value).__name__}({', '.join(changed)})"
