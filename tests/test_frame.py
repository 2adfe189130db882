"""Estimates and numerical solutions on shapes: an extension frame against known errors."""

import dataclasses
import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import the

import lcpinn as lc
from benchmarks.shapes.families import Bore, Meteor, Shell, Torsion, Washer
from lcpinn.certificate.estimator import Estimator
from lcpinn.families import Cylinder, FourHoles, Pipes
from lcpinn.jet import Orders, expand
from lcpinn.shape.corners import may_have_inward_corners
from lcpinn.shape.holes import Hole
from lcpinn.spectral import Axis, Expansion, TensorBasis, solve_family
from lcpinn.spectral.degrees import DegreeBasis
from lcpinn.spectral.determinacy import determinacy
from lcpinn.spectral.frame import Frame, frame_on, resized
from lcpinn.spectral.holes import round_modes, solid_modes
from lcpinn.spectral.least_squares import dense, regularised


class Cooling(Washer):
    """u_t = Δu / 4 as in the ring, but in a disc."""

    disc = lc.Ball(x=0.0, y=0.0, radius=1.0)
    domain = lc.Box(t=(0, 1)) * disc

    @lc.on(disc)
    def rims(self, u, t, x, y):
        return u - self.exact(t, x, y)


def singular(x, y):
    """ρ^(2/3) cos(2φ/3) about the corner of the L: harmonic, zero on both of its edges."""
    return (x**2 + y**2) ** (1 / 3) * jnp.cos(2 / 3 * jnp.arctan2(-x - y, y - x))


class LShape(lc.Family):
    """Δu = 0 on an L, u = x² - y² on its edges."""

    domain = lc.Box(x=(-1, 1), y=(-1, 1)) - lc.Box(x=(0, 1), y=(-1, 0))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def edges(self, u, x, y):
        return u - self.exact(x, y)

    def exact(self, x, y):
        return x**2 - y**2


class Yukawa(lc.Family):
    """Δu = k² u around a hole: u = K0(k ρ) about a point that is not its centre.

    No finite number of functions of the frame adds up to it.
    """

    hole = lc.Ball(x=0.2, y=0.1, radius=0.3)
    plate = lc.Box(x=(-1, 1), y=(-1, 1))
    domain = plate - hole
    parameters = lc.Uniform(k=(1.0, 4.0))

    @lc.interior
    def equation(self, u, laplacian_u, k):
        return laplacian_u - k**2 * u

    @lc.on()
    def rims(self, u, x, y, k):
        return u - self.exact(x, y, k)

    def exact(self, x, y, k):
        distance = jnp.sqrt((x - 0.25) ** 2 + (y - 0.02) ** 2)
        s = jnp.linspace(0.0, 6.0, 201)  # K0(d) is the integral of exp(-d cosh s) over s > 0
        values = jnp.exp(-k * distance[..., None] * jnp.cosh(s))
        return 0.03 * (values.sum(-1) - values[..., 0] / 2)


class Triangular(Yukawa):
    """The same around a triangle."""

    hole = lc.Polygon(x=[0.0, 0.5, 0.25], y=[-0.15, -0.1, 0.3])
    domain = Yukawa.plate - hole


class Oval(Yukawa):
    """The same around an implicit hole."""

    hole = lc.Inside(
        lambda x, y: ((x - 0.2) / 0.4) ** 2 + (y / 0.2) ** 2 - 1, x=(-0.3, 0.7), y=(-0.3, 0.3)
    )
    domain = Yukawa.plate - hole


class Grating(lc.Family):
    """Δu = 0 past a row of rods: u = y + Re cot(π z) + log|sin(π z)|, singular in every one."""

    rod = lc.Ball(x=0.5, y=0.4, radius=0.2)
    domain = lc.Box(y=(0, 1), x=lc.Periodic(0, 1)) - rod

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def rims(self, u, x, y):
        return u - self.exact(y, x)

    def exact(self, y, x):
        x, y = 2 * jnp.pi * (x - 0.53), 2 * jnp.pi * (y - 0.45)
        square = jnp.cosh(y) - jnp.cos(x)
        return y + jnp.sin(x) / square + jnp.log(square) / 2


class Hollow(lc.Family):
    """Δu = 0 around a ball in a ball: a charge off its centre."""

    core = lc.Ball(x=0.1, y=0.0, z=0.0, radius=0.4)
    domain = lc.Ball(x=0.0, y=0.0, z=0.0, radius=1.0) - core

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def rims(self, u, x, y, z):
        return u - self.exact(x, y, z)

    def exact(self, x, y, z):
        return 1 / jnp.sqrt((x - 0.15) ** 2 + (y - 0.05) ** 2 + z**2)


class Wake(lc.Family):
    """u_t = Δu / 4 + f in a ring, for a u that is singular in its hole."""

    ring = lc.Ball(x=0.0, y=0.0, radius=1.0) - lc.Ball(x=0.1, y=0.0, radius=0.4)
    domain = lc.Box(t=(0, 1)) * ring

    @lc.interior
    def equation(self, u_t, u_xx, u_yy, t, x, y):
        return u_t - (u_xx + u_yy) / 4 + jnp.sin(t) * self.potential(x, y)

    @lc.on(t=0.0)
    def start(self, u, x, y):
        return u - self.exact(0.0, x, y)

    @lc.on(ring)
    def rims(self, u, t, x, y):
        return u - self.exact(t, x, y)

    def potential(self, x, y):
        return jnp.log((x - 0.15) ** 2 + (y - 0.05) ** 2)

    def exact(self, t, x, y):
        return jnp.cos(t) * self.potential(x, y)


def wave(p):
    return jnp.cos(2 * p[0] + 0.3) * jnp.sin(1.5 * p[-1] + 1.0)


def spoilt(family, error=wave):
    """Estimates for the exact solution with a known error added, whose size it is called with."""

    def jet(size, points, parameters, weights, orders):
        value = lambda p: family.call("exact", p, parameters) + size * error(p)
        return jnp.moveaxis(jax.vmap(lambda p: expand(value, p, orders))(points), 1, 0)

    return Estimator(family, jet)


def true_error(family, size, lam, error=wave):
    points = family.domain.sobol(4096, 99, parameters=lam)
    with jax.enable_x64(True):
        added = size * np.asarray(jax.vmap(error)(jnp.asarray(points)))
        truth = family.truth(points, lam)
    return np.sqrt(np.mean(added**2) / np.mean(truth**2))


@functools.cache
def estimator_of(make):
    """One for errors of every size."""
    return spoilt(the(make))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-2, 1e-8])
@pytest.mark.parametrize(
    ("make", "lam"),
    [(Pipes, [0.24, 0.95]), (FourHoles, [0.3]), (Torsion, [1.7]), (Cooling, []), (LShape, [])],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_estimates_are_the_true_error_on_every_kind_of_shape(make, lam, size):
    estimator, lam = estimator_of(make), np.array(lam)
    found = estimator(size, lam)
    assert found.reason == ""
    assert found.error == pytest.approx(true_error(estimator.family, size, lam), rel=0.1)


HOLES = [
    (Pipes, [0.2, 0.5]), (FourHoles, [0.15]), (Yukawa, [4.0]), (Triangular, [1.0]), (Oval, [1.0]),
    (Grating, []), pytest.param(Hollow, [], marks=pytest.mark.slow),
    pytest.param(Wake, [], marks=pytest.mark.slow),
]  # fmt: skip


def smooth(family, p):
    if family.domain.periodic:
        return 0.3 * jnp.cos(2 * p[0]) * jnp.sin(2 * jnp.pi * p[1] + 1.0)
    return 0.3 * wave(p)


def smooth_instead(family):
    """Estimates for a smooth function that is no solution: its error is singular in the hole."""

    def jet(params, points, parameters, weights, orders):
        value = lambda p: smooth(family, p)[None]
        return jnp.moveaxis(jax.vmap(lambda p: expand(value, p, orders))(points), 1, 0)

    return Estimator(family, jet)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "lam"), HOLES, ids=lambda v: getattr(v, "__name__", ""))
def test_an_error_that_is_singular_in_a_hole_is_estimated(make, lam):
    """As that of every network: it is smooth where the solution is not."""
    family, lam = the(make), np.array(lam)
    found = smooth_instead(family)(None, lam)
    assert found.reason == ""
    points = family.domain.sobol(4096, 99, parameters=lam)
    with jax.enable_x64(True):
        truth = family.truth(points, lam)
        error = truth[:, 0] - np.asarray(jax.vmap(lambda p: smooth(family, p))(points))
    expected = np.linalg.norm(error) / np.linalg.norm(truth)
    assert found.error == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
def test_sines_that_oscillate_are_judged_by_what_is_left_between_the_points():
    """Two sizes that leave too much there agreed on ten times the error."""
    lam = np.array([0.3])
    estimator, error = sines_for(the(Cylinder), lam, 5.0, 800, points=6000, cutoff=1e-13)
    assert estimator(None, lam).error == pytest.approx(error, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("frequency", [12.0, 13.0], ids=["grown from", "between"])
def test_a_frame_too_coarse_for_an_estimate_may_confirm_a_finer_one(frequency):
    """The frame that was grown because it left too much was no confirmation of the finer one.

    Of 22 functions a coordinate, which leave a little too much of the slower wave between their
    points and far too much of the faster, and 27, which leave hardly anything.
    """
    lam, error = np.array([1.3]), lambda p: jnp.cos(frequency * p[0] + 0.3)
    estimator = spoilt(the(Torsion), error)
    found = estimator(1e-6, lam, fronts=False)  # once grown
    assert found.error == pytest.approx(true_error(the(Torsion), 1e-6, lam, error), rel=0.02)


def sines_for(family, lam, scale, num=200, points=4000, cutoff=1e-12):
    """The exact solution as a network of random sines has it; estimator, and its true error."""
    rng = np.random.default_rng(num)
    waves = scale * rng.normal(size=(family.domain.dim, num))
    phases = rng.uniform(0, 2 * np.pi, num)
    seen, unseen = (family.domain.sobol(points, seed, parameters=lam) for seed in (1, 77))
    with jax.enable_x64(True):
        known, truth = (family.truth(p, lam)[:, 0] for p in (seen, unseen))
    weights = np.linalg.lstsq(np.sin(seen @ waves + phases), known, rcond=cutoff)[0]

    def jet(params, points, parameters, loss_weights, orders):
        value = lambda p: (jnp.sin(p @ waves + phases) @ weights)[None]
        return jnp.moveaxis(jax.vmap(lambda p: expand(value, p, orders))(points), 1, 0)

    error = np.linalg.norm(np.sin(unseen @ waves + phases) @ weights - truth)
    return Estimator(family, jet), error / np.linalg.norm(truth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "lam", "scale"),
    [(Shell, [0.3], 3.0), (Bore, [], 2.0), (Washer, [], 2.0), (Meteor, [], 1.5)],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_a_network_leaves_is_estimated_in_three_and_four_coordinates(make, lam, scale):
    """It oscillates: tensors of eight and ten functions a coordinate had no answer."""
    estimator, error = sines_for(the(make), np.array(lam), scale)
    found = estimator(None, np.array(lam))
    assert found.reason == ""
    assert found.error == pytest.approx(error, rel=0.3)


@pytest.mark.slow
def test_what_three_coordinates_do_not_resolve_gets_no_number():
    estimator, _ = sines_for(the(Shell), np.array([0.3]), 12.0)
    found = estimator(None, np.array([0.3]))
    assert np.isnan(found.error)
    assert "resolve" in found.reason


class Tesseract(lc.Family):
    """u_t = Δu / 10 + f in a cube, u = exp(-t) cos x cos y cos z."""

    domain = lc.Box(t=(0, 1), x=(0, 1), y=(0, 1), z=(0, 1))

    @lc.interior
    def equation(self, u_t, u_xx, u_yy, u_zz, t, x, y, z):
        return u_t - (u_xx + u_yy + u_zz) / 10 + 0.7 * self.exact(t, x, y, z)

    @lc.on(t=0.0)
    def start(self, u, x, y, z):
        return u - self.exact(0.0, x, y, z)

    @lc.on(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0))
    def faces(self, u, t, x, y, z):
        return u - self.exact(t, x, y, z)

    def exact(self, t, x, y, z):
        return jnp.exp(-t) * jnp.cos(x) * jnp.cos(y) * jnp.cos(z)


@pytest.mark.slow
def test_four_coordinates_of_a_box_are_judged():
    estimator = spoilt(the(Tesseract))
    for size in (1e-2, 1e-8):
        found = estimator(size, np.zeros(0))
        assert found.reason == ""
        expected = true_error(estimator.family, size, np.zeros(0))
        assert found.error == pytest.approx(expected, rel=0.05)


def without(make, name):
    """The same page without one of its terms."""
    kept = {k: v for k, v in vars(make).items() if k != name and not k.startswith("__")}
    return type(make.__name__ + "Without" + name.title(), (lc.Family,), kept)()


OPEN = [
    (Tesseract, "start"), (Meteor, "start"), (Meteor, "cold"), (Washer, "start"), (Washer, "rims"),
    (Shell, "hot"), (Shell, "losing"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("make", "name"), OPEN, ids=lambda v: getattr(v, "__name__", v))
def test_many_coordinates_without_a_condition_get_a_reason(make, name):
    known = determinacy(without(make, name), observations=False)
    assert "does not determine u" in known.reason
    if make is Tesseract:
        assert "t = 0" in known.hint


@pytest.mark.slow
@pytest.mark.parametrize("make", [Tesseract, Meteor, Washer, Shell, Bore])
def test_many_coordinates_with_all_conditions_are_not_accused(make):
    assert determinacy(the(make), observations=False).reason == ""


class Stirred(lc.Family):
    """∇p = (t, 0) in a disc: p has a level at every time."""

    domain = lc.Box(t=(0, 1)) * lc.Ball(x=0.0, y=0.0, radius=1.0)
    outputs = ("p",)

    @lc.interior
    def gradient(self, p_x, p_y, t):
        return p_x - t, p_y

    def exact(self, t, x, y):
        return t * x


@pytest.mark.slow
def test_a_level_at_every_time_is_left_out_of_the_estimate():
    family = the(Stirred)
    known = determinacy(family, observations=False)
    assert known.levels == (("p", ("x", "y")),)
    error = lambda p: jnp.sin(3 * p[0]) + 0.1 * p[2] ** 2
    found = spoilt(family, error)(1e-3, np.zeros(0))
    assert found.reason == ""
    points = family.domain.sobol(4096, 99)
    size = lambda v: np.sqrt(np.mean(v**2))
    y = points[:, 2]
    expected = 1e-3 * size(0.1 * (y**2 - np.mean(y**2))) / size(points[:, 0] * points[:, 1])
    assert found.error == pytest.approx(expected, rel=0.1)


def test_products_of_limited_degree_are_those_of_the_tensor():
    """Values and derivatives, and coefficients that move to more functions and back."""
    axes = tuple(Axis(-1.0, high, periodic, 6) for high, periodic in ((1.0, False), (2.0, True)))
    basis, tensor = DegreeBasis(axes), TensorBasis(axes)
    assert basis.size == 21
    points = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    orders = Orders.closure([(2, 1)], 2)
    flat = np.ravel_multi_index(tuple(basis.degrees.T), tensor.shape)
    np.testing.assert_allclose(
        basis.table(points, orders), tensor.table(points, orders)[:, :, flat], rtol=1e-12
    )
    coefficients = np.arange(1.0, 22.0)[None]
    more = DegreeBasis(tuple(dataclasses.replace(axis, num=9) for axis in axes))
    moved = basis.resized(coefficients, more)
    np.testing.assert_allclose(
        more.evaluate(moved, points, orders), basis.evaluate(coefficients, points, orders)
    )
    np.testing.assert_array_equal(more.resized(moved, basis), coefficients)


def test_a_frame_with_more_functions_has_those_of_one_with_fewer():
    domain = the(Washer).domain
    few, more = (frame_on(domain, (num,) * 3, np.zeros(0)) for num in (6, 9))
    assert isinstance(few, Frame)
    coefficients = np.random.default_rng(0).normal(size=(1, few.size))
    points, orders = domain.sobol(20), Orders.closure([(1, 0, 2)], 3)
    moved = resized(coefficients, few, more)
    np.testing.assert_allclose(
        more.evaluate(moved, points, orders), few.evaluate(coefficients, points, orders), rtol=1e-9
    )
    table = few.table(points, orders)
    np.testing.assert_allclose(
        table @ coefficients[0], few.evaluate(coefficients, points, orders)[..., 0]
    )
    np.testing.assert_array_equal(few.table(points, orders, [0, 3]), table[[0, 3]])


@pytest.mark.slow
def test_a_shifted_normal_matrix_finds_what_a_factorisation_with_pivoting_does():
    family = the(Shell)
    at = sines_for(family, np.array([0.4]), 2.0)[0].linearisation(None, [0.4])
    expansion = Expansion(at.terms, (9, 9, 9), at.parameters)
    rows = expansion.rows(at, expansion.zero, expansion.base(at))
    fast, slow = regularised(rows), dense(rows, 1e-13)
    one, other = (expansion.values(s.coefficients[None]) for s in (fast, slow))
    np.testing.assert_allclose(one, other, atol=1e-3 * np.abs(other).max())
    assert fast.remaining_share < 1.01 * slow.remaining_share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "at"),
    [(Pipes, {"r": 0.2, "b": 0.5}), (FourHoles, {"r": 0.15}), (Triangular, {"k": 1})],
)
def test_solve_knows_holes(make, at):
    family = the(make)
    solution = lc.solve(family, **at)
    lam = np.array(list(at.values()), float)
    points = family.domain.sobol(1000, 3, parameters=lam)
    values = solution(x=points[:, 0], y=points[:, 1])
    with jax.enable_x64(True):
        np.testing.assert_allclose(values, family.truth(points, lam)[:, 0], rtol=0, atol=1e-9)
    assert solution.error < 1e-8
    assert solution.reason == ""


@pytest.mark.slow
def test_many_settings_are_solved_in_one_frame():
    family, settings = the(Yukawa), np.array([[1.0], [2.0]])
    found = solve_family(family, settings, 1e-6)
    points = family.domain.sobol(500, 3)
    with jax.enable_x64(True):
        exact = np.stack([family.truth(points, lam) for lam in settings])
    np.testing.assert_allclose(found(points), exact, rtol=0, atol=1e-6)
    with pytest.raises(lc.LcpinnError, match="interpolant needs a shape without holes"):
        lc.protocol.by_name("interpolant", family)


@pytest.mark.parametrize("missing", ["hole", "rim"])
def test_a_missing_condition_on_a_shape_with_a_hole_is_noticed(missing):
    class Open(lc.Family):
        hole = lc.Ball(x=0.1, y=0.0, radius=0.2)
        rim = lc.Ball(x=0.0, y=0.0, radius=1.0)
        domain = rim - hole

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u

        @lc.on(rim if missing == "hole" else hole)
        def condition(self, u):
            return u

    known = determinacy(Open())
    assert known.num_free > 0
    assert "the page does not determine u" in known.reason


@pytest.mark.parametrize(
    ("coordinates", "period"), [((0, 2), None), ((2, 0), 1.7), ((0, 1, 2), None)]
)
def test_functions_of_holes_have_their_derivatives(coordinates, period):
    """Taylor coefficients against differences of those of one order less."""
    dim = len(coordinates)
    hole = Hole(coordinates, (0.1, -0.2, 0.3)[:dim], 0.5, period)
    orders = Orders.closure([(2, 1, 0), (0, 0, 3), (1, 0, 1)], 3)
    points = np.random.default_rng(0).uniform(0.5, 1.0, (6, 3))
    functions, step = round_modes if dim == 2 else solid_modes, 1e-4
    modes = functions(hole, 3, 2, points, orders).values
    for coordinate in range(3):
        shift = step * np.eye(3)[coordinate]
        ahead, behind = (
            functions(hole, 3, 2, points + side * shift, orders).values for side in (1, -1)
        )
        for s, index in enumerate(orders.indices):
            higher = tuple(n + (k == coordinate) for k, n in enumerate(index))
            if higher in orders.indices:
                slope = (ahead[:, s] - behind[:, s]) / (2 * step)
                exact = higher[coordinate] * modes[:, orders.indices.index(higher)]
                scale = np.abs(exact).max(axis=1, keepdims=True) + 1.0
                np.testing.assert_allclose(slope / scale, exact / scale, atol=1e-5)
    if period is not None:
        again = functions(hole, 3, 2, points + np.array([0.0, 0.0, period]), orders).values
        np.testing.assert_allclose(again, modes, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_at_a_corner_that_points_inwards_it_says_what_it_cannot_resolve():
    error = lambda p: singular(p[0], p[1])
    found = spoilt(the(LShape), error)(1e-4, np.array([]))
    assert np.isnan(found.error)
    assert "at a corner that points inwards an error is singular" in found.reason


def test_which_shapes_have_corners_that_point_inwards():
    square, disc = lc.Box(x=(-1, 1), y=(-1, 1)), lc.Ball(x=0.0, y=0.0, radius="r")
    arrow = lc.Polygon(x=[-1, 1, 0, 1], y=[0, -1, 0, 1])
    kite = lc.Polygon(x=[0.0, 0.5, 0.0, -0.5], y=[-0.6, 0.0, 0.4, 0.0])
    corner = lc.Ball(x=1.0, y=1.0, radius="r")
    for shape in (square - disc, kite, disc - lc.Ball(x=0.0, y=0.0, radius=0.1), square & disc,
                  lc.Box(t=(0, 1)) * (square - disc)):  # fmt: skip
        assert not may_have_inward_corners(shape, {"r": 0.3})
    for shape in (arrow, square - kite, square - corner, square - disc - kite, disc | kite,
                  lc.Box(t=(0, 1)) * arrow):  # fmt: skip
        assert may_have_inward_corners(shape, {"r": 0.3})


@pytest.mark.slow
def test_a_free_level_is_left_out_of_the_estimate():
    """No flux through any rim: a constant is free, and no error."""

    class Insulated(lc.Family):
        domain = lc.Ball(x=0.0, y=0.0, radius=1.0)

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u

        @lc.on()
        def rim(self, u_n, n_x):
            return u_n - n_x

        def exact(self, x, y):
            return x

    family = Insulated()
    assert determinacy(family).levels == (("u", ("x", "y")),)
    error = lambda p: 3.0 + p[0] * p[1]
    found = spoilt(family, error)(1e-3, np.array([]))
    expected = true_error(family, 1e-3, np.array([]), lambda p: p[0] * p[1])
    assert found.error == pytest.approx(expected, rel=0.1)
    assert "up to a constant" in found.note


@pytest.mark.slow
def test_solve_answers_inside_of_the_shape():
    family = the(Torsion)
    solution = lc.solve(family, a=1.5, tolerance=1e-8)
    assert solution.error < 1e-8
    np.testing.assert_allclose(solution(x=0.3, y=0.2), family.exact(0.3, 0.2, 1.5), rtol=1e-9)
    assert np.isnan(solution(x=1.6, y=0.0))


@pytest.mark.slow
def test_normals_of_a_box_reach_the_estimate():
    """A Robin condition by u_n on a box: the same estimate as with the derivative by name."""

    def made(**terms):
        class Rod(lc.Family):
            domain = lc.Box(x=(0.0, 1.0))

            @lc.interior
            def equation(self, u_xx, u):
                return u_xx - u

            @lc.on(x=0.0)
            def left(self, u):
                return u - 1.0

            def exact(self, x):
                return jnp.exp(-x)

        for name, term in terms.items():
            setattr(Rod, name, term)
        return Rod()

    along = made(right=lc.on(x=1.0)(lambda self, u, u_n: u_n + u))
    by_name = made(right=lc.on(x=1.0)(lambda self, u, u_x: u_x + u))
    error = lambda p: jnp.sin(3 * p[0])
    first, second = (spoilt(f, error)(1e-3, np.array([])) for f in (along, by_name))
    assert first.error == pytest.approx(second.error, rel=1e-6)
    assert first.error == pytest.approx(true_error(along, 1e-3, np.array([]), error), rel=0.05)


class Sieve(lc.Family):
    """A plate with sixteen holes that warms up: too many functions, hole by hole and in time."""

    plate = lc.Box(x=(0.0, 4.0), y=(0.0, 4.0))
    holes = functools.reduce(
        operator.or_,
        [lc.Ball(x=0.5 + i % 4, y=0.5 + i // 4, radius=0.2) for i in range(16)],
    )
    domain = lc.Box(t=(0.0, 1.0)) * (plate - holes)

    @lc.interior
    def equation(self, u_t, laplacian_u):
        return u_t - laplacian_u

    @lc.on(t=0.0)
    def start(self, u):
        return u

    @lc.on(plate | holes)
    def rims(self, u):
        return u - 1.0


def test_too_many_holes_are_refused_at_once_and_in_words():
    with pytest.raises(lc.LcpinnError, match=r"sieve: 16 holes take \d+ functions, more than"):
        lc.solve(the(Sieve))
    assert determinacy(the(Sieve), observations=False).reason == ""
    estimate = Estimator(the(Sieve), lambda *_: jnp.zeros((1, 1, 1)))(None, np.zeros(0))
    assert "16 holes take" in estimate.reason
    assert not np.isfinite(estimate.error)
