"""Stiff systems of ordinary equations: a fast start, then a slow course, by three decades."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import lcpinn as lc

MICHAELIS, DISSOCIATION = 1.0, 0.5  # constants of the enzyme, in units of the first concentration


class Exchange(lc.Family):
    """a' = -k (a - b), b' = k (a - b) - b: two vessels, one leaks, for every rate of exchange."""

    domain = lc.Box(t=(0.0, 2.0))
    parameters = lc.LogUniform(k=(1.0, 1000.0))
    outputs = ("a", "b")
    evaluation = lc.Evaluation({"t": 4001})

    @lc.interior
    def equation(self, a, b, a_t, b_t, k):
        return a_t + k * (a - b), b_t - k * (a - b) + b

    @lc.on(t=0.0)
    def start(self, a, b):
        return a - 1.0, b

    def exact(self, t, k):
        root = jnp.sqrt(k**2 + 0.25)
        sum_of_rates = k + 0.5 + root
        # The slow rate is k + 1/2 - root, here without the cancellation.
        slow, fast = jnp.exp(-k / sum_of_rates * t), jnp.exp(-sum_of_rates * t)
        a = ((root + 0.5) * slow + (root - 0.5) * fast) / (2 * root)
        return a, k * (slow - fast) / (2 * root)


class Enzyme(lc.Family):
    """s' = -s + (s + K - L) c, e c' = s - (s + K) c, for every ratio e of enzyme to substrate.

    Michaelis and Menten: substrate s, complex c, which forms in a time of order e.
    """

    domain = lc.Box(t=(0.0, 4.0))
    parameters = lc.LogUniform(e=(1e-3, 1.0))
    outputs = ("s", "c")
    evaluation = lc.Evaluation({"t": 4001}, dense=61)

    @lc.interior
    def equation(self, s, c, s_t, c_t, e):
        K, L = MICHAELIS, DISSOCIATION
        return s_t + s - (s + K - L) * c, e * c_t - s + (s + K) * c

    @lc.on(t=0.0)
    def start(self, s, c):
        return s - 1.0, c

    def reference(self, t, e):
        K, L = MICHAELIS, DISSOCIATION
        slope = lambda _, y: (-y[0] + (y[0] + K - L) * y[1], (y[0] - (y[0] + K) * y[1]) / e)
        solved = solve_ivp(
            slope, (0, 4), (1.0, 0.0), "DOP853", dense_output=True, rtol=1e-12, atol=1e-13
        )
        return tuple(solved.sol(np.asarray(t)))
