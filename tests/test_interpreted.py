"""Functions that NumPy carries out: they give what JAX gives, and are compiled if called often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Coupled, Moving, the

from lcpinn import interpreted
from lcpinn.families import BUILT_IN
from lcpinn.interpreted import PLAIN, SPECIAL, TIMES, Seldom
from lcpinn.spectral.linearisation import _residual_and_slopes

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(3)
X, Y = RNG.uniform(0.2, 0.9, (2, 4, 3))


def refused(*_):
    raise AssertionError("it was to be interpreted")


FUNCTIONS = {
    "arithmetic": lambda x, y: x + 2 * y - x * y / (1 + x**3) - x**-2 + (-y) ** 2,
    "powers": lambda x, y: (x**y, x**0.5, jnp.sqrt(y), jax.lax.rsqrt(x), jnp.cbrt(y), x**2),
    "exponentials": lambda x, y: (jnp.exp(x), jnp.log(y), jnp.expm1(x), jnp.log1p(y), jnp.exp2(x)),
    "angles": lambda x, y: (jnp.sin(x), jnp.cos(y), jnp.tan(x), jnp.arctan2(x, y), jnp.arcsin(x),
                            jnp.arccos(y), jnp.arctan(x)),
    "hyperbolas": lambda x, y: (jnp.sinh(x), jnp.cosh(y), jnp.tanh(x), jnp.arcsinh(x),
                                jnp.arccosh(1 + y), jnp.arctanh(x)),
    "special": lambda x, y: (jax.nn.sigmoid(x), jax.scipy.special.erf(y),
                             jax.scipy.special.erfc(x)),
    "jumps": lambda x, y: (jnp.where(x > y, x, y), jnp.sign(x - y), jnp.abs(x - y),
                           jnp.maximum(x, 0.5), jnp.minimum(y, x), jnp.clip(x, 0.3, 0.6)),
    "truths": lambda x, y: ((x < y) & ~(x >= 0.5) | (x == y), jnp.all(x != y), jnp.any(x <= 0.3),
                            jnp.isfinite(x / y), jnp.floor(3 * x), jnp.ceil(3 * y)),
    "sums": lambda x, y: (x.sum(), y.sum(0), x.max(1), y.min(), x.prod(0)),
    "shapes": lambda x, y: (x.T, x[1], y[:, 2], x[::2], jnp.flip(y, 1), x.reshape(2, 6),
                            jnp.concatenate([x, y]), jnp.stack([x, y], 1), x[None] * y[:, None]),
    "parts": lambda x, y: (*jax.lax.split(x, (1, 3), axis=0), jnp.arange(4.0)[:, None] * y),
    "gaps": lambda x, y: (jax.lax.pad(x, 0.5, [(1, 2, 0), (0, 1, 2)]),
                          jax.lax.pad(y, -1.0, [(-1, 3, 1), (2, -2, 0)])),
    "products": lambda x, y: (x @ y.T, jnp.einsum("ij,kj->ki", x, y), jnp.einsum("ij,ij->j", x, y),
                              jnp.tensordot(x, y)),
    "derivatives": lambda x, y: jax.vmap(jax.jacfwd(lambda p: jnp.tanh(p[0] * p) / p[1]))(x),
    "not finite": lambda x, y: (jnp.log(-x), x / jnp.zeros(3), jnp.sqrt(-y)),
    "calls": lambda x, y: (jax.jit(jnp.sin)(x), jax.nn.relu(x - 0.5), jax.nn.softplus(y)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_gives_what_a_program_gives(name):
    function = FUNCTIONS[name]
    compare(Seldom(function, refused)(X, Y), jax.jit(function)(X, Y))


def compare(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


def test_every_operation_is_tried_here():
    """But for those that JAX has under two names, or that only some versions of it write."""
    used, result = set(), interpreted._result

    def recorded(equation, operands):
        used.add(equation.primitive.name)
        return result(equation, operands)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreted, "_result", recorded)
        for function in FUNCTIONS.values():
            Seldom(function, refused)(X, Y)
    rest = {*PLAIN, *SPECIAL} - used
    assert rest <= {"copy", "copy_p", "clamp", "square", "stack", "unstack", "one_minus_square"}


@pytest.mark.parametrize("make", [Moving, Coupled, BUILT_IN["buckley-leverett"]])
def test_terms_and_their_slopes(make):
    family, num = the(make), 5
    for term in family.all_terms.values():
        orders = family.orders([term])
        shapes = (len(orders), num, len(family.outputs)), (num, family.domain.dim)
        series, points = (RNG.uniform(0.1, 0.4, shape) for shape in shapes)
        given = series, points, np.zeros_like(points), np.asarray(family.parameters.sobol(1)[0])
        function = lambda *arrays, t=term, o=orders: _residual_and_slopes(t, o, *arrays)
        compare(Seldom(function, refused)(*given), jax.jit(function)(*given))


def test_what_numpy_has_not_is_compiled():
    function = lambda x: jnp.sort(x)
    assert Seldom(function, lambda x: "compiled")(X) == "compiled"
    halves = lambda x: jax.lax.div(x, 2)
    assert Seldom(halves, jax.jit(halves))(np.array([-3, 3])).tolist() == [-1, 1]


def test_what_is_called_often_is_compiled():
    seldom = Seldom(lambda x: 2 * x, lambda x: "compiled")
    assert [isinstance(seldom(X), np.ndarray) for _ in range(TIMES)] == [True] * TIMES
    assert seldom(X) == "compiled"


def test_trees_of_arrays():
    function = lambda tree, y: {"sum": tree["x"] + sum(tree["more"]) + y, "none": None}
    given = {"x": X, "more": (Y, Y[0])}
    compare(Seldom(function, refused)(given, Y), jax.jit(function)(given, Y))


def test_precision_is_that_of_a_program():
    function = lambda x, y: jnp.sin(x) * y
    seldom = Seldom(function, refused)
    for wide, dtype in ((True, "float64"), (False, "float32"), (True, "float64")):
        with jax.enable_x64(wide):
            got, expected = seldom(X, Y), jax.jit(function)(X, Y)
            assert got.dtype == expected.dtype == dtype
            np.testing.assert_allclose(got, expected, rtol=1e-6 if dtype == "float32" else 1e-14)


def test_other_shapes_are_traced_anew_and_the_same_ones_are_not():
    traced = []

    def function(x):
        traced.append(x.shape)
        return x + 1

    seldom = Seldom(function, refused)
    for x in (X, X, X[0], X):
        np.testing.assert_array_equal(seldom(x), x + 1)
    assert traced == [(4, 3), (3,)]
