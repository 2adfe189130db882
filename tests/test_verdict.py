"""Solved or not: what a training says of itself."""

import dataclasses
import itertools
import json
import time
import warnings
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Decay, of_kind, quick
from typer.testing import CliRunner

import lcpinn as lc
import lcpinn.verdict
from benchmarks import verdicts as benchmark
from lcpinn.certificate import Estimate, Estimator
from lcpinn.cli import app
from lcpinn.families import FAMILIES
from lcpinn.jet import Orders, Series, expand
from lcpinn.network import MLP, FiLM, Unseen
from lcpinn.optimiser import GaussNewton, Restarts
from lcpinn.optimiser.watch import Watch
from lcpinn.protocol.shrink import shrunk
from lcpinn.sampling import Sampling
from lcpinn.verdict import (
    MANY,
    Judge,
    Verdict,
    check_tolerance,
    from_estimates,
    settings_of,
    worst,
)


def first(prior, num):
    return np.array(list(itertools.islice(settings_of(prior), num)))


def test_settings_begin_with_the_ends_and_fill_the_range():
    values = first(lc.Uniform(k=(1.0, 9.0)), 9)[:, 0]
    np.testing.assert_allclose(values, [1, 9, 5, 3, 7, 2, 6, 4, 8])


def test_settings_follow_the_measure_of_the_prior():
    values = first(lc.LogUniform(nu=(1e-4, 1.0)), 5)[:, 0]
    np.testing.assert_allclose(values, [1e-4, 1, 1e-2, 1e-3, 1e-1])


def test_settings_of_several_coefficients():
    prior = lc.Uniform(a=(0.0, 1.0), b=(2.0, 4.0))
    values = first(prior, 40)
    assert {tuple(v) for v in values[:4]} == {(0, 2), (0, 4), (1, 2), (1, 4)}
    np.testing.assert_allclose(values[4], [0.5, 3.0])
    assert len(np.unique(values, axis=0)) == 40
    assert np.all(prior.contains(values))
    # A quarter of the range has about a quarter of the rest.
    assert 6 <= np.sum(values[5:, 0] < 0.25) <= 12
    many = lc.Uniform(**{f"c{i}": (0.0, 1.0) for i in range(8)})
    centre, *others = first(many, 21)
    np.testing.assert_allclose(centre, 0.5)
    assert all(set(corner) <= {0.0, 1.0} for corner in others[::2])
    assert len({tuple(corner) for corner in others[::2]}) >= 9
    assert not any(set(inside) & {0.0, 1.0} for inside in others[1::2])


def test_a_coefficient_that_is_held_stays():
    prior = lc.Uniform(a=(0.0, 1.0), b=(2.0, 4.0)).at(a=0.25)
    np.testing.assert_allclose(first(prior, 3), [[0.25, 2], [0.25, 4], [0.25, 3]])
    assert len(first(prior.at(b=3.0), 5)) == 1


def estimates(*errors):
    reason = lambda e: "a front" if np.isnan(e) else ""
    return [Estimate(e, reason(e), {"k": float(i)}) for i, e in enumerate(errors)]


def test_solved_where_every_estimate_is_within_the_tolerance():
    verdict = from_estimates(estimates(1e-8, 3e-7, 1e-9), 1e-6)
    assert verdict.solved is True
    assert (verdict.error, verdict.at, verdict.tolerance) == (3e-7, {"k": 1.0}, 1e-6)
    assert verdict.settings == 3
    assert str(verdict) == (
        "solved: the largest estimated error is 3.0e-07 at k = 1 (3 settings, tolerance 1e-06)"
    )


def test_not_solved_where_one_is_above():
    verdict = from_estimates(estimates(1e-8, 3e-5, np.nan), 1e-6)
    assert verdict.solved is False
    assert (verdict.error, verdict.at) == (3e-5, {"k": 1.0})
    assert "3.0e-05 at k = 1, above 1e-06" in str(verdict)


def test_nothing_can_be_said_where_one_is_not_known():
    verdict = from_estimates(estimates(1e-8, np.nan), 1e-6)
    assert verdict.solved is None
    assert verdict.error == 1e-8
    assert "cannot be estimated at k = 1: a front" in verdict.reason
    assert from_estimates(estimates(np.nan), 1e-6).error is None


def bounded(at_least, at_most):
    return Estimate(np.nan, "too fine", {"k": 9.0}, at_least=at_least, at_most=at_most)


def test_a_bound_serves_where_it_decides():
    within = from_estimates([*estimates(1e-8), bounded(0.0, 1e-7)], 1e-6)
    assert within.solved is True
    assert (within.error, within.at) == (1e-7, {"k": 9.0})
    assert within.reason == (
        "the error is at most 1.0e-07 at k = 9 "
        "(2 settings, 1 of them bounded and not resolved, tolerance 1e-06)"
    )
    above = from_estimates([*estimates(1e-8), bounded(1e-4, np.inf)], 1e-6)
    assert above.solved is False
    assert (above.error, above.at) == (1e-4, {"k": 9.0})
    assert "at least 1.0e-04 at k = 9" in above.reason
    between = from_estimates([*estimates(1e-8), bounded(1e-8, 1e-4)], 1e-6)
    assert between.solved is None
    assert between.error == 1e-8
    assert "too fine; it is at most 1.0e-04" in between.reason
    trivial = from_estimates([*estimates(1e-8), bounded(1e-8, 30.0)], 1e2)
    assert trivial.solved is None
    assert "at most" not in trivial.reason
    assert worst([*estimates(1e-8), bounded(0.0, 1e-7)]).error == 1e-7
    assert np.isnan(worst([*estimates(1e-8), bounded(1e-4, np.inf)]).error)


def judge_with(estimator):
    """A judge of some family that asks this in place of an estimator."""
    judge: Any = Judge.__new__(Judge)
    family = SimpleNamespace(parameters=lc.Uniform(k=(1.0, 2.0)))
    judge.problem = SimpleNamespace(family=family, network=SimpleNamespace(doubtful=lambda p: None))
    judge.few, judge.seconds, judge._suspects, judge._draws = 5, 0.0, [], None
    judge.tolerance, judge.enough = 1e-2, 1e-3
    judge._estimator = estimator
    judge._mean_square = lambda params, lam: np.ones(1)
    return judge


def test_a_last_verdict_looks_beyond_the_first_that_is_not_known():
    """One of the others may show that it is not solved; in training there is no time for that."""

    def estimator(params, lam, shots, **options):
        return Estimate(np.nan, "a front") if lam[0] == 1.0 else Estimate(0.5)

    judge = judge_with(estimator)
    assert len(judge({}, num=9)) == 1
    estimates = judge({}, num=9, last=True)
    assert len(estimates) == 9
    assert from_estimates(estimates, 1e-2).solved is False


def test_all_that_is_bounded_alone_is_named():
    every = from_estimates([bounded(0.0, 1e-7)] * 3, 1e-3)
    assert every.reason.endswith("(3 settings, bounded and not resolved, tolerance 1e-03)")


# -- Many settings --------------------------------------------------------------------------------


class Answer:
    """In place of a network: the exact solution with noise-like waves, spoilt about one setting.

    Parameters are (size of the waves, size of the spoilt part, where it is).
    """

    def __init__(self, family, bump=lambda p: jnp.sin(jnp.pi * p)):
        def function(params, point, lam):
            waves, size, centre = params
            fine = waves * jnp.sin(900 * point.sum() + 5 * jnp.sin(200 * point.sum()))
            near = jnp.exp(-(((lam[0] - centre) / 0.03) ** 2))
            return family.call("exact", point, lam) + fine + size * near * bump(point)

        def jet(params, points, lam, weights, orders):
            at = lambda p: expand(lambda q: function(params, q, lam), p, orders)
            return jnp.moveaxis(jax.vmap(at)(points), 0, 1)

        self.family, self.function = family, function
        self.estimator = Estimator(family, jet)

    def judge(self, tolerance):
        judge: Any = Judge.__new__(Judge)
        network = SimpleNamespace(doubtful=lambda params: None)
        judge.problem = SimpleNamespace(family=self.family, network=network)
        judge.few, judge.seconds, judge._suspects, judge._draws = 5, 0.0, [], None
        judge.tolerance, judge.enough = tolerance, 0.1 * tolerance
        judge._estimator = self.estimator
        return judge

    def error(self, params, lam):
        """The relative error, against the truth."""
        points = np.asarray(self.family.domain.sobol(4096))
        truth = np.asarray(jax.vmap(lambda p: self.family.call("exact", p, lam))(points))
        made = np.asarray(jax.vmap(lambda p: self.function(params, p, lam))(points))
        return float(np.linalg.norm(made - truth) / np.linalg.norm(truth))


@pytest.fixture(scope="module")
def helmholtz():
    return Answer(FAMILIES["helmholtz-1d"]())


@pytest.mark.usefixtures("x64")
def test_many_settings_are_judged_where_an_error_is_far_below_the_tolerance(helmholtz):
    """Waves as fine as those take a thousand functions, and a second a setting, to resolve."""
    params, judge = np.array([1e-15, 0.0, 1.0]), helmholtz.judge(1e-6)
    judge(params, num=1)  # what is compiled is another matter
    begun = time.perf_counter()
    found = judge(params, num=MANY, seconds=60.0, last=True)
    assert len(found) == MANY
    assert time.perf_counter() - begun < 0.25 * MANY
    assert all(np.isnan(e.error) and e.at_most <= 1e-7 for e in found)
    for e in found:
        assert helmholtz.error(params, np.array(list(e.at.values()))) <= e.at_most
    verdict = from_estimates(found, 1e-6, judge.few)
    assert (verdict.solved, verdict.settings) == (True, MANY)
    assert "bounded and not resolved" in verdict.reason


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("place", [11, 29, 63])
def test_a_network_that_is_spoilt_at_one_setting_is_found(helmholtz, place):
    """Between the settings that a few would look at: an error that is smooth, and hardly above."""
    centre = 1.0 + 9.0 * place / 64
    params, judge = np.array([1e-15, 2e-6, centre]), helmholtz.judge(1e-6)
    verdict = from_estimates(judge(params, num=MANY, last=True), 1e-6, judge.few)
    assert verdict.solved is False
    assert verdict.at == pytest.approx({"k": centre})
    assert verdict.error == pytest.approx(helmholtz.error(params, np.array([centre])), rel=0.05)


@pytest.mark.usefixtures("x64")
def test_an_error_near_the_tolerance_is_resolved(helmholtz):
    """A bound there would be too large to say solved, and an estimate says what it is."""
    params, judge = np.array([1e-15, 3e-7, 5.5]), helmholtz.judge(1e-6)
    by_setting = {e.at["k"]: e for e in judge(params, num=5, last=True)}
    true = helmholtz.error(params, np.array([5.5]))
    assert by_setting[5.5].error == pytest.approx(true, rel=0.05)
    assert all(e.at_most <= 1e-7 for k, e in by_setting.items() if k != 5.5)


def test_a_single_good_setting_proves_nothing_about_the_others():
    verdict = from_estimates(estimates(1e-8), 1e-6, few=5)
    assert verdict.solved is None
    assert (verdict.error, verdict.settings) == (1e-8, 1)
    assert "1 of at least 5 settings were judged" in verdict.reason
    assert from_estimates(estimates(1e-5), 1e-6, few=5).solved is False
    assert from_estimates(estimates(1e-8), 1e-6).solved is True


def test_the_first_estimate_does_not_take_all_the_time(monkeypatch):
    """A slow first estimate would leave no seconds for the others."""
    asked, clock = [], itertools.count()

    def estimator(params, lam, shots, *, fronts, seconds, bounds, enough):
        assert (bounds, enough) == (True, 1e-3)
        asked.append(seconds)
        return Estimate(1e-8, "")

    judge = judge_with(estimator)
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    assert len(judge({}, num=5, seconds=10.0)) == 5
    remaining = [30.0, 29.0, 28.0, 27.0, 26.0]  # of three times ten seconds, by a clock that ticks
    assert asked == [r / 2 for r in remaining[:4]] + remaining[4:]


def test_where_a_solution_vanishes_errors_are_beside_the_others():
    """A load that passes through zero at k = 1.5: beside nothing no error is small."""
    asked = []

    def estimator(params, lam, shots, *, least=0.0, **options):
        asked.append((float(lam[0]), float(np.max(least))))
        return Estimate((1e13, 2e-5)[bool(np.any(least))] if lam[0] == 1.5 else 1e-5)

    judge = judge_with(estimator)
    judge._mean_square = lambda params, lam: np.array([4.0 * abs(lam[0] - 1.5)])
    estimates = judge({}, num=5)
    assert worst(estimates).error == 2e-5
    assert [pair for pair in asked if pair[1]] == [(1.5, pytest.approx(2e-6))]
    said = from_estimates(estimates, 1e-2).reason
    assert "2.0e-05 at k = 1.5, beside a thousandth of the largest solution, since" in said
    # A network that is as large there as elsewhere may have such an error where there is nothing:
    judge._mean_square = lambda params, lam: np.ones(1)
    assert worst(judge({}, num=5)).error == 2e-5

    def poor(params, lam, shots, **options):  # and not where it is a few times the solution
        return Estimate(0.5 if "least" in options else 3.0)

    judge = judge_with(poor)
    judge._mean_square = lambda params, lam: np.ones(1)
    assert worst(judge({}, num=5)).error == 3.0
    # A network of nothing beside a solution that is large: its error is as it was, and said so.
    alone = lambda params, lam, shots, **options: Estimate(1.0 if lam[0] == 1.5 else 1e-5)
    judge = judge_with(alone)
    judge._mean_square = lambda params, lam: np.array([float(lam[0] != 1.5)])
    assert "thousandth" not in from_estimates(judge({}, num=5), 1e-2).reason


def test_once_it_is_not_solved_the_others_keep_to_the_time(monkeypatch):
    """They say how large errors are: no front is followed, and what is not known ends nothing."""
    asked, clock = [], itertools.count()

    def estimator(params, lam, shots, *, fronts, seconds, **options):
        asked.append((fronts, seconds))
        return Estimate(np.nan, "a front") if lam[0] == 1.5 else Estimate(0.5)

    judge = judge_with(estimator)
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    found = judge({}, num=MANY, seconds=10.0, fronts=True, last=True)
    assert [e.at["k"] for e in found][:4] == [1.0, 2.0, 1.5, 1.25]
    assert asked[0] == (True, 15.0)
    # The clock begins with the second; one more would not be done within ten of its ticks.
    assert asked[1:] == [(False, 10.0 - ticks) for ticks in range(1, 10)]


def test_no_setting_is_judged_twice():
    """Corners of four coefficients come up again and again, and were suspected before."""
    prior = lc.Uniform(**{f"c{i}": (0.0, 1.0) for i in range(4)})
    judge = judge_with(None)
    judge.problem.family.parameters = prior
    judge._suspects = [np.zeros(4), np.full(4, 0.5)]
    settings = np.array(list(itertools.islice(judge._settings({}, False), 60)))
    np.testing.assert_array_equal(settings[:2], judge._suspects)
    assert len(np.unique(settings, axis=0)) == 60


def test_the_worst_is_unknown_if_one_is():
    assert worst(estimates(1.0, 3.0, 2.0)).error == 3.0
    assert worst(estimates(1.0, np.nan, 2.0)).reason == "a front"


def test_a_verdict_travels_as_json():
    verdict = from_estimates(estimates(1e-8, 3e-7), 1e-6)
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    with pytest.raises(lc.LcpinnError, match="no verdict"):
        Verdict.from_json({"solved": True, "guess": 1})


@pytest.mark.parametrize("bad", [0.0, -1e-3, np.inf, np.nan, "1e-6", True])
def test_a_tolerance_is_a_positive_number(bad):
    with pytest.raises(lc.LcpinnError, match="tolerance is a"):
        check_tolerance(bad)


# -- Trainings ------------------------------------------------------------------------------------

LAYER = '''\
import lcpinn as lc
import lcpinn.verdict
from benchmarks import verdicts as benchmark


class Layer(lc.Family):
    """-nu u'' + u' = 1, u(0) = u(1) = 0, for every nu."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.LogUniform(nu=(1e-3, 1.0))

    @lc.interior
    def equation(self, u_x, u_xx, nu):
        return -nu * u_xx + u_x - 1.0

    @lc.on()
    def ends(self, u):
        return u
'''


def small(protocol):
    """The same at a size that compiles and runs in a moment; its verdict is still asked for."""
    return dataclasses.replace(shrunk(protocol), judged=True)


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """A layer that three steps do not resolve, trained by the command line."""
    home = tmp_path_factory.mktemp("layer")
    (home / "layer.py").write_text(LAYER)
    words = ["train", f"{home / 'layer.py'}:Layer", "--steps", "3", "--out", str(home / "run")]
    done = CliRunner().invoke(app, [*words, "--tolerance", "1e-6"])
    return home, done


@pytest.mark.slow
def test_a_wrong_answer_is_not_given_in_silence(layer):
    home, done = layer
    assert done.exit_code == 1, done.output
    assert "not solved: the estimated error is" in done.stdout
    assert "lcpinn predict" not in done.stdout
    assert "lcpinn certify" in done.stdout
    assert "lcpinn solve" in done.stdout
    verdict = json.loads((home / "run" / "result.json").read_text())["verdict"]
    assert verdict["solved"] is False
    assert verdict["tolerance"] == 1e-6
    assert verdict["error"] > 0.1
    assert 1e-3 <= verdict["at"]["nu"] <= 1


@pytest.mark.slow
def test_a_model_keeps_its_verdict(layer):
    home, _ = layer
    written = json.loads((home / "run" / "result.json").read_text())["verdict"]
    namespace = {}
    exec(LAYER, namespace)
    solution = lc.load(home / "run", namespace["Layer"]())
    assert solution.verdict.to_json() == written


@pytest.mark.slow
def test_an_error_above_one_per_cent_warns_without_being_asked(layer):
    namespace = {}
    exec(LAYER, namespace)
    family = namespace["Layer"]()
    with pytest.warns(lc.NotSolvedWarning, match="not solved: the estimated error is"):
        solution = lc.train(family, small(lc.protocol.fast(family)), progress=False)
    assert solution.verdict.solved is False
    assert solution.verdict.tolerance == 0.01


@pytest.mark.slow
def test_a_solved_family_ends_as_soon_as_it_is_solved():
    family = Decay()
    protocol = lc.protocol.fast(family, tolerance=1e-4)
    phase = of_kind(Restarts, protocol.phases[0])
    inner = of_kind(GaussNewton, phase.innermost)
    few = dataclasses.replace(inner, sampling=Sampling(200, 20, 1, "collocation"))
    network = dataclasses.replace(of_kind(MLP, protocol.network), widths=(8, 8))
    protocol = dataclasses.replace(
        protocol, network=network, phases=(dataclasses.replace(phase, phase=few),)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", lc.NotSolvedWarning)
        solution = lc.train(family, protocol, tolerance=1e-4, progress=False)
    assert solution.verdict.solved is True
    truth = solution.evaluate()["dense_max"]
    assert truth <= 1e-4
    assert truth <= solution.verdict.error * 3 + 1e-12
    assert "solved: estimated error" in solution.run["training"]["stopped"][0]


@pytest.mark.slow
def test_a_verdict_that_is_made_later_is_beside_the_tolerance_that_was_asked_for():
    how = lc.protocol.fast(Decay(), steps=2)
    solution = lc.train(Decay(), how, tolerance=1e-12, progress=False, report=False)
    assert solution.verdict.tolerance == 1e-12
    assert solution.verdict.solved is not True


def test_trying_out_is_not_judged():
    with warnings.catch_warnings():
        warnings.simplefilter("error", lc.NotSolvedWarning)
        solution = lc.train(Decay(), lc.protocol.smoke(Decay()), progress=False)
    assert solution.verdict.solved is None
    assert "smoke is for trying things out" in solution.verdict.reason


def test_seconds_are_for_the_default_protocol():
    with pytest.raises(lc.LcpinnError, match="seconds is for the default protocol"):
        lc.train(Decay(), lc.protocol.smoke(Decay()), seconds=3.0)
    with pytest.raises(lc.LcpinnError, match="tolerance is a"):
        lc.train(Decay(), tolerance=-1.0)


def test_one_training_for_a_tolerance():
    done = CliRunner().invoke(
        app,
        ["train", "helmholtz-1d", "--at", "k=1", "--at", "k=2", "--tolerance", "1e-3"],
    )
    assert done.exit_code != 0
    assert "--tolerance is for one training" in done.output


# -- Estimates while it runs ----------------------------------------------------------------------


class Scripted(Judge):
    """A judge that answers with given errors, one list for each call."""

    few = 3

    def __init__(self, *answers):
        self.answers, self.seconds, self.asked = list(answers), 0.0, []

    def __call__(
        self, params, *, num=None, seconds=0.0, each=0.0, fronts=False, draws=None, last=False
    ):
        self.asked.append(num)
        return estimates(*self.answers.pop(0))

    def suspect(self, at):
        self.suspected = at


def watching(*answers):
    watch = Watch.__new__(Watch)
    watch.tolerance, watch.error, watch._judge = 1e-3, np.inf, Scripted(*answers)
    watch._began, watch._loss = 0.0, np.inf
    return watch


def judge_of(watch: Watch) -> Scripted:
    return of_kind(Scripted, watch._judge)


def state(loss):
    return SimpleNamespace(held_out=SimpleNamespace(best=loss), best=None)


def test_many_settings_are_looked_at_once_a_few_are_good_enough():
    watch = watching([1e-4, 5e-4], [1e-4, 2e-4, 6e-4])
    assert watch.reached(state(1e-8), over=False)
    assert judge_of(watch).asked == [None, 65]
    assert watch.error == 6e-4


def test_one_bad_setting_among_many_is_enough_to_go_on():
    assert not watching([1e-4], [1e-4, 2e-2]).reached(state(1e-8), over=False)
    assert not watching([np.nan]).reached(state(1e-8), over=False)


def test_an_estimate_waits_for_the_loss_to_fall():
    watch = watching([1.0], [1.0])
    assert not watch.reached(state(1e-2), over=False)
    assert judge_of(watch).suspected == {"k": 0.0}
    assert not watch.reached(state(0.9e-2), over=False)
    assert len(judge_of(watch).asked) == 1
    assert not watch.reached(state(0.9e-2), over=True)
    assert len(judge_of(watch).asked) == 2


def test_estimates_take_a_small_share_of_the_time():
    watch = watching([1.0])
    watch._began, watch._judge.seconds = time.perf_counter() - 10.0, 2.0
    assert not watch.reached(state(1e-8), over=False)
    assert judge_of(watch).asked == []


# -- Networks for it ------------------------------------------------------------------------------


def test_an_exponential_scale_with_slopes():
    how = FiLM(hidden=0, degree=2, exponential=True, slopes=1.5)
    params = how.init(jax.random.PRNGKey(0), 1, (6, 5), jnp.float32)
    exponents = np.asarray(params["w"])
    assert np.abs(exponents[0, :6]).max() <= 1.5
    assert np.abs(exponents[0, :6]).min() > 0
    assert not exponents[1:].any()
    (gamma, beta), (second, _) = how.modulate(params, jnp.asarray([0.5]), (6, 5))
    np.testing.assert_allclose(gamma, np.exp(0.5 * exponents[0, :6]), rtol=1e-6)
    np.testing.assert_array_equal(beta, 0)
    np.testing.assert_array_equal(second, 1)
    with pytest.raises(lc.LcpinnError, match="needs a degree"):
        FiLM(slopes=1.0)


@pytest.mark.slow
def test_a_readout_is_linear_in_the_coefficients():
    """With hidden layers that do not see them, outputs are affine in the coefficients."""
    network = MLP((7,), "sine", Unseen(), frequency_scale=2.0, readout=1)
    begin = lambda key: network.init(key, 1, 2, {"parameters": 3}, jnp.float32)
    params = quick(begin)(jax.random.PRNGKey(0))
    keys = jax.random.split(jax.random.PRNGKey(1), 2)
    params["readout"] = {
        name: jax.random.normal(key, leaf.shape)
        for key, (name, leaf) in zip(keys, params["readout"].items(), strict=True)
    }
    orders = Orders(((0,),))
    x = jnp.linspace(-1, 1, 4)[:, None]

    @quick
    def u(lam):
        values = jnp.broadcast_to(jnp.stack(lam), (4, 3))
        return network.apply(params, Series(orders, x[None]), {"parameters": values}).value

    base, ends = np.asarray(u([0.0, 0.0, 0.0])), np.eye(3)
    mixed = u([0.2, -0.7, 0.4])
    slopes = [np.asarray(u(end.tolist())) - base for end in ends]
    expected = base + 0.2 * slopes[0] - 0.7 * slopes[1] + 0.4 * slopes[2]
    np.testing.assert_allclose(mixed, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(slopes[1]).max() > 0.1


def test_many_coefficients_are_read_out():
    class Sources(lc.Family):
        domain = lc.Box(x=(0.0, 1.0))
        parameters = lc.Uniform(**{f"c{i}": (-1.0, 1.0) for i in range(5)})

        @lc.interior
        def equation(self, u_xx, x, c0, c1, c2, c3, c4):
            return u_xx - c0 - c1 * x - c2 * x**2 - c3 * x**3 - c4 * x**4

        @lc.on()
        def ends(self, u):
            return u

    network = of_kind(MLP, lc.protocol.fast(Sources()).network)
    assert (network.readout, of_kind(FiLM, network.parameters).degree) == (1, 1)
    assert of_kind(MLP, lc.protocol.fast(Decay()).network).readout == 0


def test_a_verdict_names_where_the_page_was_solved():
    verdict = Verdict(True, 1e-6, {"k": 2.0}, 1e-3, "the largest estimated error is 1e-06")
    assert verdict.trained_on([]) is verdict
    few = verdict.trained_on([{"k": 1.0}, {"k": 2.5}])
    assert few.reason.endswith("trained on the page's own solutions at k = 1 and at k = 2.5")
    many = verdict.trained_on([{"k": k, "a": 0.1} for k in (3.0, 1.0, 2.0, 5.0)])
    assert many.reason.endswith("own solutions at 4 settings, k = 1 to 5, a = 0.1 to 0.1")
    assert Verdict.from_json(many.to_json()) == many
    assert many.to_json()["solved_at"][0] == {"k": 3.0, "a": 0.1}


def test_the_benchmark_of_verdicts_counts_the_processor(monkeypatch):
    """Other work on the machine does not count, neither in what is measured nor in the limits."""
    monkeypatch.setattr("lcpinn.certificate.of_network", lambda problem: lambda: Estimate(1e-7))

    def judged(tolerance, seconds):
        assert lcpinn.verdict.time.perf_counter is time.process_time
        problem: Any = None
        ask: Any = lcpinn.verdict.of_network(problem)
        for _ in range(3):
            ask()
        return Verdict(True, 1e-7, {"k": 1.0}, tolerance, "fine", 3)

    solution: Any = SimpleNamespace(judged=judged)
    row = benchmark.measure(solution, 1e-6, 10.0)
    assert (row["settings"], row["known"], row["solved"]) == (3, 3, True)
    assert "3 settings, 3 known" in benchmark._line(row)
    assert lcpinn.verdict.time is time
