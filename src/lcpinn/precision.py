"""The precision of a computation, for the length of a block: JAX's own settings stay as they were.

float64 is a setting of the whole process in JAX, and not a library's to change: nothing but this
file enters it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

# Values are often stored in single precision: a bound rounded to it must still count as inside.
ROUNDING = 4 * float(np.finfo(np.float32).eps)


def double(wanted: bool = True) -> AbstractContextManager[Any]:
    """float64 for the length of a block; where it is not wanted, float32."""
    return jax.enable_x64(wanted)


def precision_of(dtype: DTypeLike) -> AbstractContextManager[Any]:
    """The precision in which arrays of this dtype are what they say, for the length of a block."""
    return double(jnp.dtype(dtype) == jnp.float64)


@contextlib.contextmanager
def arithmetic(dtype: DTypeLike) -> Iterator[None]:
    """That of a training: float64 where it is asked for, and float32 that is float32.

    On an accelerator JAX multiplies float32 matrices with 10 bits of mantissa (TF32) unless told
    otherwise, too few for derivatives of residuals and for the line search of L-BFGS.
    """
    with precision_of(dtype), jax.default_matmul_precision("highest"):
        yield


def floating(values: ArrayLike) -> Array:
    """Values as a JAX array of floats; a floating dtype is kept."""
    array = jnp.asarray(values)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


def host_or_device(values: ArrayLike) -> tuple[Any, ModuleType]:
    """Values as floats with the module to compute on them with.

    NumPy's own arrays stay NumPy's: on them JAX would compile every single operation.
    """
    if isinstance(values, np.ndarray):
        return values.astype(np.result_type(values, np.float32), copy=False), np
    return floating(values), jnp
