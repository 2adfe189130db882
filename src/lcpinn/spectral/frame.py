"""Functions for a region that is no box: those of its bounding box, and those of its holes.

Polynomials on the bounding box are an extension frame (Adcock and Huybrechs 2019). They converge
slowly to what is singular in a hole, and have to follow it on the domain alone; for that there are
the functions of holes. All together they are redundant, and solved by least squares with a cutoff.
In three coordinates and more a tensor of functions would be too many: products of limited degree
(`degrees.py`) take its place, with four coordinates in a box, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lcpinn.jet import Orders
from lcpinn.quadrature import unit_sobol
from lcpinn.shape import Box, Region
from lcpinn.shape.ball import direction
from lcpinn.shape.holes import Hole, holes_of
from lcpinn.spectral.basis import CHUNK, Axis, TensorBasis, basis_on, tail_length
from lcpinn.spectral.degrees import DegreeBasis
from lcpinn.spectral.holes import Modes, round_modes, solid_modes

GRIDS = 3  # coordinates of a box, beyond which a tensor grid has too many points
TENSORS = 2  # coordinates of a region, beyond which a tensor has too many functions
MOST_MODES = {1: 480, 2: 480, 3: 1400, 4: 1400}  # functions of all holes together, by coordinates
LEAST_DEGREE = 3  # the least of the highest angular frequencies
MOST_FUNCTIONS = 3000  # of all outputs, of the smallest frame: dense matrices of more take minutes
LEAST_SIZES = {1: 48, 2: 18, 3: 14, 4: 12}  # functions along each coordinate of the smallest frame
POWERS, POWERS_ALONG = 2, 4  # even powers of |z| to either side; where there are other coordinates
REACH = 0.25  # the radius of a hole, beside the distance up to which it has points of its own
DOUBLINGS = 6  # of the number of candidates for points inside

Spread = Callable[[np.ndarray], np.ndarray]  # of points of the unit cube (n, dim)


class Products(NamedTuple):
    """A hole's functions: for each which of its modes, and which functions of other coordinates.

    `last` are those of the highest degrees.
    """

    mode: np.ndarray
    others: list[np.ndarray]
    names: list[tuple[object, ...]]
    last: np.ndarray


@dataclass(frozen=True)
class Frame:
    """The functions of a bounding box, with those of the holes in it.

    Along coordinates that a hole does not have, such as time, its functions are multiplied by those
    of the axis, up to a common degree. `resolution` is the number of functions along an axis that
    they go with. Coefficients are flat: those of the box, then hole by hole.
    """

    box: TensorBasis | DegreeBasis
    holes: tuple[Hole, ...]
    resolution: int

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.box.axes

    @cached_property
    def products(self) -> tuple[Products, ...]:
        """Of every hole."""
        return tuple(map(self._products, self.holes))

    def _products(self, hole: Hole) -> Products:
        rim = np.zeros((1, len(self.axes)))
        rim[0, list(hole.coordinates)] = hole.centre
        rim[0, hole.coordinates[0]] += hole.radius
        modes = self._modes(hole, rim, Orders(((0,) * len(self.axes),)))
        num = len(modes.names)
        counts = [axis.num for _, axis in self._others(hole)]
        if not counts:
            last = np.arange(num) >= num - tail_length(num)
            return Products(np.arange(num), [], [(name,) for name in modes.names], last)
        mode, *others = (i.ravel() for i in np.indices((num, *counts)))
        share = modes.degrees[mode] / (self._degree(hole) + 1)
        share = share + sum(k / n for k, n in zip(others, counts, strict=True))
        used = share < 1 - 1e-12
        mode, others = mode[used], [k[used] for k in others]
        names = [(modes.names[i], *ks) for i, *ks in zip(mode, *others, strict=True)]
        fewest = min(counts)
        last = share[used] >= 1 - tail_length(fewest) / fewest
        return Products(mode, others, names, last)

    @cached_property
    def size(self) -> int:
        return self.box.size + sum(len(products.mode) for products in self.products)

    def _others(self, hole: Hole) -> list[tuple[int, Axis]]:
        return [(i, axis) for i, axis in enumerate(self.axes) if i not in hole.coordinates]

    def _degree(self, hole: Hole) -> int:
        """Of its modes: less in three coordinates, where there are many of the same degree."""
        share = 1 / 3 if len(hole.coordinates) == 3 else 3 / 4 if self._others(hole) else 1 / 2
        return max(LEAST_DEGREE, int(share * self.resolution))

    def _modes(self, hole: Hole, points: np.ndarray, orders: Orders) -> Modes:
        degree, along = self._degree(hole), bool(self._others(hole))
        if len(hole.coordinates) == 3:
            return solid_modes(hole, degree, POWERS, points, orders)
        powers = POWERS_ALONG if along else POWERS
        return round_modes(hole, degree, powers, points, orders, limited=along)

    def table(
        self, points: np.ndarray, orders: Orders, wanted: Sequence[int] | None = None
    ) -> np.ndarray:
        """Taylor coefficients (s, n, size) of all functions at points (n, dim), or those wanted."""
        tables = [self._table(*pair, points, orders, wanted) for pair in self._pairs()]
        return np.concatenate([some_of(self.box, points, orders, wanted), *tables], axis=2)

    def _pairs(self) -> list[tuple[Hole, Products]]:
        return list(zip(self.holes, self.products, strict=True))

    def _table(
        self, hole: Hole, products: Products, points: np.ndarray, orders: Orders,
        wanted: Sequence[int] | None = None,
    ) -> np.ndarray:  # fmt: skip
        modes, parts = self._modes(hole, points, orders).values, []
        for s in range(len(orders)) if wanted is None else wanted:
            index = orders.indices[s]
            own = tuple(order if i in hole.coordinates else 0 for i, order in enumerate(index))
            product = modes[:, orders.indices.index(own)].T[:, products.mode]
            for (i, axis), functions in zip(self._others(hole), products.others, strict=True):
                along = axis.values(points[:, i], index[i]) / math.factorial(index[i])
                product *= along[:, functions]
            parts.append(product)
        return np.stack(parts)

    def evaluate(self, coefficients: np.ndarray, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Taylor coefficients (s, n, outputs) of an expansion (outputs, size) at points."""
        values = self.box.evaluate(coefficients[:, : self.box.size], points, orders)
        parts = self._split(coefficients)[1:]
        rows = max(1, CHUNK // max(self.size, 1))
        for start, (pair, part) in itertools.product(
            range(0, len(points), rows), zip(self._pairs(), parts, strict=True)
        ):
            piece = slice(start, start + rows)
            values[:, piece] += self._table(*pair, points[piece], orders) @ part.T
        return values

    def _split(self, coefficients: np.ndarray) -> list[np.ndarray]:
        """Coefficients (outputs, size, ...) of the box and of every hole."""
        counts = [self.box.size, *(len(products.mode) for products in self.products)]
        return np.split(coefficients, np.cumsum(counts)[:-1], axis=1)

    def resized(self, coefficients: np.ndarray, other: Frame) -> np.ndarray:
        """The coefficients (outputs, size) in another frame of the same holes, cut or padded."""
        assert self.holes == other.holes
        of_box, *of_holes = self._split(coefficients)
        parts = [resized(of_box, self.box, other.box)]
        for part, products, wanted in zip(of_holes, self.products, other.products, strict=True):
            position = {name: i for i, name in enumerate(products.names)}
            places = [position.get(name, -1) for name in wanted.names]
            parts.append(np.pad(part, ((0, 0), (0, 1)))[:, places])
        return np.concatenate(parts, axis=1)

    def tails(self, coefficients: np.ndarray) -> list[float]:
        """Along each axis, the share of its last coefficients in an expansion (outputs, size)."""
        return self.box.tails(coefficients[:, : self.box.size])

    def last(self, functions: np.ndarray) -> np.ndarray:
        """The last coefficients along any axis, and of each hole: (k, f) of (outputs, size, f)."""
        of_box, *of_holes = self._split(functions)
        parts = [self.box.last(of_box)]
        for part, products in zip(of_holes, self.products, strict=True):
            parts.append(part[:, products.last].reshape(-1, functions.shape[2]))
        return np.concatenate(parts)


Basis = TensorBasis | DegreeBasis | Frame


def resized(coefficients: np.ndarray, old: Basis, new: Basis) -> np.ndarray:
    """The coefficients (outputs, size) of one basis in another of the same kind."""
    if isinstance(old, Frame) and isinstance(new, Frame):
        return old.resized(coefficients, new)
    if isinstance(old, DegreeBasis) and isinstance(new, DegreeBasis):
        return old.resized(coefficients, new)
    assert isinstance(old, TensorBasis)
    assert isinstance(new, TensorBasis)
    return old.resized(coefficients, new)


def some_of(
    basis: Basis, points: np.ndarray, orders: Orders, wanted: Sequence[int] | None
) -> np.ndarray:
    """Those of the Taylor coefficients (s, n, size) of all functions at points that are wanted."""
    if isinstance(basis, Frame):
        return basis.table(points, orders, wanted)
    if wanted is not None:
        orders = Orders(tuple(orders.indices[s] for s in wanted))
    return basis.table(points, orders)


def has_holes(region: Region) -> bool:
    """Whether a region that does not move has functions of its own beside its bounding box's."""
    return bool(holes_of(region, np.asarray(region.given(None), float)))


def functions_on(
    domain: Box | Region, sizes: Sequence[int], parameters: np.ndarray | None = None
) -> Basis:
    """So many functions along each coordinate of a domain; on a shape with those of its holes."""
    if not isinstance(domain, Box):
        return frame_on(domain, sizes, parameters)
    tensor = basis_on(domain, sizes)
    return tensor if len(sizes) <= GRIDS else DegreeBasis(tensor.axes)


def frame_on(region: Region, sizes: Sequence[int], parameters: np.ndarray | None) -> Basis:
    """So many functions along each coordinate of the bounding box, and functions of the holes."""
    box: TensorBasis | DegreeBasis = basis_on(region, sizes)
    if len(sizes) > TENSORS:
        box = DegreeBasis(box.axes)
    if parameters is None and region.moves:
        return box
    holes = holes_of(region, np.asarray(region.given(parameters), float))
    if not holes:
        return box
    most, resolution = box.size + MOST_MODES[len(sizes)], max(sizes)
    while resolution > LEAST_DEGREE and Frame(box, holes, resolution).size > most:
        resolution -= 1
    return Frame(box, holes, resolution)


def affordable(
    domain: Box | Region, sizes: Sequence[int], most: float, parameters: np.ndarray | None = None
) -> tuple[int, ...]:
    """As many functions along each coordinate, or fewer, so that all are at most `most`."""
    while functions_on(domain, sizes, parameters).size > most and max(sizes) > 2:
        sizes = [num - 1 for num in sizes]
    return tuple(sizes)


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


def scattered(domain: Box | Region, basis: Basis, times: int, parameters: np.ndarray) -> np.ndarray:
    """Points inside, so many times as there are functions, dense where those vary fast.

    Polynomials of high degree do so at the edges of the bounding box: half of their points are
    distributed like the nodes of Chebyshev, the others evenly. Functions of a hole do so at its
    rim: their points are such that a / |x - c| is distributed like those nodes.
    """
    of_box = basis.box if isinstance(basis, Frame) else basis
    num, half = times * of_box.size, times * of_box.size // 2
    box = domain if isinstance(domain, Box) else domain.box_at(parameters)
    in_box = partial(_like_nodes, box, [axis.periodic for axis in of_box.axes])
    parts = [domain.sobol(num - half, 11, parameters=parameters)]
    if isinstance(domain, Box):
        return np.concatenate([*parts, in_box(unit_sobol(half, domain.dim, 12))])
    parts.append(_inside(domain, parameters, half, domain.dim, in_box))
    if isinstance(basis, Frame):
        for hole, products in zip(basis.holes, basis.products, strict=True):
            parts.append(_around(domain, parameters, hole, times * len(products.mode), in_box))
    return np.concatenate(parts)


def _like_nodes(box: Box, periodic: Sequence[bool], unit: np.ndarray) -> np.ndarray:
    """Points of the unit cube to where nodes of Chebyshev, or equidistant ones, would lie."""
    ends = np.array(list(box.ranges.values()))
    nodes = np.where(periodic, unit, (1 - np.cos(np.pi * unit)) / 2)
    return ends[:, 0] + np.ptp(ends, axis=1) * nodes


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
