"""A study of twenty runs on Dask: a worker is killed, then the scheduler is restarted.

Workers share a directory, as they would on a cluster. Which worker dies and when, and when the
scheduler does, is drawn. Every run has to have one record and to be trained once: its model is
written once, and its metrics have every step once.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.chaos.fault import Case, Fault, random_of
from benchmarks.processes import ROOT
from lcpinn.study.budget import OWN
from lcpinn.study.cluster import execute_on
from lcpinn.study.run import Run
from lcpinn.study.store import Store

RUNS = 20  # of a study
STEPS = 60  # of a run
WORKERS = 2
PATIENCE = 900.0  # seconds for a study, on a busy machine


class Cluster:
    """A scheduler at one address and its workers, in processes of their own."""

    def __init__(self, home: Path):
        self.home = home
        self.address = f"tcp://127.0.0.1:{_free_port()}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        host, port = self.address.removeprefix("tcp://").split(":")
        return self._start("scheduler", "--host", host, "--port", port)

    def restart_scheduler(self, workers: int) -> None:
        """Another one at the same address, which knows nothing; the old one's workers leave."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self.start_scheduler()
        for _ in range(workers):
            self.start_worker()

    def start_worker(self) -> None:
        alone = ("--host", "127.0.0.1", "--nthreads", "1", "--no-nanny")
        self.workers.append(self._start("worker", self.address, *alone))

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        environment = os.environ | {"PYTHONPATH": paths, "TMPDIR": str(self.home)}
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        with (self.home / "dask.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.home)

    def stop(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cases(numbers: range, seed: int, num: int = RUNS, workers: int = WORKERS) -> Iterator[Case]:
    """A case is a run; a study has twenty of them."""
    for first in range(numbers.start - numbers.start % num, numbers.stop, num):
        for number, case in enumerate(_study(first // num, seed, num, workers), start=first):
            if number in numbers:
                yield Case(number, *case)


def _study(which: int, seed: int, num: int, workers: int) -> list[tuple[bool, str, str]]:
    rng = random_of(seed, which)
    runs = [Run("helmholtz-1d", "smoke", number, {}, OWN) for number in range(num)]
    with tempfile.TemporaryDirectory() as folder:
        shared = Store(Path(folder) / "shared", Path(folder) / "shared" / "records")
        mine = Store(Path(folder) / "mine", Path(folder) / "records")
        cluster, seen, lines = Cluster(Path(folder)), _Seen(runs, shared), []
        over = lambda: sum(mine.is_over(run) for run in runs)
        try:
            for _ in range(workers):
                cluster.start_worker()
            work = threading.Thread(target=_executed, args=(cluster, runs, mine, shared, lines))
            work.start()
            kill_after, restart_after = sorted(rng.choice(num, 2, replace=False))
            seen.until(lambda: any(shared.directory(run).exists() for run in runs[kill_after:]))
            cluster.workers[int(rng.integers(workers))].kill()
            cluster.start_worker()
            seen.until(lambda: over() >= restart_after)
            cluster.restart_scheduler(workers)
            seen.until(lambda: not work.is_alive())
        finally:
            cluster.stop()
        return [_verdict(run, mine, shared, seen, lines) for run in runs]


def _executed(
    cluster: Cluster, runs: list[Run], mine: Store, shared: Store, lines: list[str]
) -> None:
    try:
        failed = execute_on(cluster.address, runs, mine, work=shared.work, say=lines.append)
        lines += [f"{run.name}: failed" for run in failed]
    except Exception as error:
        lines.append(f"it ended: {type(error).__name__}: {error}")


class _Seen:
    """Which models have been written, and how often: a file that is replaced is another one."""

    def __init__(self, runs: list[Run], store: Store):
        self.models = {run.name: store.model(run) for run in runs}
        self.files: dict[str, set[tuple[int, int]]] = {run.name: set() for run in runs}

    def until(self, condition: Any) -> None:
        ends = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < ends:
            for name, path in self.models.items():
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    self.files[name].add((status.st_ino, status.st_mtime_ns))
            time.sleep(0.02)


def _verdict(
    run: Run, mine: Store, shared: Store, seen: _Seen, lines: list[str]
) -> tuple[bool, str, str]:
    told = [line for line in lines if run.name in line or line.startswith("it ended")]
    if mine.record(run) is None:
        return False, "lost", f"{run.name} is lost: {' | '.join(told[-2:])}"
    if len(seen.files[run.name]) > 1:
        return False, "trained twice", f"{run.name} was trained {len(seen.files[run.name])} times"
    metrics = (shared.directory(run) / "metrics.jsonl").read_text().splitlines()
    marks = [(line["phase"], line["step"]) for line in map(json.loads, metrics)]
    if marks != sorted(set(marks)) or (1, STEPS) not in marks:
        return False, "steps twice", f"{run.name} has steps twice, or not at all: {marks}"
    return True, "one record, one training", ""


FAULT = Fault(
    name="cluster",
    done="of a study of 20 runs on Dask a worker is killed, then the scheduler restarted",
    promise="no run is lost, none is done twice",
    full=20,
    cases=cases,
)
