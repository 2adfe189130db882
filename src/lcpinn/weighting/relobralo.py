"""Weights that favour the terms whose loss has fallen least."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.sampling import Batch
from lcpinn.spec import spec
from lcpinn.weighting.contract import Memory, Weighting


@spec
class ReLoBRaLo(Weighting):
    """Relative loss balancing with random look-back, after Bischof and Kraus (2025).

        w(t) = alpha (rho_t w(t-1) + (1 - rho_t) b(t; 0)) + (1 - alpha) b(t; t-1)
        b(t; s) = m softmax over the m terms of L(t) / (tau L(s)),    rho_t ~ Bernoulli(rho)

    L is a term's unweighted mean square. Some describe b as a softmax of log-loss ratios; as
    published it is of the ratios themselves. The first step has weights one, where L-BFGS stays.
    """

    alpha: float = 0.999
    tau: float = 0.1
    rho: float = 0.999

    def init(self, family: Family, batch: Batch, key: Array) -> Memory:
        for name, value in (("alpha", self.alpha), ("rho", self.rho)):
            if not 0 <= value <= 1:
                raise LcpinnError(f"ReLoBRaLo needs {name} in [0, 1], not {value:g}")
        if not self.tau > 0:
            raise LcpinnError(f"ReLoBRaLo needs a positive tau, not {self.tau:g}")
        places = [term.where for term in family.terms.values() if term.where in batch]
        ones = jnp.ones(len(places), jnp.result_type(*(batch[p].quadrature for p in places)))
        step = jnp.zeros((), jnp.int32)
        # The losses are placeholders: the first step puts in its own.
        return {"initial": ones, "previous": ones, "weights": ones, "key": key, "step": step}

    def weigh(
        self, state: Memory, family: Family, batch: Batch, residuals: Mapping[str, Array]
    ) -> tuple[dict[str, Array], Memory]:
        names = [name for name in family.terms if name in residuals]
        shares = [batch[family.terms[name].where].quadrature for name in names]
        squares = [jnp.sum(residuals[name] ** 2, axis=-1) for name in names]
        now = jnp.stack([jnp.sum(q * s) for q, s in zip(shares, squares, strict=True)])
        first = state["step"] == 0
        initial = jnp.where(first, now, state["initial"])
        # The step's own randomness: it does not depend on where a run was interrupted.
        keep = jax.random.bernoulli(jax.random.fold_in(state["key"], state["step"]), self.rho)
        history = jnp.where(keep, state["weights"], self._balanced(now, initial))
        recent = self._balanced(now, state["previous"])
        weights = jnp.where(first, 1, self.alpha * history + (1 - self.alpha) * recent)
        after = {
            "initial": initial,
            "previous": now,
            "weights": weights,
            "key": state["key"],
            "step": state["step"] + 1,
        }
        return {name: weights[i] for i, name in enumerate(names)}, after

    def _balanced(self, now: Float[Array, " m"], before: Float[Array, " m"]) -> Float[Array, " m"]:
        """m softmax(L(t) / (tau L(s))). A loss that vanishes and did before counts as unchanged."""
        tiny = jnp.finfo(now.dtype).eps ** 2
        scores = (now + tiny) / (before + tiny) / self.tau
        powers = jnp.exp(scores - jnp.max(scores))  # the largest is one: nothing overflows
        return now.size * powers / jnp.sum(powers)
