"""One of two processes of a distributed training is killed; the other ends, and one goes on.

    python -m benchmarks.chaos.process INDEX PORT DIRECTORY     what each of the two runs

Each has two virtual CPU devices. Which one is killed, and when after the first checkpoint, is
drawn. The one that is left has to end within a minute, with one line and an exit code; then a
single process with a single device resumes from the checkpoint and has to end like any other.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import lcpinn as lc
from benchmarks.chaos.fault import Case, Fault, random_of
from benchmarks.chaos.kill import Decay, cached, small_fast
from benchmarks.processes import ROOT, with_sources

STEPS = 400  # in all: more than fit between the first checkpoint and a kill
MINUTE = 60.0
PATIENCE = 300.0  # seconds until the first checkpoint, on a busy machine
MOMENTS = 2.0  # seconds after it within which a process is killed
ENOUGH = 1e-12  # a loss that a training which went on as it should falls far below


def main(index: int, port: int, directory: Path) -> None:
    from lcpinn.cli.train import ending_at_once
    from lcpinn.devices import join_processes

    join_processes(f"127.0.0.1:{port}", 2, index)
    with ending_at_once():
        train(directory)


def train(directory: Path, devices: int = 2) -> lc.Solution:
    """Two steps between checkpoints, and no clock."""
    family = Decay()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lc.NotSolvedWarning)
        return lc.train(
            family, small_fast(family, STEPS), out=directory, resume=True, devices=devices,
            checkpoint_every=0.0, progress=False, report=False,
        )  # fmt: skip


def cases(numbers: range, seed: int) -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder, cached(Path(folder) / "xla"):
        for number in numbers:
            draw = random_of(seed, number)
            yield _case(number, Path(folder) / str(number), draw)


def _case(number: int, directory: Path, draw: np.random.Generator) -> Case:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [_begin(index, port, directory) for index in (0, 1)]
    victim = int(draw.integers(2))
    try:
        _await(directory / "checkpoint.safetensors", processes)
        time.sleep(draw.uniform(0.0, MOMENTS))
        if any(process.poll() is not None for process in processes):
            return Case(number, False, "over too soon", "the training was over before the kill")
        processes[victim].kill()
        died = time.monotonic()
        _, error = processes[1 - victim].communicate(timeout=2 * MINUTE)
        seconds = time.monotonic() - died
    finally:
        for process in processes:
            process.kill()
    lines = [line for line in error.splitlines() if line.startswith("lcpinn: ")]
    code = processes[1 - victim].returncode
    before = _last_step(directory)
    problem = (
        f"it took {seconds:.0f} s" if seconds > MINUTE
        else f"exit code {code}: {error[-1500:]}" if code != 3
        else f"{len(lines)} lines: {error[-300:]}" if len(lines) != 1
        else _resumed(directory)
    )  # fmt: skip
    which = "first" if victim == 0 else "second"
    figures = {"seconds until the other ended": round(seconds, 1)}
    detail = f"{which} process killed after step {before}: {problem}" if problem else ""
    return Case(number, not problem, f"the {which} killed", detail, figures)


def _begin(index: int, port: int, directory: Path) -> subprocess.Popen[str]:
    environment = with_sources()
    asked = environment.get("XLA_FLAGS", "")  # the tests' own: how quickly programs are compiled
    environment |= {
        "XLA_FLAGS": f"{asked} --xla_force_host_platform_device_count=2".strip(),
        "JAX_PLATFORMS": "cpu",
    }
    words = [sys.executable, "-m", "benchmarks.chaos.process", str(index), str(port)]
    return subprocess.Popen(
        [*words, str(directory)], env=environment, cwd=ROOT, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _await(path: Path, processes: list[subprocess.Popen[str]]) -> None:
    ends = time.monotonic() + PATIENCE
    while not path.exists():
        if time.monotonic() > ends or any(process.poll() is not None for process in processes):
            said = [p.stderr.read() for p in processes if p.poll() is not None and p.stderr]
            raise SystemExit(f"the training did not begin: {' '.join(said)[-500:]}")
        time.sleep(0.02)


def _last_step(directory: Path) -> int:
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return json.loads(lines[-1])["step"] if lines else 0


def _resumed(directory: Path) -> str:
    """What is wrong with the training once one process on one device has ended it."""
    train(directory, devices=1)
    metrics = [json.loads(s) for s in (directory / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in metrics]
    if steps != [1, *range(2, STEPS + 1, 2)]:
        return f"metrics have the steps {steps}"
    loss = metrics[-1]["loss"]
    return "" if loss < ENOUGH else f"a loss of {loss:.1e} in the end"


FAULT = Fault(
    name="process",
    done="one of two processes of a distributed training is killed",
    promise="the other ends within a minute with one line; one process on one device goes on",
    full=20,
    cases=cases,
)

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
