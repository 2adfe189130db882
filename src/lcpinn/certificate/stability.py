"""How large an error at most goes with a residual of a given size.

The linearised terms have a constant of stability, the largest C of

    ‖d‖ ≤ C ‖T'(u)[d]‖,

norms being root mean squares over the domain and its faces. It belongs to functions that are smooth
where the page is, however fine the network's error, and takes a small expansion. What a finer one
leaves of a residual is then known to matter little, although its error is not resolved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lcpinn.domain import Box, Face, Part
from lcpinn.jet import Orders
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.collocation import TensorGrid, apply_axes
from lcpinn.spectral.expansion import Expansion
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.spectral.normal import NormalMatrix, TensorRows

ITERATIONS, STEADY = 60, 1e-3  # of the power method, and the change below which it is over
RESOLVED = 0.2  # the share of last coefficients in the function of the largest constant
POINTS = 512  # scattered ones, inside and on every face, for norms of a residual


class Stability(NamedTuple):
    """The constant C, and the factors of the terms' mean squares in the norm that it goes with."""

    constant: float
    factors: np.ndarray

    def bound(self, mean_squares: np.ndarray) -> float:
        """What an error is at most, of residuals with these mean squares, one for each grid."""
        return self.constant * float(np.sqrt(self.factors @ mean_squares))


def stability(expansion: Expansion, at: Linearisation, scale: np.ndarray) -> Stability | None:
    """Of errors relative to a scale (outputs,); None where the expansion does not resolve it.

    By the power method for (AᵀA)⁻¹ M, with the rows A and the mass matrix M.
    """
    blocks = expansion.rows(at, expansion.zero, expansion.base(at))
    rows = [TensorRows(block) for block in blocks]
    normal, mass = NormalMatrix(rows), _mass(expansion, scale)
    function = np.random.default_rng(0).standard_normal(expansion.zero.size)
    largest = 0.0
    for _ in range(ITERATIONS):
        image = mass(function)
        following = normal.solve(image)
        largest, before = float(following @ image) / float(function @ image), largest
        function = following / np.linalg.norm(following)
        if abs(largest - before) <= STEADY * largest:
            break
    shaped = function.reshape(expansion.zero.shape)
    if max(expansion.basis.tails(shaped)) > RESOLVED:
        return None
    factors = np.array([r.scale for r in rows[: len(expansion.grids)]])
    return Stability(float(np.sqrt(largest)), factors)


def _mass(expansion: Expansion, scale: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Of flat coefficients: the derivative of half the sum of relative mean squares."""
    grid, dim = expansion.inside, len(expansion.sizes)
    assert isinstance(grid, TensorGrid)
    tables = grid.tables((0,) * dim)
    transposed = [table.T for table in tables]

    def apply(flat: np.ndarray) -> np.ndarray:
        outputs = flat.reshape(len(scale), -1)
        return np.concatenate([
            apply_axes(transposed, expansion.mass * apply_axes(tables, one)) / size**2
            for one, size in zip(outputs, scale, strict=True)
        ])  # fmt: skip

    return apply


def mean_squares(
    expansion: Expansion, at: Linearisation, basis: TensorBasis, coefficients: np.ndarray
) -> np.ndarray:
    """Of every grid's term, once a correction is added, at scattered points; (grids,)."""
    found, family = [], expansion.family
    for term in expansion.terms.terms:
        orders = family.orders([term])
        for face in term.faces or (None,):
            points = _scattered(expansion, face)
            series = at.series(points, orders) + _series(basis, coefficients, points, orders)
            residual, _ = at.slopes(term, orders, series, points)
            found.append(float(np.sum(np.mean(residual**2, axis=0))))
    return np.array(found)


def _scattered(expansion: Expansion, face: Face | Part | None) -> np.ndarray:
    domain, dim = expansion.family.domain, len(expansion.sizes)
    assert isinstance(domain, Box)
    num = 1 if face is not None and dim == 1 else POINTS
    return np.asarray(domain.sobol(num, seed=23, face=face))


def _series(
    basis: TensorBasis, coefficients: np.ndarray, points: np.ndarray, orders: Orders
) -> np.ndarray:
    return basis.evaluate(coefficients, points, orders) if coefficients.any() else np.zeros(1)
