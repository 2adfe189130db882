"""Least squares on tensor grids without the matrix: conjugate gradients, axis by axis.

In three dimensions the matrix of a linearised equation has ten thousand rows and some thousand
columns, but every column is a product of one function for each axis, and is applied as such. The
preconditioner is the normal matrix of the same equation with its slopes averaged over the points,
which is a sum of Kronecker products: exact where coefficients do not depend on the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from lcpinn.certificate.grid import Block, along

STEPS = 200
ACCURATE = 1e-8  # of the gradient, in the norm of the preconditioner
JITTER = 1e-14  # of the diagonal: functions that no row sees


def solve(blocks: Sequence[Block]) -> tuple[np.ndarray, float, float]:
    """The least-squares coefficients, the size of what is left, and that of the right-hand side.

    What is left counts as infinite where the iteration does not converge.
    """
    rows = [Rows(block) for block in blocks]
    normal = _sum_of_products([pair for r in rows for pair in r.pairs])
    normal[np.diag_indices_from(normal)] *= 1 + JITTER
    factor = cho_factor(normal, lower=True, overwrite_a=True, check_finite=False)
    left = [-r.weight * r.block.residual for r in rows]
    whole, found = _norm(left), np.zeros(len(normal))
    direction, size, first = np.zeros(len(normal)), 1.0, None
    for _ in range(STEPS):
        gradient = sum(r.transposed(v) for r, v in zip(rows, left, strict=True))
        step = cho_solve(factor, gradient, check_finite=False)
        size, before = float(gradient @ step), size
        if first is None:
            first = size
        elif size <= ACCURATE**2 * first:
            return found, _norm(left), whole
        direction = step + size / before * direction
        change = [r.apply(direction) for r in rows]
        length = size / max(_norm(change) ** 2, np.finfo(float).tiny)
        found = found + length * direction
        left = [v - length * c for v, c in zip(left, change, strict=True)]
    return found, np.inf, whole


def _norm(parts: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.sum(p**2) for p in parts)))


def _sum_of_products(pairs: Sequence[list[np.ndarray]]) -> np.ndarray:
    """The sum of Kronecker products; as one matrix product, it is written once."""
    first = np.stack([factors[0] for factors in pairs])
    rest = np.stack([reduce(np.kron, factors[1:]) for factors in pairs])
    (_, a, _), (_, b, _) = first.shape, rest.shape
    total = first.reshape(-1, a * a).T @ rest.reshape(-1, b * b)
    return total.reshape(a, a, b, b).transpose(0, 2, 1, 3).reshape(a * b, a * b)


class Rows:
    """The rows of a block, weighted as a quadrature over its points, of size one on average."""

    def __init__(self, block: Block):
        self.block = block
        mass = reduce(np.kron, block.grid.weights)
        self._tables = {
            s: block.grid.tables(index)
            for s, index in enumerate(block.grid.orders.indices)
            if block.slopes[:, :, s].any()
        }
        mean = np.einsum("n,ncso->cso", mass, block.slopes)
        pairs = self._pairs(np.einsum("cso,ctp->stop", mean, mean))
        trace = sum(np.prod([np.trace(factor) for factor in factors]) for factors in pairs)
        num = np.prod([len(factor) for factor in pairs[0]]) if pairs else 1
        scale = float(num / trace) if trace > 0 else 1.0
        self.weight = np.sqrt(scale * mass)[:, None]
        self.pairs = [[scale * factors[0], *factors[1:]] for factors in pairs]

    def _pairs(self, products: np.ndarray) -> list[list[np.ndarray]]:
        """The normal matrix with these products of mean slopes, (s, s, outputs, outputs).

        A list of Kronecker products, one for each pair of Taylor coefficients.
        """
        found = []
        for s, left in self._tables.items():
            for t, right in self._tables.items():
                each = [
                    (a * w[:, None]).T @ b
                    for a, b, w in zip(left, right, self.block.grid.weights, strict=True)
                ]
                found.append([np.kron(products[s, t], each[0]), *each[1:]])
        return found

    def apply(self, coefficients: np.ndarray) -> np.ndarray:
        """The weighted rows (n, c) of an expansion, which is flat."""
        slopes, total = self.block.slopes, np.zeros(self.block.residual.shape)
        for s, tables in self._tables.items():
            for o, one in enumerate(coefficients.reshape(slopes.shape[-1], -1)):
                total += slopes[:, :, s, o] * along(tables, one)[:, None]
        return self.weight * total

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """The transpose of `apply`."""
        slopes, weighted, found = self.block.slopes, self.weight * values, []
        for o in range(slopes.shape[-1]):
            found.append(
                sum(
                    along([t.T for t in tables], np.sum(slopes[:, :, s, o] * weighted, axis=1))
                    for s, tables in self._tables.items()
                )
            )
        return np.concatenate(found)
