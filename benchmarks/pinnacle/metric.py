"""The benchmark's metric: one relative L2 error over all outputs and points together."""

from __future__ import annotations

from typing import Any

import numpy as np

import lcpinn as lc
from benchmarks.pinnacle.problem import Problem, Setting
from benchmarks.pinnacle.published import load
from lcpinn.evaluation import arguments

SEED = 11  # of scattered test points


def stacked_error(value: np.ndarray, truth: np.ndarray) -> float:
    """‖value - truth‖ / ‖truth‖ over all entries of (n, outputs)."""
    return float(np.linalg.norm(value - truth) / np.linalg.norm(truth))


def measure(solution: lc.Solution, problem: Problem, setting: Setting) -> dict[str, Any]:
    """The errors at one setting.

    error: against our reference, or the published file where that is all there is; outputs: of each
    by itself; published: against the published file; reference: of that file, against ours.
    """
    family = solution.family
    lam = np.array([setting[name] for name in family.parameters.names])
    points = test_points(family, problem, lam)
    points = points[family.domain.covers(points, lam)]
    outputs = problem.outputs or family.outputs
    values, truth = predict(solution, points, lam), family.truth(points, lam)
    kept = [family.outputs.index(name) for name in outputs]
    entry: dict[str, Any] = {"at": dict(setting), "points": len(points)}
    file = next((name for name, at in problem.files if dict(at) == dict(setting)), None)
    if truth is not None:
        entry["error"] = stacked_error(values[:, kept], truth[:, kept])
        entry["outputs"] = _by_output(outputs, values[:, kept], truth[:, kept])
    if file is None:
        return entry
    nodes, published = load(file)
    inside = family.domain.covers(nodes, lam)
    nodes, published = nodes[inside], published[inside]
    values, truth = predict(solution, nodes, lam), family.truth(nodes, lam)
    entry["published"] = stacked_error(values[:, kept], published)
    if truth is not None:
        entry["reference"] = stacked_error(published, truth[:, kept])
    else:
        entry["error"] = entry["published"]
        entry["outputs"] = _by_output(outputs, values[:, kept], published)
    return entry


def _by_output(names: tuple[str, ...], values: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    errors = np.linalg.norm(values - truth, axis=0) / np.linalg.norm(truth, axis=0)
    return dict(zip(names, map(float, errors), strict=True))


def test_points(family: lc.Family, problem: Problem, lam: np.ndarray) -> np.ndarray:
    """The nodes of the problem's first file, or scattered points of its domain, (n, dim)."""
    if problem.files:
        return load(problem.files[0][0]).points
    num = problem.num_points // max(1, len(problem.times))
    points = np.asarray(family.domain.sobol(num, SEED, parameters=np.tile(lam, (num, 1))))
    if not problem.times:
        return points
    column = family.domain.names.index("t")
    levels = np.repeat(points[None], len(problem.times), axis=0)
    levels[:, :, column] = np.array(problem.times)[:, None]
    return levels.reshape(-1, points.shape[1])


def predict(solution: lc.Solution, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """The network's outputs at points (n, dim) and one setting, (n, outputs)."""
    value = solution(**arguments(solution.family, points, lam))
    columns = list(value.values()) if isinstance(value, dict) else [value]
    return np.stack(columns, axis=-1)
