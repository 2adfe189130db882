"""The first seconds: what `lcpinn --help` and a very short training spend their time on.

    python -m benchmarks.first_seconds [--family helmholtz-1d] [--repeats 3]
                                       [--out results/first-seconds-cpu.json]

`lcpinn train FAMILY --seconds 0.5` runs in fresh processes: once with nothing compiled, then
with the programs that this left. Every part of it has its seconds of the wall and of the
processor, all threads together, which say more where a machine has other work, and the programs
that it had to trace, lower and compile or read. The first step is counted from the start of the
process to the end of the first call that takes steps; the report is all that follows the last one
(verdict, errors, picture). Of several runs that with the least seconds of the processor counts.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import stamp_in_fresh_process, with_sources

SECONDS = 0.5
# What the parts are called, and the functions whose own time they are.
PARTS = {
    "family": ("lcpinn.cli.train:find_family",),
    "protocol": ("lcpinn.protocol:default", "lcpinn.protocol:by_name"),
    "verdict": ("lcpinn.solution:Solution.judged",),
    "errors": ("lcpinn.evaluation:evaluate",),
    "residual": ("lcpinn.evaluation:validate",),
    "picture": ("lcpinn.training:write_result",),
    "messages": ("lcpinn.cli.train:_introduce", "lcpinn.cli.train:show_result"),
}
# JAX's own events, as its monitoring calls them.
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
AIMS = {
    "help": 0.5,
    "first step, compiled before": 3.0,
    "first step, nothing compiled": 6.0,
    "report": 3.0,
}

Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.first_seconds", description=about)
    parser.add_argument("--family", default="helmholtz-1d")
    parser.add_argument("--repeats", type=int, default=3, help="runs that find compiled programs")
    parser.add_argument("--out", type=Path, help="write to this JSON file")
    given = parser.parse_args(arguments)
    origin = stamp_in_fresh_process([0], [])
    origin.pop("platform")
    result: dict[str, Any] = {"benchmark": "first-seconds", "stamp": origin}
    result["command"] = f"lcpinn train {given.family} --seconds {SECONDS}"
    result["help"] = quickest([run_help() for _ in range(given.repeats)])
    with tempfile.TemporaryDirectory() as folder:
        result["cold"] = run_training(given.family, folder)
        warm = [run_training(given.family, folder) for _ in range(given.repeats)]
    result["warm"] = quickest(warm)
    result["runs"] = [{"seconds": r["seconds"], "cpu_seconds": r["cpu_seconds"]} for r in warm]
    print(table(result))
    if given.out is not None:
        from lcpinn.files import write_json  # which needs JAX: not what is measured

        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(given.out, result)


def quickest(runs: list[Run]) -> Run:
    return min(runs, key=lambda run: run["cpu_seconds"])


# -- Processes -----------------------------------------------------------------------------------


def run_help() -> Run:
    """`lcpinn --help` as a whole."""
    begun, spent = time.perf_counter(), _children()
    _python("from lcpinn.cli import main; main(['--help'])", {})
    return {"seconds": time.perf_counter() - begun, "cpu_seconds": _children() - spent}


def run_training(family: str, folder: str) -> Run:
    """One training whose compiled programs are kept in a folder."""
    begun, spent = time.perf_counter(), _children()
    code = "from benchmarks.first_seconds import timed_training; timed_training()"
    words = ["train", family, "--seconds", str(SECONDS), "--overwrite", "--out", f"{folder}/run"]
    job = json.dumps({"begun": time.time(), "words": words})
    output = _python(code, {"LCPINN_CACHE": f"{folder}/cache"}, job)
    total = {"seconds": time.perf_counter() - begun, "cpu_seconds": _children() - spent}
    return {**total, **json.loads(output.splitlines()[-1])}


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _python(code: str, changes: dict[str, str], *arguments: str) -> str:
    environment = with_sources() | changes
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"it failed:\n{done.stderr[-2000:]}")
    return done.stdout


# -- Inside of the process that trains -------------------------------------------------------------


class Stopwatch:
    """Seconds by part, without those of parts that it calls; JAX's events by the part they hit."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.parts: dict[str, dict[str, float]] = {}
        self.moments: dict[str, dict[str, float]] = {}
        self._open: list[str] = ["rest"]
        self._last = (begun, 0.0)

    def _switch(self) -> None:
        """Book what has passed since the last switch."""
        now = (time.time(), time.process_time())
        self._add("seconds", now[0] - self._last[0])
        self._add("cpu_seconds", now[1] - self._last[1])
        self._last = now

    def _add(self, name: str, amount: float) -> None:
        part = self.parts.setdefault(self._open[-1], {})
        part[name] = part.get(name, 0.0) + amount

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._switch()
        self._open.append(name)
        try:
            yield
        finally:
            self._switch()
            self._open.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return wrapped

    def moment(self, name: str) -> None:
        since = {"seconds": time.time() - self.begun, "cpu_seconds": time.process_time()}
        self.moments[name] = since

    def event(self, key: str, seconds: float, **_: Any) -> None:
        if key in EVENTS:
            self._add(EVENTS[key], seconds)
            self._add(f"{EVENTS[key]}s", 1)


def timed_training() -> None:
    """The command, part by part; the last line that it prints is JSON."""
    job = json.loads(sys.argv[1])
    watch = Stopwatch(job["begun"])
    with watch.part("imports: command line"):
        cli = importlib.import_module("lcpinn.cli")
    with watch.part("imports: JAX"):
        jax = importlib.import_module("jax")
    with watch.part("imports: library"):
        importlib.import_module("lcpinn.training")
        importlib.import_module("lcpinn.families")
    jax.monitoring.register_event_duration_secs_listener(watch.event)
    _follow(watch)
    with contextlib.suppress(SystemExit):
        cli.main(job["words"])
    watch.moment("end")
    with watch.part("rest"):
        pass
    print(json.dumps({"parts": watch.parts, "moments": watch.moments}))


def _follow(watch: Stopwatch) -> None:
    """Have the parts' functions, and the stages of the training, tell the watch."""
    for part, places in PARTS.items():
        for place in places:
            module, _, path = place.partition(":")
            owner: Any = importlib.import_module(module)
            *holders, name = path.split(".")
            for holder in holders:
                owner = getattr(owner, holder)
            setattr(owner, name, watch.timed(part, getattr(owner, name)))
    optimiser = importlib.import_module("lcpinn.optimiser")
    build = optimiser.Restarts.build

    def built(phase: Any, setup: Any) -> Any:
        with watch.part("rows"):
            stage = build(phase, setup)
        first = watch.timed("first step", stage.advance)
        later = watch.timed("later steps", stage.advance)

        def advance(state: Any) -> Any:
            if "first step" in watch.moments:
                out = later(state)
            else:
                out = first(state)
                watch.moment("first step")
            watch.moment("last step")
            return out

        init = watch.timed("tracing the steps", stage.init)
        return stage._replace(init=init, advance=advance)

    optimiser.Restarts.build = built


# -- In words ------------------------------------------------------------------------------------


def report_seconds(run: Run, kind: str = "seconds") -> float:
    """From the last step to the end of the command."""
    return run["moments"]["end"][kind] - run["moments"]["last step"][kind]


def table(result: dict[str, Any]) -> str:
    """Parts in the order in which they come, cold and warm."""
    cold, warm = result["cold"], result["warm"]
    lines = [f"{'':24}{'nothing compiled':^30}   {'compiled before':^30}"]
    lines.append(f"{'part':24}" + f"{'wall':>8}{'CPU':>8}{'programs':>12}     " * 2)
    for name in cold["parts"]:
        lines.append(f"{name:24}" + _cells(cold, name) + _cells(warm, name))
    lines.append(f"{'all':24}" + "".join(_total(run) for run in (cold, warm)))
    numbers = {
        "help": result["help"],
        "first step, compiled before": warm["moments"]["first step"],
        "first step, nothing compiled": cold["moments"]["first step"],
        "report": {kind: report_seconds(warm, kind) for kind in ("seconds", "cpu_seconds")},
    }
    for name, spent in numbers.items():
        lines.append(
            f"{name:32}{spent['seconds']:6.2f} s, CPU {spent['cpu_seconds']:6.2f} s"
            f"   (aim: {AIMS[name]:g} s)"
        )
    return "\n".join(lines)


def _cells(run: Run, name: str) -> str:
    part = run["parts"].get(name, {})
    programs = int(part.get("compiles", 0))
    return f"{part.get('seconds', 0.0):8.2f}{part.get('cpu_seconds', 0.0):8.2f}{programs:12}     "


def _total(run: Run) -> str:
    programs = int(sum(part.get("compiles", 0) for part in run["parts"].values()))
    return f"{run['seconds']:8.2f}{run['cpu_seconds']:8.2f}{programs:12}     "


if __name__ == "__main__":
    main()
