"""Built-in families, by the names that the command line and the results use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from lcpinn.families.buckley_leverett import BuckleyLeverett
from lcpinn.families.burgers import Burgers
from lcpinn.families.cylinder import Cylinder
from lcpinn.families.four_holes import FourHoles
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.families.lid_driven_cavity import LidDrivenCavity
from lcpinn.families.pipes import Pipes
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

# On domains that are no boxes; those above are the paper's.
ON_SHAPES: dict[str, Callable[[], Family]] = {
    "pipes": Pipes,
    "cylinder": Cylinder,
    "four-holes": FourHoles,
}

# Of the field's own benchmark (benchmarks/pinnacle).
OF_PINNACLE: dict[str, Callable[[], Family]] = {"lid-driven-cavity": LidDrivenCavity}

BUILT_IN = {**FAMILIES, **ON_SHAPES, **OF_PINNACLE}


@cache
def built(name: str) -> Family:
    """The one of that name, made once: what asks for hundreds need not check it every time."""
    return BUILT_IN[name]()


__all__ = [
    "BUILT_IN",
    "FAMILIES",
    "OF_PINNACLE",
    "ON_SHAPES",
    "BuckleyLeverett",
    "Burgers",
    "Cylinder",
    "FourHoles",
    "Helmholtz",
    "LidDrivenCavity",
    "Pipes",
    "Schrodinger",
    "built",
]
