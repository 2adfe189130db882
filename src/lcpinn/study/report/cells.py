"""Numbers out of records: what a method reached over its seeds, beside what the paper reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lcpinn.study.paper import numbers
from lcpinn.study.plan import EXPERIMENTS, needed, of_first_study, one_method
from lcpinn.study.run import BY_CODE, FIRST, Run
from lcpinn.study.store import Store
from lcpinn.study.times import method_name, seconds_alone

Record = Mapping[str, Any]
WITHIN = 2.0  # standard deviations within which two results agree,
ALIKE = 3.0  # and the factor, since some deviations are as large as their means


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over seeds, and what a network took."""

    mean: float
    std: float
    seeds: int
    seconds: float | None = None  # of one training
    at_once: int = 1
    device: str = ""
    each: tuple[float, ...] = field(default=(), compare=False)  # seed by seed

    @staticmethod
    def of(values: Iterable[float], **more: Any) -> Cell:
        samples = tuple(values)
        mean, std = float(np.mean(samples)), float(np.std(samples))
        return Cell(mean, std, len(samples), each=samples, **more)


@dataclass(frozen=True)
class Study:
    """The records of a budget's runs, those of the first study, and what is written of them."""

    budget: str
    records: Mapping[str, Record]
    first: Mapping[str, Record] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, Any] = field(default_factory=dict)  # of steps alone on a device

    @staticmethod
    def read(store: Store, budget: str) -> Study:
        recorded = lambda runs: {
            run.name: record for run in runs if (record := store.record(run)) is not None
        }
        first = recorded(of_first_study()) if budget == "full" else {}
        records = recorded(needed(EXPERIMENTS.values(), budget))
        return Study(budget, records, first, store.notes(), store.times())

    @cached_property
    def _all(self) -> dict[str, Record]:
        return {**self.first, **self.records}  # no run is in both

    @cached_property
    def missing(self) -> list[Run]:
        every = needed(EXPERIMENTS.values(), self.budget)
        return [run for run in every if run.name not in self.records]

    def runs(
        self, family: str, protocol: str, change: str = "", settings: str = BY_CODE
    ) -> list[Record]:
        """The records of a method, in the order of seeds and settings."""
        every = one_method(family, protocol, self.budget, change=change, settings=settings)
        return [self._all[run.name] for run in every if run.name in self._all]

    def settings(self, family: str, protocol: str) -> str:
        """Those of the authors' code, or of the first study where nothing has them yet."""
        return BY_CODE if self.runs(family, protocol) else FIRST

    def one(self, family: str, protocol: str) -> Record | None:
        """The record of the first seed that has one, of the first study if there is no other."""
        settings = self.settings(family, protocol)
        return next(iter(self.runs(family, protocol, settings=settings)), None)

    def cell(
        self,
        family: str,
        protocol: str,
        change: str = "",
        settings: str = BY_CODE,
        published: bool = False,
    ) -> Cell | None:
        """The grid mean of a method: of each seed over all of its settings, then over seeds.

        The error is `published` as the paper's authors measure it, where a record has that.
        """
        every = one_method(family, protocol, self.budget, change=change, settings=settings)
        seeds: dict[int, list[Record]] = {}
        for record in self.runs(family, protocol, change, settings):
            seeds.setdefault(record["run"]["seed"], []).append(record)
        whole = [own for own in seeds.values() if len(own) == len({str(r.at) for r in every})]
        if not whole:
            return None
        means = [float(np.mean([_error(r, published) for r in own])) for own in whole]
        alone = {} if settings == FIRST else self.times
        phases = alone.get("methods", {}).get(method_name(family, protocol, change))
        cost = _cost([r for own in whole for r in own], phases, alone.get("device", ""))
        return Cell.of(means, **cost)

    def answered(self, family: str, protocol: str, settings: str = BY_CODE) -> Cell | None:
        """The same where the method answers: FNO learns the last instant alone."""
        learns_the_end = protocol == "fno" and settings == BY_CODE
        return self.cell(family, protocol, settings=settings, published=learns_the_end)

    def at(
        self, family: str, protocol: str, settings: str = BY_CODE, /, **lam: float
    ) -> Cell | None:
        """A method's error at one setting of the coefficients."""
        errors = []
        for record in self.runs(family, protocol, settings=settings):
            rows = record["error"]["grid"]
            errors += [
                r["error"] for r in rows if all(math.isclose(r[n], v) for n, v in lam.items())
            ]
        return Cell.of(errors) if errors else None

    def measures(
        self, family: str, protocol: str, name: str, change: str = "", settings: str = BY_CODE
    ) -> list[Any]:
        """A further measure of each seed's run, where it has it."""
        records = self.runs(family, protocol, change, settings)
        return [r["measures"][name] for r in records if name in r["measures"]]


def _error(record: Record, published: bool) -> float:
    mean = record["error"]["mean"]
    return record["measures"].get("published", mean) if published else mean


def _cost(
    records: list[Record], phases: list[dict[str, float]] | None, device: str
) -> dict[str, Any]:
    """The mean time of a training, and where it ran: alone, where that was measured."""
    if phases is not None:
        alone = [seconds_alone(phases, record["stopped"]) for record in records]
        if all(seconds is not None for seconds in alone):
            mean = float(np.mean([seconds for seconds in alone if seconds is not None]))
            return {"seconds": mean, "at_once": 1, "device": device}
    devices = sorted({record["device"] for record in records})
    return {
        "seconds": float(np.mean([record["seconds"]["total"] for record in records])),
        "at_once": max(record["at_once"] for record in records),
        "device": "; ".join(devices),
    }


def paper_cell(family: str, protocol: str) -> Cell | None:
    """The paper's numbers of a method, if it has any; its seconds are per training."""
    row = numbers()["tables"][family]["rows"].get(_row_of(protocol))
    if row is None:
        return None
    minutes = row.get("wall_minutes")
    seconds = None if minutes is None else 60 * minutes
    return Cell(row["mean"], row["std"], row.get("seeds", 4), seconds)


def paper_at(family: str, protocol: str, parameter: str, value: float) -> Cell | None:
    rows = numbers()["tables"][f"{family}-per-{parameter}"]["rows"]
    method = _row_of(protocol)
    for text, row in rows.items():
        if text != "mean" and math.isclose(float(text), value) and method in row:
            mean, std = row[method]
            return Cell(mean, std, 4)
    return None


def _row_of(protocol: str) -> str:
    """What the paper's tables call a method."""
    method = protocol.removesuffix("-data")
    return "lc-pinn" if method == "paper" else method


def verdict(ours: Cell | None, paper: Cell | None) -> str:
    """Whether two results of one method agree; a factor where they do not, or hardly."""
    if ours is None:
        return "not run"
    if paper is None:
        return "not in the paper"
    near = abs(ours.mean - paper.mean) <= WITHIN * max(ours.std, paper.std)
    alike = 1 / ALIKE <= ours.mean / paper.mean <= ALIKE
    if near and alike:
        return "agrees"
    factor = compared(ours, paper)
    return f"within the deviations, but {factor}" if near else factor


def compared(ours: Cell, paper: Cell) -> str:
    """By which factor the means differ."""
    if ours.mean < paper.mean:
        return f"{_times(paper.mean / ours.mean)} lower"
    return f"{_times(ours.mean / paper.mean)} higher"


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 100 else f"10^{math.log10(ratio):.0f} times"
