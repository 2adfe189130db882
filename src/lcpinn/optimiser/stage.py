"""What every optimiser looks like to the trainer.

A phase of a protocol is a plain value (`Adam(steps=50_000)`). `build(setup)` turns it into a
`Stage`: functions over a state that is a typed pytree of arrays, so that the trainer can show,
checkpoint and resume any optimiser without knowing which one it is. Building has no side effects:
clocks and compilations begin with the stage's first `init`.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypedDict

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from lcpinn.devices import spread
from lcpinn.equilibration import RowScales, equilibrating
from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import Params
from lcpinn.rows import Problem, weighted_rows
from lcpinn.sampling import DRAWN, Batch, Sampling, draw, fixed
from lcpinn.weighting.contract import Weighting


class State(Protocol):
    """All that the next step depends on, as a pytree: a NamedTuple with at least these."""

    @property
    def params(self) -> Params: ...

    @property
    def step(self) -> Any: ...


class Info(TypedDict, total=False):
    """Numbers to show and to log after every call."""

    loss: Any
    terms: dict[str, Any]  # each term's part of the loss
    validation: Any  # the loss on held-out rows
    damping: Any
    round: Any
    start: int  # how many starts there have been
    seconds_left: float


class StopReason(enum.Enum):
    """Why a stage is over."""

    STEPS = "its steps are done"
    TIME = "the time is up"
    STAGNATION = "the loss has stagnated"
    ROUNDING = "nothing but rounding is left"
    GRADIENT = "the gradient is within tolerance"
    PRECISION = "no decrease is left in the working precision"
    SOLVED = "the estimated error is within the tolerance"


@dataclass(frozen=True)
class Stop:
    """The reason, and a sentence with the numbers of this run."""

    reason: StopReason
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Setup:
    """What is optimised: rows of a problem, how they are weighted, and where they lie.

    `sampling` draws random batches, `quadrature` is the frozen rule of a deterministic optimiser
    and `held_out` one that no optimiser sees, for comparisons.
    """

    problem: Problem
    weighting: Weighting
    sampling: Sampling | None
    quadrature: Sampling
    held_out: Sampling
    coefficients: Array | None = None  # held at these values, which may be traced
    # Where and what was observed at these coefficients, (n, dim) and (n, outputs), in place of the
    # family's own observations.
    observed: tuple[Array, Array] | None = None
    mesh: Mesh | None = None  # the devices that points are divided among
    spent: float = 0.0  # seconds of the time limit that are over before the first step
    programs: dict[str, Any] = field(default_factory=dict)  # compiled, shared with replacements

    def draw(self, key: Array, sampling: Sampling | None = None) -> Batch:
        """The batch of a stochastic step (traceable): random, or one rule's fixed points."""
        sampling = sampling or self.sampling
        if sampling is None:
            raise LcpinnError("this protocol has no sampling to draw random batches from")
        if sampling.rule not in DRAWN:
            return self.fixed(sampling)
        drawn = draw(self.problem.family, sampling, key, self.problem.dtype)
        return spread(self._at_setting(drawn), self.mesh)

    def fixed(self, sampling: Sampling) -> Batch:
        """The points of a fixed rule."""
        return self._at_setting(fixed(self.problem.family, sampling, self.problem.dtype))

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        """Compiled, with results on every device."""
        if self.mesh is not None:
            options["out_shardings"] = NamedSharding(self.mesh, PartitionSpec())
        return jax.jit(function, **options)

    def equilibrated_rows(self, params: Params, batch: Batch, scales: RowScales) -> Array:
        """The rows that Gauss-Newton's loss is the sum of squares of."""
        batch, scale = spread(batch, self.mesh), equilibrating(self.problem, scales)
        return weighted_rows(self.problem, self.weighting, params, batch, scale)

    def like(self, shapes: Any) -> Any:
        """Shapes of arrays as they come from `jit`, to compile for before there are any."""
        if self.mesh is None:
            return shapes
        where = NamedSharding(self.mesh, PartitionSpec())
        return jax.tree.map(
            lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=where), shapes
        )

    def _at_setting(self, batch: Batch) -> Batch:
        if self.coefficients is None:
            return batch
        held = {
            where: points._replace(
                parameters=jnp.broadcast_to(self.coefficients, points.parameters.shape)
            )
            for where, points in batch.items()
        }
        if self.observed is not None:
            points, (coordinates, values) = held["data"], self.observed
            # All of them at every lambda of a step, or each with one of its own.
            each = points.coordinates.shape[1] != len(coordinates)
            fit = lambda a, like: jnp.broadcast_to(a[:, None] if each else a, like.shape)
            held["data"] = points._replace(
                coordinates=fit(coordinates, points.coordinates),
                observed=fit(values, points.observed),
            )
        return held


class Stage(NamedTuple):
    """A phase, ready to run."""

    total: int  # steps at most, for the progress bar
    init: Callable[[Params, Array], Any]
    advance: Callable[[Any], tuple[Any, Info]]  # one compiled call of many steps
    stopped: Callable[[Any, Info], Stop | None]  # why it is over, or None to go on
    finish: Callable[[Any], tuple[Params, str]]  # the result, and a note for the log
    # What `advance` compiles, where that is all it does but check: pure, so that many runs can
    # be one program (retraining.py). None where decisions are taken between compiled calls.
    run: Callable[[Any], tuple[Any, Info]] | None = None
    # Which values are not finite, and where, at a state that the stage cannot go on from.
    diagnose: Callable[[Any], str] | None = None
    # The batches that the next call of `advance` draws, where it draws any.
    upcoming: Callable[[Any], Iterable[Batch]] | None = None
    # Plain data about the run, to be kept with its result.
    facts: Callable[[], dict[str, Any]] | None = None
    # What its weighting has learnt, for the next phase, and a first state that goes on with it.
    learnt: Callable[[Any], Any] | None = None
    adopt: Callable[[Any, Any], Any] | None = None
    # The relative error of a state's best parameters, where its own rows tell; None where not.
    relative_error: Callable[[Any], float | None] | None = None


class Phase(ABC):
    """A plain value (`@spec`) that describes an optimiser; only `build` has to be given."""

    @abstractmethod
    def build(self, setup: Setup) -> Stage: ...

    @property
    def mappable(self) -> bool:
        """Whether its stage has a `run`, so that many trainings can be one program."""
        return False

    @property
    def innermost(self) -> Phase:
        """The optimiser inside of wrappers."""
        return self

    def shrunk(self) -> Phase:
        """The same at a size that runs in a moment."""
        return self

    def scaled(self, share: float) -> Phase:
        """The same with a share of its steps; what a clock ends stays as it is."""
        return self

    @property
    def shapes_vary(self) -> bool:
        """Whether arrays of its state may get other shapes while it runs."""
        return False

    def shortened(self, seconds: float) -> Phase:
        """The same with so many seconds less, where a clock ends it."""
        return self

    def budget(self) -> tuple[str, float]:
        """What ends it, and how much of that there is."""
        return "steps", getattr(self, "steps", math.inf)

    def points(self, sampling: Sampling | None) -> Sampling | None:
        """Where its rows lie: on the protocol's sampling unless it has its own."""
        return sampling


def keep(state: State) -> tuple[Params, str]:
    """The ordinary ending: the last parameters, with nothing to add."""
    return state.params, ""


def objective(
    setup: Setup, batch: Batch, memory: Any = None
) -> Callable[[Params], tuple[Array, dict[str, Array]]]:
    """The loss on a fixed batch, with each term's part of it; weights as `memory` has them."""
    problem, weighting, state = setup.problem, setup.weighting, memory
    if state is None:
        state = weighting.init(problem.family, batch, jax.random.PRNGKey(0))

    def value(params: Params) -> tuple[Array, dict[str, Array]]:
        own = spread(batch, setup.mesh)
        residuals = problem.residuals(params, own)
        weights, _ = weighting.weigh(state, problem.family, own, jax.lax.stop_gradient(residuals))
        terms = problem.term_losses(residuals, weights, own)
        return sum(terms.values()), terms  # pyright: ignore[reportReturnType]

    return value


def held_out_loss(setup: Setup) -> Callable[[Params], float]:
    """The training objective on points and lambdas that no optimiser has seen."""

    @jax.jit
    def value(params: Params, coefficients: Array | None, observed: Any) -> Array:
        own = replace(setup, coefficients=coefficients, observed=observed)
        return objective(own, own.fixed(setup.held_out))(params)[0]

    # Compiled once for all members of a batch: where their coefficients are held is an argument.
    program = setup.programs.setdefault("held out", value)
    return lambda params: float(program(params, setup.coefficients, setup.observed))
