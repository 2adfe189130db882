"""L-BFGS on frozen points: the paper's finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import Params
from lcpinn.nonfinite import describe_nonfinite
from lcpinn.optimiser import line_search
from lcpinn.optimiser.line_search import Search
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, StopReason, keep, objective
from lcpinn.sampling import Batch
from lcpinn.spec import spec


class Pairs(NamedTuple):
    """The last steps s and changes y of the gradient, oldest first, each pair scaled to s·y = 1.

    Rows that are not filled yet are zero, and precede the others.
    """

    steps: Float[Array, "m p"]
    changes: Float[Array, "m p"]
    upper: Float[Array, "m m"]  # s_i · y_j for i <= j
    squares: Float[Array, "m m"]  # y_i · y_j


class LBFGSState(NamedTuple):
    """Where a run stands; `stalled` counts searches in a row that gained nothing.

    A step is a whole line search, which takes one or more evaluations.
    """

    params: Params
    pairs: Pairs
    key: Array
    weighting: Any  # the weighting's own state, which stays as it is
    step: Array
    evaluations: Array
    stalled: Array
    loss: Array
    slope: Float[Array, " p"]
    gradient: Array  # the norm of the slope


@spec
class LBFGS(Phase):
    """Liu and Nocedal (1989) with a line search for the strong Wolfe conditions.

    It needs a deterministic objective, so points and lambdas are frozen; with `redraw`, a number of
    steps after each of which lambda is drawn anew, the curvature that was seen is kept. `weighted`
    goes on with the weights that the phase before ended with, where the weighting has learnt any.

    Where a search gains nothing (in single precision rounding is enough for that), it begins again
    with steepest descent, from steps ten times shorter each time. It stops when the gradient
    vanishes, when `patience` searches in a row have gained nothing, or after so many `evaluations`
    (without a number: as many as the steps take), and says which. With `redraw`, what gains nothing
    any more goes on with the next draw: the steps until then are not taken.
    """

    steps: int = 1_500
    memory: int = 20
    evaluations: int | None = None
    gradient_tolerance: float = 0.0
    patience: int = 10
    block: int = 50
    redraw: int = 0
    weighted: bool = False

    def build(self, setup: Setup) -> Stage:
        frozen = None if self.redraw else setup.fixed(setup.quadrature)

        def batch_of(key: Array, step: Array) -> Batch:
            if frozen is not None:
                return frozen
            return setup.draw(jax.random.fold_in(key, step // self.redraw), setup.quadrature)

        def init(params: Params, key: Array) -> LBFGSState:
            step = jnp.zeros((), jnp.int32)
            weighting = setup.weighting.init(setup.problem.family, batch_of(key, step), key)
            flat, _ = ravel_pytree(params)
            state = LBFGSState(
                params=params,
                pairs=no_pairs(self.memory, flat),
                key=key,
                weighting=weighting,
                step=step,
                evaluations=step,
                stalled=step,
                loss=jnp.zeros((), flat.dtype),
                slope=jnp.zeros_like(flat),
                gradient=jnp.zeros((), flat.dtype),
            )
            return measured(state)

        def adopt(state: LBFGSState, weighting: Any) -> LBFGSState:
            return measured(state._replace(weighting=weighting)) if self.weighted else state

        def losses(state: LBFGSState) -> Callable[[Params], tuple[Array, dict[str, Array]]]:
            memory = state.weighting if self.weighted else None
            return objective(setup, batch_of(state.key, state.step), memory)

        def measured(state: LBFGSState) -> LBFGSState:
            """The loss and its slope on the batch of this step."""
            value = losses(state)
            loss, slope = jax.value_and_grad(lambda p: value(p)[0])(state.params)
            flat, _ = ravel_pytree(slope)
            return state._replace(loss=loss, slope=flat, gradient=jnp.linalg.norm(flat))

        def run(state: LBFGSState) -> tuple[LBFGSState, Info]:
            if self.redraw:
                stalls = state.stalled >= self.patience
                step = jnp.where(stalls, self._next_draw(state), state.step)
                state = state._replace(step=step, stalled=jnp.where(stalls, 0, state.stalled))
            end = jnp.minimum(state.step + self.block, self.steps)
            if self.redraw:
                end = jnp.minimum(end, self._next_draw(state))
                state = measured(state)
            value = losses(state)
            evaluated = lambda carry: one_evaluation(lambda p: value(p)[0], *carry)

            def going(carry: tuple[LBFGSState, Search]) -> Array:
                state, _ = carry
                return (state.step < end) & _is_finite(state) & ~self._over(state)

            state, _ = jax.lax.while_loop(going, evaluated, (state, next_search(state)))
            return state, {"loss": state.loss, "terms": value(state.params)[1]}

        compiled = setup.jit(run)

        def advance(state: LBFGSState) -> tuple[LBFGSState, Info]:
            state, info = compiled(state)
            if not bool(_is_finite(state)):
                raise LcpinnError(diagnose(state))
            return state, info

        def diagnose(state: LBFGSState) -> str:
            return describe_nonfinite(setup.problem, state.params, batch_of(state.key, state.step))

        init, adopt = setup.jit(init), setup.jit(adopt)
        functions = (init, advance, self._stopped, keep, run, diagnose)
        return Stage(self.steps, *functions, adopt=adopt)

    def _next_draw(self, state: LBFGSState) -> Array:
        """The step at which lambda is drawn anew."""
        return (state.step // self.redraw + 1) * self.redraw

    def _over(self, state: LBFGSState) -> Array:
        flat = state.gradient <= self.gradient_tolerance
        over = flat | (state.stalled >= self.patience)
        return over if self.evaluations is None else over | (state.evaluations >= self.evaluations)

    def _stopped(self, state: LBFGSState, info: Info) -> Stop | None:
        step, gradient, after = int(state.step), float(state.gradient), int(state.evaluations)
        if not bool(_is_finite(state)):
            return None  # which `advance` reports
        if gradient <= self.gradient_tolerance:
            text = f"gradient {gradient:.1e} within tolerance after {step} steps"
            return Stop(StopReason.GRADIENT, text)
        last = not self.redraw or int(self._next_draw(state)) >= self.steps
        if int(state.stalled) >= self.patience and last:
            draw = f", draw {step // self.redraw + 1}" if self.redraw else ""
            how = f"after {step} steps{draw}, {after} evaluations"
            text = f"no decrease left in {np.asarray(state.loss).dtype} {how}"
            return Stop(StopReason.PRECISION, text)
        if step >= self.steps:
            return Stop(StopReason.STEPS, f"{self.steps} steps done, {after} evaluations")
        if self.evaluations is not None and after >= self.evaluations:
            text = f"{after} evaluations done in {step} steps"
            return Stop(StopReason.STEPS, text)
        return None

    @property
    def mappable(self) -> bool:
        return True

    def shrunk(self) -> LBFGS:
        return replace(self, steps=4, block=4)

    def scaled(self, share: float) -> LBFGS:
        steps = max(1, round(share * self.steps))
        most = None if self.evaluations is None else max(1, round(share * self.evaluations))
        return replace(self, steps=steps, evaluations=most, block=min(self.block, steps))


# -- A step ----------------------------------------------------------------------------------------


def next_search(state: LBFGSState) -> Search:
    """Along the quasi-Newton direction, or along the slope where that fails.

    From the step's own length: one that rounding cut short says nothing about the next.
    """
    downhill = -times_inverse_hessian(state.pairs, state.slope)
    is_descent = downhill @ state.slope < -1e-4 * jnp.linalg.norm(downhill) * state.gradient
    shorter = 0.1 ** jnp.maximum(state.stalled - 1, 0).astype(downhill.dtype)
    steepest = -state.slope * jnp.minimum(1, 1 / state.gradient) * shorter
    direction = jnp.where(is_descent & (state.stalled == 0), downhill, steepest)
    return line_search.begin(state.loss, state.slope, direction)


def one_evaluation(
    loss: Callable[[Params], Array], state: LBFGSState, search: Search
) -> tuple[LBFGSState, Search]:
    """The search goes on with one evaluation more; where it ends, the next one begins."""
    flat, unravel = ravel_pytree(state.params)
    along = flat + search.length * search.direction
    value, slope = jax.value_and_grad(lambda vector: loss(unravel(vector)))(along)
    state = state._replace(evaluations=state.evaluations + 1)
    search = line_search.told(search, value, slope)

    def ended() -> tuple[LBFGSState, Search]:
        after = searched(state, search)
        return after, next_search(after)

    return jax.lax.cond(search.over, ended, lambda: (state, search))


def searched(state: LBFGSState, search: Search) -> LBFGSState:
    """Where a line search led to; where it gained nothing, what curvature was seen is forgotten."""
    flat, unravel = ravel_pytree(state.params)
    moved, best = search.low.length * search.direction, search.low
    gained = best.loss < state.loss
    change = search.gradient - state.slope
    kept = gained & is_curved(moved, change)
    pairs = with_pair(state.pairs, moved, change)
    fresh = no_pairs(len(state.pairs.upper), flat)
    choose = lambda first, other, old: jnp.where(kept, first, jnp.where(gained, other, old))
    slope = jnp.where(gained, search.gradient, state.slope)
    return state._replace(
        params=unravel(jnp.where(gained, flat + moved, flat)),
        pairs=jax.tree.map(choose, pairs, state.pairs, fresh),
        step=state.step + 1,
        stalled=jnp.where(gained, 0, state.stalled + 1),
        loss=jnp.where(gained, best.loss, state.loss),
        slope=slope,
        gradient=jnp.linalg.norm(slope),
    )


# -- The inverse Hessian -------------------------------------------------------------------------


def no_pairs(memory: int, like: Float[Array, " p"]) -> Pairs:
    rows = jnp.zeros((memory, like.size), like.dtype)
    square = jnp.zeros((memory, memory), like.dtype)
    return Pairs(rows, rows, square, square)


def is_curved(step: Float[Array, " p"], change: Float[Array, " p"]) -> Array:
    """Whether a pair tells of positive curvature, beyond rounding."""
    size = jnp.linalg.norm(step) * jnp.linalg.norm(change)
    return step @ change > 10 * jnp.finfo(step.dtype).eps * size


def with_pair(pairs: Pairs, step: Float[Array, " p"], change: Float[Array, " p"]) -> Pairs:
    """The oldest pair out, this one in."""
    size = jnp.sqrt(jnp.maximum(step @ change, jnp.finfo(step.dtype).tiny))
    step, change = step / size, change / size
    steps = jnp.concatenate([pairs.steps[1:], step[None]])
    changes = jnp.concatenate([pairs.changes[1:], change[None]])
    zeros = jnp.zeros_like(pairs.upper).at[:-1, :-1]
    upper = zeros.set(pairs.upper[1:, 1:]).at[:, -1].set(steps @ change)
    across = changes @ change
    squares = zeros.set(pairs.squares[1:, 1:]).at[:, -1].set(across).at[-1].set(across)
    return Pairs(steps, changes, upper, squares)


def times_inverse_hessian(pairs: Pairs, vector: Float[Array, " p"]) -> Float[Array, " p"]:
    """H v in the compact form of Byrd, Nocedal and Schnabel (1994), theorem 2.2.

        H = γ I + S' R⁻ᵀ (I + γ Y Y') R⁻¹ S - γ S' R⁻ᵀ Y - γ Y' R⁻¹ S,    γ = 1 / y·y of the last

    with pairs as rows of S and Y, and R the upper triangle of S Y'. A few products of matrices
    where the usual recursion is a loop, which accelerators are slow at.
    """
    size = pairs.squares[-1, -1]
    gamma = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 1)
    empty = jnp.diag(pairs.upper) == 0
    triangle = jnp.triu(pairs.upper) + jnp.diag(empty.astype(vector.dtype))
    inner = solve_triangular(triangle, pairs.steps @ vector)
    across = inner + gamma * (pairs.squares @ inner - pairs.changes @ vector)
    outer = solve_triangular(triangle, across, trans=1)
    return gamma * (vector - inner @ pairs.changes) + outer @ pairs.steps


def _is_finite(state: LBFGSState) -> Array:
    """Whether a further step can be taken: one along a NaN would end in the parameters."""
    return jnp.isfinite(state.loss) & jnp.isfinite(state.gradient)
