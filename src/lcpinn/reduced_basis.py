"""The page's own solutions at every setting, as combinations of those at a few.

A linear equation is solved at settings that are chosen one after the other; at any other setting
the solution is sought among combinations of these,

    u(x; λ) = Σ_r c_r(λ) φ_r(x),        c(λ) = argmin Σ (residual rows at fixed points)²,

a small least-squares problem for each λ: the reduced basis method (Prud'homme et al. 2002;
Hesthaven, Rozza and Stamm, Certified Reduced Basis Methods, 2016), with residuals in place of weak
forms. The next setting is where the residual is largest. How many it takes depends on how many
functions of x there are, and not on how they change with λ: a resonance, or eight coefficients,
costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.compilation import compiler_options
from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.interpolated import Between, interpolated
from lcpinn.jet import Orders
from lcpinn.own_solutions import known_solver, solved_before, spread_settings
from lcpinn.precision import double
from lcpinn.spectral.basis import TensorBasis, basis_on
from lcpinn.spectral.elements import ElementAxis
from lcpinn.spectral.expansion import SMALL
from lcpinn.spectral.family_solver import FamilySolver, common_basis, in_basis
from lcpinn.spectral.interpolation import ROUNDING, SHARE, trimmed
from lcpinn.spectral.linearisation import about_zero, linearised, zeroth
from lcpinn.term import Term

FIRST = 5  # settings that are solved before residuals choose
CANDIDATES = 257  # settings that the next one is chosen from; those of a polynomial among them
MOST = 48  # functions: beyond them a polynomial in lambda is no worse
AT_A_TIME = 3  # settings that are chosen and solved before residuals are looked at again
INSIDE, RIM = 4, 2  # points for each function, inside and on each face; at least so many:
LEAST_INSIDE, LEAST_RIM = 128, 24
POINTS = 512  # for root mean squares
KEPT = 1e-11  # of the largest: directions of solutions that are more than rounding
FIRST_SHARE = 0.8  # of the time, for the first of two ways
AT_ONCE = 64  # settings in one call: more of them do not stay in the cache


@dataclass(frozen=True, eq=False)
class ReducedBasis(Between):
    """Solutions at settings (n, p), and everything between as their combinations.

    `functions` (r, outputs, functions along each coordinate) span them; `system` gives the rows and
    the right-hand side of a setting. `missing` is by how much they were off where their residual
    was largest, beside the solution there.
    """

    family: Family
    basis: TensorBasis
    functions: np.ndarray
    system: Callable[[Array], tuple[Array, Array]]
    settings: np.ndarray
    missing: float
    enough: bool  # whether no more was asked for

    def amplitudes(self, parameters: Array) -> Array:
        """Of all functions (n, r), at settings (n, p)."""
        return self._solved(parameters)[0]

    def answers(self, settings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with the share of the right-hand side that is left, (n,): NumPy's."""
        program = jax.jit(self._solved, compiler_options=compiler_options(once=True))
        amplitudes, remaining = program(jnp.asarray(settings))
        return np.asarray(amplitudes), np.asarray(remaining)

    def _solved(self, parameters: Array) -> tuple[Array, Array]:
        one = lambda lam: _least_squares(*self.system(lam))
        return jax.lax.map(one, parameters, batch_size=AT_ONCE)

    def values(self, points: np.ndarray) -> np.ndarray:
        """All functions (n, r, outputs) at points (n, dim)."""
        basis = self.basis
        return _series(basis, self.functions, points, zeroth(len(basis.axes)))[0]

    @cached_property
    def _squares(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean products of the functions over the domain (outputs, r, r), and the least mean
        square that counts for each output."""
        values = self.values(np.asarray(self.family.domain.sobol(POINTS, seed=6)))
        gram = np.einsum("nro,nso->ors", values, values) / len(values)
        amplitudes, _ = self.answers(self.settings)
        largest = np.einsum("nr,ors,ns->no", amplitudes, gram, amplitudes).max(axis=0)
        return gram, SMALL**2 * largest + np.finfo(float).tiny

    def sizes(self, parameters: Array) -> Array:
        return _sizes(self.amplitudes(parameters), *self._squares)

    def __call__(self, coordinates: Array, parameters: Array) -> Array:
        return self._combined(self.functions, self.amplitudes(parameters), coordinates)

    def _combined(self, functions: np.ndarray, amplitudes: Array, coordinates: Array) -> Array:
        axis = self.basis.axes[0]
        if not isinstance(axis, ElementAxis):
            return super()._combined(functions, amplitudes, coordinates)
        table = axis.table(coordinates[:, 0], 0, jnp)
        return jnp.einsum("nk,jok,nj->no", table, jnp.asarray(functions), amplitudes)

    def at_all(self, points: np.ndarray, settings: np.ndarray) -> np.ndarray:
        return np.einsum("nro,lr->nlo", self.values(points), self.answers(settings)[0])

    def targets(self) -> Callable[[Array, Array], Array]:
        squares = self._squares  # before anything is traced

        @jax.jit
        def observed(coordinates: Array, parameters: Array) -> Array:
            amplitudes = self.amplitudes(parameters)
            values = self._combined(self.functions, amplitudes, coordinates)
            return jnp.concatenate([values, 1 / _sizes(amplitudes, *squares)], axis=1)

        return observed


def _sizes(amplitudes: Array, gram: np.ndarray, least: np.ndarray) -> Array:
    """Root mean squares (n, outputs) of combinations, by the products of their functions."""
    squares = jnp.einsum("nr,ors,ns->no", amplitudes, gram, amplitudes)
    return jnp.sqrt(jnp.maximum(squares, least))


def reduced_basis(family: Family, *, tolerance: float, seconds: float) -> ReducedBasis:
    """Solutions at ever more settings, until those with the largest residuals are known to a
    tenth of the tolerance already, there are MOST functions, or the time is up.

    An `LcpinnError` where the equation is not linear, a setting cannot be solved, or the time is
    too short for the first ones.
    """
    if not _is_combined(family):
        raise LcpinnError(f"{family.name} is no linear equation on a box with all of it as terms")
    with double():
        return _Growth(family, tolerance).until(time.monotonic() + seconds)


def _first_settings(family: Family) -> np.ndarray:
    """Settings (n, p) to begin with: those that have been solved before, or a few."""
    few = spread_settings(family.parameters, FIRST)
    try:
        before = solved_before(family).settings
    except LcpinnError:
        return few
    return before if len(before) >= len(few) else few


def _is_combined(family: Family) -> bool:
    """Whether solutions are sought among combinations: linear, all of it written as terms."""
    return family.is_linear() and family.ansatz is None and isinstance(family.domain, Box)


class _Growth:
    """The settings that are solved, and the functions that they make."""

    def __init__(self, family: Family, tolerance: float):
        self.family, self.tolerance = family, max(SHARE * tolerance, ROUNDING)
        self.first = _first_settings(family)
        self.solver: FamilySolver = known_solver(family, self.tolerance)
        self.candidates = spread_settings(family.parameters, CANDIDATES)
        self.points = np.asarray(family.domain.sobol(POINTS, seed=6))

    def until(self, deadline: float) -> ReducedBasis:
        for setting in self.first:
            self._solve(setting, deadline)
        while True:
            made = self._made()
            if time.monotonic() > deadline:
                return made
            missing = self._checked(made, deadline)
            enough = missing <= self.tolerance
            if enough or len(made.functions) >= MOST or time.monotonic() > deadline:
                return replace(made, settings=self.solver.settings, missing=missing, enough=enough)

    def _solve(self, setting: np.ndarray, deadline: float) -> None:
        if time.monotonic() > deadline:
            num = len(self.solver.solved)
            raise LcpinnError(f"{self.family.name}: {num} settings are solved, too few to combine")
        self.solver(setting)

    def _checked(self, made: ReducedBasis, deadline: float) -> float:
        """Solve where the residual is largest, and say by how much combinations are off there."""
        amplitudes, remaining = made.answers(self.candidates)
        worst = np.argsort(-remaining)[:AT_A_TIME]
        for setting in self.candidates[worst]:
            self._solve(setting, deadline)
        basis, orders = self._basis, zeroth(self.family.domain.dim)
        errors = []
        for amplitude, one in zip(amplitudes[worst], self.solver.solved[-AT_A_TIME:], strict=True):
            truth = basis.evaluate(in_basis(one, basis), self.points, orders)[0]
            guess = np.tensordot(made.values(self.points), amplitude, (1, 0))
            size = np.sqrt(np.mean(truth**2, axis=0))
            size = np.maximum(size, SMALL * size.max()) + np.finfo(float).tiny
            errors.append(np.max(np.sqrt(np.mean((truth - guess) ** 2, axis=0)) / size))
        self.candidates = np.delete(self.candidates, worst, axis=0)
        return float(max(errors))

    @property
    def _basis(self) -> TensorBasis:
        basis = common_basis(self.family, self.solver.solved)
        assert isinstance(basis, TensorBasis)
        return basis

    def _made(self) -> ReducedBasis:
        """The span of all solutions, orthonormal as far as it is more than rounding."""
        basis = self._basis
        every = np.stack([in_basis(one, basis).ravel() for one in self.solver.solved])
        every = every / (np.linalg.norm(every, axis=1, keepdims=True) + np.finfo(float).tiny)
        _, sizes, directions = np.linalg.svd(every, full_matrices=False)
        directions = directions[sizes > KEPT * sizes[0]]
        functions = directions.reshape(len(directions), len(self.family.outputs), *basis.shape)
        if not basis.breaks:
            functions = trimmed(functions, ROUNDING)
            basis = basis_on(self.family.domain, functions.shape[2:])
        system = _system(self.family, basis, functions)
        settings = self.solver.settings
        return ReducedBasis(self.family, basis, functions, system, settings, np.inf, False)


# -- Rows of one setting ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Block:
    """One term at its points: what the functions and their derivatives are there."""

    term: Term
    orders: Orders
    points: np.ndarray  # (n, dim)
    normals: np.ndarray
    series: np.ndarray  # (s, n, r, outputs)
    scale: np.ndarray  # of each component, (c,)

    def rows(self, parameters: Array) -> tuple[Array, Array]:
        """What a linear term makes of every function, (n c, r), and of nothing, (n c,)."""

        def at(s: Array, point: Array, normal: Array) -> tuple[Array, Array]:
            residual = lambda one: self.term.residual(
                one, self.orders, point, parameters, normal=normal
            )
            nothing = residual(jnp.zeros((s.shape[0], s.shape[2])))
            return jax.vmap(residual, 1)(s) - nothing, nothing

        tables = map(jnp.asarray, (self.series, self.points, self.normals))
        each, nothing = jax.vmap(at, (1, 0, 0))(*tables)
        matrix = jnp.moveaxis(each * self.scale, 1, 2).reshape(-1, self.series.shape[2])
        return matrix, (nothing * self.scale).ravel()


def _system(
    family: Family, basis: TensorBasis, functions: np.ndarray
) -> Callable[[Array], tuple[Array, Array]]:
    """From a setting (p,) to rows (m, r) and a right-hand side (m,)."""
    terms = linearised(family)
    blocks = [
        _block(family, basis, functions, term, face)
        for term in terms.terms
        for face in term.faces or (None,)
    ]

    def system(parameters: Array) -> tuple[Array, Array]:
        parts = [block.rows(parameters) for block in blocks]
        matrices, sides = zip(*parts, strict=True)
        return jnp.concatenate(matrices), -jnp.concatenate(sides)

    return system


def _block(
    family: Family, basis: TensorBasis, functions: np.ndarray, term: Term, face: Any
) -> _Block:
    """A term at scattered points inside or on a face.

    Its rows count relative to what the term makes of functions as large and as steep as these are
    inside: a condition that all of them satisfy has rows of rounding, not of its scale.
    """
    domain, num = family.domain, len(functions)
    inside = max(LEAST_INSIDE, INSIDE * num)
    count = inside if face is None else max(LEAST_RIM, RIM * num)
    if face is not None and domain.dim == 1:
        count = 1
    points = np.asarray(domain.sobol(count, seed=21, face=face))
    orders, centre = family.orders([term]), _centre(family)
    normals = np.zeros_like(points)
    if term.asks_normals:
        normals = np.asarray(domain.normals(points, centre, term.faces))
    series = _series(basis, functions, points, orders)
    typical = _series(basis, functions, np.asarray(domain.sobol(inside, seed=22)), orders)
    typical = np.sqrt(np.mean(typical**2, axis=(1, 2)))  # (s, outputs)
    at = about_zero(linearised(family), centre.tolist())
    none = np.zeros((len(orders), len(points), len(family.outputs)))
    _, slopes = at.slopes(term, orders, none, points)
    size = np.sqrt(np.mean(np.einsum("ncso,so->nc", np.abs(slopes), typical) ** 2, axis=0))
    scale = 1 / (np.where(size > 0, size, 1) * np.sqrt(len(points)))
    return _Block(term, orders, points, normals, series, scale)


def _centre(family: Family) -> np.ndarray:
    return np.asarray(family.parameters.from_unit(np.full(family.parameters.dim, 0.5)))


def _series(
    basis: TensorBasis, functions: np.ndarray, points: np.ndarray, orders: Orders
) -> np.ndarray:
    """Taylor coefficients (s, n, r, outputs) of all functions."""
    num, outputs = functions.shape[:2]
    flat = functions.reshape(num * outputs, -1)
    values = basis.evaluate(flat, points, orders)
    return values.reshape(len(orders), len(points), num, outputs)


def _least_squares(matrix: Array, side: Array) -> tuple[Array, Array]:
    """The combination with the least residual, and the share of the right-hand side that is left.

    Normal equations would square a condition number that derivatives make large. Modified
    Gram-Schmidt of the matrix and its right-hand side together, backward stable without any second
    orthogonalisation (Björck 1967), has loops alone: LAPACK's calls of a batch wait for threads of
    the pool that runs them, and two of them at once on two cores for ever (jaxlib 0.10 to 0.12).
    """
    num = matrix.shape[1]

    def orthogonalise(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        columns, triangle = carry
        size = jnp.linalg.norm(columns[:, k])
        unit = columns[:, k] / jnp.where(size > 0, size, 1)
        row = jnp.where(jnp.arange(num + 1) > k, unit @ columns, 0)
        return columns - unit[:, None] * row, triangle.at[k].set(row.at[k].set(size))

    start = jnp.column_stack([matrix, side])
    triangle = jnp.zeros((num, num + 1), matrix.dtype)
    columns, triangle = jax.lax.fori_loop(0, num, orthogonalise, (start, triangle))

    def substitute(step: Array, amplitudes: Array) -> Array:
        k = num - 1 - step
        pivot = triangle[k, k]
        known = triangle[k, num] - triangle[k, :num] @ amplitudes
        return amplitudes.at[k].set(known / jnp.where(pivot > 0, pivot, jnp.inf))

    amplitudes = jax.lax.fori_loop(0, num, substitute, jnp.zeros(num, matrix.dtype))
    rest = jnp.linalg.norm(columns[:, num])
    return amplitudes, rest / (jnp.linalg.norm(side) + np.finfo(float).tiny)


def known_between(family: Family, *, tolerance: float, seconds: float) -> Between:
    """The family at every setting, by a polynomial in the only coefficient or by combinations.

    Of several coefficients, or where a polynomial does not get there (a resonance), a linear
    equation has combinations of a few solutions; what is solved for one serves the other.
    """
    began, several = time.monotonic(), len(family.parameters.free) > 1
    remaining = lambda: max(seconds - (time.monotonic() - began), 1.0)
    if not _is_combined(family):
        return interpolated(family, tolerance=tolerance, seconds=seconds)
    ways = (reduced_basis, interpolated) if several else (interpolated, reduced_basis)
    try:
        first = ways[0](family, tolerance=tolerance, seconds=FIRST_SHARE * seconds)
    except LcpinnError:
        return ways[1](family, tolerance=tolerance, seconds=remaining())
    if first.enough:
        return first
    try:
        second = ways[1](family, tolerance=tolerance, seconds=remaining())
    except LcpinnError:
        return first
    return min(first, second, key=lambda known: known.missing)
