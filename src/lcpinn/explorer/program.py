"""A network as a plain list of array operations, which anything can run that knows arrays.

`trace` lowers a JAX function to StableHLO in double precision and writes it down as a `Program`:
features, network and ansatz together, without JAX, without the family's code. `Program.__call__`
runs it in NumPy, `run.js` in a browser; whoever wants to run it elsewhere needs the few operations
below.

As JSON (`Program.to_json`) a program is

    {"format": 2,
     "inputs":     [{"name": "points", "size": 512}, {"name": "parameters", "size": 1}, ...],
     "constants":  ["<base64>", ...],                      float64, little-endian
     "operations": [{"op": "matmul", "args": [3, 7], "size": 4800, ...}, ...],
     "once": 12, "output": 97, "points": 256, "coordinates": 2, "outputs": 1}

Every value is a flat array of doubles (truth values are 0 and 1; shapes are gone). Values are
numbered: first the inputs, then the constants, then the operations, each of which makes one value
of `size` entries from those that `args` names. The first `once` operations do not depend on
`points`. One run takes `points` points, row by row, `coordinates` entries each, and gives `outputs`
entries for each; more points take several runs.

    add, sin, less, select, ...   entry by entry; an argument of one entry stands for all; `select`
                                  takes the entry of argument 1 + (argument 0)
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

from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.explorer.builder import Builder
from lcpinn.explorer.operations import Operation, compute
from lcpinn.explorer.translate import lower, translate
from lcpinn.family import Family
from lcpinn.precision import double

if TYPE_CHECKING:
    from lcpinn.solution import Solution

FORMAT = 2
POINTS = 256  # in one run


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
        setting = {"parameters": parameters, "weights": weights}
        values: list[Any] = [
            None if name == "points" else self._checked(name, setting[name]) for name in self.inputs
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

    def _checked(self, name: str, entries: Sequence[float]) -> np.ndarray:
        value = np.asarray(entries, np.float64).ravel()
        if value.size != self.inputs[name]:
            raise LcpinnError(f"the program takes {self.inputs[name]} {name}, not {value.size}")
        return value

    def _advance(self, values: list[Any], operations: Sequence[Operation]) -> None:
        for operation in operations:
            result = compute(operation, [values[i] for i in operation.args])
            values.append(result.astype(np.float64, copy=False))

    @cached_property
    def cost(self) -> float:
        """Multiply-adds for one point, about."""
        return sum(o.cost for o in self.operations[self.once :]) / self.points

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
    with double():
        specs = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes.values()]
        exported = lower(function, specs)
    builder = Builder(list(shapes.values()))
    output = translate(builder, exported)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    constants, operations, once, number = builder.finish(output)
    return Program(
        sizes, constants, operations, once, number, points, coordinates, output.shape[-1]
    )


def of_solution(solution: Solution, points: int = POINTS) -> Program:
    """The program of a trained network: features, network and ansatz."""
    family = solution.family
    network = solution.protocol.network
    if not network.pointwise:
        kind = type(network).__name__
        raise LcpinnError(f"{kind} is no function of a point: there is no program of it to explore")
    with double():
        params = solution.predictor.params

    def function(points: Any, parameters: Any, weights: Any) -> Any:
        return solution.predictor.values(params, points[None], parameters[None], weights[None])[0]

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


def of_level(family: Family, points: int = POINTS) -> Program | None:
    """The program that says what is outside of a shape: positive there. None for a box."""
    if isinstance(family.domain, Box):
        return None
    level = family.domain.traced_level

    def function(points: Any, parameters: Any, _: Any) -> Any:
        return jax.vmap(lambda p: level(p, parameters))(points)[:, None]

    return trace(
        function, points=points, coordinates=family.domain.dim, parameters=family.parameters.dim
    )


def encode(values: np.ndarray) -> str:
    """Doubles, little-endian, as base64."""
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def decode(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f8").astype(np.float64)
