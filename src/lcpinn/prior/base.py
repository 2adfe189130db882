"""What every prior is: the image of the unit cube under one map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, Float

from lcpinn.precision import host_or_device
from lcpinn.quadrature import Points, unit_sobol


@dataclass(frozen=True)
class Prior(ABC):
    """A distribution over named lambdas. Values are arrays (..., dim) in the order of names."""

    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        """How many lambdas there are."""
        return len(self.names)

    @property
    @abstractmethod
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Name -> (low, high)."""

    @property
    @abstractmethod
    def _num_unit(self) -> int:
        """The dimension of the unit cube that is mapped to this prior."""

    @abstractmethod
    def _push(self, unit: Any, xp: ModuleType) -> Any:
        """Map unit-cube points (..., num_unit) to values (..., dim), with xp = numpy or jnp."""

    @abstractmethod
    def quadrature(self, num: int) -> tuple[Points, Float[np.ndarray, " num"]]:
        """Gauss rule with num nodes per dimension: values (n, dim), weights (n,) of sum one."""

    @abstractmethod
    def normalise(self, values: ArrayLike) -> Float[Array, "*batch dim"]:
        """Values as the network sees them, in [-1, 1]."""

    @abstractmethod
    def contains(self, values: ArrayLike) -> Bool[Array | np.ndarray, "*batch"]:
        """Which values lie in the prior's support, up to rounding."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The prior as plain JSON; prior_from_json reads it back."""

    def sample(self, key: Array, num: int, dtype: DTypeLike = float) -> Float[Array, "num dim"]:
        """Draw num independent values."""
        return self._push(jax.random.uniform(key, (num, self._num_unit), dtype), jnp)

    @property
    def unit_dim(self) -> int:
        """The dimension of the unit cube that `from_unit` maps to this prior."""
        return self._num_unit

    def from_unit(self, unit: ArrayLike) -> Float[Array | np.ndarray, "*batch dim"]:
        """Points of the unit cube (..., unit_dim) as values: uniform points become draws."""
        return self._push(*host_or_device(unit))

    def sobol(self, num: int, seed: int = 0) -> Points:
        """Scrambled Sobol points, distributed as the prior."""
        return self._push(unit_sobol(num, self._num_unit, seed), np)
