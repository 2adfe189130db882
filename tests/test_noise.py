"""Noise of observations, told by cross-validation, and the network that it leads to."""

import jax.numpy as jnp
import numpy as np
import pytest

import lcpinn as lc
from lcpinn.protocol.noise import WIDTHS, noise_of

NUM = 400


class Conductor(lc.Family):
    """(a u')' = 1: u and its coefficient a, out of observations of u."""

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    outputs = ("u", "a")

    def __init__(self, noise=0.0, values=None, **columns):
        random = np.random.default_rng(5)
        x, y = random.uniform(size=(2, NUM))
        u = np.sin(3 * x) * np.exp(y) if values is None else values(x, y)
        u = u + noise * np.std(u) * random.normal(size=NUM)
        self.data = lc.Data(x=x, y=y, u=u, **{name: f(x) for name, f in columns.items()})

    @lc.interior
    def equation(self, a, a_x, u_x, u_xx):
        return a * u_xx + a_x * u_x - 1.0

    @lc.on(x=0.0)
    def known(self, a):
        return a - 1.0


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.4])
def test_noise_is_measured(noise):
    assert noise_of(Conductor(noise)) == pytest.approx(noise, rel=0.2)


@pytest.mark.parametrize(
    "values",
    [
        None,
        lambda x, y: np.tanh(20 * (x - 0.3 * y - 0.4)),
        lambda x, y: np.sin(40 * x + 10 * y),
        lambda x, y: np.ones_like(x),
    ],
    ids=["smooth", "front", "wave", "constant"],
)
def test_what_varies_fast_is_no_noise(values):
    assert noise_of(Conductor(values=values)) == 0.0


def test_few_observations_tell_nothing():
    family = Conductor(0.1)
    family.data = lc.Data(**{name: v[:40] for name, v in family.data.columns.items()})
    assert noise_of(family) == 0.0


def test_a_coefficient_from_noisy_values_gets_a_small_network_of_slow_units():
    def widths(family):
        network = lc.protocol.fast(family.unweighted(), steps=1).network
        assert isinstance(network, lc.network.MLP)
        return network.widths

    assert widths(Conductor(0.1)) == WIDTHS
    assert widths(Conductor(0.0)) != WIDTHS
    # Where all outputs are observed nothing has to be found from derivatives of noise.
    assert widths(Conductor(0.1, a=jnp.ones_like)) != WIDTHS
