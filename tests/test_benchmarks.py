"""The benchmarks run and say what they should; their numbers are for quiet machines."""

import json
import sys

import jax
import pytest

from benchmarks import __main__ as runner
from benchmarks import step
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
    assert capsys.readouterr().out.startswith("step")
    with pytest.raises(SystemExit, match="there is no benchmark 'stepp'; there are step"):
        runner.run(["stepp"])
    with pytest.raises(SystemExit, match="name a benchmark"):
        runner.run(["--steps", "3"])


@pytest.mark.slow
def test_both_compute_the_same():
    pytest.importorskip("torch")
    same = step.measure(smoke(Helmholtz(1)), 2, torch=True, rounds=1)["same"]
    assert max(same.values()) < 1e-4
