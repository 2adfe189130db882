"""Which points at which lambda: the batches that rows are made of.

A batch has one entry for each place where terms hold (the interior, a set of faces, the data). An
entry pairs L values of lambda with N points each: many points for few lambdas in the paper's
protocol, one point for each of many lambdas where both are spread jointly (N = 1).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lcpinn.domain import Face
from lcpinn.family import Data, Family, Term
from lcpinn.spec import spec


class Points(NamedTuple):
    """Points of one place. `quadrature` sums to one: weighted sums over rows are means."""

    coordinates: Float[Array, "l n dim"]
    parameters: Float[Array, "l p"]
    weights: Float[Array, "l m"]
    quadrature: Float[Array, "l n"]
    observed: Float[Array, "l n outputs"]


Batch = dict[str, Points]


@spec
class Sampling:
    """How many points: `interior` and `face` for each of `num_lambda` draws of lambda.

    `rule` is how they lie: `random` (drawn anew at every step), or for a fixed quadrature `gauss`
    (tensor Gauss-Legendre points, lambda at Gauss nodes) or `sobol` (every row its own lambda).
    """

    interior: int = 1024
    face: int = 100
    num_lambda: int = 4
    rule: str = "random"
    seed: int = 0


def draw(family: Family, sampling: Sampling, key: Array, dtype: DTypeLike) -> Batch:
    """Random points at random lambda, for one step of a stochastic optimiser (traceable)."""
    lambda_key, *keys = jax.random.split(key, 1 + len(family.groups))
    parameters, weights = _draw_lambda(family, lambda_key, sampling.num_lambda, dtype)
    batch: Batch = {}
    for (where, terms), group_key in zip(family.groups.items(), keys, strict=True):
        if where == "data":
            batch[where] = _data_points(family, group_key, dtype)
            continue
        sub = jax.random.split(group_key, sampling.num_lambda)
        points = jax.vmap(lambda k, terms=terms: _random(family, terms[0], sampling, k, dtype))(sub)
        batch[where] = _points(points, parameters, weights, dtype)
    return batch


def fixed(family: Family, sampling: Sampling, dtype: DTypeLike) -> Batch:
    """A fixed quadrature over (point, lambda), the same in every call."""
    batch: Batch = {}
    for offset, (where, terms) in enumerate(family.groups.items()):
        seed = sampling.seed + 7919 * offset
        if where == "data":
            batch[where] = _data_points(family, jax.random.PRNGKey(seed), dtype)
        elif sampling.rule == "gauss":
            batch[where] = _gauss(family, terms[0], sampling, dtype)
        else:
            batch[where] = _sobol(family, terms[0], sampling, seed, dtype)
    return batch


def _draw_lambda(family: Family, key: Array, num: int, dtype: DTypeLike) -> tuple[Array, Array]:
    first, second = jax.random.split(key)
    parameters = family.parameters.sample(first, num, dtype)
    if family.weights is None:
        return parameters, jnp.zeros((num, 0), dtype)
    return parameters, family.weights.sample(second, num, dtype)


def _faces(term: Term, sampling: Sampling) -> tuple[tuple[Face | None, ...], int]:
    """The faces that a term's points lie on, and how many points each gets."""
    if not term.faces:
        return (None,), sampling.interior
    return term.faces, max(1, sampling.face // len(term.faces))


def _random(family: Family, term: Term, sampling: Sampling, key: Array, dtype: DTypeLike) -> Array:
    faces, num = _faces(term, sampling)
    keys = jax.random.split(key, len(faces))
    parts = [
        family.domain.random(k, num, face=f, dtype=dtype) for k, f in zip(keys, faces, strict=True)
    ]
    return jnp.concatenate(parts)


def _gauss(family: Family, term: Term, sampling: Sampling, dtype: DTypeLike) -> Points:
    parameters, weights, mass = _lambda_nodes(family, sampling)
    faces, num = _faces(term, sampling)
    rules = [family.domain.gauss(num, face=f) for f in faces]
    points = np.concatenate([p for p, _ in rules])
    quadrature = np.concatenate([w for _, w in rules]) / len(rules)
    shape = (len(parameters), *points.shape)
    return _points(
        np.broadcast_to(points, shape), parameters, weights, dtype, np.outer(mass, quadrature)
    )


def _lambda_nodes(family: Family, sampling: Sampling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of lambda: Gauss in one coefficient, Sobol where there is more than that."""
    num, prior = sampling.num_lambda, family.weights
    parameters, mass = family.parameters.sobol(num, sampling.seed), np.full(num, 1 / num)
    if family.parameters.dim == 1:
        parameters, mass = family.parameters.quadrature(num)
    weights = np.zeros((num, 0)) if prior is None else prior.sobol(num, sampling.seed + 1)
    return parameters, weights, mass


def _sobol(family: Family, term: Term, sampling: Sampling, seed: int, dtype: DTypeLike) -> Points:
    faces, num = _faces(term, sampling)
    total = num * sampling.num_lambda * len(faces)
    parts = [
        family.domain.sobol(num * sampling.num_lambda, seed + i, face=f)
        for i, f in enumerate(faces)
    ]
    parameters = family.parameters.sobol(total, seed + 101)
    weights = np.zeros((total, 0))
    if family.weights is not None:
        weights = family.weights.sobol(total, seed + 202)
    # Two Sobol sets of different seeds are paired at random, so that they are jointly uniform.
    order = np.random.default_rng(seed).permutation(total)
    return _points(np.concatenate(parts)[:, None], parameters[order], weights[order], dtype)


def _data_points(family: Family, key: Array, dtype: DTypeLike) -> Points:
    """Every observation, each with a lambda of its own; what it does not know is drawn."""
    data: Data | None = family.data
    assert data is not None
    num = len(data)
    parameters, weights = _draw_lambda(family, key, num, dtype)
    for i, name in enumerate(family.parameters.names):
        if name in data.columns:
            parameters = parameters.at[:, i].set(jnp.asarray(data.columns[name], dtype))
    points = np.stack([data.columns[c] for c in family.domain.names], axis=-1)[:, None]
    observed = np.stack([data.columns[o] for o in family.outputs if o in data.columns], axis=-1)
    return _points(points, parameters, weights, dtype, observed=observed[:, None])


def _points(coordinates, parameters, weights, dtype, quadrature=None, observed=None) -> Points:
    num_lambda, num = coordinates.shape[:2]
    if quadrature is None:
        quadrature = np.full((num_lambda, num), 1 / (num_lambda * num))
    if observed is None:
        observed = np.zeros((num_lambda, num, 0))
    arrays = (coordinates, parameters, weights, quadrature, observed)
    return Points(*(jnp.asarray(a, dtype) for a in arrays))
