"""The benchmark on shapes: keeps, resumes, counts and draws; and measures what it says."""

import json

import numpy as np
import pytest
from toy import of_kind

import lcpinn as lc
from benchmarks.shapes import FAMILIES, __main__, training
from benchmarks.shapes.picture import draw
from lcpinn.certificate import Estimate


def made_up(name, seed=0, error=1e-4, estimate: float | None = 1.5e-4):
    setting = {"at": {}, "error": error, "estimate": estimate, "reason": "", "seconds": 0.1}
    return {
        "family": name, "seed": seed, "seconds": 61.0, "settings": [setting] * 9,
        "error": {"mean": error / 2, "dense_max": error, "dense_argmax": {}},
        "verdict": {"solved": True},
    }  # fmt: skip


@pytest.fixture
def trained(monkeypatch):
    """The command without its processes; what it trained, and what is to fail."""
    asked_for, broken = [], set()

    def train(name, seed, asked, cores):
        asked_for.append((name, seed, cores))
        if (name, seed) in broken:
            return {"family": name, "seed": seed, "asked": asked, "failed": "killed"}
        return made_up(name, seed) | {"asked": asked}

    monkeypatch.setattr(__main__, "train", train)
    origin = {"device": "abacus", "platform": "cpu"}
    monkeypatch.setattr(__main__, "stamp_in_fresh_process", lambda seeds, cores: dict(origin))
    return asked_for, broken


def test_what_is_kept_is_not_trained_again(trained, tmp_path, capsys):
    asked_for, broken = trained
    out = tmp_path / "new" / "shapes.json"
    broken.add(("kite", 1))
    options = ["--families", "pipes,kite", "--seconds", "7", "--out", str(out)]
    with pytest.raises(SystemExit, match="1 trainings failed"):
        __main__.main(options)
    written = json.loads(out.read_text())
    order = [(run["family"], run["seed"]) for run in written["runs"]]
    assert order == [("pipes", 0), ("pipes", 1), ("kite", 0), ("kite", 1)]
    assert "27 of 27 estimates within a factor of 3; 0 of 27 settings" in capsys.readouterr().out
    assert out.with_suffix(".png").exists()
    asked_for.clear()
    broken.clear()
    __main__.main([*options, "--resume"])
    assert asked_for == [("kite", 1, [])]
    asked_for.clear()
    again = ["--families", "kite", "--seeds", "1", *options[2:], "--resume", "--again"]
    __main__.main(again)
    assert asked_for == [("kite", 1, [])]
    assert len(json.loads(out.read_text())["runs"]) == 4
    with pytest.raises(SystemExit, match="were trained with"):
        __main__.main([*options, "--resume", "--seconds", "8"])


def test_every_estimate_that_is_far_off_is_named():
    runs = [made_up("pipes"), made_up("kite", estimate=1e-5), made_up("shell", estimate=None)]
    first, *wrong = __main__.summary(runs).splitlines()
    assert first == "9 of 18 estimates within a factor of 3; 9 of 27 settings have none"
    assert wrong[0] == "  kite, seed 0, {}: 1.0e-05 for 1.0e-04"
    assert __main__.line(runs[1]).split()[-3:] == ["9", "10.00", "61"]


def test_help_and_options(capsys):
    for options, message in (
        (["--help"], "--seeds SEEDS"),
        (["--families", "pipe"], "no family 'pipe' here; there are pipes"),
        (["--resume"], "--resume needs --out"),
        (["--again"], "--again needs --resume"),
    ):
        with pytest.raises(SystemExit):
            __main__.main(options)
        said = capsys.readouterr()
        assert message in said.out + said.err


def test_a_picture_of_all_of_it(tmp_path):
    runs = [made_up(name, seed, 10.0 ** -(3 + seed), 2e-4) for name in FAMILIES for seed in (0, 1)]
    runs[3] = made_up("kite", 1, estimate=None)
    runs.append({"family": "bore", "seed": 3, "failed": "killed"})
    result = {"runs": runs, "stamp": {"device": "abacus"}, "seconds": 60.0}
    assert draw(result, tmp_path / "shapes.png").stat().st_size > 30_000


def test_errors_are_measured_where_the_estimate_is_made():
    family = FAMILIES["pipes"]()

    class Off(lc.Solution):
        def __init__(self):
            self.family = family

        def __call__(self, weights=None, shots=None, **at):
            points = np.stack([at["x"], at["y"]], axis=-1)
            truth = of_kind(np.ndarray, family.truth(points, np.array([at["r"], at["b"]])))
            return 1.01 * truth[:, 0]

        def estimate(self, **at):
            return Estimate(0.02, at=at) if at["r"] < 0.5 else Estimate(np.nan, "not resolved")

    settings = training.settings(family)
    assert settings.shape == (9, 2)
    compared = [training.compared(Off(), lam) for lam in settings]
    assert all(row["error"] == pytest.approx(0.01) for row in compared)
    assert [training.factor(row) for row in compared[::8]] == [pytest.approx(2.0), None]
    assert compared[-1]["reason"] == "not resolved"
    assert len(training.settings(FAMILIES["bore"]())) == 1
