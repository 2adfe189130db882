"""L-BFGS on a frozen quadrature: the paper's finish."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Info, Setup, Stage, State, keep, objective
from lcpinn.spec import spec


@spec
class LBFGS:
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
        value = jax.jit(objective(setup, batch))
        search = optax.scale_by_zoom_linesearch(max_linesearch_steps=25)
        optimiser = optax.lbfgs(memory_size=self.memory, linesearch=search)

        def loss(params: Params) -> Array:
            return value(params)[0]

        def init(params: Params, key: Array) -> State:
            del key  # nothing here is random
            # Optax starts with weakly typed scalars; left so, the second call would compile again.
            memory = optimiser.init(params)
            strong = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), memory)
            at, gradient = jax.value_and_grad(loss)(params)
            return {
                "params": params,
                "memory": strong,
                "step": jnp.zeros((), jnp.int32),
                "stalled": jnp.zeros((), jnp.int32),
                "loss": at,
                "gradient": optax.tree.norm(gradient),
            }

        def step(state: State) -> State:
            params = state["params"]
            at: Any
            at, gradient = optax.value_and_grad_from_state(loss)(params, state=state["memory"])
            updates, memory = optimiser.update(
                gradient, state["memory"], params, value=at, grad=gradient, value_fn=loss
            )
            params = optax.apply_updates(params, updates)
            after: Any = optax.tree.get(memory, "value")
            gained = at - after > jnp.finfo(at.dtype).eps * jnp.abs(at)
            return {
                "params": params,
                "memory": memory,
                "step": state["step"] + 1,
                "stalled": jnp.where(gained, 0, state["stalled"] + 1),
                "loss": after,
                "gradient": optax.tree.norm(optax.tree.get(memory, "grad")),
            }

        def run(state: State) -> tuple[State, Info]:
            end = jnp.minimum(state["step"] + self.block, self.steps)

            def going(s: State) -> Array:
                return (s["step"] < end) & jnp.isfinite(s["loss"]) & ~self._over(s)

            state = jax.lax.while_loop(going, step, state)
            return state, {"loss": state["loss"], "terms": value(state["params"])[1]}

        compiled = jax.jit(run)

        def advance(state: State) -> tuple[State, Info]:
            state, info = compiled(state)
            if not np.isfinite(float(state["loss"])):
                raise LcpinnError(setup.problem.blame(state["params"], batch))
            return state, info

        return Stage(self.steps, jax.jit(init), advance, self._stopped, keep, run)

    def _over(self, state: State) -> Array:
        flat = state["gradient"] <= self.gradient_tolerance
        return flat | (state["stalled"] >= self.patience)

    def _stopped(self, state: State, info: Info) -> str | None:
        step = int(state["step"])
        if float(state["gradient"]) <= self.gradient_tolerance:
            return f"gradient {float(state['gradient']):.1e} within tolerance after {step} steps"
        if int(state["stalled"]) >= self.patience:
            precision = np.asarray(state["loss"]).dtype
            return f"no decrease left in {precision} after {step} steps"
        return f"{self.steps} steps done" if step >= self.steps else None
