"""Whether observations are noisy: smooth fits of growing size, judged by cross-validation.

A network with as many parameters as there are noisy observations fits the noise, and a coefficient
that is to be found from derivatives of the fit is lost first. No residual tells: the equation is
satisfied by u and the coefficient that belongs to that u. What tells is the observations alone.
Least squares of m random features leaves a residual r of N values, and generalised cross-validation
(Golub, Heath and Wahba 1979) says what it would be of values that were not fitted,

    |r| / (1 - m/N) / sqrt(N).

Of smooth values it falls with m, down to rounding; of noisy ones it settles at the noise, and from
there on rises with m, as the fit begins to follow the noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
from jaxtyping import Float

from lcpinn.family import Family
from lcpinn.protocol.choice import Choice
from lcpinn.threads import blas_threads

FEW = 64  # observations that say nothing about their noise
SHARES, MOST = (1 / 16, 1 / 8, 1 / 4), 384  # units of the fits, of the observations; and at most
SCALES = (1.0, 3.0, 9.0)  # how fast the units are
DRAWS = 2
WIDTHS, SLOW = (20, 20), 1.0  # of the network for noisy observations, and its frequency scale
SLIGHT, ALL = 1e-3, 0.8  # noise, of the values' standard deviation, between which it is one


def restrained(family: Family, choice: Choice) -> Choice:
    """A small network of slow units, where outputs have to be found from others' noisy values."""
    data = family.data
    if data is None or all(name in data.columns for name in family.outputs):
        return choice
    if not noise_of(family):
        return choice
    slow = replace(choice.size, widths=WIDTHS, frequency_scale=SLOW)
    return replace(choice, size=slow, activation="sine")


def noise_of(family: Family) -> float:
    """The noise of the observations as a share of their variation; zero where none is seen."""
    data, free = family.data, family.parameters.free
    if data is None or len(data) < FEW or any(name not in data.columns for name in free):
        return 0.0
    ranges = family.domain.ranges | {name: family.parameters.ranges[name] for name in free}
    inputs = [2 * (data.columns[n] - low) / (high - low) - 1 for n, (low, high) in ranges.items()]
    observed = [data.columns[name] for name in family.outputs if name in data.columns]
    with blas_threads(1):
        return max(_noise(np.stack(inputs, axis=-1), values) for values in observed)


def _noise(inputs: Float[np.ndarray, "n d"], values: Float[np.ndarray, " n"]) -> float:
    """The smallest of all cross-validated residuals, relative, unless the largest fit has it."""
    variation = float(np.std(values))
    if variation == 0.0:
        return 0.0
    largest = min(MOST, int(SHARES[-1] * len(values)))
    sizes = [round(largest * share / SHARES[-1]) for share in SHARES]
    best = [min(_left_over(inputs, values, size, scale) for scale in SCALES) for size in sizes]
    noise = min(best) / variation
    return noise if best[-1] > min(best) and SLIGHT < noise < ALL else 0.0


def _left_over(inputs: np.ndarray, values: np.ndarray, size: int, scale: float) -> float:
    """The cross-validated residual of fits by so many sines of random slopes, in the mean."""
    random, residuals = np.random.default_rng(size), []
    for _ in range(DRAWS):
        slopes = random.uniform(-scale, scale, (inputs.shape[1], size))
        units = np.sin(inputs @ slopes + random.uniform(-np.pi, np.pi, size))
        matrix = np.column_stack([np.ones(len(values)), units])
        weights, _, rank, _ = scipy.linalg.lstsq(matrix, values, 1e-10, lapack_driver="gelsy")
        residuals.append(np.linalg.norm(matrix @ weights - values) / (1 - rank / len(values)))
    return float(np.mean(residuals) / len(values) ** 0.5)
