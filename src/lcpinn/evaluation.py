"""How wrong is it: relative L2 errors over a grid of lambda, and the residual on unseen points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpinn.certificate import worst_case
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.files import write_json
from lcpinn.machine import device, versions
from lcpinn.precision import double
from lcpinn.quadrature import tensor
from lcpinn.sampling import fixed
from lcpinn.solution import Solution


def evaluate(solution: Solution) -> dict[str, Any]:
    """Errors against the exact or reference solution.

    grid: the error at each lambda of the family's own grid; mean: over that grid; dense_max and
    dense_argmax: the largest over a dense grid of lambda, so that a resonance cannot hide between
    grid points. Where the network is conditioned on loss weights these are errors of the mean over
    `shots` draws; worst_slice is the largest error of a single draw and spread the mean standard
    deviation across draws relative to the solution's size.
    """
    family = solution.family
    points = evaluation_points(family)
    if family.exact is None and family.reference is None:
        return {"grid": None, "mean": None, "dense_max": None, "dense_argmax": None}
    values = grid_values(family)
    grid = [_error(solution, points, lam) for lam in values]
    rows = [
        {**_named(family, lam), "error": error} for lam, error in zip(values, grid, strict=True)
    ]
    report: dict[str, Any] = {"grid": rows, "mean": float(np.mean(grid))}
    dense = dense_values(family) if family.parameters.free else values
    errors = [_error(solution, points, lam) for lam in dense] if family.parameters.free else grid
    worst = int(np.argmax(errors))
    report |= {"dense_max": errors[worst], "dense_argmax": _named(family, dense[worst])}
    if family.weights is not None:
        report |= _across_weights(solution, points, values[len(values) // 2])
    return report


def evaluation_points(family: Family) -> np.ndarray:
    """The points of comparison, (n, dim): the family's own, or an equispaced grid."""
    wanted = family.evaluation.points
    if wanted is None:
        per_axis = {1: 512, 2: 96, 3: 24}.get(family.domain.dim, 8)
        wanted = dict.fromkeys(family.domain.names, per_axis)
    axes = []
    for name, (low, high) in family.domain.ranges.items():
        values = wanted[name]
        axes.append(np.linspace(low, high, values) if isinstance(values, int) else np.array(values))
    return tensor(axes)


def grid_values(family: Family) -> np.ndarray:
    """The lambdas of the mean error, (n, p): the family's own, or a few per coefficient."""
    at = family.evaluation.at
    if at is not None:
        return tensor([np.array(at[name], float) for name in family.parameters.names])
    return family.parameters.grid(5 if len(family.parameters.free) == 1 else 3)


def dense_values(family: Family) -> np.ndarray:
    """Many lambdas, equispaced in the prior's measure; one where every coefficient is held."""
    vary = max(1, len(family.parameters.free))
    return family.parameters.grid(math.ceil(family.evaluation.dense ** (1 / vary)))


def true_errors(solution: Solution, settings: Sequence[Sequence[float]]) -> list[float] | None:
    """The errors at these settings, where the truth is known."""
    if solution.family.exact is None and solution.family.reference is None:
        return None
    points = evaluation_points(solution.family)
    return [_error(solution, points, np.asarray(lam, float)) for lam in settings]


def _error(solution: Solution, points: np.ndarray, lam: np.ndarray) -> float:
    truth = solution.family.truth(points, lam)
    assert truth is not None
    return relative_error(_predict(solution, points, lam), truth)


def _predict(solution: Solution, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    family = solution.family
    value = solution(**arguments(family, points, lam))
    columns = value.values() if isinstance(value, dict) else (value,)
    return np.stack(list(columns), axis=-1)


def relative_error(value: np.ndarray, truth: np.ndarray) -> float:
    """‖value - truth‖ / ‖truth‖ of each output (n, outputs); the worst output counts."""
    size = np.linalg.norm(truth, axis=0)
    return float(np.max(np.linalg.norm(value - truth, axis=0) / np.where(size > 0, size, 1)))


def _across_weights(solution: Solution, points: np.ndarray, lam: np.ndarray) -> dict[str, Any]:
    """How much the answer depends on which loss weights are asked for."""
    truth = solution.family.truth(points, lam)
    assert truth is not None
    slices = solution.slices(**arguments(solution.family, points, lam))
    spread = slices.std(axis=0).mean() / np.abs(slices.mean(axis=0)).mean()
    return {
        "shots": len(slices),
        "worst_slice": max(relative_error(one, truth) for one in slices),
        "spread": float(spread),
    }


def arguments(family: Family, points: np.ndarray, lam: np.ndarray) -> dict[str, Any]:
    """Points and one setting of the coefficients as a solution's named arguments."""
    return {n: points[:, i] for i, n in enumerate(family.domain.names)} | _named(family, lam)


def _named(family: Family, lam: np.ndarray) -> dict[str, float]:
    return dict(zip(family.parameters.names, map(float, lam), strict=True))


def validate(solution: Solution) -> dict[str, Any]:
    """Root mean square residual of every term on points and lambdas that training never saw.

    In initial-value problems with one coordinate also the error that it leads to, estimated.
    """
    problem = solution.problem
    with double():
        batch = fixed(solution.family, solution.protocol.held_out, jnp.float64)
        params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), solution.params)
        residuals = jax.jit(problem.residuals)(params, batch)
        terms = {name: float(np.sqrt(np.mean(np.square(r)))) for name, r in residuals.items()}
        judge = worst_case(problem)
        found = None if judge is None else judge(params)
    report = {"residual": math.sqrt(sum(v**2 for v in terms.values())), "terms": terms}
    if found is not None:
        error = found.error if math.isfinite(found.error) else None
        report["estimate"] = {**found._asdict(), "error": error}
    return report


def result(solution: Solution, total_seconds: float | None = None) -> dict[str, Any]:
    """Everything that is worth knowing about a run, as plain JSON."""
    training = solution.run.get("training", {})
    return {
        "family": solution.family.name,
        "protocol": solution.protocol.name,
        "at": dict(solution.protocol.at),
        "seed": solution.run.get("seed"),
        "parameters": solution.num_params,
        "error": evaluate(solution),
        "validation": validate(solution),
        "seconds": {**training.get("seconds", {}), "total": total_seconds},
        "device": solution.run.get("device", device()),
        "versions": solution.run.get("versions", versions()),
        "stopped": training.get("stopped", []),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write_result(solution: Solution, directory: Path, total_seconds: float) -> dict[str, Any]:
    """result.json and a picture, into the run's directory."""
    from lcpinn.plot import overview

    found = result(solution, total_seconds)
    write_json(directory / "result.json", found)
    picture = directory / "solution.png"
    try:
        overview.write(solution, picture)
    except OSError as error:
        raise LcpinnError(f"could not write {picture}: {error.strerror}") from None
    return found
