"""Solutions of the page at a few settings: where they vary, as rows, and what they choose."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from toy import Decay, Oscillator, of_kind

import lcpinn as lc
from benchmarks.zoo.layers import BoundaryLayer
from lcpinn.optimiser import GaussNewton, OwnSolutions, Restarts
from lcpinn.own_solutions import FEWEST, NOT_SMALL, can_be_solved, solve_at, spread_settings
from lcpinn.protocol import choice as choice_of_network
from lcpinn.protocol.choice import chosen, powers
from lcpinn.protocol.sizes import size_of
from lcpinn.sampling import Sampling, fixed
from lcpinn.spectral.family_solver import FamilySolver


class Layer(BoundaryLayer):
    """Not as thin."""

    parameters = lc.LogUniform(nu=(0.005, 1.0))


class Weighted(Decay):
    """The same with loss weights to condition on, which solutions know nothing of."""

    weights = lc.Simplex()


@pytest.fixture(scope="module")
def solved():
    family = Layer()
    return solve_at(family, spread_settings(family.parameters, 5))


# -- Settings --------------------------------------------------------------------------------------


def test_settings_of_one_coefficient_are_chebyshev_nodes_ends_first():
    settings = spread_settings(Layer().parameters, 9)
    assert settings[:3, 0] == pytest.approx([0.005, 1.0, 0.005**0.5])
    nodes = 0.005 * 200 ** ((1 - np.cos(np.pi * np.arange(9) / 8)) / 2)
    assert np.sort(settings[:, 0]) == pytest.approx(nodes)


def test_settings_of_several_begin_with_the_corners():
    settings = spread_settings(lc.Uniform(a=(0.0, 1.0), b=(2.0, 4.0)), 12)
    assert settings.shape == (12, 2)
    assert {tuple(s) for s in settings[:4]} == {(0.0, 2.0), (0.0, 4.0), (1.0, 2.0), (1.0, 4.0)}
    assert len(np.unique(settings, axis=0)) == 12


def test_a_held_coefficient_stays_where_it_is():
    prior = Layer().at(nu=0.3).parameters
    assert spread_settings(prior, 7) == pytest.approx(np.array([[0.3]]))


# -- What solutions look like ----------------------------------------------------------------------


def test_solutions_are_those_of_the_page(solved):
    x = np.linspace(0, 1, 41)
    values = solved.solutions(x[:, None])
    for setting, value in zip(solved.settings, values, strict=True):
        truth = Layer().exact(x, setting[0])
        assert np.max(np.abs(value[:, 0] - truth)) < 1e-7


def test_the_variation_of_a_layer_lies_in_its_width(solved):
    assert solved.layered
    assert solved.sharpness() < 0.012
    ramp = solve_at(Decay(), spread_settings(Decay().parameters, 3))
    assert not ramp.layered
    assert ramp.sharpness() > 0.1


def test_points_lie_evenly_and_in_the_layer(solved):
    steep = int(np.argmin(solved.settings[:, 0]))
    data = solved.observations(5, 64)
    own = data.columns["nu"] == solved.settings[steep, 0]
    x = np.sort(data.columns["x"][own])
    assert len(x) == 64
    assert (x > 0.95).sum() > 9  # evenly it would be three
    assert np.max(np.diff(np.concatenate([[0.0], x]))) < 0.1  # and no gap elsewhere


class Loaded(lc.Family):
    """u' = -u + k x, u(0) = 0, under a load that passes through zero."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(-1.0, 1.0))

    @lc.interior
    def equation(self, x, u, u_x, k):
        return u_x + u - k * x

    @lc.on(x=0.0)
    def start(self, u):
        return u


def test_where_a_solution_vanishes_observations_are_relative_to_the_others():
    family = Loaded()
    solved = solve_at(family, spread_settings(family.parameters, 5))
    data = solved.observations(5, 4)
    assert data.mass is not None
    assert np.isfinite(data.mass).all()
    assert np.max(data.mass) == pytest.approx(np.min(data.mass) / NOT_SMALL**2)


def test_observations_are_relative_to_the_size_of_the_solution(solved):
    data = solved.observations(8, 16)  # more settings than are solved: some of them twice
    assert len(data) == 8 * 16
    assert data.mass.sum() == pytest.approx(1.0)
    for nu in np.unique(data.columns["nu"]):
        own = data.columns["nu"] == nu
        weighted = data.mass[own] * np.mean(data.columns["u"][own] ** 2)
        assert np.ptp(weighted) < 0.5 * np.max(weighted)


@pytest.mark.slow
def test_rows_of_the_joined_family_follow_the_layer(solved):
    family = Layer()
    joined = solved.joined(family, 5, 16)
    batch = fixed(joined, Sampling(400, 10, 1, "collocation"), "float32")
    assert batch["data"].coordinates.shape[0] == 80
    assert np.asarray(batch["data"].quadrature).sum() == pytest.approx(1.0, rel=1e-5)
    x, nu = np.asarray(batch["interior"].coordinates)[:, 0, 0], batch["interior"].parameters[:, 0]
    steep = x[np.asarray(nu) < 0.02]
    assert (steep > 0.95).mean() > 0.2
    assert family.data is None  # the page itself is as it was


def test_what_solutions_know_nothing_of_is_left_alone():
    assert can_be_solved(Layer())
    assert not can_be_solved(Weighted())
    observed = Decay().with_observations(lc.Data(x=[0.5], k=[1.0], u=[0.6]))
    assert not can_be_solved(observed)


@pytest.mark.slow
def test_what_is_not_resolved_is_left_out():
    class Rough(Decay):
        """Not resolved at its larger frequencies."""

        parameters = lc.Uniform(k=(1.0, 200_000.0))

        @lc.interior
        def equation(self, u_x, x, k):
            return u_x - k * jnp.cos(k * x)

        @lc.on(x=0.0)
        def start(self, u):
            return u

    family = Rough()
    mixed = solve_at(family, np.array([[1.0], [200_000.0]]), seconds=3.0)
    assert mixed.settings == pytest.approx(np.array([[1.0]]))
    assert "200000" in mixed.reasons[0]
    with pytest.raises(lc.LcpinnError, match="200000"):
        solve_at(family, np.array([[200_000.0]]), seconds=3.0)


def test_what_was_solved_less_accurately_is_no_beginning_for_a_linear_equation():
    """The functions of `transmission` that were enough for 1e-6 were tried first at every setting
    that 1e-9 was asked of: a second each, in place of a fiftieth."""
    family, setting = Decay(), np.array([1.0])
    roughly = FamilySolver(family, 1e-6)
    roughly(setting)
    for tolerance, taken in ((1e-9, 0), (1e-6, 1), (1e-3, 1)):
        solver = FamilySolver(family, tolerance)
        solver.begin_with(roughly)
        assert len(solver._waypoints) == taken


# -- What they choose ------------------------------------------------------------------------------


@pytest.mark.slow
def test_layers_get_units_that_saturate_and_go_with_powers():
    choice = chosen(Layer(), size_of(Layer()), 1e-6, 60.0)
    assert choice.activation == "tanh"
    assert choice.own_solutions
    assert choice.slopes == pytest.approx((np.log(200) / 2,))


def test_waves_keep_the_table():
    choice = chosen(Oscillator(), size_of(Oscillator()), 1e-6, 60.0)
    assert choice.activation == "sine"
    assert choice.slopes == 0.0
    assert choice.own_solutions


def test_nothing_is_solved_without_a_tolerance():
    choice = chosen(Layer(), size_of(Layer()), None, 60.0)
    assert not choice.own_solutions
    assert choice.spent == 0.0


def test_settings_that_take_long_are_left_alone(monkeypatch):
    """A few of them tell less than the steps that they cost."""
    family, slow = Layer(), 60.0 * choice_of_network.SHARE / FEWEST

    def solve(*given, **options):
        return replace(solve_at(*given, **options), each=1.1 * slow)

    monkeypatch.setattr(choice_of_network, "solve_at", solve)
    choice = chosen(family, size_of(family), 1e-6, 60.0)
    assert not choice.own_solutions
    assert choice.activation == "tanh"  # what they look like is known all the same
    assert chosen(family, size_of(family), 1e-6, 70.0).own_solutions


def test_settings_that_make_all_others_known_may_take_longer(monkeypatch):
    """Thirteen nodes are worth four tenths of the time, where nine beside residuals are not."""
    family = Oscillator()

    def solve(*given, **options):
        return replace(solve_at(*given, **options), each=60.0 * choice_of_network.SHARE / 8)

    monkeypatch.setattr(choice_of_network, "solve_at", solve)
    choice = chosen(family, size_of(family), 1e-6, 60.0)
    assert choice.between
    assert choice.own_solutions


def test_a_few_settings_that_were_solved_in_time_are_no_teacher(monkeypatch):
    family = Decay()
    own = OwnSolutions(GaussNewton(), settings=64)
    few = solve_at(family, spread_settings(family.parameters, FEWEST - 1))
    monkeypatch.setattr("lcpinn.optimiser.own_solutions.solve_at", lambda *given, **options: few)
    problem = SimpleNamespace(family=family)
    assert "too few" in str(own._teacher(problem))  # pyright: ignore[reportArgumentType]
    assert replace(own, settings=4)._teacher(problem) is few  # pyright: ignore[reportArgumentType]


def test_powers_of_coefficients_that_meet_zero_are_none():
    prior = lc.Uniform(a=(-1.0, 2.0), b=(1.0, np.e**2), c=(0.0, 1.0))
    assert powers(prior) == pytest.approx((0.0, 1.0, 0.0))


# -- As a phase ------------------------------------------------------------------------------------


def _shrunk(family, **changes):
    protocol = lc.protocol.fast(family)
    phase = replace(
        of_kind(GaussNewton, protocol.phases[0].innermost),
        sampling=Sampling(120, 8, 1, "collocation"),
        steps=12,
        seconds=None,
    )
    own = OwnSolutions(phase, **changes)
    network = replace(protocol.network, widths=(8,))
    return replace(protocol, network=network, phases=(Restarts(own, starts=1),))


@pytest.mark.slow
def test_training_names_where_it_was_solved(tmp_path):
    family = Decay()
    protocol = _shrunk(family, settings=4, rows=6)
    run = {"out": tmp_path / "run", "progress": False, "report": False}
    solution = lc.train(family, protocol, **run)
    at = solution.run["training"]["solved_at"]
    assert sorted(one["k"] for one in at) == pytest.approx([0.5, 0.875, 1.625, 2.0])
    assert "own solutions at 4 settings" in solution.run["training"]["stopped"][0]
    assert [dict(one) for one in solution.judged().solved_at] == at
    assert lc.load(tmp_path / "run", family).protocol == protocol
    assert np.asarray(solution(x=1.0, k=1.0)) == pytest.approx(np.exp(-1), rel=0.05)


@pytest.mark.slow
def test_where_nothing_can_be_solved_the_phase_is_as_it_is():
    family = Weighted()
    protocol = _shrunk(family, settings=4, rows=6)
    restarts = of_kind(Restarts, protocol.phases[0])
    plain = replace(protocol, phases=(replace(restarts, phase=restarts.innermost),))
    taught, untaught = (
        lc.train(family, p, progress=False, report=False) for p in (protocol, plain)
    )
    assert taught.run["training"]["solved_at"] == []
    assert "loss weights" in taught.run["training"]["not_solved"]
    for ours, theirs in zip(taught.params["layers"], untaught.params["layers"], strict=True):
        assert np.array_equal(ours["w"], theirs["w"])


def test_seconds_for_solving_are_taken_from_those_of_training():
    phase = GaussNewton(seconds=50.0)
    assert OwnSolutions(phase).shortened(8.0).phase == replace(phase, seconds=42.0)
    assert Restarts(phase).shortened(100.0).phase == replace(phase, seconds=1.0)
    assert GaussNewton().shortened(8.0) == GaussNewton()
