"""For the processes that tests start: JAX traces in a sixth less of the time (see tracing.py)."""

import gc

gc.set_threshold(50_000, 20, 100)
