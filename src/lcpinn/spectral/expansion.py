"""One expansion over the whole domain: least-squares collocation and Newton's method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np

from lcpinn.domain import Box, Face, Part
from lcpinn.jet import Orders
from lcpinn.shape import Region
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.collocation import LinearisedRows, ScatteredPoints, TensorGrid
from lcpinn.spectral.degrees import DegreeBasis
from lcpinn.spectral.frame import GRIDS, Frame, scattered
from lcpinn.spectral.least_squares import ACCURATE, LeastSquares, Preconditioner, solve
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms, zeroth
from lcpinn.spectral.march import outflow_sides
from lcpinn.term import Term

INSIDE, RIM = 3, 6  # scattered points for each function inside, and for each along an axis
# Points on a part of the boundary of products of limited degree, times a power of their number
# along an axis: on the face of a box, and on anything else; and at most, for each function.
ON_FACE, ON_RIM, MOST_ON_RIM = {3: 3.0, 4: 0.4}, {3: 6.0, 4: 1.25}, 3
EVEN = 2048  # scattered points for norms over a region
CHECKS = 128  # scattered points, between those of the grid
# Of an output's largest size over lambda: what counts as its size where it vanishes, and what is
# none, as where a load passes through zero.
SMALL, VANISHING = 1e-3, 1e-9


class NotFinite(Exception):
    """A term is not finite; its name."""


def uses_grids(domain: Box | Region) -> bool:
    """Whether the points are tensor grids: in a box, unless it has too many coordinates."""
    return isinstance(domain, Box) and domain.dim <= GRIDS


class Expansion:
    """Corrections d of a base function u, as expansions with so many functions a coordinate.

    `T'(u + c)[step] = -T(u + c)` for all terms together is one step of Newton's method for the
    coefficients c of d. In a box the points are tensor grids (`on_box`); in any other region, which
    may depend on the parameters, they are scattered, and the functions, on its bounding box, are a
    frame. With four coordinates points are scattered in a box, too. With `integrated`, in a box,
    the functions are integrals of Legendre polynomials; with `breaks`, piecewise polynomials.
    """

    def __init__(
        self, terms: LinearisedTerms, sizes: Sequence[int], parameters: np.ndarray | None = None,
        *, integrated: bool = False, breaks: tuple[float, ...] = (),
    ):  # fmt: skip
        self.terms, self.family, self.parameters = terms, terms.family, parameters
        self.basis = terms.basis(sizes, parameters, integrated=integrated, breaks=breaks)
        self.sizes = tuple(sizes)
        if isinstance(self.basis, TensorBasis) and self.basis.breaks:
            self.sizes = self.basis.shape  # all elements have as many functions
        self.on_box = uses_grids(self.family.domain)
        self._outflow_sides: list[tuple[str, float]] | None = None

    @property
    def _tensor(self) -> TensorBasis:
        """The functions of a box."""
        assert isinstance(self.basis, TensorBasis)
        return self.basis

    @cached_property
    def grids(self) -> list[TensorGrid | ScatteredPoints]:
        """Every term with its points inside, or those on each part of the boundary."""
        names, grids = self.family.domain.names, []
        for term in self.terms.terms:
            orders = self.family.orders([term])
            for face in term.faces or (None,):
                if not self.on_box:
                    points = self._scattered(face)
                    grids.append(ScatteredPoints(self.basis, points, orders, term))
                    continue
                assert face is None or isinstance(face, Face)
                fixed = {} if face is None else {names.index(face.name): face.value}
                grids.append(TensorGrid(self._tensor, fixed, orders, term))
        return grids

    def _scattered(self, face: Face | Part | None) -> np.ndarray:
        """More points than functions, inside or on a part of the boundary."""
        domain: Any = self.family.domain  # a region takes parts of its boundary, too
        if face is None:
            setting = np.zeros(0) if isinstance(domain, Box) else domain.given(self.parameters)
            return scattered(domain, self.basis, INSIDE, setting)
        pieces = len(face.surfaces) if isinstance(face, Part) else 1  # each may be a hole's rim
        num, dim = pieces * max(self.sizes) ** (len(self.sizes) - 1), len(self.sizes)
        if isinstance(self._of_box, TensorBasis):
            num = RIM * num
        else:
            times = ON_RIM if isinstance(face, Part) else ON_FACE
            num = min(int(times[dim] * num), MOST_ON_RIM * self.basis.size)
        return domain.sobol(num, seed=11, face=face, parameters=self.parameters)

    @property
    def _of_box(self) -> TensorBasis | DegreeBasis:
        return self.basis.box if isinstance(self.basis, Frame) else self.basis

    @cached_property
    def inside(self) -> TensorGrid | ScatteredPoints:
        """Points for norms over the domain."""
        orders, term = zeroth(len(self.sizes)), self.terms.terms[0]
        if self.on_box:
            return TensorGrid(self._tensor, {}, orders, term)
        domain: Any = self.family.domain
        points = domain.sobol(EVEN, seed=13, parameters=self.parameters)
        return ScatteredPoints(self.basis, points, orders, term)

    @cached_property
    def mass(self) -> np.ndarray:
        """What the points inside count for in a mean over the domain."""
        if isinstance(self.inside, TensorGrid):
            return reduce(np.kron, self.inside.weights)
        return np.full(len(self.inside.points), 1 / len(self.inside.points))

    @property
    def zero(self) -> np.ndarray:
        """The coefficients (outputs, functions) of d = 0."""
        return np.zeros((len(self.family.outputs), self.basis.size))

    def rows(
        self, at: Linearisation, coefficients: np.ndarray, series: Sequence[np.ndarray]
    ) -> list[LinearisedRows]:
        """The terms about u + d, for the base's series at every grid."""
        blocks = []
        for grid, base in zip(self.grids, series, strict=True):
            about = base + grid.series(coefficients) if coefficients.any() else base
            residual, slopes = at.slopes(grid.term, grid.orders, about, grid.points)
            if not (np.isfinite(residual).all() and np.isfinite(slopes).all()):
                raise NotFinite(grid.term.name)
            blocks.append(LinearisedRows(grid, residual, slopes))
        return blocks + self._outflow(at, coefficients)

    def _outflow(self, at: Linearisation, coefficients: np.ndarray) -> list[LinearisedRows]:
        """d leaves through open sides without a normal derivative."""
        if self._outflow_sides is None:
            self._outflow_sides = outflow_sides(at)
        dim, blocks = len(self.sizes), []
        for name, end in self._outflow_sides:
            coordinate = self.family.domain.names.index(name)
            normal = tuple(int(i == coordinate) for i in range(dim))
            orders = Orders.closure([normal], dim)
            grid = self._on_side(name, end, orders)
            series = grid.series(coefficients)[orders.indices.index(normal)]
            highest = self.terms.highest_orders(coordinate)
            which = [o for o, order in enumerate(highest) if order > 1]
            slopes = np.zeros((len(grid.points), len(which), len(orders), len(self.family.outputs)))
            slopes[:, range(len(which)), orders.indices.index(normal), which] = 1.0
            blocks.append(LinearisedRows(grid, series[:, which], slopes))
        return blocks

    def _on_side(self, name: str, end: float, orders: Orders) -> TensorGrid | ScatteredPoints:
        """Points on a side of the box."""
        term, domain = self.terms.interior[0], self.family.domain
        if self.on_box:
            return TensorGrid(self._tensor, {domain.names.index(name): end}, orders, term)
        points = self._scattered(domain.face(name, end))
        return ScatteredPoints(self.basis, points, orders, term)

    def base(self, at: Linearisation) -> list[np.ndarray]:
        """The base's Taylor coefficients at every grid."""
        return at.several([(grid.points, grid.orders) for grid in self.grids])

    def step(
        self, at: Linearisation, coefficients: np.ndarray, series: Sequence[np.ndarray],
        accuracy: float = ACCURATE, preconditioner: Preconditioner | None = None,
    ) -> LeastSquares:  # fmt: skip
        """One step of Newton's method; its coefficients are (outputs, functions)."""
        solved = solve(self.rows(at, coefficients, series), accuracy, preconditioner)
        return solved._replace(coefficients=solved.coefficients.reshape(coefficients.shape))

    def values(self, coefficients: np.ndarray) -> np.ndarray:
        """d at the points inside, (n, outputs)."""
        return self.inside.series(coefficients)[0]

    def without_level(self, values: np.ndarray, output: int, along: Sequence[int]) -> np.ndarray:
        """Values at the points inside, one output less its mean along some coordinates."""
        if not isinstance(self.inside, TensorGrid):
            level = np.zeros_like(values)
            level[:, output] = self._level(values[:, output], along)
            return values - level
        tensor = values[:, output].reshape(self.inside.counts)
        mean = tensor
        for i in along:
            mean = np.expand_dims(np.tensordot(mean, self.inside.weights[i], (i, 0)), i)
        changed = values.copy()
        changed[:, output] = (tensor - mean).ravel()
        return changed

    def _level(self, values: np.ndarray, along: Sequence[int]) -> np.ndarray:
        """What scattered values (n,) have of functions that depend on the other coordinates alone.

        A sum of functions of one coordinate each: of time, as a rule.
        """
        points, tables = self.inside.points, [np.ones((len(values), 1))]
        for i, axis in enumerate(self.basis.axes):
            if i not in along:
                tables.append(axis.values(points[:, i], 0)[:, 1:])
        table = np.concatenate(tables, axis=1)
        return table @ np.linalg.lstsq(table, values, rcond=None)[0]

    def mean_square(self, values: np.ndarray) -> np.ndarray:
        """Of values at the points inside, over the domain, for each output."""
        return self.mass @ values**2

    def relative(
        self, error: np.ndarray, solution: np.ndarray, least: np.ndarray | float = 0.0
    ) -> float:
        """The root mean square of an error beside that of the solution; the worst output counts.

        A solution whose mean square is below `least` counts as that large.
        """
        sizes = np.maximum(self.mean_square(solution), least)
        ratio = self.mean_square(error) / np.where(sizes > 0, sizes, 1)
        return float(np.sqrt(np.max(ratio)))

    def remaining_share_between(
        self, at: Linearisation, coefficients: np.ndarray, least: float = 1e-12
    ) -> float:
        """The share of the interior residual that is left at points in no regular order.

        What oscillates between the points of a grid can look smooth on it. A residual below `least`
        counts as that: of a homogeneous equation about zero there is none to take a share of.
        """
        points = self.family.domain.sobol(CHECKS, seed=5, parameters=at.parameters)
        parts = [self._change_of(at, coefficients, term, points) for term in self.terms.interior]
        initial, remaining = (
            float(np.linalg.norm(np.concatenate(v, axis=1))) for v in zip(*parts, strict=True)
        )
        return remaining / (initial + least)

    def remaining_share_on_rims(
        self, at: Linearisation, coefficients: np.ndarray, least: float
    ) -> float:
        """The largest share of a boundary term's residual that is left between its points.

        Where there is hardly any residual it is the share of what the term makes of a function that
        varies over the size of the domain, of d's size or at `least` of the given one.
        """
        domain: Any = self.family.domain
        sizes, shares = self.mean_square(self.values(coefficients)), [0.0]
        size = float(np.sqrt(sizes.max())) + least
        for term in self.terms.terms:
            for face in term.faces:
                points = domain.sobol(CHECKS, seed=5, face=face, parameters=self.parameters)
                before, after, unit = self._on_rim(at, coefficients, term, points)
                shares.append(float(np.max(after / np.maximum(before, size * unit))))
        return max(shares)

    def _on_rim(
        self, at: Linearisation, coefficients: np.ndarray, term: Term, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each of a term's values (c,): what it was, what is left, and its unit."""
        orders = self.family.orders([term])
        base = at.series(points, orders)
        before, slopes = at.slopes(term, orders, base, points)
        added = self.basis.evaluate(coefficients, points, orders)
        after, _ = at.slopes(term, orders, base + added, points)
        lengths = np.array([(axis.high - axis.low) / 2 for axis in self.basis.axes])
        scale = np.prod(lengths ** -np.array(orders.indices, float), axis=1)
        unit = np.einsum("cso,s->c", np.sqrt(np.mean(slopes**2, axis=0)), scale)
        rms = lambda values: np.sqrt(np.mean(values**2, axis=0))
        return rms(before), rms(after), unit

    def _change_of(
        self, at: Linearisation, coefficients: np.ndarray, term: Term, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A term's residual before and after, (n, c), as shares of its rows' sizes."""
        orders = self.family.orders([term])
        scattered = ScatteredPoints(self.basis, points, orders, term)
        base = at.series(points, orders)
        before, slopes = at.slopes(term, orders, base, points)
        added = self.basis.evaluate(coefficients, points, orders)
        after, _ = at.slopes(term, orders, base + added, points)
        size = scattered.row_norms(slopes)
        size = np.where(size > 0, size, 1)
        return before / size, after / size
