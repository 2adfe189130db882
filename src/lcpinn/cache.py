"""Arrays kept on disk between runs, keyed by what they were computed from."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from platformdirs import user_cache_path

Arrays = dict[str, np.ndarray]


def cache_directory() -> Path:
    """Where results are kept: LCPINN_CACHE, else where the system keeps caches.

    That is XDG_CACHE_HOME/lcpinn or ~/.cache/lcpinn on Linux, ~/Library/Caches/lcpinn on macOS and
    %LOCALAPPDATA%\\lcpinn\\Cache on Windows.
    """
    if chosen := os.environ.get("LCPINN_CACHE"):
        return Path(chosen)
    return user_cache_path("lcpinn", appauthor=False)


def cached(
    name: str, version: int, settings: Mapping[str, Any], compute: Callable[[], Arrays]
) -> Arrays:
    """Load the arrays computed for these settings, or compute and store them.

    The file is ``<name>-v<version>-<hash of settings>.npz``. Raise ``version`` whenever
    ``compute`` changes meaning. The cache only ever saves time: a damaged file is computed again
    and replaced, and a directory that cannot be written to costs one warning.
    """
    canonical = json.dumps(dict(settings), sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    path = cache_directory() / f"{name}-v{version}-{digest}.npz"
    arrays = _read(path)
    if arrays is None:
        arrays = compute()
        _write(path, arrays)
    return arrays


def _read(path: Path) -> Arrays | None:
    """The arrays in a file, or None if it is absent or unusable."""
    try:
        # Opened here, because np.load leaves its own handle open on a truncated archive.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception:  # zip, header and checksum errors have no common base narrower than this
        return None


def _write(path: Path, arrays: Arrays) -> None:
    """Write whole or not at all, so that a reader never meets half a file."""
    # A name of our own rather than tempfile's keeps the umask, so a shared cache stays readable.
    partial = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(partial, "xb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        warnings.warn(
            f"cannot keep reference solutions in {path.parent} ({error.strerror}); "
            "set LCPINN_CACHE to a writable directory to compute them only once",
            RuntimeWarning,
            stacklevel=3,
        )
