"""Lambda that the network does not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.typing import DTypeLike
from jaxtyping import Array

from lcpinn.jet import Series
from lcpinn.spec import spec


@spec
class Unseen:
    """The network ignores this role: one answer for every lambda, for comparisons."""

    def init(self, key: Array, dim: int, widths: Sequence[int], dtype: DTypeLike) -> dict[str, Any]:
        return {}

    def extra_inputs(self, dim: int) -> int:
        return 0

    def join(self, features: Series, lam: Array) -> Series:
        return features

    def modulate(self, params: dict[str, Any], lam: Array, widths: Sequence[int]) -> None:
        return None
