"""Checks of what a user passes: the value as it is used, or one line that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lcpinn.errors import LcpinnError


def checked_range(name: str, value: Any) -> tuple[float, float]:
    """The pair (low, high) as floats, or an error that names the coefficient or coordinate."""
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError):
        raise LcpinnError(f"{name}: {value!r} is not a range; write (low, high)") from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise LcpinnError(f"{name}: range ({low}, {high}) is not finite")
    if low > high:
        raise LcpinnError(f"{name}: range ({low}, {high}) is reversed; write (low, high)")
    if low == high:
        raise LcpinnError(f"{name}: range ({low}, {high}) is empty; low must be below high")
    return low, high


def checked_count(num: int) -> int:
    """The number of points as it is, or an error when there would be none."""
    if num < 1:
        raise LcpinnError(f"the number of points must be at least 1, not {num}")
    return num


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The names as they are, or an error when one of them comes twice."""
    names = tuple(names)
    for index, name in enumerate(names):
        if name in names[:index]:
            raise LcpinnError(f"{name} is named twice")
    return names


def assignments(option: str, texts: Iterable[str]) -> dict[str, float]:
    """'k=3.25,t=0.5' as numbers by name; several texts together."""
    values: dict[str, float] = {}
    for piece in ",".join(texts).split(",") if texts else ():
        name, equals, text = (part.strip() for part in piece.partition("="))
        if not (equals and name):
            raise LcpinnError(f"{option}: {piece!r} is not NAME=VALUE")
        try:
            value = float(text)
        except ValueError:
            raise LcpinnError(f"{option}: {text!r} is not a number (in {piece!r})") from None
        if not math.isfinite(value):
            raise LcpinnError(f"{option}: {name} = {value} is not finite")
        if name in values:
            raise LcpinnError(f"{option}: {name!r} is given twice")
        values[name] = value
    return values
