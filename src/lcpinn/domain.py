"""The domain of a family: its shape, bound to the prior that the shape's sizes depend on."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lcpinn.errors import LcpinnError
from lcpinn.precision import floating
from lcpinn.prior import Coefficients
from lcpinn.shape import Box, Face, Part, Periodic, Region, Shape

__all__ = ["Box", "Domain", "Face", "Part", "Periodic", "Region", "bind", "redraw"]

Domain = Box | Region


def bind(shape: Shape, prior: Coefficients, labels: tuple[tuple[str, Shape], ...] = ()) -> Domain:
    """The domain of a family: a box of numbers as it is, another shape with its prior, checked."""
    if isinstance(shape, Box) and not shape.parameters:
        return shape
    return Region.of(shape, prior, labels)


def redraw(
    key: Array, candidates: Float[Array, "n ..."], scores: Float[Array, " scores"], num: int
) -> Int[Array, " num"]:
    """Indices of num candidates, drawn without replacement where the residual is large.

    Candidate i has probability proportional to s_i + mean(s), its score s_i >= 0 plus a floor
    that keeps every region seen (Wu et al. 2023, RAD with k = c = 1). The largest num of
    log p_i + Gumbel noise are such a draw, and have a fixed shape under jit.
    """
    if len(candidates) != len(scores):
        raise LcpinnError(f"there are {len(candidates)} candidates but {len(scores)} scores")
    if num > len(candidates):
        raise LcpinnError(f"cannot redraw {num} of {len(candidates)} candidates")
    scores = floating(scores)
    # The least positive float keeps all-zero scores a uniform draw instead of a row of -inf.
    chance = scores + jnp.mean(scores) + jnp.finfo(scores.dtype).tiny
    noise = jax.random.gumbel(key, scores.shape, scores.dtype)
    return jax.lax.top_k(jnp.log(chance) + noise, num)[1]
