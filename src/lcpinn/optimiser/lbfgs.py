"""L-BFGS on a frozen quadrature: the paper's finish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.lazy import optax
from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, StopReason, keep, objective
from lcpinn.spec import spec


class LBFGSState(NamedTuple):
    """Where a run stands; `stalled` counts steps that gained nothing."""

    params: Params
    memory: Any
    step: Array
    stalled: Array
    loss: Array
    gradient: Array  # its norm


@spec
class LBFGS(Phase):
    """Liu and Nocedal (1989) with a zoom line search (Nocedal and Wright, algorithm 3.6).

    It needs a deterministic objective, so points and lambdas are frozen. It stops when the gradient
    or the decrease vanishes in the working precision, and says which.
    """

    steps: int = 1_500
    memory: int = 20
    gradient_tolerance: float = 0.0
    patience: int = 10
    block: int = 50

    def build(self, setup: Setup) -> Stage:
        batch = setup.fixed(setup.quadrature)
        value = setup.jit(objective(setup, batch))
        search = optax.scale_by_zoom_linesearch(max_linesearch_steps=25)
        optimiser = optax.lbfgs(memory_size=self.memory, linesearch=search)

        def loss(params: Params) -> Array:
            return value(params)[0]

        def init(params: Params, key: Array) -> LBFGSState:
            del key  # nothing here is random
            # Optax starts with weakly typed scalars; left so, the second call would compile again.
            memory = optimiser.init(params)
            strong = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), memory)
            at, gradient = jax.value_and_grad(loss)(params)
            return LBFGSState(
                params=params,
                memory=strong,
                step=jnp.zeros((), jnp.int32),
                stalled=jnp.zeros((), jnp.int32),
                loss=at,
                gradient=optax.tree.norm(gradient),
            )

        def step(state: LBFGSState) -> LBFGSState:
            params = state.params
            at: Any
            at, gradient = optax.value_and_grad_from_state(loss)(params, state=state.memory)
            updates, memory = optimiser.update(
                gradient, state.memory, params, value=at, grad=gradient, value_fn=loss
            )
            params = optax.apply_updates(params, updates)
            after: Any = optax.tree.get(memory, "value")
            gained = at - after > jnp.finfo(at.dtype).eps * jnp.abs(at)
            return LBFGSState(
                params=params,  # pyright: ignore[reportArgumentType]
                memory=memory,
                step=state.step + 1,
                stalled=jnp.where(gained, 0, state.stalled + 1),
                loss=after,
                gradient=optax.tree.norm(optax.tree.get(memory, "grad")),
            )

        def run(state: LBFGSState) -> tuple[LBFGSState, Info]:
            end = jnp.minimum(state.step + self.block, self.steps)

            def going(s: LBFGSState) -> Array:
                return (s.step < end) & _is_finite(s) & ~self._over(s)

            state = jax.lax.while_loop(going, step, state)
            return state, {"loss": state.loss, "terms": value(state.params)[1]}

        compiled = setup.jit(run)

        def advance(state: LBFGSState) -> tuple[LBFGSState, Info]:
            state, info = compiled(state)
            if not bool(_is_finite(state)):
                raise LcpinnError(diagnose(state))
            return state, info

        def diagnose(state: LBFGSState) -> str:
            return setup.problem.describe_nonfinite(state.params, batch)

        return Stage(self.steps, setup.jit(init), advance, self._stopped, keep, run, diagnose)

    def _over(self, state: LBFGSState) -> Array:
        flat = state.gradient <= self.gradient_tolerance
        return flat | (state.stalled >= self.patience)

    def _stopped(self, state: LBFGSState, info: Info) -> Stop | None:
        step, gradient = int(state.step), float(state.gradient)
        if not bool(_is_finite(state)):
            return None  # which `advance` reports
        if gradient <= self.gradient_tolerance:
            text = f"gradient {gradient:.1e} within tolerance after {step} steps"
            return Stop(StopReason.GRADIENT, text)
        if int(state.stalled) >= self.patience:
            text = f"no decrease left in {np.asarray(state.loss).dtype} after {step} steps"
            return Stop(StopReason.PRECISION, text)
        if step >= self.steps:
            return Stop(StopReason.STEPS, f"{self.steps} steps done")
        return None

    @property
    def mappable(self) -> bool:
        return True

    def shrunk(self) -> LBFGS:
        return replace(self, steps=4, block=4)

    def scaled(self, share: float) -> LBFGS:
        steps = max(1, round(share * self.steps))
        return replace(self, steps=steps, block=min(self.block, steps))


def _is_finite(state: LBFGSState) -> Array:
    """Whether a further step can be taken: one along a NaN would end in the parameters."""
    return jnp.isfinite(state.loss) & jnp.isfinite(state.gradient)
