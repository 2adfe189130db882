"""Which of the candidate steps is taken: the search of Gauss-Newton, one file for each rule."""

from lcpinn.optimiser.acceptance.gain_ratio import GainRatio
from lcpinn.optimiser.acceptance.model_driven import ModelDriven
from lcpinn.optimiser.acceptance.non_monotone import NonMonotone
from lcpinn.optimiser.acceptance.search import Acceptance, Pace, Selection, Step

__all__ = ["Acceptance", "GainRatio", "ModelDriven", "NonMonotone", "Pace", "Selection", "Step"]
