"""The linear model of rows about theta, r + J p, and the sums over rows that steps need of it.

`Whole` holds the Jacobian J, (n, p). `Summed` never does: a sum over rows makes it again chunk by
chunk, so that memory follows p² and not n p, and products with vectors are forward and reverse
passes. QR, and steps from sample space, need the matrix itself; everything else is asked of either.
On several devices each sums over its own rows, and one all-reduce brings the sums together; what is
made of them, the factorisation first of all, every device makes for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from lcpinn.chunks import num_points, padded, rows_at_once, sum_chunks
from lcpinn.devices import ROWS
from lcpinn.network.contract import Params
from lcpinn.rows import (
    Problem,
    Scale,
    num_components,
    parts_at_once,
    places_jacobian,
    rows_and_jacobian,
    weighted_rows,
)
from lcpinn.sampling import Batch

Part = TypeVar("Part")


class LinearModel(Protocol):
    """r + J p about theta."""

    @property
    def rows(self) -> Float[Array, " n"]: ...

    @property
    def squares(self) -> Array:
        """|J|², the trace of J'J."""
        ...

    def normal(self) -> Float[Array, "p p"]:
        """J'J."""
        ...

    def gradient(self) -> Float[Array, " p"]:
        """J'r."""
        ...

    def total(self, part: Callable[[Array, Array], Part]) -> Part:
        """Σ part(J, r) over chunks of rows, for a part that adds up over rows."""
        ...

    def times(self, directions: Array) -> Array:
        """J p of one direction (p,) or of several (k, p)."""
        ...

    def transposed_times(self, others: Float[Array, "k n"]) -> Float[Array, "k p"]:
        """J'v of each."""
        ...


class Whole(NamedTuple):
    """The rows and their Jacobian."""

    rows: Float[Array, " n"]
    matrix: Float[Array, "n p"]

    @property
    def squares(self) -> Array:
        return jnp.sum(self.matrix**2)

    def normal(self) -> Array:
        return gram(self.matrix)

    def gradient(self) -> Array:
        return self.matrix.T @ self.rows

    def total(self, part: Callable[[Array, Array], Part]) -> Part:
        return part(self.matrix, self.rows)

    def times(self, directions: Array) -> Array:
        one = directions.ndim == 1
        return self.matrix @ directions if one else directions @ self.matrix.T

    def transposed_times(self, others: Array) -> Array:
        return others @ self.matrix


class Summed(NamedTuple):
    """The same from sums over the rows of a system, without the Jacobian."""

    system: RowSystem
    theta: Float[Array, " p"]
    rows: Float[Array, " n"]
    products: tuple[Float[Array, "p p"], Float[Array, " p"]]  # J'J and J'r

    @classmethod
    def of(cls, system: RowSystem, theta: Array) -> Summed:
        products = system.total(theta, lambda jacobian, r: (gram(jacobian), jacobian.T @ r))
        return cls(system, theta, system.rows(theta), products)

    @property
    def squares(self) -> Array:
        return jnp.trace(self.normal())

    def normal(self) -> Array:
        return self.products[0]

    def gradient(self) -> Array:
        return self.products[1]

    def total(self, part: Callable[[Array, Array], Part]) -> Part:
        return self.system.total(self.theta, part)

    def times(self, directions: Array) -> Array:
        if directions.ndim == 1:
            return jax.jvp(self.system.rows, (self.theta,), (directions,))[1]
        return jax.vmap(self.times)(directions)

    def transposed_times(self, others: Array) -> Array:
        _, pull = jax.vjp(self.system.rows, self.theta)
        return jax.vmap(lambda v: pull(v)[0])(others)


@dataclass(frozen=True, eq=False)
class RowSystem:
    """The weighted rows of a batch as a function of theta, to be linearised.

    On a mesh every device has its share of the points of each place. Rows lie device after device
    then, which no sum over them notices.
    """

    problem: Problem
    weighting: Any
    unravel: Callable[[Array], Params]
    batch: Batch
    scale: Scale | None = None
    mesh: Mesh | None = None

    def rows(self, theta: Array) -> Float[Array, " n"]:
        return self._on_devices(lambda own: own._rows(theta), PartitionSpec(ROWS))

    def linearised(self, theta: Array, solver: str) -> LinearModel:
        """The model that a solver needs: whole where it asks for that, or where that is little."""
        num, at_once = self.num_rows(theta), rows_at_once(theta.size, theta.dtype.itemsize)
        if solver == "qr" or num < theta.size or (self.mesh is None and num <= at_once):
            return self._whole(theta)
        return Summed.of(self, theta)

    def num_rows(self, theta: Array) -> int:
        components = num_components(self.problem, self.unravel(theta), self.batch)
        where = {name: self.problem.family.terms[name].where for name in components}
        return sum(num_points(self.batch[where[name]]) * c for name, c in components.items())

    def total(self, theta: Array, part: Callable[[Array, Array], Part]) -> Part:
        """Σ part(J, r) over chunks of rows, and over devices by one all-reduce."""
        if self.mesh is None:
            return self._total(theta, part)
        summed = lambda own: jax.lax.psum(own._total(theta, part), ROWS)
        return self._on_devices(summed, PartitionSpec())

    # The same of the rows of one device.

    def _rows(self, theta: Array) -> Array:
        params = self.unravel(theta)
        return weighted_rows(self.problem, self.weighting, params, self.batch, self.scale)

    def _total(self, theta: Array, part: Callable[[Array, Array], Part]) -> Part:
        size, sums = rows_at_once(theta.size, theta.dtype.itemsize), []
        jacobian_at = places_jacobian(self.problem, self.weighting, self.unravel, self.scale)

        def of_places(places: Batch) -> Part:
            pairs = jacobian_at(theta, places).values()
            rows = jnp.concatenate([rows.ravel() for rows, _ in pairs])
            return part(jnp.concatenate([j.reshape(-1, theta.size) for _, j in pairs]), rows)

        for places in parts_at_once(self.problem, self.batch, size):
            if len(places) > 1:
                sums.append(of_places(places))
                continue
            ((where, points),) = places.items()
            alone = lambda chunk, where=where: of_places({where: chunk})
            sums.append(sum_chunks(alone, points, size))
        return jax.tree.map(lambda *of_parts: sum(of_parts), *sums)

    def _whole(self, theta: Array) -> Whole:
        def jacobian(own: RowSystem) -> Whole:
            given = (own.problem, own.weighting, own.unravel, theta, own.batch, own.scale)
            return Whole(*rows_and_jacobian(*given))

        model = self._on_devices(jacobian, PartitionSpec(ROWS))
        if self.mesh is None:
            return model
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        return jax.lax.with_sharding_constraint(model, everywhere)

    def _on_devices(self, function: Callable[[RowSystem], Part], out: PartitionSpec) -> Part:
        """A function of the rows that a device has, asked on each of them."""
        if self.mesh is None:
            return function(self)
        num = self.mesh.size
        even = {
            where: padded(points, -(-num_points(points) // num) * num)
            for where, points in self.batch.items()
        }
        own = lambda batch: function(replace(self, batch=batch, mesh=None))
        # Sums over chunks begin with zeros, of which nothing says that they differ by device.
        return jax.shard_map(
            own, mesh=self.mesh, in_specs=PartitionSpec(ROWS), out_specs=out, check_vma=False
        )(even)


def gram(matrix: Array, blocks: int = 4) -> Array:
    """A'A, of which one triangle is enough.

    An accelerator's library has a product for it. XLA's on a CPU does not know that the result is
    symmetric: only the blocks on and above the diagonal are computed, which saves three eighths.
    """
    size = matrix.shape[1]
    if jax.default_backend() != "cpu":
        nothing = jnp.zeros((size, size), matrix.dtype)
        return jax.lax.linalg.symmetric_product(matrix.T, nothing, symmetrize_output=True)
    if size < 64 * blocks:
        return matrix.T @ matrix
    edges = [size * i // blocks for i in range(blocks + 1)]
    strips = [matrix[:, a:b] for a, b in itertools.pairwise(edges)]
    upper = [[strips[i].T @ strips[j] for j in range(i, blocks)] for i in range(blocks)]
    full = [
        [upper[i][j - i] if j >= i else upper[j][i - j].T for j in range(blocks)]
        for i in range(blocks)
    ]
    return jnp.block(full)
