"""The study on a Dask cluster: a scheduler and workers in processes of their own, one killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import toy
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.cli import app
from lcpinn.cli import reproduce as command
from lcpinn.files import read_json
from lcpinn.study import cluster, plan
from lcpinn.study.cluster import execute_on
from lcpinn.study.execute import execute
from lcpinn.study.run import Run
from lcpinn.study.store import Store

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

RUNS = [Run(f"{toy.__file__}:Bent", "paper", seed, budget="smoke") for seed in range(3)]
BAD = Run("helmholtz-1d", "pinn", budget="smoke")  # of a method that needs a setting


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return found


@dataclass
class Cluster:
    home: Path
    address: str = ""
    processes: tuple[subprocess.Popen, ...] = ()

    def start(self, *words):
        """A process of Dask's command line; its temporary files are its own."""
        name = words[-1]
        (self.home / name).mkdir()
        environment = os.environ | {"TMPDIR": str(self.home / name)}
        with (self.home / f"{name}.log").open("w") as log:
            made = subprocess.Popen(
                [sys.executable, "-m", "dask", *words[:-1], "--no-dashboard"],
                env=environment, stdout=log, stderr=log, cwd=self.home,
            )  # fmt: skip
        self.processes += (made,)
        return made

    def scheduler(self):
        file = self.home / "scheduler.json"
        where = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        self.start("scheduler", *where, "scheduler")
        wait_for(file.exists)
        self.address = read_json(file)["address"]

    def worker(self, name):
        alone = ("--nthreads", "1", "--no-nanny", "--name", name)
        return self.start("worker", self.address, "--host", "127.0.0.1", *alone, name)

    def training(self, name):
        """Whether a run has begun in this worker's temporary directory."""
        return list((self.home / name).glob("lcpinn-*/*/run.json"))

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.scheduler()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def finished(dask, tmp_path_factory):
    """All runs and a bad one on two workers, of which one is killed while it trains."""
    home, lines = tmp_path_factory.mktemp("study"), []
    store = Store(home / "work", home / "results")
    doomed, _ = dask.worker("first"), dask.worker("second")
    # One that joins late might find nothing left to do.
    with distributed.Client(dask.address) as client:
        client.wait_for_workers(2, timeout=120)
    returned = []
    work = lambda: returned.append(execute_on(dask.address, [*RUNS, BAD], store, say=lines.append))
    thread = threading.Thread(target=work)
    thread.start()
    begun = wait_for(lambda: dask.training("first"))
    doomed.send_signal(signal.SIGKILL)
    lost = {path.parent.name for path in begun}
    thread.join(300)
    assert not thread.is_alive()
    return store, lines, returned[0], lost


def test_every_run_is_there_once(finished):
    store, lines, failed, lost = finished
    assert {file.name for file in store.results.iterdir()} == {f"{r.name}.json" for r in RUNS}
    assert sum("measured" in line for line in lines) == len(RUNS)
    assert lost <= {run.name for run in RUNS}  # among them what the killed worker was at
    assert failed == [BAD]
    assert [line.split(":")[0] for line in lines if " of " in line[:8]] == [
        f"{n} of {len(RUNS) + 1}" for n in range(1, len(RUNS) + 2)
    ]


def test_a_run_that_fails_says_why_in_one_line(finished):
    (line,) = [line for line in finished[1] if BAD.name in line]
    assert "\n" not in line
    assert line.endswith("pinn trains one setting of the coefficients at a time: say which, "
                         "as in --at k=5.5")  # fmt: skip


def test_records_are_those_of_this_process(finished, tmp_path):
    here = Store(tmp_path / "work", tmp_path / "results")
    execute(RUNS, here, batch=False)
    for run in RUNS:
        mine, theirs = here.record(run), finished[0].record(run)
        assert mine is not None
        assert theirs is not None
        for name in ("mean", "worst_slice", "spread"):
            assert theirs["error"][name] == pytest.approx(mine["error"][name], rel=1e-5)
        assert theirs["measures"]["shots"] == pytest.approx(mine["measures"]["shots"], rel=1e-5)
        assert set(theirs) == set(mine)
        for same in ("run", "parameters", "stopped", "versions"):
            assert theirs[same] == mine[same]
    errors = {finished[0].record(run)["error"]["mean"] for run in RUNS}
    assert len(errors) == len(RUNS)  # seeds differ, so that the comparison says something


def test_nothing_is_left_on_the_worker_and_in_the_claims(finished, dask):
    assert not list((dask.home / "second").glob("lcpinn-*"))
    assert not list(finished[0].work.glob("*.claim"))


def test_what_is_there_is_not_run_again(finished, dask):
    lines = []
    assert execute_on(dask.address, RUNS, finished[0], say=lines.append) == []
    assert lines == []


def test_models_of_this_machine_are_measured_here(finished, dask, tmp_path):
    store, lines = Store(tmp_path / "work", tmp_path / "results"), []
    execute(RUNS[:1], store, measured=False)
    assert execute_on(dask.address, RUNS[:1], store, say=lines.append) == []
    assert lines == [f"{RUNS[0].name}: measured"]


def test_an_interrupt_cancels_what_is_left(finished, dask, tmp_path):
    store = Store(tmp_path / "work", tmp_path / "results")

    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute_on(dask.address, RUNS, store, say=interrupt)
    with distributed.Client(dask.address, set_as_default=False) as client:
        wait_for(lambda: not any(client.processing().values()))
    assert len(list(store.results.iterdir())) == 1
    assert not list(store.work.glob("*.claim"))


def test_a_failed_run_is_the_exit_code(finished, dask, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "needed", lambda experiments, budget: [RUNS[0], BAD])
    monkeypatch.setattr(command, "_render", lambda *given: tmp_path / "page.md")
    where = ["--work", str(tmp_path), "--results", str(finished[0].results)]
    asked = ["reproduce", "--cluster", dask.address, *where]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1
    assert "1 of 2" in done.stdout
    assert BAD.name in done.stderr
    refused = CliRunner().invoke(app, [*asked, "--train-only"])
    assert refused.exit_code == 2
    assert "a cluster returns records alone" in refused.stderr


def test_a_cluster_that_goes_away_is_one_line(dask, tmp_path, monkeypatch):
    """Without workers the runs wait, which is said; then the scheduler dies."""
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    other, lines = Cluster(dask.home / "other"), []
    other.home.mkdir()
    other.scheduler()
    store = Store(tmp_path / "work", tmp_path / "results")
    try:

        def hear(line):
            lines.append(line)
            other.stop()

        with pytest.raises(lc.LcpinnError, match=f"the scheduler at {other.address} went away"):
            execute_on(other.address, RUNS, store, say=hear)
    finally:
        other.stop()
    assert lines[0] == f"{other.address} has no workers yet: {len(RUNS)} runs wait for some"
    assert lines[1].endswith(": waiting for it to come back")
    assert len(lines) == 2


def test_a_scheduler_that_comes_back_gets_the_runs_again(dask, tmp_path):
    """It is another one at the same address, and knows nothing; a worker comes with it."""
    other, lines = Cluster(dask.home / "restarted"), []
    other.home.mkdir()
    other.scheduler()
    port = other.address.rpartition(":")[2]
    store = Store(tmp_path / "work", tmp_path / "results")

    def hear(line):
        lines.append(line)
        if len(lines) == 1:  # that there are no workers yet
            other.stop()
            where = ("--host", "127.0.0.1", "--port", port)
            other.start("scheduler", *where, "again")
            other.worker("late")

    try:
        assert execute_on(other.address, RUNS[:1], store, say=hear) == []
    finally:
        other.stop()
    assert lines[1].endswith(": waiting for it to come back")
    assert lines[-1] == f"1 of 1: {RUNS[0].name}: measured"
    assert store.is_over(RUNS[0])


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://there"])
def test_an_address_without_a_scheduler_is_one_line(address, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 1.0)
    store = Store(tmp_path / "work", tmp_path / "results")
    with pytest.raises(lc.LcpinnError, match="there is no Dask scheduler at") as caught:
        execute_on(address, RUNS, store)
    assert "\n" not in str(caught.value)


def test_without_dask_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(lc.LcpinnError, match=r"needs Dask: pip install 'lcpinn\[cluster\]'"):
        execute_on("tcp://127.0.0.1:1", RUNS, Store(tmp_path, tmp_path))


def test_in_a_shared_directory_a_worker_waits_for_a_claim(tmp_path, monkeypatch):
    """Of a worker that died, say: what it had trained is then taken up."""
    monkeypatch.setattr(cluster, "POLL", 0.02)
    shared = Store(tmp_path / "work", tmp_path / "results")
    execute(RUNS[:1], shared, measured=False)
    trained = shared.model(RUNS[0]).stat().st_mtime_ns
    found = []
    with contextlib.ExitStack() as held:
        assert held.enter_context(shared.claim(RUNS[:1])) == RUNS[:1]
        give = lambda: found.append(cluster.record(RUNS[0], str(shared.work)))
        thread = threading.Thread(target=give)
        thread.start()
        time.sleep(0.3)
        assert not found
    thread.join(60)
    assert found[0]["run"] == RUNS[0].to_json()
    assert shared.model(RUNS[0]).stat().st_mtime_ns == trained
