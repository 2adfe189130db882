"""Δu = κ²u in a rectangle with round holes, by least squares on its boundary.

The expansion solves the equation term by term, so that only the conditions are left to be met:

- about every hole K_m(κρ) cos mθ and sin mθ, for κ = 0 log ρ and ρ^-m;
- outside of the rectangle fundamental solutions, on a ring around it, and clustered exponentially
  towards its corners, where derivatives of the solution may be unbounded (Gopal and Trefethen,
  SIAM J. Numer. Anal. 57 (2019) 2074-2094).

κ may be complex with a positive real part, as Laplace transforms have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq
from scipy.special import kve

from lcpinn.threads import blas_threads

CUTOFF = 1e-13  # of singular values: the functions are nearly dependent


class Hole(NamedTuple):
    """A disc that is cut out."""

    x: float
    y: float
    radius: float


class Jet(NamedTuple):
    """Functions and their gradients at points, (points, functions) each."""

    value: np.ndarray
    x: np.ndarray
    y: np.ndarray


class Edge(NamedTuple):
    """Points of one part of the boundary, with outward normals: of the domain, not of the hole."""

    x: np.ndarray
    y: np.ndarray
    normal_x: np.ndarray
    normal_y: np.ndarray


class Condition(NamedTuple):
    """value · u + slope · u_n = given, along one edge."""

    edge: Edge
    value: float
    slope: float
    given: np.ndarray | float


@dataclass(frozen=True)
class Plate:
    """A rectangle with half-widths about the origin, and its holes."""

    half_x: float
    half_y: float
    holes: tuple[Hole, ...]
    modes: int = 28  # about every hole
    ring: int = 60  # sources along each side, away from it
    corner: int = 24  # sources towards each corner

    def sides(self) -> Edge:
        """Points on the rectangle, four to a source along it, and dense near its corners."""
        close = 1 - np.logspace(-8, -1.5, 2 * self.corner)
        steps = np.concatenate([-close, np.linspace(-1, 1, 4 * self.ring + 1)[1:-1], close])
        one, zero = np.ones(len(steps)), np.zeros(len(steps))
        along_x, along_y = self.half_x * steps, self.half_y * steps
        return Edge(
            np.concatenate([along_x, along_x, -self.half_x * one, self.half_x * one]),
            np.concatenate([-self.half_y * one, self.half_y * one, along_y, along_y]),
            np.concatenate([zero, zero, -one, one]),
            np.concatenate([-one, one, zero, zero]),
        )

    def rim(self, hole: Hole) -> Edge:
        """Points on the rim of a hole; the domain's normal points into the hole."""
        angle = 2 * np.pi * np.arange(6 * self.modes) / (6 * self.modes)
        cos, sin = np.cos(angle), np.sin(angle)
        return Edge(hole.x + hole.radius * cos, hole.y + hole.radius * sin, -cos, -sin)

    def sources(self) -> np.ndarray:
        """Places of fundamental solutions outside of the rectangle, (n, 2)."""
        reach = 0.25 * min(self.half_x, self.half_y)
        a, b = self.half_x + reach, self.half_y + reach
        along = (np.arange(self.ring) + 0.5) / self.ring * 2 - 1
        ring = [np.column_stack([a * along, sign * b * np.ones(self.ring)]) for sign in (-1, 1)] + [
            np.column_stack([sign * a * np.ones(self.ring), b * along]) for sign in (-1, 1)
        ]
        distance = reach * np.exp(4 * (np.sqrt(np.arange(1, self.corner + 1)) - self.corner**0.5))
        corners = [
            np.column_stack([sx * (self.half_x + distance), sy * (self.half_y + distance)])
            for sx in (-1, 1)
            for sy in (-1, 1)
        ]
        return np.concatenate([*ring, *corners])

    def functions(self, kappa: complex) -> Callable[[np.ndarray, np.ndarray], Jet]:
        """All functions of the expansion, at points."""
        sources = self.sources()

        def evaluate(x: np.ndarray, y: np.ndarray) -> Jet:
            parts = [_about(hole, self.modes, kappa, x, y) for hole in self.holes]
            parts.append(_fundamental(sources, kappa, x, y))
            if kappa == 0:
                one = np.ones((len(x), 1))
                parts.append(Jet(one, 0 * one, 0 * one))
            return Jet(*(np.concatenate(p, axis=1) for p in zip(*parts, strict=True)))

        return evaluate


def _about(hole: Hole, modes: int, kappa: complex, x: np.ndarray, y: np.ndarray) -> Jet:
    """Decaying solutions about a hole, of size one on its rim."""
    dx, dy = x - hole.x, y - hole.y
    rho, theta = np.hypot(dx, dy)[:, None], np.arctan2(dy, dx)[:, None]
    order = np.arange(modes + 1)
    if kappa == 0:
        ratio = hole.radius / rho
        radial = np.where(order == 0, np.log(ratio) - 1, ratio**order)
        slope = np.where(order == 0, -1 / rho, -order * ratio**order / rho)
    else:
        decay = np.exp(-kappa * (rho - hole.radius)) / kve(order, kappa * hole.radius)
        radial = kve(order, kappa * rho) * decay
        slope = -kappa / 2 * (kve(order - 1, kappa * rho) + kve(order + 1, kappa * rho)) * decay
    cos, sin = np.cos(order * theta), np.sin(order * theta)
    value = np.concatenate([radial * cos, (radial * sin)[:, 1:]], axis=1)
    outward = np.concatenate([slope * cos, (slope * sin)[:, 1:]], axis=1)
    turn = order * radial / rho
    around = np.concatenate([-turn * sin, (turn * cos)[:, 1:]], axis=1)
    c, s = np.cos(theta), np.sin(theta)
    return Jet(value, outward * c - around * s, outward * s + around * c)


def _fundamental(sources: np.ndarray, kappa: complex, x: np.ndarray, y: np.ndarray) -> Jet:
    """Fundamental solutions of every source."""
    dx, dy = x[:, None] - sources[:, 0], y[:, None] - sources[:, 1]
    rho = np.hypot(dx, dy)
    if kappa == 0:
        return Jet(np.log(rho), dx / rho**2, dy / rho**2)
    decay = np.exp(-kappa * rho)
    slope = -kappa * kve(1, kappa * rho) * decay / rho
    return Jet(kve(0, kappa * rho) * decay, slope * dx, slope * dy)


class Solved(NamedTuple):
    """The expansion with its coefficients; `misfit` is what the conditions leave, at most."""

    functions: Callable[[np.ndarray, np.ndarray], Jet]
    coefficients: np.ndarray
    misfit: float

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        flat = (np.broadcast_to(v, shape).ravel().astype(float) for v in (x, y))
        return (self.functions(*flat).value @ self.coefficients).reshape(shape)


def solve(plate: Plate, kappa: complex, conditions: Sequence[Condition]) -> Solved:
    """The coefficients that meet all conditions best, in the sense of least squares."""
    functions = plate.functions(kappa)
    blocks, right = [], []
    for edge, value, slope, given in conditions:
        jet = functions(edge.x, edge.y)
        normal = edge.normal_x[:, None] * jet.x + edge.normal_y[:, None] * jet.y
        blocks.append(value * jet.value + slope * normal)
        right.append(np.broadcast_to(given, edge.x.shape))
    matrix, target = np.concatenate(blocks), np.concatenate(right)
    size = np.linalg.norm(matrix, axis=0)
    with blas_threads():
        answer = lstsq(matrix / size, target, cond=CUTOFF)
    assert answer is not None
    coefficients = answer[0] / size
    return Solved(functions, coefficients, float(np.max(np.abs(matrix @ coefficients - target))))
