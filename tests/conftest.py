"""Settings for the whole test session, made before anything imports JAX."""

import os
from pathlib import Path

from hypothesis import settings

_ROOT = Path(__file__).resolve().parent.parent

# References and compiled programs outlive a session, so the second one is much faster.
os.environ.setdefault("LCPINN_CACHE", str(_ROOT / ".cache" / "lcpinn"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"

# The first example of a property test compiles, which no deadline should count.
settings.register_profile("lcpinn", deadline=None)
settings.load_profile("lcpinn")
