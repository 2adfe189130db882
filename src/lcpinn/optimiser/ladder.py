"""Damped least-squares steps for a whole ladder of damping values, from one factorisation.

For rows r and Jacobian J, every damping m of the ladder asks for

    p(m) = -(J'J + m I)^-1 J'r.

Three ways to the same steps, as good as their arithmetic allows:

  qr         one QR (without Q) of [J r; sqrt(m0) I 0], then conjugate gradients for all m at once.
             The condition of J is never squared; small singular directions survive.
  two-level  the same with a Cholesky factorisation that is corrected by a second one: matrix
             products instead of panels, for accelerators.
  cholesky   one Cholesky of J'J + m I for each m: cheapest, loses what lies below 1e-8 of the
             largest singular value.

With fewer rows than parameters the steps come from sample space, p = -J'(JJ' + m I)^-1 r.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

SOLVERS = ("qr", "two-level", "cholesky")


class Steps(NamedTuple):
    """Candidate steps (ladder, p), and by how much the linear model says each lowers the loss."""

    directions: Float[Array, "ladder p"]
    predicted: Float[Array, " ladder"]


def damping_ladder(centre: Array, num: int, decades: float = 1.5) -> Array:
    """Geometric values from 10^-decades to 10^decades times the centre, which is among them."""
    exponents = jnp.linspace(-decades, decades, num, dtype=centre.dtype)
    return centre * 10.0**exponents


def damped_steps(jacobian: Array, rows: Array, ladder: Array, centre: Array, solver: str) -> Steps:
    """Steps for every damping of the ladder; parameter or sample space, whichever is smaller."""
    if jacobian.shape[0] < jacobian.shape[1]:
        return _sample_space(jacobian, rows, ladder)
    if solver == "cholesky":
        return _cholesky(jacobian, rows, ladder)
    factor, gradient = (_qr if solver == "qr" else _two_level)(jacobian, rows, centre)
    return _from_factor(factor, gradient, ladder, centre)


def _sample_space(jacobian: Array, rows: Array, ladder: Array) -> Steps:
    values, vectors = jnp.linalg.eigh(jacobian @ jacobian.T)
    values = jnp.maximum(values, 0)
    projected = vectors.T @ rows
    scaled = projected / (values + ladder[:, None])  # (ladder, n)
    directions = -(scaled @ vectors.T) @ jacobian
    # With J p = -V (s / (s + m)) V'r the decrease needs no product with J.
    moved = -scaled * values
    return Steps(directions, -(2 * moved @ projected + jnp.sum(moved**2, axis=1)))


def _cholesky(jacobian: Array, rows: Array, ladder: Array) -> Steps:
    gram, gradient = jacobian.T @ jacobian, jacobian.T @ rows
    identity = jnp.eye(len(gram), dtype=gram.dtype)

    def solve(damping: Array) -> Array:
        factor = jnp.linalg.cholesky(gram + damping * identity)
        return -jax.scipy.linalg.cho_solve((factor, True), gradient)

    directions = jax.lax.map(solve, ladder)
    curvature = jnp.einsum("lp,pq,lq->l", directions, gram, directions)
    return Steps(directions, -(2 * directions @ gradient + curvature))


def _qr(jacobian: Array, rows: Array, centre: Array) -> tuple[Array, Array]:
    """R with R'R = J'J + m0 I, and c with R'c = J'r, from one factorisation."""
    num = jacobian.shape[1]
    top = jnp.concatenate([jacobian, rows[:, None]], axis=1)
    bottom = jnp.concatenate(
        [jnp.sqrt(centre) * jnp.eye(num, dtype=rows.dtype), jnp.zeros((num, 1), rows.dtype)], axis=1
    )
    factor = jnp.linalg.qr(jnp.concatenate([top, bottom]), mode="r")
    return factor[:num, :num], factor[:num, num]


def _two_level(jacobian: Array, rows: Array, centre: Array) -> tuple[Array, Array]:
    """The same R and c by two Cholesky factorisations.

    L from a shift large enough to be safe, B = J L^-T has condition near one in every direction
    that the shift does not dominate; its own Cholesky then recovers what the first one lost.
    """
    gram = jacobian.T @ jacobian
    identity = jnp.eye(len(gram), dtype=gram.dtype)
    shift = jnp.maximum(1e-12 * jnp.trace(gram), centre)
    first = jnp.linalg.cholesky(gram + shift * identity)
    inverse = solve_triangular(first, identity, lower=True)
    balanced = jacobian @ inverse.T
    second = jnp.linalg.cholesky(balanced.T @ balanced + centre * inverse @ inverse.T)
    factor = second.T @ first.T  # upper triangular: (L1' L')
    gradient = solve_triangular(second, balanced.T @ rows, lower=True)
    return factor, gradient


def _from_factor(factor: Array, c: Array, ladder: Array, centre: Array) -> Steps:
    """All dampings from R and c: (I + (m/m0 - 1) H) y = -c with H = m0 R^-T R^-1, p = R^-1 y.

    H lies between 0 and I, so the systems have condition at most that of the ladder's span, and a
    few dozen conjugate-gradient steps solve them all to rounding.
    """
    shift = (ladder / centre - 1)[:, None]

    def apply(y: Array) -> Array:
        down = solve_triangular(factor, y.T)
        up = solve_triangular(factor, down, trans=1)
        return y + shift * centre * up.T

    target = jnp.broadcast_to(-c, (len(ladder), len(c)))
    y = _conjugate_gradients(apply, target, 30)
    directions = solve_triangular(factor, y.T).T
    # R p = y, so |J p|² = |y|² - m0 |p|² and r'J p = c'y.
    curvature = jnp.sum(y**2, axis=1) - centre * jnp.sum(directions**2, axis=1)
    return Steps(directions, -(2 * y @ c + curvature))


def _conjugate_gradients(apply, target: Array, num: int) -> Array:
    """Solve for many right-hand sides at once; a system that is solved stays as it is."""

    def iterate(_: int, state: tuple[Array, Array, Array, Array]):
        y, residual, direction, size = state
        image = apply(direction)
        curvature = jnp.sum(direction * image, axis=1, keepdims=True)
        # The candidate at the centre of the ladder is exact after one step: 0/0 from then on.
        alpha = jnp.where(curvature > 0, size / jnp.where(curvature > 0, curvature, 1), 0)
        y, residual = y + alpha * direction, residual - alpha * image
        after = jnp.sum(residual**2, axis=1, keepdims=True)
        beta = jnp.where(size > 0, after / jnp.where(size > 0, size, 1), 0)
        return y, residual, residual + beta * direction, after

    size = jnp.sum(target**2, axis=1, keepdims=True)
    start = (jnp.zeros_like(target), target, target, size)
    return jax.lax.fori_loop(0, num, iterate, start)[0]


def choose(
    losses: Array, current: Array, predicted: Array, threshold: float
) -> tuple[Array, Array]:
    """The index of the step to take, and whether to take one.

    Ladders run from small to large damping. Walk from the largest down and keep going while the
    ratio of actual to predicted decrease stays above the threshold. A candidate that is not finite
    ends the walk.
    """
    ratio = (current - losses) / predicted
    good = jnp.isfinite(ratio) & jnp.isfinite(losses) & (predicted > 0) & (ratio >= threshold)
    from_largest = jnp.cumprod(good[::-1].astype(jnp.int32))[::-1]
    reached = from_largest.sum()
    index = jnp.clip(len(losses) - reached, 0, len(losses) - 1)
    return index, (reached > 0) & (losses[index] < current)
