"""Rows that lie denser towards a layer."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import lcpinn as lc
from lcpinn.families import Burgers

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("power", [2, 3])
def test_density_is_that_of_a_graded_mesh(power: int) -> None:
    """Between two distances lie as many as the integral of (q + width)^(1/power - 1) has there."""
    width, even = 0.01, (np.arange(100_000) + 0.5) / 100_000
    moved = np.asarray(lc.graded(even, width, power))
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert np.all(np.diff(moved) > 0)
    share = lambda q: (q + width) ** (1 / power) - width ** (1 / power)
    for low, high in ((0.0, 0.01), (0.01, 0.1), (0.5, 1.0)):
        measured = np.mean((moved >= low) & (moved < high))
        assert measured == pytest.approx((share(high) - share(low)) / share(1.0), rel=1e-2)


def test_ends_stay_where_they_are() -> None:
    assert np.asarray(lc.graded(np.array([0.0, 1.0]), 0.02)) == pytest.approx([0, 1], abs=1e-14)


def test_rows_of_burgers_stay_inside() -> None:
    family = Burgers()
    points = np.asarray(family.domain.sobol(4096, 0))
    middle = np.asarray(family.parameters.from_unit(np.full(family.parameters.dim, 0.5)))
    move = jax.vmap(lambda p: family.call("collocate", p, middle))
    moved = np.asarray(move(points))
    assert np.all(family.domain.covers(moved, middle))
    assert np.mean(np.abs(moved[:, 1]) < 0.01) > 5 * np.mean(np.abs(points[:, 1]) < 0.01)
