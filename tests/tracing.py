"""Tracing and large arrays in less time, for the tests' own processes and those that they start."""

import contextlib
import ctypes
import functools
import gc
import itertools
import sys
import zlib
from typing import Any

import numpy as np


def settle() -> None:
    """Once JAX is imported."""
    import jax

    # Tracing makes and drops objects by the million, hardly any in cycles: looking for those every
    # few hundred takes a sixth of the time.
    gc.set_threshold(50_000, 20, 100)
    # JAX notes the stack, which is deep below a test, for every operation that is traced, and
    # writes some of it into what is compiled: a tenth of the time of either.
    jax.config.update("jax_traceback_in_locations_limit", 0)
    note_stacks = getattr(sys.modules.get("jaxlib._jax"), "set_tracebacks_enabled", None)
    if note_stacks is not None:  # which no version promises
        note_stacks(False)
    _keep_memory()
    _share_contexts(sys.modules.get("jax._src.interpreters.mlir"))
    _compress_little(sys.modules.get("jax._src.compilation_cache"))
    _copy_arrays(sys.modules.get("jax._src.lax.lax"))


def _keep_memory() -> None:
    """Let the C library's allocator keep what arrays leave behind.

    It gives large ones back to the system at once, and every page of the next one is a fault again:
    a fifth of the time of estimates on shapes.
    """
    mmap_threshold, trim_threshold, gigabyte = -3, -1, 1 << 30
    with contextlib.suppress(OSError, AttributeError, TypeError):  # which not every library has
        set_option = ctypes.CDLL(None).mallopt
        if set_option(mmap_threshold, gigabyte):  # older ones take no such number
            set_option(trim_threshold, gigabyte)


def _share_contexts(lowering: Any, num: int = 50) -> None:
    """Let so many programs in a row be lowered in one context of MLIR.

    A new one for each, with all of its dialects, takes as long as lowering a small program does.
    """
    make = getattr(lowering, "make_ir_context", None)
    if make is None:  # which no version promises
        return
    programs, context_of = itertools.count(), functools.lru_cache(1)(lambda block: make())
    lowering.make_ir_context = lambda: context_of(next(programs) // num)


def _compress_little(cache: Any) -> None:
    """What is compiled is written thousands of times, and read a few: let that be quick.

    Where JAX has zstd it is quick as it is.
    """
    if getattr(cache, "zstd", None) or getattr(cache, "zstandard", None):
        return
    if hasattr(cache, "compress_executable"):  # which no version promises
        cache.compress_executable = functools.partial(zlib.compress, level=1)


def _copy_arrays(lax: Any) -> None:
    """Let `jnp.asarray` of lists and of NumPy's arrays be a copy, or NumPy's conversion to floats.

    JAX compiles a program of its own for every shape instead, which takes a hundredth of a second.
    """
    import jax

    stage, convert = (getattr(lax, f"{n}_p", None) for n in ("stage", "convert_element_type"))
    if not hasattr(stage, "impl") or not hasattr(convert, "impl"):  # which no version promises
        return
    staged, converted = stage.impl, convert.impl

    def by_copying(x: Any) -> Any:
        # Scalars are few shapes, and may be of a weak type.
        return jax.device_put(np.array(x)) if np.ndim(x) else staged(x)

    def by_numpy(x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any) -> Any:
        plain = not isinstance(x, jax.Array) and np.ndim(x) and sharding is None and not weak_type
        if plain and np.dtype(new_dtype).kind == "f" and np.asarray(x).dtype.kind in "biuf":
            return jax.device_put(np.array(x, new_dtype))
        return converted(x, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding)

    stage.def_impl(by_copying)
    convert.def_impl(by_numpy)
