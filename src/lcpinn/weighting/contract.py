"""What a weighting is to the rest of the library: a spec with two pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Array, PyTree

from lcpinn.family import Family
from lcpinn.sampling import Batch

Memory = PyTree[Array]  # what a weighting carries from step to step; () where there is nothing


@runtime_checkable
class Weighting(Protocol):
    """Weights of rows, from residuals at their points (l, n, components)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def init(self, family: Family, batch: Batch, key: Array) -> Memory:
        """The memory before the first step; where it does not apply to the family, an error."""
        ...

    def weigh(
        self, state: Memory, family: Family, batch: Batch, residuals: Mapping[str, Array]
    ) -> tuple[dict[str, Array], Memory]:
        """A weight for every term, broadcastable to its points (l, n), and the next memory."""
        ...
