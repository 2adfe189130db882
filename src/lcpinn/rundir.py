"""A run's directory: what was asked for, the numbers along the way, and where to go on from.

run.json                 family, protocol, seed, versions, device: what this run is
metrics.jsonl            one line per compiled call
checkpoint.safetensors   the optimiser's whole state, replaced atomically
model.safetensors        the trained network
result.json              errors, times, why it stopped
solution.png             a picture of it
.lock                    locked by the process that trains into it

A batch has one checkpoint for all of its members, beside their directories.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lcpinn.errors import LcpinnError
from lcpinn.files import read_arrays, read_json, unflatten, write_arrays, write_json
from lcpinn.spec import fingerprint, from_plain, to_plain

# In the order of deletion: as long as run.json is there, the directory counts as a run.
OURS = (
    "metrics.jsonl",
    "checkpoint.safetensors",
    "model.safetensors",
    "result.json",
    "solution.png",
    "run.json",
)


Restored = tuple[dict[str, Any], Callable[..., Any]]


def _now(value: Any) -> Any:
    """A part of a run as this version writes it down, whichever version wrote it."""
    try:
        return to_plain(from_plain(value))
    except LcpinnError:
        return value


class RunDirectory:
    """Where a run lives on disk; `None` as a path keeps everything in memory."""

    def __init__(self, path: Path | None, run: dict[str, Any], *, every: float):
        self.path, self.run = path, run
        self.identity = fingerprint({k: run[k] for k in ("family", "protocol", "seed")})
        file = None if path is None else path / "checkpoint.safetensors"
        self.checkpoint = Checkpoint(file, self.identity, every)
        self.metrics_size = 0
        self.existed = False  # whether the directory held this run before
        self._lock: FileLock | None = None

    def open(self, *, resume: bool, overwrite: bool) -> None:
        """Create the directory, or check that it holds this very run; it is ours until `close`."""
        if self.path is None:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise LcpinnError(f"cannot write to {self.path}: {error.strerror}") from None
        self._take()
        try:
            if (self.path / "run.json").exists():
                self._reopen(resume, overwrite)
            if not (self.path / "run.json").exists():
                write_json(self.path / "run.json", {"identity": self.identity, **self.run})
        except BaseException:
            self.close()
            raise

    def _take(self) -> None:
        """Two trainings that write into one directory would leave neither of them behind.

        The lock is gone with the process that holds it.
        """
        assert self.path is not None
        lock = FileLock(self.path / ".lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise LcpinnError(
                f"another process is training into {self.path}: wait for it, or choose another "
                "--out"
            ) from None
        except (OSError, NotImplementedError):
            return  # some network file systems have no locks
        self._lock = lock

    def close(self) -> None:
        """Let others write into the directory."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def _reopen(self, resume: bool, overwrite: bool) -> None:
        assert self.path is not None
        for name in OURS:
            _remove_unfinished(self.path / name)
        if overwrite and not resume:
            for name in OURS:
                (self.path / name).unlink(missing_ok=True)
            return
        run = read_json(self.path / "run.json")
        if not resume:
            what = f"{run.get('family', {}).get('name')}, seed {run.get('seed')}"
            raise LcpinnError(
                f"{self.path} already holds a run ({what}); go on with it by --resume, "
                "replace it by --overwrite, or choose another --out"
            )
        if run.get("identity") != self.identity:
            differ = [k for k in ("family", "protocol", "seed") if _now(run.get(k)) != self.run[k]]
            if differ:
                what = " and ".join(differ)
                raise LcpinnError(f"{self.path} holds another run: it differs in its {what}")
        self.existed = True

    def finished(self) -> bool:
        """Whether this very run was found in the directory and had come to its end."""
        ends = ("model.safetensors", "result.json")
        complete = self.path is not None and all((self.path / n).exists() for n in ends)
        return self.existed and complete

    # Checkpoints.

    def due(self) -> bool:
        return self.checkpoint.due()

    def save(self, where: dict[str, Any], state: Any) -> None:
        """Replace the checkpoint; `where` says how far the run has come."""
        self.checkpoint.save({"metrics_size": self.metrics_size, **where}, state)

    def restore(self) -> Restored | None:
        """The checkpoint's position, and a function that puts its arrays into a state."""
        restored = self.checkpoint.restore()
        if restored is not None:
            self.metrics_size = restored[0].get("metrics_size", 0)
        return restored

    # Numbers along the way. Lines after the last checkpoint are cut off when a run goes on, so that
    # the file reads as if it had never stopped.

    def rewind_metrics(self) -> None:
        if self.path is None:
            return
        with _naming(self.path / "metrics.jsonl") as path, path.open("ab") as stream:
            # No more than there is: truncating a shorter file would pad it with zeros.
            self.metrics_size = min(self.metrics_size, stream.tell())
            stream.truncate(self.metrics_size)

    def log(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        content = (json.dumps(line) + "\n").encode()
        with _naming(self.path / "metrics.jsonl") as path, path.open("ab") as stream:
            stream.write(content)
        self.metrics_size += len(content)


class Checkpoint:
    """The state of one run, or of one batch, in one file; `None` as a path keeps nothing."""

    def __init__(self, path: Path | None, identity: str, every: float):
        self.path, self.identity, self.every = path, identity, every
        self.saved_at = time.monotonic()

    def due(self) -> bool:
        return self.path is not None and time.monotonic() - self.saved_at >= self.every

    def save(self, where: dict[str, Any], state: Any) -> None:
        """Replace the file."""
        if self.path is not None:
            write_arrays(self.path, "checkpoint", {"identity": self.identity, **where}, state)
            self.saved_at = time.monotonic()

    def restore(self) -> Restored | None:
        """Its header, and a function that puts its arrays into a state like another one."""
        file = self.path
        if file is not None:
            _remove_unfinished(file)
        if file is None or not file.exists():
            return None
        header, arrays = read_arrays(file, "checkpoint")
        if header.get("identity") != self.identity:
            raise LcpinnError(
                f"{file} belongs to another protocol, family or seed, or was written by another "
                "version of lcpinn: start again with --overwrite"
            )
        _check_position(file, header)
        return header, lambda like, vary=False: unflatten(arrays, like, str(file), any_shape=vary)

    def remove(self) -> None:
        """Of a run that is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _check_position(file: Path, header: dict[str, Any]) -> None:
    """What says how far a run has come is of the kind that a run writes."""
    counts = [header.get("phase"), header.get("metrics_size", 0)]
    seconds = header.get("seconds")
    sound = all(type(count) is int and count >= 0 for count in counts)
    sound &= isinstance(header.get("stopped"), list) and isinstance(seconds, dict)
    if not sound or not all(type((seconds or {}).get(k)) is float for k in ("compile", "train")):
        raise LcpinnError(f"{file} is damaged, or forged: it does not say how far its run has come")


def _remove_unfinished(path: Path) -> None:
    """What a process that was killed while it wrote this file has left beside it."""
    for unfinished in path.parent.glob(f".{path.name}.*"):
        unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[Path]:
    """What the system refuses becomes one line with the name of the file."""
    try:
        yield path
    except OSError as error:
        raise LcpinnError(f"could not write {path}: {error.strerror}") from None
