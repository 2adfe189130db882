"""The medium of Heat 2d-VC: how far, about, a point is from where the conductivity jumps."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.ndimage import distance_transform_edt, gaussian_filter

INTERVALS = 128  # of the splines, along each side
SMOOTH = 1.0  # standard deviation of the smoothing, in cells


def signed_distance(high: np.ndarray) -> np.ndarray:
    """At the nodes of cubic B-splines (n + 3, n + 3): positive where `high`; rows along y.

    The distance from the other medium's nearest cell, smoothed: islands of a few cells vanish.
    """
    size = len(high)
    inside, outside = (np.asarray(distance_transform_edt(part)) for part in (high, ~high))
    smooth = gaussian_filter((inside - outside) / size, SMOOTH, mode="nearest")
    nodes = np.arange(-1, INTERVALS + 2) * (size // INTERVALS)
    nearest = np.clip(nodes, 0, size - 1)
    return smooth[np.ix_(nearest, nearest)]


def at_point(values: np.ndarray, x: Array, y: Array) -> Array:
    """The sum of B-splines with these values at a point of the unit square."""
    (row, across), (column, along) = _weights(y), _weights(x)
    near = jnp.asarray(values)[row + jnp.arange(4)[:, None], column + jnp.arange(4)]
    return across @ near @ along


def _weights(place: Array) -> tuple[Array, Array]:
    """The first of the four splines that are not zero at a place, and their values there."""
    scaled = INTERVALS * place
    first = jnp.clip(jnp.floor(scaled), 0, INTERVALS - 1).astype(int)
    f = scaled - first
    cubic = [(1 - f) ** 3, 3 * f**3 - 6 * f**2 + 4, -3 * f**3 + 3 * f**2 + 3 * f + 1, f**3]
    return first, jnp.stack(cubic) / 6
