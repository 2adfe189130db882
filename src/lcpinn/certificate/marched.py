"""The estimate where an error is not smooth: by two marches that agree."""

from __future__ import annotations

from lcpinn.certificate.estimate import Correction, Estimate, agree, none
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.spectral.march import March, Unresolved, marched_values
from lcpinn.spectral.slab import SlabExpansion

CLOSE = 1.25  # the factor within which two marches have to agree
ALLOWED, MARCHES = 0.3, 4  # what the first march may leave of the error; and how many there are


def marched(march: March, at: Linearisation, seconds: float) -> Correction:
    """Marches that leave less and less, until two of them agree; so many seconds each."""
    march.limits = march.limits._replace(seconds=seconds)
    along = march.direction.along
    try:
        allowed, before = ALLOWED * march.scan(at), None
        for _ in range(MARCHES):
            slabs: list[SlabExpansion] = []
            now = march(at, allowed, slabs)
            if before is not None and agree(now.relative, before.relative, CLOSE):
                return Correction(
                    Estimate(now.relative),
                    lambda points, s=slabs: at.values(points) + marched_values(s, along, points),
                )
            allowed, before = min(ALLOWED * now.largest, allowed) / 3, now
    except Unresolved as why:
        return none(f"a front is not resolved: {why}")
    return none("marches of two resolutions do not agree: it is not resolved")
