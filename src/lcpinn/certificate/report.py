"""Residuals and estimates over many lambda: the certificate; and the worst of a few settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.certificate.estimate import Estimate
from lcpinn.certificate.estimator import of_network
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Batch, Sampling, fixed


def certificate(
    problem: Problem,
    params: Params,
    settings: np.ndarray,
    weights: np.ndarray | None = None,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Residuals on unseen points and the estimated error at every setting (n, p).

    `passed` is whether every setting has an estimate, and none is above the tolerance; None without
    one.
    """
    estimator, residual = of_network(problem), _residual(problem, weights)
    names, rows = problem.family.parameters.names, []
    for lam in settings:
        estimate = estimator(params, lam, weights)
        error = estimate.error if np.isfinite(estimate.error) else None
        at = dict(zip(names, map(float, lam), strict=True))
        rows.append({"at": at, "error": error, "reason": estimate.reason, **residual(params, lam)})
    known = [row for row in rows if row["error"] is not None]
    worst = max(known, key=lambda row: row["error"], default=None)
    passed = None
    if tolerance is not None:
        passed = len(known) == len(rows) and all(row["error"] <= tolerance for row in known)
    return {"settings": rows, "worst": worst, "tolerance": tolerance, "passed": passed}


UNSEEN = Sampling(interior=512, face=64, num_lambda=1, rule="sobol", seed=2027)


def _residual(
    problem: Problem, weights: np.ndarray | None
) -> Callable[[Params, np.ndarray], dict[str, Any]]:
    """Root mean squares of every term at one setting, on points that no training uses."""

    @jax.jit
    def run(params: Params, batch: Batch) -> dict[str, Array]:
        if weights is not None:
            batch = {
                where: points._replace(
                    weights=jnp.asarray(weights)[jnp.arange(len(points.weights)) % len(weights)]
                )
                for where, points in batch.items()
            }
        return {
            name: jnp.sqrt(jnp.mean(r**2)) for name, r in problem.residuals(params, batch).items()
        }

    def rms(params: Params, lam: np.ndarray) -> dict[str, Any]:
        with double():
            batch = fixed(problem.family, UNSEEN, jnp.float64, at=np.asarray(lam, float))
            terms = {name: float(v) for name, v in run(params, batch).items()}
        return {"residual": float(np.sqrt(sum(v**2 for v in terms.values()))), "terms": terms}

    return rms


def worst_case(problem: Problem) -> Callable[[Params], Estimate] | None:
    """The largest estimate over a few settings, where a small residual alone proves little.

    That is in initial-value problems. None for others, and in three coordinates, where it would
    take longer than the steps that it is to judge. An error with fronts stays unknown: following
    them takes longer, too.
    """
    family = problem.family
    if family.domain.dim > 2 or not family.is_initial_value():
        return None
    estimator, names = of_network(problem), family.parameters.names
    alone = len(family.parameters.free) == 1
    settings = family.parameters.grid((5 if family.domain.dim == 1 else 3) if alone else 2)
    draws = None if family.weights is None else family.weights.sobol(8, seed=0)

    def judge(params: Params) -> Estimate:
        estimates = [estimator(params, lam, draws, fronts=False, seconds=0.0) for lam in settings]
        worst = int(np.argmax([e.error for e in estimates]))  # the first that is nan, if one is
        at = dict(zip(names, map(float, settings[worst]), strict=True))
        return estimates[worst]._replace(at=at)

    return judge
