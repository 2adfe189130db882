"""Several starts, judged by rows that none of them has seen; the best one is the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.certificate import Estimate, worst_case
from lcpinn.devices import agreed, on_this_device
from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, StopReason
from lcpinn.optimiser.watch import Watch
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling
from lcpinn.spec import spec

NEAR = 3.0  # times the tolerance, from where on a known error is worth an estimate
FIRST_MARK = 30  # steps before which no start is said to stagnate

Judge = Callable[[Params], Estimate]


class RestartsState(NamedTuple):
    """The start that runs now, how far it was when last looked at, and the best of those before."""

    first: Params  # the given ones, which the first start begins from
    key: Array
    step: Array  # of all starts
    inner: Any
    start: Array  # the number of the start, counted from zero
    mark_step: Array
    mark_loss: Array
    seconds_at_begin: Array  # left when this start began
    best: Any  # the inner state
    best_loss: Array
    error: Array  # of the best one, where it can be estimated
    solved: Array  # whether the tolerance is reached

    @property
    def params(self) -> Params:
        return self.inner.params


@spec
class Restarts(Phase):
    """Several starts of another phase; the result is that with the lowest held-out loss.

    First `starts` initialisations are tried for `trial` steps, and the best one is run to its end:
    one start in four of a small network can be far worse than the others, and says so early. When
    it is over, or stagnates (while its steps grow by half, the loss does not fall by the factor
    `decrease`), the next start follows, `max_starts` in all, if the time that is left would take
    that one as far. All of them share one compiled program.

    In an initial-value problem with one or two coordinates a wrong solution can have a small
    residual: the error that the residual leads to is estimated there (lcpinn.certificate), decides
    between starts, and one above `error_limit` does not pass: further starts follow as long as
    there is time. Where it cannot be told, by a front for instance, the held-out loss decides.

    With a `tolerance` the error is estimated in every problem, also while a start runs (for a tenth
    of the time at most), and the training is over as soon as it is below the tolerance at many
    lambda; it takes the place of `error_limit`. `draws` are ways in which the parameters of further
    starts are drawn, in turns: a factor of the frequency scale, and the slopes in lambda
    (MLP.drawn).
    """

    phase: Phase
    starts: int = 2
    trial: int = 30
    max_starts: int = 12
    decrease: float = 1.2
    error_limit: float = 1e-2
    tolerance: float | None = None
    draws: tuple[tuple[float, float], ...] = ()

    def build(self, setup: Setup) -> Stage:
        inner = self.phase.build(setup)
        draws = [problem.drawing() for problem in self._problems(setup.problem)]
        watch = None if self.tolerance is None else Watch(setup.problem, self.tolerance)
        judge = worst_case(setup.problem) if watch is None else watch.estimate
        if judge is not None and setup.mesh is not None:
            judge = lambda params, estimate=judge: estimate(on_this_device(params, setup.mesh))
        infinite = jnp.asarray(np.inf, setup.problem.dtype)
        unmarked = {
            "mark_step": jnp.zeros((), jnp.int32),
            "mark_loss": infinite,
            "seconds_at_begin": infinite,
        }

        def init(params: Params, key: Array) -> RestartsState:
            begun = inner.init(params, jax.random.fold_in(key, 0))
            if not hasattr(begun, "held_out"):
                kind = type(self.phase).__name__
                raise LcpinnError(f"Restarts compares held-out losses, and {kind} has none")
            zero = jnp.zeros((), jnp.int32)
            best = {"best": begun, "best_loss": infinite, "error": infinite}
            solved = jnp.asarray(False)
            return RestartsState(params, key, zero, begun, zero, **unmarked, **best, solved=solved)

        def begin(state: RestartsState, start: int) -> RestartsState:
            """Another start, from parameters of its own."""
            own = jax.random.fold_in(state.key, start)
            begun = inner.init(draws[start % len(draws)](own), own)
            return state._replace(inner=begun, start=jnp.asarray(start, jnp.int32), **unmarked)

        def advance(state: RestartsState) -> tuple[RestartsState, Info]:
            before = int(state.inner.step)
            after, info = inner.advance(state.inner)
            state = state._replace(inner=after, step=state.step + (int(after.step) - before))
            over = inner.stopped(after, info) is not None
            near = self._close(inner, after)
            if (
                watch is not None
                and near
                and agreed(watch.reached(on_this_device(after, setup.mesh), over))
            ):
                return _solved(state, agreed(watch.error)), {**info, "start": self._tried(state)}
            state, stagnates = self._watch(state, info)
            if self._trying(state) and (over or int(after.step) >= self.trial):
                state = _remember(state, judge, self._known(inner, state.inner))
                following = int(state.start) + 1
                resumed = state._replace(inner=state.best, start=state.start + 1, **unmarked)
                state = begin(state, following) if following < self.starts else resumed
            elif over or (stagnates and self._further(state, info)):
                state = _remember(state, judge, self._known(inner, state.inner))
                if self._further(state, info):
                    state = begin(state, int(state.start) + 1)
            return state, {**info, "start": self._tried(state)}

        def stopped(state: RestartsState, info: Info) -> Stop | None:
            if bool(state.solved):
                text = f"estimated error at most {float(state.error):.1e}"
                return Stop(StopReason.SOLVED, f"solved: {text} after {int(state.step)} steps")
            # While starts are tried only the clock may end it: a start that is over is judged.
            stop = inner.stopped(state.inner, info)
            if stop is None or (self._trying(state) and float(info.get("seconds_left", 1.0)) > 0):
                return None
            return Stop(stop.reason, f"{stop} of the last start, {int(state.step)} in all")

        def finish(state: RestartsState) -> tuple[Params, str]:
            if not bool(state.solved):
                state = _remember(state, judge, self._known(inner, state.inner))
            params, note = inner.finish(state.best)
            error = float(state.error)
            if np.isfinite(error) and not bool(state.solved):
                note += f", estimated error {error:.1e}" + " (doubtful)" * (error > self._limit)
            return params, f"{note}, best of {self._tried(state)} starts"

        total = inner.total + (self.starts - 1) * self.trial
        return Stage(total, init, advance, stopped, finish, facts=inner.facts)

    def _problems(self, problem: Problem) -> list[Problem]:
        """The problem with its network, and with the same network drawn in other ways."""
        others = [problem.network.drawn(*how) for how in self.draws]
        return [problem, *(replace(problem, network=network) for network in others)]

    def _close(self, stage: Stage, state: Any) -> bool:
        """Whether an estimate may say that it is solved: where a state's own rows tell the error,
        once that is near the tolerance; seconds of estimates before are lost."""
        known = self._known(stage, state)
        return known is None or known <= NEAR * self._limit

    def _known(self, stage: Stage, state: Any) -> float | None:
        """The relative error of a start, where its own rows tell."""
        return None if stage.relative_error is None else stage.relative_error(state)

    @property
    def _limit(self) -> float:
        """The estimated error above which a start does not pass."""
        return self.error_limit if self.tolerance is None else self.tolerance

    def _trying(self, state: RestartsState) -> bool:
        return int(state.start) < self.starts

    def _tried(self, state: RestartsState) -> int:
        """How many starts there have been: going on with the best one is none of its own."""
        return int(state.start) + self._trying(state)

    def _watch(self, state: RestartsState, info: Info) -> tuple[RestartsState, bool]:
        """Mark how far a start is whenever its steps have grown by half; whether it stagnates."""
        loss, step = state.inner.held_out.best, int(state.inner.step)
        if "seconds_left" in info and not np.isfinite(state.seconds_at_begin):
            # After its first call: that one may have compiled.
            seconds = jnp.asarray(info["seconds_left"], state.seconds_at_begin.dtype)
            state = state._replace(seconds_at_begin=seconds)
        if step < max(1.5 * int(state.mark_step), FIRST_MARK):
            return state, False
        before, dtype = float(state.mark_loss), state.mark_loss.dtype
        mark = {"mark_step": jnp.asarray(step, jnp.int32), "mark_loss": jnp.asarray(loss, dtype)}
        return state._replace(**mark), float(loss) > before / self.decrease

    def _further(self, state: RestartsState, info: Info) -> bool:
        """Whether there is time, and leave, for one more start."""
        if "seconds_left" not in info or state.inner.at_rounding:
            return False
        remaining = float(info["seconds_left"])
        if np.isfinite(float(state.error)) and float(state.error) > self._limit:
            return remaining > 0
        spent = float(state.seconds_at_begin) - remaining
        return int(state.start) < self.max_starts and remaining > spent

    # As a part of a protocol.

    @property
    def innermost(self) -> Phase:
        return self.phase.innermost

    @property
    def shapes_vary(self) -> bool:
        return self.phase.shapes_vary

    def shrunk(self) -> Restarts:
        return replace(self, phase=self.phase.shrunk(), starts=1, max_starts=1)

    def shortened(self, seconds: float) -> Restarts:
        return replace(self, phase=self.phase.shortened(seconds))

    def budget(self) -> tuple[str, float]:
        return self.phase.budget()

    def points(self, sampling: Sampling | None) -> Sampling | None:
        return self.phase.points(sampling)


def _remember(
    state: RestartsState, judge: Judge | None, error: float | None = None
) -> RestartsState:
    """Keep what runs now if it is the best of all: by its error, if that is known or can be
    estimated."""
    loss, dtype = state.inner.held_out.best, state.best_loss.dtype
    if error is None:
        error = np.nan if judge is None else agreed(judge(state.inner.best).error)
    known = np.isfinite(error) and np.isfinite(float(state.error))
    first = not np.isfinite(float(state.best_loss))
    better = error < float(state.error) if known else bool(loss < state.best_loss)
    if not (better or first):
        return state
    reached = jnp.asarray(error if np.isfinite(error) else np.inf, dtype)
    return state._replace(best=state.inner, best_loss=jnp.asarray(loss, dtype), error=reached)


def _solved(state: RestartsState, error: float) -> RestartsState:
    """What runs now is the result."""
    loss = state.inner.held_out.best
    reached = jnp.asarray(error, state.error.dtype)
    return state._replace(
        best=state.inner, best_loss=loss, error=reached, solved=jnp.ones_like(state.solved)
    )
