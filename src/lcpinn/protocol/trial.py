"""A frequency scale by trial: random features, of which least squares takes the best combination.

How fast the first layer's units should oscillate depends on what the equation's solutions look
like. For a linear equation there is a trial that takes a moment: one hidden layer whose units stay
as they were drawn, and output weights that solve the linear least-squares problem (Rahimi and Recht
2008; for differential equations Dong and Li 2021). The residual on other points, at the worst of a
few settings, says how well units of that scale can do; training starts from the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from lcpinn.compilation import compiler_options
from lcpinn.family import Family
from lcpinn.machine import host_device
from lcpinn.network import MLP, FiLM
from lcpinn.own_solutions import spread_settings
from lcpinn.precision import double
from lcpinn.rows import Params, Problem
from lcpinn.sampling import Batch, Sampling, fixed
from lcpinn.threads import blas_threads

UNITS, INTERIOR, FACES = 150, 500, 150
SETTINGS = 3
SLOW = (1.0, 2.0)  # scales that are tried beside the given one and twice that
FASTEST = 8.0  # of the given scale: as far as scales are doubled while that helps
CLEAR = 3.0  # by what factor the residual has to be smaller for another scale to be taken
ENOUGH = 1e-6  # a residual of the given scale, for which no faster one is needed
CUTOFF = 1e-13  # pivots that count, of the largest

# Whether scales stay as they were given.
_left_out: ContextVar[bool] = ContextVar("left out", default=False)

Rows = dict[str, np.ndarray]
Affine = Callable[[Params, Batch], tuple[Rows, Rows]]


def can_be_tried(family: Family) -> bool:
    """Whether a trial of frequency scales says something, and is worth its seconds.

    With two inputs training is over in seconds; features and periods have scales of their own.
    """
    inputs = family.domain.dim + len(family.parameters.free)
    own = family.features is not None or family.domain.periodic
    return inputs > 2 and not own and family.is_linear()


@contextmanager
def without_trials() -> Iterator[None]:
    """For whoever only asks whether a protocol can be made."""
    before = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(before)


def tried(family: Family, network: MLP) -> MLP:
    """The network with the frequency scale that does best on a linear equation.

    Where the given one leaves next to nothing no faster one is taken: of slow solutions along one
    coordinate all of them leave rounding alone, the fastest a little less of it, and a network that
    begins there does not find its way back.
    """
    if _left_out.get():
        return network
    given = network.frequency_scale
    worst = residuals_by_scale(family, network)
    fastest = given if worst[given] <= ENOUGH else np.inf
    finite = {scale: v for scale, v in worst.items() if np.isfinite(v) and scale <= fastest}
    best = min(finite, key=lambda scale: finite[scale], default=given)
    clear = not worst[given] <= CLEAR * worst[best]
    return replace(network, frequency_scale=best) if clear else network


def residuals_by_scale(family: Family, network: MLP) -> dict[float, float]:
    """The largest relative residual over a few settings, for as many scales as it takes.

    The given scale, SLOW ones and twice the given; the fastest of them is doubled for as long as
    that is better than all before.
    """
    given = network.frequency_scale
    with _residual_of_scale(family, network) as residual:
        worst = {scale: residual(scale) for scale in dict.fromkeys((given, *SLOW, 2 * given))}
        scale = max(worst)
        while worst[scale] == min(worst.values()) and 2 * scale <= FASTEST * given:
            scale = 2 * scale
            worst[scale] = residual(scale)
    return worst


def worst_residuals(family: Family, network: MLP, scales: Sequence[float]) -> np.ndarray:
    """The same for given scales."""
    with _residual_of_scale(family, network) as residual:
        return np.array([residual(scale) for scale in scales])


@contextmanager
def _residual_of_scale(family: Family, network: MLP) -> Iterator[Callable[[float], float]]:
    """A function from a scale to its largest residual over the settings, on points not fitted."""
    flat = FiLM(hidden=0, degree=1)  # as drawn it leaves a network alone: no lambda in it
    units = replace(network, widths=(UNITS,), readout=0, parameters=flat)
    host = host_device()
    options = compiler_options(once=True, host=host is not None)
    with double(), jax.default_device(host), blas_threads(1):
        problem = Problem(family, units, np.float64)
        affine = _affine_rows(problem, options)
        pairs = [
            [_points(family, lam, seed) for seed in (1, 77)]
            for lam in spread_settings(family.parameters, SETTINGS)
        ]
        params = problem.drawing()(jax.random.PRNGKey(0))

        def residual(scale: float) -> float:
            drawn = _with_scale(params, scale / units.frequency_scale)
            return max(_residual(affine, drawn, *pair) for pair in pairs)

        yield residual


def _points(family: Family, lam: np.ndarray, seed: int) -> Batch:
    sampling = Sampling(INTERIOR, FACES, 1, "sobol", seed=seed)
    batch = fixed(family, sampling, np.float64, at=np.asarray(lam, float))
    return {where: points for where, points in batch.items() if where != "data"}


def _with_scale(params: Params, factor: float) -> Params:
    """The same draw of the units, all of them faster by a factor."""
    first, *rest = params["layers"]
    return params | {"layers": [first | {"w": factor * first["w"]}, *rest]}


def _affine_rows(problem: Problem, options: dict[str, Any] | None) -> Affine:
    """Rows as a function of the output weights, which a linear equation makes affine: (b, A)."""

    def rows(params: Params, batch: Batch, weights: Array) -> dict[str, Array]:
        *hidden, last = params["layers"]
        layers = [*hidden, {"w": weights, "b": jnp.zeros_like(last["b"])}]
        residuals = problem.residuals(params | {"layers": layers}, batch)
        return {name: values.reshape(-1) for name, values in residuals.items()}

    def affine(params: Params, batch: Batch) -> tuple[dict[str, Array], dict[str, Array]]:
        last = params["layers"][-1]["w"]
        units = jnp.eye(last.size, dtype=last.dtype).reshape(-1, *last.shape)
        constant = rows(params, batch, jnp.zeros_like(last))
        columns = jax.vmap(lambda unit: rows(params, batch, unit))(units)
        return constant, {name: (columns[name] - constant[name]).T for name in constant}

    traced = jax.jit(affine, compiler_options=options)
    return lambda params, batch: jax.device_get(traced(params, batch))


def _residual(affine: Affine, params: Params, fitted: Batch, other: Batch) -> float:
    """The relative residual at one setting, on other points than the output weights were fitted to.

    Every term's rows are divided by how strongly they respond to the weights, as in training.
    """
    constant, matrix = affine(params, fitted)
    size = {name: float(np.linalg.norm(matrix[name])) or 1.0 for name in matrix}

    def joined(rows: Rows) -> Float[np.ndarray, "n ..."]:
        return np.concatenate([rows[name] / size[name] for name in size])

    target = -joined(constant)
    try:  # QR with pivoting: a tenth of the time of singular values
        weights, *_ = scipy.linalg.lstsq(joined(matrix), target, CUTOFF, lapack_driver="gelsy")
    except (ValueError, np.linalg.LinAlgError):  # not finite
        return np.inf
    constant, matrix = affine(params, other)
    remaining = joined(constant) + joined(matrix) @ weights
    return float(np.linalg.norm(remaining) / (np.linalg.norm(target) or 1.0))
