"""How far a fit can be trusted: standard errors, other minima, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy.special import chdtrc, chdtri, fdtri  # the χ² and F distributions

from lcpinn.family import Family
from lcpinn.inverse.misfit import End, Misfit
from lcpinn.inverse.observations import Observations
from lcpinn.inverse.result import Fit, Minimum, listed
from lcpinn.precision import ROUNDING, double

if TYPE_CHECKING:
    from lcpinn.solution import Solution

SAME = 1e-5  # two ends this close in the unit cube are one minimum
EDGE = 1e-6  # a value this close to an end of its range, relative to the range, lies at it
FLAT = 12**-0.5  # the prior's own standard deviation, relative to its range
SINGULAR = 1e-7  # the smallest response of the solution, relative to the largest
CONFIDENCE = 0.99  # minima in one such confidence region are not told apart
SURPRISE = 1e-3  # the probability below which a misfit is not the noise's
UNEXPLAINED = 0.3  # a misfit this large, relative to the data, is worth a word


class Judgement:
    """Everything about the best end: standard errors, other minima, and what speaks against it."""

    def __init__(
        self,
        solution: Solution,
        data: Observations,
        misfit: Misfit,
        ends: Sequence[End],
        estimate: bool,
    ):
        self.family, self.data, self.misfit, self.best = solution.family, data, misfit, ends[0]
        self.names: list[str] = np.array(self.family.parameters.names)[data.free].tolist()
        self.fitted, _ = misfit.forward(misfit.full(self.best.unit), data)
        self.num, self.freedom = int(data.seen.sum()), int(data.seen.sum()) - len(self.names)
        self.variance = self._variance()  # of a row: one, if sigma was given and is right
        self.network = self._estimate(solution) if estimate else np.nan
        self.singular, self.axes = _decompose(misfit.jacobian(self.best.unit))
        self.ends = self._distinct(ends)

    def fit(self, scan: tuple[np.ndarray, np.ndarray]) -> Fit:
        values, unscaled = self._physical(self.best.unit), self._unscaled()
        errors = np.sqrt(np.diag(unscaled) * self.variance)
        shift = np.sqrt(np.diag(unscaled)) * self._network_rows() * np.sqrt(self.num)
        residuals, data = self.fitted - self.data.values, self.data
        seen = {n: i for i, n in enumerate(self.family.outputs) if data.seen[:, i].any()}
        noise = {
            n: data.scale[data.seen[:, i], i] * np.sqrt(self.variance) for n, i in seen.items()
        }
        known = zip(self.family.parameters.names, data.known.T, strict=True)
        return Fit(
            values=values,
            errors=self._named(errors),
            covariance=unscaled * self.variance,
            sigma={name: float(np.sqrt(np.mean(each**2))) for name, each in noise.items()},
            sigma_given=data.sigma_given,
            misfit=self._relative(self.fitted),
            chi2=self.best.squares if data.sigma_given else np.nan,
            freedom=self.freedom,
            residuals={name: residuals[:, i] for name, i in seen.items()},
            minima=tuple(self._minimum(end) for end in self.ends[1:]),
            at_bound=self._at_bound(),
            held={name: float(v[0]) for name, v in known if np.ptp(v) == 0},
            held_in_training=tuple(self.family.parameters.held),
            ranges={name: self.family.parameters.ranges[name] for name in self.names},
            network=self.network,
            shift=self._named(shift),
            warnings=tuple(self._warnings(errors, shift)),
            scan=(self._settings(scan[0]), scan[1]),
        )

    # Sizes.

    def _variance(self) -> float:
        if self.data.sigma_given:
            return 1.0
        return self.best.squares / self.freedom if self.freedom > 0 else np.nan

    def _estimate(self, solution: Solution) -> float:
        """The network's relative error at the setting found, or the worst of a few of them."""
        found = self._settings(self.best.unit[None])[0]
        whole = self.data.known.copy()
        whole[:, self.data.free] = found
        settings, names = np.unique(whole, axis=0), self.family.parameters.names
        some = settings[np.unique([0, len(settings) // 2, len(settings) - 1])]
        named: list[dict[str, Any]] = [
            dict(zip(names, map(float, lam), strict=True)) for lam in some
        ]
        return float(np.max([solution.estimate(**setting).error for setting in named]))

    def _network_rows(self) -> float:
        """The root mean square of a row that the network's own error makes up."""
        rows = (self.fitted / self.data.scale)[self.data.seen]
        return self.network * float(np.sqrt(np.mean(rows**2)))

    def _relative(self, fitted: np.ndarray) -> float:
        rows = ((fitted - self.data.values) / self.data.sizes)[self.data.seen]
        return float(np.sqrt(np.mean(rows**2)))

    # Coordinates.

    def _settings(self, unit: np.ndarray) -> np.ndarray:
        """The coefficients that are sought, (..., num_free), in their own units."""
        with double():
            whole = self.family.parameters.from_unit(self.misfit.full(unit))
        return np.asarray(whole)[..., self.data.free]

    def _physical(self, unit: np.ndarray) -> dict[str, float]:
        return self._named(self._settings(unit))

    def _named(self, values: Iterable[float]) -> dict[str, float]:
        return dict(zip(self.names, map(float, values), strict=True))

    def _slope(self) -> np.ndarray:
        """How fast each coefficient moves with its coordinate of the unit cube."""
        prior, whole = self.family.parameters, self.misfit.full(self.best.unit)
        with double():
            slopes = jax.jvp(prior.from_unit, (whole,), (np.ones_like(whole),))[1]
        return np.asarray(slopes)[self.data.free]

    def _unscaled(self) -> np.ndarray:
        """(J'J)⁻¹ in physical units; infinite where the data say nothing at all."""
        known = ~self._lost()
        part = self.axes[:, known] / self.singular[known]
        matrix = part @ part.T
        lost = (np.abs(self.axes[:, ~known]) > 1e-6).any(axis=1)
        matrix[np.ix_(lost, lost)] = np.inf
        slope = self._slope()
        return matrix * np.outer(slope, slope)

    def _lost(self) -> np.ndarray:
        """Which directions the observations do not respond to at all, up to rounding."""
        return self.singular <= SINGULAR * self.singular.max()

    # Other minima.

    def _distinct(self, ends: Sequence[End]) -> list[End]:
        """Ends that are apart, by place and by what the observations see of the difference."""
        kept: list[End] = []
        for end in ends:
            gaps = [end.unit - other.unit for other in kept]
            visible = [np.sum((self.singular * (self.axes.T @ gap)) ** 2) for gap in gaps]
            near = [np.abs(gap).max() < SAME for gap in gaps]
            if not any(near) and all(v > 0.01 * self._level() for v in visible):
                kept.append(end)
        return kept

    def _minimum(self, end: End) -> Minimum:
        fitted, _ = self.misfit.forward(self.misfit.full(end.unit), self.data)
        return Minimum(self._physical(end.unit), self._relative(fitted), self._excess(end))

    def _excess(self, end: End) -> float:
        """Δχ² above the best end."""
        gap, level = end.squares - self.best.squares, self._level()
        return gap / level if level > 0 else (np.inf if gap > 0 else 0.0)

    def _level(self) -> float:
        """The square of a row that is noise, or the network's own error if that is larger."""
        return max(np.nan_to_num(self.variance), np.nan_to_num(self._network_rows()) ** 2)

    def _region(self) -> float:
        """How far Δχ² goes in the confidence region of all coefficients together."""
        p = len(self.names)
        if self.data.sigma_given or self.freedom < 1:
            return float(chdtri(p, 1 - CONFIDENCE))
        return float(p * fdtri(p, self.freedom, CONFIDENCE))

    # What speaks against it.

    def _warnings(self, errors: np.ndarray, shift: np.ndarray) -> Iterator[str]:
        yield from self._about_numbers()
        yield from self._about_places()
        yield from self._about_flatness()
        yield from self._about_minima()
        for name in self._at_bound():
            yield (
                f"{name} lies at an end of its range {_range(self.family, name)}: a value outside "
                "may fit better, and its standard error does not hold"
            )
        yield from self._about_misfit()
        yield from self._about_network(errors, shift)
        if not self.best.converged:
            yield "the search ended before it had settled"

    def _about_numbers(self) -> Iterator[str]:
        p = len(self.names)
        if self.num < p:
            yield f"{_count(self.num, 'observation')} cannot tell {p} coefficients"
        elif self.freedom == 0 and not self.data.sigma_given:
            yield (
                f"{_count(self.num, 'observation')} for {_count(p, 'coefficient')} leave nothing "
                "to estimate the noise by; give sigma"
            )

    def _about_places(self) -> Iterator[str]:
        domain, outside = self.family.domain, np.zeros(len(self.data.points), bool)
        for name, column in zip(domain.names, self.data.points.T, strict=True):
            low, high = domain.ranges[name]
            slack = ROUNDING * max(abs(low), abs(high))
            if name not in domain.periodic:
                outside |= (column < low - slack) | (column > high + slack)
        if outside.any():
            yield (
                f"{int(outside.sum())} of {len(outside)} points lie outside of the domain, where "
                "the network was not trained"
            )
        for name, column in zip(self.family.parameters.names, self.data.known.T, strict=True):
            low, high = self.family.parameters.ranges[name]
            slack = ROUNDING * max(abs(low), abs(high))
            if ((column < low - slack) | (column > high + slack)).any():
                yield f"{name} is given outside of {_range(self.family, name)}, what was trained"

    def _about_flatness(self) -> Iterator[str]:
        """Directions along which the solution hardly changes, by the coefficients in them."""
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.sqrt(self.variance) / self.singular
            network = np.sqrt(self.num) * self._network_rows() / self.singular
        for i, axis in enumerate(self.axes.T):
            large = np.abs(axis) > 0.4 * np.abs(axis).max()
            names = np.array(self.names)[large].tolist()
            one = len(names) == 1
            what = f"identify {names[0]}" if one else f"tell {_and(names)} apart"
            if self._lost()[i]:
                how = "does not depend on it" if one else "stays the same as they change together"
                yield f"the data do not {what}: at these points the solution {how}"
            elif noise[i] > FLAT:
                yield (
                    f"the data do not {what}: the standard error is {noise[i]:.2g} of the range, "
                    f"and values drawn from the range alone would scatter by {FLAT:.2f}"
                )
            elif network[i] > FLAT:
                yield (
                    f"the data do not {what}: over the whole range the solution changes by no more "
                    f"than the network's own error ({self.network:.1e})"
                )

    def _about_minima(self) -> Iterator[str]:
        close = [end for end in self.ends[1:] if self._excess(end) <= self._region()]
        if close:
            first = listed(self._physical(close[0].unit))
            others = f" and {len(close) - 1} more lie" if len(close) > 1 else " lies"
            yield (
                f"the data do not decide between several minima: {first}{others} "
                f"in the same {100 * CONFIDENCE:.0f} % confidence region "
                f"(Δχ² {self._excess(close[0]):.2g}, below {self._region():.3g})"
            )

    def _at_bound(self) -> tuple[str, ...]:
        edge = np.minimum(self.best.unit, 1 - self.best.unit) < EDGE
        return tuple(name for name, at in zip(self.names, edge, strict=True) if at)

    def _about_misfit(self) -> Iterator[str]:
        relative, own = self._relative(self.fitted), np.nan_to_num(self._network_rows())
        if not self.data.sigma_given:
            if relative > UNEXPLAINED:
                yield f"the fit leaves {100 * relative:.0f} % of the data's size unexplained"
            return
        if self.freedom < 1:
            return
        squares = self.best.squares
        if chdtrc(self.freedom, squares) < SURPRISE:
            times = np.sqrt(squares / self.freedom)
            explained = chdtrc(self.freedom, squares / (1 + own**2)) >= SURPRISE
            why = (
                f"the network's own error ({self.network:.1e}) explains it" if explained
                else "sigma is too small, or the equation is not that of the data"
            )  # fmt: skip
            yield f"the misfit is {times:.2g} times what sigma explains: {why}"

    def _about_network(self, errors: np.ndarray, shift: np.ndarray) -> Iterator[str]:
        for name, error, moved in zip(self.names, errors, shift, strict=True):
            if moved > error:
                yield (
                    f"the network's own error ({self.network:.1e}) could move {name} by "
                    f"{moved:.1g}, more than its standard error, which is of the noise"
                )


def _decompose(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values (p,), zeros included, and the directions (p, p) that they belong to."""
    p = jacobian.shape[1]
    triangle = np.zeros((p, p))
    small = np.linalg.qr(jacobian, mode="r")
    triangle[: len(small)] = small
    _, singular, axes = np.linalg.svd(triangle)
    return singular, axes.T


def _count(num: int, noun: str) -> str:
    return f"{num} {noun}" + "s" * (num != 1)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _range(family: Family, name: str) -> str:
    low, high = family.parameters.ranges[name]
    return f"[{low:g}, {high:g}]"
