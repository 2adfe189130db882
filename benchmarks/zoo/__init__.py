"""The zoo: families outside of the paper, in the classes of problems that users bring.

    python -m benchmarks.zoo

A file for each class. Pages are what a user would write: conditions as terms, and no help for the
network. Every family has a closed form or a reference that is good to 1e-8. A family may be in two
classes; it is drawn with the one whose file it is in.
"""

from __future__ import annotations

import re

import lcpinn as lc
from benchmarks.zoo.coefficients import LayeredWall, LoadedString
from benchmarks.zoo.dispersive import RingWave, Soliton
from benchmarks.zoo.flow import Kovasznay, TaylorGreen
from benchmarks.zoo.fronts import AllenCahn, Fisher
from benchmarks.zoo.inputs import Transport
from benchmarks.zoo.jumps import Transmission
from benchmarks.zoo.layers import BoundaryLayer, InteriorLayer
from benchmarks.zoo.long_times import Spring
from benchmarks.zoo.plates import Plate, ShakenBeam
from benchmarks.zoo.singular import Bratu
from benchmarks.zoo.smooth import AdvectionDiffusion, Duffing, Heat
from benchmarks.zoo.stiff import Enzyme, Exchange
from benchmarks.zoo.waves import Acoustics, Overtone, Wave

CLASSES: dict[str, tuple[type[lc.Family], ...]] = {
    "smooth": (AdvectionDiffusion, Heat, Duffing),
    "layers": (BoundaryLayer, InteriorLayer),
    "waves": (Wave, Acoustics, Overtone, Transmission),
    "flow": (Kovasznay, TaylorGreen),
    "plates": (Plate, ShakenBeam),
    "dispersive": (Soliton, RingWave),
    "fronts": (Fisher, AllenCahn),
    "long-times": (Spring, RingWave),
    "stiff": (Exchange, Enzyme),
    "coefficients": (LoadedString, LayeredWall),
    "inputs": (Transport, Plate),
    "jumps": (Transmission, LayeredWall),
    "singular": (Bratu, ShakenBeam),
}


def home(made: type[lc.Family]) -> str:
    """The class whose file a family is in."""
    return made.__module__.rpartition(".")[2].replace("_", "-")


def _name(made: type[lc.Family]) -> str:
    """What an instance says of itself, without making one: that would start JAX."""
    return "-".join(re.findall("[A-Z][a-z]*", made.__name__)).lower()


ZOO: dict[str, type[lc.Family]] = {
    _name(made): made for kind, members in CLASSES.items() for made in members if home(made) == kind
}


def classes_of(name: str) -> list[str]:
    """Every class that a family is in, its own first."""
    made = ZOO[name]
    others = [kind for kind, members in CLASSES.items() if made in members and kind != home(made)]
    return [home(made), *others]
