"""The estimated error, against errors that are known."""

import importlib.util
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Ring
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.certificate import Axis, Estimator, certificate, worst_case
from lcpinn.cli import app
from lcpinn.families import FAMILIES
from lcpinn.jet import expand
from lcpinn.network import MLP, FiLM
from lcpinn.rows import Problem


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


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
    "plane": (
        FAMILIES["helmholtz-2d"](),
        lambda p: jnp.prod(jnp.sin(jnp.pi * p) * p)[None],
        [3.0],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1e-3, 1e-9])
def test_a_known_error_is_found(name, size):
    family, bump, lam = CASES[name]
    estimate = spoilt(family, bump)(size, lam)
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


def test_several_outputs_of_a_nonlinear_system():
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

    found = of_function(Pair(), function)(1e-5, [])
    u, v = solved.sol(t)
    expected = max(
        np.linalg.norm(1e-5 * t**2) / np.linalg.norm(u),
        np.linalg.norm(2e-5 * t) / np.linalg.norm(v),
    )
    assert found.error == pytest.approx(expected, rel=0.15), found.reason


def test_what_is_not_resolved_is_not_estimated():
    family = Spring()
    estimate = spoilt(family, lambda p: jnp.sin(150 * p))(1e-3, [0.5])
    assert np.isnan(estimate.error)
    assert "resolve" in estimate.reason


@pytest.mark.parametrize("periodic", [False, True])
def test_functions_and_their_derivatives(periodic):
    axis = Axis(-0.5, 2.0, periodic, 7)
    x, size = np.linspace(-0.4, 1.9, 11), 1e-5
    for order in (0, 1, 2):
        ahead, behind = axis.values(x + size, order), axis.values(x - size, order)
        slope = (ahead - behind) / (2 * size)
        np.testing.assert_allclose(axis.values(x, order + 1), slope, rtol=1e-5, atol=1e-4)
    if periodic:
        np.testing.assert_allclose(axis.values(x, 1), axis.values(x + 2.5, 1), atol=1e-9)


def test_only_where_a_residual_proves_little():
    network = MLP((3,), "sine", FiLM(0, 2))
    asked = {
        name: worst_case(Problem(family, network, jnp.float64)) is not None
        for name, family in (
            ("spring", Spring()),
            ("plane", FAMILIES["helmholtz-1d"]()),
            ("ring", Ring()),
        )
    }
    assert asked == {"spring": True, "plane": False, "ring": False}
    assert Ring().is_initial_value()
    assert not FAMILIES["helmholtz-2d"]().is_initial_value()


def test_the_worst_setting_is_named():
    family = Spring()
    problem = Problem(family, MLP((4,), "sine", FiLM(0, 2)), jnp.float64)
    judge = worst_case(problem)
    found = judge(problem.init(jax.random.PRNGKey(0)))
    assert set(found.at) == {"d"}
    assert found.at["d"] in family.parameters.grid(5)


# -- The certificate of a trained network --------------------------------------------------------


def certify(decay, *options):
    model, family = str(decay / "run"), f"{decay / 'decay.py'}:Decay"
    return CliRunner().invoke(app, ["certify", model, "--family", family, *options])


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


def test_a_tolerance_is_kept_or_not(decay, tmp_path):
    picture = tmp_path / "new" / "certificate.png"
    kept = certify(decay, "--tolerance", "10", "--settings", "3", "-o", str(picture))
    assert kept.exit_code == 0, kept.output
    assert "passed" in kept.stdout
    assert picture.stat().st_size > 10_000
    broken = certify(decay, "--tolerance", "1e-12", "--settings", "3")
    assert broken.exit_code == 1
    assert "failed" in broken.stdout


def test_an_estimate_at_one_setting(decay):
    spec = importlib.util.spec_from_file_location("decay_page", decay / "decay.py")
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


def test_what_is_narrower_than_the_grid_gets_no_number():
    """As with Burgers' front: it says so instead."""
    narrow = lambda p: jnp.exp(-jnp.sum((p - 0.513) ** 2, keepdims=True) / 0.01**2)
    estimate = spoilt(FAMILIES["helmholtz-2d"](), narrow)(1e-3, [3.0])
    assert np.isnan(estimate.error)
    assert "resolve" in estimate.reason


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
