"""Compiled programs kept on disk, so that a command compiles what it did before only once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jaxlib.version
from jax.stages import Compiled, Lowered

from lcpinn.cache import cache_directory
from lcpinn.machine import instruction_set

MIN_SECONDS = 0.01  # what compiles faster is not kept: reading it would take as long


def enable_cache() -> Path | None:
    """Turn on JAX's persistent compilation cache below lcpinn's own; None where it stays off.

    A cache that the user has configured (JAX_COMPILATION_CACHE_DIR) is left as it is. The library
    never calls this by itself, since it changes JAX for the whole process: the command line does.
    """
    if getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return None
    directory = compilation_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:  # the cache only ever saves time
        return None
    if not os.access(directory, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)
    return directory


def compiler_options(*, once: bool = False, host: bool = False) -> dict[str, Any] | None:
    """How XLA is to compile where its defaults take longer than they save.

    On a CPU by the older of its two code generators: in half of the time, to programs as fast; and
    what runs `once`, for moments, without optimising it. On an accelerator without trying out
    matrix products; with `host` the program is for the CPU beside it.
    """
    if jax.default_backend() != "cpu" and not host:
        return {"xla_gpu_autotune_level": 0}
    # Later versions have the newer generator alone.
    older = jaxlib.version.__version_info__ < (0, 11)
    options: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False} if older else {}
    return options | ({"xla_backend_optimization_level": 0} if once else {}) or None


def for_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for what runs once, in moments."""
    return jax.jit(function, compiler_options=compiler_options(once=True))


@contextlib.contextmanager
def compiling_quickly(wanted: bool = True) -> Iterator[None]:
    """Programs of this block are optimised little: for those that run for moments."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", wanted or before)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def in_background(lowered: Lowered) -> Callable[[], Compiled]:
    """Begin to compile at once; the result waits for the program.

    The compiler leaves Python free, so that other programs can be traced and compiled meanwhile.
    """
    thread = ThreadPoolExecutor(1)
    program = thread.submit(lowered.compile)
    thread.shutdown(wait=False)
    return program.result


def compilation_directory() -> Path:
    """<cache>/xla/<machine>: a home directory may be shared by machines of several kinds."""
    return cache_directory() / "xla" / instruction_set()
