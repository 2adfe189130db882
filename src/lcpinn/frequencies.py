"""Frequencies of functions on an even grid, and how they move with coefficients.

A Fourier spectrum tells frequencies apart that differ by a period over the whole range. ESPRIT (Roy
and Kailath 1989) fits exponentials, growing and decaying ones as well: windows of the function span
a space that a shift by one point maps into itself, and the eigenvalues of that map are the factors
from point to point. Half a period is enough for them.

Frequencies of one wave at several settings lie on a line over the coefficients. Those at settings
that are far apart are joined by lines, and a line counts for the least amplitude that it meets at
the others: a Hough transform.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lcpinn.quadrature import tensor

SHARE = 1e-3  # of the largest singular value, below which a direction is none
WEAK = 0.1  # of the largest amplitude, below which a mode is left out
LINES = 32  # functions of one coordinate that are looked at together
NEAR = 0.8  # radians between frequencies that are taken for one
MOST = 12  # modes of a function
LEAKAGE = 0.02  # of the largest amplitude of a spectrum
COMMON = 0.15  # of the largest amplitude, that a line has everywhere
APART = np.pi  # radians between lines that are two
FINELY = {1: 33, 2: 9}  # places along each coefficient where a line is looked at


@dataclass(frozen=True, eq=False)
class Modes:
    """Of each function its frequencies (m, dim), the strongest first, and their amplitudes (m,)."""

    frequencies: Sequence[np.ndarray]
    amplitudes: Sequence[np.ndarray]

    def at(self, i: int, frequencies: np.ndarray) -> np.ndarray:
        """The amplitudes (m,) of one function at frequencies (m, dim): of the nearest, if near."""
        own = self.frequencies[i]
        if not len(own):
            return np.zeros(len(frequencies))
        gaps = np.linalg.norm(frequencies[:, None] - own, axis=2)
        nearest = np.argmin(gaps, axis=1)
        return np.where(gaps.min(axis=1) < NEAR, self.amplitudes[i][nearest], 0.0)


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


# -- Over the coefficients -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Lines:
    """Frequencies middle + Σ λ_i slope_i for λ in [-1, 1]: (n, dim), (n, p, dim); amplitudes (n,).

    With one coefficient they are lines, with two planes.
    """

    middle: np.ndarray
    slope: np.ndarray
    score: np.ndarray

    def only(self, which: np.ndarray) -> Lines:
        return Lines(self.middle[which], self.slope[which], self.score[which])

    def at(self, place: np.ndarray) -> np.ndarray:
        """The frequencies (m, n, dim) at places (m, p) of λ."""
        return self.middle + np.einsum("mp,npd->mnd", place, self.slope)

    def at_corners(self) -> np.ndarray:
        """Their sizes (corners, n) at the corners of the range."""
        ends = [np.array([-1.0, 1.0])] * self.slope.shape[1]
        return np.linalg.norm(self.at(tensor(ends)), axis=2)

    def moves(self, scale: float) -> bool:
        """Whether one of them moves further than a scale."""
        return bool(np.any(np.linalg.norm(self.slope, axis=2) > scale))


def share_on(lines: Lines, modes: Modes, place: np.ndarray) -> float:
    """The least share, over places (n, p) of λ, of the squared amplitudes that lines account for.

    A pulse has many frequencies, and lines through a few of them by accident.
    """
    shares = []
    for expected, own, size in zip(
        lines.at(place), modes.frequencies, modes.amplitudes, strict=True
    ):
        both = np.concatenate([expected, -expected])
        gaps = np.linalg.norm(own[:, None] - both, axis=2)
        on_one = np.min(gaps, axis=1, initial=np.inf) < NEAR
        shares.append(np.sum(size[on_one] ** 2) / max(np.sum(size**2), np.finfo(float).tiny))
    return float(min(shares))


def lines_of(modes: Modes, place: np.ndarray) -> Lines:
    """Lines that functions at places (n, p) of λ have in common, the strongest first."""
    base = _far_apart(place)
    own = [modes.frequencies[i] for i in base]
    own[0] = own[0][_is_first(own[0])]  # the other half are the same waves
    # Of a slow one the halves are one, which rounding may put on the other side: no pairs.
    picked = np.indices([len(one) for one in own]).reshape(len(own), -1)
    ends = np.stack([one[i] for one, i in zip(own, picked, strict=True)], axis=1)  # (c, p+1, dim)
    fit = np.linalg.solve(_table(place[base]), ends)
    every = Lines(fit[:, 0], fit[:, 1:], np.zeros(len(fit)))
    along = [modes.at(i, k) for i, k in enumerate(every.at(place))]
    score = np.min(np.stack(along), axis=0)
    # A frequency that comes and goes on the other side of zero is two that are taken for one.
    finely = tensor([np.linspace(-1, 1, FINELY[place.shape[1]])] * place.shape[1])
    nearest = np.linalg.norm(every.at(finely), axis=2).min(axis=0)
    score = np.where(nearest < np.linalg.norm(ends, axis=2).min(axis=1) / 2, 0, score)
    chosen: list[int] = []
    for i in np.argsort(-score, kind="stable"):
        apart = all(np.linalg.norm(ends[i] - ends[j], axis=1).max() > APART for j in chosen)
        if score[i] > COMMON and apart:
            chosen.append(int(i))
    refined = [_refined(modes, place, every.only(np.array([i]))) for i in chosen]
    fits = np.reshape(refined, (-1, 1 + place.shape[1], ends.shape[2]))
    return Lines(fits[:, 0], fits[:, 1:], score[chosen])


def _far_apart(place: np.ndarray) -> list[int]:
    """Of places (n, p) the p + 1 that span the most."""
    order = np.lexsort(place.T[::-1]).tolist()
    subsets = itertools.combinations(order, place.shape[1] + 1)
    return list(max(subsets, key=lambda s: abs(np.linalg.det(_table(place[list(s)])))))


def _table(place: np.ndarray) -> np.ndarray:
    """One and the coordinates of places (n, p): (n, 1 + p)."""
    return np.concatenate([np.ones((len(place), 1)), place], axis=1)


def _refined(modes: Modes, place: np.ndarray, line: Lines) -> np.ndarray:
    """The line (1 + p, dim) through the frequencies of all settings that are close to a given
    one."""
    kept, nearest = [], []
    for at, expected, own in zip(place, line.at(place)[:, 0], modes.frequencies, strict=True):
        gap = np.linalg.norm(own - expected, axis=1)
        if np.min(gap, initial=np.inf) < NEAR:
            kept.append(at)
            nearest.append(own[np.argmin(gap)])
    if len(kept) < place.shape[1] + 2:
        return np.concatenate([line.middle, line.slope[0]])
    return np.linalg.lstsq(_table(np.stack(kept)), np.stack(nearest), rcond=None)[0]


def _is_first(frequencies: np.ndarray) -> np.ndarray:
    """Of k and -k the one whose last component that is not zero is positive; k = 0 is, too."""
    sign = np.zeros(len(frequencies))
    for column in frequencies.T:
        sign = np.where(np.abs(column) > 1e-9, np.sign(column), sign)
    return sign >= 0


# -- Without a model of it ------------------------------------------------------------------------


def spectrum(values: np.ndarray, periodic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequency vectors (bins, dim) and the mean amplitude (bins,) of functions (n, points...).

    Along coordinates that do not close under a window (Hann's), padded to twice the length. What is
    small beside the largest is leakage of the window, and left out.
    """
    counts, padded = values.shape[1:], []
    for i, (num, closed) in enumerate(zip(counts, periodic, strict=True)):
        window = np.ones(num) if closed else np.hanning(num)
        values = values * window.reshape(-1, *(1,) * (len(counts) - 1 - i))
        padded.append(num if closed else 2 * num)
    amplitude = np.abs(np.fft.fftn(values, padded, axes=tuple(range(1, values.ndim))))
    amplitude = amplitude.reshape(len(values), -1)
    amplitude[amplitude < LEAKAGE * amplitude.max(axis=1, keepdims=True)] = 0
    steps = zip(padded, counts, strict=True)
    return tensor([2 * np.pi * np.fft.fftfreq(m, 2 / n) for m, n in steps]), amplitude.mean(axis=0)
