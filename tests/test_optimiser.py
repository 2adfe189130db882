"""Each optimiser against its formula, and what the trainer relies on."""

import dataclasses
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from toy import Decay, quick

import lcpinn as lc
from lcpinn.families import FAMILIES
from lcpinn.files import flatten, unflatten
from lcpinn.jet import Orders
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import (
    LBFGS,
    Adam,
    GaussNewton,
    Phase,
    Restarts,
    RevertOnWorse,
    Stage,
    Stop,
    StopReason,
)
from lcpinn.optimiser import adam as optimiser_adam
from lcpinn.optimiser import lbfgs as optimiser_lbfgs
from lcpinn.optimiser.lbfgs import no_pairs, times_inverse_hessian, with_pair
from lcpinn.optimiser.revert import reference_error
from lcpinn.optimiser.stage import Info, held_out_loss, keep, objective
from lcpinn.sampling import Points, Sampling, draw, fixed
from lcpinn.training import make_setup
from lcpinn.weighting import Fixed, SelfAdaptive

TINY = MLP(widths=(4,), parameters=FiLM(hidden=2))
KEY = jax.random.PRNGKey(7)


def make(family, dtype="float32", weighting=None, **changes):
    protocol = lc.Protocol(
        name="test",
        network=TINY,
        weighting=weighting or Fixed({}),
        phases=(),
        sampling=Sampling(interior=6, face=2, num_lambda=2),
        quadrature=Sampling(interior=6, face=2, num_lambda=3, rule="gauss"),
        held_out=Sampling(interior=5, face=2, num_lambda=4, rule="sobol", seed=1009),
        dtype=dtype,
    )
    return make_setup(family, dataclasses.replace(protocol, **changes))


def start(setup, seed=0):
    return setup.problem.drawing(once=True)(jax.random.PRNGKey(seed))


def run(stage, params, key=KEY):
    """Through a stage to its end: the last state, every info, and why it stopped."""
    state = stage.init(params, key)
    infos, reason = [], stage.stopped(state, {})
    while reason is None:
        state, info = stage.advance(state)
        infos.append(info)
        reason = stage.stopped(state, info)
    return state, infos, reason


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def assert_keeps_its_types(stage, params):
    """Types that change, be it only a weak one, compile the second call again."""
    state = stage.init(params, KEY)
    types = jax.tree.map(jax.typeof, state)
    held = unflatten(flatten(state), state, "the checkpoint")
    assert jax.tree.map(jax.typeof, held) == types
    assert jax.tree.map(jax.typeof, stage.advance(state)[0]) == types


# -- Adam ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_adam_is_kingma_and_ba_with_clipping_and_a_cosine():
    rate, final, steps, clip = 3e-2, 1e-3, 5, 4.0
    with jax.enable_x64(True):
        setup = make(Decay(), "float64", Fixed({"start": 3.0}))
        stage = Adam(steps=steps, rate=rate, final_rate=final, clip=clip, block=2).build(setup)
        theta, spread = ravel_pytree(start(setup))
        state, infos, reason = run(stage, spread(theta))

        @quick
        def gradient(flat, t):
            assert setup.sampling is not None
            batch = draw(setup.problem.family, setup.sampling, jax.random.fold_in(KEY, t), float)
            weights = {"equation": jnp.ones(()), "start": jnp.full((), 3.0)}
            problem = setup.problem

            def loss(v):
                residuals = problem.residuals(spread(v), batch)
                return jnp.sum(problem.rows(residuals, weights, batch) ** 2)

            return jax.value_and_grad(loss)(flat)

        theta, losses, norms = np.asarray(theta), [], []
        m, v = np.zeros_like(theta), np.zeros_like(theta)
        for t in range(steps):
            value, g = map(np.asarray, gradient(theta, t))
            losses.append(float(value))
            norms.append(np.linalg.norm(g))
            g = g * min(1.0, clip / norms[-1])
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            step = (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
            theta = theta - (final + (rate - final) * (1 + np.cos(np.pi * t / steps)) / 2) * step

        assert min(norms) < clip < max(norms)  # some steps are clipped and some are not
        np.testing.assert_allclose(ravel_pytree(state.params)[0], theta, rtol=1e-9, atol=1e-12)
        for info, loss in zip(infos, (losses[1], losses[3], losses[4]), strict=True):
            np.testing.assert_allclose(info["loss"], loss, rtol=1e-9)
            assert set(info["terms"]) == {"equation", "start"}
            np.testing.assert_allclose(sum(info["terms"].values()), info["loss"], rtol=1e-12)
        assert_keeps_its_types(stage, start(setup))
    assert (reason.reason, str(reason)) == (StopReason.STEPS, "5 steps done")
    assert int(state.step) == steps


# -- L-BFGS --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lbfgs():
    setup = make(Decay())
    return setup, LBFGS(steps=30, block=10).build(setup), start(setup)


@pytest.mark.slow
def test_lbfgs_lowers_the_loss_on_its_quadrature_and_counts_its_steps(lbfgs):
    setup, stage, params = lbfgs
    value = quick(objective(setup, fixed(Decay(), setup.quadrature, jnp.float32)))
    before = float(value(params)[0])
    state, infos, reason = run(stage, params)
    losses = [before, *(float(i["loss"]) for i in infos)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 1e-2 * before
    after, terms = value(state.params)
    np.testing.assert_allclose(losses[-1], after, rtol=1e-3)  # float32, close to its floor
    for name, value in infos[-1]["terms"].items():
        np.testing.assert_allclose(value, terms[name], rtol=1e-3)
    assert str(reason) == f"30 steps done, {int(state.evaluations)} evaluations"
    assert len(infos) == 3
    assert int(state.step) == 30
    assert_keeps_its_types(stage, params)


@pytest.mark.slow
def test_lbfgs_says_that_no_decrease_is_left_at_its_optimum(lbfgs):
    """Started again and again where it ended; the last digits may take it several times."""
    _, stage, params = lbfgs
    best = np.inf
    for _ in range(100):
        state, _, reason = run(stage, params)
        if reason.reason is StopReason.PRECISION:
            break
        params, best = state.params, float(state.loss)
    how = f"{int(state.step)} steps, {int(state.evaluations)} evaluations"
    assert str(reason) == f"no decrease left in float32 after {how}"
    assert int(state.step) < 30
    assert float(state.loss) <= best * (1 + 1e-6)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


def test_lbfgs_stops_at_its_gradient_tolerance(lbfgs):
    setup, _, params = lbfgs
    stage = LBFGS(steps=5, gradient_tolerance=1e9).build(setup)
    state, infos, reason = run(stage, params)
    assert not infos
    assert reason.reason is StopReason.GRADIENT
    assert str(reason).endswith("within tolerance after 0 steps")
    assert_equal(state.params, params)


@pytest.mark.slow
def test_lbfgs_ends_after_as_many_evaluations_as_it_may_have(lbfgs):
    setup, _, params = lbfgs
    stage = LBFGS(steps=30, evaluations=12, block=10).build(setup)
    state, _, reason = run(stage, params)
    assert reason.reason is StopReason.STEPS
    assert str(reason) == f"12 evaluations done in {int(state.step)} steps"
    assert 0 < int(state.step) <= int(state.evaluations) == 12


def rough(noise, num=64):
    """A stiff sum of squares whose residuals jitter with every digit, as in single precision.

    Stiff directions are almost at their optimum already, so that steepest descent goes nowhere.
    """
    rng = np.random.default_rng(0)
    scales = jnp.asarray(np.logspace(0, -2, num), jnp.float32)
    turn = jnp.asarray(np.linalg.qr(rng.normal(size=(num, num)))[0], jnp.float32)

    def value(params):
        x = turn @ params["x"]
        r = scales * x + noise * jnp.sin(1e6 * jax.lax.stop_gradient(x))
        loss = jnp.sum(r * r)
        return loss, {"equation": loss}

    return value, {"x": turn.T @ jnp.where(scales > 0.1, 1e-3, 1.0)}


@pytest.mark.slow
def test_lbfgs_goes_on_after_a_search_that_rounding_cut_short(monkeypatch, optimised):
    """One short step must not shorten the ones after it, nor ruin the memory for good."""
    value, params = rough(1e-4)
    monkeypatch.setattr(optimiser_lbfgs, "objective", lambda *args: value)
    stage = LBFGS(steps=600, block=600).build(make(Decay()))
    state, _, _ = run(stage, params)
    assert float(value(params)[0]) > 6e-2
    assert float(state.loss) < 6e-5  # began at the last length, it ends above 2e-4


def test_the_compact_inverse_hessian_is_that_of_bfgs(x64):
    """Against the dense updates H <- V' H V + s s', with one more pair than it remembers."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(9, 9))
    hessian, memory = root @ root.T + np.eye(9), 4
    vector, pairs, kept = rng.normal(size=9), no_pairs(memory, jnp.zeros(9)), []
    np.testing.assert_array_equal(times_inverse_hessian(pairs, jnp.asarray(vector)), vector)
    for _ in range(memory + 2):
        step = rng.normal(size=9)
        kept = [*kept, (step, hessian @ step)][-memory:]
        pairs = with_pair(pairs, jnp.asarray(step), jnp.asarray(hessian @ step))
        s, y = kept[-1]
        dense = np.eye(9) * (s @ y) / (y @ y)
        for s, y in kept:
            project = np.eye(9) - np.outer(y, s) / (s @ y)
            dense = project.T @ dense @ project + np.outer(s, s) / (s @ y)
        found = times_inverse_hessian(pairs, jnp.asarray(vector))
        np.testing.assert_allclose(found, dense @ vector, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_lbfgs_draws_lambda_anew_and_keeps_its_points():
    setup = make(Decay(), quadrature=Sampling(6, 2, 3, "frozen"))
    stage = LBFGS(steps=4, block=3, redraw=2).build(setup)
    state, infos, reason = run(stage, start(setup))
    assert len(infos) == 2  # after 2 and 4 steps
    assert str(reason).startswith("4 steps done, ")
    first, other = (
        setup.draw(jax.random.fold_in(KEY, epoch), setup.quadrature) for epoch in (0, 1)
    )
    assert_equal(first["interior"].coordinates, other["interior"].coordinates)
    assert not np.array_equal(first["interior"].parameters, other["interior"].parameters)
    np.testing.assert_allclose(
        infos[-1]["loss"], objective(setup, other)(state.params)[0], rtol=1e-5
    )


@pytest.mark.slow
def test_lbfgs_leaves_a_draw_that_gains_nothing_any_more(monkeypatch):
    """In single precision a draw is exhausted long before the next one is due."""
    setup = make(Decay(), quadrature=Sampling(6, 2, 3, "frozen"))
    params = start(setup)

    def flat(*_):
        def value(params):
            loss = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(params))
            return 1.0 + loss - jax.lax.stop_gradient(loss), {"equation": loss}

        return value

    monkeypatch.setattr(optimiser_lbfgs, "objective", flat)
    stage = LBFGS(steps=40, block=20, redraw=10, patience=3).build(setup)
    state, infos, reason = run(stage, params)
    assert len(infos) == 4  # one for each draw
    assert reason.reason is StopReason.PRECISION
    assert str(reason).startswith("no decrease left in float32 after 33 steps, draw 4, ")
    assert_equal(state.params, params)


@pytest.mark.slow
def test_lbfgs_goes_on_with_the_weights_that_were_learnt():
    points = Sampling(6, 2, 1, "frozen")
    setup = make(Decay().at(k=1.0), weighting=SelfAdaptive(), sampling=points, quadrature=points)
    params = start(setup)
    adam = Adam(steps=5, block=5).build(setup)
    learnt = adam.learnt(run(adam, params)[0])
    for weighted in (False, True):
        stage = LBFGS(steps=2, block=2, weighted=weighted).build(setup)
        state = stage.adopt(stage.init(params, KEY), learnt)
        memory = learnt if weighted else None
        loss = objective(setup, setup.fixed(points), memory)(params)[0]
        np.testing.assert_allclose(state.loss, loss, rtol=1e-6)
        assert int(stage.advance(state)[0].step) == 2
    assert float(np.ptp(learnt["raw"]["equation"])) > 0


# -- Reverting -----------------------------------------------------------------------------------


class JumpState(NamedTuple):
    params: object
    step: int


@dataclasses.dataclass(frozen=True)
class Jump(Phase):
    """A phase that ends wherever it is told to."""

    to: object

    def build(self, setup):
        def init(params, key):
            return JumpState(params, 0)

        def advance(state) -> tuple[JumpState, Info]:
            return JumpState(self.to, 1), {"loss": 0.0, "terms": {}}

        def stopped(state, info):
            return Stop(StopReason.STEPS, "jumped") if state.step else None

        return Stage(1, init, advance, stopped, keep)


@pytest.fixture(scope="module")
def better_and_worse():
    setup = make(Decay())
    loss = held_out_loss(setup)
    one, other = sorted((start(setup, 0), start(setup, 1)), key=loss)
    assert loss(one) < loss(other)
    return setup, one, other, loss


def test_revert_keeps_what_is_better(better_and_worse):
    setup, better, worse, loss = better_and_worse
    stage = RevertOnWorse(Jump(better)).build(setup)
    state, _, reason = run(stage, worse)
    params, note = stage.finish(state)
    assert str(reason) == "jumped"
    assert_equal(params, better)
    assert note == f"held-out objective {loss(worse):.3e} -> {loss(better):.3e}, kept"


@pytest.mark.parametrize("poison", [1.0, np.nan], ids=["worse", "nan"])
def test_revert_goes_back_from_what_is_worse(better_and_worse, poison):
    setup, better, worse, _ = better_and_worse
    stage = RevertOnWorse(Jump(jax.tree.map(lambda a: a * poison, worse))).build(setup)
    state, _, _ = run(stage, better)
    params, note = stage.finish(state)
    assert_equal(params, better)
    assert note.endswith("reverted")


def test_revert_keeps_what_is_equal(better_and_worse):
    setup, better, _, _ = better_and_worse
    stage = RevertOnWorse(Jump(better)).build(setup)
    assert stage.finish(run(stage, better)[0])[1].endswith("kept")


@pytest.mark.slow
def test_reverting_by_the_reference_is_by_its_error():
    """Asked for by name: the error falls where the held-out objective rises."""
    setup = make(Decay(), "float32", Fixed({"start": 0.0}))
    error = reference_error(setup, 5)
    params = start(setup)
    settings, x = np.linspace(0.5, 2.0, 5), np.linspace(0, 1, 17)
    orders = Orders.closure((), 1)

    def at(k):
        zeros = jnp.zeros((1, 17))
        arrays = (x[None, :, None], [[k]], jnp.zeros((1, 0)), zeros, zeros[..., None])
        points = Points(*(jnp.asarray(a, jnp.float32) for a in arrays))
        return np.asarray(setup.problem.outputs(params, points, orders)[0, 0, :, 0])

    gaps = [np.linalg.norm(at(k) - np.exp(-k * x)) / np.linalg.norm(np.exp(-k * x))
            for k in settings]  # fmt: skip
    assert error(params) == pytest.approx(float(np.mean(np.array(gaps))), rel=1e-4)
    worse = jax.tree.map(lambda leaf: leaf + 100.0, params)
    stage = RevertOnWorse(Jump(worse), 5).build(setup)
    after, note = stage.finish(stage.advance(stage.init(params, KEY))[0])
    assert note.startswith("error ")
    assert note.endswith(", reverted")
    assert_equal(after, params)


def test_revert_undoes_a_ruinous_adam():
    setup = make(Decay())
    stage = RevertOnWorse(Adam(steps=4, rate=50.0, final_rate=50.0, block=2)).build(setup)
    params = start(setup)
    before = jax.tree.map(np.array, params)  # a copy: Adam may take the buffers over
    state, _, _ = run(stage, params)
    after, note = stage.finish(state)
    assert note.endswith("reverted")
    assert_equal(after, before)
    assert not np.array_equal(state.params["layers"][0]["w"], before["layers"][0]["w"])


@pytest.mark.slow
def test_wrappers_nest_in_either_order():
    """Each keeps the state of what it wraps apart from its own."""
    rows = Sampling(20, 4, 1, "collocation")
    phase = Restarts(GaussNewton(sampling=rows, steps=4, dampings=3, block=2), starts=2, trial=2)
    with jax.enable_x64(True):
        setup = make(Decay(), "float64")
        stage = RevertOnWorse(phase).build(setup)
        params = start(setup)
        state, infos, reason = run(stage, params)
        kept, note = stage.finish(state)
        assert_equal(state.start, params)
        assert_keeps_its_types(stage, params)
    assert str(reason) == "4 steps done of the last start, 6 in all"
    # The first call is one step; two are a trial of the first start.
    assert [info["start"] for info in infos] == [1, 2, 2, 2, 2]
    assert "best of 2 starts held-out objective" in note
    assert note.endswith("kept")
    assert not np.array_equal(kept["layers"][0]["w"], params["layers"][0]["w"])


def test_restarts_need_a_phase_that_looks_at_held_out_rows():
    setup = make(Decay())
    with pytest.raises(lc.LcpinnError, match="Restarts compares held-out losses, and Adam has non"):
        Restarts(Adam(steps=4)).build(setup).init(start(setup), KEY)


# -- Values that are not finite ------------------------------------------------------------------


class Edge(lc.Family):
    """√(u + k - 1.25) = 0: the best solution lies on the edge of what has a value at all."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))

    @lc.interior
    def equation(self, u, k):
        return jnp.sqrt(u + k - 1.25)


def constant(setup, value):
    """A network that is this number everywhere."""
    params = jax.tree.map(jnp.zeros_like, start(setup))
    params["layers"][-1]["b"] += value
    return params


def assert_names_the_lambda(error):
    found = re.fullmatch(r"the term 'equation' is NaN .* at x = (\S+), k = (\S+) \(.*", str(error))
    assert found, error
    assert 0 <= float(found[1]) <= 1
    assert 0.5 <= float(found[2]) < 1.25  # where the root of k - 1.25 is NaN


@pytest.mark.slow
def test_adam_stops_at_a_nan_with_the_state_as_it_was(monkeypatch):
    setup, seen = make(Edge()), []
    describe = optimiser_adam.describe_nonfinite
    spy = lambda *args: seen.append(args[1]) or describe(*args)
    monkeypatch.setattr(optimiser_adam, "describe_nonfinite", spy)
    with pytest.raises(lc.LcpinnError) as error:
        run(Adam(steps=40, block=40).build(setup), constant(setup, 0.0))
    assert_names_the_lambda(error.value)
    assert_equal(seen[0], constant(setup, 0.0))


@pytest.mark.slow
def test_lbfgs_names_a_nan_and_never_ends_in_one():
    setup = make(Edge(), quadrature=Sampling(interior=6, num_lambda=2, rule="gauss"))
    stage = LBFGS(steps=60, block=60).build(setup)
    with pytest.raises(lc.LcpinnError) as error:
        run(stage, constant(setup, 0.0))
    assert_names_the_lambda(error.value)

    state, infos, _ = run(stage, constant(setup, 3.0))  # everywhere positive to begin with
    assert float(infos[-1]["loss"]) < 2.0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


class Steep(Decay):
    """Finite, but the root of zero has no derivative: at one end of k alone."""

    @lc.interior
    def equation(self, u, u_x, k):
        return u_x + k * u + jnp.sqrt(0.0 * u + jnp.where(k < 0.9, 0.0, 1.0)) - 1.0


@pytest.mark.slow
def test_lbfgs_names_a_derivative_that_is_nan_before_it_takes_a_step():
    setup = make(Steep(), quadrature=Sampling(interior=6, num_lambda=2, rule="gauss"))
    stage, params = LBFGS(steps=6, block=3).build(setup), constant(setup, 0.0)
    state = stage.init(params, jax.random.PRNGKey(0))
    with pytest.raises(lc.LcpinnError, match=r"the derivative of the term 'equation' by the netwo"):
        stage.advance(state)
    assert stage.stopped(state, {}) is None
    after, _ = stage.run(state)
    assert_equal(after.params, params)


@pytest.mark.slow
def test_what_cannot_be_compared_is_named():
    """Rows that decide between parameters are NaN before and after."""
    setup = make(Edge(), quadrature=Sampling(interior=6, num_lambda=2, rule="gauss"))
    stage = RevertOnWorse(LBFGS(steps=2, block=2)).build(setup)
    state = stage.init(constant(setup, 0.0), jax.random.PRNGKey(0))
    with pytest.raises(lc.LcpinnError) as error:
        stage.finish(state)
    assert_names_the_lambda(error.value)


# -- The smoke protocol --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_smoke_lowers_the_loss_of_every_family(name):
    protocol = lc.protocol.smoke(FAMILIES[name]())
    solution = lc.train(FAMILIES[name](), protocol, seed=0, progress=False, report=False)
    family = solution.family  # as it was trained
    setup = make_setup(family, protocol)
    # What training started from: the trainer draws it from the seed's key.
    params = setup.problem.drawing(once=True)(jax.random.fold_in(jax.random.PRNGKey(0), 0))
    batch = fixed(family, setup.held_out, jnp.float32)
    loss = quick(lambda p: objective(setup, batch)(p)[0])
    assert loss(solution.params) < 0.9 * loss(params)
    assert len(solution.run["training"]["stopped"]) == len(protocol.phases)
