"""Ordinary equations with many functions, as banded matrices."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import lcpinn as lc
from benchmarks.zoo.layers import InteriorLayer
from lcpinn.precision import double
from lcpinn.spectral.basis import Axis
from lcpinn.spectral.expansion import Expansion
from lcpinn.spectral.least_squares import dense
from lcpinn.spectral.linearisation import about_zero, linearised, zeroth
from lcpinn.spectral.transforms import series_of, transforms, values_of
from lcpinn.spectral.ultraspherical import banded_solution


class Coupled(lc.Family):
    """An equation of second order with one of first, coefficients that vary, mixed conditions."""

    domain = lc.Box(x=(0.5, 2.0))
    parameters = lc.Uniform(a=(1.0, 2.0))
    outputs = ("u", "v")

    @lc.interior
    def first(self, u_x, u, v, x, a):
        return v * jnp.sin(x) + u_x - a * u - jnp.cos(x)

    @lc.interior
    def second(self, u, v_x, v_xx, x):
        return v_xx / x + x * v_x - jnp.exp(x) * u - 1.0

    @lc.on(x=0.5)
    def left(self, u, v_x, v):
        return u - 1.0, v_x + 2 * v

    @lc.on(x=2.0)
    def right(self, u, v):
        return v - 3.0


class Beam(lc.Family):
    """u'''' = k u + 1, clamped at one end and free at the other."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u, u_xxxx, x, k):
        return u_xxxx - k * x * u - 1

    @lc.on(x=0.0)
    def clamped(self, u, u_x):
        return u, u_x

    @lc.on(x=1.0)
    def free(self, u_xx, u_xxx):
        return u_xx, u_xxx


class Open(Beam):
    """With a condition less than integrations."""

    @lc.on(x=1.0)
    def free(self, u_xx):
        return u_xx


class Bent(Beam):
    """With a coefficient that has no short series."""

    @lc.interior
    def equation(self, u, u_xxxx, x, k):
        return u_xxxx - k * jnp.abs(x - 0.3) * u - 1


def rows_of(family, num):
    terms = linearised(family)
    expansion = Expansion(terms, [num])
    at = about_zero(terms, [1.5])
    return expansion, expansion.rows(at, expansion.zero, expansion.base(at))


def test_banded_and_dense_matrices_have_the_same_solution():
    with double():
        expansion, blocks = rows_of(Coupled(), 200)
    both = [banded_solution(blocks), dense(blocks).coefficients]
    banded, written_out = (expansion.values(c.reshape(expansion.zero.shape)) for c in both)
    assert expansion.relative(banded - written_out, written_out) < 1e-11


def test_derivatives_of_high_order_lose_no_digits():
    """A dense matrix loses seven of a beam's, and more with more functions."""
    values = []
    for num in (40, 400):
        with double():
            expansion, blocks = rows_of(Beam(), num)
        coefficients = banded_solution(blocks).reshape(1, num)
        values.append(expansion.basis.evaluate(coefficients, np.ones((1, 1)), zeroth(1)).item())
    assert values[1] == pytest.approx(values[0], rel=1e-11)


@pytest.mark.parametrize("family", [Open, Bent])
def test_there_is_no_banded_matrix_without_as_many_conditions_or_short_series(family):
    with double():
        _, blocks = rows_of(family(), 200)
    assert banded_solution(blocks) is None


def test_a_layer_that_takes_eight_thousand_functions():
    """Which the solver itself resolves by a few hundred, on elements."""
    w, terms = 1e-3, linearised(InteriorLayer())
    with double():
        expansion, at = Expansion(terms, (8500,), np.array([w])), about_zero(terms, [w])
        blocks = expansion.rows(at, expansion.zero, expansion.base(at))
        solution = banded_solution(blocks).reshape(1, -1)
    x = np.concatenate([np.linspace(-1, 1, 201), np.linspace(-5 * w, 5 * w, 201)])
    values = expansion.basis.evaluate(solution, x[:, None], zeroth(1))[0, :, 0]
    np.testing.assert_allclose(values, scipy.special.erf(x / (np.sqrt(2) * w)), atol=1e-12)


def test_transforms_are_those_of_the_tables():
    axis = Axis(-1.0, 3.0, False, 12)
    series = np.random.default_rng(0).standard_normal((12, 2))
    values = axis.values(axis.nodes(), 0) @ series
    np.testing.assert_allclose(values_of(series, len(values)), values, atol=1e-13)
    np.testing.assert_allclose(series_of(values)[:12], series, atol=1e-13)
    assert transforms(axis)
    assert not transforms(Axis(-1.0, 3.0, True, 12))
    assert not transforms(Axis(-1.0, 3.0, False, 12, integrated=2))
