"""One piece of a march: the linearised terms as sparse rows, and the correction that they ask for.

Along the march d is a sum of a few polynomials, across it a spline:

    d(t, x) = sum of f(t) B(x) c     over the polynomials f and the splines B.

Rows are weighted so that what is left of them has the unit of d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.polynomial import Polynomial

from lcpinn.jet import MultiIndex, Orders, factorial
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.spectral.splines import Splines
from lcpinn.term import Term

CONDITION = 100.0  # the weight of conditions at the sides, beside the equation's
REGULARISATION = 1e-4  # the weight of d itself, which settles what no condition does
NEWTON = 6
SETTLED = 1e-2  # the share of d by which its last correction may have changed it

Matrix = Callable[[], Any]  # sparse rows (n c, free coefficients), made when they are needed


class Diverged(Exception):
    """Newton's method did not settle."""


class SlabInterval(NamedTuple):
    """A slab of the march: its nodes in [0, 1], their weights, and the functions there."""

    coordinate: int
    origin: float
    length: float
    nodes: np.ndarray
    mass: np.ndarray
    functions: Sequence[Sequence[Polynomial]]  # for each output
    fixed: Sequence[int]  # how many of them, the first ones, have coefficients that are known

    def table(self, output: int, nodes: np.ndarray, order: int) -> np.ndarray:
        """An output's functions, differentiated so often, (len(nodes), functions)."""
        each = [f.deriv(order)(nodes) if order else f(nodes) for f in self.functions[output]]
        return np.stack(each, axis=-1) / self.length**order


class SlabRows:
    """Terms that hold at the same points across: all of them, or one side."""

    def __init__(
        self, at: Linearisation, along: SlabInterval, splines: Splines, terms: Sequence[Term],
        orders: Orders, side: float | None = None,
    ):  # fmt: skip
        self.at, self.along, self.terms, self.orders, self.side = at, along, terms, orders, side
        x, mass = splines.nodes if side is None else (np.array([side]), np.array([CONDITION**2]))
        if side is None:
            mass = mass / (splines.breaks[-1] - splines.breaks[0])
        self.mass = np.kron(mass, along.mass)
        self.points = np.empty((len(x) * len(along.nodes), 2))
        times = along.origin + along.length * along.nodes
        self.points[:, along.coordinate] = np.tile(times, len(x))
        self.points[:, 1 - along.coordinate] = np.repeat(x, len(times))
        self.series = at.series(self.points, orders)
        self._along = {
            (o, order): along.table(o, along.nodes, order)
            for o in range(len(along.functions))
            for order in {index[along.coordinate] for index in orders.indices}
        }
        self._across = {
            order: splines.at_nodes(order) if side is None else splines.values(x, order)
            for order in {index[1 - along.coordinate] for index in orders.indices}
        }

    def _tables(self, output: int, index: MultiIndex) -> tuple[scipy.sparse.csr_array, np.ndarray]:
        """Across and along, for one Taylor coefficient."""
        t = self.along.coordinate
        return self._across[index[1 - t]], self._along[output, index[t]] / factorial(index)

    @cached_property
    def _products(self) -> dict[tuple[int, int], scipy.sparse.csr_array]:
        """For each output and Taylor coefficient its rows, (n, free coefficients)."""
        products = {}
        for o, fixed in enumerate(self.along.fixed):
            for s, index in enumerate(self.orders.indices):
                across, along = self._tables(o, index)
                products[o, s] = scipy.sparse.kron(across, along[:, fixed:], format="csr")
        return products

    def expansion(self, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """The Taylor coefficients (s, n, outputs) of d."""
        series = np.empty(self.series.shape)
        for o, one in enumerate(coefficients):
            for s, index in enumerate(self.orders.indices):
                across, along = self._tables(o, index)
                series[s, :, o] = ((across @ one) @ along.T).ravel()
        return series

    def about(self, coefficients: Sequence[np.ndarray]) -> tuple[np.ndarray, Matrix]:
        """T(u + d), weighted, (n, c); and what gives the linearised rows, weighted alike."""
        series, residuals, slopes = self.series + self.expansion(coefficients), [], []
        for term in self.terms:
            residual, slope = self.at.slopes(term, self.orders, series, self.points)
            if not (np.isfinite(residual).all() and np.isfinite(slope).all()):
                raise Diverged
            for c in range(residual.shape[1]):
                weight = np.sqrt(self.mass) / self._unit(slope[:, c])
                residuals.append(weight * residual[:, c])
                slopes.append(weight[:, None, None] * slope[:, c])
        stacked = np.stack(residuals, axis=-1)
        return stacked, lambda: _stacked([self._rows(s) for s in slopes])

    def _unit(self, slopes: np.ndarray) -> float:
        """How strongly a component answers to a d that does not vary across."""
        along, total = self.along, 0.0
        for s, index in enumerate(self.orders.indices):
            if index[1 - along.coordinate] == 0:
                size = np.sqrt(np.mean(slopes[:, s] ** 2)) / factorial(index)
                total = max(total, size / abs(along.length) ** index[along.coordinate])
        return total if total > 0 else 1.0

    def _rows(self, slopes: np.ndarray) -> Any:
        """Rows (n, free coefficients of all outputs) for slopes (n, s, outputs)."""
        columns = []
        for o in range(slopes.shape[2]):
            total = None
            for s in range(slopes.shape[1]):
                if slopes[:, s, o].any():
                    part = self._products[o, s].copy()
                    part.data *= np.repeat(slopes[:, s, o], np.diff(part.indptr))
                    total = part if total is None else total + part
            columns.append(0 * self._products[o, 0] if total is None else total)
        return columns[0] if len(columns) == 1 else scipy.sparse.hstack(columns, format="csr")


def _stacked(rows: Sequence[Any]) -> Any:
    """Rows below one another; what SciPy does to a single block takes as long as a product."""
    return rows[0] if len(rows) == 1 else scipy.sparse.vstack(rows, format="csr")


class OpenSide:
    """A side without a condition although the equation's order asks for one.

    What flows out there is not known; d is taken to leave without a gradient.
    """

    def __init__(self, along: SlabInterval, splines: Splines, side: float, orders: Sequence[int]):
        beside = np.diff(splines.breaks)[0 if side == splines.breaks[0] else -1]
        root, columns = np.sqrt(along.mass)[:, None], []
        for o, order in enumerate(orders):
            slope = max(order - 1, 0)
            across = splines.values(np.array([side]), slope) * beside**slope
            columns.append((across, (slope > 0) * root * along.table(o, along.nodes, 0)))
        self._columns, self._fixed = columns, along.fixed

    def about(self, coefficients: Sequence[np.ndarray]) -> tuple[np.ndarray, Matrix]:
        """As of a block."""
        residual = np.zeros((len(self._columns[0][1]), 1))
        for (across, steps), c in zip(self._columns, coefficients, strict=True):
            residual += steps @ (across @ c).T
        free = [
            scipy.sparse.kron(across, steps[:, k:], format="csr")
            for (across, steps), k in zip(self._columns, self._fixed, strict=True)
        ]
        return residual, lambda: scipy.sparse.hstack(free, format="csr")


class SlabExpansion(NamedTuple):
    """What was found in a slab: for each output its coefficients (splines, functions)."""

    along: SlabInterval
    splines: Splines
    coefficients: tuple[np.ndarray, ...]

    @property
    def end(self) -> float:
        return self.along.origin + self.along.length

    def __call__(self, along: np.ndarray, across: np.ndarray) -> np.ndarray:
        """Values (n, outputs) at points of the slab."""
        table = self.splines.values(across, 0)
        unit = (along - self.along.origin) / self.along.length
        each = [
            np.sum((table @ c) * self.along.table(o, unit, 0), axis=1)
            for o, c in enumerate(self.coefficients)
        ]
        return np.stack(each, axis=-1)


class SolvedSlab(NamedTuple):
    """d's coefficients, and the terms at every block, (n, c): once d is added, and before."""

    coefficients: list[np.ndarray]
    remaining: list[np.ndarray]
    initial: list[np.ndarray]


@dataclass
class Slab:
    """All blocks of a slab. `known` are d's coefficients (num, functions) to begin with."""

    along: SlabInterval
    splines: Splines
    blocks: Sequence[SlabRows | OpenSide]
    known: Sequence[np.ndarray]
    weight: float = REGULARISATION

    def expansion(self, coefficients: Sequence[np.ndarray]) -> SlabExpansion:
        return SlabExpansion(self.along, self.splines, tuple(coefficients))

    def solve(self, enough: float, *, linear: bool) -> SolvedSlab:
        """d's coefficients, by Newton's method: until little is left, or nothing changes."""
        coefficients, change, initial = list(self.known), np.inf, None
        for _ in range(NEWTON):
            blocks = [block.about(coefficients) for block in self.blocks]
            residual, rows = zip(*blocks, strict=True)
            size = float(np.sqrt(sum(np.sum(part**2) for part in residual)))
            if initial is None:
                initial = residual
            elif linear or size <= enough or change <= SETTLED * self.size(coefficients):
                return SolvedSlab(coefficients, list(residual), list(initial))
            target = np.concatenate([part.T.ravel() for part in residual])
            step = self._step(_stacked([r() for r in rows]), -target, coefficients)
            coefficients = [c + s for c, s in zip(coefficients, step, strict=True)]
            change = self.size(step)
        raise Diverged

    def _step(
        self, matrix: Any, target: np.ndarray, coefficients: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The change of d that the linearised rows ask for; of several, the one near d = 0."""
        free = [c[:, k:] for c, k in zip(coefficients, self.along.fixed, strict=True)]
        mass = np.concatenate([np.repeat(self._mass, f.shape[1]) for f in free])
        regularisation = self.weight**2 * mass
        try:
            factor = scipy.sparse.linalg.splu(
                scipy.sparse.csc_array(matrix.T @ matrix + scipy.sparse.diags_array(regularisation))
            )
        except RuntimeError:  # singular
            raise Diverged from None
        before = np.concatenate([f.ravel() for f in free])
        change = np.zeros(len(before))
        for _ in range(2):  # the second time for what the squared matrix lost
            gradient = matrix.T @ (target - matrix @ change) - regularisation * (before + change)
            change = change + factor.solve(gradient)
        parts = np.split(change, np.cumsum([f.size for f in free])[:-1])
        return [
            np.concatenate([np.zeros((len(f), k)), part.reshape(f.shape)], axis=1)
            for f, k, part in zip(free, self.along.fixed, parts, strict=True)
        ]

    @cached_property
    def _mass(self) -> np.ndarray:
        """The mean square of every spline."""
        mass = self.splines.nodes[1]
        return (self.splines.at_nodes(0) ** 2).T @ mass / mass.sum()

    @cached_property
    def _along(self) -> list[np.ndarray]:
        """Every output's functions at the nodes."""
        along = self.along
        return [along.table(o, along.nodes, 0) for o in range(len(along.functions))]

    def values(self, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """d at the nodes, (across, along, outputs)."""
        across = self.splines.at_nodes(0)
        each = [(across @ c) @ t.T for c, t in zip(coefficients, self._along, strict=True)]
        return np.stack(each, axis=-1)

    def size(self, coefficients: Sequence[np.ndarray]) -> float:
        """The root mean square of d over the slab."""
        return float(np.sqrt(np.sum(self.squares(self.values(coefficients)))))

    def squares(self, values: np.ndarray) -> np.ndarray:
        """The mean square of values at the nodes, for each output."""
        mass = self.splines.nodes[1]
        return np.einsum("x,t,xto->o", mass / mass.sum(), self.along.mass, values**2)
