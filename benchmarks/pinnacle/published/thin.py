"""Thinned copies of PINNacle's reference files, out of a checkout of its repository.

    python -m benchmarks.pinnacle.published.thin PINNacle/ref

Nodes are drawn at random, so that the density of the mesh, with which the published metric weighs
errors, stays as it is. Nothing is changed but the number of digits.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
SEED = 0


class Thinning(NamedTuple):
    """What is kept of a file: so many nodes, and of its first time levels every so many."""

    nodes: int
    every: int = 1
    coordinates: int = 2
    outputs: int = 1
    levels: int | None = None


THINNED: dict[str, Thinning] = {
    "burgers1d": Thinning(101, coordinates=1),
    "poisson1_cg_data": Thinning(1246),
    "poisson_boltzmann2d": Thinning(2600),
    "lid_driven_a2": Thinning(1800, outputs=3),
    "lid_driven_a4": Thinning(1800, outputs=3),
    "lid_driven_a8": Thinning(1800, outputs=3),
    "lid_driven_a16": Thinning(1800, outputs=3),
    "lid_driven_a32": Thinning(1800, outputs=3),
    "ns_0_obstacle": Thinning(1800, outputs=3),
    "heat_darcy": Thinning(760, every=5),
    "heat_longtime": Thinning(192, levels=41),
}


def main() -> None:
    parser = argparse.ArgumentParser("thin", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="PINNacle's ref/")
    folder = parser.parse_args().folder
    for name, kept in THINNED.items():
        write(HERE / f"{name}.csv", thinned(folder / f"{name}.dat", kept))
    points = np.loadtxt(folder / "heatinv_points.dat")
    np.savetxt(HERE / "heatinv_points.csv", points, "%.6f", ",", header="x,y,t")


def thinned(file: Path, kept: Thinning) -> tuple[list[str], np.ndarray]:
    """Names of columns, and the rows that are kept; times of the columns in their names."""
    table = np.loadtxt(file, comments="%", encoding="utf8")
    with open(file, encoding="utf8") as opened:
        header = [line for line in opened if line.startswith("%")][-1]
    axes = ["x", "y", "z"][: kept.coordinates]
    names = ["u", "v", "p"][: kept.outputs]
    times = [part.split()[0] for part in header.split("t=")[1:]][: kept.levels]
    if times:
        names = [f"u@{time}" for time in times[:: kept.every]]
        columns = np.arange(len(times))[:: kept.every] + kept.coordinates
    else:
        columns = np.arange(kept.outputs) + kept.coordinates
    rows = np.random.default_rng(SEED).permutation(len(table))[: kept.nodes]
    wanted = [*range(kept.coordinates), *columns]
    return [*axes, *names], table[np.sort(rows)][:, wanted]


def write(path: Path, table: tuple[list[str], np.ndarray]) -> None:
    names, rows = table
    np.savetxt(path, rows, "%.7g", ",", header=",".join(names))


if __name__ == "__main__":
    main()
