"""What a step takes alone, and what a training takes by it."""

import pytest

from lcpinn.study import times
from lcpinn.study.plan import one_method
from lcpinn.study.report.cells import Study
from lcpinn.study.report.page import text
from lcpinn.study.store import Store


def test_a_training_takes_as_long_as_its_steps():
    phases = [{"step": 0.5}, {"step": 2.0, "evaluation": 1.0}]
    both = ["phase 1, Adam of 4 at once: 100 steps done", "phase 2, LBFGS: after 3 steps"]
    assert times.seconds_alone(phases, both) == 56.0
    counted = [both[0], "phase 2, LBFGS: no decrease left in float32 after 3 steps, 7 evaluations"]
    assert times.seconds_alone(phases, counted) == 57.0
    assert times.seconds_alone(phases, both[:1]) is None  # a run of another protocol
    epochs = ["phase 1, Supervised: 20 epochs done"]
    assert times.seconds_alone(phases[:1], epochs) is None
    assert times.seconds_alone([{"step": 0.5, "epoch": 2.0}], epochs) == 40.0


@pytest.mark.slow
def test_every_method_whose_steps_are_alike_is_timed_by_phase(tmp_path):
    store, said = Store(tmp_path, tmp_path / "results"), []
    runs = [
        run
        for method in ("paper", "sa-pinn", "fast")
        for run in one_method("helmholtz-1d", method, "smoke")
    ]
    runs += one_method("burgers", "fno", "smoke")
    made = times.measure_times(runs, store, moment=0.05, say=said.append)
    assert store.times() == made
    (supervised,) = made["methods"].pop("burgers fno")
    assert supervised["epoch"] == 2 * supervised["step"]  # eight conditions, four at a time
    assert set(made["methods"]) == {"helmholtz-1d paper", "helmholtz-1d sa-pinn"}
    for adam, lbfgs in made["methods"].values():
        assert set(adam) == {"step"}
        assert set(lbfgs) == {"step", "evaluation"}
        assert 0 < lbfgs["evaluation"] <= lbfgs["step"]
    assert len(said) == 3
    times.measure_times(runs, store, moment=0.05, say=said.append)
    assert len(said) == 3  # what is known is not measured again


def test_cells_have_the_times_of_steps_alone():
    (run, *_) = one_method("burgers", "paper", "full")
    record = {
        "run": run.to_json(), "error": {"mean": 1e-3}, "measures": {}, "device": "somewhere",
        "seconds": {"total": 99.0}, "at_once": 4, "stopped": ["phase 1, Adam: 50000 steps done"],
    }  # fmt: skip
    shared = Study("full", {run.name: record}).cell("burgers", "paper")
    assert shared is not None
    assert (shared.seconds, shared.at_once, shared.device) == (99.0, 4, "somewhere")
    known = {"device": "GPU", "date": "2026-11-18", "methods": {"burgers paper": [{"step": 1e-4}]}}
    alone = Study("full", {run.name: record}, times=known).cell("burgers", "paper")
    assert alone is not None
    assert (alone.seconds, alone.at_once, alone.device) == (5.0, 1, "GPU")


def test_the_page_says_whose_times_it_has():
    known = {"device": "a GPU", "date": "2026-11-18T01:00:00+00:00", "methods": {}}
    shared, alone = (text(Study("full", {}, times=t), "page") for t in ({}, known))
    assert "alone on the device" not in shared
    assert "alone on the device (`lcpinn reproduce --times`, a GPU, 2026-11-18)" in alone
    assert "marked '1 of n'" in shared
