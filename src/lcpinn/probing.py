"""What the terms of a page are, asked by numbers: affine functions, or satisfied by the ansatz."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.compilation import for_once
from lcpinn.interpreted import Seldom
from lcpinn.jet import Orders
from lcpinn.precision import double
from lcpinn.term import Term

if TYPE_CHECKING:
    from lcpinn.family import Family

MAGNITUDES = (1.0, 1e3, 1e6)  # of arguments: a radiation's 5.67e-8 T⁴ is nothing at T = 1
AFFINE = 1e-9  # a second difference beside the values that it is made of
SATISFIED = 1e-10  # a residual


def are_affine(family: Family, terms: Iterable[Term]) -> bool:
    """Whether terms are affine functions of the outputs and their derivatives: the second
    difference of one vanishes, whatever units its arguments have."""
    rng = np.random.default_rng(0)
    with double():
        unit = rng.uniform(0.2, 0.8, (1, family.domain.dim))
        lam = np.array(family.parameters.from_unit(rng.uniform(0.2, 0.8, family.parameters.dim)))
        point = np.asarray(family.domain.place(unit, lam[None])[0])
        for term in terms:
            if term.name == "data":
                continue
            orders = family.orders([term])
            a, b = (rng.normal(size=(len(orders), len(family.outputs))) for _ in "ab")
            four = np.stack([a + b, a, b, np.zeros_like(a)])
            tried = np.concatenate([size * four for size in MAGNITUDES])
            values = np.asarray(_seldom(partial(_residual_at, term, orders))(tried, point, lam))
            if not _is_affine(values.reshape(len(MAGNITUDES), 4, -1)):
                return False
    return True


def _is_affine(values: np.ndarray) -> bool:
    """By values (magnitudes, 4, n) at a + b, a, b and nothing."""
    whole, first, other, none = np.moveaxis(values, 1, 0)
    with np.errstate(invalid="ignore"):  # not finite, as the logarithm of -1, is not so
        second = np.abs(whole - first - other + none)
        return bool(np.all(second <= AFFINE * np.max(np.abs(values), axis=1)))


def _residual_at(term: Term, orders: Orders, series: Array, point: Array, lam: Array) -> Array:
    """A term at one point, for several series (n, len(orders), outputs)."""
    normal = jnp.full_like(point, len(point) ** -0.5)  # any will do
    return jax.vmap(lambda s: term.residual(s, orders, point, lam, normal=normal))(series)


def void_terms(family: Family) -> set[str]:
    """Terms on faces that the ansatz already satisfies, whatever the network does."""
    if family.ansatz is None:
        return set()
    with double():
        return {t.name for t in family.all_terms.values() if t.faces and _is_void(family, t)}


def _is_void(family: Family, term: Term) -> bool:
    orders = family.orders([term])
    rng = np.random.default_rng(0)
    raw = jnp.asarray(rng.normal(size=(8, len(orders), len(family.outputs))))
    parameters = family.parameters.sobol(8)

    def residual(coefficients: Array, point: Array, lam: Array, normal: Array) -> Array:
        series = family.impose(coefficients, point, lam, orders)
        return term.residual(series, orders, point, lam, normal=normal)

    # Traced once for all faces: piece by piece this would take seconds.
    run = _seldom(jax.vmap(residual))
    for face in term.faces:
        places = family.domain.sobol(8, face=face, parameters=parameters)
        normals = family.domain.normals(places, parameters, (face,))
        values = np.asarray(run(raw, places, parameters, normals))
        if not np.all(np.abs(values) < SATISFIED):
            return False
    return True


def _seldom(function: Callable[..., Any]) -> Seldom:
    return Seldom(function, for_once(function))
