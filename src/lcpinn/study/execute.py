"""Running what is missing of a study, in this process.

A run is trained, then measured. One that fails is told with its reason, and the others go on. Runs
that differ in seed and coefficients alone are trained as one program where that pays, which is on
an accelerator; elsewhere one by one, each with checkpoints, so that a killed one goes on where it
was. Shrunk runs train for moments, and compiling is what they take: they share programs anywhere,
programs are optimised little, and two are made at a time.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax

from lcpinn.compilation import compiling_quickly
from lcpinn.errors import LcpinnError
from lcpinn.locate import one_line
from lcpinn.retraining import can_batch, num_observed, retrain
from lcpinn.solution import load
from lcpinn.spec import digest
from lcpinn.study import cost
from lcpinn.study.budget import budget_of
from lcpinn.study.measure import measure
from lcpinn.study.run import Run
from lcpinn.study.store import Store
from lcpinn.training import train

Say = Callable[[str], None]
# Told of every run once it is over: why it failed, or None where its record is there.
Over = Callable[[Run, str | None], None]

AT_ONCE = 2  # shrunk runs: they compile on a core each


def execute(
    runs: Iterable[Run],
    store: Store,
    *,
    batch: bool | None = None,
    measured: bool = True,
    progress: bool = False,
    seconds: float | None = None,
    say: Say = lambda line: None,
    over: Over = lambda run, reason: None,
) -> list[Run]:
    """Train what has no model, measure what has no record; those that failed are returned.

    `batch` trains equal runs as one program, by default on accelerators and where runs are shrunk;
    with `measured` False models are left to be measured elsewhere. With `seconds` no program is
    begun that would not be over by then, as it is estimated.
    """
    runs = list(runs)
    small = bool(runs) and all(budget_of(run.budget).small for run in runs)
    batch = jax.default_backend() != "cpu" or small if batch is None else batch
    progress = progress and not small  # two at a time would write over each other
    attempts, ends = _Attempts(say, over), None
    if seconds is not None:
        ends = time.monotonic() + seconds

    def perform(group: list[Run]) -> None:
        missing = [run for run in group if not store.is_trained(run)]
        expected = cost.seconds(missing) if ends is not None and missing else 0.0
        if ends is not None and time.monotonic() + expected > ends:
            for run in missing[:1]:
                say(f"{run.name}: left out, {len(missing)} such take about {expected:.0f} s")
        else:
            with store.claim(missing) as own:
                _train(own, store, batch, progress, attempts)
        for run in group if measured else ():
            _measure(run, store, attempts)

    with compiling_quickly(small):
        # One by one, each has its record before the next one begins.
        groups = _kinds(runs) if batch else [[run] for run in runs]
        _each(perform, groups, AT_ONCE if small else 1)
    return attempts.failed


class _Attempts:
    """What was tried: a run that fails is told in a line, and does not end the others."""

    def __init__(self, say: Say, over: Over):
        self.say, self.over = say, over
        self.failed: list[Run] = []
        self._lock = threading.Lock()

    def attempt(self, run: Run, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            with self._lock:
                self.failed.append(run)
            self.say(f"{run.name}: {one_line(error)}")
            self.over(run, one_line(error))


def _each(function: Callable[[Any], None], items: Iterable[Any], at_once: int) -> None:
    """One after the other in this thread, so that an interrupt ends it, or a few at a time."""
    if at_once == 1:
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(function, items):
            pass


def _kinds(runs: Sequence[Run]) -> Iterable[list[Run]]:
    kinds: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        kinds.setdefault(run.kind, []).append(run)
    return kinds.values()


def _measure(run: Run, store: Store, attempts: _Attempts) -> None:
    def write() -> None:
        store.write(run, measure(run, load(store.model(run), run.of())))
        attempts.say(f"{run.name}: measured")
        attempts.over(run, None)

    if store.is_over(run):
        return
    with store.claim([run]) as own:
        if own and not store.is_over(run) and store.is_trained(run):
            attempts.attempt(run, write)


def _train(
    runs: Sequence[Run], store: Store, batch: bool, progress: bool, attempts: _Attempts
) -> None:
    # Another process may have trained them between the question and the claim.
    runs = [run for run in runs if not store.is_trained(run)]
    if batch and len(runs) > 1 and _can_batch(runs[0]):
        for seeds, settings in _rectangles(runs, _num_observed):
            try:
                _train_batch(seeds, settings, store, progress, attempts.say)
            except LcpinnError as error:  # of one member: the others are trained without it
                attempts.say(f"{len(seeds) * len(settings)} at once: {error}; now one by one")
    for run in (run for run in runs if not store.is_trained(run)):
        attempts.attempt(run, lambda run=run: _train_one(run, store, progress, attempts.say))


def _can_batch(run: Run) -> bool:
    try:
        return can_batch(run.how())
    except LcpinnError:  # which is said when it is trained
        return False


def _num_observed(run: Run) -> int:
    return num_observed(run.of(), run.how())


def _train_one(run: Run, store: Store, progress: bool, say: Say) -> None:
    where = {"out": store.directory(run), "resume": True, "report": False}
    train(run.of(), run.how(), seed=run.seed, progress=progress, **where)
    say(f"{run.name}: trained")


def _rectangles(
    runs: Sequence[Run], size: Callable[[Run], int] = lambda run: 0
) -> Iterable[tuple[list[int], list[Run]]]:
    """Runs as products of seeds and settings: what is missing need not be one product.

    Settings of one product have equal sizes.
    """
    seeds_of: dict[str, list[int]] = {}
    first: dict[str, Run] = {}
    for run in runs:
        key = str(sorted(run.at.items()))
        seeds_of.setdefault(key, []).append(run.seed)
        first.setdefault(key, run)
    alike: dict[tuple[tuple[int, ...], int], list[Run]] = {}
    for key, seeds in seeds_of.items():
        alike.setdefault((tuple(sorted(seeds)), size(first[key])), []).append(first[key])
    return [(list(seeds), settings) for (seeds, _), settings in alike.items()]


def _train_batch(
    seeds: list[int], settings: list[Run], store: Store, progress: bool, say: Say
) -> None:
    one = settings[0]

    def make(family: object, at: dict[str, float] | None = None):
        return replace(one, seed=0, at=at or {}).how()

    at = [dict(run.at) for run in settings]
    # A killed batch goes on from its checkpoint in there.
    out = store.work / "batches" / digest([one.kind, at, seeds])
    kept = {"out": out, "resume": True, "report": False}
    solutions = iter(retrain(one.of(), make, at, seeds, progress=progress, **kept))
    for setting in settings:
        for seed in seeds:
            run = replace(setting, seed=seed)
            store.directory(run).mkdir(parents=True, exist_ok=True)
            next(solutions).save(store.model(run))
            say(f"{run.name}: trained, {len(settings) * len(seeds)} at once")
    shutil.rmtree(out)
