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

SOLVERS = ("qr", "two-level", "cholesky")
BENT = 3  # candidates that are corrected for curvature


class Steps(NamedTuple):
    """Candidate steps (ladder, p), and by how much the linear model says each lowers the loss."""

    directions: Float[Array, "ladder p"]
    predicted: Float[Array, " ladder"]


# From rows (k, n) and as many dampings to -(J'J + m I)^-1 J' rows, (k, p).
Again = Callable[[Array, Array], Array]


def damping_ladder(centre: Array, num: int, decades: float = 1.5) -> Array:
    """Geometric values from 10^-decades to 10^decades times the centre, which is among them."""
    exponents = jnp.linspace(-decades, decades, num, dtype=centre.dtype)
    return centre * 10.0**exponents


def smallest_damping(trace: Array, solver: str) -> Array:
    """The damping below which a solver returns noise."""
    relative = 1e-15 if solver == "cholesky" else 1e-30
    return trace * relative + jnp.finfo(trace.dtype).tiny


def damped_steps(
    jacobian: Array, rows: Array, ladder: Array, centre: Array, solver: str
) -> tuple[Steps, Again]:
    """Steps for every damping of the ladder; parameter or sample space, whichever is smaller."""
    if jacobian.shape[0] < jacobian.shape[1]:
        return _sample_space(jacobian, rows, ladder, centre)
    if solver == "two-level":
        inverse, c = _two_level(jacobian, rows, centre)
        down, up = _products(inverse)
    else:
        factor, c = {"qr": _qr, "cholesky": _cholesky}[solver](jacobian, rows, centre)
        down, up = _substitutions(factor)
    y = _all_dampings(down, up, c, ladder, centre)
    directions = down(y)
    # R p = y, so |J p|² = |y|² - m0 |p|² and r'J p = c'y.
    curvature = jnp.sum(y**2, axis=1) - centre * jnp.sum(directions**2, axis=1)

    def again(others: Array, dampings: Array) -> Array:
        return down(_all_dampings(down, up, up(others @ jacobian), dampings, centre))

    return Steps(directions, -(2 * y @ c + curvature)), again


def _sample_space(
    jacobian: Array, rows: Array, ladder: Array, centre: Array
) -> tuple[Steps, Again]:
    num = len(rows)
    # Rounding of J J' must not make it indefinite: early steps need no small dampings.
    kernel = gram(jacobian.T)
    centre = jnp.maximum(centre, 1e-14 * jnp.trace(kernel))
    lower = jnp.linalg.cholesky(kernel + centre * jnp.eye(num, dtype=rows.dtype))
    down, up = _substitutions(lower.T)

    def solve(others: Array, dampings: Array) -> Array:
        safe = jnp.maximum(dampings, 1e-2 * centre)
        return down(_all_dampings(down, up, up(others), safe, centre))

    z = solve(jnp.broadcast_to(rows, (len(ladder), num)), ladder)
    # (J J' + m I) z = -r, so J p = J J' z = -r - m z without another product.
    moved = -rows - ladder[:, None] * z
    steps = Steps(z @ jacobian, -(2 * moved @ rows + jnp.sum(moved**2, axis=1)))
    return steps, lambda others, dampings: solve(others, dampings) @ jacobian


def gram(matrix: Array, blocks: int = 4) -> Array:
    """A'A, of which one triangle is enough.

    An accelerator's library has a product for it. XLA's on a CPU does not know that the result is
    symmetric: only the blocks on and above the diagonal are computed, which saves three eighths.
    """
    size = matrix.shape[1]
    if jax.default_backend() != "cpu":
        nothing = jnp.zeros((size, size), matrix.dtype)
        return jax.lax.linalg.symmetric_product(matrix.T, nothing, symmetrize_output=True)
    if size < 64 * blocks:
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
    """R^-1 and c by two Cholesky factorisations.

    L from a shift large enough to be safe; B = J L^-T has condition near one in every direction
    that the shift does not dominate; its own Cholesky then recovers what the first one lost.
    All of it are triangular solves and symmetric products, which an accelerator's libraries have:
    a general product of this size would be tuned for seconds when it is compiled.
    """
    normal = gram(jacobian)
    identity = jnp.eye(len(normal), dtype=normal.dtype)
    shift = jnp.maximum(1e-12 * jnp.trace(normal), centre)
    first = jnp.linalg.cholesky(normal + shift * identity)

    inverse = solve_triangular(first, identity, lower=True)

    def once() -> tuple[Array, Array]:
        return inverse.T, inverse @ (jacobian.T @ rows)

    def twice() -> tuple[Array, Array]:
        balanced = solve_triangular(first, jacobian.T, lower=True)
        second = jnp.linalg.cholesky(gram(balanced.T) + centre * gram(inverse.T))
        c = solve_triangular(second, balanced @ rows, lower=True)
        return solve_triangular(second, inverse, lower=True).T, c

    # With a damping far above rounding the first one is as good: that is so in the early steps.
    return jax.lax.cond(centre > 1e-8 * jnp.trace(normal), once, twice)


def _substitutions(factor: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """R^-1 and R^-T, each applied to the rows of a matrix."""
    if jax.default_backend() == "cpu":
        return (
            lambda y: solve_triangular(factor, y.T).T,
            lambda z: solve_triangular(factor, z.T, trans=1).T,
        )
    # Triangular solves are sequential; an accelerator does better with the inverse.
    return _products(solve_triangular(factor, jnp.eye(len(factor), dtype=factor.dtype)))


def _products(inverse: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The same from R^-1 itself."""
    return lambda y: y @ inverse.T, lambda z: z @ inverse


def _all_dampings(
    down: Callable[[Array], Array],
    up: Callable[[Array], Array],
    c: Array,
    ladder: Array,
    centre: Array,
) -> Array:
    """y for every m: (I + (m/m0 - 1) H) y = -c with H = m0 R^-T R^-1.

    H lies between 0 and I, so that a few dozen conjugate-gradient steps solve to rounding.
    """
    shift = centre * (ladder / centre - 1)[:, None]
    target = jnp.broadcast_to(-c, (len(ladder), c.shape[-1]))
    return _conjugate_gradients(lambda y: y + shift * up(down(y)), target, 30)


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
    losses: Array,
    current: Array,
    predicted: Array,
    threshold: float,
    allowed: Array | bool = True,
    may_rise_to: Array | float = 0.0,
) -> tuple[Array, Array]:
    """The index of the boldest step to trust, and whether there is one.

    A step is to be trusted when the ratio of actual to predicted decrease reaches the threshold, or
    the loss stays below what it `may_rise_to`. A candidate that is not finite, or not allowed,
    never is.
    """
    ratio = (current - losses) / predicted
    lower = jnp.isfinite(ratio) & (predicted > 0) & (ratio >= threshold) & (losses < current)
    return boldest(jnp.isfinite(losses) & allowed & (lower | (losses < may_rise_to)))


def boldest(good: Array) -> tuple[Array, Array]:
    """The last good one on the way from the largest damping down, and whether there is one.

    Ladders run from small to large damping; the way ends at the first that is not good.
    """
    reached = jnp.cumprod(good[::-1].astype(jnp.int32)).sum()
    return jnp.clip(len(good) - reached, 0, len(good) - 1), reached > 0


def bend(
    rows_at: Callable[[Array], Array],
    again: Callable[[Array], Array],
    straight: Array,
    there: Array,
    linear: Callable[[Array], Array],
    num: int,
) -> tuple[Array, Array]:
    """Correct steps for the curvature of the rows `num` times; the best of each, and its loss.

    A straight step ignores that rows(theta + p) = r + J p + e(p). With the same factorisation
    p <- -(J'J + m I)^-1 J'(r + e(p)) bends it after them. The first time that is geodesic
    acceleration, with e from the rows that the loss needs anyway. It costs little beside a
    factorisation, and steps go much further.
    """

    def improve(_: int, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        now, there, best, least = carry
        now = straight + again(there - linear(now))
        there = rows_at(now)
        losses = jnp.sum(there**2, axis=1)
        better = losses < least
        best = jnp.where(better[:, None], now, best)
        return now, there, best, jnp.where(better, losses, least)

    start = (straight, there, straight, jnp.sum(there**2, axis=1))
    _, _, best, least = jax.lax.fori_loop(0, num, improve, start)
    return best, least


class Taken(NamedTuple):
    """Where a step leads, the damping it was taken with, its loss, and what is within reach."""

    theta: Float[Array, " p"]
    damping: Array
    loss: Array
    reachable: Array  # the loss after the step if the rows were linear


# The step to take, its index in the ladder, its loss, and whether to take it.
Choice = tuple[Array, Array, Array, Array]


def ladder_step(
    rows: Callable[[Array], Array],
    rows_and_jacobian: Callable[[Array], tuple[Array, Array]],
    theta: Array,
    damping: Array,
    *,
    num: int = 9,
    threshold: float = 0.1,
    solver: str = "qr",
    corrections: int = 0,
    stride: float = jnp.inf,
    slack: float = 0.0,
    roaming: Array | None = None,
) -> Taken:
    """One step from theta.

    A damping of zero asks for a first value relative to the size of the problem. If no candidate is
    fit to be taken, theta stays and the damping grows; one that is not finite is never taken, nor
    one that is longer than `stride` times theta. The boldest to trust is taken, which may raise the
    loss by up to `slack` times what it is. Where `roaming` is given, it is the boldest of all while
    that is true, and the lowest from then on.
    """
    r, jacobian = rows_and_jacobian(theta)
    trace = jnp.sum(jacobian**2)
    centre = jnp.where(damping > 0, damping, 1e-3 * trace / theta.size)
    centre = jnp.maximum(centre, smallest_damping(trace, solver))
    ladder = damping_ladder(centre, num)
    steps, again = damped_steps(jacobian, r, ladder, centre, solver)
    rows_at, now = jax.vmap(lambda p: rows(theta + p)), jnp.sum(r**2)
    # By the straight step: a correction for curvature is short beside it.
    near = jnp.sum(steps.directions**2, axis=1) <= (stride * jnp.linalg.norm(theta)) ** 2
    if roaming is not None:
        step, index, loss, accept = jax.lax.cond(
            roaming,
            lambda: _farthest(rows_at, steps.directions, near),
            lambda: _lowest(rows_at, steps.directions, near, now),
        )
    else:
        most = (1 + slack) * now if slack else 0.0
        trust = lambda losses: choose(losses, now, steps.predicted, threshold, near, most)
        linear = lambda p: r + p @ jacobian.T
        solve = lambda others, part: again(others, ladder[part])
        step, index, loss, accept = _trusted(
            rows_at, steps.directions, trust, linear, solve, corrections
        )
    # Not from what the step predicts to gain: that leaves rounding of the present loss.
    reachable = jnp.sum((r + jacobian @ steps.directions[index]) ** 2)
    return Taken(
        jnp.where(accept, theta + step, theta),
        jnp.where(accept, ladder[index], 30 * centre),
        jnp.where(accept, loss, now),
        jnp.where(accept, reachable, now),
    )


def _trusted(
    rows_at: Callable[[Array], Array],
    directions: Array,
    trust: Callable[[Array], tuple[Array, Array]],
    linear: Callable[[Array], Array],
    solve: Callable[[Array, Array], Array],
    corrections: int,
) -> Choice:
    """The boldest step to trust, by their losses; some of them bent after the rows."""
    there = rows_at(directions)
    losses = jnp.sum(there**2, axis=1)
    index, accept = trust(losses)
    if corrections:
        # Only the step that would be taken and those just bolder: they are what may change.
        bent = min(BENT, len(losses))
        part = jnp.clip(index - bent + 1, 0, len(losses) - bent) + jnp.arange(bent)
        again = lambda others: solve(others, part)
        best, lower = bend(rows_at, again, directions[part], there[part], linear, corrections)
        directions, losses = directions.at[part].set(best), losses.at[part].set(lower)
        index, accept = trust(losses)
    return directions[index], index, losses[index], accept


def _farthest(rows_at: Callable[[Array], Array], directions: Array, near: Array) -> Choice:
    """The boldest step that is near enough, whatever its loss."""
    index, accept = boldest(near)
    loss = jnp.sum(rows_at(directions[index][None]) ** 2)
    return directions[index], index, loss, accept & jnp.isfinite(loss)


def _lowest(
    rows_at: Callable[[Array], Array], directions: Array, near: Array, now: Array
) -> Choice:
    """The step with the lowest loss, if that is below the present one."""
    losses = jnp.sum(rows_at(directions) ** 2, axis=1)
    losses = jnp.where(jnp.isfinite(losses) & near, losses, jnp.inf)
    index = jnp.argmin(losses)
    return directions[index], index, losses[index], losses[index] < now
