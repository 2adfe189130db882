"""Thinned copies of PINNacle's own reference files; README.md has their source and licence."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent


class Table(NamedTuple):
    """Nodes (n, dim), with the time as their first coordinate where there is one, and values."""

    points: np.ndarray
    values: np.ndarray


@cache
def load(name: str) -> Table:
    """One file; time levels stand one below the other, t first among the coordinates."""
    path = HERE / f"{name}.csv"
    with open(path) as opened:
        names = opened.readline().lstrip("# ").strip().split(",")
    rows = np.loadtxt(path, delimiter=",")
    axes = sum(name in ("x", "y", "z") for name in names)
    nodes, values = rows[:, :axes], rows[:, axes:]
    if "@" not in names[axes]:
        return Table(nodes, values)
    times = [float(name.partition("@")[2]) for name in names[axes:]]
    levels = [np.column_stack([np.full(len(nodes), time), nodes]) for time in times]
    return Table(np.concatenate(levels), values.T.reshape(-1, 1))


@cache
def columns(name: str) -> np.ndarray:
    """A file of plain columns, (n, columns)."""
    return np.loadtxt(HERE / f"{name}.csv", delimiter=",")


@cache
def heat_conductivity_signs() -> np.ndarray:
    """Where the conductivity of Heat 2d-VC is high, (256, 256): rows along y, columns along x."""
    return np.unpackbits(np.load(HERE / "heat_conductivity.npy")).reshape(256, 256).astype(bool)
