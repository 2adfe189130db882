"""Many settings in one program: each ends as it would alone; and coefficients that are held."""

import dataclasses
import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Coupled, Decay, Observed, Poisson, probe

import lcpinn as lc
from lcpinn.evaluation import dense_values, grid_values
from lcpinn.families import Burgers, Schrodinger
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import LBFGS, Adam, GaussNewton, Restarts, RevertOnWorse, Supervised
from lcpinn.plot import overview
from lcpinn.prior import Axis, Product, prior_from_json
from lcpinn.protocol import methods
from lcpinn.retraining import can_batch, member_name
from lcpinn.rows import Problem
from lcpinn.rundir import Checkpoint
from lcpinn.sampling import Sampling, draw, fixed


def tiny(make, family, *, at=None, adam=15, lbfgs=6, **changes):
    """A protocol of `methods` at a size that takes a moment, in double precision."""
    made = make(family) if at is None else make(family, at=at)
    small = dict(interior=9, face=2)
    finish = (RevertOnWorse(LBFGS(steps=lbfgs, block=4)),) if lbfgs else ()
    found = dataclasses.replace(
        made,
        network=MLP((5, 5), parameters=FiLM(hidden=2)),
        phases=(Adam(steps=adam, rate=1e-2, block=6), *finish),
        sampling=dataclasses.replace(made.sampling, **small),
        quadrature=dataclasses.replace(made.quadrature, **small),
        held_out=Sampling(16, 2, 1, "sobol", seed=1009),
        dtype="float64",
    )
    return dataclasses.replace(found, **changes)


def same(one, other, rtol=1e-9):
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def alone(family, make, at, seed):
    made = make(family, at=at) if at else make(family)
    return lc.train(family, made, seed=seed, progress=False, report=False)


# -- The batch -----------------------------------------------------------------------------------

SETTINGS = ({"k": 0.7}, {"k": 1.9})


@pytest.fixture(scope="module")
def batch():
    """Two settings and two seeds of a plain PINN."""
    make = partial(tiny, methods.pinn)
    return make, lc.retrain(Decay(), make, SETTINGS, (0, 3), progress=False)


@pytest.mark.slow
def test_members_end_as_they_would_alone(batch):
    make, found = batch
    assert [s.protocol.at["k"] for s in found] == [0.7, 0.7, 1.9, 1.9]  # settings outermost
    assert [s.run["seed"] for s in found] == [0, 3, 0, 3]
    single, last = alone(Decay(), make, {"k": 1.9}, 3), found[3]
    same(last, single)
    assert _reasons(last) == _reasons(single)
    assert last.family.parameters.held == {"k": 1.9}
    assert last(x=0.3) == pytest.approx(single(x=0.3), rel=1e-9)
    for other in found[:3]:
        with pytest.raises(AssertionError):
            same(other, last, rtol=1e-3)


def _reasons(solution):
    """Why each phase ended, without the title of the phase."""
    return [line.split(": ", 1)[1] for line in solution.run["training"]["stopped"]]


# L-BFGS compiles for seconds: once behind SA-PINN's fixed points, and above behind random ones.
@pytest.mark.slow
@pytest.mark.parametrize(("method", "lbfgs"), [(methods.sa_pinn, 6), (methods.relobralo, 0)])
def test_a_weightings_state_is_each_members_own(method, lbfgs):
    make = partial(tiny, method, lbfgs=lbfgs)
    found = lc.retrain(Decay(), make, SETTINGS, (2,), progress=False)
    same(found[1], alone(Decay(), make, SETTINGS[1], 2))


@pytest.mark.slow
def test_chunks_give_the_same():
    make = partial(tiny, methods.pinn, lbfgs=0)
    whole = lc.retrain(Decay(), make, SETTINGS, (0, 3), progress=False)
    for solution in whole[1:3]:
        same(solution, alone(Decay(), make, solution.protocol.at, solution.run["seed"]))
    for at_once in (1, 3):
        parts = lc.retrain(Decay(), make, SETTINGS, (0, 3), progress=False, at_once=at_once)
        for one, other in zip(parts, whole, strict=True):
            same(one, other)
        assert [s.run["training"]["at_once"] for s in parts] == (
            [1, 1, 1, 1] if at_once == 1 else [3, 3, 3, 1]
        )


@pytest.mark.slow
def test_every_setting_of_a_batch_has_its_own_observations():
    """Members with data end as they would alone; those of another number are refused."""
    family = Schrodinger()
    make = partial(tiny, partial(methods.relobralo, data=True), lbfgs=4)
    settings = [{"alpha": 0.5}, {"alpha": 10.0}]
    for setting, member in zip(
        settings, lc.retrain(family, make, settings, progress=False), strict=True
    ):
        made = make(family, at=setting)
        assert len(made.view(family).data) == 40
        same(member, lc.train(family, made, progress=False, report=False))
    with pytest.raises(lc.LcpinnError, match="equally many observations, not 0, 40"):
        lc.retrain(family, make, [{"alpha": 0.5}, {"alpha": 5.0}], progress=False)


@pytest.mark.slow
def test_without_coefficients_seeds_make_the_batch():
    make = partial(tiny, methods.pinn, lbfgs=0)
    found = lc.retrain(Poisson(), make, seeds=(0, 1), progress=False)
    same(found[1], alone(Poisson(), make, None, 1))


@pytest.mark.slow
def test_seeds_of_one_conditioned_network_are_a_batch_too():
    """Its coefficients vary: none is held, and the network sees them."""
    make = partial(tiny, methods.paper, lbfgs=0)
    found = lc.retrain(Decay(), make, seeds=(0, 1), progress=False)
    assert found[0].family.parameters.free == ("k",)
    same(found[1], alone(Decay(), make, None, 1))


@pytest.mark.slow
def test_a_family_with_a_coefficient_held_before():
    family, make = Coupled().at(b=0.3), partial(tiny, methods.pinn, lbfgs=0, adam=6)
    found = lc.retrain(family, make, ({"a": 1.5}, {"a": 2.5}), progress=False)
    assert found[1].family.parameters.held == {"a": 2.5, "b": 0.3}
    same(found[1], alone(family, make, {"a": 2.5}, 0))


@pytest.mark.slow
def test_runs_are_kept_and_load(tmp_path):
    make = partial(tiny, methods.pinn, lbfgs=0, adam=6)
    settings = ({"k": 1.0}, {"k": 1.0000001})  # told apart by name as well
    run = partial(lc.retrain, Decay(), make, progress=False, out=tmp_path / "runs")
    found = run(settings)
    names = [member_name(s.protocol, 0) for s in found]
    assert names == ["k=1-seed0", "k=1.0000001-seed0"]
    for name, solution in zip(names, found, strict=True):
        place = tmp_path / "runs" / name
        assert {p.name for p in place.iterdir()} == {
            "run.json", "model.safetensors", "result.json", "solution.png"
        }  # fmt: skip
        back = lc.load(place, Decay())
        assert back(x=0.2) == solution(x=0.2)
        result = json.loads((place / "result.json").read_text())
        assert result["at"] == solution.protocol.at
        assert [row["k"] for row in result["error"]["grid"]] == [solution.protocol.at["k"]]
        assert result["error"]["dense_argmax"] == solution.protocol.at
        seconds = result["seconds"]
        assert seconds["total"] == pytest.approx(seconds["compile"] + seconds["train"])
    with pytest.raises(lc.LcpinnError, match=r"k=1-seed0 already holds a run"):
        run(({"k": 0.9}, {"k": 1.0}))
    assert not (tmp_path / "runs" / "k=0.9-seed0").exists()
    run(settings, overwrite=True)


@pytest.mark.slow
def test_an_interrupted_batch_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    """Two chunks of two, each with two phases; the end comes in the second phase of the second."""
    make = partial(tiny, methods.pinn, lbfgs=6, adam=6)
    settings = tuple({"k": k} for k in (0.6, 1.0, 1.4, 1.8))
    run = partial(lc.retrain, Decay(), make, settings, progress=False, at_once=2)
    whole = run()
    save, positions = Checkpoint.save, []

    def save_and_break(self, where, state):
        save(self, where, state)
        positions.append((self.path, where["phase"]))
        if positions.count((self.path, 1)) and len({path for path, _ in positions}) == 2:
            raise KeyboardInterrupt

    kept = partial(run, out=tmp_path, checkpoint_every=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_and_break)
        with pytest.raises(KeyboardInterrupt):
            kept()
    (file,) = tmp_path.glob("batch-*.safetensors")
    first = tmp_path / "k=0.6-seed0" / "model.safetensors"
    written = first.stat().st_mtime_ns
    assert not (tmp_path / "k=1.4-seed0" / "model.safetensors").exists()
    with pytest.raises(lc.LcpinnError, match="already holds a run"):
        kept()
    with pytest.raises(lc.LcpinnError, match="holds another run: it differs in its protocol"):
        lc.retrain(Decay(), partial(tiny, methods.pinn), settings[:1], out=tmp_path, resume=True)
    again = kept(resume=True)
    assert first.stat().st_mtime_ns == written  # what was finished is not trained again
    assert not file.exists()
    for one, other in zip(again, whole, strict=True):
        for mine, theirs in zip(*map(jax.tree.leaves, (one.params, other.params)), strict=True):
            assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()
        assert one.run["training"]["stopped"] == other.run["training"]["stopped"]
    monkeypatch.setattr("lcpinn.retraining._Batch", None)  # nothing is left to do
    assert [s.protocol.at for s in kept(resume=True)] == list(settings)


class Broken(Decay):
    """NaN once k exceeds 1.5."""

    @lc.interior
    def equation(self, u, u_x, k):
        return u_x + jnp.sqrt(1.5 - k) * u


@pytest.mark.slow
@pytest.mark.parametrize("adam", [0, 6], ids=["lbfgs", "adam"])
def test_a_member_that_is_not_finite_is_named(adam):
    phases = (Adam(steps=6, block=3),) if adam else (LBFGS(steps=4, block=2),)
    make = partial(tiny, methods.pinn, phases=phases)
    with pytest.raises(lc.LcpinnError) as caught:
        lc.retrain(Broken(), make, ({"k": 0.7}, {"k": 1.9}), (4,), progress=False)
    message = str(caught.value)
    assert message.startswith("seed 4, k=1.9: the term 'equation' is NaN or infinite at x = ")
    assert "k = 1.9" in message


def test_nothing_is_built_to_know_what_can_be_a_batch(monkeypatch):
    def refuse(self, setup):
        raise AssertionError("built")

    for phase in (Adam, LBFGS, RevertOnWorse, GaussNewton, Restarts, Supervised):
        monkeypatch.setattr(phase, "build", refuse)
    assert can_batch(methods.pinn(Decay(), at={"k": 1.0}))
    assert not can_batch(lc.protocol.fast(Decay()))
    assert not can_batch(methods.fno(Burgers()))
    with pytest.raises(lc.LcpinnError, match="since Restarts decides between compiled calls"):
        lc.retrain(Decay(), lc.protocol.pinn_gn, SETTINGS, progress=False)


def test_what_cannot_be_a_batch_is_refused(tmp_path):
    family, make = Decay(), partial(tiny, methods.pinn)
    run = partial(lc.retrain, progress=False, out=tmp_path / "runs")
    refused = [
        (partial(run, family, lc.protocol.pinn_gn, SETTINGS), "pinn-gn cannot be batched, since "
         "Restarts decides between compiled calls: train its settings one by one"),
        (partial(run, family, make, ({"k": 1}, {"k": 1.0})),
         "k=1-seed0 is there twice: every setting and seed is trained once"),
        (partial(run, family, make, ()), "retrain needs at least one setting and one seed"),
        (partial(run, Coupled(), partial(tiny, _partly), ({"a": 2.0},)),
         "a batch holds every coefficient or none: at a=2, b would vary"),
        (partial(run, family, _other, SETTINGS),
         "only trainings that differ in their setting alone make a batch"),
    ]  # fmt: skip
    for call, message in refused:
        with pytest.raises(lc.LcpinnError) as caught:
            call()
        assert str(caught.value) == message
    assert not (tmp_path / "runs").exists()


def _partly(family, *, at):
    return dataclasses.replace(methods.paper(family), at=at)


def _other(family, *, at):
    return tiny(methods.pinn, family, at=at, adam=int(10 * at["k"]))


# -- Coefficients that are held ------------------------------------------------------------------


def test_settings_that_cannot_be_held():
    for values, message in [
        ({"kk": 1.0}, "there is no coefficient 'kk' to hold; there are: k"),
        ({"k": 3.0}, "k = 3 lies outside its range [0.5, 2]"),
        ({"k": float("nan")}, "k = nan lies outside its range [0.5, 2]"),
    ]:
        with pytest.raises(lc.LcpinnError) as caught:
            Decay().at(**values)
        assert str(caught.value) == message
    with pytest.raises(lc.LcpinnError, match="there is no coefficient 'k' to hold; there are: non"):
        Poisson().at(k=1.0)
    with pytest.raises(lc.LcpinnError, match="observed has observations at other values of k"):
        Observed().at(k=0.5)
    assert Observed().at(m=2.5).parameters.free == ("k",)
    assert Decay().at().parameters is Decay.parameters


def test_a_held_prior():
    prior = Coupled().parameters.at(b=0.3)
    assert (prior.names, prior.free, prior.held) == (("a", "b"), ("a",), {"b": 0.3})
    assert prior.ranges == {"a": (1.0, 3.0), "b": (0.3, 0.3)}
    assert repr(prior) == "Uniform(a=(1.0, 3.0)) & b = 0.3"
    assert prior == Product([Axis("a", 1.0, 3.0, False), Axis("b", 0.3, 0.3, False)])
    assert prior_from_json(json.loads(json.dumps(prior.to_json()))) == prior
    assert prior.at(a=2.0).free == ()
    np.testing.assert_array_equal(prior.normalise([[3.0, 0.3]]), [[1.0, 0.0]])
    for values in (prior.sobol(5), prior.sample(jax.random.PRNGKey(0), 5), prior.clustered(5)):
        np.testing.assert_allclose(values[:, 1], 0.3, rtol=1e-6)
    assert np.asarray(prior.contains([[2.0, 0.3], [2.0, 0.31]])).tolist() == [True, False]
    nodes, mass = prior.quadrature(4)  # none are spent on what does not vary
    assert nodes.shape == (4, 2)
    assert mass.sum() == pytest.approx(1.0)
    assert prior.grid(5).tolist() == [[a, 0.3] for a in (1.0, 1.5, 2.0, 2.5, 3.0)]


@pytest.mark.slow
def test_a_partly_held_family_is_one_of_the_rest():
    held, whole = Coupled().at(b=0.3), Coupled()
    assert grid_values(held).shape == (5, 2)
    assert dense_values(held).shape == (held.evaluation.dense, 2)
    assert dense_values(held.at(a=2.0)).tolist() == [[2.0, 0.3]]
    batch = fixed(held, Sampling(4, 2, 6, "gauss"), jnp.float32)
    parameters = np.asarray(batch["interior"].parameters)
    np.testing.assert_allclose(parameters, held.parameters.quadrature(6)[0], rtol=1e-6)
    drawn = draw(held, Sampling(4, 2, 3), jax.random.PRNGKey(0), jnp.float32)
    np.testing.assert_allclose(drawn["interior"].parameters[:, 1], 0.3, rtol=1e-6)
    np.testing.assert_array_equal(held.truth(np.ones((1, 2)), np.array([2.0, 0.3])),
                                  whole.truth(np.ones((1, 2)), np.array([2.0, 0.3])))  # fmt: skip


def test_the_network_does_not_see_what_is_held():
    network = MLP((4,), parameters=FiLM(hidden=2))
    count = lambda family: sum(
        leaf.size
        for leaf in jax.tree.leaves(
            jax.eval_shape(Problem(family, network, jnp.float32).init, jax.random.PRNGKey(0))
        )
    )
    free = probe(["u"], domain=lc.Box(x=(0.0, 1.0)))
    assert count(Decay().at(k=1.0)) == count(free.unweighted()) < count(Decay())


def test_terms_and_hooks_still_get_a_held_coefficient():
    """The ansatz, the features and the terms see its value, in a network that does not."""
    family = Decay().at(k=1.3)
    problem = Problem(family, MLP((4,)), jnp.float32)
    params = jax.tree.map(jnp.zeros_like, problem.init(jax.random.PRNGKey(0)))
    params["layers"][-1]["b"] = jnp.ones(1)
    batch = fixed(family, Sampling(4, 2, 1, "gauss"), jnp.float32)
    np.testing.assert_allclose(problem.residuals(params, batch)["equation"], 1.3, rtol=1e-6)


def partly(tmp_path, at):
    """A smoke run of two coefficients with some held, and a model file of it."""
    made = dataclasses.replace(
        tiny(methods.paper, Coupled(), adam=4, lbfgs=0), at=at, held_out=Sampling(4, 2, 2, "sobol")
    )
    # A verdict, which takes the most of it, with one coefficient held and one that is not.
    judged = "a" not in at
    solution = lc.train(Coupled(), made, progress=False, report=judged)
    solution.save(tmp_path / "model.safetensors")
    return solution, lc.load(tmp_path / "model.safetensors", Coupled())


@pytest.mark.slow
@pytest.mark.parametrize("at", [{"b": 0.3}, {"a": 2.0}, {"a": 2.0, "b": 0.3}])
def test_a_model_with_held_coefficients_is_asked_and_comes_back(tmp_path, at):
    solution, back = partly(tmp_path, at)
    assert back.family.parameters == solution.family.parameters
    free: dict[str, Any] = {n: v for n, v in {"a": 1.5, "b": 0.5}.items() if n not in at}
    value = back(t=0.1, x=0.2, **free)
    assert value == solution(t=0.1, x=0.2, **free, **at)
    assert repr(back).endswith(f"paper at {back.protocol.setting}>")
    with pytest.warns(lc.OutsidePriorWarning, match=f"{next(iter(at))} = {at[next(iter(at))]:g} "):
        back(t=0.1, x=0.2, a=1.1, b=0.9)
    error = back.evaluate()
    assert all(error["dense_argmax"][n] == v for n, v in at.items())
    assert len(error["grid"]) == (1 if len(at) == 2 else 5)
    assert overview.write(back, tmp_path / "picture.png").stat().st_size > 1000
