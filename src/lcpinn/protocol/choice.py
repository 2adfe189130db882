"""What `fast` makes of a family that a tolerance is asked for: choices by looking, not by a table.

The page is solved at a few settings first (lcpinn.own_solutions), which takes a moment where it can
be solved at all. What these solutions look like decides between kinds of networks; a reference is
never looked at.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.interpolated import Between
from lcpinn.loads import loads
from lcpinn.own_solutions import (
    FEWEST,
    SolvedSettings,
    can_be_solved,
    known_solver,
    solve_at,
    spread_settings,
)
from lcpinn.powers import as_polynomials, simplest_powers
from lcpinn.prior import Coefficients
from lcpinn.protocol.sizes import Size, is_smooth, size_of
from lcpinn.reduced_basis import ReducedBasis, known_between

FEW = 3  # coefficients that a few dozen settings can tell something about
LOOK = 5  # settings that are looked at
SHARE = 0.1  # of the training's time, for solving settings
SHARE_BETWEEN = 0.4  # the same where all settings between them are to be known, too
FEW_UNITS, FEW_ROWS = 40, 6000  # of three coordinates
COARSE = 3e-2  # tolerance of a look at three coordinates
NODES = 13  # settings that a polynomial between them takes at the least; of fronts that
NODES_OF_FRONTS = 33  # sharpen with lambda, as those of equations that are not linear may, more
LOOK_SECONDS, MOST_SECONDS = 10.0, 60.0
WIDE, WIDER = 3, 1.15  # inputs from which on a regression gets wider layers; by how much
NARROWER = 0.7  # the same where moving frequencies are given
LEAST_DEGREE = 2  # of polynomials in the only coefficient, there with one coordinate
LEAST_UNITS, UNITS_EACH = 12, 2  # of a layer, with many coefficients: and for each function of x
STEEP = 3.0  # frequency scale of the units that make a layer


@dataclass(frozen=True)
class Choice:
    """A kind of network with its size, and whether solutions of the page are to be rows."""

    size: Size
    activation: str
    slopes: float | tuple[float, ...] = 0.0
    carriers: tuple[tuple[float, ...], ...] = ()
    sweeps: tuple[tuple[float, ...], ...] = ()
    stretch: tuple[float, ...] = ()
    centres: tuple[tuple[float, ...], ...] = ()
    variables: tuple[tuple[float, ...], ...] = ()  # in the place of coefficients
    modulating: tuple[str, ...] = ()  # coefficients that are no loads; all where it is empty
    own_solutions: bool = False
    between: bool = False  # whether they are smooth enough to be interpolated over the coefficients
    solving_seconds: float = 0.0
    spent: float = 0.0  # seconds, on the choice itself


def chosen(family: Family, size: Size, tolerance: float | None, seconds: float | None) -> Choice:
    """The table's guess without a tolerance; with one, what the page's own solutions suggest."""
    guess = Choice(size, "sine" if is_smooth(family) else "tanh")
    many = len(family.parameters.free) > FEW and not family.is_linear()
    if tolerance is None or many or not can_be_solved(family):
        return guess
    limit = math.inf if seconds is None else SHARE * seconds
    if family.domain.dim > 2:
        return _coarsely(family, guess, min(limit, LOOK_SECONDS))
    settings, began = spread_settings(family.parameters, LOOK), time.perf_counter()
    try:
        solved = solve_at(family, settings, tolerance=1e-6, seconds=min(limit, LOOK_SECONDS))
    except LcpinnError:
        return replace(guess, spent=time.perf_counter() - began)
    guess = replace(guess, spent=time.perf_counter() - began)
    limit = min(limit, MOST_SECONDS)
    if solved.most and FEWEST * solved.each <= limit:  # else the time is better spent on training
        guess = replace(guess, own_solutions=True, solving_seconds=limit)
    if solved.layered:
        # Layers: units that saturate, whose steepness goes with powers of the coefficients.
        steep = replace(size, frequency_scale=STEEP)
        centres = tuple((place,) for place in solved.centres())
        slopes = powers(family.parameters)
        return replace(guess, size=steep, activation="tanh", slopes=slopes, centres=centres)
    share = MOST_SECONDS if seconds is None else min(SHARE_BETWEEN * seconds, MOST_SECONDS)
    nodes = NODES if family.is_linear() else NODES_OF_FRONTS
    affordable = nodes * solved.each <= share
    if affordable and _pays(family, solved, size):
        # Smooth, whatever the equation: sines, and frequencies that the solutions have.
        known = _known(family, tolerance, share)
        table = size_of(family, smooth=True)
        carriers, sweeps = solved.moving_carriers(table.frequency_scale)
        if known is None and _tried(family) and not solved.carriers(table.frequency_scale):
            # Between settings it is not known: fronts that sharpen, for which the guess is better.
            return replace(guess, spent=time.perf_counter() - began)
        size = _resized(family, table, known, moving=bool(sweeps))
        guess = replace(
            guess,
            size=size,
            activation="sine",
            own_solutions=True,
            between=True,
            carriers=carriers or solved.carriers(size.frequency_scale),
            sweeps=sweeps,
            solving_seconds=share,
            stretch=known.stretch if known is not None else (),
            variables=_variables(known),
            modulating=_modulating(family),
        )
    return replace(guess, spent=time.perf_counter() - began)


def _coarsely(family: Family, guess: Choice, seconds: float) -> Choice:
    """Of three coordinates a coarse solution in the middle of the ranges, which says one thing:
    that an equation which is not linear has no front after all."""
    if family.is_linear():
        return guess
    began, middle = time.perf_counter(), spread_settings(family.parameters, 1)[0]
    try:
        known_solver(family, COARSE)(middle, seconds)
        guess = replace(guess, size=_for_few_steps(size_of(family, smooth=True)), activation="sine")
    except LcpinnError:
        pass
    return replace(guess, spent=time.perf_counter() - began)


def _for_few_steps(size: Size) -> Size:
    """Where a step takes long, and so does compiling it: fewer rows and units."""
    return replace(
        size,
        widths=tuple(min(width, FEW_UNITS) for width in size.widths),
        interior=min(size.interior, FEW_ROWS),
    )


def _pays(family: Family, solved: SolvedSettings, size: Size) -> bool:
    """Whether a network is better fitted to solutions between settings than to residuals, too.

    Residuals of a linear equation in two coordinates find slow solutions as well, and to more
    digits; not many periods, nor what Newton's method has found. An ansatz has no place here:
    solutions have all of u, what it imposes included.
    """
    if not solved.most or family.ansatz is not None:
        return False
    few = len(family.parameters.free) <= FEW
    easy = few and family.is_linear() and family.domain.dim > 1
    return not easy or bool(solved.carriers(size.frequency_scale))


def _resized(family: Family, size: Size, known: Between | None, *, moving: bool) -> Size:
    """The table's size, for a regression.

    It takes no derivatives: with three inputs and more it has time for more units, which is what
    its error is limited by. Not with many coefficients, where parameters are many and steps are
    what is short: there it has as many as the solutions have functions of the coordinates. Nor with
    polynomials of two variables for a coefficient, which are too many for a QR at every step. Where
    frequencies that are moving are given, few units do, and many steps are needed for their phases.
    """
    if isinstance(known, ReducedBasis):
        units = LEAST_UNITS + UNITS_EACH * len(known.functions)
        return replace(size, widths=tuple(min(width, units) for width in size.widths))
    if known is not None and known.stretch:
        return replace(size, solver="cholesky", dampings=5)
    if family.domain.dim + len(family.parameters.free) < WIDE:
        # Little else changes with the coefficient: polynomials of it are a step's time.
        return replace(size, degree=LEAST_DEGREE) if moving else size
    factor = NARROWER if moving else WIDER
    return replace(size, widths=tuple(round(factor * width) for width in size.widths))


def _tried(family: Family) -> bool:
    """Whether it is found out before the network is chosen if all settings can be known."""
    free = len(family.parameters.free)
    return free == 1 or free > FEW


def _known(family: Family, tolerance: float, seconds: float) -> Between | None:
    """Solutions at all settings, where that is a matter of seconds: with one coefficient, or many
    of a linear equation. The training finds them solved."""
    if not _tried(family):
        return None
    try:
        known = known_between(family, tolerance=tolerance, seconds=seconds)
    except LcpinnError:
        return None
    return known if known.enough else None


def _variables(known: Between | None) -> tuple[tuple[float, ...], ...]:
    """Of many coefficients the powers in which solutions are simplest."""
    if not isinstance(known, ReducedBasis) or len(known.family.parameters.free) <= FEW:
        return ()
    powers = simplest_powers(known)
    return as_polynomials(known.family.parameters, powers) if powers else ()


def _modulating(family: Family) -> tuple[str, ...]:
    """Of many coefficients those that modulate the network, where others are loads."""
    if len(family.parameters.free) <= FEW:
        return ()
    linear = loads(family)
    return tuple(n for n in family.parameters.free if n not in linear) if linear else ()


def powers(prior: Coefficients) -> tuple[float, ...]:
    """Half of log(high / low) for every coefficient, which a unit's exponent may change by: powers
    between -1 and 1 of it. None where a range meets zero."""
    return tuple(
        float(np.log(high / low) / 2) if name in prior.free and low * high > 0 else 0.0
        for name, (low, high) in prior.ranges.items()
    )
