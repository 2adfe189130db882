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


@functools.cache
def _libraries(scipy: bool) -> ThreadpoolController:
    """NumPy's BLAS and, once it is loaded, SciPy's own: looking for them takes a while."""
    del scipy
    return ThreadpoolController()
