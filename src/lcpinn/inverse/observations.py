"""What was observed where, checked against the names of the family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lcpinn.domain import Region
from lcpinn.errors import LcpinnError
from lcpinn.family import Data, Family
from lcpinn.inverse.result import listed


@dataclass(frozen=True, eq=False)
class Observations:
    """What was observed where, and which coefficients are to be found.

    points (n, dim); values (n, outputs), nan where nothing was observed; known (n, p), the
    coefficients that are not sought (others are nan); free (p,), which are; scale (n, outputs),
    sigma or, where that is unknown, the size of each output.
    """

    points: np.ndarray
    values: np.ndarray
    known: np.ndarray
    free: np.ndarray
    scale: np.ndarray
    sigma_given: bool

    @property
    def seen(self) -> np.ndarray:
        return np.isfinite(self.values)

    @property
    def sizes(self) -> np.ndarray:
        return _sizes(self.values)


Sigma = float | Sequence[float] | np.ndarray | Mapping[str, Any]


def read(
    family: Family,
    data: Data | Mapping[str, Any],
    at: Mapping[str, float] | None = None,
    sigma: Sigma | None = None,
) -> Observations:
    """Check observations against the family's names, and bring them into arrays."""
    given = data.columns if isinstance(data, Data) else data
    prior, held_values = family.parameters, _held(family, at or {})
    columns = _columns(family, given)
    twice = [n for n in held_values if n in columns and (columns[n] != held_values[n]).any()]
    if twice:
        how = "was held in training" if twice[0] in prior.held else "is held"
        raise LcpinnError(
            f"{twice[0]} {how} at {held_values[twice[0]]:g}, and has other values in the "
            "observations"
        )
    free = np.array([name not in held_values and name not in columns for name in prior.names])
    if not free.any():
        raise LcpinnError("every coefficient is held or a column: there is nothing to find")
    num = len(next(iter(columns.values())))
    unknown = np.full(num, np.nan)
    columns |= {name: np.full(num, value) for name, value in held_values.items()}
    known = [columns.get(name, unknown) for name in prior.names]
    values = np.stack([columns.get(name, unknown) for name in family.outputs], axis=-1)
    if not np.isfinite(values).any():
        raise LcpinnError("the observations hold no value: every output is nan, or there are none")
    points = np.stack([columns[name] for name in family.domain.names], axis=-1)
    if isinstance(family.domain, Region):  # where a solution has no values at all
        outside = family.domain.misplaced(points, np.stack(known, axis=-1), at_every_setting=True)
        if outside:
            raise LcpinnError(f"the observations: {outside}")
    scale = _sizes(values) if sigma is None else _noise(family, sigma, values)
    return Observations(points, values, np.stack(known, axis=-1), free, scale, sigma is not None)


def _sizes(values: np.ndarray) -> np.ndarray:
    """The root mean square of an output's observations, at each of them; one where it is zero."""
    seen = np.isfinite(values)
    mean = np.where(seen, values, 0.0) ** 2 / np.maximum(seen.sum(axis=0), 1)
    size = np.sqrt(mean.sum(axis=0))
    return np.broadcast_to(np.where(size > 0, size, 1.0), values.shape)


def _columns(family: Family, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    coordinates, outputs = family.domain.names, family.outputs
    needed = (*coordinates, *family.parameters.names, *outputs)
    unknown = [name for name in given if name not in needed]
    if unknown:
        raise LcpinnError(
            f"the observations have no use for {unknown[0]!r}; there are {', '.join(needed)}"
        )
    missing = [name for name in coordinates if name not in given]
    if missing:
        raise LcpinnError(f"the observations lack the coordinate {missing[0]!r}")
    if not any(name in given for name in outputs):
        raise LcpinnError(f"the observations lack an output ({', '.join(outputs)})")
    try:
        arrays = [np.asarray(column, dtype=np.float64) for column in given.values()]
        arrays = [np.atleast_1d(array).ravel() for array in np.broadcast_arrays(*arrays)]
    except (ValueError, TypeError) as error:
        raise LcpinnError(f"the observations do not fit together: {error}") from None
    columns = dict(zip(given, arrays, strict=True))
    for name, column in columns.items():
        if np.isinf(column).any() or (name not in outputs and np.isnan(column).any()):
            raise LcpinnError(f"the observations hold nan or infinite values of {name!r}")
    return columns


def _held(family: Family, at: Mapping[str, float]) -> dict[str, float]:
    """The coefficients that training held, and those that the user holds, with their values."""
    prior = family.parameters
    if not prior.names:
        raise LcpinnError(
            f"{family.name} has no coefficients to find: its lambda is the weights of the loss, "
            "of which observations tell nothing"
        )
    if not prior.free:
        raise LcpinnError(
            f"the network was trained at {listed(prior.held)} alone, so that there is nothing to "
            f"find; train it over a range of {', '.join(prior.names)}"
        )
    for name, value in at.items():
        if name in prior.held and value != prior.held[name]:
            raise LcpinnError(f"{name} was held at {prior.held[name]:g} in training, not {value:g}")
    return prior.held | prior.at(**at).held


def _noise(family: Family, sigma: Sigma, values: np.ndarray) -> np.ndarray:
    """Sigma of every observation, (n, outputs), from any of the forms in which it may be given."""
    noise = np.full_like(values, np.nan)
    each = sigma if isinstance(sigma, Mapping) else dict.fromkeys(family.outputs, sigma)
    for name, value in each.items():
        if name not in family.outputs:
            known = ", ".join(family.outputs)
            raise LcpinnError(f"sigma of {name!r}: there is no such output; there are {known}")
        try:
            column = np.broadcast_to(np.asarray(value, dtype=np.float64), len(values))
        except (ValueError, TypeError):
            raise LcpinnError(
                f"sigma is one number, or one for each of the {len(values)} observations"
            ) from None
        noise[:, family.outputs.index(name)] = column
    seen = np.isfinite(values)
    for name, column, rows in zip(family.outputs, noise.T, seen.T, strict=True):
        if np.isnan(column[rows]).any():
            raise LcpinnError(f"sigma of {name!r} is missing or nan")
    if not (np.isfinite(noise[seen]) & (noise[seen] > 0)).all():
        raise LcpinnError("sigma must be positive and finite")
    return noise
