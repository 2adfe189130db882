"""Kuramoto-Sivashinsky, Gray-Scott and Heat 2d-LT, by Fourier and sine series and ETDRK4."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.fft import irfft, irfft2, rfft, rfft2
from scipy import fft
from scipy.interpolate import RectBivariateSpline

from benchmarks.pinnacle.reference.exponential import integrate
from lcpinn.cache import cached

VERSION = 1
KS_TIMES = np.linspace(0, 0.4, 401)
GRAY_SCOTT_TIMES = np.arange(0, 201, 10.0)
LONG_TIMES = np.linspace(0, 8, 41)
Field = Callable[..., np.ndarray]


# -- Kuramoto-Sivashinsky ----------------------------------------------------------------------


@lru_cache(maxsize=8)
def kuramoto_sivashinsky(d: float) -> RectBivariateSpline:
    """u_t + 6.25 u u_x + 100/16² u_xx + d 100/16⁴ u_xxxx = 0 on [0, 2π]: call `.ev(t, x)`."""
    settings = {"d": float(d)}
    values = cached("pinnacle-ks", VERSION, settings, lambda: {"u": _ks(float(d))})["u"]
    x = 2 * np.pi * np.arange(values.shape[1] + 1) / values.shape[1]
    return RectBivariateSpline(KS_TIMES, x, np.column_stack([values, values[:, 0]]), kx=5, ky=5)


def _ks(d: float, num: int = 512) -> np.ndarray:
    x = 2 * np.pi * np.arange(num) / num
    k = np.arange(num // 2 + 1)
    linear = 100 / 16**2 * k**2 - d * 100 / 16**4 * k**4.0
    slope = -6.25 / 2 * 1j * k * (k < num / 3)  # the product's aliases are left out
    product = lambda t, u: slope * rfft(irfft(u) ** 2)
    start = rfft(np.cos(x) * (1 + np.sin(x)))
    return irfft(integrate(linear, product, start, KS_TIMES, 5e-5))


# -- Gray-Scott --------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def gray_scott(b: float) -> np.ndarray:
    """u and v at `GRAY_SCOTT_TIMES` on a periodic grid of [-1, 1)², (times, 2, n, n)."""
    compute = lambda: {"u": _gray_scott(float(b))}
    return cached("pinnacle-gray-scott", VERSION, {"b": float(b)}, compute)["u"]


def _gray_scott(b: float, num: int = 256) -> np.ndarray:
    grid = -1 + 2 * np.arange(num) / num
    x, y = np.meshgrid(grid, grid, indexing="ij")
    bump = lambda s, r: np.exp(-80 * ((x + s) ** 2 + (y + r) ** 2))
    k = np.pi * np.fft.fftfreq(num, 1 / num)
    square = k[:, None] ** 2 + k[None, : num // 2 + 1] ** 2
    linear = np.stack([-1e-5 * square - b, -5e-6 * square - 0.1])

    def reaction(_: float, state: np.ndarray) -> np.ndarray:
        u, v = irfft2(state)
        return rfft2(np.stack([b - u * v**2, u * v**2]))

    start = rfft2(np.stack([1 - bump(0.05, 0.02), bump(-0.05, -0.02)]))
    return irfft2(integrate(linear, reaction, start, GRAY_SCOTT_TIMES, 0.5))


# -- Heat with a nonlinear source, for long ------------------------------------------------------


@lru_cache(maxsize=4)
def long_heat(k: float) -> np.ndarray:
    """u at `LONG_TIMES` on a grid of the unit square with its sides, (times, n + 1, n + 1)."""
    values = cached("pinnacle-long-heat", VERSION, {"k": float(k)}, lambda: {"u": _long(float(k))})
    return np.pad(values["u"], ((0, 0), (1, 1), (1, 1)))


def _long(k: float, num: int = 192) -> np.ndarray:
    grid = np.arange(1, num) / num
    x, y = np.meshgrid(grid, grid, indexing="ij")
    modes = np.pi * np.arange(1, num)
    linear = -0.001 * (modes[:, None] ** 2 + modes**2)
    to_sines = lambda values: np.asarray(fft.dstn(values, 1))
    from_sines = lambda state: np.asarray(fft.idstn(state, 1))
    pattern = 5 * np.sin(4 * np.pi * x) * np.sin(2 * np.pi * y)

    def source(t: float, state: np.ndarray) -> np.ndarray:
        u = from_sines(state)
        return to_sines((1 + 2 * np.sin(np.pi * t / 4)) * pattern * np.sin(k * u**2))

    start = to_sines(np.sin(4 * np.pi * x) * np.sin(3 * np.pi * y))
    states = integrate(linear, source, start, LONG_TIMES, 0.01)
    return np.stack([from_sines(state) for state in states])


# -- Values between the grid's points ------------------------------------------------------------


def at_levels(
    levels: np.ndarray, fields: np.ndarray, axes: tuple[np.ndarray, np.ndarray],
    t: np.ndarray, x: np.ndarray, y: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Fields (times, n, m) at points whose times are among the levels, by splines in space."""
    t, x, y = (np.asarray(v, float).ravel() for v in np.broadcast_arrays(t, x, y))
    nearest = np.argmin(np.abs(t[:, None] - levels), axis=1)
    if np.any(np.abs(levels[nearest] - t) > 1e-9):
        raise ValueError("this reference is known at its own times alone")
    values = np.empty(len(t))
    for level in np.unique(nearest):
        here = nearest == level
        values[here] = RectBivariateSpline(*axes, fields[level]).ev(x[here], y[here])
    return values
