"""The benchmark of error against time: its steps, its file and its lines; not its numbers."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import of_kind

from benchmarks import frontier
from benchmarks.course import UNSEEN, error_of
from benchmarks.frontier import Cost, Snapshot
from lcpinn.evaluation import true_errors
from lcpinn.families import FAMILIES
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.optimiser import LBFGS, Adam
from lcpinn.protocol import interpolant, smoke
from lcpinn.protocol.shrink import shrunk
from lcpinn.training import train


def entry(**curves):
    stamp = {"device": "a machine", "versions": {}}
    return {"stamp": stamp, "seconds": 1.0, "paper": {"mean": 1e-3}, "curves": curves}


def curve(*errors):
    return {"points": [{"seconds": i + 1.0, "error": e, "step": i} for i, e in enumerate(errors)]}


# Steps.


def test_the_steps_fill_the_time():
    costs, totals = [Cost(5.0, 0.01), Cost(10.0, 0.1)], [50_000, 1_500]
    steps, block = frontier.scaled_steps(60.0, costs, totals)
    spent = 15.0 + steps * 0.01 + steps * 1_500 / 50_000 * 0.1
    assert 60.0 - spent == pytest.approx(0.0, abs=0.5)
    assert steps % block == 0
    assert steps // block >= frontier.CALLS


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, (1, 1)), (1e9, (50_000, 2_000))])
def test_there_is_at_least_one_step_and_never_more_than_the_paper_has(seconds, expected):
    assert frontier.scaled_steps(seconds, [Cost(2.0, 0.01)], [50_000]) == expected


def test_the_protocol_shrinks_as_a_whole(monkeypatch):
    monkeypatch.setattr(frontier, "phase_costs", lambda *_, **__: [Cost(1.0, 0.01), Cost(2.0, 0.1)])
    protocol, timing = frontier.paper_within(Helmholtz(1), 42.1, 0)
    adam = of_kind(Adam, protocol.phases[0])
    finish = of_kind(LBFGS, protocol.phases[1].innermost)
    assert adam.steps == timing["steps"][0] == 550  # 39 s at 70 ms, with its share of L-BFGS
    assert finish.steps == adam.steps * 30_000 // 50_000
    assert timing["steps_of_the_paper"] == [50_000, 30_000]
    short, timing = frontier.paper_within(Helmholtz(1), 3.05, 0)
    assert [type(p).__name__ for p in short.phases] == ["Adam"]
    assert len(timing["steps"]) == 1


@pytest.mark.slow
def test_a_phase_is_timed():
    family = Helmholtz(1)
    costs = frontier.phase_costs(family, smoke(family), 0, least=0.01)
    assert len(costs) == 2
    assert all(cost.once > cost.step > 0 for cost in costs)


# Curves.


def test_points_are_thinned_evenly_in_the_logarithm():
    taken = [Snapshot(float(t), t, dict) for t in range(1, 101)]
    kept = [one.step for one in frontier.thinned(taken, 5)]
    assert kept == [1, 3, 10, 32, 100]
    assert frontier.thinned(taken[:3], 5) == taken[:3]


@pytest.mark.slow
def test_a_run_ends_where_train_ends():
    family, said = Helmholtz(1), []
    frontier.report(family, lambda: smoke(family), 3, lambda **record: said.append(record))
    points = [record for record in said if "error" in record]
    seconds = [p["seconds"] for p in points]
    assert seconds == sorted(seconds)
    assert [p["step"] for p in points] == [20, 40, 60, 65, 70]
    trained = train(family, smoke(family), seed=3, progress=False, report=False)
    assert points[-1]["error"] == pytest.approx(trained.evaluate()["mean"], rel=1e-6)
    assert said[0]["parameters"] == trained.num_params
    assert len(said[0]["stopped"]) == 2


def test_lines_of_json_become_a_curve():
    lines = ["hello", '{"versions": {"deepxde": "1"}}', '{"seconds": 1, "error": 0.5, "step": 2}']
    script = f"for line in {lines!r}: print(line)"
    found = frontier.collect([sys.executable, "-c", script], 60)
    assert found["points"] == [{"seconds": 1, "error": 0.5, "step": 2}]
    assert found["versions"] == {"deepxde": "1"}
    assert found["seconds_to"] == {"1e-04": None, "1e-06": None, "1e-09": None}
    assert frontier._rival_versions({"deepxde": found}) == {"deepxde": "1"}


def test_what_could_not_run_says_why():
    failed = frontier.collect([sys.executable, "-c", "raise SystemExit('no such wheel')"], 60)
    assert failed["unavailable"] == "exit code 1: no such wheel"
    silent = frontier.collect([sys.executable, "-c", "pass"], 60)
    assert silent["unavailable"] == "it ended without a result"
    begun = 'print(\'{"seconds": 1, "error": 1, "step": 1}\'); raise SystemExit(\'then this\')'
    broken = frontier.collect([sys.executable, "-c", begun], 60)
    assert "unavailable" not in broken
    assert broken["problem"].endswith("then this")


def test_a_missing_environment_is_named(tmp_path):
    given = frontier._parse(["--rivals", "--environment", str(tmp_path)])
    found = frontier.compete("helmholtz-1d", "scimba", given)
    assert "--install-rivals" in found["unavailable"]
    assert frontier.summary(found).startswith("unavailable: no ")


@pytest.mark.slow
def test_an_interpolant_is_compared_between_its_nodes():
    """At settings of the grid that it has solved there is nothing to see."""
    family = Helmholtz(1)
    protocol = shrunk(interpolant(family))
    solution = train(family, protocol, progress=False, report=False)
    unseen = true_errors(solution, family.parameters.sobol(UNSEEN, seed=13))
    assert unseen is not None
    error = error_of(protocol.view(family), protocol)(solution.params)
    assert error == pytest.approx(max(unseen), rel=1e-9)
    assert error > solution.evaluate()["mean"]


# The file.


def test_families_are_added_to_a_file_and_replaced_in_it(tmp_path):
    out = tmp_path / "frontier.json"
    for name, error in (("burgers", 0.1), ("helmholtz-1d", 0.2), ("burgers", 0.3)):
        result = frontier.merged(out, name, entry(fast=curve(error)))
        out.write_text(json.dumps(result))
    assert list(result["families"]) == ["helmholtz-1d", "burgers"]
    assert result["families"]["burgers"]["curves"]["fast"]["points"][0]["error"] == 0.3
    assert "runs" not in result  # which would make it a table of the README


def test_rivals_that_were_not_run_stay_with_the_stamp_of_their_day(tmp_path):
    out = tmp_path / "frontier.json"
    old = entry(fast=curve(0.5), deepxde=curve(0.1), scimba=curve(0.2))
    old["stamp"] |= {"date": "2026-01-02T03:04"}
    out.write_text(json.dumps(frontier.merged(out, "helmholtz-1d", old)))
    new = entry(fast=curve(0.3), scimba=curve(0.01))
    curves = frontier.merged(out, "helmholtz-1d", new)["families"]["helmholtz-1d"]["curves"]
    assert list(curves) == ["fast", "deepxde", "scimba"]
    assert curves["fast"]["points"][0]["error"] == 0.3
    assert curves["scimba"] == new["curves"]["scimba"]
    assert curves["deepxde"]["points"][0]["error"] == 0.1
    assert "(2026-01-02)" in frontier.table({"helmholtz-1d": new | {"curves": curves}})
    missing = entry(fast=curve(0.3), deepxde={"unavailable": "no environment"})
    curves = frontier.merged(out, "helmholtz-1d", missing)["families"]["helmholtz-1d"]["curves"]
    assert curves["deepxde"]["points"][0]["error"] == 0.1


def test_the_table_has_the_seconds_to_each_level():
    families = {"burgers": entry(fast=curve(1e-3, 1e-5, 1e-7), paper={"unavailable": "why"})}
    (line,) = frontier.table(families).splitlines()[1:]
    assert line.split()[-5:] == ["1.0e-07", "3.0", "2.0", "3.0", "–"]


def test_what_does_not_apply_says_so(capsys):
    frontier.run_one("burgers", "interpolant", 1.0, 0)
    assert "needs one to four coefficients" in json.loads(capsys.readouterr().out)["unavailable"]


@pytest.mark.slow
def test_every_number_of_families_can_be_drawn(tmp_path):
    one = entry(fast=curve(0.1, 1e-6), paper=curve(1.0, 0.5), scimba={"unavailable": "no wheel"})
    for number in (1, 2, 4):
        families = dict.fromkeys(list(frontier.FAMILIES)[:number], one)
        path = frontier.draw({"families": families, "stamp": one["stamp"]}, tmp_path / "f.png")
        assert path.stat().st_size > 1000


def test_rivals_are_for_some_families_and_families_are_known():
    for name in frontier.RIVALS_ON:
        assert frontier.contenders(name, rivals=True)[3:] == ["deepxde", "scimba"]
    assert frontier.contenders("burgers", rivals=True) == ["fast", "interpolant", "paper"]
    with pytest.raises(SystemExit):
        frontier._parse(["--families", "helmholtz-4d"])


@pytest.mark.parametrize("name", frontier.RIVALS_ON)
def test_the_rivals_solve_the_same_problem(name, x64):
    where = spec_from_file_location("problem", frontier.SCRIPTS / "problem.py")
    assert where is not None
    module = sys.modules["problem"] = module_from_spec(where)  # dataclasses ask for it
    where.loader.exec_module(module)
    problem, family, k = module.PROBLEMS[name], FAMILIES[name](), 3.25
    ((parameter, (low, high)),) = family.parameters.ranges.items()
    assert (problem.low, problem.high) == (low, high)
    assert problem.grid == tuple(family.evaluation.at[parameter])
    assert family.evaluation.points == {"x": module.POINTS}
    x = np.linspace(0, 1, 7)
    np.testing.assert_allclose(problem.exact(x, k), problem.exact(x, k, jnp), rtol=1e-12)
    exact = lambda x: problem.exact(x, k, jnp)
    for at in x:
        assert float(exact(at)) == pytest.approx(float(family.exact(at, k)), abs=1e-12)
        left = jax.grad(jax.grad(exact))(at) + problem.factor(at, k) * exact(at)
        assert float(left) == pytest.approx(float(problem.forcing(at, k)), abs=1e-9)
    assert module.grid_error(problem, problem.exact) == 0


@pytest.mark.slow
def test_it_runs_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "new" / "frontier.json"
    frontier.main(["--families", "schrodinger-1d", "--seconds", "1", "--out", str(out)])
    result = json.loads(out.read_text())
    found = result["families"]["schrodinger-1d"]
    assert {"date", "device", "versions", "seed", "load"} <= set(result["stamp"])
    assert set(found["curves"]) == {"fast", "interpolant", "paper"}
    for one in found["curves"].values():
        assert one["points"][-1]["error"] > 0
        assert "problem" not in one
    assert found["curves"]["paper"]["timing"]["steps"][0] >= 1
    assert found["curves"]["interpolant"]["points"][-1]["error"] < 1e-2
    assert set(found["curves"]["interpolant"]["seconds_to"]) == {"1e-04", "1e-06", "1e-09"}
    assert out.with_suffix(".png").exists()
    assert "schrodinger-1d" in capsys.readouterr().out
