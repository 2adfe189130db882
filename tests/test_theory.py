"""What conditioning adds to the decay of the loss, and that a common zero leaves no spread."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from toy import Oscillator, Poisson, perturbed, quick

import lcpinn as lc
from lcpinn.network import MLP, Concat, DeepONet, FiLM, Unseen
from lcpinn.prior import Cube, LogCube, Simplex
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, draw
from lcpinn.solution import Solution
from lcpinn.study import theory
from lcpinn.weighting import Conditional

ROUNDING = 1e-13


pytestmark = pytest.mark.usefixtures("x64")


def one_of(models):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), models)


def by_hand(model):
    """H_λ, the matrix of the shift, and the gradient at the point."""
    model = jax.tree.map(np.asarray, model)
    hessian = np.tensordot(model.lam, model.hessians, 1)
    matrix = np.tensordot(model.lam, model.matrices, 1)
    return hessian, matrix, hessian @ (model.theta + matrix @ model.eta - model.optimum)


# -- The quadratic model -------------------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds)
@settings(max_examples=20)
def test_the_rates_differ_by_the_extra_term(seed):
    model = one_of(theory.random_models(1, seed))
    rates = RATES(model)
    assert rates.gap < ROUNDING
    _, matrix, gradient = by_hand(model)
    assert rates.plain == pytest.approx(gradient @ gradient, rel=1e-12)
    assert rates.extra == pytest.approx(np.sum((matrix.T @ gradient) ** 2), rel=1e-12)
    assert rates.conditional > rates.plain


RATES = jax.jit(lambda model: theory.decay(*model.parts))


def test_a_wrong_term_shows():
    """The gap is no difference of a thing with itself."""
    rates = RATES(one_of(theory.random_models(1, 0)))
    assert rates._replace(extra=1.01 * rates.extra).gap > 1e-3
    assert rates._replace(extra=0.0).gap == pytest.approx(float(rates.extra / rates.conditional))


@pytest.mark.parametrize(("num", "extra"), [(3, 9), (9, 3), (2, 1)])
def test_sizes_do_not_matter(num, extra):
    model = one_of(theory.random_models(1, 5, terms=2, num=num, extra=extra))
    assert theory.decay(*model.parts).gap < ROUNDING


def test_without_a_shift_there_is_nothing_extra():
    model = one_of(theory.random_models(1, 1))
    rates = RATES(model._replace(matrices=0 * model.matrices))
    assert rates.extra == 0
    assert rates.conditional == pytest.approx(float(rates.plain), rel=ROUNDING)


@given(seed=seeds, h=st.floats(1e-3, 2.0))
@settings(max_examples=20)
def test_one_step_is_two_terms_and_no_more(seed, h):
    """Where the loss is quadratic and the shift linear, at any size of the step."""
    model = one_of(theory.random_models(1, seed))
    taken = STEP(model, h)
    assert taken.gap < 1e-11  # where the step neither gains nor loses, the size is small
    hessian, matrix, gradient = by_hand(model)
    both = gradient + matrix @ matrix.T @ gradient
    coefficient = -(both @ hessian @ both - gradient @ hessian @ gradient) / 2
    assert taken.first == pytest.approx(h * np.sum((matrix.T @ gradient) ** 2), rel=1e-12)
    assert taken.second == pytest.approx(h**2 * coefficient, rel=1e-12)


STEP = jax.jit(lambda model, h: theory.step(*model.parts, h=h))


# -- Any loss, any shift -------------------------------------------------------------------------


def curved():
    """A loss that is not quadratic, and a shift that is not linear in η."""
    rng = np.random.default_rng(3)
    inner, outer = jnp.asarray(rng.normal(size=(5, 4))), jnp.asarray(rng.normal(size=(6, 5)))
    loss = lambda at: jnp.sum(jnp.cosh(at) + jnp.sin(at) ** 3)
    shift = lambda eta: outer @ jnp.tanh(inner @ eta)
    return loss, shift, jnp.asarray(rng.normal(size=6)), jnp.asarray(rng.normal(size=4))


def test_the_rates_differ_by_the_extra_term_where_nothing_is_linear():
    rates = jax.jit(lambda: theory.decay(*curved()))()
    assert rates.gap < ROUNDING
    assert rates.extra > 0.1 * rates.plain


def test_what_a_step_leaves_is_of_third_order():
    at = jax.jit(lambda h: theory.step(*curved(), h))
    coarse, fine = at(2e-4), at(1e-4)
    left = [abs(float(s.gain - s.first - s.second)) for s in (coarse, fine)]
    assert left[0] / left[1] == pytest.approx(8, rel=0.1)
    first = [abs(float(s.gain - s.first)) for s in (coarse, fine)]
    assert first[0] / first[1] == pytest.approx(4, rel=0.1)


# -- Networks of the library ---------------------------------------------------------------------


def of_network(family, network):
    """A problem at one λ, with parameters at which λ matters."""
    problem = Problem(family, network, jnp.float64)
    batch = draw(family, Sampling(6, 2, 1), jax.random.PRNGKey(4), jnp.float64)
    weights = dict.fromkeys(family.terms, jnp.ones(()))
    if family.weights is not None:
        weights, _ = Conditional().weigh((), family, batch, weights)
    return problem, perturbed(problem), batch, weights


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "network", "own"),
    [
        (Poisson(), MLP((5, 4), weights=Concat()), lambda g: g["layers"][0]["w"][1:]),
        (Poisson(), MLP((5, 4), weights=FiLM(hidden=3)), lambda g: g["conditioning"]),
        (Oscillator(), MLP((5, 4), parameters=FiLM(degree=3)), lambda g: g["conditioning"]),
    ],
    ids=["weights joined", "weights by FiLM", "coefficients by FiLM"],
)
def test_the_decay_of_a_network_splits(family, network, own):
    problem, params, batch, weights = of_network(family, network)
    rates = quick(lambda p: theory.network_decay(problem, p, batch, weights))(params)
    assert rates.gap < ROUNDING
    assert min(rates.plain, rates.extra) > 1e-3 * rates.conditional
    gradient = quick(jax.grad(lambda p: problem.loss(p, batch, weights)))(params)
    size = lambda tree: sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(tree))
    assert rates.conditional == pytest.approx(size(gradient), rel=1e-12)
    assert rates.extra == pytest.approx(size(own(gradient)), rel=1e-12)


@pytest.mark.slow
def test_a_network_that_does_not_see_lambda_has_nothing_extra():
    problem, params, batch, weights = of_network(Poisson(), MLP((5,), weights=Unseen()))
    rates = quick(lambda p: theory.network_decay(problem, p, batch, weights))(params)
    assert rates.extra == 0
    assert rates.conditional == pytest.approx(float(rates.plain), rel=ROUNDING)


@pytest.mark.slow
def test_joined_weights_are_the_theorem():
    """λ in the first layer shifts its biases: θ + B(λ, η) with B bilinear, and not only locally."""
    problem, params, batch, weights = of_network(Poisson(), MLP((5, 4), weights=Concat()))
    plain = dataclasses.replace(problem, network=MLP((5, 4), weights=Unseen()))
    points = batch["interior"]
    lam = problem.conditions(points.parameters, points.weights)["weights"][0]
    first, *rest = params["layers"]
    own, eta = first["w"][: -len(lam)], first["w"][-len(lam) :]
    backbone = params | {"layers": [{"w": own, "b": first["b"]}, *rest]}
    theta, unravel = ravel_pytree(backbone)

    def shift(eta):
        moved = jax.tree.map(jnp.zeros_like, backbone)
        moved["layers"][0]["b"] = lam @ eta.reshape(len(lam), -1)
        return ravel_pytree(moved)[0]

    loss = lambda vector: plain.loss(unravel(vector), batch, weights)
    found = quick(lambda t, e: theory.decay(loss, shift, t, e))(theta, eta.ravel())
    whole = quick(lambda p: theory.network_decay(problem, p, batch, weights))(params)
    assert found.gap < ROUNDING
    np.testing.assert_allclose(found, whole, rtol=1e-12)


def test_other_networks_are_refused():
    problem = Problem(Oscillator(), DeepONet((3,), (3,), 3), jnp.float64)
    with pytest.raises(lc.LcpinnError, match="split for an MLP, not for DeepONet"):
        theory.network_decay(problem, *of_network(Oscillator(), MLP((3,)))[1:])


# -- A common zero -------------------------------------------------------------------------------


def test_without_its_weights_path_a_network_has_no_spread():
    problem, params, _, _ = of_network(Poisson(), MLP((5, 4), weights=Concat()))
    protocol = dataclasses.replace(lc.protocol.smoke(Poisson()), network=problem.network)
    x = np.linspace(0, 1, 7)
    assert Solution(Poisson(), protocol, params, {}).spread(x=x).min() > 1e-3
    first = params["layers"][0]
    first["w"] = first["w"].at[1:].set(0)  # below the coordinate are the weights
    silent = Solution(Poisson(), protocol, params, {})
    assert silent.spread(x=x).max() < 1e-15
    assert np.ptp(silent.slices(x=x), axis=0).max() == 0


def fitted(prior, targets):
    """The minimiser of E Σ λ_i ‖A_i x(λ) - b_i‖² over x(λ) = a + C λ, as (a, C)."""
    rng = np.random.default_rng(8)
    matrices = rng.normal(size=(3, 4, 5))
    truth = rng.normal(size=5)
    rows, right = [], []
    for lam in np.asarray(prior.named(("one", "two", "three")).sobol(64, 1)):
        for weight, matrix, off in zip(lam, matrices, targets, strict=True):
            knobs = np.concatenate([[1.0], lam[:2]])  # on the simplex the third follows
            rows.append(np.sqrt(weight) * np.kron(knobs, matrix))
            right.append(np.sqrt(weight) * (matrix @ truth + off))
    solved = np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=None)[0]
    return truth, solved[:5], solved[5:].reshape(2, 5)


PRIORS = [Simplex(), Cube(), LogCube()]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_terms_with_a_common_zero_meet_there_under_every_prior(prior):
    truth, constant, slopes = fitted(prior, np.zeros((3, 4)))
    np.testing.assert_allclose(constant, truth, atol=1e-12)
    np.testing.assert_allclose(slopes, 0, atol=1e-12)


def test_terms_that_contradict_each_other_depend_on_lambda_and_on_its_prior():
    """So that the test above says something."""
    off = np.random.default_rng(9).normal(size=(3, 4))
    found = [fitted(prior, off)[1:] for prior in PRIORS]
    assert all(np.abs(slopes).max() > 0.1 for _, slopes in found)
    (_, uniform, logarithmic) = found
    assert np.abs(uniform[0] - logarithmic[0]).max() > 0.01


# -- The report ----------------------------------------------------------------------------------


def test_the_report_is_small_json():
    found = theory.report()
    assert json.loads(json.dumps(found)) == found
    assert found["draws"] == theory.DRAWS
    assert 0 < found["continuous"] < ROUNDING
    assert 0 < found["discrete"] < ROUNDING
    assert found["least"] > 0
