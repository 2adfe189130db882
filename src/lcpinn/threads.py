"""Cores that this process may use, and how many of them BLAS gets."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import threadpool_limits


def usable_cores() -> int:
    """How many this process may use: a container or a batch system may give it a few of them."""
    own = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if own is None else len(own(0))


def blas_threads(num: int | None = None) -> AbstractContextManager[Any]:
    """Limit BLAS and LAPACK to so many threads for the length of a block; to half of the cores.

    Their threads wait for each other by spinning: on a machine where anything else runs, a QR with
    as many threads as cores takes far longer than one with a single thread.
    """
    return threadpool_limits(num or max(1, usable_cores() // 2), user_api="blas")
