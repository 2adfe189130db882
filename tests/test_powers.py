"""Powers of coefficients in which solutions are simplest."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lcpinn as lc
from benchmarks.zoo.coefficients import LayeredWall
from lcpinn.interpolated import Between
from lcpinn.jet import Series
from lcpinn.network import MLP, FiLM
from lcpinn.network.interpolant import SCALAR
from lcpinn.powers import as_polynomials, simplest_powers
from lcpinn.precision import double
from lcpinn.protocol.choice import _variables
from lcpinn.reduced_basis import known_between


def solutions(prior, values) -> Between:
    """Solutions that are known in closed form: of settings (n, p) and points (m, 1)."""

    def at_all(points, settings):
        each = [np.broadcast_to(values(points, one), (len(points), 1)) for one in settings]
        return np.stack(each, axis=1)

    family = SimpleNamespace(parameters=prior, domain=lc.Box(x=(0.0, 1.0)))
    return SimpleNamespace(family=family, at_all=at_all)  # pyright: ignore[reportReturnType]


def test_resistances_are_what_conductivities_count_by():
    prior = lc.Uniform(a=(1.0, 4.0), b=(1.0, 5.0), f=(0.5, 2.0))
    flux = lambda points, one: one[2] / (1 / one[0] + 2 / one[1]) * (1 + points)
    assert simplest_powers(solutions(prior, flux)) == {"a": -1.0, "b": -1.0}


def test_loads_stay_what_they_are():
    prior = lc.Uniform(a=(1.0, 4.0), b=(1.0, 5.0))
    assert simplest_powers(solutions(prior, lambda x, one: one[0] * x + one[1])) == {}


def test_a_coefficient_with_zero_in_its_range_has_no_powers():
    prior = lc.Uniform(a=(0.0, 4.0), b=(1.0, 5.0))
    flux = lambda x, one: one[0] / one[1] ** 2 + 0 * x
    assert set(simplest_powers(solutions(prior, flux))) <= {"b"}


def test_the_own_variable_of_a_logarithmic_range_is_the_logarithm():
    prior = lc.LogUniform(a=(0.1, 10.0), b=(0.1, 10.0))
    logarithms = lambda x, one: np.log(one[0]) + x * np.log(one[1])
    assert simplest_powers(solutions(prior, logarithms)) == {}
    sums = lambda x, one: one[0] + x * one[1]
    assert simplest_powers(solutions(prior, sums)) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("kind", [lc.Uniform, lc.LogUniform])
def test_polynomials_are_the_powers(kind):
    prior = kind(a=(1.0, 4.0), b=(1.0, 2.0))
    first, second = as_polynomials(prior, {"a": -1.0})
    values = np.linspace(1, 4, 9)
    seen = np.asarray(prior.normalise(np.stack([values, values * 0 + 1.5], axis=1)))[:, 0]
    expected = 2 * (1 / values - 1) / (1 / 4 - 1) - 1
    assert np.polynomial.chebyshev.chebval(seen, first) == pytest.approx(expected, abs=1e-6)
    assert second == (0.0, 1.0)


def test_a_network_sees_the_variable_in_the_place_of_the_coefficient():
    how = FiLM(hidden=0, degree=2)
    plain = MLP(widths=(5,), parameters=how, readout=1)
    other = MLP(widths=(5,), parameters=how, readout=1, variables=((0.5, 0.0, 0.5), (0.0, 1.0)))
    with double():
        params = plain.init(jax.random.PRNGKey(0), 1, 1, {"parameters": 2}, jnp.float64)
        params = jax.tree.map(lambda w: w + 0.1, params)
        features = Series(SCALAR, jnp.linspace(-1, 1, 7)[None, :, None])
        lam = jnp.array([0.6, -0.3])
        moved = jnp.array([0.5 + 0.5 * (2 * 0.36 - 1), -0.3])
        seen = other.apply(params, features, {"parameters": lam}).value
        expected = plain.apply(params, features, {"parameters": moved}).value
        unmoved = plain.apply(params, features, {"parameters": lam}).value
    assert seen == pytest.approx(np.asarray(expected))
    assert np.abs(seen - unmoved).max() > 1e-3
    assert other.array_layout({"parameters": 2}) is None


@pytest.mark.slow
def test_a_wall_of_layers_is_seen_by_its_resistances():
    wall = LayeredWall()
    with double():
        known = known_between(wall, tolerance=1e-6, seconds=60.0)
    variables = _variables(known)
    assert len(variables) == 8
    ends = np.polynomial.chebyshev.chebval([-1.0, 0.0, 1.0], variables[3])
    assert ends == pytest.approx([-1.0, 2 * (1 / 2.5 - 1) / (1 / 4 - 1) - 1, 1.0])
