"""Priors over physical coefficients: boxes, uniform or log-uniform along each axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import ModuleType
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from lcpinn.checks import checked_range, unique
from lcpinn.errors import LcpinnError
from lcpinn.precision import ROUNDING, host_or_device
from lcpinn.prior.base import Prior
from lcpinn.quadrature import Points, tensor, tensor_rule, unit_gauss, unit_grid


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

    def __mul__(self, other: object) -> Coefficients:
        raise LcpinnError(
            f"coefficients of two kinds are joined by &, as in {self!r} & {other!r}"
            if isinstance(other, Coefficients)
            else f"coefficients are joined with others by &, and {other!r} are none"
        )

    __add__ = __or__ = __mul__

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

    def setting(self, given: Mapping[str, float]) -> dict[str, float]:
        """One value for every coefficient, in order: those given, and those that are held."""
        unknown = [name for name in given if name not in self.names]
        if unknown:
            has = ", ".join(self.names) or "none"
            raise LcpinnError(f"no such coefficient as {unknown[0]!r}; there are: {has}")
        values = self.held | dict(given)
        missing = [name for name in self.names if name not in values]
        if missing:
            raise LcpinnError(f"missing {', '.join(missing)}: name a value for each coefficient")
        return {name: float(values[name]) for name in self.names}

    def to_unit(self, values: ArrayLike) -> Float[Array | np.ndarray, "*batch dim"]:
        """Physical values to the unit cube, in the prior's measure.

        (v - low) / (high - low), or log(v / low) / log(high / low); of a held value, the centre.
        """
        v, xp = host_or_device(values)
        low, high, log = self._bounds(xp, v.dtype)
        # where() evaluates both branches; keep the unused logarithm finite, or gradients are NaN.
        ratio = xp.where(log, v / xp.where(log, low, 1), 1)
        width = xp.log(xp.where(log, high / xp.where(log, low, 1), math.e))
        held = low == high
        linear = xp.where(held, 0.5, (v - low) / xp.where(held, 1, high - low))
        return xp.where(log, xp.log(ratio) / width, linear).astype(v.dtype)

    def from_unit(self, unit: ArrayLike) -> Float[Array | np.ndarray, "*batch dim"]:
        """The inverse of to_unit: low (1 - s) + high s, or low^(1 - s) high^s."""
        return self._push(*host_or_device(unit))

    def normalise(self, values: ArrayLike) -> Float[Array, "*batch dim"]:
        """2 to_unit(values) - 1, in [-1, 1]."""
        return jnp.asarray(2 * self.to_unit(values) - 1)

    def contains(self, values: ArrayLike) -> Bool[Array | np.ndarray, "*batch"]:
        """Which values lie in the box, up to rounding."""
        v, xp = host_or_device(values)
        low, high, log = self._bounds(xp, v.dtype)
        slack = ROUNDING * xp.maximum(xp.abs(low), xp.abs(high))
        below = xp.where(log, ROUNDING * low, slack)
        return xp.asarray(xp.all((v >= low - below) & (v <= high + slack), axis=-1))

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
    object.__setattr__(prior, "names", unique(axis.name for axis in axes))


def _axes(kind: str, ranges: Mapping[str, Any], *, log: bool) -> tuple[Axis, ...]:
    """Checked axes of one kind."""
    if not ranges:
        raise LcpinnError(f"{kind}() names no coefficient; write {kind}(k=(low, high))")
    axes = tuple(Axis(name, *checked_range(name, value), log) for name, value in ranges.items())
    for axis in axes:
        if log and axis.low <= 0:
            raise LcpinnError(
                f"{axis.name!r}: a log-uniform range must be positive, not {axis.low}"
            )
    return axes


def _join(axes: tuple[Axis, ...]) -> Coefficients:
    """The prior with these axes, of the simplest class, so that equal priors compare equal."""
    unique(axis.name for axis in axes)
    ranges = {axis.name: (axis.low, axis.high) for axis in axes}
    kinds = {axis.log for axis in axes}
    if len(kinds) != 1:
        return Product(axes)
    return LogUniform(**ranges) if kinds == {True} else Uniform(**ranges)


def coefficients_from_json(axes: Iterable[Mapping[str, Any]]) -> Coefficients:
    """The prior over coefficients whose axes to_json listed."""
    parts = [_axis_from_json(axis) for axis in axes]
    held = any(axis.low == axis.high for axis in parts)
    return Product(parts) if held else _join(tuple(parts))


def _axis_from_json(axis: Mapping[str, Any]) -> Axis:
    if axis["low"] == axis["high"]:
        return Axis(str(axis["name"]), float(axis["low"]), float(axis["high"]), False)
    build = LogUniform if axis["log"] else Uniform
    return build(**{str(axis["name"]): (axis["low"], axis["high"])}).axes[0]
