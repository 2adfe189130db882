"""Families in one dimension, for libraries that know nothing of lcpinn.

u'' + c(x, k) u = f on (0, 1), u = 0 at both ends: Helmholtz's equation with c = k², and
Schrödinger's, -u'' + k² (x - ½)² u = f, with its sign turned. Only the error that is reported knows
the exact solution: training sees the residual alone.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

POINTS = 1024
Function = Callable[..., Any]  # of x, k and what spells sin, cos and exp like NumPy


@dataclass(frozen=True)
class Problem:
    """A family with a coefficient k in [low, high]."""

    low: float
    high: float
    grid: tuple[float, ...]  # where errors are measured
    factor: Function  # c
    exact: Function
    forcing: Function

    def normalised(self, k: Any) -> Any:
        """k in [-1, 1]."""
        return 2 * (k - self.low) / (self.high - self.low) - 1


def _helmholtz_forcing(x: Any, k: Any, xp: Any = np) -> Any:
    cross = xp.cos(np.pi * x) * xp.sin(k * x)
    return -(np.pi**2) * xp.sin(np.pi * x) * xp.cos(k * x) - 2 * np.pi * k * cross


def _schrodinger_forcing(x: Any, k: Any, xp: Any = np) -> Any:
    y = x - 0.5
    wave = (np.pi**2 + k) * xp.sin(np.pi * x) + 2 * np.pi * k * y * xp.cos(np.pi * x)
    return -wave * xp.exp(-k * y**2 / 2)


PROBLEMS = {
    "helmholtz-1d": Problem(
        1.0,
        10.0,
        (1.0, 3.25, 5.5, 7.75, 10.0),
        lambda x, k: k**2,
        lambda x, k, xp=np: xp.sin(np.pi * x) * xp.cos(k * x),
        _helmholtz_forcing,
    ),
    "schrodinger-1d": Problem(
        0.5,
        10.0,
        (0.5, 5.0, 10.0),
        lambda x, k: -((k * (x - 0.5)) ** 2),
        lambda x, k, xp=np: xp.sin(np.pi * x) * xp.exp(-k * (x - 0.5) ** 2 / 2),
        _schrodinger_forcing,
    ),
}


def grid_error(problem: Problem, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
    """The mean over the grid of k of the relative L2 error; `predict` maps columns to values."""
    x = np.linspace(0.0, 1.0, POINTS)[:, None]
    errors = []
    for value in problem.grid:
        k = np.full_like(x, value)
        truth = problem.exact(x, k)
        gap = np.asarray(predict(x, k), np.float64).reshape(truth.shape) - truth
        errors.append(np.linalg.norm(gap) / np.linalg.norm(truth))
    return float(np.mean(errors))


def options(**more: Any) -> argparse.Namespace:
    """--problem, --seconds, --seed and --threads, and what a script adds, by its default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problem", choices=PROBLEMS, default="helmholtz-1d")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


def say(**record: Any) -> None:
    """One line of JSON, at once: the benchmark reads them as they come."""
    print(json.dumps(record), flush=True)


def introduce(packages: tuple[str, ...], setting: dict[str, Any]) -> None:
    versions = {name: version(name) for name in packages}
    say(versions=versions, setting=setting, cores=len(os.sched_getaffinity(0)))


class Clock:
    """Seconds of training; evaluations stop it."""

    def __init__(self, problem: Problem, seconds: float, every: float = 1.25):
        self.problem, self.seconds, self.every = problem, seconds, every
        self.begun, self.paused, self.last = time.perf_counter(), 0.0, 0.0

    def now(self) -> float:
        return time.perf_counter() - self.begun - self.paused

    def over(self) -> bool:
        return self.now() >= self.seconds

    def due(self) -> bool:
        """Whether enough of a step has been made on a logarithmic axis."""
        return self.now() >= self.every * self.last

    def report(self, predict: Callable[[np.ndarray, np.ndarray], np.ndarray], step: int) -> None:
        at = time.perf_counter()
        self.last = at - self.begun - self.paused
        say(seconds=round(self.last, 4), error=grid_error(self.problem, predict), step=step)
        self.paused += time.perf_counter() - at
