"""Families on shapes, trained by the defaults: error, estimate and time; see `__main__.py`."""

from benchmarks.shapes.families import FAMILIES

__all__ = ["FAMILIES"]
