"""Coefficients from noisy, scattered observations, through the frozen network.

What is minimised over the coefficients is

    S(lambda) = Σ ((u(x, lambda) - observed) / sigma)²

with u the trained network. S may have many minima (a wavenumber shifts zeros past sensors), so it
is first looked at all over the prior, in one compiled program; the local minima of that scan are
the starts. Each is polished by SciPy's trust-region Gauss-Newton, which keeps to bounds and bears a
Jacobian without full rank, with the exact derivatives by forward mode. All of this happens on the
unit cube that the prior is the image of: coefficients of different size weigh the same, and a
log-uniform one is fitted by its logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lcpinn.errors import LcpinnError
from lcpinn.family import Data
from lcpinn.inverse.judgement import Judgement
from lcpinn.inverse.misfit import Forward, Misfit, local_minima
from lcpinn.inverse.observations import Observations, Sigma, read
from lcpinn.inverse.result import Fit, Minimum, plus_minus

if TYPE_CHECKING:
    from lcpinn.solution import Solution

__all__ = [
    "Fit",
    "Forward",
    "Minimum",
    "Misfit",
    "Observations",
    "Sigma",
    "fit",
    "local_minima",
    "plus_minus",
    "read",
]


def fit(
    solution: Solution,
    data: Data | Mapping[str, Any],
    at: Mapping[str, float] | None = None,
    sigma: Sigma | None = None,
    estimate: bool = True,
) -> Fit:
    """The coefficients that explain the observations best; see Solution.fit."""
    observed = read(solution.family, data, at, sigma)
    misfit = Misfit(solution._forward, observed)
    units, levels = misfit.scan()
    starts = local_minima(units, levels)
    if not starts.size:
        raise LcpinnError("the network is not finite at these points, whatever the coefficients")
    ends = sorted((misfit.polish(units[i]) for i in starts), key=lambda end: end.squares)
    return Judgement(solution, observed, misfit, ends, estimate).fit((units, levels))
