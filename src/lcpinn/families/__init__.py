"""The families of the paper, by the names that the command line and the results use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lcpinn.families.buckley_leverett import BuckleyLeverett
from lcpinn.families.burgers import Burgers
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.families.schrodinger import Schrodinger
from lcpinn.family import Family

FAMILIES: dict[str, Callable[[], Family]] = {
    "helmholtz-1d": partial(Helmholtz, 1),
    "helmholtz-2d": partial(Helmholtz, 2),
    "helmholtz-3d": partial(Helmholtz, 3),
    "schrodinger-1d": Schrodinger,
    "burgers": Burgers,
    "buckley-leverett": BuckleyLeverett,
}

__all__ = ["FAMILIES", "BuckleyLeverett", "Burgers", "Helmholtz", "Schrodinger"]
