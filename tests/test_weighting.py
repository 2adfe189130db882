"""Adaptive weightings: each against numbers worked out by hand, then under Adam and interrupted."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Coupled, Interrupted, Observed, Oscillator, Poisson, Ring, interrupt_after

import lcpinn as lc
from lcpinn.families import Burgers, Helmholtz
from lcpinn.files import read_arrays
from lcpinn.network import MLP, Concat, FiLM
from lcpinn.optimiser import Adam, Setup
from lcpinn.optimiser.stage import objective
from lcpinn.rows import Problem
from lcpinn.sampling import Points, Sampling, fixed
from lcpinn.spec import from_plain, to_plain
from lcpinn.weighting import Causal, ReLoBRaLo, SelfAdaptive

KEY = jax.random.PRNGKey(3)
EVERY = (SelfAdaptive(), ReLoBRaLo(alpha=0.9, rho=0.5), Causal(eps=0.5, weights={"start": 2.0}))


def gauss(family, dtype=jnp.float64, interior=9, face=4, num_lambda=2):
    return fixed(family, Sampling(interior, face, num_lambda, "gauss"), dtype)


def begin(weighting, family, batch):
    """The first state, and a compiled (state, residuals) -> (weights, next state)."""
    step = jax.jit(lambda state, residuals: weighting.weigh(state, family, batch, residuals))
    return jax.jit(lambda key: weighting.init(family, batch, key))(KEY), step


def weighed(weighting, family, batch, residuals):
    state, step = begin(weighting, family, batch)
    return step(state, residuals)[0]


def constant(family, batch, losses):
    """One component per term, the same at every point, with these mean squares."""
    points = {name: batch[family.terms[name].where].quadrature for name in losses}
    return {
        name: np.full((*q.shape, 1), losses[name] ** 0.5, q.dtype) for name, q in points.items()
    }


def noise(family, batch, seed=0, components=2):
    rng = np.random.default_rng(seed)
    points = {name: batch[term.where].quadrature for name, term in family.terms.items()}
    return {
        name: jnp.asarray(rng.normal(size=(*q.shape, components)), q.dtype)
        for name, q in points.items()
    }


# -- Self-adaptive -------------------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
def test_self_adaptive_weights_by_hand():
    """Adam's recursion, written out, on quadratures that are not uniform."""
    family, rate = Coupled(), 0.1
    batch = gauss(family)
    state, advance = begin(SelfAdaptive(rate=rate), family, batch)
    raw = {n: np.ones(batch[t.where].quadrature.shape) for n, t in family.terms.items()}
    first = {n: np.zeros_like(w) for n, w in raw.items()}
    second = {n: np.zeros_like(w) for n, w in raw.items()}
    for step in range(1, 5):
        residuals = noise(family, batch, seed=step)
        weights, state = advance(state, residuals)
        assert set(weights) == set(family.terms)
        for name, w in raw.items():
            np.testing.assert_allclose(weights[name], w**2, rtol=1e-12)
            q = np.asarray(batch[family.terms[name].where].quadrature)
            slope = 2 * q * w * np.square(residuals[name]).sum(-1) * q.size  # q sums to one
            first[name] = 0.9 * first[name] + 0.1 * slope
            second[name] = 0.999 * second[name] + 0.001 * slope**2
            mean, spread = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
            raw[name] = w + rate * mean / (np.sqrt(spread) + 1e-8)
    assert all(np.all(w > 1.05) for w in raw.values())


def test_self_adaptive_weights_grow_where_the_residual_stays_large():
    """A point that is solved stays at one; one that improves grows less than one that does not."""
    family = Poisson()
    batch = gauss(family, jnp.float32, interior=3, face=2, num_lambda=1)
    state, advance = begin(SelfAdaptive(), family, batch)
    boundary = np.zeros((1, 2, 1), np.float32)
    for step in range(60):
        equation = np.array([0.0, 0.9**step, 1.0], np.float32).reshape(1, 3, 1)
        weights, state = advance(state, {"equation": equation, "boundary": boundary})
    solved, improving, stuck = np.asarray(weights["equation"])[0]
    assert solved == 1
    assert 1 < improving < 1.2 < stuck
    np.testing.assert_allclose(stuck, (1 + 59 * 5e-3) ** 2, rtol=0.02)  # Adam's steps are the rate
    np.testing.assert_array_equal(weights["boundary"], 1)


def test_many_points_do_not_vanish_in_the_epsilon_of_adam():
    family = Poisson()
    batch = fixed(family, Sampling(10_000, 2, 1, "sobol"), jnp.float32)
    residuals = constant(family, batch, {"equation": 1e-6, "boundary": 1e-6})
    state, advance = begin(SelfAdaptive(rate=0.1), family, batch)
    _, state = advance(state, residuals)
    # Times 1e-4, the share of one point, the gradient would be a fiftieth of epsilon.
    np.testing.assert_allclose(state["raw"]["equation"], 1.1, rtol=1e-3)


def test_self_adaptive_weights_belong_to_their_points():
    family, weighting = Poisson(), SelfAdaptive()
    few = gauss(family, jnp.float32, interior=3, num_lambda=1)
    many = gauss(family, jnp.float32, interior=4, num_lambda=1)
    state = weighting.init(family, few, KEY)
    with pytest.raises(lc.LcpinnError) as caught:
        weighting.weigh(state, family, many, noise(family, many))
    assert str(caught.value) == (
        "self-adaptive weights belong to fixed points: those of 'equation' were made for (1, 3), "
        "not (1, 4)"
    )
    with pytest.raises(lc.LcpinnError, match=r"'boundary' were made for \(1, 2\), not no points"):
        weighting.weigh(state, family, few, {"equation": noise(family, few)["equation"]})


# -- ReLoBRaLo -----------------------------------------------------------------------------------

LOSSES = np.array([[4.0, 1.0, 9.0], [2.0, 1.5, 8.0], [1.0, 1.2, 8.4]])  # at steps 0, 1, 2


def relobralo(weighting, losses, dtype=jnp.float64):
    """The weights at every step, terms in the family's order, for given mean squares."""
    family = Coupled()
    batch = gauss(family, dtype)
    state, advance = begin(weighting, family, batch)
    found = []
    for row in losses:
        given = dict(zip(family.terms, row, strict=True))
        weights, state = advance(state, constant(family, batch, given))
        found.append([float(weights[name]) for name in family.terms])
    return np.array(found)


def softmax(scores):
    powers = np.exp(scores)
    return powers / powers.sum()


@pytest.mark.usefixtures("x64")
def test_relobralo_without_look_back_by_hand():
    """rho = 1 remembers the weights of the step before."""
    got = relobralo(ReLoBRaLo(alpha=0.75, tau=0.5, rho=1.0), LOSSES)
    one = 0.75 * np.ones(3) + 0.25 * 3 * softmax(np.array([2 / 4, 1.5 / 1, 8 / 9]) / 0.5)
    two = 0.75 * one + 0.25 * 3 * softmax(np.array([1 / 2, 1.2 / 1.5, 8.4 / 8]) / 0.5)
    np.testing.assert_allclose(got, [np.ones(3), one, two], rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_relobralo_with_look_back_by_hand():
    """rho = 0 compares with the losses of the very first step."""
    got = relobralo(ReLoBRaLo(alpha=0.75, tau=0.5, rho=0.0), LOSSES)
    expected = [np.ones(3)]
    for before, now in itertools.pairwise(LOSSES):
        old, recent = softmax(now / LOSSES[0] / 0.5), softmax(now / before / 0.5)
        expected.append(3 * (0.75 * old + 0.25 * recent))
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    # The term that has grown weighs most, the one that fell to a quarter least.
    assert got[2, 1] > got[2, 2] > got[2, 0]
    np.testing.assert_allclose(got.sum(1), 3, rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_relobralo_looks_back_at_random():
    """With alpha = 1 a step without look-back leaves the weights as they are."""
    losses = np.exp(np.random.default_rng(0).normal(size=(120, 3)))
    got = relobralo(ReLoBRaLo(alpha=1.0, tau=1.0, rho=0.7), losses)
    kept = np.all(got[1:] == got[:-1], axis=1)
    assert 0.55 < kept.mean() < 0.85
    for step in np.flatnonzero(~kept)[:5] + 1:
        np.testing.assert_allclose(got[step], 3 * softmax(losses[step] / losses[0]), rtol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_relobralo_of_a_loss_that_vanishes(dtype, rho):
    dtype = jnp.dtype(dtype)
    weighting = ReLoBRaLo(alpha=0.5, rho=rho)
    # Zero against zero counts as unchanged, like the others; one that reappears takes all, and so
    # far that its exponential would overflow.
    got = relobralo(weighting, [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1e3, 1.0, 1.0]], dtype)
    np.testing.assert_allclose(got[:2], 1, rtol=1e-5)
    expected = [2.0, 0.5, 0.5] if rho else [3.0, 0.0, 0.0]
    np.testing.assert_allclose(got[2], expected, rtol=1e-5, atol=1e-6)


# -- Causal --------------------------------------------------------------------------------------


def at_times(times, high=0.5):
    """An interior batch of `Coupled` (t up to 0.5) with these times (l, n), of equal mass."""
    t = np.asarray(times) * high
    num_lambda, num = t.shape
    coordinates = np.stack([t, np.zeros_like(t)], axis=-1)
    parameters, weights = np.ones((num_lambda, 2)), np.ones((num_lambda, 0))
    quadrature, observed = np.full(t.shape, 1 / t.size), np.ones((num_lambda, num, 0))
    arrays = (coordinates, parameters, weights, quadrature, observed)
    return Points(*map(jnp.asarray, arrays))


@pytest.mark.usefixtures("x64")
def test_causal_weights_by_hand():
    """Four chunks, two lambdas, points in no order, a chunk without points, and t at both ends."""
    family = Coupled()
    times = np.array([[0.9, 0.1, 0.3, 0.0, 1.0], [0.6, 0.8, 0.05, 0.55, 0.45]])
    batch = {**gauss(family), "interior": at_times(times)}
    residuals = noise(family, batch)
    weighting = Causal(eps=0.02, chunks=4, weights={"wall": 7.0})
    weights = weighed(weighting, family, batch, residuals)
    s = np.square(residuals["equation"]).sum(-1)
    sums = [
        [(s[0, 1] + s[0, 3]) / 2 + s[0, 2], 0, (s[0, 1] + s[0, 3]) / 2, 0, None],
        [s[1, 2] + s[1, 4], s[1, 2] + s[1, 4] + (s[1, 0] + s[1, 3]) / 2, 0, None, s[1, 2]],
    ]
    sums[0][4], sums[1][3] = sums[0][0], sums[1][0]  # the same chunk
    np.testing.assert_allclose(weights["equation"], np.exp(-0.02 * 8 * np.array(sums)), rtol=1e-12)
    assert (float(weights["start"]), float(weights["wall"])) == (1.0, 7.0)


@pytest.mark.usefixtures("x64")
def test_causal_weights_fall_with_time_and_are_one_when_residuals_vanish():
    family = Coupled()
    times = np.sort(np.random.default_rng(2).uniform(size=(3, 200)), axis=1)
    batch = {**gauss(family), "interior": at_times(times)}
    residuals = noise(family, batch)
    weights = weighed(Causal(eps=0.05), family, batch, residuals)
    w = np.asarray(weights["equation"])
    assert w.shape == (3, 200)
    assert np.all(np.diff(w, axis=1) <= 0)
    assert np.all(w[times < 1 / 32] == 1)
    assert np.all((w[:, -1] > 0) & (w[:, -1] < 0.1))
    assert len({tuple(row) for row in w}) == 3  # each lambda has its own
    solved = jax.tree.map(np.zeros_like, residuals)
    weights = weighed(Causal(), family, batch, solved)
    np.testing.assert_array_equal(weights["equation"], 1)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("chunks", [2, 16, 32, 64])
def test_causal_weights_do_not_depend_on_the_number_of_chunks(chunks):
    """A residual of one: half of the original's 32 chunks lie before the middle."""
    family = Coupled()
    batch = {**gauss(family), "interior": at_times((np.arange(640)[None] + 0.5) / 640)}
    residuals = constant(family, batch, dict.fromkeys(family.terms, 1.0))
    weights = weighed(Causal(eps=0.1, chunks=chunks), family, batch, residuals)
    np.testing.assert_allclose(
        np.asarray(weights["equation"])[0, 320], np.exp(-0.1 * 16), rtol=1e-12
    )


@pytest.mark.usefixtures("x64")
def test_causal_means_follow_the_quadrature():
    """A point of three times the mass counts three times in the mean of its chunk."""
    family = Coupled()
    points = at_times([[0.1, 0.2, 0.9]])._replace(quadrature=jnp.array([[0.6, 0.2, 0.2]]))
    batch = {**gauss(family), "interior": points}
    equation = np.array([1.0, 2.0, 5.0]).reshape(1, 3, 1)
    weights = weighed(Causal(eps=0.01, chunks=2), family, batch, {"equation": equation})
    expected = [[1, 1, np.exp(-0.01 * 16 * (0.75 * 1 + 0.25 * 4))]]
    np.testing.assert_allclose(weights["equation"], expected, rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_causal_weights_are_shared_by_all_interior_terms():
    class Two(lc.Family):
        domain = lc.Box(x=(0.0, 1.0), t=(0.0, 2.0))
        parameters = lc.Uniform(k=(1.0, 2.0))
        data = lc.Data(x=[0.5], t=[1.0], u=[0.0])

        @lc.interior
        def wave(self, u_t, u_x):
            return u_t - u_x

        @lc.interior
        def decay(self, u_t, u, k):
            return u_t + k * u

    family = Two()
    batch = gauss(family, interior=16)
    residuals = noise(family, batch, components=1)
    weighting = Causal(eps=0.01, chunks=2, weights={"decay": 3.0, "data": 5.0})
    weights = jax.device_get(weighed(weighting, family, batch, residuals))
    both = np.square(residuals["wave"]).sum(-1) + np.square(residuals["decay"]).sum(-1)
    points = jax.device_get(batch["interior"])
    for row in range(2):
        early = points.coordinates[row, :, 1] < 1
        mean = np.average(both[row, early], weights=points.quadrature[row, early])
        expected = np.where(early, 1, np.exp(-0.01 * 16 * mean))
        np.testing.assert_allclose(weights["wave"][row], expected, rtol=1e-12)
        np.testing.assert_allclose(weights["decay"][row], 3 * expected, rtol=1e-12)
    assert float(weights["data"]) == 5.0


def test_causal_weights_of_lone_points_are_one():
    family = Coupled()
    batch = fixed(family, Sampling(8, 4, 1, "sobol"), jnp.float32)
    weights = weighed(Causal(), family, batch, noise(family, batch))
    np.testing.assert_array_equal(weights["equation"], np.ones((8, 1)))


# -- All of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weighting", "family", "message"),
    [
        (
            Causal(),
            Helmholtz(),
            "causal weights need a coordinate t; helmholtz-1d has x",
        ),
        (
            Causal(weights={"strat": 1.0}),
            Oscillator(),
            "causal weights: weight 'strat' names no term; the terms are equation, start, velocity",
        ),
        (Causal(chunks=0), Oscillator(), "causal weights need at least one chunk of t, not 0"),
        (Causal(eps=-1.0), Oscillator(), "causal weights need an eps of zero or more, not -1"),
        (SelfAdaptive(rate=0.0), Poisson(), "self-adaptive weights need a positive rate, not 0"),
        (ReLoBRaLo(tau=0.0), Poisson(), "ReLoBRaLo needs a positive tau, not 0"),
        (ReLoBRaLo(alpha=1.5), Poisson(), "ReLoBRaLo needs alpha in [0, 1], not 1.5"),
        (ReLoBRaLo(rho=float("nan")), Poisson(), "ReLoBRaLo needs rho in [0, 1], not nan"),
    ],
)
def test_bad_settings(weighting, family, message):
    with pytest.raises(lc.LcpinnError) as caught:
        weighting.init(family, {}, KEY)
    assert str(caught.value) == message


@pytest.mark.parametrize("weighting", EVERY)
def test_a_weighting_travels_as_plain_data(weighting):
    assert from_plain(to_plain(weighting)) == weighting
    assert from_plain(to_plain(type(weighting)())) == type(weighting)()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weighting", EVERY)
def test_the_state_survives_a_scan(weighting, dtype):
    """Compiled, scanned and vectorised weights are those of one call after the other."""
    family = Coupled()
    batch = gauss(family, jnp.dtype(dtype))
    start, advance = begin(weighting, family, batch)
    steps = [noise(family, batch, seed) for seed in range(4)]
    stacked = jax.tree.map(lambda *r: np.stack(r), *steps)

    scan = jax.jit(lambda s, r: jax.lax.scan(lambda s, r: advance(s, r)[::-1], s, r))
    last, scanned = jax.device_get(scan(start, stacked))
    assert jax.tree.structure(last) == jax.tree.structure(start)
    for before, after in zip(jax.tree.leaves(start), jax.tree.leaves(last), strict=True):
        assert (before.dtype, before.shape) == (after.dtype, after.shape)

    middle = advance(start, steps[0])[1]
    vectorised = jax.jit(jax.vmap(lambda r: advance(middle, r)[0]))(stacked)
    state = start
    for i, residuals in enumerate(steps):
        weights, state = advance(state, residuals)
        alone = advance(middle, residuals)[0]
        for name, w in weights.items():
            shape = batch[family.terms[name].where].quadrature.shape
            assert np.broadcast_shapes(w.shape, shape) == shape
            assert w.dtype == dtype
            tolerance = 1e-5 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(scanned[name][i], w, rtol=tolerance)
            np.testing.assert_allclose(np.asarray(vectorised[name])[i], alone[name], rtol=tolerance)


@pytest.mark.parametrize("weighting", [SelfAdaptive(), ReLoBRaLo()])
def test_data_are_weighted_like_any_term(weighting):
    family = Observed()
    batch = gauss(family, jnp.float32, interior=4)
    state, advance = begin(weighting, family, batch)
    for seed in range(3):
        weights, state = advance(state, noise(family, batch, seed))
    assert set(weights) == {"equation", "data"}
    assert np.any(np.asarray(weights["data"]) != 1)


# -- Training ------------------------------------------------------------------------------------

SMALL = Sampling(interior=25, face=6, num_lambda=2, rule="gauss")
DRAWN = dataclasses.replace(SMALL, rule="random")
NETWORK = MLP(widths=(6, 6), parameters=FiLM(hidden=3), weights=Concat())


def sampling(weighting):
    return SMALL if isinstance(weighting, SelfAdaptive) else DRAWN


def unweighted(problem, batch):
    ones = dict.fromkeys(problem.family.terms, jnp.ones(()))
    return jax.jit(lambda params: problem.loss(params, batch, ones))


@pytest.mark.slow
@pytest.mark.parametrize("weighting", [SelfAdaptive(), ReLoBRaLo(), Causal()])
def test_adam_lowers_the_unweighted_loss(weighting):
    family = Burgers().plain()
    problem = Problem(family, NETWORK, jnp.float32)
    setup = Setup(problem, weighting, sampling(weighting), SMALL, SMALL)
    stage = Adam(steps=40, rate=1e-2, final_rate=1e-3, block=20).build(setup)
    state = stage.init(problem.drawing()(KEY), KEY)
    loss = unweighted(problem, gauss(family, jnp.float32, interior=64, face=16))
    before = float(loss(state.params))
    while stage.stopped(state, {}) is None:
        state, info = stage.advance(state)
        assert np.isfinite(info["loss"])
    assert float(loss(state.params)) < 0.9 * before


@pytest.mark.parametrize("weighting", [SelfAdaptive(), ReLoBRaLo()])
def test_a_deterministic_optimiser_sees_the_unweighted_loss(weighting):
    """It keeps the state that `init` made, and that state weighs everything by one."""
    problem = Problem(Ring(), NETWORK, jnp.float32)
    batch = gauss(Ring(), jnp.float32)
    params = problem.drawing()(KEY)
    value, _ = jax.jit(objective(Setup(problem, weighting, None, SMALL, SMALL), batch))(params)
    np.testing.assert_allclose(value, unweighted(problem, batch)(params), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("weighting", EVERY)
def test_a_resumed_run_ends_as_if_nothing_had_happened(weighting, tmp_path, monkeypatch):
    protocol = lc.Protocol(
        name="test",
        network=NETWORK,
        weighting=weighting,
        phases=(Adam(steps=20, block=5),),
        sampling=sampling(weighting),
        quadrature=SMALL,
        held_out=dataclasses.replace(SMALL, interior=4, rule="sobol"),
    )

    def run(name, **options):
        quiet = {"progress": False, "report": False}
        return lc.train(Ring(), protocol, seed=2, out=tmp_path / name, **quiet, **options).params

    whole = run("whole", checkpoint_every=1e9)
    interrupt_after(monkeypatch, 2)
    with pytest.raises(Interrupted):
        run("broken", checkpoint_every=0.0)
    header, arrays = read_arrays(tmp_path / "broken" / "checkpoint.safetensors", "checkpoint")
    assert (header["phase"], int(arrays["step"])) == (0, 10)
    assert any(name.startswith("weighting.") for name in arrays) != isinstance(weighting, Causal)
    resumed = run("broken", checkpoint_every=0.0, resume=True)

    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        assert one.tobytes() == other.tobytes()
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "broken")]
    assert metrics[0] == metrics[1]


# -- SA-PINN as the paper's authors have it --------------------------------------------------------


def test_self_adaptive_weights_of_the_papers_code():
    """Start in (0, 1), half of the mean of w² r², its own gradient, and observations at one."""
    family = Observed()
    batch = fixed(family, Sampling(6, 2, 1, "sobol"), "float32")
    weighting = SelfAdaptive(random_start=True, factor=0.5, relative=False, observations=False)
    state = weighting.init(family, batch, jax.random.PRNGKey(0))
    assert "data" not in state["raw"]
    for name, raw in state["raw"].items():
        assert np.all((raw > 0) & (raw < 1)), name
        assert np.ptp(raw) > 0.05, name
    residuals = {
        name: jnp.ones((*batch[term.where].quadrature.shape, 1))
        for name, term in family.terms.items()
    }
    weights, after = weighting.weigh(state, family, batch, residuals)
    assert float(weights["data"]) == 1.0
    for name, raw in state["raw"].items():
        np.testing.assert_allclose(weights[name], 0.5 * raw**2, rtol=1e-6)
        # Adam's first step is by its rate, unless the gradient is as small as its epsilon.
        slope = batch[family.terms[name].where].quadrature * raw
        step = 5e-3 * slope / (slope + 1e-8)
        np.testing.assert_allclose(after["raw"][name], raw + step, rtol=1e-5)
