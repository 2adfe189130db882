"""What a step of each method takes alone on a device, and so what a training takes.

Runs of the study share programs, and programs the device, so that their own seconds say little
about a method. Here every method takes a few steps by itself, phase after phase; a training's time
is that of the steps that its record says it took. Compilation, which is the same for one network
and for a thousand steps, is left out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import jax

from lcpinn.errors import LcpinnError
from lcpinn.locate import one_line
from lcpinn.machine import device, versions
from lcpinn.optimiser import Stage
from lcpinn.precision import arithmetic
from lcpinn.retraining import can_batch
from lcpinn.study.run import Run
from lcpinn.study.store import Store
from lcpinn.training import make_setup

MOMENT = 2.0  # seconds of steps, for each phase


def measure_times(
    runs: Iterable[Run], store: Store, moment: float = MOMENT, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Time the first run of every kind that is trained in batches; what was known stays."""
    here, now = device(), datetime.now(UTC).isoformat(timespec="seconds")
    known = store.times() if store.times().get("device") == here else {}
    methods = dict(known.get("methods", {}))
    times = {"device": here, "versions": versions(), "date": now, "methods": methods}
    for name, run in _first_of_each(runs).items():
        if name in methods:
            continue
        try:
            if not can_batch(run.how()):  # what is trained by itself has its time in its record
                continue
            methods[name] = phase_times(run, moment)
        except LcpinnError as error:
            say(f"{name}: {one_line(error)}")
            continue
        said = ", ".join(f"{1e3 * phase['step']:.2f} ms" for phase in methods[name])
        say(f"{name}: a step takes {said}")
        store.write_times(times)
    return times


def method_name(family: str, protocol: str, change: str = "") -> str:
    """What the times of a method are kept under."""
    return " ".join(filter(None, (family, protocol, change)))


def phase_times(run: Run, moment: float = MOMENT) -> list[dict[str, float]]:
    """Of each phase the seconds of a step, and of an evaluation where a step has several."""
    protocol, key, each = run.how(), jax.random.PRNGKey(run.seed), []
    family = protocol.view(run.of())
    with arithmetic(protocol.dtype):
        setup = make_setup(family, protocol)
        params, learnt = setup.problem.drawing()(key), None
        for phase in protocol.phases:
            stage = phase.build(setup)
            begin = stage.init(params, key)
            if stage.adopt is not None and learnt is not None:
                begin = stage.adopt(begin, learnt)
            state, _ = stage.advance(begin)  # compiles
            if stage.stopped(state, {}) is not None:
                state = begin  # no longer than a block: it is timed again
            each.append(_timed(stage, state, moment))
            learnt = None if stage.learnt is None else stage.learnt(state)
    return each


def _timed(stage: Stage, state: Any, moment: float) -> dict[str, float]:
    before, began, spent = _counts(state), time.perf_counter(), 0.0
    while spent < moment and (not spent or stage.stopped(state, {}) is None):
        state, _ = stage.advance(state)
        jax.block_until_ready(state.params)
        spent = time.perf_counter() - began
    after = _counts(state)
    return {name: spent / max(after[name] - before[name], 1) for name in after}


def _counts(state: Any) -> dict[str, int]:
    while hasattr(state, "inner"):
        state = state.inner
    counts = {"step": int(state.step)}
    if hasattr(state, "evaluations"):
        counts["evaluation"] = int(state.evaluations)
    return counts


def seconds_alone(phases: Sequence[Mapping[str, float]], stopped: Sequence[str]) -> float | None:
    """What a training takes by itself that ended phase after phase as `stopped` says."""
    if len(phases) != len(stopped):
        return None
    total = 0.0
    for phase, text in zip(phases, stopped, strict=True):
        for name in ("evaluation", "step"):
            said = re.search(rf"(\d+) {name}s", text)
            if said and name in phase:
                total += int(said[1]) * phase[name]
                break
        else:
            return None
    return total


def _first_of_each(runs: Iterable[Run]) -> dict[str, Run]:
    """By method. What an ablation changes is in no table of times."""
    first: dict[str, Run] = {}
    for run in runs:
        if not run.of_first_study and not run.change:
            first.setdefault(method_name(run.family, run.protocol), run)
    return first
