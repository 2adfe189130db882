"""Priors: values against closed forms, for coefficients and for loss weights."""

import itertools
import json
import pickle
import warnings
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpinn.errors import LcpinnError
from lcpinn.prior import Cube, LogCube, LogUniform, Product, Simplex, Uniform, prior_from_json
from lcpinn.quadrature import unit_gauss

MIXED = Uniform(a=(-2, 3)) & LogUniform(nu=(1e-3, 10))
COEFFICIENTS = [Uniform(k=(1, 10)), LogUniform(k=(1e-4, 1), d=(0.1, 2)), MIXED]
WEIGHTS = [Simplex("pde", "start", "wall"), Cube("pde", "wall"), LogCube("pde", "wall", low=1e-2)]
EVERY = COEFFICIENTS + WEIGHTS
NUM = 200_000


def moments(prior):
    """Exact mean and variance of each entry."""
    if isinstance(prior, Simplex):
        m = prior.dim
        return np.full(m, 1 / m), np.full(m, (m - 1) / (m**2 * (m + 1)))
    logs = {axis.name: axis.log for axis in getattr(prior, "axes", ())}
    mean, square = [], []
    for name, (low, high) in prior.ranges.items():
        if logs.get(name, isinstance(prior, LogCube)):
            width = np.log(high / low)
            mean.append((high - low) / width)
            square.append((high**2 - low**2) / (2 * width))
        else:
            mean.append((high + low) / 2)
            square.append((high**2 + high * low + low**2) / 3)
    return np.array(mean), np.array(square) - np.array(mean) ** 2


def test_values_are_frozen_hashable_and_readable():
    prior = Uniform(k=(1, 10))
    assert prior == Uniform(k=(1.0, 10.0)) != LogUniform(k=(1, 10))
    assert hash(prior) == hash(Uniform(k=(1.0, 10.0)))
    assert repr(prior) == "Uniform(k=(1.0, 10.0))"
    assert repr(MIXED) == "Uniform(a=(-2.0, 3.0)) & LogUniform(nu=(0.001, 10.0))"
    assert repr(Simplex("pde", "wall")) == "Simplex('pde', 'wall')"
    assert repr(LogCube()) == "LogCube(low=0.001)"
    with pytest.raises(AttributeError):
        prior.axes = ()  # pyright: ignore[reportAttributeAccessIssue]


def test_product_keeps_order_and_is_of_the_simplest_kind():
    assert isinstance(MIXED, Product)
    assert MIXED.names == ("a", "nu")
    assert MIXED.ranges == {"a": (-2.0, 3.0), "nu": (1e-3, 10.0)}
    assert Uniform(a=(0, 1)) & Uniform(b=(0, 2)) == Uniform(a=(0, 1), b=(0, 2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Uniform(), "Uniform() names no coefficient; write Uniform(k=(low, high))"),
        (lambda: Uniform(k=(10, 1)), "k: range (10.0, 1.0) is reversed; write (low, high)"),
        (lambda: Uniform(k=(1, 1)), "k: range (1.0, 1.0) is empty; low must be below high"),
        (lambda: Uniform(k=(0, float("inf"))), "k: range (0.0, inf) is not finite"),
        (lambda: Uniform(k=cast(Any, 3.0)), "k: 3.0 is not a range; write (low, high)"),
        (lambda: Uniform(k=cast(Any, (1, 2, 3))), "k: (1, 2, 3) is not a range; write (low, high)"),
        (lambda: LogUniform(nu=(0, 1)), "'nu': a log-uniform range must be positive, not 0.0"),
        (lambda: Uniform(k=(0, 1)) & LogUniform(k=(1, 2)), "k is named twice"),
        (
            lambda: Uniform(k=(0, 1)) * LogUniform(c=(1, 2)),
            "coefficients of two kinds are joined by &, as in "
            "Uniform(k=(0.0, 1.0)) & LogUniform(c=(1.0, 2.0))",
        ),
        (lambda: Uniform(k=(0, 1)) + 2, "coefficients are joined with others by &, and 2 are none"),
        (lambda: Simplex("pde", "pde"), "pde is named twice"),
        (lambda: LogCube(low=0), "LogCube: low must lie between 0 and 1, not 0"),
        (lambda: Cube().sobol(4), "Cube() names no terms yet; bind them with .named(names)"),
        (lambda: MIXED.grid(0), "the number of points must be at least 1, not 0"),
        (lambda: prior_from_json({"kind": "Normal"}), "there is no prior of kind 'Normal'"),
        (lambda: prior_from_json({"kind": "Cube"}), "this is not a prior: its JSON is incomplete"),
    ],
)
def test_errors_are_one_clear_line(build, message):
    with pytest.raises(LcpinnError) as caught:
        build()
    assert str(caught.value) == message


@pytest.mark.parametrize("prior", [*EVERY, Simplex()], ids=repr)
def test_json_and_pickle_round_trip(prior):
    text = json.dumps(prior.to_json(), sort_keys=True)
    assert prior_from_json(json.loads(text)) == prior
    assert pickle.loads(pickle.dumps(prior)) == prior


@pytest.mark.slow
@pytest.mark.parametrize("prior", COEFFICIENTS, ids=repr)
def test_unit_maps_are_inverse(prior):
    unit = jax.random.uniform(jax.random.key(0), (50, prior.dim))
    np.testing.assert_allclose(prior.to_unit(prior.from_unit(unit)), unit, atol=2e-6)
    np.testing.assert_allclose(prior.normalise(prior.grid(3)[[0, -1]]).T[0], [-1, 1], atol=1e-6)


def test_measure_is_the_logarithm():
    np.testing.assert_allclose(LogUniform(k=(1e-4, 1)).to_unit(jnp.array([1e-3])), 0.25, rtol=1e-6)
    np.testing.assert_allclose(MIXED.to_unit(jnp.array([-1, 0.1])), [0.2, 0.5], rtol=1e-6)


def test_gradients_are_finite_in_a_mixed_prior():
    # a = -2 is where an unguarded logarithm of the linear axis would give NaN.
    slope = jax.grad(lambda v: MIXED.to_unit(v).sum())(jnp.array([-2.0, 0.1]))
    np.testing.assert_allclose(slope, [0.2, 10 / np.log(1e4)], rtol=1e-5)
    slope = jax.grad(lambda s: MIXED.from_unit(s).sum())(jnp.array([0.0, 0.5]))
    np.testing.assert_allclose(slope, [5, 0.1 * np.log(1e4)], rtol=1e-5)


@pytest.mark.parametrize("prior", EVERY, ids=repr)
def test_draws_have_the_moments_of_the_prior(prior):
    mean, variance = moments(prior)
    draws = np.asarray(prior.sample(jax.random.key(1), NUM), np.float64)
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * np.sqrt(variance / NUM))
    fourth = ((draws - mean) ** 4).mean(0)
    assert np.all(np.abs(draws.var(0) - variance) < 5 * np.sqrt((fourth - variance**2) / NUM))
    assert np.all(prior.contains(draws))


@pytest.mark.parametrize("prior", EVERY, ids=repr)
def test_sobol_integrates_better_than_random(prior):
    mean, variance = moments(prior)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = prior.sobol(1000)
    assert points.dtype == np.float64
    assert points.shape == (1000, prior.dim)
    assert np.all(np.abs(points.mean(0) - mean) < 0.15 * np.sqrt(variance / 1000))
    assert np.all(prior.contains(points))
    assert np.array_equal(points, prior.sobol(1000))
    assert not np.array_equal(points, prior.sobol(1000, seed=1))


@pytest.mark.parametrize("prior", EVERY, ids=repr)
def test_quadrature_has_the_moments_of_the_prior(prior):
    mean, variance = moments(prior)
    values, weights = prior.quadrature(16)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-13)
    np.testing.assert_allclose(weights @ values, mean, rtol=1e-11)
    np.testing.assert_allclose(weights @ (values - mean) ** 2, variance, rtol=1e-11)
    assert np.all(prior.contains(values))


def test_uniform_quadrature_is_exact_to_degree_2n_minus_1():
    values, weights = Uniform(a=(0, 2), b=(0, 1)).quadrature(3)
    assert values.shape == (9, 2)
    np.testing.assert_allclose(
        weights @ (values[:, 0] ** 5 * values[:, 1] ** 5), 2**5 / 36, rtol=1e-13
    )


@pytest.mark.parametrize("num_terms", [1, 2, 3, 5])
def test_simplex_quadrature_is_exact_on_polynomials(num_terms):
    m = num_terms
    w, weights = Simplex(*"abcde"[:m]).quadrature(2)
    np.testing.assert_allclose(w.sum(1), 1, rtol=1e-13)
    np.testing.assert_allclose(weights @ w, 1 / m, rtol=1e-12)
    np.testing.assert_allclose(weights @ w**2, 2 / (m * (m + 1)), rtol=1e-12)
    np.testing.assert_allclose(weights @ w**3, 6 / (m * (m + 1) * (m + 2)), rtol=1e-12)
    for i, j in itertools.combinations(range(m), 2):
        np.testing.assert_allclose(weights @ (w[:, i] * w[:, j]), 1 / (m * (m + 1)), rtol=1e-12)


@pytest.mark.slow
def test_long_gauss_rules_agree_with_short_ones():
    """From a thousand nodes on another algorithm takes over: the usual one takes a minute."""
    for num in (999, 1000, 8192):
        nodes, weights = unit_gauss(num)
        assert np.all(np.diff(nodes) > 0)
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
        np.testing.assert_allclose(weights @ nodes**30, 1 / 31, rtol=1e-10)


def test_grids_include_the_exact_ends():
    log = LogUniform(nu=(1e-3, 10))
    np.testing.assert_allclose(log.grid(5)[:, 0], [1e-3, 1e-2, 1e-1, 1, 10], rtol=1e-13)
    for points in (MIXED.grid(4), MIXED.clustered(4)):
        assert points.shape == (16, 2)
        assert points.dtype == np.float64
        assert points.min(0).tolist() == [-2.0, 1e-3]
        assert points.max(0).tolist() == [3.0, 10.0]
    nodes = Uniform(k=(-1, 1)).clustered(5)[:, 0]
    np.testing.assert_allclose(nodes, np.cos(np.pi * np.arange(4, -1, -1) / 4), atol=1e-15)
    assert Uniform(k=(1, 3)).grid(1).tolist() == [[2.0]]


def test_contains_forgives_rounding_only():
    prior = Uniform(a=(0.1, 0.3)) & LogUniform(nu=(1e-3, 1))
    inside = np.array([[0.1, 1e-3], [0.3, 1], [0.2, 0.5]], np.float32)
    outside = np.array([[0.0999, 1e-3], [0.2, 1.001], [0.2, 0.99e-3], [0.2, -1], [np.nan, 0.5]])
    assert prior.contains(inside).tolist() == [True] * 3
    assert prior.contains(outside).tolist() == [False] * 5
    assert bool(prior.contains(np.array([0.2, 0.5])))
    weights = np.array([[0.5, 0.5], [0.5, 0.51], [1.1, -0.1], [0, 1]])
    assert Simplex("a", "b").contains(weights).tolist() == [True, False, False, True]
    assert Cube("a", "b").contains(weights).tolist() == [True, True, False, True]
    assert LogCube("a", "b").contains(weights).tolist() == [True, True, False, False]


def test_weight_priors_are_named_later():
    assert Simplex().named(["a", "b"]) == Simplex("a", "b")
    assert LogCube(low=0.1).named(["a"]) == LogCube("a", low=0.1)
    assert Cube("a", "b").ranges == {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    assert LogCube("a", low=0.1).ranges == {"a": (0.1, 1.0)}
    assert Simplex("a").sample(jax.random.key(0), 2).tolist() == [[1.0], [1.0]]
    for prior in WEIGHTS:
        w = prior.sobol(8)
        np.testing.assert_allclose(prior.normalise(w), 2 * w - 1, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("prior", EVERY, ids=repr)
def test_works_under_jit_and_vmap_and_keeps_the_dtype(prior):
    keys = jax.random.split(jax.random.key(2), 3)
    draw = lambda key: prior.normalise(prior.sample(key, 4))
    together = jax.jit(jax.vmap(draw))(keys)
    np.testing.assert_allclose(together, jnp.stack([draw(key) for key in keys]), atol=1e-5)
    assert prior.sample(keys[0], 4, dtype=jnp.float16).dtype == jnp.float16
    with jax.enable_x64(True):
        values = prior.sample(keys[0], 4, dtype=jnp.float32)
        assert values.dtype == prior.normalise(values).dtype == jnp.float32
        assert prior.sample(keys[0], 4).dtype == jnp.float64
