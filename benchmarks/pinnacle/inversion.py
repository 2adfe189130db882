"""Coordinates inverted in balls, for pages that say themselves what their network sees."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

SCALE = 0.2  # as lcpinn.shape.holes has it: beside coordinates in [-1, 1] slower units suffice


def inverted(point: Sequence[Array], balls: Sequence[Sequence[float]]) -> list[Array]:
    """Of each ball (centre, radius) the coordinates inverted in it and the potential of its centre.

    Of x = (point - centre) / radius: x / |x|² and log |x|, in three dimensions 1 / |x|.
    """
    seen = []
    for *centre, radius in balls:
        offsets = [(v - c) / radius for v, c in zip(point, centre, strict=True)]
        square = sum(offset**2 for offset in offsets)
        potential = jnp.log(square) / 2 if len(offsets) == 2 else 1 / jnp.sqrt(square)
        seen += [*(offset / square for offset in offsets), potential]
    return [SCALE * value for value in seen]
