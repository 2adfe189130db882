"""The error as the paper's authors measure it, which is not what the paper's text says.

Means over other grids of coefficients, errors snapshot by snapshot, and where a network is
conditioned on loss weights, the mean of the errors of single draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lcpinn.evaluation import arguments, relative_error, true_errors
from lcpinn.family import Family
from lcpinn.protocol.paper_settings import settings_of_paper
from lcpinn.reference.finite_volume import SNAPSHOTS
from lcpinn.solution import Solution

DRAWS = {"burgers": 200, "buckley-leverett": 25}  # of loss weights
EVERYWHERE = {"helmholtz-2d", "helmholtz-3d"}  # where LC-PINN's mean is over an even grid


def published_error(solution: Solution, method: str) -> float | None:
    """Of one run, by the rule of its family and method; None where that is the table's own mean."""
    name = solution.family.name
    if name in DRAWS:
        return _over_snapshots(solution, method)
    alone = not solution.family.parameters.free
    if alone or not (name in EVERYWHERE or method == "pi-deeponet"):
        return None
    settings = solution.family.parameters.grid(settings_of_paper(solution.family).grid)
    errors = true_errors(solution, settings)
    return None if errors is None else float(np.mean(errors))


def _over_snapshots(solution: Solution, method: str) -> float:
    """The mean over snapshots of each one's relative error, and over draws of loss weights."""
    family = solution.family
    times, x, truth = _snapshots(family)
    if method == "fno":  # which answers for the last one alone
        times, truth = times[-1:], truth[-1:]
    points = np.stack([np.repeat(times, len(x)), np.tile(x, len(times))], axis=-1)
    named = arguments(family, points, np.zeros(0))
    if family.weights is None:
        draws = np.asarray(solution(**named))[None]
    else:
        draws = np.asarray(solution.slices(shots=DRAWS[family.name], **named))[..., 0]
    if family.name == "buckley-leverett":
        draws = np.clip(draws, 0, 1)
    each = draws.reshape(len(draws), len(times), len(x))
    errors = [[relative_error(a[:, None], b[:, None]) for a, b in zip(one, truth, strict=True)]
              for one in each]  # fmt: skip
    return float(np.mean(errors))


def _snapshots(family: Family) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, points along x, and the reference there."""
    if family.name == "burgers":
        times, x = np.array([0.25, 0.5, 0.75, 1.0]), -1 + 2 * np.arange(512) / 512
        reference: Callable[..., np.ndarray] = family.reference  # pyright: ignore
    else:
        times, x = np.array(SNAPSHOTS), (np.arange(1000) + 0.5) / 1000
        reference = family.paper_reference  # pyright: ignore
    every = reference(np.repeat(times, len(x)), np.tile(x, len(times)))
    return times, x, every.reshape(len(times), len(x))
