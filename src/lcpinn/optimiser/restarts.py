"""Several starts, judged by rows that none of them has seen; the best one is the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.certificate import Estimate, worst_case
from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Info, Setup, Stage, State
from lcpinn.spec import spec

FIRST_MARK = 30  # steps before which no start is said to crawl


@spec
class Restarts:
    """Several starts of another phase; the result is that with the lowest held-out loss.

    First `starts` initialisations are tried for `trial` steps, and the best one is run to its end:
    one start in four of a small network can be far worse than the others, and says so early. When
    it settles, or crawls (while its steps grow by half, the loss falls by less than `gain`), the
    next start follows, `most` in all, if the time that is left would take that one as far. All of
    them share one compiled program.

    In an initial-value problem with one or two coordinates a wrong solution can have a small
    residual: the error that the residual leads to is estimated there (lcpinn.certificate), decides
    between starts, and one above `doubt` does not pass as settled: further starts follow as long as
    there is time. Where it cannot be told, by a front for instance, the held-out loss decides.
    """

    phase: Any
    starts: int = 2
    trial: int = 30
    most: int = 12
    gain: float = 1.2
    doubt: float = 1e-2

    def build(self, setup: Setup) -> Stage:
        inner: Stage = self.phase.build(setup)
        draw = jax.jit(setup.problem.init)
        judge = worst_case(setup.problem)

        def begin(state: State, start: int) -> State:
            """The given parameters are the first start; the others are drawn."""
            own = jax.random.fold_in(state["key"], start)
            now = inner.init(state["params"] if start == 0 else draw(own), own)
            return {**state, "now": now, "start": jnp.asarray(start, jnp.int32), **unmarked}

        worst = jnp.asarray(np.inf, setup.problem.dtype)
        unmarked = {"mark": jnp.stack([0 * worst, worst]), "began": worst}

        def init(params: Params, key: Array) -> State:
            state = begin({"params": params, "key": key, "step": jnp.zeros((), jnp.int32)}, 0)
            return {**state, "best": state["now"], "best_loss": worst, "error": worst}

        def advance(state: State) -> tuple[State, Info]:
            before = int(state["now"]["step"])
            now, info = inner.advance(state["now"])
            state = {**state, "now": now, "step": state["step"] + (int(now["step"]) - before)}
            over = inner.stopped(now, info) is not None
            state, crawls = self._watch(state, info)
            if self._trying(state) and (over or int(now["step"]) >= self.trial):
                state = _remember(state, judge)
                following = int(state["start"]) + 1
                resumed = {**state, "now": state["best"], "start": state["start"] + 1, **unmarked}
                state = begin(state, following) if following < self.starts else resumed
            elif over or (crawls and self._further(state, info)):
                state = _remember(state, judge)
                if self._further(state, info):
                    state = begin(state, int(state["start"]) + 1)
            return state, {**info, "start": self._tried(state)}

        def stopped(state: State, info: Info) -> str | None:
            # While starts are tried only the clock may end it: a start that settles is judged.
            reason = inner.stopped(state["now"], info)
            if reason and self._trying(state) and float(info.get("seconds_left", 1.0)) > 0:
                return None
            return reason and f"{reason} of the last start, {int(state['step'])} in all"

        def finish(state: State) -> tuple[Params, str]:
            state = _remember(state, judge)
            params, note = inner.finish(state["best"])
            error = float(state["error"])
            if np.isfinite(error):
                note += f", estimated error {error:.1e}" + " (doubtful)" * (error > self.doubt)
            return params, f"{note}, best of {self._tried(state)} starts"

        total = inner.total + (self.starts - 1) * self.trial
        return Stage(total, init, advance, stopped, finish)

    def _trying(self, state: State) -> bool:
        return int(state["start"]) < self.starts

    def _tried(self, state: State) -> int:
        """How many starts there have been: going on with the best one is none of its own."""
        return int(state["start"]) + self._trying(state)

    def _watch(self, state: State, info: Info) -> tuple[State, bool]:
        """Mark how far this start is whenever its steps have grown by half; whether it crawls."""
        steps, before = np.asarray(state["mark"])
        now, step = float(state["now"]["held_out"][1]), int(state["now"]["step"])
        if "seconds_left" in info and not np.isfinite(state["began"]):
            # After its first call: that one may have compiled.
            state = {**state, "began": jnp.asarray(info["seconds_left"], state["began"].dtype)}
        if step < max(1.5 * steps, FIRST_MARK):
            return state, False
        mark = jnp.asarray([step, now], state["mark"].dtype)
        return {**state, "mark": mark}, now > before / self.gain

    def _further(self, state: State, info: Info) -> bool:
        """Whether there is time, and leave, for one more start."""
        if "seconds_left" not in info or info.get("exact"):
            return False
        left = float(info["seconds_left"])
        if np.isfinite(float(state["error"])) and float(state["error"]) > self.doubt:
            return left > 0
        return int(state["start"]) < self.most and left > float(state["began"]) - left


def _remember(state: State, judge: Callable[[Params], Estimate] | None) -> State:
    """Keep what runs now if it is the best of all: by its error, where that can be estimated."""
    loss, dtype = state["now"]["held_out"][1], state["best_loss"].dtype
    error = np.nan if judge is None else judge(state["now"]["best"]).error
    known = np.isfinite(error) and np.isfinite(float(state["error"]))
    first = not np.isfinite(float(state["best_loss"]))
    better = error < float(state["error"]) if known else bool(loss < state["best_loss"])
    if not (better or first):
        return state
    kept = jnp.asarray(error if np.isfinite(error) else np.inf, dtype)
    return {**state, "best": state["now"], "best_loss": loss, "error": kept}
