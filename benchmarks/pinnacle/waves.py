"""Wave 1d-C and Wave-P: a string with an overtone, for every number a of half waves."""

from __future__ import annotations

from benchmarks.zoo.waves import Overtone


class Wave1d(Overtone):
    """u_tt = 4 u_xx, u = sin πx + sin(aπx)/2 at the start, u_t = 0 there, for every a.

    The network sees a x and 2 a t beside x and t: the overtone is the same function of these two
    for every a.
    """

    def features(self, t, x, a):
        return 2 * t - 1, 2 * x - 1, 2 * a * t, a * x
