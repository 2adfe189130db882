"""Damped Gauss-Newton on all rows at once: the library's default optimiser.

The loss is a sum of squared rows, so a step solves the linearised least-squares problem. A whole
grid of dampings is tried at every step from one factorisation (damping.py), and one of the
candidates is taken (acceptance/), which lets the damping collapse early; that, and not the linear
algebra alone, is what makes it fast. This file has the rounds: stagnation, overfitting, resampling.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from lcpinn.compilation import compiler_options, in_background
from lcpinn.devices import agreed, on_every_device, spread
from lcpinn.equilibration import RowScales, equilibrating, no_scales, row_scales
from lcpinn.errors import LcpinnError, check_choice
from lcpinn.known_series import KnownSeries
from lcpinn.network.mlp import Params
from lcpinn.optimiser.acceptance import Acceptance, GainRatio, Pace
from lcpinn.optimiser.acceptance.model_driven import CONTRACTION
from lcpinn.optimiser.clock import Clock
from lcpinn.optimiser.damping import SOLVERS
from lcpinn.optimiser.descent_rows import DescentRows
from lcpinn.optimiser.levenberg_marquardt import levenberg_marquardt_step
from lcpinn.optimiser.linear_model import RowSystem
from lcpinn.optimiser.resampling import AT_ONCE, Resampling
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, StopReason
from lcpinn.rows import check_one_point_per_lambda
from lcpinn.sampling import Batch, Sampling
from lcpinn.spec import spec
from lcpinn.threads import ThreadTrial

LARGEST_DAMPING = 1e12
Carry = tuple[Array, Array, Array, Pace, Array]  # of a run's loop
ROUNDING = 1e-26  # of the loss at the start: 1e-13 of the residual
NO_GAIN = 0.7  # of the held-out loss at the last stagnation: above it resampling did not help
# The ratio of held-out losses to those of rows from which on few candidates for new rows are too
# few: what is large lies between them.
SEVERELY = 10.0
MISSED = 100.0  # the same ratio at the end, from which on it is said
LOOKS = 30  # steps after which held-out rows should have been finite once


class HeldOut(NamedTuple):
    """The loss on rows that no step has seen."""

    current: Array
    best: Array
    stagnated: Array  # when a round stagnated last


class GaussNewtonState(NamedTuple):
    """Where a run stands: its rows with their scales, the damping, what rounds are judged by."""

    params: Params
    batch: Batch
    scales: RowScales
    initial_loss: Array
    damping: Array  # zero: the first step chooses
    loss: Array
    pace: Pace
    best: Params  # those with the lowest held-out loss
    held_out: HeldOut
    step_seconds: Array
    round: Array
    step: Array
    key: Array

    @property
    def exploring(self) -> bool:
        return bool(self.pace.exploring)

    @property
    def at_rounding(self) -> bool:
        """Whether nothing but rounding is left on rows that no step has seen."""
        return bool(self.held_out.best <= ROUNDING * self.initial_loss)


@spec
class GaussNewton(Phase):
    """Levenberg-Marquardt steps chosen from a grid of `dampings` values by `acceptance`.

    Rows lie on `sampling` (interior and face rows in all, each with its own lambda). A round ends
    by stagnation, when `patience` steps together lower the loss by less than the share `tolerance`,
    or by overfitting, when the loss on held-out rows exceeds that on its own by the factor
    `overfit`. The next round resamples a share `resample` of the interior rows, points and lambda
    alike, where the residual is large (RAD, Wu et al. 2023), from AT_ONCE times as many points, or
    `candidates` times as many where overfitting is severe: few candidates miss a thin layer, and
    many leave too little of what is not one. It is over when a round stagnates and other rows would
    not help: its own are not overfitted, or the round before stagnated as low. The parameters with
    the lowest loss on held-out rows are the result. A loss of ROUNDING times the first one is the
    end, too: nothing is left of the residual but rounding.

    No step is longer than the trust-region `radius` times the norm of the parameters: a long one
    that lowers the loss can still throw a network where its units oscillate or saturate, and
    nothing after it gets out of there. `solver` is one of lcpinn.optimiser.damping, or `auto`: QR
    on a CPU, two-level Cholesky on an accelerator. Rows that are relative errors already are not to
    be `equilibrated` (lcpinn.equilibration).

    Where the acceptance explores, few rows tell where to go, but a descent on few of them fits what
    lies between badly: it has `descent_rows` more in the interior.
    """

    sampling: Sampling = Sampling(interior=1600, face=200, num_lambda=1, rule="collocation")
    acceptance: Acceptance = GainRatio()
    steps: int = 400
    rounds: int = 20
    resample: float = 0.5
    candidates: int = 32
    overfit: float = 2.0
    solver: str = "auto"
    dampings: int = 9
    radius: float = 0.1
    patience: int = 6
    tolerance: float = 0.05
    seconds: float | None = None
    block: int = 5
    equilibrated: bool = True
    descent_rows: int = 0

    def __post_init__(self) -> None:
        check_choice("GaussNewton", "solver", self.solver, ("auto", *SOLVERS))

    def build(self, setup: Setup) -> Stage:
        problem = setup.problem
        held_out = setup.fixed(setup.held_out)
        _check_weighting(setup, held_out)
        batch = setup.fixed(self.sampling)
        check_one_point_per_lambda(batch)
        rows = DescentRows(self.sampling, self.descent_rows, setup, batch)
        known = KnownSeries(problem, setup.mesh)
        measure, options = setup.jit(partial(_measure, self, setup)), compiler_options()
        resampling = Resampling(setup, known, self.resample)
        restarted = setup.jit(partial(_restarted, self), compiler_options=options)
        validated = setup.jit(partial(_validated, setup), compiler_options=options)
        clock, threads = Clock(self.seconds, setup.spent), ThreadTrial(self.seconds is not None)

        def first(params: Params, key: Array, scales: RowScales, loss: Array) -> GaussNewtonState:
            infinite = jnp.asarray(jnp.inf, problem.dtype)
            return GaussNewtonState(
                params=params,
                batch=batch,
                scales=scales,
                initial_loss=loss,
                damping=jnp.zeros((), problem.dtype),
                loss=infinite,
                pace=Pace(
                    jnp.asarray(self.radius, problem.dtype),
                    jnp.asarray(float(self.acceptance.explores), problem.dtype),
                    jnp.full(self.patience, jnp.inf, problem.dtype),
                ),
                best=params,
                held_out=HeldOut(infinite, infinite, infinite),
                step_seconds=jnp.zeros(()),
                round=jnp.zeros((), jnp.int32),
                step=jnp.zeros((), jnp.int32),
                key=key,
            )

        @cache
        def like() -> GaussNewtonState:
            """The shapes of a state."""
            key = jax.random.PRNGKey(0)
            params = jax.eval_shape(problem.init, key)
            measures = jax.eval_shape(measure, params, known.of(batch))
            return jax.eval_shape(first, params, key, *measures)

        @cache
        def program(descending: bool) -> Callable[[], Any]:
            """Many steps, compiled in the background from the first call on.

            No default: `cache` would take a call without and one with the same value for two.
            """
            given = known.of(rows.joined(batch) if descending else batch)
            steps = setup.jit(partial(_run, self, setup), compiler_options=options)
            num = jax.ShapeDtypeStruct((), jnp.int32)
            return in_background(steps.lower(*setup.like((like()._replace(batch=given), num))))

        programs: dict[str, Any] = {}

        def measured(params: Params) -> tuple[RowScales, Array]:
            """The scales and the loss, by the trace that the shapes of `program` come from."""
            if "measure" not in programs:
                lowered = measure.lower(params, known.of(batch))
                programs["measure"] = lowered.compile(compiler_options(once=True))
            return programs["measure"](params, known.of(batch))

        @cache
        def unseen() -> Batch:
            """The held-out rows."""
            return on_every_device(known.of(held_out), setup.mesh)

        def init(params: Params, key: Array) -> GaussNewtonState:
            clock.start()
            program(False)
            params = on_every_device(params, setup.mesh)
            return on_every_device(first(params, key, *measured(params)), setup.mesh)

        def advance(state: GaussNewtonState) -> tuple[GaussNewtonState, Info]:
            if self._round_over(state):
                severely = self._overfitted(state, SEVERELY)
                state = state._replace(batch=rows.of(state.batch, descending=False))
                renewed = resampling.of(state, self.candidates if severely else AT_ONCE)
                state = restarted(state._replace(batch={}))._replace(batch=renewed)
            remaining = self._steps_remaining(state, clock)
            if remaining < self.acceptance.descent and state.exploring:
                state = state._replace(pace=state.pace.restarted(CONTRACTION))
            block, joined = self._block(state, remaining), False
            if rows and rows.in_batch(state.batch) == state.exploring:
                joined = not state.exploring
                state = state._replace(batch=rows.of(state.batch, descending=joined))
            steps, before = program(rows.in_batch(state.batch)), state.params
            with threads.blas_threads():
                state = on_every_device(state, setup.mesh)
                state = _timed(steps(), state, known, 1 if joined else block)
            threads.took(float(state.step_seconds))
            if joined and float(state.pace.contraction) == CONTRACTION:
                # No step was short enough: the damping that few rows have let fall is no guess for
                # more of them.
                state = state._replace(params=before, damping=jnp.zeros_like(state.damping))
            if rows:
                program(True)  # compiled while it explores
            resampling.compile_ahead(state)
            if not np.isfinite(float(state.loss)):
                raise LcpinnError(problem.describe_nonfinite(state.params, state.batch))
            # Without the rows, whose number would make it another program.
            state = validated(state._replace(batch={}), unseen())._replace(batch=state.batch)
            over = int(state.step) >= LOOKS or self._stopped(state, clock) is not None
            if over and not np.isfinite(float(state.held_out.best)):
                # Never finite: no parameters can be told from any others by these rows.
                raise LcpinnError(problem.describe_nonfinite(state.params, held_out))
            return state, self._info(state, clock)

        def stopped(state: GaussNewtonState, info: Info) -> Stop | None:
            return self._stopped(state, clock)

        def finish(state: GaussNewtonState) -> tuple[Params, str]:
            return state.best, self._conclusion(state)

        return Stage(self.steps, init, advance, stopped, finish)

    # Rounds.

    def _steps_remaining(self, state: GaussNewtonState, clock: Clock) -> float:
        """By their number and by the clock; one more in any case."""
        remaining, each = float(self.steps - int(state.step)), float(state.step_seconds)
        return min(remaining, max(clock.remaining() / each, 1.0)) if each else remaining

    def _block(self, state: GaussNewtonState, remaining: float) -> int:
        """Steps of the next call: one at first, which tells how long it takes."""
        step = int(state.step)
        return min(self.block - step % self.block if step else 1, round(remaining))

    def _info(self, state: GaussNewtonState, clock: Clock) -> Info:
        info: Info = {
            "loss": state.loss,
            "validation": state.held_out.current,
            "damping": state.damping,
            "round": state.round + 1,
        }
        return (
            info if self.seconds is None else {**info, "seconds_left": max(clock.remaining(), 0.0)}
        )

    def _stopped(self, state: GaussNewtonState, clock: Clock) -> Stop | None:
        step, rounds = int(state.step), int(state.round) + 1
        if step >= self.steps:
            return Stop(StopReason.STEPS, f"{self.steps} steps done")
        if clock.remaining() < 0:
            text = f"the time is up ({self.seconds:g} s) after {step} steps"
            return Stop(StopReason.TIME, text)
        if state.at_rounding and self._round_over(state):
            text = f"nothing but rounding is left after {step} steps"
            return Stop(StopReason.ROUNDING, text)
        held_out = state.held_out
        useless = float(held_out.current) > NO_GAIN * float(held_out.stagnated)
        last = useless or rounds >= self.rounds or not self._overfitted(state)
        if last and self._stagnated(state):
            return Stop(StopReason.STAGNATION, f"stagnated after {step} steps, {rounds} rounds")
        return None

    def _conclusion(self, state: GaussNewtonState) -> str:
        best = f"held-out loss {float(state.held_out.best):.2e}"
        if state.at_rounding or not self._overfitted(state, MISSED):
            return best
        return f"{best}, more than {MISSED:g} times that of the rows, which miss something thin"

    def _round_over(self, state: GaussNewtonState) -> bool:
        judged = np.isfinite(np.asarray(state.pace.history)[0]) and not state.exploring
        return self._stagnated(state) or bool(judged and self._overfitted(state))

    def _overfitted(self, state: GaussNewtonState, factor: float | None = None) -> bool:
        """Whether these rows are fitted better than others, so that others would help."""
        resampling, factor = "interior" in state.batch, factor or self.overfit
        return resampling and float(state.held_out.current) > factor * float(state.loss)

    def _stagnated(self, state: GaussNewtonState) -> bool:
        """Whether the last steps together gained too little to go on with these rows."""
        if float(state.damping) > LARGEST_DAMPING:
            return True
        history = np.asarray(state.pace.history)
        return bool(np.isfinite(history[0]) and history[-1] > (1 - self.tolerance) * history[0])

    def solver_here(self) -> str:
        if self.solver != "auto":
            return self.solver
        return "qr" if jax.default_backend() == "cpu" else "two-level"

    # As a part of a protocol.

    @property
    def shapes_vary(self) -> bool:
        return self.descent_rows > 0  # a descent has more rows than an exploration

    def shrunk(self) -> GaussNewton:
        few = replace(self.sampling, interior=48, face=16)
        small = replace(self, sampling=few, steps=4, block=4, dampings=3, seconds=None)
        return replace(small, descent_rows=min(self.descent_rows, 48))

    def shortened(self, seconds: float) -> GaussNewton:
        return (
            self
            if self.seconds is None
            else replace(self, seconds=max(self.seconds - seconds, 1.0))
        )

    def budget(self) -> tuple[str, float]:
        return ("steps", self.steps) if self.seconds is None else ("seconds", self.seconds)

    def points(self, sampling: Sampling | None) -> Sampling | None:
        del sampling
        return self.sampling


def _check_weighting(setup: Setup, batch: Batch) -> None:
    memory = setup.weighting.init(setup.problem.family, batch, jax.random.PRNGKey(0))
    if jax.tree.leaves(memory):
        kind = type(setup.weighting).__name__
        raise LcpinnError(f"Gauss-Newton weighs rows by a fixed rule; {kind} learns its weights")


def _measure(
    self: GaussNewton, setup: Setup, params: Params, batch: Batch
) -> tuple[RowScales, Array]:
    """The rows' scales at a start, and the loss there."""
    if self.equilibrated:
        scales = row_scales(setup.problem, setup.weighting, params, spread(batch, setup.mesh))
    else:
        scales = no_scales(setup.problem, batch)
    return scales, jnp.sum(setup.equilibrated_rows(params, batch, scales) ** 2)


def _timed(
    program: Callable[..., GaussNewtonState], state: GaussNewtonState, known: KnownSeries, num: int
) -> GaussNewtonState:
    """So many steps, and in the state how long each took."""
    before, batch = int(state.step), state.batch
    given = state._replace(batch=known.of(batch))
    began = time.monotonic()
    state = jax.block_until_ready(program(given, np.asarray(num, np.int32)))
    seconds = agreed((time.monotonic() - began) / max(int(state.step) - before, 1))
    each = jnp.asarray(seconds, state.step_seconds.dtype)
    return state._replace(batch=batch, step_seconds=each)


def _run(self: GaussNewton, setup: Setup, state: GaussNewtonState, num: Array) -> GaussNewtonState:
    """`num` steps on the state's rows; less when the round has stagnated."""
    theta, unravel = ravel_pytree(state.params)
    scale, solver = equilibrating(setup.problem, state.scales), self.solver_here()
    system = RowSystem(setup.problem, setup.weighting, unravel, state.batch, scale, setup.mesh)

    def step(carry: Carry) -> Carry:
        theta, damping, _, pace, count = carry
        taken = levenberg_marquardt_step(
            system.rows,
            lambda v: system.linearised(v, solver),
            theta,
            damping,
            self.acceptance,
            num=self.dampings,
            solver=solver,
            radius=pace.next_radius,
            contraction=pace.contraction,
        )
        pace = self.acceptance.paced(pace, taken, state.initial_loss)
        return taken.theta, taken.damping, taken.loss, pace, count + 1

    def going(carry: Carry) -> Array:
        _, damping, _, pace, count = carry
        first, last = pace.history[0], pace.history[-1]
        gained = (last <= (1 - self.tolerance) * first) | ~jnp.isfinite(first)
        on = (count < num) & (damping <= LARGEST_DAMPING) & gained
        return on & (pace.exploring == state.pace.exploring) if self.descent_rows else on

    begin = (theta, state.damping, state.loss, state.pace, jnp.zeros((), jnp.int32))
    theta, damping, loss, pace, count = jax.lax.while_loop(going, step, begin)
    return state._replace(
        params=unravel(theta), damping=damping, loss=loss, pace=pace, step=state.step + count
    )


def _validated(setup: Setup, state: GaussNewtonState, held_out: Batch) -> GaussNewtonState:
    """Keep the parameters with the lowest loss on rows that no step has seen."""
    current = jnp.sum(setup.equilibrated_rows(state.params, held_out, state.scales) ** 2)
    better = current < state.held_out.best
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), state.params, state.best)
    lowest = jnp.minimum(current, state.held_out.best)
    return state._replace(best=best, held_out=state.held_out._replace(current=current, best=lowest))


def _restarted(self: GaussNewton, state: GaussNewtonState) -> GaussNewtonState:
    """The state in which a round begins."""
    history = state.pace.history
    stagnated = history[-1] > (1 - self.tolerance) * history[0]
    last = jnp.where(stagnated, state.held_out.current, state.held_out.stagnated)
    return state._replace(
        round=state.round + 1,
        pace=state.pace.restarted(float(self.acceptance.explores)),
        held_out=state.held_out._replace(stagnated=last),
        damping=jnp.clip(state.damping, max=1e-2) * 10,
    )
