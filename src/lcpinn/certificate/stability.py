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

from lcpinn.spectral.collocation import TensorGrid, apply_axes
from lcpinn.spectral.expansion import Expansion
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.spectral.normal import NormalMatrix, TensorRows

ITERATIONS, STEADY = 60, 1e-3  # of the power method, and the change below which it is over
RESOLVED = 0.2  # the share of last coefficients in the function of the largest constant
STARTS = 2  # random functions that it begins with: one may have next to nothing of the largest
EXACT = 1.5  # the factor by which rounding may have changed the constant


class Stability(NamedTuple):
    """The constant C, and the factors of the terms' mean squares in the norm that it goes with.

    `function` (outputs, functions), of relative size one, is the one with the largest error.
    """

    constant: float
    factors: np.ndarray
    function: np.ndarray

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
    random = np.random.default_rng(0).standard_normal((STARTS, expansion.zero.size))
    estimates = [_largest(normal, mass, start) for start in random]
    largest, function = max(estimates, key=lambda pair: pair[0])
    image = sum(float(np.sum(r.apply(function) ** 2)) for r in rows)
    square = float(function @ mass(function))
    itself = square / max(image, np.finfo(float).tiny)
    if not 1 / EXACT**2 < itself / largest < EXACT**2:
        return None  # the normal matrix is nearly singular: rounding is what its inverse has
    shaped = function.reshape(expansion.zero.shape)
    if max(expansion.basis.tails(shaped)) > RESOLVED:
        return None
    factors = np.array([r.scale for r in rows[: len(expansion.grids)]])
    return Stability(float(np.sqrt(max(largest, itself))), factors, shaped / np.sqrt(square))


def _largest(
    normal: NormalMatrix, mass: Callable[[np.ndarray], np.ndarray], function: np.ndarray
) -> tuple[float, np.ndarray]:
    """The largest eigenvalue and its function."""
    largest = 0.0
    for _ in range(ITERATIONS):
        image = mass(function)
        following = normal.solve(image)
        largest, before = float(following @ image) / float(function @ image), largest
        function = following / np.linalg.norm(following)
        if abs(largest - before) <= STEADY * largest:
            break
    return largest, function


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
