"""Which points at which lambda: the batches that rows are made of.

A batch has one entry for each place where terms hold (the interior, a set of faces, the data). An
entry pairs L values of lambda with N points each: many points for few lambdas in the paper's
protocol, one point for each of many lambdas where both are spread jointly (N = 1).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float

from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.family import Data, Family
from lcpinn.quadrature import tensor, unit_gauss, unit_sobol
from lcpinn.shape import Place
from lcpinn.spec import spec
from lcpinn.term import Term


class PointSeries(NamedTuple):
    """Taylor coefficients of what no parameter of the network changes, along the axis s.

    `features` are what the network sees; an ansatz that is affine in the network's outputs is
    `offset` + `factor` · outputs. None is what a program can as well find for itself.
    """

    features: Float[Array, "l n s f"] | None = None
    offset: Float[Array, "l n s outputs"] | None = None
    factor: Float[Array, "l n s outputs outputs"] | None = None


class Points(NamedTuple):
    """Points of one place. `quadrature` sums to one: weighted sums over rows are means.

    `series` belong to these coordinates and parameters: who replaces those takes them out.
    """

    coordinates: Float[Array, "l n dim"]
    parameters: Float[Array, "l p"]
    weights: Float[Array, "l m"]
    quadrature: Float[Array, "l n"]
    observed: Float[Array, "l n outputs"]
    normals: Float[Array, "l n dim"] | None = None  # where a term asks for them
    series: Any = None  # PointSeries, where they are known (known_series.py)


Batch = dict[str, Points]

POINTWISE = ("coordinates", "quadrature", "observed", "normals", "series")  # (l, n, ...)

UNKNOWN = 64  # rows at least of observations that hold for every value of a coefficient
AT_ENDS, PLACES = 0.5, 1025  # share of rows that are denser at ends; of a table of places
CORNERS = 7  # of so many rows one, where some are to lie at corners of the range of coefficients


@spec
class Sampling:
    """How many points: `interior` and `face` for each of `num_lambda` draws of lambda.

    `rule` is how they lie: `random` (drawn anew at every step), `frozen` (random points that serve
    all steps, all lambdas and all seeds of a training; lambda is drawn at every step), or for a
    fixed quadrature `gauss` (tensor Gauss-Legendre points, lambda at Gauss nodes), `sobol` (every
    row its own lambda) or `collocation` (the same, lambda clustered towards the ends of its range,
    and a tensor rule where there are one coordinate and one coefficient; `interior` and `face` are
    then rows in all).

    `seed` is that of the points that do not change. `columns` names the coordinates, where frozen
    points are to be drawn one coordinate after the other in an order of their own.
    """

    interior: int = 1024
    face: int = 100
    num_lambda: int = 4
    rule: str = "random"
    seed: int = 0
    grid: int = 0  # with a number, lambda comes from a grid of so many values per coefficient
    columns: tuple[str, ...] = ()


DRAWN = ("random", "frozen")  # rules of batches that a step draws something of


def draw(family: Family, sampling: Sampling, key: Array, dtype: DTypeLike) -> Batch:
    """Points at random lambda, for one step of a stochastic optimiser (traceable)."""
    if sampling.rule == "frozen":
        return _draw_frozen(family, sampling, key, dtype)
    lambda_key, *keys = jax.random.split(key, 1 + len(family.groups))
    parameters, weights = _lambda_of_step(family, sampling, lambda_key, dtype)
    batch: Batch = {}
    for (where, terms), group_key in zip(family.groups.items(), keys, strict=True):
        if where == "data":
            batch[where] = _data_points(family, group_key, dtype)
            continue
        sub = jax.random.split(group_key, sampling.num_lambda)
        points = jax.vmap(
            lambda k, lam, terms=terms: _random(family, terms[0], sampling, k, dtype, lam)
        )(sub, parameters)
        batch[where] = _points(points, parameters, weights, dtype)
    return with_normals(family, batch)


def _draw_frozen(family: Family, sampling: Sampling, key: Array, dtype: DTypeLike) -> Batch:
    """The rule's own points, at random lambda; on a shape they come from the rule's own keys."""
    parameters, weights = _lambda_of_step(family, sampling, key, dtype)
    in_box = frozen_points(family, sampling) if isinstance(family.domain, Box) else {}
    keys = jax.random.split(jax.random.PRNGKey(sampling.seed), len(family.groups))
    batch: Batch = {}
    for (where, terms), own in zip(family.groups.items(), keys, strict=True):
        if where == "data":
            batch[where] = _data_at(family, parameters, weights, key, dtype)
            continue
        if where in in_box:
            points = jnp.asarray(in_box[where], dtype)
            points = jnp.broadcast_to(points, (len(parameters), *points.shape))
        else:
            points = jax.vmap(
                lambda lam, k=own, terms=terms: _random(family, terms[0], sampling, k, dtype, lam)
            )(parameters)
        batch[where] = _points(points, parameters, weights, dtype)
    return with_normals(family, batch)


def _lambda_of_step(
    family: Family, sampling: Sampling, key: Array, dtype: DTypeLike
) -> tuple[Array, Array]:
    parameters, weights = _draw_lambda(family, key, sampling.num_lambda, dtype)
    if sampling.grid:
        nodes = jnp.asarray(family.parameters.grid(sampling.grid), dtype)
        parameters = jax.random.choice(key, nodes, (sampling.num_lambda,))
    return parameters, weights


def fixed(
    family: Family, sampling: Sampling, dtype: DTypeLike, at: np.ndarray | None = None
) -> Batch:
    """A fixed quadrature over (point, lambda), the same in every call.

    `at` are coefficients (p,) that all points of the rule `sobol` are to have.
    """
    if sampling.rule == "frozen":
        return draw(family, sampling, jax.random.PRNGKey(sampling.seed), dtype)
    batch: Batch = {}
    for offset, (where, terms) in enumerate(family.groups.items()):
        seed = sampling.seed + 7919 * offset
        if where == "data":
            batch[where] = _data_points(family, jax.random.PRNGKey(seed), dtype)
        elif sampling.rule == "gauss":
            batch[where] = _gauss(family, terms[0], sampling, dtype)
        elif sampling.rule == "collocation":
            batch[where] = _collocation(family, terms[0], sampling, seed, dtype)
        elif sampling.rule == "sobol":
            batch[where] = _sobol(family, terms[0], sampling, seed, dtype, at)
        else:
            raise LcpinnError(
                f"there is no fixed rule {sampling.rule!r}: gauss, sobol, collocation, frozen"
            )
    return with_normals(family, batch)


def frozen_points(family: Family, sampling: Sampling) -> dict[str, Float[np.ndarray, "n dim"]]:
    """Random points of a box that depend on the rule's seed alone, place by place.

    They come from NumPy's default generator: all coordinates of the interior at once, or one after
    the other (`columns`), then face by face. `draws_after` goes on where they end.
    """
    return _frozen(family, sampling)[0]


def draws_after(family: Family, sampling: Sampling) -> np.random.Generator:
    """The generator of `frozen_points` once those are drawn, for observations of the same set."""
    return _frozen(family, sampling)[1]


def _frozen(
    family: Family, sampling: Sampling
) -> tuple[dict[str, np.ndarray], np.random.Generator]:
    rng, domain = np.random.default_rng(sampling.seed), family.domain
    if sorted(sampling.columns) not in ([], sorted(domain.names)):
        raise LcpinnError(
            f"frozen points: columns are {', '.join(sampling.columns)}, but the coordinates of "
            f"{family.name} are {', '.join(domain.names)}"
        )
    points: dict[str, np.ndarray] = {}
    for where, terms in family.groups.items():
        if where == "data":
            continue
        faces, num = _faces(terms[0], sampling)
        parts = []
        for face in faces:
            if face is None and sampling.columns:
                unit = np.empty((num, domain.dim))
                for name in sampling.columns:
                    unit[:, domain.names.index(name)] = rng.random(num)
            else:
                unit = rng.random((num, domain.unit_dim(face)))
            parts.append(domain.place(unit, np.zeros((num, 0)), face))
        points[where] = np.concatenate(parts)
    return points, rng


def with_normals(family: Family, batch: Batch) -> Batch:
    """The batch with outward normals wherever a term asks for them."""
    asking = [w for w, terms in family.groups.items() if any(t.asks_normals for t in terms)]
    for where in asking:
        points, faces = batch[where], family.groups[where][0].faces
        xp, coordinates, parameters = _computed_with(points)
        lam = xp.broadcast_to(parameters[:, None], (*coordinates.shape[:2], family.parameters.dim))
        with np.errstate(divide="ignore", invalid="ignore"):  # at a centre, as JAX does
            normals = family.domain.normals(coordinates, lam, faces, xp)
        batch[where] = points._replace(normals=jnp.asarray(normals))
    return batch


def _computed_with(points: Points) -> tuple[ModuleType, Any, Any]:
    """The module to compute with, and its coordinates and parameters.

    JAX would compile some thirty operations one by one, for every number of points. NumPy gives the
    same numbers, in double precision: constants of a shape are double in any case.
    """
    given = points.coordinates, points.parameters
    if any(isinstance(a, Tracer) or a.dtype != np.float64 for a in given):
        return jnp, *given
    return np, *map(np.asarray, given)


def _draw_lambda(family: Family, key: Array, num: int, dtype: DTypeLike) -> tuple[Array, Array]:
    first, second = jax.random.split(key)
    parameters = family.parameters.sample(first, num, dtype)
    if family.weights is None:
        return parameters, jnp.zeros((num, 0), dtype)
    return parameters, family.weights.sample(second, num, dtype)


def _faces(term: Term, sampling: Sampling) -> tuple[tuple[Place, ...], int]:
    """The faces that a term's points lie on, and how many points each gets."""
    if not term.faces:
        return (None,), sampling.interior
    return term.faces, max(1, sampling.face // len(term.faces))


def _random(
    family: Family, term: Term, sampling: Sampling, key: Array, dtype: DTypeLike, lam: Array
) -> Array:
    faces, num = _faces(term, sampling)
    keys = jax.random.split(key, len(faces))
    parts = [
        family.domain.random(k, num, face=f, dtype=dtype, parameters=lam)
        for k, f in zip(keys, faces, strict=True)
    ]
    return jnp.concatenate(parts)


def _gauss(family: Family, term: Term, sampling: Sampling, dtype: DTypeLike) -> Points:
    parameters, weights, mass = _lambda_nodes(family, sampling)
    faces, num = _faces(term, sampling)
    rules = [family.domain.rule(num, parameters, f, sampling.seed + i) for i, f in enumerate(faces)]
    points = np.concatenate([p for p, _ in rules], axis=1)
    quadrature = np.concatenate([w for _, w in rules]) / len(rules)
    return _points(points, parameters, weights, dtype, np.outer(mass, quadrature))


def _lambda_nodes(family: Family, sampling: Sampling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of lambda: Gauss in one coefficient, Sobol where there is more than that."""
    num, prior = sampling.num_lambda, family.weights
    parameters, mass = family.parameters.sobol(num, sampling.seed), np.full(num, 1 / num)
    if sampling.grid:
        parameters = family.parameters.grid(sampling.grid)
        num, mass = len(parameters), np.full(len(parameters), 1 / len(parameters))
    elif len(family.parameters.free) == 1:
        parameters, mass = family.parameters.quadrature(num)
    weights = np.zeros((num, 0)) if prior is None else prior.sobol(num, sampling.seed + 1)
    return parameters, weights, mass


def _sobol(
    family: Family,
    term: Term,
    sampling: Sampling,
    seed: int,
    dtype: DTypeLike,
    at: np.ndarray | None = None,
) -> Points:
    faces, num = _faces(term, sampling)
    total = num * sampling.num_lambda * len(faces)
    parameters = family.parameters.sobol(total, seed + 101)
    weights = np.zeros((total, 0))
    if family.weights is not None:
        weights = family.weights.sobol(total, seed + 202)
    # Two Sobol sets of different seeds are paired at random, so that they are jointly uniform.
    order = np.random.default_rng(seed).permutation(total)
    parameters, weights = parameters[order], weights[order]
    if at is not None:
        parameters = np.broadcast_to(at, parameters.shape)
    parts = [
        family.domain.sobol(len(lam), seed + i, face=f, parameters=lam)
        for i, (f, lam) in enumerate(zip(faces, np.split(parameters, len(faces)), strict=True))
    ]
    return _points(np.concatenate(parts)[:, None], parameters, weights, dtype)


def _collocation(
    family: Family, term: Term, sampling: Sampling, seed: int, dtype: DTypeLike
) -> Points:
    """Rows for least squares: one point each, spread jointly over coordinates and lambda."""
    faces, num = _faces(term, sampling)
    sets = [_joint(family, face, num, seed + i) for i, face in enumerate(faces)]
    points, parameters, weights = (np.concatenate(part) for part in zip(*sets, strict=True))
    observed = None if term.faces else _targets(family, points, parameters)
    return _points(points[:, None], parameters, weights, dtype, observed=observed)


def _joint(
    family: Family, face: Place, num: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points on a face or inside, with their parameters and weights."""
    domain, prior, weights = family.domain, family.parameters, family.weights
    free = domain.unit_dim(face)
    loose = [name in prior.free for name in prior.names]
    inner = 0 if weights is None else weights.unit_dim
    # Along a rim that closes no place is an end to lie denser at.
    line = free <= 1 and (face is None or isinstance(domain, Box))
    tensor = sum(loose) == 1 and inner == 0 and line
    if tensor:
        unit = _tensor_rule(num, free)
    elif sum(loose) == 0 and inner == 0 and line and free == 1:
        unit = unit_gauss(num)[0][:, None]
    else:
        unit = unit_sobol(num, free + sum(loose) + inner, seed)
        if face is None and family.dense_at_ends and isinstance(domain, Box):
            unit[:, :free] = _towards_ends(domain, unit[:, :free], np)
    if corners := _has_corners(family):
        unit = _seventh_apart(unit, seed if tensor else None)
    coordinates, varied, rest = np.split(unit, [free, free + sum(loose)], axis=1)
    knobs = np.full((len(unit), prior.dim), 0.5)
    knobs[:, loose] = varied
    # Polynomials in lambda are least certain at its ends: rows lie denser there.
    knobs = (1 - np.cos(np.pi * knobs)) / 2
    if family.setting_quantiles is not None:
        table = family.setting_quantiles
        knobs[:, loose] = np.interp(knobs[:, loose], np.linspace(0, 1, len(table)), table)
    if corners:
        knobs[::CORNERS, loose] = _at_corners(knobs[::CORNERS, loose], seed)
    parameters = np.asarray(prior.from_unit(knobs))
    points = domain.place(coordinates, parameters, face, seed)
    if face is None and family.collocate is not None:
        points = np.array(_placed(family, points, parameters))
    if weights is None:
        return points, parameters, np.zeros((len(points), 0))
    return points, parameters, np.asarray(weights.from_unit(rest))


def _towards_ends(domain: Box, unit: Any, xp: Any) -> Any:
    """Points of the unit cube, denser towards the ends of every coordinate that has any.

    Rows of values have no conditions on faces beside them, and what is fitted to evenly spread ones
    is least certain there: the arcsine density spreads the error evenly (Cohen, Migliorati 2017).
    A share of it alone, since waves want as many rows in the middle.
    """
    places = (1 - np.cos(np.pi * np.linspace(0, 1, PLACES))) / 2
    before = (1 - AT_ENDS) * places + AT_ENDS * np.linspace(0, 1, PLACES)
    ends = xp.asarray([name not in domain.periodic for name in domain.names])
    return xp.where(ends, xp.interp(unit, xp.asarray(before), xp.asarray(places)), unit)


def _has_corners(family: Family) -> bool:
    """Whether some rows lie at corners of the coefficients' range.

    Not where rows are a tensor of Gauss's nodes: those resolve what a coefficient does by their
    order, and moving some would leave holes. Nor where settings are spread by a table of places.
    """
    num = len(family.parameters.free)
    if family.setting_quantiles is not None:
        return False
    tensor = num == 1 and family.weights is None and family.domain.unit_dim(None) == 1
    return family.setting_corners and num > 0 and not tensor


def _seventh_apart(unit: np.ndarray, shuffled: int | None) -> np.ndarray:
    """Rows in an order in which those that go to corners, every seventh, are the last of a set.

    What stays of a Sobol sequence is its beginning then, as even as ever; a stride through it takes
    away more of one end than of the other. Nodes of a tensor are shuffled before, by this seed.
    """
    if shuffled is not None:
        unit = np.random.default_rng(shuffled).permutation(unit)
    apart = np.arange(len(unit)) % CORNERS == 0
    return unit[np.argsort(np.argsort(apart, kind="stable"), kind="stable")]


def _at_corners(knobs: np.ndarray, seed: int) -> np.ndarray:
    """All corners of the unit cube as often, in no order; where they are too many, the nearest."""
    num, dim = knobs.shape
    if 2**dim > num:
        return np.round(knobs)
    turn = np.random.default_rng(seed).permutation(num) % 2**dim
    return (turn[:, None] >> np.arange(dim) & 1).astype(float)


def _tensor_rule(num: int, free: int) -> np.ndarray:
    """About num points of the unit square (or line) on a tensor of Gauss-Legendre nodes."""
    if free == 0:
        return unit_gauss(num)[0][:, None]
    # More nodes along the coordinate: solutions oscillate there, and are smooth in lambda.
    across = max(2, round((1.6 * num) ** 0.5))
    return tensor([unit_gauss(across)[0], unit_gauss(max(2, num // across))[0]])


def scatter(family: Family, num: int, key: Array, dtype: DTypeLike) -> Points:
    """Random interior points, each with a lambda of its own (traceable): candidates for redraws."""
    first, second = jax.random.split(key)
    parameters, weights = _draw_lambda(family, second, num, dtype)
    if family.setting_quantiles is not None:
        parameters = _moved(family, parameters)
    if _has_corners(family):
        parameters = _cornered(family, parameters)
    points = family.domain.random(first, num, dtype=dtype, parameters=parameters)
    if family.dense_at_ends and isinstance(family.domain, Box):
        unit = _towards_ends(family.domain, family.domain.to_unit(points), jnp)
        points = jnp.asarray(family.domain.from_unit(unit), dtype)
    if family.collocate is not None:
        points = _placed(family, points, parameters)
    observed = _targets(family, points, parameters)
    return _points(points[:, None], parameters, weights, dtype, observed=observed)


def _moved(family: Family, parameters: Array) -> Array:
    """Settings of a single coefficient, spread as its quantiles say."""
    prior, table = family.parameters, jnp.asarray(family.setting_quantiles)
    unit = prior.to_unit(parameters)
    spread = jnp.interp(unit, jnp.linspace(0, 1, len(table)), table)
    loose = jnp.array([name in prior.free for name in prior.names])
    return jnp.asarray(prior.from_unit(jnp.where(loose, spread, unit)), parameters.dtype)


def _cornered(family: Family, parameters: Array) -> Array:
    """Every so many of the settings moved to the nearest corner of their range."""
    prior = family.parameters
    unit = jnp.asarray(prior.to_unit(parameters))
    loose = jnp.array([name in prior.free for name in prior.names])
    moved = jnp.where(loose, jnp.round(unit), unit)
    which = jnp.arange(len(unit))[:, None] % CORNERS == 0
    corners = jnp.asarray(prior.from_unit(moved), parameters.dtype)
    return jnp.where(which, corners, parameters)


def _targets(family: Family, points: ArrayLike, parameters: ArrayLike) -> Array | None:
    """What outputs are compared with at interior points, (n, 1, targets), where they are."""
    if family.value_targets is None:
        return None
    return family.value_targets(jnp.asarray(points), jnp.asarray(parameters))[:, None]


def _placed(family: Family, points: np.ndarray | Array, parameters: np.ndarray | Array) -> Array:
    """Interior points moved to where the family wants its rows."""
    move = jax.jit(jax.vmap(lambda p, lam: family.call("collocate", p, lam)))
    return move(jnp.asarray(points), jnp.asarray(parameters))


def _data_points(family: Family, key: Array, dtype: DTypeLike) -> Points:
    """Every observation, each with a lambda of its own; what it does not know is drawn.

    An observation that holds for every value of a coefficient needs more than one: few of them,
    such as the one point that sets the level of a pressure, are there many times.
    """
    data: Data | None = family.data
    assert data is not None
    unknown = any(name not in data.columns for name in family.parameters.free)
    times = -(-UNKNOWN // len(data)) if unknown else 1
    column = lambda name: np.tile(data.columns[name], times)
    parameters, weights = _draw_lambda(family, key, times * len(data), dtype)
    for i, name in enumerate(family.parameters.names):
        if name in data.columns:
            parameters = parameters.at[:, i].set(jnp.asarray(column(name), dtype))
    points = np.stack([column(c) for c in family.domain.names], axis=-1)[:, None]
    observed = np.stack([column(o) for o in family.outputs if o in data.columns], axis=-1)
    mass = None if data.mass is None else np.tile(data.mass, times)[:, None] / times
    return _points(points, parameters, weights, dtype, mass, observed[:, None])


def _data_at(
    family: Family, parameters: Array, weights: Array, key: Array, dtype: DTypeLike
) -> Points:
    """All observations at each lambda of a step, where lambda is loss weights alone.

    Where coefficients vary an observation has its own, and lambda is drawn for each.
    """
    if family.parameters.free:
        return _data_points(family, key, dtype)
    data: Data | None = family.data
    assert data is not None
    points = np.stack([data.columns[c] for c in family.domain.names], axis=-1)
    observed = np.stack([data.columns[o] for o in family.outputs if o in data.columns], axis=-1)
    num = len(parameters)
    every = lambda a: jnp.broadcast_to(jnp.asarray(a, dtype), (num, *a.shape))
    mass = None if data.mass is None else every(data.mass / num)
    return _points(every(points), parameters, weights, dtype, mass, every(observed))


def _points(coordinates, parameters, weights, dtype, quadrature=None, observed=None) -> Points:
    num_lambda, num = coordinates.shape[:2]
    if quadrature is None:
        quadrature = np.full((num_lambda, num), 1 / (num_lambda * num))
    if observed is None:
        observed = np.zeros((num_lambda, num, 0))
    arrays = (coordinates, parameters, weights, quadrature, observed)
    # NumPy's are converted by NumPy: JAX would compile that for every shape.
    own = (a if isinstance(a, jax.Array) else np.asarray(a, dtype) for a in arrays)
    return Points(*(jnp.asarray(a, dtype) for a in own))
