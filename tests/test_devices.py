"""Many devices and processes: the result of one, up to the order of summation."""

import contextlib
import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import on_devices
import pytest
from documents import every_block, parses
from jax._src.clusters import ClusterEnv
from toy import Oscillator

from lcpinn.devices import (
    agreed,
    agreed_arrays,
    agreed_data,
    first_silent,
    join_processes,
    make_mesh,
)
from lcpinn.errors import LcpinnError

HERE = Path(__file__).parent
MINUTE = 60.0


def begin(devices, *arguments):
    """A process with so many CPU devices."""
    several = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    path = os.pathsep.join([str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(HERE / "on_devices.py"), *map(str, arguments)],
        env={**os.environ, "XLA_FLAGS": several, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def ended(*processes):
    """None of them outlives a test that fails."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def answers(text):
    """The lines of JSON among what a process printed."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_four_devices_give_the_result_of_one(tmp_path):
    """Gauss-Newton begun on four and resumed on two of them, Adam and L-BFGS, a batch of three."""
    with begin(4, "four", tmp_path) as process, ended(process):
        out, error = process.communicate(timeout=280)
    assert out, error
    (told,) = answers(out)
    assert told["model"] < 1e-12
    assert told["gauss_newton"] < 1e-8  # eight steps, each with a system of condition 1e8
    assert told["first_order"] < 1e-10
    assert len(told["shards"]) == 4
    assert len(set(told["shards"])) == 1
    assert 4 * told["shards"][0] < 150 + 2 * 7 + 3 * 4  # at most three rows more at every place


@pytest.mark.slow
def test_two_processes_and_one_that_is_killed(tmp_path):
    """Both get the same; the one that is left ends with a line, and one process goes on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first, second = (begin(2, "process", i, port, tmp_path) for i in (0, 1))
    with first, second, ended(first, second):
        other, _ = second.communicate(timeout=280)
        died = time.monotonic()
        out, error = first.communicate(timeout=MINUTE)
        assert time.monotonic() - died < MINUTE
    assert second.returncode == -9
    assert first.returncode == 3, error
    lines = [line for line in error.splitlines() if line.startswith("lcpinn:")]
    assert len(lines) == 1
    assert "process 0 of 2 lost another one: go on from the checkpoint" in lines[0]
    (one,), (two,) = answers(out), answers(other)
    assert one == two
    assert one["devices"] == 4

    run = {"out": tmp_path / "run", "checkpoint_every": 0.0}
    resumed = on_devices.train(Oscillator(), on_devices.protocol(), resume=True, **run)
    whole = np.load(tmp_path / "0.npy")
    assert on_devices.gap(whole, on_devices.flat(resumed)) < 1e-8
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in metrics] == [1, 2, 4, 6, 8]


def test_more_devices_than_there_are_are_refused():
    assert make_mesh() is None
    with pytest.raises(LcpinnError, match=r"99 devices were asked for; there are \d+ \(cpu\)"):
        make_mesh(99)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("host:1234", 2, None), "--coordinator, --processes and --process belong together"),
        (("host", 2, 0), "the coordinator 'host' has no port: HOST:PORT"),
        (("host:1234", 2, 2), "processes count from 0 to 1; this one is 2"),
    ],
)
def test_what_processes_are_told_is_checked(given, message):
    with pytest.raises(LcpinnError, match=message):
        join_processes(*given)


def test_without_a_cluster_nothing_is_guessed(monkeypatch):
    """JAX asks Slurm, MPI and Kubernetes, of which there is none."""
    for name in [name for name in os.environ if name.startswith(("SLURM", "OMPI", "KUBERNETES"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    with pytest.raises(LcpinnError, match="no Slurm, MPI or Kubernetes tells of other processes"):
        join_processes()


class Store:
    """What processes share, of which the second ends after so many signs of life."""

    def __init__(self, silent_after, ends_after):
        self.values, self.calls = {}, 0
        self.silent_after, self.ends_after = silent_after, ends_after

    def key_value_set(self, key, value, allow_overwrite):
        assert allow_overwrite
        self.values[key] = value

    def key_value_dir_get(self, prefix):
        self.calls += 1
        if self.calls > self.ends_after:
            raise RuntimeError("the coordinator is gone")
        self.values["lcpinn/alive/1"] = str(min(self.calls, self.silent_after))
        return [(key, value) for key, value in self.values.items() if key.startswith(prefix)]


def test_a_process_that_falls_silent_is_noticed():
    store = Store(silent_after=5, ends_after=1000)
    assert first_silent(store, 0, every=0.01, limit=0.1) == 1
    assert store.calls > 10
    assert store.values["lcpinn/alive/0"] == str(store.calls - 1)


def test_a_process_that_gives_signs_is_not():
    store = Store(silent_after=1000, ends_after=30)
    assert first_silent(store, 0, every=0.01, limit=0.1) is None
    assert store.calls == 31


def test_a_process_alone_agrees_with_itself():
    tree = {"a": np.arange(3)}
    assert agreed(0.1) == 0.1
    assert agreed_data({"a": None}) == {"a": None}
    assert agreed_arrays(tree) is tree


# Slurm and Kubernetes, as docs/distributed.md has them

PAGE = HERE.parent / "docs" / "distributed.md"


def command_in(title):
    """The one command of an example, as words after `lcpinn`."""
    (text,) = (block.text for block in every_block(PAGE.read_text()) if block.title == title)
    (line,) = re.findall(r"\blcpinn train (?:.|\n *--)*", text)
    return text, shlex.split(line)[1:]


def test_the_slurm_example_reads_what_slurm_sets(monkeypatch):
    """As `srun` would start the third of four tasks; nothing is connected."""
    text, words = command_in("train.sbatch")
    parses(words)
    assert "--distributed" in words
    assert "#SBATCH --nodes=4\n" in text
    for name, value in {
        "SLURM_JOB_ID": "4321", "SLURM_STEP_NODELIST": "gpu[3-6]", "SLURM_NTASKS": "4",
        "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_NODES": "4",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    address, num, index, _ = ClusterEnv.auto_detect_unset_distributed_params(
        None, None, None, None, None, 300
    )
    assert str(address).startswith("gpu3:")
    assert (num, index) == (4, 2)


def test_the_kubernetes_example_numbers_its_pods(monkeypatch):
    text, words = command_in("train.yaml")
    parses([word.replace("$JOB_COMPLETION_INDEX", "3") for word in words])
    given = dict(itertools.pairwise(words))
    assert given["--process"] == "$JOB_COMPLETION_INDEX"
    assert f"completions: {given['--processes']}\n" in text
    assert given["--coordinator"] == "lcpinn-0.lcpinn:1234"  # pod 0 of the Job in the service
    assert text.count("\n  name: lcpinn\n") == 2
    assert "subdomain: lcpinn\n" in text
    asked = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *a, **k: asked.append((a, k)))
    join_processes(given["--coordinator"], int(given["--processes"]), 3)
    assert asked[0][0] == ("lcpinn-0.lcpinn:1234", 4, 3)
    assert asked[0][1]["heartbeat_timeout_seconds"] < MINUTE
