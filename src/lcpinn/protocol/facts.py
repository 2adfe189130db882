"""What a protocol is for a family, read off its values: for comparing methods on equal terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from lcpinn.family import Family
from lcpinn.precision import precision_of
from lcpinn.protocol.value import Protocol
from lcpinn.rows import Problem
from lcpinn.spec import describe, short
from lcpinn.weighting.contract import Weighting


def facts(family: Family, protocol: Protocol) -> dict[str, Any]:
    """Network, points of a step, budget, precision and weighting, as plain JSON."""
    return {
        "protocol": protocol.name,
        "at": dict(protocol.at),
        "network": protocol.network.words(),
        "parameters": None if protocol.network.shapes_vary else num_params(family, protocol),
        "points": points(protocol),
        "budget": budget(protocol),
        "precision": protocol.dtype,
        "weighting": weighting_words(protocol.weighting),
        "plain": protocol.plain,
    }


def num_params(family: Family, protocol: Protocol) -> int:
    """How many numbers the network has; nothing is computed for it."""
    dtype = jnp.dtype(protocol.dtype)
    with precision_of(dtype):
        problem = Problem(protocol.view(family), protocol.network, dtype)
        shapes = jax.eval_shape(problem.init, jax.random.PRNGKey(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def points(protocol: Protocol) -> dict[str, Any] | None:
    """Interior and face points for each lambda of a step; None where a step has no residuals."""
    sampling = protocol.phases[0].points(protocol.sampling)
    if sampling is None:
        return None
    counts = {"interior": sampling.interior, "faces": sampling.face, "lambdas": sampling.num_lambda}
    if sampling.rule == "collocation":
        del counts["lambdas"]  # every row has its own
    return counts | {"rule": sampling.rule} | ({"grid": sampling.grid} if sampling.grid else {})


def budget(protocol: Protocol) -> dict[str, float]:
    """How long each phase runs: optimiser -> steps, epochs, or seconds where those end it."""
    amounts: dict[str, float] = {}
    for phase in protocol.phases:
        unit, amount = phase.budget()
        amounts[f"{type(phase.innermost).__name__} {unit}"] = amount
    return amounts


def weighting_words(weighting: Weighting) -> str:
    """`Fixed: boundary 100`, or the weighting with what differs from its defaults."""
    weights: Mapping[str, float] = getattr(weighting, "weights", {})
    if weights:
        weighting = dataclasses.replace(weighting, weights={})
    words = describe(weighting).replace("weights={}", "").removesuffix("()")
    factors = ", ".join(f"{name} {short(value)}" for name, value in weights.items())
    return f"{words}: {factors}" if factors else words
