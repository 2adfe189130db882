"""What a trial of random features says about frequency scales, beside the table's own.

    python -m benchmarks.trial [--families helmholtz-2d,pipes] [--out results/trial-cpu.json]

For every linear family of the paper, of the zoo and on shapes with three inputs or more: the
relative residual of one hidden layer of units as they are drawn, at the worst of three settings,
for each scale; and the scale that `fast` begins with (lcpinn/protocol/trial.py).
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lcpinn as lc
from benchmarks.processes import among
from benchmarks.shapes.families import FAMILIES as ON_SHAPES
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.families import FAMILIES
from lcpinn.files import write_json
from lcpinn.protocol.sizes import size_of
from lcpinn.protocol.trial import can_be_tried, residuals_by_scale, tried

KNOWN: dict[str, Callable[[], lc.Family]] = {**FAMILIES, **ZOO, **ON_SHAPES}


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.trial", description=about)
    parser.add_argument("--families", type=among(KNOWN, "family"), default=list(KNOWN),
                        help="all that are linear by default")  # fmt: skip
    parser.add_argument("--out", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    options = sys.argv[1:] if arguments is None else list(arguments)
    command = shlex.join(["python", "-m", "benchmarks.trial", *options])
    result: dict[str, Any] = {"benchmark": "trial", "stamp": stamp(0), "command": command}
    result["families"] = {}
    print(f"{'family':20}{'table':>7}{'taken':>7}   residual by scale")
    for name in given.families:
        family = KNOWN[name]()
        if not can_be_tried(family):
            continue
        entry = measured(family)
        result["families"][name] = entry
        residuals = ", ".join(f"{s:g}: {r:.1e}" for s, r in entry["residuals"])
        print(f"{name:20}{entry['table']:7g}{entry['taken']:7g}   {residuals}", flush=True)
    if given.out is not None:
        write_json(given.out, result)


def measured(family: lc.Family) -> dict[str, Any]:
    """The table's scale, the one that the trial takes, and residuals [scale, residual]."""
    table = size_of(family).frequency_scale
    network = replace(lc.protocol.fast(family, steps=1).network, frequency_scale=table)
    assert isinstance(network, lc.network.MLP)
    begun = time.perf_counter()
    taken = tried(family, network).frequency_scale
    seconds = time.perf_counter() - begun
    pairs = [list(pair) for pair in residuals_by_scale(family, network).items()]
    return {"table": table, "taken": taken, "residuals": pairs, "seconds": seconds}


if __name__ == "__main__":
    main()
