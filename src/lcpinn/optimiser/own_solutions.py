"""Solutions of the page at a few settings as further rows of another phase."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

import jax
from jaxtyping import Array

from lcpinn.devices import alone
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.interpolated import Between
from lcpinn.network.mlp import MLP, Params
from lcpinn.optimiser.acceptance import GainRatio
from lcpinn.optimiser.gauss_newton import GaussNewton
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop
from lcpinn.own_solutions import (
    FEWEST,
    SolvedSettings,
    can_be_solved,
    solve_at,
    solved_before,
    spread_settings,
)
from lcpinn.reduced_basis import known_between
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling
from lcpinn.spec import spec

ROWS = 2.5  # of a regression, for each parameter
ROUGHLY = 0.1  # what a polynomial may miss to be what a training begins with
CLOSE = 0.3  # of what it misses: a network that is as close is not brought closer to it
REGRESSION = 0.5  # of the time, at most, for such a beginning


@spec
class OwnSolutions(Phase):
    """Another phase, taught by the page's own solutions (lcpinn.own_solutions) as well.

    The page is solved for at most `seconds`. With `between`, first at Chebyshev nodes of the
    coefficients: where a polynomial between them misses less than its `missing`, the network is
    fitted to that by regression, rows of values alone (lcpinn.interpolated), and where it misses
    less than a tenth, a regression is what the phase begins with. A regression's rows lie denser at
    the ends of coordinates (`dense_at_ends`), and its descents have more of them than what they
    explore with: `descent_rows` times as many beside.

    Otherwise at `settings` values of the coefficients: the network's values at `rows` points of
    each are compared with them, rows u_network - u_solved, relative to the size of u there, beside
    the residual rows. Interior rows lie where those solutions vary. What cannot be solved is left
    out; where nothing can be, the phase is as it is.
    """

    phase: Phase
    settings: int = 64
    rows: int = 10
    seconds: float = 10.0
    tolerance: float = 1e-8
    between: bool = False
    missing: float = 1e-6
    dense_at_ends: bool = True
    descent_rows: float = 1.0

    def build(self, setup: Setup) -> Stage:
        plain = self.phase.build(setup)

        @cache
        def taught() -> _Taught:
            began = time.perf_counter()
            teacher = self._teacher(setup.problem)
            return _Taught(self, setup, teacher, time.perf_counter() - began)

        @cache
        def stage() -> Stage:  # from the first `init` on, when its clock begins
            return taught().stage() or plain

        def init(params: Params, key: Array) -> Any:
            params = taught().begun(params, key)
            return stage().init(params, key)

        def advance(state: Any) -> tuple[Any, Info]:
            return stage().advance(state)

        def stopped(state: Any, info: Info) -> Stop | None:
            return stage().stopped(state, info)

        def finish(state: Any) -> tuple[Params, str]:
            params, note = stage().finish(state)
            count = len(taught().facts["solved_at"])
            return params, f"{note}, own solutions at {count} settings" if count else note

        def relative_error(state: Any) -> float | None:
            return float(state.held_out.best) ** 0.5 if taught().by_regression else None

        facts = lambda: taught().facts
        stages = (init, advance, stopped, finish)
        return Stage(plain.total, *stages, facts=facts, relative_error=relative_error)

    def _teacher(self, problem: Problem) -> Teacher:
        """The solutions, or why there are none."""
        family, began = problem.family, time.perf_counter()
        if not alone():  # each would have solved others when the time is up
            return "there are several processes"
        if not can_be_solved(family):
            return f"{family.name} has no box, or observations or loss weights of its own"
        between = self.between and bool(family.parameters.free)
        try:
            if between and isinstance(self.phase, GaussNewton):
                try:
                    return known_between(family, tolerance=self.missing, seconds=self.seconds)
                except LcpinnError:  # at some settings, perhaps, it can be solved all the same
                    pass
            settings = spread_settings(family.parameters, self.settings)
            remaining = self.seconds - (time.perf_counter() - began)
            if remaining <= 0:
                solved = solved_before(family)
            else:
                solved = solve_at(family, settings, tolerance=self.tolerance, seconds=remaining)
            if len(solved.settings) < min(FEWEST, len(settings)):
                return f"{len(solved.settings)} settings, solved in time, are too few"
            return solved
        except LcpinnError as error:
            return str(error)

    # As a part of a protocol.

    @property
    def innermost(self) -> Phase:
        return self.phase.innermost

    def shrunk(self) -> OwnSolutions:
        return replace(self, phase=self.phase.shrunk(), settings=3, rows=8)

    @property
    def shapes_vary(self) -> bool:
        return self.between or self.phase.shapes_vary  # a regression's descents have more rows

    def scaled(self, share: float) -> OwnSolutions:
        return replace(self, phase=self.phase.scaled(share))

    def shortened(self, seconds: float) -> OwnSolutions:
        return replace(self, phase=self.phase.shortened(seconds))

    def budget(self) -> tuple[str, float]:
        return self.phase.budget()

    def points(self, sampling: Sampling | None) -> Sampling | None:
        return self.phase.points(sampling)


Teacher = SolvedSettings | Between | str


class _Taught:
    """A phase with the rows that its teacher adds, or takes the place of."""

    def __init__(self, how: OwnSolutions, setup: Setup, teacher: Teacher, spent: float):
        self.how, self.setup, self.spent = how, setup, spent
        self.teacher, self.begun_at = teacher, time.perf_counter()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What was solved, for the record."""
        if isinstance(self.teacher, str):
            return {"solved_at": [], "not_solved": self.teacher}
        names = self.setup.problem.family.parameters.names
        settings = self.teacher.settings
        at = [dict(zip(names, map(float, row), strict=True)) for row in settings]
        if isinstance(self.teacher, SolvedSettings):
            return {"solved_at": at}
        return {"solved_at": at, "missing_between": self.teacher.missing}

    @property
    def by_regression(self) -> bool:
        """Whether rows of values are all there is to learn from."""
        teacher = self.teacher
        return isinstance(teacher, Between) and teacher.missing <= self.how.missing

    @property
    def _roughly(self) -> bool:
        """Whether solutions between settings are known well enough to begin with."""
        return isinstance(self.teacher, Between) and self.teacher.missing <= ROUGHLY

    def stage(self) -> Stage | None:
        """The phase as it is taught; None where there is nothing to teach."""
        if isinstance(self.teacher, str):
            return None
        spent = self.spent + (time.perf_counter() - self.begun_at)
        phase, solved = self.how.phase.shortened(spent), self.teacher
        if self.by_regression:
            return self._regression(phase)
        family = self.setup.problem.family
        if isinstance(solved, Between):
            solved = solved_before(family)
            if isinstance(phase, GaussNewton) and self._roughly:  # what is learnt is to be kept
                phase = replace(phase, acceptance=GainRatio())
        num = max(self.how.settings, len(solved.settings))
        points = max(1, self.how.settings * self.how.rows // num)
        return phase.build(self._with(solved.joined(family, num, points)))

    def begun(self, params: Params, key: Array) -> Params:
        """The parameters that a start begins with: where solutions are known roughly between
        settings, after a regression of them."""
        teacher, phase, (unit, seconds) = self.teacher, self.how.phase, self.how.phase.budget()
        if self.by_regression or not isinstance(teacher, Between) or unit != "seconds":
            return params
        now = time.perf_counter()
        remaining = seconds - self.setup.spent - self.spent - (now - self.begun_at)
        if not self._roughly or remaining <= 0:
            return params
        assert isinstance(phase, GaussNewton)
        stage = self._regression(replace(phase, seconds=REGRESSION * remaining))
        state = stage.init(params, key)
        while True:
            state, info = stage.advance(state)
            close = float(state.held_out.best) ** 0.5 < CLOSE * teacher.missing
            if close or stage.stopped(state, info) is not None:
                return state.best

    def _regression(self, phase: Phase) -> Stage:
        """The phase on rows of values alone."""
        assert isinstance(self.teacher, Between)
        assert isinstance(phase, GaussNewton)
        family, network = self.setup.problem.family, self.setup.problem.network
        waves = isinstance(network, MLP) and bool(network.carriers)  # which need rows evenly
        ends = self.how.dense_at_ends and not waves
        setup = self._with(self.teacher.taught(family, dense_at_ends=ends))
        shapes = jax.eval_shape(setup.problem.init, jax.random.PRNGKey(0))
        num = sum(leaf.size for leaf in jax.tree.leaves(shapes))
        points = round(ROWS * num / len(setup.problem.family.outputs))
        few = replace(phase.sampling, interior=points)
        further = round(self.how.descent_rows * points) if phase.acceptance.explores else 0
        phase = replace(phase, sampling=few, equilibrated=False, descent_rows=further)
        return phase.build(setup)

    def _with(self, family: Family) -> Setup:
        problem = replace(self.setup.problem, family=family)
        return replace(self.setup, problem=problem, programs={})
