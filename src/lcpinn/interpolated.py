"""The page's own solutions between settings: an interpolant in the coefficients as a teacher.

Where solutions at Chebyshev nodes of the coefficients have decayed to a tolerance
(lcpinn.spectral.interpolation), the page is known at every setting, and a network can be fitted to
it by regression: rows of values alone,

    row = (u_network(x, λ) - u_interpolated(x, λ)) / rms(u_interpolated(·, λ)),

whose sum of squares is the mean of the squared relative error itself. No differential operator
stands between the rows and the error, and a step takes no derivatives along coordinates.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network.contract import Params
from lcpinn.network.interpolant import Interpolant
from lcpinn.own_solutions import NOT_SMALL, known_solver
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Points
from lcpinn.spectral.expansion import SMALL, VANISHING
from lcpinn.spectral.family_solver import FamilySolver
from lcpinn.spectral.interpolation import (
    ROUNDING,
    SHARE,
    Growth,
    InterpolationState,
    begun,
    stagnates,
)
from lcpinn.spectral.linearisation import zeroth
from lcpinn.spectral.sparse_grid import SparseGrid

MOST_NODES = 3000
BEGUN = 0.3  # what is missing, below which it decays with further nodes
OVERRUN = 1.5  # times the time that is left: levels that would take longer are not begun
PLACES, POINTS, QUANTILES = 2001, 32, 257  # of a coefficient, where solutions are compared; points
LEVELS, GAIN = 5, 0.5  # of settings, up to 65; what two more levels should lower it by
ARC, ROWS_ARC = 0.9, 0.5  # shares of a variable, and of rows, that are not spread evenly
UNEVEN = 7.0  # a pace, beside its mean, that is worth another variable
DEGREES = (24, 48, 96, 192, 384)  # of the polynomial in lambda that this variable is
MANY = 3  # coefficients, of whose range no row comes close to most corners
CLOSE = 1e-6  # that it should come to it


class Between(ABC):
    """Solutions of a family at every setting, known from those at a few: a teacher.

    `settings` (n, p) are those that were solved; `missing` is what the rest may be off by, relative
    to the solution, and `enough` whether no more was asked for.
    """

    family: Family
    settings: np.ndarray
    missing: float
    enough: bool

    @abstractmethod
    def __call__(self, coordinates: Array, parameters: Array) -> Array:
        """Values (n, outputs) at points (n, dim) with a setting each (n, p)."""

    @abstractmethod
    def sizes(self, parameters: Array) -> Array:
        """The root mean square (n, outputs) of every output at settings (n, p)."""

    def at_all(self, points: np.ndarray, settings: np.ndarray) -> np.ndarray:
        """Values (points, settings, outputs) at all points (m, dim) of all settings (n, p)."""
        with double():
            # Settings as an argument: as a constant the compiler would spend seconds on them.
            along = lambda x, at: self(jnp.broadcast_to(x, (len(settings), len(x))), at)
            every = jax.jit(jax.vmap(along, (0, None)))
            return np.asarray(every(jnp.asarray(points), jnp.asarray(settings)))

    def _combined(self, functions: np.ndarray, amplitudes: Array, coordinates: Array) -> Array:
        """Σ_j a_j φ_j(x), (n, outputs), of functions (j, outputs, functions along each coordinate)
        with amplitudes (n, j), at points (n, dim)."""
        num = coordinates.shape[0]
        nothing = jnp.zeros((num, 0))
        points = Points(
            coordinates[:, None], jnp.zeros((num, self.family.parameters.dim)), nothing,
            jnp.ones((num, 1)), nothing[:, None],
        )  # fmt: skip
        features = self._problem.features(points, zeroth(self.family.domain.dim))
        return self._network.combined(jnp.asarray(functions), features, amplitudes)[0, :, 0]

    @property
    def _network(self) -> Interpolant:
        domain = self.family.domain
        return Interpolant(tuple(name in domain.periodic for name in domain.names))

    @cached_property
    def _problem(self) -> Problem:
        return Problem(self.family.plain(), self._network, np.float64)

    # -- How fast they change with one coefficient -------------------------------------------------

    @cached_property
    def pace(self) -> np.ndarray:
        """How fast solutions change along one coefficient, at even places of its unit interval.

        The arc length of λ -> u, every output relative to its size over all λ; its mean is one.
        """
        prior, domain = self.family.parameters, self.family.domain
        free = [name in prior.free for name in prior.names]
        unit = np.full((PLACES, prior.dim), 0.5)
        unit[:, free] = np.linspace(0, 1, PLACES)[:, None]
        centre = np.asarray(prior.from_unit(np.full(prior.dim, 0.5)))
        points = np.asarray(domain.sobol(POINTS, seed=9, parameters=centre))
        values = self.at_all(points, np.asarray(prior.from_unit(unit)))
        size = np.sqrt(np.mean(values**2, axis=(0, 1)))  # of values (points, places, outputs)
        steps = np.diff(values, axis=1) / np.where(size > 0, size, 1)
        pace = np.sqrt(np.mean(steps**2, axis=(0, 2)))
        return pace / max(float(pace.mean()), np.finfo(float).tiny)

    @property
    def uneven(self) -> bool:
        """Whether they change much faster at some settings than at most: a fold, a resonance."""
        return len(self.family.parameters.free) == 1 and float(self.pace.max()) > UNEVEN

    def _travelled(self, share: float) -> np.ndarray:
        """The way from 0 to 1 at all places, of which a share goes with the arc length."""
        way = np.concatenate([[0.0], np.cumsum(1 - share + share * self.pace)])
        return way / way[-1]

    @cached_property
    def stretch(self) -> tuple[float, ...]:
        """Chebyshev coefficients of a variable in [-1, 1] in which they change evenly; none where
        they do so anyway, or where a polynomial that rises throughout cannot tell.

        Solutions are smooth in the arc length itself, and in a polynomial only as far as that is
        close to it: what it oscillates about it, they do in turn.
        """
        if not self.uneven:
            return ()
        places = np.linspace(-1, 1, PLACES)
        way, best = 2 * self._travelled(ARC) - 1, ()
        smooth = scipy.interpolate.CubicSpline(places, way)
        for degree in DEGREES:
            nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
            fit = np.polynomial.chebyshev.chebfit(nodes, smooth(nodes), degree)
            values = np.polynomial.chebyshev.chebval(places, fit)
            if np.all(np.diff(values) > 0):
                best = tuple(map(float, fit))
                if np.max(np.abs(values - way)) < CLOSE:
                    break
        return best

    def quantiles(self) -> np.ndarray | None:
        """Even places of the unit interval for rows to lie at, denser where solutions change; None
        where a network sees lambda itself."""
        if not self.stretch:
            return None
        levels = np.linspace(0, 1, QUANTILES)
        return np.interp(levels, self._travelled(ROWS_ARC), np.linspace(0, 1, PLACES))

    def targets(self) -> Callable[[Array, Array], Array]:
        """Of points and their settings: values and one over sizes, (n, 2 outputs)."""

        @jax.jit
        def observed(coordinates: Array, parameters: Array) -> Array:
            size = self.sizes(parameters)
            return jnp.concatenate([self(coordinates, parameters), 1 / size], axis=1)

        return observed

    def taught(self, family: Family, *, dense_at_ends: bool = False) -> Family:
        """Instead of the family's equations: its outputs compared with these solutions."""
        corners = len(family.parameters.free) > MANY
        return family.compared_with(
            self.targets(), self.quantiles(), corners=corners, dense_at_ends=dense_at_ends
        )


@dataclass(frozen=True, eq=False)
class Interpolated(Between):
    """Solutions at settings (n, p) with a polynomial between them, which misses so much.

    `missing` is relative to the solution where it is smallest; `log_sizes` are the polynomial's
    coefficients (products, outputs) of the logarithm of every output's root mean square.
    """

    family: Family
    params: Params
    log_sizes: np.ndarray
    settings: np.ndarray
    missing: float
    enough: bool  # whether no more was asked for

    def __call__(self, coordinates: Array, parameters: Array) -> Array:
        return self._combined(self.params["coefficients"], self._products(parameters), coordinates)

    def sizes(self, parameters: Array) -> Array:
        return jnp.exp(self._products(parameters) @ jnp.asarray(self.log_sizes))

    def _products(self, parameters: Array) -> Array:
        """The polynomials in lambda (n, products) at settings (n, p)."""
        lam = self._problem.conditions(parameters[:, None], jnp.zeros((len(parameters), 1, 0)))
        return self._network.products(self.params, lam, np.float64)[:, 0]


def interpolated(family: Family, *, tolerance: float, seconds: float) -> Interpolated:
    """Solutions at ever more settings, until the polynomial between them misses less than a tenth
    of the tolerance, nothing is gained any more, or the time is up.

    An `LcpinnError` where a setting cannot be solved, or the time is too short for a first one.
    """
    began, solver = time.monotonic(), known_solver(family, max(SHARE * tolerance, ROUNDING))
    growth = Growth(family, tolerance, solver)
    state = begun(family, {})
    while int(state.step) < MOST_NODES and not _hopeless(family, state.missing):
        remaining = seconds - (time.monotonic() - began)
        if remaining <= 0 or (len(state.missing) and state.missing[-1] <= growth.enough(state)):
            break
        enough = growth.enough(state)
        if growth.grid is not None and _overruns(state, solver, remaining, seconds, enough):
            break
        try:
            state = growth.advanced(state, remaining, at_most=True)
        except LcpinnError:
            if growth.grid is None or time.monotonic() - began < seconds:
                raise
            break  # the time is up; there is a polynomial through fewer nodes
    grid = growth.grid
    if grid is None:
        solved = f"{int(state.step)} settings are solved in {seconds:.0f} s"
        raise LcpinnError(f"{family.name}: {solved}, too few to interpolate")
    values = growth.values(state.solutions[: len(grid.positions)])
    size = np.sqrt(np.mean(values**2, axis=1))
    largest = size.max(axis=0)
    # Where solutions pass through zero, the logarithm of their size has a pole, and is no
    # polynomial: errors there count beside what is not as small.
    least = np.where(size.min(axis=0) > VANISHING * largest, SMALL, NOT_SMALL)
    size = np.maximum(size, least * largest) + np.finfo(float).tiny
    return Interpolated(
        family,
        state.params,
        grid.coefficients(np.log(size)),
        growth.settings(grid),
        float(state.missing[-1]),
        bool(state.missing[-1] <= growth.enough(state)),
    )


def _overruns(
    state: InterpolationState, solver: FamilySolver, remaining: float, seconds: float, enough: float
) -> bool:
    """Whether there is no time for the nodes of the next levels, half of which are none; or, of one
    coefficient, for as many as the decay until now says that it takes."""
    step = int(state.step)
    further = len(SparseGrid(np.asarray(state.levels).tolist()).positions) - step
    last = state.missing[-2:]
    falling = len(last) == 2 and 0 < last[1] < last[0] < BEGUN  # before, waves have too few nodes
    if falling and state.levels.shape[1] == 1:
        rate = np.log(last[0] / last[1]) / (step // 2)  # a node: the last level doubled them
        further = max(further, np.log(last[1] / enough) / rate)
    each = (seconds - remaining) / max(len(solver.solved), 1)
    return bool(further * each > OVERRUN * remaining)


def _hopeless(family: Family, missing: np.ndarray) -> bool:
    """Whether further settings do not help: nothing is gained any more, or, of one coefficient, two
    levels have gained little, as where a resonance lies in the range."""
    if stagnates(missing):
        return True
    single = len(family.parameters.free) == 1
    return single and len(missing) >= LEVELS and bool(missing[-1] > GAIN * missing[-3])
