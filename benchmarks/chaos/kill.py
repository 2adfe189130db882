"""SIGKILL at random moments of a training, again and again, and each time a resume.

A chain is one training: its process is killed at a moment drawn evenly from the time that a whole
training takes, resumed, killed again, and so on; the last resume is left alone. What it ends with
has to equal, byte for byte, what a training that nobody killed has written. One that is over before
its moment is compared, too, and begun anew.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing as mp
import os
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.chaos.fault import Case, Fault, random_of
from lcpinn.files import read_arrays
from lcpinn.optimiser import LBFGS, Adam, RevertOnWorse
from lcpinn.sampling import Sampling

KILLS = 5  # of one chain
KINDS = ("fast", "paper", "batch")
PATIENCE = 300.0  # seconds for a training, on a busy machine


class Decay(lc.Family):
    """u' + k u = 0, u(0) = 1, for every rate k."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))
    evaluation = lc.Evaluation(points={"x": 17}, at={"k": (0.5, 1.0, 2.0)}, dense=5)

    @lc.interior
    def equation(self, u: Any, u_x: Any, k: Any) -> Any:
        return u_x + k * u

    @lc.on(x=0.0)
    def start(self, u: Any) -> Any:
        return u - 1.0

    def exact(self, x: Any, k: Any) -> Any:
        return jnp.exp(-k * x)


# -- What is killed ------------------------------------------------------------------------------


def train(
    kind: str,
    out: Path,
    length: float = 1.0,
    seeds: tuple[int, ...] = (0, 1),
    report: bool = True,
) -> None:
    """A training with a checkpoint after every compiled call, of a second or two by itself."""
    family, common = Decay(), {"resume": True, "checkpoint_every": 0.0, "progress": False}
    steps = lambda number: max(2, round(length * number))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lc.NotSolvedWarning)
        if kind == "fast":
            made = small_fast(family, steps(120))
            lc.train(family, made, out=out, report=report, **common)
        elif kind == "paper":
            made = _by_gradient(lc.protocol.paper(family), steps)
            lc.train(family, made, out=out, report=report, **common)
        else:
            make = lambda family, at: _by_gradient(lc.protocol.pinn(family, at=at), steps)
            settings = tuple({"k": k} for k in (0.6, 1.0, 1.9))
            lc.retrain(family, make, settings, seeds, out=out, at_once=3, **common)


def small_fast(family: lc.Family, steps: int) -> lc.Protocol:
    """`fast` without a clock, which would end it elsewhere, and with calls of two steps."""
    made = lc.protocol.fast(family, steps=steps)
    restarts: Any = made.phases[0]
    rows = Sampling(interior=200, face=20, num_lambda=1, rule="collocation")
    inner = replace(restarts.phase, sampling=rows, block=2, tolerance=0.0, patience=60)
    network = replace(made.network, widths=(10, 10))
    held_out = replace(made.held_out, interior=128, face=16)
    phases = (replace(restarts, phase=inner),)
    return replace(made, network=network, phases=phases, held_out=held_out)


def _by_gradient(made: lc.Protocol, steps: Any) -> lc.Protocol:
    """The same on few points, in many short calls."""
    phases = (
        Adam(steps=steps(300), block=5),
        RevertOnWorse(LBFGS(steps=steps(60), block=2, patience=1000)),
    )
    few = replace(made.sampling or Sampling(), interior=24, face=4)
    return replace(
        made,
        network=made.network.shrunk(),
        phases=phases,
        sampling=few,
        quadrature=replace(made.quadrature, interior=24, face=4),
        held_out=replace(made.held_out, interior=16, face=4),
    )


def _process(kind: str, out: Path, length: float, report: bool, problems: Path) -> None:
    """What the process that is killed runs."""
    try:
        train(kind, out, length, report=report)
    except BaseException as error:
        problems.write_text(f"{type(error).__name__}: {error}")
        os._exit(1)
    os._exit(0)  # nothing of JAX need be torn down


# -- The killing ---------------------------------------------------------------------------------


def cases(
    numbers: range,
    seed: int,
    kinds: tuple[str, ...] = KINDS,
    length: float = 1.0,
    report: bool = True,
) -> Iterator[Case]:
    """One case is one kill. Those of a chain are told once its training is compared."""
    with tempfile.TemporaryDirectory() as folder, cached(Path(folder) / "xla"):
        make = mp.get_context("forkserver")
        make.set_forkserver_preload(["benchmarks.chaos.kill"])
        run = partial(_started, make, length, report)
        wholes: dict[str, tuple[Path, float]] = {}
        chains = itertools.groupby(numbers, lambda number: number // KILLS)
        for chain, members in chains:
            kind = kinds[chain % len(kinds)]
            if kind not in wholes:
                wholes[kind] = _uninterrupted(run, kind, Path(folder) / f"{kind}-whole")
            whole, seconds = wholes[kind]
            out = Path(folder) / f"{kind}-{chain}"
            yield from _chain(run, kind, out, whole, seconds, list(members), seed)
            shutil.rmtree(out, ignore_errors=True)


def _chain(
    run: Any, kind: str, out: Path, whole: Path, seconds: float, numbers: list[int], seed: int
) -> Iterator[Case]:
    moments, problem = [], ""
    for number in numbers:
        moment, found = _killed(run, kind, out, whole, seconds, random_of(seed, number))
        moments.append(moment)
        problem = problem or found
    process = run(kind, out)
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
    problem = problem or _problem(process, whole, out)
    for number, moment in zip(numbers, moments, strict=True):
        detail = f"{kind}, killed {moment}: {problem}" if problem else ""
        yield Case(number, not problem, f"{kind}, {moment}", detail)


def _killed(
    run: Any, kind: str, out: Path, whole: Path, seconds: float, random: np.random.Generator
) -> tuple[str, str]:
    """The moment of a kill, and what was wrong before it.

    A training that is over when the moment comes is compared, and another one begins from nothing:
    what was not killed is no case.
    """
    problem = ""
    while True:
        process = run(kind, out)
        process.join(random.uniform(0.0, seconds))
        if process.is_alive():
            moment = _moment(out)
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            return moment, problem
        problem = problem or _problem(process, whole, out)
        shutil.rmtree(out, ignore_errors=True)


def _problem(process: Any, whole: Path, out: Path) -> str:
    """What is wrong with a training that has ended, in a line."""
    if process.exitcode == 0:
        return difference(whole, out)
    report = out.with_suffix(".problem")
    return report.read_text() if report.exists() else f"exit code {process.exitcode}"


def _started(make: Any, length: float, report: bool, kind: str, out: Path) -> Any:
    given = (kind, out, length, report, out.with_suffix(".problem"))
    process = make.Process(target=_process, args=given)
    process.start()
    return process


def _uninterrupted(run: Any, kind: str, out: Path) -> tuple[Path, float]:
    """A training that nobody kills, and its seconds once its programs are compiled."""
    seconds = 0.0
    for _ in range(2):
        shutil.rmtree(out, ignore_errors=True)
        begun = time.monotonic()
        process = run(kind, out)
        process.join(PATIENCE)
        seconds = time.monotonic() - begun
        if process.exitcode != 0:
            raise SystemExit(f"{kind} does not train: {out.with_suffix('.problem').read_text()}")
    return out, seconds


def _moment(out: Path) -> str:
    """Where in a training the kill falls, as far as files tell."""
    has = lambda name: any(out.rglob(name))
    if has("model.safetensors"):
        return "while results are written"
    if has("checkpoint.safetensors") or has("batch-*.safetensors"):
        return "while it trains"
    return "before its first checkpoint"


def difference(whole: Path, other: Path) -> str:
    """How a run differs from the one that nobody killed, in a line; empty where it does not."""
    files = lambda root: sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    if files(whole) != files(other):
        return f"other files: {', '.join(sorted(set(files(whole)) ^ set(files(other))))}"
    for path in sorted(whole.rglob("model.safetensors")):
        name = str(path.relative_to(whole))
        mine, theirs = (read_arrays(root / name, "model")[1] for root in (whole, other))
        if {n: _content(a) for n, a in mine.items()} != {n: _content(a) for n, a in theirs.items()}:
            return f"{name} has other arrays"
    for path in sorted(whole.rglob("metrics.jsonl")):
        name = str(path.relative_to(whole))
        if path.read_bytes() != (other / name).read_bytes():
            return f"{name} has other lines"
    return ""


def _content(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return str(array.dtype), array.shape, array.tobytes()


@contextlib.contextmanager
def cached(directory: Path) -> Iterator[None]:
    """Processes that are started here share their compiled programs."""
    chosen = {
        # Where one is chosen already, programs may be there from another time.
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", str(directory)),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # programs run for moments
    }
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


FAULT = Fault(
    name="kill",
    done="SIGKILL at random moments of `fast`, `paper` and a batch, then a resume",
    promise="every array and every line of metrics as without the kill",
    full=100,
    cases=cases,
)
