"""Damped Gauss-Newton on all rows at once: the library's default optimiser.

The loss is a sum of squared rows, so a step solves the linearised least-squares problem. A whole
ladder of damping values is tried at every step and the boldest trustworthy one is taken, which
lets the damping collapse early; that, and not the linear algebra alone, is what makes it fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from lcpinn.batch import Batch, Points, Sampling, scatter
from lcpinn.compilation import in_background
from lcpinn.domain import redraw
from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import Params
from lcpinn.optimiser.equations import row_scales, rows_and_jacobian, scaled_rows
from lcpinn.optimiser.ladder import ladder_step
from lcpinn.optimiser.stage import Info, Setup, Stage, State
from lcpinn.spec import spec
from lcpinn.threads import blas_threads

LARGEST_DAMPING = 1e12
ROAM = 1 / 3  # a roaming round has to lower what is within reach by this share
ROUNDING = 1e-26  # of the loss at the start: 1e-13 of the residual
DESCENT = 12  # steps that a roaming round needs to come down


@spec
class GaussNewton:
    """Levenberg-Marquardt steps chosen from a ladder of dampings.

    Rows lie on `rows` (interior and face rows in all, each with its own lambda). A round ends when
    `patience` steps together lower the loss by less than `tolerance`, or when the loss on rows that
    are held out exceeds that on its own by the factor `overfit`: the network has learnt its sample.
    The next round redraws a share of the interior rows, points and lambda alike, where the residual
    is large (RAD). It is over when a round settles and other rows would not help: its own have not
    been learnt by heart, or the round before settled as low. The parameters with the lowest loss on
    held-out rows are the result. No step is longer than `stride` times the parameters: a bold one
    that lowers the loss can still throw a network where its units oscillate or saturate, and
    nothing after it gets out of there. `solver` is one of lcpinn.optimiser.ladder, or `auto`: QR on
    a CPU, two-level Cholesky on an accelerator.

    With `roam` a round does not mind at first how high the loss is. Parameters that matter little
    have far to go, and the lower the loss, the narrower the curved valley that they must stay in:
    a descent that never rises reaches it early and crawls. What a roaming round lowers is the loss
    within reach, that which a step would leave if the rows were linear. The actual one is curvature
    of the last step for the most part, which the next removes, and all that limits a step is its
    stride. When `patience` steps no longer lower what is within reach by a third, or the time or
    the steps are nearly up, the round descends there in a handful of steps.

    With `slack` instead a step may raise the loss by up to so many times, all along: the same idea
    with less of it, and `patience` has to outlast the time before the loss falls.

    A loss of ROUNDING times the first one is the end: nothing is left of the residual but rounding.

    With `early` the first round sees only so many rows for every parameter, a part of all of them;
    when it has learnt these, or settled, the others join. Fewer than one are steps in sample space.
    """

    rows: Sampling = Sampling(interior=1600, face=200, num_lambda=1, rule="collocation")
    steps: int = 400
    rounds: int = 20
    redraw: float = 0.5
    overfit: float = 2.0
    solver: str = "auto"
    ladder: int = 9
    threshold: float = 0.1
    stride: float = 0.1
    slack: float = 0.0
    roam: bool = False
    corrections: int = 2
    patience: int = 6
    tolerance: float = 0.05
    seconds: float | None = None
    block: int = 5
    early: float = 0.0

    def build(self, setup: Setup) -> Stage:
        deadline = None if self.seconds is None else time.monotonic() + self.seconds
        problem = setup.problem
        held_out = setup.fixed(setup.held_out)
        memory = setup.weighting.init(problem.family, held_out, jax.random.PRNGKey(0))
        if jax.tree.leaves(memory):
            kind = type(setup.weighting).__name__
            raise LcpinnError(
                f"Gauss-Newton weighs rows by a fixed rule; {kind} learns its weights"
            )
        measure = jax.jit(partial(_measure, setup))
        batch = setup.fixed(self.rows)
        few = self._few(setup, batch)

        def init(params: Params, key: Array) -> State:
            scales, first = measure(params, batch)
            return {
                "params": params,
                "batch": batch,
                "scales": scales,
                "first": first,
                "damping": jnp.zeros((), problem.dtype),  # zero: the first step chooses
                "loss": jnp.asarray(jnp.inf, problem.dtype),
                "recent": jnp.full(self.patience, jnp.inf, problem.dtype),  # lowest until then
                "best": params,
                "held_out": jnp.full((3,), jnp.inf, problem.dtype),  # now, best, last settled
                "early": jnp.asarray(bool(few)),
                "roaming": jnp.asarray(self.roam),
                "pace": jnp.zeros(()),  # seconds for a step
                "round": jnp.zeros((), jnp.int32),
                "step": jnp.zeros((), jnp.int32),
                "key": key,
            }

        run, begin = self._programs(setup, few, init)
        fresh = jax.jit(partial(_redraw, self, setup))
        compare = jax.jit(partial(_compare, setup, held_out))

        def advance(state: State) -> tuple[State, Info]:
            if self._round_over(state):
                state = _all_rows(self, state) if bool(state["early"]) else fresh(state)
            left, pace = float(self.steps - int(state["step"])), float(state["pace"])
            if deadline is not None and pace:
                left = min(left, max((deadline - time.monotonic()) / pace, 1.0))
            num = min(self.block, round(left))
            state = _descending(state) if left < DESCENT else state
            program = (begin if bool(state["early"]) else run)()
            with blas_threads():
                state, loss = _timed(program, state, num)
            if not np.isfinite(float(loss)):
                raise LcpinnError(problem.blame(state["params"], state["batch"]))
            state = compare(state)
            info = {
                "loss": loss,
                "validation": state["held_out"][0],
                "damping": state["damping"],
                "round": state["round"] + 1,
                "exact": _exact(state),
            }
            if deadline is not None:
                info["seconds_left"] = max(deadline - time.monotonic(), 0.0)
            return state, info

        def stopped(state: State, info: Info) -> str | None:
            step, held = int(state["step"]), np.asarray(state["held_out"])
            if step >= self.steps:
                return f"{self.steps} steps done"
            if deadline is not None and time.monotonic() > deadline:
                return f"the time is up ({self.seconds:g} s) after {step} steps"
            if _exact(state) and self._round_over(state):
                return f"nothing but rounding is left after {step} steps"
            if (
                not bool(state["early"])
                and self._settled(state)
                and (
                    held[0] > 0.7 * held[2]
                    or int(state["round"]) + 1 >= self.rounds
                    or not self._learnt(state)
                )
            ):
                return f"settled after {step} steps, {int(state['round']) + 1} rounds"
            return None

        def finish(state: State) -> tuple[Params, str]:
            return state["best"], f"held-out loss {float(state['held_out'][1]):.2e}"

        return Stage(self.steps, init, advance, stopped, finish)

    def _programs(
        self, setup: Setup, few: dict[str, int], init: Callable[[Params, Array], State]
    ) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """Steps on all rows and on a few, compiled while the first state is made."""
        key = jax.random.PRNGKey(0)
        like = jax.eval_shape(init, jax.eval_shape(setup.problem.init, key), key)
        num = jax.ShapeDtypeStruct((), jnp.int32)

        def program(few: dict[str, int]) -> Callable[[], Any]:
            steps = jax.jit(partial(_run, self, setup, few), compiler_options=_compiler_options())
            return in_background(steps.lower(like, num))

        first = program(few)
        return (program({}) if few else first), first

    def _few(self, setup: Setup, batch: Batch) -> dict[str, int]:
        """How many rows of every place an early step sees; none where that would save little."""
        num = {where: points.coordinates.shape[0] for where, points in batch.items()}
        shapes = jax.eval_shape(setup.problem.init, jax.random.PRNGKey(0))
        share = self.early * sum(leaf.size for leaf in jax.tree.leaves(shapes)) / sum(num.values())
        if not 0 < share < 0.5:
            return {}
        return {where: max(1, round(share * count)) for where, count in num.items()}

    def _round_over(self, state: State) -> bool:
        known = np.isfinite(np.asarray(state["recent"])[0]) and not bool(state["roaming"])
        return self._settled(state) or bool(known and self._learnt(state))

    def _learnt(self, state: State) -> bool:
        """Whether these rows have been learnt by heart, so that others would tell something new."""
        return float(state["held_out"][0]) > self.overfit * float(state["loss"])

    def _settled(self, state: State) -> bool:
        """Whether the last steps together gained too little to go on with these rows."""
        recent = np.asarray(state["recent"])
        if float(state["damping"]) > LARGEST_DAMPING:
            return True
        return bool(np.isfinite(recent[0]) and recent[-1] > (1 - self.tolerance) * recent[0])

    def solver_here(self) -> str:
        if self.solver != "auto":
            return self.solver
        return "qr" if jax.default_backend() == "cpu" else "two-level"


def _measure(setup: Setup, params: Params, batch: Batch) -> tuple[dict[str, Array], Array]:
    """The rows' scales at a start, and the loss there."""
    scales = row_scales(setup, params, batch)
    return scales, jnp.sum(scaled_rows(setup, params, batch, scales) ** 2)


def _exact(state: State) -> bool:
    """Whether nothing but rounding is left on rows that no step has seen."""
    return bool(state["held_out"][1] <= ROUNDING * state["first"])


def _compiler_options() -> dict[str, Any] | None:
    """Trying out matrix products while compiling takes longer than most trainings would gain."""
    return None if jax.default_backend() == "cpu" else {"xla_gpu_autotune_level": 0}


def _part(points: Points, num: int, key: Array) -> Points:
    """So many of the points, at random."""
    total = points.coordinates.shape[0]
    chosen = jax.random.permutation(key, total)[:num]
    part = jax.tree.map(lambda a: a[chosen], points)
    return part._replace(quadrature=part.quadrature * (total / num))


def _all_rows(self: GaussNewton, state: State) -> State:
    """The early steps are over: a round begins with all rows."""
    recent, roaming = jnp.full_like(state["recent"], jnp.inf), jnp.asarray(self.roam)
    return {**state, "early": jnp.zeros_like(state["early"]), "recent": recent, "roaming": roaming}


def _timed(
    program: Callable[..., tuple[State, Array]], state: State, num: int
) -> tuple[State, Array]:
    """So many steps, and in the state how long each took."""
    before, began = int(state["step"]), time.monotonic()
    state, loss = jax.block_until_ready(program(state, jnp.asarray(num, jnp.int32)))
    pace = (time.monotonic() - began) / max(int(state["step"]) - before, 1)
    return {**state, "pace": jnp.asarray(pace, state["pace"].dtype)}, loss


def _descending(state: State) -> State:
    """The time for roaming is over."""
    if not bool(state["roaming"]):
        return state
    recent = jnp.full_like(state["recent"], jnp.inf)
    return {**state, "roaming": jnp.zeros_like(state["roaming"]), "recent": recent}


def _run(
    self: GaussNewton, setup: Setup, few: dict[str, int], state: State, num: Array
) -> tuple[State, Array]:
    """`num` steps on the state's rows, or so many of them; less when the round has settled."""
    batch, scales = state["batch"], state["scales"]
    for where, count in few.items():
        batch = {**batch, where: _part(batch[where], count, state["key"])}
    flat, unravel = ravel_pytree(state["params"])

    def step(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        theta, damping, _, recent, roaming, count = carry
        taken = ladder_step(
            lambda v: scaled_rows(setup, unravel(v), batch, scales),
            lambda v: rows_and_jacobian(setup, unravel, v, batch, scales),
            theta,
            damping,
            num=self.ladder,
            threshold=self.threshold,
            stride=self.stride,
            slack=self.slack,
            roaming=roaming if self.roam else None,
            solver=self.solver_here(),
            corrections=self.corrections,
        )
        merit = jnp.where(roaming, taken.reachable, taken.loss)
        recent = jnp.append(recent[1:], jnp.minimum(recent[-1], merit))
        there = roaming & jnp.isfinite(recent[0]) & (recent[-1] > (1 - ROAM) * recent[0])
        recent = jnp.where(there, jnp.inf, recent)  # from here on it is the loss that counts
        return taken.theta, taken.damping, taken.loss, recent, roaming & ~there, count + 1

    def going(carry: tuple[Array, ...]) -> Array:
        _, damping, _, recent, _, count = carry
        gained = recent[-1] <= (1 - self.tolerance) * recent[0]
        return (count < num) & (damping <= LARGEST_DAMPING) & (gained | ~jnp.isfinite(recent[0]))

    begin = (flat, *(state[name] for name in ("damping", "loss", "recent", "roaming")))
    begin = (*begin, jnp.zeros((), jnp.int32))
    theta, damping, loss, recent, roaming, count = jax.lax.while_loop(going, step, begin)
    after = {
        **state,
        "params": unravel(theta),
        "damping": damping,
        "loss": loss,
        "recent": recent,
        "roaming": roaming,
        "step": state["step"] + count,
    }
    return after, loss


def _compare(setup: Setup, held_out: Batch, state: State) -> State:
    """Keep the parameters with the lowest loss on rows that no step has seen."""
    now = jnp.sum(scaled_rows(setup, state["params"], held_out, state["scales"]) ** 2)
    _, best, settled = state["held_out"]
    better = now < best
    kept = jax.tree.map(
        lambda new, old: jnp.where(better, new, old), state["params"], state["best"]
    )
    return {**state, "best": kept, "held_out": jnp.stack([now, jnp.minimum(now, best), settled])}


def _redraw(self: GaussNewton, setup: Setup, state: State) -> State:
    """Start a round: replace a share of the interior rows where candidates have large residuals."""
    family, dtype = setup.problem.family, setup.problem.dtype
    key = jax.random.fold_in(state["key"], state["round"])
    first, second = jax.random.split(key)
    points = state["batch"]["interior"]
    total = points.coordinates.shape[0]
    num = int(self.redraw * total)
    candidates = scatter(family, 4 * num, first, dtype)
    chosen = redraw(second, candidates.coordinates, _scores(setup, state, candidates), num)
    candidates = candidates._replace(quadrature=jnp.full((4 * num, 1), 1 / total, dtype))
    # The oldest rows stay: they are the even cover that keeps every region seen.
    renewed = jax.tree.map(
        lambda old, new: jnp.concatenate([old[: total - num], new[chosen]]), points, candidates
    )
    batch = {**state["batch"], "interior": renewed}
    settled = state["recent"][-1] > (1 - self.tolerance) * state["recent"][0]
    return {
        **state,
        "batch": batch,
        "round": state["round"] + 1,
        "roaming": jnp.full_like(state["roaming"], self.roam),
        "recent": jnp.full_like(state["recent"], jnp.inf),
        "held_out": state["held_out"]
        .at[2]
        .set(jnp.where(settled, state["held_out"][0], state["held_out"][2])),
        "damping": jnp.clip(state["damping"], max=1e-2) * 10,
    }


def _scores(setup: Setup, state: State, candidates: Points) -> Array:
    """The size of the scaled residual at every candidate."""
    alone = {"interior": candidates._replace(quadrature=jnp.ones_like(candidates.quadrature))}
    rows = scaled_rows(setup, state["params"], alone, state["scales"])
    return jnp.sqrt(jnp.sum(rows.reshape(-1, candidates.coordinates.shape[0]) ** 2, axis=0))
