"""Grading: places of rows that lie denser towards a layer, for `collocate` of a page."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array


def graded(distance: Array | float, width: Array | float, power: int = 3) -> Array:
    """Distances in [0, 1] that are spread evenly, moved towards zero.

    Their density then goes with (distance + width)^(1/power - 1), as that of the nodes of graded
    meshes does. With a width of 0.01 and the third power it is nine times what it was within the
    layer and 0.4 times at the far end, so that rows resolve the one without leaving the other: of
    even rows a layer as thin has one in a hundred, and between so few of them a network is free.
    """
    near, far = jnp.asarray(width) ** (1 / power), (1 + jnp.asarray(width)) ** (1 / power)
    return (near + jnp.asarray(distance) * (far - near)) ** power - width
