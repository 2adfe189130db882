"""Functions for a region that is no box: those of its bounding box, and those of its holes.

Polynomials on the bounding box are an extension frame (Adcock and Huybrechs 2019). They converge
slowly to what is singular in a hole, and have to follow it on the domain alone; for that there are
the functions of holes. All together they are redundant, and solved by least squares with a cutoff.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lcpinn.jet import Orders
from lcpinn.quadrature import unit_sobol
from lcpinn.shape import Box, Region
from lcpinn.shape.ball import direction
from lcpinn.shape.holes import Hole, holes_of
from lcpinn.spectral.basis import CHUNK, Axis, TensorBasis, basis_on, padded, tail_length
from lcpinn.spectral.holes import round_modes, solid_modes

MOST_MODES = 480  # functions of all holes together
LEAST_DEGREE = 3  # the least of the highest angular frequencies
MOST_FUNCTIONS = 3000  # of all outputs, of the smallest frame: dense matrices of more take minutes
LEAST_SIZES = {1: 48, 2: 18, 3: 8}  # functions along each coordinate of the smallest frame
POWERS = 2  # even powers of |z| to either side; one where there are other coordinates
REACH = 0.25  # the radius of a hole, beside the distance up to which it has points of its own
DOUBLINGS = 6  # of the number of candidates for points inside

Spread = Callable[[np.ndarray], np.ndarray]  # of points of the unit cube (n, dim)


@dataclass(frozen=True)
class Frame:
    """A tensor basis on a bounding box, with the functions of holes in it.

    Along coordinates that a hole does not have, such as time, each of its functions is multiplied
    by all of the axis. Coefficients are flat: those of the tensor, then hole by hole.
    """

    tensor: TensorBasis
    holes: tuple[Hole, ...]
    degree: int

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.tensor.axes

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of every hole's coefficients: functions, and those along each other coordinate."""
        shapes = []
        for hole in self.holes:
            rim = np.zeros((1, len(self.axes)))
            rim[0, list(hole.coordinates)] = hole.centre
            rim[0, hole.coordinates[0]] += hole.radius
            num = len(self._modes(hole, rim, Orders(((0,) * len(self.axes),))))
            shapes.append((num, *(axis.num for _, axis in self._others(hole))))
        return tuple(shapes)

    @cached_property
    def size(self) -> int:
        return self.tensor.size + sum(map(math.prod, self.shapes))

    def _others(self, hole: Hole) -> list[tuple[int, Axis]]:
        return [(i, axis) for i, axis in enumerate(self.axes) if i not in hole.coordinates]

    def _modes(self, hole: Hole, points: np.ndarray, orders: Orders) -> np.ndarray:
        modes = round_modes if len(hole.coordinates) == 2 else solid_modes
        return modes(hole, self.degree, 1 if self._others(hole) else POWERS, points, orders)

    def table(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, size) of all functions at points (n, dim)."""
        tables = [self._table(hole, points, orders) for hole in self.holes]
        return np.concatenate([self.tensor.table(points, orders), *tables], axis=2)

    def _table(self, hole: Hole, points: np.ndarray, orders: Orders) -> np.ndarray:
        modes, parts = self._modes(hole, points, orders), []
        for index in orders.indices:
            own = tuple(order if i in hole.coordinates else 0 for i, order in enumerate(index))
            product = modes[:, orders.indices.index(own)].T
            for i, axis in self._others(hole):
                along = axis.values(points[:, i], index[i]) / math.factorial(index[i])
                product = (product[:, :, None] * along[:, None]).reshape(len(points), -1)
            parts.append(product)
        return np.stack(parts)

    def evaluate(self, coefficients: np.ndarray, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, outputs) of an expansion (outputs, size) at points."""
        split, values = self.tensor.size, np.zeros((len(orders), len(points), len(coefficients)))
        values += self.tensor.evaluate(coefficients[:, :split], points, orders)
        parts = np.split(coefficients[:, split:], np.cumsum([*map(math.prod, self.shapes)]), axis=1)
        rows = max(1, CHUNK // max(self.size, 1))
        for start, (hole, part) in itertools.product(
            range(0, len(points), rows), zip(self.holes, parts, strict=False)
        ):
            piece = slice(start, start + rows)
            values[:, piece] += self._table(hole, points[piece], orders) @ part.T
        return values

    def resized(self, coefficients: np.ndarray, other: Frame) -> np.ndarray:
        """The coefficients (outputs, size) in another frame of the same holes, cut or padded."""
        assert self.holes == other.holes
        start, parts = self.tensor.size, []
        parts.append(self.tensor.resized(coefficients[:, :start], other.tensor))
        for shape, wanted in zip(self.shapes, other.shapes, strict=True):
            end = start + math.prod(shape)
            parts.append(padded(coefficients[:, start:end], shape, wanted))
            start = end
        return np.concatenate(parts, axis=1)

    def tails(self, coefficients: np.ndarray) -> list[float]:
        """Along each axis, the share of its last coefficients in an expansion (outputs, size)."""
        return self.tensor.tails(coefficients[:, : self.tensor.size])

    def last(self, functions: np.ndarray) -> np.ndarray:
        """The last coefficients along any axis, and of each hole: (k, f) of (outputs, size, f)."""
        start, parts = self.tensor.size, [self.tensor.last(functions[:, : self.tensor.size])]
        for num, *others in self.shapes:
            end = start + num * math.prod(others)
            modes = functions[:, start:end].reshape(len(functions), num, -1, functions.shape[2])
            parts.append(modes[:, num - tail_length(num) :].reshape(-1, functions.shape[2]))
            start = end
        return np.concatenate(parts)


Basis = TensorBasis | Frame


def resized(coefficients: np.ndarray, old: Basis, new: Basis) -> np.ndarray:
    """The coefficients (outputs, size) of one basis in another of the same kind."""
    if isinstance(old, Frame) and isinstance(new, Frame):
        return old.resized(coefficients, new)
    assert isinstance(old, TensorBasis)
    assert isinstance(new, TensorBasis)
    return old.resized(coefficients, new)


def has_holes(region: Region) -> bool:
    """Whether a region that does not move has functions of its own beside its bounding box's."""
    return bool(holes_of(region, np.asarray(region.given(None), float)))


def functions_on(
    domain: Box | Region, sizes: Sequence[int], parameters: np.ndarray | None = None
) -> Basis:
    """So many functions along each coordinate of a domain; on a shape with those of its holes."""
    if isinstance(domain, Box):
        return basis_on(domain, sizes)
    return frame_on(domain, sizes, parameters)


def frame_on(region: Region, sizes: Sequence[int], parameters: np.ndarray | None) -> Basis:
    """So many functions along each coordinate of the bounding box, and functions of the holes."""
    tensor = basis_on(region, sizes)
    if parameters is None and region.moves:
        return tensor
    holes = holes_of(region, np.asarray(region.given(parameters), float))
    if not holes:
        return tensor
    degree = max(LEAST_DEGREE, max(sizes) // 2)
    while degree > LEAST_DEGREE and Frame(tensor, holes, degree).size - tensor.size > MOST_MODES:
        degree -= 1
    return Frame(tensor, holes, degree)


def too_many_holes(domain: Box | Region, outputs: int) -> str:
    """Why there is no frame for a region, or nothing where there is one."""
    if isinstance(domain, Box) or domain.dim not in LEAST_SIZES:
        return ""
    middle = domain.settings()[len(domain.settings()) // 2]
    frame = frame_on(domain, (LEAST_SIZES[domain.dim],) * domain.dim, middle)
    if not isinstance(frame, Frame) or frame.size * outputs <= MOST_FUNCTIONS:
        return ""
    return f"{len(frame.holes)} holes take {frame.size * outputs} functions, more than are tried"


# -- Where terms hold ------------------------------------------------------------------------------


def scattered(region: Region, basis: Basis, times: int, parameters: np.ndarray) -> np.ndarray:
    """Points inside, so many times as there are functions, dense where those vary fast.

    Polynomials of high degree do so at the edges of the bounding box: half of their points are
    distributed like the nodes of Chebyshev, the others evenly. Functions of a hole do so at its
    rim: their points are such that a / |x - c| is distributed like those nodes.
    """
    tensor = basis.tensor if isinstance(basis, Frame) else basis
    dim, half = region.dim, times * tensor.size // 2
    ends = np.array(list(region.box_at(parameters).ranges.values()))
    periodic = [axis.periodic for axis in tensor.axes]

    def in_box(unit: np.ndarray) -> np.ndarray:
        nodes = np.where(periodic, unit, (1 - np.cos(np.pi * unit)) / 2)
        return ends[:, 0] + np.ptp(ends, axis=1) * nodes

    parts = [region.sobol(times * tensor.size - half, 11, parameters=parameters)]
    parts.append(_inside(region, parameters, half, dim, in_box))
    if isinstance(basis, Frame):
        for hole, shape in zip(basis.holes, basis.shapes, strict=True):
            parts.append(_around(region, parameters, hole, times * math.prod(shape), in_box))
    return np.concatenate(parts)


def _around(
    region: Region, parameters: np.ndarray, hole: Hole, num: int, in_box: Spread
) -> np.ndarray:
    """Points around a hole, up to a few of its radii."""
    own = list(hole.coordinates)

    def about(unit: np.ndarray) -> np.ndarray:
        points = in_box(unit)
        inverse = REACH + (1 - REACH) * (1 - np.cos(np.pi * unit[:, own[0]])) / 2
        way = np.stack(direction(unit[:, own[1:]], len(own), np), axis=-1)
        points[:, own] = np.array(hole.centre) + hole.radius / inverse[:, None] * way
        return points

    return _inside(region, parameters, num, region.dim, about)


def _inside(
    region: Region, parameters: np.ndarray, num: int, dim: int, spread: Spread
) -> np.ndarray:
    """So many points inside, of a low-discrepancy sequence of the unit cube that is spread out."""
    points = np.zeros((0, dim))
    for doubling in range(1, DOUBLINGS + 1):
        points = region.wrapped(spread(unit_sobol(num << doubling, dim, 12)))
        points = points[region.level_at(points, parameters) < 0]
        if len(points) >= num:
            break
    return points[:num]
