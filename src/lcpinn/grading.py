"""Grading: places of rows that lie denser towards a layer, for `collocate` of a page."""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array


def graded(distance: ArrayLike, width: ArrayLike, power: int = 3) -> Array:
    """Distances in [0, 1] that are spread evenly, moved towards zero.

    Their density then goes with (distance + width)^(1/power - 1), as that of the nodes of graded
    meshes does. With a width of 0.01 and the third power it is nine times what it was within the
    layer and 0.4 times at the far end, so that rows resolve the one without leaving the other: of
    even rows a layer as thin has one in a hundred, and between so few of them a network is free.
    """
    width = jnp.asarray(width)
    near, far = width ** (1 / power), (1 + width) ** (1 / power)
    return (near + jnp.asarray(distance) * (far - near)) ** power - width
