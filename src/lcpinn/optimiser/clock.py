"""A time limit that begins when a stage does, not when it is built."""

from __future__ import annotations

import time

from lcpinn.devices import agreed


class Clock:
    """Counts down from the first call of `start`; without a limit it never ends."""

    def __init__(self, seconds: float | None):
        self.seconds, self._deadline = seconds, None

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
