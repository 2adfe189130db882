"""How wrong a solution is, estimated without knowing the truth.

The error d of an approximate solution u satisfies, to first order, the linearised equations with
the residual on their right-hand side,

    T'(u)[d] = -T(u)     for every term T, inside and on the faces,

conditions that an ansatz imposes included. A small residual alone says little where errors build up
in time or near a resonance; this does. d is expanded in Chebyshev polynomials (Fourier modes along
a periodic coordinate) and found by least squares at one lambda at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import lstsq

from lcpinn.batch import Points, Sampling, fixed
from lcpinn.family import Family
from lcpinn.jet import MultiIndex, Orders, factorial
from lcpinn.network.mlp import Params
from lcpinn.prior import tensor
from lcpinn.rows import Problem
from lcpinn.term import Term

SIZES = {1: 64, 2: 24, 3: 10}  # functions along each coordinate, by the number of coordinates
AGREE = 2.0  # the factor within which two expansions have to agree
MISFIT = 0.15  # the share of the residual that the expansion may leave
TINY = 1e-13  # below this, estimates are rounding


class Estimate(NamedTuple):
    """The relative L2 error at one lambda, or nan and why it could not be estimated."""

    error: float
    reason: str = ""
    at: dict[str, float] | None = None


@dataclass(frozen=True)
class Axis:
    """Functions along one coordinate."""

    low: float
    high: float
    periodic: bool
    num: int

    def nodes(self) -> np.ndarray:
        """A third more points than functions; Chebyshev's, or equidistant ones."""
        count = -(-4 * self.num // 3)
        if self.periodic:
            unit = (np.arange(count) + 0.5) / count
        else:
            unit = (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2
        return self.low + (self.high - self.low) * unit

    def values(self, x: np.ndarray, order: int) -> np.ndarray:
        """Every function's derivative of that order, (len(x), num)."""
        if self.periodic:
            wave = 2 * np.pi * ((np.arange(self.num) + 1) // 2) / (self.high - self.low)
            phase = np.where(np.arange(self.num) % 2, 0.0, np.pi / 2) + order * np.pi / 2
            return wave**order * np.sin(np.outer(x - self.low, wave) + phase)
        slope = 2 / (self.high - self.low)
        unit = np.eye(self.num)
        table = np.polynomial.chebyshev.chebder(unit, order, axis=0) if order else unit
        s = slope * (x - self.low) - 1
        return slope**order * np.polynomial.chebyshev.chebval(s, table).T


# From (points (n, dim), parameters (p,), weights (shots, m), orders) to Taylor coefficients.
Jet = Callable[[Any, Array, Array, Array, Orders], Float[Array, "s n out"]]


class Estimator:
    """Estimates for one family; what does not depend on lambda is computed once.

    `jet(params, points, parameters, weights, orders)` gives the Taylor coefficients of whatever is
    to be judged; see `of_network` for a network's. An estimate counts if a coarser expansion on
    other points gives about the same.
    """

    def __init__(self, family: Family, jet: Jet):
        self.family = family
        num = SIZES.get(family.domain.dim, 0)
        self.levels = (Level(family, jet, num), Level(family, jet, 3 * num // 4, 3 * MISFIT))

    def __call__(
        self, params: Any, parameters: Sequence[float], weights: np.ndarray | None = None
    ) -> Estimate:
        """The error at one setting; with loss weights (shots, m), that of the mean over them."""
        if self.family.domain.dim not in SIZES:
            return Estimate(np.nan, f"no estimate in {self.family.domain.dim} dimensions")
        shots = np.zeros((1, 0)) if weights is None else weights
        fine, coarse = (level(params, parameters, shots) for level in self.levels)
        if fine.reason:
            return fine
        if not 1 / AGREE < (fine.error + TINY) / (coarse.error + TINY) < AGREE:
            return Estimate(np.nan, "expansions of two sizes do not agree: it is not resolved")
        return fine


class Level:
    """The expansion with so many functions along every coordinate."""

    def __init__(self, family: Family, jet: Jet, num: int, misfit: float = MISFIT):
        self.family, self.jet, self.misfit, domain = family, jet, misfit, family.domain
        self.axes = [Axis(*domain.ranges[n], n in domain.periodic, num) for n in domain.names]
        self.terms = [term for term in family.all_terms.values() if term.name != "data"]

    def __call__(self, params: Any, parameters: Sequence[float], shots: np.ndarray) -> Estimate:
        with jax.enable_x64(True):
            parts, values = self._linearise(params, np.asarray(parameters, float), shots)
        rows, targets = [], []
        for (term, grid), (residual, slopes) in zip(self._grids, parts, strict=True):
            if not (np.isfinite(residual).all() and np.isfinite(slopes).all()):
                return Estimate(np.nan, f"the term {term.name!r} is not finite")
            matrix = _matrix(np.asarray(slopes), grid.basis)
            size = np.linalg.norm(matrix, axis=1, keepdims=True)
            size = np.where(size > 0, size, 1)
            rows.append(matrix / size)
            targets.append(-np.asarray(residual).ravel() / size[:, 0])
        matrix, target = np.concatenate(rows), np.concatenate(targets)
        found = np.asarray(lstsq(matrix, target, lapack_driver="gelsy")[0])  # pyright: ignore[reportOptionalSubscript]
        if np.linalg.norm(matrix @ found - target) > self.misfit * np.linalg.norm(target) + TINY:
            return Estimate(np.nan, f"{self.axes[0].num} functions a coordinate do not resolve it")
        return self._size(found.reshape(len(self.family.outputs), -1), np.asarray(values))

    @cached_property
    def _grids(self) -> list[tuple[Term, Grid]]:
        """Every term with its points inside, or those on each of its faces."""
        nodes, names = [axis.nodes() for axis in self.axes], self.family.domain.names
        found = []
        for term in self.terms:
            indices = self.family.orders([term]).indices
            for face in term.faces or (None,):
                held = [
                    np.array([face.value]) if face is not None and name == face.name else n
                    for name, n in zip(names, nodes, strict=True)
                ]
                found.append((term, Grid.make(self.axes, tensor(held), indices)))
        return found

    @cached_property
    def _linearise(self) -> Callable[..., Any]:
        """Residuals and their derivatives by the Taylor coefficients, on all grids; and values."""
        zero = Orders(((0,) * self.family.domain.dim,))
        inside = jnp.asarray(tensor([axis.nodes() for axis in self.axes]))

        @jax.jit
        def run(params: Any, parameters: Array, weights: Array) -> Any:
            parts = []
            for term, grid in self._grids:
                orders, points = self.family.orders([term]), jnp.asarray(grid.points)
                series = self.jet(params, points, parameters, weights, orders)

                def at(s: Array, p: Array, term: Term = term, orders: Orders = orders) -> Array:
                    return term.residual(s, orders, p, parameters)

                both = jax.vmap(lambda s, p, at=at: (at(s, p), jax.jacfwd(at)(s, p)), (1, 0))
                parts.append(both(series, points))
            return parts, self.jet(params, inside, parameters, weights, zero)[0]

        return run

    def _size(self, found: np.ndarray, values: np.ndarray) -> Estimate:
        """The relative size of the error that was found, beside the values that it is of."""
        points = tensor([axis.nodes() for axis in self.axes])
        error = _basis(self.axes, points, (0,) * len(self.axes)) @ found.T
        sizes = np.linalg.norm(values + error, axis=0)
        sizes = np.where(sizes > 0, sizes, 1)
        return Estimate(float(np.max(np.linalg.norm(error, axis=0) / sizes)))


def of_network(problem: Problem) -> Estimator:
    """Estimates for a network; called with its parameters."""

    def jet(params: Params, points: Array, parameters: Array, weights: Array, orders: Orders):
        count = len(weights)
        batch = Points(
            jnp.broadcast_to(points, (count, *points.shape)),
            jnp.broadcast_to(parameters, (count, *parameters.shape)),
            weights,
            jnp.zeros((count, len(points))),
            jnp.zeros((count, len(points), 0)),
        )
        return problem.outputs(params, batch, orders).mean(axis=1)

    return Estimator(problem.family, jet)


def certificate(
    problem: Problem,
    params: Params,
    settings: np.ndarray,
    weights: np.ndarray | None = None,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Residuals on unseen points and the estimated error at every setting (n, p).

    `passed` is whether every setting has an estimate, and none is above the tolerance; None without
    one.
    """
    estimator, residual = of_network(problem), _residual(problem, weights)
    names, rows = problem.family.parameters.names, []
    for lam in settings:
        found = estimator(params, lam, weights)
        error = found.error if np.isfinite(found.error) else None
        at = dict(zip(names, map(float, lam), strict=True))
        rows.append({"at": at, "error": error, "reason": found.reason, **residual(params, lam)})
    known = [row for row in rows if row["error"] is not None]
    worst = max(known, key=lambda row: row["error"], default=None)
    passed = None
    if tolerance is not None:
        passed = len(known) == len(rows) and all(row["error"] <= tolerance for row in known)
    return {"settings": rows, "worst": worst, "tolerance": tolerance, "passed": passed}


UNSEEN = Sampling(interior=512, face=64, num_lambda=1, rule="sobol", seed=2027)


def _residual(
    problem: Problem, weights: np.ndarray | None
) -> Callable[[Params, np.ndarray], dict[str, Any]]:
    """Root mean squares of every term at one setting, on points that no training uses."""

    @jax.jit
    def run(params: Params, lam: Array) -> dict[str, Array]:
        batch = {}
        for where, points in fixed(problem.family, UNSEEN, jnp.float64).items():
            held = jnp.broadcast_to(lam, points.parameters.shape)
            shots = points.weights
            if weights is not None:
                shots = jnp.asarray(weights)[jnp.arange(len(shots)) % len(weights)]
            batch[where] = points._replace(parameters=held, weights=shots)
        return {
            name: jnp.sqrt(jnp.mean(r**2)) for name, r in problem.residuals(params, batch).items()
        }

    def rms(params: Params, lam: np.ndarray) -> dict[str, Any]:
        with jax.enable_x64(True):
            terms = {name: float(v) for name, v in run(params, jnp.asarray(lam)).items()}
        return {"residual": float(np.sqrt(sum(v**2 for v in terms.values()))), "terms": terms}

    return rms


def worst_case(problem: Problem) -> Callable[[Params], Estimate] | None:
    """The largest estimate over a few settings, where a small residual alone proves little.

    That is in initial-value problems. None for others, and for now where there is more than one
    coordinate: it would take longer than the steps that it is to judge.
    """
    family = problem.family
    if family.domain.dim != 1 or not family.is_initial_value():
        return None
    estimator, names = of_network(problem), family.parameters.names
    settings = family.parameters.grid(5 if len(family.parameters.free) == 1 else 2)
    draws = None if family.weights is None else family.weights.sobol(8, seed=0)

    def judge(params: Params) -> Estimate:
        found = [estimator(params, lam, draws) for lam in settings]
        worst = int(np.argmax([e.error for e in found]))  # the first that is nan, if one is
        at = dict(zip(names, map(float, settings[worst]), strict=True))
        return found[worst]._replace(at=at)

    return judge


@dataclass(frozen=True, eq=False)
class Grid:
    """Points, and every function's Taylor coefficients there, (s, n, functions)."""

    points: np.ndarray
    basis: np.ndarray

    @staticmethod
    def make(axes: Sequence[Axis], points: np.ndarray, indices: Sequence[MultiIndex]) -> Grid:
        parts = [_basis(axes, points, index) / factorial(index) for index in indices]
        return Grid(points, np.stack(parts))


def _matrix(slopes: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The linearised term of every function: (n c, outputs functions)."""
    total = np.einsum("ncso,snb->ncob", slopes, basis, optimize=True)
    n, c, o, b = total.shape
    return total.reshape(n * c, o * b)


def _basis(axes: Sequence[Axis], points: np.ndarray, index: MultiIndex) -> np.ndarray:
    """Products of functions, one of each axis: (n, functions)."""
    product = np.ones((len(points), 1))
    for axis, x, order in zip(axes, points.T, index, strict=True):
        values = axis.values(x, order)
        product = (product[:, :, None] * values[:, None, :]).reshape(len(points), -1)
    return product
