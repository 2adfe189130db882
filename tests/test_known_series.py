"""Series that come with the points of a batch: the same rows and Jacobian as without them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from toy import double, quick, the

import lcpinn as lc
from benchmarks.pinnacle.flow import BackwardStep
from benchmarks.pinnacle.heat import TwoMedia
from benchmarks.pinnacle.poisson import Block3d
from benchmarks.zoo.dispersive import RingWave
from lcpinn.affine import is_affine
from lcpinn.equilibration import equilibrating
from lcpinn.families import FAMILIES, ON_SHAPES
from lcpinn.jet import Orders, affine, expand
from lcpinn.known_series import AT_ONCE, KnownSeries
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import GaussNewton
from lcpinn.rows import Problem, one_by_one, rows_and_jacobian, weighted_rows
from lcpinn.sampling import Sampling, draw, fixed
from lcpinn.shape.holes import visible_holes
from lcpinn.training import make_setup
from lcpinn.weighting import Fixed

pytestmark = pytest.mark.usefixtures("x64")

FEW = Sampling(24, 12, 1, "collocation")


class Curved(lc.Family):
    """A page with everything: a periodic coordinate, features of k, an ansatz that is curved."""

    domain = lc.Box(t=(0.0, 1.0), x=lc.Periodic(-1.0, 2.0))
    parameters = lc.Uniform(k=(1.0, 3.0))

    def features(self, t, x, k):
        return jnp.sin(k * t), jnp.cos(2 * jnp.pi * x / 3), jnp.sin(2 * jnp.pi * x / 3)

    def ansatz(self, u, t, x, k):
        return k + t * jnp.exp(0.1 * u) * u

    @lc.interior
    def equation(self, u, u_t, u_xx, k):
        return u_t - k * u_xx + u**3


class Straight(Curved):
    """The same with an affine one."""

    def ansatz(self, u, t, x, k):
        return jnp.exp(-k * t) * jnp.cos(2 * jnp.pi * x / 3) + t * (2 + jnp.sin(k * t)) * u


PAGES = {
    **{name: FAMILIES[name] for name in ("helmholtz-2d", "burgers", "buckley-leverett")},
    **{name: ON_SHAPES[name] for name in ("four-holes", "pipes")},
    "curved": Curved,
    "straight": Straight,
    "ring-wave": RingWave,
    "block": Block3d,
    "step": BackwardStep,
    "two-media": TwoMedia,
}


def problem_of(name):
    family = the(PAGES[name])
    network = MLP((6, 5), "sine", FiLM(degree=2), holes=bool(visible_holes(family)))
    return double(family, network)


SLOW = ("block", "two-media", "pipes", "ring-wave")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in PAGES]
)
def test_rows_and_jacobian_are_those_of_the_direct_way(name):
    problem, params = problem_of(name)
    batch, (theta, unravel) = fixed(problem.family, FEW, jnp.float64), ravel_pytree(params)
    both = quick(lambda v, b: rows_and_jacobian(problem, Fixed({}), unravel, v, b))
    known = KnownSeries(problem).of(batch)
    assert all(points.series is not None for points in known.values())
    for got, expected in zip(both(theta, known), both(theta, batch), strict=True):
        # By rows: those of a large term are not to hide those of a small one.
        size = np.abs(expected).max(axis=tuple(range(1, expected.ndim)), keepdims=True)
        size = size if expected.ndim > 1 else np.abs(expected).max()
        assert np.abs(expected).max() > 1e-3
        assert np.all(np.abs(got - expected) <= 1e-12 * size)


def test_what_is_affine_has_no_derivatives_left_in_the_program():
    problem, params = problem_of("straight")
    batch = fixed(problem.family, FEW, jnp.float64)
    text = lambda b: jax.jit(problem.residuals).lower(params, b).as_text()
    count = lambda b: text(b).count("stablehlo.cos")
    # What the network's sines have, and nothing of the page's.
    assert count(KnownSeries(problem).of(batch)) < count(batch)
    assert "exponential" in text(batch)
    assert "exponential" not in text(KnownSeries(problem).of(batch))


def test_series_of_many_points_come_in_chunks_and_several_of_a_lambda():
    problem, _ = problem_of("straight")
    drawn = draw(problem.family, Sampling(AT_ONCE // 2 + 5, 3, 3), jax.random.PRNGKey(1), float)
    points = KnownSeries(problem).of(drawn)["interior"]
    orders = problem.family.orders(problem.family.groups["interior"])
    whole = quick(lambda p: problem.series(p, orders))(drawn["interior"])
    assert points.series.features.shape == (3, AT_ONCE // 2 + 5, len(orders), 3)
    for got, expected in zip(points.series, whole, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)
    alone = one_by_one(points).series
    assert alone.factor.shape == (3 * (AT_ONCE // 2 + 5), 1, len(orders), 1, 1)


def test_a_batch_of_the_same_arrays_is_looked_up():
    problem, _ = problem_of("straight")
    known, batch = KnownSeries(problem), fixed(problem.family, FEW, jnp.float64)
    first = known.of(batch)
    assert known.of(dict(batch)) is first
    other = known.of(fixed(problem.family, FEW, jnp.float64))
    assert other is not first
    assert known.of(batch) is not first


def test_plain_coordinates_have_no_series():
    problem, _ = double(the(FAMILIES["helmholtz-2d"]).plain(), MLP((4,)))
    batch = fixed(problem.family, FEW, jnp.float64)
    assert not problem.has_series
    assert KnownSeries(problem).of(batch) is batch


def test_single_precision_stays_single():
    family = the(Straight)
    with jax.enable_x64(False):
        problem = Problem(family, MLP((4,)), jnp.float32)
        batch = KnownSeries(problem).of(fixed(family, FEW, jnp.float32))
        assert {leaf.dtype for leaf in jax.tree.leaves(batch)} == {jnp.dtype("float32")}
        residuals = problem.residuals(problem.init(jax.random.PRNGKey(0)), batch)
        assert residuals["equation"].dtype == jnp.float32


# -- Gauss-Newton on them --------------------------------------------------------------------------


PHASE = GaussNewton(FEW, steps=6, block=2, dampings=3, solver="qr", patience=2, tolerance=0.9)


def setup_of(family):
    protocol = lc.Protocol(
        name="test",
        network=MLP((4,), parameters=FiLM(degree=2)),
        weighting=Fixed({}),
        phases=(PHASE,),
        sampling=None,
        held_out=Sampling(20, 8, 1, "collocation", seed=7),
        dtype="float64",
    )
    return make_setup(family, protocol)


def course(setup, calls):
    """The state after every call; rounds end quickly, so that rows are drawn anew."""
    stage, key = PHASE.build(setup), jax.random.PRNGKey(3)
    states = [stage.init(setup.problem.drawing(once=True)(key), key)]
    for _ in range(calls):
        states.append(stage.advance(states[-1])[0])
    return states


@pytest.mark.slow
@pytest.mark.parametrize("page", [Straight, Curved])
def test_a_training_goes_as_without_them(page, monkeypatch):
    with_series = course(setup_of(the(page)), 4)
    monkeypatch.setattr(KnownSeries, "of", lambda self, batch: batch)
    without = course(setup_of(the(page)), 4)
    assert int(without[-1].round) > 0
    for one, other in zip(with_series, without, strict=True):
        assert jax.tree.structure(one) == jax.tree.structure(other)  # as checkpoints have it
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-6)
        np.testing.assert_allclose(one.held_out.current, other.held_out.current, rtol=1e-6)
        moved = one.batch["interior"].coordinates - other.batch["interior"].coordinates
        assert np.abs(moved).max() < 1e-12


def test_a_coefficient_is_the_one_that_the_rows_have():
    setup = setup_of(the(Straight))
    (state,) = course(dataclasses.replace(setup, coefficients=jnp.array([2.5])), 0)
    assert np.all(state.batch["interior"].parameters == 2.5)
    scale = equilibrating(setup.problem, state.scales)
    rows = quick(lambda p, b: weighted_rows(setup.problem, Fixed({}), p, b, scale))
    expected = jnp.sum(rows(state.params, state.batch) ** 2)
    np.testing.assert_allclose(state.initial_loss, expected, rtol=1e-12)


# -- What is affine ----------------------------------------------------------------------------


AFFINE = {
    "sum": lambda x, u: jnp.sin(x) + u * jnp.exp(x) - u / (2 + x),
    "mixed": lambda x, u: jnp.stack([u[0] * x[0] + u[1], jnp.where(x[0] > 0, u[1], 3 * u[0])]),
    "matrix": lambda x, u: jnp.outer(x, x) @ u + jnp.clip(x, 0, 1),
    "constant": lambda x, u: jnp.abs(x),
    "indexed": lambda x, u: u[jnp.array([1, 0])] * x,
    "called": lambda x, u: jax.jit(lambda v: v[::-1] * x)(u),
}
CURVED = {
    "square": lambda x, u: u**2,
    "product": lambda x, u: u[0] * u[1] * x,
    "quotient": lambda x, u: x / u,
    "sine": lambda x, u: jnp.sin(u),
    "size": lambda x, u: jnp.abs(u),
    "chosen": lambda x, u: jnp.where(u > 0, u, x),
    "steps": lambda x, u: jnp.round(u) + x,  # with no derivative that would tell
    "rounded": lambda x, u: u.astype(int) * x,
    "stopped": lambda x, u: jax.lax.stop_gradient(u) * x,
    "inside": lambda x, u: jax.jit(jnp.tanh)(u),
    "looped": lambda x, u: jax.lax.fori_loop(0, 3, lambda i, v: v * u, x),
}


def test_what_is_affine_is_told_by_its_operations():
    like = [jax.ShapeDtypeStruct((2,), float)] * 2
    assert {name: is_affine(f, 1, *like) for name, f in AFFINE.items()} == dict.fromkeys(
        AFFINE, True
    )
    assert {name: is_affine(f, 1, *like) for name, f in CURVED.items()} == dict.fromkeys(
        CURVED, False
    )


def test_ansatzes_of_pages_are_affine():
    straight = {name for name in PAGES if problem_of(name)[0]._is_affine}
    assert straight == {"helmholtz-2d", "buckley-leverett", "straight", "step", "two-media"}


def test_a_product_with_a_series_is_that_of_the_functions():
    orders = Orders.closure([(2, 1), (0, 3)], 2)
    point = jnp.array([0.3, -0.7])
    offset = lambda p: jnp.stack([jnp.sin(p[0]), p[0] * p[1]])
    factor = lambda p: jnp.stack([jnp.exp(p), p**2 + p[0] * p[1]])
    series = lambda p: jnp.cos(p[0] * p + p[1])
    whole = lambda p: offset(p) + factor(p) @ series(p)
    first, second, third = (expand(f, point, orders) for f in (offset, factor, series))
    got, expected = affine(first, second, third, orders), expand(whole, point, orders)
    np.testing.assert_allclose(got, expected, rtol=1e-13)
