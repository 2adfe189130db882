"""lcpinn: one physics-informed neural network for a whole family of differential equations."""

__version__ = "0.1.0"

from lcpinn import network, optimiser, protocol, weighting
from lcpinn.domain import Box, Periodic
from lcpinn.errors import LcpinnError, OutsidePriorWarning
from lcpinn.family import Data, Evaluation, Family
from lcpinn.inverse import Fit
from lcpinn.prior import Cube, LogCube, LogUniform, Simplex, Uniform
from lcpinn.protocol import Protocol
from lcpinn.retraining import retrain
from lcpinn.solution import Solution, load
from lcpinn.term import interior, on
from lcpinn.training import train

__all__ = [
    "Box",
    "Cube",
    "Data",
    "Evaluation",
    "Family",
    "Fit",
    "LcpinnError",
    "LogCube",
    "LogUniform",
    "OutsidePriorWarning",
    "Periodic",
    "Protocol",
    "Simplex",
    "Solution",
    "Uniform",
    "interior",
    "load",
    "network",
    "on",
    "optimiser",
    "protocol",
    "retrain",
    "train",
    "weighting",
]
