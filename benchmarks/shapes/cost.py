"""What sampling a shape costs, and a training step on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import lcpinn as lc
from lcpinn.families import FourHoles
from lcpinn.network import MLP
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, fixed


def sampling() -> dict[str, float]:
    """Seconds for a million points, and a step on a shape against one on a box."""
    domain = FourHoles().domain
    lam = FourHoles().parameters.sobol(1_000_000, 1)
    found = {
        "seconds, a million points inside": _timed(lambda: domain.sobol(len(lam), parameters=lam)),
        "seconds, a million on the boundary": _timed(
            lambda: domain.sobol(len(lam), face=domain.boundary(), parameters=lam)
        ),
    }
    found["step on a shape / step on a box"] = _step(FourHoles()) / _step(_boxed())
    return found


def _boxed() -> lc.Family:
    """The same terms, as many rows, on the square alone."""

    class Square(lc.Family):
        domain = lc.Box(x=(-1, 1), y=(-1, 1))
        parameters = lc.Uniform(r=(0.15, 0.35))

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u

        @lc.on(x=-1.0)
        def flux(self, u_x, x, y):
            return u_x - x * y

        @lc.on(x=1.0)
        def sides(self, u, x, y):
            return u - x * y

    return Square()


def _step(family: lc.Family) -> float:
    """Seconds for the loss and its gradient on 8192 rows."""
    with double():
        problem = Problem(family, MLP((32, 32, 32)), jnp.float64)
        params = problem.init(jax.random.PRNGKey(0))
        batch = fixed(family, Sampling(6144, 1024, 1, "sobol"), jnp.float64)
        weights = dict.fromkeys(family.terms, jnp.ones((1, 1)))
        run = jax.jit(jax.grad(problem.loss))
        jax.block_until_ready(run(params, batch, weights))
        return _timed(lambda: jax.block_until_ready(run(params, batch, weights)), 20)


def _timed(function: Callable[[], Any], repeats: int = 3) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return min(times)
