"""Which coefficients of a linear equation are loads, so that its solutions are affine in them.

Where terms are affine in a coefficient that does not multiply the solution, nor another such
coefficient, u = u_0 + Σ_j c_j u_j, and the u_j depend on the other coefficients alone. It shows in
the second derivatives of the terms, by Taylor coefficients of the outputs and coefficients.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.domain import Box
from lcpinn.family import Family
from lcpinn.precision import double
from lcpinn.term import Term

POINTS = 512  # of every term: a coefficient may be one of a part of the domain
ZERO = 1e-9  # of the largest second derivative, and of one


def loads(family: Family) -> tuple[str, ...]:
    """The free coefficients that solutions are affine in, whatever the others are; none where that
    cannot be told."""
    if not family.is_linear() or family.ansatz is not None or not isinstance(family.domain, Box):
        return ()
    with double():
        curved = np.stack([_curvature(family, term) for term in family.terms.values()]).max(axis=0)
    num = family.parameters.dim
    by_series, by_others = curved[:num, num], curved[:num, :num] > 0
    free = np.array([name in family.parameters.free for name in family.parameters.names])
    kept = free & (by_series == 0) & ~np.diagonal(by_others)
    # Of two that multiply each other neither is one.
    kept &= ~np.any(by_others & kept[:, None] & kept[None], axis=1)
    return tuple(n for n, load in zip(family.parameters.names, kept, strict=True) if load)


def _curvature(family: Family, term: Term) -> np.ndarray:
    """Whether second derivatives by two coefficients, or by one and the outputs, are not zero:
    (p + 1, p + 1), ones and zeros."""
    orders, domain, prior = family.orders([term]), family.domain, family.parameters
    face = term.faces[0] if term.faces else None
    points = jnp.asarray(domain.sobol(POINTS, seed=31, face=face))
    settings = jnp.asarray(prior.sobol(POINTS, 32))
    shape = (len(orders), len(family.outputs))
    series = jnp.asarray(np.random.default_rng(33).normal(size=(POINTS, *shape)))
    normal = jnp.ones(domain.dim)

    def second(s: Array, point: Array, lam: Array) -> Array:
        def residual(joined: Array) -> Array:
            own = joined[prior.dim :].reshape(shape)
            return term.residual(own, orders, point, joined[: prior.dim], normal=normal)

        return jax.hessian(residual)(jnp.concatenate([lam, s.ravel()]))

    every = np.abs(np.asarray(jax.jit(jax.vmap(second))(series, points, settings)))
    largest = every.max(axis=(0, 1))
    size, num = max(float(largest.max()), 1.0), prior.dim
    joined = np.zeros((num + 1, num + 1))
    joined[:num, :num] = largest[:num, :num]
    joined[:num, num] = largest[:num, num:].max(axis=1)
    return (joined > ZERO * size).astype(float)
