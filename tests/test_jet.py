"""Derivatives by Taylor series against nested autodiff and finite differences, and their names."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import double, equations, plain, probe, quick

import lcpinn as lc
from lcpinn.families import Helmholtz
from lcpinn.jet import ACTIVATIONS, Orders, Series, expand, parse_derivative
from lcpinn.network import MLP, Concat, FiLM
from lcpinn.rows import Problem
from lcpinn.sampling import Points, Sampling, fixed

FILM = MLP((5, 4), parameters=FiLM(hidden=3))
SINE = MLP((5, 4), "sine", parameters=Concat())
CONCAT = MLP((5, 4), parameters=Concat())
WEIGHTS = MLP((5, 4), parameters=Concat(), weights=FiLM(hidden=3))
CHEBYSHEV = MLP((5, 4), "sine", parameters=FiLM(degree=3))

LINE = dict(domain=lc.Box(t=(0.0, 0.5), x=(-1.0, 2.0)), parameters=lc.Uniform(k=(1.0, 3.0)))
RING = LINE | dict(domain=lc.Box(t=(0.0, 0.5), x=lc.Periodic(-1.0, 2.0)))
DISC = LINE | dict(domain=lc.Box(t=(0.0, 0.5), r=(1.0, 3.0), theta=lc.Periodic(0.0, 2 * math.pi)))
TWO = LINE | dict(outputs=("u", "p_air"), parameters=lc.Uniform(k=(1, 3)) & lc.LogUniform(c=(1, 9)))
FEATURES = dict(features=lambda self, t, x, k: (x - k * t, jnp.sin(k * x), t))
ANSATZ = dict(ansatz=lambda self, u, t, x, k: jnp.cos(k * x) + t * (2 - x) ** 3 * u)
MIXING = dict(
    features=lambda self, point, c: (point[0] * point[1], jnp.exp(point[1] / c)),
    ansatz=lambda self, p_air, u, t, x: (jnp.exp(t) * u + x * p_air, t * u * p_air),
)

# name -> (output, the axes along which each summand is differentiated); 0 is t, 1 is x or r.
UP_TO_FOUR = {
    "u": (0, [()]),
    "u_t": (0, [(0,)]),
    "u_x": (0, [(1,)]),
    "u_xx": (0, [(1, 1)]),
    "u_xt": (0, [(0, 1)]),
    "u_tt": (0, [(0, 0)]),
    "u_xxt": (0, [(0, 1, 1)]),
    "u_xtt": (0, [(0, 0, 1)]),
    "u_xxx": (0, [(1, 1, 1)]),
    "u_xxtt": (0, [(0, 0, 1, 1)]),
    "u_xxxt": (0, [(0, 1, 1, 1)]),
    "u_xxxx": (0, [(1, 1, 1, 1)]),
    "laplacian_u": (0, [(1, 1)]),
}
SECOND = {n: v for n, v in UP_TO_FOUR.items() if len(v[1][0]) < 3}
PRESSURE = {
    "p_air": (1, [()]),
    "p_air_x": (1, [(1,)]),
    "p_air_xt": (1, [(0, 1)]),
    "p_air_xxx": (1, [(1, 1, 1)]),
    "laplacian_p_air": (1, [(1, 1)]),
}
ANGLES = {
    "u_r": (0, [(1,)]),
    "u_theta": (0, [(2,)]),
    "u_theta_theta": (0, [(2, 2)]),
    "u_r_theta": (0, [(1, 2)]),
    "u_tr": (0, [(0, 1)]),
    "laplacian_u": (0, [(1, 1), (2, 2)]),
}

CASES = {
    "film": (LINE, FILM, UP_TO_FOUR),
    "concat-sine": (LINE, SINE, UP_TO_FOUR),
    "weights": (LINE | dict(weights=lc.Simplex()), WEIGHTS, SECOND),
    "chebyshev": (TWO, CHEBYSHEV, SECOND | PRESSURE),
    "periodic": (RING, FILM, SECOND | {"u_xxt": UP_TO_FOUR["u_xxt"]}),
    "features": (LINE | FEATURES, CONCAT, SECOND | {"u_xxx": UP_TO_FOUR["u_xxx"]}),
    "ansatz": (LINE | ANSATZ, FILM, SECOND | {"u_xxxx": UP_TO_FOUR["u_xxxx"]}),
    "everything": (TWO | MIXING, FILM, SECOND | PRESSURE),
    "theta": (DISC, FILM, ANGLES),
}


pytestmark = pytest.mark.usefixtures("x64")


def tensors(function):
    """All partial derivatives of orders 0 to 4, by forward over reverse mode."""
    found = [function, jax.jacrev(function)]
    for _ in range(3):
        found.append(jax.jacfwd(found[-1]))
    return found


def some_points(family, num=3):
    """Two lambdas with points of their own, away from any symmetry."""
    prior = family.weights
    return Points(
        jnp.asarray(family.domain.sobol(2 * num, seed=3).reshape(2, num, -1)),
        jnp.asarray(family.parameters.sobol(2, seed=4)),
        jnp.zeros((2, 0)) if prior is None else jnp.asarray(prior.sobol(2, seed=5)),
        jnp.full((2, num), 1 / (2 * num)),
        jnp.zeros((2, num, 0)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_derivatives_agree_with_nested_autodiff(case):
    attributes, network, names = CASES[case]
    family = probe(names, **attributes)
    problem, params = double(family, network)
    points = some_points(family)
    got = quick(problem.residuals)(params, {"interior": points})["values"]

    degree = max(len(axes) for _, sums in names.values() for axes in sums)

    def at(point, parameters, weights):
        u = lambda p: plain(problem, params, p, parameters, weights)
        found = [t(point) for t in tensors(u)[: degree + 1]]
        return jnp.stack(
            [sum(found[len(axes)][(o, *axes)] for axes in sums) for o, sums in names.values()]
        )

    over = quick(jax.vmap(jax.vmap(at, (0, None, None))))
    expected = over(points.coordinates, points.parameters, points.weights)
    assert np.abs(expected).min(axis=(0, 1)).max() > 1e-3  # not a comparison of zeros
    for i, name in enumerate(names):
        scale = np.abs(expected[..., i]).max()
        np.testing.assert_allclose(
            got[..., i], expected[..., i], rtol=1e-9, atol=1e-11 * scale, err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize("case", ["concat-sine", "periodic", "everything"])
def test_second_derivatives_agree_with_finite_differences(case):
    attributes, network, _ = CASES[case]
    names, steps = ["u_xx", "u_tt", "u_xt"], 1e-4 * np.eye(2)
    family = probe(names, **attributes)
    problem, params = double(family, network)
    points = some_points(family)
    zero = Orders(((0, 0),))

    @quick
    def u(shift):
        moved = points._replace(coordinates=points.coordinates + shift)
        return problem.outputs(params, moved, zero)[0, ..., 0]

    t, x = steps
    expected = [
        (u(x) - 2 * u(0 * x) + u(-x)) / 1e-8,
        (u(t) - 2 * u(0 * t) + u(-t)) / 1e-8,
        (u(x + t) - u(x - t) - u(t - x) + u(-x - t)) / 4e-8,
    ]
    got = quick(problem.residuals)(params, {"interior": points})["values"]
    for i, name in enumerate(names):
        scale = np.abs(expected[i]).max()
        np.testing.assert_allclose(got[..., i], expected[i], rtol=1e-5, atol=1e-6 * scale + 1e-6)
        assert scale > 1e-2, name


# -- Cost ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("film", "generator"), [(FiLM(hidden=6), 2), (FiLM(degree=2), 1)])
@pytest.mark.parametrize("places", [1, 2])
def test_a_layer_costs_one_matrix_product(film, generator, places):
    """Reverse mode, or a pass for each order, would need more products than layers."""
    # Its ansatz makes the faces void, and takes no matrix product; without it there are faces.
    family = Helmholtz(1) if places == 1 else Helmholtz(1).plain()
    assert len(family.groups) == places
    problem = Problem(family, MLP((5, 4, 3), parameters=film), jnp.float64)
    sampling = Sampling(interior=7, face=2, num_lambda=3, rule="gauss")
    batch = fixed(family, sampling, jnp.float64)
    params = jax.eval_shape(problem.init, jax.random.key(0))
    dots = [e for e in equations(problem.residuals, params, batch) if "dot" in e.primitive.name]
    assert len(dots) == places * (4 + generator)
    # Inside, each product carries u, u_x and u_xx of 3 x 7 points; on the faces u alone.
    left = [e.invars[0].aval.shape[:3] for e in dots if e.invars[0].aval.ndim == 4]
    expected = [(3, 3, 7)] * 4 + [(1, 3, 2)] * 4
    assert sorted(left, reverse=True) == expected[: 4 * places]


def test_many_points_of_a_lambda_scale_its_matrix_and_few_scale_what_comes_out():
    """The same values and gradients; as a factor of the matrix no product has all points in it."""
    orders = Orders.closure([(2,)], 1)
    h, w, scale = (
        jax.random.normal(jax.random.key(i), shape)
        for i, shape in enumerate([(3, 2, 9, 4), (4, 5), (2, 1, 5)])
    )
    made = lambda h, w, scale: Series(orders, h).linear(w, scale).coefficients
    plain = lambda h, w, scale: (Series(orders, h) @ w * scale).coefficients
    np.testing.assert_allclose(made(h, w, scale), plain(h, w, scale), rtol=1e-5, atol=1e-6)
    slopes = [
        jax.grad(lambda *args, f=f: jnp.sum(jnp.sin(f(*args))), argnums=(0, 1, 2))(h, w, scale)
        for f in (made, plain)
    ]
    for ours, theirs in zip(*slopes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    products = lambda num: [
        e.outvars[0].aval.shape
        for e in equations(made, h[:, :, :num], w, scale)
        if e.primitive.name == "mul"
    ]
    assert products(9) == [(2, 4, 5)]
    assert products(3) == [(3, 2, 3, 5)]


# -- Series --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_derivatives(name):
    function = {"tanh": jnp.tanh, "sine": jnp.sin}[name]
    z = jnp.linspace(-2, 2, 9)
    nested = [function]
    for _ in range(6):
        nested.append(jax.grad(nested[-1]))
    expected = quick(lambda z: [jax.vmap(f)(z) for f in nested])(z)
    got = quick(lambda z: ACTIVATIONS[name](z, 6))(z)
    assert len(got) == 7
    for order in range(7):
        np.testing.assert_allclose(got[order], expected[order], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ACTIVATIONS[name](z, 0)[0], expected[0])


def test_closure_is_closed_downwards_and_sorted():
    assert Orders.closure([], 2).indices == ((0, 0),)
    orders = Orders.closure([(2, 1), (0, 2)], 2)
    assert orders.indices == ((0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0), (2, 1))
    assert (len(orders), orders.degree) == (7, 3)


@pytest.mark.slow
def test_series_arithmetic_is_that_of_polynomials():
    orders = Orders.closure([(2, 1)], 2)
    f = lambda p: jnp.array([jnp.exp(p[0]) * p[1], 1 + p[0] * p[1]])
    g = lambda p: jnp.array([jnp.sin(p[0] + 2 * p[1]), p[0] ** 2])
    point, matrix = jnp.array([0.3, -0.7]), jnp.array([[1.0, 2.0, 0.5], [-1.0, 3.0, 0.0]])
    constant = jnp.array([2.0, -1.0])

    @quick
    def table(p):
        coefficients = lambda function: expand(function, p, orders)
        a, b = Series(orders, coefficients(f)), Series(orders, coefficients(g))
        pairs = [
            (a * b, lambda p: f(p) * g(p)),
            (a + b, lambda p: f(p) + g(p)),
            (a + constant, lambda p: f(p) + constant),
            (a * constant, lambda p: f(p) * constant),
            (a @ matrix, lambda p: f(p) @ matrix),
            (a.concatenate(constant), lambda p: jnp.concatenate([f(p), constant])),
            ((a * b).sum(), lambda p: (f(p) * g(p)).sum()),
            (a.apply(ACTIVATIONS["tanh"]), lambda p: jnp.tanh(f(p))),
        ]
        return [(s.coefficients, coefficients(h), s.value, h(p)) for s, h in pairs]

    for got, expected, value, at_point in table(point):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(value, at_point, rtol=1e-14)


def test_expansion_has_the_taylor_coefficients():
    orders = Orders.closure([(4, 0), (1, 2)], 2)
    f = lambda p: jnp.exp(2 * p[0]) * p[1] ** 3
    got = quick(lambda p: expand(f, p, orders))(jnp.array([0.0, 1.0]))
    # e^(2x) = sum (2x)^i / i!, and (1 + d)^3 has the coefficients 1, 3, 3.
    expected = [2**i / math.factorial(i) * math.comb(3, j) for i, j in orders.indices]
    np.testing.assert_allclose(got, expected, rtol=1e-14)


# -- Names ---------------------------------------------------------------------------------------

TXY, POLAR = ("t", "x", "y"), ("t", "r", "theta")


@pytest.mark.parametrize(
    ("name", "outputs", "coordinates", "expected"),
    [
        ("u", ("u",), TXY, ("u", ((0, 0, 0),))),
        ("u_x", ("u",), TXY, ("u", ((0, 1, 0),))),
        ("u_xxt", ("u",), TXY, ("u", ((1, 2, 0),))),
        ("u_txx", ("u",), TXY, ("u", ((1, 2, 0),))),
        ("u_x_x_t", ("u",), TXY, ("u", ((1, 2, 0),))),
        ("u_xyxy", ("u",), TXY, ("u", ((0, 2, 2),))),
        ("u_theta_theta", ("u",), POLAR, ("u", ((0, 0, 2),))),
        ("u_r_theta", ("u",), POLAR, ("u", ((0, 1, 1),))),
        ("u_thetatheta", ("u",), POLAR, ("u", ((0, 0, 2),))),
        ("u_ttheta", ("u",), POLAR, ("u", ((1, 0, 1),))),
        ("u_xt", ("u",), ("x", "xt", "t"), ("u", ((0, 1, 0),))),
        ("u_x_t", ("u",), ("x", "xt", "t"), ("u", ((1, 0, 1),))),
        ("v_air", ("u", "v_air"), TXY, ("v_air", ((0, 0, 0),))),
        ("v_air_yy", ("v", "v_air"), TXY, ("v_air", ((0, 0, 2),))),
        ("v_x_t", ("v", "v_x"), TXY, ("v_x", ((1, 0, 0),))),
        ("laplacian_u", ("u",), TXY, ("u", ((0, 2, 0), (0, 0, 2)))),
        ("laplacian_u", ("u",), ("x", "t"), ("u", ((2, 0),))),
        ("laplacian_v_air", ("v", "v_air"), ("x",), ("v_air", ((2,),))),
        ("w", ("u",), TXY, None),
        ("u_z", ("u",), TXY, None),
        ("u_xz", ("u",), TXY, None),
        ("u_thet", ("u",), POLAR, None),
        ("ux", ("u",), TXY, None),
        ("u__x", ("u",), TXY, None),
        ("u_x__t", ("u",), TXY, None),
        ("u_", ("u",), TXY, None),
        ("u_x_", ("u",), TXY, None),
        ("laplacian_w", ("u",), TXY, None),
        ("laplacian_u_x", ("u",), TXY, None),
        ("laplacian", ("u",), TXY, None),
        ("x", ("u",), TXY, None),
    ],
)
def test_names_of_derivatives(name, outputs, coordinates, expected):
    assert parse_derivative(name, outputs, coordinates) == expected
