"""Where runs are kept: models in a working directory, what was measured of them in small files.

A run is over once its record is there. Several processes, on one machine or on several that share
the directories, may work on the same study: a run belongs to whoever made its claim, as long as
that process is alive. It shows that by a lock, which ends with it whatever the clock says, and
where locks are not known elsewhere, by touching its claims.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, Timeout

from lcpinn.errors import LcpinnError
from lcpinn.files import read_json, write_json
from lcpinn.study.run import Run

NOTES, TIMES = "notes.json", "times.json"  # beside the records
BEAT = 10.0  # seconds between signs of life
STALE = 6 * BEAT  # without one for so long, a claim is void


@dataclass(frozen=True)
class Store:
    """`work` has a directory for every run, `results` the records."""

    work: Path
    results: Path

    def directory(self, run: Run) -> Path:
        return self.work / run.name

    def model(self, run: Run) -> Path:
        return self.directory(run) / "model.safetensors"

    def record(self, run: Run) -> dict[str, Any] | None:
        """What was measured of a run, if it is over."""
        file = self.results / f"{run.name}.json"
        return read_json(file) if file.exists() else None

    def write(self, run: Run, record: dict[str, Any]) -> None:
        self.results.mkdir(parents=True, exist_ok=True)
        write_json(self.results / f"{run.name}.json", record)

    def notes(self) -> dict[str, Any]:
        """What is written beside the records about why results differ; see docs/design.md."""
        file = self.results / NOTES
        return read_json(file) if file.exists() else {}

    def times(self) -> dict[str, Any]:
        """What a step of each method takes alone on a device; see times.py."""
        file = self.results / TIMES
        return read_json(file) if file.exists() else {}

    def write_times(self, times: dict[str, Any]) -> None:
        self.results.mkdir(parents=True, exist_ok=True)
        write_json(self.results / TIMES, times)

    def is_over(self, run: Run) -> bool:
        return (self.results / f"{run.name}.json").exists()

    def is_trained(self, run: Run) -> bool:
        return self.is_over(run) or self.model(run).exists()

    @contextlib.contextmanager
    def claim(self, runs: Iterable[Run]) -> Iterator[list[Run]]:
        """Those of the runs that nobody else works on; they are given up at the end."""
        owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex}"
        runs = list(runs)
        if not runs:
            yield []
            return
        with self._living(owner), self._beating(runs, owner) as claimed:
            yield claimed

    @contextlib.contextmanager
    def _beating(self, runs: Iterable[Run], owner: str) -> Iterator[list[Run]]:
        claimed = [run for run in runs if self._take(run, owner)]
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT):
                for run in claimed:
                    if self._owner(run) == owner:
                        with contextlib.suppress(OSError):
                            os.utime(self._claim(run))

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield claimed
        finally:
            over.set()
            thread.join()
            for run in claimed:
                # After a long sleep of this machine the claim may be somebody else's.
                if self._owner(run) == owner:
                    self._claim(run).unlink(missing_ok=True)

    def _claim(self, run: Run) -> Path:
        return self.work / f"{run.name}.claim"

    def _owner(self, run: Run) -> str | None:
        try:
            return self._claim(run).read_text()
        except OSError:
            return None

    def _take(self, run: Run, owner: str) -> bool:
        file = self._claim(run)
        with self._alone():
            with contextlib.suppress(FileNotFoundError):
                if self._is_void(file):
                    file.unlink()
            try:
                with file.open("x") as stream:
                    stream.write(owner)
            except FileExistsError:
                return False
        return True

    def _is_void(self, claim: Path) -> bool:
        """Whether the process that made a claim is gone."""
        host, _, identity = claim.read_text().partition(" ")
        if (life := self._life(identity)).exists():
            try:
                FileLock(life, timeout=0).acquire().lock.release()
            except Timeout:
                return False
            except (OSError, NotImplementedError):
                pass  # some network file systems have no locks
            else:
                # What another machine has locked may not be known on this one.
                if host == socket.gethostname():
                    life.unlink(missing_ok=True)
                    return True
        return time.time() - claim.stat().st_mtime > STALE

    def _life(self, owner: str) -> Path:
        return self.work / f".{owner.split()[-1] if owner.split() else 'nobody'}.alive"

    @contextlib.contextmanager
    def _living(self, owner: str) -> Iterator[None]:
        """A lock for as long as this process claims something."""
        with self._alone():
            pass  # the directory is there, or is refused in a line
        life = self._life(owner)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, NotImplementedError):
                stack.enter_context(FileLock(life, thread_local=False))
                stack.callback(life.unlink, missing_ok=True)
            yield

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time, so that a stale claim is not taken over twice.

        The lock is gone with the process that holds it.
        """
        file = self.work / ".claims"
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError as error:
            raise LcpinnError(f"cannot write to {self.work}: {error.strerror}") from None
        with contextlib.ExitStack() as stack:
            # Some network file systems have no locks.
            with contextlib.suppress(OSError, NotImplementedError):
                stack.enter_context(FileLock(file))
            yield
