"""Further interior rows for descents, where an exploration makes do with few."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from lcpinn.optimiser.stage import Setup
from lcpinn.sampling import Batch, Points, Sampling


class DescentRows:
    """The interior rows that a batch has beside its own while a round descends.

    They are those of `sampling` with another seed, `num` of them, and none where that is zero or
    the batch has no interior rows.
    """

    def __init__(self, sampling: Sampling, num: int, setup: Setup, batch: Batch):
        self.further: Points | None = None
        if num and "interior" in batch:
            self.own = batch["interior"].coordinates.shape[0]
            others = replace(sampling, interior=num, seed=sampling.seed + 1)
            self.further = setup.fixed(others)["interior"]

    def __bool__(self) -> bool:
        return self.further is not None

    def in_batch(self, batch: Batch) -> bool:
        """Whether the batch has them."""
        return bool(self) and batch["interior"].coordinates.shape[0] > self.own

    def of(self, batch: Batch, *, descending: bool) -> Batch:
        """The rows that the next steps see."""
        if not descending:
            return self.parted(batch)
        return batch if not self or self.in_batch(batch) else self.joined(batch)

    def joined(self, batch: Batch) -> Batch:
        """All rows."""
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), batch["interior"], self.further)
        return {**batch, "interior": _weighted_alike(both)}

    def parted(self, batch: Batch) -> Batch:
        """The batch's own rows alone."""
        if not self.in_batch(batch):
            return batch
        own = jax.tree.map(lambda a: a[: self.own], batch["interior"])
        return {**batch, "interior": _weighted_alike(own)}


def _weighted_alike(points: Points) -> Points:
    each = 1 / points.quadrature.shape[0]
    return points._replace(quadrature=jnp.full_like(points.quadrature, each))
