"""One problem, trained in a fresh process on cores of its own, and measured."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import lcpinn as lc
from benchmarks.pinnacle.metric import measure
from benchmarks.pinnacle.problem import Problem
from benchmarks.pinnacle.registry import PROBLEMS
from benchmarks.processes import answer_of_fresh_process
from benchmarks.stamp import stamp

FACTOR = 3.0  # a verdict of solved may be off by so much

Entry = dict[str, Any]


def train_in_fresh_process(name: str, asked: dict[str, Any], cores: list[int]) -> Entry:
    """The entry as plain data; of a training that failed, the reason under `failed`."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    kept = {**asked, "load": load}
    code = "from benchmarks.pinnacle.training import train_here; train_here()"
    return kept | answer_of_fresh_process(code, {"problem": name, **asked}, cores)


def train_here() -> None:
    """Train, judge and measure unless that is for later, and print the entry as the last line."""
    job = json.loads(sys.argv[1])
    problem, later = PROBLEMS[job["problem"]], job.get("later", False)
    warnings.simplefilter("ignore", lc.NotSolvedWarning)  # the verdict is in the entry
    family, begun = problem.family(), time.perf_counter()
    tolerance = job.get("tolerance")
    how = lc.protocol.fast(family, seconds=job["seconds"], tolerance=tolerance)
    kept: dict[str, Any] = {"seed": job["seed"], "progress": False, "report": not later}
    solution = lc.train(family, how, tolerance=tolerance, **kept)
    spent = time.perf_counter() - begun
    training = solution.run["training"]
    if job["models"] is not None:
        Path(job["models"]).mkdir(parents=True, exist_ok=True)
        solution.save(Path(job["models"]) / model_name(job["problem"]))
    entry = {
        "equation": (type(family).__doc__ or "").splitlines()[0],
        "inputs": family.domain.dim + len(family.parameters.free),
        "ranges": {name: list(ends) for name, ends in family.parameters.ranges.items()},
        "parameters": solution.num_params,
        "seconds_spent": {**training["seconds"], "total": spent},
        "stopped": training["stopped"],
        "solved_at": len(training.get("solved_at", ())),
        "stamp": stamp(job["seed"]),
    }
    print(json.dumps(entry if later else entry | judged(solution, problem)))


def model_name(problem: str) -> str:
    """The file of a problem's network, in the folder of all of them."""
    return f"{problem}.safetensors"


def measure_model(name: str, entry: Entry, models: Path) -> Entry | None:
    """The entry with verdict and errors of the network that it is of; None where that is not kept.

    A network that was trained in a hurry, on a machine that is lent by the minute, gets them here.
    """
    file, problem = models / model_name(name), PROBLEMS[name]
    if "failed" in entry or not file.exists():
        return None
    solution = lc.load(file, problem.family())
    if (solution.run["seed"], solution.num_params) != (entry["seed"], entry["parameters"]):
        return None  # of another training
    if "verdict" in entry and "verdict" not in solution.run:  # never judge twice
        solution.run["verdict"] = entry["verdict"]
    if "verdict" not in solution.run:
        spent = sum(solution.run["training"]["seconds"].values())
        solution.run["verdict"] = solution.judged(seconds=spent).to_json()
    return entry | judged(solution, problem)


def judged(solution: lc.Solution, problem: Problem) -> Entry:
    """The verdict, made before anything is compared, the errors, and whether the two agree."""
    verdict, errors = solution.verdict.to_json(), measured(solution, problem)
    return {
        **errors,
        "verdict": verdict,
        "wrong": wrong(verdict, errors["values"], problem.accuracy),
    }


def measured(solution: lc.Solution, problem: Problem) -> Entry:
    """Errors at every value, and of every published row their mean beside what was published."""
    values = [measure(solution, problem, at) for at in problem.settings]
    rows = []
    for row in problem.rows:
        errors = [value["error"] for at in row.at for value in values if value["at"] == dict(at)]
        mean = float(np.mean(errors))
        rows.append({
            "name": row.name, "error": mean, "worst": max(errors), "vanilla": row.vanilla,
            "best": row.best, "method": row.method, "ratio": row.best / mean,
        })  # fmt: skip
    return {"values": values, "rows": rows, "accuracy": problem.accuracy}


def wrong(verdict: dict[str, Any], values: list[Entry], accuracy: float) -> bool | None:
    """Whether it says solved while an error is above three times what it says; None: no answer.

    A verdict judges every output by itself, so the worst of them counts, and an error that is
    within what the reference is known to is not held against it.
    """
    if verdict["solved"] is None:
        return None
    if verdict["solved"] is False:
        return False
    said = verdict["error"] if verdict["error"] is not None else verdict["tolerance"]
    worst = max(max(value["outputs"].values()) for value in values)
    return bool(worst > FACTOR * (said or 0.0) + accuracy)
