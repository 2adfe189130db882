"""Damped least-squares steps for a whole ladder of damping values, from one factorisation.

For rows r and Jacobian J, every damping m of the ladder asks for

    p(m) = -(J'J + m I)^-1 J'r.

One triangular factor R with R'R = J'J + m0 I, m0 the centre of the ladder, serves them all: in the
variables y = R p the other systems have at most the ladder's span as their condition, and conjugate
gradients solve them together. Three ways to R, as good as their arithmetic allows:

  qr         QR (without Q) of [J r; sqrt(m0) I 0]. The condition of J is never squared, so that
             small singular directions survive: for the last digits.
  two-level  a Cholesky factorisation corrected by a second one: nearly as accurate, with matrix
             products instead of panels, for accelerators.
  cholesky   of J'J + m0 I: cheapest; what lies below 1e-8 of the largest singular value is lost,
             and m0 must stay above rounding of the trace.

With fewer rows than parameters the steps come from sample space, p = -J'(JJ' + m I)^-1 r.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

GEO = 0
SYRK = 0
from typing import Any
SOLVERS = ("qr", "two-level", "cholesky")


class Steps(NamedTuple):
    """Candidate steps (ladder, p), and by how much the linear model says each lowers the loss."""

    directions: Float[Array, "ladder p"]
    predicted: Float[Array, " ladder"]
    factor: Any = None


def damping_ladder(centre: Array, num: int, decades: float = 1.5) -> Array:
    """Geometric values from 10^-decades to 10^decades times the centre, which is among them."""
    exponents = jnp.linspace(-decades, decades, num, dtype=centre.dtype)
    return centre * 10.0**exponents


def smallest_damping(trace: Array, solver: str) -> Array:
    """The damping below which a solver returns noise."""
    return trace * (1e-15 if solver == "cholesky" else 1e-30) + jnp.finfo(trace.dtype).tiny


def damped_steps(jacobian: Array, rows: Array, ladder: Array, centre: Array, solver: str) -> Steps:
    """Steps for every damping of the ladder; parameter or sample space, whichever is smaller."""
    if jacobian.shape[0] < jacobian.shape[1]:
        return _sample_space(jacobian, rows, ladder, centre)
    factor, c = {"qr": _qr, "two-level": _two_level, "cholesky": _cholesky}[solver](
        jacobian, rows, centre
    )
    y, directions = _all_dampings(factor, c, ladder, centre)
    # R p = y, so |J p|² = |y|² - m0 |p|² and r'J p = c'y.
    curvature = jnp.sum(y**2, axis=1) - centre * jnp.sum(directions**2, axis=1)
    return Steps(directions, -(2 * y @ c + curvature), factor)


def _sample_space(jacobian: Array, rows: Array, ladder: Array, centre: Array) -> Steps:
    num = len(rows)
    # Rounding of J J' must not make it indefinite: early steps need no small dampings.
    kernel = gram(jacobian.T)
    centre = jnp.maximum(centre, 1e-14 * jnp.trace(kernel))
    lower = jnp.linalg.cholesky(kernel + centre * jnp.eye(num, dtype=rows.dtype))
    c = solve_triangular(lower, rows, lower=True)
    _, z = _all_dampings(lower.T, c, jnp.maximum(ladder, 1e-2 * centre), centre)
    # (J J' + m I) z = -r, so J p = J J' z = -r - m z without another product.
    moved = -rows - ladder[:, None] * z
    return Steps(z @ jacobian, -(2 * moved @ rows + jnp.sum(moved**2, axis=1)))


def gram(matrix: Array, blocks: int = 4) -> Array:
    """A'A. On a CPU only the blocks on and above the diagonal are computed.

    XLA's product does not know that the result is symmetric; leaving out what is known already
    saves three eighths of it. An accelerator prefers the one large product.
    """
    size = matrix.shape[1]
    if jax.default_backend() != "cpu" and SYRK:
        return jax.lax.linalg.symmetric_product(matrix.T, jnp.zeros((size, size), matrix.dtype), symmetrize_output=True)
    if jax.default_backend() != "cpu" or size < 64 * blocks:
        return matrix.T @ matrix
    edges = [size * i // blocks for i in range(blocks + 1)]
    strips = [matrix[:, a:b] for a, b in itertools.pairwise(edges)]
    upper = [[strips[i].T @ strips[j] for j in range(i, blocks)] for i in range(blocks)]
    full = [
        [upper[i][j - i] if j >= i else upper[j][i - j].T for j in range(blocks)]
        for i in range(blocks)
    ]
    return jnp.block(full)


def _cholesky(jacobian: Array, rows: Array, centre: Array) -> tuple[Array, Array]:
    identity = jnp.eye(jacobian.shape[1], dtype=rows.dtype)
    lower = jnp.linalg.cholesky(gram(jacobian) + centre * identity)
    return lower.T, solve_triangular(lower, jacobian.T @ rows, lower=True)


def _qr(jacobian: Array, rows: Array, centre: Array) -> tuple[Array, Array]:
    """R with R'R = J'J + m0 I, and c with R'c = J'r, from one factorisation."""
    num = jacobian.shape[1]
    top = jnp.concatenate([jacobian, rows[:, None]], axis=1)
    bottom = jnp.sqrt(centre) * jnp.eye(num, num + 1, dtype=rows.dtype)
    factor = jnp.linalg.qr(jnp.concatenate([top, bottom]), mode="r")
    return factor[:num, :num], factor[:num, num]


def _two_level(jacobian: Array, rows: Array, centre: Array) -> tuple[Array, Array]:
    """The same R and c by two Cholesky factorisations.

    L from a shift large enough to be safe; B = J L^-T has condition near one in every direction
    that the shift does not dominate; its own Cholesky then recovers what the first one lost.
    """
    normal = gram(jacobian)
    identity = jnp.eye(len(normal), dtype=normal.dtype)
    shift = jnp.maximum(1e-12 * jnp.trace(normal), centre)
    first = jnp.linalg.cholesky(normal + shift * identity)
    inverse = solve_triangular(first, identity, lower=True)
    balanced = jacobian @ inverse.T
    second = jnp.linalg.cholesky(gram(balanced) + centre * inverse @ inverse.T)
    c = solve_triangular(second, balanced.T @ rows, lower=True)
    return second.T @ first.T, c


def _all_dampings(factor: Array, c: Array, ladder: Array, centre: Array) -> tuple[Array, Array]:
    """y and R^-1 y for every m: (I + (m/m0 - 1) H) y = -c with H = m0 R^-T R^-1.

    H lies between 0 and I, so that a few dozen conjugate-gradient steps solve to rounding.
    """
    shift = (ladder / centre - 1)[:, None]
    if jax.default_backend() == "cpu":
        down = lambda y: solve_triangular(factor, y.T)
        up = lambda z: solve_triangular(factor, z, trans=1).T
    else:
        # Triangular solves are sequential; an accelerator does better with the inverse.
        inverse = solve_triangular(factor, jnp.eye(c.shape[-1], dtype=c.dtype))
        down = lambda y: inverse @ y.T
        up = lambda z: (inverse.T @ z).T

    target = jnp.broadcast_to(-c, (len(ladder), c.shape[-1]))
    y = _conjugate_gradients(lambda y: y + shift * centre * up(down(y)), target, 30)
    return y, down(y).T


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


def ladder_step(
    rows: Callable[[Array], Array],
    rows_and_jacobian: Callable[[Array], tuple[Array, Array]],
    theta: Array,
    damping: Array,
    *,
    num: int = 9,
    threshold: float = 0.1,
    solver: str = "qr",
) -> tuple[Array, Array, Array]:
    """One step from theta: the next theta, the next damping, and the loss there.

    A damping of zero asks for a first value relative to the size of the problem. If no candidate
    lowers the loss, theta stays and the damping grows; one that is not finite is never taken.
    """
    r, jacobian = rows_and_jacobian(theta)
    trace = jnp.sum(jacobian**2)
    centre = jnp.where(damping > 0, damping, 1e-3 * trace / theta.size)
    centre = jnp.maximum(centre, smallest_damping(trace, solver))
    ladder = damping_ladder(centre, num)
    steps = damped_steps(jacobian, r, ladder, centre, solver)
    losses = jax.vmap(lambda p: jnp.sum(rows(theta + p) ** 2))(steps.directions)
    now = jnp.sum(r**2)
    index, accept = choose(losses, now, steps.predicted, threshold)
    if GEO == 2:
        def second(p):
            return jax.jvp(lambda s: jax.jvp(lambda q: rows(theta + q * p), (s,), (1.0,))[1], (0.0,), (1.0,))[1]
        bends = jax.vmap(second)(steps.directions)
        c2 = solve_triangular(steps.factor, (bends @ jacobian).T, trans=1).T
        _, a = _all_dampings(steps.factor, c2, ladder, centre)
        cands = steps.directions + 0.5 * a
        l2 = jax.vmap(lambda p: jnp.sum(rows(theta + p) ** 2))(cands)
        better = l2 < losses
        dirs = jnp.where(better[:, None], cands, steps.directions)
        both = jnp.where(better, l2, losses)
        index, accept = choose(both, now, steps.predicted, threshold)
        return (jnp.where(accept, theta + dirs[index], theta), jnp.where(accept, ladder[index], 30 * centre), jnp.where(accept, both[index], now))
    if GEO:
        p = steps.directions[index]
        bend = jax.jvp(lambda s: jax.jvp(lambda q: rows(theta + q * p), (s,), (1.0,))[1], (0.0,), (1.0,))[1]
        fac = steps.factor
        c2 = solve_triangular(fac, jacobian.T @ bend, trans=1)
        _, a = _all_dampings(fac, c2, ladder[index][None], centre)
        cand = p + 0.5 * a[0]
        l2 = jnp.sum(rows(theta + cand) ** 2)
        ok = accept & (l2 < losses[index])
        return (jnp.where(ok, theta + cand, jnp.where(accept, theta + p, theta)),
          jnp.where(accept, ladder[index], 30 * centre), jnp.where(ok, l2, jnp.where(accept, losses[index], now)))
    return (
        jnp.where(accept, theta + steps.directions[index], theta),
        jnp.where(accept, ladder[index], 30 * centre),
        jnp.where(accept, losses[index], now),
    )
