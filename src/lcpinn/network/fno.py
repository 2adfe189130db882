"""A Fourier neural operator in one space dimension: initial condition in, solution out."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lcpinn.errors import LcpinnError
from lcpinn.jet import Series, sine
from lcpinn.network.contract import Lambda, Network, Params
from lcpinn.network.mlp import dense
from lcpinn.spec import spec


@spec
class FNO(Network):
    """u0 on a periodic grid of x -> u on the same grid at `times` equally spaced instants.

    v <- gelu(K v + W v + b) in each block (the last one without gelu), between a lifting of
    (u0, x) to `width` channels and a projection through `projection` hidden units to one channel
    for every instant. K multiplies each of the lowest `modes` Fourier coefficients by a matrix of
    its own, so that any grid of at least 2 `modes` points will do.

    `params["condition"]` holds `grid` values of the initial condition that the trained operator
    answers for as a solution of its family; it is not trained. `apply` runs the operator on it
    and interpolates: a Fourier series in x, a cubic spline in t. Complex matrices are kept as real
    and imaginary parts, which is what model files hold. Lambda plays no part.

    With `normal` Fourier matrices are drawn as complex normal numbers / width² where they are
    uniform otherwise, and with `last_gelu` the last block has its gelu, too.

    Reference: Li et al., Fourier neural operator for parametric PDEs, ICLR 2021.
    """

    width: int = 64
    modes: int = 64
    blocks: int = 4
    times: int = 101
    projection: int = 128
    grid: int = 256
    normal: bool = False
    last_gelu: bool = False

    def init(
        self,
        key: Array,
        num_features: int,
        num_outputs: int,
        dims: dict[str, int],
        dtype: DTypeLike,
    ) -> Params:
        """Xavier-uniform dense layers; Fourier matrices uniform in (0, 1/width²), as published."""
        if num_features != 2 or num_outputs != 1 or "parameters" in dims:
            raise LcpinnError(
                "an FNO is for one output over plain (t, x) without coefficients; this family has "
                f"{num_outputs} outputs, {num_features} features and "
                f"{dims.get('parameters', 0)} coefficients"
            )
        if self.times < 4:
            raise LcpinnError(f"an FNO needs at least 4 instants to interpolate, not {self.times}")
        self._check(self.grid)
        lift, first, second, *keys = jax.random.split(key, 3 + self.blocks)
        return {
            "lift": dense(lift, 2, self.width, dtype),
            "blocks": [self._block(k, dtype) for k in keys],
            "project": [
                dense(first, self.width, self.projection, dtype),
                dense(second, self.projection, self.times, dtype),
            ],
            "condition": jnp.zeros(self.grid, dtype),
        }

    def _block(self, key: Array, dtype: DTypeLike) -> Params:
        local, real, imaginary = jax.random.split(key, 3)
        shape, bound = (self.modes, self.width, self.width), 1 / self.width**2
        if self.normal:
            bound /= 2**0.5  # a complex normal number has half of its variance in each part
            return {
                "real": bound * jax.random.normal(real, shape, dtype),
                "imaginary": bound * jax.random.normal(imaginary, shape, dtype),
                **dense(local, self.width, self.width, dtype),
            }
        return {
            "real": jax.random.uniform(real, shape, dtype, 0, bound),
            "imaginary": jax.random.uniform(imaginary, shape, dtype, 0, bound),
            **dense(local, self.width, self.width, dtype),
        }

    def _check(self, num_points: int) -> None:
        if num_points < 2 * self.modes:
            raise LcpinnError(
                f"an FNO of {self.modes} modes needs a grid of at least {2 * self.modes} points, "
                f"not {num_points}"
            )

    def shrunk(self) -> FNO:
        """The same kind of network at a size that trains in a moment."""
        return replace(self, width=6, modes=6, blocks=2, times=6, projection=6, grid=32)

    def words(self) -> str:
        """Its size in a few words."""
        names = ("width", "modes", "blocks", "times", "projection", "grid")
        return "FNO " + ", ".join(f"{name} {getattr(self, name)}" for name in names)

    def operator(self, params: Params, initial: Float[Array, "*b n"]) -> Float[Array, "*b times n"]:
        """The solution at all instants from initial values on the grid x_j = -1 + 2j/n."""
        num = initial.shape[-1]
        self._check(num)
        x = jnp.asarray(-1 + 2 * np.arange(num) / num, initial.dtype)
        v = jnp.stack([initial, jnp.broadcast_to(x, initial.shape)], axis=-1)
        v = _affine(params["lift"], v)
        for depth, block in enumerate(params["blocks"]):
            v = convolve(block["real"], block["imaginary"], v) + _affine(block, v)
            inner = depth < len(params["blocks"]) - 1
            v = _gelu(v) if inner or self.last_gelu else v
        first, second = params["project"]
        return jnp.swapaxes(_affine(second, _gelu(_affine(first, v))), -1, -2)

    def apply(self, params: Params, features: Series, lam: Lambda) -> Series:
        """The solution from `params["condition"]`; features are (t, x), each over [-1, 1]."""
        del lam
        values = self.operator(params, jax.lax.stop_gradient(params["condition"]))
        t, x = (Series(features.orders, features.coefficients[..., i, None]) for i in (0, 1))
        knots = jnp.asarray(spline_matrix(values.shape[-2]), values.dtype) @ values
        return _spline(t, _fourier(x, knots))

    @property
    def pointwise(self) -> bool:
        return False  # values at any point come from the whole grid, by Fourier transforms


def _affine(layer: Params, v: Array) -> Array:
    # As a product of two matrices: on a CPU its gradients take half as long.
    flat = v.reshape(-1, v.shape[-1]) @ layer["w"] + layer["b"]
    return flat.reshape(*v.shape[:-1], flat.shape[-1])


def _gelu(v: Array) -> Array:
    return jax.nn.gelu(v, approximate=False)


def convolve(
    real: Float[Array, "modes i o"], imaginary: Float[Array, "modes i o"], v: Float[Array, "*b n i"]
) -> Float[Array, "*b n o"]:
    """Multiply each of the lowest Fourier coefficients along the grid by its matrix, drop the rest.

    The factors n of the two transforms cancel: the same function on a finer grid gives the same.
    """
    kept = jnp.fft.rfft(v, axis=-2)[..., : len(real), :]
    product = jnp.einsum("...ki,kio->...ko", kept, real + 1j * imaginary)
    return jnp.fft.irfft(product, v.shape[-2], axis=-2)


# -- Between the grid points and the instants ----------------------------------------------------


def _fourier(x: Series, values: Float[Array, "k n"]) -> Series:
    """The trigonometric interpolants of k functions on the grid, at x (..., 1): (..., k)."""
    num = values.shape[-1]
    modes = jnp.fft.rfft(values, norm="forward").T
    wave = np.arange(len(modes))
    # Every coefficient stands for a pair but the first, and on an even grid the last. The grid
    # begins at x = -1, which is half a turn from where a phase of zero is.
    factor = np.where((wave == 0) | (2 * wave == num), 1, 2) * (-1.0) ** wave
    modes = modes * jnp.asarray(factor, values.dtype)[:, None]
    table = jnp.concatenate([modes.real, -modes.imag])
    slope = jnp.asarray(np.pi * np.tile(wave, 2), values.dtype)
    quarter = jnp.asarray(np.repeat([np.pi / 2, 0], len(wave)), values.dtype)  # cosines first
    return (x * slope + quarter).apply(sine) @ table


@lru_cache
def spline_matrix(num: int) -> np.ndarray:
    """From values at num equidistant instants to the num + 2 coefficients of a cubic B-spline.

    The ends are not knots: the third derivative passes through the second and last but one instant.
    """
    system = np.zeros((num + 2, num + 2))
    for i in range(num):
        system[i, i : i + 3] = 1 / 6, 4 / 6, 1 / 6
    system[num, :5] = system[num + 1, -5:] = 1, -4, 6, -4, 1
    return np.linalg.inv(system)[:, :num]


# The four cubic B-splines over one interval: coefficients of 1, s, s², s³ (rows), times 6.
_PIECES = np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]])


def _pieces(s: Array, degree: int) -> list[Array]:
    """The pieces and their derivatives, each at its own entry of s (..., 4)."""
    derivatives, powers = [], _PIECES / 6
    for _ in range(degree + 1):
        derivatives.append(jnp.polyval(jnp.asarray(powers[::-1], s.dtype), s))
        powers = powers[1:] * np.arange(1, len(powers))[:, None]
        powers = powers if len(powers) else np.zeros((1, 4))
    return derivatives


def _spline(t: Series, knots: Series) -> Series:
    """The cubic spline with coefficients (..., times + 2) at t (..., 1) in [-1, 1]: (..., 1)."""
    intervals = knots.coefficients.shape[-1] - 3
    half = jnp.asarray(intervals / 2, t.value.dtype)
    scaled = t * half + half
    interval = jnp.clip(jnp.floor(scaled.value), 0, intervals - 1)
    weights = ((scaled + -interval) * jnp.ones(4, interval.dtype)).apply(_pieces)
    where = interval.astype(jnp.int32) + jnp.arange(4)
    near = jnp.take_along_axis(knots.coefficients, where[None], axis=-1)
    return (weights * Series(t.orders, near)) @ jnp.ones((4, 1), interval.dtype)
