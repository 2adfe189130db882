"""Settings of several coefficients where a network's residual is largest: the first to be judged.

An estimate takes long, and a handful of settings says little about eight coefficients: the error at
one of 256 corners can be a hundred times that of most. Residuals at hundreds of settings take a
moment. How large an error is they do not say, but where it is to be looked for.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.compilation import for_once
from lcpinn.domain import Box
from lcpinn.network.contract import Params
from lcpinn.prior import Coefficients
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, fixed

POINTS = Sampling(interior=64, face=12, num_lambda=1, rule="sobol", seed=17)
CORNERS, BETWEEN = 256, 256  # settings that residuals are compared at
FEW = 4  # that are suspected


class Suspects:
    """Settings (FEW, p) with the largest residuals of a network."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.settings = _candidates(problem.family.parameters)
        self._sizes = for_once(self._residual_sizes)

    @staticmethod
    def can_be_sought(problem: Problem) -> bool:
        """Where points are the same for all settings, of which there is more than a line."""
        family = problem.family
        several = len(family.parameters.free) > 1 and family.weights is None
        return several and isinstance(family.domain, Box) and "data" not in family.groups

    def __call__(self, params: Params) -> np.ndarray:
        sizes = np.asarray(self._sizes(params, jnp.asarray(self.settings)))  # (n, components)
        # A term that holds everywhere but here is as suspicious as one that is large everywhere.
        usual = np.sqrt(np.mean(sizes**2, axis=0))
        score = np.max(sizes / np.where(usual > 0, usual, 1), axis=1)
        return self.settings[np.argsort(-score)[:FEW]]

    def _residual_sizes(self, params: Params, settings: Array) -> Array:
        """Root mean squares of every component of every term, (n, components)."""
        family, dtype = self.problem.family, self.problem.dtype
        centre = np.asarray(family.parameters.from_unit(np.full(family.parameters.dim, 0.5)))
        batch = fixed(family, POINTS, dtype, centre)

        def sizes(lam: Array) -> Array:
            moved = {
                where: points._replace(
                    parameters=jnp.broadcast_to(lam.astype(dtype), points.parameters.shape)
                )
                for where, points in batch.items()
            }
            residuals = self.problem.residuals(params, moved).values()
            means = [jnp.mean(r**2, axis=tuple(range(r.ndim - 1))) for r in residuals]
            return jnp.sqrt(jnp.concatenate(means))

        return jax.lax.map(sizes, settings, batch_size=64)


def _candidates(prior: Coefficients) -> np.ndarray:
    """Corners of the box of coefficients, and points all over it, (n, p)."""
    free = [name in prior.free for name in prior.names]
    num = sum(free)
    if 2**num <= CORNERS:
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=num)))
    else:
        corners = np.random.default_rng(0).integers(0, 2, (CORNERS, num)).astype(float)
    unit = np.full((len(corners), prior.dim), 0.5)
    unit[:, free] = corners
    corners = np.asarray(prior.from_unit(unit))
    return np.concatenate([corners, np.asarray(prior.sobol(BETWEEN, seed=17))])
