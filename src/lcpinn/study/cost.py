"""What a program of the study takes on this device, estimated before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax

from lcpinn.errors import LcpinnError
from lcpinn.optimiser import LBFGS, Adam, Supervised
from lcpinn.sampling import Sampling
from lcpinn.study.run import Run

EVALUATIONS = 1.1  # of a step of L-BFGS, which is a search
OPERATIONS = 6 * 3 * 64**2  # of a point in one Taylor coefficient: there and back, three layers


@dataclass(frozen=True)
class Rates:
    """Seconds of a step without its products of matrices, and how fast a device makes those.

    A step of a small batch takes as long as its kernels take to start.
    """

    adam: float
    lbfgs: float
    epoch: float
    compile: float  # of a phase
    operations: float  # in a second


# Both measured, the one by programs of the study alone on it, the other by steps (`--times`).
H200 = Rates(3.5e-4, 2e-3, 0.02, 20.0, 1.7e13)
TWO_CORES = Rates(1e-3, 3e-3, 1.5, 10.0, 5e10)


@dataclass(frozen=True)
class Program:
    """Runs that train as one program, and how long that takes."""

    runs: tuple[Run, ...]
    seconds: float

    @property
    def words(self) -> str:
        one = self.runs[0]
        how = " ".join(filter(None, (one.protocol, one.change)))
        return f"{one.family}, {how}"


def programs(runs: Iterable[Run]) -> list[Program]:
    """Runs by kind, in the order in which each kind comes first."""
    kinds: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        kinds.setdefault(run.kind, []).append(run)
    return [Program(tuple(own), seconds(own)) for own in kinds.values()]


def seconds(runs: Sequence[Run]) -> float:
    """Of one kind of runs, as one program."""
    try:
        protocol, family = runs[0].how(), runs[0].of()
    except LcpinnError:  # which is said when it is trained
        return 0.0
    if protocol.seconds is not None:
        return len(runs) * protocol.seconds
    rates = TWO_CORES if jax.default_backend() == "cpu" else H200
    members = len(runs)
    view = protocol.view(family)
    orders = len(view.orders(view.groups["interior"]))
    work = lambda s: (
        members * s.num_lambda * (s.interior + s.face) * orders * OPERATIONS / rates.operations
    )
    total = 0.0
    for phase in (phase.innermost for phase in protocol.phases):
        total += rates.compile
        if isinstance(phase, Adam):
            sampling = protocol.sampling or Sampling()
            total += phase.steps * max(rates.adam, work(sampling))
        elif isinstance(phase, LBFGS):
            each = rates.lbfgs + EVALUATIONS * work(protocol.quadrature)
            total += phase.steps * each
        elif isinstance(phase, Supervised):  # which is no batch
            total += len(runs) * phase.epochs * rates.epoch
    return total
