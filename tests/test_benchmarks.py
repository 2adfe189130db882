"""The benchmarks run and say what they should; their numbers are for quiet machines."""

import json
import sys

import jax
import pytest

from benchmarks import __main__ as runner
from benchmarks import families, gauss_newton, step
from benchmarks.stamp import stamp
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.protocol import smoke


@pytest.fixture(scope="module")
def result():
    return step.measure(smoke(Helmholtz(1)), 2, torch=False, rounds=2)


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
    assert {"families", "gauss_newton", "step"} <= set(listed)
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
    runs = [_made_up(0, 1e-4, 3e-4, 50), _made_up(1, 2e-4, 8e-4, 60), _made_up(2, 10e-4, 9e-4, 40)]
    other = [_made_up(0, 1.0, 1.0, 1, protocol="paper")]
    (row,) = families.summarise(runs + other)
    assert (row["family"], row["seeds"], row["seconds"]) == ("burgers", 3, 50)
    assert row["median"] == 2e-4
    assert row["worst"] == 10e-4
    assert row["dense_max"] == 8e-4
    assert row["worst_over_median"] == pytest.approx(5)
    assert row["dense_max_over_mean"] == pytest.approx(4)
    assert row["paper"] == pytest.approx(3.47e-3)
    assert "reached" in families.table([row], "cpu")
    assert "missed, 2e+02 times" in families.table([row], "h200")
    assert "target" not in families.table([row])


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
    assert "missed" in capsys.readouterr().out
    families.main([*options, "--out", str(out)])
    assert "seed 3: there already" in capsys.readouterr().out
    assert json.loads(out.read_text())["runs"] == [run]


def test_a_training_that_fails_is_reported(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(families, "_stamp", lambda seeds: {"device": "abacus", "platform": "cpu"})
    with pytest.raises(SystemExit, match="1 trainings failed"):
        families.main(
            ["--families", "burgers", "--seeds", "0", "--protocol", "smoke", "--seconds", "1",
             "--out", str(tmp_path / "families.json")]
        )  # fmt: skip
    assert "does not take seconds" in capfd.readouterr().err


# -- gauss_newton --------------------------------------------------------------------------------


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
