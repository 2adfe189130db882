"""Functions of a coordinate that may be fine in one place and coarse in another."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy

DEGREE = 5
NODES = 3  # Gauss points of an interval, of which each brings one function


class Splines:
    """Splines of degree 5 over the intervals between `breaks`, with four continuous derivatives."""

    def __init__(self, breaks: np.ndarray, *, periodic: bool = False, degree: int = DEGREE):
        self.breaks, self.periodic, self.degree = breaks, periodic, degree
        length = breaks[-1] - breaks[0]
        if periodic:
            before, after = breaks[-degree - 1 : -1] - length, breaks[1 : degree + 1] + length
        else:
            before, after = np.repeat(breaks[:1], degree), np.repeat(breaks[-1:], degree)
        knots = np.concatenate([before, breaks, after])
        self._all = len(knots) - degree - 1
        self.num = len(breaks) - 1 if periodic else self._all
        self._functions = scipy.interpolate.BSpline(knots, np.eye(self._all), degree)
        self._at_nodes: dict[int, scipy.sparse.csr_array] = {}

    @cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Gauss points of every interval, in order, and their weights."""
        unit, mass = np.polynomial.legendre.leggauss(NODES)
        size = np.diff(self.breaks)[:, None]
        x = self.breaks[:-1, None] + size * (1 + unit) / 2
        return x.ravel(), (size * mass / 2).ravel()

    def values(self, x: np.ndarray, order: int) -> scipy.sparse.csr_array:
        """Every function's derivative of that order, (len(x), num)."""
        table = self._functions(x, nu=order)
        if self.periodic:
            table, wrapped = table[:, : self.num].copy(), table[:, self.num :]
            table[:, : wrapped.shape[1]] += wrapped
        return scipy.sparse.csr_array(table)

    def at_nodes(self, order: int) -> scipy.sparse.csr_array:
        """The same at the Gauss points, kept: every step of Newton's method asks for it."""
        if order not in self._at_nodes:
            self._at_nodes[order] = self.values(self.nodes[0], order)
        return self._at_nodes[order]


def halved(breaks: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Split the marked intervals, and others until none is four times as long as one beside it."""
    middle = (breaks[:-1] + breaks[1:]) / 2
    breaks = np.sort(np.concatenate([breaks, middle[where]]))
    size = np.diff(breaks)
    beside = np.minimum(np.append(size[1:], np.inf), np.insert(size[:-1], 0, np.inf))
    long = size > 3.9 * beside
    return halved(breaks, long) if long.any() else breaks
