"""The operations that programs are made of, and what they mean in NumPy; `run.js` is their twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

FUNCTION_COST = 12  # multiply-adds that a sine or an exponential takes, about


@dataclass(frozen=True)
class Operation:
    """One line of a program: the operation, the values it takes, how many entries come out."""

    op: str
    args: tuple[int, ...]
    size: int
    attributes: tuple[tuple[str, Any], ...] = ()

    def __getitem__(self, key: str) -> Any:
        return dict(self.attributes)[key]

    def to_json(self) -> dict[str, Any]:
        return {"op": self.op, "args": list(self.args), "size": self.size, **dict(self.attributes)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Operation:
        rest = {k: v for k, v in data.items() if k not in ("op", "args", "size")}
        attributes = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in rest.items())
        return Operation(data["op"], tuple(data["args"]), data["size"], attributes)

    @property
    def cost(self) -> float:
        """Multiply-adds, about."""
        if self.op == "matmul":
            return self.size * self["k"]
        expensive = self.op in ENTRYWISE and self.op not in CHEAP
        return self.size * (FUNCTION_COST if expensive else 1)


def compute(operation: Operation, args: Sequence[np.ndarray]) -> np.ndarray:
    """The operation's value (size,) from flat arrays; truth values come out as they are."""
    kernel, name = _OTHERS.get(operation.op), operation.op
    with np.errstate(all="ignore"):  # both branches of a select are computed
        if kernel is not None:
            result = kernel(operation, *args)
        elif name in ENTRYWISE:
            result = ENTRYWISE[name](*args)
        elif name in REDUCTIONS:
            result = REDUCTIONS[name](args[0].reshape(-1, operation["length"]), axis=1)
        else:
            result = _running(operation, args[0])
    return np.broadcast_to(result, operation.size)


def _round_away(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(0.5, x))


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whole numbers divided towards zero, whether they come as integers or as doubles."""
    return (x - np.fmod(x, y)) // y if x.dtype.kind in "iu" else np.trunc(x / y)


def _logical(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda *args: function(*(a != 0 for a in args))


ENTRYWISE: dict[str, Callable[..., Any]] = {
    "negative": np.negative, "absolute": np.abs, "sign": np.sign, "floor": np.floor,
    "ceil": np.ceil, "truncate": np.trunc, "round": np.rint, "round_away": _round_away,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "logistic": special.expit, "erf": special.erf, "erfc": special.erfc,
    "finite": np.isfinite, "nonzero": lambda x: x != 0,
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "quotient": _quotient, "remainder": np.fmod, "pow": np.power, "maximum": np.maximum,
    "minimum": np.minimum, "atan2": np.arctan2, "equal": np.equal, "differ": np.not_equal,
    "less": np.less, "less_equal": np.less_equal,
    "not": _logical(np.logical_not), "and": _logical(np.logical_and),
    "or": _logical(np.logical_or), "xor": _logical(np.logical_xor),
}  # fmt: skip
CHEAP = {"negative", "absolute", "sign", "add", "subtract", "multiply", "divide", "sqrt",
         "maximum", "minimum", "equal", "differ", "less", "less_equal", "nonzero", "not", "and",
         "or", "xor"}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "product": np.prod, "largest": np.max, "smallest": np.min,
}  # fmt: skip
RUNNING: dict[str, Any] = {
    "running_sum": np.add, "running_product": np.multiply,
    "running_largest": np.maximum, "running_smallest": np.minimum,
}  # fmt: skip


def _running(o: Operation, x: np.ndarray) -> np.ndarray:
    x = x.reshape(-1, o["length"], o["inner"])
    step = slice(None, None, -1 if o["reverse"] else 1)
    return RUNNING[o.op].accumulate(x[:, step], axis=1)[:, step].ravel()


def _select(o: Operation, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(which.shape, *(c.shape for c in cases))
    number = np.broadcast_to(which, shape).astype(int)
    return np.choose(number, [np.broadcast_to(c, shape) for c in cases])


def _view(o: Operation, x: np.ndarray) -> np.ndarray:
    position = np.full(1, o["offset"])
    for count, stride in zip(o["counts"], o["strides"], strict=True):
        position = (position[:, None] + stride * np.arange(count)).ravel()
    return x[position]


def _take(o: Operation, position: np.ndarray, *sources: np.ndarray) -> np.ndarray:
    return np.concatenate(sources)[position.astype(int)]


def _join(o: Operation, *blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([b.reshape(o["outer"], -1) for b in blocks], axis=1).ravel()


def _matmul(o: Operation, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    b, m, k, n = (o[key] for key in ("batch", "m", "k", "n"))
    return (lhs.reshape(b, m, k) @ rhs.reshape(b, k, n)).ravel()


_OTHERS = {"select": _select, "view": _view, "take": _take, "join": _join, "matmul": _matmul}
