"""The line search for the strong Wolfe conditions, one evaluation at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpinn.optimiser import line_search
from lcpinn.optimiser.line_search import CURVATURE, MOST_EVALUATIONS, SUFFICIENT_DECREASE

LINES = {
    # functions of a step a, with how long the first step is
    "a parabola": (lambda a: (a - 1) ** 2, 1.0),
    "a minimum far away": (lambda a: (a - 300) ** 2, 1.0),
    "a minimum at once": (lambda a: (a - 1e-4) ** 2, 1.0),
    "a wall": (lambda a: -jnp.log(0.3 - a) - 20 * a, 1.0),
    "waves on a slope": (lambda a: jnp.cos(9 * a) - 0.5 * a + 0.02 * a**2, 1.0),
    "a kink": (lambda a: jnp.abs(a - 0.7), 2.0),
    "More and Thuente's flat one": (lambda a: -a / (a**2 + 2), 1e-3),
}


def searches(function, first):
    """A search along one direction in a space of one dimension, in a program."""
    evaluate = jax.value_and_grad(lambda x: function(x[0]))

    def body(search):
        return line_search.told(search, *evaluate(search.length * search.direction))

    @jax.jit
    def run(first):
        loss, gradient = evaluate(jnp.zeros(1))
        start = line_search.begin(loss, gradient, first[None])
        return jax.lax.while_loop(lambda s: ~s.over, body, start)

    return run(first)


@pytest.mark.parametrize("name", LINES)
def test_it_ends_where_the_strong_wolfe_conditions_hold(name, x64):
    function, first = LINES[name]
    search = searches(function, jnp.asarray(first))
    start, low = search.start, search.low
    assert low.length > 0
    assert low.loss <= start.loss + SUFFICIENT_DECREASE * low.length * start.slope
    if name == "a kink":  # where no slope is small the bracket shrinks on to it
        np.testing.assert_allclose(low.length * first, 0.7, atol=1e-6)
    else:
        assert abs(low.slope) <= CURVATURE * abs(start.slope)
        assert search.evaluations < MOST_EVALUATIONS
    x = low.length * first
    np.testing.assert_allclose(low.loss, function(x), rtol=1e-12)
    np.testing.assert_allclose(search.gradient[0], jax.grad(function)(x), rtol=1e-9)


def test_rounding_ends_it_early():
    """Single precision, at a minimum but for the last digits: few evaluations, and no harm."""
    bowl = lambda a: 1.0 + 1e-9 * ((a - 1e3) ** 2 - 1e6) + 3e-7 * jnp.sin(1e5 * a)
    search = searches(lambda a: jax.lax.stop_gradient(bowl(a)) - 1e-9 * a, jnp.asarray(1.0))
    assert search.evaluations <= 5
    assert search.low.loss <= search.start.loss


def test_members_of_a_batch_end_where_each_would_alone(x64):
    minima = jnp.asarray([1.0, 300.0, 1e-4])

    def run(minimum):
        return searches(lambda a: (a - minimum) ** 2, jnp.asarray(1.0))

    together = jax.vmap(run)(minima)
    for index, minimum in enumerate(minima):
        alone = run(minimum)
        np.testing.assert_allclose(together.low.length[index], alone.low.length, rtol=1e-12)
        assert together.evaluations[index] == alone.evaluations
    assert len(set(np.asarray(together.evaluations).tolist())) > 1
