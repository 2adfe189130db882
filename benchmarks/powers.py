"""How simple a wall's solutions are in powers of its conductivities (lcpinn.powers).

    python -m benchmarks.powers [--out results/powers-cpu.json]

What the best rational functions of degree one over one leave of the solutions of the zoo's
`layered-wall`, with the same exponent for all eight coefficients, and the exponents that are taken.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.stamp import stamp
from benchmarks.zoo.coefficients import LayeredWall
from lcpinn.files import write_json
from lcpinn.powers import SETTINGS, components, missing, simplest_powers
from lcpinn.precision import double
from lcpinn.reduced_basis import known_between

EXPONENTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        "benchmarks.powers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--out", type=Path, help="write to this JSON file")
    given, wall = parser.parse_args(), LayeredWall()
    prior = wall.parameters
    with double():
        known = known_between(wall, tolerance=1e-6, seconds=60.0)
        settings = np.asarray(prior.sobol(SETTINGS, seed=3))
        table, ranges = components(known, settings), list(prior.ranges.values())
        shares = {
            f"{e:g}": missing(settings, table, ranges, np.full(prior.dim, e)) for e in EXPONENTS
        }
        taken = simplest_powers(known)
    for exponent, share in shares.items():
        print(f"exponent {exponent:>4}: {share:.2e} is missing")
    print(f"taken: {taken}")
    if given.out is not None:
        result = {"benchmark": "powers", "command": "python -m benchmarks.powers"}
        write_json(given.out, {**result, "stamp": stamp(0), "missing": shares, "taken": taken})


if __name__ == "__main__":
    main()
