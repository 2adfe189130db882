"""The lid-driven cavity by a stream function: Chebyshev polynomials, and what is singular apart.

u = ψ_y, v = -ψ_x and ψ_y Δψ_x - ψ_x Δψ_y = ν Δ²ψ on [0, 1]², by Newton's method and least squares.
On the lid u = a x (1 - x). In its corners u_x is a along the lid and 0 along the wall, so that
vorticity jumps there and pressure has a logarithm. Both come from a local solution of Δ²ψ = 0,

    ψ = a r² (π/8 (1 - cos 2θ) - θ/2 - sin 2θ / 4),    p = 2 a ν log r,

θ from the lid (at the other corner mirrored, with -p), which is subtracted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from lcpinn.cache import cached
from lcpinn.threads import blas_threads

VISCOSITY = 0.01
CORNER = 1e-12  # square of the distance from a corner below which its logarithm is cut off
# Functions along each coordinate, up to an amplitude of the lid: layers along walls get thinner.
SIZES = {4.0: 24, 8.0: 30, 16.0: 36, np.inf: 42}
VERSION = 3
GENTLE = 4.0  # an amplitude up to which Newton's method may begin at rest
STEPS = 20  # of Newton's method, at most
SETTLED = 1e-7  # of the coefficients


class Flow(NamedTuple):
    """Coefficients of the smooth parts, (size, size) each, and the lid's amplitude."""

    stream: np.ndarray
    pressure: np.ndarray
    a: float

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u, v and p at points; p vanishes at the origin."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        size = len(self.stream)
        tx, ty = _basis(x.ravel(), size, 1), _basis(y.ravel(), size, 1)
        at = lambda c, i, j: np.einsum("pi,pj,ij->p", tx[i], ty[j], c).reshape(x.shape)
        local, local_pressure = _local(x, y)
        u = at(self.stream, 0, 1) + self.a * local["y"]
        v = -at(self.stream, 1, 0) - self.a * local["x"]
        return u, v, at(self.pressure, 0, 0) + self.a * local_pressure


def cavity(a: float) -> Flow:
    """The flow under a lid of amplitude a; its Reynolds number by the lid's peak is 25 a."""
    return _cavity(float(a))


@lru_cache(maxsize=16)
def _cavity(a: float, size: int | None = None) -> Flow:
    size = size or next(size for most, size in SIZES.items() if a <= most)
    arrays = cached("lid-driven-cavity", VERSION, {"a": a, "size": size}, lambda: _solve(a, size))
    return Flow(arrays["stream"], arrays["pressure"], a)


# -- The local solution in the corners of the lid --------------------------------------------------


def _local(x: np.ndarray, y: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Derivatives of ψ for a = 1, both corners together, by the name of the derivative; and p."""
    left, right = _corner(x, 1 - y), _corner(1 - x, 1 - y)
    total = {}
    for name in left:
        # The corner's coordinates run along x (or against it, on the right) and against y.
        sign = (-1) ** name.count("y")
        total[name] = sign * (left[name] + (-1) ** name.count("x") * right[name])
    squares = [np.maximum(s**2 + (1 - y) ** 2, CORNER) for s in (x, 1 - x)]
    pressure = VISCOSITY * (np.log(squares[0]) - np.log(squares[1]))
    return total, pressure


def _corner(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """ψ = π/4 y² - θ (x² + y²) / 2 - x y / 2 and its derivatives; the lid is y = 0."""
    theta, square = np.arctan2(y, x), np.maximum(x**2 + y**2, 1e-300)
    # θ_x = -y / r², θ_y = x / r²
    return {
        "": np.pi / 4 * y**2 - theta * square / 2 - x * y / 2,
        "x": -theta * x,
        "y": np.pi / 2 * y - theta * y - x,
        "xx": -theta + x * y / square,
        "xy": -(x**2) / square,
        "yy": np.pi / 2 - theta - x * y / square,
        "lx": 2 * y / square,  # of the Laplacian π/2 - 2θ, along x
        "ly": -2 * x / square,
    }


# -- The smooth remainder --------------------------------------------------------------------------


def _basis(x: np.ndarray, size: int, order: int) -> list[np.ndarray]:
    """Chebyshev polynomials of [0, 1] and their derivatives, (points, size) each."""
    values = [chebyshev.chebvander(2 * x - 1, size - 1)]
    for m in range(1, order + 1):
        slope = 2**m * chebyshev.chebder(np.eye(size), m)
        values.append(values[0][:, : size - m] @ slope)
    return values


def _solve(a: float, size: int) -> dict[str, np.ndarray]:
    """Newton's method from the solution of half the amplitude, or from rest."""
    system = _System(size)
    stream = np.zeros((size, size))
    if a > GENTLE:
        gentler = _cavity(a / 2).stream
        kept = min(size, len(gentler))
        stream[:kept, :kept] = 2 * gentler[:kept, :kept]
    stream = stream.ravel()
    with blas_threads():
        for _ in range(STEPS):
            correction = system.newton(stream, a)
            stream = stream + correction
            if np.linalg.norm(correction) < SETTLED * np.linalg.norm(stream):
                break
        else:
            raise RuntimeError(f"the cavity's flow for a = {a} has not settled")
        pressure = system.pressure(stream, a)
    return {"stream": stream.reshape(size, size), "pressure": pressure.reshape(size, size)}


class _System:
    """Rows of the equation inside and of ψ and its gradient on the walls."""

    def __init__(self, size: int) -> None:
        nodes = (1 - np.cos(np.pi * (np.arange(size + 6) + 0.5) / (size + 6))) / 2
        t = _basis(nodes, size, 4)
        self.x, self.y = (v.ravel() for v in np.meshgrid(nodes, nodes, indexing="ij"))
        pair = lambda i, j: np.kron(t[i], t[j])
        self.slope_x, self.slope_y = pair(1, 0), pair(0, 1)
        self.xx, self.xy, self.yy = pair(2, 0), pair(1, 1), pair(0, 2)
        self.laplacian_x, self.laplacian_y = pair(3, 0) + pair(1, 2), pair(2, 1) + pair(0, 3)
        self.biharmonic = pair(4, 0) + 2 * pair(2, 2) + pair(0, 4)
        self.local = _local(self.x, self.y)[0]
        # Fourth derivatives of polynomials are far larger close to the walls.
        self.scale = 1 / np.linalg.norm(self.biharmonic, axis=1) / VISCOSITY
        self._walls(nodes, t, size)

    def _walls(self, nodes: np.ndarray, t: list[np.ndarray], size: int) -> None:
        ends = _basis(np.array([0.0, 1.0]), size, 1)
        rows, wanted = [], []
        for wall in (0, 1):
            other = np.full(len(nodes), float(wall))
            across, along = ends[0][wall : wall + 1], ends[1][wall : wall + 1]
            for lies in ("x", "y"):  # the coordinate that is constant on the wall
                x, y = (other, nodes) if lies == "x" else (nodes, other)
                local = _local(x, y)[0]
                join = (lambda p, q: np.kron(p, q)) if lies == "x" else (lambda p, q: np.kron(q, p))
                rows += [join(across, t[0]), join(along, t[0])]
                lid = nodes * (1 - nodes) if lies == "y" and wall == 1 else 0.0
                wanted += [-local[""], lid - local[lies]]
        self.walls, self.wanted = np.concatenate(rows), np.concatenate(wanted)

    def fields(self, stream: np.ndarray, a: float) -> dict[str, np.ndarray]:
        local = self.local
        return {
            "x": self.slope_x @ stream + a * local["x"],
            "y": self.slope_y @ stream + a * local["y"],
            "lx": self.laplacian_x @ stream + a * local["lx"],
            "ly": self.laplacian_y @ stream + a * local["ly"],
        }

    def newton(self, stream: np.ndarray, a: float) -> np.ndarray:
        f = self.fields(stream, a)
        residual = f["y"] * f["lx"] - f["x"] * f["ly"] - VISCOSITY * (self.biharmonic @ stream)
        slope = f["lx"][:, None] * self.slope_y + f["y"][:, None] * self.laplacian_x
        slope -= f["ly"][:, None] * self.slope_x + f["x"][:, None] * self.laplacian_y
        slope -= VISCOSITY * self.biharmonic
        matrix = np.concatenate([self.scale[:, None] * slope, self.walls])
        target = np.concatenate([-self.scale * residual, a * self.wanted - self.walls @ stream])
        size = np.linalg.norm(matrix, axis=0)
        q, r = np.linalg.qr(matrix / size)
        return np.linalg.solve(r, q.T @ target) / size

    def pressure(self, stream: np.ndarray, a: float) -> np.ndarray:
        """∇p = ν Δu - u·∇u, less the logarithms: the gradient of a smooth function."""
        f, local = self.fields(stream, a), self.local
        u, v = f["y"], -f["x"]
        u_x = self.xy @ stream + a * local["xy"]
        u_y = self.yy @ stream + a * local["yy"]
        v_x = -(self.xx @ stream + a * local["xx"])
        # ν Δu = ν (Δψ)_y; that of the local solution is the gradient of its pressure.
        p_x = VISCOSITY * (self.laplacian_y @ stream) - u * u_x - v * u_y
        p_y = -VISCOSITY * (self.laplacian_x @ stream) - u * v_x + v * u_x
        # Nodes are dense at the walls, where third derivatives are known least.
        weight = np.sqrt(16 * self.x * (1 - self.x) * self.y * (1 - self.y))
        rows = [weight[:, None] * slope[:, 1:] for slope in (self.slope_x, self.slope_y)]
        matrix, target = np.concatenate(rows), np.concatenate([weight * p_x, weight * p_y])
        size = np.linalg.norm(matrix, axis=0)
        q, r = np.linalg.qr(matrix / size)
        coefficients = np.concatenate([[0.0], np.linalg.solve(r, q.T @ target) / size])
        num = round(len(coefficients) ** 0.5)
        corner = _basis(np.zeros(1), num, 0)[0]
        level = np.kron(corner, corner) @ coefficients
        coefficients[0] = -float(level[0]) - a * float(_local(np.zeros(1), np.zeros(1))[1][0])
        return coefficients
