"""Cores that this process may use, and how many of them BLAS gets."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController


def usable_cores() -> int:
    """How many this process may use: a container or a batch system may give it a few of them."""
    own = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if own is None else len(own(0))


def blas_threads(num: int | None = None) -> AbstractContextManager[Any]:
    """Limit BLAS and LAPACK to so many threads for the length of a block; to half of the cores.

    Their threads wait for each other by spinning: on a machine where anything else runs, a QR with
    as many threads as cores takes far longer than one with a single thread.
    """
    limits = num or max(1, usable_cores() // 2)
    return _libraries("scipy.linalg" in sys.modules).limit(limits=limits, user_api="blas")


class ThreadTrial:
    """How many threads of BLAS make work shortest here: half of the cores, or all of them.

    All are up to twice as fast on a machine that has nothing else to do, and far slower on one that
    has. So the other number is tried for one piece of work now and then, half as often after every
    trial that cost. A different number may round differently: what must come out the same again
    does without trials.
    """

    FIRST, PAYS = 2, 0.9  # pieces before a trial; the share of the time that is a gain

    def __init__(self, trials: bool):
        self.num = max(1, usable_cores() // 2)
        self.wait = self.until_trial = self.FIRST if trials and usable_cores() > 1 else 0
        self.before = self.on_trial = 0.0

    def blas_threads(self) -> AbstractContextManager[Any]:
        """For the next piece of work."""
        return blas_threads(self._other if self._trying else self.num)

    def took(self, seconds: float) -> None:
        """How long that piece took, in a unit of its own."""
        if self._trying:
            self.on_trial, self.until_trial = seconds, -1
            return
        if self.on_trial:  # compared with the pieces before and after: work may change meanwhile
            ratio = self.on_trial / (0.5 * (self.before + seconds))
            if ratio < self.PAYS:
                self.num = self._other
            elif ratio > 1 / self.PAYS:
                self.wait *= 2
            self.until_trial, self.on_trial = self.wait, 0.0
        self.before, self.until_trial = seconds, self.until_trial - 1

    @property
    def _trying(self) -> bool:
        return bool(self.wait) and self.until_trial == 0

    @property
    def _other(self) -> int:
        half = max(1, usable_cores() // 2)
        return usable_cores() if self.num == half else half


@functools.cache
def _libraries(scipy: bool) -> ThreadpoolController:
    """NumPy's BLAS and, once it is loaded, SciPy's own: looking for them takes a while."""
    del scipy
    return ThreadpoolController()
