"""How large a page's solutions are: the units that its network is to have.

What every term is about the function that vanishes, beside what it makes of a function of size one
that varies over the size of the domain, tells the order of magnitude of the solution that the term
asks for. Where all are of size one, as in a page without dimensions, that is all that is done.
Elsewhere the page is solved at a few settings by a coarse expansion, of which nothing is taken but
means and root mean squares.
"""

from __future__ import annotations

import numpy as np

from lcpinn.family import Family
from lcpinn.network.film import chebyshev, chebyshev_indices
from lcpinn.network.units import Units
from lcpinn.own_solutions import spread_settings
from lcpinn.precision import double
from lcpinn.spectral.expansion import VANISHING, Expansion, NotFinite
from lcpinn.spectral.frame import too_many_holes
from lcpinn.spectral.least_squares import NotSolvable, TooLarge
from lcpinn.spectral.linearisation import LinearisedTerms, about_zero, linearised
from lcpinn.spectral.newton import NotConverged, newton
from lcpinn.threads import blas_threads

ORDINARY = (0.03, 30.0)  # sizes that a network finds by itself
DECADE = 30.0  # the factor between sizes at different settings from which on they are worth a fit
POINTS = 128  # of every term, which is what its slopes are compiled for anyway
FUNCTIONS = {1: 24, 2: 12, 3: 8}  # of the coarse expansion, along each coordinate
SETTINGS = {0: 1, 1: 5, 2: 9, 3: 15}  # by the number of coefficients; of more, SEVERAL for each
SEVERAL, MOST_SETTINGS = 3, 24
FEW = 3  # coefficients in which logarithms of sizes are quadratic; in more they are linear
OWN = 0.5  # the share of a term's response from which on it speaks of that output
LEVEL = 2.0  # times its deviation, from which on a mean is a level that an output varies about
SMALLEST = 1e-3  # size at a setting, beside the largest at any

Moments = tuple[np.ndarray, np.ndarray]  # means and mean squares, (settings, outputs) each


def units_of(family: Family) -> Units | None:
    """The units of a page's outputs; None where they are of size one, or an ansatz has its own."""
    if family.ansatz is not None:
        return None
    settings = spread_settings(family.parameters, _num_settings(family))
    terms = linearised(family)
    with np.errstate(all="ignore"):  # a term need not be finite where its outputs vanish
        guesses = np.array([_guess(terms, lam) for lam in settings])
    if _ordinary(guesses):
        return None
    means, squares = _solved(terms, settings, guesses)
    return _fitted(family, settings, means, squares)


def _num_settings(family: Family) -> int:
    free = len(family.parameters.free)
    return SETTINGS.get(free, min(SEVERAL * free, MOST_SETTINGS))


def _ordinary(sizes: np.ndarray) -> bool:
    """Whether sizes (settings, outputs), zero where nothing is known, are near one throughout."""
    known = sizes[(sizes > 0) & np.isfinite(sizes)]
    return not known.size or (ORDINARY[0] <= known.min() and known.max() <= ORDINARY[1])


def _guess(terms: LinearisedTerms, lam: np.ndarray) -> np.ndarray:
    """For each output the largest size that a term asks for, or zero where none speaks of it."""
    family, at = terms.family, about_zero(terms, lam.tolist())
    lengths = np.array([(high - low) / 2 for low, high in family.domain.ranges.values()])
    largest = np.zeros(len(family.outputs))
    for term in terms.terms:
        orders = family.orders([term])
        derivatives = np.prod(lengths ** -np.array(orders.indices, float), axis=1)
        for face in term.faces or (None,):
            points = np.asarray(family.domain.sobol(POINTS, seed=21, face=face, parameters=lam))
            zero = np.zeros((len(orders), len(points), len(largest)))
            residual, slopes = at.slopes(term, orders, zero, points)
            asked = np.sqrt(np.mean(residual**2, axis=0))  # of each equation
            unit = np.einsum("cso,s->co", np.sqrt(np.mean(slopes**2, axis=0)), derivatives)
            own = unit >= OWN * unit.sum(axis=1, keepdims=True)
            sizes = np.where(own & (unit > 0), asked[:, None] / np.where(unit > 0, unit, 1), 0.0)
            if np.isfinite(sizes).all():
                largest = np.maximum(largest, sizes.max(axis=0, initial=0.0))
    return largest


def _solved(terms: LinearisedTerms, settings: np.ndarray, guesses: np.ndarray) -> Moments:
    """Means and mean squares of coarse solutions; of a guess, where there is none."""
    with double(), blas_threads(1):
        pairs = zip(settings, guesses, strict=True)
        means, squares = zip(*(_moments(terms, lam, guess) for lam, guess in pairs), strict=True)
    return np.array(means), np.array(squares)


def _moments(terms: LinearisedTerms, lam: np.ndarray, guess: np.ndarray) -> Moments:
    family = terms.family
    dim, outputs = family.domain.dim, len(family.outputs)
    unsolved = np.zeros(outputs), guess**2
    if dim not in FUNCTIONS or too_many_holes(family.domain, outputs):
        return unsolved
    expansion = Expansion(terms, (FUNCTIONS[dim],) * dim, lam)
    try:
        coefficients = newton(expansion, about_zero(terms, lam.tolist()), expansion.zero)
    except (NotConverged, NotFinite, NotSolvable, TooLarge):
        return unsolved
    values = expansion.values(coefficients)
    if not np.isfinite(values).all():
        return unsolved
    return expansion.mass @ values, expansion.mean_square(values)


def _fitted(family: Family, settings: np.ndarray, means: np.ndarray, squares: np.ndarray) -> Units:
    """One level for each output, and its size about that, whose logarithm is fitted in lambda."""
    middle = means.mean(axis=0)
    deviation = np.sqrt(np.maximum(squares.mean(axis=0) - middle**2, 0.0))
    level = np.where(np.abs(middle) > LEVEL * deviation, middle, 0.0)
    about = np.sqrt(np.maximum(squares - 2 * level * means + level**2, 0.0))
    # A constant output varies by what rounding leaves of it: its size is that of its level.
    largest = about.max(axis=0)
    largest = np.where(largest > SMALLEST * np.abs(level), largest, np.abs(level))
    largest = np.where(largest > 0, largest, 1.0)
    sizes = np.maximum(about, SMALLEST * largest)
    # Where a load passes through zero, sizes are those of its other values: the network has units
    # for them, and zero is a matter of its own.
    there = np.all(about > VANISHING * largest, axis=1)
    if there.any():
        settings, sizes = settings[there], sizes[there]
    degree = _degree(family, sizes, most=2 if there.all() else 1)
    features = np.ones((len(settings), 1))
    if degree:
        with double():
            polynomials = chebyshev(family.parameters.normalise(settings), degree)
        features = np.hstack([features, np.asarray(polynomials)])
    rows = np.linalg.lstsq(features, np.log(sizes), rcond=None)[0]
    return Units(tuple(map(float, level)), tuple(tuple(map(float, r)) for r in rows), degree)


def _degree(family: Family, sizes: np.ndarray, most: int) -> int:
    """Of the logarithms: none where sizes hardly depend on lambda, or the settings are too few.

    About a zero they would have a pole: a polynomial of degree two makes a valley of it.
    """
    if len(sizes) == 1 or (sizes.max(axis=0) <= DECADE * sizes.min(axis=0)).all():
        return 0
    degree = most if len(family.parameters.free) <= FEW else 1
    num = 1 + len(chebyshev_indices(len(family.parameters.free), degree))
    return degree if len(sizes) >= num else 0
