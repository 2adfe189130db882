"""What every rule of acceptance looks like to a step, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lcpinn.optimiser.damping import Candidates

CORRECTED = 3  # candidates that get a second-order correction

# From steps (k, p) to the rows after each, (k, n).
RowsAfter = Callable[[Array], Array]


class Selection(NamedTuple):
    """The step to take, which candidate it came from, its loss, and whether to take it at all."""

    step: Float[Array, " p"]
    candidate: Array  # its index
    loss: Array
    accepted: Bool[Array, ""]


class Step(NamedTuple):
    """Where a step leads, the damping it was taken with, its loss and its model loss |r + J p|².

    `admissible` says whether it lies within the trust region.
    """

    theta: Float[Array, " p"]
    damping: Array
    loss: Array
    model_loss: Array
    admissible: Bool[Array, ""]


class Pace(NamedTuple):
    """How far steps may go, and what they have come to.

    `radius` is that of the trust region, relative to |theta|, and `contraction` a factor of it: one
    while a round explores, less and less while it contracts, zero once it descends by the loss.
    `history` has the lowest merit up to each of the last steps: the loss, or the model loss while a
    round explores.
    """

    radius: Array
    contraction: Array
    history: Array

    @property
    def exploring(self) -> Bool[Array, ""]:
        return self.contraction == 1

    @property
    def next_radius(self) -> Array:
        """The radius of the next step."""
        return self.radius * jnp.where(self.contraction > 0, self.contraction, 1.0)

    def restarted(self, contraction: float) -> Pace:
        """The part of a round that has this contraction begins; nothing is known of its merit."""
        return self._replace(
            contraction=jnp.full_like(self.contraction, contraction),
            history=jnp.full_like(self.history, jnp.inf),
        )


class Acceptance(Protocol):
    """A rule that selects one of the candidates; `monotone` if it never lets the loss rise.

    A rule that `explores` begins every round with a part in which not the loss but the model loss
    |r + J p|² is watched, and then contracts the trust region. With fewer than `descent` steps left
    exploring ends, with the pace `contracted`. `paced` is the pace after a step; `first` is the
    loss of the first one.
    """

    @property
    def monotone(self) -> bool: ...

    @property
    def explores(self) -> bool: ...

    @property
    def descent(self) -> int: ...

    def select(
        self, candidates: Candidates, rows_after: RowsAfter, contraction: Array
    ) -> Selection: ...

    def paced(self, pace: Pace, step: Step, first: Array) -> Pace: ...

    def contracted(self, pace: Pace) -> Pace: ...


class ByLoss(ABC):
    """Rules that watch the loss throughout, and differ in which losses are acceptable."""

    corrections: int
    explores = False
    descent = 0

    @abstractmethod
    def acceptable(
        self, losses: Array, loss: Array, predicted: Array, admissible: Array | bool = True
    ) -> Bool[Array, " d"]:
        """Of the losses after each candidate, beside the present one and the predicted decrease."""

    def select(
        self, candidates: Candidates, rows_after: RowsAfter, contraction: Array
    ) -> Selection:
        del contraction
        acceptable = lambda losses: self.acceptable(
            losses, candidates.loss, candidates.predicted, candidates.admissible
        )
        return by_loss(candidates, rows_after, acceptable, self.corrections)

    def paced(self, pace: Pace, step: Step, first: Array) -> Pace:
        del first
        return pace._replace(history=with_merit(pace.history, step.loss))

    def contracted(self, pace: Pace) -> Pace:
        return pace  # these never explore


def with_merit(history: Array, merit: Array) -> Array:
    """The history of merits with one more."""
    return jnp.append(history[1:], jnp.minimum(history[-1], merit))


def gains(
    losses: Float[Array, " d"], loss: Array, predicted: Float[Array, " d"], threshold: float
) -> Bool[Array, " d"]:
    """Whose gain ratio, the actual decrease of the loss over the predicted one, is large enough."""
    ratio = (loss - losses) / predicted
    return jnp.isfinite(ratio) & (predicted > 0) & (ratio >= threshold) & (losses < loss)


def smallest_damping_of(acceptable: Bool[Array, " d"]) -> tuple[Array, Array]:
    """The smallest damping with all larger ones acceptable: its index, and whether there is one.

    Dampings run from small to large. One that is acceptable beyond one that is not is luck.
    """
    count = jnp.cumprod(acceptable[::-1].astype(jnp.int32)).sum()
    return jnp.clip(len(acceptable) - count, 0, len(acceptable) - 1), count > 0


def by_loss(
    candidates: Candidates,
    rows_after: RowsAfter,
    acceptable: Callable[[Array], Array],
    corrections: int,
) -> Selection:
    """The smallest damping whose loss is acceptable, with second-order corrections about it."""
    directions, rows = candidates.directions, rows_after(candidates.directions)
    losses = jnp.sum(rows**2, axis=1)
    index, accepted = smallest_damping_of(acceptable(losses))
    if corrections:
        # Only the step that would be taken and those just longer: they are what may change.
        num = min(CORRECTED, len(losses))
        part = jnp.clip(index - num + 1, 0, len(losses) - num) + jnp.arange(num)
        steps, lower = second_order_correction(
            rows_after,
            lambda others: candidates.solve(others, candidates.dampings[part]),
            directions[part],
            rows[part],
            candidates.model_rows,
            corrections,
        )
        directions, losses = directions.at[part].set(steps), losses.at[part].set(lower)
        index, accepted = smallest_damping_of(acceptable(losses))
    return Selection(directions[index], index, losses[index], accepted)


def second_order_correction(
    rows_after: RowsAfter,
    solve: Callable[[Array], Array],
    first_order: Float[Array, "k p"],
    rows: Float[Array, "k n"],
    model_rows: Callable[[Array], Array],
    num: int,
) -> tuple[Float[Array, "k p"], Float[Array, " k"]]:
    """Correct steps for the curvature of the rows `num` times; the best of each, and its loss.

    A first-order step ignores that rows(theta + p) = r + J p + e(p). With the same factorisation
    p <- -(J'J + m I)^-1 J'(r + e(p)) follows them. The first time that is geodesic acceleration
    (Transtrum and Sethna 2012), with e from the rows that the loss needs anyway. It costs little
    beside a factorisation, and steps go much further.
    """

    def improve(_: int, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        steps, rows, best, least = carry
        steps = first_order + solve(rows - model_rows(steps))
        rows = rows_after(steps)
        losses = jnp.sum(rows**2, axis=1)
        better = losses < least
        best = jnp.where(better[:, None], steps, best)
        return steps, rows, best, jnp.where(better, losses, least)

    start = (first_order, rows, first_order, jnp.sum(rows**2, axis=1))
    _, _, best, least = jax.lax.fori_loop(0, num, improve, start)
    return best, least
