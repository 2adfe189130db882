"""The families of the paper: every one trained with every seed, each in a fresh process.

    python -m benchmarks.families [--families a,b] [--seeds 0,1,2,3] [--protocol fast]
                                  [--seconds S] [--targets cpu] [--out results/families-cpu.json]

A run is one call of `lcpinn.train` in a process of its own that finds no compiled program, so that
compilation is paid and counted; reference solutions are shared, since they only serve the
evaluation. With `--warm` compiled programs are kept where the command line keeps them. Every
finished run is written at once; what is there already, trained alike, is not trained again. Times:

    seconds.total     the training with its compilation, without the evaluation
    wall.process      the same, counted from the start of the interpreter: imports included
    wall.train_call   the whole call: training, evaluation and picture
    seconds_to        when the error over the grid first was 1e-4, 1e-6 and 1e-9, from the start of
                      the interpreter; out of `course`, which is evaluated after the run
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.course import in_words
from benchmarks.processes import ROOT, with_sources
from lcpinn.families import FAMILIES
from lcpinn.files import read_json, write_json
from lcpinn.study.paper import paper_row

PROTOCOL = "fast"
# What the median over seeds is meant to reach.
TARGETS: dict[str, dict[str, float]] = {
    "cpu": {
        "helmholtz-1d": 1e-13,
        "schrodinger-1d": 1e-15,
        "helmholtz-2d": 1e-7,
        "helmholtz-3d": 2e-7,
        "burgers": 2e-5,
        "buckley-leverett": 1e-5,
    },
    "h200": {
        "helmholtz-1d": 3e-14,
        "schrodinger-1d": 1e-15,
        "helmholtz-2d": 3e-10,
        "helmholtz-3d": 2e-9,
        "burgers": 1e-7,
        "buckley-leverett": 1e-6,
    },
}

Run = dict[str, Any]
Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    origin = _stamp(given.seeds)
    platform = origin.pop("platform")
    out = given.out or ROOT / "results" / f"families-{platform}.json"
    result = _begin(out, origin, arguments)
    failed = 0
    for name in given.families:
        for seed in given.seeds:
            asked = {"protocol": given.protocol, "seconds": given.seconds, "warm": given.warm}
            if not given.again and any(_is(r, name, seed, **asked) for r in result["runs"]):
                print(f"{name}, seed {seed}: there already", flush=True)
                continue
            run = train_in_fresh_process(name, seed, asked)
            if run is None:
                failed += 1
                continue
            put(result, run)
            write_json(out, result)
            print(_line(run), flush=True)
    # JAX is used in this process from here on only: a GPU's memory was the trainings' alone.
    print(table(summarise(result["runs"], given.protocol), given.targets))
    print(f"written to {out}")
    if failed:
        sys.exit(f"{failed} trainings failed")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = lambda text: _known(text.split(","))
    numbers = lambda text: [int(seed) for seed in text.split(",")]
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.families", description=about)
    parser.add_argument("--families", type=names, default=list(FAMILIES), help="a,b,...")
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2, 3], help="0,1,2,3")
    parser.add_argument("--protocol", default=PROTOCOL)
    parser.add_argument("--seconds", type=float, help="time limit, where the protocol has one")
    parser.add_argument("--out", type=Path, help="the JSON file that gathers the runs")
    parser.add_argument("--targets", choices=TARGETS, help="say which targets are reached")
    parser.add_argument("--again", action="store_true", help="replace runs that are there")
    parser.add_argument("--warm", action="store_true", help="reuse compiled programs")
    return parser.parse_args(arguments)


def _known(names: list[str]) -> list[str]:
    for name in names:
        if name not in FAMILIES:
            raise argparse.ArgumentTypeError(f"no family {name!r}; there are {', '.join(FAMILIES)}")
    return names


# -- One training --------------------------------------------------------------------------------


def train_in_fresh_process(name: str, seed: int, asked: dict[str, Any]) -> Run | None:
    """The run's result.json with its times, or None (and the reason on stderr) if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        job = {"family": name, "seed": seed, "out": f"{folder}/run", "begun": time.time(), **asked}
        environment = (
            with_sources() if asked["warm"] else with_sources() | _nothing_compiled(folder)
        )
        command = "from benchmarks.families import train_here; train_here()"
        done = subprocess.run(
            [sys.executable, "-c", command, json.dumps(job)],
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            print(f"{name}, seed {seed} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            return None
        told = json.loads(done.stdout.splitlines()[-1])
        outcome = read_json(Path(folder) / "run" / "result.json")
        return {**outcome, "asked": asked, **told, "load": load}


def train_here() -> None:
    """What the fresh process does; its times go to the last line of stdout."""
    import lcpinn as lc
    from benchmarks.course import course, seconds_to, watched
    from lcpinn.compilation import enable_cache
    from lcpinn.protocol import by_name

    job = json.loads(sys.argv[1])
    if job["warm"]:
        enable_cache()
    family = FAMILIES[job["family"]]()
    protocol = by_name(job["protocol"], family, seconds=job["seconds"])
    before = time.time() - job["begun"]
    begun = time.perf_counter()
    with watched(protocol, job["begun"]) as taken:
        lc.train(family, protocol, seed=job["seed"], out=job["out"], progress=False)
    call = time.perf_counter() - begun
    total = read_json(Path(job["out"]) / "result.json")["seconds"]["total"]
    points = course(family, protocol, taken)
    wall = {"train_call": call, "process": before + total}
    print(json.dumps({"wall": wall, "seconds_to": seconds_to(points), "course": points}))


def _nothing_compiled(folder: str) -> dict[str, str]:
    """Empty caches of JAX and of the CUDA driver; programs are written as `lcpinn train` would."""
    return {
        "JAX_COMPILATION_CACHE_DIR": f"{folder}/xla",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "CUDA_CACHE_PATH": f"{folder}/cuda",
    }


def _stamp(seeds: list[int]) -> dict[str, Any]:
    """From a process that ends: one that holds JAX would hold most of a GPU's memory."""
    command = (
        "import json, jax; from benchmarks.stamp import stamp; "
        "print(json.dumps({**stamp(0), 'platform': jax.default_backend()}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], env=with_sources(), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"JAX does not start:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    found.pop("seed")
    return {**found, "seeds": seeds}


# -- The file of runs ----------------------------------------------------------------------------


def _begin(out: Path, origin: dict[str, Any], arguments: Sequence[str] | None) -> Result:
    """The file's runs, if there are any, under today's stamp."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    command = shlex.join(["python", "-m", "benchmarks.families", *given])
    runs = read_json(out)["runs"] if out.exists() else []
    others = sorted({run["device"] for run in runs} - {origin["device"]})
    if others:
        sys.exit(f"{out} has runs of another machine ({', '.join(others)}); choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    return {"stamp": origin, "command": command, "runs": runs}


def _is(run: Run, name: str, seed: int, **asked: Any) -> bool:
    """Whether this is the run of that family and seed; with `asked`, also trained so."""
    return (run["family"], run["seed"]) == (name, seed) and asked.items() <= run["asked"].items()


def put(result: Result, run: Run) -> None:
    """Add a run; it replaces the one of the same family, seed and protocol."""
    name, seed, protocol = run["family"], run["seed"], run["asked"]["protocol"]
    kept = [r for r in result["runs"] if not _is(r, name, seed, protocol=protocol)]
    order = list(FAMILIES)
    result["runs"] = sorted([*kept, run], key=lambda r: (order.index(r["family"]), r["seed"]))


# -- In words ------------------------------------------------------------------------------------


def summarise(runs: list[Run], protocol: str = PROTOCOL) -> list[dict[str, Any]]:
    """For every family: the median and the worst over its seeds, and their ratios."""
    found = []
    for name, make in FAMILIES.items():
        own = [r for r in runs if r["family"] == name and r["protocol"] == protocol]
        if not own:
            continue
        errors = [r["error"]["mean"] for r in own]
        median = statistics.median(errors)
        dense = statistics.median(r["error"]["dense_max"] for r in own)
        found.append(
            {
                "family": name,
                "seeds": len(own),
                "paper": (paper_row(make()) or {}).get("mean"),
                "median": median,
                "worst": max(errors),
                "worst_over_median": max(errors) / median,
                "dense_max": dense,
                "dense_max_over_mean": dense / median,
                "seconds": statistics.median(r["seconds"]["total"] for r in own),
                "seconds_to": _median_times([r["seconds_to"] for r in own if "seconds_to" in r]),
            }
        )
    return found


def _median_times(reached: list[dict[str, float | None]]) -> dict[str, float | None]:
    """The median over seeds of the seconds to each level; None where half of them stay above."""
    levels = reached[0] if reached else {}
    medians = {
        level: statistics.median(math.inf if (s := r[level]) is None else s for r in reached)
        for level in levels
    }
    return {level: s if math.isfinite(s) else None for level, s in medians.items()}


def table(summary: list[dict[str, Any]], targets: str | None = None) -> str:
    """One line for each family."""
    head = f"{'family':18}{'seeds':>6}{'paper':>10}{'median':>10}{'worst':>10}{'w/med':>7}"
    head += f"{'dense max':>11}{'/mean':>7}{'seconds':>9}"
    timed = any(row["seconds_to"] for row in summary)
    head += f"{'to 1e-4':>8}{'1e-6':>8}{'1e-9':>8}" * timed + ("   target" if targets else "")
    lines = [head]
    for row in summary:
        paper = "–" if row["paper"] is None else f"{row['paper']:.1e}"
        line = f"{row['family']:18}{row['seeds']:6}{paper:>10}{row['median']:10.1e}"
        line += f"{row['worst']:10.1e}{row['worst_over_median']:7.1f}{row['dense_max']:11.1e}"
        line += f"{row['dense_max_over_mean']:7.1f}{row['seconds']:9.1f}"
        line += in_words(row["seconds_to"]) or f"{'–':>24}" * timed
        if targets:
            goal = TARGETS[targets][row["family"]]
            ratio = row["median"] / goal
            line += f"   {goal:.0e} " + ("reached" if ratio <= 1 else f"missed, {ratio:.2g} times")
        lines.append(line)
    return "\n".join(lines)


def _line(run: Run) -> str:
    error, seconds = run["error"], run["seconds"]["total"]
    found = f"mean {error['mean']:.1e}, dense max {error['dense_max']:.1e}"
    return f"{run['family']}, seed {run['seed']}: {found}, {seconds:.1f} s"


if __name__ == "__main__":
    main()
