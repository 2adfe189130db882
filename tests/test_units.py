"""Pages in units of their own: SI pages are trained as dimensionless ones are."""

import jax.numpy as jnp
import numpy as np
import pytest
from toy import Annulus, Decay, Spiral

import lcpinn as lc
from benchmarks.zoo import ZOO
from lcpinn.families import FAMILIES
from lcpinn.jet import Orders, Series
from lcpinn.network import MLP, FiLM, Units
from lcpinn.precision import double
from lcpinn.protocol.magnitudes import units_of
from lcpinn.rows import Problem
from lcpinn.spec import from_plain, to_plain


class Cooling(lc.Family):
    """ρ c T' = -h (T - 293) / d: a hot plate of 900 K cools within an hour, in SI units."""

    domain = lc.Box(t=(0.0, 3600.0))
    parameters = lc.Uniform(h=(5.0, 25.0))
    outputs = ("T",)

    @lc.interior
    def equation(self, T, T_t, h):
        return 7800.0 * 460.0 * 0.005 * T_t + h * (T - 293.0)

    @lc.on(t=0.0)
    def start(self, T):
        return T - 900.0

    def exact(self, t, h):
        return 293.0 + 607.0 * jnp.exp(-h * t / (7800.0 * 460.0 * 0.005))


class Beam(lc.Family):
    """E I w'''' = q: a steel beam of six metres, deflections from micrometres to decimetres."""

    domain = lc.Box(x=(0.0, 6.0))
    parameters = lc.LogUniform(I=(1e-6, 1e-4)) & lc.Uniform(q=(1e3, 2e4))
    outputs = ("w",)

    @lc.interior
    def bending(self, w_xxxx, I, q):  # noqa: E741  (as engineers call it)
        return 210e9 * I * w_xxxx - q

    @lc.on(x=(0.0, 6.0))
    def supports(self, w, w_xx):
        return w, w_xx

    def exact(self, x, I, q):  # noqa: E741
        return q * x * (216.0 - 12.0 * x**2 + x**3) / (24 * 210e9 * I)


class Loaded(lc.Family):
    """u'' + u = q x, u = 0 at both ends, under loads of both signs: nothing at q = 0."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(q=(-1.0, 1.0))

    @lc.interior
    def equation(self, u_xx, u, x, q):
        return u_xx + u - q * x

    @lc.on(x=(0.0, 1.0))
    def ends(self, u):
        return u

    def exact(self, x, q):
        return q * (x - jnp.sin(x) / jnp.sin(1.0))


class Radiating(lc.Family):
    """k T'' = 0 in a wall that radiates: -k T' = ε σ T⁴ at its cold side."""

    domain = lc.Box(x=(0.0, 0.1))
    parameters = lc.Uniform(e=(0.1, 0.9))
    outputs = ("T",)

    @lc.interior
    def equation(self, T_xx):
        return 50.0 * T_xx

    @lc.on(x=0.0)
    def hot(self, T):
        return T - 1500.0

    @lc.on(x=0.1)
    def radiates(self, T, T_x, e):
        return 50.0 * T_x + e * 5.67e-8 * T**4


class Glowing(Radiating):
    """The same with the radiation inside: 50 T'' = ε σ T⁴ / d."""

    @lc.interior
    def equation(self, T, T_xx, e):  # pyright: ignore[reportIncompatibleMethodOverride]
        return 50.0 * T_xx - e * 5.67e-7 * T**4

    @lc.on(x=0.1)
    def radiates(self, T_x):  # pyright: ignore[reportIncompatibleMethodOverride]
        return T_x


def test_a_page_without_dimensions_keeps_its_units():
    for family in (Decay(), Spiral(), Annulus()):
        assert units_of(family) is None


@pytest.mark.slow
def test_results_do_not_change_for_units():
    """Whatever results/ has was trained without."""
    for make in (FAMILIES | ZOO).values():
        assert units_of(make()) is None


def test_a_level_and_a_deviation_are_found():
    units = units_of(Cooling())
    t, h = np.meshgrid(np.linspace(0, 3600, 201), np.linspace(5, 25, 41))
    truth = np.asarray(Cooling().exact(t, h))
    assert units is not None
    assert units.degree == 0  # nearly the same for every h
    assert abs(units.levels[0] - truth.mean()) < 0.2 * truth.std()
    assert np.exp(units.log_sizes[0][0]) == pytest.approx(truth.std(), rel=0.2)


def test_sizes_follow_the_coefficients_over_decades(x64):
    family, x = Beam(), np.linspace(0, 6, 201)
    units = units_of(family)
    assert units is not None
    assert units.levels == (0.0,)
    settings = np.array(family.parameters.sobol(50, seed=3))
    sizes = np.asarray(units.sizes(family.parameters.normalise(settings), np.dtype(float)))[:, 0]
    truth = [np.sqrt(np.mean(np.square(family.exact(x, *lam)))) for lam in settings]
    assert max(truth) > 200 * min(truth)
    assert np.max(np.abs(np.log(sizes / truth))) < np.log(2.0)


def test_where_a_load_passes_through_zero_sizes_have_no_valley():
    """A parabola through the logarithms would be ten thousand times as deep in the middle."""
    units = units_of(Loaded())
    assert units is not None
    assert units.degree == 0
    x = np.linspace(0, 1, 101)
    largest = np.sqrt(np.mean(np.square(np.asarray(Loaded().exact(x, 1.0)))))
    assert 0.3 * largest < np.exp(units.log_sizes[0][0]) <= largest


@pytest.mark.slow
def test_a_family_with_nothing_in_its_middle_is_solved(optimised):
    """Beside nothing no error is small: beside a thousandth of the largest solution it can be."""
    family = Loaded()
    solution = lc.train(family, lc.protocol.fast(family, steps=25), progress=False, report=False)
    assert solution.verdict.solved
    assert solution.verdict.error < 1e-5
    x = np.linspace(0, 1, 11)
    scale = np.abs(family.exact(x, 1.0)).max()
    with double():
        assert np.abs(solution(x=x, q=0.0)).max() < 1e-7 * scale


def test_outputs_are_in_these_units(x64):
    log_sizes = ((np.log(2.0), np.log(5.0)), (0.0, 0.0), (0.5, 0.0))  # 1, T1(b), T1(a)
    plain = MLP((5,), "tanh", FiLM(0, 2))
    scaled = MLP((5,), "tanh", FiLM(0, 2), units=Units((3.0, 0.0), log_sizes, degree=1))
    params = Problem(Spiral(), plain, np.float64).init(jnp.array([0, 7], jnp.uint32))
    orders = Orders.closure([(1,)], 1)
    features = Series(orders, jnp.asarray([[[0.2], [0.4]], [[1.0], [1.0]]]))
    lam = {"parameters": jnp.asarray([[0.3, 0.9], [-0.6, 0.1]])}
    before, after = (n.apply(params, features, lam).coefficients for n in (plain, scaled))
    factor = np.array([[2 * np.exp(0.15), 5.0], [2 * np.exp(-0.3), 5.0]])
    np.testing.assert_allclose(after[0], np.array([3.0, 0.0]) + factor * before[0], rtol=1e-14)
    np.testing.assert_allclose(after[1], factor * before[1], rtol=1e-14)  # slopes have no level
    assert from_plain(to_plain(scaled)) == scaled


@pytest.mark.slow
def test_si_units_cost_no_digits(optimised):
    """Without units the same steps leave it wrong by all of itself: 500 K is far from one."""
    family = Cooling()
    protocol = lc.protocol.fast(family, steps=25)
    solution = lc.train(family, protocol, progress=False, report=False)
    assert solution.evaluate()["dense_max"] < 1e-8


def test_radiation_is_not_linear():
    assert Cooling().is_linear()
    assert not Radiating().is_linear()
    assert Radiating().is_linear(inside=True)
    assert not Glowing().is_linear(inside=True)  # 5.67e-8 T⁴ is nothing at T = 1


def test_a_radiating_wall_is_solved_by_newtons_method():
    solved = lc.solve(Radiating(), e=0.5)
    cold = float(solved(x=0.1))
    assert 50.0 * (1500.0 - cold) / 0.1 == pytest.approx(0.5 * 5.67e-8 * cold**4, rel=1e-10)
    assert solved.error < 1e-8
