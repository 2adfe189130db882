"""Series that no parameter of the network changes, found once for the points of a batch.

What the network sees of the coordinates, and an ansatz around it, are functions of the page's, with
derivatives by nested forward mode: most of the operations of a program that has them in it, and a
program of steps has them wherever it asks for rows. Steps on the same points need their values
alone. These come from a small program of their own, for so many points at a time that one serves
batches of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from lcpinn.compilation import compiler_options
from lcpinn.devices import on_every_device
from lcpinn.jet import Orders
from lcpinn.rows import Problem
from lcpinn.sampling import Batch, Points, PointSeries

AT_ONCE = 1024  # points


class KnownSeries:
    """Batches of a problem with the series of their points, on every device of a mesh."""

    def __init__(self, problem: Problem, mesh: Mesh | None = None) -> None:
        self.problem, self.mesh = problem, mesh
        self._latest: tuple[list[Any], Batch] | None = None

    def of(self, batch: Batch) -> Batch:
        """The batch with its series; of the same arrays as the last time, what was found then."""
        if not self.problem.has_series:
            return batch
        leaves = jax.tree.leaves(batch)
        if self._latest is None or not _same(leaves, self._latest[0]):
            groups, orders = self.problem.family.groups, self.problem.family.orders
            known = {
                where: points._replace(series=self._series(points, orders(groups[where])))
                for where, points in batch.items()
            }
            self._latest = leaves, on_every_device(known, self.mesh)
        return self._latest[1]

    def _series(self, points: Points, orders: Orders) -> PointSeries:
        coordinates, parameters = np.asarray(points.coordinates), np.asarray(points.parameters)
        num_lambda, num, dim = coordinates.shape
        each, total = coordinates.reshape(-1, 1, dim), num_lambda * num
        # Of every point the lambda; the last one again and again, to fill the last chunk.
        chosen = np.minimum(np.arange(-(-total // AT_ONCE) * AT_ONCE), total - 1)
        parts = [
            jax.tree.map(np.asarray, self._program(each[part], parameters[part // num], orders))
            for part in chosen.reshape(-1, AT_ONCE)
        ]

        def joined(*leaves: np.ndarray) -> Array:
            whole = np.concatenate(leaves)[:total]
            return jnp.asarray(whole.reshape(num_lambda, num, *whole.shape[2:]))

        return jax.tree.map(joined, *parts)

    @cached_property
    def _program(self) -> Callable[[Any, Any, Orders], PointSeries]:
        def program(coordinates: Array, parameters: Array, orders: Orders) -> PointSeries:
            nothing = jnp.zeros((len(coordinates), 0), coordinates.dtype)
            points = Points(coordinates, parameters, nothing, nothing, nothing[:, None])
            return self.problem.series(points, orders)

        options = compiler_options(once=True)
        return jax.jit(program, static_argnums=2, compiler_options=options)


def _same(leaves: list[Any], others: list[Any]) -> bool:
    return len(leaves) == len(others) and all(a is b for a, b in zip(leaves, others, strict=True))
