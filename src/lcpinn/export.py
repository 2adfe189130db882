"""A solution for programs without JAX: as an ONNX graph, or as plain arrays.

An ONNX graph is the whole function: features, network and ansatz, in double precision, for any
number of points. The arrays are the network alone, with a description in JSON that a page of NumPy
reads (docs/export.md): features and ansatz are functions of the family, which no array can hold.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpinn import spec
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.fields import to_netcdf, to_vtu
from lcpinn.files import flatten, write_atomically
from lcpinn.network.contract import ArrayLayout
from lcpinn.precision import double
from lcpinn.shape.holes import SCALE, by_kind, visible_holes

if TYPE_CHECKING:
    from lcpinn.solution import Solution

FORMAT = 1
AGREEMENT = 1e-10  # between an exported graph and the solution, relative to its size


def export(solution: Solution, path: str | Path, at: Mapping[str, float] | None = None) -> Path:
    """Write the network as .onnx or .npz, or its values as .vtu or .nc, after the suffix.

    Values are on a grid, at the coefficients (and coordinates) in `at`.
    """
    networks, values = {".onnx": to_onnx, ".npz": to_arrays}, {".vtu": to_vtu, ".nc": to_netcdf}
    suffix = Path(path).suffix
    if suffix in values:
        return values[suffix](solution, path, at or {})
    if suffix not in networks:
        raise LcpinnError(
            f"{path}: a solution is exported to .onnx or .npz, its values to .vtu or .nc"
        )
    if at:
        raise LcpinnError(
            f"{path}: a network answers for every {', '.join(at)}; --at is for values"
        )
    return networks[suffix](solution, path)


# -- Arrays --------------------------------------------------------------------------------------


def to_arrays(solution: Solution, path: str | Path) -> Path:
    """Write the network's arrays in double precision, with a description, as a .npz file."""
    family = solution.family
    arrays = {name: a.astype(np.float64) for name, a in flatten(solution.params).items()}
    arrays |= _layout(solution).tables
    if family.weights is not None:
        arrays["draws"] = family.weights.sobol(family.evaluation.shots, seed=0)
    arrays["about"] = np.array(json.dumps(describe(solution), ensure_ascii=True))
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return _written(Path(path), buffer.getvalue())


def _layout(solution: Solution) -> ArrayLayout:
    family, network = solution.family, solution.protocol.network
    dims = {"parameters": family.parameters.dim} if family.parameters.free else {}
    if family.weights is not None:
        dims["weights"] = family.weights.dim
    layout = network.array_layout(dims)
    if layout is None:
        name = spec.describe(network)
        raise LcpinnError(f"arrays do not say how {name} evaluates them: export it to .onnx")
    return layout


def describe(solution: Solution) -> dict[str, Any]:
    """What the arrays mean: the network's inputs in their order, and how each is scaled."""
    family, layout = solution.family, _layout(solution)
    # A role that the network does not see enters in no way.
    entries = {role: None if how == "unseen" else how for role, how in layout.entries.items()}
    weights = () if family.weights is None else family.weights.names
    # Between these ends a reader's scaling is what a network sees that sees values as they are.
    raw = solution.protocol.network.sees_raw
    axes = family.parameters.axes
    kinds = ["log" if a.log else "linear" if a.low < a.high else "held" for a in axes]
    return {
        "format": FORMAT,
        "family": family.name,
        "coordinates": _ranges(
            _scaled_by(family.domain.ranges, (-1.0, 1.0), raw and not family.domain.periodic),
            ["periodic" if c.periodic else "linear" for c in family.domain.coordinates],
        ),
        "parameters": _ranges(family.parameters.ranges, kinds)
        | {"enter": entries.get("parameters"), "exponential": "parameters" in layout.exponential},
        "weights": _ranges(
            _scaled_by(dict.fromkeys(weights, (0.0, 1.0)), (1 / math.e, math.e), raw),
            ["log" if raw else "linear"] * len(weights),
        )
        | {"enter": entries.get("weights"), "exponential": "weights" in layout.exponential},
        "outputs": list(family.outputs),
        "layers": layout.num_layers,
        "activation": layout.activation,
        "features": _arguments(family, "features"),
        "ansatz": _arguments(family, "ansatz"),
        "holes": _holes(solution),
    }


def _holes(solution: Solution) -> list[dict[str, Any]]:
    """The holes that the network sees, in the order of its features: kind by kind."""
    if not solution.protocol.network.sees_holes:
        return []
    return [
        {
            "coordinates": list(same[0].coordinates),
            "period": same[0].period,
            "centres": [[value.to_json() for value in hole.centre] for hole in same],
            "radii": [hole.radius.to_json() for hole in same],
            "scale": SCALE,
        }
        for same in by_kind(visible_holes(solution.family))
    ]


def _scaled_by(
    ranges: dict[str, tuple[float, float]], ends: tuple[float, float], raw: bool
) -> dict[str, tuple[float, float]]:
    return dict.fromkeys(ranges, ends) if raw else ranges


def _ranges(ranges: dict[str, tuple[float, float]], kinds: list[str]) -> dict[str, Any]:
    low, high = ([ends[i] for ends in ranges.values()] for i in (0, 1))
    return {"names": list(ranges), "low": low, "high": high, "kind": kinds}


def _arguments(family: Family, hook: str) -> list[str] | None:
    """The names that a hook is a function of, where the family has it."""
    signature = family._signatures.get(hook)
    return None if signature is None else [argument.name for argument in signature]


# -- ONNX ----------------------------------------------------------------------------------------


def to_onnx(solution: Solution, path: str | Path) -> Path:
    """Write the solution as an ONNX graph and check it against the solution.

    Inputs are `coordinates` (n, dim), and where there are any `parameters` (n, p) and `weights`
    (n, m), the output is `outputs` (n, outputs), all in double precision. The names of the columns
    are in the model's metadata.
    """
    missing = [n for n in ("jax2onnx", "onnxruntime") if importlib.util.find_spec(n) is None]
    if missing:
        raise LcpinnError(f"ONNX needs {missing[0]}: pip install 'lcpinn[onnx]'")
    network = solution.protocol.network
    if not network.pointwise:
        kind = type(network).__name__
        raise LcpinnError(f"{kind} is no function of a point: it cannot go into ONNX here")
    import onnx  # pyright: ignore[reportMissingImports]
    from jax2onnx import to_onnx as convert  # pyright: ignore[reportMissingImports]

    function, inputs = _function(solution)
    with double(), _quiet():
        try:
            model: Any = convert(
                function,
                inputs=[("n", num) for num in inputs.values()],
                model_name=solution.family.name,
                enable_double_precision=True,
                input_names=list(inputs),
                output_names=["outputs"],
            )
        except Exception as error:
            raise LcpinnError(f"jax2onnx cannot convert this solution: {_line(error)}") from error
    _double_erf(model)
    facts = {name: ", ".join(names) for name, names in _columns(solution.family, inputs).items()}
    onnx.helper.set_model_props(model, {"family": solution.family.name, **facts})
    content = model.SerializeToString()
    _check(solution, function, inputs, content)
    return _written(Path(path), content)


def _function(solution: Solution) -> tuple[Callable[..., Any], dict[str, int]]:
    """Outputs (n, out) of the inputs, each (n, columns), and how many columns each has."""
    family = solution.family
    params = jax.tree.map(lambda a: np.asarray(a, np.float64), solution.params)
    inputs = {"coordinates": family.domain.dim}
    if family.parameters.free:
        inputs["parameters"] = family.parameters.dim
    if family.weights is not None:
        inputs["weights"] = family.weights.dim
    held_values = {"parameters": list(family.parameters.held.values()), "weights": []}

    def function(*given: Any) -> Any:
        named = dict(zip(inputs, given, strict=True))
        points = named["coordinates"]
        # Nothing is made that is not used: the converter keeps it, and stumbles over empty arrays.
        for role in held_values.keys() - named.keys():
            named[role] = jnp.tile(jnp.array([held_values[role]], float), (points.shape[0], 1))
        lam = named["parameters"], named["weights"]
        return solution.predictor.values(params, points[:, None], *lam)[:, 0]

    return function, inputs


def _columns(family: Family, inputs: Mapping[str, int]) -> dict[str, Sequence[str]]:
    """The names of the columns of every input, and of the output."""
    names: dict[str, Sequence[str]] = {
        "coordinates": family.domain.names,
        "parameters": family.parameters.names,
        "weights": () if family.weights is None else family.weights.names,
    }
    return {name: names[name] for name in inputs} | {"outputs": family.outputs}


def _check(
    solution: Solution, function: Callable[..., Any], inputs: dict[str, int], content: bytes
) -> None:
    """Run the graph at a few points: better no file than one that answers differently."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    family = solution.family
    sources: dict[str, Any] = {"coordinates": family.domain, "parameters": family.parameters}
    sources["weights"] = family.weights
    given = {name: np.asarray(sources[name].sobol(16)) for name in inputs}
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors alone
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        (outputs,) = session.run(None, given)
    except Exception as error:
        raise LcpinnError(f"onnxruntime cannot run this solution: {_line(error)}") from error
    with double():
        expected = np.asarray(jax.jit(function)(*given.values()))
    size = max(float(np.max(np.abs(expected))), np.finfo(float).tiny)
    gap = float(np.max(np.abs(np.asarray(outputs) - expected))) / size
    if not gap < AGREEMENT:
        raise LcpinnError(f"the ONNX graph differs from the solution by {gap:.1e}: not written")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the converter's remarks about types that it leaves open."""
    logger = logging.getLogger("onnx_ir")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _double_erf(model: Any) -> None:
    """Spell the error function out, which onnxruntime has in single precision alone.

    erf(x) = sign(x) (1 - t q(t) exp(-x²)) with t = 2 / (2 + |x|), where q(t) = erfcx(|x|) / t is
    smooth on (0, 1): a Chebyshev series gives it to rounding.
    """
    from onnx import TensorProto, helper  # pyright: ignore[reportMissingImports]

    nodes = [node for node in model.graph.node if node.op_type == "Erf" and not node.domain]
    if not nodes:
        return
    body: list[Any] = []

    def constant(name: str, value: float) -> None:
        tensor = helper.make_tensor(name, TensorProto.DOUBLE, [], [value])
        body.append(helper.make_node("Constant", [], [name], value=tensor))

    def add(kind: str, inputs: str, output: str) -> None:
        body.append(helper.make_node(kind, inputs.split(), [output]))

    constant("one", 1.0)
    constant("two", 2.0)
    for kind, inputs, output in (
        ("Abs", "x", "z"), ("Add", "two z", "sum"), ("Div", "two sum", "t"), ("Add", "t t", "t2"),
        ("Sub", "t2 one", "y"), ("Add", "y y", "y2"), ("Sub", "y y", "b0"), ("Sub", "y y", "a0"),
    ):  # fmt: skip
        add(kind, inputs, output)
    # Clenshaw: b_k = c_k + 2 y b_{k+1} - b_{k+2}, down to q = c_0 + y b_1 - b_2.
    series = _erfcx_series()
    now, before = "b0", "a0"
    for k, value in reversed(list(enumerate(series))):
        constant(f"c{k}", float(value))
        add("Mul", f"{'y2' if k else 'y'} {now}", f"m{k}")
        add("Sub", f"m{k} {before}", f"d{k}")
        add("Add", f"d{k} c{k}", f"s{k}")
        now, before = f"s{k}", now
    for kind, inputs, output in (
        ("Mul", "z z", "zz"), ("Neg", "zz", "minus"), ("Exp", "minus", "decay"),
        ("Mul", f"t {now}", "tq"), ("Mul", "tq decay", "rest"), ("Sub", "one rest", "size"),
        ("Sign", "x", "side"), ("Mul", "side size", "erf"),
    ):  # fmt: skip
        add(kind, inputs, output)
    standard = [one for one in model.opset_import if not one.domain]
    made = helper.make_function("lcpinn", "Erf", ["x"], ["erf"], body, standard)
    model.functions.append(made)
    model.opset_import.append(helper.make_opsetid("lcpinn", 1))
    for node in nodes:
        node.domain = "lcpinn"


def _erfcx_series(degree: int = 24) -> np.ndarray:
    """Chebyshev coefficients of erfcx(z) / t over y = 2 t - 1, t = 2 / (2 + z)."""
    from scipy.special import erfcx

    def q(y: np.ndarray) -> np.ndarray:
        t = (y + 1) / 2
        return erfcx(2 / t - 2) / t

    return np.polynomial.chebyshev.chebinterpolate(q, degree)  # pyright: ignore


def _written(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LcpinnError(f"cannot write to {path.parent}: {error.strerror}") from None
    write_atomically(path, content)
    return path
