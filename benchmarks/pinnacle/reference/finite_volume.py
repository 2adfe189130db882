"""Heat in a medium of two conductivities, by finite volumes in space and exactly in time.

u_t = ∇·(a ∇u) + f(x, y) sin πt on the unit square, u = 0 at the start and on the sides. With the
discrete operator L the solution is Im(e^{iπt} w) - e^{-Lt} Im w, (L + iπ) w = f; the exponential is
an inverse Laplace transform, so that a dozen sparse systems serve all times.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse import csc_matrix, diags_array, eye_array, identity, kron
from scipy.sparse.linalg import splu

from benchmarks.pinnacle.reference.hyperbola import contour
from lcpinn.cache import cached
from lcpinn.threads import blas_threads

FIRST, LAST = 0.01, 0.5  # times between which the transient is transformed; later it is nothing
CONTOUR = contour(FIRST, LAST, 12)
VERSION = 1


class Heat(NamedTuple):
    """Fields of the stationary oscillation (n, n) and of the transient (nodes, n, n)."""

    conductivity: np.ndarray  # (n, n), x first
    oscillation: np.ndarray
    transient: np.ndarray

    def field(self, time: float) -> np.ndarray:
        """u in all cells."""
        late = np.imag(np.exp(1j * np.pi * time) * self.oscillation)
        if time > LAST:
            return late
        start = np.imag(self.oscillation)
        at = lambda time: np.imag(np.tensordot(CONTOUR.kernel(time), self.transient, 1))
        if time >= FIRST:
            return late - at(time)
        return late - start + (start - at(FIRST)) * time / FIRST

    def __call__(
        self, t: np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u and the fluxes -a u_x and -a u_y at points."""
        t, x, y = np.broadcast_arrays(*(np.asarray(v, float) for v in (t, x, y)))
        values = np.empty((3, t.size))
        for time in np.unique(t):
            here = t.ravel() == time
            values[:, here] = self._at(self.field(time), x.ravel()[here], y.ravel()[here])
        return tuple(values.reshape(3, *t.shape))

    def _at(self, u: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        num = len(u)
        centres = (np.arange(num) + 0.5) / num
        walled = np.concatenate([[0.0], centres, [1.0]])
        edges = np.arange(num + 1) / num
        across_x, across_y = transmissibilities(self.conductivity)
        rise = lambda field: np.diff(np.pad(field, ((1, 1), (0, 0))), axis=0)
        flux = lambda field, across: -num * across * rise(field)
        along_x, along_y = flux(u, across_x), flux(u.T, across_y.T).T
        place = np.column_stack([x, y])
        closest = np.clip(place, centres[0], centres[-1])
        interpolate = lambda axes, field, at: RegularGridInterpolator(axes, field)(at)
        return np.stack([
            interpolate((walled, walled), np.pad(u, 1), place),
            interpolate((edges, centres), along_x, np.column_stack([x, closest[:, 1]])),
            interpolate((centres, edges), along_y, np.column_stack([closest[:, 0], y])),
        ])  # fmt: skip


def transmissibilities(conductivity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Harmonic means across faces, (n + 1, n) along x, (n, n + 1) along y; half cells at walls."""

    def across(a: np.ndarray) -> np.ndarray:
        inner = 2 * a[:-1] * a[1:] / (a[:-1] + a[1:])
        return np.concatenate([2 * a[:1], inner, 2 * a[-1:]])

    return across(conductivity), across(conductivity.T).T


def operator(conductivity: np.ndarray) -> csc_matrix:
    """L u = -∇·(a ∇u) in all cells, u = 0 on the walls."""
    num = len(conductivity)
    across_x, across_y = transmissibilities(conductivity)
    step = eye_array(num + 1, num) - eye_array(num + 1, num, k=-1)
    one = identity(num)
    along_x, along_y = kron(step, one), kron(one, step)
    weigh = lambda field: diags_array(field.ravel())
    total = along_x.T @ weigh(across_x) @ along_x + along_y.T @ weigh(across_y) @ along_y
    return csc_matrix(total * num**2)


@lru_cache(maxsize=8)
def _solved(signs: bytes, contrast: float) -> Heat:
    high = np.unpackbits(np.frombuffer(signs, np.uint8)).reshape(256, 256).astype(bool).T
    conductivity = np.where(high, contrast, 1.0)
    compute = lambda: _solve(conductivity)
    arrays = cached("pinnacle-two-media", VERSION, {"contrast": contrast}, compute)
    return Heat(conductivity, arrays["oscillation"], arrays["transient"])


def _solve(conductivity: np.ndarray) -> dict[str, np.ndarray]:
    num = len(conductivity)
    centre = (np.arange(num) + 0.5) / num
    source = 200 * np.outer(np.sin(np.pi * centre), np.sin(5 * np.pi * centre))
    matrix = operator(conductivity)
    shifted = lambda s: splu(csc_matrix(matrix + s * identity(num**2)))
    with blas_threads():
        oscillation = shifted(1j * np.pi).solve(source.ravel().astype(complex))
        start = np.imag(oscillation).astype(complex)
        transient = [shifted(s).solve(start).reshape(num, num) for s in CONTOUR.points]
    return {"oscillation": oscillation.reshape(num, num), "transient": np.stack(transient)}


def two_media(signs: np.ndarray, contrast: float) -> Heat:
    """The solution where the conductivity is `contrast` in some cells (rows along y), else 1."""
    return _solved(np.packbits(signs).tobytes(), float(contrast))
