"""One Levenberg-Marquardt step: a descent proposes candidates, a search takes one of them."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lcpinn.optimiser.acceptance import Acceptance, Step
from lcpinn.optimiser.damping import candidates
from lcpinn.optimiser.linear_model import LinearModel


def levenberg_marquardt_step(
    rows: Callable[[Array], Array],
    linearised: Callable[[Array], LinearModel],
    theta: Float[Array, " p"],
    damping: Array,
    acceptance: Acceptance,
    *,
    num: int = 9,
    solver: str = "qr",
    radius: float | Array = jnp.inf,
    contraction: Array | float = 0.0,
) -> Step:
    """One step from theta with one of `num` dampings about the given one (zero: a first guess).

    If the search takes none of the candidates, theta stays and the damping grows. `contraction` is
    what acceptance makes of the radius (Pace): one explores, zero descends by the loss.
    """
    model = linearised(theta)
    proposed = candidates(
        model, theta, damping, num=num, solver=solver, radius=radius, exact=acceptance.explores
    )
    rows_after = jax.vmap(lambda p: rows(theta + p))
    step, index, loss, accepted = acceptance.select(proposed, rows_after, jnp.asarray(contraction))
    return Step(
        jnp.where(accepted, theta + step, theta),
        jnp.where(accepted, proposed.dampings[index], 30 * proposed.centre),
        jnp.where(accepted, loss, proposed.loss),
        jnp.where(accepted, proposed.model_loss(index), proposed.loss),
        accepted & proposed.admissible[index],
    )
