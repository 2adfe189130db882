"""The solution as a function: what it answers, what it refuses, and what survives a file."""

import json
import re
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import EVERY, Both, Coupled, Oscillator, Poisson, plain, quick

import lcpinn as lc
import lcpinn.prediction as module
from lcpinn.evaluation import dense_values, evaluation_points, grid_values, validate
from lcpinn.families import FAMILIES, Burgers
from lcpinn.files import read_arrays, write_arrays
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import Adam
from lcpinn.prediction import CHUNK
from lcpinn.rows import Problem
from lcpinn.solution import Solution, signature
from lcpinn.weighting import Fixed

TINY = MLP(widths=(3, 2), parameters=FiLM(hidden=2))


class Level(lc.Family):
    """u' = 0 with u = k: the error of a constant is known by hand."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))
    evaluation = lc.Evaluation(points={"x": 9}, at={"k": (0.8, 1.0, 1.6)}, dense=16)

    @lc.interior
    def equation(self, u_x):
        return u_x

    @lc.on(x=0.0)
    def start(self, u, k):
        return u - k

    def exact(self, k):
        return k


class Weighed(Poisson):
    """Poisson's equation with its solution, over loss weights."""

    evaluation = lc.Evaluation(points={"x": 33}, shots=8)

    def exact(self, x):
        return x * (x - 1) / 2


def protocol_for(dtype="float64"):
    return lc.Protocol("test", TINY, Fixed({}), (Adam(steps=2),), dtype=dtype)


def make(family, seed=0, dtype="float64", scale=1.0):
    """A solution with random parameters: every weight and bias matters."""
    protocol, rng = protocol_for(dtype), np.random.default_rng(seed)
    with jax.enable_x64(True):
        shapes = jax.eval_shape(Problem(family, TINY, jnp.dtype(dtype)).init, jax.random.PRNGKey(0))
    params = jax.tree.map(lambda s: scale * rng.normal(size=s.shape).astype(s.dtype), shapes)
    return Solution(family, protocol, params, {"seed": seed})


def constant(family, value):
    """A solution that is this number everywhere."""
    solution = make(family, scale=0.0)
    solution.params["layers"][-1]["b"][:] = value
    return solution


def direct(solution, points, parameters, weights=None):
    """The network's formula at points (n, dim) and parameters (n, p): (n, outputs)."""
    problem = Problem(solution.family, TINY, jnp.float64)
    if weights is None:
        weights = np.zeros((len(points), 0))
    with jax.enable_x64(True):
        at = quick(jax.vmap(lambda x, lam, w: plain(problem, solution.params, x, lam, w)))
        return np.asarray(at(np.asarray(points), np.asarray(parameters), weights))


@pytest.fixture(scope="module")
def oscillator():
    return make(Oscillator())


@pytest.fixture(scope="module")
def coupled():
    return make(Coupled())


@pytest.fixture(scope="module")
def both():
    return make(Both())


# -- Arguments by name ---------------------------------------------------------------------------


def test_one_point_gives_one_number(oscillator):
    value = oscillator(t=0.3, d=0.7)
    assert isinstance(value, np.ndarray)
    assert value.shape == ()
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, direct(oscillator, [[0.3]], [[0.7]])[0, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("t", "d"),
    [
        (np.linspace(0, 1, 5)[:, None], np.array([0.2, 0.9, 1.7])),
        (np.linspace(0, 1, 6).reshape(2, 3), 0.4),
        (0.25, np.linspace(0.1, 2, 7)),
        ([0.1, 0.2], [[1.5]]),
        (jnp.linspace(0, 1, 4), jnp.array(1.0)),
    ],
    ids=["column x row", "matrix x scalar", "scalar x row", "lists", "jax"],
)
def test_arguments_broadcast_by_name(oscillator, t, d):
    every_t, every_d = np.broadcast_arrays(np.asarray(t, float), np.asarray(d, float))
    value = oscillator(d=d, t=t)  # in any order
    assert value.shape == every_t.shape
    truth = direct(oscillator, every_t.reshape(-1, 1), every_d.reshape(-1, 1))
    np.testing.assert_allclose(value, truth.reshape(every_t.shape), rtol=1e-12)


def test_several_outputs_come_by_name(coupled):
    t, x = np.linspace(0, 0.5, 4)[:, None], np.linspace(-1, 2, 3)
    value = coupled(t=t, x=x, a=2.0, b=0.5)
    assert list(value) == ["u", "v_air"]
    points = np.stack([np.repeat(t.ravel(), 3), np.tile(x, 4)], axis=-1)
    truth = direct(coupled, points, np.tile([2.0, 0.5], (12, 1)))
    np.testing.assert_allclose(value["u"], truth[:, 0].reshape(4, 3), rtol=1e-12)
    np.testing.assert_allclose(value["v_air"], truth[:, 1].reshape(4, 3), rtol=1e-12)


def test_parameters_of_their_own_equal_a_loop(coupled):
    rng = np.random.default_rng(1)
    t, x = rng.uniform(0, 0.5, 9), rng.uniform(-1, 2, 9)
    a, b = rng.uniform(1, 3, 9), rng.uniform(0.1, 1, 9)
    together = coupled(t=t, x=x, a=a, b=b)["v_air"]
    one_by_one = [coupled(t=t[i], x=x[i], a=a[i], b=b[i])["v_air"] for i in range(9)]
    np.testing.assert_allclose(together, one_by_one, rtol=1e-13)


def test_nothing_in_gives_nothing_out(oscillator, coupled, both):
    assert oscillator(t=[], d=1.0).shape == (0,)
    assert oscillator(t=np.zeros((0, 1)), d=np.ones(3)).shape == (0, 3)
    assert {k: v.shape for k, v in coupled(t=[], x=0.0, a=2, b=[]).items()} == {
        "u": (0,),
        "v_air": (0,),
    }
    assert both(t=[], d=1.0).shape == both.spread(t=[], d=1.0).shape == (0,)
    assert both.slices(t=[], d=1.0, shots=4).shape == (4, 0, 1)


def test_names_are_checked(oscillator, both):
    cases = [
        (dict(t=0.1), "missing d; the solution takes t, d"),
        (dict(d=0.1), "missing t; the solution takes t, d"),
        (dict(t=0.1, d=1.0, q=2), "no such argument as 'q'; the solution takes t, d"),
        (dict(t=np.ones(2), d=np.ones(3)), "do not broadcast"),
        (dict(t="noon", d=1.0), "could not convert"),
        (dict(t=0.1, d=1.0, weights={"equation": 1.0}), "not conditioned on loss weights"),
        (dict(t=0.1, d=1.0, shots=3), "not conditioned on loss weights"),
    ]
    for arguments, message in cases:
        with pytest.raises(lc.LcpinnError, match=message):
            oscillator(**arguments)
    with pytest.raises(lc.LcpinnError, match="not conditioned on loss weights: no spread"):
        oscillator.spread(t=0.1, d=1.0)
    with pytest.raises(lc.LcpinnError, match="'equatoin' names no term; there are equation, start"):
        both(t=0.1, d=1.0, weights={"equatoin": 1.0})
    with pytest.raises(lc.LcpinnError, match="at one setting"):
        both.slices(t=0.1, d=[1.0, 2.0])
    for shots in (0, -1):
        with pytest.raises(lc.LcpinnError, match=f"shots must be at least 1, not {shots}"):
            both(t=0.1, d=1.0, shots=shots)


def test_a_lambda_outside_its_prior_warns_once_with_the_range():
    solution = make(Coupled())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution(t=0.1, x=0.0, a=3.0, b=0.1)  # the ends are inside
        assert not caught
        solution(t=0.1, x=0.0, a=[2.0, 3.5], b=0.1)
        solution(t=0.1, x=0.0, a=7.0, b=0.1)
    assert [w.category for w in caught] == [lc.OutsidePriorWarning]
    message = str(caught[0].message)
    assert "a = 3.5, b = 0.1 lies outside" in message
    assert "a in [1, 3], b in [0.1, 1]" in message
    assert caught[0].filename == __file__  # it points at the caller's line


# -- Many points ---------------------------------------------------------------------------------


def watched(solution, name):
    """Record the shape of the points, and the number of draws, in every call of the network."""
    seen, run = [], getattr(solution.predictor, name)

    def spy(params, points, parameters, draws):
        seen.append((len(points), len(draws)))
        return run(params, points, parameters, draws)

    solution.predictor.__dict__[name] = spy
    return seen


@pytest.mark.parametrize("own", [False, True], ids=["one lambda", "own lambdas"])
def test_a_million_points_take_bounded_memory(own):
    solution = make(Oscillator())
    seen = watched(solution, "pointwise" if own else "shared")
    num = 1_000_003  # not a multiple of the chunk
    t = np.linspace(0, 1, num)
    d: Any = np.linspace(0.1, 2, num) if own else 0.7
    value = solution(t=t, d=d)
    assert value.shape == (num,)
    assert max(n for n, _ in seen) <= CHUNK
    assert len(set(seen)) == 1  # one compiled program
    for part in (slice(0, 50), slice(CHUNK - 20, CHUNK + 20), slice(num - 40, num)):
        piece = solution(t=t[part], d=d[part] if own else d)
        np.testing.assert_allclose(value[part], piece, rtol=1e-13)


def test_draws_count_towards_the_memory(both, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 1024)
    solution = make(Both())
    seen = watched(solution, "shared")
    t = np.linspace(0, 1, 700)
    value = solution(t=t, d=1.0, shots=8)
    assert set(seen) == {(128, 8)}
    np.testing.assert_allclose(value[600:], both(t=t[600:], d=1.0, shots=8), rtol=1e-13)
    slices = solution.slices(t=t, d=1.0, shots=8)
    np.testing.assert_allclose(slices.mean(0)[:, 0], value, rtol=1e-13)


# -- Loss weights --------------------------------------------------------------------------------


def test_the_answer_is_the_mean_over_draws(both):
    t = np.linspace(0, 1, 11)
    slices = both.slices(t=t, d=0.6, shots=16)
    assert slices.shape == (16, 11, 1)
    np.testing.assert_allclose(both(t=t, d=0.6, shots=16), slices[..., 0].mean(0), rtol=1e-13)
    np.testing.assert_allclose(both.spread(t=t, d=0.6, shots=16), slices[..., 0].std(0), rtol=1e-9)
    assert both.spread(t=t, d=0.6, shots=16).min() > 1e-6
    default = both.slices(t=t, d=0.6)
    assert len(default) == Both.evaluation.shots
    np.testing.assert_allclose(both(t=t, d=0.6), default[..., 0].mean(0), rtol=1e-13)


def test_a_slice_is_the_network_at_those_weights(both):
    t = np.linspace(0, 1, 11)
    prior = both.family.weights
    draws, slices = prior.sobol(16, seed=0), both.slices(t=t, d=0.6, shots=16)
    for i in (0, 3, 15):
        weights = dict(zip(prior.names, draws[i], strict=True))
        value = both(t=t, d=0.6, weights=weights)
        np.testing.assert_allclose(value, slices[i, :, 0], rtol=1e-13)
        truth = direct(both, t[:, None], np.full((11, 1), 0.6), np.tile(draws[i], (11, 1)))
        np.testing.assert_allclose(value, truth[:, 0], rtol=1e-12)


def test_weights_that_are_left_out_are_zero(both):
    both._warned = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = both(t=0.2, d=1.0, weights={"start": 1.0})
    names = both.family.weights.names
    assert value == both(t=0.2, d=1.0, weights=dict.fromkeys(names, 0.0) | {"start": 1.0})
    with pytest.warns(lc.OutsidePriorWarning, match="sum to one"):
        both(t=0.2, d=1.0, weights={"start": 2.0})


@pytest.mark.parametrize("scale", [1.0, 1e-9], ids=["large", "tiny"])
def test_moments_at_own_coefficients_equal_a_loop(scale):
    """Also where draws hardly differ, and a difference of mean squares would cancel."""
    solution = make(Both())
    first = solution.params["layers"][0]["w"]
    first[1:] *= scale  # the rows of the loss weights
    t, d = np.linspace(0, 1, 5), np.linspace(0.2, 1.9, 5)
    mean, spread = solution(t=t, d=d, shots=16), solution.spread(t=t, d=d, shots=16)
    for i in range(5):
        slices = solution.slices(t=t[i], d=d[i], shots=16)[:, 0, 0]
        np.testing.assert_allclose(mean[i], slices.mean(), rtol=1e-12)
        np.testing.assert_allclose(spread[i], slices.std(), rtol=1e-5)


# -- Files ---------------------------------------------------------------------------------------


def same_params(one, other):
    a, b = jax.tree.leaves(one.params), jax.tree.leaves(other.params)
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", EVERY, ids=lambda f: f.__name__)
def test_a_model_file_comes_back_bit_for_bit(family, dtype, tmp_path):
    solution = make(family(), dtype=dtype)
    path = solution.save(tmp_path / "deep" / "model.safetensors")
    back = lc.load(path, family=family())
    assert same_params(solution, back)
    assert jax.tree.leaves(back.params)[0].dtype == dtype
    assert back.protocol == solution.protocol
    assert back.run == {"seed": 0}
    again = back.save(tmp_path / "again.safetensors")
    assert again.read_bytes() == path.read_bytes()


def test_a_loaded_model_answers_the_same(oscillator, tmp_path):
    back = lc.load(oscillator.save(tmp_path / "m"), Oscillator())
    t = np.linspace(0, 1, 9)
    np.testing.assert_array_equal(back(t=t, d=0.3), oscillator(t=t, d=0.3))
    assert repr(back) == repr(oscillator) == "<solution of oscillator: 51 parameters, test>"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_of_the_library_is_found_by_name(name, tmp_path):
    solution = make(FAMILIES[name]())
    solution.save(tmp_path / "model.safetensors")
    back = lc.load(tmp_path)  # a run's directory will do
    assert back.family.name == name
    assert type(back.family) is type(solution.family)
    assert same_params(solution, back)


def test_a_family_of_the_user_has_to_be_passed(oscillator, tmp_path):
    path = oscillator.save(tmp_path / "m")
    with pytest.raises(lc.LcpinnError, match="is a model of Oscillator, which is not built in"):
        lc.load(path)
    with pytest.raises(lc.LcpinnError, match="another family: oscillator, not coupled"):
        lc.load(path, Coupled())
    with pytest.raises(lc.LcpinnError, match=r"is no Family; pass an instance"):
        lc.load(path, Oscillator)  # pyright: ignore[reportArgumentType]

    class Stretched(Oscillator):
        parameters = lc.Uniform(d=(0.1, 3.0))

        @property
        def name(self):
            return "oscillator"

    with pytest.raises(lc.LcpinnError, match=r"they differ in class, parameters\)"):
        lc.load(path, Stretched())


def test_how_a_family_was_made_counts(tmp_path):
    path = make(Burgers(0.5)).save(tmp_path / "m")
    with pytest.raises(lc.LcpinnError, match="differ in settings"):
        lc.load(path)
    loaded = lc.load(path, Burgers(0.5)).family
    assert isinstance(loaded, Burgers)
    assert loaded.viscosity == 0.5


def test_a_model_file_never_brings_code_along(tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('this code was run')\n")
    monkeypatch.syspath_prepend(tmp_path)
    solution = make(Level())
    path, loaded = solution.save(tmp_path / "m"), set(sys.modules)
    header, _ = read_arrays(path, "model")
    plain_header = {k: header[k] for k in ("family", "protocol", "run")}

    def rewritten(**changes):
        write_arrays(path, "model", plain_header | changes, solution.params)
        return path

    for name in ("evil_module", "evil_module:Evil", "evil_module.Evil", "../evil_module"):
        held = header["family"] | {"name": name, "class": name}
        with pytest.raises(lc.LcpinnError, match="not built in"):
            lc.load(rewritten(family=held))
        network = header["protocol"] | {"network": {"type": name}}
        with pytest.raises(lc.LcpinnError, match="knows no"):
            lc.load(rewritten(protocol=network), Level())
    assert "evil_module" not in sys.modules
    assert set(sys.modules) == loaded


def test_arrays_of_another_network_are_refused(tmp_path):
    solution = make(Level())
    header = {"family": signature(Level()), "run": {}}
    plain_protocol = read_arrays(solution.save(tmp_path / "m"), "model")[0]["protocol"]
    wider = json.loads(json.dumps(plain_protocol).replace('"widths": [3, 2]', '"widths": [4, 2]'))
    write_arrays(tmp_path / "m", "model", header | {"protocol": wider}, solution.params)
    with pytest.raises(lc.LcpinnError, match=r"has shape \(.*\), not \("):
        lc.load(tmp_path / "m", Level())
    write_arrays(tmp_path / "m", "model", header | {"protocol": plain_protocol}, {"w": np.ones(2)})
    with pytest.raises(lc.LcpinnError, match="holds other arrays than expected"):
        lc.load(tmp_path / "m", Level())


def test_a_model_cannot_be_saved_below_a_file(oscillator, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(lc.LcpinnError, match="cannot write to"):
        oscillator.save(tmp_path / "file" / "model.safetensors")


# -- Errors against the truth --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("family", [FAMILIES["helmholtz-1d"], Coupled], ids=["one", "two outputs"])
def test_zero_is_wrong_by_exactly_one(family):
    solution = constant(family(), 0.0)
    report = solution.evaluate()
    assert [row["error"] for row in report["grid"]] == [1.0] * len(grid_values(solution.family))
    assert report["mean"] == report["dense_max"] == 1.0


def test_the_error_of_a_constant_is_known_by_hand():
    report = constant(Level(), 1.0).evaluate()
    assert [row["k"] for row in report["grid"]] == [0.8, 1.0, 1.6]
    expected = [abs(1 - k) / k for k in (0.8, 1.0, 1.6)]
    np.testing.assert_allclose([row["error"] for row in report["grid"]], expected, rtol=1e-13)
    np.testing.assert_allclose(report["mean"], np.mean(expected), rtol=1e-13)
    np.testing.assert_allclose(report["dense_max"], 1.0, rtol=1e-13)  # at the end k = 1/2
    assert report["dense_argmax"] == {"k": 0.5}
    assert "spread" not in report


@pytest.mark.slow
def test_the_residual_of_a_constant_is_known_by_hand():
    solution = constant(Level(), 1.0)
    found = validate(solution)
    assert found["terms"]["equation"] == 0.0
    # E (1 - k)² over k in (1/2, 2); the held-out points are a Sobol set
    expected = np.sqrt(((2 - 1) ** 3 - (0.5 - 1) ** 3) / 3 / 1.5)
    np.testing.assert_allclose(found["terms"]["start"], expected, rtol=1e-2)
    np.testing.assert_allclose(found["residual"], found["terms"]["start"])


@pytest.mark.slow
def test_the_worst_output_counts():
    solution = make(Coupled(), seed=3)
    lam = grid_values(solution.family)[4]
    points = evaluation_points(solution.family)
    truth = solution.family.truth(points, lam)
    assert truth is not None
    value = solution(t=points[:, 0], x=points[:, 1], a=lam[0], b=lam[1])
    value = np.stack([value["u"], value["v_air"]], axis=-1)
    errors = np.linalg.norm(value - truth, axis=0) / np.linalg.norm(truth, axis=0)
    assert errors[0] != pytest.approx(errors[1], rel=1e-2)
    row = solution.evaluate()["grid"][4]
    assert row == {"a": lam[0], "b": lam[1], "error": pytest.approx(errors.max(), rel=1e-12)}


def test_settings_of_many_coefficients_are_a_bounded_set():
    """A grid would have 3⁹ settings, and the dense one 2⁹."""
    names = [f"c{i}" for i in range(9)]

    class Nine(Level):
        parameters = lc.Uniform(k=(0.5, 2.0), **dict.fromkeys(names[1:], (1.0, 3.0)))
        evaluation = lc.Evaluation()

    for values, num in ((grid_values(Nine()), 128), (dense_values(Nine()), 181)):
        assert values.shape == (num, 9)
        assert len(np.unique(values, axis=0)) == num
        np.testing.assert_allclose(values[:, 1:].mean(0), 2.0, atol=0.02)
        assert values[:, 0].min() < 0.6
        assert values[:, 0].max() > 1.9
    np.testing.assert_allclose(grid_values(Nine())[64], [1.25, *[2.0] * 8])
    four = Nine().at(**dict.fromkeys(names[4:], 1.5))
    assert len(grid_values(four)) == 3**4  # held coefficients take no part


def test_the_dense_maximum_is_no_less_than_the_grids():
    solution = make(FAMILIES["helmholtz-1d"]())
    report = solution.evaluate()
    assert len(dense_values(solution.family)) >= 181
    assert report["dense_max"] >= max(row["error"] for row in report["grid"]) * (1 - 1e-2)
    assert np.mean([row["error"] for row in report["grid"]]) == pytest.approx(report["mean"])
    k = report["dense_argmax"]["k"]
    x = evaluation_points(solution.family)
    truth = solution.family.truth(x, np.array([k]))[:, 0]
    gap = np.linalg.norm(solution(x=x[:, 0], k=k) - truth) / np.linalg.norm(truth)
    assert gap == pytest.approx(report["dense_max"], rel=1e-12)


def test_evaluation_over_loss_weights_tells_slices_from_their_mean():
    solution = make(Weighed())
    report = solution.evaluate()
    x = np.linspace(0, 1, 33)
    truth = x * (x - 1) / 2
    slices = solution.slices(x=x)[..., 0]
    errors = np.linalg.norm(slices - truth, axis=1) / np.linalg.norm(truth)
    mean = np.linalg.norm(slices.mean(0) - truth) / np.linalg.norm(truth)
    assert report["shots"] == len(slices) == 8
    assert report["mean"] == report["dense_max"] == pytest.approx(mean, rel=1e-12)
    assert report["worst_slice"] == pytest.approx(errors.max(), rel=1e-12)
    size = np.abs(slices.mean(0)).mean()
    assert report["spread"] == pytest.approx(slices.std(0).mean() / size, rel=1e-12)
    assert report["dense_argmax"] == {}


def test_without_a_truth_there_is_no_error(oscillator):
    assert set(oscillator.evaluate().values()) == {None}


# -- The user's JAX ------------------------------------------------------------------------------


def test_calling_leaves_jax_as_it_was(oscillator):
    before = jax.config.values["jax_enable_x64"], jnp.ones(1).dtype
    oscillator(t=0.1, d=1.0)
    with pytest.raises(lc.LcpinnError):
        oscillator(t=0.1)
    assert (jax.config.values["jax_enable_x64"], jnp.ones(1).dtype) == before
    assert re.search("float32", str(before[1]))
