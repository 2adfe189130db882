"""How the training went: the loss, step by step, from a run's metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lcpinn.errors import LcpinnError
from lcpinn.plot.style import DOUBLE, in_style, line, logarithmic, size_of
from lcpinn.solution import Solution

NAMES = {"LBFGS": "L-BFGS", "GaussNewton": "Gauss-Newton"}


def against(solution: Solution, run: Path | None) -> str | None:
    """Why there is no such picture."""
    if run is None:
        return "the loss along the way is in the directory of a run, and this is a model alone"
    if not (run / "metrics.jsonl").is_file():
        return f"{run} has no metrics.jsonl: the loss along the way is not known"
    return None


class Log(NamedTuple):
    """The lines of metrics.jsonl as columns, the steps of its phases one after the other."""

    step: np.ndarray
    loss: np.ndarray
    held_out: np.ndarray  # nan where a phase does not look at it
    terms: dict[str, np.ndarray]
    phases: list[tuple[float, int]]  # the step at which each begins, and its number
    starts: list[int]  # the last line of a start that another one follows
    redrawn: list[float]  # the steps at which rows are drawn anew

    def broken(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values as a curve, with gaps where it does not go on from where it was."""
        ends = {*self.starts, *(int(np.sum(self.step <= at)) - 1 for at, _ in self.phases[1:])}
        after = np.array(sorted(ends), int) + 1
        return np.insert(self.step, after, np.nan), np.insert(values, after, np.nan)


@in_style
def figure(solution: Solution, run: Path | None) -> Figure:
    """The loss on training rows and on held-out ones; phases, starts and redrawn rows marked."""
    reason = against(solution, run)
    if run is None or reason is not None:
        raise LcpinnError(reason or "")
    log = read(run / "metrics.jsonl", solution.protocol.phases)
    drawn = Figure(figsize=(DOUBLE, 2.7))
    axis = drawn.subplots()
    _curves(axis, log)
    logarithmic(axis)
    _marks(axis, solution, log)
    axis.set(xlabel="step", ylabel="loss", xlim=(0, 1.02 * log.step[-1]))
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    _clock(axis, solution, log)
    drawn.legend(loc="outside right upper")
    return drawn


# -- Reading -------------------------------------------------------------------------------------


def read(path: Path, phases: Sequence[Any]) -> Log:
    """The numbers of a run of these phases."""
    lines = _parsed(path)
    if max(entry["phase"] for entry in lines) > len(phases):
        raise LcpinnError(f"{path} belongs to another run: it has more phases than this protocol")
    steps, begun = _steps(lines)
    names = sorted({name for entry in lines for name in entry.get("terms", {})})
    return Log(
        steps,
        np.array([entry["loss"] for entry in lines], float),
        np.array([entry.get("validation", np.nan) for entry in lines], float),
        {n: np.array([e.get("terms", {}).get(n, np.nan) for e in lines], float) for n in names},
        begun,
        _ends_of_starts(lines, phases),
        _redrawn(lines, steps),
    )


def _parsed(path: Path) -> list[dict[str, Any]]:
    try:
        lines = [json.loads(text) for text in path.read_text().splitlines() if text.strip()]
    except (OSError, ValueError) as error:
        raise LcpinnError(f"{path} is damaged: {error}") from None
    if not lines:
        raise LcpinnError(f"{path} is empty: the run has not taken a step")
    for count, entry in enumerate(lines, 1):
        if not (isinstance(entry, dict) and {"phase", "step", "loss"} <= entry.keys()):
            raise LcpinnError(f"{path} is damaged: line {count} has no phase, step and loss")
    return lines


def _steps(lines: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, list[tuple[float, int]]]:
    """Steps counted through all phases, and where each phase begins."""
    steps, begun = [0.0], [(0.0, int(lines[0]["phase"]))]
    for entry in lines:
        if entry["phase"] != begun[-1][1]:
            begun.append((steps[-1], int(entry["phase"])))
        steps.append(begun[-1][0] + entry["step"])
    return np.array(steps[1:]), begun


def _ends_of_starts(lines: Sequence[Mapping[str, Any]], phases: Sequence[Any]) -> list[int]:
    """The last line of each start that another one follows.

    A line counts the starts after it, so that the last one of a start already has the next number.
    When all are tried the best goes on, which no number says: it is `trial` steps after the last.
    """
    ends, before, since = [], 1, None
    for i, entry in enumerate(lines):
        phase, now = phases[int(entry["phase"]) - 1], int(entry.get("start", before))
        if now > before:
            ends.append(i)
            before, since = now, entry["step"] if now == getattr(phase, "starts", 1) else None
        elif since is not None and entry["step"] - since >= phase.trial:
            ends.append(i)
            since = None
    return [i for i in ends if i + 1 < len(lines)]


def _redrawn(lines: Sequence[Mapping[str, Any]], steps: np.ndarray) -> list[float]:
    """A round begins with new rows, and its first line says so."""
    rounds = [entry.get("round", 1) for entry in lines]
    return [float(steps[i - 1]) for i in range(1, len(rounds)) if rounds[i] > rounds[i - 1]]


# -- Drawing -------------------------------------------------------------------------------------


def _curves(axis: Axes, log: Log) -> None:
    alone: dict[str, Any] = {"marker": "o"} if len(log.step) == 1 else {}
    axis.plot(*log.broken(log.loss), label="training rows", **line(0), **alone)
    if np.any(np.isfinite(log.held_out)):
        axis.plot(*log.broken(log.held_out), label="held-out rows", **line(1), **alone)
        best = int(np.nanargmin(log.held_out))
        axis.plot(log.step[best], log.held_out[best], "o", color="black", mfc="none", ms=5,
                  label=f"lowest, {size_of(log.held_out[best])}")  # fmt: skip
    for i, (name, values) in enumerate(log.terms.items()):
        if len(log.terms) > 1:
            axis.plot(*log.broken(values), label=name, lw=0.7, **line(i + 2))


def _marks(axis: Axes, solution: Solution, log: Log) -> None:
    """Where something new begins: a phase by its name, a start, rows that are drawn anew."""
    for at, number_of in log.phases if len(log.phases) > 1 else ():
        if at:
            axis.axvline(at, color="0.3", lw=0.8)
        corner = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        name = _name(solution, number_of)
        axis.annotate(name, (at, 1), (3, -3), **corner, va="top", fontsize=8, color="0.3")
    for i, last in enumerate(log.starts):
        axis.axvline(log.step[last], color="0.5", lw=0.7, ls=(0, (1, 2)),
                     label="change of start" if i == 0 else None)  # fmt: skip
    if log.redrawn:
        axis.plot(log.redrawn, [0.02] * len(log.redrawn), "|", color="0.3", ms=4, mew=0.7,
                  transform=axis.get_xaxis_transform(), label="rows redrawn")  # fmt: skip


def _name(solution: Solution, number_of: int) -> str:
    """The optimiser of a phase, whatever wraps it."""
    phase: Any = solution.protocol.phases[number_of - 1]
    while hasattr(phase, "phase"):
        phase = phase.phase
    kind = type(phase).__name__
    return NAMES.get(kind, kind)


def _clock(axis: Axes, solution: Solution, log: Log) -> None:
    """Seconds above the steps, where one phase took them all.

    The log has no clock, so that it is the same for the same run: what is known is how long the
    first compiled call and all others took together.
    """
    seconds = solution.run.get("training", {}).get("seconds", {})
    first, last = log.step[0], log.step[-1]
    if len(log.phases) > 1 or not seconds.get("train") or last <= first:
        return
    pace, begun = seconds["train"] / (last - first), seconds.get("compile", 0.0)
    above = axis.secondary_xaxis(
        "top",
        functions=(lambda s: begun + (s - first) * pace, lambda t: first + (t - begun) / pace),
    )
    above.set_xlabel("seconds, at the mean pace")
