"""A network as a plain list of array operations, which anything can run that knows arrays.

`trace` records a JAX function in double precision and writes it down as a `Program`: features,
network and ansatz together, without JAX, without the family's code. `Program.__call__` runs it in
NumPy, `run.js` in a browser; whoever wants to run it elsewhere needs the few operations below.

As JSON (`Program.to_json`) a program is

    {"format": 1,
     "inputs":     [{"name": "points", "size": 512}, {"name": "parameters", "size": 1}, ...],
     "constants":  ["<base64>", ...],                      float64, little-endian
     "operations": [{"op": "matmul", "args": [3, 7], "size": 4800, ...}, ...],
     "once": 12, "output": 97, "points": 256, "coordinates": 2, "outputs": 1}

Every value is a flat array of doubles (truth values are 0 and 1; shapes are gone). Values are
numbered: first the inputs, then the constants, then the operations, each of which makes one value
of `size` entries from those that `args` names. The first `once` operations do not depend on
`points`. One run takes `points` points, row by row, `coordinates` entries each, and gives `outputs`
entries for each; more points take several runs.

    add, sin, less, select, ...   entry by entry; an argument of one entry stands for all. `power`
                                  has an integer `exponent`; `select` takes the entry of argument
                                  1 + (argument 0)
    view                          entry i, j, ... of an array of `counts` is the argument's entry
                                  `offset` + i strides[0] + j strides[1] + ...
    take                          argument 0 has positions in all other arguments, end to end
    join                          `outer` times over, the next block of every argument
    matmul                        (batch, m, k) times (batch, k, n)
    sum, product, largest, ...    of every `length` entries that follow each other
    running_sum, ...              along the middle axis of (outer, length, inner), or `reverse`
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy import special

from lcpinn.errors import LcpinnError
from lcpinn.explorer.builder import Builder, Operation
from lcpinn.explorer.translate import translate
from lcpinn.family import Family

if TYPE_CHECKING:
    from lcpinn.solution import Solution

FORMAT = 1
POINTS = 256  # in one run
FUNCTION_COST = 12  # multiply-adds that a sine or an exponential takes, about


@dataclass(frozen=True, eq=False)
class Program:
    """Operations over flat arrays; see the module's docstring for what they mean."""

    inputs: Mapping[str, int]
    constants: Sequence[np.ndarray]
    operations: Sequence[Operation]
    once: int
    output: int
    points: int
    coordinates: int
    outputs: int

    def __call__(
        self, points: Any, parameters: Sequence[float] = (), weights: Sequence[float] = ()
    ) -> np.ndarray:
        """Outputs (n, outputs) at points (n, coordinates) and one setting, in NumPy."""
        points = np.asarray(points, np.float64).reshape(-1, self.coordinates)
        given = {"parameters": parameters, "weights": weights}
        values: list[Any] = [
            None if name == "points" else self._checked(name, given[name]) for name in self.inputs
        ]
        values += self.constants
        self._advance(values, self.operations[: self.once])
        pieces = [np.zeros((0, self.outputs))]
        for start in range(0, len(points), self.points):
            piece = points[start : start + self.points]
            padded = np.resize(piece, (self.points, self.coordinates))
            run = [padded.ravel(), *values[1:]]
            self._advance(run, self.operations[self.once :])
            pieces.append(run[self.output].reshape(-1, self.outputs)[: len(piece)])
        return np.concatenate(pieces)

    def _checked(self, name: str, given: Sequence[float]) -> np.ndarray:
        value = np.asarray(given, np.float64).ravel()
        if value.size != self.inputs[name]:
            raise LcpinnError(f"the program takes {self.inputs[name]} {name}, not {value.size}")
        return value

    def _advance(self, values: list[Any], operations: Sequence[Operation]) -> None:
        with np.errstate(all="ignore"):  # both branches of a select are computed
            for operation in operations:
                args = [values[i] for i in operation.args]
                made = _kernel(operation)(operation, *args)
                values.append(np.broadcast_to(made, operation.size))

    @cached_property
    def cost(self) -> float:
        """Multiply-adds for one point, about."""
        return sum(_cost(o) for o in self.operations[self.once :]) / self.points

    def to_json(self) -> dict[str, Any]:
        """The program as plain JSON."""
        return {
            "format": FORMAT,
            "inputs": [{"name": name, "size": size} for name, size in self.inputs.items()],
            "constants": [encode(c) for c in self.constants],
            "operations": [o.to_json() for o in self.operations],
            "once": self.once,
            "output": self.output,
            "points": self.points,
            "coordinates": self.coordinates,
            "outputs": self.outputs,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Program:
        """The program that `to_json` wrote."""
        if data.get("format") != FORMAT:
            raise LcpinnError(f"this is no program of format {FORMAT}")
        return Program(
            {i["name"]: i["size"] for i in data["inputs"]},
            [decode(c) for c in data["constants"]],
            [Operation.from_json(o) for o in data["operations"]],
            *(data[k] for k in ("once", "output", "points", "coordinates", "outputs")),
        )


def trace(
    function: Callable[..., Any], *, points: int, coordinates: int, parameters: int = 0,
    weights: int = 0,
) -> Program:  # fmt: skip
    """The program of function(points (n, coordinates), parameters (p,), weights (m,)) -> (n, out).

    An operation that has no counterpart is an error that names it.
    """
    shapes = {"points": (points, coordinates), "parameters": (parameters,), "weights": (weights,)}
    with jax.enable_x64(True):
        given = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes.values()]
        closed = jax.make_jaxpr(function)(*given)
        builder = Builder(list(shapes.values()))
        (out,) = translate(builder, closed.jaxpr, closed.consts, builder.inputs)
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        constants, operations, once, output = builder.finish(out)
    outputs = closed.out_avals[0].shape[-1]
    return Program(sizes, constants, operations, once, output, points, coordinates, outputs)


def of_solution(solution: Solution, points: int = POINTS) -> Program:
    """The program of a trained network: features, network and ansatz."""
    family = solution.family
    network = solution.protocol.network
    if not network.pointwise:
        kind = type(network).__name__
        raise LcpinnError(f"{kind} is no function of a point: there is no program of it to explore")
    with jax.enable_x64(True):
        params = solution._double

    def function(points: Any, parameters: Any, weights: Any) -> Any:
        return solution._values(params, points[None], parameters[None], weights[None])[0]

    return trace(
        function, points=points, coordinates=family.domain.dim, parameters=family.parameters.dim,
        weights=0 if family.weights is None else family.weights.dim,
    )  # fmt: skip


def of_exact(family: Family, points: int = POINTS) -> Program:
    """The program of the family's exact solution."""

    def function(points: Any, parameters: Any, _: Any) -> Any:
        return jax.vmap(lambda p: family.call("exact", p, parameters))(points)

    return trace(
        function, points=points, coordinates=family.domain.dim, parameters=family.parameters.dim
    )


def encode(values: np.ndarray) -> str:
    """Doubles, little-endian, as base64."""
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def decode(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f8").astype(np.float64)


# -- What the operations mean --------------------------------------------------------------------


def _round_away(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(0.5, x))


def _logical(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda *args: function(*(a != 0 for a in args))


ENTRYWISE: dict[str, Callable[..., Any]] = {
    "negative": np.negative, "absolute": np.abs, "sign": np.sign, "floor": np.floor,
    "ceil": np.ceil, "truncate": np.trunc, "round": np.rint, "round_away": _round_away,
    "square": np.square, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "logistic": special.expit, "erf": special.erf,
    "erfc": special.erfc, "finite": np.isfinite, "nonzero": lambda x: x != 0,
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "quotient": lambda x, y: np.trunc(x / y), "remainder": np.fmod, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2, "equal": np.equal,
    "differ": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "not": _logical(np.logical_not), "and": _logical(np.logical_and),
    "or": _logical(np.logical_or), "xor": _logical(np.logical_xor),
}  # fmt: skip
CHEAP = {"negative", "absolute", "sign", "square", "add", "subtract", "multiply", "divide", "sqrt",
         "maximum", "minimum", "equal", "differ", "less", "less_equal", "power", "select", "view",
         "not", "and", "or", "xor"}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "product": np.prod, "largest": np.max, "smallest": np.min,
    "where_largest": np.argmax, "where_smallest": np.argmin,
}  # fmt: skip
RUNNING: dict[str, Any] = {
    "running_sum": np.add, "running_product": np.multiply,
    "running_largest": np.maximum, "running_smallest": np.minimum,
}  # fmt: skip


def _kernel(operation: Operation) -> Callable[..., Any]:
    name = operation.op
    if name in ENTRYWISE:
        return lambda _, *args: np.asarray(ENTRYWISE[name](*args), np.float64)
    if name in REDUCTIONS:
        return lambda o, x: REDUCTIONS[name](x.reshape(-1, o["length"]), axis=1) + 0.0
    if name in RUNNING:
        return _running
    return _OTHERS[name]


def _running(o: Operation, x: np.ndarray) -> np.ndarray:
    x = x.reshape(-1, o["length"], o["inner"])
    step = slice(None, None, -1 if o["reverse"] else 1)
    return RUNNING[o.op].accumulate(x[:, step], axis=1)[:, step].ravel()


def _power(o: Operation, x: np.ndarray) -> np.ndarray:
    return x ** float(o["exponent"])


def _select(o: Operation, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    size = o.size
    return np.choose(
        np.broadcast_to(which, size).astype(int), [np.broadcast_to(c, size) for c in cases]
    )


def _view(o: Operation, x: np.ndarray) -> np.ndarray:
    position = np.full(1, o["offset"])
    for count, stride in zip(o["counts"], o["strides"], strict=True):
        position = (position[:, None] + stride * np.arange(count)).ravel()
    return x[position]


def _take(o: Operation, position: np.ndarray, *sources: np.ndarray) -> np.ndarray:
    return np.concatenate(sources)[position.astype(int)]


def _join(o: Operation, *blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([b.reshape(o["outer"], -1) for b in blocks], axis=1).ravel()


def _matmul(o: Operation, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    b, m, k, n = (o[key] for key in ("batch", "m", "k", "n"))
    return (left.reshape(b, m, k) @ right.reshape(b, k, n)).ravel()


_OTHERS = {"power": _power, "select": _select, "view": _view, "take": _take, "join": _join,
           "matmul": _matmul}  # fmt: skip


def _cost(o: Operation) -> float:
    if o.op == "matmul":
        return o.size * o["k"]
    return o.size * (FUNCTION_COST if o.op in ENTRYWISE and o.op not in CHEAP else 1)
