"""Residual rows: one per (point, lambda, term, component); loss and Jacobian are views of them.

    row = sqrt(weight * quadrature) * scale(lambda) * residual,      loss = sum of row²

The scale is one unless rows are equilibrated (equilibration.py). Everything that optimises works on
these rows; residuals stay pointwise until here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lcpinn.affine import is_affine
from lcpinn.chunks import map_chunks, num_points, rows_at_once
from lcpinn.compilation import compiler_options
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.jet import Orders, Series, affine, expand
from lcpinn.network.contract import Lambda, Network, Params
from lcpinn.sampling import POINTWISE, Batch, Points, PointSeries
from lcpinn.shape.holes import Features, hole_features, visible_holes
from lcpinn.term import Term

SMALLEST_WEIGHT = 1e-8  # of a loss weight whose logarithm a network sees

# What a term's rows are multiplied by: (l, n) or (l, 1) factors from its name and its points.
Scale = Callable[[str, Points], Array]

# Of a place: (l, c) and (l, c, p).
RowsAndJacobian = tuple[Array, Array]

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Problem:
    """A family with the network that is to solve it."""

    family: Family
    network: Network
    dtype: DTypeLike

    # The network in the family's coordinates.

    def init(self, key: Array) -> Params:
        num, dims = self._sizes()
        return self.network.init(key, num, len(self.family.outputs), dict(dims), self.dtype)

    def drawing(self, *, once: bool = False) -> Callable[[Array], Params]:
        """`init`, compiled: one program for all problems with an equal network.

        What is drawn `once` need not be optimised.
        """
        num, dims = self._sizes()
        try:
            return _drawing(self.network, num, len(self.family.outputs), dims, self.dtype, once)
        except TypeError:  # a network of a user's own need not be hashable
            return jax.jit(self.init)

    def _sizes(self) -> tuple[int, tuple[tuple[str, int], ...]]:
        """How many features the network sees, and how many numbers of each role of lambda."""
        seen = jax.eval_shape(lambda: self.conditions(*self._one_lambda()))
        return self._num_features(), tuple((role, v.shape[-1]) for role, v in seen.items())

    def conditions(self, parameters: Array, weights: Array) -> Lambda:
        """Lambda as the network sees it: each role that is there, normalised to [-1, 1]."""
        lam: Lambda = {}
        if self.family.parameters.free:
            lam["parameters"] = self.family.parameters.normalise(parameters)
        if self.family.weights is not None and self.network.sees_raw:
            lam["weights"] = jnp.log(jnp.maximum(weights, SMALLEST_WEIGHT))
        elif self.family.weights is not None:
            lam["weights"] = self.family.weights.normalise(weights)
        return lam

    def features(self, points: Points, orders: Orders) -> Series:
        """What the network sees of the coordinates, (s, l, n, features), with its derivatives."""
        domain, x = self.family.domain, points.coordinates
        if self.family.features is None and not domain.periodic:
            ranges = domain.ranges
            if self.network.sees_raw:
                series = _affine(x, dict.fromkeys(ranges, (-1.0, 1.0)), orders)
            else:
                series = _affine(domain.normalise(x), ranges, orders)
        else:
            at = lambda p, lam: self._expanded_features(p, lam, orders)
            expanded = jax.vmap(jax.vmap(at, (0, None)))(x, points.parameters)
            series = Series(orders, jnp.moveaxis(expanded, 2, 0))
        if self._of_holes is None:
            return series
        holes = self._of_holes(x, points.parameters, orders)
        both = [series.coefficients, holes.coefficients]
        return Series(orders, jnp.concatenate(both, axis=-1))

    def outputs(self, params: Params, points: Points, orders: Orders) -> Float[Array, "s l n out"]:
        """Taylor coefficients of the solution at every point, ansatz included."""
        lam = self.conditions(points.parameters[:, None], points.weights[:, None])
        known = points.series or PointSeries()
        if known.features is None:
            features = self.features(points, orders)
        else:
            features = Series(orders, jnp.moveaxis(known.features, 2, 0))
        raw = self.network.apply(params, features, lam).coefficients
        if self.family.ansatz is None:
            return raw
        if known.offset is not None and known.factor is not None:
            whole = affine(known.offset, known.factor, jnp.moveaxis(raw, 0, 2), orders)
            return jnp.moveaxis(whole, 2, 0)
        impose = jax.vmap(
            jax.vmap(lambda r, p, lam: self._imposed(r, p, lam, orders), (1, 0, None), out_axes=1),
            (1, 0, 0),
            out_axes=1,
        )
        return impose(raw, points.coordinates, points.parameters)

    def series(self, points: Points, orders: Orders) -> PointSeries:
        """What no parameter changes, at every point: features, and an ansatz if it is affine."""
        offset = factor = features = None
        if not self._sees_coordinates_alone:
            features = jnp.moveaxis(self.features(points, orders).coefficients, 0, 2)
        if self._is_affine:
            at = lambda p, lam: self._affine_parts(p, lam, orders)
            over = jax.vmap(jax.vmap(at, (0, None)))
            offset, factor = over(points.coordinates, points.parameters)
        return PointSeries(features, offset, factor)

    @property
    def has_series(self) -> bool:
        """Whether `series` has anything."""
        return not self._sees_coordinates_alone or self._is_affine

    @property
    def _sees_coordinates_alone(self) -> bool:
        """Whether features are the scaled coordinates: their series are constants."""
        family = self.family
        return family.features is None and not family.domain.periodic and self._of_holes is None

    @cached_property
    def _is_affine(self) -> bool:
        """Whether there is an ansatz, and it is affine in what the network puts out."""
        family = self.family
        if family.ansatz is None:
            return False
        dims = (family.domain.dim, family.parameters.dim, len(family.outputs))
        like = [jax.ShapeDtypeStruct((dim,), self.dtype) for dim in dims]
        return is_affine(partial(family.call, "ansatz"), 2, *like)

    # Residuals.

    def residuals(self, params: Params, batch: Batch) -> dict[str, Float[Array, "l n c"]]:
        """Residual components, pointwise, of every term that the batch has points for."""
        residuals = self._traced_residuals(params, batch)
        # In the family's order: what comes out of a traced function is sorted by name.
        order = (t.name for terms in self.family.groups.values() for t in terms)
        return {name: residuals[name] for name in order if name in residuals}

    def _residuals(self, params: Params, batch: Batch) -> dict[str, Array]:
        residuals: dict[str, Array] = {}
        for places in self.together(batch):
            orders = self.orders(places[0])
            series = self.outputs(params, joined([batch[where] for where in places]), orders)
            ends = itertools.accumulate(num_points(batch[where]) for where in places)
            parts = jnp.split(series, list(ends)[:-1], axis=1)
            for where, part in zip(places, parts, strict=True):
                residuals |= self.residuals_at(where, part, batch[where])
        return residuals

    def residuals_at(self, where: str, series: Array, points: Points) -> dict[str, Array]:
        """Residuals of a place from Taylor coefficients of the solution, (s, l, n, outputs)."""
        orders = self.orders(where)
        return {t.name: pointwise(t, series, orders, points) for t in self.family.groups[where]}

    def orders(self, where: str) -> Orders:
        """The derivatives that are needed at a place."""
        return self.family.orders(self.family.groups[where])

    def together(self, batch: Batch) -> list[list[str]]:
        """The places of a batch, those together that one pass of the network serves.

        They need the same derivatives, as most conditions on a boundary do, and have a lambda for
        every point. A program has as many passes in it, each with its derivatives, wherever it
        asks for rows: fewer are compiled sooner.
        """
        groups: dict[Any, list[str]] = {}
        for where in (where for where in self.family.groups if where in batch):
            alone = batch[where].coordinates.shape[1] != 1
            groups.setdefault((self.orders(where), where if alone else ""), []).append(where)
        return list(groups.values())

    # One optimiser asks for the same residuals in many places: for rows, for their Jacobian, after
    # every candidate step. Tracing a family's Python takes longer than compiling what comes out, so
    # each part is traced once for every shape, and its operations are inlined wherever it is asked.

    @cached_property
    def _traced_residuals(self) -> Callable[[Params, Batch], dict[str, Array]]:
        return jax.jit(self._residuals, inline=True)

    @cached_property
    def _imposed(self) -> Callable[[Array, Array, Array, Orders], Array]:
        return jax.jit(self.family.impose, static_argnums=3, inline=True)

    @cached_property
    def _affine_parts(self) -> Callable[[Array, Array, Orders], tuple[Array, Array]]:
        """The series of an affine ansatz at one point: (s, out) without a network's output, and
        (s, out, out) its derivatives by that."""
        family = self.family

        def parts(point: Array, lam: Array, orders: Orders) -> tuple[Array, Array]:
            none = jnp.zeros(len(family.outputs), point.dtype)
            at = lambda p, raw: family.call("ansatz", p, lam, raw)
            offset = expand(lambda p: at(p, none), point, orders)
            return offset, expand(lambda p: jax.jacfwd(partial(at, p))(none), point, orders)

        return jax.jit(parts, static_argnums=2, inline=True)

    @cached_property
    def _expanded_features(self) -> Callable[[Array, Array, Orders], Array]:
        function = self._feature_function()

        def expanded(point: Array, lam: Array, orders: Orders) -> Array:
            return expand(lambda q: function(q, lam), point, orders)

        return jax.jit(expanded, static_argnums=2, inline=True)

    def term_losses(
        self, residuals: Mapping[str, Array], weights: Mapping[str, Array], batch: Batch
    ) -> dict[str, Array]:
        """Each term's squared rows, summed. Nothing is rooted: a weight of zero has a gradient."""
        return {
            name: jnp.sum(
                batch[self.family.terms[name].where].quadrature
                * weights[name]
                * jnp.sum(r * r, axis=-1)
            )
            for name, r in residuals.items()
        }

    def rows(
        self,
        residuals: Mapping[str, Array],
        weights: Mapping[str, Array],
        batch: Batch,
        scale: Scale | None = None,
    ) -> Float[Array, " n"]:
        """All rows in one vector, term after term."""
        blocks = self.row_blocks(residuals, weights, batch, scale)
        return jnp.concatenate([block.ravel() for block in blocks.values()])

    def row_blocks(
        self,
        residuals: Mapping[str, Array],
        weights: Mapping[str, Array],
        batch: Batch,
        scale: Scale | None = None,
    ) -> dict[str, Float[Array, "l n c"]]:
        """The rows of every term, pointwise."""
        blocks = {}
        for name, r in residuals.items():
            points = batch[self.family.terms[name].where]
            factor = jnp.sqrt(weights[name] * points.quadrature)
            if scale is not None:
                factor = factor * scale(name, points)
            blocks[name] = r * factor[..., None]
        return blocks

    def loss(self, params: Params, batch: Batch, weights: Mapping[str, Array]) -> Array:
        """The sum of squared rows."""
        return jnp.sum(self.rows(self.residuals(params, batch), weights, batch) ** 2)

    # Shapes.

    def _one_lambda(self) -> tuple[Array, Array]:
        prior = self.family.weights
        parameters = self.family.parameters.from_unit(np.full((1, self.family.parameters.dim), 0.5))
        weights = np.full((1, 0 if prior is None else prior.dim), 0.5)
        return jnp.asarray(parameters, self.dtype), jnp.asarray(weights, self.dtype)

    def _num_features(self) -> int:
        dim, free = self.family.domain.dim, self.family.parameters.dim

        def value(x: Array, parameters: Array) -> Array:
            nothing = jnp.zeros((1, 0), self.dtype)
            points = Points(x, parameters, nothing, x[..., 0], nothing[None])
            return self.features(points, Orders.closure((), dim)).value

        at = [jax.ShapeDtypeStruct(shape, self.dtype) for shape in ((1, 1, dim), (1, free))]
        return jax.eval_shape(value, *at).shape[-1]

    def _feature_function(self) -> Callable[[Array, Array], Array]:
        family = self.family
        if family.features is not None:
            return lambda point, lam: family.call("features", point, lam)
        return lambda point, lam: _embed(family, point)

    @cached_property
    def _of_holes(self) -> Features | None:
        """What the network sees of holes, if it is to see any."""
        seen = self.network.sees_holes and visible_holes(self.family)
        return hole_features(self.family.domain) if seen else None


def joined(parts: Sequence[Points]) -> Points:
    """Points of several places, one lambda after the other, as the network sees them."""
    if len(parts) == 1:
        return parts[0]
    bare = [p._replace(observed=p.quadrature[..., None][..., :0], normals=None) for p in parts]
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *bare)


def one_by_one(points: Points) -> Points:
    """The same points, each with a lambda of its own: (l, n, ...) as (l n, 1, ...)."""
    num_lambda, num = points.coordinates.shape[:2]
    each = lambda a: a.reshape(num_lambda * num, 1, *a.shape[2:])
    alone = {name: jax.tree.map(each, getattr(points, name)) for name in POINTWISE}
    repeated = {name: jnp.repeat(getattr(points, name), num, axis=0)
                for name in ("parameters", "weights")}  # fmt: skip
    return points._replace(**alone, **repeated)


def pointwise(term: Term, series: Array, orders: Orders, points: Points) -> Array:
    """A term's components (l, n, c) at every point; series is (len(orders), l, n, outputs)."""

    def at(s: Array, p: Array, lam: Array, o: Array, n: Array | None) -> Array:
        return term.residual(s, orders, p, lam, o, n)

    over = jax.vmap(jax.vmap(at, (1, 0, None, 0, 0)), (1, 0, 0, 0, 0))
    return over(series, points.coordinates, points.parameters, points.observed, points.normals)


@lru_cache(256)
def _drawing(
    network: Network, num: int, outputs: int, dims: tuple[tuple[str, int], ...], dtype: DTypeLike,
    once: bool,
) -> Callable[[Array], Params]:  # fmt: skip
    options = compiler_options(once=True) if once else None
    draw = lambda key: network.init(key, num, outputs, dict(dims), dtype)
    return jax.jit(draw, compiler_options=options)


# -- Rows under a weighting, and their Jacobian --------------------------------------------------


def weighted_rows(
    problem: Problem, weighting: Any, params: Params, batch: Batch, scale: Scale | None = None
) -> Float[Array, " n"]:
    """The rows under a weighting that keeps no state; in chunks where there are many."""

    def blocks(part: Batch) -> dict[str, Array]:
        residuals = problem.residuals(params, part)
        weights, _ = weighting.weigh((), problem.family, part, residuals)
        return problem.row_blocks(residuals, weights, part, scale)

    size = _rows_at_once(params)
    if all(num_points(points) <= size for points in batch.values()):
        by_term = blocks(batch)
    else:
        by_term = {}
        for where, points in batch.items():
            # Of a chunk only its points are kept for a reverse pass, which makes the rest again.
            alone = jax.checkpoint(lambda part, where=where: blocks({where: part}))
            by_term |= map_chunks(alone, points, size)
    order = (t.name for terms in problem.family.groups.values() for t in terms)
    return jnp.concatenate([by_term[name].ravel() for name in order if name in by_term])


def rows_and_jacobian(
    problem: Problem,
    weighting: Any,
    unravel: Callable[[Array], Params],
    theta: Float[Array, " p"],
    batch: Batch,
    scale: Scale | None = None,
) -> tuple[Float[Array, " n"], Float[Array, "n p"]]:
    """The rows and their derivatives; the order is that of `weighted_rows`."""
    check_one_point_per_lambda(batch)
    num = num_components(problem, unravel(theta), batch)
    jacobian_at = places_jacobian(problem, weighting, unravel, scale)
    places = by_place(problem, batch, theta, partial(jacobian_at, theta))
    rows: list[Array] = []
    jacobian: list[Array] = []
    for where, terms in problem.family.groups.items():
        (values, derivatives), at = places[where], 0
        for term in terms:
            of_term = slice(at, at + num[term.name])
            rows.append(values[:, of_term].ravel())
            jacobian.append(derivatives[:, of_term].reshape(-1, theta.size))
            at = of_term.stop
    return jnp.concatenate(rows), jnp.concatenate(jacobian)


def by_place(
    problem: Problem, batch: Batch, theta: Array, function: Callable[[Batch], dict[str, Result]]
) -> dict[str, Result]:
    """A function of places, row by row, asked for as many rows at a time as fit into memory."""
    size, results = rows_at_once(theta.size, theta.dtype.itemsize), {}
    for part in parts_at_once(problem, batch, size):
        if len(part) > 1:
            results |= function(part)
            continue
        ((where, points),) = part.items()
        alone = lambda chunk, where=where: function({where: chunk})[where]
        results[where] = map_chunks(alone, points, size)
    return results


def parts_at_once(problem: Problem, batch: Batch, size: int) -> list[Batch]:
    """The places that share a pass of the network, while all of their rows are at most `size`."""
    parts: list[Batch] = []
    for places in problem.together(batch):
        part = {where: batch[where] for where in places}
        fits = sum(map(num_points, part.values())) <= size
        parts += [part] if fits else [{where: points} for where, points in part.items()]
    return parts


def places_jacobian(
    problem: Problem,
    weighting: Any,
    unravel: Callable[[Array], Params],
    scale: Scale | None = None,
) -> Callable[[Array, Batch], dict[str, RowsAndJacobian]]:
    """From theta and places that share a pass to the rows of each, of all its terms, and their
    derivatives.

    One reverse pass per row, vectorised over rows: every point has a lambda of its own, so that a
    slice along the first axis is one row for each component of the terms.
    """

    def one(where: str, vector: Array, point: Points) -> tuple[Array, Array]:
        single = {where: jax.tree.map(lambda a: a[None], point)}
        rows = weighted_rows(problem, weighting, unravel(vector), single, scale)
        return rows, rows

    def places(theta: Array, part: Batch) -> dict[str, RowsAndJacobian]:
        if len(part) > 1:
            return _shared_jacobian(problem, weighting, unravel, theta, part, scale)
        ((where, points),) = part.items()
        over = jax.vmap(jax.jacrev(partial(one, where), has_aux=True), (None, 0))
        jacobian, rows = over(theta, points)
        return {where: (rows, jacobian)}

    return places


def _shared_jacobian(
    problem: Problem,
    weighting: Any,
    unravel: Callable[[Array], Params],
    theta: Array,
    part: Batch,
    scale: Scale | None,
) -> dict[str, RowsAndJacobian]:
    """The same for several places, by reverse passes through one network at all of their points.

    A row's derivative is that by the solution's Taylor coefficients, which every place finds for
    itself, pulled back through the network. Places with fewer components have passes of zeros.
    """
    orders = problem.orders(next(iter(part)))

    def solution(point: Points) -> tuple[Array, Any]:
        alone = jax.tree.map(lambda a: a[None], point)
        return jax.vjp(lambda v: problem.outputs(unravel(v), alone, orders)[:, 0, 0], theta)

    def rows_at(where: str, series: Array, point: Points) -> tuple[Array, Array]:
        points = {where: jax.tree.map(lambda a: a[None], point)}
        residuals = problem.residuals_at(where, series[:, None, None], points[where])
        weights, _ = weighting.weigh((), problem.family, points, residuals)
        blocks = problem.row_blocks(residuals, weights, points, scale)
        rows = jnp.concatenate([block.ravel() for block in blocks.values()])
        return rows, rows

    series, back = jax.vmap(solution)(joined(list(part.values())))
    ends = list(itertools.accumulate(map(num_points, part.values())))
    rows, slopes = {}, []
    for (where, points), own in zip(part.items(), jnp.split(series, ends[:-1]), strict=True):
        over = jax.vmap(jax.jacrev(partial(rows_at, where), has_aux=True))
        slope, rows[where] = over(own, points)
        slopes.append(slope)
    most = max(slope.shape[1] for slope in slopes)
    wide = [jnp.pad(slope, [(0, 0), (0, most - slope.shape[1]), *[(0, 0)] * 2]) for slope in slopes]
    pulled = jax.vmap(lambda pull, row: jax.vmap(lambda r: pull(r)[0])(row))
    jacobians = jnp.split(pulled(back, jnp.concatenate(wide)), ends[:-1])
    return {
        where: (rows[where], jacobian[:, : rows[where].shape[1]])
        for where, jacobian in zip(part, jacobians, strict=True)
    }


def check_one_point_per_lambda(batch: Batch) -> None:
    """A Jacobian by rows needs every point to have a lambda of its own."""
    for where, points in batch.items():
        num = points.coordinates.shape[1]
        if num != 1:
            raise LcpinnError(
                f"Gauss-Newton needs rows that each have a lambda of their own, but its sampling "
                f"has {num} points per lambda at {where!r}: use the rule collocation or sobol"
            )


def num_components(problem: Problem, params: Params, batch: Batch) -> dict[str, int]:
    """How many residual components each term has."""
    shapes = jax.eval_shape(problem.residuals, params, batch)
    return {name: shape.shape[-1] for name, shape in shapes.items()}


def _rows_at_once(params: Params) -> int:
    leaves = jax.tree.leaves(params)
    return rows_at_once(sum(leaf.size for leaf in leaves), leaves[0].dtype.itemsize)


# -- Features ------------------------------------------------------------------------------------


def _affine(normalised: Array, ranges: Mapping[str, tuple[float, float]], orders: Orders) -> Series:
    """Coordinates scaled to [-1, 1]: the first derivatives are constants, the rest vanish."""
    slopes = [2 / (high - low) for low, high in ranges.values()]
    coefficients = [normalised]
    for index in orders.indices[1:]:
        first = np.array(
            [s if sum(index) == 1 and n else 0.0 for s, n in zip(slopes, index, strict=True)]
        )
        coefficients.append(
            jnp.broadcast_to(jnp.asarray(first, normalised.dtype), normalised.shape)
        )
    return Series(orders, jnp.stack(coefficients))


def _embed(family: Family, point: Array) -> Array:
    """Normalised coordinates, a periodic one as its sine and cosine (exactly periodic)."""
    unit = family.domain.to_unit(point)
    features = []
    for i, name in enumerate(family.domain.names):
        if name in family.domain.periodic:
            angle = 2 * jnp.pi * unit[i]
            features += [jnp.sin(angle), jnp.cos(angle)]
        else:
            features.append(2 * unit[i] - 1)
    return jnp.stack(features)
