"""Buckley-Leverett: an accurate reference, the paper's scheme, and the inviscid limit.

s_t + f(s)_x = ε s_xx,  f(s) = s² / (s² + M (1 - s)²),  s(t, 0) = 1,  s(0, x) = 0,  free outflow.

``buckley_leverett`` is the reference. ``implicit`` solves the same problem with other coordinates,
another integrator and another boundary, and exists to check it. ``lax_friedrichs`` is the
paper's own reference as its text describes it, about one per cent away from both, ``rusanov`` as
its authors' code has it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from lcpinn.cache import cached

Array = NDArray[np.float64]

MOBILITY = 2.0
VISCOSITY = 1e-2
FINAL_TIME = 0.5
SNAPSHOTS = (0.1, 0.2, 0.3, 0.4, 0.5)


def flux(s: Array, mobility: float = MOBILITY) -> Array:
    """Fractional flow f(s) = s² / (s² + M (1 - s)²)."""
    return s**2 / (s**2 + mobility * (1.0 - s) ** 2)


def flux_slope(s: Array, mobility: float = MOBILITY) -> Array:
    """f'(s) = 2 M s (1 - s) / (s² + M (1 - s)²)²."""
    return 2.0 * mobility * s * (1.0 - s) / (s**2 + mobility * (1.0 - s) ** 2) ** 2


def welge(mobility: float = MOBILITY) -> tuple[float, float]:
    """Saturation s* behind the inviscid front, and the speed c of the front.

    The chord from (0, 0) touches the flux curve: f(s*) / s* = f'(s*) = c, s* = √(M / (1 + M)).
    Reference: Welge, Trans. AIME 195 (1952) 91-98.
    """
    top = float(np.sqrt(mobility / (1.0 + mobility)))
    return top, float(flux(np.array(top), mobility)) / top


def inviscid(t: ArrayLike, x: ArrayLike, mobility: float = MOBILITY) -> Array:
    """Entropy solution for ε = 0: a rarefaction f'(s) = x/t up to the front at x = ct, then 0.

    Shapes: t and x broadcast. At the front itself the value ahead of it (0) is returned.
    Reference: Buckley & Leverett, Trans. AIME 146 (1942) 107-116.
    """
    times, points = np.broadcast_arrays(np.asarray(t, float), np.asarray(x, float))
    top, speed = welge(mobility)
    behind = points < speed * times
    ray = np.divide(points, times, out=np.zeros(times.shape), where=behind)
    low, high = np.full(times.shape, top), np.ones(times.shape)
    for _ in range(54):  # f' falls on [s*, 1]; halving ends at neighbouring floats
        middle = 0.5 * (low + high)
        right = flux_slope(middle, mobility) > ray
        low, high = np.where(right, middle, low), np.where(right, high, middle)
    return np.where(points <= 0.0, 1.0, np.where(behind, high, 0.0))


# The reference: similarity coordinates, collocation in time, extrapolation in space.


def buckley_leverett(
    t: ArrayLike, x: ArrayLike, mobility: float = MOBILITY, viscosity: float = VISCOSITY
) -> Array:
    """Viscous Buckley-Leverett saturation at any 0 <= t <= 0.5 and x >= 0.

    Shapes: t and x broadcast. Solved once (seconds), then read from the cache.

    The jump at the corner (0, 0) opens as erfc(x / √(4εt)). In τ = √t and η = x / X(τ), where
    X = cτ² + 10 √ε τ runs ahead of the front, the solution is smooth down to τ = 0, so that the
    error is as small at early times as late. For M = 2, ε = 1e-2 it is about 1e-8 at every t and
    x (refinement), and ``implicit`` confirms 1e-6 at the snapshots. It grows as ε falls, and an
    estimate above 1e-6 (ε < 0.006) is a warning. The domain is the half line; the solution
    is below 1e-15 at x = 1, so that an outflow boundary there changes nothing.
    """
    times, points = np.broadcast_arrays(np.asarray(t, float), np.asarray(x, float))
    if times.size and not (times.min() >= 0.0 and times.max() <= FINAL_TIME):
        raise ValueError(f"the reference covers 0 <= t <= {FINAL_TIME}")
    if points.size and not points.min() >= 0.0:
        raise ValueError("the reference covers x >= 0")
    if not (mobility > 0.0 and viscosity > 0.0):
        raise ValueError("mobility and viscosity must be positive; see inviscid for viscosity 0")
    grid, spline = _spline(float(mobility), float(viscosity))
    tau = np.sqrt(times)
    extent = tau * grid.extent_over_tau(tau)
    inside = points < extent
    eta = np.divide(points, extent, out=np.zeros(times.shape), where=inside)
    # At t = 0 there is no inside: 1 at the boundary, 0 elsewhere.
    return np.where(inside, spline.ev(tau, eta), np.where(points == 0.0, 1.0, 0.0))


@lru_cache(maxsize=8)
def _spline(
    mobility: float, viscosity: float
) -> tuple[MovingGrid, scipy.interpolate.RectBivariateSpline]:
    """Quintic spline in (τ, η) through the cached nodal values."""
    resolution = {"num_cells": 1200, "num_steps": 200, "num_stages": 5}
    table = cached(
        "buckley-leverett",
        1,
        {"mobility": mobility, "viscosity": viscosity, **resolution},
        lambda: tabulate(mobility, viscosity, **resolution),
    )
    if table["estimate"] > 1e-6:
        warnings.warn(
            f"the Buckley-Leverett reference at viscosity {viscosity:g} is only accurate to "
            f"about {float(table['estimate']):.0e}",
            RuntimeWarning,
            stacklevel=3,
        )
    spline = scipy.interpolate.RectBivariateSpline(
        table["tau"], table["eta"], table["saturation"], kx=5, ky=5
    )
    return MovingGrid(resolution["num_cells"], mobility, viscosity), spline


def tabulate(
    mobility: float, viscosity: float, num_cells: int, num_steps: int, num_stages: int
) -> dict[str, Array]:
    """Nodal values in (τ, η), extrapolated from num_cells, 2 num_cells and 4 num_cells.

    On a smooth solution the error of central differences is a series in h², and two Richardson
    steps leave h⁶. Returns tau (T,), eta (E,), saturation (T, E), and ``estimate``, the larger of
    the last correction (an upper estimate of the error at the nodes) and the error between them.
    """
    # Eight steps beyond the end: a spline is less accurate in its last intervals.
    tau = np.sqrt(FINAL_TIME) / num_steps * np.arange(num_steps + 9)
    coarse, medium, fine = (
        march(MovingGrid(factor * num_cells, mobility, viscosity), tau, num_stages)[:, ::factor]
        for factor in (1, 2, 4)
    )
    low = (4.0 * medium - coarse) / 3.0
    high = (4.0 * fine - medium) / 3.0
    correction = (high - low) / 15.0
    eta, saturation = np.linspace(0.0, 1.0, num_cells + 1), high + correction
    # Between nodes: a spline through every other one misses the rest by 2⁶ times as much.
    sparse = scipy.interpolate.RectBivariateSpline(
        tau[::2], eta[::2], saturation[::2, ::2], kx=5, ky=5
    )
    odd = slice(1, num_steps + 1, 2)
    between = (sparse(tau[odd], eta[1::2]) - saturation[odd, 1::2]) / 64.0
    estimate = np.maximum(np.abs(correction).max(), np.abs(between).max())
    return {"tau": tau, "eta": eta, "saturation": saturation, "estimate": estimate}


@dataclass(frozen=True)
class MovingGrid:
    """Central differences on the nodes η = 0 .. 1 of a grid that opens with the solution.

    With x = η X, X = τ b(τ), b = 10 √ε + cτ, the equation becomes
    τ S_τ = η (1 + cτ/b) S_η - (2τ/b) f(S)_η + (2ε/b²) S_ηη,  S(τ, 0) = 1,  S(τ, 1) = 0.
    Since f(s) <= cs, the tail is below that of linear transport with speed c, erfc(5) at η = 1.
    """

    num_cells: int
    mobility: float
    viscosity: float

    def extent_over_tau(self, tau: ArrayLike) -> Array:
        """b(τ) = X(τ) / τ."""
        return 10.0 * np.sqrt(self.viscosity) + welge(self.mobility)[1] * np.asarray(tau)

    def rate(self, s: Array, tau: Array) -> Array:
        """Right-hand side at the inner nodes: s (k, n), tau (k,) -> (k, n)."""
        stretch, transport, diffusion = self._coefficients(tau)
        full = np.pad(s, ((0, 0), (1, 1)), constant_values=((0, 0), (1.0, 0.0)))
        f = flux(full, self.mobility)
        left, right = full[:, :-2], full[:, 2:]
        return (
            stretch * (right - left)
            - transport * (f[:, 2:] - f[:, :-2])
            + diffusion * (right - 2.0 * s + left)
        )

    def jacobian(self, s: Array, tau: Array) -> tuple[Array, Array, Array]:
        """Sub-, main and superdiagonal of d rate / d s, shapes (k, n - 1), (k, n), (k, n - 1)."""
        stretch, transport, diffusion = self._coefficients(tau)
        slope = transport * flux_slope(s, self.mobility)
        lower = diffusion - stretch[:, 1:] + slope[:, :-1]
        upper = diffusion + stretch[:, :-1] - slope[:, 1:]
        return lower, np.broadcast_to(-2.0 * diffusion, s.shape), upper

    def _coefficients(self, tau: Array) -> tuple[Array, Array, Array]:
        """Factors of the differences S_η, f_η and S_ηη; the first has shape (k, n)."""
        h = 1.0 / self.num_cells
        eta = h * np.arange(1, self.num_cells)
        tau = np.asarray(tau)[:, None]
        b = self.extent_over_tau(tau)
        speed = welge(self.mobility)[1]
        stretch = (1.0 + speed * tau / b) * eta / (2.0 * h)
        return stretch, tau / (b * h), 2.0 * self.viscosity / (b * h) ** 2


def march(grid: MovingGrid, tau: Array, num_stages: int) -> Array:
    """Radau IIA collocation over equal steps from τ = 0; nodal values (T, num_cells + 1).

    The factor τ in front of S_τ vanishes at the start, where the equation reduces to the linear
    boundary-value problem of the error function; no stage lies there, so that the first step is
    like any other.
    """
    start, zero = np.zeros((1, grid.num_cells - 1)), np.zeros(1)
    bands = np.zeros((3, grid.num_cells - 1))
    bands[2, :-1], bands[1], bands[0, 1:] = (band[0] for band in grid.jacobian(start, zero))
    state = scipy.linalg.solve_banded((1, 1), bands, -grid.rate(start, zero)[0])
    states = [state]
    nodes, derivative = radau(num_stages)
    step = tau[1] - tau[0]
    for now in tau[:-1]:
        state = _collocate(grid, state, now + step * nodes, derivative / step)
        states.append(state)
    return np.pad(states, ((0, 0), (1, 1)), constant_values=((0, 0), (1.0, 0.0)))


def radau(num_stages: int) -> tuple[Array, Array]:
    """Radau IIA nodes on (0, 1], and the matrix that differentiates polynomials zero at 0.

    The nodes are the roots of P_k - P_{k-1}, shifted; the matrix is the inverse of the tableau.
    Reference: Hairer & Wanner, Solving Ordinary Differential Equations II, section IV.5.
    """
    # The roots are real; newer versions of NumPy return them as complex numbers all the same.
    roots = np.sort(legendre.legroots([0.0] * (num_stages - 1) + [-1.0, 1.0]).real)
    nodes = 0.5 + 0.5 * roots
    powers = np.arange(1, num_stages + 1)
    values = nodes[:, None] ** powers
    slopes = powers * nodes[:, None] ** (powers - 1)
    return nodes, slopes @ np.linalg.inv(values)


def _collocate(grid: MovingGrid, state: Array, tau: Array, derivative: Array) -> Array:
    """One step: Newton's method on all stages Z at once, τ_i Σ_k D_ik Z_k = rate(S + Z_i, τ_i).

    With the stages of a node stored together the matrix has as many diagonals on each side as
    there are stages: neighbours couple within a stage, stages within a node.
    """
    num_stages, num_nodes = len(tau), len(state)
    coupling = tau[:, None] * derivative
    stages = np.zeros((num_stages, num_nodes))
    for _ in range(20):
        residual = grid.rate(state + stages, tau) - coupling @ stages
        lower, main, upper = grid.jacobian(state + stages, tau)
        bands = np.zeros((2 * num_stages + 1, num_nodes, num_stages))
        bands[0, 1:], bands[-1, :-1] = -upper.T, -lower.T
        bands[num_stages] = -main.T
        for row in range(num_stages):
            for column in range(num_stages):
                bands[num_stages + row - column, :, column] += coupling[row, column]
        matrix = bands.reshape(2 * num_stages + 1, -1)
        change = scipy.linalg.solve_banded((num_stages, num_stages), matrix, residual.T.ravel())
        stages += change.reshape(num_nodes, num_stages).T
        if np.abs(change).max() < 1e-11:
            return state + stages[-1]
    raise RuntimeError(f"Newton's method did not converge at t = {tau[-1] ** 2:.3g}")


# The cross-check: a fixed grid, straight from the equation.


def implicit(
    times: ArrayLike = SNAPSHOTS,
    num_cells: int = 3200,
    mobility: float = MOBILITY,
    viscosity: float = VISCOSITY,
    extrapolate: bool = True,
    rtol: float = 1e-10,
) -> tuple[Array, Array]:
    """Method of lines on [0, 1]: central differences, BDF, Richardson with half as many cells.

    Conservative in the nodes x_j = jh, with s_0 = 1 and no gradient at x = 1. One grid is second
    order (7.5e-5 relative at 1600 cells). The jump at (0, 0) adds a term in h³, so that a pair is
    third order: 1.6e-6 relative at 800 and 1600 cells, 2e-7 at 1600 and 3200. Times at which the
    layer √(4εt) is not wide against h are out of reach; ``buckley_leverett`` has no such limit.

    Shapes: times (T,), increasing -> x (X,), s (T, X), with X = num_cells + 1, or with half of
    the cells if extrapolated.
    """
    if not extrapolate:
        x = np.linspace(0.0, 1.0, num_cells + 1)
        return x, _method_of_lines(times, num_cells, mobility, viscosity, rtol)
    if num_cells % 2:
        raise ValueError(f"num_cells = {num_cells} cannot be halved for the extrapolation")
    x, coarse = implicit(times, num_cells // 2, mobility, viscosity, False, rtol)
    fine = _method_of_lines(times, num_cells, mobility, viscosity, rtol)[:, ::2]
    return x, (4.0 * fine - coarse) / 3.0


def _method_of_lines(
    times: ArrayLike, num_cells: int, mobility: float, viscosity: float, rtol: float
) -> Array:
    """Nodal values (T, num_cells + 1) of one grid."""
    h = 1.0 / num_cells
    diffusion = viscosity / h**2

    def rate(_: float, s: Array) -> Array:
        full = np.concatenate([[1.0], s, [s[-2]]])  # the mirrored last node: no gradient
        f = flux(full, mobility)
        return (f[:-2] - f[2:]) / (2.0 * h) + diffusion * (full[2:] - 2.0 * s + full[:-2])

    def jacobian(_: float, s: Array) -> scipy.sparse.csc_array:
        slope = flux_slope(s, mobility) / (2.0 * h)
        lower, upper = diffusion + slope[:-1], diffusion - slope[1:]
        lower[-1] = 2.0 * diffusion
        main = np.full(num_cells, -2.0 * diffusion)
        row = np.arange(num_cells)
        rows = np.concatenate([row[1:], row, row[:-1]])
        columns = np.concatenate([row[:-1], row, row[1:]])
        return scipy.sparse.csc_array((np.concatenate([lower, main, upper]), (rows, columns)))

    wanted = _increasing(times)
    result = scipy.integrate.solve_ivp(
        rate,
        (0.0, wanted[-1]),
        np.zeros(num_cells),
        "BDF",
        wanted,
        jac=jacobian,
        rtol=rtol,
        atol=rtol / 10,
    )
    if not result.success:
        raise RuntimeError(f"BDF stopped: {result.message}")
    return np.pad(result.y.T, ((0, 0), (1, 0)), constant_values=1.0)


def _increasing(times: ArrayLike) -> Array:
    """Output times as an array (T,), checked."""
    wanted = np.atleast_1d(np.asarray(times, float))
    if not (wanted[0] >= 0.0 and np.all(np.diff(wanted) > 0.0)):
        raise ValueError("times must be non-negative and increasing")
    return wanted


# The paper's reference.


def lax_friedrichs(
    times: ArrayLike = SNAPSHOTS,
    num_cells: int = 1000,
    mobility: float = MOBILITY,
    viscosity: float = VISCOSITY,
    local: bool = False,
    cfl: float = 0.9,
) -> tuple[Array, Array]:
    """The paper's scheme: explicit Lax-Friedrichs flux and centred viscosity.

    F = (f(a) + f(b)) / 2 - α (b - a) / 2 - ε (b - a) / h between neighbours a and b. α is the
    largest f' over [0, 1] (global), or at a and b (``local``, Rusanov). Its αh/2 adds a tenth to
    ε at 1000 cells: first order, and the reason for the distance to ``buckley_leverett``.

    Shapes: times (T,), increasing -> nodes x (num_cells + 1,), s (T, num_cells + 1).
    """
    h = 1.0 / num_cells
    fastest = float(flux_slope(np.linspace(0.0, 1.0, 10001), mobility).max())
    limit = cfl / (fastest / h + 2.0 * viscosity / h**2)
    s = np.zeros(num_cells + 1)
    s[0] = 1.0
    snapshots = []
    for duration in np.diff(_increasing(times), prepend=0.0):
        num_steps = int(np.ceil(duration / limit))
        for _ in range(num_steps):
            f, speed = flux(s, mobility), np.float64(fastest)
            if local:
                slope = flux_slope(s, mobility)
                speed = np.maximum(slope[:-1], slope[1:])
            face = 0.5 * (f[:-1] + f[1:]) - (0.5 * speed + viscosity / h) * np.diff(s)
            s[1:-1] -= duration / num_steps / h * np.diff(face)
            s[-1] = s[-2]  # free outflow
        snapshots.append(s.copy())
    return np.linspace(0.0, 1.0, num_cells + 1), np.array(snapshots)


@lru_cache(maxsize=4)
def rusanov(
    times: tuple[float, ...] = SNAPSHOTS,
    num_cells: int = 1000,
    mobility: float = MOBILITY,
    viscosity: float = VISCOSITY,
    cfl: float = 0.4,
) -> tuple[Array, Array]:
    """The reference of the paper's published code: local Lax-Friedrichs on cells, forward Euler.

    A ghost cell of saturation one lies left of the inlet, the last cell is copied at the outlet,
    so that the inlet is half a cell outside of the first centre.

    Shapes: times (T,), increasing -> centres x (num_cells,), s (T, num_cells), not to be
    written to.
    """
    h = 1.0 / num_cells
    fastest = float(flux_slope(np.linspace(0.0, 1.0, 10001), mobility).max())
    limit = cfl * min(h / fastest, h**2 / (2.0 * viscosity) if viscosity else np.inf)
    s = np.zeros(num_cells)
    snapshots = []
    for duration in np.diff(_increasing(times), prepend=0.0):
        num_steps = int(np.ceil(duration / limit))
        for _ in range(num_steps):
            full = np.concatenate([[1.0], s, s[-1:]])
            f, slope = flux(full, mobility), flux_slope(full, mobility)
            speed = np.maximum(slope[:-1], slope[1:])
            face = 0.5 * (f[:-1] + f[1:]) - (0.5 * speed + viscosity / h) * np.diff(full)
            s = s - duration / num_steps / h * np.diff(face)
        snapshots.append(s)
    return np.linspace(0.5 * h, 1.0 - 0.5 * h, num_cells), np.array(snapshots)


def distance_between_references(num_cells: int = 1000) -> dict[str, float]:
    """How far the paper's reference is from ours: relative L2 over t = 0.1 .. 0.5.

    Returns the distances for the ``global`` and the ``local`` speed. An error against the
    paper's reference says nothing below them.
    """
    distances = {}
    for name, local in (("global", False), ("local", True)):
        x, values = lax_friedrichs(num_cells=num_cells, local=local)
        exact = buckley_leverett(np.array(SNAPSHOTS)[:, None], x)
        distances[name] = float(np.linalg.norm(values - exact) / np.linalg.norm(exact))
    return distances
