"""Domains: rules against exact integrals, faces, and the residual-driven redraw."""

import json
import pickle
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpinn.domain import Box, Face, Periodic, redraw
from lcpinn.errors import LcpinnError

BOX = Box(x=(0.0, 1.0), t=(-1, 3))
RING = Box(t=(0, 2), x=Periodic(-1, 1))
LINE = Box(x=(1, 2))
NUM = 200_000


def test_values_are_frozen_hashable_and_readable():
    assert repr(RING) == "Box(t=(0.0, 2.0), x=Periodic(-1.0, 1.0))"
    assert Box(t=(0, 2), x=Periodic(-1, 1)) == RING != Box(t=(0, 2), x=(-1, 1))
    assert len({RING, Box(t=(0, 2), x=Periodic(-1, 1)), BOX}) == 2
    assert RING.names == ("t", "x")
    assert RING.ranges == {"t": (0.0, 2.0), "x": (-1.0, 1.0)}
    assert RING.periodic == ("x",)
    assert (BOX.dim, BOX.volume) == (2, 4.0)
    with pytest.raises(AttributeError):
        BOX.coordinates = ()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Box(), "Box() names no coordinate; write Box(x=(low, high))"),
        (lambda: Box(x=(1, 0)), "x: range (1.0, 0.0) is reversed; write (low, high)"),
        (lambda: Box(x=(0, float("nan"))), "x: range (0.0, nan) is not finite"),
        (lambda: Box(x=cast(Any, 1)), "x: 1 is not a range; write (low, high)"),
        (lambda: Periodic(1, 0), "Periodic: range (1.0, 0.0) is reversed; write (low, high)"),
        (lambda: BOX.face("z", 0), "there is no coordinate z; the domain has x, t"),
        (lambda: RING.face("x", 1), "x is periodic and has no faces"),
        (
            lambda: BOX.face("x", 0.5),
            "x = 0.5 is not a face of the domain; its faces are 0.0 and 1.0",
        ),
        (lambda: BOX.gauss({"x": 3}), "the number of points along t is missing"),
        (lambda: BOX.grid({"z": 3}), "there is no coordinate z; the domain has x, t"),
        (lambda: BOX.gauss(0), "the number of points must be at least 1, not 0"),
        (lambda: RING.grid({"t": 2, "x": 0}), "the number of points must be at least 1, not 0"),
        (
            lambda: BOX.sobol(4, face=Face("t", 0.0)),
            "t = 0.0 is not a face of the domain; its faces are -1.0 and 3.0",
        ),
        (lambda: Box.from_json({}), "this is not a domain: its JSON is incomplete"),
    ],
)
def test_errors_are_one_clear_line(build, message):
    with pytest.raises(LcpinnError) as caught:
        build()
    assert str(caught.value) == message


def test_a_face_is_an_exact_end():
    assert BOX.face("t", 3) == Face("t", 3.0)
    assert Box(x=(0.1, 1)).face("x", float(np.float32(0.1))) == Face("x", 0.1)


@pytest.mark.parametrize("box", [BOX, RING, LINE], ids=repr)
def test_json_and_pickle_round_trip(box):
    assert Box.from_json(json.loads(json.dumps(box.to_json(), sort_keys=True))) == box
    assert pickle.loads(pickle.dumps(box)) == box


def test_maps():
    np.testing.assert_allclose(BOX.to_unit(np.array([[0.25, 1.0]])), [[0.25, 0.5]])
    np.testing.assert_allclose(BOX.from_unit(np.array([[0.25, 0.5]])), [[0.25, 1.0]])
    np.testing.assert_allclose(BOX.normalise(np.array([[0, -1], [1, 3]])), [[-1, -1], [1, 1]])
    points = BOX.random(jax.random.key(0), 20)
    np.testing.assert_allclose(BOX.from_unit(BOX.to_unit(points)), points, atol=1e-6)
    together = jax.jit(jax.vmap(BOX.normalise))(points)
    np.testing.assert_allclose(together, BOX.normalise(points), atol=1e-6)


def test_random_points_are_uniform():
    draws = np.asarray(BOX.random(jax.random.key(1), NUM), np.float64)
    width = np.array([1, 4])
    assert np.all(np.abs(draws.mean(0) - [0.5, 1]) < 5 * width / np.sqrt(12 * NUM))
    # The variance of (x - mean)^2 is width^4 / 180.
    assert np.all(np.abs(draws.var(0) - width**2 / 12) < 5 * width**2 / np.sqrt(180 * NUM))
    assert np.all(draws.min(0) >= [0, -1])
    assert np.all(draws.max(0) <= [1, 3])


@pytest.mark.slow
def test_random_under_jit_vmap_and_dtype():
    keys = jax.random.split(jax.random.key(3), 3)
    face = BOX.face("x", 1)
    draw = lambda key: BOX.random(key, 4, face=face)
    together = jax.jit(jax.vmap(draw))(keys)
    np.testing.assert_allclose(together, jnp.stack([draw(key) for key in keys]), atol=1e-6)
    with jax.enable_x64(True):
        assert BOX.random(keys[0], 4, face=face, dtype=jnp.float32).dtype == jnp.float32
        assert BOX.random(keys[0], 4, face=face).dtype == jnp.float64


def test_sobol_integrates_better_than_random():
    f = lambda p: np.exp(p[:, 0]) * np.cos(p[:, 1])
    exact = (np.e - 1) * (np.sin(3) + np.sin(1)) / 4
    points = BOX.sobol(1000)
    assert points.dtype == np.float64
    sobol = abs(f(points).mean() - exact)
    random = [
        f(np.asarray(BOX.random(jax.random.key(seed), 1000))).mean() - exact for seed in range(20)
    ]
    assert sobol < 0.1 * np.sqrt(np.mean(np.square(random)))


def test_gauss_is_exact_on_polynomials():
    points, weights = BOX.gauss(9)
    assert len(points) == 9
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-14)
    # Means of x^5 on (0, 1) and of t^5 on (-1, 3).
    exact = 1 / 6 * (3**6 - 1) / 24
    np.testing.assert_allclose(weights @ (points[:, 0] ** 5 * points[:, 1] ** 5), exact, rtol=1e-13)
    points, weights = BOX.gauss({"x": 1, "t": 4})
    assert set(points[:, 0]) == {0.5}
    np.testing.assert_allclose(weights @ points[:, 1] ** 7, (3**8 - 1) / 32, rtol=1e-13)


def test_periodic_rule_is_exact_on_trigonometric_polynomials():
    points, weights = RING.gauss({"t": 2, "x": 8})
    t, x = points.T
    for wave in range(1, 8):
        np.testing.assert_allclose(weights @ np.cos(np.pi * wave * x), 0, atol=1e-14)
        np.testing.assert_allclose(weights @ np.sin(np.pi * wave * x), 0, atol=1e-14)
    exact = 2 * 0.5  # mean of t^3 on (0, 2), mean of cos^2
    np.testing.assert_allclose(weights @ (t**3 * np.cos(3 * np.pi * x) ** 2), exact, rtol=1e-13)
    assert x.min() == -1 + 1 / 8


def test_grid_has_the_ends_and_periodic_ends_once():
    assert LINE.grid(3).tolist() == [[1.0], [1.5], [2.0]]
    grid = RING.grid({"t": 2, "x": 4})
    assert sorted(set(grid[:, 0])) == [0.0, 2.0]
    assert sorted(set(grid[:, 1])) == [-1.0, -0.5, 0.0, 0.5]
    assert len(RING.grid(100)) == 100


@pytest.mark.parametrize("end", [-1.0, 3.0])
def test_on_a_face_one_coordinate_is_fixed_and_the_rule_runs_in_the_others(end):
    face = BOX.face("t", end)
    points, weights = BOX.gauss(3, face=face)
    np.testing.assert_allclose(weights @ points[:, 0] ** 5, 1 / 6, rtol=1e-13)
    random, sobol = BOX.random(jax.random.key(0), 5000, face=face), BOX.sobol(64, face=face)
    for on_face in (points, random, sobol):
        assert set(np.asarray(on_face)[:, 1]) == {end}
    assert abs(float(random[:, 0].mean()) - 0.5) < 5 / np.sqrt(12 * 5000)
    # Scrambled Sobol in one dimension has one point in each of the 64 cells.
    assert sorted(np.floor(64 * sobol[:, 0])) == list(range(64))


def test_a_face_of_a_line_is_a_point():
    face = LINE.face("x", 2)
    points, weights = LINE.gauss(7, face=face)
    assert (points.tolist(), weights.tolist()) == ([[2.0]], [1.0])
    assert LINE.sobol(3, face=face).tolist() == [[2.0]] * 3
    assert LINE.random(jax.random.key(0), 3, face=face).tolist() == [[2.0]] * 3


def test_redraw_prefers_high_scores_and_never_repeats():
    candidates = jnp.zeros((1000, 2))
    scores = jnp.where(jnp.arange(1000) < 100, 9.0, 0.0)  # the mean, 0.9, is the floor
    draw = jax.jit(jax.vmap(lambda key: redraw(key, candidates, scores, 50)))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(4), 200)))
    assert all(len(set(row)) == 50 for row in drawn)
    first = (drawn[:, 0] < 100).mean()  # the first is an ordinary draw: 990 / (990 + 810)
    assert abs(first - 0.55) < 5 * np.sqrt(0.55 * 0.45 / 200)
    assert (drawn < 100).mean() > 0.4
    assert drawn.max() > 900


def test_redraw_of_zero_scores_is_uniform():
    drawn = redraw(jax.random.key(5), jnp.zeros((1000, 1)), jnp.zeros(1000), 500)
    assert abs(float(drawn.mean()) - 499.5) < 5 * 1000 / np.sqrt(12 * 500)


def test_redraw_errors():
    key = jax.random.key(0)
    with pytest.raises(LcpinnError, match="there are 3 candidates but 2 scores"):
        redraw(key, jnp.zeros((3, 1)), jnp.ones(2), 1)
    with pytest.raises(LcpinnError, match="cannot redraw 4 of 3 candidates"):
        redraw(key, jnp.zeros((3, 1)), jnp.ones(3), 4)
