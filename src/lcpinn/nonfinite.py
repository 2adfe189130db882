"""Which row of a problem is not finite, or raises: the term, the place and lambda, in words."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.network.contract import Params
from lcpinn.rows import Problem, one_by_one
from lcpinn.sampling import Batch, Points


def describe_nonfinite(problem: Problem, params: Params, batch: Batch) -> str:
    """Which term, at which lambda and where, has rows that are not finite."""
    return (
        find_nonfinite(problem, params, batch)
        or "the loss is NaN or infinite although every row is finite: it overflowed"
    )


def find_nonfinite(problem: Problem, params: Params, batch: Batch) -> str | None:
    """The first row that is not finite, or whose derivative is not; None where all are."""
    return _nonfinite_row(problem, params, batch) or _nonfinite_slope(problem, params, batch)


def _nonfinite_row(problem: Problem, params: Params, batch: Batch) -> str | None:
    for name, r in jax.jit(problem.residuals)(params, batch).items():
        bad = np.argwhere(~np.isfinite(np.asarray(r)))
        if len(bad):
            points = batch[problem.family.terms[name].where]
            where = _described(problem, points, int(bad[0][0]), int(bad[0][1]))
            return f"the term {name!r} is NaN or infinite at {where} ({len(bad)} rows in all)"
    return None


def _nonfinite_slope(problem: Problem, params: Params, batch: Batch) -> str | None:
    are_finite = jax.jit(partial(_finite_slopes, problem), static_argnums=1)
    for place, points in batch.items():
        for name, finite in are_finite(params, place, points).items():
            bad = np.flatnonzero(~np.asarray(finite))
            if len(bad):
                at = np.unravel_index(bad[0], points.coordinates.shape[:2])
                where = _described(problem, points, int(at[0]), int(at[1]))
                count = f"({len(bad)} points in all)"
                what = f"the derivative of the term {name!r} by the network"
                return f"{what} is NaN or infinite at {where} {count}"
    return None


def _finite_slopes(
    problem: Problem, params: Params, place: str, points: Points
) -> dict[str, Array]:
    """Whether a reverse pass from each point, one after the other, is finite: by term."""

    def one(single: Points) -> dict[str, Array]:
        here = {place: jax.tree.map(lambda a: a[None], single)}
        sums = lambda p: {n: jnp.sum(r) for n, r in problem.residuals(p, here).items()}
        finite = lambda tree: jnp.all(
            jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)])
        )
        return {name: finite(slope) for name, slope in jax.jacrev(sums)(params).items()}

    return jax.lax.map(one, one_by_one(points))


def find_raising(problem: Problem, params: Params, batch: Batch) -> str | None:
    """The first point where a callback of the user's raises, and what it says."""
    for place, points in batch.items():
        one = jax.jit(lambda p, q, place=place: problem.residuals(p, {place: q}))
        for index, (i, j) in enumerate(np.ndindex(*points.coordinates.shape[:2])):
            single = jax.tree.map(lambda a, k=index: a[k][None], one_by_one(points))
            try:
                jax.block_until_ready(one(params, single))
            except (jax.errors.JaxRuntimeError, ValueError) as error:
                names = " or ".join(repr(term.name) for term in problem.family.groups[place])
                where = _described(problem, points, i, j)
                return f"the term {names} raises at {where}: {error}"
    return None


def _described(problem: Problem, points: Points, i: int, j: int) -> str:
    """Point j at lambda i, in words."""
    family = problem.family
    values = dict(zip(family.domain.names, points.coordinates[i, j], strict=True))
    values |= dict(zip(family.parameters.names, points.parameters[i], strict=True))
    if family.weights is not None:
        labels = (f"weight of {n}" for n in family.weights.names)
        values |= dict(zip(labels, points.weights[i], strict=True))
    return ", ".join(f"{k} = {float(v):.6g}" for k, v in values.items())
