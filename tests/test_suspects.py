"""Settings of several coefficients that are judged first: those with the largest residuals."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Decay

import lcpinn as lc
from lcpinn.certificate import Estimate
from lcpinn.network import MLP
from lcpinn.rows import Problem
from lcpinn.suspects import FEW, Suspects
from lcpinn.verdict import MANY, Judge, from_estimates

NAMES = tuple("abcdef")
CORNER = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])


class Loaded(lc.Family):
    """u'' = a x + b + c x² + ..., for six loads."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(**dict.fromkeys(NAMES, (-1.0, 1.0)))

    @lc.interior
    def equation(self, u_xx, x, a, b, c, d, e, f):
        return u_xx - a * x - b - c * x**2 - d * x**3 - e * x**4 - f * x**5

    @lc.on(x=(0.0, 1.0))
    def held(self, u):
        return u


class Network:
    """In place of one: residuals that are small but for those of one term near a corner."""

    def __init__(self, term="equation"):
        self.family, self.dtype, self.term = Loaded(), jnp.float32, term
        self.network = SimpleNamespace(doubtful=lambda params: None)

    def residuals(self, params, batch):
        every = {}
        for name, points in zip(("equation", "held"), batch.values(), strict=True):
            away = jnp.sum(jnp.abs(points.parameters - CORNER.astype(np.float32)), axis=-1)
            size = 1e-3 * (1 + (100.0 if name == self.term else 0.0) * jnp.exp(-away))
            size = size * (1.0 if name == "equation" else 1e-4)
            every[name] = (
                params["size"] * size[:, None, None] * jnp.ones((*points.coordinates.shape[:2], 1))
            )
        return every


@pytest.mark.parametrize("term", ["equation", "held"])
def test_the_corner_where_a_term_does_not_hold_comes_first(term):
    """However small that term is beside another."""
    suspects = Suspects(Network(term))  # pyright: ignore[reportArgumentType]
    found = suspects({"size": jnp.ones(())})
    assert found.shape == (FEW, 6)
    assert found[0] == pytest.approx(CORNER)


def test_a_verdict_on_many_settings_begins_with_them():
    """At random it would take 64 corners to meet this one."""
    network, looked = Network(), []

    def estimator(params, lam, shots, **how):
        looked.append(lam)
        error = 1e-3 if np.allclose(lam, CORNER) else 1e-8
        return Estimate(error, "", None)

    judge: Any = Judge.__new__(Judge)
    judge.problem, judge._estimator, judge.enough = network, estimator, 1e-7
    judge.tolerance, judge._mean_square = 1e-6, lambda params, lam: np.ones(1)
    judge.few, judge.seconds, judge._suspects, judge._draws = 3, 0.0, [], None
    verdict = from_estimates(judge({"size": jnp.ones(())}, num=MANY, last=True), 1e-6, judge.few)
    assert verdict.solved is False
    assert list(verdict.at.values()) == pytest.approx(CORNER)
    assert looked[0] == pytest.approx(CORNER)
    looked.clear()
    judge({"size": jnp.ones(())})  # a few, while training runs: no time for it
    assert not any(np.allclose(lam, CORNER) for lam in looked)


def test_one_coefficient_needs_none():
    plain = lambda family: Problem(family, MLP(widths=(4,)), jnp.float32)
    assert not Suspects.can_be_sought(plain(Decay()))
    assert Suspects.can_be_sought(plain(Loaded()))


def test_residuals_are_those_of_the_network():
    problem = Problem(Loaded(), MLP(widths=(4,)), jnp.float32)
    params = problem.init(jax.random.PRNGKey(0))
    sizes = np.asarray(Suspects(problem)._residual_sizes(params, jnp.asarray([CORNER, 0 * CORNER])))
    assert sizes.shape == (2, 2)
    assert sizes[0, 0] != pytest.approx(sizes[1, 0])
