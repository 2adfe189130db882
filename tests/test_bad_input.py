"""Whatever a person types wrong: one line that says what, exit code 2, and every file intact."""

import pickle
import shutil
import sys
from typing import Any

import numpy as np
import pytest
from conftest import DECAY
from safetensors.numpy import save_file
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.cli import app

SMOKE = ("--protocol", "smoke", "--quiet")


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


def files(directory):
    """All but what Python keeps of modules: another test may have imported the family before."""
    found = (p for p in sorted(directory.rglob("*")) if "__pycache__" not in p.parts)
    return {p: p.read_bytes() for p in found if p.is_file()}


@pytest.fixture
def home(decay, tmp_path, monkeypatch):
    """A copy of decay.py and its run, to be spoilt, as the working directory."""
    shutil.copytree(decay, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def refused(home):
    """Runs a command that must be refused in one line with these words, touching no file."""

    def check(*args, says):
        before = files(home)
        found = run(*args)
        assert found.exit_code == 2, found.output
        assert found.stdout == ""
        line = found.stderr
        assert line.startswith("lcpinn: ")
        assert line.count("\n") == 1
        assert [word for word in says if word not in line] == [], line
        assert files(home) == before
        return line

    return check


# Families


@pytest.mark.parametrize("command", ["train", "check"])
@pytest.mark.parametrize(
    ("family", "says"),
    [
        ("helmholz-1d", ["no family 'helmholz-1d'", "did you mean helmholtz-1d", "burgers"]),
        ("nonsense", ["no family 'nonsense'", "helmholtz-1d", "file.py:Class"]),
        ("nowhere.py:Decay", ["cannot read nowhere.py: no such file"]),
        ("nowhere/decay.py", ["no such file"]),
        ("dir.py", ["a directory"]),
        ("decay.txt:Decay", ["no family"]),
        ("decay.py:2", ["neither file.py nor file.py:Class"]),
        ("decay.py:Decoy", ["has no 'Decoy'", "its families are Decay"]),
        ("decay.py:jnp", ["of type module", "no lcpinn.Family", "Decay"]),
        ("plain.py:Plain", ["'Plain' of plain.py is a class, but no lcpinn.Family", "no family"]),
        ("plain.py", ["plain.py defines no family"]),
        ("two.py", ["2 families", "two.py:First", "two.py:Second"]),
        ("broken.py", ["broken.py cannot be imported: line 2: NameError: name 'joy'"]),
        ("syntax.py", ["syntax.py cannot be imported: line 1: SyntaxError"]),
        ("exits.py", ["cannot be imported: line 2", "__main__"]),
        ("absent.py", ["ModuleNotFoundError: No module named 'no_such_module'"]),
        ("needs.py", ["needs width, height; give them defaults", "needs.py:instance"]),
        ("fails.py", ["fails.py, line 6, in __init__: ZeroDivisionError: division by zero"]),
    ],
)
def test_no_such_family(refused, home, command, family, says):
    (home / "dir.py").mkdir()
    (home / "plain.py").write_text("class Plain:\n    pass\n")
    family_of = "import lcpinn as lc\n\n\nclass {}(lc.Family):\n"
    (home / "two.py").write_text(
        family_of.format("First") + "    pass\n\nclass Second(First):\n    pass\n"
    )
    (home / "broken.py").write_text("import lcpinn as lc\njoy + 1\n")
    (home / "syntax.py").write_text("class Decay(:\n")
    (home / "exits.py").write_text("import sys\nsys.exit('done')\n")
    (home / "absent.py").write_text("import no_such_module\n")
    inits = {"needs": "self, width, height, depth=1", "fails": "self"}
    for name, arguments in inits.items():
        body = f"    def __init__({arguments}):\n        1 / 0\n"
        (home / f"{name}.py").write_text(family_of.format(name.title()) + body)
    refused(command, family, *(SMOKE if command == "train" else ()), says=says)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param("u, u_t, k)", "u, u_t, kk)", ["'kk'", "did you mean 'k'", "t, k, u, u_t"],
                     id="misspelt argument"),
        pytest.param("(self, u)", "(self, uu)", ["'start' of Decay", "'uu'", "did you mean 'u'"],
                     id="misspelt output"),
        pytest.param("u, u_t, k)", "u, u_x, k)", ["'u_x'", "'x' names no coordinates", "has t"],
                     id="derivative along no coordinate"),
        pytest.param("@lc.on(t=0.0)", "@lc.on(x=0.0)", ["no coordinate x", "has t"],
                     id="face of no coordinate"),
        pytest.param("@lc.on(t=0.0)", "@lc.on(t=0.5)", ["not a face", "0.0 and 1.0"],
                     id="face inside"),
        pytest.param("Uniform(k=", "Uniform(t=", ["parameter 't'", "name of a coordinate"],
                     id="parameter named like a coordinate"),
        pytest.param("Uniform(k=", "Uniform(u=", ["parameter 'u'", "name of an output"],
                     id="parameter named like an output"),
        pytest.param("Uniform(k=", "Uniform(u_t=", ["'u_t' reads as a derivative"],
                     id="parameter named like a derivative"),
        pytest.param("k=(0.5, 2.0)", "k=(2.0, 0.5)", ["line 9", "k: range (2.0, 0.5) is reversed"],
                     id="reversed range"),
        pytest.param("k=(0.5, 2.0)", "k=(2.0, 2.0)", ["k: range (2.0, 2.0) is empty"],
                     id="empty range"),
        pytest.param("k=(0.5, 2.0)", "k=0.5", ["k: 0.5 is not a range"], id="no range"),
        pytest.param("Box(t=(0.0, 1.0))", "Box(t=(1.0, 0.0))", ["t: range", "reversed"],
                     id="reversed domain"),
        pytest.param("\n    @lc.int", "    weights = lc.Simplex('equation', 'wall')\n\n    @lc.int",
                     ["weight 'wall' names no term", "equation, start"], id="weight of no term"),
        pytest.param("\n    @lc.int", "    evaluation = lc.Evaluaton()\n\n    @lc.int",
                     ["line 10", "AttributeError", "Evaluaton"], id="misspelt class"),
    ],
)  # fmt: skip
def test_a_family_that_cannot_be_built(refused, home, old, new, says):
    assert old in DECAY
    (home / "bad.py").write_text(DECAY.replace(old, new, 1))
    refused("train", "bad.py:Decay", *SMOKE, says=says)


@pytest.mark.slow
def test_rows_that_are_not_finite(home):
    (home / "bad.py").write_text(DECAY.replace("k * u\n", "jnp.log(k - 1.0) * u\n"))
    before = files(home / "run")
    found = run("train", "bad.py:Decay", *SMOKE, "--out", home / "other")
    assert found.exit_code == 2
    assert found.stderr.startswith("lcpinn: the term 'equation' is NaN or infinite at t = 0.")
    assert float(found.stderr.split("k = ")[1].split()[0]) < 1
    assert found.stderr.count("\n") == 1
    assert not (home / "other" / "model.safetensors").exists()
    assert files(home / "run") == before


def test_a_term_that_raises(home):
    """The user's own mistake, at the user's own line, without the library's and JAX's frames."""
    (home / "bad.py").write_text(DECAY.replace("k * u\n", "jnp.sin(k, u, 3)\n"))
    found = run("train", "bad.py:Decay", *SMOKE, "--out", home / "other")
    assert found.exit_code == 2
    assert found.stderr.startswith("lcpinn: bad.py, line 13, in equation: TypeError: sin() takes")
    assert found.stderr.count("\n") == 1


# Lambda


def test_lambda_outside_its_prior_is_a_warning(home):
    found = run("predict", "run", "--family", "decay.py", "--at", "k=5", "--grid", "t=3")
    assert found.exit_code == 0
    assert found.stderr == "lcpinn: warning: k = 5 lies outside what was trained (k in [0.5, 2])\n"
    assert found.stdout.startswith("t,k,u\n0.0,5.0,")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), ["which k?", "--at k=0.5"]),
        (("--at", "k"), ["--at: 'k' is not NAME=VALUE"]),
        (("--at", "k=one"), ["--at: 'one' is not a number"]),
        (("--at", "k=nan"), ["k = nan is not finite"]),
        (("--at", "k=1,k=2"), ["'k' is given twice"]),
        (("--at", "k=1", "--at", "q=2"), ["--at: there is no 'q'; there are k, t"]),
        (("--at", "k=1", "--grid", "x=5"), ["--grid: there is no 'x'; there are t"]),
        (("--at", "k=1", "--grid", "t=0"), ["t = 0 is no number of points"]),
        (("--at", "k=1", "--grid", "t=2.5"), ["t = 2.5 is no number of points"]),
        (("--at", "k=1", "--grid", "t=1e12"), ["more than fit"]),
        (("--at", "k=1,t=0", "--grid", "t=5"), ["'t' is held fixed by --at"]),
        (("--at", "k=1", "--grid", "t=5", "--points", "p.csv"), ["either --grid or --points"]),
        (("--at", "k=1", "--weights", "start=1"), ["not conditioned on loss weights"]),
        (("--at", "k=1", "-o", "out.txt"), ["out.txt: write .csv or .npz"]),
        (("--at", "k=1", "-o", "decay.py/out.csv"), ["could not write decay.py/out.csv"]),
        (("--at", "k=1", "-o", "nowhere/out.npz"), ["could not write nowhere/out.npz"]),
        (("--at", "k=1", "--points", "nowhere.csv"), ["cannot read nowhere.csv"]),
        (("--at", "k=1", "--points", "binary.csv"), ["binary.csv is no CSV file"]),
        (("--at", "k=1", "--points", "empty.csv"), ["lacks a column 't'"]),
        (("--at", "k=1", "--points", "names.csv"), ["names.csv: there is no 'x'"]),
        (("--at", "k=1", "--points", "both.csv"), ["'k' is given twice"]),
        (("--points", "short.csv"), ["short.csv, row 3: 1 values for 2 columns"]),
        (("--points", "words.csv"), ["words.csv, row 2", "'one'"]),
    ],
)
def test_predictions_that_make_no_sense(refused, home, args, says):
    contents = {"empty": "", "names": "x\n1\n", "both": "t,k\n0,1\n", "short": "t,k\n0,1\n0\n"}
    contents["words"] = "t,k\n0,one\n"
    for name, text in contents.items():
        (home / f"{name}.csv").write_text(text)
    (home / "binary.csv").write_bytes(b"\xff\xfe\x00")
    refused("predict", "run", "--family", "decay.py:Decay", *args, says=says)


# Model files


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    """One bit of the last array."""
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


def retouched(content):
    """The header says another protocol, in as many bytes."""
    assert b"smoke" in content
    return content.replace(b"smoke", b"smote", 1)


@pytest.mark.parametrize("command", [("evaluate",), ("predict", "--at", "k=1")])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (truncated, ["model.safetensors is truncated, damaged or no model file"]),
        (flipped, ["model.safetensors is damaged: its checksum does not match"]),
        (retouched, ["model.safetensors is damaged: its checksum does not match"]),
        (lambda content: b"", ["truncated, damaged or no model file"]),
        (lambda content: b"import os; os.remove('decay.py')\n", ["no model file"]),
    ],
)
def test_a_damaged_model(refused, home, command, spoil, says):
    model = home / "run" / "model.safetensors"
    model.write_bytes(spoil(model.read_bytes()))
    for path in ("run", model):
        refused(command[0], path, *command[1:], "--family", "decay.py", says=says)


def test_every_byte_of_the_header_counts(home):
    """Whichever byte is changed, it is noticed, and never by another exception."""
    from lcpinn import LcpinnError, load
    from lcpinn.locate import find_family

    model = home / "run" / "model.safetensors"
    content, family = model.read_bytes(), find_family("decay.py")
    noticed, tried = 0, range(8, 8 + int.from_bytes(content[:8], "little"), 23)
    for position in tried:
        model.write_bytes(content[:position] + b"#" + content[position + 1 :])
        try:
            load(model, family)
        except LcpinnError:
            noticed += 1
    assert noticed == len(tried)


def test_a_foreign_file(refused, home):
    save_file({"w": np.zeros(3)}, home / "foreign.safetensors")
    refused("evaluate", "foreign.safetensors", says=["safetensors file, but no model of lcpinn"])
    checkpoint = home / "run" / "checkpoint.safetensors"
    refused("evaluate", checkpoint, "--family", "decay.py", says=["no model of lcpinn"])
    refused("evaluate", "nowhere.safetensors", says=["there is no nowhere.safetensors"])
    (home / "empty").mkdir()
    refused("evaluate", "empty", says=["empty holds no run"])
    (home / "run" / "model.safetensors").unlink()
    refused("evaluate", "run", says=["holds a run that is not finished"])


def test_a_model_of_another_family(refused, home):
    refused("evaluate", "run", says=["model of Decay", "not built in", "--family file.py:Class"])
    other = ["a model of another family: decay, not helmholtz-1d"]
    refused("evaluate", "run", "--family", "helmholtz-1d", says=other)
    (home / "wide.py").write_text(DECAY.replace("(0.5, 2.0)", "(0.5, 3.0)"))
    changed = ["another family", "differ in parameters"]
    refused("predict", "run", "--family", "wide.py", "--at", "k=2.5", says=changed)


# Runs


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--protocol", "smoke"), ["already holds a run (decay, seed 0)", "--resume"]),
        (("--protocol", "smoke", "--seed", 1), ["already holds a run (decay, seed 0)", "--out"]),
        (("--protocol", "smoke", "--seed", 1, "--resume"), ["another run: it differs in its seed"]),
        (("--protocol", "paper", "--resume"), ["another run: it differs in its protocol"]),
        (("--protocol", "nonsense", "--overwrite"), ["no protocol 'nonsense'", "paper", "smoke"]),
        (("--protocol", "smoke", "--color", "--overwrite"), None),
        (("--protocol", "smoke", "--seed", "one", "--overwrite"), None),
    ],
)
def test_a_directory_with_another_run(refused, home, args, says):
    command = ("train", "decay.py", "--quiet", "--out", "run", *args)
    if says is not None:
        refused(*command, says=says)
        return
    before = files(home)
    assert run(*command).exit_code == 2
    assert files(home) == before


@pytest.mark.parametrize("spoil", [truncated, flipped])
def test_a_damaged_checkpoint(refused, home, spoil):
    file = home / "run" / "checkpoint.safetensors"
    file.write_bytes(spoil(file.read_bytes()))
    (home / "run" / "result.json").unlink()  # as if it had been interrupted
    command = ("train", "decay.py", *SMOKE, "--out", "run", "--resume")
    refused(*command, says=["checkpoint.safetensors is", "damaged"])


def test_a_checkpoint_of_another_run(refused, home):
    """A checkpoint that somebody copied into the directory of another run."""
    shutil.copytree(home / "run", home / "other")
    (home / "other" / "run.json").unlink()
    command = ("train", "decay.py", *SMOKE, "--seed", 1, "--out", "other", "--resume")
    found = run(*command)
    assert found.exit_code == 2
    assert "checkpoint.safetensors belongs to another protocol, family or seed" in found.stderr


@pytest.mark.parametrize("out", ["decay.py", "decay.py/run", "/proc/nowhere/run"])
def test_a_directory_that_cannot_be_written(refused, home, out):
    if out.startswith("/proc") and sys.platform != "linux":
        pytest.skip("there is no /proc")
    refused("train", "decay.py", *SMOKE, "--out", out, says=[f"cannot write to {out}: "])


def test_what_an_error_quotes_may_go_over_lines():
    matrix: Any = np.ones((2, 2))
    with pytest.raises(lc.LcpinnError) as caught:
        lc.Box(x=matrix)
    assert str(caught.value) == ("x: array([[1., 1.], [1., 1.]]) is not a range; write (low, high)")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # from a worker
