"""Model and checkpoint files, damaged and forged: each is refused in a line, or says what it did.

Bits, lengths, headers, shapes and JSON are changed at random; some forgeries have a checksum that
matches. Files are read in a process of their own that notices what reading one runs and how much
memory it takes.

    python -m benchmarks.chaos.files ORIGINALS FIRST LAST SEED     what that process runs
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from safetensors.numpy import load

import lcpinn as lc
from benchmarks.chaos.fault import Case, Fault, random_of
from benchmarks.chaos.kill import Decay
from lcpinn.files import checksum
from lcpinn.protocol.shrink import shrunk
from lcpinn.rundir import RunDirectory
from lcpinn.training import identify, make_setup

CHUNK = 500  # files of one process
# What reading a file may take: a few copies of it, and what Python and JAX keep around anyway.
COPIES, BESIDES = 8, 16 << 20  # bytes
DEEP = 200_000  # levels of nested JSON, at most
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "F4", "", "object")
RUNS_CODE = {
    "compile", "exec", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
    "pickle.find_class", "ctypes.dlopen", "socket.connect", "marshal.loads",
}  # fmt: skip


# -- Mutations: from the bytes of a file to others -------------------------------------------------

Mutation = Callable[[Generator, bytes], bytes]


def flipped_bits(rng: Generator, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        # Half of them in the header, which is a small part of the file.
        end = len(changed) if rng.random() < 0.5 else _header_end(content)
        changed[int(rng.integers(end))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def another_length(rng: Generator, content: bytes) -> bytes:
    if rng.random() < 0.7:
        return content[: int(rng.integers(len(content)))]
    return content + rng.bytes(int(rng.integers(1, 4096)))


def another_header_length(rng: Generator, content: bytes) -> bytes:
    near = _header_end(content) - 8 + int(rng.integers(-64, 65))
    far = int(rng.integers(0, 2**63)) >> int(rng.integers(0, 63))
    return struct.pack("<Q", abs(near) if rng.random() < 0.5 else far) + content[8:]


def overwritten_piece(rng: Generator, content: bytes) -> bytes:
    start = int(rng.integers(len(content)))
    end = min(len(content), start + int(rng.integers(1, 512)))
    piece = rng.bytes(end - start) if rng.random() < 0.5 else bytes(end - start)
    return content[:start] + piece + content[end:]


def other_shapes(rng: Generator, content: bytes) -> bytes:
    """Shapes, types and places of arrays that are not theirs, up to more than there is memory."""
    header, data = _opened(content)
    names = [name for name in header if name != "__metadata__"]
    for name in rng.choice(names, int(rng.integers(1, 4))):
        entry = header[str(name)]
        huge = [int(rng.integers(0, 2**62)) >> int(rng.integers(0, 62)) for _ in range(3)]
        place = int(rng.integers(3))
        if place == 0:
            entry["shape"] = huge[: int(rng.integers(0, 4))]
        elif place == 1:
            entry["dtype"] = str(rng.choice(DTYPES))
        else:
            entry["data_offsets"] = huge[:2]
    return _closed(header, data)


def forged_header(rng: Generator, content: bytes) -> bytes:
    """Any value of the library's own header replaced, and a checksum that matches."""
    header, data = _opened(content)
    inner = json.loads(header["__metadata__"]["lcpinn"])
    for _ in range(int(rng.integers(1, 4))):
        holder, key = _any_place(rng, inner)
        if isinstance(holder, dict) and rng.random() < 0.2:
            holder.pop(key)
        else:
            holder[key] = _any_value(rng, holder[key])
    inner.pop("checksum", None)
    with contextlib.suppress(ValueError, TypeError):
        inner["checksum"] = checksum(load(content), inner)
    header["__metadata__"]["lcpinn"] = json.dumps(inner)
    return _closed(header, data)


def nested_json(rng: Generator, content: bytes) -> bytes:
    header, data = _opened(content)
    depth = int(10 ** rng.uniform(1, np.log10(DEEP)))
    opening, closing = ("[", "]") if rng.random() < 0.5 else ('{"type":', "}")
    nested = opening * depth + "1" + closing * (depth if rng.random() < 0.7 else 0)
    place = int(rng.integers(3))
    if place == 0:
        return _sealed(nested.encode(), data)
    if place == 1:
        header["__metadata__"]["lcpinn"] = nested
        return _closed(header, data)
    inner = json.loads(header["__metadata__"]["lcpinn"])
    key = str(rng.choice(list(inner)))
    text = json.dumps(inner | {key: "HERE"}).replace('"HERE"', nested)
    header["__metadata__"]["lcpinn"] = text
    return _closed(header, data)


def another_format(rng: Generator, content: bytes) -> bytes:
    """What somebody might have renamed, or what runs code where it is unpickled."""
    formats = (
        b"", b"\n", b"\x89PNG\r\n\x1a\n" + content[:200], b"PK\x03\x04" + content[:200],
        pickle.dumps(_Payload()), b"\x93NUMPY" + content[:200], b"{}", rng.bytes(300),
        b"import os\nos.system('true')\n", struct.pack("<Q", 2) + b"{}",
    )  # fmt: skip
    return formats[int(rng.integers(len(formats)))]


class _Payload:
    """Unpickled, it makes a file: which would be noticed."""

    def __reduce__(self) -> Any:
        return os.system, ("touch payload-has-run",)


MUTATIONS: tuple[Mutation, ...] = (
    flipped_bits, another_length, another_header_length, overwritten_piece, other_shapes,
    forged_header, forged_header, nested_json, another_format,
)  # fmt: skip


def _header_end(content: bytes) -> int:
    return 8 + struct.unpack("<Q", content[:8])[0]


def _opened(content: bytes) -> tuple[dict[str, Any], bytes]:
    end = _header_end(content)
    return json.loads(content[8:end]), content[end:]


def _closed(header: Any, data: bytes) -> bytes:
    return _sealed(json.dumps(header).encode(), data)


def _sealed(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def _any_place(rng: Generator, tree: Any) -> tuple[Any, Any]:
    """A container somewhere in the tree, and one of its keys."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = keys[int(rng.integers(len(keys)))]
        if not (isinstance(tree[key], (dict, list)) and tree[key]) or rng.random() < 0.2:
            return tree, key
        tree = tree[key]


def _any_value(rng: Generator, before: Any) -> Any:
    values = (
        None, True, -1, 0, 3, 10**9, 2**70, 1e308, -0.5, float("nan"), float("inf"), "", "x",
        "os.system", "../../etc/passwd", "\u202e", "é" * 1000, [], {}, [[]], {"type": "Popen"},
        {"type": "MLP"}, {"type": "mapping", "items": [1]}, {"type": 3}, [1] * 1000,
        ["1"], {"x": [0, 1]}, [10**9, 10**9], before, [before], {"x": before}, "tanh", "float16",
    )  # fmt: skip
    return values[int(rng.integers(len(values)))]


# -- Reading -------------------------------------------------------------------------------------


def originals(folder: Path) -> None:
    """A model and a checkpoint, in the directory of a run, with the run beside them."""
    from lcpinn.compilation import enable_cache

    enable_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lc.NotSolvedWarning)
        made = _protocol()
        lc.train(Decay(), made, out=folder, checkpoint_every=0.0, progress=False, report=False)


def _protocol() -> lc.Protocol:
    from dataclasses import replace

    from lcpinn.optimiser import Adam

    made = shrunk(lc.protocol.paper(Decay()))
    return replace(made, phases=(Adam(steps=6, block=2),))


def _reader(kind: str) -> Callable[[Path], str]:
    """From a path to what came of reading it."""
    family, made = Decay(), _protocol()
    view = made.view(family)
    run = identify(view, made, 0)
    if kind == "model":

        def read(path: Path) -> str:
            solution = lc.load(path, family)
            return "read as it was" if solution.protocol == made else "read with other contents"

        return read
    setup = make_setup(view, made)
    import jax

    params = jax.jit(setup.problem.init)(jax.random.PRNGKey(0))
    like = made.phases[0].build(setup).init(params, jax.random.PRNGKey(1))

    def restore(path: Path) -> str:
        directory = RunDirectory(path.parent, run, every=0.0)
        directory.checkpoint.path = path
        restored = directory.restore()
        assert restored is not None
        restored[1](like)
        return "read"

    return restore


class _Watched:
    """What runs and how much memory is taken while a file is read."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.active = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: Any) -> None:
        if self.active and event in RUNS_CODE:
            self.events.append(event)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self.events.clear()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self.before, self.active = _memory("VmRSS"), True
        try:
            yield
        finally:
            self.active = False
            self.taken = max(_memory("VmHWM") - self.before, 0)


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def read_all(folder: Path, first: int, last: int, seed: int) -> Iterator[dict[str, Any]]:
    """The cases of these numbers, in this process."""
    kinds = {"model": "model.safetensors", "checkpoint": "checkpoint.safetensors"}
    contents = {kind: (folder / name).read_bytes() for kind, name in kinds.items()}
    readers = {kind: _reader(kind) for kind in kinds}
    watched = _Watched()
    scratch = folder / "damaged.safetensors"
    for kind, read in readers.items():  # what is imported and compiled once
        scratch.write_bytes(contents[kind])
        read(scratch)
    for number in range(first, last):
        rng = random_of(seed, number)
        kind = list(kinds)[int(rng.integers(2))]
        mutate = MUTATIONS[number % len(MUTATIONS)]
        scratch.write_bytes(mutate(rng, contents[kind]))
        yield {"number": number, **_outcome(readers[kind], scratch, watched, mutate.__name__, kind)}


def _outcome(
    read: Callable[[Path], str], path: Path, watched: _Watched, mutation: str, kind: str
) -> dict[str, Any]:
    size, problem = path.stat().st_size, ""
    try:
        with watched():
            outcome = read(path)
    except lc.LcpinnError as error:
        outcome = "refused"
        if "\n" in str(error) or len(str(error)) > 1000:
            problem = f"no clear line: {str(error)[:200]!r}"
    except BaseException as error:
        outcome = "not caught"
        problem = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if watched.events:
        problem = f"it ran code: {', '.join(watched.events)}"
    if watched.taken > COPIES * size + BESIDES:
        problem = f"{watched.taken >> 20} MB for a file of {size} bytes"
    if Path("payload-has-run").exists():
        problem = "it ran what was pickled"
    detail = f"{kind}, {mutation.replace('_', ' ')}: {problem}" if problem else ""
    return {"passed": not problem, "outcome": f"{kind} {outcome}", "detail": detail,
            "figures": {"bytes beyond the file's size": max(watched.taken - size, 0)}}  # fmt: skip


# -- The processes -------------------------------------------------------------------------------


def cases(numbers: range, seed: int) -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        originals(Path(folder))
        following = numbers.start
        while following < numbers.stop:
            last = min(following + CHUNK, numbers.stop)
            for case in _chunk(folder, following, last, seed):
                yield case
                following = case.number + 1


def _chunk(folder: str, first: int, last: int, seed: int) -> Iterator[Case]:
    """One process; if it ends too early, the file that it was at is what ended it."""
    module = [sys.executable, "-m", "benchmarks.chaos.files"]
    words = [*module, folder, str(first), str(last), str(seed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        number = first - 1
        for printed in made.stdout:
            case = Case(**json.loads(printed))
            number = case.number
            yield case
        assert made.stderr is not None
        said = made.stderr.read().strip().splitlines()[-1:]
    if number + 1 < last:
        why = f"the process ended with {made.returncode}: {' '.join(said)[:200]}"
        yield Case(number + 1, False, "crashed", why)


FAULT = Fault(
    name="files",
    done="model and checkpoint files with other bits, lengths, headers, shapes and JSON",
    promise="one clear line each; nothing is run; memory within the file's size",
    full=10_000,
    cases=cases,
)


if __name__ == "__main__":
    for told in read_all(Path(sys.argv[1]), *map(int, sys.argv[2:5])):
        print(json.dumps(told), flush=True)
