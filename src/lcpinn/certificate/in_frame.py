"""The estimate on shapes and in four coordinates: by two frames whose corrections agree."""

from __future__ import annotations

import numpy as np

from lcpinn.certificate.attempt import AGREE, DISTANCE, Attempt, Attempts
from lcpinn.certificate.estimate import Correction, agree, none
from lcpinn.domain import Box
from lcpinn.shape.corners import may_have_inward_corners
from lcpinn.spectral.frame import affordable, functions_on
from lcpinn.spectral.linearisation import Linearisation

# Functions along each coordinate, by the number of coordinates; and of what has to agree with them.
SIZES = {1: (64, 48), 2: (22, 18), 3: (16, 14), 4: (14, 12)}
GROWTHS = {1: 1, 2: 3, 3: 1, 4: 0}  # how often finer ones are tried where those do not agree
GROWTH = 1.2  # by what factor
# Functions at first, and grown: the matrix is written out.
FIRST = {1: 4000, 2: 4000, 3: 3200, 4: 2400}
MOST = {1: 2000, 2: 2000, 3: 3200, 4: 2400}
LESS = 0.55  # of the first ones, for the coarse one, with many outputs
COARSE = 2.0  # times what may be left between the points, for what is only compared with


def in_frame(attempts: Attempts, at: Linearisation, growths: int) -> Correction:
    """By two frames; where they do not agree, by finer ones, at most so many times.

    What two sizes leave there is not small beside the residual, so that it proves less if the
    norms of what they find agree. A frame that is too coarse for an estimate itself may still
    confirm a finer one; where it is too coarse for that, too, one between them is asked.
    """
    domain, outputs = at.family.domain, len(at.family.outputs)
    most, (fine, coarse) = MOST[domain.dim] / outputs, _first_sizes(at)
    attempt, before = attempts(fine, at), None
    growths = min(growths, GROWTHS[domain.dim])
    for grown in range(1 + growths):
        if attempt.resolves:
            before = before or attempts(coarse, at)
            if _confirms(attempts, before, attempt, at):
                return attempt.correction
        sizes = tuple(int(np.ceil(GROWTH * num)) for num in attempt.sizes)
        if grown == growths or not attempt.coefficients.any():
            break
        if functions_on(domain, sizes, at.parameters).size > most:
            break
        before, attempt = attempt, attempts(sizes, at)
    if attempt.resolves and before is not None and before.reason(COARSE):
        sizes = tuple((a + b) // 2 for a, b in zip(attempt.sizes, before.sizes, strict=True))
        if sizes != before.sizes and _confirms(attempts, attempts(sizes, at), attempt, at):
            return attempt.correction
    reason = attempt.why_not()
    if not isinstance(domain, Box) and may_have_inward_corners(
        domain.shape, dict(zip(domain.prior.names, at.parameters, strict=True))
    ):
        reason += "; at a corner that points inwards an error is singular"
    return none(reason)


def _first_sizes(at: Linearisation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of two frames to begin with, smaller ones where there are many outputs."""
    domain, dim = at.family.domain, at.family.domain.dim
    most = FIRST[dim] / len(at.family.outputs)
    fine, coarse = ((num,) * dim for num in SIZES[dim])
    if functions_on(domain, fine, at.parameters).size > most:
        fine = affordable(domain, fine, most, at.parameters)
        fewer = tuple(num - 1 for num in fine)
        coarse = affordable(domain, fewer, LESS * most, at.parameters)
    return fine, coarse


def _confirms(attempts: Attempts, coarse: Attempt, fine: Attempt, at: Linearisation) -> bool:
    """Whether a coarser frame finds about the same, in size and as a function."""
    same = agree(fine.error(), coarse.error(COARSE), AGREE)
    return same and attempts.distance(fine, coarse, at) < DISTANCE
