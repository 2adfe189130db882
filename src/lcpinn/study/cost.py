"""What a program of the study takes on an accelerator, estimated before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lcpinn.errors import LcpinnError
from lcpinn.optimiser import LBFGS, Adam, Supervised
from lcpinn.sampling import Sampling
from lcpinn.study.run import Run

# On one H200, alone. A step of a small batch takes as long as its kernels take to start, a large
# one as long as its products of matrices. A step of L-BFGS is a search with so many evaluations.
ADAM_SECONDS = 3.5e-4
LBFGS_SECONDS = 2e-3
EVALUATIONS = 1.1
EPOCH_SECONDS = 0.02
COMPILE_SECONDS = 20.0  # a phase
OPERATIONS_PER_SECOND = 1e13
OPERATIONS = 6 * 3 * 64**2  # of a point in one Taylor coefficient: there and back, three layers


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
    members = len(runs)
    view = protocol.view(family)
    orders = len(view.orders(view.groups["interior"]))
    work = lambda s: (
        members * s.num_lambda * (s.interior + s.face) * orders * OPERATIONS / OPERATIONS_PER_SECOND
    )
    total = 0.0
    for phase in (phase.innermost for phase in protocol.phases):
        total += COMPILE_SECONDS
        if isinstance(phase, Adam):
            sampling = protocol.sampling or Sampling()
            total += phase.steps * max(ADAM_SECONDS, work(sampling))
        elif isinstance(phase, LBFGS):
            each = LBFGS_SECONDS + EVALUATIONS * work(protocol.quadrature)
            total += phase.steps * each
        elif isinstance(phase, Supervised):  # which is no batch
            total += len(runs) * phase.epochs * EPOCH_SECONDS
    return total
