"""The course of a training: its error against the seconds, and when it passed 1e-4, 1e-6, 1e-9."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from lcpinn.evaluation import evaluation_points, grid_values, relative_error
from lcpinn.family import Family
from lcpinn.network import Interpolant
from lcpinn.network.mlp import Params
from lcpinn.protocol import Protocol
from lcpinn.solution import Solution

LEVELS = (1e-4, 1e-6, 1e-9)
MOST = 40  # points of a course that are evaluated
UNSEEN = 16  # settings that an interpolant is compared at

Point = Mapping[str, Any]  # "seconds", "error", "step"


class Snapshot(NamedTuple):
    """The parameters that a run would have ended with, had it been stopped then."""

    seconds: float
    step: int
    params: Callable[[], Params]


def thinned(taken: list[Snapshot], most: int = MOST) -> list[Snapshot]:
    """At most so many, evenly on a logarithmic axis, with the first and the last."""
    if len(taken) <= most:
        return taken
    times = np.log([one.seconds for one in taken])
    wanted = np.linspace(times[0], times[-1], most)
    nearest = {int(np.argmin(np.abs(times - at))) for at in wanted[:-1]}
    return [taken[i] for i in sorted(nearest | {len(taken) - 1})]


def seconds_to(points: Sequence[Point]) -> dict[str, float | None]:
    """When the error first was at or below each level; None where it never was."""
    return {
        f"{level:.0e}": next((p["seconds"] for p in points if p["error"] <= level), None)
        for level in LEVELS
    }


def in_words(reached: Mapping[str, float | None]) -> str:
    """A cell for each level."""
    return "".join(f"{'–' if s is None else f'{s:.1f}':>8}" for s in reached.values())


@contextmanager
def watched(protocol: Protocol, begun: float) -> Iterator[list[Snapshot]]:
    """Keep what a training has found after every call of its phases; seconds are since `begun`.

    Of starts and rounds the parameters with the lowest held-out loss so far are kept. Nothing is
    evaluated before the block is over.
    """
    taken: list[Snapshot] = []
    kinds = {type(phase) for phase in protocol.phases}
    builds = {kind: kind.build for kind in kinds}

    def watching(build: Callable[..., Any]) -> Callable[..., Any]:
        def built(phase: Any, setup: Any) -> Any:
            stage = build(phase, setup)

            def advance(state: Any) -> Any:
                state, info = stage.advance(state)
                found = lowest(state)
                taken.append(Snapshot(time.time() - begun, int(state.step), lambda: found))
                return state, info

            return stage._replace(advance=advance)

        return built

    for kind, build in builds.items():
        kind.build = watching(build)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield taken
    finally:
        for kind, build in builds.items():
            kind.build = build


def lowest(state: Any) -> Params:
    """Of a stage's state, the parameters with the lowest held-out loss, where it keeps such."""
    if hasattr(state, "best_loss"):  # of several starts
        ahead = float(state.inner.held_out.best) < float(state.best_loss)
        return (state.inner if ahead else state.best).best
    if hasattr(state, "held_out"):
        return state.best
    return lowest(state.inner) if hasattr(state, "inner") else state.params


def course(family: Family, protocol: Protocol, taken: list[Snapshot]) -> list[dict[str, Any]]:
    """The error at some of the snapshots."""
    error = error_of(protocol.view(family), protocol)
    return [
        {"seconds": round(one.seconds, 3), "error": error(one.params()), "step": one.step}
        for one in thinned(taken)
    ]


def error_of(family: Family, protocol: Protocol) -> Callable[[Params], float]:
    """The mean error over the family's grid, as lcpinn.evaluation computes it, and only that.

    An interpolant has solved some settings of that grid: of it, the largest error at others.
    """
    points, names = evaluation_points(family), family.parameters.names
    solver = isinstance(protocol.network, Interpolant)
    settings = family.parameters.sobol(UNSEEN, seed=13) if solver else grid_values(family)
    cases = [(lam, family.truth(points, lam)) for lam in settings]
    columns = {n: points[:, i] for i, n in enumerate(family.domain.names)}
    first: list[Solution] = []

    def error(params: Params) -> float:
        solution = Solution(family, protocol, params, {})
        first.append(solution)
        solution.__dict__["predictor"] = twin = copy.copy(first[0].predictor)
        # A copy shares the compiled programs of the first one; only the parameters are its own.
        twin._params = solution.params
        twin.__dict__.pop("params", None)
        errors = []
        for lam, truth in cases:
            assert truth is not None
            named: dict[str, Any] = dict(zip(names, map(float, lam), strict=True))
            value = solution(**columns, **named)
            parts = value.values() if isinstance(value, dict) else (value,)
            errors.append(relative_error(np.stack(list(parts), axis=-1), truth))
        return float(np.max(errors) if solver else np.mean(errors))

    return error
