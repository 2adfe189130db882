"""Priors over loss weights: the simplex, the cube, and the cube of their logarithms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self, final

import numpy as np
import scipy
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from lcpinn.checks import checked_count, unique
from lcpinn.errors import LcpinnError
from lcpinn.precision import ROUNDING, floating, host_or_device
from lcpinn.prior.base import Prior
from lcpinn.quadrature import Points, tensor_rule, unit_gauss


@dataclass(frozen=True, repr=False)
class Weights(Prior):
    """A prior over the loss weights of named terms; without names until a family binds them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.names))})"

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Name -> (low, 1)."""
        return dict.fromkeys(self.names, (self._low, 1.0))

    @abstractmethod
    def named(self, names: Iterable[str]) -> Self:
        """The same prior over the terms with these names."""

    def normalise(self, values: ArrayLike) -> Float[Array, "*batch dim"]:
        """2 w - 1, in [-1, 1]."""
        return 2 * floating(values) - 1

    def contains(self, values: ArrayLike) -> Bool[Array | np.ndarray, "*batch"]:
        """Which weights lie in the prior's support, up to rounding."""
        w, xp = host_or_device(values)
        low = self._low * (1 - ROUNDING) if self._low else -ROUNDING
        within = xp.all((w >= low) & (w <= 1 + ROUNDING), axis=-1)
        return xp.asarray(within & self._on_support(w))

    def to_json(self) -> dict[str, Any]:
        """The prior as plain JSON."""
        extra = {"low": self._low} if self._low else {}
        return {"kind": type(self).__name__, "names": list(self.names), **extra}

    @property
    def _low(self) -> float:
        """The least weight."""
        return 0.0

    def _on_support(self, weights: Any) -> Any:
        """What the support asks beyond the bounds on each weight: nothing, for a cube."""
        return True

    @property
    def _num_terms(self) -> int:
        if not self.names:
            raise LcpinnError(f"{self!r} names no terms yet; bind them with .named(names)")
        return self.dim


@final
@dataclass(frozen=True, init=False, repr=False)
class Simplex(Weights):
    """Weights that sum to one, uniform on the simplex: Dirichlet(1, ..., 1).

    Drawn by breaking a stick: what remains after term i is a fraction r_i of what remained
    before it, with r_i^(m - i) uniform on (0, 1).
    """

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", unique(names))

    def named(self, names: Iterable[str]) -> Simplex:
        """The simplex over the terms with these names."""
        return Simplex(*names)

    def quadrature(self, num: int) -> tuple[Points, Float[np.ndarray, " num"]]:
        """Gauss-Jacobi in the fractions r_i, num nodes each; exact to total degree 2 num - 1.

        The density of r_i is (m - i) r^(m - i - 1), which is the Jacobi weight.
        """
        rules = []
        for power in self._powers():
            nodes, weights = scipy.special.roots_jacobi(checked_count(num), 0, power - 1)
            rules.append(((nodes + 1) / 2, weights / weights.sum()))
        fractions, weights = tensor_rule(rules)
        return _break_stick(fractions, np), weights

    @property
    def _num_unit(self) -> int:
        return self._num_terms - 1

    def _push(self, unit: Any, xp: ModuleType) -> Any:
        return _break_stick(unit ** xp.asarray(1 / self._powers(), unit.dtype), xp)

    def _powers(self) -> np.ndarray:
        """m - i for i = 1, ..., m - 1."""
        return np.arange(self._num_terms - 1, 0, -1)

    def _on_support(self, weights: Any) -> Any:
        return abs(weights.sum(axis=-1) - 1) <= 1e-6


def _break_stick(fractions: Any, xp: ModuleType) -> Any:
    """Weights (n, m) of sum one from the fractions (n, m - 1) left after each break."""
    end = xp.ones_like(fractions, shape=(*fractions.shape[:-1], 1))
    remaining = xp.concatenate([end, xp.cumprod(fractions, axis=-1), 0 * end], axis=-1)
    return remaining[..., :-1] - remaining[..., 1:]


@final
@dataclass(frozen=True, init=False, repr=False)
class Cube(Weights):
    """Independent weights, each uniform on (0, 1)."""

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", unique(names))

    def named(self, names: Iterable[str]) -> Cube:
        """The cube over the terms with these names."""
        return Cube(*names)

    def quadrature(self, num: int) -> tuple[Points, Float[np.ndarray, " num"]]:
        """Tensor Gauss-Legendre, num nodes per weight."""
        return tensor_rule([unit_gauss(num)] * self._num_unit)

    @property
    def _num_unit(self) -> int:
        return self._num_terms

    def _push(self, unit: Any, xp: ModuleType) -> Any:
        del xp
        return unit


@final
@dataclass(frozen=True, init=False, repr=False)
class LogCube(Weights):
    """Independent weights, each log-uniform on [low, 1]; the network still sees 2 w - 1."""

    low: float

    def __init__(self, *names: str, low: float = 1e-3) -> None:
        if not 0 < low < 1:
            raise LcpinnError(f"LogCube: low must lie between 0 and 1, not {low}")
        object.__setattr__(self, "names", unique(names))
        object.__setattr__(self, "low", float(low))

    def __repr__(self) -> str:
        return f"LogCube({', '.join([*map(repr, self.names), f'low={self.low}'])})"

    def named(self, names: Iterable[str]) -> LogCube:
        """The cube over the terms with these names, with the same low."""
        return LogCube(*names, low=self.low)

    def quadrature(self, num: int) -> tuple[Points, Float[np.ndarray, " num"]]:
        """Tensor Gauss-Legendre in the logarithms, num nodes per weight."""
        unit, weights = tensor_rule([unit_gauss(num)] * self._num_unit)
        return self._push(unit, np), weights

    @property
    def _low(self) -> float:
        return self.low

    @property
    def _num_unit(self) -> int:
        return self._num_terms

    def _push(self, unit: Any, xp: ModuleType) -> Any:
        return xp.asarray(self.low, unit.dtype) ** (1 - unit)
