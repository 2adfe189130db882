"""Networks u(coordinates, lambda): one file each."""

from lcpinn.network.concat import Concat
from lcpinn.network.film import FiLM
from lcpinn.network.mlp import MLP

__all__ = ["MLP", "Concat", "FiLM"]
