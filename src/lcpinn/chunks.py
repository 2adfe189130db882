"""Rows in chunks: how many fit into memory at once, and functions of rows mapped or summed so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lcpinn.sampling import Points

Result = TypeVar("Result")

# Bytes that a Jacobian's intermediates may take on a CPU and on an accelerator; what needs more
# comes in chunks. An eighth of it is the Jacobian of a chunk, thousands of rows even for tens of
# thousands of parameters: matrix products of that height run as fast as taller ones.
MEMORY = {"cpu": 2 << 30}
ACCELERATOR_MEMORY = 24 << 30
COPIES = 8  # of the parameters, and of every hidden value, that a reverse pass keeps per row


def rows_at_once(num_params: int, itemsize: int) -> int:
    """How many rows may have their reverse passes at the same time."""
    budget = MEMORY.get(jax.default_backend(), ACCELERATOR_MEMORY)
    return max(1, budget // (COPIES * num_params * itemsize))


def map_chunks(function: Callable[[Points], Result], points: Points, size: int) -> Result:
    """A function of points, row by row along the first axis, asked for `size` of them at a time."""
    num = num_points(points)
    if num <= size:
        return function(points)
    results = jax.lax.map(function, _split(points, size))
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:num], results)


def sum_chunks(function: Callable[[Points], Result], points: Points, size: int) -> Result:
    """The sum of a function over chunks of `size` points; it adds up over points itself."""
    if num_points(points) <= size:
        return function(points)
    chunks = _split(points, size)
    one = jax.eval_shape(function, jax.tree.map(lambda a: a[0], chunks))
    zero = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), one)

    def add(total: Result, chunk: Points) -> tuple[Result, None]:
        return jax.tree.map(jnp.add, total, function(chunk)), None

    return jax.lax.scan(add, zero, chunks)[0]


def num_points(points: Points) -> int:
    return points.coordinates.shape[0]


def padded(points: Points, num: int) -> Points:
    """So many points: the last one again and again, with a weight that no sum notices.

    Not zero, since a row has the root of its weight as a factor, which may be differentiated.
    """
    missing = num - num_points(points)
    if missing == 0:
        return points
    longer = jax.tree.map(lambda a: _repeat_last(a, missing), points)
    limits = jnp.finfo(points.quadrature.dtype)
    negligible = jnp.asarray(limits.tiny / limits.eps, points.quadrature.dtype)
    return longer._replace(quadrature=longer.quadrature.at[-missing:].set(negligible))


def _split(points: Points, size: int) -> Points:
    """Equal chunks of at most `size`, along a new first axis."""
    count = -(-num_points(points) // size)
    equal = -(-num_points(points) // count)
    full = padded(points, count * equal)
    return jax.tree.map(lambda a: a.reshape(count, equal, *a.shape[1:]), full)


def _repeat_last(array: Array, times: int) -> Array:
    last = jnp.broadcast_to(array[-1:], (times, *array.shape[1:]))
    return jnp.concatenate([array, last])
