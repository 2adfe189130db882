"""Estimates while a training runs, for a small share of its time."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from lcpinn.certificate import Estimate
from lcpinn.network.mlp import Params
from lcpinn.rows import Problem
from lcpinn.verdict import MANY, SHARE, Judge, worst

FALL = 4.0  # by how much the held-out loss has to fall between two estimates


class Watch:
    """Whether the estimated error of what runs is within a tolerance.

    A few lambda are looked at whenever the held-out loss has fallen and the estimates until now
    took less than a tenth of the time; only if all of them are within the tolerance, many. One that
    is above is looked at first from then on.
    """

    def __init__(self, problem: Problem, tolerance: float):
        self.tolerance, self.error = tolerance, math.inf
        self._judge = Judge(problem, tolerance)
        self._began, self._loss = time.perf_counter(), math.inf

    def estimate(self, params: Params) -> Estimate:
        """The largest error at a few lambda."""
        allowed = self._allowed()
        largest = worst(self._judge(params, seconds=allowed, each=allowed / self._judge.few))
        self.error = largest.error
        if largest.at is not None and np.isfinite(largest.error):
            self._judge.suspect(largest.at)
        return largest

    def reached(self, state: Any, over: bool) -> bool:
        """Whether the best parameters of a state are good enough at many lambda."""
        loss = float(state.held_out.best)
        if not (over or self._due(loss)):
            return False
        self._loss = loss
        if not self.estimate(state.best).error <= self.tolerance:
            return False
        allowed = self._allowed()
        largest = worst(
            self._judge(state.best, num=MANY, seconds=allowed, each=allowed / self._judge.few)
        )
        self.error = largest.error
        return bool(largest.error <= self.tolerance)

    def _allowed(self) -> float:
        """Seconds for estimates: a share of those that training has taken."""
        return max(SHARE * (time.perf_counter() - self._began), 1.0)

    def _due(self, loss: float) -> bool:
        elapsed = time.perf_counter() - self._began
        return loss * FALL < self._loss and self._judge.seconds <= SHARE * elapsed
