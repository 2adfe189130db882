"""The page of the study: cells out of records, what is said of them, and that it is current."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lcpinn.cli import app
from lcpinn.families import FAMILIES
from lcpinn.plot.style import save
from lcpinn.study.paper import numbers
from lcpinn.study.plan import EXPERIMENTS, methods, needed, of_first_study, one_method
from lcpinn.study.report import figures, markdown, tables
from lcpinn.study.report.ablations import ABLATIONS, ablation_table, shots_table
from lcpinn.study.report.cells import Cell, Study, compared, paper_at, paper_cell, verdict
from lcpinn.study.report.markdown import cost, duration, error, spread, table
from lcpinn.study.report.page import text
from lcpinn.study.store import Store

ROOT = Path(__file__).resolve().parent.parent
STORE = Store(ROOT / "runs" / "study", ROOT / "results" / "study")


@pytest.fixture(scope="module")
def study():
    return Study.read(STORE, "full")


# -- The page and the records that are in the repository ------------------------------------------


@pytest.mark.slow
def test_the_page_is_that_of_the_records(study):
    page = ROOT / "docs" / "reproduction.md"
    assert page.read_text(encoding="utf-8") == text(study, "reproduction")


def test_no_two_methods_look_alike():
    looks = [tuple(sorted(figures._look(method).items())) for method in figures.METHODS]
    assert len(set(looks)) == len(looks)


def test_the_figures_of_the_page_are_there(study):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for name in figures.FIGURES:
        for suffix in ("png", "svg"):
            assert f"reproduction/{name}.{suffix}" in page
            assert (ROOT / "docs" / "reproduction" / f"{name}.{suffix}").exists()


def test_records_are_of_planned_runs():
    """A record under another name than its run's would never be read."""
    known = {run.name for run in (*needed(EXPERIMENTS.values(), "full"), *of_first_study())}
    files = [file.stem for file in STORE.results.glob("full-*.json")]
    assert files
    assert set(files) <= known
    for file in STORE.results.glob("full-*.json"):
        assert file.stat().st_size < 100_000


def test_records_hold_what_ran(study):
    for record in (*study.records.values(), *study.first.values()):
        run = record["run"]
        assert record["protocol"] == run["protocol"]
        assert record["seed"] == run["seed"]
        assert record["device"]
        assert record["versions"]["jax"]
        assert record["seconds"]["total"] > 0


def test_lc_pinn_lands_where_the_paper_says(study):
    """Residual-only training by the paper's text, where the page says 'agrees'."""
    for family in ("schrodinger-1d", "burgers"):
        ours, theirs = study.cell(family, "paper", settings=""), paper_cell(family, "paper")
        assert ours.seeds == 4
        assert ours.mean <= theirs.mean + 2 * theirs.std


# -- Cells ---------------------------------------------------------------------------------------


def record(run, error, seconds=10.0, **measures):
    names = FAMILIES[run.family]().parameters.names
    grid = [{**dict.fromkeys(names, 1.0), **run.at, "error": error}]
    return {
        "run": run.to_json(),
        "protocol": run.protocol,
        "error": {"mean": error, "grid": grid, "dense_max": 2 * error},
        "seconds": {"total": seconds},
        "at_once": 1,
        "device": "some device",
        "measures": measures,
        "stopped": [],
        "versions": {"jax": "0.1"},
        "date": "2026-01-01",
    }


def of(runs_and_errors, budget="full"):
    return Study(budget, {run.name: record(run, *more) for run, *more in runs_and_errors})


def test_a_seed_counts_with_all_of_its_settings():
    runs = one_method("helmholtz-1d", "sa-pinn", "full")
    first = [run for run in runs if run.seed == 0]
    second = [run for run in runs if run.seed == 1][:-1]  # one setting is missing
    made = of([(run, 1.0 + i) for i, run in enumerate(first)] + [(run, 100.0) for run in second])
    cell = made.cell("helmholtz-1d", "sa-pinn")
    assert (cell.mean, cell.std, cell.seeds) == (3.0, 0.0, 1)
    assert made.at("helmholtz-1d", "sa-pinn", k=3.25) == Cell(51.0, 49.0, 2)
    assert made.cell("helmholtz-1d", "relobralo") is None


def test_mean_and_deviation_over_seeds():
    runs = one_method("burgers", "paper", "full")
    cell = of(zip(runs, (1.0, 2.0, 3.0, 4.0), strict=True)).cell("burgers", "paper")
    assert cell.mean == 2.5
    assert cell.std == pytest.approx(np.std([1, 2, 3, 4]))
    assert (cell.seconds, cell.device) == (10.0, "some device")


def test_the_papers_cells():
    assert paper_cell("helmholtz-1d", "paper").mean == 9.39e-4
    assert paper_cell("helmholtz-1d", "paper").seconds == 60 * 65.9
    assert paper_cell("helmholtz-1d", "fno") is None
    assert paper_at("helmholtz-1d", "relobralo", "k", 3.25) == Cell(7.04e-5, 2.31e-5, 4)
    assert paper_at("helmholtz-1d", "relobralo", "k", 4.0) is None


@pytest.mark.parametrize(
    ("ours", "paper", "says"),
    [
        (Cell(1.1e-3, 1e-4, 4), Cell(1e-3, 1e-4, 4), "agrees"),
        (Cell(1.5e-3, 1e-4, 4), Cell(1e-3, 1e-4, 4), "1.5 times higher"),
        (Cell(1e-5, 1e-6, 4), Cell(1e-3, 1e-4, 4), "10^2 times lower"),
        # A deviation as large as the mean makes anything below it 'agree': a factor says more.
        (Cell(1e-6, 1e-7, 4), Cell(1e-4, 1e-4, 4), "within the deviations, but 10^2 times lower"),
        (None, Cell(1e-3, 1e-4, 4), "not run"),
        (Cell(1e-3, 1e-4, 4), None, "not in the paper"),
    ],
)
def test_verdicts(ours, paper, says):
    assert verdict(ours, paper) == says


def test_factors():
    assert compared(Cell(2.0, 0, 1), Cell(1.0, 0, 1)) == "2 times higher"
    assert compared(Cell(1.0, 0, 1), Cell(3e4, 0, 1)) == "10^4 times lower"


# -- Tables --------------------------------------------------------------------------------------


def test_numbers_in_words():
    assert error(1.234e-5) == "1.23e-5"
    assert error(1.0) == "1.00"
    assert error(None) == "not run"
    assert spread(Cell(1e-3, 2e-4, 4)) == "1.00e-3 ± 2.00e-4"
    assert spread(Cell(1e-3, 2e-4, 1)) == "1.00e-3 ± 2.00e-4 (1 seed)"
    assert spread(None) == "not run"
    assert duration(90) == "90 s"
    assert duration(600) == "10.0 min"
    assert cost(Cell(1, 0, 4, 30.0, 20)) == "30 s, 1 of 20"
    assert table(["a", "b"], [["1", "2"]]) == ["| a | b |", "| --- | ---: |", "| 1 | 2 |"]


def test_every_row_of_the_papers_tables_is_there(study):
    for family in FAMILIES:
        rows = numbers()["tables"][family]["rows"]
        lines = tables.family_table(study, family)
        assert len(lines) == 2 + len(rows)
        assert len(tables.times_table(study, family)) == 2 + len(rows) + 1  # and `fast`
        assert len(methods(family)) == len(rows) + 1


def test_amortisation_by_hand():
    """K* = T_lc / T_baseline, A(100) = 100 T_baseline / T_lc, the most accurate marked."""
    lc = [(run, 1e-3, 60.0) for run in one_method("burgers", "paper", "full")]
    causal = [(run, 1e-2, 20.0) for run in one_method("burgers", "causal-pinn", "full")]
    sa = [(run, 5e-3, 30.0) for run in one_method("burgers", "sa-pinn", "full")]
    made = of([*lc, *causal, *sa])
    assert tables.most_accurate(made, "burgers") == "sa-pinn"
    rows = [line for line in tables.amortisation_table(made) if line.startswith("| burgers")]
    cells = {row.split(" | ")[1]: row.strip("| ").split(" | ") for row in rows}
    assert cells["Causal-PINN"][4:6] == ["3", "33.3"]
    assert cells["SA-PINN **(most accurate)**"][4:6] == ["2", "50"]
    assert cells["Causal-PINN"][3] == "3.5"  # the paper's own
    assert cells["FNO"][4:6] == ["not run", "not run"]


def test_fno_is_judged_at_the_instant_that_it_learns():
    """At the others it answers with what it was given."""
    (run, *_) = one_method("burgers", "fno", "full")
    made = Study("full", {run.name: record(run, 0.9, published=0.01)})
    (row,) = [line for line in tables.amortisation_table(made) if "| FNO" in line]
    assert row.split(" | ")[1:3] == ["FNO **(most accurate)**", "1.00e-2"]


def test_a_solver_pays_once_for_all_settings():
    """It costs the same for every K: a network never pays where it takes longer."""
    runs = {name: one_method("helmholtz-1d", name, "full") for name in ("paper", "fast")}
    (solver,) = one_method("helmholtz-1d", "interpolant", "full", (0,))
    trained = [(r, 1e-3, 60.0) for r in runs["paper"]] + [(r, 1e-9, 1.0) for r in runs["fast"]]
    made = of([*trained, (solver, 1e-12, 3.0)])
    lines = tables.amortisation_table(made)
    (row,) = [line for line in lines if "helmholtz-1d | Solver with" in line]
    assert row.strip("| ").split(" | ")[2:] == ["2.00e-12", "–", "never", "0.05", "1", "3"]
    assert not any("burgers | Solver" in line for line in lines)  # it has no coefficients


def test_a_missing_cell_says_so():
    nothing = Study("full", {})
    page = text(nothing, "reproduction")
    assert "0 of" in page
    assert page.count("not run") > 100
    assert "nan" not in page
    for draw, _ in figures.FIGURES.values():
        assert draw(nothing) is None


def test_ablations_name_runs_of_the_plan():
    known = {run.kind[:4] for run in needed(EXPERIMENTS.values(), "full")}
    for rows in ABLATIONS.values():
        for _, family, protocol, change, published in rows:
            assert (family, protocol, "full", change) in known
            if published is not None:
                assert (family, f"{protocol}-data", "full", change) in known


def test_notes_rest_on_runs_of_the_plan(study):
    known = {run.kind[:4] for run in needed(EXPERIMENTS.values(), "full")}
    assert study.notes["differences"]
    for note in study.notes["differences"]:
        assert note["method"] in methods(note["family"])
        assert note["shown_by"]
        for protocol, change in note["shown_by"]:
            assert (note["family"], protocol, "full", change) in known
    for note in study.notes["first_study"]:
        assert study.cell(note["family"], note["method"], settings="") is not None


def with_both(family, without, with_data):
    """A study of LC-PINN on one family, with these errors."""
    plain = [(run, without) for run in one_method(family, "paper", "full")]
    return of([*plain, *[(run, with_data) for run in one_method(family, "paper-data", "full")]])


def test_what_is_said_in_plain_words_rests_on_runs():
    nothing = text(Study("full", {}), "reproduction")
    assert "Not written yet: the runs that it would rest on have not been made." in nothing
    made = text(with_both("burgers", 1.0, 3.4e-3), "reproduction")
    assert "With the reference's values in training LC-PINN is within" in made
    assert "plus two deviations on burgers.\n" in made
    assert "plus two deviations on none of the families, and not on burgers.\n" in made
    assert "burgers, the lowest error of the paper's methods: in the paper Causal-PINN" in made
    assert "Nothing is said of helmholtz-1d, " in made


def test_what_agrees_is_what_the_papers_number_was_made_with():
    made = with_both("burgers", 1.0, 3.4e-3)
    assert tables.agreement(made, "burgers", "paper") == "agrees"
    assert tables.agreement(made, "burgers", "sa-pinn") == "not run"
    worse = with_both("burgers", 3.4e-3, 1.0)
    said = "10^2 times higher"
    assert tables.agreement(worse, "burgers", "paper") == f"{said}, and no reason is known"
    note = {"family": "burgers", "method": "paper", "words": "x", "shown_by": [["paper", ""]]}
    for shown, ends in (("", "the reason below"), ("points=fresh", "see below")):
        notes = {"differences": [{**note, "shown_by": [["paper", shown]]}]}
        told = Study("full", worse.records, notes=notes)
        assert tables.agreement(told, "burgers", "paper") == f"{said}; {ends}"
    told = Study("full", worse.records, notes={"differences": [{**note, "partly": True}]})
    assert tables.agreement(told, "burgers", "paper") == f"{said}; explained in part, see below"


def test_the_first_study_enters_no_other_table():
    runs = one_method("burgers", "paper", "full", settings="")
    made = Study("full", {}, {run.name: record(run, 1e-3) for run in runs})
    assert made.cell("burgers", "paper") is None
    assert made.cell("burgers", "paper", settings="").mean == 1e-3
    (row,) = [line for line in tables.first_table(made) if line.startswith("| burgers")]
    assert "1.00e-3" in row
    assert "1.00e-3" not in "".join(tables.family_table(made, "burgers"))


def test_pictures_show_the_first_study_under_its_name_until_there_is_another():
    first = one_method("burgers", "paper", "full", settings="")
    again = one_method("burgers", "paper", "full")
    before = Study("full", {}, {run.name: record(run, 1e-3) for run in first})
    after = replace(before, records={again[0].name: record(again[0], 2e-3)})
    assert [s.settings("burgers", "paper") for s in (before, after)] == ["", "code"]
    assert [s.one("burgers", "paper")["error"]["mean"] for s in (before, after)] == [1e-3, 2e-3]
    assert figures._label("paper", "") == "LC-PINN (first study)"
    assert figures._label("paper", "code") == "LC-PINN"
    assert figures._label("fast", "") == "LC-PINN by fast"


def test_errors_are_compared_as_the_authors_measure_them():
    (run, *_) = one_method("burgers", "paper", "full")
    made = Study("full", {run.name: record(run, 5.0, published=2.0)})
    assert made.cell("burgers", "paper").mean == 5.0
    assert made.cell("burgers", "paper", published=True).mean == 2.0
    assert set(ABLATIONS) <= set(EXPERIMENTS)


def test_ablations_are_compared_with_data():
    runs = [
        run
        for protocol in ("paper", "paper-data")
        for run in one_method("burgers", protocol, "full", range(2), "n_lambda=1")
    ]
    errors = {"paper": 5.0, "paper-data": 1.69e-2}
    made = Study("full", {run.name: record(run, errors[run.protocol]) for run in runs})
    without, data = ablation_table(made, "n-lambda")[2].split(" | ")[2:]
    assert "agrees" not in without
    assert "agrees" in data
    assert len(ablation_table(made, "lbfgs")[0].split(" | ")) == 2  # the paper has none


def test_shots_of_every_seed():
    runs = one_method("burgers", "paper", "full")
    shots = {str(k): 1.0 / k for k in (1, 5, 25, 50, 100, 200, 400)}
    made = Study("full", {run.name: record(run, 1e-3, shots=shots) for run in runs})
    row = next(line for line in shots_table(made) if line.startswith("| 25 |"))
    assert row.split(" | ")[1:3] == ["3.51e-3", "4.00e-2 ± 0.00, 11 times higher"]
    assert "not run" in ablation_table(made, "n-lambda")[2]


# -- The command ---------------------------------------------------------------------------------


def test_rendering_alone_runs_nothing(tmp_path):
    out = tmp_path / "page.md"
    args = ["reproduce", "--render-only", "--work", tmp_path / "w", "--results", tmp_path / "r"]
    found = CliRunner().invoke(app, [*map(str, args), "--report", str(out), "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout)["over"] == 0
    assert "0 of" in out.read_text(encoding="utf-8")
    assert not (tmp_path / "w").exists()


def test_listing_counts_what_is_there():
    args = ["reproduce", "burgers", "--list", "--budget", "full", "--json"]
    found = CliRunner().invoke(app, [*args, "--results", str(STORE.results)])
    (row,) = json.loads(found.stdout)
    assert row["runs"] == len(EXPERIMENTS["burgers"].runs("full"))
    assert 0 < row["over"] <= row["runs"]


@pytest.mark.parametrize("args", [["nothing"], ["--budget", "huge"]])
def test_unknown_names_are_refused(args):
    found = CliRunner().invoke(app, ["reproduce", *args])
    assert found.exit_code == 2
    assert found.stderr.startswith("lcpinn: there is no ")


@pytest.mark.slow
def test_a_figure_is_the_same_file_twice(study, tmp_path):
    """So that rendering again changes nothing in the repository."""
    drawn = [figures.spread(study) for _ in range(2)]
    once, again = (save(one, tmp_path / f"{i}.svg") for i, one in enumerate(drawn) if one)
    assert once.read_bytes() == again.read_bytes()


def test_seeds_that_are_far_apart_are_named():
    assert markdown.by_seed(None) == markdown.NOT_RUN
    assert markdown.by_seed(Cell.of([1e-3, 2e-3])) == "1.50e-3 ± 5.00e-4 (2 seeds)"
    said = markdown.by_seed(Cell.of([1e-3, 1e-1, 1e-3, 1e-1]))
    assert said == "5.05e-2 ± 4.95e-2; seed by seed 1.00e-3, 1.00e-1, 1.00e-3, 1.00e-1"
