"""Later times count once the equation holds at the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import jax.numpy as jnp
from jaxtyping import Array, Float

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.sampling import Batch
from lcpinn.spec import spec
from lcpinn.weighting.contract import Memory, Weighting

ORIGINAL_CHUNKS = 32  # the number that the original's values of eps refer to


@spec
class Causal(Weighting):
    """w(t) = exp(-eps S(t)) for interior terms, S the sum of mean |residual|² over earlier chunks.

    After Wang, Sankaran and Perdikaris (2024); a patent on it is claimed (WO 2023/172408).
    Chunks are equal intervals of t, each lambda has its own S, and all interior terms add to it.
    The sum is scaled to the original's 32 chunks, S = 32/chunks Σ, so that eps means the same for
    any number of them. `weights` are constant factors of terms, one where none is given. A lambda
    with a single point (the rules `sobol` and `collocation`) has no earlier times: its w is one.
    """

    eps: float = 100.0
    chunks: int = ORIGINAL_CHUNKS
    weights: Mapping[str, float] = field(default_factory=dict)

    def init(self, family: Family, batch: Batch, key: Array) -> Memory:
        if "t" not in family.domain.names:
            has = ", ".join(family.domain.names)
            raise LcpinnError(f"causal weights need a coordinate t; {family.name} has {has}")
        if self.chunks < 1:
            raise LcpinnError(f"causal weights need at least one chunk of t, not {self.chunks}")
        if not self.eps >= 0:
            raise LcpinnError(f"causal weights need an eps of zero or more, not {self.eps:g}")
        family.check_weight_names(tuple(self.weights), "causal weights")
        return ()

    def weigh(
        self, state: Memory, family: Family, batch: Batch, residuals: Mapping[str, Array]
    ) -> tuple[dict[str, Array], Memory]:
        inside = [name for name in residuals if family.terms[name].where == "interior"]
        weights = {
            name: jnp.asarray(self.weights.get(name, 1.0), r.dtype) for name, r in residuals.items()
        }
        if inside:
            squares = jnp.stack([jnp.sum(residuals[name] ** 2, axis=-1) for name in inside])
            factor = self._factor(family, batch, jnp.sum(squares, axis=0))
            weights |= {name: weights[name] * factor for name in inside}
        return weights, state

    def _factor(
        self, family: Family, batch: Batch, squares: Float[Array, "l n"]
    ) -> Float[Array, "l n"]:
        """exp(-eps S) at every interior point."""
        points, (low, high) = batch["interior"], family.domain.ranges["t"]
        t = points.coordinates[..., family.domain.names.index("t")]
        chunk = jnp.floor(self.chunks * (t - low) / (high - low)).astype(jnp.int32)
        chunk = jnp.clip(chunk, 0, self.chunks - 1)  # t = high belongs to the last one
        # Sums over a mask: on a GPU a scattered sum would depend on the order of its threads.
        member = chunk[..., None] == jnp.arange(self.chunks)
        mass = jnp.sum(jnp.where(member, points.quadrature[..., None], 0), axis=1)
        total = jnp.sum(jnp.where(member, (points.quadrature * squares)[..., None], 0), axis=1)
        means = jnp.where(mass > 0, total / jnp.where(mass > 0, mass, 1), 0)  # (l, chunks)
        earlier = jnp.cumsum(means[:, :-1], axis=1)
        earlier = jnp.concatenate([jnp.zeros_like(means[:, :1]), earlier], axis=1)
        factor = jnp.exp(-self.eps * ORIGINAL_CHUNKS / self.chunks * earlier)
        return jnp.take_along_axis(factor, chunk, axis=1)
