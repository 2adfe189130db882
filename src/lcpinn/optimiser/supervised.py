"""Supervised training of an operator network on a solver's solutions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lcpinn.devices import spread_along
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.lazy import optax
from lcpinn.network.contract import Network, OperatorNetwork, Params
from lcpinn.optimiser.stage import Info, Phase, Setup, Stage, Stop, StopReason, keep
from lcpinn.shape import as_face
from lcpinn.spec import spec

Data = tuple[Float[Array, "samples n"], Float[Array, "samples times n"]]


class SupervisedState(NamedTuple):
    """Where a run stands; `moments` are of all parameters but the condition."""

    params: Params
    moments: Any
    key: Array
    step: Array


@spec
class Supervised(Phase):
    """Adam on mean ‖operator(u0) - u‖ / ‖u‖ over `samples` random initial conditions u0.

    The one phase that trains on a solver: the baseline it serves (FNO) is a supervised method. The
    family's `solutions(initial, times)` answers for the random conditions, see `random_conditions`;
    `seed` is that of the set, which runs of different seeds share. The condition that the family
    poses itself, its term `initial`, is only written into the parameters, to be answered for.

    An epoch is a permutation of the set in batches of `batch` (a remainder is left out: it is
    another one in every epoch). The rate halves after each fifth of the epochs. `weight_decay` is
    L2 added to the gradient, as `Adam(weight_decay=)` of PyTorch and with it FNO's published code
    have it, not the decoupled kind. `block` epochs run in one compiled call.

    With `cosines` the conditions have cosines too, see there; with `at_end` the last instant is all
    that counts, and the others stay what they were.
    """

    epochs: int = 2_000
    batch: int = 32
    samples: int = 512
    modes: int = 6
    rate: float = 1e-3
    weight_decay: float = 1e-4
    seed: int = 0
    block: int = 10
    cosines: bool = False
    at_end: bool = False

    def build(self, setup: Setup) -> Stage:
        family, dtype = setup.problem.family, setup.problem.dtype
        network = check(family, setup.problem.network)
        data = self.data(family, network, dtype)
        size = min(self.batch, self.samples)
        per_epoch = self.samples // size
        total = self.epochs * per_epoch
        optimiser = self.transformation(per_epoch)

        @setup.jit
        def init(params: Params, key: Array) -> SupervisedState:
            params = {**params, "condition": initial_values(family, network.grid, dtype)}
            return SupervisedState(
                params=params,
                moments=optimiser.init(trained(params)),
                key=key,
                step=jnp.zeros((), jnp.int32),
            )

        def epoch(data: Data, state: SupervisedState) -> tuple[SupervisedState, Array]:
            # An epoch's randomness comes from its number, not from what ran before.
            key = jax.random.fold_in(state.key, state.step // per_epoch)
            order = jax.random.permutation(key, self.samples)[: per_epoch * size]
            step = partial(
                supervised_step, network, optimiser, data, mesh=setup.mesh, at_end=self.at_end
            )
            state, losses = jax.lax.scan(step, state, order.reshape(per_epoch, size))
            return state, losses.mean()

        @partial(setup.jit, static_argnums=2)
        def run(state: SupervisedState, data: Data, length: int) -> tuple[SupervisedState, Array]:
            state, losses = jax.lax.scan(lambda s, _: epoch(data, s), state, None, length)
            return state, losses[-1]

        def advance(state: SupervisedState) -> tuple[SupervisedState, Info]:
            done = int(state.step) // per_epoch
            state, loss = run(state, data, min(self.block, self.epochs - done))
            if not np.isfinite(float(loss)):
                after = f"within {int(state.step)} steps"
                raise LcpinnError(f"the supervised loss became NaN or infinite {after}")
            return state, {"loss": loss}

        def stopped(state: SupervisedState, info: Info) -> Stop | None:
            done = int(state.step) >= total
            return Stop(StopReason.STEPS, f"{self.epochs} epochs done") if done else None

        return Stage(total, init, advance, stopped, keep)

    def shrunk(self) -> Supervised:
        return replace(self, epochs=4, samples=8, batch=4, block=2)

    def scaled(self, share: float) -> Supervised:
        epochs = max(1, round(share * self.epochs))
        return replace(self, epochs=epochs, block=min(self.block, epochs))

    def budget(self) -> tuple[str, float]:
        return "epochs", self.epochs

    def transformation(self, per_epoch: int) -> optax.GradientTransformation:
        fifth = max(1, self.epochs // 5) * per_epoch
        rate = optax.exponential_decay(self.rate, fifth, 0.5, staircase=True)
        return optax.chain(optax.add_decayed_weights(self.weight_decay), optax.adam(rate))

    def data(self, family: Family, network: OperatorNetwork, dtype: DTypeLike) -> Data:
        """Initial conditions (samples, grid) and the solver's answers (samples, times, grid)."""
        make = random_periodic_conditions if self.cosines else random_conditions
        initial = make(self.samples, network.grid, self.modes, self.seed)
        times = np.linspace(*family.domain.ranges["t"], network.times)
        try:
            answers = family.solutions(initial, times)  # pyright: ignore[reportAttributeAccessIssue]
        except ValueError as error:
            raise LcpinnError(f"no solver data for {family.name}: {error}") from None
        expected = (self.samples, network.times, network.grid)
        if np.shape(answers) != expected:
            raise LcpinnError(
                f"solutions(initial, times) of {family.name} returned the shape "
                f"{np.shape(answers)}, not (members, times, points) = {expected}"
            )
        return jnp.asarray(initial, dtype), jnp.asarray(answers, dtype)


def supervised_step(
    network: OperatorNetwork,
    optimiser: optax.GradientTransformation,
    data: Data,
    state: SupervisedState,
    members: Array,
    mesh: Mesh | None = None,
    at_end: bool = False,
) -> tuple[SupervisedState, Array]:
    """One step on the named members of the set; everything moves but the condition."""
    initial, truth = (spread_along(0, part[members], mesh) for part in data)
    fixed = {"condition": state.params["condition"]}
    counted = slice(-1, None) if at_end else slice(None)

    def loss(params: Params) -> Array:
        values = network.operator(params | fixed, initial)
        return relative_error(values[:, counted], truth[:, counted]).mean()

    params = trained(state.params)
    value, gradient = jax.value_and_grad(loss)(params)
    updates, moments = optimiser.update(gradient, state.moments, params)
    after = SupervisedState(
        params={**optax.apply_updates(params, updates), **fixed},  # pyright: ignore[reportGeneralTypeIssues]
        moments=moments,
        key=state.key,
        step=state.step + 1,
    )
    return after, value


def trained(params: Params) -> Params:
    """All parameters but the condition, which is an input."""
    return {name: part for name, part in params.items() if name != "condition"}


def relative_error(
    values: Float[Array, "b times n"], truth: Float[Array, "b times n"]
) -> Float[Array, " b"]:
    """‖values - truth‖ / ‖truth‖ of every member, over all instants and points."""
    gap, size = (jnp.sum(a * a, axis=(-2, -1)) for a in (values - truth, truth))
    return jnp.sqrt(gap / size)


# -- Initial conditions --------------------------------------------------------------------------


def random_conditions(num: int, grid: int, modes: int, seed: int) -> np.ndarray:
    """Random sine series, (num, grid), on s_j = -1 + 2j/grid.

    u0 = Σ a_m sin(mπs) with a_m normal of deviation 1/m, then scaled down where |u0| exceeds 1;
    the same functions on every grid.
    The paper has a spectrum of six decaying modes and says no more. Sines alone, since they
    vanish at both ends and so do their solutions, as the family's boundary condition asks; the
    condition that is tested, -sin(πx), is one of them.
    """
    order = np.arange(1, modes + 1)
    amplitudes = np.random.default_rng(seed).normal(size=(num, modes)) / order
    at = lambda s: amplitudes @ np.sin(np.pi * np.outer(order, s))
    largest = np.abs(at(np.linspace(-1, 1, 1025))).max(axis=-1, keepdims=True)
    return at(-1 + 2 * np.arange(grid) / grid) / np.maximum(1, largest)


def random_periodic_conditions(num: int, grid: int, modes: int, seed: int) -> np.ndarray:
    """Random Fourier series, (num, grid), on s_j = -1 + 2j/grid, each with a largest value of one.

    u0 = Σ (a_m sin(mπs) + b_m cos(mπs)) / m, a and b uniform in (-1, 1), divided by max |u0|: the
    set of the authors' code. Fronts form anywhere, where those of sine series that begin at s = 0
    stay there.
    """
    order = np.arange(1, modes + 1)
    a, b = np.random.default_rng(seed).uniform(-1, 1, size=(2, num, modes)) / order
    at = lambda s: a @ np.sin(np.pi * np.outer(order, s)) + b @ np.cos(np.pi * np.outer(order, s))
    largest = np.abs(at(np.linspace(-1, 1, 1025))).max(axis=-1, keepdims=True)
    return at(-1 + 2 * np.arange(grid) / grid) / largest


def initial_values(family: Family, grid: int, dtype: DTypeLike) -> Float[Array, " grid"]:
    """The family's own initial condition on the grid: where its term `initial` vanishes in u."""
    term, orders = family.all_terms["initial"], family.orders([family.all_terms["initial"]])
    low, high = family.domain.ranges["x"]
    x = low + (high - low) * np.arange(grid) / grid
    points = jnp.asarray(np.stack([np.full(grid, as_face(term.faces[0]).value), x], axis=-1), dtype)

    def residual(point: Array, u: float) -> Array:
        series = jnp.zeros((len(orders), 1), dtype).at[0].set(u)
        return term.residual(series, orders, point, jnp.zeros(0, dtype))[0]

    at_zero, at_one = (jax.vmap(partial(residual, u=u))(points) for u in (0.0, 1.0))
    return at_zero / (at_zero - at_one)  # affine in u, such as u - u0(x)


def check(family: Family, network: Network) -> OperatorNetwork:
    """The network, if it takes a solver's data and there can be data for this family."""
    if not isinstance(network, OperatorNetwork):
        name = type(network).__name__
        raise LcpinnError(f"Supervised trains an operator network such as FNO, not {name}")
    kind = type(network).__name__.lower()
    if not callable(getattr(family, "solutions", None)):
        raise LcpinnError(
            f"{kind} needs solver data: {family.name} has no solutions(initial, times)"
        )
    if family.domain.names != ("t", "x") or family.parameters.dim:
        has = ", ".join((*family.domain.names, *family.parameters.names))
        raise LcpinnError(f"{kind} is for (t, x) without coefficients; {family.name} has {has}")
    if "initial" not in family.all_terms or not family.all_terms["initial"].faces:
        raise LcpinnError(f"{kind} needs an initial condition: {family.name} has no term 'initial'")
    return network
