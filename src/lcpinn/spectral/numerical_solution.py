"""A solution at one setting as what a user is given: a function of coordinates by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.family import Family


@dataclass(frozen=True)
class NumericalSolution:
    """u(coordinates) at one setting of the coefficients, called by name like a `Solution`.

    `error` is the estimated relative L2 error, `reason` what kept it above the tolerance (empty
    where nothing did), `resolution` the functions along each coordinate, or slabs and intervals.
    """

    family: Family
    at: dict[str, float]
    error: float
    reason: str
    resolution: dict[str, int]
    note: str = ""
    _values: Callable[[np.ndarray], np.ndarray] = field(repr=False, default=lambda points: points)

    def __call__(self, **named: Any) -> Any:
        """Values at named coordinates, which broadcast; a dict where there are several outputs."""
        names = self.family.domain.names
        arrays = _coordinates(names, self.at, named)
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        points = np.stack([np.broadcast_to(a, shape).ravel() for a in arrays], axis=-1)
        values = self._values(points)
        outputs = self.family.outputs
        if len(outputs) == 1:
            return values[:, 0].reshape(shape)
        return {name: values[:, i].reshape(shape) for i, name in enumerate(outputs)}


def _coordinates(names: Sequence[str], at: dict[str, float], named: dict[str, Any]) -> list[Any]:
    """The coordinates' arrays; a coefficient may be named with the value that it was solved at."""
    for name, value in named.items():
        if name in at and np.all(np.asarray(value) == at[name]):
            continue
        if name in at:
            raise LcpinnError(f"this solution is that of {name} = {at[name]:g} alone")
        if name not in names:
            takes = ", ".join(names)
            raise LcpinnError(f"no such argument as {name!r}; the solution takes {takes}")
    missing = [name for name in names if name not in named]
    if missing:
        raise LcpinnError(f"missing {', '.join(missing)}; the solution takes {', '.join(names)}")
    try:
        arrays = [np.asarray(named[name], float) for name in names]
        np.broadcast_shapes(*(a.shape for a in arrays))
    except (ValueError, TypeError) as error:
        raise LcpinnError(f"the arguments do not broadcast together: {error}") from None
    return arrays
