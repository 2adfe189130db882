"""A time limit that begins when a stage does, not when it is built."""

from __future__ import annotations

import time

from lcpinn.devices import agreed

LEAST = 1.0  # seconds that are left for a training, whatever went before it


class Clock:
    """Counts down from the first call of `start`, less what was `spent` before; without a limit it
    never ends."""

    def __init__(self, seconds: float | None, spent: float = 0.0):
        remaining = None if seconds is None else max(seconds - spent, min(seconds, LEAST))
        self.seconds, self._deadline = remaining, None

    def start(self) -> None:
        if self.seconds is not None and self._deadline is None:
            self._deadline = time.monotonic() + self.seconds

    def remaining(self) -> float:
        """Seconds until the time is up, negative from then on."""
        if self.seconds is None:
            return float("inf")
        if self._deadline is None:
            return self.seconds
        return agreed(self._deadline - time.monotonic())
