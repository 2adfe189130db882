"""One training on many devices and processes: which of them, what each gets, what they agree on.

Rows are what is divided. A mesh has one axis, `ROWS`; points of a batch are constrained to be
spread along it, parameters and states are on every device, and the compiler makes sums over points
of what every device has (Gauss-Newton's J'J is summed explicitly, see optimiser/linear_model.py).
Several processes run the same program; where one would decide by its own clock, the first decides.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.sampling import POINTWISE, Batch, Points

ROWS = "rows"
ALIVE = "lcpinn/alive"
ADVICE = "go on from the checkpoint with --resume, on as many as there are"
LOST = 3  # the exit code of a process that lost another one
BEAT, SILENCE = 5.0, 30.0  # seconds between signs of life, and without one: then it is gone
HEARTBEAT = 50  # after so many seconds JAX notices by itself, and ends the process less politely
PATIENCE = 3600  # seconds that processes wait for the first one to report

# -- Processes -----------------------------------------------------------------------------------


def join_processes(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Make this process one of several, before anything is computed.

    What is not given is found out by JAX from Slurm, MPI or Kubernetes.
    """
    given = (coordinator, processes, process)
    if any(value is not None for value in given) and None in given:
        raise LcpinnError("--coordinator, --processes and --process belong together")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise LcpinnError(f"the coordinator {coordinator!r} has no port: HOST:PORT")
    if processes is not None and not 0 <= (process or 0) < processes:
        raise LcpinnError(f"processes count from 0 to {processes - 1}; this one is {process}")
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=PATIENCE,
        )
    except (ValueError, RuntimeError) as error:
        if coordinator is None:
            raise LcpinnError(
                "no Slurm, MPI or Kubernetes tells of other processes: give --coordinator, "
                f"--processes and --process ({error})"
            ) from None
        reason = str(error).strip().splitlines()[0]
        raise LcpinnError(f"cannot join the other processes: {reason}") from None
    if not is_first():
        _say_why_when_aborted()
    _watch_others()


def _say_why_when_aborted() -> None:
    """End with a line where JAX would abort, as it does when it notices that the first is gone.

    Its client runs in threads of its own and cannot be told to call us (the callback that it takes
    gets a status which Python has no type for), so the signal is caught where abort() raises it:
    Python's own handlers would wait for an interpreter that never goes on.
    """
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)
    _kept.append(handler(lambda _: end_lost(f"the first process does not answer: {ADVICE}")))
    with contextlib.suppress(OSError, AttributeError):  # no C library by that name
        library = ctypes.CDLL(None)
        library.signal.argtypes, library.signal.restype = (ctypes.c_int, handler), ctypes.c_void_p
        library.signal(signal.SIGABRT, _kept[-1])


_kept: list[Any] = []  # handlers that C calls, which must not be collected
_ending = threading.Lock()


def end_lost(text: str) -> None:
    """End this process, which lost another one, with a line; of several threads the first does."""
    if not _ending.acquire(blocking=False):
        time.sleep(BEAT)  # the other thread ends the process
    print(f"lcpinn: {text}", file=sys.stderr, flush=True)
    os._exit(LOST)


def is_first() -> bool:
    """Whether this process is the one that reports and writes."""
    return jax.process_index() == 0


def alone() -> bool:
    return jax.process_count() == 1


def _watch_others() -> None:
    """Watch from a thread that ends this process when another one is silent.

    A broken connection shows in the next collective operation. A host that is frozen or cut off
    does not: the operation waits for it.
    """
    from jax._src import distributed  # the store that processes share has no public name

    known = distributed.global_state
    if not hasattr(known.client, "key_value_dir_get"):
        return

    def watch() -> None:
        silent = first_silent(known.client, known.process_id)
        if silent is not None:
            who = f"process {silent} of {known.num_processes}"
            end_lost(f"{who} has been silent for {SILENCE:.0f} s: {ADVICE}")

    threading.Thread(target=watch, daemon=True).start()


def first_silent(
    client: Any, index: int, every: float = BEAT, limit: float = SILENCE
) -> int | None:
    """Give signs of life until another process gives none; None where they can no longer be seen.

    The store of the coordinator has a number for each process, which counts up.
    """
    heard: dict[str, tuple[str, float]] = {}
    for count in itertools.count():
        try:
            client.key_value_set(f"{ALIVE}/{index}", str(count), allow_overwrite=True)
            signs = dict(client.key_value_dir_get(ALIVE))
        except Exception:  # all is over, or the coordinator is gone: JAX tells that by itself
            return None
        now = time.monotonic()
        for name, sign in signs.items():
            if name not in heard or heard[name][0] != sign:
                heard[name] = sign, now
        silent = [name for name, (_, last) in heard.items() if now - last > limit]
        if silent:
            return int(silent[0].rpartition("/")[2])
        time.sleep(every)
    return None


@contextlib.contextmanager
def noticing_lost_processes() -> Iterator[None]:
    """What a collective operation says when another process is gone, in one line."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if alone():
            raise
        reason = str(error).strip().splitlines()[0][:160]
        raise LostProcessError(
            f"process {jax.process_index()} of {jax.process_count()} lost another one: "
            f"{ADVICE} ({reason})"
        ) from None


class LostProcessError(LcpinnError):
    """Another process of a distributed training is gone."""


# -- What processes agree on ---------------------------------------------------------------------


def agreed(value: float) -> float:
    """The first process's value."""
    return value if alone() else float(_from_the_first(np.float32(value)))


def agreed_data(data: Any) -> Any:
    """The first process's plain data, as JSON."""
    if alone():
        return data
    text = np.frombuffer(json.dumps(data).encode(), np.uint8)
    length = int(_from_the_first(np.int32(len(text))))
    mine = text if is_first() else np.zeros(length, np.uint8)
    return json.loads(np.asarray(_from_the_first(mine)).tobytes())


def agreed_arrays(tree: Any) -> Any:
    """The first process's arrays, of the same shapes everywhere."""
    return tree if alone() else _from_the_first(jax.tree.map(np.asarray, tree))


@noticing_lost_processes()
def _from_the_first(tree: Any) -> Any:
    from jax.experimental import multihost_utils

    return multihost_utils.broadcast_one_to_all(tree)


# -- Devices -------------------------------------------------------------------------------------


def make_mesh(devices: int | None = None) -> Mesh | None:
    """So many devices of every process: all accelerators by default, and one CPU. None: just one.

    A CPU is one device unless it is divided into several by
    XLA_FLAGS=--xla_force_host_platform_device_count=N.
    """
    local = jax.local_devices()
    num = devices or (1 if jax.default_backend() == "cpu" else len(local))
    if not 1 <= num <= len(local):
        kind = local[0].platform
        raise LcpinnError(f"{devices} devices were asked for; there are {len(local)} ({kind})")
    if num != agreed(num):
        raise LcpinnError(f"every process brings as many devices as the first: here are {num}")
    everywhere: list[Any] = []
    for process in range(jax.process_count()):
        own = [d for d in jax.devices() if d.process_index == process]
        everywhere += own[:num]
    return None if len(everywhere) == 1 else Mesh(np.array(everywhere), (ROWS,))


def on_every_device(tree: Any, mesh: Mesh | None) -> Any:
    """The same arrays on all devices of a mesh; each process brings its own copy."""
    if mesh is None:
        return tree
    sharding = NamedSharding(mesh, PartitionSpec())

    def put(leaf: Any) -> Array:
        if getattr(leaf, "sharding", None) == sharding:
            return leaf
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    return jax.tree.map(put, tree)


def on_this_device(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays that are on all devices, as ordinary ones."""
    return tree if mesh is None else jax.tree.map(lambda a: jnp.asarray(np.asarray(a)), tree)


def spread(batch: Batch, mesh: Mesh | None) -> Batch:
    """The batch with the points of every place divided among the devices (in a traced function).

    Along the points of each lambda or, where those do not divide evenly, along lambda; places where
    neither does are computed on every device.
    """
    if mesh is None:
        return batch
    return {where: _spread(points, mesh) for where, points in batch.items()}


def _spread(points: Points, mesh: Mesh) -> Points:
    num_lambda, num = points.coordinates.shape[:2]
    if num % mesh.size == 0:
        along = lambda a: spread_along(1, a, mesh)
        return points._replace(
            **{name: jax.tree.map(along, getattr(points, name)) for name in POINTWISE}
        )
    if num_lambda % mesh.size == 0:
        return jax.tree.map(lambda a: spread_along(0, a, mesh), points)
    return points


def spread_along(axis: int, array: Array | None, mesh: Mesh | None) -> Any:
    """An array divided among the devices along an axis that their number divides."""
    if array is None or mesh is None or array.shape[axis] % mesh.size:
        return array
    names = PartitionSpec(*(None,) * axis, ROWS)
    return jax.lax.with_sharding_constraint(array, NamedSharding(mesh, names))
