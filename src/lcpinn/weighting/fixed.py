"""The same weight for every point of a term, for the whole training."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.family import Family
from lcpinn.sampling import Batch
from lcpinn.spec import spec
from lcpinn.weighting.contract import Memory, Weighting


@spec
class Fixed(Weighting):
    """L = sum over terms of w_term * mean |residual|²; a term that is not named has weight one."""

    weights: Mapping[str, float]

    def init(self, family: Family, batch: Batch, key: Array) -> Memory:
        family.check_weight_names(tuple(self.weights), "fixed weights")
        return ()

    def weigh(
        self, state: Memory, family: Family, batch: Batch, residuals: Mapping[str, Array]
    ) -> tuple[dict[str, Array], Memory]:
        given = {name: r.dtype.type(self.weights.get(name, 1.0)) for name, r in residuals.items()}
        return {name: jnp.asarray(value) for name, value in given.items()}, state
