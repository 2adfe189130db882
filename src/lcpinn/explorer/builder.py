"""Operations in the making: what `translate.py` and `rules.py` add, with constants kept small.

Values have no shapes in a program, so that the same entries seen in another shape cost nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.explorer.operations import ENTRYWISE, Operation, compute

MOST_OPERATIONS = 20_000  # unrolled loops included


@dataclass(frozen=True)
class Value:
    """A value that depends on the inputs; the same entries may be seen in several shapes."""

    index: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Known = Value | np.ndarray  # a constant stays an array of its own type until it is used


@dataclass
class Builder:
    """Collects operations; equal ones are written once."""

    shapes: Sequence[tuple[int, ...]]
    sources: list[Operation | np.ndarray] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)

    @property
    def inputs(self) -> list[Known]:
        return [Value(i, shape) for i, shape in enumerate(self.shapes)]

    def add(self, op: str, args: Sequence[Known], shape: Sequence[int], **attributes: Any) -> Known:
        """The value of an operation; one of constants alone is computed, not written down."""
        shape, pairs = tuple(int(n) for n in shape), tuple(attributes.items())
        if op in ENTRYWISE or op == "select":
            args = [self.scalar(a) for a in args]
            args = [a if a.size == 1 else spread(self, a, shape) for a in args]
        constants = [a.ravel() for a in args if isinstance(a, np.ndarray)]
        if len(constants) == len(args):
            return compute(Operation(op, (), math.prod(shape), pairs), constants).reshape(shape)
        return self.write(op, args, shape, **attributes)

    def write(
        self, op: str, args: Sequence[Known], shape: tuple[int, ...], **attributes: Any
    ) -> Value:
        """The value of an operation that is written down, unless an equal one is already."""
        by_entry = op in ENTRYWISE or op == "select"
        numbers = tuple(self.use(a) if by_entry else whole(self, a).index for a in args)
        line = Operation(op, numbers, math.prod(shape), tuple(attributes.items()))
        if line not in self.numbers:
            if len(self.sources) > MOST_OPERATIONS:
                raise LcpinnError(f"more than {MOST_OPERATIONS} operations: a loop is too long")
            self.numbers[line] = self._append(line)
        return Value(self.numbers[line], shape)

    def _append(self, source: Operation | np.ndarray) -> int:
        self.sources.append(source)
        return len(self.shapes) + len(self.sources) - 1

    def use(self, value: Known) -> int:
        """The number of a value. Constants that repeat along an axis are kept once and spread."""
        if isinstance(value, Value):
            return value.index
        array = np.asarray(value, np.float64)
        core = array
        for axis in range(array.ndim):
            first = core.take([0], axis=axis) if core.shape[axis] > 1 else core
            core = first if first is core or _same(core, first) else core
        key = (core.shape, core.tobytes())
        if key not in self.numbers:
            self.numbers[key] = self._append(core.ravel())
        if core.size == 1 or core.size == array.size:
            return self.numbers[key]  # one entry stands for all
        strides = [
            0 if n == 1 else s for n, s in zip(core.shape, strides_of(core.shape), strict=True)
        ]
        return view(self, Value(self.numbers[key], core.shape), array.shape, strides).index

    def finish(self, out: Known) -> tuple[list[np.ndarray], list[Operation], int, int]:
        """Constants, operations without those that nothing needs, `once`, and the output.

        Values are numbered anew: what does not depend on the first input comes before the rest.
        """
        if not (isinstance(out, Value) and isinstance(self.source(out.index), Operation)):
            out = self.write("add", [out, np.zeros(())], out.shape)
        first = len(self.shapes)
        lines, arrays = {}, {}
        needed, varies = {out.index}, {0}
        for index in reversed(range(first, first + len(self.sources))):
            source = self.source(index)
            if index in needed and isinstance(source, Operation):
                lines[index] = source
                needed.update(source.args)
            elif index in needed:
                arrays[index] = source
        for index in sorted(lines):
            if varies.intersection(lines[index].args):
                varies.add(index)
        order = sorted(lines, key=lambda index: (index in varies, index))
        number = {old: new for new, old in enumerate([*range(first), *sorted(arrays), *order])}
        renumbered = [
            dataclasses.replace(lines[i], args=tuple(number[a] for a in lines[i].args))
            for i in order
        ]
        constants = [arrays[i] for i in sorted(arrays)]
        return constants, renumbered, sum(i not in varies for i in order), number[out.index]

    def source(self, index: int) -> Operation | np.ndarray | None:
        """What made a value; None for an input."""
        return None if index < len(self.shapes) else self.sources[index - len(self.shapes)]

    def scalar(self, value: Known) -> Known:
        """The same value, as one entry where it is one entry spread out."""
        if isinstance(value, np.ndarray):
            same = value.size > 1 and _same(value, value.ravel()[:1])
            return value.ravel()[:1].reshape(()) if same else value
        source = self.source(value.index)
        if value.size == 1 or not isinstance(source, Operation) or source.op != "view":
            return value
        if any(source["strides"]):
            return value
        origin = source.args[0]
        return view(self, Value(origin, (self.size(origin),)), (), (), source["offset"])

    def size(self, index: int) -> int:
        source = self.source(index)
        return math.prod(self.shapes[index]) if source is None else source.size


def _same(array: np.ndarray, first: np.ndarray) -> bool:
    return bool(np.array_equal(array, np.broadcast_to(first, array.shape), equal_nan=True))


def _in_order(position: Known, size: int) -> bool:
    known = isinstance(position, np.ndarray)
    return known and np.array_equal(position.ravel(), np.arange(size))


def strides_of(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def view(
    b: Builder, x: Value, shape: Sequence[int], strides: Sequence[int], offset: int = 0
) -> Value:
    """Entries at regular distances; those in their old order are not written down at all."""
    shape = tuple(int(n) for n in shape)
    axes = [(n, int(s)) for n, s in zip(shape, strides, strict=True) if n != 1]
    plain = [s for _, s in axes] == strides_of([n for n, _ in axes])
    if offset == 0 and plain and math.prod(shape) == x.size:
        return Value(x.index, shape)
    counts, steps = tuple(n for n, _ in axes), tuple(s for _, s in axes)
    return b.write("view", [x], shape, counts=counts, strides=steps, offset=int(offset))


def spread(b: Builder, value: Known, shape: Sequence[int]) -> Known:
    """A value in another shape, repeated along the axes where it has one entry."""
    if isinstance(value, np.ndarray):
        return np.broadcast_to(value, shape)
    if value.size == math.prod(shape):
        return Value(value.index, tuple(shape))
    if value.size == 1:
        return view(b, value, shape, [0] * len(shape))
    own = zip(value.shape, strides_of(value.shape), strict=True)
    return view(b, value, shape, [0 if n == 1 else stride for n, stride in own])


def whole(b: Builder, value: Known) -> Value:
    """A value with all its entries written out, as operations need that are not entry by entry."""
    if isinstance(value, Value):
        return value
    index = b.use(value)
    if b.size(index) == value.size:
        return Value(index, value.shape)
    return view(b, Value(index, (1,)), value.shape, [0] * value.ndim)


def moved(b: Builder, args: Sequence[Known], move: Callable[..., Any]) -> Known:
    """`move(*args)`, a function of NumPy that puts entries elsewhere and computes none.

    What it does to the positions 0, 1, 2, ... says which entry goes where; where NumPy answers with
    a view of those, its strides and offset are ours.
    """
    if all(isinstance(a, np.ndarray) for a in args):
        return np.asarray(move(*args))
    ends = np.cumsum([a.size for a in args])
    places = [np.arange(n - a.size, n).reshape(a.shape) for a, n in zip(args, ends, strict=True)]
    result, origin = np.asarray(move(*places)), places[0]
    if len(args) == 1 and result.size and np.may_share_memory(result, origin):
        start = result.__array_interface__["data"][0] - origin.__array_interface__["data"][0]
        strides = [s // origin.itemsize for s in result.strides]
        return view(b, whole(b, args[0]), result.shape, strides, start // origin.itemsize)
    return take(b, result, args)


def take(b: Builder, position: Known, sources: Sequence[Known]) -> Known:
    """Entries at positions in all sources, end to end; those in their old order cost nothing."""
    first = sources[0]
    if len(sources) == 1 and isinstance(first, Value) and _in_order(position, first.size):
        return Value(first.index, position.shape)
    return b.add("take", [position, *sources], position.shape)
