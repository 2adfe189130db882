"""A run from start to end, and one that is killed on the way and taken up again.

As a script this file is the run that gets killed: see `main`.
"""

import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tracing
from toy import Decay

import lcpinn as lc
from lcpinn.evaluation import write_result
from lcpinn.files import read_arrays
from lcpinn.network import MLP, FiLM
from lcpinn.optimiser import LBFGS, Adam, Phase, RevertOnWorse
from lcpinn.rundir import RunDirectory
from lcpinn.sampling import Sampling
from lcpinn.spec import from_plain, spec
from lcpinn.weighting import Conditional, Fixed

FILES = {"run.json", "metrics.jsonl", "model.safetensors", "result.json", "solution.png"}


@spec
class Slow(Phase):
    """Another phase with a pause after every block, long enough for a kill to fall into."""

    phase: Any
    seconds: float

    def build(self, setup):
        stage = self.phase.build(setup)

        def advance(state):
            after = stage.advance(state)
            time.sleep(self.seconds)
            return after

        return stage._replace(advance=advance)


def protocol(seconds=0.0, **changes):
    """Adam in 12 blocks, then L-BFGS in 6."""
    made = lc.Protocol(
        name="test",
        network=MLP(widths=(4,), parameters=FiLM(hidden=2)),
        weighting=Fixed({"start": 2.0}),
        phases=(
            Slow(Adam(steps=24, block=2), seconds),
            RevertOnWorse(Slow(LBFGS(steps=12, block=2), seconds)),
        ),
        sampling=Sampling(interior=6, face=2, num_lambda=2),
        quadrature=Sampling(interior=6, face=2, num_lambda=3, rule="gauss"),
        held_out=Sampling(interior=5, face=2, num_lambda=4, rule="sobol", seed=1009),
    )
    return dataclasses.replace(made, **changes)


def main(out, checkpoint_every="0", limit=None):
    """What the subprocesses run: train into `out`, going on from what is there."""
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    before = jax.config.values["jax_enable_x64"], jnp.ones(1).dtype
    try:
        lc.train(
            Decay(),
            protocol(seconds=0.06, judged=before[0]),  # a verdict in double precision alone
            seed=3,
            out=out,
            resume=True,
            checkpoint_every=float(checkpoint_every),
        )
    except lc.LcpinnError as error:
        sys.exit(f"error: {error}")
    assert (jax.config.values["jax_enable_x64"], jnp.ones(1).dtype) == before
    print(before[1])


def same_bits(one, other):
    a, b = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)
    )


def metrics(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


# -- One run -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "deep" / "run"
    return lc.train(Decay(), protocol(), seed=5, out=out, progress=False), out


@pytest.mark.slow
def test_a_run_leaves_its_files(trained):
    solution, out = trained
    assert {p.name for p in out.iterdir()} == FILES  # too short for a checkpoint
    assert (out / "solution.png").read_bytes().startswith(b"\x89PNG")
    back = lc.load(out, Decay())
    assert same_bits(back.params, solution.params)
    np.testing.assert_array_equal(back(x=[0.1, 0.2], k=1.0), solution(x=[0.1, 0.2], k=1.0))


@pytest.mark.slow
def test_run_json_says_what_the_run_is(trained):
    run = json.loads((trained[1] / "run.json").read_text())
    assert from_plain(run["protocol"]) == protocol()
    assert run["family"]["name"] == "decay"
    assert run["seed"] == 5
    assert run["versions"]["lcpinn"] == lc.__version__
    assert set(run["versions"]) >= {"lcpinn", "python", "jax", "optax", "numpy"}
    assert run["device"]


@pytest.mark.slow
def test_result_json_says_how_it_went(trained):
    solution, out = trained
    result = json.loads((out / "result.json").read_text())
    assert result["family"] == "decay"
    assert result["protocol"] == "test"
    assert result["seed"] == 5
    assert result["parameters"] == solution.num_params == 8 + 5 + 28  # layers and FiLM
    assert result["error"] == solution.evaluate()
    assert [row["k"] for row in result["error"]["grid"]] == [0.5, 1.0, 2.0]
    assert set(result["error"]) == {"grid", "mean", "dense_max", "dense_argmax"}
    assert set(result["validation"]["terms"]) == {"equation", "start"}
    assert result["validation"]["residual"] > 0
    seconds = result["seconds"]
    assert set(seconds) == {"compile", "train", "verdict", "total"}
    assert 0 < seconds["compile"] + seconds["train"] + seconds["verdict"] <= seconds["total"]
    assert result["device"]
    assert set(result["versions"]) >= {"lcpinn", "jax"}
    adam, lbfgs = result["stopped"]
    assert adam == "phase 1, Slow: 24 steps done"
    number = r"\d\.\d{3}e[+-]\d\d"
    assert re.fullmatch(
        r"phase 2, RevertOnWorse: 12 steps done, \d+ evaluations; "
        rf"held-out objective {number} -> {number}, kept",
        lbfgs,
    )


@pytest.mark.slow
def test_metrics_have_a_line_per_block(trained):
    lines = metrics(trained[1])
    at = [(line["phase"], line["step"]) for line in lines]
    assert at == [(1, s) for s in range(2, 25, 2)] + [(2, s) for s in range(2, 13, 2)]
    for line in lines:
        assert set(line) == {"phase", "step", "loss", "terms"}
        assert line["loss"] == pytest.approx(sum(line["terms"].values()), rel=1e-5)
    assert lines[-1]["loss"] < lines[0]["loss"]


@pytest.mark.slow
def test_a_seed_fixes_every_bit(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    again = lc.train(Decay(), protocol(), seed=5, progress=False)
    assert same_bits(again.params, trained[0].params)
    assert not list(tmp_path.iterdir())  # without `out` nothing is written

    other = lc.train(Decay(), protocol(), seed=6, progress=False, report=False)
    for a, b in zip(jax.tree.leaves(again.params), jax.tree.leaves(other.params), strict=True):
        assert not np.array_equal(a, b)


@pytest.mark.slow
def test_a_directory_is_not_taken_over_unasked(trained, tmp_path):
    out = trained[1]
    held = {p.name: p.read_bytes() for p in out.iterdir()}
    with pytest.raises(lc.LcpinnError, match=r"already holds a run \(decay, seed 5\)"):
        lc.train(Decay(), protocol(), seed=5, out=out, progress=False)
    for seed, dtype, what in ((6, "float32", "seed"), (5, "float64", "protocol")):
        with pytest.raises(lc.LcpinnError, match=rf"holds another run: it differs in its {what}$"):
            lc.train(Decay(), protocol(dtype=dtype), seed=seed, out=out, resume=True)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == held
    (tmp_path / "file").write_text("")
    with pytest.raises(lc.LcpinnError, match="cannot write to"):
        lc.train(Decay(), protocol(), out=tmp_path / "file" / "run")


def test_what_is_no_family_or_protocol_is_refused(tmp_path):
    with pytest.raises(lc.LcpinnError, match="is no Family; pass an instance"):
        lc.train(Decay, protocol(), out=tmp_path / "run")  # pyright: ignore[reportArgumentType]
    with pytest.raises(lc.LcpinnError, match="'smoke' is no Protocol"):
        lc.train(Decay(), "smoke", out=tmp_path / "run")  # pyright: ignore[reportArgumentType]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_full_disk_for_the_picture_is_one_clear_line(trained, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(lc.LcpinnError, match=r"could not write .*solution\.png: File too la"):
            write_result(trained[0], tmp_path, 1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# -- The user's JAX ------------------------------------------------------------------------------


@pytest.mark.slow
def test_double_precision_is_the_protocols_affair():
    before = jax.config.values["jax_enable_x64"], jnp.ones(1).dtype
    assert before == (False, "float32")
    solution = lc.train(Decay(), protocol(dtype="float64"), progress=False)
    assert {leaf.dtype for leaf in jax.tree.leaves(solution.params)} == {np.dtype("float64")}
    assert (jax.config.values["jax_enable_x64"], jnp.ones(1).dtype) == before


@pytest.mark.slow
def test_single_precision_leaves_jax_as_it_was(trained):
    assert {leaf.dtype for leaf in jax.tree.leaves(trained[0].params)} == {np.dtype("float32")}
    assert (jax.config.values["jax_enable_x64"], jnp.ones(1).dtype) == (False, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_failing_run_leaves_jax_as_it_was(dtype):
    with pytest.raises(lc.LcpinnError, match="no prior over loss weights"):
        lc.train(Decay(), protocol(dtype=dtype, weighting=Conditional()), progress=False)
    assert (jax.config.values["jax_enable_x64"], jnp.ones(1).dtype) == (False, "float32")


# -- Killed and resumed --------------------------------------------------------------------------


class Lab:
    """Runs this file in processes of their own, which share what they compile."""

    def __init__(self, path):
        self.path = path
        self.environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": jax.config.values["jax_compilation_cache_dir"]
            or str(path / "jit"),
            # Only the run that nothing interrupts writes to it: a kill could leave half a program.
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1e9",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }

    def start(self, *args, **environment):
        return subprocess.Popen(
            [sys.executable, __file__, *map(str, args)],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args, expect=0, **environment):
        """To its end; what it printed."""
        process = self.start(*args, **environment)
        out, err = process.communicate(timeout=120)
        assert process.returncode == expect, err
        return out, err

    def kill(self, out, ready):
        """Start or go on, and kill it without warning once `ready()`; what it had printed."""
        process = self.start(out)
        deadline = time.monotonic() + 120
        while not ready() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL, err
        assert not (out / "model.safetensors").exists()
        return err


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def whole(lab):
    """The run that nothing interrupts; it writes no checkpoint at all."""
    out = lab.path / "whole"
    _, printed = lab.run(out, 1e9, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
    assert not (out / "checkpoint.safetensors").exists()
    return out, printed


def assert_same_run(out, other):
    assert (out / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    one, two = (read_arrays(p / "model.safetensors", "model")[1] for p in (out, other))
    assert list(one) == list(two)
    assert same_bits(one, two)


def begun_at(printed):
    """Phase and step where a process began, as it printed them."""
    phase, step = re.search(r"phase (\d), \w+: step (\d+) of", printed).groups()
    return int(phase), int(step)


def lines_of(out, phase):
    file = out / "metrics.jsonl"
    return file.read_text().count(f'"phase": {phase},') if file.exists() else 0


@pytest.mark.slow
def test_progress_is_told_in_lines_where_there_is_no_terminal(whole):
    # XLA of JAX 0.10 has its own word where it reads a program that was compiled before.
    lines = [line for line in whole[1].splitlines() if not re.match(r"[EW]\d{4} ", line)]
    assert lines[0] == "phase 1, Slow: step 0 of 24"
    last = r"phase 1, Slow: 24/24  loss .* \(.*start .*\)  0 s left"
    assert any(re.fullmatch(last, line) for line in lines)
    assert "phase 1, Slow: 24 steps done" in lines
    told = [line for line in lines if line.startswith("phase ")]  # a warning may follow
    assert re.match(r"phase 2, RevertOnWorse: 12 steps done, \d+ evaluations; .*, kept", told[-1])


@pytest.mark.slow
def test_a_killed_run_ends_as_if_nothing_had_happened(lab, whole):
    out = lab.path / "killed"
    kills = [
        (lambda: (out / "run.json").exists(), (1, 0)),  # right at the start
        (lambda: lines_of(out, 1) >= 4, (1, 0)),  # during Adam
        (lambda: lines_of(out, 2) >= 2, (1, 6)),  # during L-BFGS
    ]
    for pause, (ready, at_least) in enumerate(kills):
        printed = lab.kill(out, lambda r=ready, p=pause: r() and time.sleep(0.01 * p) is None)
        assert begun_at(printed) >= at_least if "step" in printed else at_least == (1, 0)
        # What a kill in the middle of a write leaves behind.
        with (out / "metrics.jsonl").open("a") as stream:
            stream.write('{"phase": 1, "st')
        (out / ".checkpoint.safetensors.abc123").write_bytes(b"half")
    _, printed = lab.run(out)
    assert begun_at(printed) >= (2, 2)
    assert_same_run(out, whole[0])
    assert {p.name for p in out.iterdir()} == FILES | {"checkpoint.safetensors"}
    result = json.loads((out / "result.json").read_text())
    assert result["stopped"] == json.loads((whole[0] / "result.json").read_text())["stopped"]

    _, printed = lab.run(out)  # a finished run may be resumed as well: there is nothing to do
    assert "phase" not in printed
    assert_same_run(out, whole[0])


@pytest.mark.slow
def test_a_full_disk_keeps_the_last_checkpoint(lab, whole):
    """L-BFGS remembers many gradients: a limit that Adam's checkpoints keep, its own exceed."""
    out = lab.path / "full"
    _, printed = lab.run(out, 0, 8192, expect=1)
    error = printed.splitlines()[-1]
    where = out / "checkpoint.safetensors"
    expected = f"could not write {where}: File too large; the file that was there is intact"
    assert error == f"error: {expected}"
    assert "Traceback" not in printed
    assert {p.name for p in out.iterdir()} == {"run.json", "metrics.jsonl", where.name}
    header, _ = read_arrays(where, "checkpoint")
    assert header["phase"] == 0
    assert lines_of(out, 2) == 1
    _, printed = lab.run(out)
    assert begun_at(printed) == (1, 22)
    assert_same_run(out, whole[0])


@pytest.mark.slow
def test_the_user_may_have_double_precision_on(lab, whole):
    out = lab.path / "double"
    printed, _ = lab.run(out, 1e9, JAX_ENABLE_X64="1")
    assert printed.strip() == "float64"
    assert_same_run(out, whole[0])


# -- Run directories -----------------------------------------------------------------------------

RUN = {"family": {"name": "decay"}, "protocol": {}, "seed": 0}
POSITION = {"phase": 0, "stopped": [], "seconds": {"compile": 1.0, "train": 2.0}}


def test_metrics_that_are_lost_leave_no_hole(tmp_path):
    first = RunDirectory(tmp_path, RUN, every=0.0)
    first.open(resume=False, overwrite=False)
    first.log({"step": 1})
    first.save(POSITION, {"params": np.ones(2)})
    first.close()
    (tmp_path / "metrics.jsonl").unlink()

    second = RunDirectory(tmp_path, RUN, every=0.0)
    second.open(resume=True, overwrite=False)
    second.restore()
    second.rewind_metrics()
    second.log({"step": 2})
    assert metrics(tmp_path) == [{"step": 2}]
    assert second.metrics_size == (tmp_path / "metrics.jsonl").stat().st_size


def test_overwriting_begins_anew(tmp_path):
    for name in (*FILES, "checkpoint.safetensors", ".model.safetensors.x1"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    directory = RunDirectory(tmp_path, RUN, every=0.0)
    directory.open(resume=False, overwrite=True)
    directory.close()
    assert {p.name for p in tmp_path.iterdir()} == {"run.json", "notes.txt"}
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 0


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}, {}])
def test_a_directory_belongs_to_one_training_at_a_time(tmp_path, how):
    first, second = (RunDirectory(tmp_path, RUN, every=0.0) for _ in range(2))
    first.open(resume=False, overwrite=False)
    before = (tmp_path / "run.json").read_bytes()
    given = {"resume": False, "overwrite": False} | how
    with pytest.raises(lc.LcpinnError, match=f"another process is training into {tmp_path}: wait"):
        second.open(**given)
    assert (tmp_path / "run.json").read_bytes() == before
    first.close()
    if how:
        second.open(**given)
        second.close()
    else:
        with pytest.raises(lc.LcpinnError, match="already holds a run"):
            second.open(**given)
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    directory = RunDirectory(tmp_path, RUN, every=0.0)
    directory.open(resume=False, overwrite=False)
    directory.save(POSITION, {"params": np.ones(2)})
    other = RunDirectory(tmp_path, RUN | {"seed": 1}, every=0.0)
    with pytest.raises(lc.LcpinnError, match="belongs to another protocol, family or seed"):
        other.restore()


@pytest.mark.parametrize("change", [
    {"phase": -1}, {"phase": True}, {"phase": "0"}, {"stopped": None}, {"metrics_size": 1.5},
    {"seconds": {}}, {"seconds": [1.0, 2.0]},
], ids=str)  # fmt: skip
def test_a_checkpoint_that_says_nonsense_is_refused(tmp_path, change):
    """Its checksum matches: somebody wrote it so."""
    directory = RunDirectory(tmp_path, RUN, every=0.0)
    directory.save(POSITION | change, {"params": np.ones(2)})
    with pytest.raises(lc.LcpinnError, match=r"forged: it does not say how far its run has come"):
        directory.restore()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    tracing.settle()
    main(*sys.argv[1:])
