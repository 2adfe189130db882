"""The misfit as a function of the coefficients: all over the prior, and down to its minima."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares
from scipy.spatial import KDTree

from lcpinn.compilation import compiler_options
from lcpinn.inverse.observations import Observations
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.quadrature import unit_grid, unit_sobol

if TYPE_CHECKING:
    from lcpinn.solution import Solution

SCAN = {1: 512, 2: 2048}  # settings that are looked at first, by the number of coefficients
SCAN_MANY = 8192  # and where there are more
SCANNED = 256  # observations that the scan takes into account at most
STARTS = 8  # local minima of the scan that are polished
ROWS = 1 << 15  # observations in one call of the network: bounds the memory it takes
TOLERANCE = 1e-13  # of the polish; the network's rounding, not the optimiser, is to end it


class Forward:
    """A solution at scattered points with its derivatives by the coefficients, compiled once.

    Coefficients are given in the prior's unit cube, (p,). Those that are not sought are taken from
    `known`, row by row, and have derivative zero, so that one program serves whichever are sought.
    """

    def __init__(self, solution: Solution):
        self.solution = solution

    def _rows(
        self, unit: Array, params: Params, points: Array, known: Array, free: Array, draws: Array
    ) -> Array:
        """Outputs (n, out), averaged over the loss weights where the network has them as input."""
        wanted = self.solution.family.parameters.from_unit(unit)
        lam = jnp.where(free, wanted, known)
        return self.solution.predictor.pointwise(params, points, lam, draws)[0]

    @cached_property
    def _both(self) -> Callable[..., tuple[Array, Array]]:
        def twice(*args: Any) -> tuple[Array, Array]:
            values = self._rows(*args)
            return values, values

        @partial(jax.jit, compiler_options=compiler_options())
        def run(*args: Any) -> tuple[Array, Array]:
            slopes, values = jax.jacfwd(twice, has_aux=True)(*args)
            return values, slopes

        return run

    @cached_property
    def _squares(self) -> Callable[..., Array]:
        @partial(jax.jit, compiler_options=compiler_options())
        def run(units: Array, observed: Array, factor: Array, *args: Any) -> Array:
            square = lambda unit: jnp.sum((factor * (self._rows(unit, *args) - observed)) ** 2)
            return jax.lax.map(square, units, batch_size=64)

        return run

    def __call__(
        self, unit: np.ndarray, data: Observations
    ) -> tuple[Float[np.ndarray, "n out"], Float[np.ndarray, "n out p"]]:
        """Values, and their derivatives by the coordinates of the unit cube."""
        with double():
            parts = []
            for points, known, count in _pieces(data.points, data.known):
                where = self._where(points, known, data)
                both = self._both(unit, self.solution.predictor.params, *where)
                parts.append([np.asarray(array)[:count] for array in both])
        values, slopes = (np.concatenate(part) for part in zip(*parts, strict=True))
        return values, slopes

    def scan(self, units: np.ndarray, data: Observations) -> np.ndarray:
        """The mean squared row at every setting (s, p), over a sample of the observations."""
        order = np.random.default_rng(0).permutation(np.flatnonzero(data.seen.any(axis=1)))
        some = np.sort(order[:SCANNED])
        ((points, known, count),) = _pieces(data.points[some], data.known[some])
        seen = np.zeros((len(points), data.values.shape[1]))
        seen[:count] = data.seen[some]
        observed, factor = np.zeros_like(seen), np.zeros_like(seen)
        filled = seen[:count] > 0
        observed[:count][filled] = data.values[some][filled]
        factor[:count][filled] = 1 / data.scale[some][filled]
        with double():
            where = self._where(points, known, data)
            total = self._squares(units, observed, factor, self.solution.predictor.params, *where)
        return np.asarray(total) / seen.sum()

    def _where(self, points: np.ndarray, known: np.ndarray, data: Observations) -> tuple[Any, ...]:
        return points, known, data.free, self._draws

    @cached_property
    def _draws(self) -> np.ndarray:
        return self.solution._draws(None, None)


def _pieces(points: np.ndarray, known: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Rows in pieces of a few sizes: data of another length need no new program."""
    for start in range(0, len(points), ROWS):
        part = slice(start, start + ROWS)
        count = len(points[part])
        size = max(64, 1 << (count - 1).bit_length())
        pad = lambda a, size=size, count=count: np.pad(a, ((0, size - count), (0, 0)), mode="edge")
        yield pad(points[part]), pad(known[part]), count


class End(NamedTuple):
    """Where a polish ended: the unit cube's coordinates that are sought, and the sum of squares."""

    unit: np.ndarray
    squares: float
    converged: bool


class Misfit:
    """Rows (u - observed) / scale as a function of the coefficients that are sought."""

    def __init__(self, forward: Forward, data: Observations):
        self.forward, self.data = forward, data
        self._last: tuple[bytes, tuple[np.ndarray, np.ndarray]] | None = None

    @property
    def num_free(self) -> int:
        return int(self.data.free.sum())

    def full(self, unit: np.ndarray) -> np.ndarray:
        """All p coordinates of the unit cube, for some (..., num_free); the others do not count."""
        whole = np.full((*unit.shape[:-1], len(self.data.free)), 0.5)
        whole[..., self.data.free] = unit
        return whole

    def rows(self, unit: np.ndarray) -> np.ndarray:
        return self._both(unit)[0]

    def jacobian(self, unit: np.ndarray) -> np.ndarray:
        return self._both(unit)[1]

    def _both(self, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # SciPy asks for rows and Jacobian one after the other; the program gives both.
        if self._last is None or self._last[0] != unit.tobytes():
            values, slopes = self.forward(self.full(unit), self.data)
            seen, scale = self.data.seen, self.data.scale
            rows = ((values - self.data.values) / scale)[seen]
            jacobian = (slopes[..., self.data.free] / scale[..., None])[seen]
            self._last = unit.tobytes(), (rows, jacobian)
        return self._last[1]

    def scan(self) -> tuple[np.ndarray, np.ndarray]:
        """The misfit all over the prior: settings (s, num_free), and the level at each."""
        num = SCAN.get(self.num_free, SCAN_MANY)
        if self.num_free == 1:
            units = unit_grid(num)[:, None]
        else:
            units = unit_sobol(num, self.num_free, seed=0)
        levels = np.sqrt(self.forward.scan(self.full(units), self.data))
        return units, np.where(np.isfinite(levels), levels, np.inf)

    def polish(self, start: np.ndarray) -> End:
        """The local minimum that a start leads to, inside the prior."""
        minimum = least_squares(
            self.rows, start, jac=self.jacobian, bounds=(0.0, 1.0), method="trf",  # pyright: ignore[reportArgumentType]
            ftol=TOLERANCE, xtol=TOLERANCE, gtol=TOLERANCE, max_nfev=200,
        )  # fmt: skip
        return End(minimum.x, 2 * float(minimum.cost), bool(minimum.success))


def local_minima(units: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Which settings have no better neighbour, best first: `STARTS` of them at most."""
    near = KDTree(units).query(units, k=2 * units.shape[1] + 1)[1]
    lowest = np.flatnonzero(np.isfinite(levels) & (levels <= levels[near].min(axis=1)))
    return lowest[np.argsort(levels[lowest], kind="stable")][:STARTS]
