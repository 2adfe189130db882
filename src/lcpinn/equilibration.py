"""Row equilibration: rows divided by how strongly they respond to the network's parameters.

Rows of a high-order operator, or of a large coefficient, have large derivatives by the parameters
and would drown the others. For each term, log |d row / d params|² is fitted at the start by a
quadratic in lambda and divided out, so that every term, and every lambda within a term, responds
alike: what one would do by hand with the size of the operator. Dividing the rows of a linear system
by their norms is row equilibration (van der Sluis 1969); here the norm is a smooth function of
lambda, so that it also holds for rows that have not been drawn yet.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from lcpinn.network.film import chebyshev
from lcpinn.network.mlp import Params
from lcpinn.rows import Problem, Scale, by_place, num_components, places_jacobian
from lcpinn.sampling import Batch, Points
from lcpinn.weighting.fixed import Fixed

# For each term, coefficients of log |d row / d params|² in the features of lambda.
RowScales = dict[str, Float[Array, " features"]]


def equilibrating(problem: Problem, scales: RowScales) -> Scale:
    """The factors of rows: exp of minus half the fitted logarithm, times the family's own scale."""
    family = problem.family

    def factor(name: str, points: Points) -> Array:
        scale = jnp.exp(-0.5 * (_features(problem, points) @ scales[name]))[:, None]
        if family.scale is not None and family.terms[name].where == "interior":
            over = jax.vmap(jax.vmap(lambda p, lam: family.call("scale", p, lam)[0], (0, None)))
            scale = scale * over(points.coordinates, points.parameters)
        return scale

    return factor


def row_scales(problem: Problem, weighting: Any, params: Params, batch: Batch) -> RowScales:
    """The fit for every term, on the rows of a batch, at these network parameters.

    Weights that the protocol fixes are meant: they are left out here, or they would be divided out.
    """
    weighting = Fixed({}) if isinstance(weighting, Fixed) else weighting
    theta, unravel = ravel_pytree(params)
    family = problem.family
    unscaled = no_scales(problem, batch)
    evenly = {
        where: p._replace(quadrature=jnp.ones_like(p.quadrature), weights=jnp.ones_like(p.weights))
        for where, p in batch.items()
    }
    scale = equilibrating(problem, unscaled)
    sizes, scales = num_components(problem, params, batch), {}
    jacobian_at = places_jacobian(problem, weighting, unravel, scale)
    parts = {where: tuple(sizes[t.name] for t in terms) for where, terms in family.groups.items()}

    def respond(part: Batch) -> dict[str, list[Array]]:
        found = jacobian_at(theta, part)
        return {where: _responses(found[where][1], parts[where]) for where in part}

    responses = by_place(problem, evenly, theta, respond)
    for where, terms in family.groups.items():
        for term, response in zip(terms, responses[where], strict=True):
            scales[term.name] = _fit(_features(problem, batch[where]), response)
    return scales


def no_scales(problem: Problem, batch: Batch) -> RowScales:
    """Those that leave every row as it is."""
    return {
        t.name: jnp.zeros(_features(problem, batch[t.where]).shape[-1], problem.dtype)
        for t in problem.family.terms.values()
    }


def _responses(jacobian: Float[Array, "l c p"], sizes: tuple[int, ...]) -> list[Array]:
    """The mean square (l,) of a row's derivatives, for terms with so many components each."""
    blocks = jnp.split(jacobian, list(itertools.accumulate(sizes))[:-1], axis=1)
    return [jnp.sum(b**2, axis=(1, 2)) / n for b, n in zip(blocks, sizes, strict=True)]


def _fit(features: Float[Array, "n f"], response: Float[Array, " n"]) -> Float[Array, " f"]:
    """Coefficients c with exp(features @ c) close to the response, and equal to it in the mean."""
    floor = 1e-12 * jnp.mean(response) + jnp.finfo(response.dtype).tiny
    # Fit the logarithm, then match the mean: a fit of logarithms alone is dragged down by the rows
    # that happen to respond to nothing.
    fit = jnp.linalg.lstsq(features, jnp.log(response + floor))[0]
    mean = jnp.mean(response * jnp.exp(-features @ fit))
    return fit.at[0].add(jnp.log(mean))


def _features(problem: Problem, points: Points) -> Float[Array, "l f"]:
    """1 and the Chebyshev polynomials of the coefficients up to degree two."""
    prior = problem.family.parameters
    ones = jnp.ones((points.parameters.shape[0], 1), points.parameters.dtype)
    if prior.dim == 0:
        return ones
    return jnp.concatenate([ones, chebyshev(prior.normalise(points.parameters), 2)], axis=1)
