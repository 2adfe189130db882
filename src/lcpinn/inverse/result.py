"""What a fit found, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Minimum(NamedTuple):
    """Another local minimum: its coefficients, its relative misfit and Δχ² above the best one."""

    values: dict[str, float]
    misfit: float
    excess: float


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients found from observations, and how far they can be trusted.

    errors: standard errors, of the noise alone and to first order: square roots of the diagonal of
    `covariance` = sigma² (J'J)⁻¹, in the order of `values`. They do not cover that the network
    itself is off: `network` is its estimated relative error (nan where there is none), `shift` how
    far an error of that size at the sensors could move each coefficient at worst. Where sigma is
    estimated and the data are cleaner than the network, sigma is the network's error at the
    sensors, but the errors from it are still too small, since such an error is not random.

    sigma: the noise of each output, given (a root mean square, if it varies) or estimated from the
    misfit with `freedom` = observations - coefficients degrees of freedom. chi2: the sum of squared
    residuals over sigma²; nan where sigma is estimated, since it would be `freedom`. misfit: the
    root mean square of the residuals, relative to that of the observations.

    residuals: fitted minus observed, by output; nan where nothing was observed. held: coefficients
    with one known value, of which `held_in_training` have no other. minima: the other local minima,
    best first. scan: the settings that were looked at first and their misfit.
    """

    values: dict[str, float]
    errors: dict[str, float]
    covariance: np.ndarray
    sigma: dict[str, float]
    sigma_given: bool
    misfit: float
    chi2: float
    freedom: int
    residuals: dict[str, np.ndarray]
    minima: tuple[Minimum, ...]
    at_bound: tuple[str, ...]
    held: dict[str, float]
    held_in_training: tuple[str, ...]
    ranges: dict[str, tuple[float, float]]
    network: float
    shift: dict[str, float]
    warnings: tuple[str, ...]
    scan: tuple[np.ndarray, np.ndarray] = field(repr=False)

    @property
    def num_observed(self) -> int:
        return sum(int(np.isfinite(r).sum()) for r in self.residuals.values())

    def facts(self) -> dict[str, str]:
        """Everything but the coefficients and the warnings, in words."""
        lines: dict[str, str] = {}
        if self.held:
            lines["held"] = listed(self.held)
        if self.held_in_training:
            lines["held"] += f" ({', '.join(self.held_in_training)} already in training)"
        lines["sigma"] = ", ".join(
            f"{value:.2g}" if len(self.sigma) == 1 else f"{value:.2g} of {name}"
            for name, value in self.sigma.items()
        )
        lines["sigma"] += ", given" if self.sigma_given else ", estimated from the misfit"
        lines["misfit"] = f"{self.misfit:.2g} of the data's size, {self.num_observed} observations"
        if self.sigma_given:
            lines["misfit"] += f"; χ² {self.chi2:.4g} with {self.freedom} degrees of freedom"
        if np.isfinite(self.network):
            moved = {name: v for name, v in self.shift.items() if np.isfinite(v)}
            shift = ", ".join(f"{name} by {v:.1g}" for name, v in moved.items())
            lines["network"] = f"own error about {self.network:.1e}"
            lines["network"] += f", could move {shift}" if shift else ""
        if self.minima:
            best = self.minima[0]
            lines["minima"] = f"{len(self.minima)} more; the next, {listed(best.values)}, misfit "
            lines["minima"] += f"{best.misfit:.2g}"
        return lines

    def __str__(self) -> str:
        width = max(map(len, self.values))
        lines = [
            f"{name:{width}} = {plus_minus(value, self.errors[name])}  in "
            f"[{self.ranges[name][0]:g}, {self.ranges[name][1]:g}]"
            for name, value in self.values.items()
        ]
        lines += [f"{name:8}{text}" for name, text in self.facts().items()]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and lists; the scan is left out."""
        omitted = ("scan", "covariance", "residuals", "minima", "ranges")
        plain = {name: value for name, value in vars(self).items() if name not in omitted}
        return plain | {
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "covariance": self.covariance.tolist(),
            "minima": [m._asdict() for m in self.minima],
            "residuals": {name: r.tolist() for name, r in self.residuals.items()},
        }


def plus_minus(value: float, error: float) -> str:
    """Both to the second digit of the error: 3.70012 ± 0.00023."""
    if not (np.isfinite(error) and error > 0):
        return f"{value:.4g} ± {'∞' if error == np.inf else '?'}"
    digits = max(0, min(15, 1 - int(np.floor(np.log10(error)))))
    if max(abs(value), error) >= 1e6 or 0 < abs(value) < 1e-3:
        return f"{value:.{_digits(value, error)}e} ± {error:.1e}"
    error_text = f"{error:.{digits}f}" if error > 1e-5 else f"{error:.1e}"
    return f"{value:.{digits}f} ± {error_text}"


def _digits(value: float, error: float) -> int:
    return int(
        np.clip(1 + np.floor(np.log10(abs(value) or error)) - np.floor(np.log10(error)), 1, 15)
    )


def listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in values.items())
