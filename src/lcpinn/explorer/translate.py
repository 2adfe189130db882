"""From a jaxpr to operations over flat arrays; `program.py` says what those mean.

What depends on constants alone is computed here and never written down; a value that is only seen
in another shape costs nothing, since values have no shapes. Whatever moves entries about by
positions that are known (pad, scatter, gather, ...) is one operation, `take`: the positions come
from doing the same to an array that holds 0, 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.explorer.builder import Builder, Known, Value, spread, strides_of, view, whole

# -- Walking through a jaxpr ---------------------------------------------------------------------


def translate(b: Builder, jaxpr: Any, consts: Sequence[Any], args: Sequence[Known]) -> list[Known]:
    """The values that a jaxpr returns, its operations added to the builder."""
    known: dict[Any, Known] = dict(zip(jaxpr.invars, args, strict=True))
    known |= dict(zip(jaxpr.constvars, map(np.asarray, consts), strict=True))

    def read(atom: Any) -> Known:
        return np.asarray(atom.val, atom.aval.dtype) if hasattr(atom, "val") else known[atom]

    for equation in jaxpr.eqns:
        made = _equation(b, equation, [read(atom) for atom in equation.invars])
        known |= dict(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _equation(b: Builder, equation: Any, args: list[Known]) -> list[Known]:
    name, how = equation.primitive.name, equation.params
    inner = next((how[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in how), None)
    if inner is not None and name not in ("scan", "while"):
        return translate(b, *_opened(inner), args)
    if not equation.outvars:
        return []
    constant = all(isinstance(a, np.ndarray) for a in args)
    if constant and name not in ("scan", "cond"):
        made = _compute(equation, args)
        return [np.asarray(m) for m in (made if equation.primitive.multiple_results else [made])]
    out = equation.outvars[0].aval
    if not constant and not _plain(out.dtype):
        raise LcpinnError(
            f"the explorer computes in double precision; {name!r} gives {out.dtype} here"
        )
    if name == "scan":
        return _scan(b, equation, args)
    if name in ENTRYWISE:
        return [_entrywise(b, name, args, out)]
    if name in RULES:
        made = RULES[name](b, args, how, out.shape)
        return made if isinstance(made, list) else [made]
    raise LcpinnError(
        f"the explorer has no counterpart of JAX's {name!r}, which this solution needs"
    )


def _opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and its constants; which of them come closed depends on JAX's version."""
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def _plain(dtype: Any) -> bool:
    """Double precision, whole numbers and truth values; not single precision, complex, keys."""
    return dtype == np.float64 or jnp.issubdtype(dtype, jnp.integer) or dtype == np.bool_


def _compute(equation: Any, args: Sequence[Any]) -> Any:
    if equation.primitive.name == "broadcast_in_dim":  # without a copy
        shape, where = equation.params["shape"], equation.params["broadcast_dimensions"]
        spread = [args[0].shape[where.index(i)] if i in where else 1 for i in range(len(shape))]
        return np.broadcast_to(args[0].reshape(spread), shape)
    return equation.primitive.bind(*args, **equation.params)


# JAX's name -> ours, where one operation does it.
ENTRYWISE: dict[str, str] = {
    "neg": "negative", "abs": "absolute", "sign": "sign", "floor": "floor", "ceil": "ceil",
    "square": "square", "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "exp": "exp",
    "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "logistic": "logistic", "erf": "erf", "erfc": "erfc", "is_finite": "finite",
    "add": "add", "add_any": "add",
    "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "remainder", "pow": "pow",
    "max": "maximum", "min": "minimum", "atan2": "atan2", "eq": "equal", "ne": "differ",
    "lt": "less", "le": "less_equal", "gt": "less", "ge": "less_equal", "eq_to": "equal",
    "lt_to": "less", "le_to": "less_equal", "not": "not", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
NEUTRAL = {"add": 0.0, "add_any": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}


def _entrywise(b: Builder, name: str, args: list[Known], out: Any) -> Known:
    args = _aligned(b, args, out.shape)
    for here, other in ((1, 0), (0, 1)):
        if name in NEUTRAL and not (here == 0 and name in ("sub", "div")):
            constant, value = args[here], args[other]
            if isinstance(constant, np.ndarray) and np.all(constant == NEUTRAL[name]):
                return spread(b, value, out.shape)
    op = ENTRYWISE[name]
    if name in ("gt", "ge"):
        args = args[::-1]
    if name in ("not", "and", "or", "xor") and out.dtype != bool:
        raise LcpinnError(f"the explorer has no counterpart of JAX's {name!r} of whole numbers")
    if name == "div" and np.dtype(out.dtype).kind in "iu":
        op = "quotient"
    return b.add(op, args, out.shape)


def _aligned(b: Builder, args: Sequence[Known], shape: Sequence[int]) -> list[Known]:
    """Arguments of one entry as they are, all others with as many entries as the result."""
    found = [b.scalar(a) for a in args]
    return [a if a.size == 1 else spread(b, a, shape) for a in found]


# -- One rule for each of the others -------------------------------------------------------------

Rule = Callable[[Builder, list[Any], Mapping[str, Any], tuple[int, ...]], Any]


def _same_entries(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    return Value(args[0].index, shape)


def _broadcast(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    x, where = args[0], how["broadcast_dimensions"]
    steps = dict(zip(where, zip(x.shape, strides_of(x.shape), strict=True), strict=True))
    strides = [steps[i][1] if i in steps and steps[i][0] == n else 0 for i, n in enumerate(shape)]
    return view(b, x, shape, strides)


def _transpose(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    strides = strides_of(args[0].shape)
    return view(b, args[0], shape, [strides[i] for i in how["permutation"]])


def _slice(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    strides, start = strides_of(args[0].shape), how["start_indices"]
    offset = sum(i * s for i, s in zip(start, strides, strict=True))
    steps = how["strides"] or [1] * len(strides)
    return view(b, args[0], shape, [i * s for i, s in zip(steps, strides, strict=True)], offset)


def _split(b: Builder, args: list[Any], how: Any, shape: Any) -> list[Known]:
    x, axis, start, parts = args[0], how["axis"], 0, []
    strides = strides_of(x.shape)
    for size in how["sizes"]:
        part = [size if i == axis else n for i, n in enumerate(x.shape)]
        parts.append(view(b, x, part, strides, start * strides[axis]))
        start += size
    return parts


def _unstack(b: Builder, args: list[Any], how: Any, shape: Any) -> list[Known]:
    parts = _split(b, args, {"axis": how["axis"], "sizes": [1] * args[0].shape[how["axis"]]}, shape)
    return [Value(part.index, shape) for part in parts if isinstance(part, Value)]


def _zeros(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    return np.zeros(shape)


def _one_minus_square(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    return b.add("subtract", [np.ones(()), b.add("square", args, shape)], shape)


def _reverse(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    flipped = how["dimensions"]
    strides = strides_of(shape)
    offset = sum((shape[i] - 1) * strides[i] for i in flipped)
    signed = [-s if i in flipped else s for i, s in enumerate(strides)]
    return view(b, args[0], shape, signed, offset)


def _concatenate(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    axis = how["dimension"] if "dimension" in how else how["axis"]
    blocks = [whole(b, a) for a in args if a.size]
    if len(blocks) == 1:
        return Value(blocks[0].index, shape)
    return b.add("join", blocks, shape, outer=math.prod(shape[:axis]))


def _convert(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    """Truth values are numbers already; only cutting off digits is work."""
    kind = np.dtype(how["new_dtype"]).kind
    if kind == "b":
        return b.add("nonzero", args, shape)
    return b.add("truncate", args, shape) if kind in "iu" else args[0]


def _integer_power(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    return b.add("power", [b.scalar(args[0])], shape, exponent=int(how["y"]))


def _round(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    even = "EVEN" in str(how["rounding_method"])
    return b.add("round" if even else "round_away", args, shape)


def _clamp(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    low, x, high = _aligned(b, args, shape)
    return b.add("minimum", [b.add("maximum", [low, x], shape), high], shape)


def _select(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    which, *cases = _aligned(b, args, shape)
    if isinstance(which, np.ndarray) and which.size == 1:
        return spread(b, cases[int(which.item())], shape)
    return b.add("select", [which, *cases], shape)


def _reduce(op: str) -> Rule:
    def rule(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
        x, axes = args[0], tuple(how["axes"])
        length = math.prod(x.shape[i] for i in axes)
        if length == 1 and not op.startswith("where"):
            return Value(x.index, shape)
        if length == 0:
            raise LcpinnError("the explorer reduces no empty arrays")
        kept = [i for i in range(len(x.shape)) if i not in axes]
        order = [*kept, *axes]
        strides = strides_of(x.shape)
        last = view(b, x, [x.shape[i] for i in order], [strides[i] for i in order])
        return b.add(op, [last], shape, length=length)

    return rule


def _running(op: str) -> Rule:
    def rule(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
        axis, reverse = how["axis"], bool(how["reverse"])
        inner = math.prod(shape[axis + 1 :])
        return b.add(op, args, shape, length=shape[axis], inner=inner, reverse=reverse)

    return rule


def _dot(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    (contract, batch) = how["dimension_numbers"]
    left, right = (whole(b, a) for a in args)

    def arranged(x: Value, mine: Sequence[int], shared: Sequence[int], last: bool) -> Value:
        free = [i for i in range(len(x.shape)) if i not in (*mine, *shared)]
        order = [*shared, *free, *mine] if last else [*shared, *mine, *free]
        strides = strides_of(x.shape)
        return view(b, x, [x.shape[i] for i in order], [strides[i] for i in order])

    num_batch = math.prod(left.shape[i] for i in batch[0])
    k = math.prod(left.shape[i] for i in contract[0])
    m, n = (x.size // max(num_batch * k, 1) for x in (left, right))
    first = arranged(left, contract[0], batch[0], True)
    second = arranged(right, contract[1], batch[1], False)
    return b.add("matmul", [first, second], shape, batch=num_batch, m=m, k=k, n=n)


# Loops and branches.


def _scan(b: Builder, equation: Any, args: list[Any]) -> list[Known]:
    """Unrolled: the length is known."""
    how = equation.params
    (body, fixed), length = _opened(how["jaxpr"]), how["length"]
    # What is carried keeps its shape, and rows are short of an axis: JAX's counts of either change
    # their names from version to version, and the shapes say as much.
    num_rows = sum(len(a.shape) > v.aval.ndim for a, v in zip(args, body.invars, strict=True))
    pairs = zip(equation.outvars, body.outvars, strict=True)
    num_carry = sum(made.aval.ndim == inside.aval.ndim for made, inside in pairs)
    first = len(args) - num_rows - num_carry
    consts, carry, rows = args[:first], args[first : first + num_carry], args[first + num_carry :]
    columns = None
    for step in reversed(range(length)) if how["reverse"] else range(length):
        here = [_row(b, x, step) for x in rows]
        made = translate(b, body, fixed, [*consts, *carry, *here])
        carry, ys = made[:num_carry], made[num_carry:]
        columns = columns or [[] for _ in ys]
        for column, y in zip(columns, ys, strict=True):
            column.insert(0, y) if how["reverse"] else column.append(y)
    if columns is None:
        raise LcpinnError("the explorer has no counterpart of a loop without steps")
    return [*carry, *(_stacked(b, column) for column in columns)]


def _row(b: Builder, x: Known, step: int) -> Known:
    if isinstance(x, np.ndarray):
        return np.asarray(x[step])
    size = math.prod(x.shape[1:])
    return view(b, x, x.shape[1:], strides_of(x.shape[1:]), step * size)


def _stacked(b: Builder, column: list[Known]) -> Known:
    if all(isinstance(y, np.ndarray) for y in column):
        return np.stack(column)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return _concatenate(b, column, {"axis": 0}, (len(column), *column[0].shape))


def _cond(b: Builder, args: list[Any], how: Any, shape: Any) -> list[Known]:
    """All branches are computed, and one is taken."""
    which, *rest = args
    results = [translate(b, *_opened(branch), rest) for branch in how["branches"]]
    if isinstance(which, np.ndarray):
        return results[int(np.clip(which, 0, len(results) - 1))]
    return [_select(b, [which, *cases], {}, cases[0].shape) for cases in zip(*results, strict=True)]


# Entries moved about by position.


def _moved(b: Builder, args: list[Any], shape: Any, move: Callable[..., Any]) -> Known:
    """`move` puts entries elsewhere; what it does to their positions says which go where."""
    positions, start = [], 0
    for a in args:
        positions.append(np.arange(start, start + a.size).reshape(a.shape))
        start += a.size
    found = whole(b, np.asarray(move(*positions)))
    return b.add("take", [found, *(whole(b, a) for a in args)], shape)


def _pad(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    return _moved(b, args, shape, lambda x, filler: jax.lax.pad(x, filler, how["padding_config"]))


def _scatter(combine: str | None) -> Rule:
    def rule(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
        x, indices, updates = args
        if not isinstance(indices, np.ndarray):
            raise LcpinnError("the explorer has no counterpart of 'scatter' to computed positions")

        def move(x: Any, updates: Any) -> Any:
            numbers = how["dimension_numbers"]
            return jax.lax.scatter(x, indices, updates, numbers, mode=how["mode"])

        if combine is None:
            return _moved(b, [x, updates], shape, move)
        hit = np.asarray(move(np.full(shape, -1), np.arange(updates.size).reshape(updates.shape)))
        if np.count_nonzero(hit >= 0) != updates.size:
            raise LcpinnError("the explorer has no counterpart of 'scatter' to repeated positions")
        put = b.add("take", [whole(b, np.maximum(hit, 0)), whole(b, updates)], shape)
        both = b.add(combine, [x, put], shape)
        return b.add("select", [whole(b, (hit >= 0) * 1.0), x, both], shape)

    return rule


def _gather(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    """out[...] = x[start + offset]; `start` may be computed, all else is known."""
    x, start = args
    numbers, sizes = how["dimension_numbers"], how["slice_sizes"]
    if isinstance(start, np.ndarray):
        places = np.arange(x.size).reshape(x.shape)
        found = jax.lax.gather(places, start, numbers, sizes, mode=how["mode"], fill_value=-1)
        position = np.asarray(found)
        return _taken(b, x, position, position >= 0, shape)
    base, rows = _gather_layout(x.shape, start.shape, numbers, sizes, shape)
    strides, total, inside = strides_of(x.shape), base, np.ones(())
    for k, axis in enumerate(numbers.start_index_map):
        at = b.add("take", [whole(b, rows + k), start], shape)
        most = np.asarray(x.shape[axis] - sizes[axis])
        held = b.add("minimum", [b.add("maximum", [at, np.zeros(())], shape), most], shape)
        inside = b.add("and", [inside, b.add("equal", [at, held], shape)], shape)
        total = b.add("add", [total, b.add("multiply", [held, np.array(strides[axis])], shape)],
                      shape)  # fmt: skip
    fill = "FILL" in str(how["mode"])
    return _taken(b, x, total, inside if fill else np.ones(()), shape)


def _gather_layout(x: Any, start: Any, numbers: Any, sizes: Any, shape: Any) -> Any:
    """For every entry of the output: its offset within x, and where its start begins."""
    where = np.indices(shape)
    offset_axes = list(numbers.offset_dims)
    batch_axes = [i for i in range(len(shape)) if i not in offset_axes]
    row = np.zeros(shape, int)
    for axis, stride in zip(batch_axes, strides_of(start), strict=False):
        row = row + where[axis] * stride
    strides, base = strides_of(x), np.zeros(shape, int)
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    window = [i for i in range(len(x)) if i not in gone]
    for axis, out_axis in zip(window, offset_axes, strict=True):
        base = base + where[out_axis] * strides[axis]
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    for axis, index_axis in pairs:
        base = base + where[batch_axes[index_axis]] * strides[axis]
    return base, row


def _taken(b: Builder, x: Known, position: Known, inside: Known, shape: Any) -> Known:
    if isinstance(position, np.ndarray):
        position = whole(b, np.maximum(position, 0))
    taken = b.add("take", [position, whole(b, x)], shape)
    if isinstance(inside, np.ndarray) and np.all(inside):
        return taken
    return b.add("select", [inside, np.array(np.nan), taken], shape)


def _dynamic_slice(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    x, *start = args
    strides, sizes = strides_of(x.shape), how["slice_sizes"]
    inner = sum(w * s for w, s in zip(np.indices(shape), strides, strict=True))
    total: Known = np.asarray(inner)
    for at, stride, size, count in zip(start, strides, sizes, x.shape, strict=True):
        if isinstance(at, np.ndarray):
            held: Known = np.clip(at, 0, count - size) * stride
        else:
            held = _clamp(b, [np.zeros(()), at, np.asarray(count - size)], {}, ())
            held = b.add("multiply", [held, np.asarray(stride)], ())
        both = isinstance(total, np.ndarray) and isinstance(held, np.ndarray)
        total = total + held if both else b.add("add", [total, held], shape)  # pyright: ignore[reportOperatorIssue]
    return _taken(b, x, total, np.ones(()), shape)


def _dynamic_update(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    x, update, *start = args
    if not all(isinstance(at, np.ndarray) for at in start):
        raise LcpinnError(
            "the explorer has no counterpart of 'dynamic_update_slice' at computed positions"
        )
    at = [int(s) for s in start]
    move = lambda x, update: jax.lax.dynamic_update_slice(x, update, at)
    return _moved(b, [x, update], shape, move)


def _tile(b: Builder, args: list[Any], how: Any, shape: Any) -> Known:
    return _moved(b, args, shape, lambda x: np.tile(x, how["reps"]))


RULES: dict[str, Rule] = {
    "reshape": _same_entries, "squeeze": _same_entries, "expand_dims": _same_entries,
    "copy": _same_entries, "copy_p": _same_entries, "stop_gradient": _same_entries,
    "name": _same_entries, "sharding_constraint": _same_entries,
    "optimization_barrier": lambda b, args, how, shape: args,
    "broadcast_in_dim": _broadcast, "transpose": _transpose, "slice": _slice, "split": _split,
    "unstack": _unstack, "rev": _reverse, "concatenate": _concatenate, "stack": _concatenate,
    "pad": _pad, "tile": _tile, "gather": _gather, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update, "scatter": _scatter(None),
    "scatter-add": _scatter("add"), "scatter-sub": _scatter("subtract"),
    "scatter-mul": _scatter("multiply"), "convert_element_type": _convert, "zeros_like": _zeros,
    "integer_pow": _integer_power, "one_minus_square": _one_minus_square, "round": _round,
    "clamp": _clamp, "select_n": _select, "cond": _cond, "dot_general": _dot,
    "reduce_sum": _reduce("sum"), "reduce_prod": _reduce("product"),
    "reduce_max": _reduce("largest"), "reduce_min": _reduce("smallest"),
    "reduce_or": _reduce("largest"), "reduce_and": _reduce("smallest"),
    "argmax": _reduce("where_largest"), "argmin": _reduce("where_smallest"),
    "cumsum": _running("running_sum"), "cumprod": _running("running_product"),
    "cummax": _running("running_largest"), "cummin": _running("running_smallest"),
}  # fmt: skip
