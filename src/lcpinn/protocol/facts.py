"""What a protocol is for a family, read off its values: for comparing methods on equal terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from lcpinn.batch import Sampling
from lcpinn.family import Family
from lcpinn.optimiser import GaussNewton
from lcpinn.precision import precision_of
from lcpinn.protocol.value import Protocol
from lcpinn.rows import Problem
from lcpinn.spec import describe, short


def facts(family: Family, protocol: Protocol) -> dict[str, Any]:
    """Network, points of a step, budget, precision and weighting, as plain JSON."""
    return {
        "protocol": protocol.name,
        "at": dict(protocol.at),
        "network": network_words(protocol.network),
        "parameters": num_params(family, protocol),
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


def network_words(network: Any) -> str:
    """`4x64 tanh`, or the names of the parts with their widths."""
    values = {f.name: getattr(network, f.name) for f in dataclasses.fields(network)}
    kind, activation = type(network).__name__, values.get("activation", "")
    if "widths" in values:
        return f"{_layers(values['widths'])} {activation}"
    parts = [f"{n} {_layers(v)}" for n, v in values.items() if isinstance(v, tuple)]
    parts += [f"{n} {v}" for n, v in values.items() if isinstance(v, int)]
    return " ".join([kind, ", ".join(parts), activation]).strip()


def _layers(widths: tuple[int, ...]) -> str:
    """(64, 64, 64) as 3x64."""
    same = len(set(widths)) == 1
    return f"{len(widths)}x{widths[0]}" if same else "-".join(map(str, widths))


def unwrapped(phase: Any) -> Any:
    """The optimiser inside of RevertOnWorse and Restarts."""
    while hasattr(phase, "phase"):
        phase = phase.phase
    return phase


def points(protocol: Protocol) -> dict[str, Any] | None:
    """Interior and face points for each lambda of a step; None where a step has no residuals."""
    first = unwrapped(protocol.phases[0])
    sampling: Sampling | None = first.rows if isinstance(first, GaussNewton) else protocol.sampling
    if sampling is None:
        return None
    found = {"interior": sampling.interior, "faces": sampling.face, "lambdas": sampling.num_lambda}
    if sampling.rule == "collocation":
        del found["lambdas"]  # every row has its own
    return found | {"rule": sampling.rule} | ({"grid": sampling.grid} if sampling.grid else {})


def budget(protocol: Protocol) -> dict[str, float]:
    """How long each phase runs: optimiser -> steps, epochs, or seconds where those end it."""
    found: dict[str, float] = {}
    for phase in map(unwrapped, protocol.phases):
        units = ("seconds", "epochs", "steps")
        unit = next(u for u in units if getattr(phase, u, None) is not None)
        found[f"{type(phase).__name__} {unit}"] = getattr(phase, unit)
    return found


def weighting_words(weighting: Any) -> str:
    """`Fixed: boundary 100`, or the weighting with what differs from its defaults."""
    weights: Mapping[str, float] = getattr(weighting, "weights", {})
    if weights:
        weighting = dataclasses.replace(weighting, weights={})
    words = describe(weighting).replace("weights={}", "").removesuffix("()")
    factors = ", ".join(f"{name} {short(value)}" for name, value in weights.items())
    return f"{words}: {factors}" if factors else words
