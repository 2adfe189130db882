"""The machine that something was computed on, and with which versions: for records and caches."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jaxlib.version
import numpy as np

from lcpinn.threads import usable_cores


def versions() -> dict[str, str]:
    import lcpinn

    return {
        "lcpinn": lcpinn.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "optax": metadata.version("optax"),
        "numpy": np.__version__,
    }


def device() -> str:
    """The device that JAX computes on, in words."""
    first = jax.devices()[0]
    if first.platform != "cpu":
        return first.device_kind
    cores, own = os.cpu_count(), usable_cores()
    return f"{_cpu_name()}, " + (f"{cores} cores" if own == cores else f"{own} of {cores} cores")


def host_device() -> Any:
    """The CPU, for what is small: an accelerator's compiler takes its time. None, for where JAX
    computes anyway, if it was told to know of nothing but its accelerators."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def instruction_set() -> str:
    """A short hash of the compiler and of the instructions that this processor knows."""
    parts = [jaxlib.version.__version__, platform.machine(), platform.processor()]
    parts += sorted({line for line in _cpuinfo() if line.startswith(("model name", "flags"))})
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _cpu_name() -> str:
    names = [line.split(":", 1)[1].strip() for line in _cpuinfo() if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()


def _cpuinfo() -> list[str]:
    """What Linux says about its processors, line by line; nothing elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
