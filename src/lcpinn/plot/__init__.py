"""Pictures of a solution, in the style of a paper and readable by colour-blind people.

A file is a picture; `style` has what they share and `values` what they show.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from lcpinn.errors import LcpinnError
from lcpinn.plot import certificate, error, loss, overview, solution, spread
from lcpinn.plot.outline import domain_picture
from lcpinn.plot.style import COLOURS, FORMATS, save
from lcpinn.plot.values import Settings
from lcpinn.solution import Solution

__all__ = [
    "COLOURS",
    "CORRECTED",
    "FORMATS",
    "PICTURES",
    "applying",
    "certificate",
    "domain_picture",
    "draw",
    "overview",
    "reason_against",
    "save",
]

PICTURES = ("solution", "error", "loss", "spread")
CORRECTED = ("solution", "error")  # those of the corrected solution


def draw(
    what: str,
    of: Solution,
    *,
    at: Settings = (),
    run: str | Path | None = None,
    corrected: bool = False,
) -> Figure:
    """One of the pictures as a Matplotlib figure.

    `at` are settings of the coefficients to draw the solution and its error at, `run` is the
    directory of the training, which the loss is in. `corrected` draws the corrected solution, and
    its error beside the network's.
    """
    if what not in PICTURES:
        raise LcpinnError(f"there is no picture {what!r}; there are {', '.join(PICTURES)}")
    if corrected:
        if what not in CORRECTED:
            raise LcpinnError(f"what is corrected is {' or '.join(CORRECTED)}, not the {what}")
        return {"solution": solution, "error": error}[what].figure(of, at, corrected=True)
    if what == "loss":
        return loss.figure(of, None if run is None else Path(run))
    module = {"solution": solution, "error": error, "spread": spread}[what]
    return module.figure(of, at)


def reason_against(what: str, of: Solution, run: Path | None) -> str | None:
    """Why a picture cannot be drawn, in one line; None where it can."""
    judges = {"error": error.against, "loss": loss.against, "spread": spread.against}
    return judges[what](of, run) if what in judges else None


def applying(of: Solution, run: Path | None) -> tuple[str, ...]:
    """The pictures that there are of this solution."""
    return tuple(what for what in PICTURES if reason_against(what, of, run) is None)
