"""What a problem of the benchmark is here: a family, and the published rows that it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import lcpinn as lc

Setting = Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A row of the published tables: relative L2 errors, the mean over `at` where it has several.

    vanilla: of a plain PINN; best: the smallest of all methods, which is `method`.
    """

    name: str
    at: tuple[Setting, ...]
    vanilla: float
    best: float
    method: str


@dataclass(frozen=True)
class Problem:
    """One training: a family for a range of coefficients, and what it is compared with.

    accuracy: the relative error to which our reference is known; changed: how the page departs from
    the benchmark's statement, and why; aid: what the page does to help its network; files: thinned
    published references, with the setting of each. Test points are the nodes of the first file, or
    `num_points` scattered ones; with `times` a point of space is compared at all of them.
    """

    family: Callable[[], lc.Family]
    rows: tuple[Row, ...]
    accuracy: float
    changed: str = ""
    aid: str = ""
    files: tuple[tuple[str, Setting], ...] = ()
    num_points: int = 8192
    times: tuple[float, ...] = ()
    outputs: tuple[str, ...] | None = field(default=None)  # that count; all where not given

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All settings that a row asks for, each once."""
        unique = {tuple(sorted(at.items())): at for row in self.rows for at in row.at}
        return tuple(unique.values())


@dataclass(frozen=True)
class LeftOut:
    """A published row that no family here answers, and why."""

    name: str
    vanilla: float
    best: float
    method: str
    reason: str
