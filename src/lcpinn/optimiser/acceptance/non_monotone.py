"""Non-monotone acceptance: the loss may rise on the way, within bounds."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool

from lcpinn.optimiser.acceptance.search import ByLoss, gains
from lcpinn.spec import spec


@spec
class NonMonotone(ByLoss):
    """As GainRatio, but a step whose loss stays below `factor` times the present one passes, too.

    A descent that never rises follows the floor of a narrow curved valley in short steps; one that
    may rise for a while crosses it (Grippo, Lampariello and Lucidi 1986, who bound the rise by the
    largest of the last losses; here by a factor of the present one). `patience` of the optimiser
    has to outlast the steps in which nothing is gained.
    """

    factor: float = 11.0
    threshold: float = 0.1
    corrections: int = 2

    monotone = False

    def acceptable(
        self, losses: Array, loss: Array, predicted: Array, admissible: Array | bool = True
    ) -> Bool[Array, " d"]:
        """Whose gain ratio is large enough, or whose loss is within bounds."""
        gained = gains(losses, loss, predicted, self.threshold)
        return jnp.isfinite(losses) & admissible & (gained | (losses < self.factor * loss))
