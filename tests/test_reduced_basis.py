"""Solutions between settings as combinations of a few of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Bratu, Decay, of_kind, quick

import lcpinn as lc
from benchmarks.zoo.coefficients import LayeredWall
from benchmarks.zoo.waves import Overtone
from lcpinn.interpolated import Interpolated
from lcpinn.loads import loads
from lcpinn.network import FiLM
from lcpinn.precision import double
from lcpinn.protocol.choice import _resized, chosen
from lcpinn.protocol.gauss_newton import _network, _readout
from lcpinn.protocol.sizes import size_of
from lcpinn.reduced_basis import ReducedBasis, _least_squares, known_between, reduced_basis
from lcpinn.sampling import Sampling, fixed, scatter


class Bar(lc.Family):
    """-a u'' = b sin(πx) + c sin(2πx), u(0) = 0, u(1) = d: three functions, four coefficients."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.5, 2.0), b=(1.0, 2.0), c=(-1.0, 1.0), d=(0.0, 1.0))

    @lc.interior
    def equation(self, u_xx, x, a, b, c):
        return -a * u_xx - b * jnp.sin(jnp.pi * x) - c * jnp.sin(2 * jnp.pi * x)

    @lc.on(x=0.0)
    def held(self, u):
        return u

    @lc.on(x=1.0)
    def moved(self, u, d):
        return u - d

    def exact(self, x, a, b, c, d):
        mode = lambda n: jnp.sin(n * jnp.pi * x) / (n * jnp.pi) ** 2
        return (b * mode(1) + c * mode(2)) / a + d * x


@pytest.fixture(scope="module")
def known() -> ReducedBasis:
    return reduced_basis(Bar(), tolerance=1e-7, seconds=60.0)


def test_as_many_functions_as_there_are(known):
    assert known.enough
    assert known.missing < 1e-8
    assert len(known.functions) == 3
    assert len(known.settings) < 12


def test_least_squares_of_nearly_dependent_columns():
    with double():
        points = np.linspace(-1, 1, 80)
        matrix = points[:, None] ** np.arange(16)  # condition 1e6: normal equations leave 1e-4
        amplitudes = np.cos(np.arange(16.0))
        side = matrix @ amplitudes + 1e-3 * np.polynomial.legendre.legval(points, np.eye(40)[39])
        found, rest = jax.jit(_least_squares)(matrix, side)
        found, rest = np.asarray(found), float(rest)
    expected = np.linalg.lstsq(matrix, side, rcond=None)[0]
    assert np.abs(found - expected).max() < 1e-8
    left = np.linalg.norm(side - matrix @ expected) / np.linalg.norm(side)
    assert abs(rest - left) < 1e-10 * left


def test_least_squares_of_many_settings_are_no_calls_that_wait_for_threads(known):
    """On two cores two calls of LAPACK at once wait for each other for ever."""
    with double():
        settings = jnp.asarray(known.family.parameters.sobol(2000))
        program = jax.jit(known._solved).lower(settings).compile().as_text()
    assert program is not None
    assert "lapack" not in program


@pytest.mark.slow
def test_combinations_are_the_solutions_of_the_page(known):
    family = Bar()
    with double():
        x, lam = family.domain.sobol(20, seed=3), family.parameters.sobol(20, 4)
        values = np.asarray(quick(lambda *at: known(*at))(x, lam))[:, 0]
        truth = np.asarray(quick(family.exact)(x[:, 0], *np.asarray(lam).T))
        every = known.at_all(x, lam)
    assert values == pytest.approx(truth, abs=1e-9)
    assert np.diagonal(every[..., 0]) == pytest.approx(truth, abs=1e-9)


@pytest.mark.slow
def test_sizes_are_root_mean_squares_and_targets_have_both(known):
    family = Bar()
    with double():
        lam = family.parameters.sobol(3, 5)
        x = np.linspace(0, 1, 2001)[:, None]
        size = np.sqrt(np.mean(known.at_all(x, lam)[..., 0] ** 2, axis=0))
        targets = np.asarray(known.targets()(x[:3], lam))
        sizes = np.asarray(quick(lambda at: known.sizes(at))(lam))[:, 0]
        assert sizes == pytest.approx(size, rel=0.02)
        values = np.asarray(quick(lambda *at: known(*at))(x[:3], lam))
    assert targets[:, :1] == pytest.approx(values)
    assert 1 / targets[:, 1] == pytest.approx(size, rel=0.02)


@pytest.mark.slow
def test_some_rows_lie_at_corners_of_many_coefficients(known):
    family = known.taught(Bar())
    assert family.setting_corners
    ends = np.array(list(family.parameters.ranges.values())).T

    def share(parameters) -> float:
        at_end = np.isclose(parameters, ends[0]) | np.isclose(parameters, ends[1])
        return float(np.mean(at_end.all(axis=1)))

    with double():
        rows = fixed(family, Sampling(280, 4, 1, "collocation"), np.float64)["interior"]
        draw = quick(lambda key: scatter(family, 280, key, np.float64))
        drawn = draw(jax.random.PRNGKey(0))
        told = quick(lambda at: known(at.coordinates[:, 0], at.parameters))(rows)
    assert share(rows.parameters) == pytest.approx(1 / 7, abs=0.01)
    assert share(drawn.parameters) == pytest.approx(1 / 7, abs=0.01)
    assert np.asarray(rows.observed)[:, 0, :1] == pytest.approx(np.asarray(told))


def test_of_several_coefficients_a_linear_equation_has_combinations():
    assert isinstance(known_between(Bar(), tolerance=1e-6, seconds=30.0), ReducedBasis)
    assert isinstance(known_between(Decay(), tolerance=1e-6, seconds=30.0), Interpolated)


def test_many_coefficients_of_a_linear_equation_are_learnt_from_solutions():
    family = Bar()
    choice = chosen(family, size_of(family), 1e-6, 60.0)
    assert choice.between
    assert choice.activation == "sine"
    assert set(choice.size.widths) == {18}  # three functions
    assert choice.modulating == ("a",)
    network = _network(family, choice, exponential=True)
    assert of_kind(FiLM, network.parameters).sees == (0,)
    assert network.readout == 1


def test_moving_frequencies_take_steps_more_than_units():
    family = Overtone()
    table = size_of(family, smooth=True)
    few, many = (max(_resized(family, table, None, moving=m).widths) for m in (True, False))
    assert few < max(table.widths) < many


def test_the_last_layer_is_of_degree_two_where_that_is_little():
    choice = replace(chosen(Bar(), size_of(Bar()), None, None), between=True)
    assert _readout(4, choice) == 2
    assert _readout(9, choice) == _readout(4, replace(choice, between=False)) == 1
    assert _readout(3, choice) == 0


def test_loads_are_what_solutions_are_affine_in():
    assert loads(Bar()) == ("b", "c", "d")
    assert loads(Decay()) == loads(Bratu()) == ()
    assert loads(LayeredWall()) == ()  # each of them a coefficient of an eighth of the domain


def test_coefficients_that_are_not_seen_do_not_modulate():
    how = FiLM(hidden=0, degree=2, sees=(1,))
    params = how.init(jax.random.PRNGKey(0), 3, (4,), jnp.float32)
    assert params["w"].shape == (2, 8)
    params = {"w": jnp.ones((2, 8))}
    scale = lambda *lam: np.asarray(how.modulate(params, jnp.array([lam]), (4,))[0][0])
    assert np.all(scale(0.5, 0.2, -1.0) == scale(-0.5, 0.2, 1.0))
    assert np.any(scale(0.5, 0.2, -1.0) != scale(0.5, 0.3, -1.0))
    assert how.tables(3)["orders"].tolist() == [[0, 1, 0], [0, 2, 0]]
    assert FiLM(hidden=4, sees=(1,)).entry is None  # its matrices do not say which


def test_an_equation_that_is_not_linear_has_none():
    with pytest.raises(lc.LcpinnError, match="no linear equation"):
        reduced_basis(Bratu(), tolerance=1e-6, seconds=1.0)


def test_too_little_time_is_an_error_in_words():
    with pytest.raises(lc.LcpinnError, match="too few to combine"):
        reduced_basis(Bar(), tolerance=1e-6, seconds=-1.0)
