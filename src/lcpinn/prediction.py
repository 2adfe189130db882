"""The network in double precision as a function of arrays, compiled once and called in chunks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpinn.compilation import compiler_options
from lcpinn.jet import Orders
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Points

CHUNK = 1 << 15  # points (times shots) in one call of the network: bounds the memory it takes


class Predictor:
    """Values of the outputs, and their moments over draws of the loss weights.

    Points (n, dim); parameters (n, p), or (1, p) for all points; draws (shots, m). To be called
    within precision.double.
    """

    def __init__(self, problem: Problem, params: Params):
        self.problem, self._params = problem, params

    @cached_property
    def params(self) -> Params:
        """Parameters in double precision, whatever they were trained in."""
        with double():
            return jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), self._params)

    def moments(
        self, points: np.ndarray, parameters: np.ndarray, draws: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over the draws, each (n, outputs)."""
        if len(points) == 0:
            empty = np.zeros((0, len(self.problem.family.outputs)))
            return empty, empty
        shared = len(parameters) == 1
        size = max(64, CHUNK // len(draws)) if shared else max(64, CHUNK)
        if len(points) < size:
            size = max(64, 1 << (len(points) - 1).bit_length())
        evaluate = self.shared if shared else self.pointwise
        means, deviations = [], []
        for start in range(0, len(points), size):
            piece = points[start : start + size]
            lam = parameters if shared else _padded(parameters[start : start + size], size)
            mean, deviation = evaluate(self.params, _padded(piece, size), lam, draws)
            means.append(np.asarray(mean)[: len(piece)])
            deviations.append(np.asarray(deviation)[: len(piece)])
        return np.concatenate(means), np.concatenate(deviations)

    def slices(self, points: np.ndarray, parameters: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Every draw apart, (shots, n, outputs), at one setting of the coefficients."""
        lam = np.repeat(parameters, len(draws), axis=0)
        size = max(64, CHUNK // len(draws))
        pieces = [np.zeros((len(draws), 0, len(self.problem.family.outputs)))]
        for start in range(0, len(points), size):
            piece = points[start : start + size]
            value = self._sliced(self.params, _padded(piece, size), lam, draws)
            pieces.append(np.asarray(value)[:, : len(piece)])
        return np.concatenate(pieces, axis=1)

    def values(self, params: Params, coordinates: Any, parameters: Any, weights: Any) -> Any:
        """Outputs (l, n, out) at points (l, n, dim) and lambdas (l, ...)."""
        filler = jnp.zeros((*coordinates.shape[:2], 0))
        points = Points(coordinates, parameters, weights, filler[..., 0:0], filler)
        zero = Orders(((0,) * self.problem.family.domain.dim,))
        return self.problem.outputs(params, points, zero)[0]

    @cached_property
    def _sliced(self) -> Callable[..., Any]:
        @jax.jit
        def run(params: Params, points: Any, parameters: Any, draws: Any) -> Any:
            coordinates = jnp.broadcast_to(points, (len(draws), *points.shape))
            return self.values(params, coordinates, parameters, draws)

        return run

    @cached_property
    def shared(self) -> Callable[..., Any]:
        """All points at one setting of the coefficients: lambdas are the draws of the weights."""

        def run(params: Params, points: Any, parameters: Any, draws: Any) -> Any:
            lam = jnp.broadcast_to(parameters, (len(draws), parameters.shape[-1]))
            values = self._sliced(params, points, lam, draws)
            return values.mean(0), values.std(0)

        return jax.jit(run, compiler_options=compiler_options())

    @cached_property
    def pointwise(self) -> Callable[..., Any]:
        """Every point at coefficients of its own; the draws one after the other."""

        @jax.jit
        def run(params: Params, points: Any, parameters: Any, draws: Any) -> Any:
            # Welford's updates: a difference of mean squares would cancel where draws agree.
            def add(moments: Any, draw: Any) -> Any:
                count, mean, squares = moments
                weights = jnp.broadcast_to(draw, (len(points), draw.shape[-1]))
                value = self.values(params, points[:, None], parameters, weights)[:, 0]
                gap = value - mean
                mean = mean + gap / (count + 1)
                return (count + 1, mean, squares + gap * (value - mean)), None

            zero = jnp.zeros((len(points), len(self.problem.family.outputs)))
            (count, mean, squares), _ = jax.lax.scan(add, (jnp.zeros(()), zero, zero), draws)
            return mean, jnp.sqrt(squares / count)

        return run


def _padded(piece: np.ndarray, size: int) -> np.ndarray:
    """Its last row repeated up to one size: one compiled program however long the last piece is."""
    return np.concatenate([piece, np.repeat(piece[-1:], size - len(piece), axis=0)])
