"""Shapes: boxes, balls, polygons, implicit regions, and what can be made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.shape.ball import Ball
from lcpinn.shape.base import Shape, Surface
from lcpinn.shape.box import Box, Coordinate, Periodic
from lcpinn.shape.combination import Combination, Difference, Intersection, Product, Union
from lcpinn.shape.inside import Inside
from lcpinn.shape.place import Face, Part, Place, as_face
from lcpinn.shape.polygon import Polygon
from lcpinn.shape.quantity import quantity_from_json
from lcpinn.shape.region import Region

__all__ = [
    "Ball",
    "Box",
    "Coordinate",
    "Face",
    "Inside",
    "Part",
    "Periodic",
    "Place",
    "Polygon",
    "Region",
    "Shape",
    "Surface",
    "as_face",
    "shape_from_json",
]

_COMBINATIONS: dict[str, type[Combination]] = {
    kind.__name__: kind for kind in (Difference, Union, Intersection, Product)
}


def shape_from_json(data: Mapping[str, Any]) -> Shape:
    """The shape that to_json wrote; functions are not in a file and cannot come out of it."""
    try:
        kind = data["kind"]
        if kind == "Box":
            return Box.from_json(data)
        if kind == "Ball":
            centre = {str(name): quantity_from_json(value).value for name, value in data["centre"]}
            return Ball(**centre, radius=quantity_from_json(data["radius"]).value)
        if kind == "Polygon":
            columns = zip(*data["corners"], strict=True)
            values = ([quantity_from_json(v).value for v in column] for column in columns)
            return Polygon(**dict(zip(map(str, data["axes"]), values, strict=True)))
        if kind in _COMBINATIONS:
            parts = (shape_from_json(data[side]) for side in ("left", "right"))
            return _COMBINATIONS[kind](*parts)
    except LcpinnError:
        raise
    except (KeyError, TypeError, ValueError):
        raise LcpinnError("this is not a shape: its JSON is incomplete") from None
    if kind == "Inside":
        raise LcpinnError("a shape that depends on a function cannot be read from a file")
    raise LcpinnError(f"there is no shape of kind {kind!r}")
