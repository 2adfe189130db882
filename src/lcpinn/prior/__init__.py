"""Priors p(lambda): boxes over physical coefficients, simplex and cubes over loss weights.

Every prior is the image of the unit cube under a map, so random draws, Sobol points and
quadratures are the unit cube's, pushed through that one map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.prior.base import Prior
from lcpinn.prior.coefficients import (
    Axis,
    Coefficients,
    LogUniform,
    Product,
    Uniform,
    coefficients_from_json,
)
from lcpinn.prior.weights import Cube, LogCube, Simplex, Weights

__all__ = [
    "Axis",
    "Coefficients",
    "Cube",
    "LogCube",
    "LogUniform",
    "Prior",
    "Product",
    "Simplex",
    "Uniform",
    "Weights",
    "prior_from_json",
]


def prior_from_json(data: Mapping[str, Any]) -> Coefficients | Weights:
    """The prior that to_json wrote; checked as if the user had written it."""
    try:
        kind = data["kind"]
        if kind == "Coefficients":
            return coefficients_from_json(data["axes"])
        if kind in ("Simplex", "Cube"):
            return (Simplex if kind == "Simplex" else Cube)(*map(str, data["names"]))
        if kind == "LogCube":
            return LogCube(*map(str, data["names"]), low=float(data["low"]))
    except (KeyError, TypeError):
        raise LcpinnError("this is not a prior: its JSON is incomplete") from None
    raise LcpinnError(f"there is no prior of kind {kind!r}")
