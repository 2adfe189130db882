"""Frequencies of functions on an even grid, finer than a window of their length resolves.

A Fourier spectrum tells frequencies apart that differ by a period over the whole range. ESPRIT (Roy
and Kailath 1989) fits exponentials, growing and decaying ones as well: windows of the function span
a space that a shift by one point maps into itself, and the eigenvalues of that map are the factors
from point to point. Half a period is enough for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHARE = 1e-3  # of the largest singular value, below which a direction is none
WEAK = 0.1  # of the largest amplitude, below which a mode is left out
LINES = 32  # functions of one coordinate that are looked at together
NEAR = 0.8  # radians between frequencies that are taken for one
MOST = 12  # modes of a function


@dataclass(frozen=True, eq=False)
class Modes:
    """Of each function its frequencies (m, dim), the strongest first, and their amplitudes (m,)."""

    frequencies: Sequence[np.ndarray]
    amplitudes: Sequence[np.ndarray]

    reach, slowest = NEAR, 0.0  # how far frequencies may be off, and which are not to be trusted

    def at(self, i: int, frequencies: np.ndarray) -> np.ndarray:
        """The amplitudes (m,) of one function at frequencies (m, dim): of the nearest, if near."""
        own = self.frequencies[i]
        if not len(own):
            return np.zeros(len(frequencies))
        gaps = np.linalg.norm(frequencies[:, None] - own, axis=2)
        nearest = np.argmin(gaps, axis=1)
        return np.where(gaps.min(axis=1) < NEAR, self.amplitudes[i][nearest], 0.0)

    def peaks(self, i: int) -> np.ndarray:
        """Frequencies (m, dim) of one function, in either direction."""
        return self.frequencies[i]


def modes_of(functions: np.ndarray) -> Modes:
    """Of functions (n, outputs, points along one or two coordinates), which run over [-1, 1]."""
    found = [_of_one(values) for values in functions]
    return Modes([k for k, _ in found], [a for _, a in found])


def _of_one(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Along the first coordinate, and of each of those modes along the second one."""
    lines = np.moveaxis(values, 1, -1)  # outputs, (other coordinate,) points
    rate, parts = exponentials(lines.reshape(-1, lines.shape[-1]))
    if lines.ndim == 2:
        frequencies, size = np.imag(rate)[:, None], np.linalg.norm(parts, axis=1)
    else:
        rows, sizes = [], []
        for first, part in zip(rate, parts, strict=True):
            across, amplitude = exponentials(part.reshape(lines.shape[:-1]))
            rows += [(np.imag(first), second) for second in np.imag(across)]
            sizes += np.linalg.norm(amplitude, axis=1).tolist()
        frequencies, size = np.reshape(rows, (-1, 2)), np.array(sizes)
    strong = np.flatnonzero(size > WEAK * np.max(size, initial=0.0))
    strong = strong[np.argsort(-size[strong], kind="stable")][:MOST]
    return frequencies[strong], size[strong] / np.max(size, initial=1e-300)


def exponentials(lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Functions (n, midpoints of [-1, 1]) as sums of exp(rate x): rates (m,) and factors (m, n).

    Factors count for the root mean square of their exponential over the range.
    """
    num = lines.shape[1]
    few = lines[:: max(1, len(lines) // LINES)]
    windows = np.lib.stride_tricks.sliding_window_view(few, num // 2, axis=1)
    windows = windows.reshape(-1, num // 2)
    squares, space = np.linalg.eigh(windows.T @ windows.conj())
    space = space[:, squares > SHARE**2 * squares[-1]]
    shift = np.linalg.lstsq(space[:-1], space[1:], rcond=None)[0]
    factor = np.linalg.eigvals(shift)
    factor = factor[np.abs(factor) > 1e-12]
    rate = np.log(factor) * num / 2
    place = (2 * np.arange(num) + 1) / num - 1
    table = np.exp(np.outer(place, np.clip(np.real(rate), -50, 50) + 1j * np.imag(rate)))
    size = np.sqrt(np.mean(np.abs(table) ** 2, axis=0))
    return rate, np.linalg.lstsq(table / size, lines.T.astype(complex), rcond=None)[0]
