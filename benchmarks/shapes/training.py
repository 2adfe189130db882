"""One training on a shape: a fresh process, its errors, and its estimates beside them."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import lcpinn as lc
from benchmarks.processes import answer_of_fresh_process
from benchmarks.shapes.families import FAMILIES
from lcpinn.evaluation import arguments, evaluate
from lcpinn.files import read_json

SETTINGS = {0: 1, 1: 9, 2: 3}  # values of each coefficient at which estimates are compared
POINTS, SEED = 8192, 99  # inside, for the true error at one setting

Run = dict[str, Any]
Asked = dict[str, Any]


def train_in_fresh_process(name: str, seed: int, asked: Asked, cores: list[int]) -> Run:
    """One run as plain data; of a training that failed, the reason under `failed`.

    It finds no compiled program, so that compilation is paid and counted.
    """
    kept = {"family": name, "seed": seed, "asked": asked}
    code = "from benchmarks.shapes.training import train_here; train_here()"
    return kept | answer_of_fresh_process(code, {"family": name, "seed": seed, **asked}, cores)


def train_here() -> None:
    """Train by the defaults, measure, and print the run as the last line."""
    job = json.loads(sys.argv[1])
    family, directory = FAMILIES[job["family"]](), Path(job["out"])
    begun = time.perf_counter()
    protocol = lc.protocol.fast(family, seconds=job["seconds"])
    solution = lc.train(family, protocol, seed=job["seed"], out=directory, progress=False)
    spent = time.perf_counter() - begun
    error, result = evaluate(solution), read_json(directory / "result.json")
    run = {key: result[key] for key in ("parameters", "stopped", "device", "date", "verdict")}
    run |= {
        "equation": (family.__doc__ or "").split("\n")[0],
        "inputs": family.domain.dim + len(family.parameters.free),
        "error": {key: error[key] for key in ("mean", "dense_max", "dense_argmax")},
        "settings": [compared(solution, lam) for lam in settings(family)],
        "seconds": spent,
    }
    print(json.dumps(run))


def settings(family: lc.Family) -> np.ndarray:
    """Settings (n, p) with both ends of every range: nine, or one where nothing varies."""
    return family.parameters.grid(SETTINGS.get(len(family.parameters.free), 2))


def compared(solution: lc.Solution, lam: np.ndarray) -> dict[str, Any]:
    """The relative L2 error at one setting, and what the certificate says without the truth."""
    family = solution.family
    at = dict(zip(family.parameters.names, map(float, lam), strict=True))
    points = family.domain.sobol(POINTS, SEED, parameters=lam)
    truth = family.truth(points, lam)
    assert truth is not None
    value = solution(**arguments(family, points, lam))
    gap = np.linalg.norm(np.reshape(value, truth.shape) - truth) / np.linalg.norm(truth)
    begun = time.perf_counter()
    estimate = solution.estimate(**at)  # pyright: ignore[reportArgumentType]: by name
    return {
        "at": at,
        "error": float(gap),
        "estimate": float(estimate.error) if math.isfinite(estimate.error) else None,
        "reason": estimate.reason,
        "seconds": time.perf_counter() - begun,
    }


def factor(setting: dict[str, Any]) -> float | None:
    """By how much an estimate is off, as a factor of at least one; None where there is none."""
    if setting["estimate"] is None:
        return None
    ratio = max(setting["estimate"], 1e-300) / max(setting["error"], 1e-300)
    return max(ratio, 1 / ratio)
