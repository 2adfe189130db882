"""What every optimiser looks like to the trainer.

A phase of a protocol is a plain value (`Adam(steps=50_000)`). `build(setup)` turns it into a
`Stage`: pure functions over a state that is a pytree of arrays, so that the trainer can show,
checkpoint and resume any optimiser without knowing which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.batch import Batch, Sampling, draw, fixed
from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import Params
from lcpinn.rows import Problem
from lcpinn.weighting.contract import Weighting

State = dict[str, Any]  # holds at least "params" and "step"
Info = dict[str, Any]  # numbers to show and to log: "loss", "terms", ...


@dataclass(frozen=True, eq=False)
class Setup:
    """What is optimised: rows of a problem, how they are weighted, and where they lie.

    `sampling` draws random batches, `quadrature` is the frozen rule of a deterministic optimiser
    and `held_out` one that no optimiser sees, for comparisons.
    """

    problem: Problem
    weighting: Weighting
    sampling: Sampling | None
    quadrature: Sampling
    held_out: Sampling
    coefficients: Array | None = None  # held at these values, which may be traced
    programs: dict[str, Any] = field(default_factory=dict)  # compiled, shared with replacements

    def draw(self, key: Array) -> Batch:
        """The batch of a stochastic step (traceable): random, or one rule's fixed points."""
        if self.sampling is None:
            raise LcpinnError("this protocol has no sampling to draw random batches from")
        if self.sampling.rule != "random":
            return self.fixed(self.sampling)
        return self._held(draw(self.problem.family, self.sampling, key, self.problem.dtype))

    def fixed(self, sampling: Sampling) -> Batch:
        """The points of a fixed rule."""
        return self._held(fixed(self.problem.family, sampling, self.problem.dtype))

    def _held(self, batch: Batch) -> Batch:
        if self.coefficients is None:
            return batch
        return {
            where: points._replace(
                parameters=jnp.broadcast_to(self.coefficients, points.parameters.shape)
            )
            for where, points in batch.items()
        }


class Stage(NamedTuple):
    """A phase, ready to run."""

    total: int  # steps at most, for the progress bar
    init: Callable[[Params, Array], State]
    advance: Callable[[State], tuple[State, Info]]  # one compiled call of many steps
    stopped: Callable[[State, Info], str | None]  # why it is over, or None to go on
    finish: Callable[[State], tuple[Params, str]]  # the result, and a note for the log
    # What `advance` compiles, where that is all it does but check: pure, so that many runs can
    # be one program (retrain.py). None where decisions are taken between compiled calls.
    run: Callable[[State], tuple[State, Info]] | None = None


class Phase(Protocol):
    def build(self, setup: Setup) -> Stage: ...


def keep(state: State) -> tuple[Params, str]:
    """The ordinary ending: the last parameters, with nothing to add."""
    return state["params"], ""


def objective(setup: Setup, batch: Batch) -> Callable[[Params], tuple[Array, dict[str, Array]]]:
    """The loss on a fixed batch, with each term's part of it."""
    problem, weighting = setup.problem, setup.weighting
    state = weighting.init(problem.family, batch, jax.random.PRNGKey(0))

    def value(params: Params) -> tuple[Array, dict[str, Array]]:
        residuals = problem.residuals(params, batch)
        weights, _ = weighting.weigh(state, problem.family, batch, jax.lax.stop_gradient(residuals))
        terms = problem.term_losses(residuals, weights, batch)
        return sum(terms.values()), terms  # pyright: ignore[reportReturnType]

    return value


def held_out_loss(setup: Setup) -> Callable[[Params], float]:
    """The training objective on points and lambdas that no optimiser has seen."""

    @jax.jit
    def value(params: Params, coefficients: Array | None) -> Array:
        held = replace(setup, coefficients=coefficients)
        return objective(held, held.fixed(setup.held_out))(params)[0]

    # Compiled once for all members of a batch: where their coefficients are held is an argument.
    program = setup.programs.setdefault("held out", value)
    return lambda params: float(program(params, setup.coefficients))
