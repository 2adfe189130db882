"""Helmholtz's equation in one dimension, for libraries that know nothing of lcpinn.

u'' + k² u = f on (0, 1), u = 0 at both ends, k in [1, 10]; the exact solution is sin(πx) cos(kx).
Only the error that is reported knows it: training sees the residual alone.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

WAVENUMBERS = (1.0, 3.25, 5.5, 7.75, 10.0)
POINTS = 1024
LOW, HIGH = 1.0, 10.0


def exact(x: Any, k: Any, xp: Any = np) -> Any:
    return xp.sin(np.pi * x) * xp.cos(k * x)


def forcing(x: Any, k: Any, xp: Any = np) -> Any:
    """u'' + k² u of the exact solution; `xp` is NumPy or whatever spells sin and cos like it."""
    cross = xp.cos(np.pi * x) * xp.sin(k * x)
    return -(np.pi**2) * exact(x, k, xp) - 2 * np.pi * k * cross


def grid_error(predict: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
    """The mean over the grid of k of the relative L2 error; `predict` maps columns to values."""
    x = np.linspace(0.0, 1.0, POINTS)[:, None]
    errors = []
    for wavenumber in WAVENUMBERS:
        k = np.full_like(x, wavenumber)
        truth = exact(x, k)
        gap = np.asarray(predict(x, k), np.float64).reshape(truth.shape) - truth
        errors.append(np.linalg.norm(gap) / np.linalg.norm(truth))
    return float(np.mean(errors))


def options(**more: Any) -> argparse.Namespace:
    """--seconds, --seed and --threads, and what a script adds, by its default."""
    parser = argparse.ArgumentParser()
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

    def __init__(self, seconds: float, every: float = 1.25):
        self.seconds, self.every = seconds, every
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
        say(seconds=round(self.last, 4), error=grid_error(predict), step=step)
        self.paused += time.perf_counter() - at
