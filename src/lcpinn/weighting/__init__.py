"""How rows are weighted. A weighting is a pair of pure functions, `init` and `weigh`.

`init(family, batch, key)` makes its state; `weigh(state, family, batch, residuals)` returns a
weight for every term that broadcasts to its points (l, n), and the next state. Residuals arrive
pointwise, since some methods need the time of a point, others its identity.
"""

from lcpinn.weighting.causal import Causal
from lcpinn.weighting.conditional import Conditional
from lcpinn.weighting.fixed import Fixed
from lcpinn.weighting.relobralo import ReLoBRaLo
from lcpinn.weighting.self_adaptive import SelfAdaptive

__all__ = ["Fixed", "Conditional", "SelfAdaptive", "ReLoBRaLo", "Causal"]
