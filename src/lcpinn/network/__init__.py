"""Networks u(coordinates, lambda): one file each."""

from lcpinn.network.concat import Concat
from lcpinn.network.deeponet import DeepONet
from lcpinn.network.film import FiLM
from lcpinn.network.fno import FNO
from lcpinn.network.mlp import MLP
from lcpinn.network.unseen import Unseen

__all__ = ["FNO", "MLP", "Concat", "DeepONet", "FiLM", "Unseen"]
