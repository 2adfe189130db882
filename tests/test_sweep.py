"""Any list of families, protocols and seeds: planned, run, resumed, and shown as a table."""

import csv
import json

import pytest
from conftest import DECAY
from toy import of_kind
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.cli import app
from lcpinn.optimiser import Adam
from lcpinn.study import execute as executing
from lcpinn.study.run import Run
from lcpinn.study.sweep import COLUMNS, Entry, entries, line, planned, read_list, seeds_of

BROKEN = '''\
import jax.numpy as jnp
import lcpinn as lc


class Broken(lc.Family):
    """u' = -sqrt(k - 1) u, u(0) = 1: NaN below k = 1."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))

    @lc.interior
    def equation(self, u, u_t, k):
        return u_t + jnp.sqrt(k - 1.0) * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0
'''


def run(*args):
    return CliRunner().invoke(app, ["sweep", *map(str, args)])


def with_pages(directory):
    (directory / "decay.py").write_text(DECAY)
    (directory / "broken.py").write_text(BROKEN)
    return directory


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(with_pages(tmp_path))
    return tmp_path


# -- The plan ------------------------------------------------------------------------------------


def test_a_list_has_a_family_a_line(home):
    (home / "list.txt").write_text(
        "# family, protocols, settings\n\nburgers\nhelmholtz-1d paper fast  # both\n"
        "helmholtz-1d pinn k=3.25 k=5.5\n'decay.py:Decay' smoke\n"
    )
    assert entries(["burgers", "list.txt"]) == [
        Entry("burgers"),
        Entry("burgers"),
        Entry("helmholtz-1d", ("paper", "fast")),
        Entry("helmholtz-1d", ("pinn",), ({"k": 3.25}, {"k": 5.5})),
        Entry("decay.py:Decay", ("smoke",)),
    ]


def test_every_run_is_planned_once(home):
    (home / "list.txt").write_text("burgers\nhelmholtz-1d pinn k=3.25\n")
    runs = planned(entries(["burgers", "list.txt"]), ["fast", "paper"], (), (0, 1), {})
    told = [(r.family, r.protocol, dict(r.at), r.seed) for r in runs]
    assert told == [
        *[("burgers", p, {}, s) for p in ("fast", "paper") for s in (0, 1)],
        *[("helmholtz-1d", "pinn", {"k": 3.25}, s) for s in (0, 1)],
    ]
    assert {r.budget for r in runs} == {"own"}
    assert runs[0].how() == lc.protocol.fast(runs[0].of())
    assert runs[-1].name.startswith("helmholtz-1d-pinn-code-k=3.25-seed1-")


def test_options_reach_the_protocols_that_have_them(home):
    make = lambda p: planned([Entry("burgers")], [p], (), (0,), {"steps": 7, "tolerance": 1e-3})[0]
    assert of_kind(Adam, make("paper").how().phases[0]).steps == 7
    assert make("fast").options == {"steps": 7, "tolerance": 1e-3}
    assert make("fast").name != planned([Entry("burgers")], ["fast"], (), (0,), {})[0].name


def test_a_file_that_changes_makes_other_runs(home):
    plan = lambda: planned([Entry("decay.py:Decay")], ["smoke"], (), (0,), {})[0]
    before = plan()
    assert before.label == "decay.py:Decay"
    assert before.name.startswith("decay-Decay-smoke-seed0-")
    assert before.family == f"{home}/decay.py:Decay"
    assert plan() == before
    (home / "decay.py").write_text(DECAY.replace("0.5, 2.0", "0.5, 3.0"))
    assert plan().name != before.name
    with pytest.raises(lc.LcpinnError, match=r"decay.py has changed since its runs were planned"):
        Run.from_json(before.to_json() | {"seed": 9, "source": "other"}).of()


def test_where_a_file_lies_is_not_what_it_is(home):
    (home / "deep").mkdir()
    (home / "deep" / "decay.py").write_text(DECAY)
    one, other = (
        planned([Entry(f"{place}decay.py:Decay")], ["smoke"], (), (0,), {})[0]
        for place in ("", "deep/")
    )
    assert one.name == other.name


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", [0]), ("4", [0, 1, 2, 3]), ("0,3,7", [0, 3, 7]), ("5,", [5])]
)
def test_seeds_are_counted_or_named(text, seeds):
    assert seeds_of(text) == seeds


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["helmholz-1d"], "there is no family 'helmholz-1d'; did you mean helmholtz-1d"),
        (["nowhere.py:Decay"], "cannot read nowhere.py: No such file or directory"),
        (["decay.py:Decoy"], "decay.py has no 'Decoy'; its families are Decay"),
        (["nowhere.txt"], "cannot read nowhere.txt: No such file or directory"),
        (["empty.txt"], "empty.txt names no family"),
        (["bad.txt"], "bad.txt, line 2: there is no protocol 'papper'; there are fast, "),
        (["quote.txt"], "quote.txt, line 1: No closing quotation"),
        (["binary.txt"], "cannot read binary.txt: it is no text"),
        (["burgers", "--protocol", "adam"], "burgers, adam: there is no protocol 'adam'"),
        (["helmholtz-1d", "--protocol", "pinn"],
         "helmholtz-1d, pinn: pinn trains one setting of the coefficients at a time: say which"),
        (["helmholtz-1d", "--at", "k=99"], "helmholtz-1d, fast: k = 99 lies outside its range"),
        (["burgers", "--at", "k"], "--at: 'k' is not NAME=VALUE"),
        (["burgers", "--protocol", "fno", "--seconds", "3"],
         "burgers, fno: the protocol 'fno' does not take seconds"),
        (["burgers", "--seeds", "none"], "--seeds: 'none' is neither how many there are nor a li"),
        (["burgers", "--seeds", "0"], "--seeds: '0' is neither how many there are nor a list"),
        (["burgers", "--seeds", "1,1"], "--seeds: '1,1' is neither how many there are nor a list"),
        (["burgers", "--cluster", "local", "--cluster-work", "there"],
         "--cluster-work is for workers elsewhere; here, models are in --out"),
        (["burgers", "--workers", "2"], "--workers is for --cluster local: other clusters have"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_line(home, args, says):
    (home / "empty.txt").write_text("\n# nothing\n")
    (home / "bad.txt").write_text("burgers\nburgers papper\n")
    (home / "quote.txt").write_text("'burgers\n")
    (home / "binary.txt").write_bytes(b"\xff\xfe\x00")
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("lcpinn: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (home / "runs").exists()


def test_a_plan_can_be_looked_at(home):
    done = run("burgers", "decay.py", "--seeds", 2, "--list", "--json")
    assert [(r["family"], r["seed"], r["status"]) for r in json.loads(done.stdout)] == [
        ("burgers", 0, "pending"), ("burgers", 1, "pending"),
        ("decay.py", 0, "pending"), ("decay.py", 1, "pending"),
    ]  # fmt: skip
    assert not (home / "runs").exists()


# -- The runs ------------------------------------------------------------------------------------

SWEEP = ("decay.py", "broken.py", "--protocol", "smoke", "--seeds", 2, "--out", "out")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A directory where this process has done it, what it said, and the table."""
    home = with_pages(tmp_path_factory.mktemp("swept"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        done = run(*SWEEP)
    with (home / "out" / "sweep.csv").open() as stream:
        return home, done, list(csv.DictReader(stream))


@pytest.mark.slow
def test_failed_runs_are_reported_and_not_lost(swept, monkeypatch):
    home, done, table = swept
    monkeypatch.chdir(home)
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 4  # one a run
    assert lines[0].startswith("lcpinn: decay.py smoke, seed 0: ")
    assert ": failed: the term 'equation' is NaN or infinite at t = " in lines[2]
    assert "runs   2 of 4" in " ".join(done.stdout.split("\n")) or "2 of 4" in done.stdout
    assert tuple(table[0]) == COLUMNS
    assert [row["status"] for row in table] == ["done", "done", "failed", "failed"]
    assert float(table[0]["error_mean"]) > 0
    assert table[0]["error_mean"] != table[1]["error_mean"]
    assert (home / table[0]["directory"] / "model.safetensors").exists()
    assert "the term 'equation' is NaN" in table[2]["reason"]

    # Again: what is there is not trained, what failed is tried.
    trained, train = [], executing.train
    spy = lambda page, *given, **rest: trained.append(page.name) or train(page, *given, **rest)
    monkeypatch.setattr(executing, "train", spy)
    again = run(*SWEEP)
    assert again.exit_code == 1
    assert trained == ["broken", "broken"]
    assert again.stderr.splitlines()[0] == "lcpinn: 2 of 4 runs are there already"
    (home / "broken.py").write_text(BROKEN.replace("k - 1.0", "k"))
    mended = run(*SWEEP, "--json")
    assert mended.exit_code == 0
    assert [row["status"] for row in json.loads(mended.stdout)] == ["done"] * 4


@pytest.mark.slow
def test_local_workers_do_what_this_process_does(home, swept):
    pytest.importorskip("distributed")
    here = swept[2]
    done = run(*SWEEP, "--cluster", "local", "--workers", 1, "--json")
    assert done.exit_code == 1
    table = json.loads(done.stdout)
    assert [row["status"] for row in table] == ["done", "done", "failed", "failed"]
    for mine, theirs in zip(here[:2], table[:2], strict=True):
        assert theirs["error_mean"] == pytest.approx(float(mine["error_mean"]), rel=1e-5)
    assert "the term 'equation' is NaN or infinite" in table[2]["reason"]
    assert not list((home / "out").glob("*.claim"))
    assert "local workers at tcp://127.0.0.1:" in done.stderr


def test_a_line_says_what_came_of_a_run():
    row = dict.fromkeys(COLUMNS) | {"family": "burgers", "protocol": "fast", "at": "", "seed": 3}
    done = row | {"status": "done", "error_mean": None, "estimated_error": 2e-5, "seconds": 51.2}
    assert line(done) == "burgers fast, seed 3: 51 s, estimated 2.0e-05"
    assert line(row | {"status": "pending"}) == "burgers fast, seed 3: pending"
    failed = row | {"status": "failed", "reason": "no room", "at": "k=1.0"}
    assert line(failed) == "burgers fast k=1.0, seed 3: failed: no room"


def test_a_list_is_read_from_where_it_lies(tmp_path):
    (tmp_path / "one.txt").write_text("burgers fast paper\n")
    assert read_list(tmp_path / "one.txt") == [Entry("burgers", ("fast", "paper"))]
