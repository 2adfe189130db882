"""The estimated error, against errors that are known."""

import importlib.util
import itertools
import json
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_explorer import untrained
from toy import Bent, Moving, Ring
from typer.testing import CliRunner

import lcpinn as lc
from benchmarks import certificate as benchmark
from benchmarks import perturbed
from benchmarks.zoo import ZOO
from lcpinn.certificate import Estimator, by_solution, certificate, of_network, worst_case
from lcpinn.certificate.attempt import Attempts
from lcpinn.certificate.estimator import DRAWS
from lcpinn.certificate.resolution import needed
from lcpinn.certificate.stability import stability
from lcpinn.cli import app
from lcpinn.evaluation import true_errors
from lcpinn.families import FAMILIES, Burgers
from lcpinn.jet import expand
from lcpinn.network import MLP, Concat, FiLM
from lcpinn.rows import Problem
from lcpinn.spectral import Axis, Expansion, LinearisedRows, LinearisedTerms, march_direction
from lcpinn.spectral.determinacy import Determinacy
from lcpinn.spectral.family_solver import FamilySolver
from lcpinn.spectral.least_squares import TensorRows, iterative
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.spectral.splines import Splines, halved

pytestmark = pytest.mark.usefixtures("x64")


class Spring(lc.Family):
    """u'' + 2 d u' + 400 u = 0, u(0) = 1, u'(0) = 0: seven periods, in which errors build up."""

    domain = lc.Box(t=(0.0, 2.2))
    parameters = lc.Uniform(d=(0.1, 1.0))

    @lc.interior
    def equation(self, u, u_t, u_tt, d):
        return u_tt + 2 * d * u_t + 400 * u

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 1.0, u_t

    def exact(self, t, d):
        w = jnp.sqrt(400 - d**2)
        return jnp.exp(-d * t) * (jnp.cos(w * t) + d / w * jnp.sin(w * t))


class Circle(Ring):
    """With its solution, to know the error by."""

    def exact(self, t, x, c):
        return jnp.sin(jnp.pi * (x - c * t))


class Pair(lc.Family):
    """u' = v, v' = -u³: two outputs, and not linear."""

    domain = lc.Box(t=(0.0, 3.0))
    outputs = ("u", "v")
    weights = None

    @lc.interior
    def equation(self, u, u_t, v, v_t):
        return u_t - v, v_t + u**3

    @lc.on(t=0.0)
    def start(self, u, v):
        return u - 1.0, v


def of_function(family, function):
    """An estimator of a plain function of (point, lambda) in place of a network."""

    def jet(params, points, parameters, weights, orders):
        at = lambda p: expand(lambda q: function(params, q, parameters), p, orders)
        return jnp.moveaxis(jax.vmap(at)(points), 0, 1)

    return Estimator(family, jet)


def spoilt(family, bump):
    """The exact solution and an error of known shape and size."""

    def function(size, point, lam):
        return family.call("exact", point, lam) + size * bump(point)

    return of_function(family, function)


CASES = {
    "spring": (Spring(), lambda p: jnp.sin(3 * p) * p**2, [0.3]),
    "ring": (Circle(), lambda p: (p[0] * jnp.cos(jnp.pi * p[1]))[None], [1.3]),
    "helmholtz": (FAMILIES["helmholtz-1d"](), lambda p: jnp.sin(2 * jnp.pi * p), [5.0]),
    "well": (FAMILIES["schrodinger-1d"](), lambda p: jnp.sin(2 * jnp.pi * p) * p, [6.0]),
    "plane": (
        FAMILIES["helmholtz-2d"](),
        lambda p: jnp.prod(jnp.sin(jnp.pi * p) * p)[None],
        [3.0],
    ),
    "cube": (
        FAMILIES["helmholtz-3d"](),
        lambda p: jnp.prod(jnp.sin(jnp.pi * p) * jnp.cos(3 * p))[None] + 0.1 * p[:1],
        [4.5],
    ),
}


@cache
def estimator_of(name):
    """One for errors of every size, which it is called with."""
    family, bump, _ = (CASES | FRONTS)[name]
    return spoilt(family, bump)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1e-3, 1e-9])
def test_a_known_error_is_found(name, size):
    family, bump, lam = CASES[name]
    estimate = estimator_of(name)(size, lam)
    points = family.domain.sobol(4000)
    truth = np.asarray(family.truth(points, np.array(lam)))
    error = size * np.asarray(jax.vmap(bump)(points))
    assert estimate.error == pytest.approx(
        np.linalg.norm(error) / np.linalg.norm(truth), rel=0.15
    ), estimate.reason


def test_a_small_residual_with_a_wrong_solution_is_seen():
    """A solution that dies out too early solves the equation almost everywhere."""
    family = Spring()

    def dying(_, point, lam):
        t = point[0]
        fade = 0.5 * (1 - jnp.tanh(8 * (t - 1.1)))
        return family.call("exact", point, lam) * fade

    estimator = of_function(family, dying)
    estimate = estimator(0.0, [0.2])
    assert estimate.error > 0.3


@pytest.mark.slow
def test_a_resonance_is_seen():
    """The same residual means a larger error where the operator is nearly singular."""
    family = FAMILIES["helmholtz-1d"]()
    estimator = spoilt(family, lambda p: jnp.sin(jnp.pi * p) ** 2)
    exact = of_function(family, lambda size, p, lam: family.call("exact", p, lam))
    assert exact(0.0, [3.1]).error < 1e-10
    # sin² has a part along the resonant sin(πx): found although the operator hardly sees it.
    at = lambda k: estimator(1e-6, [k]).error
    truth = lambda k: (
        1e-6
        * np.sqrt(3 / 8)
        / np.sqrt(
            np.mean(np.asarray(family.truth(np.linspace(0, 1, 2001)[:, None], np.array([k]))) ** 2)
        )
    )
    for k in (3.1, 3.14159):
        assert at(k) == pytest.approx(truth(k), rel=0.15)


def test_estimates_peak_where_the_operator_is_nearly_singular():
    """With a residual of one size for every k, the error is one over the distance of k² to π²."""
    family = FAMILIES["helmholtz-1d"]()

    def function(size, point, lam):
        peak = size / (lam[0] ** 2 - jnp.pi**2)
        return family.call("exact", point, lam) + peak * jnp.sin(jnp.pi * point)

    estimator = of_function(family, function)
    found = {k: estimator(1e-6, [k]).error for k in (2.6, 3.0, 3.13, 3.3, 4.0)}
    assert max(found, key=lambda k: found[k]) == 3.13
    assert found[3.13] > 30 * found[2.6]


@pytest.mark.parametrize("size", [1e-5, 0.05])
def test_several_outputs_of_a_nonlinear_system(size):
    """With an error of some percent it takes more than one linearisation."""
    from scipy.integrate import solve_ivp

    solved = solve_ivp(
        lambda _, y: [y[1], -(y[0] ** 3)], (0, 3), [1.0, 0.0], "DOP853", dense_output=True,
        rtol=1e-12, atol=1e-13,
    )  # fmt: skip
    t = np.linspace(0, 3, 61)
    fits = [jnp.asarray(np.polyfit(t - 1.5, y, 24)) for y in solved.sol(t)]

    def function(size, point, lam):
        s = point[0] - 1.5
        return jnp.stack([jnp.polyval(f, s) for f in fits]) + size * jnp.stack(
            [point[0] ** 2, 2 * point[0]]
        )

    found = of_function(Pair(), function)(size, [])
    u, v = solved.sol(t)
    expected = size * max(
        np.linalg.norm(t**2) / np.linalg.norm(u),
        np.linalg.norm(2 * t) / np.linalg.norm(v),
    )
    assert found.error == pytest.approx(expected, rel=0.05), found.reason


def test_what_is_judged_is_the_mean_over_all_loss_weights():
    """Linearised about the mean of the first few, whose error is another one."""
    family = Spring()
    shots = np.where(np.arange(3 * DRAWS) < DRAWS, 5.0, 1.0)[:, None]

    def jet(size, points, parameters, weights, orders):
        def function(p):
            exact = family.call("exact", p, parameters)
            return exact + size * jnp.mean(weights) * jnp.sin(3 * p)

        return jnp.moveaxis(jax.vmap(lambda p: expand(function, p, orders))(points), 0, 1)

    estimator = Estimator(family, jet)
    few, all_of_them = (estimator(1e-4, [0.3], w).error for w in (shots[:DRAWS], shots))
    assert all_of_them == pytest.approx(few * 7 / 15, rel=1e-3)


@pytest.mark.slow
def test_iterations_find_what_a_dense_solver_finds():
    """Slopes that vary with the place, so that the preconditioner is not exact."""
    family = Moving()
    estimator = of_function(family, lambda _, p, lam: jnp.cos(p[:1] * p[1:]))
    expansion, at = Expansion(estimator.terms, (8, 8)), estimator.linearisation(0.0, [1.0])
    rng, blocks = np.random.default_rng(0), []
    for grid in expansion.grids:
        terms = len(grid.points)
        residual, slopes = at.slopes(
            grid.term, grid.orders, at.series(grid.points, grid.orders), grid.points
        )
        wave = 1 + 0.5 * np.sin(3 * grid.points.sum(axis=1))[:, None, None, None]
        blocks.append(LinearisedRows(grid, residual + rng.normal(size=(terms, 1)), wave * slopes))
    solved, remaining, initial = iterative(blocks)
    rows = [TensorRows(block) for block in blocks]
    matrix = np.concatenate([r.weight * b.matrix() for r, b in zip(rows, blocks, strict=True)])
    target = np.concatenate([-r.weight * b.residual for r, b in zip(rows, blocks, strict=True)])
    exact = np.linalg.lstsq(matrix, target[:, 0])[0]
    np.testing.assert_allclose(solved, exact, rtol=1e-5, atol=1e-6 * np.abs(exact).max())
    assert np.linalg.norm(remaining) == pytest.approx(np.linalg.norm(matrix @ exact - target[:, 0]))
    assert np.linalg.norm(initial) == pytest.approx(np.linalg.norm(target))


@pytest.mark.slow
def test_what_is_not_resolved_is_not_estimated(monkeypatch):
    """Nor compared with a solution, if there is none."""
    monkeypatch.setattr(by_solution, "TRIALS", 0)
    family = Spring()
    estimate = spoilt(family, lambda p: jnp.sin(9000 * p))(1e-3, [0.5])
    assert np.isnan(estimate.error)
    assert "resolve" in estimate.reason


FINE = {
    "one coordinate": (Spring(), lambda p: jnp.sin(150 * p), [0.5]),
    "with hundreds of waves": (Spring(), lambda p: jnp.sin(600 * p), [0.5]),
    "one of two": (
        FAMILIES["helmholtz-2d"](), lambda p: (jnp.sin(25 * p[0]) * p[1] ** 2)[None], [3.0],
    ),
    "both of two": (
        FAMILIES["helmholtz-2d"](), lambda p: jnp.sin(90 * p[0] + 50 * p[1] ** 2)[None], [3.0],
    ),
    "one of three": (
        FAMILIES["helmholtz-3d"](), lambda p: (jnp.sin(30 * p[0]) * p[1] + p[2] ** 2)[None], [4.5],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_more_functions_are_taken_where_the_error_is_finer(name):
    """Than 128 functions, or 24 along each of two coordinates, can follow."""
    family, bump, lam = FINE[name]
    estimate = spoilt(family, bump)(1e-3, lam)
    points = family.domain.sobol(4000)
    truth = np.asarray(family.truth(points, np.array(lam)))
    error = 1e-3 * np.asarray(jax.vmap(bump)(points))
    expected = np.linalg.norm(error) / np.linalg.norm(truth)
    assert estimate.error == pytest.approx(expected, rel=0.15), estimate.reason


def test_the_residual_says_how_many_functions_an_error_needs():
    family = Circle()  # on a circle, so that waves along x are counted by twos
    at = spoilt(family, lambda p: (p[0] ** 3 * jnp.sin(5 * jnp.pi * p[1]))[None])
    along_t, along_x = needed(at.linearisation(1e-3, [1.3])).enough
    assert along_t <= 5
    assert along_x == 11  # of period 2: 5 sines, 5 cosines and the constant
    steep = spoilt(family, lambda p: jnp.tanh(400 * (p[:1] - 0.5)))
    steep_along_t = needed(steep.linearisation(1e-3, [1.3]))
    assert steep_along_t.enough[0] > 150
    assert steep_along_t.enough[0] > steep_along_t.least[0] > 50


def test_without_time_an_error_is_not_followed_far():
    """Sizes that take long are begun only if there is time for them."""
    family, bump, lam = FINE["both of two"]
    estimator = spoilt(family, bump)
    hasty = estimator(1e-3, lam, fronts=False, seconds=0.0)
    assert np.isnan(hasty.error)
    assert "resolve" in hasty.reason
    sizes = max(np.prod(sizes) for sizes, _ in estimator.attempts.expansions)
    assert sizes <= 3600


@pytest.mark.parametrize(("periodic", "integrated"), [(False, None), (True, None), (False, 4)])
def test_functions_and_their_derivatives(periodic, integrated):
    axis = Axis(-0.5, 2.0, periodic, 7, integrated)
    x, size = np.linspace(-0.4, 1.9, 11), 1e-5
    for order in (0, 1, 2):
        ahead, behind = axis.values(x + size, order), axis.values(x - size, order)
        slope = (ahead - behind) / (2 * size)
        np.testing.assert_allclose(axis.values(x, order + 1), slope, rtol=1e-5, atol=1e-4)
    if periodic:
        np.testing.assert_allclose(axis.values(x, 1), axis.values(x + 2.5, 1), atol=1e-9)


def test_derivatives_of_integrals_are_orthonormal_and_span_all_polynomials():
    axis = Axis(-0.5, 2.0, False, 40, 2)
    second, x = axis.values(axis.nodes(), 2) * 1.25**2, axis.nodes()
    gram = second.T @ (axis.weights()[:, None] * second)
    np.testing.assert_allclose(gram[2:28, 2:28], np.eye(26), atol=1e-10)  # as Fejér's rule is exact
    table, cubic = axis.values(x, 0)[:, :4], x**3 - 2 * x
    np.testing.assert_allclose(table @ np.linalg.lstsq(table, cubic)[0], cubic, atol=1e-12)


def test_what_is_left_of_a_residual_has_hardly_any_solution():
    """Conditions on second derivatives once made a hundred times the error out of 1e-5 of it."""
    family = ZOO["shaken-beam"]()
    bump = lambda p: jnp.concatenate([jnp.sin(150 * p + 1), jnp.cos(150 * p)])
    estimator = spoilt(family, bump)
    at = estimator.linearisation(1e-3, [5.0])
    expansion = estimator.attempts.expansion((96,), at.parameters)
    solved = expansion.step(at, expansion.zero, expansion.base(at))
    assert 1e-6 < solved.remaining_share < 1e-3
    points = expansion.inside.points
    error = 1e-3 * np.asarray(jax.vmap(bump)(points))
    expected = expansion.relative(error, at.values(points) - error)
    found = expansion.relative(expansion.values(solved.coefficients), at.values(points))
    assert found == pytest.approx(expected, rel=0.02)


def test_corrections_themselves_have_to_agree(monkeypatch):
    """Two of one size and opposite signs are no estimate."""
    monkeypatch.setattr(by_solution, "TRIALS", 0)
    estimator = spoilt(Spring(), lambda p: jnp.sin(3 * p))
    signs = itertools.chain([1.0, -1.0], itertools.cycle([-1.0, 1.0]))  # the third beside the first
    honest = Attempts.__call__

    def attempt(self, sizes, at):
        made = honest(self, sizes, at)
        return made._replace(coefficients=next(signs) * made.coefficients)

    monkeypatch.setattr(Attempts, "__call__", attempt)
    estimate = estimator(1e-3, [0.5])
    assert np.isnan(estimate.error)
    assert "do not agree" in estimate.reason


# -- Bounds ----------------------------------------------------------------------------------------


def test_the_constant_of_stability_is_one_over_the_distance_to_a_resonance():
    family = FAMILIES["helmholtz-1d"]()
    estimator = spoilt(family, lambda p: p)
    for k in (2.0, 3.1):
        at = estimator.linearisation(0.0, [k])
        expansion = Expansion(estimator.terms, (48,), integrated=True)
        constant = stability(expansion, at, np.ones(1))
        assert constant is not None
        bound = constant.bound(np.array([1.0, 0.0, 0.0])[: len(constant.factors)])
        assert bound == pytest.approx(1 / (np.pi**2 - k**2), rel=0.1)


@pytest.mark.parametrize(("smooth", "waves"), [(0.0, 1e-6), (1e-3, 1e-5)])
def test_what_is_not_resolved_is_bounded(smooth, waves):
    """Sines that there is no time to follow, alone and beside an error that is smooth."""
    family, (low, fine) = FAMILIES["helmholtz-2d"](), (smooth, waves)
    shape = lambda p: (low * p[0] ** 2 * p[1] + fine * jnp.sin(60 * p[0] + 45 * p[1]))[None]
    estimate = spoilt(family, shape)(1.0, [3.0], fronts=False, seconds=0.0, bounds=True)
    assert np.isnan(estimate.error)
    points = family.domain.sobol(4000)
    error = np.linalg.norm(np.asarray(jax.vmap(shape)(points)))
    true = error / np.linalg.norm(np.asarray(family.truth(points, np.array([3.0]))))
    assert estimate.at_least <= true <= estimate.at_most < 0.1
    if smooth:
        assert estimate.at_least > true / 4
    hidden = spoilt(family, shape)(1.0, [3.0], fronts=False, seconds=0.0)
    assert (hidden.at_least, hidden.at_most) == (0.0, np.inf)


QUICKLY_BOUNDED = {
    "near a resonance": (FAMILIES["helmholtz-1d"](), lambda p: jnp.sin(jnp.pi * p), [3.1415]),
    "beside it": (FAMILIES["helmholtz-1d"](), lambda p: jnp.sin(2 * jnp.pi * p), [9.41]),
    "building up": (Spring(), lambda p: jnp.sin(20 * p) * p, [0.1]),
    "of fourth order": (
        ZOO["shaken-beam"](), lambda p: jnp.concatenate([jnp.sin(30 * p), jnp.cos(9 * p)]), [5.0],
    ),
    "two coordinates": (ZOO["heat"](), lambda p: (jnp.sin(9 * p[1]) * p[0])[None], [0.02]),
    "a jump": (ZOO["layered-wall"](), lambda p: jnp.concatenate([p**2, p]), [1.0, 4.0] * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", QUICKLY_BOUNDED)
def test_a_bound_that_is_enough_is_above_the_error(name):
    """Smooth errors, which a constant of stability is made for, alone and beside fine waves."""
    family, bump, lam = QUICKLY_BOUNDED[name]

    def error(sizes, p):
        return sizes[0] * bump(p) + sizes[1] * jnp.sin(700 * p.sum())

    function = lambda sizes, p, setting: family.call("exact", p, setting) + error(sizes, p)
    estimator, points = of_function(family, function), family.domain.sobol(4000)
    truth = np.asarray(family.truth(points, np.array(lam))).reshape(len(points), -1)
    for sizes in np.array([[1e-9, 0.0], [1e-9, 1e-13], [0.0, 1e-12]]):
        limits = estimator.bounds(estimator.linearisation(sizes, lam))
        made = np.asarray(jax.vmap(lambda p, s=sizes: error(s, p))(points))
        true = np.max(np.linalg.norm(made, axis=0) / np.linalg.norm(truth, axis=0))
        assert limits is not None
        assert true <= limits.without_correction < np.inf
        found = estimator(sizes, lam, bounds=True, enough=1e-3)
        assert found.at_most >= true
        if np.isfinite(found.error):  # what is smooth is estimated in the same time
            assert found.error == pytest.approx(true, rel=0.15, abs=1e-11)
        else:
            assert found.at_most < 1


def fold(size):
    """Errors along the function that the linearised equation hardly sees, close to a fold."""
    family, lam = ZOO["bratu"](), np.array([3.51])
    estimator = spoilt(family, lambda p: jnp.sin(jnp.pi * p))
    points = family.domain.sobol(4000)
    truth = np.asarray(family.truth(points, lam)).reshape(len(points), -1)
    true = size * np.linalg.norm(np.sin(np.pi * points)) / np.linalg.norm(truth)
    return estimator.bounds(estimator.linearisation(size, lam)), true


@pytest.mark.parametrize("size", [0.1, 2e-2, 6e-3, 2e-3, 6e-4, 2e-4])
def test_near_a_fold_no_bound_is_below_the_error(size):
    """Half of the error is what a linear equation finds there."""
    for sign in (1, -1):
        limits, true = fold(sign * size)
        assert limits is not None
        assert limits.without_correction >= abs(true)


def test_a_small_error_near_a_fold_is_bounded():
    limits, true = fold(1e-7)
    assert limits is not None
    assert true <= limits.without_correction < 1e-5


def test_what_vanishes_has_no_bound():
    """No error is relative to it; and a solution of size 1e-6 is no error of 1e-6."""
    family = FAMILIES["schrodinger-1d"]()
    estimator = of_function(family, lambda _, p, lam: 0 * p)
    limits = estimator.bounds(estimator.linearisation(0.0, [6.0]))
    assert limits is not None
    assert limits.without_correction == np.inf


def test_a_bound_that_is_not_enough_gives_way_to_an_estimate():
    family, bump, lam = QUICKLY_BOUNDED["near a resonance"]
    estimator = spoilt(family, bump)
    points = family.domain.sobol(4000)
    truth = np.asarray(family.truth(points, np.array(lam)))
    size = np.linalg.norm(np.asarray(jax.vmap(bump)(points))) / np.linalg.norm(truth)
    true = 1e-6 * float(size)
    found = estimator(1e-6, lam, bounds=True, enough=true / 2)
    assert found.error == pytest.approx(true, rel=0.15)


def test_a_bound_counts_loss_weights_that_nothing_is_linearised_about():
    """The first few have no error, the mean of all has."""
    family = Spring()

    def jet(size, points, parameters, weights, orders):
        def function(p):
            return family.call("exact", p, parameters) + size * jnp.mean(weights) * jnp.sin(3 * p)

        return jnp.moveaxis(jax.vmap(lambda p: expand(function, p, orders))(points), 0, 1)

    shots = np.where(np.arange(3 * DRAWS) < DRAWS, 0.0, 1.5)[:, None]
    found = Estimator(family, jet)(1e-6, [0.3], shots, bounds=True, enough=1e-2)
    t = np.linspace(0, 2.2, 2001)[:, None]
    truth = np.asarray(family.truth(t, np.array([0.3])))
    assert found.at_most >= 1e-6 * np.linalg.norm(np.sin(3 * t)) / np.linalg.norm(truth)


def test_a_page_that_leaves_a_level_open_has_no_bound():
    family = FAMILIES["helmholtz-2d"]()
    estimator = spoilt(family, lambda p: jnp.sin(60 * p[:1]))
    estimator.attempts.determinacy = Determinacy(levels=(("u", ("x", "y")),))
    estimate = estimator(1e-6, [3.0], fronts=False, seconds=0.0, bounds=True)
    assert estimate.at_most == np.inf


def test_estimates_of_a_family_share_one_program():
    """For all terms, sizes and settings; and for whoever asks."""
    problem = Problem(Spring(), MLP((3,), "sine", FiLM(0, 2)), jnp.float64)
    estimator = of_network(problem)
    params = problem.init(jax.random.PRNGKey(0))
    for d in (0.2, 0.7):
        assert np.isfinite(estimator(params, [d]).error)
    compiled: Any = estimator._jet
    assert compiled._cache_size() == 1
    again = Problem(problem.family, problem.network, jnp.float64)
    assert of_network(again) is estimator
    assert of_network(Problem(Spring(), problem.network, jnp.float64)) is not estimator


def test_only_where_a_residual_proves_little():
    network = MLP((3,), "sine", FiLM(0, 2))
    asked = {
        name: worst_case(Problem(family, network, jnp.float64)) is not None
        for name, family in (
            ("spring", Spring()),
            ("plane", FAMILIES["helmholtz-1d"]()),
            ("ring", Ring()),
            ("block", FAMILIES["helmholtz-3d"]()),
        )
    }
    assert asked == {"spring": True, "plane": False, "ring": True, "block": False}
    assert Ring().is_initial_value()
    assert not FAMILIES["helmholtz-2d"]().is_initial_value()


@pytest.mark.parametrize(("family", "num"), [(Spring(), 5), (Circle(), 3)], ids=["one", "two"])
def test_the_worst_setting_is_named(family, num):
    """The largest of the true errors, told without the truth, in one and in two coordinates."""
    solution = untrained(family, MLP((4,), "sine", FiLM(0, 2)))
    found = worst_case(Problem(family, solution.protocol.network, jnp.float64))(solution.params)
    settings = family.parameters.grid(num)
    errors = true_errors(solution, settings)
    assert errors is not None
    (name,) = family.parameters.names
    assert found.error == pytest.approx(max(errors), rel=0.02)
    assert found.at == {name: settings[int(np.argmax(errors))][0]}


@pytest.mark.slow
def test_in_training_a_front_stays_unknown(monkeypatch):
    """Following it takes longer than the steps that it would judge."""
    monkeypatch.setattr(Estimator, "_march", property(lambda self: pytest.fail("it marches")))
    problem = Problem(FAMILIES["burgers"](), MLP((4,), "tanh", weights=Concat()), jnp.float64)
    found = worst_case(problem)(problem.init(jax.random.PRNGKey(0)))
    assert np.isnan(found.error)
    assert found.reason


# -- Fronts ---------------------------------------------------------------------------------------


class Pulse(lc.Family):
    """u_tt = c² u_xx with a narrow pulse that splits in two: second order along the march."""

    domain = lc.Box(t=(0.0, 1.0), x=(-2.0, 2.0))
    parameters = lc.Uniform(c=(0.5, 1.0))

    @lc.interior
    def equation(self, u_tt, u_xx, c):
        return u_tt - c**2 * u_xx

    @lc.on(t=0.0)
    def start(self, u, u_t, x):
        return u - self.shape(x), u_t

    @lc.on(x=(-2.0, 2.0))
    def ends(self, u):
        return u

    def shape(self, x):
        return jnp.exp(-((x / 0.05) ** 2))

    def exact(self, t, x, c):
        return (self.shape(x - c * t) + self.shape(x + c * t)) / 2


class Shock(lc.Family):
    """u_t + u u_x = ν u_xx, backwards in time s = 1 - t; a front runs out of an open side."""

    domain = lc.Box(x=(0.0, 1.0), s=(0.0, 1.0))
    weights = None

    @lc.interior
    def equation(self, u, u_s, u_x, u_xx):
        return -u_s + u * u_x - 0.005 * u_xx

    @lc.on(s=1.0)
    def start(self, u, x):
        return u - self.exact(x, 1.0)

    @lc.on(x=0.0)
    def inlet(self, u, s):
        return u - self.exact(0.0, s)

    def exact(self, x, s):
        return 0.5 * (1 - jnp.tanh((x - 0.2 - 0.5 * (1 - s)) / 0.02))


class Spot(Circle):
    """A narrow spot that goes round a circle."""

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - self.spot(x)

    def spot(self, x):
        return jnp.exp(60 * (jnp.cos(jnp.pi * x) - 1))

    def exact(self, t, x, c):
        return self.spot(x - c * t)


class SolvedBurgers(Burgers):
    """With its solution as a function that can be differentiated; by Cole and Hopf."""

    def exact(self, t, x):
        nodes, weights = np.polynomial.hermite.hermgauss(128)
        phase = jnp.pi * (x - jnp.sqrt(4 * self.viscosity * t) * nodes)
        exponent = np.log(weights) - jnp.cos(phase) / (2 * jnp.pi * self.viscosity)
        mass = jax.nn.softmax(exponent)
        return -jnp.sum(mass * jnp.sin(phase))


FRONTS = {
    "burgers": (SolvedBurgers(), lambda p: (p[0] * jnp.cos(2 * p[1]))[None], []),
    "shock": (Shock(), lambda p: (jnp.sin(3 * p[0]) * (1 - p[1]))[None], []),
    "spot": (Spot(), lambda p: (p[0] * jnp.cos(jnp.pi * p[1]))[None], [1.3]),
    "pulse": (Pulse(), lambda p: (p[0] ** 2 * jnp.exp(-((p[1] / 0.03) ** 2)))[None], [0.8]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FRONTS)
@pytest.mark.parametrize("size", [1e-2, 1e-7])
def test_a_known_error_is_found_beside_a_front(name, size):
    family, bump, lam = FRONTS[name]
    estimate = estimator_of(name)(size, lam)
    points = family.domain.grid(90_000)
    truth = np.asarray(family.truth(points, np.array(lam)))
    error = size * np.asarray(jax.vmap(bump)(points))
    expected = np.linalg.norm(error) / np.linalg.norm(truth)
    assert estimate.error == pytest.approx(expected, rel=0.15), estimate.reason


@pytest.mark.slow
def test_an_error_as_large_as_the_solution_is_found():
    """About a guess without a front: the march comes upon the true one."""
    family = SolvedBurgers()
    estimate = of_function(family, lambda _, p, lam: -0.5 * jnp.sin(jnp.pi * p[1:]))(0.0, [])
    points = family.domain.grid(90_000)
    truth = np.asarray(family.truth(points, np.zeros(0)))
    error = truth + 0.5 * np.sin(np.pi * points[:, 1:])
    expected = np.linalg.norm(error) / np.linalg.norm(truth)
    assert estimate.error == pytest.approx(expected, rel=0.1), estimate.reason


@pytest.fixture(scope="module")
def displacement():
    """Buckley and Leverett's front, learnt for a second: far from it."""
    family = FAMILIES["buckley-leverett"]().with_evaluation(shots=2 * DRAWS)
    return lc.train(family, lc.protocol.smoke(family), progress=False, report=False)


@pytest.mark.slow
def test_a_front_from_a_corner_that_contradicts_itself(displacement):
    """A trained network, conditioned on loss weights, with an open side."""
    errors = true_errors(displacement, [[]])
    assert errors is not None
    (true,) = errors
    assert true / 2 < displacement.estimate().error < 2 * true


@pytest.mark.slow
def test_what_is_finer_than_a_march_can_follow_gets_no_number(monkeypatch):
    monkeypatch.setattr(by_solution, "TRIALS", 0)
    family = Spot()
    estimate = spoilt(family, lambda p: jnp.sin(4000 * jnp.pi * p[1:]) * p[:1])(1e-3, [1.0])
    assert np.isnan(estimate.error)
    assert "not resolved" in estimate.reason


def test_which_way_a_march_goes():
    """Along a coordinate with as many conditions at one end as its order: not into the inlet."""
    course = lambda family: march_direction(LinearisedTerms(family))
    towards = lambda family: None if (c := course(family)) is None else (c.along, c.start, c.end)
    assert towards(FAMILIES["buckley-leverett"]()) == (0, 0.0, 0.5)
    assert towards(FAMILIES["burgers"]()) == (0, 0.0, 1.0)
    assert towards(Shock()) == (1, 1.0, 0.0)
    assert course(Pulse()).orders == (2,)
    assert towards(FAMILIES["helmholtz-2d"]()) is None
    assert towards(Spring()) is None


@pytest.mark.parametrize("periodic", [False, True])
def test_splines_and_their_derivatives(periodic):
    splines = Splines(np.array([-1.0, -0.5, 0.0, 0.1, 0.2, 0.5, 0.7, 2.0]), periodic=periodic)
    x, size = np.linspace(-0.95, 1.95, 23), 1e-5
    for order in (0, 1, 2):
        ahead, behind = (splines.values(x + h, order).toarray() for h in (size, -size))
        slope = (ahead - behind) / (2 * size)
        wanted = splines.values(x, order + 1).toarray()
        np.testing.assert_allclose(wanted, slope, atol=1e-5 * np.abs(slope).max())
    np.testing.assert_allclose(splines.values(x, 0).sum(axis=1), 1.0)
    if periodic:
        ends = splines.values(np.array([-1.0, 2.0 - 1e-12]), 1).toarray()
        np.testing.assert_allclose(*ends, atol=1e-8)


def test_intervals_beside_each_other_are_of_similar_length():
    breaks = np.linspace(0.0, 1.0, 9)
    for _ in range(6):
        breaks = halved(breaks, (breaks[:-1] <= 0.4) & (breaks[1:] > 0.4))
    size = np.diff(breaks)
    ratio = size[1:] / size[:-1]
    assert size.min() < 1e-2
    assert ratio.max() < 4
    assert ratio.min() > 1 / 4


# -- The certificate of a trained network --------------------------------------------------------


def certify(decay, *options):
    model, family = str(decay / "run"), f"{decay / 'decay.py'}:Decay"
    return CliRunner().invoke(app, ["certify", model, "--family", family, *options])


@pytest.mark.slow
def test_estimates_follow_the_true_errors(decay):
    """A network trained for a second: far from exact, and its certificate says how far."""
    done = certify(decay, "--json", "--settings", "7")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert len(report["settings"]) == 7
    assert report["passed"] is None
    for row, true in zip(report["settings"], report["true_errors"], strict=True):
        assert true / 3 < row["error"] < 3 * true
        assert row["residual"] == pytest.approx(np.hypot(*row["terms"].values()))
    assert report["worst"]["error"] == max(row["error"] for row in report["settings"])


@pytest.mark.slow
def test_a_tolerance_is_kept_or_not(decay, tmp_path):
    picture = tmp_path / "new" / "certificate.png"
    kept = certify(decay, "--tolerance", "10", "--settings", "3", "-o", str(picture))
    assert kept.exit_code == 0, kept.output
    assert "passed" in kept.stdout
    assert picture.stat().st_size > 10_000
    broken = certify(decay, "--tolerance", "1e-12", "--settings", "3")
    assert broken.exit_code == 1
    assert "failed" in broken.stdout


@pytest.mark.slow
def test_an_estimate_at_one_setting(decay):
    spec = importlib.util.spec_from_file_location("decay_page", decay / "decay.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    solution = lc.load(decay / "run", module.Decay())
    middle = solution.certificate(settings=3)["settings"][1]
    found = solution.estimate(**middle["at"])
    assert found.at == middle["at"] == {"k": 1.25}
    assert found.error == pytest.approx(middle["error"], rel=1e-6)
    with pytest.raises(lc.LcpinnError, match="missing k"):
        solution.estimate()
    with pytest.raises(lc.LcpinnError, match="no such coefficient as 'q'"):
        solution.estimate(k=1.0, q=2.0)
    with pytest.raises(lc.LcpinnError, match="not conditioned on loss weights"):
        solution.estimate(k=1.0, weights={"start": 1.0})


@pytest.mark.slow
def test_what_is_narrower_than_the_grid_gets_no_number():
    """As with Burgers' front: it says so instead."""
    narrow = lambda p: jnp.exp(-jnp.sum((p - 0.513) ** 2, keepdims=True) / 0.01**2)
    estimate = spoilt(FAMILIES["helmholtz-2d"](), narrow)(1e-3, [3.0])
    assert np.isnan(estimate.error)
    assert "resolve" in estimate.reason


@pytest.mark.slow
def test_an_untrained_network_does_not_pass():
    """Loss weights are averaged over; there are no coefficients."""
    family = FAMILIES["burgers"]()
    problem = Problem(family, MLP((8, 8), "tanh"), jnp.float64)
    params = problem.init(jax.random.PRNGKey(0))
    report = certificate(problem, params, np.zeros((1, 0)), family.weights.sobol(2), tolerance=1e-3)
    (row,) = report["settings"]
    assert row["error"] > 0.1
    assert report["worst"] is row
    assert report["passed"] is False


# -- The benchmark ---------------------------------------------------------------------------------


def test_ratios_are_taken_where_there_is_an_error():
    rows = [
        {"true": 1e-3, "estimate": 2e-3},
        {"true": 1e-4, "estimate": 1e-4},
        {"true": 1e-4, "estimate": None},
        {"true": 1e-12, "estimate": 1e-9},
    ]
    found = benchmark.summary(rows, [0.1, 0.3, 0.2, 0.4])
    assert (found["settings"], found["compared"], found["refused"]) == (4, 3, 1)
    assert found["ratio"] == {"median": 1.5, "min": 1.0, "max": 2.0}
    assert found["largest_true_error"] == 1e-3


def test_a_claim_about_an_error_made_on_purpose_is_wrong_or_not():
    wrong = perturbed.wrong
    assert not wrong(1.5, 0.0, np.inf, 1.0)
    assert wrong(0.4, 0.0, np.inf, 1.0)
    assert not wrong(np.nan, 0.5, 30.0, 1.0)
    assert wrong(np.nan, 1.5, 30.0, 1.0)
    assert wrong(np.nan, 0.0, 0.9, 1.0)
    row = {"true": 1.0, "at_most": None, "wrong": False}
    some = [{"estimate": 1.1}, {"estimate": None, "at_most": 0.5}, {"estimate": None}]
    rows = [row | found for found in some]
    assert perturbed.summary(rows).startswith("1 of 3 estimated, ratio 1.100 to 1.100, 1 bounded")


@pytest.mark.slow
def test_the_benchmark_compares_single_weightings_too(tmp_path):
    solution = lc.train(Bent(), lc.protocol.smoke(Bent()), progress=False, report=False)
    rows, _ = benchmark.compare_slices(solution, 1)
    assert 1 / 3 < rows[0]["estimate"] / rows[0]["true"] < 3
    other = {"rows": [{"at": {}, "true": 0.1, "estimate": None, "reason": ""}], "slices": rows}
    entry = {"stamp": {"device": "a machine"}, "fast": other, "smoke": other}
    out = tmp_path / "certificate.json"
    result = benchmark.merged(out, "burgers", entry, ["--out", str(out)])
    assert str(tmp_path) not in json.dumps(result)
    assert benchmark.draw(result, tmp_path / "certificate.png").stat().st_size > 10_000


# -- By the page's own solution --------------------------------------------------------------------


def fast_sines(point):
    return jnp.sin(20_000 * point)


def test_an_error_faster_than_any_expansion_is_the_distance_from_the_solution():
    """As networks have it whose units run away: its residual is large, and it is not."""
    estimator = spoilt(Spring(), fast_sines)
    family, lam = Spring(), np.array([0.3])
    t = np.linspace(0, 2.2, 20_001)
    size = np.sqrt(np.mean(np.asarray(family.exact(t, 0.3)) ** 2))
    for error in (1e-4, 3e-6):  # the second begins with the solution
        estimate = estimator(error, lam)
        assert estimate.reason == ""
        assert estimate.error == pytest.approx(error / np.sqrt(2) / size, rel=0.03)
    corrected = estimator.correction(1e-4, lam)
    assert corrected.values is not None
    assert corrected.values(t[:, None])[:, 0] == pytest.approx(
        np.asarray(family.exact(t, 0.3)), abs=1e-6
    )


def test_an_estimate_without_a_clock_does_not_depend_on_what_was_solved_before():
    """As those that decide between starts: the same training ends in the same bits."""
    estimator = spoilt(Spring(), fast_sines)
    first = estimator(1e-4, [0.3], seconds=0.0)
    assert np.isfinite(estimator(1e-4, [0.3]).error)
    again = estimator(1e-4, [0.3], seconds=0.0)
    assert again.reason == first.reason != ""
    assert np.isnan(again.error)


def test_below_what_the_page_is_solved_to_an_error_is_bounded():
    estimate = spoilt(Spring(), fast_sines)(1e-13, [0.3])
    assert np.isnan(estimate.error)
    assert estimate.at_most < 1e-7


def test_of_a_nonlinear_equation_only_a_solution_that_is_near_is_known_to_be_the_same():
    compared = by_solution.BySolution(Pair())
    solution = lc.solve(Pair(), tolerance=1e-8)

    def about(factor):
        values = lambda p: factor * np.stack(list(solution(t=p[:, 0]).values()), axis=-1)
        return SimpleNamespace(parameters=np.zeros(0), least=0.0, values=values)

    near, far = (compared(cast("Linearisation", about(factor)), 20.0) for factor in (1.01, 1.5))
    assert near is not None
    assert near.estimate.error == pytest.approx(0.01, rel=1e-3)
    assert far is None


def test_what_is_not_solved_is_tried_twice_and_no_more(monkeypatch):
    def refuse(self, parameters, seconds=None, guess=None):
        calls.append(parameters)
        raise lc.LcpinnError("no")

    calls = []
    monkeypatch.setattr(FamilySolver, "__call__", refuse)
    estimator = spoilt(Spring(), fast_sines)
    for d in (0.2, 0.3, 0.4, 0.5):
        assert "functions" in estimator(1e-4, [d]).reason
    assert len(calls) == 2
