"""What users write into hooks in jax.numpy, as functions of a coordinate and a coefficient."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

NODES = np.linspace(0, 1, 7)

FUNCTIONS = {
    "interpolation": lambda x, k: k * jnp.interp(x, NODES, np.sin(7 * NODES)),
    "polynomial": lambda x, k: jnp.polyval(jnp.array([1.0, 2.0, k]), x),
    "where": lambda x, k: jnp.where(x > 0.5, x**2, jnp.sqrt(x) + k),
    "piecewise": lambda x, k: jnp.piecewise(x, [x < 0.3, x < 0.6], [0.0, lambda y: y * k, 1.0]),
    "powers": lambda x, k: x**k + x**2.5 + k**x + (1 + x) ** -3,
    "series": lambda x, k: jnp.sum(jnp.sin(jnp.arange(1, 6) * x) / jnp.arange(1, 6)) * k,
    "loop": lambda x, k: jax.lax.fori_loop(0, 5, lambda i, a: a + jnp.cos(i * x * k), 0.0),
    "scan": lambda x, k: jax.lax.scan(lambda c, w: (c * x + w, c), k, jnp.arange(4.0))[1].sum(),
    "running": lambda x, k: jnp.cumsum(x * jnp.arange(4.0))[-1] + jnp.cumprod(k + NODES)[2],
    "extremes so far": lambda x, k: (
        jax.lax.cummax(jnp.sin(9 * x + NODES)) + jax.lax.cummin(k * NODES, reverse=True)
    )[3],
    "cond": lambda x, k: jax.lax.cond(k > 1.0, lambda y: y * 2, lambda y: -y, x),
    "switch": lambda x, k: jax.lax.switch(
        (k * 1.5).astype(int), [lambda y: y * 2, lambda y: -y, jnp.sin], x
    ),
    "clip": lambda x, k: jnp.clip(x, 0.2, 0.7) * k,
    "error function": lambda x, k: special.erf(4 * x - 2) + special.erfc(9 * x - 3) * k,
    "activations": lambda x, k: (
        jax.nn.sigmoid(x) + jax.nn.gelu(x) + jax.nn.softplus(x) + jax.nn.relu(x - 0.5) * k
    ),
    "logarithms": lambda x, k: jnp.logaddexp(x, k) + special.logsumexp(jnp.stack([x, k, x * k])),
    "trigonometry": lambda x, k: (
        jnp.sinc(x) + jnp.tan(x) + jnp.arcsin(x) + jnp.arccos(x) + jnp.arctan2(x, k) + jnp.arctan(x)
    ),
    "hyperbolic": lambda x, k: (
        jnp.arctanh(0.9 * x) + jnp.arccosh(1 + x) + jnp.arcsinh(x) + jnp.cosh(k * x) + jnp.sinh(x)
    ),
    "exponentials": lambda x, k: (
        jnp.expm1(x) + jnp.log1p(x) + jnp.log2(1 + x) + jnp.exp2(k * x) + jax.lax.rsqrt(x + 1)
    ),
    "rounding": lambda x, k: (
        jnp.mod(5 * x, 1.0) + jnp.floor(3 * x) + jnp.round(7 * x) + jnp.ceil(2 * x) + jnp.cbrt(k)
    ),
    "whole numbers": lambda x, k: (7 * x).astype(int) // 2 + (7 * x).astype(int) % 3 + k,
    "signs": lambda x, k: jnp.sign(x - 0.5) + jnp.abs(x - k) + jnp.heaviside(x - 0.5, 0.5),
    "matrices": lambda x, k: (
        jnp.array([[1.0, x], [k, 2.0]]) @ jnp.array([[x, 1.0], [2.0, k]])
    ).sum(),
    "einsum": lambda x, k: jnp.einsum(
        "ij,jk,ki->", jnp.outer(NODES * x, jnp.asarray(NODES)), jnp.eye(7) * k, jnp.ones((7, 7))
    ),
    "norm": lambda x, k: jnp.linalg.norm(jnp.stack([x, k])) + jnp.hypot(x, k),
    "set and add": lambda x, k: (
        jnp.zeros(4).at[1].set(x).at[2].add(k).at[1].mul(3.0) @ jnp.arange(4.0)
    ),
    "look up": lambda x, k: (
        jnp.arange(9.0)[(8 * x).astype(int)] + jnp.stack([x, k, x * k])[(2 * x).astype(int)]
    ),
    "pick": lambda x, k: jnp.stack([x, 2 * x, k])[jnp.array([2, 0])].sum(),
    "window": lambda x, k: jax.lax.dynamic_slice(NODES * x, ((3 * k).astype(int),), (3,)).sum(),
    "roll": lambda x, k: (jnp.roll(NODES * x, 2) * NODES * k).sum() + jnp.flip(NODES * x)[1],
    "pad": lambda x, k: jnp.pad(jnp.stack([x, k]), (1, 2), constant_values=3.0) @ jnp.arange(5.0),
    "tile": lambda x, k: jnp.tile(jnp.stack([x, k]), 3) @ jnp.arange(6.0),
    "extremes": lambda x, k: (
        jnp.max(jnp.stack([x, k, 0.3])) + jnp.min(jnp.stack([x, 0.5])) + jnp.std(NODES * x)
    ),
    "where extreme": lambda x, k: jnp.argmax(jnp.stack([x, 0.5, k])) + jnp.argmin(k * NODES - x),
    "logic": lambda x, k: jnp.where(
        jnp.any(jnp.stack([x, k]) > 0.5) & ~jnp.all(jnp.stack([x, k]) > 0.7), x, -x
    ),
    "finite": lambda x, k: jnp.nan_to_num(jnp.log(x - 0.5), nan=k) + jnp.isfinite(x),
    "derivatives": lambda x, k: jax.grad(jax.grad(lambda y: jnp.tanh(k * y) ** 3))(x),
    "quadrature": lambda x, k: jnp.trapezoid(jnp.exp(-k * NODES * x), dx=1 / 6),
    "gamma function": lambda x, k: special.gammaln(x) + special.digamma(k + x),
    "inverse error function": lambda x, k: k * jax.lax.erf_inv(1.9 * x - 0.95),
    "repeated": lambda x, k: (
        jnp.zeros(3).at[jnp.array([1, 1, 2])].add(jnp.stack([x, k, x])) @ jnp.arange(3.0)
    ),
    "rows": lambda x, k: jnp.arange(12.0).reshape(4, 3)[(3 * x).astype(int)] @ jnp.stack([x, k, 1]),
    "gaps": lambda x, k: (
        jax.lax.pad(jnp.stack([x, k, x * k]), 0.5, [(-1, 2, 1)]) @ jnp.arange(1.0, 7)
    ),
    "random": lambda x, k: x * jax.random.normal(jax.random.key(1), (3,)).sum() + k,
    "vote": lambda x, k: jax.lax.reduce(
        jnp.stack([x, k, 0.5]), 0.25, lambda a, c: a + c - a * c, (0,)
    ),
    "constant": lambda x, k: jnp.array(3.0),
    "coordinate": lambda x, k: x,
}

WITHOUT = {  # JAX's name of what has no counterpart
    "while": lambda x, k: jax.lax.while_loop(lambda a: a < 1.0, lambda a: a * 2, x),
    "sort": lambda x, k: jnp.sort(jnp.stack([x, k]))[0],
    "float32": lambda x, k: x.astype(jnp.float32),
    "complex128": lambda x, k: jnp.real(jnp.exp(1j * x)),
    "call back": lambda x, k: (jax.debug.print("{}", x), x)[1],
    "getrf": lambda x, k: jnp.linalg.det(jnp.stack([x, k, x * k, 1 + x] * 4).reshape(4, 4)),
    "computed": lambda x, k: jnp.zeros(3).at[(2 * x).astype(int)].set(k)[1],
    "loop is too long": lambda x, k: jax.lax.fori_loop(
        0, 10**6, lambda i, a: jnp.sin(a) * 2 + jnp.cos(a), x
    ),
}


def over_points(function):
    """The function of (points, parameters, weights) that a program is traced from."""
    one = lambda point, parameters: jnp.atleast_1d(function(point[0], parameters[0]) * 1.0)
    return lambda points, parameters, weights: jax.vmap(one, (0, None))(points, parameters)
