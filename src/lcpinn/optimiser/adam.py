"""Adam with a cosine schedule and gradient clipping, on a batch of its own at every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.lazy import optax
from lcpinn.network.mlp import Params
from lcpinn.nonfinite import describe_nonfinite
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, StopReason, keep
from lcpinn.sampling import Batch
from lcpinn.spec import spec


class AdamState(NamedTuple):
    """Where a run stands; `weighting` is the weighting's own state."""

    params: Params
    moments: Any
    weighting: Any
    key: Array
    step: Array


@spec
class Adam(Phase):
    """Kingma and Ba (2015); learning rate `rate` falling to `final_rate` along a cosine.

    `block` steps run in one compiled call: the host is asked for nothing in between.
    """

    steps: int = 50_000
    rate: float = 1e-3
    final_rate: float = 1e-5
    clip: float = 1.0
    block: int = 250

    def transformation(self) -> optax.GradientTransformation:
        schedule = optax.cosine_decay_schedule(self.rate, self.steps, self.final_rate / self.rate)
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adam(schedule))

    def build(self, setup: Setup) -> Stage:
        family = setup.problem.family
        optimiser = self.transformation()

        def init(params: Params, key: Array) -> AdamState:
            batch = setup.draw(key)
            return AdamState(
                params=params,
                moments=optimiser.init(params),
                weighting=setup.weighting.init(family, batch, step_key(key, self.steps)),
                key=key,
                step=jnp.zeros((), jnp.int32),
            )

        def run(state: AdamState) -> tuple[AdamState, Info]:
            # Always a whole block, of which steps beyond the last change nothing: one program.
            body = partial(adam_step, setup, optimiser, self.steps)
            last = jnp.minimum(self.steps - state.step, self.block) - 1
            state, history = jax.lax.scan(lambda s, _: body(s), state, None, self.block)
            loss, terms = jax.tree.map(lambda values: values[last], history)
            return state, {"loss": loss, "terms": terms}

        compiled = setup.jit(run)

        def advance(state: AdamState) -> tuple[AdamState, Info]:
            end = min(int(state.step) + self.block, self.steps)
            state, info = compiled(state)
            if int(state.step) != end:  # frozen by a value that is not finite
                raise LcpinnError(diagnose(state))
            return state, info

        def stopped(state: AdamState, info: Info) -> Stop | None:
            done = int(state.step) >= self.steps
            return Stop(StopReason.STEPS, f"{self.steps} steps done") if done else None

        def diagnose(state: AdamState) -> str:
            batch = setup.draw(step_key(state.key, state.step))
            return describe_nonfinite(setup.problem, state.params, batch)

        def upcoming(state: AdamState) -> Iterator[Batch]:
            for step in range(int(state.step), min(int(state.step) + self.block, self.steps)):
                yield setup.draw(step_key(state.key, step))

        functions = (setup.jit(init), advance, stopped, keep, run, diagnose, upcoming)
        return Stage(self.steps, *functions, learnt=lambda state: state.weighting)

    @property
    def mappable(self) -> bool:
        return True

    def shrunk(self) -> Adam:
        return replace(self, steps=40, block=20)

    def scaled(self, share: float) -> Adam:
        steps = max(1, round(share * self.steps))
        return replace(self, steps=steps, block=min(self.block, steps))


def step_key(key: Array, step: Array | int) -> Array:
    """Every step's own randomness: it depends on the step's number, not on what ran before."""
    return jax.random.fold_in(key, step)


def adam_step(
    setup: Setup, optimiser: optax.GradientTransformation, last: int, state: AdamState
) -> tuple[AdamState, tuple[Array, dict[str, Array]]]:
    """One step. If the loss or gradient is not finite the state stays as it was, for diagnosis."""
    problem = setup.problem
    batch = setup.draw(step_key(state.key, state.step))

    def loss(params: Params):
        residuals = problem.residuals(params, batch)
        weights, memory = setup.weighting.weigh(
            state.weighting, problem.family, batch, jax.lax.stop_gradient(residuals)
        )
        terms = problem.term_losses(residuals, weights, batch)
        return sum(terms.values()), (terms, memory)

    (value, (terms, memory)), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
    updates, moments = optimiser.update(gradient, state.moments, state.params)
    after = AdamState(
        params=optax.apply_updates(state.params, updates),  # pyright: ignore[reportArgumentType]
        moments=moments,
        weighting=memory,
        key=state.key,
        step=state.step + 1,
    )
    healthy = jnp.isfinite(value) & jnp.isfinite(optax.tree.norm(gradient))
    healthy &= state.step < last
    return jax.tree.map(lambda new, old: jnp.where(healthy, new, old), after, state), (value, terms)
