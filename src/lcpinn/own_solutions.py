"""The page's own solutions at a few settings: what they look like, and as rows of least squares.

They come from the page alone (lcpinn.spectral), like everything that a network is trained on. A
residual tells how wrong a network is through a differential operator, with its condition number; a
value tells it directly. And they show where solutions vary: points of rows are moved there by
equidistribution of a monitor function (de Boor 1974; Huang and Russell, Adaptive Moving Mesh
Methods, 2011), so that a layer has its share of them however thin it is.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.family import Data, Family
from lcpinn.frequencies import Modes, lines_of, modes_of, share_on, spectrum
from lcpinn.prior import Coefficients
from lcpinn.quadrature import tensor, unit_sobol
from lcpinn.spectral.family_solver import FamilySolutions, FamilySolver, in_one_basis

ALONG, ACROSS = {1: 8001, 2: 801, 3: 201}, {1: 1, 2: 25, 3: 7}  # points of a coordinate's profiles
QUANTILES = 129
EVENLY = 0.2  # of the monitor's mean, everywhere: no place is left without points
PART = 1 / 3  # of a solution's variation: that in a layer is one of few parts of it
LAYER = 0.012  # the share of a coordinate's range with that part, below which it is a layer
TRUSTED = 1e-6  # an estimated error above which a solution is no row
FINE, COARSEST = 3, 24  # points of a grid for each function along a coordinate; at least
SLOW, WORTH = 2.5, 0.1  # of the scale of slopes, beyond which it is fast; a share that matters
INSIDE = 0.05  # of a coordinate's range, from where on a layer is none at an end
UNITS = 64  # frequencies that are kept
SWEPT, CHECKED = 2, 3  # coefficients that frequencies move with; settings beyond as many
FOLLOWED = 1.0  # of the scale of slopes: how far units follow a frequency
MOSTLY = 0.5  # of the squared amplitudes: what is left out is not what solutions are made of
IDLE = 4  # of so many units one is for what is slow
COARSE = 9  # settings that are solved first
FEWEST = 9  # that a training is taught by: fewer tell little for the steps that they cost
NOT_SMALL = 0.03  # of the largest size: what counts where a solution is smaller
SEED = 4001
Rows = tuple[tuple[float, ...], ...]
_SOLVERS: WeakKeyDictionary[Family, FamilySolver] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class SolvedSettings:
    """Solutions at settings (n, p); `reasons` says why others are missing."""

    solutions: FamilySolutions
    reasons: tuple[str, ...] = ()
    asked: int = 0  # settings that were to be solved
    each: float = 0.0  # seconds for one, once programs are compiled: the median without the first

    @property
    def settings(self) -> np.ndarray:
        return self.solutions.settings

    @property
    def most(self) -> bool:
        """Whether more than half of what was asked for is solved."""
        return 2 * len(self.settings) > self.asked

    # -- What they look like -----------------------------------------------------------------------

    @cached_property
    def _profiles(self) -> list[np.ndarray]:
        """For each coordinate, solutions along it: (settings, lines, points, outputs)."""
        domain, num = self.solutions.family.domain, len(self.settings)
        dim = len(domain.names)
        along, across = np.linspace(0, 1, ALONG[dim]), (np.arange(ACROSS[dim]) + 0.5) / ACROSS[dim]
        profiles = []
        for axis in range(dim):
            unit = tensor([across] * (dim - 1) + [along])
            unit = np.insert(unit[:, :-1], axis, unit[:, -1], axis=1)
            values = self.solutions(np.array(domain.from_unit(unit)))
            profiles.append(values.reshape(num, -1, len(along), values.shape[-1]))
        return profiles

    def sharpness(self) -> float:
        """The smallest share of a coordinate's range with a third of a solution's variation.

        A ramp has 1/3, a wave about 1/5, a layer its width.
        """
        shares = []
        for profile in self._profiles:
            steps = np.abs(np.diff(profile, axis=2)).sum(axis=1)  # (settings, intervals, outputs)
            largest = -np.sort(-steps, axis=1)
            total = largest.sum(axis=1, keepdims=True)
            few = (np.cumsum(largest, axis=1) < PART * total).sum(axis=1) + 1
            shares.append(np.where(total[:, 0] > 0, few / steps.shape[1], PART).min())
        return float(min(shares))

    @property
    def layered(self) -> bool:
        return self.sharpness() < LAYER

    @cached_property
    def quantiles(self) -> np.ndarray:
        """Points of each coordinate between which equal parts of the monitor lie, (n, dim, q)."""
        return np.stack([_equidistributed(profile) for profile in self._profiles], axis=1)

    def centres(self) -> tuple[float, ...]:
        """Where the thinnest layer along a single coordinate in [-1, 1] is, if that is inside: the
        middle of the region with a third of the variation. None of a layer at an end."""
        if len(self._profiles) > 1 or not self.layered:
            return ()
        steps = np.abs(np.diff(self._profiles[0][:, 0], axis=1)).sum(axis=2)  # (settings, steps)
        place = (np.arange(steps.shape[1]) + 0.5) / steps.shape[1]
        total = steps.sum(axis=1, keepdims=True)
        mean = (steps @ place) / total[:, 0]
        width = np.sqrt(np.sum(steps * (place - mean[:, None]) ** 2, axis=1) / total[:, 0])
        thinnest = int(np.argmin(width))
        if not INSIDE < mean[thinnest] < 1 - INSIDE:
            return ()
        return (float(np.round(2 * mean[thinnest] - 1, 12)),)

    def carriers(self, scale: float, num: int = UNITS) -> tuple[tuple[float, ...], ...]:
        """Frequencies of the solutions that units with slopes up to `scale` do not reach.

        In radians of coordinates in [-1, 1], `num` rows with a number for each feature: quantiles
        of the amplitude spectrum over all settings; what is slow has a carrier of zero. None where
        nearly all is slow. A periodic coordinate has its harmonics as features instead.
        """
        periodic = np.array([name in self._domain.periodic for name in self._domain.names])
        frequencies, amplitude = spectrum(self._on_grid(), periodic)
        frequencies = frequencies * ~periodic
        size = np.linalg.norm(frequencies, axis=1)
        fast = size > SLOW * scale
        if amplitude[fast].sum() < WORTH * amplitude.sum():
            return ()
        order = np.argsort(size, kind="stable")
        cumulated = np.cumsum(amplitude[order]) / amplitude.sum()
        # Units take them in turns, and may be fewer: neighbours are to be far apart.
        levels = np.mod(0.6180339887498949 * (np.arange(num) + 0.5), 1)
        which = order[np.searchsorted(cumulated, levels).clip(max=len(order) - 1)]
        rows = np.repeat(frequencies[which] * fast[which, None], 1 + periodic, axis=1)
        return tuple(tuple(map(float, row)) for row in np.round(rows + 0.0, 3))

    def moving_carriers(self, scale: float, num: int = UNITS) -> tuple[Rows, Rows]:
        """Frequencies that are linear in the coefficients: carriers, and how they move with them.

        Rows of `num` units as in `carriers`, and as many slopes for each coefficient in turn. None
        where no frequency moves by more than units with slopes up to `scale` can follow, or where
        solutions are made of others: a pulse that travels.
        """
        prior = self.solutions.family.parameters
        free = np.array([name in prior.free for name in prior.names], bool)
        if not 1 <= free.sum() <= SWEPT or self._domain.periodic or self._domain.dim > 2:
            return (), ()
        if len(self.settings) < free.sum() + CHECKED:
            return (), ()
        place = np.asarray(prior.normalise(self.settings))[:, free]
        modes = self._modes()
        lines = lines_of(modes, place)
        if share_on(lines, modes, place) < MOSTLY:
            return (), ()
        followed = FOLLOWED * scale
        lines = lines.only(np.any(lines.at_corners() > followed, axis=0))
        if not lines.moves(followed):
            return (), ()
        # One line after the other, and in between, for every IDLE-th unit, what is slow.
        turn = np.arange(num)
        which = (turn - turn // IDLE) % len(lines.score)
        busy = (turn % IDLE != IDLE - 1)[:, None]
        slopes = np.zeros((num, len(free), lines.middle.shape[1]))
        slopes[:, free] = lines.slope[which]
        middle, slope = (
            np.round(part * busy, 3) + 0.0
            for part in (lines.middle[which], slopes.reshape(num, -1))
        )
        return tuple(map(tuple, middle.tolist())), tuple(map(tuple, slope.tolist()))

    def _modes(self) -> Modes:
        """The frequencies of every setting, of at most two coordinates."""
        values = self._on_grid()
        return modes_of(values.reshape(len(self.settings), -1, *values.shape[1:]))

    @property
    def _domain(self) -> Box:
        domain = self.solutions.family.domain
        assert isinstance(domain, Box)
        return domain

    def _on_grid(self) -> np.ndarray:
        """Solutions on an even grid, (settings and outputs, points along each coordinate...)."""
        domain, shape = self._domain, [axis.num for axis in self.solutions.basis.axes]
        counts = [max(COARSEST, FINE * num) for num in shape]
        unit = tensor([(np.arange(n) + 0.5) / n for n in counts])
        values = self.solutions(np.array(domain.from_unit(unit)))
        values = np.moveaxis(values, -1, 1).reshape(-1, *counts)
        size = np.sqrt(np.mean(values**2, axis=tuple(range(1, values.ndim)), keepdims=True))
        return values / np.where(size > 0, size, 1)

    # -- As rows -----------------------------------------------------------------------------------

    def moved(self, unit: Array, parameters: Array) -> Array:
        """A point of the unit cube (dim,) to where half of all points lie evenly, and half where
        the solutions at settings nearby vary."""
        prior = self.solutions.family.parameters
        gap = jnp.asarray(prior.to_unit(self.settings)) - jnp.asarray(prior.to_unit(parameters))
        distance = jnp.sqrt(jnp.sum(gap**2, axis=-1)) + 1e-12
        near = jnp.argsort(distance)[:2]
        weights = (1 / distance[near]) / jnp.sum(1 / distance[near])
        table = jnp.tensordot(weights, jnp.asarray(self.quantiles)[near], 1)  # (dim, quantiles)
        return _half_graded(unit[None], table, jnp)[0].astype(unit.dtype)

    def observations(self, num: int, points: int) -> Data:
        """Values at `num` settings (some of them again where fewer are solved) and so many points
        of each, relative to the solution's size there, or a share of the largest."""
        family, domain = self.solutions.family, self.solutions.family.domain
        unit = unit_sobol(num * points, len(domain.names), SEED).reshape(num, points, -1)
        columns: dict[str, list[np.ndarray]] = {}
        squares: list[float] = []
        for i, j in enumerate(np.resize(np.arange(len(self.settings)), num)):
            setting = self.settings[j]
            coordinates = np.array(domain.from_unit(_half_graded(unit[i], self.quantiles[j], np)))
            values = self._one(int(j))(coordinates)[0]
            named = dict(zip(domain.names, coordinates.T, strict=True))
            named |= dict(zip(family.outputs, values.T, strict=True))
            named |= {
                n: np.full(points, v) for n, v in zip(family.parameters.names, setting, strict=True)
            }
            for name, column in named.items():
                columns.setdefault(name, []).append(column)
            squares.append(np.mean(values**2))
        data = Data(**{name: np.concatenate(parts) for name, parts in columns.items()})
        # Beside a solution of nothing, as where a load passes through zero, no error is small.
        least = NOT_SMALL**2 * max(squares) + np.finfo(float).tiny
        mass = np.repeat(1 / np.maximum(squares, least), points)
        data.mass = mass / mass.sum()
        return data

    def _one(self, i: int) -> FamilySolutions:
        s = self.solutions
        part = slice(i, i + 1)
        return FamilySolutions(
            s.family, s.settings[part], s.basis, s.coefficients[part], s.errors[part]
        )

    def joined(self, family: Family, num: int, points: int) -> Family:
        """The family with these solutions as observations, and with its rows where they vary."""
        changes: dict[str, Any] = {"data": self.observations(num, points)}
        if family.collocate is None:
            changes["collocate"] = self._collocate(family)
        return family.with_observations(**changes)

    def _collocate(self, family: Family) -> Callable[..., Array]:
        """`moved` with the arguments that the hook of a family has."""
        domain, prior = family.domain, family.parameters
        assert isinstance(domain, Box)

        def collocate(*values: Array) -> Array:
            point, parameters = jnp.stack(values[: domain.dim]), jnp.stack(values[domain.dim :])
            unit = self.moved(jnp.asarray(domain.to_unit(point)), parameters)
            return jnp.asarray(domain.from_unit(unit))

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = (*domain.names, *prior.names)
        signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        collocate.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return collocate


def _half_graded(unit: Any, table: Any, xp: Any) -> Any:
    """Points (n, dim) of the unit cube: the first half evenly, the second by quantiles (dim, q)."""
    first = xp.mod(2 * unit[:, :1], 1.0)
    even = xp.concatenate([first, unit[:, 1:]], axis=1)
    levels = xp.linspace(0, 1, QUANTILES)
    graded = [xp.interp(column, levels, row) for column, row in zip(even.T, table, strict=True)]
    return xp.where(unit[:, :1] < 0.5, even, xp.stack(graded, axis=1))


def _equidistributed(profile: np.ndarray) -> np.ndarray:
    """Quantiles (settings, quantiles) of the monitor of solutions along one coordinate.

    The monitor is |u'|^(1/2) + |u''|^(1/3), each relative to the solution's range: bounded powers,
    so that a layer takes a share of the points and not all of them.
    """
    x = np.linspace(0, 1, profile.shape[2])
    slope = np.gradient(profile, x, axis=2)
    bend = np.gradient(slope, x, axis=2)
    size = np.ptp(profile, axis=(1, 2), keepdims=True) + np.finfo(float).tiny
    monitor = np.sqrt(np.abs(slope) / size) + np.cbrt(np.abs(bend) / size)
    monitor = monitor.mean(axis=(1, 3))  # over lines and outputs
    monitor = monitor + EVENLY * monitor.mean(axis=1, keepdims=True) + np.finfo(float).tiny
    pieces = (monitor[:, 1:] + monitor[:, :-1]) / 2
    mass = np.concatenate([np.zeros((len(pieces), 1)), np.cumsum(pieces, axis=1)], axis=1)
    mass /= mass[:, -1:]
    return np.stack([np.interp(np.linspace(0, 1, QUANTILES), m, x) for m in mass])


def can_be_solved(family: Family) -> bool:
    """Whether solutions can be rows: a box, no observations or loss weights of its own."""
    return (
        isinstance(family.domain, Box)
        and family.domain.dim in ALONG
        and family.data is None
        and family.weights is None
    )


def solve_at(
    family: Family, settings: np.ndarray, *, tolerance: float = 1e-8, seconds: float = np.inf
) -> SolvedSettings:
    """The page solved at settings (n, p), one after the other, until the seconds are over.

    What is not resolved is left out; an `LcpinnError` where nothing is, or there is no box.
    """
    if not isinstance(family.domain, Box):
        raise LcpinnError(f"{family.name} has no box as its domain")
    began, reasons, kept, ends = time.perf_counter(), [], [], []
    solver = known_solver(family, tolerance)
    for setting in _from_the_middle(family.parameters, np.atleast_2d(settings)):
        remaining = seconds - (time.perf_counter() - began)
        if remaining <= 0:
            reasons.append(f"the time was up ({seconds:.0f} s)")
            break
        try:
            solver(setting, seconds=remaining)
            kept.append(setting)
        except LcpinnError as error:
            reasons.append(str(error))
        ends.append(time.perf_counter())
    trusted = _trusted(family, np.array(kept), solver, reasons, len(np.atleast_2d(settings)))
    each = np.median(np.diff(ends)) if len(ends) > 1 else ends[0] - began
    return replace(trusted, each=float(each))


def solved_before(family: Family) -> SolvedSettings:
    """What the last solver of this very family has solved; an `LcpinnError` where that is none."""
    solver = _SOLVERS.get(family)
    if solver is None:
        raise LcpinnError(f"{family.name} has not been solved before")
    return _trusted(family, solver.settings, solver, [], len(solver.solved))


def _trusted(
    family: Family, settings: np.ndarray, solver: FamilySolver, reasons: list[str], asked: int
) -> SolvedSettings:
    """The solutions at settings (n, p) that are good enough to learn from."""
    good = [i for i, one in enumerate(solver.solved) if one.error <= TRUSTED]
    if not good:
        raise LcpinnError((reasons or [f"{family.name} is not resolved to {TRUSTED:.0e}"])[0])
    made = in_one_basis(family, settings[good], [solver.solved[i] for i in good])
    return SolvedSettings(made, tuple(reasons), asked)


def known_solver(family: Family, tolerance: float) -> FamilySolver:
    """A solver that has what was solved of this very family before to begin with."""
    solver = FamilySolver(family, tolerance)
    before = _SOLVERS.get(family)
    if before is not None:
        solver.begin_with(before)
    _SOLVERS[family] = solver
    return solver


def _from_the_middle(prior: Coefficients, settings: np.ndarray) -> np.ndarray:
    """The settings with the first few from the middle outwards: nonlinear equations are solved
    from the nearest solution, and what is hard is at an end."""
    far = np.max(np.abs(np.asarray(prior.to_unit(settings[:COARSE])) - 0.5), axis=1, initial=0)
    return np.concatenate([settings[:COARSE][np.argsort(far, kind="stable")], settings[COARSE:]])


def spread_settings(prior: Coefficients, num: int) -> np.ndarray:
    """So many settings (n, p), coarse before fine: Chebyshev nodes of one coefficient; of several
    the corners, while they are at most half of all, and a Sobol sequence denser to the ends."""
    free = np.array([name in prior.free for name in prior.names], bool)
    loose = int(free.sum())
    if loose == 0:
        unit = np.zeros((1, 0))
    elif loose == 1:
        nodes = np.pi * np.arange(num) / max(num - 1, 1)
        unit = ((1 - np.cos(nodes)) / 2)[_coarse_to_fine(num), None]
    else:
        few = 2**loose <= num // 2
        corners = tensor([np.array([0.0, 1.0])] * loose) if few else np.zeros((0, loose))
        rest = unit_sobol(num - len(corners), loose, SEED)
        unit = np.concatenate([corners, (1 - np.cos(np.pi * rest)) / 2])
    whole = np.full((len(unit), prior.dim), 0.5)
    whole[:, free] = unit
    return np.asarray(prior.from_unit(whole))


def _coarse_to_fine(num: int) -> np.ndarray:
    """The order of 0..num-1 with both ends and the middle first, halves and quarters after."""
    order = [0, num - 1]
    spacing = num - 1
    while spacing > 1:
        spacing = spacing / 2
        order += [round(spacing * i) for i in range(1, round((num - 1) / spacing), 2)]
    return np.array([i for i in dict.fromkeys([*order, *range(num)]) if 0 <= i < num])
