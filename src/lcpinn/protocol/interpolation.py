"""Solutions at nodes of the coefficients and a polynomial between them: what a solver can do."""

from __future__ import annotations

from collections.abc import Mapping

from lcpinn.domain import Box, Region
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network import Interpolant
from lcpinn.optimiser import Interpolation
from lcpinn.protocol.value import Protocol
from lcpinn.sampling import Sampling
from lcpinn.spectral.family_solver import check_one_basis
from lcpinn.spectral.frame import has_holes
from lcpinn.verdict import check_tolerance
from lcpinn.weighting import Fixed

MOST_COEFFICIENTS = 4
MOST_COORDINATES = 3
CHEAP = 2  # coordinates, and coefficients, up to which it costs seconds where solutions are smooth


def interpolant(
    family: Family,
    *,
    tolerance: float | None = None,
    seconds: float | None = None,
    at: Mapping[str, float] | None = None,
) -> Protocol:
    """No network: `lc.solve` at Chebyshev nodes of the coefficients, a polynomial between them.

    For one to four coefficients (on sparse grids), up to three coordinates, and solutions that an
    expansion resolves: smooth ones, on a box or a shape that does not move with the coefficients.
    More settings are solved until the polynomial has decayed below the `tolerance` (1e-8 by
    default), or the `seconds` are over. Coefficients in `at` are held there.

    The equation is solved as it stands, without an ansatz and loss weights of its page.
    """
    check_tolerance(tolerance)
    setting = dict(at or {})
    reason = reason_against_interpolation(family.at(**setting))
    if reason:
        raise LcpinnError(reason)
    periodic = family.domain.periodic
    phase = Interpolation(tolerance=1e-8 if tolerance is None else tolerance, seconds=seconds)
    return Protocol(
        name="interpolant",
        network=Interpolant(tuple(name in periodic for name in family.domain.names)),
        weighting=Fixed({}),
        phases=(phase,),
        sampling=None,
        held_out=Sampling(1024, 128, 1, "collocation", seed=1009),
        dtype="float64",
        plain=True,
        weighted=False,
        at=setting,
    )


def reason_against_interpolation(family: Family) -> str:
    """Why a family cannot be interpolated, as far as its page tells at once; empty where it can."""
    free, name = len(family.parameters.free), family.name
    if free == 0:
        return f"interpolant needs one to four coefficients; {name} has none, lc.solve solves it"
    if free > MOST_COEFFICIENTS:
        return f"interpolant needs one to four coefficients; {name} has {free}"
    if family.domain.dim > MOST_COORDINATES:
        return f"interpolant needs at most three coordinates; {name} has {family.domain.dim}"
    try:
        check_one_basis(family)
    except LcpinnError as error:
        return f"interpolant needs a shape that stays: {error}"
    if isinstance(family.domain, Region) and has_holes(family.domain):
        return f"interpolant needs a shape without holes: solutions of {name} are singular in them"
    return ""


def is_better_interpolated(family: Family) -> bool:
    """Whether a family is one that interpolation solves in seconds: few of everything, and linear.

    No promise: whether solutions are smooth in the coefficients shows when they are solved.
    """
    few = max(family.domain.dim, len(family.parameters.free)) <= CHEAP
    return (
        few
        and isinstance(family.domain, Box)
        and not reason_against_interpolation(family)
        and family.is_linear()
    )
