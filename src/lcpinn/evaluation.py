"""How wrong is it: relative L2 errors over a grid of lambda, and the residual on unseen points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from lcpinn.certificate import worst_case
from lcpinn.compilation import for_once
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.files import write_json
from lcpinn.machine import device, versions
from lcpinn.precision import double
from lcpinn.quadrature import tensor
from lcpinn.sampling import fixed
from lcpinn.solution import Solution
from lcpinn.spectral import solve

Truth = Callable[[np.ndarray, np.ndarray], np.ndarray | None]
SOLVED = {1: 41, 2: 13, 3: 5}  # settings of a dense grid that are solved, by coordinates
LARGEST_GRID = 128  # settings: a grid over more coefficients than give these is a Sobol set instead

_KNOWN: WeakKeyDictionary[Solution, dict[tuple[float, ...], float]] = WeakKeyDictionary()


def evaluate(solution: Solution, against: str | None = None) -> dict[str, Any]:
    """Errors against the exact or reference solution, or against="solver": against lc.solve.

    grid: the error at each lambda of the family's own grid (by default a few values of each
    coefficient, and from five coefficients on a Sobol set); mean: over that grid; dense_max and
    dense_argmax: the largest over a dense grid of lambda, so that a resonance cannot hide between
    grid points. Where the network is conditioned on loss weights these are errors of the mean over
    `shots` draws; worst_slice is the largest error of a single draw and spread the mean standard
    deviation across draws relative to the solution's size.
    """
    family = solution.family
    if against not in (None, "solver"):
        raise LcpinnError(f"errors are measured against the truth or 'solver', not {against!r}")
    if against is None and family.exact is None and family.reference is None:
        return {"grid": None, "mean": None, "dense_max": None, "dense_argmax": None}
    points, truth = evaluation_points(family), family.truth if against is None else solved(family)

    def errors_at(settings: np.ndarray) -> list[float]:
        if against is None:
            return true_errors(solution, settings) or []
        return [_error(solution, points, lam, truth) for lam in settings]

    values = grid_values(family)
    grid = errors_at(values)
    rows = [
        {**_named(family, lam), "error": error} for lam, error in zip(values, grid, strict=True)
    ]
    report: dict[str, Any] = {"grid": rows, "mean": float(np.mean(grid))}
    most = None if against is None else SOLVED[family.domain.dim]
    dense = dense_values(family, most) if family.parameters.free else values
    errors = errors_at(dense) if family.parameters.free else grid
    worst = int(np.argmax(errors))
    report |= {"dense_max": errors[worst], "dense_argmax": _named(family, dense[worst])}
    if family.weights is not None:
        report |= _across_weights(solution, points, values[len(values) // 2], truth)
    return report if against is None else {**report, "against": against}


def solved(family: Family) -> Truth:
    """The solution by lcpinn.spectral, at any points and one setting."""

    def truth(points: np.ndarray, lam: np.ndarray) -> np.ndarray:
        value = solve(family, **_named(family, lam))(**arguments(family, points, lam))
        columns = value.values() if isinstance(value, dict) else (value,)
        return np.stack(list(columns), axis=-1)

    return truth


def evaluation_points(family: Family) -> np.ndarray:
    """The points of comparison, (n, dim): the family's own, or an equispaced grid.

    Of a shape, those of them that lie inside at the lambda in question are compared at.
    """
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
    """The lambdas of the mean error, (n, p): the family's own, or a few per coefficient.

    Three values of each of nine coefficients would be 19683 settings: from five coefficients on it
    is a Sobol set of LARGEST_GRID with the centre in its middle, where a grid has it.
    """
    at, prior = family.evaluation.at, family.parameters
    if at is not None:
        return tensor([np.array(at[name], float) for name in prior.names])
    each = 5 if len(prior.free) == 1 else 3
    if each ** len(prior.free) <= LARGEST_GRID:
        return prior.grid(each)
    values = np.array(prior.sobol(LARGEST_GRID))
    values[LARGEST_GRID // 2] = prior.from_unit(np.full((1, prior.dim), 0.5))[0]
    return values


def dense_values(family: Family, most: int | None = None) -> np.ndarray:
    """Many lambdas, equispaced in the prior's measure; one where every coefficient is held.

    A Sobol set of as many as are asked for where a grid of that many or more has twice as many.
    """
    vary = max(1, len(family.parameters.free))
    num = family.evaluation.dense if most is None else min(most, family.evaluation.dense)
    each = math.ceil(num ** (1 / vary))
    return family.parameters.grid(each) if each**vary <= 2 * num else family.parameters.sobol(num)


def true_errors(
    solution: Solution, settings: Sequence[Sequence[float]] | np.ndarray
) -> list[float] | None:
    """The errors at these settings, where the truth is known.

    They are kept: a report asks for the same ones in a table and in a picture.
    """
    family = solution.family
    if family.exact is None and family.reference is None:
        return None
    points, errors = evaluation_points(family), _KNOWN.setdefault(solution, {})
    asked = [tuple(map(float, lam)) for lam in settings]
    for lam in asked:
        if lam not in errors:
            errors[lam] = _error(solution, points, np.array(lam), family.truth)
    return [errors[lam] for lam in asked]


def _error(solution: Solution, points: np.ndarray, lam: np.ndarray, truth: Truth) -> float:
    points = points[solution.family.domain.covers(points, lam)]
    value = truth(points, lam)
    assert value is not None
    return relative_error(_predict(solution, points, lam), value)


def _predict(solution: Solution, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    family = solution.family
    value = solution(**arguments(family, points, lam))
    columns = value.values() if isinstance(value, dict) else (value,)
    return np.stack(list(columns), axis=-1)


def relative_error(value: np.ndarray, truth: np.ndarray) -> float:
    """‖value - truth‖ / ‖truth‖ of each output (n, outputs); the worst output counts."""
    size = np.linalg.norm(truth, axis=0)
    return float(np.max(np.linalg.norm(value - truth, axis=0) / np.where(size > 0, size, 1)))


def _across_weights(
    solution: Solution, points: np.ndarray, lam: np.ndarray, known: Truth
) -> dict[str, Any]:
    """How much the answer depends on which loss weights are asked for."""
    points = points[solution.family.domain.covers(points, lam)]
    truth = known(points, lam)
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
        residuals = for_once(problem.residuals)(params, batch)
        terms = {name: float(np.sqrt(np.mean(np.square(r)))) for name, r in residuals.items()}
        judge = worst_case(problem)
        estimate = None if judge is None else judge(params)
    report = {"residual": math.sqrt(sum(v**2 for v in terms.values())), "terms": terms}
    if estimate is not None:
        error = estimate.error if math.isfinite(estimate.error) else None
        report["estimate"] = {
            "error": error, "reason": estimate.reason, "at": estimate.at, "note": estimate.note,
        }  # fmt: skip
    return report


def result(
    solution: Solution, total_seconds: float | None = None, against: str | None = None
) -> dict[str, Any]:
    """Everything that is worth knowing about a run, as plain JSON."""
    training, judged = solution.run.get("training", {}), solution.run.get("judged_in")
    spent = training.get("seconds", {}) | ({} if judged is None else {"verdict": judged})
    return {
        "family": solution.family.name,
        "protocol": solution.protocol.name,
        "at": dict(solution.protocol.at),
        "seed": solution.run.get("seed"),
        "parameters": solution.num_params,
        "error": evaluate(solution, against),
        "validation": validate(solution),
        "verdict": solution.verdict.to_json(),
        "seconds": {**spent, "total": total_seconds},
        "device": solution.run.get("device", device()),
        "versions": solution.run.get("versions", versions()),
        "stopped": training.get("stopped", []),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write_result(solution: Solution, directory: Path, total_seconds: float) -> dict[str, Any]:
    """A picture and result.json, into the run's directory: with the latter the run is over."""
    from lcpinn.plot import overview

    outcome = result(solution, total_seconds)
    picture = directory / "solution.png"
    try:
        overview.write(solution, picture)
    except OSError as error:
        raise LcpinnError(f"could not write {picture}: {error.strerror}") from None
    write_json(directory / "result.json", outcome)
    return outcome
