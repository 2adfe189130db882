"""Words and tables of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcpinn.protocol import WITH_DATA
from lcpinn.study.report.cells import Cell, verdict

NOT_RUN = "not run"
METHODS = {
    "paper": "LC-PINN",
    "fast": "LC-PINN by `fast`",
    "pi-deeponet": "PI-DeepONet",
    "sa-pinn": "SA-PINN",
    "relobralo": "ReLoBRaLo",
    "causal-pinn": "Causal-PINN",
    "fno": "FNO",
    "interpolant": "Solver with interpolation",
}
METHODS |= {f"{name}-data": f"{METHODS[name]}, with data" for name in WITH_DATA}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Numbers to the right, words to the left."""
    marks = ["---", *["---:"] * (len(head) - 1)]
    lines = [head, marks, *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def error(value: float | None) -> str:
    return NOT_RUN if value is None else f"{value:.2e}".replace("e-0", "e-").replace("e+00", "")


def spread(cell: Cell | None) -> str:
    """Mean ± standard deviation, and over how many seeds where they are not four."""
    if cell is None:
        return NOT_RUN
    seeds = "" if cell.seeds == 4 else f" ({cell.seeds} seed{'s' * (cell.seeds != 1)})"
    return f"{error(cell.mean)} ± {error(cell.std)}{seeds}"


def by_seed(cell: Cell | None) -> str:
    """The same, and each seed's error where they are tenfold apart: a mean says little then."""
    if cell is None or not cell.each or max(cell.each) < 10 * min(cell.each):
        return spread(cell)
    return f"{spread(cell)}; seed by seed {', '.join(map(error, cell.each))}"


def judged(ours: Cell | None, paper: Cell | None) -> str:
    """Our result, and how it compares where the paper has one."""
    if ours is None or paper is None:
        return spread(ours)
    return f"{spread(ours)}, {verdict(ours, paper)}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.0f} s"


def cost(cell: Cell | None) -> str:
    """The time of one training; of several at once, its share."""
    if cell is None:
        return NOT_RUN
    shared = f", 1 of {cell.at_once}" if cell.at_once > 1 else ""
    return f"{duration(cell.seconds)}{shared}"
