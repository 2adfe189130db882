"""A solver for what a page says, at one setting of its coefficients.

Every term of a family is linearised about an approximate solution u and solved, all of them
together and in the sense of least squares, for a correction d:

    T'(u)[d] = -T(u)     for every term T, inside and on the faces.

`linearisation.py` has the linearised terms, which is all that is asked of a family; `basis.py` the
functions that d is expanded in, `frame.py` with `holes.py` those on shapes; `collocation.py` the
points where the terms hold and their rows, `least_squares.py` the solvers for those, written out or
not; `expansion.py` one expansion over the whole domain, and `march.py` with `slab.py` and
`splines.py` one slab after the other where there are fronts. `determinacy.py` finds out whether a
page has one solution, `newton.py` and `solver.py` find it; the certificate asks for the error of a
network alone.
"""

from lcpinn.spectral.basis import Axis, TensorBasis
from lcpinn.spectral.collocation import LinearisedRows, ScatteredPoints, TensorGrid
from lcpinn.spectral.determinacy import Determinacy
from lcpinn.spectral.expansion import Expansion, NotFinite
from lcpinn.spectral.family_solver import FamilySolutions, FamilySolver, solve_family
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms
from lcpinn.spectral.march import March, Unresolved, march_direction
from lcpinn.spectral.numerical_solution import NumericalSolution
from lcpinn.spectral.solver import solve

__all__ = [
    "Axis",
    "Determinacy",
    "Expansion",
    "FamilySolutions",
    "FamilySolver",
    "Linearisation",
    "LinearisedRows",
    "LinearisedTerms",
    "March",
    "NotFinite",
    "NumericalSolution",
    "ScatteredPoints",
    "TensorBasis",
    "TensorGrid",
    "Unresolved",
    "march_direction",
    "solve",
    "solve_family",
]
