"""Where a number comes from: every result carries this."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import Any

from lcpinn.machine import device, versions
from lcpinn.threads import usable_cores


def stamp(seed: int) -> dict[str, Any]:
    """Device, versions, seed, date, and how busy the machine was with other work."""
    known = dict(versions())
    if "torch" in sys.modules:
        known["torch"] = sys.modules["torch"].__version__
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device(),
        "cores": usable_cores(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "versions": known,
        "seed": seed,
    }
