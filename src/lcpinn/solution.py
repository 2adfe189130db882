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

from lcpinn import arguments
from lcpinn.certificate import Estimate, Estimator, certificate, of_network
from lcpinn.compilation import for_once
from lcpinn.errors import LcpinnError, OutsidePriorWarning
from lcpinn.family import Data, Family
from lcpinn.network.mlp import Params
from lcpinn.precision import double
from lcpinn.prediction import Predictor
from lcpinn.protocol import Protocol
from lcpinn.rows import Problem
from lcpinn.sampling import fixed
from lcpinn.saved import read_model, write_model
from lcpinn.saved import signature as signature
from lcpinn.spectral.linearisation import Linearisation
from lcpinn.verdict import TOLERANCE, Verdict, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

    from lcpinn.explorer import Embedded, Program
    from lcpinn.inverse import Fit, Forward, Sigma


CORRECTIONS = 8  # settings whose corrections are kept for the next call


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
        self._corrections: dict[bytes, Callable[[np.ndarray], np.ndarray]] = {}

    def __repr__(self) -> str:
        how = " at ".join(filter(None, (self.protocol.name, self.protocol.setting)))
        return f"<solution of {self.family.name}: {self.num_params} parameters, {how}>"

    def _repr_html_(self) -> str:
        from lcpinn.plot.notebook import markup

        return markup(self)

    @property
    def num_params(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    def __call__(
        self, *, weights: Mapping[str, float] | None = None, shots: int | None = None, **named: Any
    ) -> Any:
        """The solution at named points and coefficients."""
        mean, _, shape = self._moments(named, weights, shots)
        return arguments.shaped(self.family, mean, shape)

    def spread(self, *, shots: int = 200, **named: Any) -> Any:
        """The standard deviation across draws of the loss weights, pointwise."""
        if self.family.weights is None:
            raise LcpinnError(f"{self.family.name} is not conditioned on loss weights: no spread")
        _, deviation, shape = self._moments(named, None, shots)
        return arguments.shaped(self.family, deviation, shape)

    def slices(self, *, shots: int | None = None, **named: Any) -> np.ndarray:
        """Every draw of the loss weights apart, (shots, points, outputs), at one coefficient."""
        points, parameters, _ = self._read(named)
        if len(parameters) != 1:
            raise LcpinnError("slices are taken at one setting of the coefficients")
        draws = self._draws(None, shots)
        with double():
            return self.predictor.slices(points, parameters, draws)

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
            estimate = self._estimator(self.predictor.params, list(setting.values()), draws)
        return estimate._replace(at=setting)

    def linearisation(self, **parameters: float) -> Linearisation:
        """The family's terms at one setting, linearised about this solution: lcpinn.spectral."""
        setting = self.family.parameters.setting(parameters)
        draws = self._draws(None, None)
        return self._estimator.linearisation(self.predictor.params, list(setting.values()), draws)

    def corrected(self, *, weights: Mapping[str, float] | None = None, **named: Any) -> Any:
        """The solution with the error taken away that its certificate finds at every setting.

        Called as the solution itself is; each setting of the coefficients costs one estimate, which
        is kept for the next call. Outside of a shape the answer is nan.
        """
        points, parameters, shape = self._read(named)
        draws = self._draws(weights, None)
        every = np.broadcast_to(parameters, (len(points), parameters.shape[1]))
        covered = self.family.domain.covers(points, parameters)
        values = np.full((len(points), len(self.family.outputs)), np.nan)
        for lam in np.unique(parameters, axis=0):
            chosen = covered & np.all(every == lam, axis=1)
            if not chosen.any():
                continue
            with double():
                values[chosen] = self._correction(lam, draws)(points[chosen])
        return arguments.shaped(self.family, values, shape)

    def _correction(self, lam: np.ndarray, draws: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The corrected solution at one setting, as a function of points (n, dim)."""
        key = lam.tobytes() + draws.tobytes()
        if key not in self._corrections:
            estimate, corrected = self._estimator.correction(self.predictor.params, lam, draws)
            if corrected is None:
                pairs = zip(self.family.parameters.names, lam, strict=True)
                where = ", ".join(f"{n} = {v:g}" for n, v in pairs) or "its one setting"
                raise LcpinnError(f"no correction at {where}: {estimate.reason}")
            while len(self._corrections) >= CORRECTIONS:
                del self._corrections[next(iter(self._corrections))]
            self._corrections[key] = corrected
        return self._corrections[key]

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the family is solved, by the estimated error: that of its training, or made now.

        `solved` (None where nothing can be said), `error` (the largest over lambda), `at` (where),
        `tolerance` and `reason` (one sentence).
        """
        if "verdict" in self.run:
            return Verdict.from_json(self.run["verdict"])
        return self.judged(self.run.get("training", {}).get("tolerance"))

    def judged(self, tolerance: float | None = None, seconds: float = 0.0) -> Verdict:
        """A verdict on this network, which took so many seconds to train."""
        if not self.protocol.judged:
            name = self.protocol.name
            return Verdict(None, None, None, TOLERANCE, f"{name} is for trying things out")
        draws = None if self.family.weights is None else self._draws(None, None)
        with double():
            verdict = judge(
                self.problem,
                self.predictor.params,
                tolerance=tolerance,
                seconds=seconds,
                held_out=fixed(self.family, self.protocol.held_out, jnp.float64),
                start=self._start,
                draws=draws,
            )
        return verdict.trained_on(self.run.get("training", {}).get("solved_at", ()))

    def _start(self) -> Params:
        """The parameters that training began with."""
        key = jax.random.fold_in(jax.random.PRNGKey(self.run.get("seed", 0)), 0)
        return for_once(self.problem.init)(key)

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
            return certificate(
                self.problem, self.predictor.params, prior.grid(num), draws, tolerance
            )

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
        return write_model(Path(path), self.family, self.protocol, self.params, self.run)

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
        corrected: bool = False,
    ) -> Figure:
        """One of the pictures `solution`, `error`, `loss` and `spread`, as a Matplotlib figure.

        With a path it is also written there, as PNG, SVG or PDF. `at` is a setting of the
        coefficients to draw at, or several; the loss needs `run`, the directory of the training.
        `corrected` draws the corrected solution in place of the network's, and its error: curves
        beside the network's, fields in their place. Each setting costs one estimate.
        """
        from lcpinn.plot import draw, save

        settings = [at] if isinstance(at, Mapping) else at
        drawn = draw(what, self, at=settings, run=run, corrected=corrected)
        if path is not None:
            save(drawn, Path(path))
        return drawn

    @overload
    def explore(
        self, path: None = None, settings: int | None = None, corrected: int = 0
    ) -> Embedded: ...

    @overload
    def explore(
        self, path: str | Path, settings: int | None = None, corrected: int = 0
    ) -> Path: ...

    def explore(
        self, path: str | Path | None = None, settings: int | None = None, corrected: int = 0
    ) -> Path | Embedded:
        """Write one HTML file in which the network runs, with a slider for every coefficient.

        `settings` is how many values of each coefficient errors are estimated at; 0 for none.
        `corrected` is at how many the corrected solution is in the page, too, as values on a grid.
        Without a path, what comes back is shown as that page by a notebook.
        """
        from lcpinn.explorer import embedded, explore

        if path is None:
            return embedded(self, settings, corrected)
        return explore(self, path, settings, corrected=corrected)

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
            mean, deviation = self.predictor.moments(points, parameters, draws)
        outside = ~self.family.domain.covers(points, parameters)
        if outside.any():
            mean[outside] = deviation[outside] = np.nan
        return mean, deviation, shape

    def _read(self, named: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        points, parameters, shape = arguments.read(self.family, named)
        if not self._warned:
            self._warn(arguments.outside_prior(self.family.parameters, parameters))
        return points, parameters, shape

    def _draws(self, weights: Mapping[str, float] | None, shots: int | None) -> np.ndarray:
        """The loss weights to average over, (shots, m); one empty row where there are none."""
        draws = arguments.draws_of(self.family, weights, shots)
        if weights is not None and self.family.weights is not None and not self._warned:
            self._warn(arguments.outside_weights(self.family.weights, draws))
        return draws

    def _warn(self, message: str | None) -> None:
        """Once for a solution, and in the user's line: four calls up from here."""
        if message is not None:
            self._warned = True
            warnings.warn(message, OutsidePriorWarning, stacklevel=5)

    @cached_property
    def problem(self) -> Problem:
        return Problem(self.family, self.protocol.network, jnp.float64)

    @cached_property
    def predictor(self) -> Predictor:
        """The network as a compiled function of arrays, in double precision."""
        return Predictor(self.problem, self.params)


def load(path: str | Path, family: Family | None = None) -> Solution:
    """Read a model file. A family that is not one of the library's own has to be passed along.

    Nothing in the file is run: it holds arrays and names.
    """
    return Solution(*read_model(Path(path), family))
