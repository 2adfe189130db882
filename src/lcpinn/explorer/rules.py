"""One rule for each operation of StableHLO that has no region.

A rule takes the builder, the operation, its arguments and the result's shape. What moves entries
about is written as the function of NumPy that does it: `moved` makes views or positions of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from lcpinn.errors import LcpinnError
from lcpinn.explorer.builder import Builder, Known, moved, spread, strides_of, take

Shape = tuple[int, ...]
Rule = Callable[[Builder, Any, list[Any], Shape], Known]

# -- Types and attributes ------------------------------------------------------------------------

INTEGERS = {f"{sign}i{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
DTYPES = {"i1": "bool", "f64": "float64", "f32": "float32", "complex<f64>": "complex128"} | INTEGERS
PLAIN = {"bool", "float64", *INTEGERS.values()}  # what doubles stand for in a program


def dtype_of(value: Any) -> str:
    """NumPy's name of the type of a value's entries."""
    name = str(value.type.element_type)
    return DTYPES.get(name, name)


def integers(operation: Any, name: str) -> list[int]:
    return [int(i) for i in operation.attributes[name]]


def no_counterpart(name: str, why: str = "which this solution needs") -> LcpinnError:
    return LcpinnError(f"the explorer has no counterpart of JAX's {name!r}, {why}")


# -- Entry by entry ------------------------------------------------------------------------------

# StableHLO's name -> ours, where one operation does it.
ENTRYWISE: dict[str, str] = {
    "abs": "absolute", "add": "add", "and": "and", "atan2": "atan2", "cbrt": "cbrt",
    "ceil": "ceil", "cosine": "cos", "divide": "divide", "exponential": "exp",
    "exponential_minus_one": "expm1", "floor": "floor", "is_finite": "finite", "log": "log",
    "log_plus_one": "log1p", "logistic": "logistic", "maximum": "maximum", "minimum": "minimum",
    "multiply": "multiply", "negate": "negative", "not": "not", "or": "or", "power": "pow",
    "remainder": "remainder", "round_nearest_afz": "round_away", "round_nearest_even": "round",
    "rsqrt": "rsqrt", "sign": "sign", "sine": "sin", "sqrt": "sqrt", "subtract": "subtract",
    "tan": "tan", "tanh": "tanh", "xor": "xor",
}  # fmt: skip
# Functions of CHLO that need not be decomposed into operations of StableHLO.
COMPOSITES: dict[str, str] = {
    f"chlo.{name}": name
    for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erfc", "sinh")
}
NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0, "maximum": -np.inf,
           "minimum": np.inf, "or": 0.0, "and": 1.0}  # fmt: skip


def _shift_right(x: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Zeros come in from above."""
    unsigned = f"u{x.dtype.itemsize}"
    return (x.view(unsigned) >> bits.view(unsigned)).view(x.dtype)


# Of integers, and of constants alone, such as random numbers are made from.
BITWISE: dict[str, Callable[..., Any]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shift_left": np.left_shift, "shift_right_logical": _shift_right,
    "shift_right_arithmetic": np.right_shift, "popcnt": np.bitwise_count,
}  # fmt: skip


def entrywise(b: Builder, op: str, args: list[Any], shape: Shape) -> Known:
    """The operation, unless one argument leaves the other as it is."""
    sides = ((1, 0), (0, 1)) if op not in ("subtract", "divide") else ((1, 0),)
    for one, other in sides if op in NEUTRAL else ():
        if isinstance(args[one], np.ndarray) and np.all(args[one] == NEUTRAL[op]):
            return spread(b, args[other], shape)
    return b.add(op, args, shape)


def _entrywise(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    name = operation.name.removeprefix("stablehlo.")
    op, dtype = ENTRYWISE[name], dtype_of(operation.results[0])
    if "int" in dtype and name in BITWISE:
        return _bitwise(b, operation, args, shape)
    if "int" in dtype and op == "divide":
        op = "quotient"
    if dtype == "bool" and op in ("add", "multiply"):
        op = {"add": "or", "multiply": "and"}[op]
    return entrywise(b, op, args, shape)


def _bitwise(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    name = operation.name.removeprefix("stablehlo.")
    if not all(isinstance(a, np.ndarray) for a in args):
        raise no_counterpart(name, "of whole numbers")
    return np.asarray(BITWISE[name](*args))


def _bitcast(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    if not isinstance(args[0], np.ndarray):
        raise no_counterpart("bitcast_convert")
    return np.ascontiguousarray(args[0]).view(dtype_of(operation.results[0])).reshape(shape)


def _compare(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    attribute = operation.attributes["comparison_direction"]
    direction = stablehlo.ComparisonDirectionAttr(attribute).value
    if direction in ("GT", "GE"):
        args = args[::-1]
    op = {"EQ": "equal", "NE": "differ", "LT": "less", "GT": "less"}.get(direction, "less_equal")
    return b.add(op, args, shape)


def _convert(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    """Truth values and whole numbers are doubles already; only cutting off digits is work."""
    source, target = dtype_of(operation.operands[0]), dtype_of(operation.results[0])
    if isinstance(args[0], np.ndarray):
        return args[0].astype(target)
    if target == "bool" and source != "bool":
        return b.add("nonzero", args, shape)
    return b.add("truncate", args, shape) if "int" in target and "float" in source else args[0]


def clamp(b: Builder, low: Known, x: Known, high: Known, shape: Shape) -> Known:
    return entrywise(b, "minimum", [entrywise(b, "maximum", [low, x], shape), high], shape)


def select(b: Builder, which: Known, cases: Sequence[Known], shape: Shape) -> Known:
    """Entry by entry, the case of that number."""
    which = b.scalar(which)
    if isinstance(which, np.ndarray) and which.size == 1:
        return spread(b, cases[int(which.item())], shape)
    return b.add("select", [which, *cases], shape)


# -- Constants and shapes ------------------------------------------------------------------------


def _constant(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    return np.array(operation.attributes["value"])


def _iota(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    axis = operation.attributes["iota_dimension"].value
    column = [-1 if i == axis else 1 for i in range(len(shape))]
    return np.broadcast_to(np.arange(shape[axis]).reshape(column), shape)


def _reshape(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    return moved(b, args, lambda x: x.reshape(shape))


def _broadcast(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    axes = integers(operation, "broadcast_dimensions")
    own = dict(zip(axes, args[0].shape, strict=True))
    order = np.argsort(axes)

    def move(x: np.ndarray) -> np.ndarray:
        aligned = x.transpose(order).reshape([own.get(i, 1) for i in range(len(shape))])
        return np.broadcast_to(aligned, shape)

    return moved(b, args, move)


def _transpose(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    return moved(b, args, lambda x: x.transpose(integers(operation, "permutation")))


def _slice(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    names = "start_indices", "limit_indices", "strides"
    ends = [integers(operation, name) for name in names]
    return moved(b, args, lambda x: x[tuple(map(slice, *ends))])


def _reverse(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    return moved(b, args, lambda x: np.flip(x, tuple(integers(operation, "dimensions"))))


def concatenate(b: Builder, args: Sequence[Known], axis: int, shape: Shape) -> Known:
    blocks = [a for a in args if a.size]
    if len(blocks) == 1:
        return spread(b, blocks[0], shape)
    return b.add("join", blocks, shape, outer=math.prod(shape[:axis]))


def _concatenate(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    return concatenate(b, args, operation.attributes["dimension"].value, shape)


def _pad(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    low, inner = (integers(operation, n) for n in ("edge_padding_low", "interior_padding"))

    def move(x: np.ndarray, filler: np.ndarray) -> np.ndarray:
        out = np.full(shape, filler, x.dtype)
        axes = zip(low, inner, x.shape, strict=True)
        targets = [start + (gap + 1) * np.arange(n) for start, gap, n in axes]
        inside = [(t >= 0) & (t < n) for t, n in zip(targets, shape, strict=True)]
        kept = [t[i] for t, i in zip(targets, inside, strict=True)]
        out[np.ix_(*kept)] = x[np.ix_(*inside)]
        return out

    return moved(b, args, move)


def _dot(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    lhs, rhs = args
    contracted = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    batch = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions

    def arranged(x: Known, side: int, contracted_last: bool) -> Known:
        summed, shared = list(contracted[side]), list(batch[side])
        free = [i for i in range(len(x.shape)) if i not in (*summed, *shared)]
        order = [*shared, *free, *summed] if contracted_last else [*shared, *summed, *free]
        return moved(b, [x], lambda array: array.transpose(order))

    num_batch = math.prod(lhs.shape[i] for i in batch[0])
    k = math.prod(lhs.shape[i] for i in contracted[0])
    m, n = (x.size // max(num_batch * k, 1) for x in (lhs, rhs))
    factors = [arranged(lhs, 0, True), arranged(rhs, 1, False)]
    return b.add("matmul", factors, shape, batch=num_batch, m=m, k=k, n=n)


# -- Entries at positions that may be computed ---------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """Where gather reads and scatter writes: windows of an operand at given starts.

    The window's axes in the result (`offset`), the operand's axes that it lacks (`collapsed`) and
    that go along with axes of the starts (`batching`), and which axis each start is along.
    """

    offset: Sequence[int]
    collapsed: Sequence[int]
    batching: Sequence[int]
    starts_batching: Sequence[int]
    start_index_map: Sequence[int]
    index_vector_dim: int

    def vectors(self, b: Builder, starts: Known) -> Known:
        """The starts with the axis that counts coordinates last."""
        if self.index_vector_dim == len(starts.shape):
            return moved(b, [starts], lambda x: x[..., None])
        return moved(b, [starts], lambda x: np.moveaxis(x, self.index_vector_dim, -1))

    def layout(self, operand: Shape, starts: Shape, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """For every entry of the result: its position if all starts were zero, and its vector's."""
        where = np.indices(shape)
        batch_axes = [i for i in range(len(shape)) if i not in self.offset]
        vector = np.zeros(shape, int)
        for axis, stride in zip(batch_axes, strides_of(starts)[:-1], strict=True):
            vector = vector + where[axis] * stride
        strides, position = strides_of(operand), np.zeros(shape, int)
        removed = (*self.collapsed, *self.batching)
        window = [i for i in range(len(operand)) if i not in removed]
        for axis, result_axis in zip(window, self.offset, strict=True):
            position = position + where[result_axis] * strides[axis]
        for axis, starts_axis in zip(self.batching, self.starts_batching, strict=True):
            position = position + where[batch_axes[starts_axis]] * strides[axis]
        return position, vector


def _gather(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    """result[...] = x[start + offset], starts moved to where the whole window is inside."""
    x, sizes = args[0], integers(operation, "slice_sizes")
    n = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    windows = Windows(
        n.offset_dims, n.collapsed_slice_dims, n.operand_batching_dims,
        n.start_indices_batching_dims, n.start_index_map, n.index_vector_dim,
    )  # fmt: skip
    starts = windows.vectors(b, args[1])
    offset, vector = windows.layout(x.shape, starts.shape, shape)
    position: Known = offset
    for k, axis in enumerate(windows.start_index_map):
        start = take(b, vector + k, [starts])
        position = _along(b, position, start, x.shape, axis, sizes[axis])
    return take(b, position, [x])


def _along(b: Builder, position: Known, start: Known, shape: Shape, axis: int, size: int) -> Known:
    """Positions in an array of `shape`, moved to the start of a window of `size` along an axis."""
    most, stride = np.asarray(shape[axis] - size), np.asarray(strides_of(shape)[axis])
    inside = clamp(b, np.asarray(0), start, most, start.shape)
    return entrywise(
        b, "add", [position, entrywise(b, "multiply", [inside, stride], start.shape)],
        position.shape,
    )  # fmt: skip


def _dynamic_slice(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    x, *starts = args
    if all(isinstance(start, np.ndarray) for start in starts):
        return moved(b, [x], lambda array: array[_window(x.shape, starts, shape)])
    strides = strides_of(x.shape)
    position: Known = np.sum([w * s for w, s in zip(np.indices(shape), strides, strict=True)], 0)
    for axis, start in enumerate(starts):
        position = _along(b, position, start, x.shape, axis, shape[axis])
    return take(b, position, [x])


def _dynamic_update(b: Builder, operation: Any, args: list[Any], shape: Shape) -> Known:
    x, update, *starts = args
    if not all(isinstance(start, np.ndarray) for start in starts):
        raise no_counterpart("dynamic_update_slice", "at computed positions")

    def move(x: np.ndarray, update: np.ndarray) -> np.ndarray:
        out = x.copy()
        out[_window(shape, starts, update.shape)] = update
        return out

    return moved(b, [x, update], move)


def _window(shape: Shape, starts: Sequence[np.ndarray], sizes: Shape) -> tuple[slice, ...]:
    first = [int(np.clip(s, 0, n - k)) for s, n, k in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(start, start + k) for start, k in zip(first, sizes, strict=True))


RULES: dict[str, Rule] = {
    **dict.fromkeys(BITWISE, _bitwise), **dict.fromkeys(ENTRYWISE, _entrywise),
    "bitcast_convert": _bitcast, "broadcast_in_dim": _broadcast, "compare": _compare,
    "concatenate": _concatenate, "constant": _constant, "convert": _convert, "dot_general": _dot,
    "clamp": lambda b, operation, args, shape: clamp(b, args[0], args[1], args[2], shape),
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update, "gather": _gather,
    "iota": _iota, "pad": _pad, "reshape": _reshape, "reverse": _reverse,
    "select": lambda b, operation, args, shape: select(b, args[0], args[:0:-1], shape),
    "slice": _slice, "transpose": _transpose,
}  # fmt: skip
