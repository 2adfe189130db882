"""Piecewise polynomials in one coordinate: jumps, layers, and networks with kinks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_explorer import compared, untrained
from toy import quick

import lcpinn as lc
from benchmarks.zoo.layers import InteriorLayer
from lcpinn.network import MLP
from lcpinn.precision import double
from lcpinn.protocol.gauss_newton import fast
from lcpinn.rows import Problem
from lcpinn.sampling import Points
from lcpinn.spectral.basis import Axis, TensorBasis
from lcpinn.spectral.elements import ElementAxis
from lcpinn.spectral.family_solver import FamilySolver, in_one_basis
from lcpinn.spectral.linearisation import linearised

BREAKS = (0.1, 0.3, 1.2)
PLACE = 0.3


class Wall(lc.Family):
    """k(x) T' + q = 0, q' = 0, with k = 1 and, from x = 0.3 on, k = c."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(c=(2.0, 5.0))
    outputs = ("T", "q")

    @lc.interior
    def flux(self, T_x, q, q_x, x, c):
        return jnp.where(x < PLACE, 1.0, c) * T_x + q, q_x

    @lc.on(x=0.0)
    def warm(self, T):
        return T - 1.0

    @lc.on(x=1.0)
    def cold(self, T):
        return T

    def exact(self, x, c):
        q = 1 / (PLACE + (1 - PLACE) / c)
        return 1 - q * jnp.where(x < PLACE, x, PLACE + (x - PLACE) / c), q


class Steep(Wall):
    """The same with a conductivity that is steep and does not jump."""

    @lc.interior
    def flux(self, T_x, q, q_x, x, c):
        return (1 + (c - 1) * (1 + jnp.tanh(400 * (x - PLACE))) / 2) * T_x + q, q_x


class Moving(Wall):
    """A jump whose place is the coefficient."""

    @lc.interior
    def flux(self, T_x, q, q_x, x, c):
        return jnp.where(x < c / 10, 1.0, 2.0) * T_x + q, q_x


@pytest.mark.parametrize("order", [1, 2, 4])
def test_derivatives_of_integrals_are_those_of_the_functions(order):
    axis = ElementAxis.with_degree(-0.5, 2.0, order, BREAKS, 5)
    middles = (axis.edges[1:] + axis.edges[:-1]) / 2
    step = 1e-5
    for below in range(order):
        ahead, behind = axis.values(middles + step, below), axis.values(middles - step, below)
        slopes = axis.values(middles, below + 1)
        np.testing.assert_allclose(
            (ahead - behind) / (2 * step), slopes, atol=1e-5 * np.abs(slopes).max()
        )
        for end in BREAKS:  # continuous below the order of the equation
            left, right = axis.values(np.array([end - 1e-12, end + 1e-12]), below)
            np.testing.assert_allclose(left, right, atol=1e-8)


def test_the_same_table_by_jax():
    axis = ElementAxis.with_degree(0.0, 1.0, 2, (0.25,), 4)
    x = np.linspace(0, 1, 9)
    with double():
        np.testing.assert_allclose(
            axis.table(jnp.asarray(x), 1, jnp), axis.values(x, 1), atol=1e-13
        )


@pytest.mark.parametrize("order", [1, 3])
def test_a_polynomial_is_the_same_in_elements(order):
    axis, chebyshev = (
        ElementAxis.with_degree(-0.5, 2.0, order, BREAKS, 6),
        Axis(-0.5, 2.0, False, 6),
    )
    coefficients = np.random.default_rng(0).normal(size=(2, 6))
    x = np.linspace(-0.5, 2.0, 50)
    projected = axis.projected(coefficients, chebyshev)
    expected = chebyshev.values(x, 0) @ coefficients.T
    np.testing.assert_allclose(axis.values(x, 0) @ projected.T, expected, atol=1e-12)


def test_a_jump_is_found_where_it_is():
    assert linearised(Wall()).jumps == (PLACE,)


@pytest.mark.parametrize("family", [Steep, Moving])
def test_what_is_steep_or_moves_is_no_jump(family):
    assert linearised(family()).jumps == ()


def test_a_wall_of_two_layers_is_solved_to_rounding():
    family = Wall()
    solved, x = lc.solve(family, c=3.0), np.linspace(0, 1, 41)
    truth = family.truth(x[:, None], np.array([3.0]))
    value = solved(x=x)
    np.testing.assert_allclose(np.stack([value["T"], value["q"]], -1), truth, atol=1e-12)
    assert solved.error < 1e-10


def test_a_layer_takes_elements_and_not_thousands_of_functions():
    family, x = InteriorLayer(), np.linspace(-1, 1, 4001)
    solved = lc.solve(family, w=1e-3)
    truth = family.truth(x[:, None], np.array([1e-3]))[:, 0]
    assert np.abs(solved(x=x) - truth).max() < 1e-9
    assert solved.resolution["x"] < 600


def test_solutions_with_elements_and_without_are_put_into_one_basis():
    family = InteriorLayer()
    solver, settings = FamilySolver(family, 1e-8), np.array([[0.5], [2e-3]])
    for setting in settings:
        solver(setting)
    both = in_one_basis(family, settings, solver.solved)
    x = np.linspace(-1, 1, 401)[:, None]
    for values, setting in zip(both(x), settings, strict=True):
        np.testing.assert_allclose(values, family.truth(x, setting), atol=1e-6)


def test_a_network_has_kinks_where_it_is_told():
    family = Wall()
    network = fast(family).network
    assert isinstance(network, MLP)
    assert network.kinks == pytest.approx((2 * PLACE - 1,))
    with double():
        problem = Problem(family, MLP(widths=(5,), kinks=network.kinks), np.float64)
        params = problem.drawing(once=True)(jax.random.PRNGKey(0))
        assert params["layers"][0]["w"].shape == (2, 5)
        orders = family.orders(family.all_terms.values())
        step, nothing = 1e-7, jnp.zeros((1, 0))
        x = jnp.array([PLACE - step, PLACE + step])[None, :, None]
        points = Points(x, jnp.full((1, 1), 3.0), nothing, jnp.ones((1, 2)), jnp.zeros((1, 2, 0)))
        series = np.asarray(quick(lambda p: problem.outputs(p, points, orders))(params))
    values, slopes = series[0, 0], series[1, 0]
    np.testing.assert_allclose(values[0], values[1], atol=1e-5)
    assert np.abs(slopes[0] - slopes[1]).max() > 1e-3


def test_a_network_with_kinks_goes_into_a_page_and_not_into_arrays(tmp_path):
    solution = untrained(Wall(), MLP(widths=(5,), kinks=(2 * PLACE - 1,)))
    mine, theirs = compared(solution, solution.to_program())
    np.testing.assert_allclose(mine, theirs, atol=1e-12)
    with pytest.raises(lc.LcpinnError, match=r"kinks.* export it to \.onnx"):
        solution.to_arrays(tmp_path / "u.npz")


def test_no_family_without_jumps_gets_kinks():
    network = fast(InteriorLayer()).network
    assert isinstance(network, MLP)
    assert network.kinks == ()


def test_an_interpolant_has_polynomials_over_the_whole_coordinate():
    solver = FamilySolver(InteriorLayer(), 1e-8, elements=False)
    basis = solver(np.array([3e-3])).expansion.basis
    assert isinstance(basis, TensorBasis)
    assert basis.breaks == ()
    with pytest.raises(lc.LcpinnError, match="in pieces"):
        lc.train(Wall(), lc.protocol.interpolant(Wall()), progress=False, report=False)
