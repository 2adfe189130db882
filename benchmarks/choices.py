"""What a choice of Gauss-Newton is worth: `fast` with one field changed, in the same time.

    python -m benchmarks.choices --choice roam=0,1 [--families helmholtz-2d,acoustics]
                                 [--seeds 0,1] [--seconds 50] [--out results/choice-roam-cpu.json]

A choice is a field of lcpinn.optimiser.GaussNewton with the values to compare; a field that needs
another beside it takes both: `roam+corrections=0+2,1+0`. Everything else is as in `fast`, and the
time, compilation included, is the same. Families of the paper and of the zoo.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import lcpinn as lc
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.evaluation import evaluate, validate
from lcpinn.families import FAMILIES
from lcpinn.files import write_json
from lcpinn.optimiser import GaussNewton

KNOWN = {**FAMILIES, **ZOO}
Change = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.choices", description=about)
    parser.add_argument("--choice", required=True, help="a field and its values: early=0,0.5,1.2")
    parser.add_argument("--families", default="helmholtz-2d,acoustics", help="two by default")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--seconds", type=float, default=50.0, help="time limit of each")
    parser.add_argument("--out", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    changes, names = parse(given.choice), given.families.split(",")
    unknown = [name for name in names if name not in KNOWN]
    if unknown:
        sys.exit(f"no family {unknown[0]!r} here; there are {', '.join(KNOWN)}")
    options = sys.argv[1:] if arguments is None else list(arguments)
    seeds = [int(seed) for seed in given.seeds.split(",")]
    found: dict[str, Any] = {
        "benchmark": "choices",
        "stamp": stamp(seeds[0]),
        "command": shlex.join(["python", "-m", "benchmarks.choices", *options]),
        "trainings": [],
    }
    print(f"{'family':20}{'seed':>5}  {'changed':42}{'residual':>10}{'mean error':>12}")
    for name in names:
        for seed in seeds:
            for change in changes:
                found["trainings"].append(train(name, seed, change, given.seconds))
                print(_line(found["trainings"][-1]), flush=True)
                if given.out is not None:
                    given.out.parent.mkdir(parents=True, exist_ok=True)
                    write_json(given.out, found)


def parse(choice: str) -> list[Change]:
    """`slack+patience=0+6,10+20` as the changes {slack: 0.0, patience: 6} and so on."""
    left, _, right = choice.partition("=")
    kinds = {field.name: type(field.default) for field in fields(GaussNewton)}
    names = left.split("+")
    for name in names:
        if kinds.get(name) not in (bool, int, float, str):
            sys.exit(f"Gauss-Newton has no field {name!r} with one value")
    values = [value.split("+") for value in right.split(",")]
    if any(len(value) != len(names) for value in values) or not right:
        sys.exit(f"{choice!r}: as many values as fields, with + between them")
    read = {name: _yes if kinds[name] is bool else kinds[name] for name in names}
    return [{n: read[n](v) for n, v in zip(names, value, strict=True)} for value in values]


def _yes(word: str) -> bool:
    """A field that is on or off is written 1 or 0."""
    return bool(int(word))


def train(name: str, seed: int, change: Change, seconds: float) -> dict[str, Any]:
    family = KNOWN[name]()
    protocol = lc.protocol.fast(family, seconds=seconds)
    (restarts,) = protocol.phases
    phase = replace(restarts, phase=replace(restarts.phase, **change))
    solution = lc.train(family, replace(protocol, phases=(phase,)), seed=seed, progress=False)
    return {
        "family": name,
        "seed": seed,
        "changed": change,
        "validation": validate(solution),
        "error": evaluate(solution),
        "stopped": solution.run["training"]["stopped"],
    }


def _line(run: dict[str, Any]) -> str:
    changed = ", ".join(f"{name} {value}" for name, value in run["changed"].items())
    numbers = f"{run['validation']['residual']:10.1e}{run['error']['mean']:12.1e}"
    return f"{run['family']:20}{run['seed']:5}  {changed:42}" + numbers


if __name__ == "__main__":
    main()
