"""Solutions between which is interpolated: a polynomial in lambda, an expansion in the coordinates.

No network in the narrow sense, and trained by nothing; but a function of a point and lambda with
arrays, which is all that the rest of the library asks of one.
"""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.jet import Orders, Series
from lcpinn.network.contract import Lambda, Network, Params
from lcpinn.spec import spec

MOST = 1 << 24  # numbers in the expansions of many lambda at once: bounds the memory that they take
SCALAR = Orders(((),))  # of what does not depend on coordinates


@spec
class Interpolant(Network):
    """u_o(x; λ) = Σ_j T_{j_1}(λ_1) T_{j_2}(λ_2) ... Σ_k c_{jok} φ_{k_1}(x_1) φ_{k_2}(x_2) ...

    T are Chebyshev polynomials, φ too, or sines and cosines along a coordinate that is `periodic`.
    Parameters are the coefficients c, (products in λ, outputs, functions along each coordinate),
    and for every λ a selection (degrees, products), which has a one where a product has that
    degree. How many there are is known when they have been computed: see `Interpolation`.

    It needs the library's own features, each of which is a function of one coordinate.
    """

    periodic: tuple[bool, ...]

    def init(
        self,
        key: Array,
        num_features: int,
        num_outputs: int,
        dims: dict[str, int],
        dtype: DTypeLike,
    ) -> Params:
        """u = 0, with one function of everything."""
        del key
        if num_features != len(self.periodic) + sum(self.periodic) or "weights" in dims:
            raise LcpinnError("an Interpolant takes a family without features and loss weights")
        sizes = (1, num_outputs, *(1 for _ in self.periodic))
        one = jnp.ones((1, 1), dtype)
        selections = [one for _ in range(dims.get("parameters", 0))]
        return {"coefficients": jnp.zeros(sizes, dtype), "selections": selections}

    def apply(self, params: Params, features: Series, lam: Lambda) -> Series:
        """Outputs as a series; lambda's arrays broadcast against the features' batch axes."""
        batch = features.value.shape[:-1]  # lambdas, points of each
        products = self.products(params, lam, features.coefficients.dtype)
        if products.shape[-2] != 1:  # every point has a lambda of its own
            products = jnp.broadcast_to(products, (*batch, products.shape[-1]))
            products = products.reshape(-1, 1, products.shape[-1])
            flat = features.coefficients.reshape(len(features.orders), -1, 1, len(self._places[0]))
            features = Series(features.orders, flat)
        amplitudes = products.reshape(-1, products.shape[-1])
        values = self.combined(params["coefficients"], features, amplitudes)
        return Series(features.orders, values.reshape(len(features.orders), *batch, -1))

    def combined(self, coefficients: Array, features: Series, amplitudes: Array) -> Array:
        """Σ_j a_j φ_j of functions φ given by coefficients (j, outputs, functions...): Taylor
        coefficients (s, l, n, outputs), for amplitudes (l, j) of all points of a lambda."""
        tables = self._tables(features, coefficients.shape[2:])
        return _contracted(features.orders, coefficients, amplitudes, tables)

    def products(self, params: Params, lam: Lambda, dtype: DTypeLike) -> Array:
        """∏ T(λ) for all products, (..., products)."""
        parts = []
        for i, selection in enumerate(params["selections"]):
            value = lam["parameters"][..., i : i + 1]
            table = chebyshev(Series(SCALAR, value[None]), len(selection))
            parts.append(table.value @ selection)
        return reduce(jnp.multiply, parts, jnp.ones((1, 1, 1), dtype))

    @property
    def _places(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """For every feature the coordinate that it is of; for every coordinate its first one."""
        coordinates: list[int] = []
        first: list[int] = []
        for i, periodic in enumerate(self.periodic):
            first.append(len(coordinates))
            coordinates += [i, i] if periodic else [i]
        return tuple(coordinates), tuple(first)

    def _tables(self, features: Series, sizes: tuple[int, ...]) -> list[Series]:
        """Along every coordinate all functions, (s, l, n, functions)."""
        tables = []
        for first, periodic, num in zip(self._places[1], self.periodic, sizes, strict=True):
            one, other = (
                Series(features.orders, features.coefficients[..., i : i + 1])
                for i in (first, first + periodic)
            )
            tables.append(fourier(one, other, num) if periodic else chebyshev(one, num))
        return tables

    @property
    def shapes_vary(self) -> bool:
        return True

    def resolution(self, params: Params) -> tuple[int, ...]:
        """Functions along each coordinate."""
        return params["coefficients"].shape[2:]

    def doubtful(self, params: Params) -> np.ndarray:
        """Between nodes, next to the centre and to two corners: at nodes there is little to see."""
        degrees = np.array([len(selection) - 1 for selection in params["selections"]])
        intervals = np.maximum(degrees, 1)
        which = np.stack([intervals // 2, intervals - 1, 0 * intervals])
        return np.where(degrees > 0, np.cos(np.pi * (which + 0.5) / intervals), 0.0)

    def words(self) -> str:
        return "Chebyshev and Fourier series in λ and the coordinates"


def _contracted(
    orders: Orders, coefficients: Array, amplitudes: Array, tables: list[Series]
) -> Array:
    """Σ over products and functions: (s, l, n, outputs), of amplitudes (l, products)."""
    rows, size = amplitudes.shape[0], coefficients.size // coefficients.shape[0]
    stacked = [table.coefficients for table in tables]
    whole = lambda a, *t: _expansion(orders, jnp.tensordot(a, coefficients, 1), t)
    if not isinstance(rows, int) or rows * size <= MOST or rows == 1:
        return whole(amplitudes, *stacked)
    # Every lambda has an expansion of its own: some of them after the others.
    one = lambda given: whole(given[0][None], *(t[:, None] for t in given[1]))[:, 0]
    moved = [jnp.moveaxis(t, 1, 0) for t in stacked]
    values = jax.lax.map(one, (amplitudes, moved), batch_size=max(1, MOST // size))
    return jnp.moveaxis(values, 0, 1)


def _expansion(orders: Orders, coefficients: Array, tables: tuple[Array, ...]) -> Array:
    """Taylor coefficients (s, l, n, outputs) of expansions (l, outputs, functions...).

    A function of one coordinate has derivatives along that one alone: a derivative of the product
    is a product of derivatives.
    """
    position = {index: s for s, index in enumerate(orders.indices)}
    dim, parts, begun = len(tables), [], {}
    for index in orders.indices:
        alone = [tuple(n * (i == j) for j, n in enumerate(index)) for i in range(dim)]
        first, *others = (t[position[a]] for t, a in zip(tables, alone, strict=True))
        if index[0] not in begun:
            begun[index[0]] = jnp.einsum("lnk,lok...->lno...", first, coefficients)
        value = begun[index[0]]
        for table in others:
            spread = table.reshape(*table.shape[:2], 1, -1, *(1,) * (value.ndim - 4))
            value = (value * spread).sum(axis=3)
        parts.append(value)
    return jnp.stack(parts)


# -- Functions, by doubling: a few operations on all of them instead of one for each ---------------


def chebyshev(x: Series, num: int) -> Series:
    """T_0 ... T_(num-1) of a series, as (s, ..., num), by T_{m+j} = 2 T_m T_j - T_{m-j}."""
    table = jnp.concatenate([_one(x), x.coefficients], axis=-1)
    while (m := table.shape[-1] - 1) < num - 1:
        top = Series(x.orders, table[..., m:])
        more = (top * Series(x.orders, 2 * table[..., 1:])).coefficients - table[..., m - 1 :: -1]
        table = jnp.concatenate([table, more], axis=-1)
    return Series(x.orders, table[..., :num])


def fourier(sine: Series, cosine: Series, num: int) -> Series:
    """1, sin θ, cos θ, sin 2θ, ... (s, ..., num), by the sum of two angles."""
    sines, cosines = sine.coefficients, cosine.coefficients
    while (m := sines.shape[-1]) < num // 2:
        s, c = Series(sine.orders, sines), Series(sine.orders, cosines)
        last_s, last_c = (Series(sine.orders, t[..., m - 1 :]) for t in (sines, cosines))
        more_s = (last_s * c).coefficients + (last_c * s).coefficients
        more_c = (last_c * c).coefficients - (last_s * s).coefficients
        sines, cosines = (
            jnp.concatenate(pair, axis=-1) for pair in ((sines, more_s), (cosines, more_c))
        )
    pairs = jnp.stack([sines, cosines], axis=-1).reshape(*sines.shape[:-1], -1)
    table = jnp.concatenate([_one(sine), pairs], axis=-1)
    return Series(sine.orders, table[..., :num])


def _one(x: Series) -> Array:
    """The constant one, like a series."""
    zeroth = jnp.arange(len(x.orders)).reshape(-1, *(1,) * x.value.ndim) == 0
    return jnp.broadcast_to(zeroth.astype(x.coefficients.dtype), x.coefficients.shape)
