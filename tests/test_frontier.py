"""The benchmark of error against time: its steps, its file and its lines; not its numbers."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from toy import of_kind

from benchmarks import frontier
from benchmarks.course import UNSEEN, error_of
from benchmarks.frontier import Cost, Snapshot
from lcpinn.evaluation import evaluation_points, grid_values, relative_error, true_errors
from lcpinn.families import FAMILIES
from lcpinn.families.burgers import Burgers
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


# Rivals.


@pytest.fixture
def posed():
    """What the rivals' scripts import; they run elsewhere, without lcpinn."""
    where = spec_from_file_location("problem", frontier.SCRIPTS / "problem.py")
    assert where is not None
    module = sys.modules["problem"] = module_from_spec(where)  # dataclasses ask for it
    where.loader.exec_module(module)
    yield module
    del sys.modules["problem"]


def test_rivals_are_for_some_families_and_families_are_known():
    chosen = {name: frontier.contenders(name, rivals=True) for name in FAMILIES}
    assert all(each[:3] == ["fast", "interpolant", "paper"] for each in chosen.values())
    assert {name: each[3:] for name, each in chosen.items() if each[3:]} == {
        "helmholtz-1d": ["deepxde", "scimba"],
        "helmholtz-2d": ["pymor"],
        "schrodinger-1d": ["deepxde", "scimba"],
        "burgers": ["deepxde", "scimba"],
    }
    assert frontier.contenders("burgers", rivals=False) == ["fast", "interpolant", "paper"]
    with pytest.raises(SystemExit):
        frontier._parse(["--families", "helmholtz-4d"])


def test_every_rival_has_a_script_a_package_and_a_curve(tmp_path):
    pinned = (frontier.SCRIPTS / "requirements.txt").read_text()
    every = {name for names in frontier.RIVALS_ON.values() for name in names}
    assert every == set(frontier.RIVALS)
    for name, script in frontier.RIVALS.items():
        assert script.exists()
        assert f"\n{name}==" in pinned
    axis = Figure().subplots()
    frontier._panel(axis, entry(**dict.fromkeys([*frontier.OURS, *every], curve(0.1, 0.01))))
    drawn = [line for line in axis.lines if line.get_label() in frontier.LABELS.values()]
    assert len(drawn) == len({line.get_color() for line in drawn}) == len(frontier.LABELS)


def test_the_help_names_the_families_of_rivals(capsys):
    with pytest.raises(SystemExit):
        frontier._parse(["--help"])
    said = " ".join(capsys.readouterr().out.replace("-\n", "-").split())
    assert all(name in said for name in frontier.RIVALS_ON)


def test_a_rival_gets_true_values_for_its_error(tmp_path, monkeypatch):
    """A script that knows the solution and says 1.25 times as much is wrong by a quarter."""
    script = tmp_path / "by_pymor.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(frontier.SCRIPTS)!r})\n"
        "from math import pi\n"
        "from numpy import cos, sin\n"
        "from problem import Clock, Truth, options\n"
        "def predict(rows):\n"
        "    x, y, k = rows.T\n"
        "    return 1.25 * sin(pi * x) * cos(k * x) * sin(pi * y) * cos(k * y)\n"
        "given = options()\n"
        "clock = Clock(Truth(given.truth), given.seconds)\n"
        "clock.report(predict, len(clock.truth.settings))\n"
    )
    monkeypatch.setitem(frontier.RIVALS, "pymor", script)
    monkeypatch.setattr(frontier, "_python_of", lambda _: Path(sys.executable))
    found = frontier.compete("helmholtz-2d", "pymor", frontier._parse([]))
    assert "problem" not in found
    (point,) = found["points"]
    assert point["error"] == pytest.approx(0.25, rel=1e-12)
    assert point["step"] == 3


@pytest.mark.parametrize("name", ["schrodinger-1d", "burgers"])
def test_the_rivals_are_measured_where_we_are(name, posed, tmp_path):
    family = FAMILIES[name]()
    truth = posed.Truth(frontier.write_truth(family, tmp_path / "truth.npz"))
    assert np.array_equal(truth.points, evaluation_points(family))
    assert np.array_equal(truth.settings, grid_values(family))
    dim = family.domain.dim
    right = lambda rows: family.truth(rows[:, :dim], rows[0, dim:])
    assert truth.error(right) == 0
    true = [np.asarray(family.truth(truth.points, lam)) for lam in truth.settings]
    errors = [relative_error(value + 0.5, value) for value in true]
    assert truth.error(lambda rows: right(rows) + 0.5) == pytest.approx(np.mean(errors))


@pytest.mark.parametrize("name", ["helmholtz-1d", "schrodinger-1d"])
def test_the_rivals_solve_the_same_problem(name, posed, x64):
    problem, family, k = posed.PROBLEMS[name], FAMILIES[name](), 3.25
    ((_, (low, high)),) = family.parameters.ranges.items()
    assert (problem.low, problem.high) == ((0.0, low), (1.0, high))
    exact = lambda x: family.exact(x, k)
    for at in np.linspace(0, 1, 7):
        partial = lambda *axes, at=at: {(0, 0): jax.grad(jax.grad(exact))(at)}[axes]
        assert float(problem.residual(at, k, exact(at), partial, jnp)) == pytest.approx(0, abs=1e-9)
    assert [problem.imposed(end, k, 1.0, np) for end in (0.0, 1.0)] == [0, 0]
    assert problem.imposed(0.5, k, 1.0, np) == 1


def test_the_rivals_solve_the_same_burgers(posed):
    problem, family = posed.PROBLEMS["burgers"], Burgers()
    ends = family.domain.ranges.values()
    assert (problem.low, problem.high) == tuple(zip(*ends, strict=True))
    slopes = {(0,): 2.0, (1,): 3.0, (1, 1): 500.0}
    found = problem.residual(0.5, 0.3, 0.7, lambda *axes: slopes[axes], np)
    assert found == pytest.approx(float(family.equation(0.7, 2.0, 3.0, 500.0)), rel=1e-12)
    t, x = np.linspace(0, 1, 5), np.linspace(-1, 1, 5)
    assert problem.imposed(0.0, x, 1.0, np) == pytest.approx(-np.sin(np.pi * x))
    assert problem.imposed(t, 1.0, 1.0, np) == pytest.approx(0, abs=1e-15)
    assert problem.imposed(t, -1.0, 1.0, np) == pytest.approx(0, abs=1e-15)
    assert problem.imposed(1.0, 0.0, 1.0, np) == 1
    assert problem.normalised(0.0, 1.0) == (-1, 1)


def test_the_reduced_basis_solves_the_same_problem_at_other_settings(posed, x64):
    family = Helmholtz(2)
    low, high = posed.HELMHOLTZ_2D
    assert family.parameters.ranges == {"k": (low, high)}
    for x, y, k in [(0.1, 0.7, 1.0), (0.6, 0.4, 5.5), (0.9, 0.8, 9.7)]:
        ours = float(family.forcing(jnp.array([x, y]), k))
        assert posed.helmholtz_2d_forcing(x, y, k) == pytest.approx(ours, rel=1e-12)
    solved = posed.chebyshev(low, high, posed.NODES)
    assert low < solved.min() < low + 0.1
    assert high - 0.1 < solved.max() < high
    gaps = np.abs(solved[:, None] - grid_values(family)[:, 0])
    assert gaps.min() > 0.01


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
