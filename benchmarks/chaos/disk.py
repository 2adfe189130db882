"""A full disk at every write of a run: said in a line, nothing lost, resumed once there is room.

Every write of a training is numbered. From the N-th on the disk is full: a small file system of its
own, filled to the last byte, where one can be mounted, and elsewhere a limit on the size of files.
A checkpoint that was there has to be there still, and a resume with room has to end as a training
on a disk that was never full.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lcpinn as lc
from benchmarks.chaos import kill
from benchmarks.chaos.fault import Case, Fault
from lcpinn.files import read_arrays

ROOM = 24 << 20  # bytes of the file system
KINDS = ("fast", "paper", "batch")
Train = Callable[[str, Path], str | None]
LENGTH = 0.04  # of the trainings that are killed: a few calls of each phase


# -- The disk --------------------------------------------------------------------------------------


class Disk:
    """Where runs are written; full from one of the writes below its directory on."""

    def __init__(self, path: Path, mounted: bool):
        self.path, self.mounted = path, mounted
        self.number, self._fails_at, self._watching = 0, -1, False
        self.reason = os.strerror(errno.ENOSPC if mounted else errno.EFBIG)
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def full_at(self, number: int) -> Iterator[None]:
        """The disk is full from the write of this number on, counted from one."""
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.number, self._fails_at, self._watching = 0, number, True
        try:
            yield
        finally:
            self._watching = False
            self._relieve()
            signal.signal(signal.SIGXFSZ, before)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._watching or event != "open" or not isinstance(args[0], (str, Path)):
            return
        name, flags = str(args[0]), args[2]
        writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        if writing and name.startswith(str(self.path)) and not name.endswith((".lock", "filler")):
            self.number += 1
            if self.number == self._fails_at:
                self._fill()

    def _fill(self) -> None:
        if not self.mounted:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
            return
        with (self.path / "filler").open("wb", buffering=0) as stream:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        stream.write(bytes(size))

    def _relieve(self) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        (self.path / "filler").unlink(missing_ok=True)


@contextlib.contextmanager
def disk() -> Iterator[Disk]:
    """A small file system where one can be mounted, else a directory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "disk"
        path.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "lcpinn-chaos", str(path)]
        can = shutil.which("mount") is not None
        mounted = can and subprocess.run(mount, capture_output=True).returncode == 0
        try:
            yield Disk(path, mounted)
        finally:
            if mounted:
                subprocess.run(["umount", str(path)], capture_output=True, check=True)


# -- The cases -------------------------------------------------------------------------------------


def cases(
    numbers: Collection[int], seed: int, kinds: tuple[str, ...] = KINDS, report: bool = True
) -> Iterator[Case]:
    """One write after the other, of one kind of training after the other, until none is left."""
    del seed  # every write is tried, none is drawn
    train = partial(_train, report)
    with disk() as made, tempfile.TemporaryDirectory() as folder:
        first = 0
        for kind in kinds:
            whole = Path(folder) / kind
            with made.full_at(-1):
                train(kind, made.path / "run")
            writes = made.number
            shutil.move(made.path / "run", whole)
            for number in numbers:
                if first <= number < first + writes:
                    yield _one(made, train, number, kind, number - first + 1, whole)
                    shutil.rmtree(made.path / "run", ignore_errors=True)
            first += writes


def _train(report: bool, kind: str, out: Path) -> str | None:
    """What a training says that does not come to its end."""
    try:
        kill.train(kind, out, LENGTH, seeds=(0,), report=report)
    except lc.LcpinnError as error:
        return str(error)
    return None


def _one(made: Disk, train: Train, number: int, kind: str, write: int, whole: Path) -> Case:
    out, said = made.path / "run", None
    try:
        with made.full_at(write):
            said = train(kind, out)
        checkpoint = _checkpoint(out)
        problem = _problem(made, said, checkpoint)
        if not problem:
            again = train(kind, out)
            problem = f"it does not go on: {again}" if again else kill.difference(whole, out)
    except Exception as error:
        checkpoint, problem = None, f"no clear line: {type(error).__name__}: {error}"
    outcome = "harmless" if said is None else "said"
    had = "with" if checkpoint else "without"
    detail = f"{kind}, write {write}: {problem}" if problem else ""
    return Case(number, not problem, f"{kind}: {outcome}, {had} a checkpoint", detail)


def _problem(made: Disk, said: str | None, checkpoint: str | None) -> str:
    """What of the promise was not kept while the disk was full."""
    if said is not None and ("\n" in said or made.reason not in said):
        return f"no clear line: {said[:200]}"
    return "" if checkpoint in (None, "whole") else f"the checkpoint is lost: {checkpoint}"


def _checkpoint(out: Path) -> str | None:
    """Whether a checkpoint is there, and whole; None where there is none."""
    for path in (*out.glob("checkpoint.safetensors"), *out.glob("batch-*.safetensors")):
        try:
            read_arrays(path, "checkpoint")
        except lc.LcpinnError as error:
            return str(error)
        return "whole"
    return None


FAULT = Fault(
    name="disk",
    done="a full disk at every write of `fast`, `paper` and a batch",
    promise="a clear line, no lost checkpoint; with room again, it ends as if there had been",
    full=1000,  # at most: as many as there are writes
    cases=cases,
)
