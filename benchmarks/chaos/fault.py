"""One kind of fault: what is done to the library, what it promises, and how often that is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Case:
    """One try: whether the promise was kept, and what happened.

    `detail` says what went wrong, in a line; of `figures` the largest counts.
    """

    number: int
    passed: bool
    outcome: str
    detail: str = ""
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """`cases(numbers, seed)` makes the cases of these numbers, each after its own random numbers.

    So a run can be split and continued: `full` is how many make up the whole of it.
    """

    name: str
    done: str  # what is done
    promise: str  # what has to hold
    full: int
    cases: Callable[[range, int], Iterator[Case]]
    quick: bool = True  # programs run for moments: the compiler optimises little


def random_of(seed: int, number: int) -> np.random.Generator:
    """The random numbers of a case, whichever cases ran before it."""
    return np.random.default_rng([seed, number])
