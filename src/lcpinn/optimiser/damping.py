"""The descent of Gauss-Newton: damped least-squares steps for a grid of dampings.

For rows r and Jacobian J, every damping m of the grid asks for the minimiser of the damped model
(Levenberg 1944, Marquardt 1963)

    |r + J p|² + m |p|²,        p(m) = -(J'J + m I)^-1 J'r.

One triangular factor R with R'R = J'J + m0 I, m0 the centre of the grid, serves them all: in the
variables y = R p the other systems have at most the grid's span as their condition, and conjugate
gradients solve them together. Three ways to R, as good as their arithmetic allows:

  qr         QR (without Q) of [J r; sqrt(m0) I 0]. The condition of J is never squared, so that
             small singular directions survive: for the last digits. While m0 is far above rounding
             of J'J, in early steps, Cholesky factorisation gives the same at a third of the cost.
  two-level  a Cholesky factorisation corrected by a second one: nearly as accurate, with matrix
             products instead of panels, for accelerators.
  cholesky   of J'J + m0 I: cheapest; what lies below 1e-8 of the largest singular value is lost,
             and m0 must stay above rounding of the trace.

With fewer rows than parameters the steps come from sample space, p = -J'(JJ' + m I)^-1 r.
Which of the steps is taken is another question: optimiser/acceptance/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from lcpinn.optimiser.linear_model import LinearModel, Whole, gram

SOLVERS = ("qr", "two-level", "cholesky")
# Of conjugate gradients, and where they may end: soon where a search judges steps by their loss. A
# search by the model loss needs them to rounding, since most of the right-hand side is curvature of
# the last step, and what is to be found is small beside it.
ITERATIONS, EXACT_ITERATIONS, EXACT = 30, 100, 1e-10
# An inexact Newton step's forcing term (Dembo, Eisenstat and Steihaug 1982): with a sound factor
# conjugate gradients end orders of magnitude below it, and one that rounding has spoilt above it.
FORCING = 1e-2
# Dampings beside which rounding of J'J does not matter, in units of rounding of its trace.
LARGE = 1e4

# From rows (k, n) and as many dampings to -(J'J + m I)^-1 J' rows, (k, p).
Solve = Callable[[Array, Array], Array]
# A triangular factor's inverse, or its transpose's, applied to the rows of a matrix.
Apply = Callable[[Array], Array]


class DampedSteps(NamedTuple):
    """The steps of a damping grid (d, p), and how far the linear model says each lowers the loss.

    `solved` says which of the systems conjugate gradients have solved.
    """

    directions: Float[Array, "d p"]
    predicted: Float[Array, " d"]
    solved: Bool[Array, " d"]


class Candidates(NamedTuple):
    """What a search chooses from: the steps about theta, and the linear model that they minimise.

    Dampings run from small (long steps) to large (short ones). Steps that are longer than the
    trust-region radius, or whose linear system has not been solved, are not `admissible`.
    """

    model: LinearModel
    loss: Array
    centre: Array
    dampings: Float[Array, " d"]
    directions: Float[Array, "d p"]
    predicted: Float[Array, " d"]
    admissible: Bool[Array, " d"]
    solve: Solve

    def model_rows(self, directions: Float[Array, "k p"]) -> Float[Array, "k n"]:
        """r + J p, what the rows would be after each step if they were linear."""
        return self.model.rows + self.model.times(directions)

    def model_loss(self, index: Array) -> Array:
        """|r + J p|² of one candidate.

        Not the loss less the predicted decrease: that leaves rounding of the present loss.
        """
        return jnp.sum((self.model.rows + self.model.times(self.directions[index])) ** 2)


def candidates(
    model: LinearModel,
    theta: Float[Array, " p"],
    damping: Array,
    *,
    num: int,
    solver: str,
    radius: float | Array,
    exact: bool = False,
) -> Candidates:
    """The steps from theta, about which the model holds, for `num` dampings about the given one.

    A damping of zero asks for a first value relative to the size of the problem. The trust-region
    radius is relative to |theta|. `exact` asks conjugate gradients to go on to rounding.
    """
    trace = model.squares
    centre = jnp.where(damping > 0, damping, 1e-3 * trace / theta.size)
    centre = jnp.maximum(centre, smallest_damping(trace, solver))
    dampings = damping_grid(centre, num)
    steps, solve = damped_steps(model, dampings, centre, solver, exact)
    # By the first-order step: a second-order correction is short beside it.
    within = jnp.sum(steps.directions**2, axis=1) <= (radius * jnp.linalg.norm(theta)) ** 2
    return Candidates(
        model,
        jnp.sum(model.rows**2),
        centre,
        dampings,
        steps.directions,
        steps.predicted,
        within & steps.solved,
        solve,
    )


def damping_grid(centre: Array, num: int, decades: float = 1.5) -> Array:
    """Geometric values from 10^-decades to 10^decades times the centre, which is among them."""
    exponents = jnp.linspace(-decades, decades, num, dtype=centre.dtype)
    return centre * 10.0**exponents


def smallest_damping(trace: Array, solver: str) -> Array:
    """The damping below which a solver returns noise."""
    relative = 1e-15 if solver == "cholesky" else 1e-30
    return trace * relative + jnp.finfo(trace.dtype).tiny


def damped_steps(
    model: LinearModel, dampings: Array, centre: Array, solver: str, exact: bool = False
) -> tuple[DampedSteps, Solve]:
    """Steps for every damping of the grid; parameter or sample space, whichever is smaller."""
    if isinstance(model, Whole) and model.matrix.shape[0] < model.matrix.shape[1]:
        return _sample_space(model.matrix, model.rows, dampings, centre, exact)
    if solver == "two-level":
        inverse, c = _two_level(model, centre)
        invert, invert_transpose = _products(inverse)
    else:
        factor, c = {"qr": _qr, "cholesky": _cholesky}[solver](model, centre)
        invert, invert_transpose = _substitutions(factor)
    y, solved = _all_dampings(invert, invert_transpose, c, dampings, centre, exact)
    directions = invert(y)
    # R p = y, so |J p|² = |y|² - m0 |p|² and r'J p = c'y.
    curvature = jnp.sum(y**2, axis=1) - centre * jnp.sum(directions**2, axis=1)

    def solve(others: Array, dampings: Array) -> Array:
        c = invert_transpose(model.transposed_times(others))
        return invert(_all_dampings(invert, invert_transpose, c, dampings, centre, exact)[0])

    return DampedSteps(directions, -(2 * y @ c + curvature), solved), solve


def _sample_space(
    jacobian: Array, rows: Array, dampings: Array, centre: Array, exact: bool = False
) -> tuple[DampedSteps, Solve]:
    num = len(rows)
    # Rounding of J J' must not make it indefinite: early steps need no small dampings.
    kernel = gram(jacobian.T)
    centre = jnp.maximum(centre, 1e-14 * jnp.trace(kernel))
    lower = jnp.linalg.cholesky(kernel + centre * jnp.eye(num, dtype=rows.dtype))
    invert, invert_transpose = _substitutions(lower.T)

    def solve(others: Array, dampings: Array) -> tuple[Array, Array]:
        safe = jnp.maximum(dampings, 1e-2 * centre)
        c = invert_transpose(others)
        y, solved = _all_dampings(invert, invert_transpose, c, safe, centre, exact)
        return invert(y), solved

    z, solved = solve(jnp.broadcast_to(rows, (len(dampings), num)), dampings)
    # (J J' + m I) z = -r, so J p = J J' z = -r - m z without another product.
    change = -rows - dampings[:, None] * z
    predicted = -(2 * change @ rows + jnp.sum(change**2, axis=1))
    steps = DampedSteps(z @ jacobian, predicted, solved)
    return steps, lambda others, dampings: solve(others, dampings)[0] @ jacobian


def _cholesky(model: LinearModel, centre: Array) -> tuple[Array, Array]:
    normal = model.normal()
    identity = jnp.eye(len(normal), dtype=normal.dtype)
    lower = jnp.linalg.cholesky(normal + centre * identity)
    return lower.T, solve_triangular(lower, model.gradient(), lower=True)


def _qr(model: LinearModel, centre: Array) -> tuple[Array, Array]:
    """R with R'R = J'J + m0 I, and c with R'c = J'r, from one factorisation."""
    assert isinstance(model, Whole)
    rounding = jnp.finfo(model.matrix.dtype).eps * model.squares

    def orthogonal() -> tuple[Array, Array]:
        rows, jacobian = model
        num = jacobian.shape[1]
        top = jnp.concatenate([jacobian, rows[:, None]], axis=1)
        bottom = jnp.sqrt(centre) * jnp.eye(num, num + 1, dtype=rows.dtype)
        factor = jnp.linalg.qr(jnp.concatenate([top, bottom]), mode="r")
        return factor[:num, :num], factor[:num, num]

    return jax.lax.cond(centre > LARGE * rounding, lambda: _cholesky(model, centre), orthogonal)


def _two_level(model: LinearModel, centre: Array) -> tuple[Array, Array]:
    """R^-1 and c by two Cholesky factorisations.

    L from a shift large enough to be safe; B = J L^-T has condition near one in every direction
    that the shift does not dominate; its own Cholesky then recovers what the first one lost.
    All of it are triangular solves and symmetric products, which an accelerator's libraries have:
    a general product of this size would be tuned for seconds when it is compiled.
    """
    normal = model.normal()
    identity = jnp.eye(len(normal), dtype=normal.dtype)
    shift = jnp.maximum(1e-12 * jnp.trace(normal), centre)
    first = jnp.linalg.cholesky(normal + shift * identity)

    inverse = solve_triangular(first, identity, lower=True)

    def once() -> tuple[Array, Array]:
        return inverse.T, inverse @ model.gradient()

    def balanced(jacobian: Array, rows: Array) -> tuple[Array, Array]:
        columns = solve_triangular(first, jacobian.T, lower=True)
        return gram(columns.T), columns @ rows

    def twice() -> tuple[Array, Array]:
        normal, gradient = model.total(balanced)
        second = jnp.linalg.cholesky(normal + centre * gram(inverse.T))
        c = solve_triangular(second, gradient, lower=True)
        return solve_triangular(second, inverse, lower=True).T, c

    # With a damping far above rounding the first one is as good: that is so in the early steps.
    return jax.lax.cond(centre > 1e-8 * jnp.trace(normal), once, twice)


def _substitutions(factor: Array) -> tuple[Apply, Apply]:
    """R^-1 and R^-T, each applied to the rows of a matrix."""
    if jax.default_backend() == "cpu":
        return (
            lambda y: solve_triangular(factor, y.T).T,
            lambda z: solve_triangular(factor, z.T, trans=1).T,
        )
    # Triangular solves are sequential; an accelerator does better with the inverse.
    return _products(solve_triangular(factor, jnp.eye(len(factor), dtype=factor.dtype)))


def _products(inverse: Array) -> tuple[Apply, Apply]:
    """The same from R^-1 itself."""
    return lambda y: y @ inverse.T, lambda z: z @ inverse


def _all_dampings(
    invert: Apply,
    invert_transpose: Apply,
    c: Array,
    dampings: Array,
    centre: Array,
    exact: bool = False,
) -> tuple[Array, Array]:
    """y for every m: (I + (m/m0 - 1) H) y = -c with H = m0 R^-T R^-1; and whether it is solved.

    H lies between 0 and I, so that a few dozen conjugate-gradient steps solve to rounding. Where
    rounding has spoilt R, an eigenvalue of H above one can make the system indefinite.
    """
    shift = centre * (dampings / centre - 1)[:, None]
    target = jnp.broadcast_to(-c, (len(dampings), c.shape[-1]))
    apply = lambda y: y + shift * invert_transpose(invert(y))
    if exact:
        return _conjugate_gradients(apply, target, EXACT_ITERATIONS, EXACT)
    return _conjugate_gradients(apply, target, ITERATIONS)


def _conjugate_gradients(
    apply: Apply, target: Array, num: int, tolerance: float = 0.0
) -> tuple[Array, Array]:
    """Solve for many right-hand sides at once; a system that is solved stays as it is.

    It ends after `num` steps, or once every residual is below the tolerance.

    The solutions, and for each whether its residual is within the forcing term.
    """

    def iterate(state: tuple[Array, ...]) -> tuple[Array, ...]:
        y, residual, direction, size, count = state
        image = apply(direction)
        curvature = jnp.sum(direction * image, axis=1, keepdims=True)
        # The candidate at the centre of the grid is exact after one step: 0/0 from then on.
        alpha = jnp.where(curvature > 0, size / jnp.where(curvature > 0, curvature, 1), 0)
        y, residual = y + alpha * direction, residual - alpha * image
        after = jnp.sum(residual**2, axis=1, keepdims=True)
        beta = jnp.where(size > 0, after / jnp.where(size > 0, size, 1), 0)
        return y, residual, residual + beta * direction, after, count + 1

    def going(state: tuple[Array, ...]) -> Array:
        *_, after, count = state
        return (count < num) & jnp.any(after > tolerance**2 * size)

    size = jnp.sum(target**2, axis=1, keepdims=True)
    start = (jnp.zeros_like(target), target, target, size, jnp.zeros((), jnp.int32))
    y, _, _, after, _ = jax.lax.while_loop(going, iterate, start)
    return y, (after <= FORCING**2 * size)[:, 0]
