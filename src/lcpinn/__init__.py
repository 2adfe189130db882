"""lcpinn: one physics-informed neural network for a whole family of differential equations."""

from lcpinn.domain import Box, Periodic
from lcpinn.errors import LcpinnError, OutsidePriorWarning
from lcpinn.family import Data, Evaluation, Family, interior, on
from lcpinn.prior import Cube, LogCube, LogUniform, Simplex, Uniform

__version__ = "0.1.0"

__all__ = [
    "Box",
    "Cube",
    "Data",
    "Evaluation",
    "Family",
    "LcpinnError",
    "LogCube",
    "LogUniform",
    "OutsidePriorWarning",
    "Periodic",
    "Simplex",
    "Uniform",
    "interior",
    "on",
]
