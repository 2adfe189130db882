"""Flow over a step by finite differences on a staggered grid.

u·∇u + ∇p = ν Δu, ∇·u = 0 in the channel [0, 4] x [0, 2] without its upper left quarter. Inlet
u = 4y(1-y), v = 0; outlet v = 0, p = 0; walls u = v = 0. Velocities are on the faces of square
cells and the pressure in their centres (Harlow and Welch 1965), convection is in conservation form
with central differences, values beyond a wall are reflected, and Newton's method solves for all of
it at once, at smaller and smaller viscosities. Two grids are extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse import block_array, coo_array, csc_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from lcpinn.cache import cached

CELLS = (32, 48)  # along a unit of length, of the two grids
EASY = 0.1  # a viscosity at which Newton's method may begin at rest
RATIO = 1.8  # between the viscosities on the way
COARSE = 24  # cells up to which the viscosity is lowered step by step
STEPS, SETTLED = 20, 1e-9
VERSION = 1


class Flow(NamedTuple):
    """u on vertical faces (4n + 1, 2n), v on horizontal ones (4n, 2n + 1), p in cells (4n, 2n)."""

    u: np.ndarray
    v: np.ndarray
    p: np.ndarray

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u, v and p at points."""
        size = 1 / (self.u.shape[1] // 2)
        faces_x, faces_y = size * np.arange(len(self.u)), size * np.arange(self.v.shape[1])
        middle_x, middle_y = faces_x[:-1] + size / 2, faces_y[:-1] + size / 2
        walled_x, walled_y = (np.concatenate([[f[0]], m, [f[-1]]])
                              for f, m in ((faces_x, middle_x), (faces_y, middle_y)))  # fmt: skip
        at = np.stack([np.asarray(x, float), np.asarray(y, float)], axis=-1)
        u, v, p = _continued(*self)
        u, v = np.pad(u, ((0, 0), (1, 1))), np.pad(v, ((1, 1), (0, 0)))
        p = np.pad(p, 1, mode="edge")
        p[-1] = 0.0
        grids = ((faces_x, walled_y), (walled_x, faces_y), (walled_x, walled_y))
        interpolate = lambda axes, field: RegularGridInterpolator(axes, field)(at)
        return tuple(interpolate(axes, f) for axes, f in zip(grids, (u, v, p), strict=True))


def _continued(*fields: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The fields with values just inside of the block, for interpolation at its walls: velocities
    reflected, so that they vanish there, and the pressure of the next cell."""
    u, v, p = (field.copy() for field in fields)
    length, height = (num // 2 for num in p.shape)
    u[:length, height] = -u[:length, height - 1]
    v[length - 1, height + 1 :] = -v[length, height + 1 :]
    p[:length, height] = p[:length, height - 1]
    p[length - 1, height:] = p[length, height:]
    return u, v, p


def step(nu: float) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]:
    """u, v and p at points, for one viscosity: of two grids, extrapolated.

    The corner that points inwards makes the scheme one of first order, and cleanly so.
    """
    coarse, fine = (_flow(float(nu), cells) for cells in CELLS)
    share = CELLS[0] / (CELLS[1] - CELLS[0])

    def flow(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        pairs = zip(coarse(x, y), fine(x, y), strict=True)
        return tuple(f + share * (f - c) for c, f in pairs)

    return flow


@lru_cache(maxsize=8)
def _flow(nu: float, cells: int) -> Flow:
    settings = {"nu": nu, "cells": cells}
    return Flow(**cached("pinnacle-step", VERSION, settings, lambda: _solve(nu, cells)))


def _solve(nu: float, cells: int) -> dict[str, np.ndarray]:
    system = _System(cells)
    if cells > COARSE:  # from the flow on a coarser grid a few steps of Newton's method suffice
        return system.on_grids(system.newton(system.sampled(_flow(nu, COARSE)), nu))
    num = max(1, round(np.log(EASY / nu) / np.log(RATIO)))
    fields = np.zeros(system.size)
    for viscosity in np.geomspace(max(EASY, nu), nu, num + 1):
        fields = system.newton(fields, float(viscosity))
    return system.on_grids(fields)


# -- Affine functions of the unknowns --------------------------------------------------------------


class Affine(NamedTuple):
    """matrix @ z + constant."""

    matrix: csr_array
    constant: np.ndarray

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return self.matrix @ z + self.constant

    def plus(self, other: Affine, factor: float = 1.0) -> Affine:
        return Affine(self.matrix + factor * other.matrix, self.constant + factor * other.constant)

    def times(self, factor: float) -> Affine:
        return Affine(self.matrix * factor, self.constant * factor)


def _mean(first: Affine, second: Affine) -> Affine:
    return first.plus(second).times(0.5)


class _System:
    """The discrete equations: linear parts, and products of two affine functions."""

    def __init__(self, cells: int) -> None:
        self.cells, self.h = cells, 1 / cells
        self.length, self.height = 4 * cells, 2 * cells
        i, j = np.indices((self.length, self.height))
        self.fluid = ~((i < 2 * cells) & (j >= cells))
        self.faces_u = np.zeros((self.length + 1, self.height), bool)
        self.faces_u[1:-1] = self.fluid[1:] & self.fluid[:-1]
        self.faces_u[-1] = True
        self.faces_v = np.zeros((self.length, self.height + 1), bool)
        self.faces_v[:, 1:-1] = self.fluid[:, 1:] & self.fluid[:, :-1]
        sizes = [int(mask.sum()) for mask in (self.faces_u, self.faces_v, self.fluid)]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        self.size, self.ends = int(begins[-1]), begins
        self.numbers = []
        for mask, begin in zip((self.faces_u, self.faces_v, self.fluid), begins, strict=False):
            numbers = np.full(mask.shape, -1)
            numbers[mask] = begin + np.arange(mask.sum())
            self.numbers.append(numbers)
        self._linear_parts()

    def _affine(self, numbers: np.ndarray, sign: np.ndarray, constant: np.ndarray) -> Affine:
        rows = np.flatnonzero(numbers >= 0)
        entries = (sign[rows].astype(float), (rows, numbers[rows]))
        return Affine(csr_array(coo_array(entries, (len(numbers), self.size))), constant)

    def u(self, i: np.ndarray, j: np.ndarray) -> Affine:
        """On the face left of cell i; beyond walls reflected, beyond the outlet mirrored."""
        n, y = self.cells, (j + 0.5) * self.h
        inlet = np.where(i == 0, 4 * y * (1 - y), 0.0)
        i = np.where(i > self.length, 2 * self.length - i, i)
        above = np.where(i < 2 * n, n, self.height)
        beyond = (j < 0) | (j >= above)
        inside = np.clip(np.where(j >= above, 2 * above - 1 - j, j), 0, above - 1)
        numbers = self.numbers[0][i, inside]
        return self._affine(numbers, np.where(beyond, -1, 1), inlet)

    def v(self, i: np.ndarray, j: np.ndarray) -> Affine:
        """On the face below cell j; beyond inlet, outlet and the block's face reflected."""
        first = np.where(j > self.cells, 2 * self.cells, 0)
        beyond = (i < first) | (i >= self.length)
        inside = np.where(i < first, 2 * first - 1 - i, i)
        inside = np.where(i >= self.length, 2 * self.length - 1 - i, inside)
        numbers = self.numbers[1][inside, j]
        return self._affine(numbers, np.where(beyond, -1, 1), np.zeros(len(i)))

    def p(self, i: np.ndarray, j: np.ndarray) -> Affine:
        """In cells; beyond the outlet, where it vanishes, reflected."""
        beyond = i >= self.length
        numbers = self.numbers[2][np.where(beyond, 2 * self.length - 1 - i, i), j]
        return self._affine(numbers, np.where(beyond, -1, 1), np.zeros(len(i)))

    def _linear_parts(self) -> None:
        h, (u, v, p) = self.h, (self.u, self.v, self.p)
        i, j = np.nonzero(self.faces_u)
        spread_u = _laplacian(u, i, j, h)
        slope_u = p(i, j).plus(p(i - 1, j), -1).times(1 / h)
        products = [
            (1, _mean(u(i, j), u(i + 1, j)), _mean(u(i, j), u(i + 1, j))),
            (-1, _mean(u(i, j), u(i - 1, j)), _mean(u(i, j), u(i - 1, j))),
            (1, _mean(u(i, j), u(i, j + 1)), _mean(v(i, j + 1), v(i - 1, j + 1))),
            (-1, _mean(u(i, j), u(i, j - 1)), _mean(v(i, j), v(i - 1, j))),
        ]
        self.momentum_u = (spread_u, slope_u, products)
        i, j = np.nonzero(self.faces_v)
        spread_v = _laplacian(v, i, j, h)
        slope_v = p(i, j).plus(p(i, j - 1), -1).times(1 / h)
        products = [
            (1, _mean(v(i, j), v(i, j + 1)), _mean(v(i, j), v(i, j + 1))),
            (-1, _mean(v(i, j), v(i, j - 1)), _mean(v(i, j), v(i, j - 1))),
            (1, _mean(v(i, j), v(i + 1, j)), _mean(u(i + 1, j), u(i + 1, j - 1))),
            (-1, _mean(v(i, j), v(i - 1, j)), _mean(u(i, j), u(i, j - 1))),
        ]
        self.momentum_v = (spread_v, slope_v, products)
        i, j = np.nonzero(self.fluid)
        flow = u(i + 1, j).plus(u(i, j), -1)
        self.continuity = flow.plus(v(i, j + 1)).plus(v(i, j), -1).times(1 / h)

    def newton(self, z: np.ndarray, nu: float) -> np.ndarray:
        for _ in range(STEPS):
            residual, slope = self.equations(z, nu)
            correction = splu(csc_array(slope)).solve(-residual)
            z = z + correction
            if np.linalg.norm(correction) < SETTLED * np.linalg.norm(z):
                return z
        raise RuntimeError(f"the flow over the step has not settled at nu = {nu}")

    def equations(self, z: np.ndarray, nu: float) -> tuple[np.ndarray, csr_array]:
        residuals, slopes = [self.continuity(z)], [self.continuity.matrix]
        for spread, pressure, products in (self.momentum_u, self.momentum_v):
            total = pressure.plus(spread, -nu)
            residual, slope = total(z), total.matrix
            for sign, first, second in products:
                a, b = first(z), second(z)
                residual = residual + sign * a * b / self.h
                slope = slope + (sign / self.h) * (
                    diags_array(b) @ first.matrix + diags_array(a) @ second.matrix
                )
            residuals.append(residual)
            slopes.append(slope)
        return np.concatenate(residuals), csr_array(block_array([[slope] for slope in slopes]))

    def sampled(self, flow: Flow) -> np.ndarray:
        """The unknowns of a flow that another grid has."""
        offsets = ((0.0, 0.5), (0.5, 0.0), (0.5, 0.5))
        masks = (self.faces_u, self.faces_v, self.fluid)
        parts = []
        for field, (mask, offset) in enumerate(zip(masks, offsets, strict=True)):
            i, j = np.nonzero(mask)
            parts.append(flow((i + offset[0]) * self.h, (j + offset[1]) * self.h)[field])
        return np.concatenate(parts)

    def on_grids(self, z: np.ndarray) -> dict[str, np.ndarray]:
        fields = {}
        masks = (self.faces_u, self.faces_v, self.fluid)
        for name, mask, (begin, end) in zip("uvp", masks, pairwise(self.ends), strict=True):
            fields[name] = np.zeros(mask.shape)
            fields[name][mask] = z[begin:end]
        y = (np.arange(self.cells) + 0.5) * self.h
        fields["u"][0, : self.cells] = 4 * y * (1 - y)
        return fields


def _laplacian(field, i: np.ndarray, j: np.ndarray, h: float) -> Affine:
    total = field(i, j).times(-4.0)
    for neighbour in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
        total = total.plus(field(*neighbour))
    return total.times(1 / h**2)
