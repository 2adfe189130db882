"""Solutions of the page at a few settings as further rows of another phase."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from typing import Any

from jaxtyping import Array

from lcpinn.devices import alone
from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop
from lcpinn.own_solutions import SolvedSettings, can_be_solved, solve_at, spread_settings
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling
from lcpinn.spec import spec


@spec
class OwnSolutions(Phase):
    """Another phase, taught by the page's own solutions (lcpinn.own_solutions) as well.

    The page is solved at `settings` values of the coefficients, for at most `seconds`, and the
    network's values at `rows` points of each are compared with it: rows u_network - u_solved,
    relative to the size of u there, beside the residual rows. Interior rows lie where those
    solutions vary. What cannot be solved is left out; where nothing can be, the phase is as it is.
    """

    phase: Phase
    settings: int = 64
    rows: int = 10
    seconds: float = 10.0
    tolerance: float = 1e-8

    def build(self, setup: Setup) -> Stage:
        plain = self.phase.build(setup)

        @cache
        def stage() -> tuple[Stage, dict[str, Any]]:
            began = time.perf_counter()
            solved = self._solved(setup.problem)
            if isinstance(solved, str):
                return plain, {"solved_at": [], "not_solved": solved}
            problem = setup.problem
            joined = Problem(
                solved.joined(problem.family, self.settings, self.rows),
                problem.network,
                problem.dtype,
            )
            spent = time.perf_counter() - began
            inner = self.phase.shortened(spent).build(replace(setup, problem=joined, programs={}))
            names = problem.family.parameters.names
            at = [dict(zip(names, map(float, row), strict=True)) for row in solved.settings]
            return inner, {"solved_at": at}

        def init(params: Params, key: Array) -> Any:
            return stage()[0].init(params, key)

        def advance(state: Any) -> tuple[Any, Info]:
            return stage()[0].advance(state)

        def stopped(state: Any, info: Info) -> Stop | None:
            return stage()[0].stopped(state, info)

        def finish(state: Any) -> tuple[Params, str]:
            params, note = stage()[0].finish(state)
            count = len(stage()[1]["solved_at"])
            return params, f"{note}, own solutions at {count} settings" if count else note

        return Stage(plain.total, init, advance, stopped, finish, facts=lambda: stage()[1])

    def _solved(self, problem: Problem) -> SolvedSettings | str:
        """The solutions, or why there are none."""
        family = problem.family
        if not alone():  # each would have solved others when the time is up
            return "there are several processes"
        if not can_be_solved(family):
            return f"{family.name} has no box, or observations or loss weights of its own"
        settings = spread_settings(family.parameters, self.settings)
        try:
            return solve_at(family, settings, tolerance=self.tolerance, seconds=self.seconds)
        except LcpinnError as error:
            return str(error)

    # As a part of a protocol.

    @property
    def innermost(self) -> Phase:
        return self.phase.innermost

    def shrunk(self) -> OwnSolutions:
        return replace(self, phase=self.phase.shrunk(), settings=3, rows=8)

    def scaled(self, share: float) -> OwnSolutions:
        return replace(self, phase=self.phase.scaled(share))

    def shortened(self, seconds: float) -> OwnSolutions:
        return replace(self, phase=self.phase.shortened(seconds))

    def budget(self) -> tuple[str, float]:
        return self.phase.budget()

    def points(self, sampling: Sampling | None) -> Sampling | None:
        return self.phase.points(sampling)
