"""More memory than a process may have: the line says how much was wanted and what to lower.

python -m benchmarks.chaos.memory KIND ROOM     what the limited process runs
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lcpinn as lc
from benchmarks.chaos.fault import Case, Fault, random_of
from benchmarks.chaos.kill import Decay
from benchmarks.processes import ROOT, with_sources
from lcpinn.optimiser import Adam
from lcpinn.sampling import Sampling

KINDS = ("fast", "paper", "batch")
MANY = 8_000_000  # points: far more than there is room for
ROOM = (256, 2048)  # MiB beside what the process has when it begins


def train(kind: str) -> None:
    """A training that wants more than there is."""
    family = Decay()
    if kind == "fast":
        made = lc.protocol.fast(family, steps=4)
        restarts: Any = made.phases[0]
        rows = Sampling(interior=MANY // 8, face=16, num_lambda=1, rule="collocation")
        phase = replace(restarts.phase, sampling=rows)
        lc.train(family, replace(made, phases=(replace(restarts, phase=phase),)), progress=False)
        return
    few = lambda made: replace(
        made,
        sampling=Sampling(interior=MANY // 8, face=16, num_lambda=8),
        phases=(Adam(steps=4, block=2),),
    )
    if kind == "paper":
        lc.train(family, few(lc.protocol.paper(family)), progress=False)
    else:
        make = lambda family, at: few(lc.protocol.pinn(family, at=at))
        lc.retrain(family, make, ({"k": 0.7}, {"k": 1.3}), progress=False, at_once=2)


def main(kind: str, room: int) -> None:
    import jax

    jax.block_until_ready(jax.jit(lambda x: x + 1)(0.0))  # what JAX keeps is there
    limit = _taken() + (room << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        train(kind)
    except lc.LcpinnError as error:
        sys.exit(f"lcpinn: {error}")


def _taken() -> int:
    status = Path("/proc/self/status").read_text()
    match = re.search(r"VmData:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) << 10


def cases(numbers: range, seed: int) -> Iterator[Case]:
    environment = with_sources()
    for number in numbers:
        kind, room = KINDS[number % 3], int(random_of(seed, number).integers(*ROOM))
        words = [sys.executable, "-m", "benchmarks.chaos.memory", kind, str(room)]
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=ROOT)
        lines = [s for s in done.stderr.splitlines() if s.startswith("lcpinn: ")]
        clear = len(lines) == 1 and re.search(
            r"out of memory: \w+ wanted [\d.e+]+ GiB at once, with .* lower the points", lines[0]
        )
        said = (lines or done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        problem = "" if clear and done.returncode == 1 else f"no clear line: {said[:300]}"
        detail = f"{kind}, {room} MiB: {problem}" if problem else ""
        yield Case(number, not problem, f"{kind}: said", detail)


FAULT = Fault(
    name="memory",
    done="a limit on the memory of `fast`, `paper` and a batch, far below what they want",
    promise="how much was wanted, and what to lower",
    full=12,
    cases=cases,
)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
