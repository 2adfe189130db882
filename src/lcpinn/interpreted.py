"""Small functions of arrays that are asked a few times: traced by JAX, carried out by NumPy.

A program takes hundredths of a second to lower and to compile, however little it does. What a page
is asked before it is trained (is it linear, does the ansatz satisfy a condition, is a solution
determined) is made of dozens of them, each of which would run for moments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np
import scipy
from jax.extend.core import Jaxpr, Literal

TIMES = 20  # calls that take as long as to compile


class Closed(Protocol):
    """A jaxpr with its constants, which is a class of its own before JAX 0.12."""

    @property
    def jaxpr(self) -> Jaxpr: ...
    @property
    def consts(self) -> Sequence[Any]: ...


# Operations that NumPy has, in all dtypes that a page uses.
PLAIN: dict[str, Callable[..., Any]] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "max": np.maximum, "min": np.minimum, "abs": np.abs, "sign": np.sign, "square": np.square,
    "one_minus_square": lambda x: 1 - x * x,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "pow": np.power,
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "expm1": np.expm1, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    # SciPy loads its parts when they are asked for, which takes a while.
    "erf": lambda x: scipy.special.erf(x), "erfc": lambda x: scipy.special.erfc(x),
    "floor": np.floor, "ceil": np.ceil, "is_finite": np.isfinite,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert,
    "copy": np.array, "copy_p": np.array,
}  # fmt: skip

# Those that need their parameters.
SPECIAL: dict[str, Callable[..., Any]] = {
    "integer_pow": lambda p, x: x ** p["y"],
    "convert_element_type": lambda p, x: x.astype(p["new_dtype"]),
    "select_n": lambda p, which, *cases: np.select([which == i for i in range(len(cases))], cases),
    "clamp": lambda p, low, x, high: np.clip(x, low, high),
    "reduce_sum": lambda p, x: np.sum(x, p["axes"]),
    "reduce_max": lambda p, x: np.max(x, p["axes"]),
    "reduce_min": lambda p, x: np.min(x, p["axes"]),
    "reduce_prod": lambda p, x: np.prod(x, p["axes"]),
    "reduce_and": lambda p, x: np.all(x, p["axes"]),
    "reduce_or": lambda p, x: np.any(x, p["axes"]),
    "reshape": lambda p, x: x.reshape(p["new_sizes"]),
    "squeeze": lambda p, x: np.squeeze(x, p["dimensions"]),
    "transpose": lambda p, x: np.transpose(x, p["permutation"]),
    "rev": lambda p, x: np.flip(x, p["dimensions"]),
    "stack": lambda p, *parts: np.stack(parts, p["axis"]),
    "concatenate": lambda p, *parts: np.concatenate(parts, p["dimension"]),
    "broadcast_in_dim": lambda p, x: _broadcast(x, p["shape"], p["broadcast_dimensions"]),
    "slice": lambda p, x: x[tuple(map(slice, p["start_indices"], p["limit_indices"],
                                      p["strides"] or (1,) * x.ndim))],
    "split": lambda p, x: np.split(x, np.cumsum(p["sizes"])[:-1], p["axis"]),
    "unstack": lambda p, x: list(np.moveaxis(x, p["axis"], 0)),
    "pad": lambda p, x, value: _padded(x, value, p["padding_config"]),
    "iota": lambda p: _broadcast(np.arange(p["shape"][p["dimension"]], dtype=p["dtype"]),
                                 p["shape"], (p["dimension"],)),
    "dot_general": lambda p, x, y: _product(x, y, *p["dimension_numbers"]),
}  # fmt: skip
CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")


class Seldom:
    """A function of (trees of) arrays that is compiled if it is called more than a few times.

    Until then, and if NumPy has all of its operations, it is interpreted. `program` is the
    function compiled, as by `jax.jit`.
    """

    def __init__(self, function: Callable[..., Any], program: Callable[..., Any]):
        self.function, self.program = function, program
        self._calls = 0
        self._traced: dict[Any, tuple[Closed, Any] | None] = {}

    def __call__(self, *arrays: Any) -> Any:
        self._calls += 1
        if self._calls > TIMES:
            return self.program(*arrays)
        leaves, structure = jax.tree.flatten(arrays)
        # In single precision, unless JAX is told otherwise, as a program would have them.
        leaves = [np.asarray(a, jax.dtypes.canonicalize_dtype(np.asarray(a).dtype)) for a in leaves]
        key = structure, *((leaf.shape, leaf.dtype) for leaf in leaves)
        if key not in self._traced:
            self._traced[key] = _traced(self.function, arrays)
        traced = self._traced[key]
        if traced is None:
            return self.program(*arrays)
        closed, result = traced
        with np.errstate(all="ignore"):
            return jax.tree.unflatten(result, _evaluate(closed, leaves))


def _traced(function: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Closed, Any] | None:
    """A function's operations and the structure of its result; None where one is not known here."""
    made: Any = jax.make_jaxpr(function, return_shape=True)(*arrays)
    closed, shape = made
    return (closed, jax.tree.structure(shape)) if _is_known(closed.jaxpr) else None


def _is_known(jaxpr: Jaxpr) -> bool:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in CALLS:
            inner = _inner(equation)
            if inner is None or not _is_known(inner.jaxpr):
                return False
        elif name == "div":  # of integers it rounds towards zero, as nothing of NumPy's does
            made: Any = equation.outvars[0].aval
            if not np.issubdtype(made.dtype, np.floating):
                return False
        elif name not in PLAIN and name not in SPECIAL:
            return False
    return True


def _inner(equation: Any) -> Closed | None:
    """What a call calls."""
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return inner if hasattr(inner, "consts") else None


def _evaluate(closed: Closed, values: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    known |= zip(jaxpr.invars, values, strict=True)
    read = lambda v: _constant(v) if isinstance(v, Literal) else known[v]
    for equation in jaxpr.eqns:
        result = _result(equation, [read(v) for v in equation.invars])
        several = result if isinstance(result, list) else [result]
        known |= zip(equation.outvars, several, strict=True)
    return [read(v) for v in jaxpr.outvars]


def _constant(literal: Any) -> np.ndarray:
    return np.asarray(literal.val, literal.aval.dtype)


def _result(equation: Any, operands: list[Any]) -> Any:
    name = equation.primitive.name
    if name in CALLS:
        inner = _inner(equation)
        assert inner is not None
        return _evaluate(inner, operands)
    if name in PLAIN:
        return PLAIN[name](*operands)
    if name == "div":
        return np.divide(*operands)
    return SPECIAL[name](equation.params, *operands)


def _broadcast(x: Any, shape: Sequence[int], dimensions: Sequence[int]) -> np.ndarray:
    """Axes of an array as these of a larger shape."""
    sizes = dict(zip(dimensions, np.shape(x), strict=True))
    return np.broadcast_to(np.reshape(x, [sizes.get(i, 1) for i in range(len(shape))]), shape)


def _padded(x: np.ndarray, value: Any, config: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """With a value before, behind and between elements along each axis; less than none crops."""
    inner = [num + max(0, num - 1) * gap for num, (*_, gap) in zip(x.shape, config, strict=True)]
    ends = [(max(low, 0), max(high, 0)) for low, high, _ in config]
    for_all = lambda make: tuple(map(make, inner, ends, config))
    padded = np.full(for_all(lambda num, end, _: num + sum(end)), value)
    padded[for_all(lambda num, end, c: slice(end[0], end[0] + num, c[2] + 1))] = x
    return padded[for_all(lambda num, end, c: slice(max(0, -c[0]), None if c[1] >= 0 else c[1]))]


def _product(x: Any, y: Any, contracted: Any, batched: Any) -> np.ndarray:
    """Sums of products over some axes; in front of the result are those that are batched."""
    (sum_x, sum_y), (batch_x, batch_y) = contracted, batched
    rest_x, rest_y = (
        [i for i in range(a.ndim) if i not in (*s, *b)]
        for a, s, b in ((x, sum_x, batch_x), (y, sum_y, batch_y))
    )
    size = lambda a, axes: [a.shape[i] for i in axes]
    flat = lambda a, axes: math.prod(size(a, axes))
    batch = size(x, batch_x)
    left = np.transpose(x, (*batch_x, *rest_x, *sum_x)).reshape(*batch, flat(x, rest_x), -1)
    right = np.transpose(y, (*batch_y, *sum_y, *rest_y)).reshape(*batch, -1, flat(y, rest_y))
    return np.reshape(left @ right, (*batch, *size(x, rest_x), *size(y, rest_y)))
