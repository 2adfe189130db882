"""Model-driven acceptance: far steps first, judged by what they would leave; then a descent."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.optimiser.acceptance.search import RowsAfter, Selection, smallest_damping_of
from lcpinn.optimiser.damping import Candidates
from lcpinn.spec import spec


@spec
class ModelDriven:
    """Explore within the trust region by the model loss |r + J p|², then descend by the loss.

    Network parameters matter to very different degrees, and those that matter least have farthest
    to go. Rows curve along that way, so that a low loss confines every step to a narrow valley, the
    narrower the lower: a monotone descent gets low early and stagnates. But nearly all of the loss
    on the way is curvature of the last step, in stiff directions, which the next step removes. What
    tells progress is the model loss, that which the step would leave if rows were linear.

    While a round explores, the trust-region radius alone limits a step, whatever its loss. When
    `patience` steps of the optimiser no longer lower the model loss by the share `decrease`, or
    fewer than `descent` steps are left, the candidate with the lowest loss is taken from then on:
    a handful of steps leads down to where the model loss has been.

    It is non-monotone in the extreme (Grippo, Lampariello and Lucidi 1986), and gives up the test
    by the gain ratio altogether. Fronts do not bear it.
    """

    decrease: float = 1 / 3
    descent: int = 12

    monotone = False
    explores = True

    def select(self, candidates: Candidates, rows_after: RowsAfter, exploring: Array) -> Selection:
        return jax.lax.cond(
            exploring,
            lambda: _longest(candidates, rows_after),
            lambda: _lowest(candidates, rows_after),
        )

    def explored(self, history: Array) -> Array:
        """Whether the last steps together lowered the model loss too little to go on."""
        return jnp.isfinite(history[0]) & (history[-1] > (1 - self.decrease) * history[0])


def _longest(candidates: Candidates, rows_after: RowsAfter) -> Selection:
    """The smallest damping whose step is admissible, whatever its loss."""
    index, accepted = smallest_damping_of(candidates.admissible)
    step = candidates.directions[index]
    loss = jnp.sum(rows_after(step[None]) ** 2)
    return Selection(step, index, loss, accepted & jnp.isfinite(loss))


def _lowest(candidates: Candidates, rows_after: RowsAfter) -> Selection:
    """The step with the lowest loss, if that is below the present one."""
    losses = jnp.sum(rows_after(candidates.directions) ** 2, axis=1)
    losses = jnp.where(jnp.isfinite(losses) & candidates.admissible, losses, jnp.inf)
    index = jnp.argmin(losses)
    lowest = losses[index]
    return Selection(candidates.directions[index], index, lowest, lowest < candidates.loss)
