"""Model-driven acceptance: far steps first, judged by what they would leave; then shorter ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.optimiser.acceptance.search import (
    Pace,
    RowsAfter,
    Selection,
    Step,
    smallest_damping_of,
    with_merit,
)
from lcpinn.optimiser.damping import Candidates
from lcpinn.spec import spec

# While a round explores the radius is multiplied by SHRINKAGE, down to the smallest one, where the
# model loss stalls: four steps leave more than a share of it. Or where steps are too long for the
# model: the loss is high although the model loss is low, both relative to the first loss.
STALLING, HIGH_LOSS, LOW_MODEL_LOSS = 0.75, 1e-2, 1e-6
SHRINKAGE, SMALLEST_RADIUS = 0.9, 0.03
# Of the first loss: lower model losses are rounding. It is far below what rounding leaves of a
# loss, because directions that matter little to the loss may matter to the error.
ROUNDING = 1e-31
# The radius shrinks by this in every step of a contraction, until the loss is about the model loss;
# steps along curved rows miss by their square, so that the loss falls with its fourth power.
CONTRACTION, CONTRACTED, AGREES = 0.4, 1e-7, 4.0
JUDGED = 2  # steps after a contraction from which on stagnation is judged


@spec
class ModelDriven:
    """Explore within the trust region by the model loss |r + J p|², contract it, then descend.

    Network parameters matter to very different degrees, and those that matter least have farthest
    to go. Rows curve along that way, so that a low loss confines every step to a narrow valley, the
    narrower the lower: a monotone descent gets low early and stagnates. But nearly all of the loss
    on the way is curvature of the last step, in stiff directions, which the next step removes. What
    tells progress is the model loss, that which the step would leave if rows were linear.

    While a round explores, the trust-region radius alone limits a step, whatever its loss; where
    the model loss stalls, the radius becomes smaller. When `patience` steps of the optimiser no
    longer lower the model loss by the share `decrease`, or fewer than `descent` steps are left, the
    trust region contracts: each step has a fraction of the radius of the one before, with as little
    damping as that allows, and the loss comes down to the model loss in about ten steps. A descent
    by the loss from the first step on would take large dampings, which get low at once and never to
    where the model loss has been. Then the candidate with the lowest loss is taken.

    It is non-monotone in the extreme (Grippo, Lampariello and Lucidi 1986), and gives up the test
    by the gain ratio altogether. Fronts do not bear it.
    """

    decrease: float = 1 / 3
    descent: int = 12

    monotone = False
    explores = True

    def select(
        self, candidates: Candidates, rows_after: RowsAfter, contraction: Array
    ) -> Selection:
        return jax.lax.cond(
            contraction > 0,
            lambda: _longest(candidates, rows_after, contraction < 1),
            lambda: _lowest(candidates, rows_after),
        )

    def paced(self, pace: Pace, step: Step, first: Array) -> Pace:
        return jax.lax.switch(
            jnp.where(pace.exploring, 0, jnp.where(pace.contraction > 0, 1, 2)),
            (self._exploring, self._contracting, self._descending),
            pace,
            step,
            first,
        )

    def contracted(self, pace: Pace) -> Pace:
        return pace.restarted(CONTRACTION)

    def _exploring(self, pace: Pace, step: Step, first: Array) -> Pace:
        history = with_merit(pace.history, step.model_loss)
        lowest, before = history[-1], history[-min(5, len(history))]
        too_long = (step.loss > HIGH_LOSS * first) & (lowest < LOW_MODEL_LOSS * first)
        shrinks = (too_long | (lowest > STALLING * before)) & (pace.radius > SMALLEST_RADIUS)
        radius = jnp.where(shrinks, SHRINKAGE, 1.0) * pace.radius
        over = self.explored(history) | (lowest <= ROUNDING * first)
        on = pace._replace(radius=radius, history=history)
        return jax.tree.map(lambda a, b: jnp.where(over, a, b), self.contracted(on), on)

    def _contracting(self, pace: Pace, step: Step, first: Array) -> Pace:
        del first
        agrees = (step.loss <= AGREES * step.model_loss) | (pace.contraction < CONTRACTED)
        smaller = jnp.where(agrees, 0.0, CONTRACTION * pace.contraction)
        judged = jnp.arange(len(pace.history)) >= JUDGED
        history = jnp.where(agrees & judged, step.loss, jnp.inf)
        # A step that no damping made short enough has not seen this radius yet.
        after = pace._replace(contraction=smaller, history=history)
        return jax.tree.map(lambda a, b: jnp.where(step.admissible, a, b), after, pace)

    def _descending(self, pace: Pace, step: Step, first: Array) -> Pace:
        del first
        return pace._replace(history=with_merit(pace.history, step.loss))

    def explored(self, history: Array) -> Array:
        """Whether the last steps together lowered the model loss too little to go on."""
        return jnp.isfinite(history[0]) & (history[-1] > (1 - self.decrease) * history[0])


def _longest(candidates: Candidates, rows_after: RowsAfter, contracting: Array) -> Selection:
    """The smallest damping whose step is admissible, whatever its loss.

    While the trust region contracts the largest damping will do where none is: waiting for it to
    grow would cost a factorisation.
    """
    index, exists = smallest_damping_of(candidates.admissible)
    step = candidates.directions[index]
    loss = jnp.sum(rows_after(step[None]) ** 2)
    return Selection(step, index, loss, (exists | contracting) & jnp.isfinite(loss))


def _lowest(candidates: Candidates, rows_after: RowsAfter) -> Selection:
    """The step with the lowest loss, if that is below the present one."""
    losses = jnp.sum(rows_after(candidates.directions) ** 2, axis=1)
    losses = jnp.where(jnp.isfinite(losses) & candidates.admissible, losses, jnp.inf)
    index = jnp.argmin(losses)
    lowest = losses[index]
    return Selection(candidates.directions[index], index, lowest, lowest < candidates.loss)
