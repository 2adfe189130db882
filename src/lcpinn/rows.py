"""Residual rows: one per (point, lambda, term), and the loss, gradient and Jacobian as views.

    row = sqrt(weight * quadrature) * residual,      loss = sum of row²

Everything that optimises works on the same rows; residuals stay pointwise until here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lcpinn.batch import Batch, Points
from lcpinn.family import Family
from lcpinn.jet import Orders, Series, expand
from lcpinn.network.contract import Lambda, Network, Params


@dataclass(frozen=True, eq=False)
class Problem:
    """A family with the network that is to solve it."""

    family: Family
    network: Network
    dtype: DTypeLike

    # The network in the family's coordinates.

    def init(self, key: Array) -> Params:
        dims = {role: v.shape[-1] for role, v in self.conditions(*self._one_lambda()).items()}
        num = self._features_at_centre()
        return self.network.init(key, num, len(self.family.outputs), dims, self.dtype)

    def conditions(self, parameters: Array, weights: Array) -> Lambda:
        """Lambda as the network sees it: each role that is there, normalised to [-1, 1]."""
        lam: Lambda = {}
        if self.family.parameters.free:
            lam["parameters"] = self.family.parameters.normalise(parameters)
        if self.family.weights is not None:
            lam["weights"] = self.family.weights.normalise(weights)
        return lam

    def features(self, points: Points, orders: Orders) -> Series:
        """What the network sees of the coordinates, (s, l, n, features), with its derivatives."""
        domain, x = self.family.domain, points.coordinates
        if self.family.features is None and not domain.periodic:
            return _affine(domain.normalise(x), domain.ranges, orders)
        function = self._feature_function()
        expanded = jax.vmap(
            jax.vmap(lambda p, lam: expand(lambda q: function(q, lam), p, orders), (0, None))
        )(x, points.parameters)
        return Series(orders, jnp.moveaxis(expanded, 2, 0))

    def outputs(self, params: Params, points: Points, orders: Orders) -> Float[Array, "s l n out"]:
        """Taylor coefficients of the solution at every point, ansatz included."""
        lam = self.conditions(points.parameters[:, None], points.weights[:, None])
        raw = self.network.apply(params, self.features(points, orders), lam).coefficients
        if self.family.ansatz is None:
            return raw
        impose = jax.vmap(
            jax.vmap(
                lambda r, p, lam: self.family.impose(r, p, lam, orders), (1, 0, None), out_axes=1
            ),
            (1, 0, 0),
            out_axes=1,
        )
        return impose(raw, points.coordinates, points.parameters)

    # Residuals.

    def residuals(self, params: Params, batch: Batch) -> dict[str, Float[Array, "l n c"]]:
        """Residual components, pointwise, of every term that the batch has points for."""
        found: dict[str, Array] = {}
        for where, terms in self.family.groups.items():
            if where not in batch:
                continue
            points, orders = batch[where], self.family.orders(terms)
            series = self.outputs(params, points, orders)
            for term in terms:

                def at(s: Array, p: Array, lam: Array, o: Array, term=term, orders=orders) -> Array:
                    return term.residual(s, orders, p, lam, o)

                over = jax.vmap(jax.vmap(at, (1, 0, None, 0)), (1, 0, 0, 0))
                found[term.name] = over(
                    series, points.coordinates, points.parameters, points.observed
                )
        return found

    def term_losses(
        self, residuals: Mapping[str, Array], weights: Mapping[str, Array], batch: Batch
    ) -> dict[str, Array]:
        """Each term's weighted mean square."""
        return {
            name: jnp.sum(
                batch[self.family.terms[name].where].quadrature
                * weights[name]
                * jnp.sum(r * r, axis=-1)
            )
            for name, r in residuals.items()
        }

    def rows(
        self, params: Params, batch: Batch, weights: Mapping[str, Array]
    ) -> Float[Array, " n"]:
        """All rows in one vector, term after term."""
        parts = []
        for name, r in self.residuals(params, batch).items():
            quadrature = batch[self.family.terms[name].where].quadrature
            parts.append((r * jnp.sqrt(quadrature * weights[name])[..., None]).ravel())
        return jnp.concatenate(parts)

    def loss(self, params: Params, batch: Batch, weights: Mapping[str, Array]) -> Array:
        """The sum of squared rows, and what a gradient is taken of."""
        return jnp.sum(self.rows(params, batch, weights) ** 2)

    def gradient(self, params: Params, batch: Batch, weights: Mapping[str, Array]) -> Params:
        return jax.grad(self.loss)(params, batch, weights)

    def jacobian(
        self, params: Params, batch: Batch, weights: Mapping[str, Array]
    ) -> Float[Array, "n p"]:
        """The rows' derivatives by the parameters, dense; for checks and for small problems."""
        flat, unravel = ravel_pytree(params)
        return jax.jacrev(lambda v: self.rows(unravel(v), batch, weights))(flat)

    # Finding out what went wrong.

    def blame(self, params: Params, batch: Batch) -> str:
        """Which term, at which lambda and where, has rows that are not finite."""
        for name, r in jax.jit(self.residuals)(params, batch).items():
            bad = np.argwhere(~np.isfinite(np.asarray(r)))
            if len(bad):
                points = batch[self.family.terms[name].where]
                at = dict(
                    zip(
                        self.family.domain.names,
                        points.coordinates[bad[0][0], bad[0][1]],
                        strict=True,
                    )
                )
                lam = dict(
                    zip(self.family.parameters.names, points.parameters[bad[0][0]], strict=True)
                )
                if self.family.weights is not None:
                    names = (f"weight of {n}" for n in self.family.weights.names)
                    lam |= dict(zip(names, points.weights[bad[0][0]], strict=True))
                where = ", ".join(f"{k} = {float(v):.6g}" for k, v in (at | lam).items())
                return f"the term {name!r} is NaN or infinite at {where} ({len(bad)} rows in all)"
        return "the loss is NaN or infinite although every row is finite: it overflowed"

    # Shapes.

    def _one_lambda(self) -> tuple[Array, Array]:
        prior = self.family.weights
        parameters = self.family.parameters.from_unit(np.full((1, self.family.parameters.dim), 0.5))
        weights = np.full((1, 0 if prior is None else prior.dim), 0.5)
        return jnp.asarray(parameters, self.dtype), jnp.asarray(weights, self.dtype)

    def _features_at_centre(self) -> int:
        function = self._feature_function()
        point = jax.ShapeDtypeStruct((self.family.domain.dim,), self.dtype)
        lam = jax.ShapeDtypeStruct((self.family.parameters.dim,), self.dtype)
        return jax.eval_shape(function, point, lam).shape[-1]

    def _feature_function(self) -> Callable[[Array, Array], Array]:
        family = self.family
        if family.features is not None:
            return lambda point, lam: family.call("features", point, lam)
        return lambda point, lam: _embed(family, point)


def _affine(normalised: Array, ranges: Mapping[str, tuple[float, float]], orders: Orders) -> Series:
    """Coordinates scaled to [-1, 1]: the first derivatives are constants, the rest vanish."""
    slopes = [2 / (high - low) for low, high in ranges.values()]
    coefficients = [normalised]
    for index in orders.indices[1:]:
        first = np.array(
            [s if sum(index) == 1 and n else 0.0 for s, n in zip(slopes, index, strict=True)]
        )
        coefficients.append(
            jnp.broadcast_to(jnp.asarray(first, normalised.dtype), normalised.shape)
        )
    return Series(orders, jnp.stack(coefficients))


def _embed(family: Family, point: Array) -> Array:
    """Normalised coordinates, a periodic one as its sine and cosine (exactly periodic)."""
    unit = family.domain.to_unit(point)
    features = []
    for i, name in enumerate(family.domain.names):
        if name in family.domain.periodic:
            angle = 2 * jnp.pi * unit[i]
            features += [jnp.sin(angle), jnp.cos(angle)]
        else:
            features.append(2 * unit[i] - 1)
    return jnp.stack(features)
