"""Gauss-Newton: steps against dense least squares, and what it must survive."""

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.flatten_util import ravel_pytree
from toy import Coupled, Oscillator

from lcpinn.batch import Sampling, fixed
from lcpinn.errors import LcpinnError
from lcpinn.families import FAMILIES
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import Setup, equations, gauss_newton
from lcpinn.optimiser.equations import row_scales, rows_and_jacobian, scaled_rows
from lcpinn.optimiser.ladder import (
    SOLVERS,
    bend,
    choose,
    damped_steps,
    damping_ladder,
    gram,
    ladder_step,
)
from lcpinn.rows import Problem
from lcpinn.weighting import Conditional, Fixed, ReLoBRaLo

pytestmark = pytest.mark.usefixtures("x64")


def random_problem(num_rows, num_params, decades, seed=0):
    """A Jacobian with singular values over so many decades, and rows."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(num_rows, min(num_rows, num_params))))[0]
    right = np.linalg.qr(rng.normal(size=(num_params, min(num_rows, num_params))))[0]
    values = 10.0 ** -np.linspace(0, decades, min(num_rows, num_params))
    return (left * values) @ right.T, rng.normal(size=num_rows)


def dense_step(jacobian, rows, damping):
    """The same step by scipy, from the augmented system, which does not square the condition."""
    num = jacobian.shape[1]
    system = np.concatenate([jacobian, np.sqrt(damping) * np.eye(num)])
    target = np.concatenate([-rows, np.zeros(num)])
    return scipy.linalg.lstsq(system, target, lapack_driver="gelsy", cond=1e-18)[0]


@pytest.mark.parametrize(
    ("solver", "decades", "centre", "tolerance"),
    [
        ("qr", 1, 1e-3, 1e-11),
        ("qr", 7, 1e-12, 1e-6),
        ("two-level", 1, 1e-3, 1e-11),
        ("two-level", 6, 1e-10, 1e-6),
        ("cholesky", 1, 1e-3, 1e-11),
        ("cholesky", 4, 1e-6, 1e-6),
    ],
)
@pytest.mark.parametrize("shape", [(90, 30), (40, 40)])
def test_steps_equal_the_dense_solution(solver, decades, centre, tolerance, shape):
    jacobian, rows = random_problem(*shape, decades)
    ladder = damping_ladder(jnp.asarray(centre), 9)
    steps, _ = damped_steps(jnp.asarray(jacobian), jnp.asarray(rows), ladder, ladder[4], solver)
    for damping, direction, predicted in zip(
        ladder, steps.directions, steps.predicted, strict=True
    ):
        expected = dense_step(jacobian, rows, float(damping))
        assert np.linalg.norm(direction - expected) <= tolerance * np.linalg.norm(expected)
        decrease = np.sum(rows**2) - np.sum((rows + jacobian @ expected) ** 2)
        assert predicted == pytest.approx(decrease, rel=1e-5)


@pytest.mark.parametrize("decades", [1, 4])
def test_sample_space_gives_the_same_steps(decades):
    jacobian, rows = random_problem(20, 50, decades)
    ladder = damping_ladder(jnp.asarray(1e-4), 5)
    steps, _ = damped_steps(jnp.asarray(jacobian), jnp.asarray(rows), ladder, ladder[2], "qr")
    for damping, direction, predicted in zip(
        ladder, steps.directions, steps.predicted, strict=True
    ):
        expected = dense_step(jacobian, rows, float(damping))
        np.testing.assert_allclose(direction, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
        decrease = np.sum(rows**2) - np.sum((rows + jacobian @ expected) ** 2)
        assert predicted == pytest.approx(decrease, rel=1e-6)


def test_gram_in_blocks_is_the_product():
    matrix = np.random.default_rng(1).normal(size=(50, 301))
    np.testing.assert_allclose(gram(jnp.asarray(matrix)), matrix.T @ matrix, atol=1e-12)


def test_the_boldest_trustworthy_step_is_taken():
    # Dampings grow along the ladder. The third candidate breaks the walk from the large end, so the
    # first, which also looks good, is not reached.
    losses, predicted = jnp.array([0.1, 0.2, 0.99, 0.5, 0.7]), jnp.full(5, 0.9)
    index, accept = choose(losses, jnp.asarray(1.0), predicted, 0.1)
    assert (int(index), bool(accept)) == (3, True)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
@pytest.mark.parametrize("where", range(5))
def test_a_candidate_that_is_not_finite_is_never_taken(bad, where):
    losses = jnp.full(5, 0.5).at[where].set(bad)
    index, accept = choose(losses, jnp.asarray(1.0), jnp.full(5, 0.5), 0.1)
    assert not bool(accept) or bool(jnp.isfinite(losses[index]))
    assert bool(accept) == (where != 4)


def test_a_loss_may_rise_as_far_as_its_slack():
    # The first is too high, the second would be taken, and one that is not finite ends the walk.
    losses, predicted = jnp.array([30.0, 9.0, 1.2, 0.5, 0.7]), jnp.full(5, 0.9)
    take = lambda losses, most: choose(losses, 1.0, predicted, 0.1, may_rise_to=most)
    assert [int(take(losses, most)[0]) for most in (0.0, 2.0, 11.0, 40.0)] == [3, 2, 1, 0]
    assert int(take(losses.at[2].set(jnp.nan), 40.0)[0]) == 3
    assert not bool(take(jnp.full(5, 5.0), 2.0)[1])


@pytest.mark.parametrize("corrections", [0, 2])
def test_steps_that_may_rise_leave_a_curved_valley(corrections):
    """The end lies far along a narrow bent valley: keeping to its floor means small steps."""
    rows = lambda v: jnp.stack([1e3 * (v[1] - jnp.sin(3 * v[0])), v[0] - 6])
    how = {"solver": "qr", "stride": 0.3, "corrections": corrections}
    _, crawled = solve(rows, [1.0, 0.1], slack=0.0, **how)
    theta, fell = solve(rows, [1.0, 0.1], slack=10.0, **how)
    assert crawled > 1
    assert fell < 1e-6
    np.testing.assert_allclose(theta, [6, np.sin(18)], atol=1e-3)


def test_a_roaming_step_is_as_long_as_its_stride_and_a_descent_takes_the_lowest():
    rows = lambda v: jnp.stack([1e3 * (v[1] - jnp.sin(3 * v[0])), v[0] - 6])
    both = lambda v: (rows(v), jax.jacobian(rows)(v))
    begin, damping = jnp.array([1.0, np.sin(3.0)]), jnp.asarray(1.0)
    step = partial(ladder_step, rows, both, begin, damping, stride=0.3)
    now = float(jnp.sum(rows(begin) ** 2))
    far, low = step(roaming=jnp.asarray(True)), step(roaming=jnp.asarray(False))
    length = lambda taken: float(jnp.linalg.norm(taken.theta - begin) / jnp.linalg.norm(begin))
    assert float(far.loss) > now > float(low.loss)
    assert length(low) < length(far) <= 0.3
    # Both rows are straight but for the sine, so that what a step leaves within reach is its end.
    assert float(far.reachable) == pytest.approx(float((far.theta[0] - 6) ** 2), rel=1e-3)


def test_roaming_finds_the_end_of_a_curved_valley():
    """Nothing but what is within reach tells that the end comes nearer."""
    rows = lambda v: jnp.stack([1e3 * (v[1] - jnp.sin(3 * v[0])), v[0] - 6])
    roaming = jnp.asarray(True)
    theta, _ = solve(rows, [1.0, 0.1], "qr", stride=0.3, roaming=roaming)
    theta, loss = solve(rows, theta, "qr", 10, stride=0.3, roaming=~roaming)
    assert loss < 1e-20
    np.testing.assert_allclose(theta, [6, np.sin(18)], atol=1e-8)


def test_a_roaming_step_that_is_not_finite_is_not_taken():
    rows = lambda v: jnp.where(v[0] > 1.5, jnp.nan, 1.0) * jnp.stack([v[1], v[0] - 2])
    both = lambda v: (rows(v), jax.jacobian(rows)(v))
    begin = jnp.ones(2)
    taken = ladder_step(rows, both, begin, jnp.asarray(1e-9), roaming=jnp.asarray(True))
    np.testing.assert_array_equal(taken.theta, begin)
    assert float(taken.damping) > 1e-9
    assert float(taken.loss) == float(taken.reachable) == 2.0


def solve(rows, theta, solver, steps=60, **options):
    jacobian = jax.jit(lambda v: (rows(v), jax.jacobian(rows)(v)))
    step = jax.jit(lambda t, d: ladder_step(rows, jacobian, t, d, solver=solver, **options))
    theta, damping, loss = jnp.asarray(theta), jnp.zeros(()), jnp.inf
    for _ in range(steps):
        theta, damping, loss, _ = step(theta, damping)
    return np.asarray(theta), float(loss)


def banana(v):
    return jnp.stack([10 * (v[1] - v[0] ** 2), 1 - v[0]])


@pytest.mark.parametrize("corrections", [0, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_rosenbrock(solver, corrections):
    theta, loss = solve(banana, [-1.2, 1.0], solver, corrections=corrections)
    np.testing.assert_allclose(theta, [1, 1], atol=1e-6)
    assert loss < 1e-14


def test_bent_steps_go_further():
    # The valley of Rosenbrock's function is curved: straight steps have to be short in it.
    straight, bent = (solve(banana, [-1.2, 1.0], "qr", 6, corrections=c)[1] for c in (0, 2))
    assert bent < 0.1 * straight


@pytest.mark.parametrize(("solver", "shape"), [*((s, (60, 20)) for s in SOLVERS), ("qr", (20, 50))])
def test_the_same_factorisation_solves_for_other_rows(solver, shape):
    jacobian, rows = random_problem(*shape, 2)
    ladder = damping_ladder(jnp.asarray(1e-4), 5)
    _, again = damped_steps(jnp.asarray(jacobian), jnp.asarray(rows), ladder, ladder[2], solver)
    others = np.random.default_rng(3).normal(size=(2, shape[0]))
    for row, damping, found in zip(others, ladder[1:3], again(others, ladder[1:3]), strict=True):
        expected = dense_step(jacobian, row, float(damping))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_the_first_correction_is_geodesic_acceleration():
    """For rows that are quadratic, p - (J'J + m I)^-1 J' r''(p, p) / 2 to rounding."""
    rng = np.random.default_rng(5)
    jacobian, r, curvature = rng.normal(size=(9, 4)), rng.normal(size=9), rng.normal(size=(9, 4, 4))
    rows_at = jax.vmap(lambda p: r + jacobian @ p + jnp.einsum("nij,i,j->n", curvature, p, p) / 2)
    straight = np.stack([dense_step(jacobian, r, m) for m in (0.5, 50.0)])
    again = lambda e: jnp.stack(
        [dense_step(jacobian, np.asarray(row), m) for row, m in zip(e, (0.5, 50.0), strict=True)]
    )
    with jax.disable_jit():  # SciPy solves in the loop
        linear = lambda p: r + p @ jacobian.T
        bent, losses = bend(rows_at, again, jnp.asarray(straight), rows_at(straight), linear, 1)
    for p, m, found, loss in zip(straight, (0.5, 50.0), bent, losses, strict=True):
        second = np.einsum("nij,i,j->n", curvature, p, p)
        expected = p + dense_step(jacobian, second, m) / 2
        before, after = (float(jnp.sum(rows_at(q[None]) ** 2)) for q in (p, expected))
        np.testing.assert_allclose(found, expected if after < before else p, atol=1e-10)
        assert float(loss) == pytest.approx(min(before, after), rel=1e-9)


def test_half_of_the_cores_that_may_be_used(monkeypatch):
    """In a container that is pinned to two cores BLAS gets one, however many the machine has."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4}, raising=False)
    asked = []
    monkeypatch.setattr(gauss_newton, "threadpool_limits", lambda n, user_api: asked.append(n))
    gauss_newton._calm_blas()
    assert asked == [1]


def test_jacobians_in_chunks_are_the_same(monkeypatch):
    family = Oscillator()
    problem = Problem(family, MLP((4, 4), "sine", FiLM(0, 2), reach=2.0), jnp.float64)
    setup = Setup(problem, Fixed({}), Sampling(), Sampling(), Sampling())
    batch = fixed(family, Sampling(30, 7, 1, "collocation"), jnp.float64)
    theta, unravel = ravel_pytree(jax.jit(problem.init)(jax.random.PRNGKey(0)))
    scales = jax.jit(partial(row_scales, setup))(unravel(theta), batch)
    found = lambda: jax.jit(lambda v: rows_and_jacobian(setup, unravel, v, batch, scales))(theta)
    whole = found()
    monkeypatch.setitem(equations.MEMORY, "cpu", 8 * 8 * theta.size * 4)  # four rows at a time
    for one, other in zip(whole, found(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_no_step_is_longer_than_its_stride():
    """Rosenbrock from afar: the free step leaps, the other one keeps to its share of theta."""
    jacobian = lambda v: (banana(v), jax.jacobian(banana)(v))

    def length(stride):
        step = jax.jit(lambda t, d: ladder_step(banana, jacobian, t, d, stride=stride))
        theta, damping, longest = jnp.asarray([-1.2, 1.0]), jnp.zeros(()), 0.0
        for _ in range(12):
            new, damping, *_ = step(theta, damping)
            longest = max(longest, float(jnp.linalg.norm(new - theta) / jnp.linalg.norm(theta)))
            theta = new
        return longest

    assert length(jnp.inf) > 0.2
    assert 0.01 < length(0.1) <= 0.1


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_rank_deficient_problem_converges(solver):
    # Three parameters of which only one combination matters.
    rows = lambda v: jnp.stack([jnp.exp(v.sum()) - 2, v.sum() ** 2 - jnp.log(2.0) ** 2, 0 * v[0]])
    theta, loss = solve(rows, [0.3, -0.1, 0.05], solver)
    assert loss < 1e-20
    assert theta.sum() == pytest.approx(np.log(2), abs=1e-9)


@pytest.mark.parametrize("corrections", [0, 2])
def test_a_region_without_values_is_not_entered(corrections):
    # log of a negative number is NaN: every bold candidate from here lands there.
    rows = lambda v: jnp.stack([jnp.log(v[0]) + 3, jnp.log(v[0]) ** 3])
    theta, loss = solve(rows, [5.0], "qr", steps=40, corrections=corrections)
    assert np.isfinite(theta).all()
    assert np.isfinite(loss)
    assert loss < float(jnp.sum(rows(jnp.array([5.0])) ** 2))


@pytest.mark.parametrize(
    ("family", "weighting"),
    [
        (Oscillator(), Fixed({"start": 3.0})),
        (Coupled(), Fixed({})),
        (FAMILIES["burgers"](), Conditional()),
    ],
    ids=["oscillator", "coupled", "burgers"],
)
def test_jacobian_of_the_rows(family, weighting):
    problem = Problem(family, MLP((4, 4), "sine", FiLM(0, 2), reach=2.0), jnp.float64)
    setup = Setup(problem, weighting, Sampling(), Sampling(), Sampling())
    batch = fixed(family, Sampling(6, 4, 1, "collocation"), jnp.float64)
    params = jax.jit(problem.init)(jax.random.PRNGKey(0))
    scales = jax.jit(lambda p: row_scales(setup, p, batch))(params)
    theta, unravel = ravel_pytree(params)
    theta = theta + 0.1 * jax.random.normal(jax.random.PRNGKey(1), theta.shape)
    rows = jax.jit(lambda v: scaled_rows(setup, unravel(v), batch, scales))
    found, jacobian = jax.jit(lambda v: rows_and_jacobian(setup, unravel, v, batch, scales))(theta)
    np.testing.assert_allclose(found, rows(theta), rtol=1e-12, atol=1e-14)
    size = 1e-6
    for i in range(0, theta.size, 7):
        ahead, behind = rows(theta.at[i].add(size)), rows(theta.at[i].add(-size))
        column = (ahead - behind) / (2 * size)
        np.testing.assert_allclose(jacobian[:, i], column, atol=1e-7 * (1 + np.abs(column).max()))


def test_weights_that_are_learnt_are_refused():
    problem = Problem(Oscillator(), MLP((4, 4), "sine", FiLM(0, 2)), jnp.float64)
    small = Sampling(8, 4, 1, "collocation")
    setup = Setup(problem, ReLoBRaLo(), None, small, small)
    with pytest.raises(LcpinnError, match="ReLoBRaLo learns its weights"):
        gauss_newton.GaussNewton(rows=small).build(setup)
