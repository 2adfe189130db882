"""One training of the zoo: a fresh process, on cores of its own, and its errors at many lambda."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lcpinn as lc
from benchmarks.processes import answer_of_fresh_process
from benchmarks.zoo import ZOO, home
from lcpinn.evaluation import arguments, evaluation_points
from lcpinn.files import read_json
from lcpinn.optimiser import OwnSolutions, Restarts
from lcpinn.quadrature import tensor

SOBOL, CORNERS = 192, 64  # settings of several coefficients at which errors are measured
SEED = 7001  # of those settings

Run = dict[str, Any]
Asked = dict[str, Any]


# -- In the process of the benchmark ---------------------------------------------------------------


def train_in_fresh_process(name: str, seed: int, asked: Asked, cores: list[int]) -> Run:
    """One run as plain data; of a training that failed, the reason under `failed`.

    It finds no compiled program, so that compilation is paid and counted. `cores` pins it there;
    none leaves it where it is.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    kept = {"family": name, "class": home(ZOO[name]), "seed": seed, "asked": asked, "load": load}
    code = "from benchmarks.zoo.training import train_here; train_here()"
    return kept | answer_of_fresh_process(code, {"family": name, "seed": seed, **asked}, cores)


# -- In the fresh process --------------------------------------------------------------------------


def train_here() -> None:
    """Train, measure, and print the run as the last line."""
    from lcpinn.protocol import by_name, takes

    job = json.loads(sys.argv[1])
    family, directory = ZOO[job["family"]](), Path(job["out"])
    tolerance = job.get("tolerance")
    options = {"seconds": job["seconds"]}
    if tolerance is not None and takes(job["protocol"], "tolerance"):
        options["tolerance"] = tolerance
    protocol = by_name(job["protocol"], family, **options)
    if not job.get("own_solutions", True):
        protocol = without_own_solutions(protocol)
    run = {"seed": job["seed"], "out": directory, "progress": False, "tolerance": tolerance}
    solution = lc.train(family, protocol, **run)
    result = read_json(directory / "result.json")
    run = {key: result[key] for key in ("parameters", "seconds", "stopped", "device", "date")}
    run |= {
        "error": measure(solution),
        "residual": result["validation"]["residual"],
        "estimate": result["validation"].get("estimate"),
        "steps": steps_of(directory / "metrics.jsonl"),
        "verdict": result.get("verdict"),
        "solved_at": len(solution.run["training"].get("solved_at", [])),
    }
    print(json.dumps(run))


def without_own_solutions(protocol: lc.Protocol) -> lc.Protocol:
    """The same training with residual rows alone."""
    phase = protocol.phases[0]
    if isinstance(phase, Restarts) and isinstance(phase.phase, OwnSolutions):
        phase = replace(phase, phase=phase.phase.phase)
    return replace(protocol, phases=(phase, *protocol.phases[1:]))


def measure(solution: lc.Solution) -> dict[str, Any]:
    """Relative L2 errors against the truth at many lambda; at each, the worst output counts.

    worst, at: the largest and where; mean: over all lambda; outputs: the largest of each output.
    """
    family, points, errors = solution.family, evaluation_points(solution.family), []
    settings = dense_settings(family)
    for lam in settings:
        truth = family.truth(points, lam)
        assert truth is not None
        value = solution(**arguments(family, points, lam))
        columns = list(value.values()) if isinstance(value, dict) else [value]
        gap = np.linalg.norm(np.stack(columns, axis=-1) - truth, axis=0)
        errors.append(gap / np.linalg.norm(truth, axis=0))
    of_outputs = np.array(errors)
    at_lambda = of_outputs.max(axis=1)
    worst = int(at_lambda.argmax())
    return {
        "worst": float(at_lambda[worst]),
        "at": dict(zip(family.parameters.names, map(float, settings[worst]), strict=True)),
        "mean": float(at_lambda.mean()),
        "outputs": dict(zip(family.outputs, map(float, of_outputs.max(axis=0)), strict=True)),
        "settings": len(settings),
    }


def dense_settings(family: lc.Family) -> np.ndarray:
    """Many lambda (n, p): equispaced in the prior's measure for one coefficient, and for several a
    Sobol sequence with the corners, or as many of them as there is time for."""
    if family.parameters.dim == 1:
        return family.parameters.grid(family.evaluation.dense)
    corners = tensor([np.array(ends) for ends in family.parameters.ranges.values()])
    if len(corners) > CORNERS:
        corners = np.random.default_rng(SEED).permutation(corners)[:CORNERS]
    return np.concatenate([corners, family.parameters.sobol(SOBOL, SEED)])


def steps_of(metrics: Path) -> int:
    """Steps of the optimiser, over all phases."""
    last = {row["phase"]: row["step"] for row in map(json.loads, metrics.read_text().splitlines())}
    return sum(last.values())
