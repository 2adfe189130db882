"""How much of the paper's study is done: a minute of it, an hour, or all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """How much of the paper's work is done."""

    words: str
    seeds: tuple[int, ...]
    share: float  # of the paper's steps
    seconds: float | None  # of a training by `fast`
    small: bool = False  # shrunk networks and points, errors on a coarse grid
    families: tuple[str, ...] | None = None  # all of them


BUDGETS: dict[str, Budget] = {
    "smoke": Budget(
        "shrunk runs of two families, about a minute: that everything works",
        (0,),
        1,
        1,
        True,
        ("helmholtz-1d", "burgers"),
    ),
    "cpu": Budget(
        "a twentieth of the paper's steps, one seed: about five hours on two cores",
        (0,),
        1 / 20,
        50,
    ),
    "full": Budget("the paper's steps and seeds", (0, 1, 2, 3), 1, 54),
}

OWN = "own"  # of runs that are not the paper's: as their protocol says


def budget_of(name: str) -> Budget:
    """The budget of a run, be it the paper's or a sweep's."""
    return Budget("as the protocol says", (0,), 1, None) if name == OWN else BUDGETS[name]
