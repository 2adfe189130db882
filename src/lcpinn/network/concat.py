"""Lambda as further inputs of the first layer."""

from __future__ import annotations

from jaxtyping import Array

from lcpinn.jet import Series
from lcpinn.network.contract import Conditioning
from lcpinn.spec import spec


@spec
class Concat(Conditioning):
    """The network sees (features, lambda). Right for loss weights, which change no operator.

    `gain` scales the initial matrix entries of these inputs; at 0 the network starts independent of
    lambda, which is where a network conditioned on loss weights ends.
    """

    gain: float = 1.0

    def extra_inputs(self, dim: int) -> int:
        return dim

    @property
    def input_gain(self) -> float:
        return self.gain

    def join(self, features: Series, lam: Array) -> Series:
        return features.concatenate(lam)

    @property
    def entry(self) -> str:
        return "join"
