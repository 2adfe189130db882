"""A line search for the strong Wolfe conditions, one evaluation at a time.

Algorithms 3.5 and 3.6 of Nocedal and Wright. A search is a value here and not a loop: the caller
evaluates the loss at `length` along `direction`, and `told` the outcome the search says where to
look next, or that it is over. Members of a batch that are mapped over then evaluate at once what
each of them needs next. With a loop for every search all of them would wait for the longest one,
and optax's (0.2) evaluates in both branches of a condition, which mapping turns into two
evaluations a step.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

SUFFICIENT_DECREASE = 1e-4  # c1 and c2 as Nocedal and Wright have them for quasi-Newton directions
CURVATURE = 0.9
MOST_EVALUATIONS = 25
EXPANSION = 10.0  # of a step, at most
MARGIN = 0.1  # of a bracket: so far from its ends the next step lies


class Trial(NamedTuple):
    """A point on the line: the loss there, and its derivative along the direction."""

    length: Float[Array, ""]
    loss: Float[Array, ""]
    slope: Float[Array, ""]


class Search(NamedTuple):
    """Where a search stands: `low` is the best trial that decreases the loss enough.

    Until a minimum is bracketed, `high` is the trial before the last one; then it is the bracket's
    other end. `gradient` is that of `low`, and `length` what is to be evaluated next.
    """

    direction: Float[Array, " p"]
    start: Trial
    low: Trial
    gradient: Float[Array, " p"]
    high: Trial
    length: Float[Array, ""]
    bracketed: Bool[Array, ""]
    over: Bool[Array, ""]
    evaluations: Int[Array, ""]


def begin(
    loss: Float[Array, ""], gradient: Float[Array, " p"], direction: Float[Array, " p"]
) -> Search:
    """A search from a point with this loss and gradient; the direction's own length comes first."""
    start = Trial(jnp.zeros_like(loss), loss, direction @ gradient)
    false, count = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    return Search(
        direction, start, start, gradient, start, jnp.ones_like(loss), false, false, count
    )


def told(search: Search, loss: Float[Array, ""], gradient: Float[Array, " p"]) -> Search:
    """The search after the loss and its gradient at `length` are known."""
    start, low = search.start, search.low
    trial = Trial(search.length, loss, search.direction @ gradient)
    usable = jnp.isfinite(loss) & jnp.isfinite(trial.slope)
    trial = trial._replace(loss=jnp.where(usable, loss, jnp.inf))
    target = start.loss + SUFFICIENT_DECREASE * trial.length * start.slope
    # Beside the start alone the loss need not fall below that of the last trial.
    lowers = (trial.loss <= target) & ((trial.loss < low.loss) | (low.length == 0))
    flat = jnp.abs(trial.slope) <= CURVATURE * jnp.abs(start.slope)
    # Downhill from the trial to the end that it would be bracketed with: that end goes.
    outwards = jnp.where(search.bracketed, search.high.length - low.length, 1.0)
    turned = trial.slope * outwards >= 0
    new_low = _choose(lowers, trial, low)
    new_high = _choose(~lowers, trial, _choose(turned | ~search.bracketed, low, search.high))
    bracketed = search.bracketed | ~lowers | turned
    between = _inside(new_low, new_high)
    beyond = _beyond(new_low, new_high)
    width = jnp.abs(new_high.length - new_low.length)
    # What lies between the ends is below the rounding of the loss.
    rounding = jnp.finfo(loss.dtype).eps * jnp.abs(start.loss)
    exhausted = bracketed & (width * jnp.abs(start.slope) <= rounding)
    evaluations = search.evaluations + 1
    return search._replace(
        low=new_low,
        gradient=jnp.where(lowers, gradient, search.gradient),
        high=new_high,
        length=jnp.where(bracketed, between, beyond),
        bracketed=bracketed,
        over=(lowers & flat) | exhausted | (evaluations >= MOST_EVALUATIONS),
        evaluations=evaluations,
    )


def _choose(condition: Bool[Array, ""], yes: Trial, no: Trial) -> Trial:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _inside(low: Trial, high: Trial) -> Float[Array, ""]:
    """The minimiser of the cubic through a bracket's ends, away from them; else the middle."""
    width = high.length - low.length
    share = (_cubic(low, high) - low.length) / jnp.where(width == 0, 1.0, width)
    share = jnp.where(jnp.isfinite(share), jnp.clip(share, MARGIN, 1 - MARGIN), 0.5)
    return low.length + share * width


def _beyond(last: Trial, before: Trial) -> Float[Array, ""]:
    """A longer step, by the cubic through the last two trials."""
    length = _cubic(before, last)
    longest = EXPANSION * last.length
    length = jnp.where(jnp.isfinite(length) & (length > last.length), length, longest)
    return jnp.clip(length, 1.1 * last.length, longest)


def _cubic(a: Trial, b: Trial) -> Float[Array, ""]:
    """Where the cubic with these values and slopes has its minimum (ibid., equation 3.59).

    Not finite where it has none, or where a value is not.
    """
    width = b.length - a.length
    first = a.slope + b.slope - 3 * (b.loss - a.loss) / width
    second = jnp.sign(width) * jnp.sqrt(first**2 - a.slope * b.slope)
    return b.length - width * (b.slope + second - first) / (b.slope - a.slope + 2 * second)
