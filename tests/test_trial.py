"""Frequency scales by trial: random features tell slow solutions from fast ones."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import lcpinn as lc
from benchmarks import trial as benchmark
from lcpinn.families import Helmholtz
from lcpinn.network import MLP
from lcpinn.optimiser.clock import Clock
from lcpinn.protocol.trial import FASTEST, residuals_by_scale, tried, worst_residuals
from lcpinn.spec import to_plain

NETWORK = MLP((8, 8), "sine", frequency_scale=5.0)


class Saddle(lc.Family):
    """Δu = 0 with a harmonic polynomial on the sides: as slow as a solution can be."""

    domain = lc.Box(x=(0, 1), y=(0, 1))
    parameters = lc.Uniform(a=(1.0, 2.0))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def sides(self, u, x, y, a):
        return u - a * x * y


class Ripple(Saddle):
    """The same equation beside waves along the sides."""

    @lc.on()
    def sides(self, u, x, y, a):
        return u - jnp.sin(4 * a * x) * jnp.sinh(4 * a * y) / jnp.sinh(4 * a)


@pytest.mark.slow
def test_a_slow_solution_gets_slow_units_and_a_fast_one_faster_units():
    assert tried(Saddle(), NETWORK).frequency_scale <= 2.0
    assert tried(Ripple(), replace(NETWORK, frequency_scale=1.0)).frequency_scale == 4.0


class Ripples(Saddle):
    """Waves so short that twice the given scale is not enough."""

    @lc.on()
    def sides(self, u, x, y, a):
        return u - jnp.sin(8 * a * x) * jnp.sinh(8 * a * y) / jnp.sinh(8 * a)


@pytest.mark.slow
def test_scales_are_doubled_while_that_helps():
    given = replace(NETWORK, frequency_scale=1.5)
    residuals = residuals_by_scale(Ripples(), given)
    assert set(residuals) == {1.0, 1.5, 2.0, 3.0, 6.0, FASTEST * 1.5}
    assert tried(Ripples(), given).frequency_scale == FASTEST * 1.5
    # A slow solution has its best scale below: nothing beyond twice the given one is tried.
    assert set(residuals_by_scale(Saddle(), given)) == {1.0, 1.5, 2.0, 3.0}


@pytest.mark.slow
def test_nothing_changes_where_the_given_scale_does_as_well():
    family = Helmholtz(2)
    network = lc.protocol.fast(family, seconds=1.0).network
    assert isinstance(network, MLP)
    assert network.frequency_scale == 5.0
    assert tried(family, network) is network


class Fin(lc.Family):
    """-u'' + h u = sin(pi x), u(0) = 0, u' + b u = 0 at x = 1: slow in x, with two coefficients."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(h=(0.1, 20.0), b=(0.1, 5.0))

    @lc.interior
    def equation(self, u, u_xx, x, h):
        return -u_xx + h * u - jnp.sin(jnp.pi * x)

    @lc.on(x=0.0)
    def left(self, u):
        return u

    @lc.on(x=1.0)
    def right(self, u, u_x, b):
        return u_x + b * u


def test_rounding_is_no_reason_for_faster_units():
    """Eight times the scale leaves a twentieth of what is 5e-11 of the right-hand side anyway; a
    network so drawn ended with errors of ten per cent, and with the given scale solves it."""
    given = MLP((8, 8), "sine", frequency_scale=5.0)
    worst = residuals_by_scale(Fin(), given)
    assert min(worst, key=lambda scale: worst[scale]) > 5.0
    assert 3 * min(worst.values()) < worst[5.0] < 1e-8
    assert tried(Fin(), given) == given
    assert tried(Fin(), replace(given, frequency_scale=0.5)).frequency_scale > 0.5


def test_residuals_are_those_of_the_equation():
    # A single setting whose solution the units contain, but for rounding: u = a x y is the limit of
    # slow sines; units that oscillate a hundred times cannot do it.
    slow, fast = worst_residuals(Saddle(), NETWORK, [1.0, 100.0])
    assert slow < 1e-8
    assert fast > 0.1


def test_a_trial_works_where_jax_knows_no_cpu(monkeypatch):
    def unknown(*, backend):
        raise RuntimeError(f"Unknown backend {backend}")

    expected = worst_residuals(Saddle(), NETWORK, [1.0])
    monkeypatch.setattr("jax.local_devices", unknown)  # as with JAX_PLATFORMS=cuda
    np.testing.assert_array_equal(worst_residuals(Saddle(), NETWORK, [1.0]), expected)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_same_trial_ends_the_same(scale):
    one, other = (worst_residuals(Saddle(), NETWORK, [scale]) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_the_benchmark_writes_what_it_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "KNOWN", {"saddle": Saddle})
    out = tmp_path / "trial.json"
    monkeypatch.setattr("sys.argv", ["benchmarks.trial", "--out", str(out)])
    benchmark.main()
    entry = json.loads(out.read_text())["families"]["saddle"]
    assert [scale for scale, _ in entry["residuals"]] == [5.0, 1.0, 2.0, 10.0]
    assert entry["table"] == 5.0
    assert entry["taken"] <= 2.0
    assert "saddle" in capsys.readouterr().out


@pytest.mark.slow
def test_what_a_trial_takes_counts_and_is_no_part_of_what_a_run_is():
    one, other = (lc.protocol.fast(Saddle(), seconds=9.0) for _ in range(2))
    assert one.spent > 0
    assert one == other
    assert to_plain(one) == to_plain(other)
    assert one.seconds == 9.0
    assert Clock(9.0, one.spent).remaining() == 9.0 - one.spent
    assert Clock(9.0, 20.0).remaining() == 1.0
    assert Clock(None, 20.0).remaining() == float("inf")
