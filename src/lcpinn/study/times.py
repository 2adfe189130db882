"""What a step of each method takes alone on a device, and so what a training takes.

Runs of the study share programs, and programs the device, so that their own seconds say little
about a method. Here every method takes a few steps by itself, phase after phase; a training's time
is that of the steps that its record says it took. Compilation, which is the same for one network
and for a thousand steps, is left out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple

import jax

from lcpinn.errors import LcpinnError
from lcpinn.locate import one_line
from lcpinn.machine import device, versions
from lcpinn.optimiser import Phase, Stage
from lcpinn.precision import arithmetic
from lcpinn.study.run import Run
from lcpinn.study.store import Store
from lcpinn.training import make_setup

MOMENT = 2.0  # seconds of steps, for each phase
AT_ONCE = 8  # methods that are compiled at the same time, before each of them is timed by itself


class Begun(NamedTuple):
    """A phase with everything compiled, and where its steps begin."""

    stage: Stage
    state: Any
    steps_per_epoch: float | None


def measure_times(
    runs: Iterable[Run], store: Store, moment: float = MOMENT, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Time the first run of every kind whose steps are alike; what was known stays."""
    here, now = device(), datetime.now(UTC).isoformat(timespec="seconds")
    known = store.times() if store.times().get("device") == here else {}
    methods = dict(known.get("methods", {}))
    times = {"device": here, "versions": versions(), "date": now, "methods": methods}
    missing = [pair for pair in _first_of_each(runs).items() if pair[0] not in methods]
    with ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        for first in range(0, len(missing), AT_ONCE):
            some = missing[first : first + AT_ONCE]
            begun = pool.map(lambda pair: _tried(pair, say), some)
            # All of them first: nothing compiles beside a method that is timed.
            for (name, _), phases in list(zip(some, begun, strict=True)):
                if not phases:
                    continue
                methods[name] = [_timed(phase, moment) for phase in phases]
                said = ", ".join(f"{1e3 * phase['step']:.2f} ms" for phase in methods[name])
                say(f"{name}: a step takes {said}")
                store.write_times(times)
    return times


def method_name(family: str, protocol: str, change: str = "") -> str:
    """What the times of a method are kept under."""
    return " ".join(filter(None, (family, protocol, change)))


def _tried(named: tuple[str, Run], say: Callable[[str], None]) -> list[Begun]:
    """The phases of a method, compiled; none where steps differ in length, or nothing is built."""
    name, run = named
    try:
        return compiled_phases(run) if all(map(_has_equal_steps, run.how().phases)) else []
    except LcpinnError as error:
        say(f"{name}: {one_line(error)}")
        return []


def _has_equal_steps(phase: Phase) -> bool:
    """What decides between compiled calls shares its program with none: its record has its time."""
    return phase.mappable or phase.budget()[0] == "epochs"


def compiled_phases(run: Run) -> list[Begun]:
    """Each phase after its first call, from where the one before it would leave off learning."""
    protocol, key, begun = run.how(), jax.random.PRNGKey(run.seed), []
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
            unit, num = phase.budget()
            begun.append(Begun(stage, state, stage.total / num if unit == "epochs" else None))
            learnt = None if stage.learnt is None else stage.learnt(state)
    return begun


def _timed(phase: Begun, moment: float) -> dict[str, float]:
    """Seconds of a step, and of an evaluation or an epoch where a phase counts those."""
    stage, state, per_epoch = phase
    before, began, spent = _counts(state), time.perf_counter(), 0.0
    with arithmetic(jax.tree.leaves(state.params)[0].dtype):
        while spent < moment and (not spent or stage.stopped(state, {}) is None):
            state, _ = stage.advance(state)
            jax.block_until_ready(state.params)
            spent = time.perf_counter() - began
    after = _counts(state)
    each = {name: spent / max(after[name] - before[name], 1) for name in after}
    return each if per_epoch is None else each | {"epoch": per_epoch * each["step"]}


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
        for name in ("evaluation", "step", "epoch"):
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
