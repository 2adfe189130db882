"""What a picture shows: values of a solution and its truth on lines and planes of the domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.evaluation import arguments, grid_values
from lcpinn.family import Family
from lcpinn.solution import Solution

Settings = Sequence[Mapping[str, float]]

ALONG, ACROSS = 401, 161  # points of a line, and along each side of a plane


@final
class Corrected(Solution):
    """A solution that answers with its corrected values, for pictures of those."""

    def __call__(
        self, *, weights: Mapping[str, float] | None = None, shots: int | None = None, **named: Any
    ) -> Any:
        """At named points and coefficients; the mean is over as many draws as are corrected."""
        return self.corrected(weights=weights, **named)


def corrected_view(of: Solution) -> Corrected:
    """The same network, with what is compiled for it, and the corrections that are known."""
    view = Corrected(of.family, of.protocol, of.params, of.run)
    vars(view).update(vars(of))
    return view


def suffix(solution: Solution) -> str:
    """What a label adds to the name of an output."""
    return ", corrected" if isinstance(solution, Corrected) else ""


def known(family: Family) -> bool:
    """Whether there is a truth to compare with."""
    return family.exact is not None or family.reference is not None


def evolves(family: Family) -> bool:
    """Whether it has a time `t` beside other coordinates."""
    return "t" in family.domain.names and family.domain.dim > 1


def outputs_at(solution: Solution, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """The solution (n, outputs) at points (n, dim) and one setting (p,)."""
    value = solution(**arguments(solution.family, points, lam))
    columns = value.values() if isinstance(value, dict) else (value,)
    return np.stack(list(columns), axis=-1)


def truth_at(family: Family, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    truth = family.truth(points, lam)
    assert truth is not None
    return truth


def gap_at(solution: Solution, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """The absolute error (n, outputs)."""
    return np.abs(outputs_at(solution, points, lam) - truth_at(solution.family, points, lam))


# -- Which lambda --------------------------------------------------------------------------------


def choose(solution: Solution, at: Settings, most: int) -> np.ndarray:
    """The settings (n, p) to draw: those asked for, or some of the family's own grid."""
    family = solution.family
    if at:
        return np.array([_complete(family, setting) for setting in at], float)
    values = grid_values(family)
    if len(values) <= most:
        return values
    if most == 1:
        return values[len(values) // 2][None]
    return values[np.linspace(0, len(values) - 1, most).round().astype(int)]


def _complete(family: Family, setting: Mapping[str, float]) -> list[float]:
    """A setting in the order of the names; what is not given stays at the middle of the grid."""
    names = family.parameters.names
    for name in setting:
        if name not in names:
            known = ", ".join(names) or "none"
            raise LcpinnError(f"there is no coefficient {name!r} to draw at; there are: {known}")
    centre = grid_values(family)[len(grid_values(family)) // 2]
    return [float(setting.get(name, centre[i])) for i, name in enumerate(names)]


# -- Where ---------------------------------------------------------------------------------------


def line_points(family: Family, name: str, held: Mapping[str, float] | None = None) -> np.ndarray:
    """Points (n, dim) along one coordinate, the others held or in the middle."""
    low, high = family.domain.ranges[name]
    return _points(family, {name: np.linspace(low, high, ALONG)}, held or {})


class Plane(NamedTuple):
    """A plane through the domain, parallel to two of the coordinates."""

    across: str
    up: str
    held: dict[str, float]  # the other coordinates
    points: np.ndarray  # (n, dim)
    extent: tuple[float, float, float, float]

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) as (across, up)."""
        return values.reshape(ACROSS, ACROSS)


def planes(family: Family) -> list[Plane]:
    """The planes that show a domain of two coordinates or more.

    Two coordinates are one plane. Of more, the first two of space at three times, or where nothing
    evolves the planes through the middle along each pair of the first three.
    """
    names = family.domain.names
    if len(names) == 2:
        return [plane(family, *names, {})]
    if evolves(family):
        space = [name for name in names if name != "t"]
        low, high = family.domain.ranges["t"]
        times = (low, (low + high) / 2, high)
        return [plane(family, space[0], space[1], {"t": time}) for time in times]
    pairs = ((names[0], names[1]), (names[0], names[2]), (names[1], names[2]))
    return [plane(family, a, b, {}) for a, b in pairs]


def plane(family: Family, across: str, up: str, held: Mapping[str, float]) -> Plane:
    ranges = family.domain.ranges
    a, b = np.meshgrid(
        *(np.linspace(*ranges[name], ACROSS) for name in (across, up)), indexing="ij"
    )
    middle = {n: sum(ranges[n]) / 2 for n in ranges if n not in (across, up)}
    points = _points(family, {across: a.ravel(), up: b.ravel()}, held)
    return Plane(across, up, middle | dict(held), points, (*ranges[across], *ranges[up]))


def _points(
    family: Family, varying: Mapping[str, np.ndarray], held: Mapping[str, float]
) -> np.ndarray:
    num = len(next(iter(varying.values())))
    middle = {name: (low + high) / 2 for name, (low, high) in family.domain.ranges.items()}
    fixed = {name: np.full(num, held.get(name, middle[name])) for name in family.domain.names}
    return np.stack([varying.get(name, fixed[name]) for name in family.domain.names], axis=-1)


def times(family: Family, num: int = 5) -> np.ndarray:
    """Equispaced instants, the first and the last included."""
    return np.linspace(*family.domain.ranges["t"], num)
