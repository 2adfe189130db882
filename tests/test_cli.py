"""The command line: what each command prints, writes and returns."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import lcpinn
from lcpinn import cli, compilation
from lcpinn.cli.support import battery, tables
from lcpinn.cli.support.columns import broadcast, grid_points
from lcpinn.families import BUILT_IN, FAMILIES, BuckleyLeverett, Burgers
from lcpinn.locate import find_family
from lcpinn.protocol import paper_settings
from lcpinn.study.paper import paper_at, paper_row

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
COMMANDS = ("families", "train", "evaluate", "predict", "check")


def run(*args):
    found = CliRunner().invoke(cli.app, [str(a) for a in args])
    assert found.exit_code == 0, found.output
    return found


@pytest.fixture
def home(decay, tmp_path, monkeypatch):
    shutil.copytree(decay, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


def columns(text):
    """CSV with named columns."""
    names, *rows = text.splitlines()
    table = np.array([[float(v) for v in row.split(",")] for row in rows])
    return dict(zip(names.split(","), table.T, strict=True))


# Help and version


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_teaches_by_example(command):
    text = run(*command.split(), "--help").stdout
    name = command or "train"
    assert re.search(rf"^ lcpinn {name}( |$)", text, re.M)
    assert max(map(len, text.splitlines())) <= 80


def test_version():
    assert run("--version").stdout.startswith(f"lcpinn {lcpinn.__version__} (JAX {jax.__version__}")


def test_no_command_shows_the_help():
    found = CliRunner().invoke(cli.app, [])
    assert "lcpinn train helmholtz-1d" in found.output


# families


@pytest.mark.parametrize("width", [80, 120])
def test_families(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = run("families").stdout
    for name, make in BUILT_IN.items():
        family = make()
        assert name in text
        assert all(term in text for term in family.term_names)
    assert "k in [1, 5]" in text
    assert "x in [-1, 1]" in text
    assert "Δu + k² u = f" in text
    assert max(map(len, text.splitlines())) <= width


def test_families_as_json():
    found = json.loads(run("families", "--json").stdout)
    assert [f["name"] for f in found] == list(BUILT_IN)
    assert found[0]["parameters"] == {"k": [1.0, 10.0]}
    assert found[4]["terms"] == ["equation", "boundary", "initial"]


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_which_protocol_applies_where(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = run("families", "--protocols").stdout
    rows = {}  # the paper's families, and below them the others: on shapes, and the cavity
    for line in filter(str.strip, text.splitlines()):
        name, *cells = line.split()
        rows.setdefault(name, []).extend(cells)
    assert rows["fast"] == ["✓"] * 10
    assert rows["sa-pinn"] == ["at"] * 4 + ["✓"] * 2 + ["at"] * 4
    assert rows["causal-pinn"] == ["–"] * 4 + ["✓"] * 2 + ["–"] * 4
    assert rows["fno"] == ["–"] * 4 + ["✓", "–"] + ["–"] * 4
    with_data = {f"{name}-data" for name in lcpinn.protocol.WITH_DATA}  # for the reproduction
    assert set(lcpinn.protocol.PROTOCOLS) - with_data <= set(rows)
    assert not with_data & set(rows)
    flat = " ".join(text.split())
    every = "helmholtz-1d, helmholtz-2d, helmholtz-3d, schrodinger-1d"
    assert f"causal-pinn needs a coordinate t: not for {every}, pipes, cylinder, " in flat
    assert f"fno needs solver data: not for {every}, buckley-leverett" in flat
    assert text.count("needs a coordinate t") == 1
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


@pytest.mark.slow
def test_which_protocol_applies_where_as_json():
    found = json.loads(run("families", "--protocols", "--json").stdout)
    assert list(found) == list(BUILT_IN)
    assert found["burgers"]["pinn"] == {"applies": "yes"}
    assert found["helmholtz-3d"]["pinn"] == {"applies": "at"}
    reason = "causal-pinn needs a coordinate t; helmholtz-3d has x, y, z"
    assert found["helmholtz-3d"]["causal-pinn"] == {"applies": "no", "reason": reason}


@pytest.mark.parametrize("width", [80, 120])
def test_the_terms_of_one_family(width, monkeypatch, home):
    monkeypatch.setenv("COLUMNS", str(width))
    text = run("families", "schrodinger-1d", "--protocols").stdout
    flat = " ".join(text.split())
    for words in ("4x64 tanh", "4 λ of 1024 + 64", "5,000 Adam", "50,000 Adam", "L-BFGS"):
        assert words in flat
    assert "Gauss-Newton" in flat
    assert "at most 3,000" in flat  # in a narrow column the unit is on the next line
    assert "nodes" in flat
    assert "paper, lc-pinn" in flat
    assert "fno needs solver data: schrodinger-1d has no solutions" in flat
    assert max(map(len, text.splitlines())) <= width
    own = json.loads(run("families", "decay.py:Decay", "--protocols", "--json").stdout)
    assert own["family"] == "decay"
    rows = {row["name"]: row for row in own["protocols"]}
    assert rows["causal-pinn"]["at"] == {"k": 1.25}
    assert rows["sa-pinn"]["budget"] == {"Adam steps": 10_000, "LBFGS steps": 5_000}
    assert rows["pinn"]["points"] == {
        "interior": 2000, "faces": 100, "lambdas": 1, "rule": "frozen"
    }  # fmt: skip
    assert list(own["not"]) == ["fno"]


def test_one_family_alone(home):
    text = run("families", "decay.py").stdout
    assert "u' = -k u" in text
    assert "helmholtz" not in text


# Finding a family


def test_families_are_found_by_name_file_class_or_instance(home):
    assert find_family("helmholtz-2d").name == "helmholtz-2d"
    assert find_family("decay.py").name == find_family("decay.py:Decay").name == "decay"
    (home / "more.py").write_text("from decay import Decay\n\nfast = Decay()\n")
    assert find_family("more.py:fast").name == find_family("more.py:Decay").name == "decay"


# train


def test_train_says_what_it_does_and_leaves_a_run(decay):
    text = (decay / "shown.txt").read_text()
    equation = "u' = -k u, u(0) = 1, for every rate k."
    assert text.startswith(f"decay, seed 0\n{equation}\nsmoke (float32)\n")
    result = json.loads((decay / "run" / "result.json").read_text())
    for row in result["error"]["grid"]:
        assert f"{row['error']:.2e}" in text
    assert re.search(rf"mean of 5 .* {result['error']['mean']:.2e}", text)
    assert re.search(rf"largest .* {result['error']['dense_max']:.2e}", text)
    assert f"residual  {result['validation']['residual']:.2e} on unseen points (equation " in text
    assert "paper" not in text
    assert "s in all on " in text
    names = {p.name for p in (decay / "run").iterdir()}
    assert names >= {"run.json", "metrics.jsonl", "checkpoint.safetensors", "solution.png"}
    flat = " ".join(text.split())
    assert all(name in flat for name in names)
    assert f"--at k=1.25 --family {decay / 'decay.py'}:Decay -o out.csv" in flat


def test_resume_ends_where_the_run_ended(home):
    before = (home / "run" / "model.safetensors").read_bytes()
    options = ("--protocol", "smoke", "--out", "run", "--resume", "--json")
    found = run("train", "decay.py:Decay", *options)
    result = json.loads(found.stdout)
    assert result["family"] == "decay"
    assert result["paper"] is None
    assert "run/model.safetensors" in result["files"]
    assert "smoke (float32)" in found.stderr
    assert "phase 2" in found.stderr
    after = lcpinn.load(home / "run", find_family("decay.py"))
    (home / "run" / "model.safetensors").write_bytes(before)
    again = lcpinn.load(home / "run", find_family("decay.py"))
    t = np.linspace(0, 1, 5)
    assert np.array_equal(after(t=t, k=1.0), again(t=t, k=1.0))


UNKNOWN = """\
import lcpinn as lc


class Unknown(lc.Family):
    domain = lc.Box(x=(0.0, 1.0))

    @lc.interior
    def equation(self, u_x):
        return u_x - 1

    @lc.on(x=0.0)
    def start(self, u):
        return u
"""


@pytest.mark.slow
def test_a_family_without_reference_or_parameters(home):
    """No error to show, no docstring, conditioned on its weights; the default place of a run."""
    (home / "unknown.py").write_text(UNKNOWN)
    found = run("train", "unknown.py", "--protocol", "smoke", "--quiet")
    assert found.stderr == ""
    assert "neither an exact nor a reference solution" in found.stdout
    assert "residual  " in found.stdout
    assert "stopped   phase 1, Adam: 60 steps done" in found.stdout
    assert (home / "runs" / "unknown-smoke-seed0" / "model.safetensors").exists()
    model = ("predict", "runs/unknown-smoke-seed0", "--family", "unknown.py", "--grid", "x=4")
    mean = columns(run(*model).stdout)
    one = columns(run(*model, "--weights", "equation=0.9,start=0.1").stdout)
    assert list(mean) == list(one) == ["x", "u"]
    assert not np.allclose(mean["u"], one["u"])
    outside = run(*model, "--weights", "equation=0.9")
    assert "warning: these weights lie outside" in outside.stderr
    assert "they must sum to one" in outside.stderr


@pytest.mark.parametrize(
    ("protocol", "options", "says"),
    [
        ("paper", {"steps": 1000}, ["Adam(steps=1000, final_rate=0.0)", "LBFGS(steps=600, "]),
        ("paper-data", {}, ["paper-data (float32)", "reference_settings=20"]),
        ("smoke", {}, ["Adam(steps=60"]),
        ("pinn", {"at": "k=3.25", "steps": 1000}, ["pinn (float32, k = 3.25)", "steps=1000, "]),
        (None, {"at": "k=3.25"}, ["fast (float64, k = 3.25)"]),
        (None, {}, []),
    ],
)
def test_options_reach_the_protocol(protocol, options, says, home, monkeypatch):
    seen = []

    def stop(family, protocol, **rest):
        seen.append((str(protocol), rest))
        raise lcpinn.LcpinnError("enough")

    monkeypatch.setattr(lcpinn, "train", stop)
    args = [f"--{k}={v}" for k, v in options.items()]
    args += [] if protocol is None else ["--protocol", protocol]
    found = CliRunner().invoke(cli.app, ["train", "helmholtz-1d", "--seed", "3", *args])
    assert found.exit_code == 2
    assert found.stderr == "lcpinn: enough\n"
    text, rest = seen[0]
    name = protocol or lcpinn.protocol.default(FAMILIES["helmholtz-1d"]()).name
    assert all(word in text for word in says)
    assert rest["seed"] == 3
    setting = "-k=3.25" if "at" in options else ""
    assert rest["out"] == Path(f"runs/helmholtz-1d-{name}{setting}-seed3")
    assert rest["progress"]
    assert (rest["resume"], rest["overwrite"], rest["checkpoint_every"]) == (False, False, 30.0)


def test_an_interrupt_says_how_to_go_on(home, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(lcpinn, "train", interrupt)
    args = ["train", "decay.py:Decay", "--protocol", "smoke", "--quiet", "--seed", "2", "--out"]
    found = CliRunner().invoke(cli.app, [*args, "run"])
    assert found.exit_code == 130
    command = "lcpinn train decay.py:Decay --protocol smoke --seed 2 --out run --resume"
    assert found.stderr == f"lcpinn: interrupted; go on with: {command}\n"
    setting = ["--protocol", "pinn", "--at", "k=1.5", "--out", "new"]
    held = CliRunner().invoke(cli.app, [*args[:2], "--quiet", *setting])
    assert held.stderr.endswith(f"lcpinn train decay.py:Decay {' '.join(setting)} --resume\n")
    early = CliRunner().invoke(cli.app, [*args, "new"])
    assert "no checkpoint yet" in early.stderr
    monkeypatch.setattr(battery, "check", interrupt)
    other = CliRunner().invoke(cli.app, ["check", "burgers"])
    assert (other.exit_code, other.stderr) == (130, "lcpinn: interrupted\n")


# Baselines


def tiny(monkeypatch):
    """The baselines' terms at a size that trains in a moment."""
    small = paper_settings.Settings(16, 4, 20, 0, widths=(4, 4), lambdas=2)
    monkeypatch.setattr(paper_settings, "_SETTINGS", {"decay": small, "burgers": small})


@pytest.fixture
def baseline(home, monkeypatch):
    """Decay at one setting, by the command line, into the default place."""
    tiny(monkeypatch)
    found = run("train", "decay.py", "--protocol", "pinn", "--at", "k=1.5", "--steps", "10")
    return found, home / "runs" / "decay-pinn-k=1.5-seed0"


@pytest.mark.slow
def test_a_training_at_one_setting(baseline, monkeypatch):
    found, out = baseline
    flat = " ".join(found.stdout.split())
    assert "pinn (float32, k = 1.5)" in flat
    result = json.loads((out / "result.json").read_text())
    assert result["at"] == {"k": 1.5}
    value = re.escape(f"{result['error']['mean']:.2e}")
    assert re.search(rf"k +error\n─+\n +1\.5 +{value}\n", found.stdout)
    assert "mean of" not in found.stdout
    # Ten steps do not solve it, and what comes next is not to use it.
    assert "not solved" in flat
    assert f"lcpinn certify {out.relative_to(Path.cwd())} --family decay.py" in flat
    assert "lcpinn solve decay.py --at k=1.5" in flat
    assert "lcpinn predict" not in flat
    told = run("evaluate", out, "--family", "decay.py").stdout
    assert f"{result['error']['mean']:.2e}" in told
    model = ("predict", out, "--family", "decay.py", "--grid", "t=3")
    plain = run(*model)
    assert columns(plain.stdout)["k"].tolist() == [1.5] * 3
    assert plain.stderr == ""
    other = run(*model, "--at", "k=1")
    assert other.stderr == (
        "lcpinn: warning: k = 1 lies outside what was trained (k = 1.5 alone)\n"
    )
    (out.parent / "t.csv").write_text("t\n0.5\n")
    held = columns(run(*model[:-2], "--points", out.parent / "t.csv").stdout)
    assert held["k"].tolist() == [1.5]


@pytest.mark.slow
def test_a_family_of_loss_weights_has_one_error(home, monkeypatch):
    """Without weights to average over there is no mean of weightings to show."""
    tiny(monkeypatch)
    text = run("train", "burgers", "--protocol", "relobralo", "--steps", "2", "--quiet").stdout
    assert re.search(r"error +paper\n─+\n +\d\.\d\de[+-]\d\d +1\.82e-01", text)
    assert "weighting" not in text
    assert "relobralo, 4 seeds, 5.4 minutes each" in text


@pytest.mark.slow
def test_several_settings_are_one_batch(home, monkeypatch):
    tiny(monkeypatch)
    at = ("--at", "k=0.5", "--at", "k=2")
    found = run("train", "decay.py", "--protocol", "relobralo", *at, "--steps", "4", "--quiet")
    out = home / "runs" / "decay-relobralo"
    results = [json.loads((out / f"k={k}-seed0" / "result.json").read_text()) for k in ("0.5", "2")]
    rows = [line.split() for line in found.stdout.splitlines()]
    for k, result in zip(("0.5", "2"), results, strict=True):
        error, residual = result["error"]["mean"], result["validation"]["residual"]
        seconds = result["seconds"]["total"]
        assert [k, f"{error:.2e}", f"{residual:.2e}", f"{seconds:.1f}"] in rows
    assert "runs/decay-relobralo/: k=0.5-seed0, k=2-seed0" in found.stdout
    again = ("train", "decay.py", "--protocol", "relobralo", *at, "--steps", "4", "--quiet")
    refused = CliRunner().invoke(cli.app, [str(a) for a in again])
    assert refused.exit_code == 2
    assert "already holds a run" in refused.stderr
    told = json.loads(run(*again, "--overwrite", "--out", "b", "--seed", "1", "--json").stdout)
    assert [(r["out"], r["at"], r["seed"]) for r in told] == [
        ("b/k=0.5-seed1", {"k": 0.5}, 1), ("b/k=2-seed1", {"k": 2.0}, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--protocol", "pinn"), "pinn trains one setting of the coefficients at a time: say which,"
         " as in --at k=1.25"),
        (("--protocol", "pinn", "--at", "k=3"), "k = 3 lies outside its range [0.5, 2]"),
        (("--protocol", "pinn", "--at", "d=1"),
         "there is no coefficient 'd' to hold; there are: k"),
        (("--protocol", "pinn", "--at", "k"), "--at: 'k' is not NAME=VALUE"),
        (("--protocol", "paper", "--at", "k=1"), "the protocol 'paper' does not take at"),
        (("--at", "k=1", "--at", "k=2", "--tolerance", "1e-3"),
         "--tolerance is for one training; give one --at"),
        (("--protocol", "pinn", "--at", "k=1", "--at", "k=1"),
         "k=1-seed0 is there twice: every setting and seed is trained once"),
        (("--protocol", "pinn-gn", "--at", "k=1", "--at", "k=2"), "pinn-gn cannot be batched, since"
         " Restarts decides between compiled calls: train its settings one by one"),
        (("--protocol", "fno", "--at", "k=1", "--at", "k=2"),
         "the protocol 'fno' does not take at"),
        (("--protocol", "pinn", "--at", "k=1", "--seconds", "3"),
         "the protocol 'pinn' does not take seconds"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(home, args, says):
    found = CliRunner().invoke(cli.app, ["train", "decay.py", *args, "--quiet"])
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", f"lcpinn: {says}\n")
    assert not (home / "runs").exists()


def test_an_interrupted_batch_says_how_to_go_on(home, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(lcpinn, "retrain", interrupt)
    settings = ["--protocol", "pinn", "--at", "k=1", "--at", "k=2"]
    found = CliRunner().invoke(cli.app, ["train", "decay.py", *settings, "--quiet"])
    assert found.exit_code == 130
    command = f"lcpinn train decay.py {' '.join(settings)} --out runs/decay-pinn --resume"
    begins = "interrupted (it had no checkpoint yet); go on with"
    assert found.stderr == f"lcpinn: {begins}: {command}\n"


# evaluate


@pytest.mark.slow
def test_evaluate_reports_what_training_did(decay, home):
    told = json.loads((decay / "run" / "result.json").read_text())
    found = json.loads(run("evaluate", "run", "--family", "decay.py", "--json").stdout)
    assert found["error"] == told["error"]
    assert found["validation"] == told["validation"]
    assert found["stopped"] == told["stopped"]
    text = run("evaluate", "run/model.safetensors", "--family", "decay.py").stdout
    assert f"{told['error']['mean']:.2e}" in text
    assert "stopped   phase 1, Adam: 60 steps done" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_papers_numbers():
    helmholtz = paper_row(FAMILIES["helmholtz-1d"]())
    assert helmholtz is not None
    assert helmholtz["mean"] == 0.000939
    assert paper_at(helmholtz, {"k": 7.75, "error": 1.0}) == (0.000264, 8.2e-05)
    assert paper_at(helmholtz, {"k": 7.0, "error": 1.0}) == ()
    schrodinger = paper_row(FAMILIES["schrodinger-1d"]())
    assert paper_at(schrodinger, {"alpha": 5.0, "error": 1.0}) == (7.5e-05, 4.25e-05)
    rows = {name: paper_row(make()) for name, make in FAMILIES.items()}
    assert all(row is not None and row["mean"] > 0 for row in rows.values())
    assert rows["burgers"] is not None
    assert rows["burgers"]["grid"] == []
    sa = paper_row(FAMILIES["helmholtz-1d"](), "sa-pinn")
    assert sa is not None
    assert paper_at(sa, {"k": 3.25, "error": 1.0}) == (0.0129, 0.0123)
    assert paper_row(FAMILIES["helmholtz-1d"](), "pinn-gn") is None
    assert paper_row(Burgers(viscosity=0.1)) is None
    assert paper_row(BuckleyLeverett(viscosity=0.0)) is None


@pytest.mark.parametrize("name", ["helmholtz-1d", "burgers"])
@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_errors(name, width, capsys):
    """Our number beside the paper's; green where it is the smaller."""
    family = FAMILIES[name]()
    at = family.evaluation.at or {}
    rows = [{"k": k, "error": 1e-5 if k < 4 else 1e-2} for k in at.get("k", ())]
    rows = rows or [{"error": 1e-5}]
    error = {"grid": rows, "mean": 1e-3, "dense_max": 0.5, "dense_argmax": {"k": 3.14159}}
    error |= {"shots": 100, "worst_slice": 0.2, "spread": 0.1} if family.weights else {}
    console = Console(width=width, force_terminal=True, highlight=False)
    tables.show_errors(console, family, error, "fast")
    shown = capsys.readouterr().out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    if name == "helmholtz-1d":
        assert re.search(r"3\.25 +1\.00e-05 +1\.27e-03 ± 6\.7e-04", plain)
        assert re.search(r"mean of 5 +1\.00e-03 +9\.39e-04 ± 1\.2e-04", plain)
        assert re.search(r"largest +3\.1416 +5\.00e-01", plain)
        assert "\x1b[32m1.00e-05" in shown
        assert "\x1b[32m1.00e-02" not in shown
    else:
        assert re.search(r"mean of 100 weightings +1\.00e-03 +3\.47e-03", plain)
        assert re.search(r"worst weighting +2\.00e-01", plain)
    assert "minutes each on an Apple M4 Max" in plain
    assert max(map(len, plain.splitlines())) <= width


# predict


@pytest.fixture
def solution(home):
    return lcpinn.load(home / "run", find_family("decay.py"))


PREDICT = ("predict", "run", "--family", "decay.py:Decay")


def test_predict_on_a_grid(solution, home):
    default = columns(run(*PREDICT, "--at", "k=1.5").stdout)
    assert list(default) == ["t", "k", "u"]
    assert np.array_equal(default["t"], np.linspace(0, 1, 201))
    assert np.array_equal(default["u"], solution(t=default["t"], k=1.5))
    few = run(*PREDICT, "--at", "k=1.5", "--grid", "t=5", "-o", "out.csv")
    assert few.stdout == "out.csv: 5 rows of t, k, u\n"
    assert np.array_equal(columns((home / "out.csv").read_text())["t"], np.linspace(0, 1, 5))
    fixed = columns(run(*PREDICT, "--at", "k=1.5,t=0.25").stdout)
    assert fixed == {"t": [0.25], "k": [1.5], "u": [solution(t=0.25, k=1.5)]}


@pytest.mark.slow
def test_predict_at_points_of_a_file(solution, home):
    (home / "where.csv").write_text("\ufeffk, t\n0.5,0.1\n\n1.5,0.9\n", encoding="utf-8")
    found = columns(run(*PREDICT, "--points", "where.csv").stdout)
    assert np.array_equal(found["u"], solution(t=[0.1, 0.9], k=[0.5, 1.5]))
    (home / "times.csv").write_text("t\n0.1\n0.9\n")
    run(*PREDICT, "--points", "times.csv", "--at", "k=1", "-o", "out.npz")
    with np.load(home / "out.npz") as held:
        assert held["k"].tolist() == [1.0, 1.0]
        assert np.array_equal(held["u"], solution(t=[0.1, 0.9], k=1.0))


def test_predict_as_json(solution, home):
    found = json.loads(run(*PREDICT, "--at", "k=1", "--grid", "t=3", "--json").stdout)
    values = solution(t=found["t"], k=1).tolist()
    assert found == {"t": [0.0, 0.5, 1.0], "k": [1.0] * 3, "u": values}
    report = json.loads(run(*PREDICT, "--at", "k=1", "-o", "out.csv", "--json").stdout)
    assert report == {"out": "out.csv", "rows": 201, "columns": ["t", "k", "u"]}


def test_grids_of_several_coordinates():
    """Arrays of a grid broadcast in the order of the domain; fixed coordinates drop out of it."""
    family = FAMILIES["helmholtz-3d"]()
    points = grid_points(family, {"k": 2.0, "y": 0.5}, {"x": 4.0, "z": 2.0})
    assert points["x"].shape == (4, 1)
    assert points["z"].tolist() == [[0.0, 1.0]]
    assert (points["y"], points["k"]) == (0.5, 2.0)
    full = broadcast(grid_points(family, {"k": 2.0}, {}))
    assert full["x"].shape == full["k"].shape == (21, 21, 21)


# The process


@pytest.mark.slow
def test_main_in_a_process_of_its_own(tmp_path):
    """No traceback, an exit code, and a locale that cannot show the equations is no obstacle."""
    command = [sys.executable, "-m", "lcpinn.cli"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    script = "import sys; from lcpinn.cli import main; sys.argv[1:] = {}; main()"
    listed = subprocess.run([*command, "families"], capture_output=True, text=True, env=env)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "helmholtz-1d" in listed.stdout
    lost = script.format(["train", "nowhere.py"])
    found = subprocess.run([sys.executable, "-c", lost], capture_output=True, text=True, env=env)
    assert found.returncode == 2
    assert found.stderr == "lcpinn: cannot read nowhere.py: no such file\n"


@pytest.fixture
def unset_cache():
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    held = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield lambda: getattr(jax.config, "jax_compilation_cache_dir", None)
    for name, value in held.items():
        jax.config.update(name, value)


def test_compiled_programs_are_kept(unset_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("LCPINN_CACHE", str(tmp_path / "cache"))
    directory = compilation.enable_cache()
    assert directory is not None
    assert directory.parent == tmp_path / "cache" / "xla"
    assert directory.is_dir()
    assert unset_cache() == str(directory)
    assert compilation.enable_cache() is None  # what is configured stays


def test_no_place_for_compiled_programs_is_no_error(unset_cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LCPINN_CACHE", str(tmp_path / "file"))
    assert compilation.enable_cache() is None
    assert unset_cache() is None


# The examples


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(file, tmp_path, monkeypatch, capsys):
    assert len(file.read_text().splitlines()) < 80
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(file), "--smoke"])
    runpy.run_path(str(file), run_name="__main__")
    assert re.search(r"relative error: mean \d\.\de[+-]\d\d", capsys.readouterr().out)
