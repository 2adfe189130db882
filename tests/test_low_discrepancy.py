"""Sobol's and Halton's sequences, against SciPy's."""

import numpy as np
import pytest
from scipy.stats import qmc

from lcpinn.low_discrepancy import halton, sobol
from lcpinn.quadrature import unit_sobol


@pytest.mark.parametrize("dim", [1, 2, 7, 24, 25])
@pytest.mark.parametrize("num", [1, 2, 5, 1000])
def test_sobol_points_are_those_of_scipy_to_the_bit(dim, num):
    for seed in (0, 1009):
        theirs = qmc.Sobol(dim, scramble=True, rng=seed).random(1 << (num - 1).bit_length())[:num]
        np.testing.assert_array_equal(sobol(num, dim, seed), theirs)


def test_no_points_and_no_dimensions():
    assert unit_sobol(0, 3, 0).shape == (0, 3)
    assert unit_sobol(5, 0, 0).shape == (5, 0)


@pytest.mark.parametrize("dim", [1, 3, 16, 17])
def test_halton_points_are_those_of_scipy(dim):
    ours = np.array([halton(index, dim) for index in range(50)])
    np.testing.assert_allclose(ours, qmc.Halton(dim, scramble=False).random(50), rtol=1e-14)
