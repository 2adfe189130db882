"""Go back to where a phase started if it made things worse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array

from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Info, Setup, Stage, State, held_out_loss
from lcpinn.spec import spec


@spec
class RevertOnWorse:
    """Runs another phase; keeps its result only if the held-out objective did not rise.

    The comparison is of the training objective on a quadrature that the phase never saw, never of
    the error against a reference solution.
    """

    phase: Any

    def build(self, setup: Setup) -> Stage:
        inner: Stage = self.phase.build(setup)

        def init(params: Params, key: Array) -> State:
            return {**inner.init(params, key), "start": params}

        def around(one: Callable[[State], tuple[State, Info]]):
            """The inner phase's function on a state that remembers where the phase started."""

            def wrapped(state: State) -> tuple[State, Info]:
                start = state["start"]
                after, info = one({k: v for k, v in state.items() if k != "start"})
                return {**after, "start": start}, info

            return wrapped

        def finish(state: State) -> tuple[Params, str]:
            params, note = inner.finish(state)
            loss = held_out_loss(setup)
            before, after = loss(state["start"]), loss(params)
            change = f"held-out objective {before:.3e} -> {after:.3e}"
            if np.isfinite(after) and after <= before:
                return params, f"{note} {change}, kept".strip()
            return state["start"], f"{note} {change}, reverted".strip()

        run = None if inner.run is None else around(inner.run)
        return Stage(inner.total, init, around(inner.advance), inner.stopped, finish, run)
