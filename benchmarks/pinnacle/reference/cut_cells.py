"""Poisson 3d-CG by finite volumes: a unit cube with four balls cut out, no flux through anything.

-Δu + k(z)² u = f, k below z = 1/2 and 5k/4 above. Cells and faces that a ball cuts count with the
share of them that is left. The source has five waves along y, so that cells are thin along y.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import distance_transform_edt
from scipy.sparse import csr_matrix, diags_array, eye_array, kron
from scipy.sparse.linalg import LinearOperator, cg

from lcpinn.cache import cached

BALLS = ((0.4, 0.3, 0.6, 0.2), (0.6, 0.7, 0.6, 0.2), (0.2, 0.8, 0.7, 0.1), (0.6, 0.2, 0.3, 0.1))
CELLS = (80, 200, 100)
SAMPLES = 4  # along every edge of a cell, to see how much of it is cut
SMALLEST = 0.02  # a share of a cell below which it is left out
VERSION = 2


def source(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The right-hand side f."""
    q = x**2 + y**2 + z**2
    steep = np.exp(np.sin(np.pi * x) + np.sin(10 * np.pi * y) + np.sin(5 * np.pi * z))
    waves = np.sin(np.pi * x) * np.sin(10 * np.pi * y) * np.sin(5 * np.pi * z)
    return 20 * steep * (q - 1) / (q + 1) + 100 * waves


def _outside(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Which points of a tensor grid lie in no ball."""
    at = np.meshgrid(x, y, z, indexing="ij", sparse=True)
    squares = ((c, (at[0] - a) ** 2 + (at[1] - b) ** 2 + (at[2] - h) ** 2) for a, b, h, c in BALLS)
    return np.logical_and.reduce([square > radius**2 for radius, square in squares])


def _shares(cells: tuple[int, ...], face: int | None = None) -> np.ndarray:
    """What is left of every cell, or of every inner face across one axis."""
    total, count = 0.0, 0
    for offset in _offsets(face):
        axes = []
        for i, num in enumerate(cells):
            first = np.arange(1, num) if i == face else np.arange(num) + offset[i]
            axes.append(first / num)
        total, count = total + _outside(*axes), count + 1
    return np.asarray(total) / count


def _offsets(face: int | None) -> Iterator[tuple[float, ...]]:
    steps = (np.arange(SAMPLES) + 0.5) / SAMPLES
    choices = [np.array([0.0]) if i == face else steps for i in range(3)]
    for index in np.ndindex(*(len(c) for c in choices)):
        yield tuple(float(c[i]) for c, i in zip(choices, index, strict=True))


def _solve(k: float, cells: tuple[int, ...]) -> np.ndarray:
    """u in all cells, those inside of balls with the value of the nearest cell outside."""
    volume = _shares(cells)
    kept = volume.ravel() > SMALLEST
    x, y, z = np.meshgrid(*((np.arange(n) + 0.5) / n for n in cells), indexing="ij")
    screening = np.where(z < 0.5, k**2, (1.25 * k) ** 2)
    matrix = diags_array((screening * volume).ravel())
    for axis, num in enumerate(cells):
        step = eye_array(num - 1, num, k=1) - eye_array(num - 1, num)
        parts = [step if i == axis else eye_array(n) for i, n in enumerate(cells)]
        across = kron(kron(parts[0], parts[1]), parts[2], format="csr")
        joined = abs(across) @ kept == 2  # nothing flows into a cell that is left out
        open_faces = diags_array(joined * _shares(cells, axis).ravel() * num**2)
        matrix = matrix + across.T @ open_faces @ across
    matrix = csr_matrix(matrix)[kept][:, kept]
    right = (source(x, y, z) * volume).ravel()[kept]
    diagonal = matrix.diagonal()
    jacobi = LinearOperator(matrix.shape, lambda v: v / diagonal)
    solved, failed = cg(matrix, right, rtol=1e-9, maxiter=5000, M=jacobi)
    if failed:
        raise RuntimeError("conjugate gradients have not settled")
    u = np.zeros(volume.size)
    u[kept] = solved
    inside = ~kept.reshape(cells)
    nearest = distance_transform_edt(
        inside, [1 / n for n in cells], return_distances=False, return_indices=True
    )
    return u.reshape(cells)[tuple(np.asarray(nearest))]


@lru_cache(maxsize=8)
def on_grid(k: float, cells: tuple[int, ...]) -> RegularGridInterpolator:
    """The discrete solution as a function of points (n, 3)."""
    settings = {"k": k, "cells": list(cells)}
    u = cached("pinnacle-block", VERSION, settings, lambda: {"u": _solve(k, cells)})["u"]
    axes = [np.concatenate([[0.0], (np.arange(n) + 0.5) / n, [1.0]]) for n in cells]
    return RegularGridInterpolator(axes, np.pad(u, 1, "edge"))


def block(k: float, points: np.ndarray, cells: tuple[int, ...] = CELLS) -> np.ndarray:
    """u at points (n, 3): two grids, and what their difference says of the limit (Richardson)."""
    coarse, fine = (on_grid(float(k), tuple(n // m for n in cells))(points) for m in (2, 1))
    return fine + (fine - coarse) / 3
