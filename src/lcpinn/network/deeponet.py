"""DeepONet: one network of lambda and one of the coordinates, joined by an inner product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array

from lcpinn.errors import LcpinnError, check_choice
from lcpinn.jet import ACTIVATIONS, Series
from lcpinn.network.contract import Lambda, Network, Params
from lcpinn.network.film import XAVIER
from lcpinn.network.mlp import dense, layer_words, spread
from lcpinn.spec import spec


@spec
class DeepONet(Network):
    """u_o(x; lambda) = sum_j branch_oj(lambda) trunk_oj(x) + bias_o, with `latent` terms each.

    The branch sees the normalised coefficients, and loss weights behind them where the family is
    conditioned on those too. The trunk sees the features of the coordinates and carries their
    derivatives. `branch` and `trunk` are hidden widths; a linear layer to the latent values follows
    in both. With the residual as its loss this is PI-DeepONet (Wang, Wang and Perdikaris 2021).

    Reference: Lu et al., Nature Machine Intelligence 3 (2021) 218-229.
    """

    branch: tuple[int, ...] = (128, 128, 128, 128)
    trunk: tuple[int, ...] = (128, 128, 128, 128)
    latent: int = 128
    activation: str = "tanh"
    frequency_scale: float = 0.0  # of the trunk's first layer, as in MLP
    xavier: str = "uniform"  # as in MLP, and so is `raw`
    raw: bool = False

    def __post_init__(self) -> None:
        check_choice("DeepONet", "activation", self.activation, ACTIVATIONS)
        check_choice("DeepONet", "xavier", self.xavier, XAVIER)

    def init(
        self,
        key: Array,
        num_features: int,
        num_outputs: int,
        dims: dict[str, int],
        dtype: DTypeLike,
    ) -> Params:
        """Xavier's matrices, zero biases."""
        if "parameters" not in dims:
            raise LcpinnError(
                "a DeepONet needs coefficients for its branch; this family has no parameters"
            )
        first, second = jax.random.split(key)
        joined = num_outputs * self.latent
        trunk = stack(second, (num_features, *self.trunk, joined), dtype, self.xavier)
        trunk[0] = spread(trunk[0], num_features, self.frequency_scale)
        return {
            "branch": stack(first, (sum(dims.values()), *self.branch, joined), dtype, self.xavier),
            "trunk": trunk,
            "bias": jnp.zeros(num_outputs, dtype),
        }

    def shrunk(self) -> DeepONet:
        """The same kind of network at a size that trains in a moment."""
        return replace(self, branch=(6,), trunk=(6,), latent=6)

    def words(self) -> str:
        """Its size in a few words."""
        parts = f"branch {layer_words(self.branch)}, trunk {layer_words(self.trunk)}"
        return f"DeepONet {parts}, latent {self.latent} {self.activation}"

    def apply(self, params: Params, features: Series, lam: Lambda) -> Series:
        """Outputs as a series; lambda's arrays broadcast against the features' batch axes."""
        act = ACTIVATIONS[self.activation]
        roles = [lam[role] for role in ("parameters", "weights") if role in lam]
        amplitudes = jnp.concatenate(roles, axis=-1)
        for layer in params["branch"][:-1]:
            amplitudes = act(amplitudes @ layer["w"] + layer["b"], 0)[0]
        last = params["branch"][-1]
        amplitudes = amplitudes @ last["w"] + last["b"]
        modes = features
        for layer in params["trunk"][:-1]:
            modes = (modes @ layer["w"] + layer["b"]).apply(act)
        last = params["trunk"][-1]
        product = ((modes @ last["w"] + last["b"]) * amplitudes).coefficients
        blocks = product.reshape(*product.shape[:-1], len(params["bias"]), self.latent)
        return Series(features.orders, blocks).sum() + params["bias"]

    @property
    def sees_raw(self) -> bool:
        return self.raw

    @property
    def num_hidden(self) -> int:
        return sum(self.branch) + sum(self.trunk)


def stack(
    key: Array, sizes: Sequence[int], dtype: DTypeLike, xavier: str = "uniform"
) -> list[Params]:
    """Dense layers from each size to the next."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [dense(k, a, b, dtype, xavier) for k, a, b in pairs]
