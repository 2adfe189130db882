"""From a function's StableHLO to operations over flat arrays; `program.py` says what those are.

StableHLO is what `jax.export` writes: versioned, and with the same few dozen operations whatever
JAX's version calls its own. Functions of CHLO come as composites, which carry their decomposition.

What depends on constants alone is computed here and never written down; a value that is only seen
in another shape costs nothing, since values have no shapes. `rules.py` has the operations; here are
calls, branches and loops, and what else takes a function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import export
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy, stablehlo

from lcpinn.errors import LcpinnError
from lcpinn.explorer.builder import Builder, Known, moved, spread, strides_of, take
from lcpinn.explorer.rules import (
    COMPOSITES,
    PLAIN,
    RULES,
    Shape,
    Windows,
    concatenate,
    dtype_of,
    integers,
    no_counterpart,
    select,
)

REDUCTIONS = {"add": "sum", "multiply": "product", "maximum": "largest", "minimum": "smallest",
              "or": "largest", "and": "smallest"}  # fmt: skip


def lower(function: Callable[..., Any], specs: Sequence[jax.ShapeDtypeStruct]) -> export.Exported:
    """The function in StableHLO."""
    try:
        return export.export(jax.jit(function), platforms=("cpu",))(*specs)
    except NotImplementedError as error:
        if "callback" not in str(error):
            raise
        raise LcpinnError(
            "the explorer cannot call back into Python, as this solution does (jax.debug.print, "
            "jax.pure_callback)"
        ) from None


def translate(b: Builder, exported: export.Exported) -> Known:
    """The value of an exported function of the builder's inputs."""
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        sdy.register_dialect(context)  # custom calls have attributes of it
        artifact = exported.mlir_module_serialized
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations
        }
        inputs = b.inputs
        kept = [inputs[i] for i in exported.module_kept_var_idx]
        (output,) = Translation(b, functions).call("main", kept)
    return output


@dataclass(frozen=True)
class Translation:
    """A walk through the functions of a module."""

    b: Builder
    functions: Mapping[str, Any]

    def call(self, name: str, args: Sequence[Known]) -> list[Known]:
        return self.region(self.functions[name].regions[0], args, {})

    def region(
        self, region: Any, args: Sequence[Known], scope: dict[Any, Known], batch: Shape = ()
    ) -> list[Known]:
        """What a region returns for arguments; it sees the values around it, too.

        A function of scalars is computed for all entries of arguments of shape `batch` at once.
        """
        (block,) = region.blocks
        scope |= dict(zip(block.arguments, args, strict=True))
        for view in block.operations:
            operation = view.operation
            known = [scope[operand] for operand in operation.operands]
            if operation.name.endswith(".return"):
                return known
            results = self.operation(operation, known, scope, batch)
            scope |= dict(zip(operation.results, results, strict=True))
        raise AssertionError("a region ends in a return")

    def operation(
        self, operation: Any, args: list[Known], scope: dict[Any, Known], batch: Shape
    ) -> list[Known]:
        name = operation.name.removeprefix("stablehlo.")
        if name in STRUCTURED:
            return STRUCTURED[name](self, operation, args, scope)
        if name not in RULES:
            raise no_counterpart(name)
        (result,) = operation.results
        dtype = dtype_of(result)
        constant = all(isinstance(a, np.ndarray) for a in args)
        if dtype not in PLAIN and not (constant and dtype == "float32"):
            raise LcpinnError(
                f"the explorer computes in double precision; {name!r} gives {dtype} here"
            )
        value = RULES[name](self.b, operation, args, (*batch, *result.type.shape))
        return [value.astype(dtype, copy=False) if isinstance(value, np.ndarray) else value]


# -- Calls ---------------------------------------------------------------------------------------


def _call(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    return t.call(operation.attributes["callee"].value, args)


def _composite(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    """Our own operation where there is one, else the decomposition."""
    name = operation.attributes["name"].value
    if name in COMPOSITES:
        return [t.b.add(COMPOSITES[name], args, args[0].shape)]
    return t.call(operation.attributes["decomposition"].value, args)


def _custom_call(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    name = operation.attributes["call_target_name"].value
    if name == "Sharding":
        return args
    raise no_counterpart(name)


# -- Branches and loops --------------------------------------------------------------------------


def _case(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    """All branches are computed, and one is taken."""
    which, last = args[0], len(operation.regions) - 1
    if isinstance(which, np.ndarray):
        return t.region(operation.regions[int(which) if 0 <= which <= last else last], [], scope)
    results = [t.region(branch, [], scope) for branch in operation.regions]
    return [select(t.b, which, cases, cases[0].shape) for cases in zip(*results, strict=True)]


def _while(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    """Unrolled, where the number of steps is known."""
    condition, body = operation.regions
    while True:
        (goes_on,) = t.region(condition, args, scope)
        if not isinstance(goes_on, np.ndarray):
            raise no_counterpart("while", "whose number of steps depends on values")
        if not goes_on:
            return args
        args = t.region(body, args, scope)


# -- Reductions ----------------------------------------------------------------------------------


def _combination(region: Any) -> str | None:
    """The operation's name, where a region of two arguments is one operation of both."""
    (block,) = region.blocks
    operations = [view.operation for view in block.operations]
    both = len(operations) == 2 and set(operations[0].operands) == set(block.arguments)
    return operations[0].name.removeprefix("stablehlo.") if both else None


def _reduce(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    """Along the last axis once the others are in front: sums and the like, or pair by pair."""
    b, (region,), half = t.b, operation.regions, len(args) // 2
    axes = integers(operation, "dimensions")
    shape = tuple(operation.results[0].type.shape)
    length = math.prod(args[0].shape[i] for i in axes)
    initial = [spread(b, x, shape) for x in args[half:]]
    if length == 0:
        return initial

    def arranged(x: Known) -> Known:
        order = [*(i for i in range(len(x.shape)) if i not in axes), *axes]
        in_front = moved(b, [x], lambda array: array.transpose(order))
        return moved(b, [in_front], lambda array: array.reshape(*shape, length))

    rows = [arranged(x) for x in args[:half]]
    name = _combination(region)
    if name in REDUCTIONS and length > 1:
        reduced = [b.add(REDUCTIONS[name], rows, shape, length=length)]
    else:
        reduced = _pair_by_pair(t, region, rows, scope)
    return t.region(region, [*initial, *reduced], scope, shape)


def _pair_by_pair(t: Translation, region: Any, rows: list[Known], scope: Any) -> list[Known]:
    """Neighbours combined until one is left: associative functions ask for no more."""
    while (length := rows[0].shape[-1]) > 1:
        even, shape = length // 2 * 2, (*rows[0].shape[:-1], length // 2)
        first, second, rest = (
            [moved(t.b, [x], lambda array, part=part: array[..., part]) for x in rows]
            for part in (slice(0, even, 2), slice(1, even, 2), slice(even, None))
        )
        pairs = t.region(region, [*first, *second], scope, shape)
        joined = (*shape[:-1], shape[-1] + length % 2)
        rows = [
            concatenate(t.b, [pair, odd], len(shape) - 1, joined)
            for pair, odd in zip(pairs, rest, strict=True)
        ]
    return [moved(t.b, [x], lambda array: array[..., 0]) for x in rows]


def _reduce_window(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    """Windows that end, or begin, at every entry and are as long as the axis: running sums."""
    x, shape = args[0], args[0].shape
    name = _combination(operation.regions[0])
    window = integers(operation, "window_dimensions")
    axes = [i for i, length in enumerate(window) if length > 1]
    padding = np.zeros((len(shape), 2), int)
    if "padding" in operation.attributes:
        padding = np.array(operation.attributes["padding"])
    dilated = [n for n in ("window_strides", "base_dilations", "window_dilations")
               if n in operation.attributes and set(integers(operation, n)) != {1}]  # fmt: skip
    if not axes:
        return [x]
    axis, length = axes[0], shape[axes[0]]
    before, after = padding[axis]
    whole = len(axes) == 1 and window[axis] == length and before + after == length - 1
    if name not in REDUCTIONS or dilated or not whole or before * after or len(args) != 2:
        raise no_counterpart("reduce_window", "unless its windows are as long as an axis")
    op, inner = f"running_{REDUCTIONS[name]}", math.prod(shape[axis + 1 :])
    return [t.b.add(op, [x], shape, length=length, inner=inner, reverse=bool(after))]


# -- Scatter -------------------------------------------------------------------------------------


def _scatter(t: Translation, operation: Any, args: list[Known], scope: Any) -> list[Known]:
    """x with updates combined into it; those for the same entry one after the other."""
    x, starts, updates = args if len(args) == 3 else (None, None, None)
    if x is None or updates is None or not isinstance(starts, np.ndarray):
        raise no_counterpart("scatter", "to computed positions")
    for source in _sources(operation, x.shape, starts, updates.shape):
        update = take(t.b, np.maximum(source, 0), [updates])
        (combined,) = t.region(operation.regions[0], [x, update], scope, x.shape)
        x = select(t.b, (source >= 0) * 1, [x, combined], x.shape)
    return [x]


def _sources(operation: Any, shape: Shape, starts: np.ndarray, updates: Shape) -> list[np.ndarray]:
    """For every entry, the number of its update or -1; one array for each round of updates."""
    attribute = operation.attributes["scatter_dimension_numbers"]
    n = stablehlo.ScatterDimensionNumbers(attribute)
    windows = Windows(
        n.update_window_dims, n.inserted_window_dims, n.input_batching_dims,
        n.scatter_indices_batching_dims, n.scattered_dims_to_operand_dims, n.index_vector_dim,
    )  # fmt: skip
    target = _targets(windows, shape, starts, updates)
    numbers = np.flatnonzero(target >= 0)
    rounds = []
    while numbers.size:
        _, first = np.unique(target.flat[numbers], return_index=True)
        source = np.full(math.prod(shape), -1)
        source[target.flat[numbers[first]]] = numbers[first]
        rounds.append(source.reshape(shape))
        numbers = np.delete(numbers, first)
    return rounds


def _targets(windows: Windows, shape: Shape, starts: np.ndarray, updates: Shape) -> np.ndarray:
    """Where each update goes; -1 for those of windows that are not inside."""
    vectors = np.asarray(windows.vectors(Builder([]), starts))
    target, vector = windows.layout(shape, vectors.shape, updates)
    inside, strides = np.full(updates, True), strides_of(shape)
    removed = (*windows.collapsed, *windows.batching)
    window = [i for i in range(len(shape)) if i not in removed]
    sizes = dict(zip(window, (updates[i] for i in windows.offset), strict=True))
    for k, axis in enumerate(windows.start_index_map):
        start = vectors.ravel().astype(int)[vector + k]
        inside &= (start >= 0) & (start <= shape[axis] - sizes.get(axis, 1))
        target = target + start * strides[axis]
    return np.where(inside, target, -1)


STRUCTURED: dict[str, Callable[..., list[Known]]] = {
    "func.call": _call, "composite": _composite, "custom_call": _custom_call, "case": _case,
    "while": _while, "reduce": _reduce, "reduce_window": _reduce_window, "scatter": _scatter,
    "optimization_barrier": lambda t, operation, args, scope: args,
}  # fmt: skip
