"""Where a number comes from: every result carries this."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import Any

from lcpinn.files import device, versions


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stamp(seed: int) -> dict[str, Any]:
    """Device, versions, seed, date, and how busy the machine was with other work."""
    known = dict(versions())
    if "torch" in sys.modules:
        known["torch"] = sys.modules["torch"].__version__
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device(),
        "cores": num_cores(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "versions": known,
        "seed": seed,
    }
