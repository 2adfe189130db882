"""Damped Gauss-Newton on all rows at once: the library's default optimiser.

The loss is a sum of squared rows, so a step solves the linearised least-squares problem. A whole
grid of dampings is tried at every step from one factorisation (damping.py), and one of the
candidates is taken (acceptance/), which lets the damping collapse early; that, and not the linear
algebra alone, is what makes it fast. This file says when a round is over: stagnation, overfitting;
rounds.py runs them.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from lcpinn.errors import check_choice
from lcpinn.optimiser.acceptance import Acceptance, GainRatio
from lcpinn.optimiser.clock import Clock
from lcpinn.optimiser.damping import SOLVERS
from lcpinn.optimiser.rounds import LARGEST_DAMPING, GaussNewtonState, Rounds
from lcpinn.optimiser.stage import Phase, Setup, Stage, Stop, StopReason
from lcpinn.sampling import Sampling
from lcpinn.spec import spec

NO_GAIN = 0.7  # of the held-out loss at the last stagnation: above it resampling did not help
# The ratio of held-out losses to those of rows from which on few candidates for new rows are too
# few: what is large lies between them.
SEVERELY = 10.0
MISSED = 100.0  # the same ratio at the end, from which on it is said


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
    the lowest loss on held-out rows are the result. A round that gets to ROUNDING times the first
    loss is the last one: nothing is left of the residual but rounding. One that explored ends there
    as soon as its trust region has contracted.

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
        run = Rounds(self, setup)
        return Stage(self.steps, run.init, run.advance, run.stopped, run.finish)

    # When a round is over, and a run.

    def stopped(self, state: GaussNewtonState, clock: Clock) -> Stop | None:
        step, rounds = int(state.step), int(state.round) + 1
        if step >= self.steps:
            return Stop(StopReason.STEPS, f"{self.steps} steps done")
        if clock.remaining() < 0:
            text = f"the time is up ({self.seconds:g} s) after {step} steps"
            return Stop(StopReason.TIME, text)
        if state.at_rounding and (self.round_over(state) or self._has_contracted(state)):
            text = f"nothing but rounding is left after {step} steps"
            return Stop(StopReason.ROUNDING, text)
        held_out = state.held_out
        useless = float(held_out.current) > NO_GAIN * float(held_out.stagnated)
        last = useless or rounds >= self.rounds or not self._overfitted(state)
        if last and self._stagnated(state):
            return Stop(StopReason.STAGNATION, f"stagnated after {step} steps, {rounds} rounds")
        return None

    def _has_contracted(self, state: GaussNewtonState) -> bool:
        """Whether the loss is down at the model loss after exploring: a descent adds little."""
        return self.acceptance.explores and float(state.pace.contraction) == 0

    def conclusion(self, state: GaussNewtonState) -> str:
        best = f"held-out loss {float(state.held_out.best):.2e}"
        if state.at_rounding or not self._overfitted(state, MISSED):
            return best
        return f"{best}, more than {MISSED:g} times that of the rows, which miss something thin"

    def round_over(self, state: GaussNewtonState) -> bool:
        judged = np.isfinite(np.asarray(state.pace.history)[0]) and not state.exploring
        return self._stagnated(state) or bool(judged and self._overfitted(state))

    def _overfitted(self, state: GaussNewtonState, factor: float | None = None) -> bool:
        """Whether these rows are fitted better than others, so that others would help."""
        resampling, factor = "interior" in state.batch, factor or self.overfit
        return resampling and float(state.held_out.current) > factor * float(state.loss)

    def severely_overfitted(self, state: GaussNewtonState) -> bool:
        return self._overfitted(state, SEVERELY)

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
