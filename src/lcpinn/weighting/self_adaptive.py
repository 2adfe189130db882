"""A weight of its own for every point of every term, raised while the network lowers the loss."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.lazy import optax
from lcpinn.sampling import Batch
from lcpinn.spec import spec
from lcpinn.weighting.contract import Memory, Weighting


@spec
class SelfAdaptive(Weighting):
    """L = sum over terms of mean w² |residual|², which the network descends and every w ascends.

    After McClenny and Braga-Neto (2023), by Adam at the given rate. A weight belongs to a point, so
    points must be fixed: a sampling with any rule but `random`. All w start at one, where L-BFGS
    leaves them unless it is `weighted`: it works on the unweighted loss.

    With `random_start` they start uniform in (0, 1). The loss has `factor` before it. The ascent
    sees a point's gradient relative to its share of the mean; without `relative` as it is, so that
    Adam's epsilon holds back the weights of small residuals. `observations` are terms like others,
    or have the weight one.
    """

    rate: float = 5e-3
    random_start: bool = False
    factor: float = 1.0
    relative: bool = True
    observations: bool = True

    def init(self, family: Family, batch: Batch, key: Array) -> Memory:
        if not self.rate > 0:
            raise LcpinnError(f"self-adaptive weights need a positive rate, not {self.rate:g}")
        places = {name: term.where for name, term in family.terms.items() if term.where in batch}
        if not self.observations:
            places.pop("data", None)
        raw = {name: jnp.ones_like(batch[where].quadrature) for name, where in places.items()}
        if self.random_start:
            keys = dict(zip(raw, jax.random.split(key, len(raw)), strict=True))
            raw = {n: jax.random.uniform(keys[n], w.shape, w.dtype) for n, w in raw.items()}
        return {"raw": raw, "ascent": optax.scale_by_adam().init(raw)}

    def weigh(
        self, state: Memory, family: Family, batch: Batch, residuals: Mapping[str, Array]
    ) -> tuple[dict[str, Array], Memory]:
        raw: dict[str, Array] = state["raw"]
        own = {name: r for name, r in residuals.items() if self.observations or name != "data"}
        _check_points(raw, own)
        slopes = {}
        for name, r in own.items():
            quadrature = batch[family.terms[name].where].quadrature
            # The size of Adam's step is the rate, whatever the scale of the gradient: a point's
            # share of the sum does not matter. But one share among thousands could bring the
            # gradient below Adam's epsilon, so it is taken relative to the mean share.
            share = quadrature / jnp.mean(quadrature) if self.relative else quadrature
            slopes[name] = 2 * self.factor * share * raw[name] * jnp.sum(r * r, axis=-1)
        upwards, ascent = optax.scale_by_adam().update(slopes, state["ascent"])
        after = jax.tree.map(lambda w, step: w + self.rate * step, raw, upwards)
        weights = {name: self.factor * w * w for name, w in raw.items()}
        weights |= {name: jnp.ones((), r.dtype) for name, r in residuals.items() if name not in own}
        return weights, {"raw": after, "ascent": ascent}


def _check_points(raw: Mapping[str, Array], residuals: Mapping[str, Array]) -> None:
    """The points must be those that the weights were made for, as far as their number tells."""
    had = {name: w.shape for name, w in raw.items()}
    has = {name: r.shape[:2] for name, r in residuals.items()}
    for name in {**had, **has}:
        if had.get(name) != has.get(name):
            raise LcpinnError(
                f"self-adaptive weights belong to fixed points: those of {name!r} were made for "
                f"{had.get(name, 'no points')}, not {has.get(name, 'no points')}"
            )
