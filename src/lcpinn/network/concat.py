"""Lambda as further inputs of the first layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.typing import DTypeLike
from jaxtyping import Array

from lcpinn.jet import Series
from lcpinn.spec import spec


@spec
class Concat:
    """The network sees (features, lambda). Right for loss weights, which change no operator.

    `gain` scales the initial matrix entries of these inputs; at 0 the network starts independent of
    lambda, which is where a network conditioned on loss weights ends.
    """

    gain: float = 1.0

    def init(self, key: Array, dim: int, widths: Sequence[int], dtype: DTypeLike) -> dict[str, Any]:
        return {}

    def extra_inputs(self, dim: int) -> int:
        return dim

    def join(self, features: Series, lam: Array) -> Series:
        return features.concatenate(lam)

    def modulate(self, params: dict[str, Any], lam: Array, widths: Sequence[int]) -> None:
        return None
