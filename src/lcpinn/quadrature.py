"""Points and rules of the unit cube, which priors and domains map to themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from jaxtyping import Float

from lcpinn.checks import checked_count
from lcpinn.low_discrepancy import sobol

Points = Float[np.ndarray, "num dim"]
Rule = tuple[np.ndarray, np.ndarray]


def unit_sobol(num: int, dim: int, seed: int) -> Points:
    """Scrambled Sobol points of the unit cube, (num, dim)."""
    if dim == 0 or num == 0:
        return np.zeros((num, dim))
    return sobol(num, dim, seed)


def unit_gauss(num: int) -> Rule:
    """Gauss-Legendre nodes and weights on (0, 1); the weights sum to one."""
    nodes, weights = _legendre(checked_count(num))
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=64)
def _legendre(num: int) -> Rule:
    # NumPy's takes the eigenvalues of a dense matrix: for 8192 nodes that is most of a minute.
    return np.polynomial.legendre.leggauss(num) if num < 1000 else scipy.special.roots_legendre(num)


def unit_grid(num: int) -> np.ndarray:
    """Equispaced points of [0, 1] with both ends; the centre when there is only one."""
    return np.linspace(0, 1, num) if checked_count(num) > 1 else np.array([0.5])


def tensor(axes: Sequence[np.ndarray]) -> Points:
    """Every combination of the axes' values, the last axis fastest; no axes make one point."""
    if not axes:
        return np.zeros((1, 0))
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def tensor_rule(rules: Sequence[Rule]) -> Rule:
    """The product of one-dimensional rules: points (n, len(rules)) and weights (n,)."""
    nodes, weights = [rule[0] for rule in rules], [rule[1] for rule in rules]
    return tensor(nodes), tensor(weights).prod(axis=1)
