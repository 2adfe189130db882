"""Rows: loss, gradient and Jacobian as views of the same residuals, and how they are weighted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from toy import (
    Both,
    Coupled,
    Moving,
    Observed,
    Oscillator,
    Poisson,
    double,
    of_kind,
    plain,
    quick,
    the,
)

import lcpinn as lc
from lcpinn.network import MLP, FiLM
from lcpinn.nonfinite import describe_nonfinite, find_raising
from lcpinn.rows import parts_at_once, rows_and_jacobian, weighted_rows
from lcpinn.sampling import Sampling, draw, fixed
from lcpinn.weighting import Conditional, Fixed

KEY = jax.random.PRNGKey(0)
TINY = MLP((3, 2), parameters=FiLM(degree=1))


pytestmark = pytest.mark.usefixtures("x64")


def gauss(family, interior=4, face=4, num_lambda=2):
    return fixed(family, Sampling(interior, face, num_lambda, "gauss"), jnp.float64)


def weighed(weighting, family, batch, residuals):
    weights, _ = weighting.weigh(weighting.init(family, batch, KEY), family, batch, residuals)
    return weights


# -- Residuals -----------------------------------------------------------------------------------


def test_a_family_is_traced_once_for_every_shape_and_its_operations_are_inlined():
    calls = []

    class Counted(Oscillator):
        @lc.interior
        def equation(self, u, u_tt, d):
            calls.append(1)
            return u_tt + d * u

    problem, params = double(Counted(), TINY)
    batch, other = gauss(problem.family), gauss(problem.family, interior=5)
    calls.clear()  # building the family asks, too
    squares = lambda p, b: sum(jnp.sum(r**2) for r in problem.residuals(p, b).values())
    program = jax.jit(squares).lower(params, batch).as_text()
    assert calls == [1]
    jax.make_jaxpr(jax.grad(squares))(params, batch)
    jax.make_jaxpr(jax.vmap(lambda t: squares(jax.tree.map(lambda a: t * a, params), batch)))(
        jnp.ones(3)
    )
    assert calls == [1]
    assert "_residuals" not in program
    jax.make_jaxpr(squares)(params, other)
    assert calls == [1, 1]


@pytest.mark.slow
def test_residuals_are_the_terms_at_every_point_and_lambda():
    """The oscillator's three terms from derivatives by nested autodiff."""
    family = Oscillator()
    problem, params = double(family, TINY)
    batch = gauss(family)

    def by_hand(t, d):
        u = lambda s: plain(problem, params, jnp.array([s]), jnp.array([d]))[0]
        u_t, u_tt = jax.grad(u), jax.grad(jax.grad(u))
        return u_tt(t) + 2 * d * u_t(t) + 400 * u(t), u(t) - 1, u_t(t)

    over = quick(jax.vmap(jax.vmap(by_hand, (0, None))))
    got = quick(problem.residuals)(params, batch)
    inside, face = batch["interior"], batch["t=0"]
    equation, _, _ = over(inside.coordinates[..., 0], inside.parameters[:, 0])
    _, start, velocity = over(face.coordinates[..., 0], face.parameters[:, 0])
    assert set(got) == {"equation", "start", "velocity"}
    np.testing.assert_allclose(got["equation"][..., 0], equation, rtol=1e-11)
    np.testing.assert_allclose(got["start"][..., 0], start, rtol=1e-11)
    np.testing.assert_allclose(got["velocity"][..., 0], velocity, rtol=1e-11)


# -- Loss, gradient, Jacobian --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (Oscillator, "gauss"),
        (Coupled, "gauss"),
        (Coupled, "sobol"),
        (Moving, "gauss"),
        (Observed, "gauss"),
        (Both, "sobol"),
    ],
)
def test_squared_rows_loss_and_term_losses_are_the_same_sum(cls, rule):
    family = cls()
    problem, params = double(family, TINY)
    batch = fixed(family, Sampling(4, 4, 2, rule), jnp.float64)
    given = {name: 0.5 + i for i, name in enumerate(family.terms)}

    @quick
    def everything(params, batch):
        residuals = problem.residuals(params, batch)
        weights = weighed(Fixed(given), family, batch, residuals)
        return (
            residuals,
            problem.rows(residuals, weights, batch),
            problem.term_losses(residuals, weights, batch),
        )

    residuals, rows, terms = everything(params, batch)
    loss = np.sum(np.square(rows))
    expected = {}
    for name, r in residuals.items():
        points = batch[family.terms[name].where]
        squares = np.square(r).sum(-1)
        assert squares.shape == points.quadrature.shape
        expected[name] = given[name] * np.sum(np.asarray(points.quadrature) * squares)
    assert rows.shape == (sum(r.size for r in residuals.values()),)
    assert set(terms) == set(family.terms)
    for name, value in expected.items():
        np.testing.assert_allclose(terms[name], value, rtol=1e-12)
    np.testing.assert_allclose(loss, sum(expected.values()), rtol=1e-12)
    np.testing.assert_allclose(sum(terms.values()), loss, rtol=1e-12)


def test_rows_go_term_after_term():
    """In the family's order, whatever the order of the batch's dictionary."""
    family = Coupled()
    problem, params = double(family, TINY)
    batch = gauss(family)
    ones = dict.fromkeys(family.terms, jnp.asarray(1.0))
    residuals = quick(problem.residuals)(params, batch)
    expected = np.concatenate(
        [
            (
                np.asarray(residuals[name])
                * np.sqrt(np.asarray(batch[term.where].quadrature))[..., None]
            ).ravel()
            for name, term in family.terms.items()
        ]
    )
    for order in (list(batch), list(batch)[::-1]):
        ordered = {where: batch[where] for where in order}
        rows = problem.rows(quick(problem.residuals)(params, ordered), ones, ordered)
        np.testing.assert_allclose(rows, expected, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [False, True])
def test_gradient_and_jacobian(scaled):
    """Gradient = 2 Jᵀ r of the summed terms, J v by forward mode, J against central differences."""
    family = Coupled()
    problem, params = double(family, TINY)
    batch = fixed(family, Sampling(4, 4, 1, "sobol"), jnp.float64)
    weighting = Fixed({name: 0.5 + i for i, name in enumerate(family.terms)})
    flat, unravel = ravel_pytree(params)
    scale = (lambda name, points: 2 + points.parameters[:, :1]) if scaled else None

    def rows_at(vector):
        return weighted_rows(problem, weighting, unravel(vector), batch, scale)

    def loss(vector):
        residuals = problem.residuals(unravel(vector), batch)
        weights, _ = weighting.weigh((), family, batch, residuals)
        return sum(problem.term_losses(residuals, weights, batch).values())

    @quick
    def together(vector):
        both = rows_and_jacobian(problem, weighting, unravel, vector, batch, scale)
        value = (lambda v: jnp.sum(rows_at(v) ** 2)) if scaled else loss
        return *both, jax.grad(value)(vector)

    rows, jacobian, gradient = together(flat)
    np.testing.assert_allclose(rows, quick(rows_at)(flat), rtol=1e-12, atol=1e-14)
    direction = jnp.cos(jnp.arange(flat.size, dtype=flat.dtype))
    along = quick(lambda v, d: jax.jvp(rows_at, (v,), (d,))[1])(flat, direction)
    np.testing.assert_allclose(along, jacobian @ direction, rtol=1e-9, atol=1e-11)
    assert jacobian.shape == (rows.size, flat.size)
    np.testing.assert_allclose(gradient, 2 * jacobian.T @ rows, rtol=1e-10, atol=1e-12)
    step = 1e-6
    moved = quick(jax.vmap(rows_at))
    eye = step * jnp.eye(flat.size)
    differences = (moved(flat + eye) - moved(flat - eye)) / (2 * step)
    size = np.abs(jacobian).max()
    np.testing.assert_allclose(jacobian, differences.T, rtol=1e-6, atol=1e-8 * size)
    assert np.all(np.abs(jacobian).max(axis=0) > 0)  # every parameter matters


def test_a_jacobian_by_rows_refuses_several_points_per_lambda():
    family = Coupled()
    problem, params = double(family, TINY)
    flat, unravel = ravel_pytree(params)
    with pytest.raises(lc.LcpinnError, match="has 4 points per lambda at 'interior'"):
        rows_and_jacobian(problem, Fixed({}), unravel, flat, gauss(family))


# -- Quadrature ----------------------------------------------------------------------------------


class Known(lc.Family):
    """Residuals that are polynomials of the point and lambda, so that their means are known."""

    domain = lc.Box(x=(0.0, 2.0), y=(-1.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 3.0))

    @lc.interior
    def equation(self, x, y, k):
        return x**2 * k, y

    @lc.on()
    def boundary(self, x, y):
        return x + y

    @lc.on(y=(-1.0, 1.0))
    def rails(self, x, y, k):
        return x * y * k


# Means of x⁴ k² (16/5 · 13/3) and y² (1/3); of (x + y)² over the faces x = 0, 2 and y = ∓1, each
# with a quarter (1/3, 4 + 1/3, 4/3 - 2 + 1, 4/3 + 2 + 1); of x² k² (4/3 · 13/3).
KNOWN = {
    "equation": 16 / 5 * 13 / 3 + 1 / 3,
    "boundary": (1 / 3 + 13 / 3 + 1 / 3 + 13 / 3) / 4,
    "rails": 4 / 3 * 13 / 3,
}


def test_gauss_rows_integrate_polynomials_exactly():
    family = Known()
    problem, params = double(family, TINY)
    batch = gauss(family, interior=9, face=12, num_lambda=3)  # of unequal mass
    residuals = quick(problem.residuals)(params, batch)
    weights = weighed(Fixed({}), family, batch, residuals)
    losses = problem.term_losses(residuals, weights, batch)
    for name, expected in KNOWN.items():
        np.testing.assert_allclose(losses[name], expected, rtol=1e-13, err_msg=name)


@pytest.mark.slow
def test_drawn_and_sobol_rows_integrate_them_nearly():
    family = Known()
    problem, params = double(family, TINY)
    step = quick(lambda key: draw(family, Sampling(2, 4, 8192), key, jnp.float64))
    sobol = fixed(family, Sampling(8192, 8192, 1, "sobol"), jnp.float64)
    for batch in (step(jax.random.key(0)), sobol):
        residuals = quick(problem.residuals)(params, batch)
        weights = weighed(Fixed({}), family, batch, residuals)
        losses = problem.term_losses(residuals, weights, batch)
        for name, expected in KNOWN.items():
            # The least accurate, x⁴ k², has a deviation of 1.1 means: five sigmas.
            np.testing.assert_allclose(losses[name], expected, rtol=6e-2, err_msg=name)
    # Without lambda in it, the last one is an ordinary Sobol rule.
    np.testing.assert_allclose(losses["boundary"], KNOWN["boundary"], rtol=1e-5)


@pytest.mark.parametrize(("corners", "share"), [(False, 0.0), (True, 1 / 7)])
def test_collocation_rows_are_spread_jointly_and_denser_at_the_ends_of_lambda(corners, share):
    """k = 2 - cos(π s) with uniform s: the mean of k² is 4.5, and of x⁴ k² it is 3.2 · 4.5.

    At the ends, 1 and 3, the mean of k² is 5; the other rows are spread as they were.
    """
    family = Known()
    family.setting_corners = corners
    batch = fixed(family, Sampling(4096, 1024, 3, "collocation"), jnp.float64)
    points = batch["interior"]
    assert points.coordinates.shape == (4096, 1, 2)
    x, k = np.asarray(points.coordinates[:, 0, 0]), np.asarray(points.parameters[:, 0])
    # A joint low-discrepancy set: a random pairing would be off by a percent.
    moments = np.array([np.mean(k**2), np.mean(x**4 * k**2)])
    mean = (1 - share) * 4.5 + share * 5
    np.testing.assert_allclose(moments[0], mean, rtol=1e-3)
    # Which end a row has is drawn, so that one in seven is paired at random.
    np.testing.assert_allclose(moments[1], 3.2 * mean, rtol=1e-2 if corners else 1e-3)
    face = batch["y=-1 y=1"].coordinates[:, 0, 1]
    assert 0.9 * 512 < (face == -1).sum() == (face == 1).sum() <= 512


def test_two_parameters_at_sobol_nodes_and_weights_on_the_simplex():
    """Where lambda has several components its nodes are Sobol points, each of equal mass."""
    batch = gauss(Coupled(), num_lambda=8)
    points = batch["interior"]
    np.testing.assert_allclose(points.quadrature.sum(1), 1 / 8, rtol=1e-13)
    low, high = np.array([[1.0, 0.1], [3.0, 1.0]])
    assert np.all((points.parameters >= low) & (points.parameters <= high))
    # Scrambled Sobol points have one in each eighth, in the prior's own measure.
    assert sorted(np.floor(8 * (np.asarray(points.parameters[:, 0]) - 1) / 2)) == list(range(8))
    weights = gauss(Both(), num_lambda=8)["interior"].weights
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-13)
    assert weights.shape == (8, 4)


@pytest.mark.parametrize("rule", ["gauss", "sobol"])
def test_a_fixed_batch_is_fixed(rule):
    first, second = (
        fixed(Observed(), Sampling(4, 4, 3, rule, seed=5), jnp.float64) for _ in range(2)
    )
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_sobol_rows_have_a_lambda_of_their_own():
    points = fixed(Oscillator(), Sampling(8, 4, 4, "sobol"), jnp.float64)["interior"]
    assert points.coordinates.shape == (32, 1, 1)
    assert len(set(np.asarray(points.parameters[:, 0]))) == 32
    other = fixed(Oscillator(), Sampling(8, 4, 4, "sobol", seed=1), jnp.float64)["interior"]
    assert np.all(points.coordinates != other.coordinates)


# -- Weightings ----------------------------------------------------------------------------------


def test_fixed_weights_by_hand():
    family = Oscillator()
    problem, params = double(family, TINY)
    batch = gauss(family)
    residuals = quick(problem.residuals)(params, batch)
    weights = weighed(Fixed({"start": 100.0, "velocity": 0.0}), family, batch, residuals)
    assert {name: float(w) for name, w in weights.items()} == {
        "equation": 1.0,
        "start": 100.0,
        "velocity": 0.0,
    }
    losses = problem.term_losses(residuals, weights, batch)
    # One point on the face, two Gauss nodes of lambda of equal mass.
    start = np.asarray(residuals["start"])[..., 0].mean(1)
    np.testing.assert_allclose(losses["start"], 100 * np.mean(start**2), rtol=1e-13)
    assert losses["velocity"] == 0
    assert np.abs(residuals["velocity"]).min() > 0


def test_conditional_weights_by_hand():
    """L = sum over draws and terms of lambda_term * mean r², each draw with its own lambda."""
    family = Both()
    problem, params = double(family, TINY)
    lam = jnp.array([[0.5, 0.25, 0.25, 0.0], [0.1, 0.2, 0.3, 0.4]])
    batch = {where: p._replace(weights=lam) for where, p in gauss(family, num_lambda=2).items()}
    residuals = quick(problem.residuals)(params, batch)
    weights = weighed(Conditional(), family, batch, residuals)
    expected = {"equation": [0.5, 0.1], "start": [0.25, 0.2], "velocity": [0.25, 0.3]}
    total = 0.0
    for name, values in expected.items():
        points = batch[family.terms[name].where]
        assert np.broadcast_shapes(weights[name].shape, points.quadrature.shape) == (
            points.quadrature.shape
        )
        assert weights[name].ravel().tolist() == values
        for draw_index, value in enumerate(values):
            square = np.square(residuals[name][draw_index, :, 0])
            total += value * np.sum(np.asarray(points.quadrature)[draw_index] * square)
    loss = np.sum(np.square(problem.rows(residuals, weights, batch)))
    np.testing.assert_allclose(loss, total, rtol=1e-12)


def test_conditional_weights_of_data_are_those_of_the_observation():
    family = type("Weighted", (Observed,), {"weights": lc.Simplex("data", "equation")})()
    problem, params = double(family, TINY)
    batch = gauss(family)
    residuals = quick(problem.residuals)(params, batch)
    weights = weighed(Conditional(), family, batch, residuals)
    np.testing.assert_array_equal(weights["data"][:, 0], batch["data"].weights[:, 0])
    np.testing.assert_array_equal(weights["equation"][:, 0], batch["interior"].weights[:, 1])
    # Every row has weights of its own, and an observation that knows no coefficient many rows.
    assert len(set(np.asarray(weights["data"][:, 0]))) == len(batch["data"].weights)


@pytest.mark.parametrize(
    ("weighting", "make", "message"),
    [
        (
            Fixed({"strat": 1.0}),
            Oscillator,
            "fixed weights: weight 'strat' names no term; the terms are equation, start, velocity",
        ),
        (
            Conditional(),
            Oscillator,
            "oscillator has no prior over loss weights to condition on",
        ),
        (
            Conditional(),
            lambda: type("Poisson", (Poisson,), {"weights": lc.Cube("equation")})(),
            "poisson: the term 'boundary' has no component in weights",
        ),
    ],
)
def test_weighting_errors(weighting, make, message):
    with pytest.raises(lc.LcpinnError) as caught:
        weighting.init(make(), {}, KEY)
    assert str(caught.value) == message


def test_weights_that_weigh_nothing_are_allowed():
    Fixed({"data": 2.0}).init(Oscillator(), {}, KEY)
    Fixed({"wall": 2.0}).init(Moving(), {}, KEY)  # void under the ansatz
    Conditional().init(Poisson(), {}, KEY)


# -- Values that are not finite ------------------------------------------------------------------


class Sick(lc.Family):
    """A root of a negative number where k < 1/2."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 4.0))
    parameters = lc.Uniform(k=(0.0, 1.0))

    @lc.interior
    def equation(self, u):
        return u

    @lc.on(x=4.0)
    def outflow(self, u, k):
        return u, jnp.sqrt(k - 0.5)


def described(family):
    problem, params = double(family, TINY)
    batch = gauss(family, interior=4, face=2, num_lambda=2)
    return describe_nonfinite(problem, params, batch), batch


def test_a_nan_is_described_by_the_term_the_point_and_lambda():
    # Gauss nodes of (0, 1) with two points: 1/2 ∓ √3/6 = 0.211325, for t and for k.
    assert described(Sick())[0] == (
        "the term 'outflow' is NaN or infinite at t = 0.211325, x = 4, k = 0.211325 (2 rows in all)"
    )


def test_a_nan_is_described_by_its_weights_too():
    message, batch = described(type("Sick", (Sick,), {"weights": lc.Cube()})())
    w = np.asarray(batch["x=4"].weights[0])
    assert message == (
        "the term 'outflow' is NaN or infinite at t = 0.211325, x = 4, k = 0.211325, "
        f"weight of equation = {w[0]:.6g}, weight of outflow = {w[1]:.6g}, "
        f"weight of data = {w[2]:.6g} (2 rows in all)"
    )


def test_a_derivative_that_is_nan_is_described_as_such():
    """Every row is finite; the root of zero has no slope, not even where it is not chosen."""

    class Steep(lc.Family):
        """u' = sqrt(0 u) where k > 1/2."""

        domain = lc.Box(x=(0.0, 1.0))
        parameters = lc.Uniform(k=(0.0, 1.0))

        @lc.interior
        def equation(self, u, u_x, k):
            return u_x + jnp.where(k > 0.5, jnp.sqrt(jnp.abs(0.0 * u)), 0.0)

    message = described(Steep())[0]
    assert message == (
        "the derivative of the term 'equation' by the network is NaN or infinite at "
        "x = 0.0694318, k = 0.211325 (8 points in all)"
    )


def test_a_callback_that_raises_is_found():
    def answer(bad):
        if np.any(bad):
            raise ZeroDivisionError("no answer")
        return np.zeros(np.shape(bad))

    class Asking(lc.Family):
        """Asks Python where k > 1/2."""

        domain = lc.Box(x=(0.0, 1.0))
        parameters = lc.Uniform(k=(0.0, 1.0))

        @lc.interior
        def equation(self, u, k):
            shape = jax.ShapeDtypeStruct((), np.float64)
            asked = jax.pure_callback(answer, shape, k > 0.5, vmap_method="expand_dims")
            return u + jax.lax.stop_gradient(asked)

    problem, params = double(Asking(), TINY)
    batch = gauss(Asking(), interior=4, face=2, num_lambda=2)
    line = of_kind(str, find_raising(problem, params, batch))
    assert line.startswith("the term 'equation' raises at x = 0.0694318, k = 0.788675: ")
    assert "ZeroDivisionError: no answer" in line
    assert find_raising(problem, params, {"interior": batch["interior"]._replace(
        parameters=0 * batch["interior"].parameters)}) is None  # fmt: skip


def test_a_loss_that_overflows_is_described_as_such():
    assert described(Oscillator())[0] == (
        "the loss is NaN or infinite although every row is finite: it overflowed"
    )


@pytest.mark.slow
def test_one_observation_holds_at_many_values_of_an_unknown_coefficient():
    class Gauged(Oscillator):
        """Seen at one point, whatever the damping is."""

        data = lc.Data(t=[0.0], u=[1.0])

    known = type("Known", (Gauged,), {"data": lc.Data(t=[0.0], d=[2.0], u=[1.0])})()
    rule, random = Sampling(8, 4, 1, "collocation"), Sampling(8, 4, 2)
    for make in (
        lambda family: fixed(family, rule, "float64"),
        lambda family: draw(family, random, KEY, "float64"),
    ):
        points = make(Gauged())["data"]
        assert len(np.unique(np.asarray(points.parameters))) >= 64
        assert np.all(np.asarray(points.coordinates) == 0.0)
        assert np.sum(points.quadrature) == pytest.approx(1.0)
        assert make(known)["data"].parameters.shape == (1, 1)


# -- Places that share a pass of the network -------------------------------------------------------


class Corner(lc.Family):
    """Two outputs, four places with other numbers of rows, components and arguments, and data."""

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 2.0)) - lc.Ball(x=0.5, y=1.0, radius=0.2)
    parameters = lc.Uniform(k=(1.0, 3.0))
    outputs = ("u", "v")
    data = lc.Data(x=[0.1, 0.2, 0.9], y=[0.3, 1.5, 0.4], u=[0.0, 1.0, 2.0])

    @lc.interior
    def equation(self, laplacian_u, u, v_x, k):
        return laplacian_u + k * u * v_x

    @lc.on(x=0.0)
    def inlet(self, u, v, y, k):
        return u - jnp.sin(k * y), v**3

    @lc.on(y=(0.0, 2.0))
    def walls(self, u, y):
        return u * (1 + y)

    @lc.on(x=1.0)
    def outlet(self, v, k):
        return jnp.log(k + v**2)  # which is no function of other places' values

    @lc.on(lc.Ball(x=0.5, y=1.0, radius=0.2))
    def hole(self, u_n, v, n_x):
        return u_n + v * n_x


def test_conditions_with_the_same_derivatives_share_a_pass():
    problem, _ = double(the(Corner), TINY)
    batch = fixed(problem.family, Sampling(9, 6, 1, "collocation"), jnp.float64)
    together = problem.together(batch)
    assert sorted(map(len, together)) == [1, 1, 4]
    assert problem.together({where: batch[where] for where in ("interior", "x=1")}) == [
        ["interior"], ["x=1"],
    ]  # fmt: skip
    several = fixed(problem.family, Sampling(9, 6, 2, "gauss"), jnp.float64)
    assert all(len(places) == 1 or "data" in places for places in problem.together(several))
    assert [len(part) for part in parts_at_once(problem, batch, 10)] == [1] * 6
    assert sorted(len(part) for part in parts_at_once(problem, batch, 1000)) == [1, 1, 4]


@pytest.mark.slow
def test_a_shared_pass_gives_the_rows_and_the_jacobian_of_each_place():
    problem, params = double(the(Corner), TINY)
    family, weighting = problem.family, Fixed({"walls": 3.0})
    batch = fixed(family, Sampling(9, 6, 1, "collocation"), jnp.float64)
    theta, unravel = ravel_pytree(params)
    scale = lambda name, points: (1 + len(name)) * points.parameters[:, :1]

    def each(v):
        """Place by place, and differentiated as a whole."""
        rows = lambda b: weighted_rows(problem, weighting, unravel(v), b, scale)
        return jnp.concatenate([rows({where: batch[where]}) for where in family.groups])

    rows, jacobian = quick(
        lambda v: rows_and_jacobian(problem, weighting, unravel, v, batch, scale)
    )(theta)
    np.testing.assert_allclose(rows, quick(each)(theta), rtol=1e-13)
    expected = quick(jax.jacfwd(each))(theta)
    size = np.abs(expected).max(axis=1, keepdims=True)
    assert np.all(np.abs(jacobian - expected) <= 1e-13 * size)
    whole = quick(lambda v: weighted_rows(problem, weighting, unravel(v), batch, scale))(theta)
    np.testing.assert_allclose(whole, rows, rtol=1e-13)
