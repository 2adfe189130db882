"""Rounds of Gauss-Newton: the programs of a run, its rows and its clock.

When a round is over, and when the run is, is said by the spec (gauss_newton.py); what a step does,
by levenberg_marquardt.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from lcpinn.compilation import compiler_options, in_background
from lcpinn.devices import agreed, on_every_device, spread
from lcpinn.equilibration import RowScales, equilibrating, no_scales, row_scales
from lcpinn.errors import LcpinnError
from lcpinn.known_series import KnownSeries
from lcpinn.network.mlp import Params
from lcpinn.nonfinite import describe_nonfinite
from lcpinn.optimiser.acceptance import Pace
from lcpinn.optimiser.clock import Clock
from lcpinn.optimiser.descent_rows import DescentRows
from lcpinn.optimiser.levenberg_marquardt import levenberg_marquardt_step
from lcpinn.optimiser.linear_model import RowSystem
from lcpinn.optimiser.resampling import AT_ONCE, Resampling
from lcpinn.optimiser.stage import Info, Setup, Stop
from lcpinn.rows import check_one_point_per_lambda
from lcpinn.sampling import Batch
from lcpinn.threads import ThreadTrial

if TYPE_CHECKING:
    from lcpinn.optimiser.gauss_newton import GaussNewton

ROUNDING = 1e-26  # of the loss at the start: 1e-13 of the residual
LARGEST_DAMPING = 1e12
LOOKS = 30  # steps after which held-out rows should have been finite once
Carry = tuple[Array, Array, Array, Pace, Array]  # of the loop over steps


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


class Rounds:
    """A run of `how` on one problem."""

    def __init__(self, how: GaussNewton, setup: Setup):
        self.how, self.setup = how, setup
        self.held_out = setup.fixed(setup.held_out)
        _check_weighting(setup, self.held_out)
        self.batch = setup.fixed(how.sampling)
        check_one_point_per_lambda(self.batch)
        self.rows = DescentRows(how.sampling, how.descent_rows, setup, self.batch)
        self.known = KnownSeries(setup.problem, setup.mesh)
        self.resampling = Resampling(setup, self.known, how.resample)
        self.clock = Clock(how.seconds, setup.spent)
        self.threads = ThreadTrial(how.seconds is not None)
        self._options = compiler_options()
        self._steps: dict[bool, Callable[[], Any]] = {}  # by whether they are those of a descent
        jit = partial(setup.jit, compiler_options=self._options)
        self._measure = setup.jit(partial(_measure, how, setup))
        self._measuring: list[Callable[..., Any]] = []  # that program, once it is compiled
        self._restarted = jit(partial(_restarted, how))
        self._validated = jit(partial(_validated, setup))

    def init(self, params: Params, key: Array) -> GaussNewtonState:
        self.clock.start()
        self._program(descending=False)
        params = on_every_device(params, self.setup.mesh)
        return on_every_device(self._first(params, key, *self._measured(params)), self.setup.mesh)

    def advance(self, state: GaussNewtonState) -> tuple[GaussNewtonState, Info]:
        if self.how.round_over(state):
            state = self._next_round(state)
        remaining = self._steps_remaining(state)
        if remaining < self.how.acceptance.descent and state.exploring:
            state = state._replace(pace=self.how.acceptance.contracted(state.pace))
        state = self._stepped(state, self._block(state, remaining))
        self.resampling.compile_ahead(state)
        problem = self.setup.problem
        if not np.isfinite(float(state.loss)):
            raise LcpinnError(describe_nonfinite(problem, state.params, state.batch))
        # Without the rows, whose number would make it another program.
        bare = self._validated(state._replace(batch={}), self._unseen)
        state = bare._replace(batch=state.batch)
        over = int(state.step) >= LOOKS or self.stopped(state, {}) is not None
        if over and not np.isfinite(float(state.held_out.best)):
            # Never finite: no parameters can be told from any others by these rows.
            raise LcpinnError(describe_nonfinite(problem, state.params, self.held_out))
        return state, self._info(state)

    def stopped(self, state: GaussNewtonState, info: Info) -> Stop | None:
        del info
        return self.how.stopped(state, self.clock)

    def finish(self, state: GaussNewtonState) -> tuple[Params, str]:
        return state.best, self.how.conclusion(state)

    # Parts of an advance.

    def _next_round(self, state: GaussNewtonState) -> GaussNewtonState:
        """The state with rows where the residual is large."""
        num = self.how.candidates if self.how.severely_overfitted(state) else AT_ONCE
        state = state._replace(batch=self.rows.of(state.batch, descending=False))
        renewed = self.resampling.of(state, num)
        return self._restarted(state._replace(batch={}))._replace(batch=renewed)

    def _stepped(self, state: GaussNewtonState, num: int) -> GaussNewtonState:
        """So many steps, on more rows where an exploration is over."""
        rows, joined = self.rows, False
        if rows and rows.in_batch(state.batch) == state.exploring:
            joined = not state.exploring
            state = state._replace(batch=rows.of(state.batch, descending=joined))
        steps, before = self._program(descending=rows.in_batch(state.batch)), state
        with self.threads.blas_threads():
            state = on_every_device(state, self.setup.mesh)
            state = _timed(steps(), state, self.known, 1 if joined else num)
        self.threads.took(float(state.step_seconds))
        if joined and float(state.pace.contraction) == float(before.pace.contraction):
            # No step was short enough: the damping that few rows have let fall is no guess for
            # more of them.
            state = state._replace(params=before.params, damping=jnp.zeros_like(state.damping))
        if rows:
            self._program(descending=True)  # compiled while it explores
        return state

    def _steps_remaining(self, state: GaussNewtonState) -> float:
        """By their number and by the clock; one more in any case."""
        remaining, each = float(self.how.steps - int(state.step)), float(state.step_seconds)
        return min(remaining, max(self.clock.remaining() / each, 1.0)) if each else remaining

    def _block(self, state: GaussNewtonState, remaining: float) -> int:
        """Steps of the next call: one at first, which tells how long it takes."""
        step, block = int(state.step), self.how.block
        return min(block - step % block if step else 1, round(remaining))

    def _info(self, state: GaussNewtonState) -> Info:
        info: Info = {
            "loss": state.loss,
            "validation": state.held_out.current,
            "damping": state.damping,
            "round": state.round + 1,
        }
        if self.how.seconds is not None:
            info["seconds_left"] = max(self.clock.remaining(), 0.0)
        return info

    # Programs and what they are given.

    def _first(
        self, params: Params, key: Array, scales: RowScales, loss: Array
    ) -> GaussNewtonState:
        dtype = self.setup.problem.dtype
        infinite = jnp.asarray(jnp.inf, dtype)
        return GaussNewtonState(
            params=params,
            batch=self.batch,
            scales=scales,
            initial_loss=loss,
            damping=jnp.zeros((), dtype),
            loss=infinite,
            pace=Pace(
                jnp.asarray(self.how.radius, dtype),
                jnp.asarray(float(self.how.acceptance.explores), dtype),
                jnp.full(self.how.patience, jnp.inf, dtype),
            ),
            best=params,
            held_out=HeldOut(infinite, infinite, infinite),
            step_seconds=jnp.zeros(()),
            round=jnp.zeros((), jnp.int32),
            step=jnp.zeros((), jnp.int32),
            key=key,
        )

    @cached_property
    def _like(self) -> GaussNewtonState:
        """The shapes of a state."""
        key = jax.random.PRNGKey(0)
        params = jax.eval_shape(self.setup.problem.init, key)
        measures = jax.eval_shape(self._measure, params, self.known.of(self.batch))
        return jax.eval_shape(self._first, params, key, *measures)

    @cached_property
    def _unseen(self) -> Batch:
        """The held-out rows."""
        return on_every_device(self.known.of(self.held_out), self.setup.mesh)

    def _program(self, *, descending: bool) -> Callable[[], Any]:
        """Many steps, compiled in the background from the first call on."""
        if descending not in self._steps:
            batch = self.rows.joined(self.batch) if descending else self.batch
            steps = self.setup.jit(
                partial(_run, self.how, self.setup), compiler_options=self._options
            )
            like = self._like._replace(batch=self.known.of(batch))
            num = jax.ShapeDtypeStruct((), jnp.int32)
            lowered = steps.lower(*self.setup.like((like, num)))
            self._steps[descending] = in_background(lowered)
        return self._steps[descending]

    def _measured(self, params: Params) -> tuple[RowScales, Array]:
        """The scales and the loss, by the trace that the shapes of the steps come from."""
        given = (params, self.known.of(self.batch))
        if not self._measuring:
            lowered = self._measure.lower(*given)
            self._measuring.append(lowered.compile(compiler_options(once=True)))
        return self._measuring[0](*given)


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
