"""What a network sees of holes, against the same functions written down by hand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Bubble, Decay, Tunnel, quick

import lcpinn as lc
from lcpinn.families import FourHoles
from lcpinn.families.four_holes import CENTRES
from lcpinn.jet import Orders, expand
from lcpinn.network import MLP
from lcpinn.rows import Problem
from lcpinn.shape.holes import SCALE, hole_features, moving_holes

pytestmark = pytest.mark.usefixtures("x64")


def of_four_holes(p, lam):
    x, y, r = p[0], p[1], lam[0]
    offsets = [(x - a, y - b) for a, b in CENTRES]
    squares = [a**2 + b**2 for a, b in offsets]
    pairs = list(zip(offsets, squares, strict=True))
    return [*(r * a / s for (a, _), s in pairs), *(r * b / s for (_, b), s in pairs),
            *(jnp.log(s / r**2) / 2 for s in squares)]  # fmt: skip


def of_bubble(p, lam):
    offset, r = p - jnp.array([0.1, 0.0, 0.0]), lam[0]
    square = jnp.sum(offset**2)
    return [*(r * offset / square), r / jnp.sqrt(square)]


def of_tunnel(p, lam):
    # Of z = x + iy: r π / L cot(π z / L), which is r / z close to the hole, with L = 2.
    u, v = jnp.pi * (p[0] - 1.0), jnp.pi * (p[1] - lam[0])
    turn = 0.2 * jnp.pi / 2
    gap = jnp.cosh(v) - jnp.cos(u)
    return [turn * jnp.sin(u) / gap, turn * jnp.sinh(v) / gap, jnp.log(gap / (2 * turn**2)) / 2]


BY_HAND = {FourHoles: of_four_holes, Bubble: of_bubble, Tunnel: of_tunnel}


@pytest.mark.slow
@pytest.mark.parametrize("made", BY_HAND)
def test_features_and_their_derivatives(made):
    family, (low, high) = made(), next(iter(made.parameters.ranges.values()))
    dim = family.domain.dim
    orders = Orders.closure([tuple(3 * (i == j) for j in range(dim)) for i in range(dim)], dim)
    lam = jnp.array([[low], [high]])
    points = jnp.stack([jnp.asarray(family.domain.sobol(6, 3, parameters=np.array(one)))
                        for one in lam])  # fmt: skip
    features = hole_features(family.domain)
    found = quick(lambda p, one: features(p, one, orders).coefficients)(points, lam)
    by_hand = lambda p, one: expand(
        lambda q: SCALE * jnp.stack(BY_HAND[made](q, one)), p, orders
    )  # fmt: skip
    expected = np.asarray(quick(jax.vmap(jax.vmap(by_hand, (0, None))))(points, lam))
    np.testing.assert_allclose(found, np.moveaxis(expected, 2, 0), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_features_repeat_with_the_period():
    domain, lam = Tunnel().domain, jnp.array([[0.45]])
    at = jnp.array([[[0.3, 0.2], [2.3, 0.2], [-1.7, 0.2]]])
    values = hole_features(domain)(at, lam, Orders.closure((), 2)).value[0]
    np.testing.assert_allclose(values[1:], np.stack([values[0]] * 2), rtol=1e-12)


def test_a_box_and_a_disc_have_none():
    class Disc(lc.Family):
        domain = lc.Ball(x=0.0, y=0.0, radius=1.0)

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u + 1.0

        @lc.on()
        def rim(self, u):
            return u

    assert hole_features(Decay().domain) is None
    assert hole_features(Disc().domain) is None


def test_a_hole_of_another_shape_is_seen_from_its_middle():
    class Window(lc.Family):
        domain = lc.Box(x=(0, 4), y=(0, 4)) - lc.Polygon(x=[1, 3, 3, 1], y=[1, 1, 2, 2])

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u + 1.0

        @lc.on()
        def rim(self, u):
            return u

    (hole,) = moving_holes(Window().domain)
    centre = [value({}, np) for value in hole.centre]
    assert 1.4 < centre[0] < 2.6
    assert 1.4 < centre[1] < 1.6
    assert 0.4 < hole.radius({}, np) <= 0.5


def test_a_network_sees_holes_only_where_it_is_told_to():
    family = FourHoles()
    seeing = Problem(family, MLP((5,), holes=True), np.float64).init(jax.random.PRNGKey(0))
    plain = Problem(family, MLP((5,)), np.float64).init(jax.random.PRNGKey(0))
    assert seeing["layers"][0]["w"].shape == (2 + 3 * 4, 5)
    assert plain["layers"][0]["w"].shape == (2, 5)


@pytest.mark.slow
def test_fast_sees_holes_and_the_paper_does_not():
    assert lc.protocol.fast(FourHoles(), seconds=1.0).network.sees_holes
    assert not lc.protocol.paper(FourHoles()).network.sees_holes


@pytest.mark.slow
def test_holes_survive_saving(tmp_path):
    family, network = Tunnel(), MLP((4,), holes=True)
    protocol = replace(lc.protocol.fast(family, steps=1), network=network)
    solution = lc.train(family, protocol, report=False, progress=False)
    again = lc.load(solution.save(tmp_path / "u.safetensors"), family)
    at = {"x": [0.2, 1.9], "y": [0.1, 0.9], "h": 0.5}
    np.testing.assert_array_equal(again(**at), solution(**at))
