"""Flow over a step by finite differences on a staggered grid.

u·∇u + ∇p = ν Δu, ∇·u = 0 in the channel [0, 4] x [0, 2] without its upper left quarter. Inlet
u = 4y(1-y), v = 0; outlet v = 0, p = 0; walls u = v = 0. Velocities are on the faces of cells and
the pressure in their centres (Harlow and Welch 1965), convection is in conservation form with
central differences, values beyond a wall are reflected, and Newton's method solves for all of it at
once, at smaller and smaller viscosities. At the corner that points inwards velocities go with the
power 0.54 of the distance and the pressure with -0.46: cells shrink towards it. Two grids are
extrapolated.
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

CELLS = (64, 96)  # along a unit of length, in the mean, of the two grids
SMALLEST, OUTLET = 0.04, 0.2  # lengths of cells in the corner and at the outlet, by the mean
EASY = 0.1  # a viscosity at which Newton's method may begin at rest
RATIO = 1.8  # between the viscosities on the way
COARSE = 24  # cells up to which the viscosity is lowered step by step
STEPS, SETTLED = 20, 1e-9
VERSION = 4


def lines(cells: int, length: float, last: float) -> np.ndarray:
    """Where faces are on one side of the corner, from it to the far end.

    Cells are `SMALLEST` times as long as the mean in the corner and `last` times at the far end, a
    quadratic function of their number between: distances from the corner grow with the square of
    the number, along which r^0.54 is smooth.
    """
    s = np.linspace(0, 1, round(cells * length) + 1)
    linear = 6 * (1 - SMALLEST) - 2 * (last - SMALLEST)
    square = last - SMALLEST - linear
    return length * (SMALLEST * s + linear * s**2 / 2 + square * s**3 / 3)


def grid(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The faces along x and y, dense about the corner at (2, 1) and, along x, at the outlet: v goes
    to zero there in a layer as thin as the viscosity."""
    about = lambda place, far: np.concatenate([place - far[:0:-1], place + far])
    return about(2.0, lines(cells, 2.0, OUTLET)), about(1.0, lines(cells, 1.0, 2 - SMALLEST))


class Flow(NamedTuple):
    """u on vertical faces (4n + 1, 2n), v on horizontal ones (4n, 2n + 1), p in cells (4n, 2n)."""

    u: np.ndarray
    v: np.ndarray
    p: np.ndarray

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u, v and p at points."""
        faces_x, faces_y = grid(self.u.shape[1] // 2)
        walled_x, walled_y = (np.concatenate([[f[0]], (f[1:] + f[:-1]) / 2, [f[-1]]])
                              for f in (faces_x, faces_y))  # fmt: skip
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

    With cells that shrink towards the corner the scheme is one of second order.
    """
    coarse, fine = (_flow(float(nu), cells) for cells in CELLS)
    share = CELLS[0] ** 2 / (CELLS[1] ** 2 - CELLS[0] ** 2)

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

    def times(self, factor: float | np.ndarray) -> Affine:
        factor = np.broadcast_to(factor, self.constant.shape)
        return Affine(csr_array(diags_array(factor) @ self.matrix), self.constant * factor)


def _mean(first: Affine, second: Affine, share: float | np.ndarray = 0.5) -> Affine:
    """Between two values, with a share of the second."""
    return first.times(1 - share).plus(second.times(share))


class _System:
    """The discrete equations: linear parts, and products of two affine functions."""

    def __init__(self, cells: int) -> None:
        self.cells, (self.x, self.y) = cells, grid(cells)
        self.dx, self.dy = np.diff(self.x), np.diff(self.y)
        self.inlet = np.diff(2 * self.y**2 - 4 * self.y**3 / 3) / self.dy  # means of 4y(1-y)
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
        n, inside = self.cells, np.clip(j, 0, self.height - 1)
        inlet = np.where(i == 0, self.inlet[inside], 0.0)
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

    @staticmethod
    def middle(faces: np.ndarray) -> np.ndarray:
        return (faces[1:] + faces[:-1]) / 2

    def _width(self, i: np.ndarray) -> np.ndarray:
        """Of cells along x; beyond the ends, and inside the block, as their mirror images."""
        return self.dx[np.clip(i, 0, self.length - 1)]

    def _height(self, j: np.ndarray) -> np.ndarray:
        return self.dy[np.clip(j, 0, self.height - 1)]

    def _linear_parts(self) -> None:
        u, v, p, w, h = self.u, self.v, self.p, self._width, self._height
        i, j = np.nonzero(self.faces_u)
        here, behind, thick = w(i), w(i - 1), h(j)
        apart = (here + behind) / 2  # the centres of the two cells at a face
        spread_u = _second(u, i, j, (1, 0), behind, here).plus(
            _second(u, i, j, (0, 1), (h(j - 1) + thick) / 2, (h(j + 1) + thick) / 2)
        )
        slope_u = p(i, j).plus(p(i - 1, j), -1).times(1 / apart)
        # Edges: of u the values above and below, of v those of the cells left and right.
        left = behind / (behind + here)
        upper, lower = thick / (thick + h(j + 1)), thick / (thick + h(j - 1))
        products = [
            (1 / apart, _mean(u(i, j), u(i + 1, j)), _mean(u(i, j), u(i + 1, j))),
            (-1 / apart, _mean(u(i, j), u(i - 1, j)), _mean(u(i, j), u(i - 1, j))),
            (1 / thick, _mean(u(i, j), u(i, j + 1), upper),
             _mean(v(i - 1, j + 1), v(i, j + 1), left)),
            (-1 / thick, _mean(u(i, j), u(i, j - 1), lower), _mean(v(i - 1, j), v(i, j), left)),
        ]  # fmt: skip
        self.momentum_u = (spread_u, slope_u, products)
        i, j = np.nonzero(self.faces_v)
        here, below, thick = h(j), h(j - 1), w(i)
        apart = (here + below) / 2
        spread_v = _second(v, i, j, (0, 1), below, here).plus(
            _second(v, i, j, (1, 0), (w(i - 1) + thick) / 2, (w(i + 1) + thick) / 2)
        )
        slope_v = p(i, j).plus(p(i, j - 1), -1).times(1 / apart)
        under = below / (below + here)
        right, left = thick / (thick + w(i + 1)), thick / (thick + w(i - 1))
        products = [
            (1 / apart, _mean(v(i, j), v(i, j + 1)), _mean(v(i, j), v(i, j + 1))),
            (-1 / apart, _mean(v(i, j), v(i, j - 1)), _mean(v(i, j), v(i, j - 1))),
            (1 / thick, _mean(v(i, j), v(i + 1, j), right),
             _mean(u(i + 1, j - 1), u(i + 1, j), under)),
            (-1 / thick, _mean(v(i, j), v(i - 1, j), left), _mean(u(i, j - 1), u(i, j), under)),
        ]  # fmt: skip
        self.momentum_v = (spread_v, slope_v, products)
        i, j = np.nonzero(self.fluid)
        across = u(i + 1, j).plus(u(i, j), -1).times(1 / w(i))
        self.continuity = across.plus(v(i, j + 1).plus(v(i, j), -1).times(1 / h(j)))

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
            for factor, first, second in products:
                a, b = first(z), second(z)
                residual = residual + factor * a * b
                slope = slope + diags_array(factor * b) @ first.matrix
                slope = slope + diags_array(factor * a) @ second.matrix
            residuals.append(residual)
            slopes.append(slope)
        return np.concatenate(residuals), csr_array(block_array([[slope] for slope in slopes]))

    def sampled(self, flow: Flow) -> np.ndarray:
        """The unknowns of a flow that another grid has."""
        x, y = self.middle(self.x), self.middle(self.y)
        places = ((self.x, y, self.faces_u), (x, self.y, self.faces_v), (x, y, self.fluid))
        parts = []
        for field, (along, up, mask) in enumerate(places):
            i, j = np.nonzero(mask)
            parts.append(flow(along[i], up[j])[field])
        return np.concatenate(parts)

    def on_grids(self, z: np.ndarray) -> dict[str, np.ndarray]:
        fields = {}
        masks = (self.faces_u, self.faces_v, self.fluid)
        for name, mask, (begin, end) in zip("uvp", masks, pairwise(self.ends), strict=True):
            fields[name] = np.zeros(mask.shape)
            fields[name][mask] = z[begin:end]
        fields["u"][0, : self.cells] = self.inlet[: self.cells]
        return fields


def _second(
    field: Callable[[np.ndarray, np.ndarray], Affine],
    i: np.ndarray,
    j: np.ndarray,
    step: tuple[int, int],
    before: np.ndarray,
    after: np.ndarray,
) -> Affine:
    """The second difference along one direction, with distances to the neighbours on both sides."""
    here, (k, m) = field(i, j), step
    rise = field(i + k, j + m).plus(here, -1).times(1 / after)
    fall = here.plus(field(i - k, j - m), -1).times(1 / before)
    return rise.plus(fall, -1).times(2 / (before + after))
