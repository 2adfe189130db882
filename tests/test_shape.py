"""Shapes: what is inside, points and normals of every kind, how they combine, and what is wrong.

One table of shapes; every test runs over all of it.
"""

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare
from toy import of_kind

import lcpinn as lc
from lcpinn.domain import Part, Region, bind
from lcpinn.prior import Coefficients, Product
from lcpinn.shape import Shape, shape_from_json

NONE = Product(())
KNOB = lc.Uniform(r=(0.2, 0.4))
SQUARE = lc.Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
DISC = lc.Ball(x=0.0, y=0.0, radius=1.0)


def small(r):
    return r / 2


def crescent(x, y):
    return x**2 + 4 * y**2 - 0.8 + 0.3 * jnp.sin(3 * x)


def wavy(x, y, r):
    return x**2 + y**2 - 0.5 - r * x * y


SHAPES: dict[str, tuple[Shape, Coefficients]] = {
    "interval": (lc.Box(x=(0.0, "r")), KNOB),
    "disc": (DISC, NONE),
    "moving disc": (lc.Ball(x="r", y=0.1, radius=small), KNOB),
    "ball": (lc.Ball(x=0.0, y=0.5, z=0.0, radius="r"), KNOB),
    "ball in four dimensions": (lc.Ball(a=0.0, b=0.0, c=0.0, d=0.0, radius=2.0), NONE),
    "triangle": (lc.Polygon(x=[0.0, 2.0, 0.0], y=[0.0, 0.0, 1.0]), NONE),
    "clockwise arrow": (lc.Polygon(x=[0, -1, 1, 1], y=[0, 1, 0, -1]), NONE),
    "growing kite": (lc.Polygon(x=[0, "r", 0, -1], y=[-1, 0, 1, 0]), KNOB),
    "implicit": (lc.Inside(crescent, x=(-2, 2), y=(-1, 1)), NONE),
    "implicit with a knob": (lc.Inside(wavy, x=(-1, 1), y=(-1, 1)), KNOB),
    "ring": (DISC - lc.Ball(x=0.0, y=0.0, radius="r"), KNOB),
    "plate with a cut": (SQUARE - lc.Ball(x=-1.0, y=0.0, radius="r"), KNOB),
    "L": (SQUARE - lc.Box(x=(0.0, 1.0), y=(0.0, 1.0)), NONE),
    "lens": (DISC & lc.Ball(x=1.0, y=0.0, radius=1.0), NONE),
    "snowman": (DISC | lc.Ball(x=0.0, y=1.2, radius="r"), KNOB),
    "two boxes": (lc.Box(x=(0, 1), y=(0, 1)) | lc.Box(x=(1, 2), y=(0, 0.5)), NONE),
    "ring in time": (
        lc.Box(t=(0, 2)) * (DISC - lc.Ball(x=0.0, y=0.0, radius="r")),
        KNOB,
    ),
    "bored block": (
        lc.Box(x=(-1, 1), y=(-1, 1), z=(0, 3)) - lc.Ball(x=0.0, y=0.0, radius="r"),
        KNOB,
    ),
    "periodic channel": (
        lc.Box(x=lc.Periodic(0, 2), y=(0, 1)) - lc.Ball(x=1.0, y=0.5, radius="r"),
        KNOB,
    ),
}  # fmt: skip
TABLE = pytest.mark.parametrize("name", SHAPES)


def region(name: str) -> Region:
    return bound(*SHAPES[name])


def bound(shape: Shape, prior: Coefficients) -> Region:
    return of_kind(Region, bind(shape, prior))


def settings(domain: Region, num: int, seed: int = 0) -> np.ndarray:
    return domain.prior.sobol(num, seed)


def named(domain: Region, points: np.ndarray, lam: np.ndarray) -> dict[str, np.ndarray]:
    at = {n: points[..., i] for i, n in enumerate(domain.names)}
    return at | {n: lam[..., i] for i, n in enumerate(domain.prior.names)}


def level(domain: Region, points: np.ndarray, lam: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(domain.shape.level(named(domain, points, lam), np))


@TABLE
def test_points_inside_are_inside_at_their_own_lambda(name):
    domain = region(name)
    lam = settings(domain, 2000)
    points = domain.sobol(2000, 1, parameters=lam)
    assert np.all(level(domain, points, lam) < 0)
    assert np.all(domain.contains(**named(domain, points, lam)))
    assert np.all(domain.covers(points, lam))
    low, high = np.array(list(domain.ranges.values())).T
    assert np.all((points >= low) & (points <= high))


@TABLE
def test_points_of_the_boundary_are_on_it_with_outward_normals(name):
    """A step along the normal leaves the shape, one against it enters."""
    domain = region(name)
    lam, part = settings(domain, 1500), domain.boundary()
    points = domain.sobol(1500, 2, face=part, parameters=lam)
    assert np.all(np.abs(level(domain, points, lam)) < 1e-9)
    with jax.enable_x64(True):
        normals = domain.normals(points, lam, (part,))
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    step = 1e-7 * normals
    assert np.mean(level(domain, points + step, lam) > 0) > 0.999
    assert np.mean(level(domain, points - step, lam) < 0) > 0.999


@TABLE
def test_normals_are_slopes_of_the_level_function(name):
    domain = region(name)
    lam, part, h = settings(domain, 400), domain.boundary(), 1e-6
    points = domain.sobol(400, 3, face=part, parameters=lam)
    with jax.enable_x64(True):
        normals = domain.normals(points, lam, (part,))
    slopes = np.stack([
        (level(domain, points + h * e, lam) - level(domain, points - h * e, lam)) / (2 * h)
        for e in np.eye(domain.dim)
    ], axis=-1)  # fmt: skip
    # Corners and edges, and what is close to them, have no single normal.
    wrong = np.linalg.norm(slopes - normals, axis=1) > 1e-4
    assert np.mean(wrong) < 0.01


@pytest.mark.slow
@TABLE
def test_points_inside_are_uniform(name):
    """Counts in cells of the bounding box at one lambda, against Monte Carlo on a fine grid."""
    domain, num = region(name), 8192
    lam = np.asarray(domain.prior.from_unit(np.full(domain.prior.dim, 0.3)))
    points = np.asarray(
        domain.random(jax.random.PRNGKey(4), num, parameters=jnp.asarray(lam), dtype=jnp.float32)
    )
    grid = domain.box.from_unit(np.random.default_rng(5).uniform(size=(400_000, domain.dim)))
    grid = np.asarray(grid)[level(domain, np.asarray(grid), lam) < 0]
    cells = lambda x: (np.asarray(domain.to_unit(x[:, :2])) * 4 if domain.dim == 1 else (
        (x[:, :2] - np.array([domain.ranges[n][0] for n in domain.names[:2]]))
        / np.array([np.ptp(domain.ranges[n]) for n in domain.names[:2]]) * 4
    )).astype(int).clip(0, 3) @ (4 ** np.arange(min(domain.dim, 2)))  # fmt: skip
    counts, expected = (np.bincount(cells(x), minlength=16).astype(float) for x in (points, grid))
    enough = expected > 0.005 * expected.sum()
    scaled = expected[enough] * counts[enough].sum() / expected[enough].sum()
    assert chisquare(counts[enough], scaled).pvalue > 1e-3
    assert np.all(counts[expected == 0] == 0)


LENGTHS = {
    "disc": [(lambda x, y: np.arctan2(y, x), -np.pi, np.pi)],
    "lens": [(lambda x, y: np.where(x > 0.5, np.arctan2(y, x), np.arctan2(y, 1 - x)),
              -np.pi / 3, np.pi / 3)],
    "ring in time": [(lambda t, x, y: t, 0.0, 2.0), (lambda t, x, y: np.arctan2(y, x), -np.pi,
                                                     np.pi)],
    "ball": [(lambda x, y, z: np.arctan2(y - 0.5, x), -np.pi, np.pi)],
}  # fmt: skip


@pytest.mark.parametrize("name", LENGTHS)
def test_points_of_surfaces_are_uniform_in_area(name):
    """Angles and times of surface points, which are uniform, in eight bins."""
    domain = region(name)
    lam = settings(domain, 4096)
    part = domain.boundary()
    if name == "ring in time":
        part = Part("sides", tuple(s for s in part.surfaces if s.names == ("x", "y")))
    points = np.asarray(
        domain.random(jax.random.PRNGKey(0), 4096, face=part, parameters=jnp.asarray(lam))
    )
    for coordinate, low, high in LENGTHS[name]:
        counts, _ = np.histogram(coordinate(*points.T), 8, (low, high))
        assert counts.sum() == 4096
        assert chisquare(counts).pvalue > 1e-3


def test_an_implicit_circle_is_sampled_like_a_circle():
    def circle(x, y):
        return 4 * (x**2 + y**2 - 0.36)

    domain = bound(lc.Inside(circle, x=(-1, 1), y=(-1, 1)), NONE)
    points = domain.sobol(8192, 3, face=domain.boundary())
    np.testing.assert_allclose(np.hypot(*points.T), 0.6, rtol=1e-12)
    counts, _ = np.histogram(np.arctan2(points[:, 1], points[:, 0]), 32, (-np.pi, np.pi))
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.slow
def test_parts_of_a_boundary_get_their_share_of_its_length():
    """The polygon's edges, and an implicit shape beside a box, though its length is not known."""
    triangle = bound(lc.Polygon(x=[0, 3, 0], y=[0, 0, 4]), NONE)
    points = triangle.sobol(12_000, 1, face=triangle.boundary())
    bottom, side = np.mean(points[:, 1] < 1e-12), np.mean(points[:, 0] < 1e-12)
    np.testing.assert_allclose(np.array([bottom, side]), [3 / 12, 4 / 12], atol=2e-3)
    hole = lc.Inside(lambda x, y: x**2 + y**2 - 0.25, x=(-0.7, 0.7), y=(-0.7, 0.7))
    plate = bound(SQUARE - hole, NONE)
    points = plate.sobol(20_000, 1, face=plate.boundary())
    share = np.mean(np.hypot(*points.T) < 0.6)
    np.testing.assert_allclose(share, np.pi / (np.pi + 8), atol=0.01)


def test_the_distribution_of_lambda_is_the_priors_whatever_the_size_of_the_shape():
    """Rows keep their lambda: a joint rejection would prefer a small pipe."""
    domain = region("ring")
    # In the order of one Sobol sequence, lambda would go along with the points of another.
    lam = np.random.default_rng(0).permutation(settings(domain, 4096))
    before = lam.copy()
    points = domain.sobol(4096, 1, parameters=lam)
    np.testing.assert_array_equal(lam, before)
    area = lambda r: np.pi * (1 - r**2)
    for low, high in ((0.2, 0.25), (0.35, 0.4)):
        inner = (lam[:, 0] >= low) & (lam[:, 0] < high)
        radius = np.hypot(*points[inner].T)
        r = (low + high) / 2
        half = np.sqrt((1 + r**2) / 2)  # the radius that halves the area
        np.testing.assert_allclose(np.mean(radius < half), 0.5, atol=0.03)
        assert area(r) > 0


def test_only_what_is_boundary_of_the_whole_is_sampled():
    cut = region("plate with a cut")
    lam = np.array([[0.4]])
    face = cut.face("x", -1.0)
    points = cut.sobol(500, 1, face=face, parameters=lam[0])
    assert np.all(points[:, 0] == -1.0)
    assert np.min(np.abs(points[:, 1])) > 0.4 - 1e-9
    assert np.min(np.abs(points[:, 1])) < 0.42
    joined = region("two boxes")
    points = joined.sobol(2000, 1, face=joined.boundary())
    shared = (points[:, 0] == 1.0) & (points[:, 1] < 0.5)
    assert not shared.any()
    ell = region("L")
    points = ell.sobol(2000, 1, face=ell.boundary())
    gone = ((points[:, 0] == 1.0) & (points[:, 1] > 0)) | ((points[:, 1] == 1) & (points[:, 0] > 0))
    assert not gone.any()
    np.testing.assert_allclose(np.mean(points[:, 0] == 0.0), 1 / 8, atol=0.01)


def test_combinations_follow_the_rules_of_sets():
    points = np.random.default_rng(0).uniform(-1.5, 1.5, (2, 5000))
    at = dict(zip("xy", points, strict=True))
    other = lc.Ball(x=0.7, y=0.2, radius=0.6)
    a, b = SQUARE.contains(**at), other.contains(**at)
    np.testing.assert_array_equal((SQUARE - other).contains(**at), a & ~b)
    np.testing.assert_array_equal((SQUARE | other).contains(**at), a | b)
    np.testing.assert_array_equal((SQUARE & other).contains(**at), a & b)
    product = lc.Box(t=(0, 1)) * other
    assert product.names == ("t", "x", "y")
    np.testing.assert_array_equal(product.contains(**at, t=0.5), b)
    assert not product.contains(**at, t=1.5).any()


def test_contains_broadcasts_and_needs_every_name():
    domain = region("ring")
    inside = domain.contains(x=np.linspace(-1, 1, 5)[:, None], y=0.0, r=[0.3, 0.4])
    np.testing.assert_array_equal(inside[:, 0], [True, True, False, True, True])
    assert inside.shape == (5, 2)
    with pytest.raises(lc.LcpinnError, match="missing r to say what is inside"):
        domain.contains(x=0.0, y=0.0)


def test_bounding_boxes_are_over_all_lambda():
    assert region("moving disc").ranges["x"] == pytest.approx((0.1, 0.6))
    assert region("snowman").ranges["y"] == pytest.approx((-1.0, 1.6))
    assert region("lens").ranges == {"x": (0.0, 1.0), "y": (-1.0, 1.0)}
    assert region("ring in time").ranges == {"t": (0, 2), "x": (-1, 1), "y": (-1, 1)}
    assert region("periodic channel").periodic == ("x",)


def test_random_points_have_the_dtype_of_the_training():
    domain = region("ring")
    lam = jnp.asarray(settings(domain, 64), jnp.float32)
    part = domain.boundary()
    draw = jax.jit(lambda key: domain.random(key, 64, face=part, dtype=jnp.float32, parameters=lam))
    points = draw(jax.random.PRNGKey(0))
    assert points.dtype == jnp.float32
    radius = np.hypot(*np.asarray(points).T)
    on = np.minimum(np.abs(radius - 1), np.abs(radius - np.asarray(lam)[:, 0]))
    assert on.max() < 1e-6


@TABLE
def test_shapes_travel_as_json_unless_they_are_functions(name):
    shape = SHAPES[name][0]
    text = json.dumps(shape.to_json())
    functions = any(callable(q.value) for q in shape.quantities)
    if functions:
        assert text == json.dumps(shape.to_json())
        with pytest.raises(lc.LcpinnError, match="cannot be read from a file"):
            shape_from_json(json.loads(text))
    else:
        assert shape_from_json(json.loads(text)) == shape
        assert pickle.loads(pickle.dumps(shape)) == shape
    assert hash(shape) == hash(shape)


# What is wrong is said in one line, before anything is trained.


def family(domain: Shape, parameters: Coefficients = NONE, on=(), **methods):
    """A family on a domain, with Laplace's equation and a condition on the boundary."""

    def equation(self, laplacian_u):
        return laplacian_u

    def edge(self, u):
        return u

    body = {"domain": domain, "parameters": parameters, "equation": lc.interior(equation)}
    body |= {"edge": lc.on(*on)(edge)} | methods
    return type("Plate", (lc.Family,), body)()


BAD = {
    "no overlap": (
        lambda: family(DISC & lc.Ball(x=3.0, y=0.0, radius=1.0)),
        "& Ball(x=3.0, y=0.0, radius=1.0) is empty",
    ),
    "swallowed": (
        lambda: family(DISC - lc.Ball(x=0.0, y=0.0, radius="r"), lc.Uniform(r=(0.5, 2.0))),
        "swallows all of what it is taken from at r = 1.0",
    ),
    "outside": (
        lambda: family(DISC - lc.Ball(x="a", y=0.0, radius=0.2), lc.Uniform(a=(0.0, 2.0))),
        "lies outside of what it is taken from at a = ",
    ),
    "touches": (
        lambda: family(DISC - lc.Ball(x=0.5, y=0.0, radius="r"), lc.Uniform(r=(0.2, 0.5))),
        "touches the boundary of what it is taken from at r = 0.5",
    ),
    "cuts at some lambda only": (
        lambda: family(SQUARE - lc.Ball(x="a", y=0.0, radius=0.3), lc.Uniform(a=(0.0, 1.0))),
        "in between it touches it",
    ),
    "across a periodic wall": (
        lambda: family(lc.Box(x=lc.Periodic(0, 1), y=(0, 1)) - lc.Ball(x="a", y=0.5, radius=0.2),
                       lc.Uniform(a=(0.1, 0.4))),
        "reaches across an end of the periodic coordinate x at a = 0.1: begin its range, (0, 1),",
    ),
    "foreign coordinate": (
        lambda: DISC - lc.Ball(x=0.0, z=0.0, radius=0.1),
        "has the coordinate z, which what it is combined with by - does not have (x, y)",
    ),
    "shared coordinate": (
        lambda: lc.Box(x=(0, 1)) * DISC,
        "both have the coordinate x; a product joins different ones",
    ),
    "negative radius": (
        lambda: family(lc.Ball(x=0.0, y=0.0, radius=lambda r: r - 0.3), KNOB),
        "the radius of Ball(x=0.0, y=0.0, radius=<lambda>(r)) is -0.1 at r = 0.2",
    ),
    "negative number": (lambda: lc.Ball(x=0.0, radius=-1), "radius must be positive, not -1"),
    "bow tie": (
        lambda: lc.Polygon(x=[0, 1, 0, 1], y=[0, 1, 1, 0]),
        "intersects itself: edges 1 and 3 meet",
    ),
    "bow tie at some lambda": (
        lambda: family(lc.Polygon(x=[0, "r", 1, 1], y=[0, 1, 1, 0]), lc.Uniform(r=(0.5, 2.0))),
        "intersects itself: edges 1 and 3 meet at r = ",
    ),
    "two corners": (lambda: lc.Polygon(x=[0, 1], y=[0, 1]), "needs three corners or more"),
    "unknown parameter": (
        lambda: family(lc.Ball(x=0.0, y=0.0, radius="q"), KNOB),
        "depends on 'q', which is no parameter; there are: r",
    ),
    "not a part": (
        lambda: family(DISC, on=(lc.Ball(x=0.0, y=0.0, radius=0.5),)),
        "term 'edge' of Plate: Ball(x=0.0, y=0.0, radius=0.5) makes no boundary of the domain",
    ),
    "covered": (
        lambda: family(DISC | lc.Ball(x=0.0, y=0.0, radius=0.5),
                       on=(lc.Ball(x=0.0, y=0.0, radius=0.5),)),
        "makes no boundary of the domain",
    ),
    "no such face": (
        lambda: family(SQUARE - lc.Ball(x=0.0, y=0.0, radius=0.5),
                       wall=lc.on(x=0.5)(lambda self, u: u)),
        "x = 0.5 is not a face of the domain; its faces are -1 and 1",
    ),
    "normal inside": (
        lambda: family(DISC, inner=lc.interior(lambda self, u_n: u_n)),
        "asks for 'u_n', but there is a normal on the boundary only: mark it with @lc.on(...)",
    ),
    "a region that has no number somewhere": (
        lambda: family(lc.Inside(lambda x, y, r: jnp.log(x) + r, x=(-1, 1), y=(-1, 1)), KNOB),
        "is NaN at points such as (x = -0.",
    ),
    "a region in Python's own ifs": (
        lambda: family(lc.Inside(lambda x, y: -1.0 if x < 0 else y, x=(-1, 1), y=(-1, 1))),
        "fails: ValueError: The truth value of an array",
    ),
    "a region without a value": (
        lambda: family(lc.Inside(lambda x, y: None, x=(-1, 1), y=(-1, 1))),
        "Inside(x, y -> ...; x=(-1.0, 1.0), y=(-1.0, 1.0)) fails: ",
    ),
    "not a shape": (
        lambda: lc.on(3)(lambda u: u),  # pyright: ignore[reportArgumentType]: what is tested
        "name a shape, or a face such as x=0.0",
    ),
    "reversed box": (
        lambda: family(lc.Box(x=("r", 0.3), y=(0.0, 1.0)), KNOB),
        "the range of x in Box(x=('r', 0.3), y=(0.0, 1.0)) is (0.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_shapes_are_one_clear_line(case):
    build, message = BAD[case]
    with pytest.raises(lc.LcpinnError) as caught:
        build()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_holes_are_called_by_their_names_on_the_page():
    class Named(lc.Family):
        pipe = lc.Ball(x=3.0, y=0.0, radius=0.5)
        domain = DISC - pipe

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u

    with pytest.raises(lc.LcpinnError, match=r"Named: pipe, Ball\(.*lies outside"):
        Named()
