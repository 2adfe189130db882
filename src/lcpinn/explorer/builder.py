"""Operations in the making: what `translate.py` adds, with constants kept small.

Values have no shapes in a program, so that the same entries seen in another shape cost nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lcpinn.errors import LcpinnError

MOST_OPERATIONS = 20_000  # unrolled loops included


@dataclass(frozen=True)
class Operation:
    """One line of a program: what is done, to which values, how many entries come out."""

    op: str
    args: tuple[int, ...]
    size: int
    how: tuple[tuple[str, Any], ...] = ()

    def __getitem__(self, key: str) -> Any:
        return dict(self.how)[key]

    def to_json(self) -> dict[str, Any]:
        return {"op": self.op, "args": list(self.args), "size": self.size, **dict(self.how)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Operation:
        rest = {k: v for k, v in data.items() if k not in ("op", "args", "size")}
        how = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in rest.items())
        return Operation(data["op"], tuple(data["args"]), data["size"], how)


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
    found: dict[Any, int] = field(default_factory=dict)

    @property
    def inputs(self) -> list[Known]:
        return [Value(i, shape) for i, shape in enumerate(self.shapes)]

    def add(self, op: str, args: Sequence[Known], shape: Sequence[int], **how: Any) -> Value:
        shape = tuple(int(n) for n in shape)
        line = Operation(op, tuple(self.use(a) for a in args), math.prod(shape), tuple(how.items()))
        if line not in self.found:
            if len(self.sources) > MOST_OPERATIONS:
                raise LcpinnError(f"more than {MOST_OPERATIONS} operations: a loop is too long")
            self.found[line] = self._append(line)
        return Value(self.found[line], shape)

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
        if key not in self.found:
            self.found[key] = self._append(core.ravel())
        if core.size == 1 or core.size == array.size:
            return self.found[key]  # one entry stands for all
        strides = [
            0 if n == 1 else s for n, s in zip(core.shape, strides_of(core.shape), strict=True)
        ]
        return view(self, Value(self.found[key], core.shape), array.shape, strides).index

    def finish(self, out: Known) -> tuple[list[np.ndarray], list[Operation], int, int]:
        """Constants, operations without those that nothing needs, `once`, and the output.

        Values are numbered anew: what does not depend on the first input comes before the rest.
        """
        if not (isinstance(out, Value) and isinstance(self.source(out.index), Operation)):
            out = self.add("add", [out, np.zeros(())], out.shape)
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
    sizes, steps = [n for n, _ in axes], [s for _, s in axes]
    made = b.add("view", [x], sizes, counts=tuple(sizes), strides=tuple(steps), offset=int(offset))
    return Value(made.index, shape)


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
