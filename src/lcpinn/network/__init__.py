"""Networks u(coordinates, lambda): one file each."""

from lcpinn.network.concat import Concat
from lcpinn.network.contract import Conditioning, Network, OperatorNetwork
from lcpinn.network.deeponet import DeepONet
from lcpinn.network.film import FiLM
from lcpinn.network.fno import FNO
from lcpinn.network.interpolant import Interpolant
from lcpinn.network.mlp import MLP
from lcpinn.network.units import Units
from lcpinn.network.unseen import Unseen

__all__ = [
    "Network",
    "OperatorNetwork",
    "Conditioning",
    "MLP",
    "FiLM",
    "Concat",
    "Unseen",
    "Units",
    "DeepONet",
    "FNO",
    "Interpolant",
]
