"""Networks: where they start, how lambda enters, exact periodicity and dtypes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev as reference
from toy import (
    EVERY,
    SMALL,
    Both,
    Coupled,
    Observed,
    Oscillator,
    Ring,
    double,
    equations,
    perturbed,
    plain,
    quick,
)

import lcpinn as lc
from lcpinn.families import Helmholtz
from lcpinn.jet import Orders
from lcpinn.network import MLP, Concat, DeepONet, FiLM
from lcpinn.network.film import chebyshev, chebyshev_indices
from lcpinn.network.mlp import dense
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, draw, fixed

MECHANISMS = [FiLM(hidden=3), FiLM(degree=2), Concat()]


pytestmark = pytest.mark.usefixtures("x64")


def outputs(problem):
    """u(params, points) without derivatives, (l, n, outputs)."""
    zero = Orders(((0,) * problem.family.domain.dim,))
    return quick(lambda params, points: problem.outputs(params, points, zero)[0])


def interior(family, num=5, num_lambda=3):
    """Sobol points, the same for every lambda, so that a difference is lambda's doing."""
    points = fixed(family, Sampling(num, 2, num_lambda, "gauss"), jnp.float64)["interior"]
    parameters = jnp.asarray(family.parameters.sobol(num_lambda, 1))
    return points._replace(parameters=parameters)


# -- The start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("film", [FiLM(hidden=3), FiLM(degree=3)])
def test_modulation_starts_as_the_identity(film):
    widths = (5, 2, 4)
    params = film.init(jax.random.key(0), 2, widths, jnp.float64)
    lam = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (7, 2)))
    modulation = film.modulate(params, lam, widths)
    assert [(g.shape, b.shape) for g, b in modulation] == [((7, w), (7, w)) for w in widths]
    for gamma, beta in modulation:
        np.testing.assert_array_equal(gamma, 1)
        np.testing.assert_array_equal(beta, 0)


@pytest.mark.slow
@pytest.mark.parametrize("film", [FiLM(hidden=3), FiLM(degree=3)])
def test_at_the_start_film_ignores_lambda_and_concat_does_not(film):
    family = Coupled()
    points = interior(family)
    same, other = (
        outputs(problem)(problem.drawing(once=True)(jax.random.key(1)), points)
        for how in (film, Concat())
        for problem in [Problem(family, MLP((5, 4), parameters=how), jnp.float64)]
    )
    np.testing.assert_array_equal(same, np.broadcast_to(same[:1], same.shape))
    assert np.abs(same).max() > 1e-2
    assert np.abs(other[0] - other[1]).min() > 1e-6


@pytest.mark.parametrize(("fan_in", "fan_out"), [(1, 64), (64, 64), (30, 2)])
def test_xavier_bounds(fan_in, fan_out):
    layer = dense(jax.random.key(0), fan_in, fan_out, jnp.float64)
    bound = np.sqrt(6 / (fan_in + fan_out))
    assert layer["w"].shape == (fan_in, fan_out)
    size = np.abs(np.asarray(layer["w"]).ravel()) / bound
    num = len(size)
    assert size.max() <= 1
    assert size.max() > 1 - 10 / num
    assert abs(size.mean() - 0.5) < 5 / np.sqrt(12 * num)
    np.testing.assert_array_equal(layer["b"], 0)


def test_layers_and_generators_are_of_the_right_size_and_differ():
    problem = Problem(Both(), MLP((6, 6, 6), parameters=FiLM(hidden=8)), jnp.float64)
    params = problem.drawing(once=True)(jax.random.key(0))
    # One coordinate and four weights come in; 2 * 18 scales and shifts are generated.
    assert [layer["w"].shape for layer in params["layers"]] == [(5, 6), (6, 6), (6, 6), (6, 1)]
    film = params["conditioning"]["parameters"]
    assert {k: v.shape for k, v in film.items()} == {
        "w0": (1, 8), "b0": (8,), "w1": (8, 36), "b1": (36,)
    }  # fmt: skip
    assert np.abs(film["w0"]).max() <= np.sqrt(6 / 9)
    assert np.abs(film["w0"]).min() > 0
    assert np.all(params["layers"][1]["w"] != params["layers"][2]["w"])
    assert params["conditioning"]["weights"] == {}
    another = problem.drawing(once=True)(jax.random.key(1))
    assert np.all(another["layers"][1]["w"] != params["layers"][1]["w"])


@pytest.mark.parametrize("network", [MLP, DeepONet])
def test_an_unknown_activation_is_refused_when_it_is_named(network):
    message = f"{network.__name__} has no activation 'sin'; there are "
    with pytest.raises(lc.LcpinnError, match=message) as caught:
        network(activation="sin")
    assert {"tanh", "sine"} <= set(str(caught.value).split("there are ")[1].split(", "))


def test_gain_scales_only_the_joined_inputs():
    """At 0 the network starts independent of them."""
    make = lambda gain: Problem(Both(), MLP((5, 4), weights=Concat(gain=gain)), jnp.float64)
    one, half, none = (
        np.asarray(make(gain).init(jax.random.key(0))["layers"][0]["w"]) for gain in (1.0, 0.5, 0.0)
    )
    assert one.shape == (5, 5)  # t, then four weights
    np.testing.assert_array_equal(half[:1], one[:1])
    np.testing.assert_allclose(half[1:], one[1:] / 2, rtol=1e-15)
    np.testing.assert_array_equal(none[1:], 0)
    np.testing.assert_array_equal(none[:1], one[:1])


def test_a_frequency_scale_gives_the_first_layer_slopes_and_centres():
    network = MLP((50, 4), weights=Concat(gain=0.5), frequency_scale=8.0)
    problem = Problem(Both(), network, jnp.float64)
    plainly = Problem(Both(), MLP((50, 4)), jnp.float64)
    first, second, _ = problem.init(jax.random.key(0))["layers"]
    xavier, other, _ = plainly.init(jax.random.key(0))["layers"]
    np.testing.assert_allclose(np.abs(first["w"][0]).max(), 8, rtol=1e-14)
    np.testing.assert_allclose(first["w"][1:], xavier["w"][1:] / 2, rtol=1e-14)
    # The phases fill (-π, π) without large gaps; Xavier's are all zero.
    phases = np.sort(first["b"])
    assert -np.pi <= phases[0] < phases[-1] <= np.pi
    assert np.diff(phases).max() < 2.7 * 2 * np.pi / 50
    np.testing.assert_array_equal(xavier["b"], 0)
    np.testing.assert_array_equal(second["w"], other["w"])


# -- Chebyshev features --------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_chebyshev_features_of_one_coefficient(degree):
    values = np.linspace(-1, 1, 11)
    got = chebyshev(jnp.asarray(values)[:, None], degree)
    expected = [reference.chebval(values, np.eye(degree + 1)[n]) for n in range(1, degree + 1)]
    np.testing.assert_allclose(got, np.stack(expected, axis=-1), atol=1e-14)


def test_chebyshev_features_of_two_coefficients():
    values = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    indices = [(0, 1), (1, 0), (0, 2), (1, 1), (2, 0), (0, 3), (1, 2), (2, 1), (3, 0)]
    assert chebyshev_indices(2, 3) == indices
    expected = []
    for i, j in indices:
        coefficients = np.zeros((4, 4))
        coefficients[i, j] = 1
        expected.append(reference.chebval2d(values[:, 0], values[:, 1], coefficients))
    got = chebyshev(jnp.asarray(values), 3)
    np.testing.assert_allclose(got, np.stack(expected, axis=-1), atol=1e-14)


def test_chebyshev_generator_is_linear_in_its_features():
    film, widths = FiLM(degree=3), (2, 1)
    table = np.random.default_rng(1).normal(size=(3, 6))
    modulation = film.modulate({"w": jnp.asarray(table)}, jnp.array([[0.3]]), widths)
    features = np.array([0.3, 2 * 0.09 - 1, 4 * 0.027 - 0.9])  # T1, T2, T3
    flat = features @ table
    expected = [(1 + flat[0:2], flat[2:4]), (1 + flat[4:5], flat[5:6])]
    for (gamma, beta), (scale, shift) in zip(modulation, expected, strict=True):
        np.testing.assert_allclose(gamma[0], scale, rtol=1e-14)
        np.testing.assert_allclose(beta[0], shift, rtol=1e-14)


# -- Roles and mechanisms ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("first", MECHANISMS)
@pytest.mark.parametrize("second", [FiLM(hidden=2), Concat()])
def test_every_mix_of_roles_and_mechanisms(first, second):
    """The formula, and that each component of lambda moves the output."""
    family = Both()
    problem, params = double(family, MLP((4, 3), parameters=first, weights=second))
    points = interior(family)

    def one(k, w):
        """The outputs where lambda is (k, w), and their sum for each lambda."""
        moved = points._replace(parameters=k, weights=w)
        u = problem.outputs(params, moved, Orders(((0,),)))[0]
        return u.sum((1, 2)), u

    @quick
    def everything(k, w):
        u = jax.vmap(lambda p, k, w: plain(problem, params, p, k, w), (0, None, None))
        return jax.jacrev(one, (0, 1), has_aux=True)(k, w), jax.vmap(u)(points.coordinates, k, w)

    ((by_k, by_w), got), expected = everything(points.parameters, points.weights)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
    diagonal = np.arange(len(by_k))
    assert np.abs(by_k[diagonal, diagonal]).min() > 1e-6
    assert np.abs(by_w[diagonal, diagonal]).min() > 1e-6
    # A draw of lambda acts on its own points only.
    off = ~np.eye(len(by_k), dtype=bool)
    np.testing.assert_array_equal(by_k[off], 0)
    np.testing.assert_array_equal(by_w[off], 0)


def test_lambda_is_seen_normalised():
    """Both ends of every range are -1 and 1, a logarithmic one by its logarithm."""
    problem = Problem(Coupled(), SMALL, jnp.float64)
    values = jnp.array([[1.0, 0.1], [3.0, 1.0], [2.0, 0.1**0.5]])
    lam = problem.conditions(values, jnp.zeros((3, 0)))
    assert set(lam) == {"parameters"}
    np.testing.assert_allclose(lam["parameters"], [[-1, -1], [1, 1], [0, 0]], atol=1e-14)
    lam = Problem(Both(), SMALL, jnp.float64).conditions(jnp.ones((1, 1)), jnp.eye(4)[:1])
    assert list(lam) == ["parameters", "weights"]
    np.testing.assert_allclose(lam["weights"], [[1, -1, -1, -1]])


# -- Coordinates ---------------------------------------------------------------------------------


def test_a_periodic_network_is_exactly_periodic():
    """With every derivative, at both ends and one period further."""
    family = Ring()
    problem, params = double(family)
    orders = Orders.closure([(1, 2)], 2)
    points = interior(family, num=4, num_lambda=2)
    shifted = lambda x: points._replace(coordinates=points.coordinates.at[..., 1].set(x))
    series = quick(lambda p: problem.outputs(params, p, orders))
    low, high, beyond = (series(shifted(x)) for x in (-1.0, 1.0, 3.0))
    np.testing.assert_allclose(low, high, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(low, beyond, rtol=1e-12, atol=1e-12)
    between = series(shifted(0.3))
    assert np.abs(between - low).max(axis=(1, 2, 3)).min() > 1e-3


def test_the_travelling_frame_is_what_the_network_sees():
    """With x - c t as the only feature, u is constant along x = x0 + c t."""
    attributes = dict(
        domain=lc.Box(t=(0.0, 1.0), x=(0.0, 2.0)),
        parameters=lc.Uniform(c=(0.5, 2.0)),
        features=lambda self, x, t, c: x - c * t,
        equation=lc.interior(lambda self, u_t, u_x, c: u_t + c * u_x),
    )
    problem, params = double(type("Frame", (lc.Family,), attributes)(), SMALL)
    assert params["layers"][0]["w"].shape == (1, 5)
    batch = fixed(problem.family, Sampling(9, 2, 3, "gauss"), jnp.float64)
    residuals = quick(problem.residuals)(params, batch)["equation"]
    np.testing.assert_allclose(residuals, 0, atol=1e-14)


# -- Dtypes --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        *((make, jnp.float32) for make in [*EVERY, lambda: Helmholtz(2)]),
        *((make, jnp.float64) for make in [Observed, Both]),
    ],
)
def test_only_the_dtype_of_the_problem_occurs(make, dtype):
    """No operation of a draw, of the rows or of their derivative has another floating dtype."""
    family = make()
    network = MLP((4, 3), parameters=FiLM(degree=2), weights=FiLM(hidden=2))
    problem = Problem(family, network, dtype)
    params = jax.eval_shape(problem.init, jax.random.key(0))
    sampling = Sampling(4, 4, 2)
    names = list(family.terms)

    def rows(params, key):
        batch = draw(family, sampling, key, dtype)
        weights = {name: jnp.asarray(2.0, dtype) for name in names}
        rows = lambda p: problem.rows(problem.residuals(p, batch), weights, batch)
        return rows(params), jax.grad(lambda p: jnp.sum(rows(p) ** 2))(params)

    batch = fixed(family, Sampling(4, 4, 2, "gauss"), dtype)
    assert {a.dtype for a in jax.tree.leaves((params, batch))} == {np.dtype(dtype)}
    found = {
        v.aval.dtype
        for e in equations(rows, params, jax.random.key(0))
        for v in e.outvars
        if jnp.issubdtype(v.aval.dtype, jnp.floating)
    }
    assert found == {np.dtype(dtype)}


@pytest.mark.slow
def test_single_precision_rows_are_those_of_double_precision():
    family = Ring()
    problem = Problem(family, SMALL, jnp.float64)
    params = perturbed(problem, scale=0.5)
    single = Problem(family, SMALL, jnp.float32)
    batch = fixed(family, Sampling(4, 4, 2, "gauss"), jnp.float64)
    down = lambda tree: jax.tree.map(lambda a: a.astype(jnp.float32), tree)
    expected = quick(problem.residuals)(params, batch)
    got = quick(single.residuals)(down(params), down(batch))
    for name, r in expected.items():
        assert got[name].dtype == jnp.float32
        np.testing.assert_allclose(got[name], r, rtol=1e-4, atol=1e-5 * np.abs(r).max())


def test_equal_networks_share_the_program_that_draws_them(x64):
    """Whatever the page is; other sizes, and other networks, have programs of their own."""
    one, other = (Problem(family(), SMALL, jnp.float64) for family in (Oscillator, Ring))
    again = Problem(Oscillator(), dataclasses.replace(SMALL), jnp.float64)
    wider = Problem(Oscillator(), dataclasses.replace(SMALL, widths=(6, 4)), jnp.float64)
    assert one.drawing() is again.drawing()
    assert len({p.drawing() for p in (one, other, wider)}) == 3
    key = jax.random.key(5)
    for problem in (one, other, wider):
        drawn, expected = problem.drawing()(key), problem.init(key)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14), drawn, expected)


class Unhashable(MLP):
    __hash__ = None  # pyright: ignore[reportAssignmentType]


def test_a_network_that_has_no_hash_is_drawn_too():
    problem = Problem(Oscillator(), Unhashable((3,)), jnp.float32)
    assert problem.drawing()(jax.random.key(0))["layers"][0]["w"].shape == (1, 3)
