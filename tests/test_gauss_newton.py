"""Gauss-Newton: steps against dense least squares, and what it must survive."""

import os
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.flatten_util import ravel_pytree
from toy import Coupled, Oscillator, quick

from lcpinn import chunks, threads
from lcpinn.equilibration import equilibrating, row_scales
from lcpinn.errors import LcpinnError
from lcpinn.families import FAMILIES
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import GainRatio, GaussNewton, ModelDriven, NonMonotone, Setup
from lcpinn.optimiser.acceptance import Acceptance, Pace, Step
from lcpinn.optimiser.acceptance.search import second_order_correction, smallest_damping_of
from lcpinn.optimiser.damping import SOLVERS, candidates, damped_steps, damping_grid
from lcpinn.optimiser.levenberg_marquardt import levenberg_marquardt_step
from lcpinn.optimiser.linear_model import RowSystem, Summed, Whole, gram
from lcpinn.rows import Problem, rows_and_jacobian, weighted_rows
from lcpinn.sampling import Sampling, fixed
from lcpinn.weighting import Conditional, Fixed, ReLoBRaLo

FIRST_ORDER: Acceptance = GainRatio(corrections=0)
ONE = jnp.ones(())

pytestmark = pytest.mark.usefixtures("x64")


def random_problem(num_rows, num_params, decades, seed=0):
    """A Jacobian with singular values over so many decades, and rows."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(num_rows, min(num_rows, num_params))))[0]
    right = np.linalg.qr(rng.normal(size=(num_params, min(num_rows, num_params))))[0]
    values = 10.0 ** -np.linspace(0, decades, min(num_rows, num_params))
    return (left * values) @ right.T, rng.normal(size=num_rows)


def model_of(jacobian, rows):
    return Whole(jnp.asarray(rows), jnp.asarray(jacobian))


def dense_step(jacobian, rows, damping):
    """The same step by scipy, from the augmented system, which does not square the condition."""
    num = jacobian.shape[1]
    system = np.concatenate([jacobian, np.sqrt(damping) * np.eye(num)])
    target = np.concatenate([-rows, np.zeros(num)])
    return scipy.linalg.lstsq(system, target, lapack_driver="gelsy", cond=1e-18)[0]


@pytest.mark.slow
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
    jacobian, rows = random_problem(*shape, decades=decades)
    dampings = damping_grid(jnp.asarray(centre), 9)
    steps, _ = damped_steps(model_of(jacobian, rows), dampings, dampings[4], solver)
    for damping, direction, predicted in zip(
        dampings, steps.directions, steps.predicted, strict=True
    ):
        expected = dense_step(jacobian, rows, float(damping))
        assert np.linalg.norm(direction - expected) <= tolerance * np.linalg.norm(expected)
        decrease = np.sum(rows**2) - np.sum((rows + jacobian @ expected) ** 2)
        assert predicted == pytest.approx(decrease, rel=1e-5)
    assert steps.solved.all()


@pytest.mark.slow
@pytest.mark.parametrize("decades", [1, 4])
def test_sample_space_gives_the_same_steps(decades):
    jacobian, rows = random_problem(20, 50, decades)
    dampings = damping_grid(jnp.asarray(1e-4), 5)
    steps, _ = damped_steps(model_of(jacobian, rows), dampings, dampings[2], "qr")
    for damping, direction, predicted in zip(
        dampings, steps.directions, steps.predicted, strict=True
    ):
        expected = dense_step(jacobian, rows, float(damping))
        np.testing.assert_allclose(direction, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
        decrease = np.sum(rows**2) - np.sum((rows + jacobian @ expected) ** 2)
        assert predicted == pytest.approx(decrease, rel=1e-6)
    assert steps.solved.all()


def test_gram_in_blocks_is_the_product():
    matrix = np.random.default_rng(1).normal(size=(50, 301))
    np.testing.assert_allclose(gram(jnp.asarray(matrix)), matrix.T @ matrix, atol=1e-12)


def test_a_system_that_is_not_solved_is_no_candidate():
    """Below rounding of J'J the Cholesky factor is not one of J'J + m I, and nothing says so."""
    jacobian, rows = random_problem(90, 30, 10)
    centre = jnp.asarray(3e-16)
    dampings, model = damping_grid(centre, 9), model_of(jacobian, rows)
    steps, _ = damped_steps(model, dampings, centre, "cholesky")
    assert np.isfinite(steps.directions).all()
    gradients = [
        np.linalg.norm(jacobian.T @ (rows + jacobian @ p) + m * p)
        for p, m in zip(np.asarray(steps.directions), np.asarray(dampings), strict=True)
    ]
    relative, solved = np.array(gradients) / np.linalg.norm(jacobian.T @ rows), steps.solved
    assert not solved.all()
    assert relative[~solved].max() > 1e-2
    assert relative[solved].max() < 1e-6
    exact, _ = damped_steps(model, dampings, centre, "qr")
    assert exact.solved.all()
    how = {"num": 9, "solver": "cholesky", "radius": np.inf}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lcpinn.optimiser.damping.smallest_damping", lambda *_: 0.0)
        offered = candidates(model, jnp.ones(30), centre, **how)
    np.testing.assert_array_equal(offered.admissible, steps.solved)


def test_the_smallest_damping_that_passes_with_all_larger_ones_is_taken():
    # Dampings grow along the grid. The third candidate fails, so that the first, which passes, is
    # not reached.
    losses, predicted = jnp.array([0.1, 0.2, 0.99, 0.5, 0.7]), jnp.full(5, 0.9)
    acceptable = GainRatio().acceptable(losses, ONE, predicted)
    assert acceptable.tolist() == [True, True, False, True, True]
    index, accepted = smallest_damping_of(acceptable)
    assert (int(index), bool(accepted)) == (3, True)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
@pytest.mark.parametrize("where", range(5))
def test_a_candidate_that_is_not_finite_is_never_taken(bad, where):
    losses = jnp.full(5, 0.5).at[where].set(bad)
    index, accepted = smallest_damping_of(GainRatio().acceptable(losses, ONE, jnp.full(5, 0.5)))
    assert not bool(accepted) or bool(jnp.isfinite(losses[index]))
    assert bool(accepted) == (where != 4)


def test_a_loss_may_rise_by_a_factor():
    # The first is too high, the second would be taken, and one that is not finite ends the walk.
    losses, predicted = jnp.array([30.0, 9.0, 1.2, 0.5, 0.7]), jnp.full(5, 0.9)
    take = lambda losses, factor: smallest_damping_of(
        NonMonotone(factor).acceptable(losses, ONE, predicted)
    )
    assert [int(take(losses, factor)[0]) for factor in (0.0, 2.0, 11.0, 40.0)] == [3, 2, 1, 0]
    assert int(take(losses.at[2].set(jnp.nan), 40.0)[0]) == 3
    assert not bool(take(jnp.full(5, 5.0), 2.0)[1])


@pytest.mark.slow
@pytest.mark.parametrize("corrections", [0, 2])
def test_steps_that_may_rise_leave_a_curved_valley(corrections):
    """The end lies far along a narrow bent valley: keeping to its floor means small steps."""
    rows = lambda v: jnp.stack([1e3 * (v[1] - jnp.sin(3 * v[0])), v[0] - 6])
    monotone = GainRatio(corrections=corrections)
    _, stagnated = solve(rows, [1.0, 0.1], "qr", acceptance=monotone, radius=0.3)
    rising = NonMonotone(11.0, corrections=corrections)
    theta, fell = solve(rows, [1.0, 0.1], "qr", acceptance=rising, radius=0.3)
    assert stagnated > 1
    assert fell < 1e-6
    np.testing.assert_allclose(theta, [6, np.sin(18)], atol=1e-3)


@pytest.mark.slow
def test_an_exploring_step_fills_the_trust_region_and_a_descent_takes_the_lowest():
    rows = lambda v: jnp.stack([1e3 * (v[1] - jnp.sin(3 * v[0])), v[0] - 6])
    both = lambda v: Whole(rows(v), jax.jacobian(rows)(v))
    begin, damping = jnp.array([1.0, np.sin(3.0)]), jnp.asarray(1.0)
    step = quick(
        partial(levenberg_marquardt_step, rows, both, begin, damping, ModelDriven(), radius=0.3)
    )
    now = float(np.sum(np.asarray(rows(begin)) ** 2))
    far, low = step(contraction=1.0), step(contraction=0.0)
    length = lambda taken: np.linalg.norm(np.subtract(taken.theta, begin)) / np.linalg.norm(begin)
    assert float(far.loss) > now > float(low.loss)
    assert length(low) < length(far) <= 0.3
    # Both rows are straight but for the sine, so that the model loss of a step is its end.
    assert float(far.model_loss) == pytest.approx(float((far.theta[0] - 6) ** 2), rel=1e-3)


def test_exploring_finds_the_end_of_a_curved_valley():
    """Nothing but the model loss tells that the end comes nearer."""
    rows = lambda v: jnp.stack([1e3 * (v[1] - jnp.sin(3 * v[0])), v[0] - 6])
    how = {"acceptance": ModelDriven(), "radius": 0.3}
    theta, _ = solve(rows, [1.0, 0.1], "qr", contraction=1.0, **how)
    theta, loss = solve(rows, theta, "qr", 10, contraction=0.0, **how)
    assert loss < 1e-20
    np.testing.assert_allclose(theta, [6, np.sin(18)], atol=1e-8)


@pytest.mark.slow
def test_an_exploring_step_that_is_not_finite_is_not_taken():
    rows = lambda v: jnp.where(v[0] > 1.5, jnp.nan, 1.0) * jnp.stack([v[1], v[0] - 2])
    both = lambda v: Whole(rows(v), jax.jacobian(rows)(v))
    begin = jnp.ones(2)
    step = partial(levenberg_marquardt_step, rows, both, begin, jnp.asarray(1e-9), ModelDriven())
    taken = step(contraction=1.0)
    np.testing.assert_array_equal(taken.theta, begin)
    assert float(taken.damping) > 1e-9
    assert float(taken.loss) == float(taken.model_loss) == 2.0


def test_exploring_ends_when_the_model_loss_no_longer_falls_by_its_share():
    rule = ModelDriven(decrease=0.5)
    assert not bool(rule.explored(jnp.array([jnp.inf, 1.0, 0.9])))  # not enough steps yet
    assert not bool(rule.explored(jnp.array([1.0, 0.7, 0.5])))
    assert bool(rule.explored(jnp.array([1.0, 0.7, 0.51])))
    assert [r.explores for r in (GainRatio(), NonMonotone(), rule)] == [False, False, True]
    assert [r.monotone for r in (GainRatio(), NonMonotone(), rule)] == [True, False, False]


def solve(rows, theta, solver, steps=60, *, acceptance: Acceptance = FIRST_ORDER, **options):
    jacobian = jax.jit(lambda v: Whole(rows(v), jax.jacobian(rows)(v)))
    step = jax.jit(
        lambda t, d: levenberg_marquardt_step(
            rows, jacobian, t, d, acceptance, solver=solver, **options
        )
    )
    theta, damping, loss = jnp.asarray(theta), jnp.zeros(()), jnp.inf
    for _ in range(steps):
        theta, damping, loss, *_ = step(theta, damping)
    return np.asarray(theta), float(loss)


def banana(v):
    return jnp.stack([10 * (v[1] - v[0] ** 2), 1 - v[0]])


@pytest.mark.parametrize("corrections", [0, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_rosenbrock(solver, corrections):
    rule = GainRatio(corrections=corrections)
    theta, loss = solve(banana, [-1.2, 1.0], solver, acceptance=rule)
    np.testing.assert_allclose(theta, [1, 1], atol=1e-6)
    assert loss < 1e-14


def test_second_order_steps_go_further():
    # The valley of Rosenbrock's function is curved: first-order steps have to be short in it.
    first, second = (
        solve(banana, [-1.2, 1.0], "qr", 6, acceptance=GainRatio(corrections=c))[1] for c in (0, 2)
    )
    assert second < 0.1 * first


@pytest.mark.parametrize(("solver", "shape"), [*((s, (60, 20)) for s in SOLVERS), ("qr", (20, 50))])
def test_the_same_factorisation_solves_for_other_rows(solver, shape):
    jacobian, rows = random_problem(*shape, decades=2)
    dampings = damping_grid(jnp.asarray(1e-4), 5)
    _, solve_for = damped_steps(model_of(jacobian, rows), dampings, dampings[2], solver)
    others = jnp.asarray(np.random.default_rng(3).normal(size=(2, shape[0])))
    part = dampings[1:3]
    for row, damping, step in zip(others, part, solve_for(others, part), strict=True):
        expected = dense_step(jacobian, row, float(damping))
        np.testing.assert_allclose(step, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


@pytest.mark.slow
def test_the_first_correction_is_geodesic_acceleration():
    """For rows that are quadratic, p - (J'J + m I)^-1 J' r''(p, p) / 2 to rounding."""
    rng = np.random.default_rng(5)
    jacobian, r, curvature = rng.normal(size=(9, 4)), rng.normal(size=9), rng.normal(size=(9, 4, 4))
    rows_at = jax.vmap(lambda p: r + jacobian @ p + jnp.einsum("nij,i,j->n", curvature, p, p) / 2)
    straight = np.stack([dense_step(jacobian, r, m) for m in (0.5, 50.0)])
    solve_for = lambda e: jnp.stack(
        [dense_step(jacobian, np.asarray(row), m) for row, m in zip(e, (0.5, 50.0), strict=True)]
    )
    with jax.disable_jit():  # SciPy solves in the loop
        model = lambda p: r + p @ jacobian.T
        corrected, losses = second_order_correction(
            rows_at, solve_for, jnp.asarray(straight), rows_at(straight), model, 1
        )
    for p, m, step, loss in zip(straight, (0.5, 50.0), corrected, losses, strict=True):
        second = np.einsum("nij,i,j->n", curvature, p, p)
        expected = p + dense_step(jacobian, second, m) / 2
        before, after = (float(jnp.sum(rows_at(q[None]) ** 2)) for q in (p, expected))
        np.testing.assert_allclose(step, expected if after < before else p, atol=1e-10)
        assert float(loss) == pytest.approx(min(before, after), rel=1e-9)


def test_half_of_the_cores_that_may_be_used(monkeypatch):
    """In a container that is pinned to two cores BLAS gets one, however many the machine has."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4}, raising=False)
    asked = []
    libraries = SimpleNamespace(limit=lambda limits, user_api: asked.append(limits))
    monkeypatch.setattr(threads, "_libraries", lambda scipy: libraries)
    threads.blas_threads()
    assert asked == [1]


@pytest.mark.slow
def test_jacobians_in_chunks_are_the_same(monkeypatch):
    family = Oscillator()
    problem = Problem(family, MLP((4, 4), "sine", FiLM(0, 2), frequency_scale=2.0), jnp.float64)
    batch = fixed(family, Sampling(30, 7, 1, "collocation"), jnp.float64)
    theta, unravel = ravel_pytree(problem.drawing()(jax.random.PRNGKey(0)))
    scales = jax.jit(partial(row_scales, problem, Fixed({})))(unravel(theta), batch)
    scale = equilibrating(problem, scales)
    given = {"unravel": unravel, "batch": batch, "scale": scale}
    both = lambda: jax.jit(partial(rows_and_jacobian, problem, Fixed({}), **given))(theta=theta)
    whole = both()
    monkeypatch.setitem(chunks.MEMORY, "cpu", 8 * 8 * theta.size * 4)  # four rows at a time
    for one, other in zip(whole, both(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def kind_of(system, theta, solver):
    """Which linear model is made for a solver: nothing is computed."""
    kinds = []
    jax.eval_shape(lambda t: kinds.append(type(system.linearised(t, solver))), theta)
    return kinds[0]


@pytest.mark.slow
@pytest.mark.parametrize("family", [Oscillator(), Coupled()], ids=["oscillator", "coupled"])
def test_sums_over_chunks_are_what_the_whole_jacobian_gives(family, monkeypatch):
    """90 points inside, and fewer on the boundary, in chunks of four: the last ones are padded."""
    problem = Problem(family, MLP((4, 4), "sine", FiLM(0, 2), frequency_scale=2.0), jnp.float64)
    batch = fixed(family, Sampling(90, 7, 1, "collocation"), jnp.float64)
    theta, unravel = ravel_pytree(problem.drawing()(jax.random.PRNGKey(0)))
    system = RowSystem(problem, Fixed({}), unravel, batch)
    rng = np.random.default_rng(0)
    directions, others = (
        jnp.asarray(rng.normal(size=(2, n))) for n in (theta.size, system.num_rows(theta))
    )

    def everything(theta):
        model = system.linearised(theta, "cholesky")
        products = model.times(directions), model.times(directions[0])
        sums = model.normal(), model.gradient(), model.squares, model.total(gram_and_rows)
        return (model.rows, *products, model.transposed_times(others), *sums)

    gram_and_rows = lambda jacobian, rows: (gram(2 * jacobian), jacobian.T @ rows)
    whole = jax.jit(everything)(theta)
    assert kind_of(system, theta, "cholesky") is Whole
    monkeypatch.setitem(chunks.MEMORY, "cpu", 8 * 8 * theta.size * 4)  # four rows at a time
    assert kind_of(system, theta, "qr") is Whole
    summed = jax.jit(lambda theta: everything(theta))(theta)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(summed), strict=True):
        # Sums in another order differ by the rounding of their largest parts.
        atol = max(1e-13, 1e-14 * float(np.max(np.abs(one))))
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "share"), [("two-level", 1e-12), ("cholesky", 1e-4)])
def test_a_step_over_chunks_is_the_step(solver, share, monkeypatch):
    """Corrected to second order; with a damping, as a share of the trace, that needs two levels.

    One level alone loses as many digits as the condition has, whichever way J'J is summed.
    """
    problem = Problem(Oscillator(), MLP((4, 4), "sine", FiLM(0, 2)), jnp.float64)
    batch = fixed(problem.family, Sampling(90, 7, 1, "collocation"), jnp.float64)
    theta, unravel = ravel_pytree(problem.drawing()(jax.random.PRNGKey(0)))
    system = RowSystem(problem, Fixed({}), unravel, batch)
    damping = share * jax.jit(lambda t: system.linearised(t, solver).squares)(theta)

    def step():
        model = partial(system.linearised, solver=solver)
        given = (system.rows, model, theta, damping, GainRatio(corrections=2))
        return jax.jit(lambda: levenberg_marquardt_step(*given, num=3, solver=solver))()

    whole = step()
    monkeypatch.setitem(chunks.MEMORY, "cpu", 8 * 8 * theta.size * 16)  # sixteen rows at a time
    assert kind_of(system, theta, solver) is Summed
    summed = step()
    assert not np.array_equal(whole.theta, theta)
    np.testing.assert_allclose(summed.theta, whole.theta, rtol=0, atol=1e-9)
    np.testing.assert_allclose(summed.loss, whole.loss, rtol=1e-7)
    np.testing.assert_allclose(summed.model_loss, whole.model_loss, rtol=1e-7)


def test_no_step_leaves_the_trust_region():
    """Rosenbrock from afar: the free step leaps, the other one keeps to its share of theta."""
    jacobian = lambda v: Whole(banana(v), jax.jacobian(banana)(v))

    def length(radius):
        rule = GainRatio(corrections=0)
        step = jax.jit(
            lambda t, d: levenberg_marquardt_step(banana, jacobian, t, d, rule, radius=radius)
        )
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
    rule = GainRatio(corrections=corrections)
    theta, loss = solve(rows, [5.0], "qr", steps=40, acceptance=rule)
    assert np.isfinite(theta).all()
    assert np.isfinite(loss)
    assert loss < float(jnp.sum(rows(jnp.array([5.0])) ** 2))


@pytest.mark.slow
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
    problem = Problem(family, MLP((4, 4), "sine", FiLM(0, 2), frequency_scale=2.0), jnp.float64)
    batch = fixed(family, Sampling(6, 4, 1, "collocation"), jnp.float64)
    params = problem.drawing()(jax.random.PRNGKey(0))
    scales = jax.jit(lambda p: row_scales(problem, weighting, p, batch))(params)
    scale = equilibrating(problem, scales)
    theta, unravel = ravel_pytree(params)
    theta = theta + 0.1 * jax.random.normal(jax.random.PRNGKey(1), theta.shape)
    rows = jax.jit(lambda v: weighted_rows(problem, weighting, unravel(v), batch, scale))
    both = jax.jit(lambda v: rows_and_jacobian(problem, weighting, unravel, v, batch, scale))
    values, jacobian = both(theta)
    np.testing.assert_allclose(values, rows(theta), rtol=1e-12, atol=1e-14)
    size = 1e-6
    for i in range(0, theta.size, 7):
        ahead, behind = rows(theta.at[i].add(size)), rows(theta.at[i].add(-size))
        column = (ahead - behind) / (2 * size)
        np.testing.assert_allclose(jacobian[:, i], column, atol=1e-7 * (1 + np.abs(column).max()))


def test_fixed_weights_are_not_divided_out_again():
    family = Oscillator()
    problem = Problem(family, MLP((4, 4), "sine", FiLM(0, 2), frequency_scale=2.0), jnp.float64)
    batch = fixed(family, Sampling(6, 4, 1, "collocation"), jnp.float64)
    params = problem.drawing()(jax.random.PRNGKey(0))

    def rows(weighting):
        def scaled(params):
            scales = row_scales(problem, weighting, params, batch)
            return weighted_rows(problem, weighting, params, batch, equilibrating(problem, scales))

        return quick(scaled)(params)

    even, heavy = rows(Fixed({})), rows(Fixed(dict.fromkeys(family.terms, 9.0)))
    np.testing.assert_allclose(heavy, 3 * even, rtol=1e-12)
    assert np.max(np.abs(even)) > 0


def test_weights_that_are_learnt_are_refused():
    problem = Problem(Oscillator(), MLP((4, 4), "sine", FiLM(0, 2)), jnp.float64)
    small = Sampling(8, 4, 1, "collocation")
    setup = Setup(problem, ReLoBRaLo(), None, small, small)
    with pytest.raises(LcpinnError, match="ReLoBRaLo learns its weights"):
        GaussNewton(sampling=small).build(setup)


def test_several_points_per_lambda_are_refused():
    """They would all be rows, of which the Jacobian by rows has one."""
    problem = Problem(Oscillator(), MLP((4, 4), "sine", FiLM(0, 2)), jnp.float64)
    small = Sampling(8, 4, 1, "collocation")
    setup = Setup(problem, Fixed({}), None, small, small)
    with pytest.raises(LcpinnError, match="its sampling has 8 points per lambda"):
        GaussNewton(sampling=Sampling(8, 4, 3, "gauss")).build(setup)
    GaussNewton(sampling=Sampling(8, 4, 3, "sobol")).build(setup)


def test_a_search_by_the_model_loss_has_exact_steps():
    """Conjugate gradients end early where a search does not need them to rounding."""
    jacobian, rows = random_problem(200, 100, decades=5)
    dampings = damping_grid(jnp.asarray(1e-6), 5)
    error = {}
    for exact in (False, True):
        given = (model_of(jacobian, rows), dampings, dampings[2], "qr", exact)
        steps = quick(lambda given=given: damped_steps(*given)[0])()
        truth = dense_step(jacobian, rows, float(dampings[0]))
        error[exact] = np.linalg.norm(steps.directions[0] - truth) / np.linalg.norm(truth)
    assert error[True] < 1e-7
    assert error[True] < 1e-2 * error[False]


def test_an_unknown_solver_is_refused_when_it_is_named():
    message = "GaussNewton has no solver 'svd'; there are auto, qr, two-level, cholesky"
    with pytest.raises(LcpinnError, match=message):
        GaussNewton(solver="svd")


def pace_after(pace, first=1.0, **taken):
    """What model-driven acceptance makes of a pace after a step with these losses."""
    given = {"loss": 1.0, "model_loss": 1.0, "admissible": True, **taken}
    step = Step(jnp.zeros(1), jnp.ones(()), *[jnp.asarray(value) for value in given.values()])
    return ModelDriven().paced(pace, step, jnp.asarray(first))


def pace(contraction, history, radius=0.1):
    return Pace(jnp.asarray(radius), jnp.asarray(contraction), jnp.asarray(history))


FALLING = (128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0)
STALLED = (128.0, 64.0, 32.0, 1.30, 1.25, 1.2, 1.15, 1.1)


def test_exploring_goes_on_while_the_model_loss_falls():
    after = pace_after(pace(1.0, FALLING), first=1e3, model_loss=0.5, loss=1.0)
    assert bool(after.exploring)
    np.testing.assert_allclose(after.history[-5:], [8, 4, 2, 1, 0.5])
    assert float(after.next_radius) == float(after.radius) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("history", "model_loss", "loss", "radius", "narrower"),
    [
        (STALLED, 1.05, 1.0, 0.1, True),
        (FALLING, 0.5, 20.0, 0.1, False),
        ([1e-5 * value for value in FALLING], 1e-5, 20.0, 0.1, True),
        (STALLED, 1.05, 1.0, 0.02, False),
    ],
    ids=["stalled", "a high loss early on", "a high loss later", "as small as it may be"],
)
def test_a_trust_region_that_is_too_wide_becomes_narrower(
    history, model_loss, loss, radius, narrower
):
    after = pace_after(pace(1.0, history, radius), first=1e3, model_loss=model_loss, loss=loss)
    assert bool(after.exploring)
    assert float(after.radius) == pytest.approx(0.9 * radius if narrower else radius)


@pytest.mark.parametrize("model_loss", [0.99, 1e-32], ids=["stagnation", "rounding"])
def test_after_exploring_the_trust_region_contracts_until_the_loss_is_the_model_loss(model_loss):
    after = pace_after(pace(1.0, [1.0] * 5), model_loss=model_loss)
    assert 0 < float(after.contraction) < 1
    assert np.isinf(after.history).all()  # nothing is known of the merit of what comes
    shorter = pace_after(after, loss=1.0, model_loss=0.01)
    assert float(shorter.contraction) == pytest.approx(float(after.contraction) ** 2)
    assert float(shorter.next_radius) < float(after.next_radius)
    # A step that was too long for any damping has not seen this radius.
    waits = pace_after(shorter, loss=1.0, model_loss=1.0, admissible=False)
    assert float(waits.contraction) == float(shorter.contraction)
    ended = pace_after(shorter, loss=0.03, model_loss=0.01)
    assert float(ended.contraction) == 0.0
    assert float(ended.next_radius) == float(ended.radius)
    later = pace_after(pace_after(ended, loss=0.02), loss=0.03)
    np.testing.assert_allclose(later.history[-2:], 0.02)
    assert np.isfinite(later.history).all()  # so that stagnation is judged from here on


def test_a_step_of_a_contraction_takes_the_largest_damping_where_none_is_short_enough():
    rows = lambda v: jnp.stack([v[1], v[0] - 2])
    both = lambda v: Whole(rows(v), jax.jacobian(rows)(v))
    given = (rows, both, jnp.ones(2), jnp.asarray(1e-9), ModelDriven())
    step = quick(partial(levenberg_marquardt_step, *given, radius=1e-6))
    waits, goes = step(contraction=1.0), step(contraction=0.5)
    np.testing.assert_array_equal(waits.theta, jnp.ones(2))
    assert float(np.linalg.norm(goes.theta - 1)) > 1
    assert float(goes.damping) == pytest.approx(1e-9 * 10**1.5)
    assert not bool(goes.admissible)


def test_a_contraction_comes_down_to_the_model_loss():
    """A descent by the loss from the same place is where it was after as many steps."""
    rng = np.random.default_rng(3)
    scales = jnp.asarray(10.0 ** -np.arange(8))
    bend = jnp.asarray(rng.standard_normal((12, 8, 8)))
    slope = jnp.asarray(rng.standard_normal((12, 8))) * scales
    rows = lambda v: slope @ (v - 1) + jnp.einsum("ijk,j,k->i", bend, v - 1, v - 1) * 1e-3
    both = lambda v: Whole(rows(v), jax.jacobian(rows)(v))

    def ends(contracts):
        theta, damping = jnp.zeros(8), jnp.asarray(1e-6)
        at = Pace(jnp.asarray(0.5), jnp.asarray(0.4 if contracts else 0.0), jnp.full(4, jnp.inf))
        step = quick(
            lambda theta, damping, radius, contraction: levenberg_marquardt_step(
                rows,
                both,
                theta + 0.0,
                damping,
                ModelDriven(),
                radius=radius,
                contraction=contraction,
            )
        )
        for _ in range(14):
            taken = step(theta, damping, at.next_radius, at.contraction)
            at = ModelDriven().paced(at, taken, jnp.asarray(1.0))
            theta, damping = taken.theta, taken.damping
        return float(taken.loss)

    assert ends(True) < 1e-2 * ends(False)
