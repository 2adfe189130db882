"""The backbone: a fully connected network whose layers lambda may modulate or enter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array

from lcpinn.errors import check_choice
from lcpinn.jet import ACTIVATIONS, Series, modulus
from lcpinn.network.concat import Concat
from lcpinn.network.contract import ArrayLayout, Conditioning, Lambda, Network, Params
from lcpinn.network.film import (
    XAVIER,
    FiLM,
    chebyshev,
    chebyshev_indices,
    chebyshev_sum,
    drawn_matrix,
)
from lcpinn.network.units import Units
from lcpinn.spec import spec


@spec
class MLP(Network):
    """h <- act(gamma(lambda) * (W h + b) + beta(lambda)), then a linear layer to the outputs.

    `parameters` and `weights` say how each role of lambda enters: FiLM modulates every hidden
    layer, Concat joins the inputs. By default coefficients change the operator and modulate, loss
    weights do not and join the inputs.

    With `frequency_scale` > 0 the units of the first layer start with slopes (frequencies of a
    sine) up to that size and centres all over the inputs. Xavier's slopes are near one and its
    units all centred: a small network then begins as an almost linear function, and least squares
    has to find its frequencies one by one.

    `carriers` are frequencies that solutions are known to have: rows with one slope for each
    feature, in turns for the units of the first layer, about which their own slopes are spread.

    `sweeps` say how a carrier moves with the coefficients, which are in [-1, 1]: rows with a slope
    for each feature, of one coefficient after the other. Units then have slopes that are linear in
    lambda, W + Σ λ_i W_i, and may go on to change: a wave whose frequency is a coefficient.

    `centres` are places that the solutions are known to have layers at, rows with a number for each
    feature: every other unit of the first layer begins with its argument zero there.

    `kinks` are places of the first feature where solutions have one, since a coefficient jumps: the
    network also sees the distance from each, in which they are smooth on both sides.

    `variables` take the place of the coefficients, one for each: the Chebyshev coefficients of a
    variable in which solutions are simpler, such as one over it (lcpinn.powers).

    With `readout` > 0 the weights of the last layer are polynomials of that total degree in the
    coefficients, so that an answer which is linear in many of them, as that of a linear equation
    in its sources, costs one column of weights for each and not a search.

    With `holes` the first layer also sees the coordinates inverted in each hole of the domain, and
    the logarithm of the distance from it: in these a solution between holes is smooth.

    `units` are those of the page, where its solutions are not of size one (lcpinn.network.units).

    `xavier` is how matrices are drawn after Glorot and Bengio (2010): `uniform` or `normal`. With
    `raw` the network sees coordinates as they are and the logarithms of loss weights, where else
    both are scaled to [-1, 1].
    """

    widths: tuple[int, ...] = (64, 64, 64, 64)
    activation: str = "tanh"
    parameters: Conditioning = FiLM()
    weights: Conditioning = Concat()
    frequency_scale: float = 0.0
    readout: int = 0
    holes: bool = False
    xavier: str = "uniform"
    raw: bool = False
    carriers: tuple[tuple[float, ...], ...] = ()
    sweeps: tuple[tuple[float, ...], ...] = ()
    centres: tuple[tuple[float, ...], ...] = ()
    units: Units | None = None
    kinks: tuple[float, ...] = ()
    variables: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        check_choice("MLP", "activation", self.activation, ACTIVATIONS)
        check_choice("MLP", "xavier", self.xavier, XAVIER)

    def init(
        self,
        key: Array,
        num_features: int,
        num_outputs: int,
        dims: dict[str, int],
        dtype: DTypeLike,
    ) -> Params:
        """Xavier's matrices, zero biases; each role's generator after its own rule."""
        keys = iter(jax.random.split(key, len(self.widths) + 1 + len(dims)))
        entrances = {role: self.entrance(role) for role in dims}
        conditioning = {
            role: how.init(next(keys), dims[role], self.widths, dtype)
            for role, how in entrances.items()
        }
        extra = [(how.input_gain, how.extra_inputs(dims[role])) for role, how in entrances.items()]
        fan_in = num_features + len(self.kinks) + sum(num for _, num in extra)
        layers = []
        for width in (*self.widths, num_outputs):
            layers.append(dense(next(keys), fan_in, width, dtype, self.xavier))
            fan_in = width
        gains = [jnp.full(num, gain, dtype) for gain, num in extra if num]
        layers[0] = self._first(layers[0], num_features, gains)
        made: Params = {"layers": layers, "conditioning": conditioning}
        if self.sweeps and "parameters" in dims:
            shape = (self.widths[0], dims["parameters"], num_features)
            rows = jnp.resize(jnp.asarray(self.sweeps, dtype), shape)
            made["sweeps"] = list(jnp.moveaxis(rows, 0, -1))  # (features, width) for each
        if self.readout and "parameters" in dims:
            num = len(chebyshev_indices(dims["parameters"], self.readout))
            made["readout"] = {
                "w": jnp.zeros((self.widths[-1], num * num_outputs), dtype),
                "b": jnp.zeros(num * num_outputs, dtype),
            }
        return made

    def entrance(self, role: str) -> Conditioning:
        """How a role of lambda, `parameters` or `weights`, enters."""
        return {"parameters": self.parameters, "weights": self.weights}[role]

    def _first(self, layer: Params, num_features: int, gains: list[Array]) -> Params:
        """The first layer with its frequency scale, and with each joined role's gain."""
        ones = jnp.ones(num_features + len(self.kinks), layer["w"].dtype)
        gain = jnp.concatenate([ones, *gains])
        seen = num_features + len(self.kinks)
        steep = spread(layer, seen, self.frequency_scale)
        w = steep["w"] * gain[:, None]
        if self.kinks:  # together they make a unit as steep as the coordinate alone does
            w = w.at[num_features:seen].multiply(len(self.kinks) ** -0.5)
        if self.carriers:
            rows = jnp.resize(jnp.asarray(self.carriers, w.dtype), (w.shape[1], num_features))
            w = w.at[:num_features].add(rows.T)
        b = steep["b"]
        if self.centres:
            num = b[::2].shape[0]
            rows = jnp.resize(jnp.asarray(self.centres, w.dtype), (num, num_features))
            b = b.at[::2].set(-jnp.sum(w[:num_features, ::2].T * rows, axis=1))
        return {"w": w, "b": b}

    def drawn(self, frequency: float, slopes: float) -> MLP:
        """The same network, its parameters drawn with a multiple of the frequency scale, and with
        other slopes in the coefficients (or a multiple of them, where they have their own) where
        those modulate it by polynomials."""
        how = self.parameters
        if isinstance(how, FiLM) and how.degree:
            own = how.slopes
            scaled = tuple(slopes * s for s in own) if isinstance(own, tuple) else slopes
            how = replace(how, slopes=scaled)
        return replace(self, frequency_scale=frequency * self.frequency_scale, parameters=how)

    def shrunk(self) -> MLP:
        """The same kind of network at a size that trains in a moment."""
        return replace(self, widths=(8,))

    def words(self) -> str:
        """Its size in a few words: `4x64 tanh`."""
        return f"{layer_words(self.widths)} {self.activation}"

    def apply(self, params: Params, features: Series, lam: Lambda) -> Series:
        """Outputs as a series; lambda's arrays broadcast against the features' batch axes."""
        act = ACTIVATIONS[self.activation]
        modulations = []
        h, seen = self._with_kinks(features), self._with_variables(lam)
        for role, values in seen.items():
            how, its = self.entrance(role), params["conditioning"][role]
            h = how.join(h, values)
            modulations.append(how.modulate(its, values, self.widths))
        for depth, layer in enumerate(params["layers"][:-1]):
            scale, shift = None, layer["b"]
            for gamma, beta in (each[depth] for each in modulations if each is not None):
                scale, shift = gamma if scale is None else scale * gamma, shift * gamma + beta
            h = h.linear(layer["w"], scale)
            if depth == 0:
                for i, w in enumerate(params.get("sweeps", ())):
                    h = h + features.linear(w, scale) * lam["parameters"][..., i : i + 1]
            h = (h + shift).apply(act)
        last = params["layers"][-1]
        outputs = h @ last["w"] + last["b"]
        if "readout" in params:
            outputs = outputs + self._read_out(params["readout"], h, seen["parameters"])
        return outputs if self.units is None else self.units.applied(outputs, lam.get("parameters"))

    def _with_kinks(self, features: Series) -> Series:
        """The features, and the distance of the first one from every kink."""
        if not self.kinks:
            return features
        first = Series(features.orders, features.coefficients[..., :1])
        away = [(first + (-place)).apply(modulus).coefficients for place in self.kinks]
        return Series(features.orders, jnp.concatenate([features.coefficients, *away], axis=-1))

    def _with_variables(self, lam: Lambda) -> Lambda:
        """Lambda as the layers see it."""
        if not self.variables or "parameters" not in lam:
            return lam
        columns = [
            chebyshev_sum(lam["parameters"][..., i], own) for i, own in enumerate(self.variables)
        ]
        return {**lam, "parameters": jnp.stack(columns, axis=-1)}

    def _read_out(self, weights: Params, h: Series, lam: Array) -> Series:
        """What weights of the last layer that are polynomials in the coefficients add."""
        each = (h @ weights["w"] + weights["b"]).coefficients
        polynomials = chebyshev(lam, self.readout)
        apart = each.reshape(*each.shape[:-1], polynomials.shape[-1], -1)
        return Series(h.orders, jnp.sum(apart * polynomials[..., None], axis=-2))

    @property
    def sees_holes(self) -> bool:
        return self.holes

    @property
    def sees_raw(self) -> bool:
        return self.raw

    @property
    def num_hidden(self) -> int:
        return sum(self.widths)

    def array_layout(self, dims: Mapping[str, int]) -> ArrayLayout | None:
        entries, tables = {}, {}
        if self.sweeps or self.kinks or self.variables:
            return None  # no reader of arrays knows of them
        for role, dim in dims.items():
            how = self.entrance(role)
            if how.entry is None:
                return None
            entries[role] = how.entry
            tables |= {f"conditioning.{role}.{k}": v for k, v in how.tables(dim).items()}
        if self.readout and "parameters" in dims:
            tables["readout.orders"] = np.array(chebyshev_indices(dims["parameters"], self.readout))
        if self.units is not None:
            tables |= self.units.tables(dims.get("parameters", 0))
        powers = tuple(
            role
            for role in dims
            if isinstance(how := self.entrance(role), FiLM) and how.exponential
        )
        return ArrayLayout(len(self.widths) + 1, self.activation, entries, tables, powers)


def layer_words(widths: Sequence[int]) -> str:
    """(64, 64, 64) as 3x64."""
    same = len(set(widths)) == 1
    return f"{len(widths)}x{widths[0]}" if same else "-".join(map(str, widths))


def spread(layer: Params, num_features: int, frequency_scale: float) -> Params:
    """A first layer with slopes up to `frequency_scale`, and centres all over its features."""
    if not frequency_scale:
        return layer
    w = layer["w"]
    factor = frequency_scale / jnp.max(jnp.abs(w[:num_features]))
    # A low-discrepancy spread of the phases, rather than yet another random draw.
    turn = jnp.mod(0.6180339887498949 * jnp.arange(w.shape[1], dtype=w.dtype), 1)
    return {"w": w.at[:num_features].multiply(factor), "b": jnp.pi * (2 * turn - 1)}


def dense(
    key: Array, fan_in: int, fan_out: int, dtype: DTypeLike, xavier: str = "uniform"
) -> Params:
    w = drawn_matrix(key, fan_in, fan_out, dtype, xavier)
    return {"w": w, "b": jnp.zeros(fan_out, dtype)}
