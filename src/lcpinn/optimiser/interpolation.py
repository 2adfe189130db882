"""No optimiser: solutions at nodes of lambda, and a polynomial between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.network.contract import Params
from lcpinn.network.interpolant import Interpolant
from lcpinn.optimiser.clock import Clock
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, StopReason, keep
from lcpinn.spec import spec
from lcpinn.spectral.interpolation import Growth, InterpolationState, begun, stagnates
from lcpinn.spectral.sparse_grid import FINEST

BLOCK = 5.0  # seconds between two looks at the clock, checkpoints and lines of progress


@spec
class Interpolation(Phase):
    """Solve at nested Chebyshev nodes of the coefficients, at more where something is missing.

    Nodes are those of the prior's own measure: of the logarithm where that is uniform. The set of
    levels (see sparse_grid.py) begins with a small tensor grid and gets, again and again, those
    neighbours for which the last coefficients of a parent have more than their share of the
    `tolerance`; until none has, `nodes` are solved, or the `seconds` are over.
    """

    tolerance: float = 1e-8
    nodes: int = 3000
    seconds: float | None = None

    def build(self, setup: Setup) -> Stage:
        family = setup.problem.family
        if not isinstance(setup.problem.network, Interpolant):
            raise LcpinnError("solutions can be interpolated by the network Interpolant alone")
        growth, clock = Growth(family, self.tolerance), Clock(self.seconds)

        def init(params: Params, key: Array) -> InterpolationState:
            del key
            clock.start()
            return begun(family, params)

        def advance(state: InterpolationState) -> tuple[InterpolationState, Info]:
            state = growth.advanced(state, min(BLOCK, clock.remaining()))
            # Until the first polynomial there is u = 0, of which all is missing.
            info: Info = {"loss": float(state.missing[-1]) if len(state.missing) else 1.0}
            if self.seconds is not None:
                info["seconds_left"] = clock.remaining()
            return state, info

        def stopped(state: InterpolationState, info: Info) -> Stop | None:
            del info
            num, missing = int(state.step), np.asarray(state.missing)
            if not len(missing):
                return None  # the first polynomial is not there yet: it is small
            words = f"{num} settings, {missing[-1]:.0e} missing between them"
            if missing[-1] <= growth.enough(state):
                return Stop(StopReason.SOLVED, words)
            if stagnates(missing):
                return Stop(StopReason.STAGNATION, f"more settings do not help: {words}")
            if clock.remaining() <= 0:
                return Stop(StopReason.TIME, f"the time is up: {words}")
            full = num >= self.nodes or np.max(state.levels) >= FINEST
            return Stop(StopReason.STEPS, f"too many settings: {words}") if full else None

        return Stage(self.nodes, init, advance, stopped, keep)

    def shrunk(self) -> Interpolation:
        return replace(self, tolerance=max(self.tolerance, 1e-3), nodes=5)

    def budget(self) -> tuple[str, float]:
        return ("nodes", self.nodes) if self.seconds is None else ("seconds", self.seconds)
