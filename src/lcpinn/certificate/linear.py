"""The family's terms, linearised about whatever is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from lcpinn.family import Family
from lcpinn.jet import Orders
from lcpinn.precision import double
from lcpinn.term import Term

CHUNK = 1 << 13  # points (times shots) in one call: the values in between stay in the cache
SHOTS = 16  # loss weights over whose mean an equation is linearised, though more are judged
LEAST = 128  # points are padded to a power of two that is at least this: few sizes to compile

# From (params, points (n, dim), parameters (p,), weights (shots, m), orders) to Taylor coefficients
# (s, n, outputs) of the mean over shots.
Jet = Callable[[Any, Array, Array, Array, Orders], Float[Array, "s n out"]]


class Linearised:
    """Taylor coefficients of what is judged, residuals of terms, and their slopes.

    `T(s)` of a term is a function of the Taylor coefficients s of the outputs at a point; its
    derivative by them, by forward mode, is all that a linearisation needs to know of an equation.
    """

    def __init__(self, family: Family, jet: Jet):
        self.family = family
        self.terms = [term for term in family.all_terms.values() if term.name != "data"]
        self._jet = jax.jit(jet, static_argnums=4)
        self._slopes = jax.jit(self._residual_and_slopes, static_argnums=(0, 1))

    def of(self, params: Any, parameters: Sequence[float], shots: np.ndarray) -> At:
        """At one setting of lambda; loss weights (shots, m) are averaged over."""
        return At(self, params, np.asarray(parameters, float), np.asarray(shots, float))

    @property
    def interior(self) -> list[Term]:
        return [term for term in self.terms if not term.faces]

    def _residual_and_slopes(
        self, term: Term, orders: Orders, series: Array, points: Array, parameters: Array
    ) -> tuple[Array, Array]:
        def at(s: Array, p: Array) -> Array:
            return term.residual(s, orders, p, parameters)

        return jax.vmap(lambda s, p: (at(s, p), jax.jacfwd(at)(s, p)), (1, 0))(series, points)


class At:
    """A linearisation at one setting: NumPy in, NumPy out.

    Of many loss weights the first few make the mean u to linearise about, and d corrects that one.
    What is judged is the mean over all of them, w, of which only values are needed: its error is
    u + d - w.
    """

    def __init__(
        self, linearised: Linearised, params: Any, parameters: np.ndarray, shots: np.ndarray
    ):
        self._of, self._params, self._parameters = linearised, params, parameters
        self._shots = shots

    def series(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, outputs) of u at points (n, dim)."""
        return self._mean(points, orders, self._shots[:SHOTS])

    def values(self, points: np.ndarray) -> np.ndarray:
        """u itself, (n, outputs)."""
        return self._mean(points, _zero(points), self._shots[:SHOTS])[0]

    def others(self, points: np.ndarray) -> np.ndarray:
        """What the loss weights beyond the first few add to the mean, w - u."""
        if len(self._shots) <= SHOTS:
            return np.zeros((len(points), len(self._of.family.outputs)))
        return self._mean(points, _zero(points), self._shots)[0] - self.values(points)

    def _mean(self, points: np.ndarray, orders: Orders, shots: np.ndarray) -> np.ndarray:
        found = []
        with double():
            for piece, count in _pieces(points, max(LEAST, CHUNK // len(shots))):
                value = self._of._jet(self._params, piece, self._parameters, shots, orders)
                found.append(np.asarray(value)[:, :count])
        return np.concatenate(found, axis=1)

    def slopes(
        self, term: Term, orders: Orders, series: np.ndarray, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A term's residual (n, c) and its derivative by the series, (n, c, s, outputs)."""
        both = np.concatenate([np.moveaxis(series, 1, 0).reshape(len(points), -1), points], axis=1)
        residuals, slopes, split = [], [], both.shape[1] - points.shape[1]
        with double():
            for piece, count in _pieces(both, CHUNK):
                shape = (len(piece), len(orders), series.shape[2])
                s = np.moveaxis(piece[:, :split].reshape(shape), 0, 1)
                r, d = self._of._slopes(term, orders, s, piece[:, split:], self._parameters)
                residuals.append(np.asarray(r)[:count])
                slopes.append(np.asarray(d)[:count])
        return np.concatenate(residuals), np.concatenate(slopes)


def _zero(points: np.ndarray) -> Orders:
    return Orders(((0,) * points.shape[1],))


def _pieces(rows: np.ndarray, most: int) -> Iterator[tuple[np.ndarray, int]]:
    """Rows in pieces padded to a size that compiled programs are reused for."""
    size = min(most, max(LEAST, 1 << (len(rows) - 1).bit_length()))
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        yield np.concatenate([piece, np.repeat(piece[-1:], size - len(piece), axis=0)]), len(piece)
