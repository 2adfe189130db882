"""Several starts, judged by rows that none of them has seen; the best one goes on."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Info, Setup, Stage, State
from lcpinn.spec import spec


@spec
class Restarts:
    """Runs another phase for `trial` steps from each of `starts` initialisations.

    The one with the lowest held-out loss is run to its end. One start in four of a small network
    can be far worse than the others, and says so early. All starts share one compiled program.
    """

    phase: Any
    starts: int = 2
    trial: int = 30

    def build(self, setup: Setup) -> Stage:
        inner: Stage = self.phase.build(setup)
        draw = jax.jit(setup.problem.init)

        def begin(params: Params, key: Array, start: int) -> State:
            """The given parameters are the first start; the others are drawn."""
            own = jax.random.fold_in(key, start)
            return inner.init(params if start == 0 else draw(own), own)

        def init(params: Params, key: Array) -> State:
            first = begin(params, key, 0)
            return {
                "params": params,
                "key": key,
                "now": first,
                "best": first,
                "best_loss": jnp.asarray(np.inf, setup.problem.dtype),
                "start": jnp.zeros((), jnp.int32),
                "step": jnp.zeros((), jnp.int32),
            }

        def advance(state: State) -> tuple[State, Info]:
            before = int(state["now"]["step"])
            now, info = inner.advance(state["now"])
            done = int(now["step"]) - before
            state = {**state, "now": now, "step": state["step"] + done}
            trying = int(state["start"]) < self.starts
            if trying and (int(now["step"]) >= self.trial or inner.stopped(now, info)):
                state = self._judge(state, info, lambda i: begin(state["params"], state["key"], i))
            return state, {**info, "start": jnp.minimum(state["start"] + 1, self.starts)}

        def stopped(state: State, info: Info) -> str | None:
            # While starts are tried only the clock may end it: a start that settles is judged.
            reason = inner.stopped(state["now"], info)
            trying = int(state["start"]) < self.starts
            if reason and trying and float(info.get("seconds_left", 1.0)) > 0:
                return None
            return reason and f"{reason} of the last start, {int(state['step'])} in all"

        def finish(state: State) -> tuple[Params, str]:
            params, note = inner.finish(self._winner(state))
            return params, f"{note}, best of {min(int(state['start']), self.starts) or 1} starts"

        total = inner.total + (self.starts - 1) * self.trial
        return Stage(total, init, advance, stopped, finish)

    def _judge(self, state: State, info: Info, begin: Any) -> State:
        """A trial is over: remember the better one, and begin the next or go on with the best."""
        loss = jnp.asarray(info["validation"])
        better = bool(loss < state["best_loss"]) or not np.isfinite(float(state["best_loss"]))
        best = state["now"] if better else state["best"]
        following = int(state["start"]) + 1
        return {
            **state,
            "best": best,
            "best_loss": jnp.minimum(loss, state["best_loss"]),
            "start": jnp.asarray(following, jnp.int32),
            "now": begin(following) if following < self.starts else best,
        }

    def _winner(self, state: State) -> State:
        """What runs now, unless the time ended in the middle of a trial that is behind."""
        if int(state["start"]) == 0 or int(state["start"]) >= self.starts:
            return state["now"]
        ahead = float(state["now"]["held_out"][1]) < float(state["best_loss"])
        return state["now"] if ahead else state["best"]
