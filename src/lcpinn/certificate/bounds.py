"""What an error is at most, where it is not resolved or need not be.

By constants of stability (stability.py) of expansions of two sizes, and by what is left of the
residual at points that no expansion knows of.
"""

from __future__ import annotations

from functools import cached_property, reduce

import numpy as np

from lcpinn.certificate.stability import Stability, stability
from lcpinn.domain import Box
from lcpinn.spectral.basis import TensorBasis
from lcpinn.spectral.collocation import TensorGrid
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.least_squares import NotSolvable
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms

STABLE = {1: (128, 96), 2: (20, 15), 3: (10, 8)}  # functions for a constant of stability,
STEADY = 1.3  # and the factor within which two bounds by it have to agree
SURE = 1.5  # times a bound: constants and norms are those of finitely many functions and points
ROUNDED = 1.02  # times the size of a correction: its norm over other points is slightly another
INSIDE, ON_FACES = 2048, 512  # scattered points for norms of a residual
LARGE = 1e-2  # a relative error above which the linearised equation bounds no other,
IN_VAIN = 2  # settings in a row that were not bounded by what would be enough: it is not asked for
CURVED = 0.125  # and the share of its change that an equation may have beside the linearised one


class SmallExpansions:
    """What the bounds of one family share at all settings: expansions, and points for norms.

    The norms are plain means, in which integrals of Legendre polynomials are what is solvable.
    """

    def __init__(self, terms: LinearisedTerms):
        dim = terms.family.domain.dim
        self.family = terms.family
        self.both = [Expansion(terms, (num,) * dim, integrated=True) for num in STABLE[dim]]
        self.in_vain = 0  # settings in a row whose bounds were too large to be of use

    @cached_property
    def norms(self) -> list[Norm]:
        """One for every grid of an expansion."""
        places = [face for term in self.both[0].terms.terms for face in term.faces or (None,)]
        domain, norms = self.family.domain, []
        assert isinstance(domain, Box)
        for face, grid in zip(places, self.both[0].grids, strict=True):
            assert isinstance(grid, TensorGrid)
            num = INSIDE if face is None else 1 if domain.dim == 1 else ON_FACES
            norms.append(Norm(grid, np.asarray(domain.sobol(num, seed=23, face=face))))
        return norms


class Norm:
    """The mean square of a term inside or on a face: over scattered points, and over a grid.

    The larger counts: what is narrow may be between the points of one, and the grid's are dense
    where polynomials are steep, at the ends.
    """

    def __init__(self, grid: TensorGrid, scattered: np.ndarray):
        self._term, self._orders = grid.term, grid.orders
        even = np.full(len(scattered), 1 / len(scattered))
        self._rules = [(scattered, even), (grid.points, reduce(np.kron, grid.weights))]

    def __call__(
        self, at: Linearisation, basis: TensorBasis | None, coefficients: np.ndarray
    ) -> float:
        """Of what the term leaves once a correction, if there is one, is added."""
        return max(self._mean(at, basis, coefficients, *rule) for rule in self._rules)

    def _mean(
        self, at: Linearisation, basis: TensorBasis | None, coefficients: np.ndarray,
        points: np.ndarray, weights: np.ndarray,
    ) -> float:  # fmt: skip
        series = at.series(points, self._orders)
        if basis is not None:
            series = series + basis.evaluate(coefficients, points, self._orders)
        residual, _ = at.slopes(self._term, self._orders, series, points)
        with np.errstate(over="ignore", invalid="ignore"):  # then there is no bound
            return float(weights @ np.sum(residual**2, axis=1))


class Bounds:
    """Those at one setting; its constants are computed when a bound is asked for."""

    def __init__(self, small: SmallExpansions, at: Linearisation):
        self._small, self._at = small, at

    @property
    def promise(self) -> bool:
        """Whether a bound is worth its time: not where those of the last settings were not."""
        return self._small.in_vain < IN_VAIN

    def known(self, *, below: bool) -> None:
        """Whether the error at this setting is below what would be enough for a bound."""
        self._small.in_vain = 0 if below else self._small.in_vain + 1

    @cached_property
    def _constants(self) -> list[Stability]:
        """By expansions of two sizes; none where one has none."""
        constants: list[Stability] = []
        for expansion in reversed(self._small.both):  # the coarser fails more often
            squares = expansion.mean_square(self._at.values(expansion.inside.points))
            scale = np.sqrt(np.maximum(squares, self._at.least))
            if not np.all(scale > 0):
                return []  # of what vanishes no error is relative
            try:
                constant = stability(expansion, self._at, scale)
            except (NotFinite, NotSolvable):
                return []
            if constant is None:
                return []
            constants.insert(0, constant)
        return constants

    @property
    def exist(self) -> bool:
        """Whether there are constants."""
        return bool(self._constants)

    @cached_property
    def without_correction(self) -> float:
        """What the error of the function itself is at most."""
        expansion = self._small.both[0]
        points = expansion.inside.points
        at = self._at
        beyond = expansion.relative(at.beyond(points), at.values(points), at.least)
        return self._at_most(beyond, None, np.zeros(0))

    def with_correction(self, size: float, basis: TensorBasis, coefficients: np.ndarray) -> float:
        """The same by a correction of that relative size, and by what is left once it is added."""
        if not (np.isfinite(size) and np.isfinite(coefficients).all()):
            return np.inf
        return self._at_most(size, basis, coefficients)

    def _at_most(self, size: float, basis: TensorBasis | None, coefficients: np.ndarray) -> float:
        """Two constants have to agree. Far off, a linearised equation bounds nothing."""
        if not self._constants:
            return np.inf
        norms = [norm(self._at, basis, coefficients) for norm in self._small.norms]
        one, other = (constant.bound(np.array(norms)) for constant in self._constants)
        most = ROUNDED * size + SURE * max(one, other)
        agree = max(one, other) <= STEADY * min(one, other)
        return most if agree and self._is_nearly_linear(most) else np.inf

    def _is_nearly_linear(self, size: float) -> bool:
        """Whether the linearised equation tells what an error of that relative size does.

        Asked of the function that it amplifies most. If half of what Kantorovich's theorem allows
        is left beside it, Newton's method ends within what a bound is multiplied by to be sure.
        """
        if self._small.family.is_linear():
            return True
        if not size < LARGE:
            return False
        expansion, worst = self._small.both[0], self._constants[0]
        series, step = expansion.base(self._at), size * worst.function
        try:
            about = expansion.rows(self._at, expansion.zero, series)
            beside = expansion.rows(self._at, step, series)
        except NotFinite:
            return False
        linear, rest = [], []
        for one, other in zip(about[: len(series)], beside[: len(series)], strict=True):
            grid = one.collocation
            assert isinstance(grid, TensorGrid)
            change = np.einsum("ncso,sno->nc", one.slopes, grid.series(step))
            mass = reduce(np.kron, grid.weights)
            linear.append(float(mass @ np.sum(change**2, axis=1)))
            rest.append(float(mass @ np.sum((other.residual - one.residual - change) ** 2, axis=1)))
        return bool(worst.factors @ rest <= CURVED**2 * (worst.factors @ linear))
