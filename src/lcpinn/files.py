"""Files on disk: arrays with a JSON header (safetensors), written whole or not at all.

A header is data and nothing else: reading a file never runs code from it. Every file carries a
checksum of it all, since a flipped bit in a weight would otherwise pass for a solution.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lcpinn.errors import LcpinnError

FORMAT = 1
LONGEST_REASON = 200  # characters of what a reader says of a file that it does not understand


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, flush to the disk, then rename: the old file survives any failure."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise LcpinnError(f"could not write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        kept = "; the file that was there is intact" if path.exists() else ""
        raise LcpinnError(f"could not write {path}: {error.strerror}{kept}") from None
    except BaseException:  # interrupted
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, data: Any) -> None:
    write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise LcpinnError(f"there is no {path}") from None
    except (ValueError, OSError, RecursionError):
        raise LcpinnError(f"{path} is damaged: it is not readable JSON") from None


def write_arrays(path: Path, kind: str, header: Mapping[str, Any], tree: Any) -> None:
    """Store a pytree of arrays under the names of its paths, with a header."""
    arrays = flatten(tree)
    meta = json.loads(json.dumps({"kind": kind, "format": FORMAT, **header}))
    meta["checksum"] = checksum(arrays, meta)
    write_atomically(path, save(arrays, metadata={"lcpinn": json.dumps(meta)}))


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file written by `write_arrays`, checked."""
    if not path.is_file():
        raise LcpinnError(f"there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as stream:
            meta = (stream.metadata() or {}).get("lcpinn")
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        header = json.loads(meta) if meta else None
    # JSON that is nested deeper than Python's stack is one of many ways for a header to be none.
    except (SafetensorError, ValueError, OSError, RecursionError) as error:
        reason = in_one_line(str(error))
        raise LcpinnError(f"{path} is truncated, damaged or no {kind} file ({reason})") from None
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise LcpinnError(f"{path} is a safetensors file, but no {kind} of lcpinn")
    if header.get("format") != FORMAT:
        other = in_one_line(str(header.get("format")), 20)
        raise LcpinnError(f"{path} has format {other}; this version reads {FORMAT}")
    if header.pop("checksum", None) != checksum(arrays, header):
        raise LcpinnError(f"{path} is damaged: its checksum does not match")
    return header, arrays


def in_one_line(text: str, longest: int = LONGEST_REASON) -> str:
    """What a file made somebody say: its values are anybody's, and may go on for pages."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def checksum(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """A pytree as named arrays: {'layers.0.w': ...}."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    # ascontiguousarray makes vectors of scalars, hence asarray with an order.
    return {path_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def unflatten(
    arrays: Mapping[str, np.ndarray], like: Any, owner: str, *, any_shape: bool = False
) -> Any:
    """Named arrays back into the shape of another pytree; anything missing is an error.

    With `any_shape` the tree's arrays may have other shapes than those of the file.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(like)
    names = [path_name(path) for path, _ in leaves]
    if set(names) != set(arrays):
        raise LcpinnError(
            f"{owner} holds other arrays than expected: another version of lcpinn wrote it, or "
            "for another network"
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != np.shape(leaf) and not any_shape:
            raise LcpinnError(
                f"{owner}: {name} has shape {arrays[name].shape}, not {np.shape(leaf)}"
            )
    # jax.numpy.asarray would compile a program for every shape.
    return jax.tree_util.tree_unflatten(treedef, [jax.device_put(arrays[n]) for n in names])


def path_name(path: tuple[Any, ...]) -> str:
    parts = (getattr(p, "key", getattr(p, "name", getattr(p, "idx", p))) for p in path)
    return ".".join(map(str, parts))
