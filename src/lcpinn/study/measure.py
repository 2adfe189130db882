"""What is kept of a run: its errors, and what figures and ablations need, as small JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lcpinn.evaluation import (
    arguments,
    evaluation_points,
    grid_values,
    relative_error,
    result,
    true_errors,
)
from lcpinn.quadrature import tensor
from lcpinn.solution import Solution
from lcpinn.study.budget import OWN
from lcpinn.study.published import published_error
from lcpinn.study.run import Run

SHOTS = (1, 5, 25, 50, 100, 200, 400)  # of the ablation of K
DRAWS = 200  # of the invariance
ALONG = 20  # coefficients of the error's curve
PICTURED = ("paper", "paper-data", "fast")  # whose solutions are drawn, with the first seed


def measure(run: Run, solution: Solution) -> dict[str, Any]:
    """The record of a run: what it is, its result, and further measures."""
    training = solution.run["training"]
    if run.budget == OWN and solution.protocol.judged and "verdict" not in solution.run:
        spent = sum(training["seconds"].values())
        solution.run["verdict"] = solution.judged(run.options.get("tolerance"), spent).to_json()
    outcome = result(solution)
    outcome["seconds"] = training["seconds"] | {"total": sum(training["seconds"].values())}
    outcome["at_once"] = training.get("at_once", 1)
    measures = {} if run.budget == OWN else _further(run, solution)  # those are the paper's
    return {"run": run.to_json(), **outcome, "measures": measures}


def _further(run: Run, solution: Solution) -> dict[str, Any]:
    family, measures = solution.family, {}
    if family.parameters.free:
        measures["along"] = _along(solution)
    if family.weights is not None:
        measures |= _over_weights(solution)
    published = published_error(solution, run.protocol.removesuffix("-data"))
    if published is not None:
        measures["published"] = published
    if run.protocol in PICTURED and run.seed == 0 and not run.change:
        measures["field"] = _field(solution)
    return measures


def _along(solution: Solution) -> list[dict[str, float]]:
    """Errors at coefficients spread evenly over the range."""
    values = solution.family.parameters.grid(ALONG)
    errors = true_errors(solution, values.tolist())
    names = solution.family.parameters.names
    assert errors is not None
    return [
        {**dict(zip(names, map(float, lam), strict=True)), "error": error}
        for lam, error in zip(values, errors, strict=True)
    ]


def _over_weights(solution: Solution) -> dict[str, Any]:
    """Errors of means over more and more weightings, of single ones, and how far they differ."""
    points = evaluation_points(solution.family)
    lam = grid_values(solution.family)[0]
    truth = solution.family.truth(points, lam)
    assert truth is not None
    slices = solution.slices(shots=max(SHOTS), **arguments(solution.family, points, lam))
    each = [relative_error(one, truth) for one in slices[:DRAWS]]
    deviation = float(slices[:DRAWS].std(axis=0).mean())
    size = float(np.abs(slices[:DRAWS].mean(axis=0)).mean())
    return {
        "shots": {str(k): relative_error(slices[:k].mean(axis=0), truth) for k in SHOTS},
        "slices": _rounded(np.sort(each)),
        "invariance": {"draws": DRAWS, "deviation": deviation, "relative": deviation / size},
    }


def _field(solution: Solution) -> dict[str, Any]:
    """The solution and its error on a line or a plane, at the coefficients of the paper's grid."""
    family = solution.family
    names, ranges = family.domain.names, [*family.domain.ranges.values()]
    settings = grid_values(family)
    # A front can be a hundredth of the domain wide: where there is one picture, it is a finer one.
    # The second coordinate has a point in its middle, or a front that stands there goes unseen.
    nums = (101,) if len(names) == 1 else (41, 121) if len(settings) == 1 else (40, 40)
    axes = [np.linspace(*span, num) for span, num in zip(ranges, nums, strict=False)]
    rest = [np.array([(low + high) / 2]) for low, high in ranges[2:]]
    points = tensor([*axes, *rest])
    panels = []
    for lam in settings:
        truth = family.truth(points, lam)
        value = solution(**arguments(family, points, lam))
        value = value[family.outputs[0]] if isinstance(value, Mapping) else value
        gap = np.abs(value - truth[:, 0]) if truth is not None else np.full(len(value), np.nan)
        at = dict(zip(family.parameters.names, map(float, lam), strict=True))
        panels.append({"at": at, "value": packed(value), "error": packed(gap)})
    return {
        "axes": {n: [*span, num] for n, span, num in zip(names, ranges, nums, strict=False)},
        "panels": panels,
    }


def packed(values: np.ndarray) -> str:
    """Many numbers in one line, with as many digits as a picture shows."""
    return " ".join(f"{value:.3g}" for value in values)


def unpacked(text: str) -> np.ndarray:
    return np.array(text.split(), float)


def _rounded(values: np.ndarray) -> list[float]:
    """Three digits are enough to draw."""
    return [float(f"{value:.2e}") for value in values]
