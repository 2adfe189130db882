"""Rows in the form that least squares wants: scaled alike, with their Jacobian.

A row is sqrt(weight * quadrature) * scale(lambda) * residual of one term at one point. Every place
of a batch has one point per lambda here, so that a slice along its first axis is one row for each
component of its terms.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from lcpinn.batch import Batch, Points
from lcpinn.network.film import chebyshev
from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Setup

# Bytes that a Jacobian's intermediates may take on a CPU and on an accelerator; what needs more
# comes in chunks.
MEMORY = {"cpu": 2 << 30}
ACCELERATOR_MEMORY = 24 << 30


def scaled_rows(setup: Setup, params: Params, batch: Batch, scales: dict[str, Array]) -> Array:
    """Rows sqrt(weight * quadrature) * scale(lambda) * residual, in one vector."""
    problem = setup.problem
    residuals = problem.residuals(params, batch)
    weights, _ = setup.weighting.weigh((), problem.family, batch, residuals)
    return jnp.concatenate(
        [
            (r * _row_factor(setup, batch, weights[name], scales, name)[..., None]).ravel()
            for name, r in residuals.items()
        ]
    )


def _row_factor(
    setup: Setup, batch: Batch, weight: Array, scales: dict[str, Array], name: str
) -> Array:
    family = setup.problem.family
    points = batch[family.terms[name].where]
    scale = jnp.exp(-0.5 * (_scale_features(setup, points) @ scales[name]))[:, None]
    if family.scale is not None and family.terms[name].where == "interior":
        over = jax.vmap(jax.vmap(lambda p, lam: family.call("scale", p, lam)[0], (0, None)))
        scale = scale * over(points.coordinates, points.parameters)
    return jnp.sqrt(weight * points.quadrature) * scale


def rows_and_jacobian(
    setup: Setup, unravel: Any, theta: Array, batch: Batch, scales: dict[str, Array]
) -> tuple[Array, Array]:
    """Rows (n,) and their derivatives (n, p), one reverse pass per row, vectorised over rows.

    Every place of the batch has one point per lambda here, so a slice along the first axis is one
    row (one per component of each of its terms). The order is that of `scaled_rows`.
    """
    problem, num = setup.problem, _num_components(setup, unravel(theta), batch)
    found_rows: dict[str, Array] = {}
    found_jacobian: dict[str, Array] = {}
    for where, terms in problem.family.groups.items():
        names = [t.name for t in terms]

        def one(vector: Array, points: Points, where=where, names=names) -> tuple[Array, Array]:
            single = {where: jax.tree.map(lambda a: a[None], points)}
            residuals = problem.residuals(unravel(vector), single)
            weights, _ = setup.weighting.weigh((), problem.family, single, residuals)
            rows = jnp.concatenate(
                [
                    (
                        residuals[n] * _row_factor(setup, single, weights[n], scales, n)[..., None]
                    ).ravel()
                    for n in names
                ]
            )
            return rows, rows

        jacobian, rows = _by_chunks(jax.jacrev(one, has_aux=True), theta, batch[where])
        at = 0
        for name in names:
            size = num[name]
            found_rows[name] = rows[:, at : at + size].ravel()
            found_jacobian[name] = jacobian[:, at : at + size].reshape(-1, theta.size)
            at += size
    order = [t.name for terms in problem.family.groups.values() for t in terms]
    return (
        jnp.concatenate([found_rows[n] for n in order]),
        jnp.concatenate([found_jacobian[n] for n in order]),
    )


def _by_chunks(function: Any, theta: Array, points: Points) -> Any:
    """Map over rows; in chunks where everything at once would exceed the memory budget."""
    num = points.coordinates.shape[0]
    # A reverse pass keeps a few copies of the parameters and of every hidden value per row.
    bytes_per_row = 8 * theta.size * theta.dtype.itemsize
    budget = MEMORY.get(jax.default_backend(), ACCELERATOR_MEMORY)
    chunk = max(1, budget // bytes_per_row)
    if num <= chunk:
        return jax.vmap(function, (None, 0))(theta, points)
    # Equal chunks where that is possible: a remainder would be a second program to compile.
    count = -(-num // chunk)
    count = next((c for c in range(count, 2 * count) if num % c == 0), count)
    return jax.lax.map(lambda p: function(theta, p), points, batch_size=-(-num // count))


def _num_components(setup: Setup, params: Params, batch: Batch) -> dict[str, int]:
    shapes = jax.eval_shape(setup.problem.residuals, params, batch)
    return {name: shape.shape[-1] for name, shape in shapes.items()}


def row_scales(setup: Setup, params: Params, batch: Batch) -> dict[str, Array]:
    """For each term, log |d row / d params|² as a quadratic in lambda, fitted at the start.

    Dividing by it makes every term, and every lambda within a term, respond alike to a change of
    the network: what one would do by hand with the size of the operator.
    """
    flat, unravel = ravel_pytree(params)
    family = setup.problem.family
    even = {
        t.name: jnp.zeros(_scale_features(setup, batch[t.where]).shape[-1], setup.problem.dtype)
        for t in family.terms.values()
    }
    even_batch = {
        where: p._replace(quadrature=jnp.ones_like(p.quadrature), weights=jnp.ones_like(p.weights))
        for where, p in batch.items()
    }
    _, jacobian = rows_and_jacobian(setup, unravel, flat, even_batch, even)
    sizes, scales, at = _num_components(setup, params, batch), {}, 0
    for terms in family.groups.values():
        for term in terms:
            points = batch[term.where]
            size = sizes[term.name]
            num = points.coordinates.shape[0]
            block = jacobian[at : at + num * size].reshape(num, size, -1)
            response = jnp.sum(block**2, axis=(1, 2)) / size
            features = _scale_features(setup, points)
            floor = 1e-12 * jnp.mean(response) + jnp.finfo(flat.dtype).tiny
            # Fit the logarithm, then match the mean: a fit of logarithms alone is dragged down by
            # the rows that happen to respond to nothing.
            fit = jnp.linalg.lstsq(features, jnp.log(response + floor))[0]
            mean = jnp.mean(response * jnp.exp(-features @ fit))
            scales[term.name] = fit.at[0].add(jnp.log(mean))
            at += num * size
    return scales


def _scale_features(setup: Setup, points: Points) -> Array:
    """1 and the Chebyshev polynomials of the coefficients up to degree two."""
    prior = setup.problem.family.parameters
    ones = jnp.ones((points.parameters.shape[0], 1), points.parameters.dtype)
    if prior.dim == 0:
        return ones
    return jnp.concatenate([ones, chebyshev(prior.normalise(points.parameters), 2)], axis=1)
