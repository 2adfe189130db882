"""The estimate along one coordinate where a layer takes many polynomials: by elements.

An error in a layer of width w takes about 1/w polynomials on the whole interval, and a dozen on
each of about log(1/w) elements. Where they are to be is known before the error is: an element is
halved while the residual's last coefficients on it are not small beside the whole.
"""

from __future__ import annotations

import numpy as np
import scipy

from lcpinn.certificate.attempt import AGREE, DISTANCE, Attempt, Attempts
from lcpinn.certificate.estimate import Correction, agree
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.elements import ElementAxis
from lcpinn.spectral.linearisation import Linearisation

DEGREES = (16, 12)  # polynomials on each element, and of what has to agree with them
LAST = 3  # of them, which tell whether they have decayed
EACH, ALL = 24, 768  # points of an element at the least, and of the interval: what is seen
SHARE = 0.05  # of the residual, that the coarser may leave
WORST = 0.1  # of the largest: elements that are halved at a time
MOST = 64  # elements
ROUNDS = 40  # of halving
GROWTHS = 3  # how often finer ones are tried where two do not agree
FEWER = 0.6  # of the functions of a single interval, for elements to be worth it


def in_elements(attempts: Attempts, at: Linearisation, alone: int) -> list[Attempt]:
    """Attempts, the last of which is an estimate if the one before it agrees with it.

    None at all where elements take about as many functions as the whole interval `alone`.
    """
    order, made = at.terms.same_order, []
    breaks = _breaks(at, attempts.breaks) if order else None
    for _ in range(1 + GROWTHS):
        if not breaks or order + DEGREES[0] * (len(breaks) + 1) > FEWER * alone:
            break
        sizes = [(order + degree * (len(breaks) + 1),) for degree in DEGREES]
        fine, coarse = (attempts(size, at, breaks) for size in sizes)
        made += [coarse, fine]
        if agreed(attempts, made, at) is not None:
            attempts.breaks = breaks
            break
        breaks = _finer(fine)
    return made


def agreed(attempts: Attempts, made: list[Attempt], at: Linearisation) -> Correction | None:
    """The estimate by the last of them, if there is one."""
    if not made:
        return None
    coarse, fine = made[-2:]
    same = fine.resolves and agree(fine.error(), coarse.error(), AGREE)
    close = same and attempts.distance(fine, coarse, at) < DISTANCE
    return fine.correction if close else None


def _breaks(at: Linearisation, known: tuple[float, ...]) -> tuple[float, ...] | None:
    """Where elements meet that resolve the residual: those of a setting before, if they do."""
    low, high = next(iter(at.family.domain.ranges.values()))
    for first in (known, at.terms.jumps):
        edges = np.array([low, *first, high])
        for _ in range(ROUNDS if first is at.terms.jumps else 1):
            missing, whole = _missing(at, edges)
            if not np.isfinite(whole) or len(edges) > MOST:
                return None
            if missing.sum() <= SHARE**2 * whole:
                return tuple(map(float, edges[1:-1]))
            edges = _halved(edges, missing > WORST * missing.max())
    return None


def _missing(at: Linearisation, edges: np.ndarray) -> tuple[np.ndarray, float]:
    """What so many polynomials leave of the residual's mean square on each element, (n,), and all
    of it."""
    share = np.diff(edges) / (edges[-1] - edges[0])
    counts = np.maximum(EACH, np.ceil(ALL * share)).astype(int)
    angles = [np.pi * (np.arange(count) + 0.5) / count for count in counts]
    pairs = zip(edges[:-1], edges[1:], angles, strict=True)
    points = np.concatenate([a + (b - a) * (1 - np.cos(t)) / 2 for a, b, t in pairs])[:, None]
    missing, whole = np.zeros(len(share)), 0.0
    for term in at.terms.interior:
        orders = at.family.orders([term])
        residual, slopes = at.slopes(term, orders, at.series(points, orders), points)
        unit = np.sqrt(np.mean(np.sum(slopes**2, axis=(2, 3)), axis=0))  # each equation's own
        residual = residual / np.where(unit > 0, unit, 1)
        for i, values in enumerate(np.split(residual, np.cumsum(counts)[:-1])):
            squares = scipy.fft.dct(values, axis=0, norm="ortho") ** 2 / counts[i]
            missing[i] += share[i] * float(squares[DEGREES[1] :].sum())
            whole += share[i] * float(squares.sum())
    return missing, whole


def _finer(attempt: Attempt) -> tuple[float, ...] | None:
    """Elements halved where the last polynomials of a correction are largest."""
    assert isinstance(attempt.basis, TensorBasis)
    axis, coefficients = attempt.basis.axes[0], attempt.coefficients
    assert isinstance(axis, ElementAxis)
    if not (np.isfinite(coefficients).all() and coefficients.any()) or len(axis.breaks) >= MOST:
        return None
    tails = np.sum(axis.local(coefficients)[:, -LAST:] ** 2, axis=(0, 1))
    return tuple(map(float, _halved(axis.edges, tails > WORST**2 * tails.max())[1:-1]))


def _halved(edges: np.ndarray, coarse: np.ndarray) -> np.ndarray:
    middles = ((edges[1:] + edges[:-1]) / 2)[coarse]
    return np.sort(np.concatenate([edges, middles]))
