"""What a solution is asked for: named arrays become points, coefficients and loss weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.precision import double
from lcpinn.prior import Prior


def read(
    family: Family, named: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Points (n, dim), parameters (n, p), or (1, p) where they agree, and the shape to answer in.

    A coefficient that was held in training has one value to ask for, and need not be named.
    """
    coordinates, parameters = family.domain.names, family.parameters.names
    needed = (*coordinates, *parameters)
    for name in named:
        if name not in needed:
            raise LcpinnError(
                f"no such argument as {name!r}; the solution takes {', '.join(needed)}"
            )
    named = family.parameters.held | dict(named)
    missing = [name for name in needed if name not in named]
    if missing:
        raise LcpinnError(f"missing {', '.join(missing)}; the solution takes {', '.join(needed)}")
    try:
        arrays = {name: np.asarray(named[name], dtype=np.float64) for name in needed}
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except (ValueError, TypeError) as error:
        raise LcpinnError(f"the arguments do not broadcast together: {error}") from None
    column = {name: np.broadcast_to(a, shape).ravel() for name, a in arrays.items()}
    points = np.stack([column[c] for c in coordinates], axis=-1)
    if all(arrays[p].size == 1 for p in parameters):
        lam = np.array([[arrays[p].item() for p in parameters]])
    else:
        lam = np.stack([column[p] for p in parameters], axis=-1)
    return points, lam, shape


def draws_of(family: Family, weights: Mapping[str, float] | None, shots: int | None) -> np.ndarray:
    """The loss weights to average over, (shots, m); one empty row where there are none."""
    prior = family.weights
    if prior is None:
        if weights is not None or shots is not None:
            raise LcpinnError(f"{family.name} is not conditioned on loss weights")
        return np.zeros((1, 0))
    if weights is None:
        shots = family.evaluation.shots if shots is None else shots
        if shots < 1:
            raise LcpinnError(f"shots must be at least 1, not {shots}")
        return prior.sobol(shots, seed=0)
    unknown = [n for n in weights if n not in prior.names]
    if unknown:
        raise LcpinnError(
            f"weight {unknown[0]!r} names no term; there are {', '.join(prior.names)}"
        )
    return np.array([[float(weights.get(n, 0.0)) for n in prior.names]])


def outside_prior(prior: Prior, parameters: np.ndarray) -> str | None:
    """A sentence on the first parameters (n, p) outside of what was trained, if any are."""
    if prior.dim == 0 or not parameters.size:
        return None
    with double():
        inside = np.asarray(prior.contains(parameters))
    if inside.all():
        return None
    first = dict(zip(prior.names, map(float, parameters[~inside][0]), strict=True))
    ranges = ", ".join(
        f"{n} in [{a:g}, {b:g}]" if a < b else f"{n} = {a:g} alone"
        for n, (a, b) in prior.ranges.items()
    )
    asked = ", ".join(f"{n} = {v:g}" for n, v in first.items())
    return f"{asked} lies outside what was trained ({ranges})"


def outside_weights(prior: Prior, weights: np.ndarray) -> str | None:
    """The same of one row of loss weights, (1, m)."""
    if bool(np.asarray(prior.contains(weights)).all()):
        return None
    rule = "they must sum to one" if abs(weights.sum() - 1) > 1e-6 else "each lies in [0, 1]"
    return f"these weights lie outside {prior!r}: {rule}"


def shaped(family: Family, values: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Values (n, outputs) as an array in the shape that was asked, or a dict of them by output."""
    if len(family.outputs) == 1:
        return values[:, 0].reshape(shape)
    return {name: values[:, i].reshape(shape) for i, name in enumerate(family.outputs)}
