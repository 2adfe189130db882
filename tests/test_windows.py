"""Ordinary equations from their initial values on: long, stiff, backwards, and those that end."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lcpinn as lc


class Predators(lc.Family):
    """u' = a u - u v, v' = u v - v, for three periods."""

    domain = lc.Box(t=(0.0, 20.0))
    parameters = lc.Uniform(a=(0.5, 1.5))
    outputs = ("u", "v")

    @lc.interior
    def equation(self, u, v, u_t, v_t, a):
        return u_t - a * u + u * v, v_t + v - u * v

    @lc.on(t=0.0)
    def start(self, u, v):
        return u - 2.0, v - 1.0


class VanDerPol(lc.Family):
    """u'' = m (1 - u²) u' - u: relaxations that take thousands of functions in one expansion."""

    domain = lc.Box(t=(0.0, 20.0))
    parameters = lc.LogUniform(m=(0.5, 10.0))

    @lc.interior
    def equation(self, u, u_t, u_tt, m):
        return u_tt - m * (1 - u**2) * u_t + u

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 2.0, u_t


class Robertson(lc.Family):
    """Robertson's three species, one of them by the balance of all."""

    domain = lc.Box(t=(0.0, 40.0))
    parameters = lc.LogUniform(k=(1e3, 3e4))
    outputs = ("a", "b", "c")

    @lc.interior
    def equation(self, a, b, c, a_t, b_t, k):
        return a_t + 0.04 * a - k * b * c, b_t - 0.04 * a + k * b * c + 3e7 * b * b, a + b + c - 1

    @lc.on(t=0.0)
    def start(self, a, b):
        return a - 1.0, b


class Backwards(lc.Family):
    """u' = u (1 - u) k, known at the end."""

    domain = lc.Box(t=(0.0, 10.0))
    parameters = lc.Uniform(k=(0.5, 2.0))

    @lc.interior
    def equation(self, u, u_t, k):
        return u_t - k * u * (1 - u)

    @lc.on(t=10.0)
    def end(self, u):
        return u - 0.99


class Explosion(lc.Family):
    """u' = k u², u(0) = 1: there is no solution after t = 1 / k."""

    domain = lc.Box(t=(0.0, 2.0))
    parameters = lc.Uniform(k=(0.1, 2.0))

    @lc.interior
    def equation(self, u, u_t, k):
        return u_t - k * u**2

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0


def integrated(function, end, start, times):
    return solve_ivp(function, (0, end), start, "Radau", times, rtol=1e-10, atol=1e-12).y


def test_three_periods_of_a_nonlinear_system():
    times = np.linspace(0, 20, 101)
    solved = lc.solve(Predators(), a=1.0)
    truth = integrated(lambda t, y: [y[0] - y[0] * y[1], y[0] * y[1] - y[1]], 20, [2, 1], times)
    assert solved.error < 1e-8
    for name, values in zip(("u", "v"), truth, strict=True):
        np.testing.assert_allclose(solved(t=times)[name], values, atol=1e-7)


@pytest.mark.slow
def test_relaxations():
    times = np.linspace(0, 20, 101)
    solved = lc.solve(VanDerPol(), m=10.0, tolerance=1e-6)
    truth = integrated(lambda t, y: [y[1], 10 * (1 - y[0] ** 2) * y[1] - y[0]], 20, [2, 0], times)
    assert solved.error < 1e-6
    np.testing.assert_allclose(solved(t=times), truth[0], atol=1e-5)


@pytest.mark.slow
def test_a_stiff_system_with_a_balance():
    """Values of Hairer and Wanner's and everybody's table, at t = 0.4, 4 and 40."""
    solved = lc.solve(Robertson(), k=1e4, tolerance=1e-6)
    values = solved(t=np.array([0.4, 4.0, 40.0]))
    np.testing.assert_allclose(values["a"], [0.98517, 0.90552, 0.71583], atol=1e-5)
    np.testing.assert_allclose(values["b"], [3.3864e-5, 2.2405e-5, 9.1855e-6], rtol=1e-4)


def test_from_the_end_to_the_beginning():
    solved, times = lc.solve(Backwards(), k=1.0), np.linspace(0, 10, 41)
    odds = 99.0 * np.exp(times - 10.0)
    np.testing.assert_allclose(solved(t=times), odds / (1 + odds), rtol=1e-7)


def test_what_ends_before_the_domain_does_is_refused():
    assert lc.solve(Explosion(), k=0.4)(t=2.0) == pytest.approx(1 / (1 - 0.8), rel=1e-8)
    with pytest.raises(lc.LcpinnError, match="not resolved at k = 1"):
        lc.solve(Explosion(), k=1.0)
