"""Lambda as a scale and a shift of every hidden layer (FiLM, Perez et al. 2018)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array

from lcpinn.errors import LcpinnError, check_choice
from lcpinn.jet import Series
from lcpinn.network.contract import Conditioning, Params
from lcpinn.network.interpolant import SCALAR
from lcpinn.network.interpolant import chebyshev as doubled
from lcpinn.spec import spec

XAVIER = ("uniform", "normal")


@spec
class FiLM(Conditioning):
    """A generator lambda -> (gamma, beta) per hidden layer; gamma starts at 1 and beta at 0.

    With `hidden` > 0 the generator is a tanh layer of that width. With `degree` > 0 it is linear in
    the Chebyshev polynomials of lambda up to that total degree: far fewer parameters for the same
    accuracy in one or two coefficients, and a better conditioned least-squares problem.

    With `exponential` the scale is gamma = exp(generator) in place of 1 + generator: it stays
    positive, and a unit can be steep at one end of the range and flat at the other, decades apart.
    With `slopes` > 0 the first layer starts that way: the exponent of each of its units is linear
    in every lambda, with a slope drawn from [-slopes, slopes] (it takes a `degree`). A tuple has
    one bound for each: with half of log(high / low) a unit goes with a power between -1 and 1 of
    the coefficient, as similarity variables do.

    `xavier` is how the matrices of a tanh generator are drawn, `uniform` or `normal`; the last one
    is multiplied by `gain`, so that with zero the network starts independent of lambda.

    `stretch` has the Chebyshev coefficients of a variable that takes the place of a single lambda:
    one in which solutions change evenly, where in lambda itself they have a fold or a resonance.
    With `beside` it enters beside lambda and not in its place, polynomials of both: away from a
    resonance solutions are smooth in lambda, which in that variable has layers at its ends.

    `sees` are the positions of the coefficients that modulate the network; all of them where it is
    empty. Loads, which solutions are linear in, have their place in the last layer alone; what is
    held at a value has none.
    """

    hidden: int = 64
    degree: int = 0
    exponential: bool = False
    slopes: float | tuple[float, ...] = 0.0
    xavier: str = "uniform"
    gain: float = 0.0
    stretch: tuple[float, ...] = ()
    beside: bool = False
    sees: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_choice("FiLM", "xavier", self.xavier, XAVIER)
        if self.steep and not self.degree:
            raise LcpinnError("FiLM(slopes=...) needs a degree: a tanh generator has no slopes")

    @property
    def steep(self) -> bool:
        """Whether there are slopes at the start."""
        return any(self.slopes) if isinstance(self.slopes, tuple) else bool(self.slopes)

    def init(self, key: Array, dim: int, widths: Sequence[int], dtype: DTypeLike) -> Params:
        num, dim = 2 * sum(widths), len(self.sees) or dim
        if self.degree:
            variables = 2 * dim if self._both else dim
            w = jnp.zeros((len(chebyshev_indices(variables, self.degree)), num), dtype)
            if self.steep:
                bound = jnp.broadcast_to(jnp.asarray(self.slopes, dtype), (dim,))
                bound = bound[::-1, None]  # in the order of the polynomials of degree one
                shape = (dim, widths[0])
                slopes = bound * jax.random.uniform(key, shape, dtype, -1.0, 1.0)
                w = w.at[:dim, : widths[0]].set(slopes)  # the first are lambda itself
            return {"w": w}
        last = jnp.zeros((self.hidden, num), dtype)
        if self.gain:
            key, other = jax.random.split(key)
            last = self.gain * drawn_matrix(other, self.hidden, num, dtype, self.xavier)
        return {
            "w0": drawn_matrix(key, dim, self.hidden, dtype, self.xavier),
            "b0": jnp.zeros(self.hidden, dtype),
            "w1": last,
            "b1": jnp.zeros(num, dtype),
        }

    def modulate(
        self, params: Params, lam: Array, widths: Sequence[int]
    ) -> list[tuple[Array, Array]]:
        if self.sees:
            lam = lam[..., jnp.array(self.sees)]
        if self.degree:
            flat = self._polynomials(lam) @ params["w"]
        else:
            flat = jnp.tanh(lam @ params["w0"] + params["b0"]) @ params["w1"] + params["b1"]
        ends = list(itertools.accumulate(w for width in widths for w in (width, width)))
        parts = jnp.split(flat, ends[:-1], axis=-1)
        scale = jnp.exp if self.exponential else lambda generated: 1 + generated
        return [(scale(gamma), beta) for gamma, beta in zip(parts[::2], parts[1::2], strict=True)]

    @property
    def _both(self) -> bool:
        return self.beside and bool(self.stretch)

    def _polynomials(self, lam: Array) -> Array:
        """Of lambda, of the variable in its place, or of both together: (..., polynomials)."""
        if not self.stretch:
            return chebyshev(lam, self.degree)
        stretched = chebyshev_sum(lam, self.stretch)
        if self._both:
            stretched = jnp.concatenate([stretched, lam], axis=-1)
        return chebyshev(stretched, self.degree)

    @property
    def entry(self) -> str | None:
        if self.stretch or (self.sees and not self.degree):
            return None  # no reader of arrays knows of it
        return "chebyshev" if self.degree else "tanh"

    def tables(self, dim: int) -> dict[str, np.ndarray]:
        """The degree of every polynomial in each lambda, (polynomials, dim)."""
        if not self.degree:
            return {}
        seen = list(self.sees or range(dim))
        own = np.array(chebyshev_indices(len(seen), self.degree))
        orders = np.zeros((len(own), dim), own.dtype)
        orders[:, seen] = own
        return {"orders": orders}


def drawn_matrix(
    key: Array, fan_in: int, fan_out: int, dtype: DTypeLike, xavier: str = "uniform"
) -> Array:
    """Of variance 2 / (fan_in + fan_out), after Glorot and Bengio (2010)."""
    if xavier == "normal":
        return (2 / (fan_in + fan_out)) ** 0.5 * jax.random.normal(key, (fan_in, fan_out), dtype)
    bound = (6 / (fan_in + fan_out)) ** 0.5
    return jax.random.uniform(key, (fan_in, fan_out), dtype, -bound, bound)


def chebyshev_sum(values: Array, coefficients: Sequence[float]) -> Array:
    """Σ c_k T_k of values in [-1, 1], for each of them."""
    table = doubled(Series(SCALAR, values[None, ..., None]), len(coefficients)).value
    return table @ jnp.asarray(coefficients, values.dtype)


def chebyshev_indices(dim: int, degree: int) -> list[tuple[int, ...]]:
    """Multi-indices of total degree 1 to `degree`."""
    every = itertools.product(range(degree + 1), repeat=dim)
    return sorted((i for i in every if 0 < sum(i) <= degree), key=lambda i: (sum(i), i))


def chebyshev(values: Array, degree: int) -> Array:
    """Products of Chebyshev polynomials of values in [-1, 1]: (..., dim) -> (..., features)."""
    table = [jnp.ones_like(values), values]
    for _ in range(degree - 1):
        table.append(2 * values * table[-1] - table[-2])
    columns = []
    for index in chebyshev_indices(values.shape[-1], degree):
        column = jnp.ones_like(values[..., 0])
        for axis, order in enumerate(index):
            if order:
                column = column * table[order][..., axis]
        columns.append(column)
    return jnp.stack(columns, axis=-1)
