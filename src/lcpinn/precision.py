"""The arithmetic of a training, for the length of a block: JAX's own settings stay as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def arithmetic(dtype: str) -> Iterator[None]:
    """float64 where it is asked for, and float32 that is float32.

    On an accelerator JAX multiplies float32 matrices with 10 bits of mantissa (TF32) unless told
    otherwise, too few for derivatives of residuals and for the line search of L-BFGS.
    """
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        yield
