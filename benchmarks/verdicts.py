"""What a verdict takes: seconds and settings of the last estimates of a training, by family.

    python -m benchmarks.verdicts --models DIRECTORY [--families wave,plate] [--seconds 100]
                                  [--tolerance 1e-6] [--label after]
                                  [--out results/verdicts-cpu.json]

Networks of the zoo are trained for so many seconds, once, and kept in the directory, so that two
versions of the library judge the same ones. All seconds are the processor's, those that a verdict
keeps to included: other work on the machine does not count. `first` is the estimate that compiles
programs for all; `others` are those that have to keep to a tenth of the training's time. Of the
settings that are judged, `known` have an estimate or a bound below the solution itself. Runs of one
label stand together in the file; a family that is measured again replaces its row.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import lcpinn as lc
from benchmarks.processes import among
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.certificate import Estimate, Estimator
from lcpinn.files import read_json, write_json
from lcpinn.rows import Problem

CLOCKS = ("verdict", "certificate.resolution", "certificate.marched", "spectral.march")
SEED = 0


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    words = sys.argv[1:] if arguments is None else list(arguments)
    result = {"benchmark": "verdicts", "labels": {}}
    if given.out is not None and given.out.exists():
        result = read_json(given.out)
    rows = result["labels"].setdefault(given.label, {"families": {}})["families"]
    for name in given.families:
        solution = _trained(name, given.models, given.tolerance, given.seconds)
        rows[name] = measure(solution, given.tolerance, given.seconds)
        print(f"{name:16}{_line(rows[name])}", flush=True)
        result["labels"][given.label] |= {
            "command": shlex.join(["python", "-m", "benchmarks.verdicts", *words]),
            "stamp": stamp(SEED),
        }
        if given.out is not None:
            write_json(given.out, result)


def _trained(name: str, models: Path, tolerance: float, seconds: float) -> lc.Solution:
    """The network of an earlier time, or one that is trained now."""
    family, path = ZOO[name](), models / f"{name}.safetensors"
    if not path.exists():
        asked = {"tolerance": tolerance, "seconds": seconds, "seed": SEED}
        trained = lc.train(family, **asked, report=False, progress=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        trained.save(path)
    return lc.load(path, ZOO[name]())  # nothing is compiled for it yet


class Timed:
    """An estimator whose estimates are kept, each with the processor's seconds that it took."""

    def __init__(self, estimator: Estimator):
        self._estimator = estimator
        self.seconds: list[float] = []
        self.estimates: list[Estimate] = []

    def __call__(self, *arguments: Any, **options: Any) -> Estimate:
        begun = time.process_time()
        self.estimates.append(self._estimator(*arguments, **options))
        self.seconds.append(time.process_time() - begun)
        return self.estimates[-1]


def measure(solution: lc.Solution, tolerance: float, seconds: float) -> dict[str, Any]:
    """The verdict on a network that took so many seconds to train, and what it takes."""
    made: list[Timed] = []

    def of_network(problem: Problem) -> Timed:
        from lcpinn.certificate import of_network

        made.append(Timed(of_network(problem)))
        return made[-1]

    with _processor_clock(), mock.patch("lcpinn.verdict.of_network", of_network):
        begun = time.process_time()
        verdict = solution.judged(tolerance, seconds)
        whole = time.process_time() - begun
    (timed,) = made
    first, *others = timed.seconds
    return {
        "settings": len(timed.estimates),
        "known": sum(_is_known(estimate) for estimate in timed.estimates),
        "first": first,
        "others": sum(others),
        "whole": whole,
        "solved": verdict.solved,
        "error": verdict.error,
        "at": verdict.at,
        "reason": verdict.reason,
    }


def _is_known(estimate: Estimate) -> bool:
    return math.isfinite(estimate.error) or estimate.at_most < 1


@contextmanager
def _processor_clock() -> Iterator[None]:
    """Whatever keeps to a clock keeps to the processor's."""
    clock = SimpleNamespace(perf_counter=time.process_time)
    with ExitStack() as patches:
        for name in CLOCKS:
            patches.enter_context(mock.patch(f"lcpinn.{name}.time", clock, create=True))
        yield


def _line(row: dict[str, Any]) -> str:
    counts = f"{row['settings']} settings, {row['known']} known"
    seconds = f"{row['first']:.1f} s for the first, {row['others']:.1f} s for the others"
    words = {True: "solved", False: "not solved", None: "no verdict"}[row["solved"]]
    error = "" if row["error"] is None else f", {row['error']:.1e}"
    return f"{counts}, {seconds}; {words}{error}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.verdicts", description=about)
    parser.add_argument("--models", type=Path, required=True, help="where networks are kept")
    parser.add_argument("--families", type=among(ZOO, "family"), default=list(ZOO),
                        help=f"of {', '.join(ZOO)}")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=100.0, help="of a training")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--label", default="now", help="under which rows are kept")
    parser.add_argument("--out", type=Path, help="write to this JSON file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
