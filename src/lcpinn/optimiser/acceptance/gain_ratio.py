"""Acceptance by the gain ratio: the actual decrease of the loss against the predicted one."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool

from lcpinn.optimiser.acceptance.search import RowsAfter, Selection, by_loss, gains
from lcpinn.optimiser.damping import Candidates
from lcpinn.spec import spec


@spec
class GainRatio:
    """The smallest damping for which it and every larger one has a gain ratio >= `threshold`.

        gain ratio = (loss - loss after the step) / (loss - |r + J p|²)

    The classical test of trust-region methods (Nocedal and Wright 2006, chapter 4), asked of a
    whole grid of dampings at once: the damping may fall by a decade and a half in every step, which
    is where the speed comes from. `corrections` is how often the step is corrected to second order
    (search.second_order_correction), which pays where factorising dominates a step.
    """

    threshold: float = 0.1
    corrections: int = 2

    monotone = True
    explores = False
    descent = 0

    def select(self, candidates: Candidates, rows_after: RowsAfter, exploring: Array) -> Selection:
        del exploring
        acceptable = lambda losses: self.acceptable(
            losses, candidates.loss, candidates.predicted, candidates.admissible
        )
        return by_loss(candidates, rows_after, acceptable, self.corrections)

    def acceptable(
        self, losses: Array, loss: Array, predicted: Array, admissible: Array | bool = True
    ) -> Bool[Array, " d"]:
        """Whose gain ratio is large enough. One whose loss is not finite never is."""
        gained = gains(losses, loss, predicted, self.threshold)
        return jnp.isfinite(losses) & admissible & gained

    def explored(self, history: Array) -> Array:
        del history
        return jnp.asarray(True)
