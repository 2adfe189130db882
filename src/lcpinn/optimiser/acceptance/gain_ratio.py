"""Acceptance by the gain ratio: the actual decrease of the loss against the predicted one."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool

from lcpinn.optimiser.acceptance.search import ByLoss, gains
from lcpinn.spec import spec


@spec
class GainRatio(ByLoss):
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

    def acceptable(
        self, losses: Array, loss: Array, predicted: Array, admissible: Array | bool = True
    ) -> Bool[Array, " d"]:
        """Whose gain ratio is large enough. One whose loss is not finite never is."""
        gained = gains(losses, loss, predicted, self.threshold)
        return jnp.isfinite(losses) & admissible & gained
