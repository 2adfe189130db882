"""The page's own solutions between settings: as a teacher, and what a network takes from them."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Bratu, Decay, Oscillator, of_kind, quick, the

import lcpinn as lc
from lcpinn.equilibration import no_scales
from lcpinn.interpolated import _overruns, interpolated
from lcpinn.jet import Orders, Series
from lcpinn.network import MLP, FiLM
from lcpinn.network.film import chebyshev_sum
from lcpinn.optimiser import GaussNewton, OwnSolutions, Restarts
from lcpinn.optimiser.stage import Stage
from lcpinn.own_solutions import known_solver, solve_at, solved_before, spread_settings
from lcpinn.precision import double
from lcpinn.protocol.choice import _pays, chosen
from lcpinn.protocol.gauss_newton import _share_of_slopes
from lcpinn.protocol.sizes import size_of
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, fixed, scatter
from lcpinn.spectral.basis import basis_on
from lcpinn.spectral.family_solver import FamilySolver, _lagrange


class Ring(lc.Family):
    """u_t + u_x = 0 on a ring over many laps: many functions along t, few along x."""

    domain = lc.Box(t=(0.0, 20.0), x=lc.Periodic(0.0, 1.0))

    @lc.interior
    def equation(self, u_t, u_x):
        return u_t + u_x

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(2 * jnp.pi * x) - 0.5 * jnp.sin(4 * jnp.pi * x)


class Quick(Decay):
    """Over decades of k: many settings."""

    parameters = lc.Uniform(k=(0.5, 40.0))


class Bent(Bratu):
    """Far from its fold: not linear, and smooth in a."""

    parameters = lc.Uniform(a=(0.5, 2.0))


class Growing(lc.Family):
    """u_x = a exp(3 b) cos(x), u(0) = 1: in the middle of a's range nothing depends on b."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(a=(-0.04, 0.04), b=(-1.0, 1.0))

    @lc.interior
    def equation(self, u_x, x, a, b):
        return u_x - a * jnp.exp(3 * b) * jnp.cos(x)

    @lc.on(x=0.0)
    def start(self, u):
        return u - 1.0

    def exact(self, x, a, b):
        return 1 + a * jnp.exp(3 * b) * jnp.sin(x)


class Turning(lc.Family):
    """w² u'' + (x - 0.2) u' = 0, u(±1) = ±1: a layer of width w about x = 0.2."""

    domain = lc.Box(x=(-1.0, 1.0))
    parameters = lc.LogUniform(w=(0.005, 1.0))

    @lc.interior
    def equation(self, u_x, u_xx, x, w):
        return w**2 * u_xx + (x - 0.2) * u_x

    @lc.on(x=(-1.0, 1.0))
    def ends(self, u, x):
        return u - x


class Pole(lc.Family):
    """(1 - w²) u = 1, and nothing else: u' = 0."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(w=(0.5, 2.0))

    @lc.interior
    def equation(self, u_x):
        return u_x

    @lc.on(x=0.0)
    def start(self, u, w):
        return (1 - w**2) * u - 1


class Resonance(lc.Family):
    """(1 - w² + 0.1 i) (p + i q) = 1, along with nothing: u' = 0 and one condition."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(w=(0.5, 2.0))
    outputs = ("p", "q")

    @lc.interior
    def equation(self, p_x, q_x):
        return p_x, q_x

    @lc.on(x=0.0)
    def start(self, p, q, w):
        return (1 - w**2) * p - 0.1 * q - 1, 0.1 * p + (1 - w**2) * q


@pytest.fixture(scope="module")
def teacher():
    with double():
        return interpolated(the(Decay), tolerance=1e-8, seconds=30.0)


# -- Between settings ------------------------------------------------------------------------------


def test_solutions_between_settings_are_those_of_the_page(teacher):
    x, k = np.random.default_rng(0).uniform((0.0, 0.5), (1.0, 2.0), (40, 2)).T
    with double():
        values = np.asarray(teacher(jnp.asarray(x[:, None]), jnp.asarray(k[:, None])))
    assert teacher.enough
    assert teacher.missing < 1e-8
    assert np.max(np.abs(values[:, 0] - np.exp(-k * x))) < 1e-8


def test_sizes_are_root_mean_squares(teacher):
    k = np.array([0.5, 1.1, 2.0])
    with double():
        sizes = np.asarray(teacher.sizes(jnp.asarray(k[:, None])))[:, 0]
    assert sizes == pytest.approx(np.sqrt((1 - np.exp(-2 * k)) / (2 * k)), rel=1e-2)


def test_what_nothing_depends_on_at_the_centre_is_seen_elsewhere():
    """Every level along b looks empty there, and lies below those that are not."""
    family, x = Growing(), np.linspace(0, 1, 9)[:, None]
    with double():
        known = interpolated(family, tolerance=1e-6, seconds=60.0)
        settings = np.array([[0.04, 0.95], [-0.03, 0.6], [0.0, 0.3]])
        values = known.at_all(x, settings)[..., 0]
        exact = np.asarray(family.exact(x, *settings.T))
    assert known.enough
    assert np.max(np.abs(values / exact - 1)) < 10 * known.missing


def test_a_pole_in_the_range_is_given_up():
    with double():
        known = interpolated(the(Pole), tolerance=1e-6, seconds=60.0)
    assert not known.enough
    assert len(known.settings) <= 129


def test_levels_that_there_is_no_time_for_are_not_begun(monkeypatch):
    solve, asked = FamilySolver.__call__, []

    def slowly(self, setting, seconds=None, guess=None):
        if asked:
            time.sleep(0.15)
        asked.append(setting)
        return solve(self, setting)

    monkeypatch.setattr(FamilySolver, "__call__", slowly)
    family = Quick()
    with double():
        solver = FamilySolver(family, 1e-9)
        solver(np.array([20.25]))  # the first one, compiled
        monkeypatch.setattr("lcpinn.interpolated.known_solver", lambda *_: solver)
        known = interpolated(family, tolerance=1e-8, seconds=1.9)
    assert not known.enough
    assert len(asked) == len(known.settings)  # of nested levels all or none


@pytest.mark.parametrize(
    ("missing", "overruns"),
    [((0.9, 0.8), False), ((0.2, 0.19), True), ((0.2, 1e-4), False)],
    ids=["waves with too few nodes", "a slow decay", "a fast one"],
)
def test_nodes_are_foreseen_once_what_is_missing_decays(missing, overruns):
    levels = np.array([[0], [1], [2], [3], [4]])  # 17 nodes, of which 9 are solved
    state = cast(Any, SimpleNamespace(step=9, levels=levels, missing=np.array(missing)))
    solver = cast(Any, SimpleNamespace(solved=[None] * 9))
    assert _overruns(state, solver, 10.0, 19.0, 1e-7) is overruns  # a second each


def test_the_first_setting_compiles_and_does_not_count():
    with double():
        solved = solve_at(Bent(), spread_settings(Bent().parameters, 5))
    assert 0 < solved.each < 2.0


def test_too_little_time_is_an_error_in_words():
    with pytest.raises(lc.LcpinnError, match="too few to interpolate"):
        interpolated(the(Decay), tolerance=1e-8, seconds=0.0)


# -- Where they change fast ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resonant():
    with double():
        return interpolated(the(Resonance), tolerance=1e-6, seconds=30.0)


@pytest.mark.slow
def test_solutions_change_evenly_in_the_stretched_variable(resonant, teacher):
    """From one end of the resonance to the other is a short way in w, and a long one for u."""
    assert resonant.uneven
    ends = jnp.asarray(2 * (np.array([0.9, 1.1]) - 0.5) / 1.5 - 1)
    way = float(np.diff(chebyshev_sum(ends, resonant.stretch))[0])
    assert way > 1.5 * float(np.diff(ends)[0])
    both = np.asarray(chebyshev_sum(jnp.array([-1.0, 1.0]), resonant.stretch))
    assert both == pytest.approx([-1.0, 1.0], abs=0.05)
    assert not teacher.uneven
    assert teacher.stretch == ()
    assert teacher.quantiles() is None


@pytest.mark.slow
def test_rows_lie_at_the_settings_where_solutions_change(resonant):
    near = lambda settings: np.mean(np.abs(settings - 1.0) < 0.1)
    with double():
        taught = resonant.taught(the(Resonance))
        plain = resonant.family.compared_with(resonant.targets())
        shares = [near(_settings_of(family)) for family in (taught, plain)]
        drawn = scatter(taught, 400, jax.random.PRNGKey(0), np.float64).parameters
        drawn = np.asarray(drawn)[:, 0]
    assert shares[0] > 1.4 * shares[1]
    assert near(drawn) > 0.2  # evenly 0.13
    assert 0.5 <= np.min(drawn) <= np.max(drawn) <= 2.0


def _settings_of(family) -> np.ndarray:
    batch = fixed(family, Sampling(20_000, 4, 1, "collocation"), np.float64)
    return np.asarray(batch["interior"].parameters)[:, 0]


def test_a_stretched_network_sees_the_other_variable():
    plain, stretched = FiLM(0, 2), FiLM(0, 2, stretch=(0.0, 0.5, 0.0, 0.5))
    params = {"w": jnp.ones((2, 8))}
    lam = jnp.array([[-1.0], [0.3], [1.0]])
    seen = stretched.modulate(params, lam, (4,))[0][0]
    moved = chebyshev_sum(lam, stretched.stretch)
    assert np.asarray(moved)[1, 0] == pytest.approx(0.5 * 0.3 + 0.5 * (4 * 0.3**3 - 3 * 0.3))
    assert np.allclose(seen, plain.modulate(params, moved, (4,))[0][0])
    assert stretched.entry is None


# -- Rows of values --------------------------------------------------------------------------------


def test_a_variable_beside_lambda_leaves_both():
    """T_1 of either is among the polynomials, that of lambda first."""
    how = FiLM(hidden=0, degree=2, stretch=(0.0, 0.5, 0.0, 0.5), beside=True, slopes=1.0)
    params = how.init(jax.random.PRNGKey(0), 1, (3,), jnp.float32)
    assert params["w"].shape == (5, 6)
    lam = jnp.array([[0.3], [-0.7]])
    polynomials = np.asarray(how._polynomials(lam))
    assert polynomials[:, 0] == pytest.approx(lam[:, 0])
    assert polynomials[:, 1] == pytest.approx(chebyshev_sum(lam, how.stretch)[:, 0])
    assert np.abs(params["w"][0, :3]).min() > 0
    assert not np.any(params["w"][1:])


def test_every_coefficient_has_slopes_of_its_own():
    how = FiLM(hidden=0, degree=1, slopes=(5.0, 0.0))
    generated = how.init(jax.random.PRNGKey(0), 2, (6,), jnp.float32)
    first, second = (
        how.modulate(generated, jnp.array([lam]), (6,))[0][0] for lam in ((1.0, 0.0), (0.0, 1.0))
    )
    assert np.abs(first - 1).max() > 1
    assert np.all(np.asarray(second) == 1)


@pytest.mark.slow
def test_the_variable_is_close_to_the_arc_length(resonant):
    """Solutions oscillate with it about what they are in the arc length."""
    places = np.linspace(-1, 1, len(resonant.pace) + 1)
    values = np.polynomial.chebyshev.chebval(places, resonant.stretch)
    way = np.concatenate([[0.0], np.cumsum(0.1 + 0.9 * resonant.pace)])
    assert values == pytest.approx(2 * way / way[-1] - 1, abs=1e-5)


def test_a_taught_family_compares_relative_values_inside(teacher):
    with double():
        taught = teacher.taught(the(Decay))
        batch = fixed(taught, Sampling(60, 4, 1, "collocation"), np.float64)
        network = MLP((3,))
        problem = Problem(taught, network, np.float64)
        params = problem.drawing(once=True)(jax.random.PRNGKey(0))
        rows = np.asarray(quick(problem.residuals)(params, batch)["values"])[:, 0, 0]
        points, orders = batch["interior"], taught.orders(taught.groups["interior"])
        full = Problem(the(Decay), network, np.float64)
        value = np.asarray(quick(lambda p: full.outputs(p, points, orders))(params))[0, :, 0, 0]
        x, k = np.asarray(points.coordinates)[:, 0, 0], np.asarray(points.parameters)[:, 0]
        sizes = np.asarray(quick(teacher.sizes)(points.parameters))[:, 0]
        expected = (value - np.exp(-k * x)) / sizes
    assert list(batch) == ["interior"]
    assert rows == pytest.approx(np.asarray(expected), abs=1e-7)
    assert list(the(Decay).terms) == ["equation", "start"]  # the page itself is as it was


def test_points_drawn_anew_have_their_targets(teacher):
    with double():
        drawn = scatter(teacher.taught(the(Decay)), 5, jax.random.PRNGKey(1), np.float64)
        x, k = drawn.coordinates[:, 0, 0], drawn.parameters[:, 0]
    assert np.asarray(drawn.observed[:, 0, 0]) == pytest.approx(np.exp(-k * x), abs=1e-7)
    assert scatter(the(Decay), 5, jax.random.PRNGKey(1), np.float32).observed.shape == (5, 1, 0)


def test_no_scales_leave_rows_as_they_are():
    problem = Problem(the(Decay), MLP((3,)), np.float32)
    batch = fixed(the(Decay), Sampling(12, 4, 1, "collocation"), np.float32)
    assert all(not np.any(scale) for scale in no_scales(problem, batch).values())


# -- Frequencies -----------------------------------------------------------------------------------


def test_carriers_are_frequencies_that_slow_units_do_not_reach():
    family = the(Oscillator)  # ten radians of a coordinate in [-1, 1]
    solved = solve_at(family, spread_settings(family.parameters, 3), tolerance=1e-6)
    carriers = np.abs(solved.carriers(2.0, 16))
    assert carriers.shape == (16, 1)
    assert np.median(carriers[carriers > 0]) == pytest.approx(10.0, rel=0.3)
    assert solved.carriers(8.0) == ()


@pytest.fixture(scope="module")
def ring():
    """A family with its solution, which takes seconds."""
    family = the(Ring)
    return family, solve_at(family, np.zeros((1, 0)), tolerance=1e-7)


@pytest.mark.slow
def test_a_periodic_coordinate_has_no_carriers(ring):
    carriers = np.array(ring[1].carriers(1.5, 32))
    assert carriers.shape == (32, 3)  # t, and the two features of x
    assert not carriers[:, 1:].any()
    assert np.median(np.abs(carriers[:, 0])) == pytest.approx(20 * np.pi, rel=0.1)


class Pitch(lc.Family):
    """u'' + k² u = 0, u(0) = 1, u'(0) = 0: cos(kt), of a frequency that is the coefficient."""

    domain = lc.Box(t=(0.0, 2.0))  # radians of t - 1 are those of k
    parameters = lc.Uniform(k=(10.0, 40.0))

    @lc.interior
    def equation(self, u, u_tt, k):
        return u_tt + k**2 * u

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 1.0, u_t


def test_a_frequency_that_is_the_coefficient_moves_with_it():
    family = the(Pitch)
    solved = solve_at(family, spread_settings(family.parameters, 5), tolerance=1e-6)
    carriers, sweeps = (np.array(rows) for rows in solved.moving_carriers(4.0, 16))
    assert carriers.shape == sweeps.shape == (16, 1)
    swept = carriers[:, 0] != 0
    assert 0.6 < np.mean(swept) < 0.9  # the others have what is slow
    assert np.abs(carriers[swept, 0]) == pytest.approx(25.0, abs=0.05)
    assert np.abs(sweeps[swept, 0]) == pytest.approx(15.0, abs=0.05)
    assert not sweeps[~swept].any()
    assert solved.moving_carriers(16.0) == ((), ())  # units of this scale can follow


class Ringing(Pitch):
    """The same with friction: it moves with the first of two coefficients."""

    parameters = lc.Uniform(k=(10.0, 40.0), d=(0.0, 1.0))

    @lc.interior
    def equation(self, u, u_t, u_tt, k, d):
        return u_tt + 2 * d * u_t + k**2 * u


@pytest.mark.parametrize("family", [Ringing(), Ringing().at(d=0.5)], ids=["free", "held"])
def test_of_two_coefficients_each_has_its_sweep(family):
    solved = solve_at(family, spread_settings(family.parameters, 5), tolerance=1e-6)
    carriers, sweeps = (np.array(rows) for rows in solved.moving_carriers(4.0, 16))
    assert carriers.shape == (16, 1)
    assert sweeps.shape == (16, 2)
    swept = carriers[:, 0] != 0
    assert np.abs(carriers[swept, 0]) == pytest.approx(25.0, abs=0.05)
    assert np.abs(sweeps[swept, 0]) == pytest.approx(15.0, abs=0.05)
    assert np.abs(sweeps[swept, 1]).max() < 0.5
    assert not sweeps[~swept].any()


def test_a_frequency_that_stays_has_no_sweep():
    family = the(Oscillator)
    solved = solve_at(family, spread_settings(family.parameters, 5), tolerance=1e-6)
    assert solved.moving_carriers(1.0) == ((), ())


def test_slopes_of_units_are_linear_in_lambda():
    plain = MLP((4,), "sine", FiLM(hidden=0, degree=1), frequency_scale=2.0, carriers=((20.0,),))
    swept = replace(plain, sweeps=((5.0,), (0.0,)))
    dims, key = {"parameters": 1}, jax.random.PRNGKey(3)
    params = [n.init(key, 1, 1, dims, jnp.float32) for n in (plain, swept)]
    moved = jax.tree.map(lambda a: a, params[0])
    moved["layers"][0]["w"] = moved["layers"][0]["w"] + 0.3 * jnp.array([[5.0, 0, 5.0, 0]])
    x = Series(Orders(((0,),)), jnp.linspace(-1, 1, 7)[None, None, :, None])
    lam = {"parameters": jnp.full((1, 1, 1), 0.3)}
    values = swept.apply(params[1], x, lam).value
    assert np.asarray(values) == pytest.approx(np.asarray(plain.apply(moved, x, lam).value))
    assert swept.array_layout(dims) is None


def test_units_lie_about_their_carriers():
    plain = MLP((6, 4), frequency_scale=2.0)
    carried = replace(plain, carriers=((30.0,), (0.0,), (-50.0,)))
    first = [n.init(jax.random.PRNGKey(3), 1, 1, {}, jnp.float32) for n in (plain, carried)]
    gap = first[1]["layers"][0]["w"] - first[0]["layers"][0]["w"]
    assert np.asarray(gap)[0] == pytest.approx([30, 0, -50, 30, 0, -50], abs=1e-4)


def test_every_other_unit_begins_where_the_layer_is():
    network = MLP((5, 4), frequency_scale=3.0, centres=((0.25,),))
    first = network.init(jax.random.PRNGKey(3), 1, 1, {}, jnp.float32)["layers"][0]
    argument = np.asarray(0.25 * first["w"][0] + first["b"])
    assert np.allclose(argument[::2], 0, atol=1e-6)
    assert np.abs(argument[1::2]).min() > 1e-3


@pytest.mark.slow
def test_a_layer_inside_has_a_centre_and_one_at_an_end_has_none():
    inside = solve_at(the(Turning), spread_settings(the(Turning).parameters, 3), tolerance=1e-6)
    assert inside.centres() == pytest.approx((0.2,), abs=0.05)
    ramp = solve_at(the(Decay), spread_settings(the(Decay).parameters, 3))
    assert ramp.centres() == ()


# -- One solution after the other ------------------------------------------------------------------


@pytest.mark.slow
def test_few_functions_where_few_are_of_use(ring):
    """Along x nothing is there but two harmonics; along t there are forty periods."""
    resolved = known_solver(ring[0], 1e-7)(np.zeros(0))
    along_t, along_x = resolved.expansion.sizes
    assert resolved.error < 1e-7
    assert along_t > 150
    assert along_x < 20


def test_functions_of_use_are_counted_along_each_axis():
    basis = basis_on(lc.Box(x=(0.0, 1.0), y=(0.0, 1.0)), (20, 30))
    coefficients = np.zeros((1, 20, 30))
    coefficients[0, 3, 7] = 1.0
    coefficients[0, 9, 2] = 1e-17
    assert basis.used(coefficients.reshape(1, -1)) == [8, 12]


def test_weights_of_a_polynomial_through_solutions():
    places = np.array([0.0, 0.2, 0.5, 0.9])
    assert _lagrange(places, 0.3) @ places**3 == pytest.approx(0.3**3)
    assert not np.isfinite(_lagrange(np.array([0.1, 0.1]), 0.3)).any()


def test_what_was_solved_before_is_not_solved_again(monkeypatch):
    family = Bent()
    solve_at(family, np.array([[1.0], [1.5]]), tolerance=1e-7)
    solver = known_solver(family, 1e-7)
    monkeypatch.setattr(FamilySolver, "_continued", lambda *_: pytest.fail("solved again"))
    assert solver(np.array([1.5])).error <= 1e-7
    assert solved_before(family).settings == pytest.approx(np.array([[1.5]]))


def test_nothing_was_solved_before():
    with pytest.raises(lc.LcpinnError, match="has not been solved"):
        solved_before(Decay())


# -- As a phase ------------------------------------------------------------------------------------


def test_smooth_solutions_get_sines_whatever_the_equation():
    choice = chosen(Bent(), size_of(Bent()), 1e-6, 60.0)
    assert choice.activation == "sine"
    assert choice.between
    assert choice.carriers == choice.stretch == ()


@pytest.mark.parametrize(
    ("linear", "dim", "carriers", "pays"),
    [(True, 2, (), False), (True, 2, ((60.0,),), True), (True, 1, (), True), (False, 2, (), True)],
)
def test_regression_is_for_what_residuals_do_not_find(linear, dim, carriers, pays):
    family: Any = SimpleNamespace(
        is_linear=lambda: linear,
        domain=SimpleNamespace(dim=dim),
        parameters=SimpleNamespace(free=("k",)),
        ansatz=None,
    )
    solved: Any = SimpleNamespace(most=True, carriers=lambda scale: carriers)
    size = size_of(Bent())
    assert _pays(family, solved, size) is pays
    solved.most = False
    assert not _pays(family, solved, size)
    solved.most, family.parameters.free = True, ("a", "b", "c", "d")
    assert _pays(family, solved, size)


def test_the_trust_region_is_relative_to_what_carriers_do_not_give():
    choice = chosen(Bent(), size_of(Bent()), None, None)
    assert _share_of_slopes(choice) == 1.0
    given = replace(choice, carriers=((60.0,), (-60.0,)))
    own = choice.size.frequency_scale / 3**0.5
    assert _share_of_slopes(given) == pytest.approx(own / (own**2 + 60**2) ** 0.5)


def _regression(missing: float) -> lc.Protocol:
    protocol = lc.protocol.fast(the(Decay))
    phase = replace(
        of_kind(GaussNewton, protocol.phases[0].innermost),
        sampling=Sampling(120, 8, 1, "collocation"),
        steps=12,
        seconds=None,
    )
    own = OwnSolutions(phase, settings=4, rows=6, between=True, missing=missing)
    network = replace(protocol.network, widths=(6,))
    return replace(protocol, network=network, phases=(Restarts(own, starts=1),))


@pytest.mark.parametrize(("error", "looked"), [(1e-3, False), (2e-6, True), (None, True)])
def test_an_estimate_waits_for_an_error_that_rows_tell(error, looked):
    phase, nothing = Restarts(GaussNewton(), tolerance=1e-6), cast(Any, None)
    stage = Stage(1, nothing, nothing, nothing, nothing, relative_error=lambda _: error)
    assert phase._close(stage, None) is looked


@pytest.mark.slow
def test_a_regression_says_what_its_teacher_misses():
    solution = lc.train(the(Decay), _regression(1e-6), progress=False, report=False)
    training = solution.run["training"]
    assert training["missing_between"] <= 1e-6
    assert len(training["solved_at"]) >= 5
    assert np.asarray(solution(x=1.0, k=1.3)) == pytest.approx(np.exp(-1.3), rel=0.02)
