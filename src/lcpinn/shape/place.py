"""Where points lie: on a face of a box, on a part of another shape's boundary, or inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from lcpinn.errors import LcpinnError
from lcpinn.shape.base import Surface


@final
@dataclass(frozen=True)
class Face:
    """The part of a box's boundary where one coordinate has the value of an end."""

    name: str
    value: float


@final
@dataclass(frozen=True)
class Part:
    """A part of a boundary: what is left of some surfaces."""

    label: str
    surfaces: tuple[Surface, ...]


Place = Face | Part | None  # a face, a part of the boundary, or the interior


def as_face(place: Face | Part) -> Face:
    """The face, where only a box will do: a part of another shape's boundary is an error."""
    if isinstance(place, Part):
        raise LcpinnError(f"{place.label} is not a face of a box")
    return place
