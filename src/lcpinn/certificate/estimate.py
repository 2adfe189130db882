"""The answer at one lambda: an error, or why there is none and what is known of it all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

TINY = 1e-13  # below this, estimates are rounding


class Estimate(NamedTuple):
    """The relative L2 error at one lambda, or nan and why it could not be estimated.

    It is then still known to be `at_most` so much, or `at_least`, where these are not trivial.
    `note` says what the number leaves out: a level that the page does not determine.
    """

    error: float
    reason: str = ""
    at: dict[str, float] | None = None
    note: str = ""
    at_least: float = 0.0
    at_most: float = np.inf


class Correction(NamedTuple):
    """An estimate; and, where there is one, values (n, outputs) at points without that error."""

    estimate: Estimate
    values: Callable[[np.ndarray], np.ndarray] | None


def none(reason: str, at_most: float = np.inf) -> Correction:
    return Correction(Estimate(np.nan, reason, at_most=at_most), None)


def agree(one: float, other: float, factor: float) -> bool:
    return 1 / factor < (one + TINY) / (other + TINY) < factor
