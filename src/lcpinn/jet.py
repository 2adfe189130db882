"""Derivatives of a network by forward mode: truncated Taylor series in the coordinates.

A term's signature names the derivatives that it needs (`u_x`, `u_xt`, `laplacian_u`). They are
carried through the network as the Taylor coefficients of every hidden value,

    h(p + d) = sum over a in S of  h_a d^a,       S closed downwards,

so that one pass gives them all, a linear layer is one matrix product over all coefficients, and an
activation is a composition of polynomials. Nested differentiation would recompute the lower orders
at every level; nested reverse mode would also keep every intermediate alive.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

MultiIndex = tuple[int, ...]
Derivatives = Callable[[Array, int], list[Array]]  # g -> [g, g', ..., up to an order]


@dataclass(frozen=True)
class Orders:
    """A set of multi-indices, closed downwards, sorted by total order; the first is zero."""

    indices: tuple[MultiIndex, ...]

    @staticmethod
    def closure(wanted: Iterable[MultiIndex], dim: int) -> Orders:
        """The smallest set closed downwards that holds zero and every wanted index."""
        indices = {(0,) * dim}
        for index in wanted:
            indices.update(itertools.product(*(range(order + 1) for order in index)))
        return Orders(tuple(sorted(indices, key=lambda index: (sum(index), index))))

    @property
    def degree(self) -> int:
        return max(sum(index) for index in self.indices)

    def __len__(self) -> int:
        return len(self.indices)


@cache
def product_table(orders: Orders) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each index a, the pairs of positions (b, c) with b + c = a."""
    position = {index: i for i, index in enumerate(orders.indices)}
    table: list[list[tuple[int, int]]] = [[] for _ in orders.indices]
    for (b, i), (c, j) in itertools.product(position.items(), repeat=2):
        total = tuple(p + q for p, q in zip(b, c, strict=True))
        if total in position:
            table[position[total]].append((i, j))
    return tuple(tuple(pairs) for pairs in table)


@cache
def quotient_table(orders: Orders) -> np.ndarray:
    """The position of a - c for each pair of indices (a, c); len(orders) where there is none."""
    table = np.full((len(orders), len(orders)), len(orders), np.int32)
    for a, pairs in enumerate(product_table(orders)):
        for b, c in pairs:
            table[a, c] = b
    return table


class Series:
    """Taylor coefficients of an array of values: `coefficients` is (len(orders), ..., features).

    The arithmetic that a network needs: products with constants and matrices, sums, products of two
    series, and activations. A constant is an array without coordinates in it: network parameters,
    and whatever a generator made of lambda.
    """

    def __init__(self, orders: Orders, coefficients: Float[Array, "s ..."]):
        self.orders = orders
        self.coefficients = coefficients

    @property
    def value(self) -> Array:
        return self.coefficients[0]

    def __matmul__(self, matrix: Array) -> Series:
        return Series(self.orders, _linear(self.coefficients, matrix))

    def linear(self, matrix: Array, scale: Array | None) -> Series:
        """self @ matrix * scale, the scale (..., j) made of lambda.

        Where many points have a lambda in common, (l, 1, j), it scales the columns of a matrix for
        each lambda. As a factor of what comes out its gradient is a sum over all coefficients and
        points, for which a GPU transposes them: a third of a step in three dimensions.
        """
        if scale is None:
            return self @ matrix
        batch, num = self.coefficients.shape[1:-2], self.coefficients.shape[-2]
        if scale.shape[:-1] != (*batch, 1) or num < len(matrix):
            return (self @ matrix) * scale
        scaled = matrix * scale
        each = jnp.broadcast_to(scaled, (len(self.orders), *scaled.shape))
        outer = tuple(range(each.ndim - 2))
        dimensions = (((each.ndim - 1,), (each.ndim - 2,)), (outer, outer))
        return Series(self.orders, jax.lax.dot_general(self.coefficients, each, dimensions))

    def __add__(self, other: Series | Array | float) -> Series:
        if isinstance(other, Series):
            return Series(self.orders, self.coefficients + other.coefficients)
        # A constant has only a zeroth coefficient.
        constant = jnp.broadcast_to(other, self.coefficients.shape[1:])
        return Series(self.orders, _shift(self.coefficients, constant))

    def __mul__(self, other: Series | Array | float) -> Series:
        if not isinstance(other, Series):
            return Series(self.orders, self.coefficients * other)
        a, b = self.coefficients, other.coefficients
        terms = [sum(a[i] * b[j] for i, j in pairs) for pairs in product_table(self.orders)]
        return Series(self.orders, jnp.stack(terms))

    def sum(self, axis: int = -1) -> Series:
        """Sum over one of the trailing axes (negative, so that the coefficient axis is safe)."""
        assert axis < 0
        return Series(self.orders, self.coefficients.sum(axis))

    def concatenate(self, constant: Array) -> Series:
        """Append values that do not depend on the coordinates as further features."""
        outer = jnp.broadcast_shapes(self.value.shape[:-1], constant.shape[:-1])
        shape = (*outer, constant.shape[-1])
        padded = jnp.zeros((len(self.orders), *shape), self.coefficients.dtype)
        padded = padded.at[0].set(jnp.broadcast_to(constant, shape))
        return Series(self.orders, jnp.concatenate([self.coefficients, padded], axis=-1))

    def apply(self, derivatives: Derivatives) -> Series:
        """Compose with a scalar function: g(h0 + e) = sum_k g^(k)(h0)/k! e^k, e the rest of h."""
        return Series(self.orders, _compose(self.coefficients, derivatives, self.orders))


# -- What a network spends its time on -------------------------------------------------------------
#
# Derivatives by the parameters are written out for three operations. What they compute is what JAX
# would find; how matters: on a CPU a third of the step goes into transposed copies for the matrix
# gradient, and into gradients of slices that are padded and added up. Both modes and vmap work.


@jax.custom_jvp
def _linear(h: Array, matrix: Array) -> Array:
    return h @ matrix


@_linear.defjvp
def _linear_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (h, matrix), (dh, dmatrix) = primals, tangents
    # As a plain product of two matrices: so is its transpose, which sums over all coefficients.
    flat = h.reshape(-1, h.shape[-1]) @ dmatrix
    return h @ matrix, dh @ matrix + flat.reshape(*h.shape[:-1], flat.shape[-1])


@jax.custom_jvp
def _shift(h: Array, constant: Array) -> Array:
    """Add to the zeroth coefficient (a selection fuses; an update in place is a copy)."""
    zeroth = jax.lax.broadcasted_iota(jnp.int32, h.shape, 0) == 0
    return h + jnp.where(zeroth, constant, 0)


@_shift.defjvp
def _shift_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    dh, dconstant = tangents
    edges = [(0, len(dh) - 1, 0), *[(0, 0, 0)] * dconstant.ndim]
    padded = jax.lax.pad(dconstant[None], jnp.zeros((), dconstant.dtype), edges)
    return _shift(*primals), dh + padded


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _compose(h: Array, derivatives: Derivatives, orders: Orders) -> Array:
    parts = _split(h)
    return jnp.stack(_taylor(derivatives(parts[0], orders.degree), parts, orders))


@_compose.defjvp
def _compose_jvp(
    derivatives: Derivatives, orders: Orders, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    """d g(h) = g'(h) dh is a product of series."""
    h, dh = _split(primals[0]), _split(tangents[0])
    g = derivatives(h[0], orders.degree + 1)
    slope = _taylor(g[1:], h, orders)
    change = [sum(slope[i] * dh[j] for i, j in pairs) for pairs in product_table(orders)]
    return jnp.stack(_taylor(g, h, orders)), jnp.stack(change)


def _split(h: Array) -> list[Array]:
    """The coefficients one by one; unlike slices, the transpose is one concatenation."""
    return [part[0] for part in jax.lax.split(h, (1,) * len(h))]


def _taylor(g: Sequence[Array], h: Sequence[Array], orders: Orders) -> list[Array]:
    """sum_k g[k]/k! e^k, truncated; e is h without its zeroth coefficient."""
    out: list[Array | None] = [g[0], *[None] * (len(orders) - 1)]
    power: list[Array | None] = [None, *h[1:]]
    for k in range(1, orders.degree + 1):
        factor = g[k] / math.factorial(k)
        for i, value in enumerate(power):
            if value is not None:
                out[i] = _plus(factor * value, out[i])
        if k < orders.degree:
            power = _times_rest(power, h, orders)
    return out  # pyright: ignore[reportReturnType]


def _times_rest(
    power: list[Array | None], h: Sequence[Array], orders: Orders
) -> list[Array | None]:
    """Multiply a polynomial by e, the non-constant part of h, and truncate."""
    result: list[Array | None] = [None] * len(orders)
    for target, pairs in enumerate(product_table(orders)):
        for i, j in pairs:
            factor = power[i]
            if factor is None or j == 0:
                continue
            result[target] = _plus(factor * h[j], result[target])
    return result


def _plus(term: Array, total: Array | None) -> Array:
    return term if total is None else term + total


# -- Activations, with as many derivatives as the equation asks for ------------------------------


@cache
def _tanh_polynomials(degree: int) -> tuple[tuple[int, ...], ...]:
    """The derivatives of tanh as polynomials in t = tanh(z): P_0 = t, P_{k+1} = P_k' (1 - t²)."""
    polynomials: list[tuple[int, ...]] = [(0, 1)]
    for _ in range(degree):
        slope = [k * c for k, c in enumerate(polynomials[-1])][1:]
        following = [*slope, 0, 0]
        for k, c in enumerate(slope):
            following[k + 2] -= c
        polynomials.append(tuple(following))
    return tuple(polynomials)


def tanh(z: Array, degree: int) -> list[Array]:
    """tanh and its first `degree` derivatives."""
    t = jnp.tanh(z)
    first = 1 - t * t
    # Those that second-order equations and their gradients need are written out: fewer operations
    # in the hot loop.
    known = [t, first, -2 * t * first, (6 * t * t - 2) * first]
    return [
        known[k] if k < len(known) else jnp.polyval(jnp.array(p[::-1], z.dtype), t)
        for k, p in enumerate(_tanh_polynomials(degree))
    ]


def sine(z: Array, degree: int) -> list[Array]:
    """sin and its first `degree` derivatives."""
    s, c = jnp.sin(z), jnp.cos(z) if degree else None
    cycle = [s, c, -s, -c if c is not None else None]
    return [cycle[k % 4] for k in range(degree + 1)]  # pyright: ignore[reportReturnType]


def cosh(z: Array, degree: int) -> list[Array]:
    """cosh and its first `degree` derivatives."""
    return [jnp.sinh(z) if k % 2 else jnp.cosh(z) for k in range(degree + 1)]


def sinh(z: Array, degree: int) -> list[Array]:
    """sinh and its first `degree` derivatives."""
    return [jnp.cosh(z) if k % 2 else jnp.sinh(z) for k in range(degree + 1)]


def modulus(z: Array, degree: int) -> list[Array]:
    """|z|, with the derivative from the right at zero."""
    slope = jnp.where(z < 0, -1.0, 1.0).astype(z.dtype)
    return [slope * z, slope, *(jnp.zeros_like(z) for _ in range(degree - 1))][: degree + 1]


def reciprocal(z: Array, degree: int) -> list[Array]:
    """1 / z and its first `degree` derivatives."""
    return _power(z, degree, -1.0)


def inverse_root(z: Array, degree: int) -> list[Array]:
    """1 / sqrt(z) and its first `degree` derivatives."""
    return _power(z, degree, -0.5)


def logarithm(z: Array, degree: int) -> list[Array]:
    """log z and its first `degree` derivatives."""
    return [jnp.log(z), *(reciprocal(z, degree - 1) if degree else [])]


def _power(z: Array, degree: int, exponent: float) -> list[Array]:
    derivatives = [1 / z if exponent == -1 else z**exponent]
    for k in range(degree):
        derivatives.append((exponent - k) * derivatives[-1] / z)
    return derivatives


ACTIVATIONS: dict[str, Derivatives] = {"tanh": tanh, "sine": sine}


# -- Any smooth function of the coordinates ------------------------------------------------------


def coordinate(values: Array, axis: int, orders: Orders) -> Series:
    """A coordinate as a series: its values, and a first derivative of one."""
    zero = jnp.zeros_like(values)
    slope = tuple(int(i == axis) for i in range(len(orders.indices[0])))
    rest = [zero + 1 if index == slope else zero for index in orders.indices[1:]]
    return Series(orders, jnp.stack([values, *rest]))


def partial(function: Callable[[Array], Array], index: MultiIndex) -> Callable[[Array], Array]:
    """The partial derivative of a function of one point (dim,), by nested forward mode."""
    for axis, order in enumerate(index):
        for _ in range(order):
            function = _along(function, axis)
    return function


def _along(function: Callable[[Array], Array], axis: int) -> Callable[[Array], Array]:
    def derivative(point: Array) -> Array:
        direction = np.eye(len(point), dtype=point.dtype)[axis]
        return jax.jvp(function, (point,), (direction,))[1]

    return derivative


def factorial(index: MultiIndex) -> int:
    return math.prod(math.factorial(order) for order in index)


def expand(function: Callable[[Array], Array], point: Array, orders: Orders) -> Array:
    """Taylor coefficients (len(orders), ...) of a function of one point.

    For the small functions at both ends of the network: features before it, an ansatz behind it.
    The compiler merges what the nested derivatives have in common.
    """
    return jnp.stack([partial(function, a)(point) / factorial(a) for a in orders.indices])


def polynomial(coefficients: Array, centre: Array, orders: Orders) -> Callable[[Array], Array]:
    """The Taylor polynomial with these coefficients, as a function of the point.

    It stands in for the network when something is composed with its output: all derivatives up to
    the carried order agree, and differentiating the polynomial costs nothing.
    """

    def value(point: Array) -> Array:
        offset = point - centre
        total = coefficients[0]
        for index, coefficient in zip(orders.indices[1:], coefficients[1:], strict=True):
            monomial = math.prod(offset[i] ** n for i, n in enumerate(index) if n)
            total = total + coefficient * monomial
        return total

    return value


def affine(
    offset: Float[Array, "*n s i"],
    factor: Float[Array, "*n s i j"],
    series: Float[Array, "*n s j"],
    orders: Orders,
) -> Float[Array, "*n s i"]:
    """offset + factor · series, a product of Taylor series truncated to the orders."""
    if factor.shape[-2:] == (1, 1):
        first = lambda a: Series(orders, jnp.moveaxis(a, -2, 0))
        return offset + jnp.moveaxis((first(factor[..., 0]) * first(series)).coefficients, 0, -2)
    # Written out, the products of all pairs of indices and outputs are operations by the hundred;
    # as one matrix product with zeros in it they are slower on a CPU, but little beside a Jacobian.
    nothing = jnp.zeros_like(factor[..., :1, :, :])
    by_pair = jnp.concatenate([factor, nothing], axis=-3)[..., quotient_table(orders), :, :]
    return offset + jnp.einsum("...acij,...cj->...ai", by_pair, series)


# -- Names of derivatives ------------------------------------------------------------------------


def parse_derivative(
    name: str, outputs: Sequence[str], coordinates: Sequence[str]
) -> tuple[str, tuple[MultiIndex, ...]] | None:
    """Read `u`, `u_x`, `u_xt`, `u_theta_theta` or `laplacian_u` as (output, indices to be summed).

    Returns None where the name is none of these. A Laplacian runs over the spatial coordinates:
    all but `t`.
    """
    if name.startswith("laplacian_") and name.removeprefix("laplacian_") in outputs:
        spatial = [i for i, c in enumerate(coordinates) if c != "t"]
        twice = [tuple(2 * int(i == j) for j in range(len(coordinates))) for i in spatial]
        return name.removeprefix("laplacian_"), tuple(twice)
    for output in sorted(outputs, key=len, reverse=True):
        if name == output:
            return output, ((0,) * len(coordinates),)
        if name.startswith(output + "_"):
            axes = _split_axes(name.removeprefix(output + "_"), coordinates)
            if axes is not None:
                return output, (tuple(axes.count(c) for c in coordinates),)
    return None


def _split_axes(suffix: str, coordinates: Sequence[str]) -> list[str] | None:
    """Split `xxt` or `theta_theta` into coordinates; underscores between them are optional."""
    for coordinate in sorted(coordinates, key=len, reverse=True):
        if suffix == coordinate:
            return [coordinate]
        if suffix.startswith(coordinate):
            rest = _split_axes(suffix.removeprefix(coordinate).removeprefix("_"), coordinates)
            if rest is not None:
                return [coordinate, *rest]
    return None
