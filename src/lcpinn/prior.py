"""Priors p(lambda): boxes over physical coefficients, simplex and cubes over loss weights.

Every prior is the image of the unit cube under a map, so random draws, Sobol points and
quadratures are the unit cube's, pushed through that one map.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from types import ModuleType
from typing import Any, NamedTuple, Self, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, Float
from scipy.special import roots_jacobi, roots_legendre

from lcpinn.errors import LcpinnError

Points = Float[np.ndarray, "num dim"]
Rule = tuple[np.ndarray, np.ndarray]

# Values are often stored in single precision: a bound rounded to it must still count as inside.
ROUNDING = 4 * float(np.finfo(np.float32).eps)


# The unit cube: rules shared with the domain


def checked_range(name: str, value: Any) -> tuple[float, float]:
    """The pair (low, high) as floats, or an error that names the coefficient or coordinate."""
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError):
        raise LcpinnError(f"{name}: {value!r} is not a range; write (low, high)") from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise LcpinnError(f"{name}: range ({low}, {high}) is not finite")
    if low > high:
        raise LcpinnError(f"{name}: range ({low}, {high}) is reversed; write (low, high)")
    if low == high:
        raise LcpinnError(f"{name}: range ({low}, {high}) is empty; low must be below high")
    return low, high


def checked_count(num: int) -> int:
    """The number of points as it is, or an error when there would be none."""
    if num < 1:
        raise LcpinnError(f"the number of points must be at least 1, not {num}")
    return num


def floating(values: ArrayLike) -> Array:
    """Values as a JAX array of floats; a floating dtype is kept."""
    array = jnp.asarray(values)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


def host_or_device(values: ArrayLike) -> tuple[Any, ModuleType]:
    """Values as floats with the module to compute on them with.

    NumPy's own arrays stay NumPy's: on them JAX would compile every single operation.
    """
    if isinstance(values, np.ndarray):
        return values.astype(np.result_type(values, np.float32), copy=False), np
    return floating(values), jnp


def unit_sobol(num: int, dim: int, seed: int) -> Points:
    """Scrambled Sobol points of the unit cube, (num, dim)."""
    if dim == 0 or num == 0:
        return np.zeros((num, dim))
    from scipy.stats import qmc  # a sixth of what importing lcpinn would take

    # A sequence drawn to the next power of two begins with the same points and does not warn.
    return qmc.Sobol(dim, scramble=True, rng=seed).random(1 << (num - 1).bit_length())[:num]


def unit_gauss(num: int) -> Rule:
    """Gauss-Legendre nodes and weights on (0, 1); the weights sum to one."""
    nodes, weights = _legendre(checked_count(num))
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=64)
def _legendre(num: int) -> Rule:
    # NumPy's takes the eigenvalues of a dense matrix: for 8192 nodes that is most of a minute.
    return np.polynomial.legendre.leggauss(num) if num < 1000 else roots_legendre(num)


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


# Priors


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
    def contains(self, values: ArrayLike) -> Bool[Array, "*batch"]:
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

    def from_unit(self, unit: ArrayLike) -> Float[Array, "*batch dim"]:
        """Points of the unit cube (..., unit_dim) as values: uniform points become draws."""
        return self._push(*host_or_device(unit))

    def sobol(self, num: int, seed: int = 0) -> Points:
        """Scrambled Sobol points, distributed as the prior."""
        return self._push(unit_sobol(num, self._num_unit, seed), np)


# Physical coefficients


class Axis(NamedTuple):
    """One coefficient: uniform on [low, high], or its logarithm is."""

    name: str
    low: float
    high: float
    log: bool


@dataclass(frozen=True, repr=False)
class Coefficients(Prior):
    """A box of independent coefficients, each uniform or log-uniform."""

    axes: tuple[Axis, ...]

    def __and__(self, other: object) -> Coefficients:
        """The product of two priors: Uniform(a=(0, 1)) & LogUniform(nu=(1e-3, 1))."""
        return _join(self.axes + other.axes) if isinstance(other, Coefficients) else NotImplemented

    def __repr__(self) -> str:
        factors = []
        for log, axes in groupby(self.axes, lambda axis: axis.log):
            axes = tuple(axes)
            ranges = ", ".join(f"{a.name}=({a.low}, {a.high})" for a in axes if a.low < a.high)
            if ranges:
                factors.append(f"{'LogUniform' if log else 'Uniform'}({ranges})")
            factors += [f"{a.name} = {a.low:g}" for a in axes if a.low == a.high]
        return " & ".join(factors) or "no parameters"

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Name -> (low, high), physical."""
        return {axis.name: (axis.low, axis.high) for axis in self.axes}

    @property
    def free(self) -> tuple[str, ...]:
        """The coefficients that vary; the others are held at one value."""
        return tuple(axis.name for axis in self.axes if axis.low < axis.high)

    @property
    def held(self) -> dict[str, float]:
        """Name -> value of the coefficients that do not vary."""
        return {axis.name: axis.low for axis in self.axes if axis.low == axis.high}

    def at(self, **values: float) -> Coefficients:
        """The same prior with some coefficients held at a value inside their range."""
        for name, value in values.items():
            if name not in self.names:
                known = ", ".join(self.names) or "none"
                raise LcpinnError(f"there is no coefficient {name!r} to hold; there are: {known}")
            low, high = self.ranges[name]
            if not low <= value <= high:
                raise LcpinnError(f"{name} = {value:g} lies outside its range [{low:g}, {high:g}]")
        held = {name: Axis(name, float(v), float(v), False) for name, v in values.items()}
        return Product(held.get(axis.name, axis) for axis in self.axes)

    def to_unit(self, values: ArrayLike) -> Float[Array, "*batch dim"]:
        """Physical values to the unit cube, in the prior's measure.

        (v - low) / (high - low), or log(v / low) / log(high / low); of a held value, the centre.
        """
        v = floating(values)
        low, high, log = self._bounds(jnp, v.dtype)
        # where() evaluates both branches; keep the unused logarithm finite, or gradients are NaN.
        ratio = jnp.where(log, v / jnp.where(log, low, 1), 1)
        width = jnp.log(jnp.where(log, high / jnp.where(log, low, 1), math.e))
        held = low == high
        linear = jnp.where(held, 0.5, (v - low) / jnp.where(held, 1, high - low))
        return jnp.where(log, jnp.log(ratio) / width, linear)

    def from_unit(self, unit: ArrayLike) -> Float[Array, "*batch dim"]:
        """The inverse of to_unit: low (1 - s) + high s, or low^(1 - s) high^s."""
        return self._push(*host_or_device(unit))

    def normalise(self, values: ArrayLike) -> Float[Array, "*batch dim"]:
        """2 to_unit(values) - 1, in [-1, 1]."""
        return 2 * self.to_unit(values) - 1

    def contains(self, values: ArrayLike) -> Bool[Array, "*batch"]:
        """Which values lie in the box, up to rounding."""
        v = floating(values)
        low, high, log = self._bounds(jnp, v.dtype)
        slack = ROUNDING * jnp.maximum(jnp.abs(low), jnp.abs(high))
        below = jnp.where(log, ROUNDING * low, slack)
        return jnp.all((v >= low - below) & (v <= high + slack), axis=-1)

    def quadrature(self, num: int) -> tuple[Points, Float[np.ndarray, " num"]]:
        """Tensor Gauss-Legendre in the prior's measure, num nodes per coefficient that varies."""
        unit, weights = tensor_rule([unit_gauss(n) for n in self._counts(num)])
        return self._push(unit, np), weights

    def clustered(self, num: int) -> Points:
        """Tensor grid of num Chebyshev-Gauss-Lobatto nodes each, both ends included."""
        axes = [(1 - np.cos(np.pi * unit_grid(n))) / 2 for n in self._counts(num)]
        return self._push(tensor(axes), np)

    def grid(self, num: int) -> Points:
        """Tensor grid of num points per coefficient that varies, equispaced, with both ends."""
        return self._push(tensor([unit_grid(n) for n in self._counts(num)]), np)

    def to_json(self) -> dict[str, Any]:
        """The prior as plain JSON; axes are a list, since their order is that of the values."""
        return {"kind": "Coefficients", "axes": [axis._asdict() for axis in self.axes]}

    @property
    def _num_unit(self) -> int:
        return self.dim

    def _counts(self, num: int) -> list[int]:
        """Nodes along every axis: a held coefficient has one value to be at."""
        return [num if axis.low < axis.high else 1 for axis in self.axes]

    def _push(self, unit: Any, xp: ModuleType) -> Any:
        low, high, log = self._bounds(xp, unit.dtype)
        base, top = xp.where(log, low, 1), xp.where(log, high, 1)
        # Both forms give the ends exactly: s = 0 is low and s = 1 is high.
        values = xp.where(log, base ** (1 - unit) * top**unit, low * (1 - unit) + high * unit)
        return values.astype(unit.dtype)

    def _bounds(self, xp: ModuleType, dtype: Any) -> tuple[Any, Any, np.ndarray]:
        """Low, high and which are logarithmic, each (dim,); in dtype, so that it is kept."""
        low, high = [axis.low for axis in self.axes], [axis.high for axis in self.axes]
        log = np.array([axis.log for axis in self.axes])
        return xp.asarray(low, dtype), xp.asarray(high, dtype), log


@final
@dataclass(frozen=True, init=False, repr=False)
class Uniform(Coefficients):
    """Independent uniform coefficients: Uniform(k=(1, 10))."""

    def __init__(self, /, **ranges: tuple[float, float]) -> None:
        _set_axes(self, _axes("Uniform", ranges, log=False))


@final
@dataclass(frozen=True, init=False, repr=False)
class LogUniform(Coefficients):
    """Independent coefficients with uniform logarithms: LogUniform(nu=(1e-3, 1))."""

    def __init__(self, /, **ranges: tuple[float, float]) -> None:
        _set_axes(self, _axes("LogUniform", ranges, log=True))


@final
@dataclass(frozen=True, init=False, repr=False)
class Product(Coefficients):
    """Uniform and log-uniform coefficients together; written Uniform(...) & LogUniform(...)."""

    def __init__(self, axes: Iterable[Axis]) -> None:
        _set_axes(self, tuple(axes))


def _set_axes(prior: Coefficients, axes: tuple[Axis, ...]) -> None:
    object.__setattr__(prior, "axes", axes)
    object.__setattr__(prior, "names", _unique(axis.name for axis in axes))


def _axes(kind: str, ranges: Mapping[str, Any], *, log: bool) -> tuple[Axis, ...]:
    """Checked axes of one kind."""
    if not ranges:
        raise LcpinnError(f"{kind}() names no coefficient; write {kind}(k=(low, high))")
    axes = tuple(Axis(name, *checked_range(name, value), log) for name, value in ranges.items())
    for axis in axes:
        if log and axis.low <= 0:
            raise LcpinnError(f"{axis.name}: a log-uniform range must be positive, not {axis.low}")
    return axes


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    names = tuple(names)
    for index, name in enumerate(names):
        if name in names[:index]:
            raise LcpinnError(f"{name} is named twice")
    return names


def _join(axes: tuple[Axis, ...]) -> Coefficients:
    """The prior with these axes, of the simplest class, so that equal priors compare equal."""
    _unique(axis.name for axis in axes)
    ranges = {axis.name: (axis.low, axis.high) for axis in axes}
    kinds = {axis.log for axis in axes}
    if len(kinds) != 1:
        return Product(axes)
    return LogUniform(**ranges) if kinds == {True} else Uniform(**ranges)


# Loss weights


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

    def contains(self, values: ArrayLike) -> Bool[Array, "*batch"]:
        """Which weights lie in the prior's support, up to rounding."""
        w = floating(values)
        low = self._low * (1 - ROUNDING) if self._low else -ROUNDING
        return jnp.all((w >= low) & (w <= 1 + ROUNDING), axis=-1) & self._on_support(w)

    def to_json(self) -> dict[str, Any]:
        """The prior as plain JSON."""
        extra = {"low": self._low} if self._low else {}
        return {"kind": type(self).__name__, "names": list(self.names), **extra}

    @property
    def _low(self) -> float:
        """The least weight."""
        return 0.0

    def _on_support(self, weights: Array) -> Array:
        """What the support asks beyond the bounds on each weight: nothing, for a cube."""
        return jnp.ones(weights.shape[:-1], bool)

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
        object.__setattr__(self, "names", _unique(names))

    def named(self, names: Iterable[str]) -> Simplex:
        """The simplex over the terms with these names."""
        return Simplex(*names)

    def quadrature(self, num: int) -> tuple[Points, Float[np.ndarray, " num"]]:
        """Gauss-Jacobi in the fractions r_i, num nodes each; exact to total degree 2 num - 1.

        The density of r_i is (m - i) r^(m - i - 1), which is the Jacobi weight.
        """
        rules = []
        for power in self._powers():
            nodes, weights = roots_jacobi(checked_count(num), 0, power - 1)
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

    def _on_support(self, weights: Array) -> Array:
        return jnp.abs(weights.sum(axis=-1) - 1) <= 1e-6


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
        object.__setattr__(self, "names", _unique(names))

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
        object.__setattr__(self, "names", _unique(names))
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


def prior_from_json(data: Mapping[str, Any]) -> Coefficients | Weights:
    """The prior that to_json wrote; checked as if the user had written it."""
    try:
        kind = data["kind"]
        if kind == "Coefficients":
            parts = [_axis_from_json(axis) for axis in data["axes"]]
            held = any(axis.low == axis.high for axis in parts)
            return Product(parts) if held else _join(tuple(parts))
        if kind in ("Simplex", "Cube"):
            return (Simplex if kind == "Simplex" else Cube)(*map(str, data["names"]))
        if kind == "LogCube":
            return LogCube(*map(str, data["names"]), low=float(data["low"]))
    except (KeyError, TypeError):
        raise LcpinnError("this is not a prior: its JSON is incomplete") from None
    raise LcpinnError(f"there is no prior of kind {kind!r}")


def _axis_from_json(axis: Mapping[str, Any]) -> Axis:
    if axis["low"] == axis["high"]:
        return Axis(str(axis["name"]), float(axis["low"]), float(axis["high"]), False)
    build = LogUniform if axis["log"] else Uniform
    return build(**{str(axis["name"]): (axis["low"], axis["high"])}).axes[0]
