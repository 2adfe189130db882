"""Initial-value problems of ordinary equations, window by window.

Over many periods the solution of a nonlinear equation is far from any first guess, and Newton's
method does not find it; a stiff one takes thousands of functions. In a short window neither is so:
collocation by a polynomial is an implicit Runge-Kutta method of high order (Hairer and Wanner,
Solving Ordinary Differential Equations II, IV.5), and the Cauchy data at the end of one window
begin the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lcpinn.spectral.basis import Axis, TensorBasis
from lcpinn.spectral.collocation import ScatteredPoints
from lcpinn.spectral.linearisation import Linearisation, about_zero
from lcpinn.spectral.march import MarchDirection, faces_of
from lcpinn.spectral.newton import NotConverged

FUNCTIONS = 16  # of every output in a window
FIRST, SHORTEST = 0.05, 1e-7  # lengths of windows, as shares of the interval
DECAYED = 1e-7  # the share of an output that its last coefficients may have
LONGER, EASY = 1.6, 1e-3  # the next window, where the last coefficients have so much less
SMALL = 1e-9  # an output beside all others, below which it may be rounding
STEPS, CONVERGED = 12, 1e-10
DAMPINGS = (1.0, 0.5, 0.25, 0.1)
MOST = 4000  # windows


@dataclass(frozen=True)
class Window:
    """A polynomial for every output, coefficients (outputs, functions), between two times."""

    basis: TensorBasis
    coefficients: np.ndarray

    @property
    def tail(self) -> float:
        """The largest share of an output's last coefficients in it."""
        norms = np.linalg.norm(self.coefficients, axis=1)
        tails = [self.basis.tails(c[None])[0] for c in self.coefficients]
        least = SMALL * np.linalg.norm(norms) + np.finfo(float).tiny
        return float(np.max(norms * tails / np.maximum(norms, least)))

    def derivatives(self, time: float, orders: tuple[int, ...]) -> list[np.ndarray]:
        """The Cauchy data at one time: of every output its derivatives below that order."""
        axis = self.basis.axes[0]
        tables = [axis.values(np.array([time]), k)[0] for k in range(max(orders))]
        pairs = zip(self.coefficients, orders, strict=True)
        return [np.array([tables[k] @ c for k in range(order)]) for c, order in pairs]


@dataclass(frozen=True)
class Windows:
    """The solution of an initial-value problem: values (n, outputs) at times (n,)."""

    parts: tuple[Window, ...]
    ends: np.ndarray  # of each, in the order of the parts
    forwards: bool

    @property
    def num_functions(self) -> int:
        return sum(window.basis.size for window in self.parts)

    def __call__(self, times: np.ndarray) -> np.ndarray:
        sign = 1 if self.forwards else -1
        which = np.searchsorted(sign * self.ends[:-1], sign * times, side="left")
        values = np.empty((len(times), len(self.parts[0].coefficients)))
        for i in np.unique(which):
            some = which == i
            window = self.parts[i]
            table = window.basis.axes[0].values(times[some], 0)
            values[some] = table @ window.coefficients.T
        return values


def in_windows(at: Linearisation, direction: MarchDirection, decayed: float = DECAYED) -> Windows:
    """The solution from one end of its coordinate to the other; `NotConverged` if it gets stuck.

    In every window its coefficients have `decayed` to that share.
    """
    at = about_zero(at.terms, at.parameters.tolist())
    whole = direction.end - direction.start
    time, length, parts, ends = direction.start, FIRST * whole, [], []
    data: list[np.ndarray] | None = None
    while time != direction.end:
        end = time + length
        if abs(direction.end - end) < 0.1 * abs(length) or (direction.end - end) / whole < 0:
            end = direction.end
        window = _solved(at, direction, time, end, data)
        if window is None or window.tail > decayed:
            length = (end - time) / 2
            if abs(length) < SHORTEST * abs(whole) or len(parts) >= MOST:
                raise NotConverged
            continue
        data = window.derivatives(end, direction.orders)
        if window.tail < EASY * decayed:
            length = LONGER * (end - time)
        parts.append(window)
        ends.append(end)
        time = end
    return Windows(tuple(parts), np.array(ends), whole > 0)


def _solved(
    at: Linearisation, direction: MarchDirection, start: float, end: float,
    data: list[np.ndarray] | None,
) -> Window | None:  # fmt: skip
    """The polynomials of one window, if Newton's method finds them.

    Rows are equilibrated, by their norms at the start, so that a step can be told to be one down.
    """
    basis = TensorBasis((Axis(min(start, end), max(start, end), False, FUNCTIONS),))
    coefficients = np.zeros((len(direction.orders), FUNCTIONS))
    if data is not None:
        coefficients[:, 0] = [values[0] if len(values) else 0.0 for values in data]
    matrix, residual = _rows(at, direction, basis, start, data, coefficients)
    norms = np.linalg.norm(matrix, axis=1)
    scale = 1 / np.where(norms > 0, norms, 1.0)
    for _ in range(STEPS):
        if not np.isfinite(residual).all() or not np.isfinite(matrix).all():
            return None
        step = np.linalg.lstsq(scale[:, None] * matrix, -scale * residual, rcond=None)[0]
        step, size = step.reshape(coefficients.shape), np.linalg.norm(scale * residual)
        for damping in DAMPINGS:
            moved = coefficients + damping * step
            matrix, residual = _rows(at, direction, basis, start, data, moved)
            if np.linalg.norm(scale * residual) < size or np.linalg.norm(step) <= _small(moved):
                break
        else:
            return None
        coefficients = moved
        if np.linalg.norm(step) <= _small(coefficients):
            return Window(basis, coefficients)
    return None


def _small(coefficients: np.ndarray) -> float:
    return CONVERGED * float(np.linalg.norm(coefficients)) + np.finfo(float).tiny


def _rows(
    at: Linearisation, direction: MarchDirection, basis: TensorBasis, start: float,
    data: list[np.ndarray] | None, coefficients: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The equations at Chebyshev points, and what the window begins with: the page's conditions, or
    the Cauchy data of the window before."""
    nodes, first = basis.axes[0].nodes()[:, None], np.array([[start]])
    matrices, residuals = [], []
    for term in at.terms.terms:
        begins = any(face.name == at.family.domain.names[0] for face in faces_of(term))
        if begins and data is not None:
            continue
        orders = at.family.orders([term])
        points = ScatteredPoints(basis, first if begins else nodes, orders, term)
        series = points.series(coefficients)
        residual, slopes = at.slopes(term, orders, series, points.points)
        matrices.append(points.matrix(slopes))
        residuals.append(residual.ravel())
    for output, values in enumerate(data or ()):
        for order, value in enumerate(values):
            row = np.zeros_like(coefficients)
            row[output] = basis.axes[0].values(first[0], order)[0]
            matrices.append(row.reshape(1, -1))
            residuals.append(np.array([row.ravel() @ coefficients.ravel() - value]))
    return np.concatenate(matrices), np.concatenate(residuals)
