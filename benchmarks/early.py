"""Few rows first: does a training that begins with a part of its rows get further in its time?

    python -m benchmarks.early [--families helmholtz-2d,acoustics] [--seeds 0,1]
                               [--shares 0,0.5,1.2] [--seconds 50] [--out results/early-cpu.json]

`early` of Gauss-Newton is how many rows the first round sees for every parameter: none asks for all
of them at once (the default), less than one for steps in sample space. Everything else is as in
`fast`, and the time, compilation included, is the same. Families of the paper and of the zoo.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lcpinn as lc
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.evaluation import evaluate, validate
from lcpinn.families import FAMILIES
from lcpinn.files import write_json

KNOWN = {**FAMILIES, **ZOO}


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.early", description=about)
    parser.add_argument("--families", default="helmholtz-2d,acoustics", help="two by default")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--shares", default="0,0.5,1.2", help="rows for every parameter at first")
    parser.add_argument("--seconds", type=float, default=50.0, help="time limit of each")
    parser.add_argument("--out", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    names = given.families.split(",")
    unknown = [name for name in names if name not in KNOWN]
    if unknown:
        sys.exit(f"no family {unknown[0]!r} here; there are {', '.join(KNOWN)}")
    options = sys.argv[1:] if arguments is None else list(arguments)
    seeds = [int(seed) for seed in given.seeds.split(",")]
    found: dict[str, Any] = {
        "benchmark": "early",
        "stamp": stamp(seeds[0]),
        "command": shlex.join(["python", "-m", "benchmarks.early", *options]),
        "trainings": [],
    }
    print(f"{'family':20}{'seed':>5}{'early':>7}{'residual':>10}{'mean error':>12}")
    for name in names:
        for seed in seeds:
            for share in map(float, given.shares.split(",")):
                found["trainings"].append(train(name, seed, share, given.seconds))
                print(_line(found["trainings"][-1]), flush=True)
                if given.out is not None:
                    given.out.parent.mkdir(parents=True, exist_ok=True)
                    write_json(given.out, found)


def train(name: str, seed: int, share: float, seconds: float) -> dict[str, Any]:
    family = KNOWN[name]()
    protocol = lc.protocol.fast(family, seconds=seconds)
    (restarts,) = protocol.phases
    phase = replace(restarts, phase=replace(restarts.phase, early=share))
    solution = lc.train(family, replace(protocol, phases=(phase,)), seed=seed, progress=False)
    return {
        "family": name,
        "seed": seed,
        "early": share,
        "validation": validate(solution),
        "error": evaluate(solution),
        "stopped": solution.run["training"]["stopped"],
    }


def _line(run: dict[str, Any]) -> str:
    numbers = f"{run['validation']['residual']:10.1e}{run['error']['mean']:12.1e}"
    return f"{run['family']:20}{run['seed']:5}{run['early']:7}" + numbers


if __name__ == "__main__":
    main()
