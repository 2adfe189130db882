"""Reference solutions that the trained networks are compared with.

Nothing here is used in training, but for ``heat_kernel``, which makes the data of the one baseline
that is supervised (FNO). Everything is float64 NumPy and SciPy:

- ``cole_hopf.burgers``: Burgers to rounding, by quadrature of the Cole-Hopf formula;
- ``heat_kernel.solutions``: Burgers from any periodic start, by sums of the Cole-Hopf formula;
- ``spectral.burgers``, ``solve_burgers``: Fourier modes and Radau, for any periodic start;
- ``buckley_leverett``: the viscous problem at any (t, x), kept on disk after the first use;
- ``cavity.cavity``: the lid-driven cavity, by a Chebyshev stream function;
- ``implicit``, ``lax_friedrichs``, ``inviscid``: its check, the paper's scheme, the limit ε = 0.
"""

from lcpinn.cache import cached
from lcpinn.reference import cavity, cole_hopf, finite_volume, spectral
from lcpinn.reference.cole_hopf import burgers
from lcpinn.reference.finite_volume import (
    buckley_leverett,
    distance_between_references,
    implicit,
    inviscid,
    lax_friedrichs,
)
from lcpinn.reference.spectral import solve_burgers

__all__ = [
    "buckley_leverett",
    "burgers",
    "cached",
    "cavity",
    "cole_hopf",
    "distance_between_references",
    "finite_volume",
    "implicit",
    "inviscid",
    "lax_friedrichs",
    "solve_burgers",
    "spectral",
]
