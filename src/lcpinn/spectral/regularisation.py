"""Least squares with thousands of redundant functions, to the few digits that an estimate needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

SHIFTS = (1e-14, 1e-12, 1e-10)  # of the normal matrix, the first with which it has a factor
SWEEPS = 4  # each of which makes up for what the last one left


def iterated_tikhonov(matrices: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> np.ndarray:
    """Coefficients c with A c = b, by Cholesky's factor of A'A + εI, columns scaled to norm one.

    Singular directions below the root of ε are damped, not cut off; sweeps of refinement bring
    those back that can be had. It takes a small part of the time of a factorisation with pivoting.
    """
    normal = np.zeros((matrices[0].shape[1],) * 2)
    for matrix in matrices:
        normal += matrix.T @ matrix
    column = np.sqrt(np.diag(normal))
    column = np.where(column > 0, column, 1)
    normal /= column
    normal /= column[:, None]
    factor = _shifted_factor(normal)
    coefficients, rest = np.zeros(len(column)), list(targets)
    for _ in range(SWEEPS):
        gradient = np.zeros(len(column))
        for matrix, part in zip(matrices, rest, strict=True):
            gradient += matrix.T @ part
        step = scipy.linalg.cho_solve(factor, gradient / column, check_finite=False)
        coefficients = coefficients + step / column
        rest = [b - a @ coefficients for a, b in zip(matrices, targets, strict=True)]
    return coefficients


def _shifted_factor(normal: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky's factor; the diagonal is one for functions that no row sees, too."""
    for shift in SHIFTS:
        shifted = normal.copy()
        np.fill_diagonal(shifted, 1 + shift)
        try:
            factor, lower = scipy.linalg.cho_factor(
                shifted, lower=True, overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError:
            continue
        return factor, bool(lower)
    raise np.linalg.LinAlgError
