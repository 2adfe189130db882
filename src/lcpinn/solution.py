"""The trained network as a function of named arrays: NumPy in, NumPy out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from lcpinn.certificate import Estimate, Estimator, certificate, of_network
from lcpinn.errors import LcpinnError, OutsidePriorWarning
from lcpinn.family import Data, Family
from lcpinn.files import read_arrays, unflatten, write_arrays
from lcpinn.jet import Orders
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.protocol import Protocol
from lcpinn.rows import Problem
from lcpinn.sampling import Points, fixed
from lcpinn.spec import from_plain, to_plain
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.verdict import TOLERANCE, Verdict, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

    from lcpinn.explorer import Embedded, Program
    from lcpinn.inverse import Fit, Forward, Sigma

CHUNK = 1 << 15  # points (times shots) in one call of the network: bounds the memory it takes


class Solution:
    """u(coordinates, lambda), for every lambda at once.

    `solution(x=..., k=...)` broadcasts its arguments like NumPy and returns an array, or a dict by
    output name where the family has several outputs. A network conditioned on loss weights answers
    with the mean over `shots` draws of them, or one slice with `weights={...}`. Outside of a shape
    the answer is nan.
    """

    def __init__(self, family: Family, protocol: Protocol, params: Params, run: Mapping[str, Any]):
        self.family, self.protocol, self.run = family, protocol, dict(run)
        self.params = jax.tree.map(np.asarray, params)
        self._warned = False

    def __repr__(self) -> str:
        how = " at ".join(filter(None, (self.protocol.name, self.protocol.setting)))
        return f"<solution of {self.family.name}: {self.num_params} parameters, {how}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the line, the verdict where there is one, and the picture."""
        import base64
        import html
        import io

        from lcpinn.plot.overview import figure

        data = io.BytesIO()
        figure(self).savefig(data, format="png", dpi=110)
        picture = base64.b64encode(data.getvalue()).decode()
        verdict = getattr(self, "verdict", None)
        lines = [repr(self), *(() if verdict is None else (str(verdict),))]
        text = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
        return f'{text}<img alt="the solution" src="data:image/png;base64,{picture}">'

    @property
    def num_params(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    def __call__(
        self, *, weights: Mapping[str, float] | None = None, shots: int | None = None, **named: Any
    ) -> Any:
        """The solution at named points and coefficients."""
        mean, _, shape = self._moments(named, weights, shots)
        return self._shaped(mean, shape)

    def spread(self, *, shots: int = 200, **named: Any) -> Any:
        """The standard deviation across draws of the loss weights, pointwise."""
        if self.family.weights is None:
            raise LcpinnError(f"{self.family.name} is not conditioned on loss weights: no spread")
        _, deviation, shape = self._moments(named, None, shots)
        return self._shaped(deviation, shape)

    def slices(self, *, shots: int | None = None, **named: Any) -> np.ndarray:
        """Every draw of the loss weights apart, (shots, points, outputs), at one coefficient."""
        points, parameters, _ = self._read(named)
        if len(parameters) != 1:
            raise LcpinnError("slices are taken at one setting of the coefficients")
        draws = self._draws(None, shots)
        lam = np.repeat(parameters, len(draws), axis=0)
        size = max(64, CHUNK // len(draws))
        with double():
            pieces = []
            for start in range(0, len(points), size):
                piece = points[start : start + size]
                padded = np.concatenate([piece, np.repeat(piece[-1:], size - len(piece), axis=0)])
                value = self._sliced(self._double, padded, lam, draws)
                pieces.append(np.asarray(value)[:, : len(piece)])
        empty = np.zeros((len(draws), 0, len(self.family.outputs)))
        return np.concatenate([empty, *pieces], axis=1)

    def estimate(
        self, *, weights: Mapping[str, float] | None = None, **parameters: float
    ) -> Estimate:
        """The relative L2 error at one setting, estimated without knowing the true solution.

        From the linearised equation with the residual on its right-hand side; `error` is nan, with
        a `reason`, where that cannot be done on a modest grid. With loss weights it is the error of
        the mean over them that a call answers with, or of one slice. See lcpinn.certificate.
        """
        setting = self.family.parameters.setting(parameters)
        draws = self._draws(weights, None)
        with double():
            estimate = self._estimator(self._double, list(setting.values()), draws)
        return estimate._replace(at=setting)

    def linearisation(self, **parameters: float) -> Linearisation:
        """The family's terms at one setting, linearised about this solution: lcpinn.spectral."""
        setting = self.family.parameters.setting(parameters)
        draws = self._draws(None, None)
        return self._estimator.linearisation(self._double, list(setting.values()), draws)

    def corrected(self, *, weights: Mapping[str, float] | None = None, **named: Any) -> Any:
        """The solution with the error taken away that its certificate finds at every setting.

        Called as the solution itself is; each setting of the coefficients costs one estimate.
        """
        points, parameters, shape = self._read(named)
        draws = self._draws(weights, None)
        every = np.broadcast_to(parameters, (len(points), parameters.shape[1]))
        values = np.empty((len(points), len(self.family.outputs)))
        for lam in np.unique(parameters, axis=0):
            with double():
                estimate, corrected = self._estimator.correction(self._double, lam, draws)
                if corrected is None:
                    pairs = zip(self.family.parameters.names, lam, strict=True)
                    where = ", ".join(f"{n} = {v:g}" for n, v in pairs) or "its one setting"
                    raise LcpinnError(f"no correction at {where}: {estimate.reason}")
                chosen = np.all(every == lam, axis=1)
                values[chosen] = corrected(points[chosen])
        return self._shaped(values, shape)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the family is solved, by the estimated error: that of its training, or made now.

        `solved` (None where nothing can be said), `error` (the largest over lambda), `at` (where),
        `tolerance` and `reason` (one sentence).
        """
        if "verdict" in self.run:
            return Verdict.from_json(self.run["verdict"])
        return self.judged()

    def judged(self, tolerance: float | None = None, seconds: float = 0.0) -> Verdict:
        """A verdict on this network, which took so many seconds to train."""
        if not self.protocol.judged:
            name = self.protocol.name
            return Verdict(None, None, None, TOLERANCE, f"{name} is for trying things out")
        draws = None if self.family.weights is None else self._draws(None, None)
        with double():
            start = jax.random.fold_in(jax.random.PRNGKey(self.run.get("seed", 0)), 0)
            return judge(
                self.problem,
                self._double,
                tolerance=tolerance,
                seconds=seconds,
                held_out=fixed(self.family, self.protocol.held_out, jnp.float64),
                start=jax.jit(self.problem.init)(start),
                draws=draws,
            )

    def certificate(
        self, settings: int | None = None, tolerance: float | None = None
    ) -> dict[str, Any]:
        """Residual and estimated error over a grid of lambda, with the worst of it.

        `settings` is how many values each coefficient takes (91 for one coefficient by default).
        With a tolerance, `passed` says whether every estimate stays below it.
        """
        prior = self.family.parameters
        num = settings or {0: 1, 1: 91, 2: 7}.get(len(prior.free), 4)
        draws = None if self.family.weights is None else self._draws(None, None)
        with double():
            return certificate(self.problem, self._double, prior.grid(num), draws, tolerance)

    @cached_property
    def _estimator(self) -> Estimator:
        return of_network(self.problem)

    def fit(
        self,
        data: Data | Mapping[str, Any],
        *,
        at: Mapping[str, float] | None = None,
        sigma: Sigma | None = None,
        estimate: bool = True,
    ) -> Fit:
        """The coefficients that explain observations best, with standard errors and warnings.

        `data` is `lc.Data(x=[...], u=[...])`, or a dict of such columns, in which nan is an output
        that was not observed and single numbers count for every observation. A coefficient that is
        a column is known; one in `at` is held. `sigma` is the noise's standard deviation, one for
        all, one for each observation, or either of them by output; without it, the noise is taken
        to be the same share of each output's size, and estimated from the misfit. The network's own
        error stands beside the result; `estimate=False` saves that time, where there are many fits.
        """
        from lcpinn.inverse import fit

        return fit(self, data, at, sigma, estimate)

    @cached_property
    def _forward(self) -> Forward:
        from lcpinn.inverse import Forward

        return Forward(self)

    def evaluate(self, against: str | None = None) -> dict[str, Any]:
        """Errors against the exact or reference solution, or against="solver": see evaluation.py.

        The solver is lc.solve, for families that have neither.
        """
        from lcpinn.evaluation import evaluate

        return evaluate(self, against)

    # Saving.

    def save(self, path: str | Path) -> Path:
        """Write a model file (safetensors with a JSON header)."""
        header = {"protocol": to_plain(self.protocol), "family": signature(self.family)}
        header |= {"run": {k: v for k, v in self.run.items() if k not in header}}
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LcpinnError(f"cannot write to {Path(path).parent}: {error.strerror}") from None
        write_arrays(Path(path), "model", header, self.params)
        return Path(path)

    def to_onnx(self, path: str | Path) -> Path:
        """Write the whole solution as an ONNX graph in double precision; see docs/export.md."""
        from lcpinn.export import to_onnx

        return to_onnx(self, path)

    def to_arrays(self, path: str | Path) -> Path:
        """Write the network's arrays with a description, for NumPy; see docs/export.md."""
        from lcpinn.export import to_arrays

        return to_arrays(self, path)

    def to_xarray(self, **named: Any) -> Dataset:
        """The solution over a grid, as an xarray Dataset with named dimensions.

        `solution.to_xarray(x=101, y=101, r=[0.2, 0.4])`: a coordinate as a number of points or its
        values (default: a grid over its range), a coefficient as a value or several. Outside of a
        shape values are NaN.
        """
        from lcpinn.fields import to_xarray

        return to_xarray(self, **named)

    def plot(
        self,
        what: str = "solution",
        path: str | Path | None = None,
        *,
        at: Mapping[str, float] | Sequence[Mapping[str, float]] = (),
        run: str | Path | None = None,
    ) -> Figure:
        """One of the pictures `solution`, `error`, `loss` and `spread`, as a Matplotlib figure.

        With a path it is also written there, as PNG, SVG or PDF. `at` is a setting of the
        coefficients to draw at, or several; the loss needs `run`, the directory of the training.
        """
        from lcpinn.plot import draw, save

        drawn = draw(what, self, at=[at] if isinstance(at, Mapping) else at, run=run)
        if path is not None:
            save(drawn, Path(path))
        return drawn

    @overload
    def explore(self, path: None = None, settings: int | None = None) -> Embedded: ...

    @overload
    def explore(self, path: str | Path, settings: int | None = None) -> Path: ...

    def explore(
        self, path: str | Path | None = None, settings: int | None = None
    ) -> Path | Embedded:
        """Write one HTML file in which the network runs, with a slider for every coefficient.

        `settings` is how many values of each coefficient errors are estimated at; 0 for none.
        Without a path, what comes back is shown as that page by a notebook.
        """
        from lcpinn.explorer import embedded, explore

        return embedded(self, settings) if path is None else explore(self, path, settings)

    def to_program(self, points: int = 256) -> Program:
        """The solution as a list of array operations, `points` at a time; see lcpinn.explorer."""
        from lcpinn.explorer.program import of_solution

        return of_solution(self, points)

    # Calling.

    def _moments(
        self, named: Mapping[str, Any], weights: Mapping[str, float] | None, shots: int | None
    ) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        points, parameters, shape = self._read(named)
        draws = self._draws(weights, shots)
        with double():
            if len(points) == 0:
                empty = np.zeros((0, len(self.family.outputs)))
                return empty, empty, shape
            mean, deviation = self._run(points, parameters, draws)
        outside = ~self.family.domain.covers(points, parameters)
        if outside.any():
            mean[outside] = deviation[outside] = np.nan
        return mean, deviation, shape

    def _read(self, named: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        """Named arguments as points (n, dim) and parameters (n, p), or (1, p) where they agree."""
        coordinates, parameters = self.family.domain.names, self.family.parameters.names
        needed = (*coordinates, *parameters)
        for name in named:
            if name not in needed:
                raise LcpinnError(
                    f"no such argument as {name!r}; the solution takes {', '.join(needed)}"
                )
        # A coefficient that was held in training has one value to ask for.
        named = self.family.parameters.held | dict(named)
        missing = [name for name in needed if name not in named]
        if missing:
            raise LcpinnError(
                f"missing {', '.join(missing)}; the solution takes {', '.join(needed)}"
            )
        try:
            arrays = {name: np.asarray(named[name], dtype=np.float64) for name in needed}
            shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
        except (ValueError, TypeError) as error:
            raise LcpinnError(f"the arguments do not broadcast together: {error}") from None
        column = {name: np.broadcast_to(a, shape).ravel() for name, a in arrays.items()}
        points = np.stack([column[c] for c in coordinates], axis=-1)
        if all(arrays[p].size == 1 for p in parameters):
            lam = np.array([[arrays[p].item() for p in parameters]])
        else:
            lam = np.stack([column[p] for p in parameters], axis=-1)
        self._warn(lam)
        return points, lam, shape

    def _warn(self, parameters: np.ndarray) -> None:
        prior = self.family.parameters
        if self._warned or prior.dim == 0 or not parameters.size:
            return
        with double():
            inside = np.asarray(prior.contains(parameters))
        if not inside.all():
            self._warned = True
            worst = dict(zip(prior.names, map(float, parameters[~inside][0]), strict=True))
            ranges = ", ".join(
                f"{n} in [{a:g}, {b:g}]" if a < b else f"{n} = {a:g} alone"
                for n, (a, b) in prior.ranges.items()
            )
            asked = ", ".join(f"{n} = {v:g}" for n, v in worst.items())
            warnings.warn(
                f"{asked} lies outside what was trained ({ranges})",
                OutsidePriorWarning,
                stacklevel=5,
            )

    def _draws(self, weights: Mapping[str, float] | None, shots: int | None) -> np.ndarray:
        """The loss weights to average over, (shots, m); one empty row where there are none."""
        prior = self.family.weights
        if prior is None:
            if weights is not None or shots is not None:
                raise LcpinnError(f"{self.family.name} is not conditioned on loss weights")
            return np.zeros((1, 0))
        if weights is None:
            shots = self.family.evaluation.shots if shots is None else shots
            if shots < 1:
                raise LcpinnError(f"shots must be at least 1, not {shots}")
            return prior.sobol(shots, seed=0)
        unknown = [n for n in weights if n not in prior.names]
        if unknown:
            raise LcpinnError(
                f"weight {unknown[0]!r} names no term; there are {', '.join(prior.names)}"
            )
        one = np.array([[float(weights.get(n, 0.0)) for n in prior.names]])
        if not bool(np.asarray(prior.contains(one)).all()) and not self._warned:
            self._warned = True
            warnings.warn(
                f"these weights lie outside {prior!r}: "
                + ("they must sum to one" if abs(one.sum() - 1) > 1e-6 else "each lies in [0, 1]"),
                OutsidePriorWarning,
                stacklevel=4,
            )
        return one

    def _run(self, points: np.ndarray, parameters: np.ndarray, draws: np.ndarray):
        shared = len(parameters) == 1
        size = max(64, CHUNK // len(draws)) if shared else max(64, CHUNK)
        if len(points) < size:
            size = max(64, 1 << (len(points) - 1).bit_length())
        means, deviations = [], []
        for start in range(0, len(points), size):
            piece = points[start : start + size]
            lam = parameters if shared else parameters[start : start + size]
            # Padding to one size: one compiled program however long the last piece is.
            pad = size - len(piece)
            padded = np.concatenate([piece, np.repeat(piece[-1:], pad, axis=0)])
            if not shared:
                lam = np.concatenate([lam, np.repeat(lam[-1:], pad, axis=0)])
            evaluate = self._shared if shared else self._pointwise
            mean, deviation = evaluate(self._double, padded, lam, draws)
            means.append(np.asarray(mean)[: len(piece)])
            deviations.append(np.asarray(deviation)[: len(piece)])
        return np.concatenate(means), np.concatenate(deviations)

    @cached_property
    def _double(self) -> Params:
        """Parameters in double precision, whatever they were trained in."""
        return jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), self.params)

    @cached_property
    def problem(self) -> Problem:
        return Problem(self.family, self.protocol.network, jnp.float64)

    def _values(self, params: Params, coordinates: Any, parameters: Any, weights: Any) -> Any:
        """Outputs (l, n, out) at points (l, n, dim) and lambdas (l, ...)."""
        filler = jnp.zeros((*coordinates.shape[:2], 0))
        points = Points(coordinates, parameters, weights, filler[..., 0:0], filler)
        zero = Orders(((0,) * self.family.domain.dim,))
        return self.problem.outputs(params, points, zero)[0]

    @cached_property
    def _sliced(self) -> Callable[..., Any]:
        @jax.jit
        def run(params: Params, points: Any, parameters: Any, draws: Any) -> Any:
            coordinates = jnp.broadcast_to(points, (len(draws), *points.shape))
            return self._values(params, coordinates, parameters, draws)

        return run

    @cached_property
    def _shared(self) -> Callable[..., Any]:
        """All points at one setting of the coefficients: lambdas are the draws of the weights."""

        @jax.jit
        def run(params: Params, points: Any, parameters: Any, draws: Any) -> Any:
            lam = jnp.broadcast_to(parameters, (len(draws), parameters.shape[-1]))
            values = self._sliced(params, points, lam, draws)
            return values.mean(0), values.std(0)

        return run

    @cached_property
    def _pointwise(self) -> Callable[..., Any]:
        """Every point at coefficients of its own; the draws one after the other."""

        @jax.jit
        def run(params: Params, points: Any, parameters: Any, draws: Any) -> Any:
            # Welford's updates: a difference of mean squares would cancel where draws agree.
            def add(moments: Any, draw: Any) -> Any:
                count, mean, squares = moments
                weights = jnp.broadcast_to(draw, (len(points), draw.shape[-1]))
                value = self._values(params, points[:, None], parameters, weights)[:, 0]
                gap = value - mean
                mean = mean + gap / (count + 1)
                return (count + 1, mean, squares + gap * (value - mean)), None

            zero = jnp.zeros((len(points), len(self.family.outputs)))
            (count, mean, squares), _ = jax.lax.scan(add, (jnp.zeros(()), zero, zero), draws)
            return mean, jnp.sqrt(squares / count)

        return run

    def _shaped(self, values: np.ndarray, shape: tuple[int, ...]) -> Any:
        outputs = self.family.outputs
        if len(outputs) == 1:
            return values[:, 0].reshape(shape)
        return {name: values[:, i].reshape(shape) for i, name in enumerate(outputs)}


def signature(family: Family) -> dict[str, Any]:
    """What makes a model fit a family: its names and ranges, not its code."""
    hooks = {h: [a.name for a in args] for h, args in family._signatures.items() if h != "exact"}
    return {
        "name": family.name,
        "class": type(family).__name__,
        "settings": family.settings,
        "domain": family.domain.to_json(),
        "parameters": family.parameters.to_json(),
        "weights": None if family.weights is None else family.weights.to_json(),
        "outputs": list(family.outputs),
        "terms": {t.name: [a.name for a in t.arguments] for t in family.terms.values()},
        "hooks": {h: names for h, names in hooks.items() if h != "reference"},
    }


def load(path: str | Path, family: Family | None = None) -> Solution:
    """Read a model file. A family that is not one of the library's own has to be passed along.

    Nothing in the file is run: it holds arrays and names.
    """
    from lcpinn.families import BUILT_IN

    path = Path(path)
    if path.is_dir():
        path = path / "model.safetensors"
    header, arrays = read_arrays(path, "model")
    held = header["family"]
    if family is not None and not isinstance(family, Family):
        raise LcpinnError(f"{family!r} is no Family; pass an instance, such as Oscillator()")
    if family is None:
        if held["name"] not in BUILT_IN:
            raise LcpinnError(
                f"{path} is a model of {held['class']}, which is not built in; pass the family "
                "that it was trained for (family=... in Python, --family file.py:Class)"
            )
        family = BUILT_IN[held["name"]]()
    protocol: Protocol = from_plain(header["protocol"])
    family = protocol.view(family)
    expected = signature(family)
    if expected != held:
        differ = [key for key in expected if expected[key] != held.get(key)]
        raise LcpinnError(
            f"{path} is a model of another family: {held['name']}, not {family.name} "
            f"(they differ in {', '.join(differ)})"
        )
    with double():
        like = jax.eval_shape(
            Problem(family, protocol.network, jnp.float64).init, jax.random.PRNGKey(0)
        )
        params = unflatten(arrays, like, str(path))
    return Solution(family, protocol, params, header["run"])
