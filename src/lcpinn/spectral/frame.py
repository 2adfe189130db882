"""Expansions on shapes: a tensor basis on the bounding box, collocated where the shape is.

On a shape such a basis is redundant, an extension frame: what it does in the holes is free. Least
squares with a cutoff takes one of the extensions, and is as accurate as the frame allows (Adcock
and Huybrechs 2019). Rows are scattered points, inside and on the boundary, at one lambda.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lcpinn.domain import Box, Region
from lcpinn.jet import Orders
from lcpinn.shape.base import Shape
from lcpinn.shape.combination import Combination
from lcpinn.shape.polygon import Polygon
from lcpinn.spectral.basis import TensorBasis, basis_on
from lcpinn.spectral.collocation import LinearisedRows, ScatteredPoints
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.least_squares import ACCURATE, LeastSquares, dense
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms, zeroth

OVERSAMPLING = 2.5  # rows inside for every function
ON_BOUNDARY = 6.0  # rows of each boundary, times functions to the power (dim - 1) / dim
INSIDE = 4096  # points for norms
CUTOFF = 1e-13  # singular directions of the frame below it are left out


def expansion_on(terms: LinearisedTerms, sizes: Sequence[int], parameters: np.ndarray) -> Expansion:
    """An expansion over the family's domain: on a grid of a box, or as a frame on a shape."""
    if isinstance(terms.family.domain, Box):
        return Expansion(terms, sizes)
    return FrameExpansion(terms, sizes, parameters)


@dataclass(frozen=True, eq=False)
class Interior:
    """Points for norms over the shape."""

    points: np.ndarray


class FrameExpansion(Expansion):
    """Corrections on a shape at one setting of the coefficients."""

    def __init__(self, terms: LinearisedTerms, sizes: Sequence[int], parameters: np.ndarray):
        self.terms, self.family, self.sizes = terms, terms.family, tuple(sizes)
        self.parameters = np.asarray(parameters, float)
        self.basis: TensorBasis = basis_on(self.region.box_at(self.parameters), sizes)

    @property
    def region(self) -> Region:
        assert isinstance(self.family.domain, Region)
        return self.family.domain

    @cached_property
    def grids(self) -> list[Any]:
        """Every term with its points inside, or on each part of the boundary where it holds."""
        found, size = [], self.basis.size
        edge = int(ON_BOUNDARY * size ** (1 - 1 / self.region.dim)) + 8
        for i, term in enumerate(self.terms.terms):
            orders = self.family.orders([term])
            for j, face in enumerate(term.faces or (None,)):
                num = int(OVERSAMPLING * size) if face is None else edge
                seed = 31 * i + 7 * j + 1000 * size
                points = self.region.sobol(num, seed, face=face, parameters=self.parameters)
                found.append(ScatteredPoints(self.basis, points, orders, term))
        return found

    @cached_property
    def inside(self) -> Any:
        return Interior(self.region.sobol(INSIDE, 11, parameters=self.parameters))

    def rows(
        self, at: Linearisation, coefficients: np.ndarray, series: Sequence[np.ndarray]
    ) -> list[LinearisedRows]:
        """The terms about u + d, for the base's series at all points."""
        blocks = []
        for grid, base in zip(self.grids, series, strict=True):
            about = base + grid.series(coefficients) if coefficients.any() else base
            residual, slopes = at.slopes(grid.term, grid.orders, about, grid.points)
            if not (np.isfinite(residual).all() and np.isfinite(slopes).all()):
                raise NotFinite(grid.term.name)
            blocks.append(LinearisedRows(grid, residual, slopes))
        return blocks

    def solved(self, rows: Sequence[LinearisedRows], accuracy: float = ACCURATE) -> LeastSquares:
        """By truncated least squares."""
        del accuracy
        return dense(rows, CUTOFF)

    def values(self, coefficients: np.ndarray) -> np.ndarray:
        """d at the points inside, (n, outputs)."""
        orders: Orders = zeroth(self.region.dim)
        return self.basis.evaluate(coefficients, self.inside.points, orders)[0]

    def without_level(self, values: np.ndarray, output: int, along: Sequence[int]) -> np.ndarray:
        """Values at the points inside, one output less its mean; shapes know no other level."""
        del along
        changed = values.copy()
        changed[:, output] -= values[:, output].mean()
        return changed

    def mean_square(self, values: np.ndarray) -> np.ndarray:
        """Of values at the points inside, over the shape, for each output."""
        return np.mean(values**2, axis=0)


def has_corners(shape: Shape) -> bool:
    """Whether a boundary may have corners that point inwards, where solutions are singular."""
    if isinstance(shape, Combination):
        cut = any(isinstance(part, Box) for part in shape.parts)
        return cut or any(has_corners(part) for part in shape.parts)
    return isinstance(shape, Polygon)
