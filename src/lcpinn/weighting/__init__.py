"""How rows are weighted: one file each, and what they have in common in contract.py.

Residuals arrive pointwise, since some methods need the time of a point, others its identity.
"""

from lcpinn.weighting.causal import Causal
from lcpinn.weighting.conditional import Conditional
from lcpinn.weighting.contract import Weighting
from lcpinn.weighting.fixed import Fixed
from lcpinn.weighting.relobralo import ReLoBRaLo
from lcpinn.weighting.self_adaptive import SelfAdaptive

__all__ = ["Weighting", "Fixed", "Conditional", "SelfAdaptive", "ReLoBRaLo", "Causal"]
