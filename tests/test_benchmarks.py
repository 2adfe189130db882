"""The benchmarks run and say what they should; their numbers are for quiet machines."""

import json
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Decay, of_kind, quick

import lcpinn as lc
from benchmarks import __main__ as runner
from benchmarks import (
    baselines,
    boxes,
    choices,
    continuation,
    course,
    families,
    frequencies,
    gauss_newton,
    growth,
    line_search,
    regression,
    scaling,
    solve,
    step,
)
from benchmarks.stamp import stamp
from benchmarks.zoo.waves import Wave
from lcpinn import chunks
from lcpinn.cli.support.battery import check
from lcpinn.families.burgers import Burgers
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.files import read_json
from lcpinn.jet import Orders, Series
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import Adam, GainRatio, ModelDriven, OwnSolutions, Restarts
from lcpinn.precision import double
from lcpinn.protocol import example, smoke
from lcpinn.sampling import Sampling, fixed


@pytest.fixture(scope="module")
def result():
    return step.measure(smoke(Helmholtz(1)), 2, torch=False, rounds=2)


@pytest.mark.slow
def test_a_step_is_measured_without_torch(result, capsys):
    assert result["setting"]["points"] == "2 x (32 + 8)"
    assert list(result["ms_per_step"]) == ["lcpinn"]
    assert len(result["ms_per_step"]["lcpinn"]["rounds"]) == 2
    assert set(result["parts_ms"]["products_by"]) >= {"jax"}
    assert all(result["parts_ms"][name] > 0 for name in ("products", "tanh", "activations"))
    step.show(result)
    assert "matrix products alone" in capsys.readouterr().out
    assert "torch" not in json.dumps(result["versions"]) or "torch" in sys.modules


def test_the_products_are_those_of_the_network():
    setup = step.make_setup(Helmholtz(1).plain(), smoke(Helmholtz(1)))
    inside = [(3 * 2 * 32, 1, 8), (3 * 2 * 32, 8, 8), (3 * 2 * 32, 8, 1)]
    faces = [(2 * 8, 1, 8), (2 * 8, 8, 8), (2 * 8, 8, 1)]
    assert step.product_shapes(setup) == inside + faces


@pytest.mark.slow
def test_a_result_is_written_with_its_origin(result, tmp_path, monkeypatch):
    monkeypatch.setattr(step, "measure", lambda *_, **__: result)
    monkeypatch.setattr(step, "first_steps", dict)
    out = tmp_path / "new" / "step.json"
    step.main(["--no-torch", "--out", str(out)])
    written = json.loads(out.read_text())
    assert {"date", "device", "versions", "seed", "load"} <= set(written)
    assert written["versions"]["jax"] == jax.__version__


def test_the_stamp_is_plain_data():
    assert json.loads(json.dumps(stamp(3)))["seed"] == 3


def test_the_runner_lists_and_refuses(capsys):
    runner.run(["--list"])
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"baselines", "families", "gauss_newton", "step"} <= set(listed)
    with pytest.raises(SystemExit, match=r"there is no benchmark 'stepp'; there are .*step"):
        runner.run(["stepp"])
    with pytest.raises(SystemExit, match="name a benchmark"):
        runner.run(["--steps", "3"])


@pytest.mark.slow
def test_both_compute_the_same():
    pytest.importorskip("torch")
    same = step.measure(smoke(Helmholtz(1)), 2, torch=True, rounds=1)["same"]
    assert max(same.values()) < 1e-4


# -- families ------------------------------------------------------------------------------------


def _made_up(seed, mean, dense, seconds, family="burgers", protocol="fast"):
    return {
        "family": family,
        "protocol": protocol,
        "seed": seed,
        "error": {"mean": mean, "dense_max": dense},
        "seconds": {"total": seconds},
        "device": "abacus",
        "asked": {"protocol": protocol, "seconds": None, "warm": False},
    }


def test_medians_and_ratios_over_the_seeds():
    runs = [_made_up(0, 1e-5, 3e-5, 50), _made_up(1, 2e-5, 8e-5, 60), _made_up(2, 10e-5, 9e-5, 40)]
    other = [_made_up(0, 1.0, 1.0, 1, protocol="paper")]
    (row,) = families.summarise(runs + other)
    assert (row["family"], row["seeds"], row["seconds"]) == ("burgers", 3, 50)
    assert row["median"] == 2e-5
    assert row["worst"] == 10e-5
    assert row["dense_max"] == 8e-5
    assert row["worst_over_median"] == pytest.approx(5)
    assert row["dense_max_over_mean"] == pytest.approx(4)
    assert row["paper"] == pytest.approx(3.47e-3)
    assert "reached" in families.table([row], "cpu")
    assert "missed, 2e+02 times" in families.table([row], "h200")
    assert "target" not in families.table([row])


def test_seconds_to_a_level_are_those_of_most_seeds():
    reached = [
        {"1e-04": 3.0, "1e-06": None},
        {"1e-04": 5.0, "1e-06": None},
        {"1e-04": 4.0, "1e-06": 9.0},
    ]
    runs = [_made_up(i, 1e-5, 1e-5, 10) | {"seconds_to": one} for i, one in enumerate(reached)]
    (row,) = families.summarise(runs)
    assert row["seconds_to"] == {"1e-04": 4.0, "1e-06": None}
    assert families.table([row]).splitlines()[1].split()[-2:] == ["4.0", "–"]


def test_the_seconds_to_a_level_are_its_first_ones():
    pairs = zip((1.0, 2.0, 3.0, 4.0), (1e-3, 5e-5, 2e-4, 1e-7), strict=True)
    points = [{"seconds": seconds, "error": error} for seconds, error in pairs]
    assert course.seconds_to(points) == {"1e-04": 2.0, "1e-06": 4.0, "1e-09": None}
    assert course.seconds_to([]) == dict.fromkeys(("1e-04", "1e-06", "1e-09"))


def test_a_course_keeps_the_lowest_held_out_loss():
    run = lambda loss, best: SimpleNamespace(held_out=SimpleNamespace(best=loss), best=best)
    starts = SimpleNamespace(inner=run(0.2, "second"), best=run(0.1, "first"), best_loss=0.1)
    assert course.lowest(starts) == "first"
    starts.inner = run(0.05, "second")
    assert course.lowest(starts) == "second"
    assert course.lowest(SimpleNamespace(inner=run(1.0, "alone"))) == "alone"
    assert course.lowest(SimpleNamespace(params="last")) == "last"


def test_a_new_run_replaces_its_like_alone():
    result = {"runs": [_made_up(1, 1, 1, 1), _made_up(0, 1, 1, 1, "helmholtz-1d")]}
    families.put(result, _made_up(1, 2, 2, 2))
    families.put(result, _made_up(0, 3, 3, 3))
    families.put(result, _made_up(1, 4, 4, 4, protocol="paper"))
    kept = [(r["family"], r["seed"], r["error"]["mean"]) for r in result["runs"]]
    assert kept == [("helmholtz-1d", 0, 1), ("burgers", 0, 3), ("burgers", 1, 2), ("burgers", 1, 4)]


def test_unknown_families_and_files_of_other_machines_are_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit):
        families.main(["--families", "helmholtz-9d"])
    out = tmp_path / "families.json"
    out.write_text(json.dumps({"runs": [_made_up(0, 1, 1, 1)]}))
    monkeypatch.setattr(families, "_stamp", lambda seeds: {"device": "quipu", "platform": "cpu"})
    with pytest.raises(SystemExit, match=r"another machine \(abacus\)"):
        families.main(["--out", str(out)])


@pytest.mark.slow
def test_a_training_in_a_fresh_process_is_kept_and_not_repeated(tmp_path, capsys):
    out = tmp_path / "new" / "families.json"
    options = ["--families", "helmholtz-1d", "--seeds", "3", "--protocol", "smoke"]
    families.main([*options, "--out", str(out), "--targets", "cpu"])
    written = json.loads(out.read_text())
    assert written["stamp"]["seeds"] == [3]
    assert {"date", "device", "versions", "load"} <= set(written["stamp"])
    assert written["command"].startswith("python -m benchmarks.families --families helmholtz-1d")
    (run,) = written["runs"]
    assert (run["family"], run["seed"], run["protocol"]) == ("helmholtz-1d", 3, "smoke")
    assert run["device"] == written["stamp"]["device"]
    assert {"mean", "dense_max", "grid"} <= set(run["error"])
    spent = run["seconds"]
    assert 0 < spent["compile"] < spent["total"] < run["wall"]["train_call"]
    assert spent["total"] < run["wall"]["process"]
    assert run["course"][-1]["error"] == pytest.approx(run["error"]["mean"], rel=1e-6)
    assert run["course"][-1]["seconds"] < run["wall"]["process"]
    assert set(run["seconds_to"]) == {"1e-04", "1e-06", "1e-09"}
    assert "missed" in capsys.readouterr().out
    families.main([*options, "--out", str(out)])
    assert "seed 3: there already" in capsys.readouterr().out
    assert json.loads(out.read_text())["runs"] == [run]


@pytest.mark.slow
def test_a_training_that_fails_is_reported(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(families, "_stamp", lambda seeds: {"device": "abacus", "platform": "cpu"})
    with pytest.raises(SystemExit, match="1 trainings failed"):
        families.main(
            ["--families", "burgers", "--seeds", "0", "--protocol", "smoke", "--seconds", "1",
             "--out", str(tmp_path / "families.json")]
        )  # fmt: skip
    assert "does not take seconds" in capfd.readouterr().err


# -- gauss_newton and scaling ---------------------------------------------------------------------


@pytest.mark.slow
def test_sizes_beside_the_peak(tmp_path, capsys, monkeypatch):
    out = tmp_path / "grid.json"
    monkeypatch.setitem(chunks.MEMORY, "cpu", 1 << 23)  # the 600 rows in chunks
    gauss_newton.main(["--grid", "100x600", "--repeats", "1", "--out", str(out)])
    (size,) = json.loads(out.read_text())["sizes"]
    assert abs(size["parameters"] - 100) < 40
    assert size["rows"] == 600
    assert set(size["share"]) == {"normal", "cholesky"}
    assert all(0 < share < 1.5 for share in size["share"].values())
    assert size["bytes"]["jacobian"] == 8 * 600 * size["parameters"]
    assert size["bytes"]["step"] > 8 * size["parameters"] ** 2
    assert "of peak" in capsys.readouterr().out


def test_a_model_of_many_gpus():
    """Rows are divided, the rest is not; 64 GPUs exchange through the network, too."""
    sizes = [
        {"parameters": 100, "rows": n, "solver": "two-level", "seconds": {"step": 0.5 + 1e-3 * n}}
        for n in (1000, 5000)
    ]
    sizes.append({**sizes[0], "parameters": 10})
    model = scaling.model(sizes, 64_000, (1, 8, 64))
    one, eight, many = model["steps"]
    assert model["bytes"] == 2 * 8 * 100**2
    assert one["step"] == pytest.approx(64.5)
    assert one["all_reduce"] == 0
    assert eight["rows"] == pytest.approx(8.0)
    assert eight["fixed"] == pytest.approx(0.5)
    assert eight["all_reduce"] == pytest.approx(2 * 7 / 4 * 8e4 / scaling.NVLINK)
    through = 2 * 7 / 4 * 1e4 / scaling.NETWORK
    assert many["all_reduce"] == pytest.approx(eight["all_reduce"] + through)
    assert many["efficiency"] == pytest.approx(64.5 / (64 * many["step"]))


# -- gauss_newton, part by part -------------------------------------------------------------------


@pytest.mark.slow
def test_the_parts_of_a_gauss_newton_step(tmp_path, capsys):
    out = tmp_path / "new" / "gauss-newton.json"
    gauss_newton.main(["--widths", "4x4", "--repeats", "2", "--out", str(out)])
    written = json.loads(out.read_text())
    assert {"stamp", "setting", "sizes", "command"} <= set(written)
    full, sample = written["sizes"]
    assert (full["space"], sample["space"]) == ("parameter", "sample")
    assert full["rows"] == 3 * full["parameters"]
    assert sample["rows"] == sample["parameters"] // 2
    assert set(full["ms"]["factorise"]) == set(full["ms"]["step"]) == set(gauss_newton.FACTORISE)
    assert set(gauss_newton.parts(full["ms"])) | {"solve"} == set(gauss_newton.COLUMNS)
    assert all(ms > 0 for ms in gauss_newton.parts(full["ms"]).values())
    assert set(sample["ms"]) == {"rows", "jacobian", "solve", "losses", "step"}
    assert out.with_suffix(".png").stat().st_size > 10_000
    assert "4x4" in capsys.readouterr().out


def test_what_would_take_too_long_is_left_out():
    before = [{"parameters": 100, "ms": {"step": {"qr": 3000.0, "cholesky": 1000.0}}}]
    assert gauss_newton._affordable([], 200, 20, "parameter") == list(gauss_newton.FACTORISE)
    assert gauss_newton._affordable(before, 200, 20, "parameter") == ["cholesky"]
    assert gauss_newton._affordable(before, 300, 20, "parameter") == []


# -- regression ----------------------------------------------------------------------------------


def test_variants_of_a_regression_leave_out_one_thing_each():
    family = Decay()
    protocol = lc.protocol.fast(family, seconds=20.0, tolerance=1e-6)
    every = regression.variants(family, protocol)
    assert list(every) == ["", "descent", "few rows", "even rows"]
    taught = [of_kind(OwnSolutions, of_kind(Restarts, p.phases[0]).phase) for p in every.values()]
    assert [own.descent_rows for own in taught] == [1.0, 1.0, 0.0, 1.0]
    assert [own.dense_at_ends for own in taught] == [True, True, True, False]
    network = of_kind(MLP, protocol.network)
    how = replace(network.parameters, stretch=(0.0, 1.0))
    network = replace(network, carriers=((30.0,),), parameters=how)
    every = regression.variants(family, replace(protocol, network=network))
    assert list(every) == ["", "descent", "few rows", "no carriers", "whole radius", "no stretch"]
    assert of_kind(MLP, every["no carriers"].network).carriers == ()
    unstretched = of_kind(MLP, every["no stretch"].network)
    assert of_kind(FiLM, unstretched.parameters).stretch == ()
    assert unstretched.carriers == ((30.0,),)


# -- frequencies -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_frequencies_that_move_are_compared_with_fixed_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(frequencies, "FAMILIES", {"ring": frequencies.Ring()})
    out = tmp_path / "frequencies.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lc.NotSolvedWarning)
        frequencies.main(["--seconds", "3", "--seeds", "214", "--out", str(out)])
    moving, fixed_ones = read_json(out)["runs"]
    assert (moving["way"], fixed_ones["way"]) == ("moving", "fixed")
    assert moving["parameters"] != fixed_ones["parameters"]  # slopes for each coefficient
    assert all(np.isfinite(run["worst"]) for run in (moving, fixed_ones))


@pytest.mark.parametrize("name", frequencies.FAMILIES)
def test_what_moves_has_the_closed_form_that_it_says(name):
    assert [finding for finding in check(frequencies.FAMILIES[name]) if not finding.ok] == []


# -- continuation ----------------------------------------------------------------------------------


def test_rows_of_a_part_lie_in_its_share_of_the_range():
    whole, sampling = Wave(), Sampling(64, 16, 1, "collocation")
    begun = fixed(continuation.restricted(whole, "coefficient", 0.25), sampling, jnp.float64)
    early = fixed(continuation.restricted(whole, "time", 0.5), sampling, jnp.float64)
    for points in begun.values():  # c is from 1 to 3
        assert 1 <= points.parameters.min() <= points.parameters.max() <= 1.5
    assert early["interior"].parameters.max() > 2.9
    assert 0.45 < early["interior"].coordinates[..., 0].max() <= 0.5
    assert early["interior"].coordinates[..., 1].max() > 0.9
    for way in continuation.WAYS:
        assert continuation.restricted(whole, way, 1.0) is whole


# -- growth ----------------------------------------------------------------------------------------


def test_a_wider_network_is_the_same_function_and_its_new_units_can_be_noticed():
    how = FiLM(hidden=0, degree=2, exponential=True, slopes=1.0)
    network = MLP((5, 4), "sine", how, frequency_scale=2.0, readout=1, sweeps=((1.0,), (2.0,)))
    wider = replace(network, widths=(7, 6))
    with double():
        key, features = jax.random.PRNGKey(0), Series(Orders(((0,),)), jnp.ones((1, 9, 1)) * 0.3)
        lam = {"parameters": jnp.linspace(-1, 1, 9)[:, None]}
        begin = lambda n: quick(lambda key: n.init(key, 1, 2, {"parameters": 1}, jnp.float64))
        outputs = lambda n: lambda params: n.apply(params, features, lam).coefficients
        made = [begin(n)(key) for n in (network, wider)]
        trained = jax.tree.map(lambda a: np.asarray(a) + 0.1, made[0])
        grown = growth.widened(trained, made[1])
        before, after = quick(outputs(network))(trained), quick(outputs(wider))(grown)
        np.testing.assert_allclose(after, before, rtol=1e-12)
        slopes = quick(jax.grad(lambda p: jnp.sum(outputs(wider)(p))))(grown)
        assert growth.widths_of(grown) == (7, 6)
        last, middle = (np.asarray(slopes["layers"][i]["w"]) for i in (2, 1))
        assert np.all(np.abs(last[4:]) > 0)  # of outputs, for new units
        assert np.all(np.abs(middle[5:, :4]) > 0)  # of old ones, too


# -- choices -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_choice_reaches_the_optimiser(tmp_path, capsys, monkeypatch):
    """Every value is trained alike, and every run is kept as soon as it is done."""
    out, asked, corners = tmp_path / "new" / "choice.json", [], []

    def train(family, protocol, *, seed, progress):
        how = protocol.phases[0].phase
        asked.append((seed, how.acceptance, how.patience, how.seconds))
        if asked[1:]:
            assert len(json.loads(out.read_text())["trainings"]) == len(asked) - 1
        corners.append(family.setting_corners)
        verdict = SimpleNamespace(to_json=lambda: {"error": None})
        return SimpleNamespace(run={"training": {"stopped": ["the time is up"]}}, verdict=verdict)

    monkeypatch.setattr(choices.lc, "train", train)
    monkeypatch.setattr(choices, "validate", lambda solution: {"residual": 1e-3})
    monkeypatch.setattr(choices, "evaluate", lambda solution: {"mean": 2e-5})
    options = ["--families", "heat", "--seeds", "3", "--seconds", "7"]
    choice = "acceptance+patience=GainRatio+6,ModelDriven+9"
    choices.main(["--choice", choice, *options, "--out", str(out)])
    assert asked == [(3, GainRatio(), 6, 7.0), (3, ModelDriven(), 9, 7.0)]
    assert {"stamp", "command", "trainings"} <= set(json.loads(out.read_text()))
    assert "acceptance ModelDriven, patience 9" in capsys.readouterr().out
    asked.clear()
    choices.main(["--choice", "setting_corners=False,True", *options, "--out", str(out)])
    assert corners == [True, True, False, True]  # by default they are there


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--choice", "radius=0", "--families", "soup"], "no family 'soup' here; there are helm"),
        (["--choice", "soup=0"], "neither Gauss-Newton nor a page has a field 'soup'"),
        (["--choice", "sampling=0"], "has a field 'sampling' with one value"),
        (["--choice", "setting_corners=1"], "'1' is neither False nor True"),
        (["--choice", "acceptance=soup"], "no acceptance 'soup'; there are GainRatio"),
        (["--choice", "radius+patience=0"], "as many values as fields"),
        (["--choice", "radius"], "as many values as fields"),
    ],
)
def test_a_choice_that_is_none(options, message):
    with pytest.raises(SystemExit, match=message):
        choices.main(options)


# -- baselines -----------------------------------------------------------------------------------


def _tiny(method, family):
    """A method on a network and points that compile fast."""
    return replace(
        example(method, family),
        network=MLP((4,)),
        sampling=Sampling(32, 8, 1),
        quadrature=Sampling(16, 4, 1, "gauss"),
    )


@pytest.mark.slow
def test_every_phase_of_a_method_is_timed_and_the_batch(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(baselines, "example", _tiny)
    monkeypatch.setattr(baselines, "POINTS", 120)
    out = tmp_path / "new" / "baselines.json"
    options = ["--families", "helmholtz-1d", "--protocols", "causal-pinn", "--repeats", "2"]
    baselines.main([*options, "--out", str(out)])
    written = json.loads(out.read_text())
    assert {"date", "device", "versions", "seed", "load"} <= set(written["stamp"])
    assert str(tmp_path) not in json.dumps(written)
    assert written["command"].endswith("--repeats 2 --out baselines.json")
    assert "needs a coordinate t" in written["left_out"]["helmholtz-1d"]["causal-pinn"]
    adam, lbfgs, at_once = written["phases"]
    assert [row["optimiser"] for row in (adam, lbfgs, at_once)] == ["Adam", "L-BFGS", "Adam"]
    assert [row["at_once"] for row in (adam, lbfgs, at_once)] == [1, 1, 15]
    assert [row["points"] for row in (adam, lbfgs, at_once)] == [40, 20, 15 * 40]
    assert {row["parameters"] for row in (adam, lbfgs, at_once)} == {4 + 4 + 4 + 1}
    assert all(len(row["ms_per_step"]["calls"]) == 2 for row in written["phases"])
    assert all(min(row["ms_per_step"]["calls"]) > 0 for row in written["phases"])
    assert adam["times_pinn"] == 1
    assert at_once["times_alone"] == at_once["times_pinn"]
    assert out.with_suffix(".png").stat().st_size > 10_000
    assert "pinn, 15 at once" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        baselines.main(["--protocols", "pimm"])


@pytest.mark.slow
def test_the_batch_takes_the_steps_of_its_members_alone():
    protocol = _tiny("pinn", Helmholtz(1))
    setup = step.make_setup(protocol.view(Helmholtz(1)), protocol)
    phase = replace(of_kind(Adam, protocol.phases[0]), block=3)
    stage = baselines.batch(phase, setup, baselines.grid_values(Helmholtz(1)))
    state, _ = stage.advance(stage.init({}, jnp.zeros(2)))
    last = jax.tree.map(lambda leaf: leaf[-1], state)
    held = replace(setup, coefficients=baselines.grid_values(Helmholtz(1))[-1])
    alone, key = phase.build(held), jax.random.PRNGKey(baselines.SEEDS[-1])
    one, _ = alone.advance(alone.init(setup.problem.init(key), key))
    assert baselines._step(state) == int(one.step) == 3
    for a, b in zip(*map(jax.tree.leaves, (last.params, one.params)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "family", "points"),
    [
        ("lc-pinn", Helmholtz(1), [4 * (2000 + 100), 16 * (2000 + 100)]),
        ("pi-deeponet", Helmholtz(1), [4 * (2000 + 100), 16 * (2000 + 100)]),
        ("causal-pinn", Burgers(), [2000 + 200 + 200]),
        ("fno", Burgers(), [16 * 4 * 512]),
        ("fast", Helmholtz(1), [2600]),
    ],
)
def test_the_points_of_a_step_at_published_size(method, family, points):
    protocol = example(method, family)
    setup = step.make_setup(protocol.view(family), protocol)
    phases = map(baselines._bare, protocol.phases)
    assert [baselines.num_points(phase, setup) for phase in phases] == points


def test_ratios_come_first_on_a_cpu_and_milliseconds_elsewhere(tmp_path):
    row = {"family": "burgers", "parameters": 9, "points": 8, "at_once": 1, "optimiser": "Adam",
           "build_seconds": 0.0, "compile_seconds": 1.0}  # fmt: skip
    rows = [
        row | {"method": "pinn", "ms_per_step": {"median": 2.0}},
        row | {"method": "relobralo", "ms_per_step": {"median": 3.0}},
        row | {"method": "relobralo", "ms_per_step": {"median": 12.0}, "at_once": 15},
    ]
    baselines.compared(rows)
    assert [r["times_pinn"] for r in rows] == [1, 1.5, 6]
    assert rows[2]["times_alone"] == 4
    assert baselines.table("burgers", rows, "cpu").splitlines()[2].split()[1:3] == ["1.5", "3"]
    assert baselines.table("burgers", rows, "gpu").splitlines()[2].split()[1:3] == ["3", "1.5"]
    result = {"phases": rows, "setting": {"platform": "gpu"}, "stamp": {"device": "abacus"}}
    assert baselines.draw(result, tmp_path / "gpu.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_solver_is_measured_and_drawn(tmp_path, capsys):
    out = tmp_path / "solve.json"
    asked = ["--families", "helmholtz-1d", "--settings", "2", "--seconds", "5", "--out", str(out)]
    solve.main([*asked, "--parts", "solve,interpolant"])
    assert "helmholtz-1d" in capsys.readouterr().out
    written = json.loads(out.read_text())
    assert str(tmp_path) not in json.dumps(written)
    rows = written["families"]["helmholtz-1d"]["settings"]
    assert [row["error"] < 1e-10 for row in rows] == [True, True]
    over_all = written["families"]["helmholtz-1d"]["interpolant"]
    assert over_all["error"] < 1e-8
    assert over_all["verdict"]["solved"]
    assert out.with_suffix(".png").stat().st_size > 10_000
    solve.main([*asked, "--parts", "solve,interpolant", "--resume"])  # nothing is left to measure
    assert not capsys.readouterr().out
    assert json.loads(out.read_text())["families"] == written["families"]


@pytest.mark.slow
def test_a_solve_on_a_box_is_measured(tmp_path, capsys, monkeypatch):
    out = tmp_path / "boxes.json"
    monkeypatch.setattr(boxes, "SIZES", {2: (12, 20)})
    boxes.main(["--families", "helmholtz-2d", "--most", "12", "--out", str(out)])
    assert "144 unknowns in   4 blocks" in capsys.readouterr().out
    (entry,) = json.loads(out.read_text())["solves"]
    assert entry["converged"]
    assert entry["largest"] == 36


def test_settings_of_the_solver_keep_their_places():
    entry = {}
    for begin in (5, 0):  # whoever is done first
        rows = [{"error": 1e-9, "seconds": 0.1, "i": begin + i} for i in range(5)]
        answer = {"coordinates": 1, "first_seconds": float(begin), "settings": rows}
        solve.put(entry, solve.Job("helmholtz-1d", "solve", begin), answer)
    assert [row["i"] for row in entry["settings"]] == list(range(10))
    assert entry["first_seconds"] == 0.0
    failed = {"failed": "out of memory"}
    solve.put(entry, solve.Job("helmholtz-1d", "fast"), failed)
    assert entry["fast"] == failed
    assert "failed: out of memory" in solve.line(solve.Job("helmholtz-1d", "fast"), failed)


@pytest.mark.slow
def test_line_searches_are_compared_on_the_same_start(tmp_path):
    file = tmp_path / "searches.json"
    few = ["--members", "2", "--steps", "10", "--adam", "1", "--points", "8", "--layers", "1"]
    line_search.main([*few, "--out", str(file)])
    ours, other = json.loads(file.read_text())["runs"]
    assert (ours["search"], other["search"]) == ("ours", "optax")
    for run in (ours, other):
        losses = [block["loss"] for block in run["blocks"]]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < losses[0]
    # The same first direction, and a first step that satisfies the same conditions.
    np.testing.assert_allclose(ours["blocks"][0]["loss"], other["blocks"][0]["loss"], rtol=0.2)
