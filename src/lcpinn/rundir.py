"""A run's directory: what was asked for, the numbers along the way, and where to go on from.

run.json                 family, protocol, seed, versions, device: what this run is
metrics.jsonl            one line per compiled call
checkpoint.safetensors   the optimiser's whole state, replaced atomically
model.safetensors        the trained network
result.json              errors, times, why it stopped
solution.png             a picture of it
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

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


def _now(value: Any) -> Any:
    """A part of a run as this version writes it down, whichever version wrote it."""
    try:
        return to_plain(from_plain(value))
    except LcpinnError:
        return value


class RunDirectory:
    """Where a run lives on disk; `None` as a path keeps everything in memory."""

    def __init__(self, path: Path | None, run: dict[str, Any], *, every: float):
        self.path, self.run, self.every = path, run, every
        self.identity = fingerprint({k: run[k] for k in ("family", "protocol", "seed")})
        self.saved_at = time.monotonic()
        self.metrics_size = 0
        self.existed = False  # whether the directory held this run before

    def open(self, *, resume: bool, overwrite: bool) -> None:
        """Create the directory, or check that it holds this very run."""
        if self.path is None:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise LcpinnError(f"cannot write to {self.path}: {error.strerror}") from None
        if (self.path / "run.json").exists():
            self._reopen(resume, overwrite)
        if not (self.path / "run.json").exists():
            write_json(self.path / "run.json", {"identity": self.identity, **self.run})

    def _reopen(self, resume: bool, overwrite: bool) -> None:
        assert self.path is not None
        for unfinished in (p for name in OURS for p in self.path.glob(f".{name}.*")):
            unfinished.unlink(missing_ok=True)  # a process that was killed while it wrote
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
        return self.path is not None and time.monotonic() - self.saved_at >= self.every

    def save(self, where: dict[str, Any], state: Any) -> None:
        """Replace the checkpoint; `where` says how far the run has come."""
        if self.path is None:
            return
        header = {"identity": self.identity, "metrics_size": self.metrics_size, **where}
        write_arrays(self.path / "checkpoint.safetensors", "checkpoint", header, state)
        self.saved_at = time.monotonic()

    def restore(self) -> tuple[dict[str, Any], Any] | None:
        """The checkpoint's position, and a function that puts its arrays into a state."""
        if self.path is None or not (self.path / "checkpoint.safetensors").exists():
            return None
        file = self.path / "checkpoint.safetensors"
        header, arrays = read_arrays(file, "checkpoint")
        if header["identity"] != self.identity:
            raise LcpinnError(
                f"{file} belongs to another protocol, family or seed, or was written by another "
                "version of lcpinn: start again with --overwrite"
            )
        self.metrics_size = header["metrics_size"]
        return header, lambda like, vary=False: unflatten(arrays, like, str(file), any_shape=vary)

    # Numbers along the way. Lines after the last checkpoint are cut off when a run goes on, so that
    # the file reads as if it had never stopped.

    def rewind_metrics(self) -> None:
        if self.path is not None:
            with (self.path / "metrics.jsonl").open("ab") as stream:
                # No more than there is: truncating a shorter file would pad it with zeros.
                self.metrics_size = min(self.metrics_size, stream.tell())
                stream.truncate(self.metrics_size)

    def log(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        content = (json.dumps(line) + "\n").encode()
        try:
            with (self.path / "metrics.jsonl").open("ab") as stream:
                stream.write(content)
        except OSError as error:
            raise LcpinnError(
                f"could not write {self.path}/metrics.jsonl: {error.strerror}"
            ) from None
        self.metrics_size += len(content)
