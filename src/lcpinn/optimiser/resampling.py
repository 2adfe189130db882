"""New rows for a round: where the residual is large (RAD, Wu et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lcpinn.compilation import compiler_options, in_background
from lcpinn.domain import redraw
from lcpinn.equilibration import RowScales
from lcpinn.known_series import KnownSeries
from lcpinn.network.mlp import Params
from lcpinn.optimiser.stage import Setup
from lcpinn.sampling import Batch, Points, scatter

AT_ONCE = 4  # candidates for each new row whose residuals are computed together


class Round(Protocol):
    """What new rows depend on."""

    @property
    def params(self) -> Params: ...
    @property
    def batch(self) -> Batch: ...
    @property
    def scales(self) -> RowScales: ...
    @property
    def round(self) -> Array: ...
    @property
    def key(self) -> Array: ...


class Resampling:
    """Replaces the share `share` of the interior rows by points with large residuals."""

    def __init__(self, setup: Setup, known: KnownSeries, share: float):
        jit = partial(setup.jit, compiler_options=compiler_options())
        self.setup, self.known = setup, known
        self.drawn: Callable[..., Points] = jit(partial(_drawn, setup, share))
        self.scores: Callable[..., Array] = jit(partial(_scores, setup))
        self.renewed = jit(partial(_renewed, share))
        # On a CPU it would take the time of the steps; series are found outside of the programs.
        idle = jax.default_backend() != "cpu" and setup.mesh is None
        self.ahead = idle and not setup.problem.has_series

    def of(self, state: Round, num: int) -> Batch:
        """The rows of the next round, out of `num` candidates for each new one."""
        points, where = state.batch["interior"], (state.key, state.round)
        parts = [self.drawn(points, *where, np.int32(i)) for i in range(-(-num // AT_ONCE))]
        given = (state.params, state.scales)
        sizes = [self.scores(*given, self.known.of({"interior": part})) for part in parts]
        candidates = jax.tree.map(lambda *each: jnp.concatenate(each), *parts)
        chosen = self.renewed(points, *where, candidates, jnp.concatenate(sizes))
        return {**state.batch, "interior": chosen}

    def compile_ahead(self, state: Round) -> None:
        """Compile what the next round needs while an accelerator computes and cores are idle."""
        if not self.ahead or "interior" not in state.batch:
            return
        self.ahead = False
        points, where = state.batch["interior"], (state.key, state.round, np.int32(0))
        candidates = jax.eval_shape(self.drawn, points, *where)
        self.drawn = _compiled(self.drawn, points, *where)
        self.scores = _compiled(self.scores, state.params, state.scales, {"interior": candidates})


def _compiled(program: Any, *given: Any) -> Callable[..., Any]:
    waiting = in_background(program.lower(*given))
    return lambda *arguments: waiting()(*arguments)


def _drawn(
    setup: Setup, share: float, points: Points, key: Array, round: Array, part: Array
) -> Points:
    """Some interior points that the next round may take."""
    total, problem = points.coordinates.shape[0], setup.problem
    key = jax.random.fold_in(jax.random.fold_in(key, round), part)
    drawn = scatter(problem.family, AT_ONCE * int(share * total), key, problem.dtype)
    return drawn._replace(quadrature=jnp.full_like(drawn.quadrature, 1 / total))


def _scores(setup: Setup, params: Params, scales: RowScales, candidates: Batch) -> Array:
    """The size of the equilibrated residual at every candidate."""
    points = candidates["interior"]
    alone = {"interior": points._replace(quadrature=jnp.ones_like(points.quadrature))}
    rows = setup.equilibrated_rows(params, alone, scales)
    # One that is not finite is certainly drawn, so that the next step says where it is.
    rows = jnp.where(jnp.isfinite(rows), rows, jnp.finfo(rows.dtype).max ** 0.25)
    return jnp.sqrt(jnp.sum(rows.reshape(-1, points.coordinates.shape[0]) ** 2, axis=0))


def _renewed(
    share: float,
    points: Points,
    key: Array,
    round: Array,
    candidates: Points,
    scores: Float[Array, " c"],
) -> Points:
    """The rows, of which a share are candidates with large residuals."""
    total = points.coordinates.shape[0]
    num = int(share * total)
    chosen = redraw(jax.random.fold_in(key, round), candidates.coordinates, scores, num)
    # The oldest rows stay: they are the even cover that keeps every region seen.
    return jax.tree.map(
        lambda old, new: jnp.concatenate([old[: total - num], new[chosen]]), points, candidates
    )
