"""Trainings in fresh processes, several at once, each on cores of its own."""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 2  # cores of a training that shares the machine with others

Job = TypeVar("Job")
Run = TypeVar("Run")


def core_slots(jobs: int, width: int = WIDTH) -> list[list[int]]:
    """Cores for each training that runs at once, two if nothing else is said; one by itself stays
    where it is. On a GPU they share it: compilation needs cores while the others compute."""
    if jobs < 1:
        sys.exit("--jobs must be at least 1")
    if jobs == 1:
        return [[]]
    if not hasattr(os, "sched_getaffinity") or shutil.which("taskset") is None:
        sys.exit("--jobs needs taskset, to give every training cores of its own")
    cores = sorted(os.sched_getaffinity(0))
    if width * jobs > len(cores):
        sys.exit(f"--jobs {jobs} needs {width * jobs} cores; there are {len(cores)}")
    return [cores[width * i : width * (i + 1)] for i in range(jobs)]


def as_they_end(
    run: Callable[[Job, list[int]], Run], jobs: Sequence[Job], slots: list[list[int]]
) -> Iterator[Run]:
    """What `run` makes of every job, as soon as it is done; as many at once as there are slots."""
    free: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    for slot in slots:
        free.put(slot)

    def one(job: Job) -> Run:
        slot = free.get()
        try:
            return run(job, slot)
        finally:
            free.put(slot)

    with ThreadPoolExecutor(len(slots)) as pool:
        tasks = [pool.submit(one, job) for job in jobs]
        try:
            for task in as_completed(tasks):
                yield task.result()
        except BaseException:  # interrupted: what has not begun need not
            pool.shutdown(cancel_futures=True)
            raise


def with_sources() -> dict[str, str]:
    """The environment, for a process that is to find these benchmarks and the library."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def python_in_fresh_process(
    code: str, *arguments: str, cores: list[int], cache: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python code on some cores, any where none are named; `cache` is for its programs."""
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    environment = with_sources()
    if cache is not None:
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": cache,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
            "CUDA_CACHE_PATH": f"{cache}-cuda",
        }
    command = [*pinned, sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def answer_of_fresh_process(code: str, job: dict[str, Any], cores: list[int]) -> dict[str, Any]:
    """What code prints last, as JSON, about a job that it is given so; or why it `failed`.

    The job's `out` is a directory for its files, which is gone afterwards. It finds no compiled
    program, so that compilation is paid and counted.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = json.dumps({**job, "out": f"{folder}/run"})
        done = python_in_fresh_process(code, told, cores=cores, cache=f"{folder}/xla")
    if done.returncode:
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        return {"failed": reason}
    return json.loads(done.stdout.splitlines()[-1])


def stamp_in_fresh_process(seeds: list[int], cores: list[int]) -> dict[str, Any]:
    """Where the numbers come from; JAX in this process would hold most of a GPU's memory."""
    code = (
        "import json, jax; from benchmarks.stamp import stamp; "
        "print(json.dumps({**stamp(0), 'platform': jax.default_backend()}))"
    )
    done = python_in_fresh_process(code, cores=cores)
    if done.returncode:
        sys.exit(f"JAX does not start:\n{done.stderr[-2000:]}")
    made = json.loads(done.stdout.splitlines()[-1])
    made.pop("seed")
    return {**made, "seeds": seeds}


def among(known: Collection[str], noun: str) -> Callable[[str], list[str]]:
    """Names with commas between them, for an option; each of them has to be known."""

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"no {noun} {name!r} here; there are {', '.join(known)}"
                )
        return names

    return read
