"""Rows of regressions: more of them for descents, and denser where a fit is least certain."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Decay, Interrupted, interrupt_after, the

import lcpinn as lc
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import GaussNewton, OwnSolutions, Restarts, rounds
from lcpinn.optimiser.acceptance import ModelDriven
from lcpinn.optimiser.descent_rows import DescentRows
from lcpinn.optimiser.stage import Setup
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, fixed, scatter
from lcpinn.weighting import Fixed

NETWORK = MLP((6, 6), "sine", FiLM(hidden=0, degree=2), frequency_scale=3.0)
FEW = Sampling(120, 4, 1, "collocation")
MANY = Sampling(600, 4, 1, "collocation", seed=7)
EXPLORING = GaussNewton(
    FEW, ModelDriven(), steps=40, solver="qr", patience=4, equilibrated=False, rounds=1
)


def compared(family: lc.Family, *, corners: bool = False, ends: bool = False) -> lc.Family:
    """The family as a regression of sin(8 x k), of its first coordinate and coefficient."""

    def targets(points, parameters):
        value = jnp.sin(8 * jnp.asarray(points)[:, :1] * jnp.asarray(parameters)[:, :1])
        return jnp.concatenate([value, jnp.ones_like(value)], axis=1)

    return family.compared_with(targets, corners=corners, dense_at_ends=ends)


@pytest.fixture(scope="module")
def setup() -> Setup:
    problem = Problem(compared(the(Decay)), NETWORK, jnp.float64)
    return Setup(problem, Fixed({}), None, FEW, MANY)


def test_rows_join_and_part(setup):
    with jax.enable_x64(True):
        batch = setup.fixed(FEW)
        rows = DescentRows(FEW, 50, setup, batch)
        own = batch["interior"]
        num = own.coordinates.shape[0]
        assert rows
        assert not rows.in_batch(batch)
        assert rows.of(batch, descending=False) is batch
        joined = rows.of(batch, descending=True)
        assert rows.in_batch(joined)
        assert joined["interior"].coordinates.shape[0] > num + 40  # a tensor of about fifty
        assert float(joined["interior"].quadrature.sum()) == pytest.approx(1.0)
        assert rows.of(joined, descending=True) is joined
        parted = rows.of(joined, descending=False)["interior"]
        for before, after in zip(own, parted, strict=True):
            if before is not None and after is not None:
                np.testing.assert_allclose(after, before, rtol=1e-15)
        nothing = DescentRows(FEW, 0, setup, batch)
        assert not nothing
        assert nothing.of(batch, descending=True) is batch


def held_out_after(phase: GaussNewton, setup: Setup) -> tuple[float, set[tuple[bool, int]], str]:
    """The lowest held-out loss, which rows exploring and other steps saw, and what is said."""
    stage = phase.build(setup)
    params = setup.problem.drawing()(jax.random.PRNGKey(3))
    state, seen = stage.init(params, jax.random.PRNGKey(1)), set()
    while stage.stopped(state, {}) is None:
        exploring = bool(state.exploring)
        state, _ = stage.advance(state)
        if exploring and bool(state.exploring):
            seen.add((True, state.batch["interior"].coordinates.shape[0]))
        if not exploring:
            seen.add((False, state.batch["interior"].coordinates.shape[0]))
    return float(state.held_out.best), seen, stage.finish(state)[1]


def test_a_descent_on_more_rows_fits_what_lies_between(setup, monkeypatch):
    """As many rows as parameters for the exploration; one program for each number of rows.

    Nothing is resampled: where other rows are drawn, the few happen to be better ones or worse.
    """
    compiled, begin = [], rounds.in_background
    counted = lambda lowered: compiled.append(lowered) or begin(lowered)
    monkeypatch.setattr(rounds, "in_background", counted)
    with jax.enable_x64(True):
        alone = replace(EXPLORING, overfit=1e30)
        few, rows, said = held_out_after(alone, setup)
        assert "more than 100 times that of the rows, which miss something thin" in said
        assert len(compiled) == 1
        many, more, said = held_out_after(replace(alone, descent_rows=300), setup)
        assert said == f"held-out loss {many:.2e}"
        assert len(compiled) == 1 + 2
    assert len({num for _, num in rows}) == 1
    exploring = {num for on, num in more if on}
    descending = {num for on, num in more if not on}
    assert exploring == {num for _, num in rows}
    assert min(descending) > 200
    assert many < 0.3 * few


def test_what_is_known_of_shapes_before_a_run_is_read_again():
    assert not GaussNewton().shapes_vary
    assert Restarts(replace(EXPLORING, descent_rows=9)).shapes_vary
    assert Restarts(OwnSolutions(GaussNewton(), between=True)).shapes_vary
    assert not Restarts(OwnSolutions(GaussNewton())).shapes_vary


def test_a_damping_that_few_rows_have_let_fall_is_chosen_anew():
    """With it no step on more rows lowers their loss, and thirtyfold ones would take too many."""

    def targets(points, parameters):
        value = jnp.exp(-jnp.asarray(points))
        return jnp.concatenate([value, jnp.ones_like(value)], axis=1)

    with jax.enable_x64(True):
        problem = Problem(the(Decay).compared_with(targets), NETWORK, jnp.float64)
        setup = Setup(problem, Fixed({}), None, FEW, MANY)
        stage = replace(EXPLORING, descent_rows=300, steps=60).build(setup)
        params = problem.drawing()(jax.random.PRNGKey(3))
        state = stage.init(params, jax.random.PRNGKey(1))
        while bool(state.exploring):
            state, _ = stage.advance(state)
        assert 0 < float(state.damping) < 1e-24
        before = state
        state, _ = stage.advance(state)
        assert int(state.step) == int(before.step) + 1
        assert float(state.damping) == 0.0
        higher = float(state.loss)
        state, _ = stage.advance(state)
        assert float(state.loss) < 1e-3 * higher
        assert float(state.damping) > 1e-20


@pytest.mark.slow
def test_a_run_that_is_interrupted_in_a_descent_ends_as_the_whole_one(tmp_path, monkeypatch):
    protocol = lc.Protocol(
        name="test",
        network=NETWORK,
        weighting=Fixed({}),
        phases=(replace(EXPLORING, descent_rows=60, steps=25),),
        sampling=None,
        held_out=MANY,
        dtype="float64",
    )

    def run(name, **options):
        quiet = {"progress": False, "report": False}
        return lc.train(Decay(), protocol, out=tmp_path / name, **quiet, **options).params

    whole = run("whole", checkpoint_every=1e9)
    saved = interrupt_after(monkeypatch, 5)
    with pytest.raises(Interrupted):
        run("broken", checkpoint_every=0.0)
    assert not bool(saved[-1][1].exploring)
    resumed = run("broken", checkpoint_every=0.0, resume=True)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        assert one.tobytes() == other.tobytes()


class Tube(lc.Family):
    """Two coordinates, one of them a circle, and four coefficients."""

    domain = lc.Box(x=(0.0, 2.0), s=lc.Periodic(0.0, 1.0))
    parameters = lc.Uniform(a=(0.0, 1.0), b=(0.0, 1.0), c=(0.0, 1.0), d=(0.0, 1.0))

    @lc.interior
    def equation(self, u, u_xx, u_ss, a, b, c, d):
        return a * u_xx + b * u_ss + c * u - d


def test_rows_of_a_regression_lie_denser_at_the_ends_of_coordinates():
    near = lambda x, length: float(np.mean(np.minimum(x, length - x) < 0.02 * length))
    with jax.enable_x64(True):
        taught = compared(Tube(), ends=True)
        batch = fixed(taught, Sampling(4000, 4, 1, "collocation"), np.float64)
        drawn = scatter(taught, 4000, jax.random.PRNGKey(0), np.float64)
        for points in (batch["interior"], drawn):
            x, s = np.asarray(points.coordinates)[:, 0].T
            assert 0.08 < near(x, 2.0) < 0.14  # evenly 0.04, by the arcsine density 0.18
            assert 0.03 < near(s, 1.0) < 0.05
            assert np.mean(x < 1.0) == pytest.approx(0.5, abs=0.02)
            k = np.asarray(points.parameters)[:, 0]
            np.testing.assert_allclose(points.observed[:, 0, 0], np.sin(8 * x * k), atol=1e-12)
        even = fixed(compared(Tube()), Sampling(4000, 4, 1, "collocation"), np.float64)
        assert near(np.asarray(even["interior"].coordinates)[:, 0, 0], 2.0) < 0.05


class Plate(Tube):
    """One coefficient."""

    parameters = lc.Uniform(a=(1.0, 3.0))

    @lc.interior
    def equation(self, u_xx, u_ss, a):
        return a * u_xx + u_ss - 1.0

    @lc.on(x=(0.0, 2.0))
    def sides(self, u):
        return u


def test_some_rows_lie_at_the_very_ends_of_a_coefficient_unless_a_page_says_no():
    without = type("Without", (Plate,), {"setting_corners": False})
    sampling = Sampling(700, 70, 1, "collocation")
    with jax.enable_x64(True):
        batch = fixed(Plate(), sampling, np.float64)
        drawn = scatter(Plate(), 700, jax.random.PRNGKey(0), np.float64)
        even = fixed(without(), sampling, np.float64)
    assert not any(np.any(np.asarray(p.parameters) == 3.0) for p in even.values())
    assert len(batch) == 2
    for points in (*batch.values(), drawn):
        a = np.asarray(points.parameters)[:, 0]
        assert np.mean(a == 1.0) == pytest.approx(1 / 14, abs=0.02)
        assert np.mean(a == 3.0) == pytest.approx(1 / 14, abs=0.02)
    inside = np.asarray(batch["interior"].parameters)[:, 0]
    assert np.unique(inside).size > 0.8 * inside.size  # the others are where they were
    with jax.enable_x64(True):  # and no tensor of Gauss's nodes gets holes
        nodes = fixed(Decay(), sampling, np.float64)["interior"].parameters
    assert np.max(np.asarray(nodes)) < Decay().parameters.ranges["k"][1]


def test_corners_of_the_coefficients_are_all_there_as_often():
    with jax.enable_x64(True):
        taught = compared(Tube(), corners=True)
        batch = fixed(taught, Sampling(2100, 4, 1, "collocation"), np.float64)
    settings = np.asarray(batch["interior"].parameters)
    at_corner = np.all((settings == 0) | (settings == 1), axis=1)
    which, counts = np.unique(settings[at_corner], axis=0, return_counts=True)
    assert len(which) == 16
    assert counts.min() >= 18  # of three hundred
    assert counts.max() <= 20
    # Points of one of them lie all over the domain.
    x = np.asarray(batch["interior"].coordinates)[:, 0, 0][np.all(settings == 0, axis=1)]
    assert len(np.unique(np.floor(x / 0.5))) == 4
