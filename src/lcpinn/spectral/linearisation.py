"""The family's terms, linearised about an approximate solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.compilation import compiler_options
from lcpinn.domain import Box, Face
from lcpinn.family import Family
from lcpinn.interpreted import Seldom
from lcpinn.jet import Orders, expand
from lcpinn.machine import host_device
from lcpinn.precision import double
from lcpinn.spectral.basis import TensorBasis, basis_on
from lcpinn.spectral.elements import ElementAxis
from lcpinn.spectral.frame import Basis, functions_on
from lcpinn.spectral.jumps import jumps
from lcpinn.term import Argument, Term

CHUNK = 1 << 13  # points (times draws) in one call: the values in between stay in the cache
PIECE = 1 << 9  # points in one call where there are few, and of networks: one size to compile
SEVERAL = 4  # so many of them

# From points (n, dim) and orders to the Taylor coefficients (s, n, outputs) of a function.
Jet = Callable[[np.ndarray, Orders], np.ndarray]


class LinearisedTerms:
    """Residuals of a family's terms, and their slopes.

    `T(s)` of a term is a function of the Taylor coefficients s of the outputs at a point; its
    derivative by them, by forward mode, is all that a linearisation needs to know of an equation.
    """

    def __init__(self, family: Family):
        self.family = family
        written = [term for term in family.all_terms.values() if term.name != "data"]
        self.terms = [*written, *imposed_conditions(family)]
        self._host = host_device()
        options = compiler_options(host=self._host is not None)
        self._compiled = partial(jax.jit, compiler_options=options)
        self._slopes: dict[tuple[Term, Orders], Seldom] = {}
        self._components: dict[Term, int] = {}

    @property
    def interior(self) -> list[Term]:
        return [term for term in self.terms if not term.faces]

    def num_components(self, term: Term) -> int:
        """How many values a term returns; traced once."""
        if term not in self._components:
            self._components[term] = self._traced_components(term)
        return self._components[term]

    def _traced_components(self, term: Term) -> int:
        orders, family = self.family.orders([term]), self.family
        dim, num = family.domain.dim, family.parameters.dim
        shapes = [(len(orders), len(family.outputs)), (dim,), (num,), (dim,)]
        like = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        residual = lambda s, p, lam, n: term.residual(s, orders, p, lam, normal=n)
        return jax.eval_shape(residual, *like).shape[0]

    def highest_orders(self, coordinate: int) -> tuple[int, ...]:
        """For each output its highest derivative along a coordinate, inside."""
        return self._orders_in(self.interior, coordinate)

    def orders_along(self, coordinate: int) -> tuple[int, ...]:
        """The same in all terms, conditions included."""
        return self._orders_in(self.terms, coordinate)

    def _orders_in(self, terms: Sequence[Term], coordinate: int) -> tuple[int, ...]:
        highest = [0] * len(self.family.outputs)
        for term in terms:
            for argument in term.arguments:
                for index in argument.indices:
                    at = argument.position
                    highest[at] = max(highest[at], index[coordinate])
        return tuple(highest)

    # -- Functions that suit them ------------------------------------------------------------------

    def basis(
        self, sizes: Sequence[int], parameters: np.ndarray | None = None, *,
        integrated: bool = False, breaks: tuple[float, ...] = (),
    ) -> Basis:  # fmt: skip
        """So many functions along each coordinate; with `integrated`, in a box, integrals.

        With breaks in the only coordinate, where its coefficients jump or by choice, they are
        piecewise polynomials.
        """
        domain, breaks = self.family.domain, breaks or self.jumps
        if breaks:
            (low, high), order = next(iter(domain.ranges.values())), self.same_order
            degree = max(2, -(-(sizes[0] - order) // (len(breaks) + 1)))
            return TensorBasis((ElementAxis.with_degree(low, high, order, breaks, degree),))
        if integrated:
            return basis_on(domain, sizes, [max(self.orders_along(i)) for i in range(len(sizes))])
        return functions_on(domain, sizes, parameters)

    @cached_property
    def same_order(self) -> int:
        """The order of an equation in one coordinate, if it is that of all its outputs; else 0:
        then functions may jump where others have a kink, and there are no elements for it."""
        domain = self.family.domain
        if not isinstance(domain, Box) or domain.dim > 1 or domain.periodic:
            return 0
        orders, inside = self.orders_along(0), self.highest_orders(0)
        return orders[0] if set(orders) == set(inside) and len(set(orders)) == 1 else 0

    @cached_property
    def jumps(self) -> tuple[float, ...]:
        """Where coefficients jump, if the solution is to be continuous there as its order says."""
        if not self.same_order or self.family.ansatz is not None:
            return ()
        with np.errstate(all="ignore"):
            return jumps(self.family, self._along)

    def _along(self, parameters: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """All residuals and slopes along the only coordinate, about a function that is constant in
        all derivatives."""
        at, outputs = Linearisation(self, parameters, zero(1)), len(self.family.outputs)

        def numbers(x: np.ndarray) -> np.ndarray:
            columns = []
            for term in self.interior:
                orders = self.family.orders([term])
                about = np.random.default_rng(5).uniform(0.5, 1.5, (len(orders), 1, outputs))
                series = np.broadcast_to(about, (len(orders), len(x), outputs))
                residual, slopes = at.slopes(term, orders, np.array(series), x[:, None])
                columns += [residual, slopes.reshape(len(x), -1)]
            return np.concatenate(columns, axis=1)

        return numbers

    def slopes_of(self, term: Term, orders: Orders) -> Seldom:
        """Of series, points, normals and parameters; compiled once it is clear that it pays."""
        if (term, orders) not in self._slopes:
            function = partial(_residual_and_slopes, term, orders)
            self._slopes[term, orders] = Seldom(function, self._compiled(function))
        return self._slopes[term, orders]


def _residual_and_slopes(
    term: Term, orders: Orders, series: Array, points: Array, normals: Array, parameters: Array
) -> tuple[Array, Array]:
    def at(s: Array, p: Array, n: Array) -> Array:
        return term.residual(s, orders, p, parameters, normal=n)

    both = lambda s, p, n: (at(s, p, n), jax.jacfwd(at)(s, p, n))
    return jax.vmap(both, (1, 0, 0))(series, points, normals)


def linearised(family: Family) -> LinearisedTerms:
    """The family's terms; kept with it, so that what is compiled serves all its settings."""
    known = vars(family).get("_linearised")
    if known is None or known.family is not family:  # a copy of a family is another one
        known = LinearisedTerms(family)
        vars(family)["_linearised"] = known
    return known


@dataclass(frozen=True, eq=False)
class Linearisation:
    """The terms at one setting of the coefficients, about a base function: NumPy in, NumPy out.

    `judged`, where it is given, is another function whose error is asked for: the mean over all
    loss weights, of which the base is the mean over a few. Errors are relative to a solution's mean
    square, or to `least` (outputs,) where that is more.
    """

    terms: LinearisedTerms
    parameters: np.ndarray
    base: Jet
    judged: Callable[[np.ndarray], np.ndarray] | None = None
    least: np.ndarray | float = 0.0

    @property
    def family(self) -> Family:
        return self.terms.family

    def series(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, outputs) of the base at points (n, dim)."""
        return self.base(points, orders)

    def several(self, asked: Sequence[tuple[np.ndarray, Orders]]) -> list[np.ndarray]:
        """The same at several sets of points; the few of faces are not worth a call each."""
        few = [i for i, (points, _) in enumerate(asked) if len(points) <= PIECE]
        together = self._together([asked[i] for i in few])
        return [
            together[few.index(i)] if i in few else self.series(points, orders)
            for i, (points, orders) in enumerate(asked)
        ]

    def _together(self, asked: Sequence[tuple[np.ndarray, Orders]]) -> list[np.ndarray]:
        if not asked:
            return []
        ends = np.cumsum([len(points) for points, _ in asked])[:-1]
        indices = [index for _, orders in asked for index in orders.indices]
        every = Orders.closure(indices, asked[0][0].shape[1])
        whole = self.series(np.concatenate([points for points, _ in asked]), every)
        return [
            part[[every.indices.index(index) for index in orders.indices]]
            for part, (_, orders) in zip(np.split(whole, ends, axis=1), asked, strict=True)
        ]

    def values(self, points: np.ndarray) -> np.ndarray:
        """The base itself, (n, outputs)."""
        return self.base(points, zeroth(points.shape[1]))[0]

    def beyond(self, points: np.ndarray) -> np.ndarray:
        """By how much the function that is judged differs from the base."""
        if self.judged is None:
            return np.zeros((len(points), len(self.family.outputs)))
        return self.judged(points) - self.values(points)

    def slopes(
        self, term: Term, orders: Orders, series: np.ndarray, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A term's residual (n, c) and its derivative by the series, (n, c, s, outputs)."""
        num, dim = points.shape
        normals = np.zeros_like(points)
        if term.asks_normals:
            domain: Any = self.family.domain
            normals = np.asarray(domain.normals(points, self.parameters, term.faces))
        flat = np.moveaxis(series, 1, 0).reshape(num, -1)
        every = np.concatenate([flat, points, normals], axis=1)
        residuals, slopes, split = [], [], flat.shape[1]
        run = self.terms.slopes_of(term, orders)
        with double(), jax.default_device(self.terms._host):
            for piece, count in pieces(every, CHUNK):
                shape = (len(piece), len(orders), series.shape[2])
                s = np.moveaxis(piece[:, :split].reshape(shape), 0, 1)
                place, normal = piece[:, split : split + dim], piece[:, split + dim :]
                r, d = run(s, place, normal, self.parameters)
                residuals.append(np.asarray(r)[:count])
                slopes.append(np.asarray(d)[:count])
        return np.concatenate(residuals), np.concatenate(slopes)


def imposed_conditions(family: Family) -> list[Term]:
    """Conditions on faces without a term that the ansatz imposes: u is there what it always is.

    The ansatz does so where it does not depend on the network's output, to first order.
    """
    if family.ansatz is None or not isinstance(family.domain, Box):
        return []
    faces = [
        Face(name, end)
        for name, ends in family.domain.ranges.items() if name not in family.domain.periodic
        for end in ends
    ]  # fmt: skip
    written = {face for term in family.all_terms.values() for face in term.faces}
    with double():
        return [_imposed(family, f) for f in faces if f not in written and _fixes(family, f)]


def _fixes(family: Family, face: Face) -> bool:
    """Whether the ansatz's slope by the network's output vanishes on a face."""
    points, num = family.domain.sobol(8, seed=1, face=face), len(family.outputs)

    def slope(point: Array, lam: Array) -> Array:
        return jax.jacfwd(lambda raw: family.call("ansatz", point, lam, raw))(jnp.ones(num))

    slopes = jax.vmap(slope)(jnp.asarray(points), jnp.asarray(family.parameters.sobol(8)))
    return bool(jnp.all(jnp.abs(slopes) < 1e-10))


def _imposed(family: Family, face: Face) -> Term:
    index = (0,) * family.domain.dim
    outputs = [Argument(o, "output", i, (index,)) for i, o in enumerate(family.outputs)]
    knobs = [Argument(name, "parameter", i) for i, name in enumerate(family.parameters.names)]

    def condition(*values: Array) -> Array:
        u, (point, *lam) = jnp.stack(values[: len(outputs)]), values[len(outputs) :]
        return u - family.call("ansatz", point, jnp.asarray(lam), jnp.zeros(len(outputs)))

    arguments = (*outputs, Argument("point", "point"), *knobs)
    name = f"ansatz at {face.name} = {face.value:g}"
    return Term(name, condition, arguments, (face,), f"{face.name}={face.value:g}")


def zeroth(dim: int) -> Orders:
    """Values alone."""
    return Orders(((0,) * dim,))


def zero(num_outputs: int) -> Jet:
    """The function that vanishes, as a base."""
    return lambda points, orders: np.zeros((len(orders), len(points), num_outputs))


def of_ansatz(family: Family, parameters: np.ndarray) -> Jet:
    """What the ansatz makes of a network that vanishes, as a base: it may carry a layer."""
    if family.ansatz is None:
        return zero(len(family.outputs))
    none = jnp.zeros(len(family.outputs))

    @partial(jax.jit, static_argnums=2)
    def run(points: Array, lam: Array, orders: Orders) -> Array:
        at = lambda q: family.call("ansatz", q, lam, none)
        return jnp.moveaxis(jax.vmap(lambda p: expand(at, p, orders))(points), 0, 1)

    def jet(points: np.ndarray, orders: Orders) -> np.ndarray:
        parts = []
        with double():
            for piece, count in pieces(points, CHUNK):
                parts.append(np.asarray(run(piece, parameters, orders))[:, :count])
        return np.concatenate(parts, axis=1)

    return jet


def about_zero(terms: LinearisedTerms, parameters: Sequence[float]) -> Linearisation:
    base = zero(len(terms.family.outputs))
    return Linearisation(terms, np.asarray(parameters, float), base)


def pieces(rows: np.ndarray, most: int) -> Iterator[tuple[np.ndarray, int]]:
    """Rows in pieces padded to one of two sizes, so that there are few programs to compile."""
    size = min(most, PIECE if len(rows) <= SEVERAL * PIECE else CHUNK)
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        yield np.concatenate([piece, np.repeat(piece[-1:], size - len(piece), axis=0)]), len(piece)
