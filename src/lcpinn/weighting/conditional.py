"""The loss weights are lambda: drawn with the batch, and seen by the network."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.sampling import Batch
from lcpinn.spec import spec
from lcpinn.weighting.contract import Memory, Weighting


@spec
class Conditional(Weighting):
    """L(lambda) = sum over terms of lambda_term * mean |residual|² (loss-conditional training).

    After Dosovitskiy and Djolonga (2020). A component of lambda whose term has nothing to weigh,
    such as `data` without observations, is an inert input.
    """

    def init(self, family: Family, batch: Batch, key: Array) -> Memory:
        if family.weights is None:
            raise LcpinnError(f"{family.name} has no prior over loss weights to condition on")
        missing = [name for name in family.terms if name not in family.weights.names]
        if missing:
            raise LcpinnError(f"{family.name}: the term {missing[0]!r} has no component in weights")
        return ()

    def weigh(
        self, state: Memory, family: Family, batch: Batch, residuals: Mapping[str, Array]
    ) -> tuple[dict[str, Array], Memory]:
        assert family.weights is not None
        names = family.weights.names
        return {
            name: batch[family.terms[name].where].weights[:, names.index(name), None]
            for name in residuals
        }, state
