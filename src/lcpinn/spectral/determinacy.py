"""Whether a page determines its solution: functions that no term sees, conditions that contradict.

Least squares quietly takes the smallest of all corrections where the linearised terms have a null
space, and a compromise where they contradict each other. Neither may pass for a solution. A null
function is told from mere ill-conditioning in three ways: no row sees it (a singular value at the
level of rounding, of the matrix with rows in the units of their terms and columns of norm one); it
is resolved (its last coefficients vanish) and not zero on the domain; and it is there in two sizes
and at every setting that is tried, which a resonance at single values of lambda is not.

What grows from a condition by sixteen digits looks like a null function, too: it, and its
derivatives, vanish to rounding where the condition is. That counts only if conditions are missing.

Three coordinates of a shape, or four of anything, are too many to resolve a null function to
rounding. There the rows of functions of size one on the domain are compared in two sizes: what they
are at the least is steady where the page determines its solution (a constant of stability), and
decays where a null function is approximated better and better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy

from lcpinn.domain import Box, Face, Part
from lcpinn.family import Family
from lcpinn.jet import Orders
from lcpinn.precision import double
from lcpinn.spectral.basis import TensorBasis, basis_on
from lcpinn.spectral.collocation import LinearisedRows, ScatteredPoints, TensorGrid
from lcpinn.spectral.expansion import Expansion, NotFinite, uses_grids
from lcpinn.spectral.frame import TENSORS, Basis, affordable, too_many_holes
from lcpinn.spectral.least_squares import LeastSquares, least_squares
from lcpinn.spectral.linearisation import Linearisation, linearised, zero, zeroth
from lcpinn.spectral.march import faces_of, outflow_sides
from lcpinn.threads import blas_threads

SIZES = {1: (128, 96), 2: (20, 18), 3: (9, 7)}
FRAMES = SIZES | {3: (11, 8), 4: (10, 8)}  # of regions that are no boxes; of any four coordinates
MOST_UNKNOWNS = 800  # of all outputs: fewer functions a coordinate where there are many outputs
MOST_UNKNOWNS_IN_FRAME, MORE_UNKNOWNS = 1400, 2000  # with those of holes; where in doubt
SETTINGS = {1: 3}  # values of lambda that are tried; two in more coordinates
UNSEEN = 1e-9  # a singular value, beside the largest, of what no row sees
CLEAR = 1e-7  # a reciprocal condition number with which there is no such value
REDUNDANT = 1e-10  # the square of a size on the domain, beside the largest, that is none
ON_DOMAIN = 1e-4  # the least size on the domain of a null function: frames are redundant outside
DECAYS = 0.7  # the ratio, in two sizes, of rows that decay
FAINT = 0.05  # rows of a function of size one that is free, if they decay
NONE = 1e-8  # the same beside the largest of all rows: rounding
FAINTEST = 64  # functions that are looked at, of those whose rows are smallest
CONSTANT = 1e-3  # the variation of a level on a region, beside its size
RESOLVED = 1e-5  # the share of the last coefficients in a function that is resolved
ROUNDING = 1e-6  # Cauchy data, beside the function's size, that may be rounding
CONTRADICTED, STEADY = 1e-3, 1.2  # the share of the residual left in both sizes; their ratio
COMPROMISED = 1e-3  # as RESOLVED, of what least squares finds where terms contradict


@dataclass(frozen=True)
class NullSpace:
    """Resolved functions that no row sees, smooth first: coefficients (n, outputs, size)."""

    basis: Basis
    coefficients: np.ndarray

    def __len__(self) -> int:
        return len(self.coefficients)


@dataclass(frozen=True)
class Determinacy:
    """What a page leaves open, or asks for twice.

    `num_free` functions are left open; `levels` are the outputs of which only a level is, with the
    coordinates that it does not depend on; `contradicting` are the terms that cannot hold together.
    `undecided` it is where no affordable size tells.
    """

    num_free: int = 0
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    contradicting: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    hint: str = ""
    null_space: NullSpace | None = None
    outflow: str = ""
    undecided: bool = False

    @property
    def is_determined(self) -> bool:
        """Whether there is one solution, levels aside."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why an error cannot be estimated, in a sentence; empty where it can."""
        if self.num_free:
            assert self.null_space is not None
            count = "functions are"  # of some coordinates: as many as there are of those
            if len(self.null_space.basis.axes) == 1:
                words = {1: "one function is", 2: "two functions are"}
                count = words.get(self.num_free, "many functions are")
            named = " and ".join(self.outputs)
            asked = f" ({self.hint})" if self.hint else ""
            return f"the page does not determine {named}: {count} free{asked}"
        if self.contradicting:
            named = ", ".join(self.contradicting)
            return f"the conditions cannot hold together: what is left is in {named}"
        if self.undecided:
            return "whether the page determines its solution is not resolved"
        return ""

    @property
    def note(self) -> str:
        """What an estimate leaves out."""
        if not self.levels:
            return ""
        named = " and ".join(output for output, _ in self.levels)
        return f"the page determines {named} up to a constant alone, which is not judged"


# -- One matrix ----------------------------------------------------------------------------------


def unit_weights(block: LinearisedRows, *, uniform: bool) -> np.ndarray:
    """Weights (n, c) that give a block's rows the units of its terms, and their squares a mean.

    A term's unit is the size of its parts, each derivative counted with the size of the domain. The
    mean is uniform over the domain, or in the weight that suits Chebyshev polynomials.
    """
    grid = block.collocation
    assert isinstance(grid, TensorGrid | ScatteredPoints)
    lengths = [(axis.high - axis.low) / 2 for axis in grid.basis.axes]
    powers = np.array(grid.orders.indices)
    scale = np.prod(np.array(lengths) ** -powers.astype(float), axis=1)
    parts = np.sqrt(np.mean(block.slopes**2, axis=0)) * scale[:, None]
    unit = np.sum(parts, axis=(1, 2))
    mass = np.full(len(grid.points), 1 / len(grid.points))
    if isinstance(grid, TensorGrid):
        mass = reduce(np.kron, grid.weights if uniform else grid.row_weights)
    return np.sqrt(mass)[:, None] / np.where(unit > 0, unit, 1)


def compromise(blocks: Sequence[LinearisedRows]) -> LeastSquares:
    """Least squares in the norm of the domain: smooth also where terms contradict each other."""
    weights = [unit_weights(block, uniform=True) for block in blocks]
    pairs = list(zip(weights, blocks, strict=True))
    matrices = [weight.reshape(-1, 1) * block.matrix() for weight, block in pairs]
    targets = [-(weight * block.residual).ravel() for weight, block in pairs]
    return least_squares(matrices, targets)


def null_space(
    blocks: Sequence[LinearisedRows], basis: Basis, points: np.ndarray, num_outputs: int
) -> NullSpace:
    """The resolved functions that no row sees and that do not vanish at points (n, dim) inside."""
    weights = [unit_weights(block, uniform=False).reshape(-1, 1) for block in blocks]
    matrix = np.concatenate([w * b.matrix() for w, b in zip(weights, blocks, strict=True)])
    column = np.linalg.norm(matrix, axis=0)
    column = np.where(column > 1e-12 * column.max(initial=0.0), column, 1.0)
    triangle = np.linalg.qr(matrix / column, mode="r")
    none = NullSpace(basis, np.zeros((0, num_outputs, basis.size)))
    (condition,) = scipy.linalg.get_lapack_funcs(("trcon",), (triangle,))
    if len(triangle) == len(column) and condition(triangle)[0] > CLEAR:
        return none
    _, singular, right = np.linalg.svd(triangle)
    largest = singular[0] if len(singular) else 0.0
    padded = np.concatenate([singular, np.zeros(len(right) - len(singular))])
    candidates = (right[padded <= UNSEEN * largest] / column).T  # (outputs size, functions)
    if candidates.shape[1] == 0:
        return none
    table = basis.table(points, zeroth(len(basis.axes)))[0] / np.sqrt(len(points))
    values = np.einsum("nb,obf->onf", table, candidates.reshape(num_outputs, basis.size, -1))
    _, sizes, turn = np.linalg.svd(values.reshape(-1, candidates.shape[1]), full_matrices=False)
    seen = sizes > ON_DOMAIN * np.max(np.linalg.norm(candidates, axis=0), initial=0.0)
    functions = candidates @ (turn[seen].T / sizes[seen])  # of size one on the domain
    return _smooth(basis, functions.reshape(num_outputs, basis.size, -1))


def _smooth(basis: Basis, functions: np.ndarray) -> NullSpace:
    """The span of functions (outputs, size, functions) as far as it is resolved, smooth first."""
    num = functions.shape[2]
    if num == 0:
        return NullSpace(basis, np.zeros((0, len(functions), basis.size)))
    _, some, turn = np.linalg.svd(basis.last(functions))
    sizes = np.concatenate([some, np.zeros(num - len(some))])
    resolved = np.flatnonzero(sizes <= RESOLVED)[::-1]
    return NullSpace(basis, np.moveaxis(functions @ turn[resolved].T, 2, 0))


# -- Two matrices: rows that decay ---------------------------------------------------------------


class Faintest(NamedTuple):
    """Functions of size one on the domain whose rows are smallest.

    The norms of those rows, rising, which below `rounding` are zero; coefficients (n, outputs,
    size).
    """

    basis: Basis
    sizes: np.ndarray
    coefficients: np.ndarray
    rounding: float

    def steady(self, coarse: Faintest) -> bool:
        """Whether the smallest rows are not much smaller than those of a coarser basis."""
        smallest = self.sizes[0]
        return bool(smallest > self.rounding and smallest > DECAYS * coarse.sizes[0])

    def decaying(self, coarse: Faintest) -> NullSpace:
        """The functions whose rows vanish, or are small and smaller than in a coarser basis."""
        num = min(len(self.sizes), len(coarse.sizes))
        decay = self.sizes[:num] < DECAYS * coarse.sizes[:num]
        free = (self.sizes[:num] < self.rounding) | (decay & (self.sizes[:num] < FAINT))
        return NullSpace(self.basis, self.coefficients[:num][free])


def faintest(blocks: Sequence[LinearisedRows], basis: Basis, points: np.ndarray) -> Faintest:
    """The functions for which |rows| / |values at points (n, dim)| is least, in units of the terms.

    What a frame's functions do outside of the domain is cut off first.
    """
    num_outputs = blocks[0].slopes.shape[3]
    table = basis.table(points, zeroth(len(basis.axes)))[0] / np.sqrt(len(points))
    column = np.linalg.norm(table, axis=0)
    masses, turn = np.linalg.eigh((table / column).T @ (table / column))
    kept = masses > REDUNDANT * masses[-1]
    on_domain = turn[:, kept] / np.sqrt(masses[kept]) / column[:, None]  # (size, kept)
    normal: Any = 0.0
    for block in blocks:
        matrix = unit_weights(block, uniform=False).reshape(-1, 1) * block.matrix()
        parts = np.split(matrix, num_outputs, axis=1)
        rows = np.concatenate([part @ on_domain for part in parts], axis=1)
        normal = normal + rows.T @ rows
    num = min(FAINTEST, len(normal))
    squares, vectors = scipy.linalg.eigh(normal, subset_by_index=(0, num - 1))
    functions = vectors.T.reshape(num, num_outputs, -1) @ on_domain.T
    rounding = NONE * float(np.sqrt(np.trace(normal)))
    return Faintest(basis, np.sqrt(np.maximum(squares, 0.0)), functions, rounding)


# -- A family ------------------------------------------------------------------------------------

_KNOWN: WeakKeyDictionary[Family, dict[bool, Determinacy]] = WeakKeyDictionary()


def determinacy(family: Family, *, observations: bool = True) -> Determinacy:
    """What the page leaves open, at a few settings; linearised about a smooth guess.

    Without `observations` it is asked what the terms determine that are no data.
    """
    known = _KNOWN.setdefault(family, {})
    if observations not in known:
        with double(), blas_threads(1):
            known[observations] = _Examination(family, observations).result()
    return known[observations]


class _Examination:
    """The terms at a few settings, in two sizes."""

    def __init__(self, family: Family, observations: bool = True):
        self.family, self.terms = family, linearised(family)
        self.data = family.data if observations else None
        self.settings = _settings(family)

    def result(self) -> Determinacy:
        if self.family.domain.dim not in FRAMES or not self.terms.interior:
            return Determinacy()
        if too_many_holes(self.family.domain, len(self.family.outputs)):
            return Determinacy()
        try:
            return self._examine() if self._resolves_rounding else self._examine_decay()
        except NotFinite:
            return Determinacy()

    def _examine(self) -> Determinacy:
        outflow = self._outflow()
        smallest: NullSpace | None = None
        for setting in self.settings:
            for expansion in self.expansions(setting):
                null_space = self._null_space(expansion, setting)
                if len(null_space) == 0:
                    return self._contradiction(outflow)
                if smallest is None or len(null_space) <= len(smallest):
                    smallest = null_space
        assert smallest is not None
        return self._open(smallest, outflow)

    @property
    def _resolves_rounding(self) -> bool:
        domain = self.family.domain
        return uses_grids(domain) or domain.dim <= TENSORS

    def _examine_decay(self) -> Determinacy:
        """The same in many coordinates: by how rows decay that are smallest."""
        outflow, smallest = self._outflow(), None
        for setting in self.settings:
            fine, coarse = (self._faintest(e, setting) for e in self.expansions(setting))
            if fine.steady(coarse):
                return Determinacy(outflow=outflow)
            if fine.sizes[0] > FAINT:  # in doubt: once more
                fine, coarse = self._faintest(self._finer(fine.basis, setting), setting), fine
                if fine.steady(coarse):
                    return Determinacy(outflow=outflow)
                if fine.sizes[0] > FAINT:
                    return Determinacy(outflow=outflow, undecided=True)
            null_space = fine.decaying(coarse)
            if smallest is None or len(null_space) <= len(smallest):
                smallest = null_space
        assert smallest is not None
        return self._open(smallest, outflow)

    def _finer(self, basis: Basis, setting: np.ndarray) -> Expansion:
        sizes = [int(np.ceil(1.25 * axis.num)) for axis in basis.axes]
        most = MORE_UNKNOWNS / len(self.family.outputs)
        return Expansion(self.terms, affordable(self.family.domain, sizes, most, setting), setting)

    def _faintest(self, expansion: Expansion, setting: np.ndarray) -> Faintest:
        blocks = self._blocks(expansion, setting)
        return faintest(blocks, expansion.basis, expansion.inside.points)

    def _open(self, smallest: NullSpace, outflow: str) -> Determinacy:
        """What is free: levels, or more."""
        levels = self._levels(smallest)
        if levels:
            return Determinacy(levels=levels, null_space=smallest, outflow=outflow)
        if self._only_grows(smallest):
            return Determinacy(outflow=outflow)
        return Determinacy(
            len(smallest), (), (), self._open_outputs(smallest), self._hint(), smallest, outflow
        )

    def expansions(self, setting: np.ndarray) -> list[Expansion]:
        domain, outputs = self.family.domain, len(self.family.outputs)
        if not uses_grids(domain):
            most = MOST_UNKNOWNS_IN_FRAME / outputs
            wanted = [(num,) * domain.dim for num in FRAMES[domain.dim]]
            first = affordable(domain, wanted[0], most, setting)
            fewer = [max(2, num - (wanted[0][0] - wanted[1][0])) for num in first]
            return [Expansion(self.terms, sizes, setting) for sizes in (first, fewer)]
        most = int((MOST_UNKNOWNS / outputs) ** (1 / domain.dim))
        sizes = [min(num, most - 2 * i) for i, num in enumerate(SIZES[domain.dim])]
        return [Expansion(self.terms, (num,) * domain.dim, setting) for num in sizes]

    @cached_property
    def _guess(self) -> np.ndarray:
        """Low coefficients of a smooth function between 0 and 1, for equations that are not linear.

        Zero would be a special point: a product of the solution with its derivative vanishes there.
        """
        rng = np.random.default_rng(1)
        shape = (len(self.family.outputs), *(3,) * self.family.domain.dim)
        guess = 0.5 * rng.uniform(-1, 1, shape) / np.prod(shape[1:])
        guess[(slice(None), *(0,) * self.family.domain.dim)] = 0.5
        return guess.reshape(shape[0], -1)

    def _about(self, setting: np.ndarray) -> Linearisation:
        outputs = len(self.family.outputs)
        if self.family.is_linear():
            return Linearisation(self.terms, setting, zero(outputs))
        small = basis_on(self.family.domain, (3,) * self.family.domain.dim)
        return Linearisation(
            self.terms, setting, lambda points, orders: small.evaluate(self._guess, points, orders)
        )

    def _blocks(self, expansion: Expansion, setting: np.ndarray) -> list[LinearisedRows]:
        at = self._about(setting)
        blocks = expansion.rows(at, expansion.zero, expansion.base(at))
        if self.data is not None:
            blocks.append(self._observed(expansion))
        return [block for block in blocks if block.residual.size]

    def _null_space(self, expansion: Expansion, setting: np.ndarray) -> NullSpace:
        return null_space(
            self._blocks(expansion, setting), expansion.basis, expansion.inside.points,
            len(self.family.outputs),
        )  # fmt: skip

    def _observed(self, expansion: Expansion) -> LinearisedRows:
        """Observations determine a solution, too."""
        data, family = self.data, self.family
        assert data is not None
        points = np.stack([data.columns[name] for name in family.domain.names], axis=-1)
        observed = [i for i, name in enumerate(family.outputs) if name in data.columns]
        slopes = np.zeros((len(points), len(observed), 1, len(family.outputs)))
        slopes[:, range(len(observed)), 0, observed] = 1.0
        orders = zeroth(family.domain.dim)
        where = ScatteredPoints(expansion.basis, points, orders, self.terms.interior[0])
        return LinearisedRows(where, np.zeros(slopes.shape[:2]), slopes)

    def _levels(self, space: NullSpace) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Outputs of which nothing is free but a level, constant along some coordinates or all."""
        names, dim = self.family.domain.names, self.family.domain.dim
        if not isinstance(space.basis, TensorBasis) or not isinstance(self.family.domain, Box):
            return self._levels_on_region(space)
        tensor = space.coefficients.reshape(-1, len(self.family.outputs), *space.basis.shape)
        spatial = [i for i in range(dim) if names[i] != "t"]
        along_choices = [tuple(range(dim)), tuple(spatial)]
        levels = []
        for o, output in enumerate(self.family.outputs):
            part = tensor[:, o]
            if np.abs(part).max() <= ROUNDING:
                continue
            constant = next((c for c in along_choices if c and _is_level(part, c)), None)
            if constant is None:
                return ()
            levels.append((output, tuple(names[i] for i in constant)))
        return tuple(levels)

    def _levels_on_region(self, space: NullSpace) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """As `_levels`, by values at points inside: a frame has many expansions of a constant."""
        setting = self.settings[-1]
        points = self.family.domain.sobol(256, seed=4, parameters=setting)
        names, levels = self.family.domain.names, []
        spatial = tuple(name for name in names if name != "t")
        for o, output in enumerate(self.family.outputs):
            value = lambda where, o=o: self._values_of(space, where)[:, :, o]
            size = np.abs(value(points)).max()
            if size < ON_DOMAIN:
                continue
            if np.ptp(value(points), axis=1).max() <= CONSTANT * size:
                levels.append((output, names))
            elif spatial != names and all(
                np.ptp(value(p), axis=1).max() <= CONSTANT * size for p in self._at_times(points)
            ):
                levels.append((output, spatial))
            else:
                return ()
        return tuple(levels)

    def _values_of(self, space: NullSpace, points: np.ndarray) -> np.ndarray:
        """Values of null functions (f, n, outputs)."""
        orders = zeroth(self.family.domain.dim)
        return np.array([space.basis.evaluate(c, points, orders)[0] for c in space.coefficients])

    def _at_times(self, points: np.ndarray) -> list[np.ndarray]:
        """The points at a few times each."""
        low, high = self.family.domain.ranges["t"]
        column = self.family.domain.names.index("t")
        moved = [points.copy() for _ in range(3)]
        for share, copy in zip((0.2, 0.5, 0.9), moved, strict=True):
            copy[:, column] = low + share * (high - low)
        return moved

    def _open_outputs(self, space: NullSpace) -> tuple[str, ...]:
        sizes = np.abs(space.coefficients).max(axis=(0, 2))
        return tuple(n for n, v in zip(self.family.outputs, sizes, strict=True) if v > 1e-3)

    def _conditions(self, name: str) -> dict[float, int]:
        """For each end of a coordinate, how many conditions there are."""
        counts = dict.fromkeys(self.family.domain.ranges[name], 0)
        for term in self.terms.terms:
            for face in faces_of(term):
                if face.name == name:
                    counts[face.value] += self.terms.num_components(term)
        return counts

    def _missing(self) -> list[tuple[str, dict[float, int]]]:
        """Coordinates with fewer conditions than the order of the equations asks for."""
        domain = self.family.domain
        incomplete = []
        for i, name in enumerate(domain.names if isinstance(domain, Box) else ()):
            if name not in domain.periodic:
                counts = self._conditions(name)
                if sum(counts.values()) < sum(self.terms.highest_orders(i)):
                    incomplete.append((name, counts))
        return incomplete

    def _bare(self) -> bool:
        """Whether nothing is asked on a part of a region's boundary, the ends of time aside."""
        domain = self.family.domain
        if isinstance(domain, Box):
            return False
        places = [face for term in self.terms.terms for face in term.faces]
        asked = {surface for place in places for surface in domain.surfaces_of(place)}
        ends = {s for end in domain.ranges.get("t", ()) for s in domain.surfaces_of(Face("t", end))}
        return bool(set(domain.boundary().surfaces) - asked - ends)

    def _hint(self) -> str:
        asked = []
        for name, counts in self._missing():
            (low, few), (high, many) = counts.items()
            ends = [low] if name == "t" or few < many else [high] if many < few else [low, high]
            asked.append(" or ".join(f"{name} = {end:g}" for end in ends))
        return f"is a condition at {', or at '.join(asked)} missing?" if asked else ""

    def _only_grows(self, space: NullSpace) -> bool:
        """Whether it only seems unseen: it has grown by many digits from where it is seen."""
        if self._missing() or self._bare():
            return False
        setting, dim = self.settings[-1], self.family.domain.dim
        order = max(max(self.terms.highest_orders(i)) for i in range(dim))
        places = [face for term in self.terms.terms for face in term.faces]
        return any(self._cauchy_data(space, p, order, setting) < ROUNDING for p in places)

    def _cauchy_data(
        self, space: NullSpace, place: Face | Part, order: int, setting: np.ndarray
    ) -> float:
        """The largest value or derivative up to the order on a part of the boundary."""
        domain: Any = self.family.domain  # a box with faces, or a region with parts of a boundary
        dim = domain.dim
        points = domain.sobol(128, seed=6, face=place, parameters=setting)
        along = [tuple(order if i == j else 0 for j in range(dim)) for i in range(dim)]
        orders = Orders.closure(along, dim)
        lengths = np.array([(high - low) / 2 for low, high in domain.ranges.values()])
        scale = np.prod(lengths ** np.array(orders.indices), axis=1)
        sizes = [
            np.sqrt(np.mean(space.basis.evaluate(c, points, orders) ** 2, axis=1)).max(axis=1)
            for c in space.coefficients
        ]
        return float(np.max(sizes * scale))

    def _outflow(self) -> str:
        sides = outflow_sides(self._about(self.settings[0]))
        return " and ".join(f"{name} = {value:g}" for name, value in sides)

    def _contradiction(self, outflow: str) -> Determinacy:
        """Whether least squares leaves the same share of the residual in both sizes, resolved."""
        known = Determinacy(outflow=outflow)
        on_box = uses_grids(self.family.domain)  # a frame does not tell a corner's singularity
        if not (self.family.is_linear() and on_box) or self.data is not None:
            return known
        named: set[str] = set()
        for setting in self.settings:
            at, solved = self._about(setting), []
            for expansion in self.expansions(setting):
                blocks = expansion.rows(at, expansion.zero, expansion.base(at))
                solved.append((expansion, compromise(blocks)))
            terms = contradicting(*solved)
            if not terms:
                return known
            named.update(terms)
        names = tuple(t.name for t in self.terms.terms if t.name in named)
        return Determinacy(contradicting=names, outflow=outflow)


def contradicting(
    fine: tuple[Expansion, LeastSquares], coarse: tuple[Expansion, LeastSquares]
) -> tuple[str, ...]:
    """The terms that cannot hold together, by two least-squares solutions; none where they can.

    What is left is a steady share of the residual although the compromise is resolved.
    """
    shares = [solved.remaining_share for _, solved in (fine, coarse)]
    if min(shares) < CONTRADICTED or not 1 / STEADY < shares[0] / shares[1] < STEADY:
        return ()
    for expansion, solved in (fine, coarse):
        shape = (len(expansion.family.outputs), expansion.basis.size)
        if max(expansion.basis.tails(solved.coefficients.reshape(shape))) > COMPROMISED:
            return ()
    expansion, solved = fine
    return tuple(dict.fromkeys(
        grid.term.name
        for grid, size in zip(expansion.grids, solved.remaining, strict=False)
        if size > 0.1 * np.max(solved.remaining)
    ))  # fmt: skip


def _settings(family: Family) -> list[np.ndarray]:
    """A few settings in general position: no special value in the middle of a range."""
    if not family.parameters.free:
        return list(family.parameters.grid(1))
    unit = [0.1376, 0.5387, 0.8231][: SETTINGS.get(family.domain.dim, 2)]
    shifts = 0.0713 * np.arange(family.parameters.unit_dim)
    return [
        np.asarray(family.parameters.from_unit((u + shifts) % 1.0))
        for u in unit
    ]  # fmt: skip


def _is_level(part: np.ndarray, along: Sequence[int]) -> bool:
    """Whether tensors of coefficients (functions, *shape) do not depend on some coordinates."""
    rest = part.copy()
    constant = [slice(None)] * part.ndim
    for i in along:
        constant[1 + i] = slice(0, 1)
    rest[tuple(constant)] = 0.0
    return bool(np.abs(rest).max() <= ROUNDING * np.abs(part).max())
