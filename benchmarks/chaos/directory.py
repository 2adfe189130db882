"""Two trainings into one directory, a directory that is read-only, a clock that jumps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lcpinn as lc
from benchmarks.chaos import kill
from benchmarks.chaos.fault import Case, Fault, random_of
from benchmarks.processes import ROOT, with_sources
from lcpinn.study.run import Run
from lcpinn.study.store import Store

LENGTH = 0.04  # of the trainings that are killed
DAY = 86400.0  # seconds

# What a process runs that trains into a directory until it is told to end.
HOLD = """
import sys
from pathlib import Path
from lcpinn.rundir import RunDirectory
directory = RunDirectory(Path(sys.argv[1]), {"family": {}, "protocol": {}, "seed": 0}, every=1.0)
directory.open(resume=False, overwrite=False)
print("open", flush=True)
sys.stdin.read()
"""
TRAIN = """
import sys
from pathlib import Path
import lcpinn as lc
from benchmarks.chaos import kill
try:
    kill.train(sys.argv[1], Path(sys.argv[2]), 0.04)
except lc.LcpinnError as error:
    sys.exit(f"lcpinn: {error}")
"""


def held(kind: str, folder: Path, seed: int) -> str:
    """Another process trains into the directory, or into that of a member."""
    out = folder / "run"
    place = out / "k=1-seed1" if kind == "batch" else out
    words = [sys.executable, "-c", HOLD, str(place)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=with_sources()
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        before = {p: p.read_bytes() for p in place.iterdir() if p.name != ".lock"}
        try:
            kill.train(kind, out, LENGTH)
            problem = "it trained all the same"
        except lc.LcpinnError as error:
            problem = "" if "another process is training into" in str(error) else str(error)
        after = {p: p.read_bytes() for p in place.iterdir() if p.name != ".lock"}
        other.kill()
    return problem or ("" if after == before else "its files were changed")


def read_only(kind: str, folder: Path, seed: int) -> str:
    """Nobody may write there; not even root, which otherwise may everywhere."""
    (folder / "locked").mkdir(mode=0o555)
    words = [sys.executable, "-c", TRAIN, kind, str(folder / "locked" / "run")]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            return ""  # cannot be tried here
        words = ["setpriv", "--bounding-set", "-dac_override", "--", *words]
    done = subprocess.run(words, capture_output=True, text=True, env=with_sources(), cwd=ROOT)
    lines = [s for s in done.stderr.splitlines() if s.startswith("lcpinn: ")]
    if done.returncode == 1 and len(lines) == 1 and "cannot write to" in lines[0]:
        return ""
    return (done.stderr.strip().splitlines() or ["it trained all the same"])[-1]


def jumping_clock(kind: str, folder: Path, seed: int) -> str:
    """Every look at the clock tells another day: the run ends as it would otherwise."""
    kill.train(kind, folder / "whole", LENGTH)
    rng, now = random_of(seed, 0), time.time
    time.time = lambda: now() + float(rng.uniform(-1000, 1000)) * DAY
    try:
        kill.train(kind, folder / "run", LENGTH)
    finally:
        time.time = now
    return kill.difference(folder / "whole", folder / "run")


def jumping_claims(kind: str, folder: Path, seed: int) -> str:
    """A run of a study that somebody is at stays theirs, whatever day it is."""
    store, run, now = Store(folder, folder), Run("burgers", kind), time.time
    with store.claim([run]) as own:
        for jump in random_of(seed, 1).uniform(-1000, 1000, 20):
            time.time = lambda jump=jump: now() + float(jump) * DAY
            try:
                with store.claim([run]) as other:
                    if own != [run] or other:
                        return f"it was taken over after a jump of {jump:.0f} days"
            finally:
                time.time = now
    return ""


TRIALS: tuple[Callable[[str, Path, int], str], ...] = (
    held,
    read_only,
    jumping_clock,
    jumping_claims,
)


def cases(numbers: range, seed: int) -> Iterator[Case]:
    """Every trial with every kind of training."""
    for number in numbers:
        trial, kind = TRIALS[number % len(TRIALS)], kill.KINDS[number // len(TRIALS) % 3]
        with tempfile.TemporaryDirectory() as folder:
            try:
                problem = trial(kind, Path(folder), seed + number)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
        words = trial.__name__.replace("_", " ")
        yield Case(number, not problem, words, f"{kind}, {words}: {problem}" if problem else "")


FAULT = Fault(
    name="directory",
    done="two trainings into one directory; a read-only directory; a clock that jumps by days",
    promise="refused in a line, or harmless",
    full=12,
    cases=cases,
)
