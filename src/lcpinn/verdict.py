"""Solved or not: the largest estimated error of a network over lambda, in one sentence.

Every training ends with a verdict. It rests on the certificate's estimates (lcpinn.certificate),
taken at a sequence of lambda that begins with the ends of the range and fills it evenly from there
(of several coefficients, with settings whose residuals are largest among hundreds: lcpinn.suspects)
for as long as a share of the training's time allows. Of an error that is far below the tolerance a
bound is enough, which takes a moment where an estimate may take a second: so many more are judged.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpinn.certificate import Estimate, of_network
from lcpinn.errors import LcpinnError
from lcpinn.low_discrepancy import halton
from lcpinn.network.mlp import Params
from lcpinn.prior import Coefficients
from lcpinn.rows import Problem
from lcpinn.sampling import Batch
from lcpinn.spec import short
from lcpinn.spectral.expansion import SMALL
from lcpinn.suspects import Suspects

TOLERANCE = 1e-2  # what counts as solved where nothing is asked for
SHARE = 0.1  # of the training's time, for estimates
OVERDUE = 3.0  # times what estimates may take, after which even a few of them are too many
BELOW = 0.1  # of the tolerance: an error that is bounded by less is not resolved
LEAST = 3.0  # seconds for the last ones, where training took as long
FEW, MANY = 3, 65  # settings: without as many (5 with one coefficient) no verdict; at most
NAMED = 3  # settings that are listed one by one
PATIENT = 100.0  # seconds of training from which on a front may be followed unasked
VANISHES = "beside a thousandth of the largest solution, since there is hardly one there"
SIZED, POINTS = 9, 64  # settings, and points of each, that tell this largest size


@dataclass(frozen=True)
class Verdict:
    """Whether a family is solved: True, False, or None where nothing can be said.

    `error` is the largest estimated relative error over lambda, found at `at`, or what it is there
    at most, beside the solution there or a thousandth of the largest over lambda; `settings` says
    how many lambda were judged, `reason` everything in one sentence. `solved_at` are the settings
    whose own solutions (lcpinn.own_solutions) the network was trained on.
    """

    solved: bool | None
    error: float | None
    at: Mapping[str, float] | None
    tolerance: float
    reason: str
    settings: int = 0
    solved_at: tuple[Mapping[str, float], ...] = ()

    def __str__(self) -> str:
        words = {True: "solved", False: "not solved", None: "no verdict"}[self.solved]
        return f"{words}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "solved_at": [dict(at) for at in self.solved_at]}

    def trained_on(self, solved_at: Sequence[Mapping[str, float]]) -> Verdict:
        """The same verdict, which names the settings whose own solutions were trained on."""
        if not solved_at:
            return self
        reason = f"{self.reason}; trained on the page's own solutions{_among(solved_at)}"
        return replace(self, reason=reason, solved_at=tuple(map(dict, solved_at)))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        try:
            return Verdict(**{**data, "solved_at": tuple(data.get("solved_at", ()))})
        except TypeError:
            raise LcpinnError("this is no verdict: its fields are others") from None


def check_tolerance(tolerance: float | None) -> None:
    """A tolerance is a relative error."""
    if tolerance is None:
        return
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)):
        raise LcpinnError(f"a tolerance is a number, such as 1e-6, not {tolerance!r}")
    if not 0 < tolerance < math.inf:
        raise LcpinnError(f"a tolerance is a positive number, such as 1e-6, not {tolerance}")


def settings_of(prior: Coefficients) -> Iterator[np.ndarray]:
    """Values of the coefficients, (p,) each: the ends of every range first, then evenly between.

    With one coefficient the ends, the middle, the middles of the halves and so on, in the prior's
    own measure; with up to three the corners and the centre, then a Halton sequence; with more the
    centre, then corners and the sequence by turns, since errors are largest there more often than
    not. All are held: one setting.
    """
    free = [name in prior.free for name in prior.names]
    num = sum(free)

    def setting(unit: np.ndarray) -> np.ndarray:
        whole = np.full(prior.dim, 0.5)
        whole[free] = unit
        return np.asarray(prior.from_unit(whole[None]))[0]

    if num == 0:
        yield setting(np.zeros(0))
        return
    if num <= 3:
        yield from map(setting, map(np.array, itertools.product((0.0, 1.0), repeat=num)))
    yield setting(np.full(num, 0.5))
    corners = np.random.default_rng(0)
    for index in itertools.count(2):  # not the origin, and with one coefficient not the middle
        if num > 3:
            yield setting(corners.integers(0, 2, num).astype(float))
        yield setting(halton(index, num))


class Judge:
    """The largest estimated error of a network over lambda; it knows how long it takes.

    It is asked beside a tolerance: of an error far below that a bound is enough.
    """

    def __init__(self, problem: Problem, tolerance: float):
        self.problem, self._estimator = problem, of_network(problem)
        self.tolerance, self.enough = tolerance, BELOW * tolerance
        family = problem.family
        self._draws = None if family.weights is None else family.weights.sobol(8, seed=0)
        self.few = {0: 1, 1: 5}.get(len(family.parameters.free), FEW)
        self.seconds = 0.0  # spent until now
        self._suspects: list[np.ndarray] = []  # where errors were largest: looked at first

    def __call__(
        self,
        params: Params,
        *,
        num: int | None = None,
        seconds: float = math.inf,
        each: float = math.inf,
        fronts: bool = False,
        draws: np.ndarray | None = None,
        last: bool = False,
    ) -> list[Estimate]:
        """Estimates at `num` settings, less when the seconds are over: but a few in any case,
        unless those take several times as long. None of them should take more than `each`, nor,
        until there are a few, more than half of what is left for all.

        The first that is neither estimated nor bounded ends it, since it cannot be solved from
        there on; in a `last` verdict not before a few, one of which may show that it is not, as
        long as there is time. Once one has shown that, the others only say how large errors are:
        they keep to the seconds, and no front is followed.
        """
        names = self.problem.family.parameters.names
        shots = self._draws if draws is None else draws
        least: np.ndarray | None = None
        first = began = time.perf_counter()
        estimates: list[Estimate] = []
        spent, decided = 0.0, False
        for lam in itertools.islice(self._settings(params, (num or 0) > self.few), num or self.few):
            enough = len(estimates) >= self.few - 1
            remaining = max((1.0 if decided else OVERDUE) * seconds - spent, 0.0)
            estimated = partial(
                self._estimator, params, lam, shots, fronts=fronts and not decided, bounds=True,
                enough=self.enough,
                seconds=min(each, remaining if decided or enough else remaining / 2),
            )  # fmt: skip
            estimate = estimated()
            if math.isfinite(estimate.error) and estimate.error > self.tolerance:
                least = self._least(params) if least is None else least
                # |u| of the solution is at least |u| of the network, divided by 1 + its error.
                size = self._mean_square(params, lam) / (1 + estimate.error) ** 2
                if np.any(size < least):
                    estimate = _beside(estimated(least=least), estimate)
            estimates.append(estimate._replace(at=dict(zip(names, map(float, lam), strict=True))))
            if last and len(estimates) == 1:
                began = time.perf_counter()  # what the first one compiles, all others share
            spent = time.perf_counter() - began
            decided = decided or (last and _at_least(estimate) > self.tolerance)
            known = decided or math.isfinite(_at_most(estimate))
            if not known and (enough or not last or spent > seconds):
                break
            # One more takes about as long as those before it did.
            over = spent * (1 + 1 / len(estimates)) > seconds
            if over and (decided or len(estimates) >= self.few or spent > OVERDUE * seconds):
                break
        self.seconds += time.perf_counter() - first
        return estimates

    def _least(self, params: Params) -> np.ndarray:
        """The mean square (outputs,) that a solution counts as at the least.

        Where a load passes through zero, the solution does: beside nothing no error is small.
        """
        few = itertools.islice(settings_of(self.problem.family.parameters), SIZED)
        return SMALL**2 * np.max([self._mean_square(params, lam) for lam in few], axis=0)

    def _mean_square(self, params: Params, lam: np.ndarray) -> np.ndarray:
        """Of each output of the network at one setting."""
        points = np.asarray(self.problem.family.domain.sobol(POINTS, seed=6, parameters=lam))
        values = self._estimator.linearisation(params, lam, self._draws).values(points)
        return np.mean(values**2, axis=0)

    def _settings(self, params: Params, many: bool) -> Iterator[np.ndarray]:
        """Where errors are suspected first, then all over; each of them once."""
        prior, seen = self.problem.family.parameters, set()
        first = itertools.chain(self._suspects, self._doubtful(params, many))
        for lam in itertools.chain(first, settings_of(prior)):
            key = tuple(f"{value:.10g}" for value in lam)
            if key not in seen:
                seen.add(key)
                yield lam

    def _doubtful(self, params: Params, many: bool) -> Iterator[np.ndarray]:
        """Settings that the network itself is least sure of; where `many` are to be judged, of
        several coefficients those with the largest residuals."""
        lam = self.problem.network.doubtful(params)
        if lam is not None:
            yield from np.asarray(self.problem.family.parameters.from_unit((1 + lam) / 2))
        elif many and Suspects.can_be_sought(self.problem):
            yield from self._by_residual(params)

    @cached_property
    def _by_residual(self) -> Suspects:
        return Suspects(self.problem)

    def suspect(self, at: Mapping[str, float]) -> None:
        """Look at this setting first from now on."""
        self._suspects = [np.array(list(at.values())), *self._suspects[:3]]


def worst(estimates: list[Estimate]) -> Estimate:
    """The largest, or the first that is not known; of one that is bounded alone, the bound."""
    unknown = [e for e in estimates if not math.isfinite(_at_most(e))]
    if unknown:
        return unknown[0]
    largest = max(estimates, key=_at_most)
    return largest._replace(error=_at_most(largest))


def _at_most(estimate: Estimate) -> float:
    """The error, or what it is known not to exceed; a bound above the solution itself is none."""
    if math.isfinite(estimate.error):
        return estimate.error
    return estimate.at_most if estimate.at_most < 1 else math.inf


def _at_least(estimate: Estimate) -> float:
    return estimate.error if math.isfinite(estimate.error) else estimate.at_least


def judge(
    problem: Problem,
    params: Params,
    *,
    tolerance: float | None = None,
    seconds: float = 0.0,
    held_out: Batch | None = None,
    start: Callable[[], Params] | None = None,
    draws: np.ndarray | None = None,
) -> Verdict:
    """The verdict on a network that took so many seconds to train.

    Fronts take long to follow: they are where a tolerance is asked for or training took minutes.
    Where nothing can be said, `held_out` rows and the parameters at the `start`, which are asked
    for then, tell how far the residual fell.
    """
    fronts = tolerance is not None or seconds >= PATIENT
    tolerance = TOLERANCE if tolerance is None else tolerance
    allowed = max(SHARE * seconds, min(seconds, LEAST), 1.0)
    ask = Judge(problem, tolerance)
    estimates = ask(params, num=MANY, seconds=allowed, fronts=fronts, draws=draws, last=True)
    verdict = from_estimates(estimates, tolerance, ask.few)
    if verdict.solved is None and held_out is not None and start is not None:
        fall = residual_fall(problem, start(), params, held_out)
        return replace(verdict, reason=f"{verdict.reason}; {fall}")
    return verdict


def from_estimates(estimates: list[Estimate], tolerance: float, few: int = 1) -> Verdict:
    """Solved if every estimate is within the tolerance; not if one is above; else who knows.

    A bound serves as well as an estimate where it decides. Fewer than a few that are all within the
    tolerance prove nothing about the others.
    """
    num, known = len(estimates), [e for e in estimates if math.isfinite(e.error)]
    above = max(estimates, key=_at_least)
    if _at_least(above) > tolerance:
        size = f"{'' if above in known else 'at least '}{_at_least(above):.1e}"
        reason = f"the estimated error is {size}{_found(above)}, above {tolerance:.0e}"
        return Verdict(False, _at_least(above), above.at, tolerance, reason, num)
    unknown = [e for e in estimates if _at_most(e) > tolerance]
    largest = max((e for e in estimates if e not in unknown), key=_at_most, default=None)
    error, at = (None, None) if largest is None else (_at_most(largest), largest.at)
    if unknown:
        first = max(unknown, key=_at_most)
        reason = f"the error cannot be estimated{_where(first.at)}: {first.reason}{_bound(first)}"
        return Verdict(None, error, at, tolerance, reason, num)
    assert largest is not None
    if num < few:
        reason = (
            f"estimates take long here, and {num} of at least {few} settings were judged (the "
            f"largest error is {error:.1e}{_where(at)}): `lcpinn certify` takes "
            "the time that it needs"
        )
        return Verdict(None, error, at, tolerance, reason, num)
    settings = f"{num} settings, " if num > 1 else ""
    size = "the largest estimated error is" if largest in known else "the error is at most"
    counted = f"{settings}{_bounded(num - len(known), num)}tolerance {tolerance:.0e}"
    reason = f"{size} {error:.1e}{_found(largest)} ({counted})"
    return Verdict(True, error, at, tolerance, reason, num)


def _bounded(count: int, num: int) -> str:
    """How many of the settings have a bound in place of an estimate."""
    if count == 0:
        return ""
    return f"{f'{count} of them ' if count < num else ''}bounded and not resolved, "


def _bound(estimate: Estimate) -> str:
    most = _at_most(estimate)
    return f"; it is at most {most:.1e}" if math.isfinite(most) else ""


def _beside(estimate: Estimate, before: Estimate) -> Estimate:
    """With a note, if a share of the largest solution counted: a network of nothing may have an
    error of one beside a solution that is large."""
    return estimate._replace(note=VANISHES) if estimate.error < 0.99 * before.error else estimate


def _found(estimate: Estimate) -> str:
    """Where, and beside what, if that is not the solution there."""
    return _where(estimate.at) + (f", {VANISHES}" if estimate.note == VANISHES else "")


def _among(solved_at: Sequence[Mapping[str, float]]) -> str:
    """All settings if they are few, else how many there are in which ranges."""
    if len(solved_at) <= NAMED:
        return " and".join(map(_where, solved_at))
    ranges = [
        f"{name} = {short(float(f'{low:.4g}'))} to {short(float(f'{high:.4g}'))}"
        for name in solved_at[0]
        for low, high in [(min(a[name] for a in solved_at), max(a[name] for a in solved_at))]
    ]
    return f" at {len(solved_at)} settings, {', '.join(ranges)}"


def _where(at: Mapping[str, float] | None) -> str:
    named = ", ".join(f"{name} = {short(float(f'{v:.4g}'))}" for name, v in (at or {}).items())
    return f" at {named}" if named else ""


def residual_fall(problem: Problem, start: Params, params: Params, held_out: Batch) -> str:
    """How far the residual on unseen rows fell in training, in words."""

    @jax.jit
    def size(p: Params) -> Any:
        residuals = problem.residuals(p, held_out)
        return jnp.sqrt(sum(jnp.mean(r**2) for r in residuals.values()))

    before, after = float(size(start)), float(size(params))
    if not (before > 0 and after > 0):
        return f"the residual on unseen points is {after:.1e}"
    factor = before / after
    if factor < 10:
        return f"the residual hardly fell in training ({before:.1e} to {after:.1e})"
    return f"the residual fell from {before:.1e} to {after:.1e} in training, which proves little"
