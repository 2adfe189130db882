"""Optimisers: each a plain value that builds a `Stage`, and wrappers around them."""

from lcpinn.optimiser.acceptance import GainRatio, ModelDriven, NonMonotone
from lcpinn.optimiser.adam import Adam
from lcpinn.optimiser.gauss_newton import GaussNewton
from lcpinn.optimiser.interpolation import Interpolation
from lcpinn.optimiser.lbfgs import LBFGS
from lcpinn.optimiser.own_solutions import OwnSolutions
from lcpinn.optimiser.restarts import Restarts
from lcpinn.optimiser.revert import RevertOnWorse
from lcpinn.optimiser.stage import Phase, Setup, Stage, Stop, StopReason
from lcpinn.optimiser.supervised import Supervised

__all__ = [
    "LBFGS",
    "Adam",
    "GainRatio",
    "GaussNewton",
    "Interpolation",
    "ModelDriven",
    "NonMonotone",
    "OwnSolutions",
    "Phase",
    "Restarts",
    "RevertOnWorse",
    "Setup",
    "Stage",
    "Stop",
    "StopReason",
    "Supervised",
]
