"""Go back to where a phase started if it made things worse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.jet import Orders
from lcpinn.network.mlp import Params
from lcpinn.nonfinite import describe_nonfinite
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, held_out_loss
from lcpinn.sampling import Points, Sampling
from lcpinn.spec import spec


class RevertState(NamedTuple):
    """The inner phase's state, and where the phase started."""

    inner: Any
    start: Params

    @property
    def params(self) -> Params:
        return self.inner.params

    @property
    def step(self) -> Any:
        return self.inner.step


@spec
class RevertOnWorse(Phase):
    """Runs another phase; keeps its result only if the held-out objective did not rise.

    The comparison is of the training objective on a quadrature that the phase never saw, not of the
    error against a reference solution. `reference_settings` alone makes it one, of the mean error
    at so many settings of the coefficients: what the authors of the paper did, which is needed to
    reproduce their numbers and for nothing else.
    """

    phase: Phase
    reference_settings: int = 0

    def build(self, setup: Setup) -> Stage:
        inner = self.phase.build(setup)

        def init(params: Params, key: Array) -> RevertState:
            return RevertState(inner.init(params, key), params)

        def around(function: Callable[[Any], tuple[Any, Info]]):
            def wrapped(state: RevertState) -> tuple[RevertState, Info]:
                after, info = function(state.inner)
                return state._replace(inner=after), info

            return wrapped

        def stopped(state: RevertState, info: Info) -> Stop | None:
            return inner.stopped(state.inner, info)

        def finish(state: RevertState) -> tuple[Params, str]:
            params, note = inner.finish(state.inner)
            what, loss = "held-out objective", held_out_loss(setup)
            if self.reference_settings:
                what, loss = "error", reference_error(setup, self.reference_settings)
            before, after = loss(state.start), loss(params)
            if not (np.isfinite(before) or np.isfinite(after)):  # nothing can be compared
                batch = setup.fixed(setup.held_out)
                raise LcpinnError(describe_nonfinite(setup.problem, state.start, batch))
            change = f"{what} {before:.3e} -> {after:.3e}"
            if np.isfinite(after) and not after > before:
                return params, f"{note} {change}, kept".strip()
            return state.start, f"{note} {change}, reverted".strip()

        run = None if inner.run is None else around(inner.run)
        ask = inner.diagnose
        diagnose = None if ask is None else lambda state: ask(state.inner)
        draws = inner.upcoming
        upcoming = None if draws is None else lambda state: draws(state.inner)
        take = inner.adopt
        adopt = None
        if take is not None:
            adopt = lambda state, learnt: state._replace(inner=take(state.inner, learnt))
        functions = (init, around(inner.advance), stopped, finish, run, diagnose, upcoming)
        return Stage(inner.total, *functions, inner.facts, adopt=adopt)

    @property
    def mappable(self) -> bool:
        return self.phase.mappable

    @property
    def innermost(self) -> Phase:
        return self.phase.innermost

    def shrunk(self) -> RevertOnWorse:
        return replace(self, phase=self.phase.shrunk())

    def scaled(self, share: float) -> RevertOnWorse:
        return replace(self, phase=self.phase.scaled(share))

    def shortened(self, seconds: float) -> RevertOnWorse:
        return replace(self, phase=self.phase.shortened(seconds))

    def budget(self) -> tuple[str, float]:
        return self.phase.budget()

    def points(self, sampling: Sampling | None) -> Sampling | None:
        return self.phase.points(sampling)


def reference_error(setup: Setup, num_settings: int) -> Callable[[Params], float]:
    """The mean relative error against the family's truth, over equispaced coefficients."""
    from lcpinn.evaluation import evaluation_points  # which knows solutions, made of protocols

    problem, family = setup.problem, setup.problem.family
    prior, points = family.parameters, evaluation_points(family)
    settings = prior.grid(num_settings)
    truth = np.stack([np.asarray(family.truth(points, lam)) for lam in settings])
    weights = np.zeros((len(settings), 0))
    if family.weights is not None:
        weights = family.weights.sobol(len(settings))
    zeros = np.zeros((len(settings), len(points)))
    every = np.broadcast_to(points, (len(settings), *points.shape))
    arrays = (every, settings, weights, zeros, zeros[..., None])
    batch = Points(*(jnp.asarray(a, problem.dtype) for a in arrays))
    orders = Orders.closure((), family.domain.dim)
    at = jax.jit(lambda params, points: problem.outputs(params, points, orders)[0])
    values = setup.programs.setdefault("at the reference", at)  # one for all members of a batch

    def error(params: Params) -> float:
        gap = np.asarray(values(params, batch), np.float64) - truth
        return float(np.mean(np.linalg.norm(gap, axis=1) / np.linalg.norm(truth, axis=1)))

    return error
