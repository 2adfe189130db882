"""What a choice is worth: `fast` with one field of Gauss-Newton, or a flag of the page, changed.

    python -m benchmarks.choices --choice radius=0.03,0.1 [--families helmholtz-2d,acoustics]
                                 [--seeds 0,1] [--seconds 50] [--out results/choice-radius-cpu.json]

A choice is a field of lcpinn.optimiser.GaussNewton with the values to compare; a field that needs
another beside it takes both: `acceptance+patience=GainRatio+6,ModelDriven+8`. A rule of acceptance
has its defaults. `setting_corners=False,True` changes the pages instead: rows at the corners of the
coefficients' range. Everything else is as in `fast`, and the time, compilation included, is the
same. Families of the paper and of the zoo, and `even-burgers`, with rows that know of no front. The
estimate is the largest one that the certificate has found.
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
from lcpinn.families.burgers import Burgers
from lcpinn.files import write_json
from lcpinn.optimiser import GainRatio, GaussNewton, ModelDriven, NonMonotone, Restarts
from lcpinn.optimiser.acceptance import Acceptance
from lcpinn.spec import to_plain

# Burgers' page with neither a stretched coordinate nor denser rows at its front.
EvenBurgers = type("EvenBurgers", (Burgers,), {"features": None, "collocate": None})
KNOWN = {**FAMILIES, **ZOO, "even-burgers": EvenBurgers}
FLAGS = ("setting_corners",)  # of a page
Change = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.choices", description=about)
    parser.add_argument("--choice", required=True, help="a field and its values: radius=0.03,0.1")
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
    columns = "family", "seed", "changed", "residual", "estimate", "mean error"
    print("{:20}{:>5}  {:42}{:>10}{:>10}{:>12}".format(*columns))
    for name in names:
        for seed in seeds:
            for change in changes:
                found["trainings"].append(train(name, seed, change, given.seconds))
                print(_line(found["trainings"][-1]), flush=True)
                if given.out is not None:
                    given.out.parent.mkdir(parents=True, exist_ok=True)
                    write_json(given.out, found)


def parse(choice: str) -> list[Change]:
    """`radius+patience=0.1+6,0.03+8` as the changes {radius: 0.1, patience: 6} and so on."""
    fields_part, _, values_part = choice.partition("=")
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(GaussNewton)}
    kinds |= {"acceptance": _rule} | dict.fromkeys(FLAGS, _flag)
    names = fields_part.split("+")
    for name in names:
        if kinds.get(name) not in (int, float, str, _rule, _flag):
            sys.exit(f"neither Gauss-Newton nor a page has a field {name!r} with one value")
    values = [value.split("+") for value in values_part.split(",")]
    if any(len(value) != len(names) for value in values) or not values_part:
        sys.exit(f"{choice!r}: as many values as fields, with + between them")
    return [{n: kinds[n](v) for n, v in zip(names, value, strict=True)} for value in values]


def _flag(word: str) -> bool:
    if word not in ("False", "True"):
        sys.exit(f"{word!r} is neither False nor True")
    return word == "True"


def _rule(name: str) -> Acceptance:
    """A rule of acceptance by its name."""
    rules = {rule.__name__: rule for rule in (GainRatio, NonMonotone, ModelDriven)}
    if name not in rules:
        sys.exit(f"no acceptance {name!r}; there are {', '.join(rules)}")
    return rules[name]()


def train(name: str, seed: int, change: Change, seconds: float) -> dict[str, Any]:
    family = KNOWN[name]()
    vars(family).update({flag: value for flag, value in change.items() if flag in FLAGS})
    protocol = lc.protocol.fast(family, seconds=seconds)
    (restarts,) = protocol.phases
    assert isinstance(restarts, Restarts)
    assert isinstance(restarts.phase, GaussNewton)
    of_phase = {field: value for field, value in change.items() if field not in FLAGS}
    phase = replace(restarts, phase=replace(restarts.phase, **of_phase))
    solution = lc.train(family, replace(protocol, phases=(phase,)), seed=seed, progress=False)
    return {
        "family": name,
        "seed": seed,
        "changed": to_plain(change),
        "validation": validate(solution),
        "verdict": solution.verdict.to_json(),
        "error": evaluate(solution),
        "stopped": solution.run["training"]["stopped"],
    }


def _line(run: dict[str, Any]) -> str:
    word = lambda value: value["type"] if isinstance(value, dict) else value
    changed = ", ".join(f"{name} {word(value)}" for name, value in run["changed"].items())
    estimate = run["verdict"]["error"]
    estimate = f"{'–':>10}" if estimate is None else f"{estimate:10.1e}"
    numbers = f"{run['validation']['residual']:10.1e}{estimate}{run['error']['mean']:12.1e}"
    return f"{run['family']:20}{run['seed']:5}  {changed:42}" + numbers


if __name__ == "__main__":
    main()
