"""Families for libraries that know nothing of lcpinn, and the clock that they run against.

Training sees the equation and its conditions alone. Values of the true solution come in a file that
the benchmark writes, and only the error that is reported has seen them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Function = Callable[..., Any]  # its last argument is what spells sin, cos and exp like NumPy
Predict = Callable[[np.ndarray], Any]  # values at rows of coordinates and coefficients


@dataclass(frozen=True)
class Problem:
    """Two inputs of a network, each in its range."""

    low: tuple[float, float]
    high: tuple[float, float]

    def normalised(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Both in [-1, 1]."""
        ends = zip((first, second), self.low, self.high, strict=True)
        one, other = (2 * (value - low) / (high - low) - 1 for value, low, high in ends)
        return one, other


@dataclass(frozen=True)
class Linear(Problem):
    """u'' + c(x, k) u = f(x, k) on (0, 1), u = 0 at both ends; the inputs are x and k."""

    factor: Function  # c
    forcing: Function  # f

    def residual(self, x: Any, k: Any, u: Any, partial: Function, xp: Any) -> Any:
        """`partial(0, 0)` is u_xx: derivatives by numbers of inputs."""
        return partial(0, 0) + self.factor(x, k) * u - self.forcing(x, k, xp)

    def imposed(self, x: Any, k: Any, u: Any, xp: Any) -> Any:
        """What a network says, made to vanish at both ends."""
        return 4 * x * (1 - x) * u


@dataclass(frozen=True)
class Burgers(Problem):
    """u_t + u u_x = ν u_xx, u(0, x) = -sin(πx), u(t, ±1) = 0; the inputs are t and x."""

    viscosity: float = 0.01 / np.pi

    def residual(self, t: Any, x: Any, u: Any, partial: Function, xp: Any) -> Any:
        return partial(0) + u * partial(1) - self.viscosity * partial(1, 1)

    def imposed(self, t: Any, x: Any, u: Any, xp: Any) -> Any:
        """What a network says, made to meet the initial values and both ends."""
        return t * (1 - x**2) * u - xp.sin(np.pi * x)


def _helmholtz_forcing(x: Any, k: Any, xp: Any = np) -> Any:
    cross = xp.cos(np.pi * x) * xp.sin(k * x)
    return -(np.pi**2) * xp.sin(np.pi * x) * xp.cos(k * x) - 2 * np.pi * k * cross


def _schrodinger_forcing(x: Any, k: Any, xp: Any = np) -> Any:
    y = x - 0.5
    wave = (np.pi**2 + k) * xp.sin(np.pi * x) + 2 * np.pi * k * y * xp.cos(np.pi * x)
    return -wave * xp.exp(-k * y**2 / 2)


PROBLEMS: dict[str, Linear | Burgers] = {
    "helmholtz-1d": Linear((0.0, 1.0), (1.0, 10.0), lambda x, k: k**2, _helmholtz_forcing),
    # -u'' + k² (x - ½)² u = f, with its sign turned
    "schrodinger-1d": Linear(
        (0.0, 0.5), (1.0, 10.0), lambda x, k: -((k * (x - 0.5)) ** 2), _schrodinger_forcing
    ),
    "burgers": Burgers((0.0, -1.0), (1.0, 1.0)),
}

HELMHOLTZ_2D = (1.0, 10.0)  # k in Δu + k² u = f on the unit square, u = 0 on its boundary
NODES = 16  # values of k that a reduced basis solves it at


def helmholtz_2d_forcing(x: Any, y: Any, k: Any) -> Any:
    u, v = np.sin(np.pi * x) * np.cos(k * x), np.sin(np.pi * y) * np.cos(k * y)
    cross = np.cos(np.pi * x) * np.sin(k * x) * v + np.cos(np.pi * y) * np.sin(k * y) * u
    return -(2 * np.pi**2 + k**2) * u * v - 2 * np.pi * k * cross


def chebyshev(low: float, high: float, num: int) -> np.ndarray:
    """Zeros of a Chebyshev polynomial: neither end, nor for an even number the middle."""
    angles = np.pi * (np.arange(num) + 0.5) / num
    return (low + high) / 2 - (high - low) / 2 * np.cos(angles)


def options(**more: Any) -> argparse.Namespace:
    """--problem, --truth, --seconds, --seed, --threads, and what a script adds, by its default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problem", required=True)
    parser.add_argument("--truth", type=Path, required=True, help="written by benchmarks.frontier")
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


class Truth:
    """True values at points, for each of some settings of the coefficients; no setting is one."""

    def __init__(self, path: Path):
        with np.load(path) as kept:
            self.points, self.settings, self.values = (
                kept[name] for name in ("points", "settings", "values")
            )

    def error(self, predict: Predict) -> float:
        """The mean over the settings of the relative L2 error."""
        errors = []
        for setting, truth in zip(self.settings, self.values, strict=True):
            rows = np.hstack([self.points, np.tile(setting, (len(self.points), 1))])
            gap = np.asarray(predict(rows), np.float64).reshape(truth.shape) - truth
            errors.append(np.linalg.norm(gap) / np.linalg.norm(truth))
        return float(np.mean(errors))


class Clock:
    """Seconds of training; evaluations stop it."""

    def __init__(self, truth: Truth, seconds: float, every: float = 1.25):
        self.truth, self.seconds, self.every = truth, seconds, every
        self.begun, self.paused, self.last = time.perf_counter(), 0.0, 0.0

    def now(self) -> float:
        return time.perf_counter() - self.begun - self.paused

    def over(self) -> bool:
        return self.now() >= self.seconds

    def due(self) -> bool:
        """Whether enough of a step has been made on a logarithmic axis."""
        return self.now() >= self.every * self.last

    def report(self, predict: Predict, step: int) -> None:
        at = time.perf_counter()
        self.last = at - self.begun - self.paused
        say(seconds=round(self.last, 4), error=self.truth.error(predict), step=step)
        self.paused += time.perf_counter() - at
