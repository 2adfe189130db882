"""Coefficients from observations: found, with honest errors, and with a word where they are not."""

import dataclasses
import functools
import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Spiral
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.certificate import Estimate
from lcpinn.cli import app
from lcpinn.families import Burgers, Helmholtz
from lcpinn.inverse import Forward, Misfit, local_minima, plus_minus, read
from lcpinn.network import MLP, FiLM
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling


def in_steps(protocol, num, **changes):
    """The same protocol with so many Gauss-Newton steps, whatever the clock says."""
    (phase,) = protocol.phases
    inner = dataclasses.replace(phase.phase, steps=num, seconds=None, **changes)
    phase = dataclasses.replace(phase, phase=inner, starts=1)
    return dataclasses.replace(protocol, phases=(phase,))


@pytest.fixture(scope="module")
def helmholtz():
    """Of a smaller network on fewer points than `fast` would take, and good to eight digits."""
    family = Helmholtz()
    few = Sampling(interior=900, face=60, num_lambda=1, rule="collocation")
    protocol = in_steps(lc.protocol.fast(family), 50, sampling=few)
    network = dataclasses.replace(protocol.network, widths=(14, 14))
    protocol = dataclasses.replace(protocol, network=network)
    return lc.train(family, protocol, seed=0, progress=False, report=False)


@pytest.fixture(scope="module")
def sensors():
    return np.sort(np.random.default_rng(20).uniform(0, 1, 20))


def field(x, k):
    return np.sin(np.pi * x) * np.cos(k * x)


def orbit(t, a, b):
    return {"u": np.exp(-b * t) * np.cos(a * t), "v": -np.exp(-b * t) * np.sin(a * t)}


@pytest.fixture(scope="module")
def spiral():
    family = Spiral()
    protocol = in_steps(
        lc.protocol.fast(family), 40, sampling=Sampling(900, 100, 1, "collocation"), solver="qr"
    )
    network = dataclasses.replace(protocol.network, widths=(12, 12))
    held_out = Sampling(512, 64, 1, "collocation", seed=1009)
    protocol = dataclasses.replace(protocol, network=network, held_out=held_out)
    return lc.train(family, protocol, seed=0, progress=False, report=False)


# Families that an ansatz solves: what the network says does not count.


class Even(lc.Family):
    """exp(-k² t): both signs of k fit."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(k=(-2.0, 1.5))

    @lc.interior
    def equation(self, u, u_t, k):
        return u_t + k**2 * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0

    def ansatz(self, u, t, k):
        return 0 * u + jnp.exp(-(k**2) * t)


class Idle(lc.Family):
    """exp(-k t), whatever c is."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0), c=(0.0, 1.0))

    @lc.interior
    def equation(self, u, u_t, k):
        return u_t + k * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0

    def ansatz(self, u, t, k, c):
        return 0 * u + jnp.exp(-k * t) + 0 * c


class Product(lc.Family):
    """exp(-a b t): only the product counts."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(a=(1.0, 2.0), b=(1.0, 2.0))

    @lc.interior
    def equation(self, u, u_t, a, b):
        return u_t + a * b * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0

    def ansatz(self, u, t, a, b):
        return 0 * u + jnp.exp(-a * b * t)


class Weighed(lc.Family):
    """A coefficient, and loss weights that the answers are averaged over."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))
    weights = lc.Simplex()
    evaluation = lc.Evaluation(shots=4)

    @lc.interior
    def equation(self, u, u_t, k):
        return u_t + k * u

    def ansatz(self, u, t, k):
        return jnp.exp(-k * t) * (1 + 1e-3 * u)


class Offset(lc.Family):
    """exp(-k t) + m: two coefficients that a curve tells apart."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0), m=(-1.0, 1.0))

    @lc.interior
    def equation(self, u, u_t, k, m):
        return u_t + k * (u - m)

    @lc.on(t=0.0)
    def start(self, u, m):
        return u - 1.0 - m

    def ansatz(self, u, t, k, m):
        return 0 * u + jnp.exp(-k * t) + m


@functools.cache
def known(make, **held):
    """A solution by its ansatz, with a small network that was never trained."""
    family = make().at(**held)
    network = MLP(widths=(4,), parameters=FiLM(hidden=3))
    protocol = dataclasses.replace(lc.protocol.fast(family), network=network, at=held)
    with jax.enable_x64(True):
        params = Problem(family, network, jnp.float64).init(jax.random.PRNGKey(0))
    return lc.Solution(family, protocol, params, {})


T = np.linspace(0.05, 1.0, 15)


# Found


@pytest.mark.slow
def test_a_wavenumber_from_clean_sensors(helmholtz, sensors):
    for k in (3.7, *np.random.default_rng(1).uniform(1, 10, 10)):
        found = helmholtz.fit(lc.Data(x=sensors, u=field(sensors, k)))
        assert abs(found.values["k"] - k) < 1e-6
        assert not found.at_bound
        assert found.misfit < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False])
def test_standard_errors_cover_the_noise(helmholtz, sensors, given):
    u = field(sensors, 3.7)
    sigma = 0.01 * np.sqrt(np.mean(u**2))
    hits = 0
    for seed in range(100):
        noise = np.random.default_rng(seed).normal(scale=sigma, size=len(u))
        data = lc.Data(x=sensors, u=u + noise)
        found = helmholtz.fit(data, sigma=sigma if given else None, estimate=False)
        hits += abs(found.values["k"] - 3.7) < 2 * found.errors["k"]
    assert 90 <= hits <= 99


@pytest.mark.slow
def test_standard_errors_cover_the_noise_at_any_wavenumber(helmholtz, sensors):
    rng, scores = np.random.default_rng(2), []
    for k in rng.uniform(1.2, 9.8, 100):
        u = field(sensors, k)
        sigma = 0.01 * np.sqrt(np.mean(u**2))
        data = lc.Data(x=sensors, u=u + rng.normal(scale=sigma, size=len(u)))
        found = helmholtz.fit(data, sigma=sigma, estimate=False)
        scores.append((found.values["k"] - k) / found.errors["k"])
    assert 90 <= np.sum(np.abs(scores) < 2) <= 99
    assert 0.8 < np.std(scores) < 1.25


@pytest.mark.slow
def test_two_coefficients_of_two_outputs_at_once(spiral):
    t = np.random.default_rng(0).uniform(0, 2, 25)
    found = spiral.fit({"t": t, **orbit(t, 2.2, 0.17)})
    assert abs(found.values["a"] - 2.2) < 1e-4
    assert abs(found.values["b"] - 0.17) < 1e-4
    assert set(found.residuals) == {"u", "v"}
    assert found.num_observed == 50
    assert found.freedom == 48


@pytest.mark.slow
def test_covariance_of_a_logarithmic_coefficient(spiral):
    """Standard errors of b are in units of b, though its logarithm is fitted."""
    t, rng, scores = np.linspace(0, 2, 20), np.random.default_rng(3), []
    for _ in range(40):
        noisy = {n: v + rng.normal(scale=0.01, size=20) for n, v in orbit(t, 1.4, 0.3).items()}
        found = spiral.fit({"t": t, **noisy}, sigma=0.01, estimate=False)
        gap = np.array([found.values["a"] - 1.4, found.values["b"] - 0.3])
        scores.append(gap @ np.linalg.solve(found.covariance, gap))
    assert 1.0 < np.mean(scores) < 3.3  # χ² with two degrees of freedom, mean 2 ± 0.32
    assert found.errors["b"] == pytest.approx(np.sqrt(found.covariance[1, 1]))


@pytest.mark.slow
def test_outputs_that_were_not_observed(spiral):
    t = np.linspace(0, 2, 20)
    data = {"t": t, **orbit(t, 2.2, 0.17)}
    data["u"][5:] = np.nan
    data["v"][:5] = np.nan
    found = spiral.fit(data)
    assert abs(found.values["a"] - 2.2) < 1e-4
    assert found.num_observed == 20
    assert np.isnan(found.residuals["u"][5:]).all()
    assert np.isfinite(found.residuals["u"][:5]).all()
    alone = spiral.fit({"t": t, "v": orbit(t, 2.2, 0.17)["v"]})
    assert set(alone.residuals) == set(alone.sigma) == {"v"}


@pytest.mark.slow
def test_a_spoilt_cell_that_counts_for_little(spiral):
    """With a sigma for each observation, one that is far off can be told to be."""
    t = np.linspace(0, 2, 20)
    data = {"t": t, **orbit(t, 2.2, 0.17)}
    data["u"][7] += 0.5
    noise = np.full(20, 1e-3)
    spoilt = spiral.fit(data, sigma={"u": noise, "v": 1e-3})
    assert any("times what sigma explains" in text for text in spoilt.warnings)
    noise[7] = 10.0
    found = spiral.fit(data, sigma={"u": noise, "v": 1e-3})
    assert abs(found.values["a"] - 2.2) < 1e-4 < abs(spoilt.values["a"] - 2.2)
    assert not any("times what sigma explains" in text for text in found.warnings)


@pytest.mark.slow
def test_held_coefficients(spiral):
    t = np.linspace(0, 2, 20)
    data = {"t": t, **orbit(t, 2.2, 0.17)}
    found = spiral.fit(data, at={"b": 0.17})
    assert set(found.values) == {"a"}
    assert found.held == {"b": 0.17}
    assert found.covariance.shape == (1, 1)
    assert abs(found.values["a"] - 2.2) < 1e-4
    assert "b = 0.17" in str(found)
    worse = spiral.fit(data, at={"b": 0.4})
    assert worse.misfit > 100 * found.misfit


@pytest.mark.slow
def test_a_coefficient_that_is_a_column_is_known():
    """Two experiments with a known offset each, and one rate that they share."""
    solution, m = known(Offset), np.repeat([-0.5, 0.7], len(T))
    t = np.tile(T, 2)
    found = solution.fit(lc.Data(t=t, m=m, u=np.exp(-1.2 * t) + m))
    assert found.values == {"k": pytest.approx(1.2, abs=1e-9)}
    assert not found.held


@pytest.mark.slow
def test_held_in_training():
    solution = known(Offset, m=0.25)
    found = solution.fit({"t": T, "u": np.exp(-1.2 * T) + 0.25})
    assert found.values == {"k": pytest.approx(1.2, abs=1e-9)}
    assert found.held == {"m": 0.25}
    assert "m = 0.25 (m already in training)" in str(found)
    with pytest.raises(lc.LcpinnError, match=r"m was held at 0\.25 in training, not 0\.5"):
        solution.fit({"t": T, "u": T}, at={"m": 0.5})
    with pytest.raises(lc.LcpinnError, match=r"trained at m = 0\.25, k = 1 alone|k = 1, m = 0\.25"):
        known(Offset, m=0.25, k=1.0).fit({"t": T, "u": T})


@pytest.mark.slow
def test_single_numbers_count_for_every_observation():
    found = known(Offset).fit({"t": T, "m": 0.25, "u": np.exp(-1.2 * T) + 0.25})
    assert found.values == {"k": pytest.approx(1.2, abs=1e-9)}


@pytest.mark.slow
def test_loss_weights_are_averaged_over():
    solution = known(Weighed)
    found = solution.fit({"t": T, "u": solution(t=T, k=1.3)}, estimate=False)
    assert found.values == {"k": pytest.approx(1.3, abs=1e-9)}


@pytest.mark.slow
def test_many_observations_come_in_pieces(monkeypatch):
    monkeypatch.setattr("lcpinn.inverse.misfit.ROWS", 256)
    t = np.linspace(0, 1, 600)
    found = known(Offset).fit({"t": t, "u": np.exp(-1.2 * t) + 0.25})
    assert found.values == {"k": pytest.approx(1.2, abs=1e-9), "m": pytest.approx(0.25, abs=1e-9)}
    assert len(found.residuals["u"]) == 600


@pytest.mark.slow
def test_jacobian_against_finite_differences(spiral):
    t = np.linspace(0, 2, 9)
    data = {"t": t, **orbit(t, 1.5, 0.2)}
    data["u"][0] = np.nan
    for at in ({}, {"a": 2.0}):
        misfit = Misfit(spiral._forward, read(spiral.family, data, at, {"u": 0.1, "v": 0.5}))
        unit, step = np.array([0.4, 0.7])[: misfit.num_free], 1e-5
        exact = misfit.jacobian(unit)
        assert exact.shape == (17, misfit.num_free)
        for i in range(misfit.num_free):
            ahead, behind = unit.copy(), unit.copy()
            ahead[i] += step
            behind[i] -= step
            slope = (misfit.rows(ahead) - misfit.rows(behind)) / (2 * step)
            np.testing.assert_allclose(exact[:, i], slope, rtol=1e-6, atol=1e-7)


def test_programs_are_shared(monkeypatch):
    """However many observations there are, and whichever coefficients are sought."""
    traced, rows = [], Forward._rows
    monkeypatch.setattr(Forward, "_rows", lambda *args: traced.append(1) or rows(*args))
    solution = known.__wrapped__(Product)
    t = np.linspace(0, 1, 7)
    solution.fit({"t": t, "u": np.exp(-1.2 * t)}, estimate=False)
    first = len(traced)
    assert first > 0
    for num in (20, 41):
        t = np.linspace(0, 1, num)
        solution.fit({"t": t, "u": np.exp(-1.2 * t)}, sigma=0.1, estimate=False)
    assert len(traced) == first
    values, slopes = solution._forward(
        np.array([0.5, 0.2]), read(solution.family, {"t": t, "u": t})
    )
    assert len(traced) == first
    assert (values.shape, slopes.shape) == ((41, 1), (41, 1, 2))


def test_starts_are_the_local_minima_of_the_scan():
    units = np.linspace(0, 1, 101)[:, None]
    levels = 2 - np.cos(6 * np.pi * units[:, 0]) + units[:, 0]
    assert units[local_minima(units, levels), 0] == pytest.approx([0, 1 / 3, 2 / 3, 1], abs=0.02)
    levels[:50] = np.inf  # not finite there
    assert units[local_minima(units, levels), 0] == pytest.approx([2 / 3, 1], abs=0.02)


# Doubted


def doubts(found, *words):
    """Whether there is a warning with all of these words."""
    return any(all(word in text for word in words) for text in found.warnings)


def noisy(u, sigma=1e-3):
    return u + sigma * np.random.default_rng(5).normal(size=len(u))


@pytest.mark.slow
def test_a_clean_fit_has_no_warnings():
    found = known(Offset).fit({"t": T, "u": noisy(np.exp(-1.2 * T) + 0.25)}, sigma=1e-3)
    assert found.warnings == ()
    assert found.chi2 == pytest.approx(found.freedom, abs=4 * np.sqrt(2 * found.freedom))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [None, 1e-3])
def test_a_coefficient_without_effect(sigma):
    found = known(Idle).fit({"t": T, "u": noisy(np.exp(-1.2 * T))}, sigma=sigma)
    assert doubts(found, "do not identify c", "does not depend on it")
    assert found.errors["c"] == np.inf
    assert abs(found.values["k"] - 1.2) < 4 * found.errors["k"] < 0.1
    assert "± ∞" in str(found)


@pytest.mark.slow
def test_coefficients_that_only_count_together():
    found = known(Product).fit({"t": T, "u": noisy(np.exp(-2.1 * T))})
    assert doubts(found, "a and b apart", "change together")
    assert found.values["a"] * found.values["b"] == pytest.approx(2.1, abs=0.05)


def test_noise_that_drowns_a_coefficient():
    found = known(Offset).fit({"t": T, "u": noisy(np.exp(-1.2 * T), 3.0)}, sigma=3.0)
    assert doubts(found, "standard error is", "of the range")


@pytest.mark.slow
def test_what_the_network_cannot_resolve(spiral, monkeypatch):
    """A network with an error of one half tells nothing about the damping."""
    t = np.linspace(0, 2, 20)
    monkeypatch.setattr(spiral, "estimate", lambda **at: Estimate(0.5, "", at))
    found = spiral.fit({"t": t, **orbit(t, 2.2, 0.17)})
    assert found.network == 0.5
    assert doubts(found, "b", "no more than the network's own error (5.0e-01)")
    assert doubts(found, "could move a by", "more than its standard error")


@pytest.mark.slow
def test_several_minima():
    """Nothing tells k = 1.2 from k = -1.2; k = -1.9 has no twin within the range."""
    solution = known(Even)
    found = solution.fit({"t": T, "u": noisy(np.exp(-(1.2**2) * T))})
    assert doubts(found, "several minima", "99 % confidence region")
    assert {round(found.values["k"], 2), round(found.minima[0].values["k"], 2)} == {1.2, -1.2}
    assert found.minima[0].excess == pytest.approx(0, abs=1e-6)
    assert found.minima[0].misfit == pytest.approx(found.misfit)
    alone = solution.fit({"t": T, "u": noisy(np.exp(-(1.9**2) * T))})
    assert alone.values["k"] == pytest.approx(-1.9, abs=0.02)
    assert not doubts(alone, "several minima")
    assert alone.minima[0].excess > 10
    assert alone.minima[0].misfit > alone.misfit


@pytest.mark.slow
def test_oscillating_misfits_do_not_trap(helmholtz):
    """One sensor: every k with the same cos(kx) fits as well."""
    x = 0.97
    found = helmholtz.fit({"x": [x], "u": [field(x, 3.7)]}, sigma=1e-3)
    assert doubts(found, "several minima")
    fits = sorted([found.values["k"], *(m.values["k"] for m in found.minima if m.excess < 1e-6)])
    assert np.cos(x * np.array(fits)) == pytest.approx(np.cos(x * 3.7), abs=1e-6)
    assert len(fits) == 3
    assert min(abs(k - 3.7) for k in fits) < 1e-6


@pytest.mark.parametrize(("rate", "end"), [(2.6, 2.0), (0.2, 0.5)])
def test_a_value_at_an_end_of_its_range(rate, end):
    found = known(Offset).fit({"t": T, "u": noisy(np.exp(-rate * T))}, at={"m": 0.0})
    assert found.at_bound == ("k",)
    assert found.values["k"] == pytest.approx(end, abs=1e-5)
    assert doubts(found, "k lies at an end of its range [0.5, 2]")


def test_a_misfit_that_sigma_does_not_explain(monkeypatch):
    solution = known(Offset)
    data = {"t": T, "u": noisy(np.exp(-1.2 * T) + 0.25, 0.01)}
    found = solution.fit(data, sigma=1e-3)
    assert doubts(found, "times what sigma explains", "sigma is too small")
    monkeypatch.setattr(solution, "estimate", lambda **at: Estimate(0.02, "", at))
    found = solution.fit(data, sigma=1e-3)
    assert doubts(found, "the network's own error (2.0e-02) explains it")


def test_data_of_another_equation():
    found = known(Offset).fit({"t": T, "u": np.sin(40 * T)})
    assert doubts(found, "% of the data's size unexplained")


def test_too_few_observations():
    solution = known(Offset)
    found = solution.fit({"t": [0.5], "u": [1.0]}, sigma=0.1)
    assert doubts(found, "1 observation cannot tell 2 coefficients")
    found = solution.fit({"t": [0.2, 0.9], "u": np.exp(-1.2 * np.array([0.2, 0.9]))})
    assert doubts(found, "2 observations for 2 coefficients", "give sigma")
    assert np.isnan(found.errors["k"])
    assert "± ?" in str(found)


def test_points_outside_of_the_domain():
    t = np.array([*T, 1.5, -0.3])
    found = known(Offset).fit({"t": t, "u": np.exp(-1.2 * t)})
    assert doubts(found, "2 of 17 points lie outside of the domain")


@pytest.mark.slow
def test_clean_data_are_limited_by_the_network(helmholtz, sensors):
    """The warning names what may be wrong, and what is wrong is within it."""
    for k in (3.7, 6.1, 9.2):
        found = helmholtz.fit({"x": sensors, "u": field(sensors, k)})
        assert doubts(found, "could move k by")
        assert abs(found.values["k"] - k) < found.shift["k"] * 1.5


# Refused


@pytest.mark.parametrize(
    ("data", "options", "says"),
    [
        ({"x": T, "u": T}, {}, "no use for 'x'; there are t, k, m, u"),
        ({"u": T}, {}, "lack the coordinate 't'"),
        ({"t": T}, {}, "lack an output (u)"),
        ({"t": T, "u": T[:3]}, {}, "do not fit together"),
        ({"t": T, "u": ["?"] * 15}, {}, "do not fit together"),
        ({"t": T, "u": np.full(15, np.nan)}, {}, "no value"),
        ({"t": T, "u": np.full(15, np.inf)}, {}, "infinite values of 'u'"),
        ({"t": np.full(15, np.nan), "u": T}, {}, "nan or infinite values of 't'"),
        ({"t": T, "u": T}, {"at": {"q": 1.0}}, "no coefficient 'q' to hold"),
        ({"t": T, "u": T}, {"at": {"k": 9.0}}, "k = 9 lies outside its range [0.5, 2]"),
        ({"t": T, "u": T}, {"at": {"k": 1.0, "m": 0.0}}, "nothing to find"),
        ({"t": T, "u": T, "k": T}, {"at": {"k": 1.0}}, "k is held at 1, and has other values"),
        ({"t": T, "u": T}, {"sigma": 0.0}, "sigma must be positive"),
        ({"t": T, "u": T}, {"sigma": [0.1, 0.2]}, "one for each of the 15 observations"),
        ({"t": T, "u": T}, {"sigma": {"w": 1.0}}, "sigma of 'w'"),
        ({"t": T, "u": T}, {"sigma": {}}, "sigma of 'u' is missing"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_line(data, options, says):
    with pytest.raises(lc.LcpinnError) as caught:
        known(Offset).fit(data, **options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_family_without_coefficients():
    family = Burgers()
    protocol = lc.protocol.smoke(family)
    with jax.enable_x64(True):
        params = Problem(family, protocol.network, jnp.float64).init(jax.random.PRNGKey(0))
    with pytest.raises(lc.LcpinnError, match="burgers has no coefficients to find"):
        lc.Solution(family, protocol, params, {}).fit({"t": T, "x": T, "u": T})


# Words


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (3.7001234, 0.00023, "3.70012 ± 0.00023"),
        (3.7, 1.9e-11, "3.700000000000 ± 1.9e-11"),
        (42.0, 3.0, "42.0 ± 3.0"),
        (42.0, 30.0, "42 ± 30"),
        (2.5e-5, 1e-7, "2.500e-05 ± 1.0e-07"),
        (1.5, np.inf, "1.5 ± ∞"),
        (1.5, np.nan, "1.5 ± ?"),
    ],
)
def test_a_value_with_its_error(value, error, text):
    assert plus_minus(value, error) == text


# The command


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model of a page of one's own, its page, and observations."""
    path = tmp_path_factory.mktemp("infer")
    page = "import jax.numpy as jnp\nimport lcpinn as lc\n\n\n" + inspect.getsource(Offset)
    (path / "page.py").write_text(page)
    known(Offset).save(path / "model.safetensors")
    u = noisy(np.exp(-1.2 * T) + 0.25)
    rows = [f"{t},{v}" for t, v in zip(T, u, strict=True)]
    rows[3] = f"{T[3]},"  # not observed
    (path / "data.csv").write_text("\n".join(["t,u", *rows]) + "\n")
    return path


def infer(home, data, *options, code=0):
    family = ("--family", f"{home / 'page.py'}:Offset")
    words = ["infer", home / "model.safetensors", home / data, *family, *options]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.slow
def test_the_command_prints_a_table(home):
    shown = infer(home, "data.csv").stdout
    for words in ("value ± standard error", "[0.5, 2]", "[-1, 1]", "sigma", "14 observations"):
        assert words in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_the_command_prints_json(home):
    found = json.loads(infer(home, "data.csv", "--json", "--sigma", "0.001").stdout)
    assert found["values"]["k"] == pytest.approx(1.2, abs=0.05)
    assert found["sigma"] == {"u": pytest.approx(0.001)}
    assert found["sigma_given"] is True
    assert found["residuals"]["u"][3] is None
    assert np.shape(found["covariance"]) == (2, 2)
    assert found["warnings"] == []
    held = json.loads(infer(home, "data.csv", "--json", "--at", "m=0.25").stdout)
    assert set(held["values"]) == {"k"}
    assert held["held"] == {"m": 0.25}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--at", "m=0.25")])
def test_the_command_draws(home, tmp_path, options):
    picture = tmp_path / "new" / "fit.png"
    shown = infer(home, "data.csv", "-o", picture, *options).stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "picture" in shown


@pytest.mark.slow
def test_a_coordinate_may_be_given_for_all(home):
    (home / "one.csv").write_text("u\n0.55\n0.56\n")
    found = json.loads(infer(home, "one.csv", "--json", "--at", "t=0.5,m=0").stdout)
    assert found["values"]["k"] == pytest.approx(-np.log(0.555) / 0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (None, (), "cannot read"),
        ("", (), "lacks a column 't'"),
        ("t,u\n", (), "hold no value"),
        ("u\n1\n", (), "lacks a column 't'"),
        ("t\n1\n", (), "lacks a column with an output (u)"),
        ("t,u,w\n1,2,3\n", (), "there is no 'w'; there are t, k, m, u"),
        ("t,u\n0.5,one\n", (), "row 2: could not convert"),
        ("t,u\n,1\n", (), "row 2: could not convert"),
        ("t,u\n0.5\n", (), "row 2: 1 values for 2 columns"),
        ("t,u\n0.5,1\n", ("--at", "q=1"), "there is no 'q'"),
        ("t,u\n0.5,1\n", ("--at", "u=1"), "there is no 'u'"),
        ("t,u\n0.5,1\n", ("--sigma", "much"), "--sigma: 'much' is not a number"),
        ("t,u\n0.5,1\n", ("--sigma", "w=1"), "sigma of 'w'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(home, text, options, says):
    file = home / "bad.csv"
    file.unlink(missing_ok=True)
    if text is not None:
        file.write_text(text)
    done = infer(home, "bad.csv", *options, code=2)
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_pictures_of_other_shapes(spiral, tmp_path):
    """Two outputs; a known column, where there is no one curve; and two coordinates."""
    from lcpinn.plot.fit import write as draw

    t = np.linspace(0, 2, 20)
    data = {"t": t, **orbit(t, 2.2, 0.17)}
    data["u"][3] = np.nan
    assert draw(spiral, data, spiral.fit(data), tmp_path / "both.png").stat().st_size > 10_000
    column = {**data, "b": np.where(t < 1, 0.17, 0.2)}
    assert draw(spiral, column, spiral.fit(column), tmp_path / "column.svg").exists()
    with pytest.raises(lc.LcpinnError):
        draw(spiral, data, spiral.fit(data), tmp_path / "picture.docx")
