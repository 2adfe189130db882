"""The default training: what it chooses, what it reaches, and that it can be interrupted."""

import dataclasses
import itertools
import json
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Coupled, Oscillator, of_kind

import lcpinn as lc
from lcpinn.certificate import Estimate
from lcpinn.families import FAMILIES
from lcpinn.known_series import KnownSeries
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import (
    GaussNewton,
    ModelDriven,
    NonMonotone,
    Restarts,
    Stage,
    Stop,
    StopReason,
)
from lcpinn.optimiser.resampling import Resampling
from lcpinn.optimiser.rounds import HeldOut
from lcpinn.optimiser.stage import Info
from lcpinn.protocol import Protocol, fast
from lcpinn.sampling import Sampling
from lcpinn.training import make_setup
from lcpinn.weighting import Fixed


class Bar(lc.Family):
    """u'' = -a² sin(a x), u(0) = 0, u(1) = sin(a), for every a: the solution is sin(a x)."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(a=(1.0, 3.0))

    @lc.interior
    def equation(self, u_xx, x, a):
        return u_xx + a**2 * jnp.sin(a * x)

    @lc.on(x=0.0)
    def left(self, u):
        return u

    @lc.on(x=1.0)
    def right(self, u, a):
        return u - jnp.sin(a)

    def exact(self, x, a):
        return jnp.sin(a * x)


class Bent(Bar):
    @lc.interior
    def equation(self, u, u_xx, x, a):
        return u_xx + u * u


SMALL = GaussNewton(
    sampling=Sampling(120, 20, 1, "collocation"), steps=40, solver="qr", dampings=5, block=4
)


def small(phase, widths=(8, 8)):
    return Protocol(
        name="small",
        network=MLP(widths, "sine", FiLM(0, 3), frequency_scale=2.0),
        weighting=Fixed({}),
        phases=(phase,),
        held_out=Sampling(128, 16, 1, "collocation", seed=9),
        dtype="float64",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "linear"),
    [
        (Bar(), True),
        (Bent(), False),
        (Oscillator(), True),
        (Coupled(), True),
        (FAMILIES["helmholtz-3d"](), True),
        (FAMILIES["burgers"](), False),
        (FAMILIES["buckley-leverett"](), False),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_linear_equations_are_known_as_such(family, linear):
    assert family.is_linear() is linear
    smooth = linear or family.domain.dim == 1
    network = fast(family).network
    assert isinstance(network, MLP)
    assert network.activation == ("sine" if smooth else "tanh")


@pytest.mark.slow
def test_soft_conditions_reach_many_digits():
    longer = dataclasses.replace(SMALL, sampling=Sampling(600, 60, 1, "collocation"), steps=80)
    solution = lc.train(Bar(), small(longer, (12, 12)), progress=False, report=False)
    error = solution.evaluate()
    # 350 parameters and seconds: far below what first-order training reaches at all.
    assert error["mean"] < 1e-6
    assert error["dense_max"] < 1e-5


def test_steps_take_the_place_of_the_clock():
    ends = lambda **given: of_kind(GaussNewton, fast(Bar(), **given).phases[0].innermost)
    assert (ends().steps, ends().seconds) == (3000, 50.0)
    assert (ends(steps=7).steps, ends(steps=7).seconds) == (7, None)
    both = ends(steps=7, seconds=30.0)
    assert (both.steps, both.seconds) == (7, 30.0)


@pytest.mark.slow
def test_two_runs_without_a_clock_are_equal(tmp_path):
    """And their first call takes one step, so that there is something to see."""
    protocol = small(Restarts(dataclasses.replace(SMALL, steps=10), starts=1))
    places = [tmp_path / name for name in ("one", "other")]
    one, other = (
        lc.train(Bar(), protocol, seed=3, progress=False, report=False, out=place)
        for place in places
    )
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    logs = [(place / "metrics.jsonl").read_text() for place in places]
    assert logs[0] == logs[1]
    assert [json.loads(line)["step"] for line in logs[0].splitlines()] == [1, 4, 8, 10]
    assert "10 steps done" in one.run["training"]["stopped"][0]


class Fit(lc.Family):
    """Nothing holds inside: a curve through observations, and a condition at one end."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))
    data = lc.Data(x=[0.0, 0.5, 1.0], k=[1.0, 1.0, 1.0], u=[1.0, 2.0, 4.0])

    @lc.on(x=1.0)
    def end(self, u, k):
        return u - 4.0


@pytest.mark.slow
def test_a_family_without_an_interior_term_is_a_fit(tmp_path):
    """There is nothing to resample, and no equation to estimate an error by."""
    family = Fit()
    timed = dataclasses.replace(SMALL, sampling=Sampling(8, 4, 1, "collocation"), steps=12)
    protocol = small(Restarts(timed, starts=1))
    solution = lc.train(family, protocol, progress=False, out=tmp_path / "run")
    assert float(solution(x=0.5, k=1.0)) == pytest.approx(2.0, abs=1e-3)
    (stopped,) = solution.run["training"]["stopped"]
    assert "1 rounds" in stopped or "12 steps done" in stopped
    estimate = solution.estimate(k=1.0)
    assert np.isnan(estimate.error)
    assert estimate.reason == "no equation holds inside of the domain"


@pytest.mark.slow
def test_the_held_out_loss_chooses_the_parameters():
    """What is returned is the best that was seen, not the last."""
    family = Bar()
    with jax.enable_x64(True):
        setup = make_setup(family, small(SMALL))
        stage = SMALL.build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(0))
        state = stage.init(params, jax.random.PRNGKey(1))
        seen = []
        for _ in range(4):
            state, info = stage.advance(state)
            seen.append(float(info["validation"]))
        assert float(state.held_out.best) == min(seen)
        spoilt = state._replace(params=jax.tree.map(lambda a: a + 1.0, state.params))
        kept, note = stage.finish(spoilt)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), kept, state.best))
        assert f"{min(seen):.2e}" in note


@pytest.mark.slow
def test_a_round_that_overfits_is_resampled():
    """Rows too few for the network: the held-out loss says so, and half of the rows are renewed."""
    few = dataclasses.replace(SMALL, sampling=Sampling(16, 4, 1, "collocation"), patience=3)
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(few))
        stage = few.build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(0))
        state = stage.init(params, jax.random.PRNGKey(1))
        first = np.asarray(state.batch["interior"].coordinates)
        while int(state.round) == 0:
            state, info = stage.advance(state)
            assert stage.stopped(state, info) is None
        after = np.asarray(state.batch["interior"].coordinates)
        np.testing.assert_array_equal(after[:8], first[:8])
        assert not np.isin(after[8:], first).any()


@pytest.mark.slow
def test_what_is_compiled_ahead_gives_the_same_rows(monkeypatch):
    """As beside an accelerator, where a new round would wait for the compiler."""
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(SMALL))
        state = stage_of(setup, SMALL)
        known = KnownSeries(setup.problem, None)
        at_once = Resampling(setup, known, 0.5)
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        ahead = Resampling(setup, known, 0.5)
        monkeypatch.undo()
        before = ahead.drawn
        at_once.compile_ahead(state)
        ahead.compile_ahead(state)
        assert ahead.drawn is not before
        assert ahead.ahead is at_once.ahead is False
        for num in (4, 8):
            one, other = (each.of(state, num)["interior"] for each in (at_once, ahead))
            jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.fixture(scope="module")
def begun():
    """A stage before its first step."""
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(SMALL))
        return SMALL.build(setup), stage_of(setup, SMALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held_out", "last", "over"),
    [(1.5, np.inf, True), (3.0, np.inf, False), (3.0, 3.1, True), (3.0, 9.0, False)],
    ids=["not overfitted", "overfitted", "as low as before", "lower than before"],
)
def test_a_round_that_stagnates_is_the_last_unless_other_rows_would_help(
    held_out, last, over, begun
):
    with jax.enable_x64(True):
        stage, state = begun
        going = state._replace(held_out=HeldOut(*map(jnp.asarray, (held_out, held_out, last))))
        level = state.pace._replace(history=jnp.ones_like(state.pace.history))
        flat = going._replace(loss=jnp.ones(()), pace=level)
        stop = stage.stopped(flat, {})
        assert (stop is not None) == over
        if stop is not None:
            assert stop.reason is StopReason.STAGNATION
            assert str(stop) == "stagnated after 0 steps, 1 rounds"
        assert stage.stopped(going, {}) is None


@pytest.mark.slow
def test_a_training_may_rise_before_it_falls():
    """The loss goes up in between; stagnation is judged by the lowest one so far."""
    loose = dataclasses.replace(SMALL, acceptance=NonMonotone(11.0), patience=8, block=1)
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(loose))
        stage = loose.build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(0))
        state, seen, held = stage.init(params, jax.random.PRNGKey(1)), [], []
        for _ in range(20):
            state, info = stage.advance(state)
            seen.append(float(info["loss"]))
            held.append(float(info["validation"]))
            assert (np.diff(state.pace.history[np.isfinite(state.pace.history)]) <= 0).all()
        assert any(later > before for before, later in itertools.pairwise(seen))
        assert float(state.loss) == seen[-1]
        _, note = stage.finish(state)
        assert f"{min(held):.2e}" in note


@pytest.mark.slow
def test_a_training_explores_before_it_descends():
    """The model loss falls while the loss does not; the end of the time ends it too."""
    with jax.enable_x64(True):
        explore = dataclasses.replace(
            SMALL, acceptance=ModelDriven(), radius=0.03, patience=5, block=1, steps=200
        )
        setup = make_setup(Bar(), small(explore))
        stage = explore.build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(0))
        state, seen = stage.init(params, jax.random.PRNGKey(1)), []
        while bool(state.exploring):
            state, info = stage.advance(state)
            seen.append(float(info["loss"]))
            assert stage.stopped(state, info) is None
            assert int(state.round) == 0
        highest = max(seen[2:])
        assert not np.isfinite(np.asarray(state.pace.history)).any()  # from now on by the loss
        for _ in range(15):
            state, info = stage.advance(state)
        assert float(info["loss"]) < 1e-6 * highest

        few = dataclasses.replace(explore, steps=20).build(setup)  # would explore for longer
        state = few.init(params, jax.random.PRNGKey(1))
        while few.stopped(state, {}) is None:
            state, _ = few.advance(state)
            # It comes down in the last twelve.
            assert bool(state.exploring) == (int(state.step) <= 9)
        assert int(state.step) == 20

        timed = dataclasses.replace(explore, seconds=3600.0, block=5)
        stage = timed.build(setup)
        state = stage.init(params, jax.random.PRNGKey(1))
        state, _ = stage.advance(state)
        assert bool(state.exploring)
        slow = state._replace(step_seconds=jnp.asarray(3600.0 / 3))  # three steps are left
        slow, _ = stage.advance(slow)
        assert not bool(slow.exploring)
        assert int(slow.step) == int(state.step) + 3


@pytest.mark.slow
def test_rounding_is_the_end_of_it():
    """No further start where the residual cannot get smaller."""
    family, quick = Bar(), small(SMALL)
    with jax.enable_x64(True):
        setup = make_setup(family, quick)
        timed = dataclasses.replace(SMALL, seconds=3600.0, steps=60)
        stage = timed.build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(0))
        state, info = stage.advance(stage.init(params, jax.random.PRNGKey(1)))
        assert not state.at_rounding
        held_out = state.held_out._replace(best=1e-27 * state.initial_loss)
        flat = state.pace._replace(history=jnp.full_like(state.pace.history, 1e-29))
        done = state._replace(held_out=held_out, pace=flat)
        stop = stage.stopped(done, info)
        assert stop.reason is StopReason.ROUNDING
        assert "nothing but rounding is left" in str(stop)
        # Where it explored, a descent after the contraction is not waited for.
        exploring = dataclasses.replace(timed, acceptance=ModelDriven()).build(setup)
        unjudged = state.pace._replace(history=jnp.full_like(state.pace.history, jnp.inf))
        low = done._replace(pace=unjudged)
        assert exploring.stopped(low, info).reason is StopReason.ROUNDING
        contracting = low._replace(pace=unjudged._replace(contraction=jnp.asarray(0.01)))
        assert exploring.stopped(contracting, info) is None
        assert stage.stopped(low, info) is None
        restarts = Restarts(timed, starts=1)
        whole = restarts.build(setup).init(params, jax.random.PRNGKey(1))
        whole = whole._replace(start=1, seconds_at_begin=3600.0)
        assert restarts._further(whole._replace(inner=state), {"seconds_left": 3000.0})
        assert not restarts._further(whole._replace(inner=done), {"seconds_left": 3000.0})


@pytest.mark.slow
def test_building_starts_neither_a_clock_nor_a_compilation(monkeypatch):
    """Both begin with the first start; the next ones share them."""
    compiled = []
    monkeypatch.setattr(
        "lcpinn.optimiser.rounds.in_background",
        lambda lowered: compiled.append(lowered) or (lambda: None),
    )
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with jax.enable_x64(True):
        timed = dataclasses.replace(SMALL, seconds=10.0)
        setup = make_setup(Bar(), small(timed))
        stage = timed.build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(0))
        assert not compiled
        now[0] = 200.0
        state = stage.init(params, jax.random.PRNGKey(1))
        assert len(compiled) == 1
        now[0] = 209.0
        assert stage.stopped(state, {}) is None
        again = stage.init(params, jax.random.PRNGKey(2))
        assert len(compiled) == 1
        now[0] = 211.0
        assert stage.stopped(again, {}).reason is StopReason.TIME


def stage_of(setup, phase):
    params = setup.problem.drawing()(jax.random.PRNGKey(0))
    return phase.build(setup).init(params, jax.random.PRNGKey(1))


def mark(params):
    """What tells one start from another (the generators all start at zero)."""
    return float(params["layers"][0]["w"][0, 0])


def at_loss(value):
    """Held-out losses of a start that has not stagnated."""
    return HeldOut(*(np.asarray(v) for v in (value, value, np.inf)))  # pyright: ignore[reportArgumentType]


class Fake(NamedTuple):
    """What Restarts looks at in the state of a phase."""

    params: Any
    step: int = 0
    held_out: HeldOut = at_loss(np.inf)
    at_rounding: bool = False

    @property
    def best(self):
        return self.params


def fake(losses):
    """A stage of six steps whose held-out loss is known: the start's own, divided by the step."""

    def advance(state) -> tuple[Fake, Info]:
        step = state.step + 1
        loss = losses[mark(state.params)] / step
        after = state._replace(step=step, held_out=at_loss(loss))
        return after, {"validation": loss}

    def stopped(state, info):
        return Stop(StopReason.STEPS, "done") if state.step >= 6 else None

    return Stage(
        6, lambda params, key: Fake(params), advance, stopped, lambda state: (state.params, "fake")
    )


def test_the_best_start_goes_on(monkeypatch):
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(SMALL))
        keys = [jax.random.fold_in(jax.random.PRNGKey(5), i) for i in range(3)]
        starts = [setup.problem.drawing()(key) for key in keys]
        losses = dict(zip(map(mark, starts), (3.0, 1.0, 2.0), strict=True))
        monkeypatch.setattr(GaussNewton, "build", lambda self, setup: fake(losses))
        restarts = Restarts(SMALL, starts=3, trial=2).build(setup)
        state, info = restarts.init(starts[0], jax.random.PRNGKey(5)), Info()
        while restarts.stopped(state, info) is None:
            state, info = restarts.advance(state)
        params, note = restarts.finish(state)
        assert mark(params) == mark(starts[1])
        # Three trials of two steps, and four more of the winner.
        assert int(state.step) == 10
        assert note == "fake, best of 3 starts"


@pytest.mark.slow
def test_time_that_is_left_goes_into_further_starts(monkeypatch):
    """A start that is over is followed by others; the best of all is the result."""
    timed = dataclasses.replace(SMALL, seconds=60.0)
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(timed))
        keys = {i: jax.random.fold_in(jax.random.PRNGKey(5), i) for i in (0, 2, 3, 4)}
        starts = {i: setup.problem.drawing()(key) for i, key in keys.items()}
        # Number one is the first start going on, which is none of its own.
        losses = {mark(starts[0]): 3.0, mark(starts[2]): 2.0, mark(starts[3]): 1.0}
        losses[mark(starts[4])] = 0.5
        clock = iter(range(59, 0, -3))  # three seconds for every step

        def with_clock(self, setup):
            inner = fake(losses)

            def advance(state):
                state, info = inner.advance(state)
                return state, {**info, "seconds_left": float(next(clock))}

            return inner._replace(advance=advance)

        monkeypatch.setattr(GaussNewton, "build", with_clock)
        restarts = Restarts(timed, starts=1, trial=2, max_starts=6).build(setup)
        state, info = restarts.init(starts[0], jax.random.PRNGKey(5)), Info()
        while restarts.stopped(state, info) is None:
            state, info = restarts.advance(state)
        params, note = restarts.finish(state)
        # 18 seconds for each: the third ends with 8 left, too few for a fourth.
        assert (mark(params), note) == (mark(starts[3]), "fake, best of 3 starts")


def test_a_start_that_stagnates_makes_room(monkeypatch):
    """One that has stopped gaining is left for another, while there is time for as long a one."""
    timed = dataclasses.replace(SMALL, seconds=60.0)
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(timed))
        clock = iter(range(1000, 0, -1))
        stuck = []

        def build(self, setup):
            def advance(state) -> tuple[Fake, Info]:
                step = state.step + 10
                # The first start halves its loss up to its fortieth step; the second goes on.
                first = mark(state.params) == stuck[0]
                loss = 2.0 ** -(min(step, 40) if first else step)
                info: Info = {"validation": loss, "seconds_left": float(next(clock))}
                return state._replace(step=step, held_out=at_loss(loss)), info

            def stopped(state, info):
                return Stop(StopReason.STEPS, "done") if state.step >= 300 else None

            return Stage(
                300,
                lambda params, key: Fake(params),
                advance,
                stopped,
                lambda state: (state.params, "fake"),
            )

        monkeypatch.setattr(GaussNewton, "build", build)
        restarts = Restarts(timed, starts=1, trial=0, max_starts=2).build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(0))
        stuck.append(mark(params))
        state, info = restarts.init(params, jax.random.PRNGKey(5)), Info()
        steps = []
        while restarts.stopped(state, info) is None:
            state, info = restarts.advance(state)
            steps.append(int(state.step))
        # Marks at 30, 50 and 80 steps: by the third it has gained nothing since the second.
        assert steps[-1] == 80 + 300
        found, note = restarts.finish(state)
        assert mark(found) != stuck[0]
        assert note == "fake, best of 2 starts"


def test_a_small_residual_with_a_wrong_solution_is_no_success(monkeypatch):
    """The estimated error decides between starts; while it is large, others follow, `most` or not.

    The first two starts have the lowest held-out losses, and are wrong.
    """
    timed = dataclasses.replace(SMALL, seconds=60.0)
    with jax.enable_x64(True):
        setup = make_setup(Bar(), small(timed))
        keys = {i: jax.random.fold_in(jax.random.PRNGKey(5), i) for i in (0, 2, 3)}
        starts = {i: setup.problem.drawing()(key) for i, key in keys.items()}
        losses = dict(zip(map(mark, starts.values()), (1.0, 2.0, 3.0), strict=True))
        errors = dict(zip(map(mark, starts.values()), (0.5, 0.4, 1e-4), strict=True))
        clock = iter(range(1000, 0, -1))

        def with_clock(self, setup):
            inner = fake(losses)

            def advance(state):
                state, info = inner.advance(state)
                return state, {**info, "seconds_left": float(next(clock))}

            return inner._replace(advance=advance)

        monkeypatch.setattr(GaussNewton, "build", with_clock)
        judge = lambda params: Estimate(errors[mark(params)])
        monkeypatch.setattr("lcpinn.optimiser.restarts.worst_case", lambda problem: judge)
        # One start is allowed; two more come because the first two are in doubt.
        restarts = Restarts(timed, starts=1, trial=2, max_starts=1).build(setup)
        state, info = restarts.init(starts[0], jax.random.PRNGKey(5)), Info()
        state, info = restarts.advance(state)
        assert "estimated error 5.0e-01 (doubtful)" in restarts.finish(state)[1]
        while restarts.stopped(state, info) is None:
            state, info = restarts.advance(state)
        params, note = restarts.finish(state)
        assert (mark(params), note) == (
            mark(starts[3]),
            "fake, estimated error 1.0e-04, best of 3 starts",
        )


@pytest.mark.slow
def test_an_interrupted_run_ends_bit_identical(tmp_path):
    """Gauss-Newton's whole state, rows included, is in the checkpoint."""
    protocol = small(Restarts(dataclasses.replace(SMALL, steps=16), starts=2, trial=4))
    quiet = {"progress": False, "report": False}
    whole = lc.train(Bar(), protocol, **quiet, out=tmp_path / "whole")

    class Stop(Exception):
        pass

    calls = []
    build = Restarts.build

    def interrupted(self, setup):
        stage = build(self, setup)

        def advance(state):
            calls.append(1)
            if len(calls) == 4:
                raise Stop
            return stage.advance(state)

        return stage._replace(advance=advance)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Restarts, "build", interrupted)
        with pytest.raises(Stop):
            lc.train(Bar(), protocol, **quiet, out=tmp_path / "cut", checkpoint_every=0)
    again = lc.train(Bar(), protocol, **quiet, out=tmp_path / "cut", resume=True)
    same = jax.tree.map(lambda a, b: bool((a == b).all()), whole.params, again.params)
    assert jax.tree.all(same)
    assert (tmp_path / "cut/metrics.jsonl").read_text() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_text()


def test_a_coefficient_that_is_held_modulates_nothing():
    """The network is that of a page without it; polynomials of it would be of no use."""

    class Damped(lc.Family):
        domain = lc.Box(t=(0.0, 1.0))
        parameters = lc.Uniform(d=(0.0, 1.0), k=(1.0, 2.0))

        @lc.interior
        def equation(self, u_t, u, d, k):
            return u_t + (d + k) * u

        @lc.on(t=0.0)
        def start(self, u):
            return u - 1.0

    held, free = (lc.protocol.fast(f, steps=1).network for f in (Damped().at(d=0.5), Damped()))
    assert of_kind(FiLM, of_kind(MLP, held).parameters).sees == (1,)
    assert of_kind(FiLM, of_kind(MLP, free).parameters).sees == ()
    dims, key = {"parameters": 2}, jax.random.PRNGKey(0)
    shapes = jax.eval_shape(lambda: held.init(key, 1, 1, dims, jnp.float32))
    assert shapes["conditioning"]["parameters"]["w"].shape[0] == 5  # of one coefficient
    layout = held.array_layout(dims)
    assert layout is not None
    (orders,) = layout.tables.values()
    assert orders.tolist() == [[0, i] for i in range(1, 6)]
