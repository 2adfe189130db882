"""The paper's local theory, checked: what conditioning adds to the decay of the loss.

At fixed loss weights λ a conditional network is a plain one with shifted parameters θ + B(λ, η). At
the same point ϑ = θ + B(λ, η), with g = ∇L(ϑ) and A = D_η B, gradient flow lowers its loss by

    -dL/dt = ‖g‖² + ‖Aᵀ g‖²

where the plain network has ‖g‖² alone. A step of gradient descent of size h gains over the plain
one, with s = Aᵀ g and the Hessian H of L at ϑ,

    h ‖s‖² - h²/2 ((g + A s)ᵀ H (g + A s) - gᵀ H g + g · D²B[s, s]) + O(h³)

and nothing of third order is left where L is quadratic and B linear in η. The left-hand sides are
taken by going along the flow and by making the step, the right-hand sides from g, A and H.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lcpinn.errors import LcpinnError
from lcpinn.network.mlp import MLP, Params
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Batch

Loss = Callable[[Float[Array, " p"]], Array]
Shift = Callable[[Float[Array, " q"]], Float[Array, " p"]]  # η -> B(λ, η) at a fixed λ

DRAWS = 200  # random models of the report


# -- The local model -----------------------------------------------------------------------------


def quadratic(
    hessians: Float[Array, "m p p"], lam: Float[Array, " m"], optimum: Float[Array, " p"]
) -> Loss:
    """L(ϑ) = ½ (ϑ - ϑ*)ᵀ (Σ λ_i H_i) (ϑ - ϑ*): terms with a common zero, near it."""
    hessian = jnp.tensordot(lam, hessians, 1)
    return lambda at: 0.5 * (at - optimum) @ hessian @ (at - optimum)


def bilinear(matrices: Float[Array, "m p q"], lam: Float[Array, " m"]) -> Shift:
    """B(λ, η) = Σ λ_j M_j η."""
    matrix = jnp.tensordot(lam, matrices, 1)
    return lambda eta: matrix @ eta


class Model(NamedTuple):
    """A quadratic loss, a bilinear shift, and a point."""

    hessians: Float[Array, "m p p"]
    matrices: Float[Array, "m p q"]
    lam: Float[Array, " m"]
    optimum: Float[Array, " p"]
    theta: Float[Array, " p"]
    eta: Float[Array, " q"]

    @property
    def parts(self) -> tuple[Loss, Shift, Array, Array]:
        """What `decay` and `step` take."""
        loss = quadratic(self.hessians, self.lam, self.optimum)
        return loss, bilinear(self.matrices, self.lam), self.theta, self.eta


def random_models(draws: int, seed: int, terms: int = 4, num: int = 12, extra: int = 7) -> Model:
    """Models with a leading axis; Hessians of half rank, as single loss terms have, λ on a simplex.

    The arrays are NumPy's in double precision.
    """
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(draws, terms, num, num // 2))
    made: dict[str, Any] = {
        "hessians": roots @ roots.swapaxes(-1, -2),
        "matrices": rng.normal(size=(draws, terms, num, extra)),
        "lam": rng.dirichlet(np.ones(terms), draws),
        "optimum": rng.normal(size=(draws, num)),
        "theta": rng.normal(size=(draws, num)),
        "eta": rng.normal(size=(draws, extra)),
    }
    return Model(**made)


# -- The rate of decay ---------------------------------------------------------------------------


class Decay(NamedTuple):
    """Rates -dL/dt of gradient flow: of both parameterisations, and what should lie between."""

    conditional: Array
    plain: Array
    extra: Array  # ‖Aᵀ g‖²

    @property
    def gap(self) -> Array:
        """How far the identity is from holding, relative to its left-hand side."""
        return jnp.abs(self.conditional - self.plain - self.extra) / self.conditional


def decay(loss: Loss, shift: Shift, theta: Array, eta: Array) -> Decay:
    """Both sides of the identity for any loss and any shift, bilinear or not."""
    shifted, pullback = jax.vjp(shift, eta)
    at = theta + shifted
    joint = lambda both: loss(both[0] + shift(both[1]))
    return Decay(_rate(joint, (theta, eta)), _rate(loss, at), _size(pullback(jax.grad(loss)(at))))


def network_decay(
    problem: Problem, params: Params, batch: Batch, weights: Mapping[str, Array]
) -> Decay:
    """The same of a network: what its conditioning adds, at the batch's λ and these loss weights.

    `plain` is the flow with the conditioning's parameters held. Where λ joins the inputs that is
    the theorem's plain network, since λ then shifts the biases of the first layer.
    """
    loss = lambda params: problem.loss(params, batch, weights)
    mask = conditioning(problem, params, batch)
    gradient = jax.grad(loss)(params)
    extra = _size(jax.tree.map(lambda g, m: g * m, gradient, mask))
    rest = jax.tree.map(lambda g, m: m * g - g, gradient, mask)
    return Decay(_rate(loss, params), -jax.jvp(loss, (params,), (rest,))[1], extra)


def conditioning(problem: Problem, params: Params, batch: Batch) -> Params:
    """One for every parameter of λ's way into the network, zero for those of the backbone."""
    if not isinstance(problem.network, MLP):
        kind = type(problem.network).__name__
        raise LcpinnError(f"the decay of a network is split for an MLP, not for {kind}")
    mask = jax.tree.map(jnp.zeros_like, params)
    mask["conditioning"] = jax.tree.map(jnp.ones_like, params["conditioning"])
    points = next(iter(batch.values()))
    lam = problem.conditions(points.parameters, points.weights)
    joined = sum(
        problem.network.entrance(role).extra_inputs(values.shape[-1])
        for role, values in lam.items()
    )
    first = mask["layers"][0]["w"]
    mask["layers"][0]["w"] = first.at[len(first) - joined :].set(1)
    return mask


def _rate(loss: Callable[[Any], Array], at: Any) -> Array:
    """-dL/dt along dp/dt = -∇L(p)."""
    downhill = jax.tree.map(jnp.negative, jax.grad(loss)(at))
    return -jax.jvp(loss, (at,), (downhill,))[1]


def _size(tree: Any) -> Array:
    return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)), jnp.asarray(0.0))


# -- One step ------------------------------------------------------------------------------------


class Step(NamedTuple):
    """By how much more a conditional step lowers the loss, and the expansion of that in its size.

    `size` is by how much the conditional step lowers it: what a gap is to be compared with.
    """

    gain: Array
    first: Array  # h ‖s‖²
    second: Array  # the term of h²
    size: Array

    @property
    def gap(self) -> Array:
        return jnp.abs(self.gain - self.first - self.second) / jnp.abs(self.size)


def step(loss: Loss, shift: Shift, theta: Array, eta: Array, h: float | Array) -> Step:
    """One step of gradient descent of size h in either parameterisation, from the same point."""
    at = theta + shift(eta)
    joint = lambda theta, eta: loss(theta + shift(eta))
    by_theta, by_eta = jax.grad(joint, (0, 1))(theta, eta)
    plain = loss(at) - loss(at - h * jax.grad(loss)(at))
    conditional = loss(at) - joint(theta - h * by_theta, eta - h * by_eta)
    first, second = _expansion(loss, shift, at, eta)
    return Step(conditional - plain, h * first, h**2 * second, conditional)


def _expansion(loss: Loss, shift: Shift, at: Array, eta: Array) -> tuple[Array, Array]:
    """The coefficients of h and h², from g, A, H and the curvature of the shift."""
    gradient = jax.grad(loss)(at)
    _, pullback = jax.vjp(shift, eta)
    (s,) = pullback(gradient)
    along = lambda eta: jax.jvp(shift, (eta,), (s,))[1]
    moved, bent = jax.jvp(along, (eta,), (s,))
    curvature = lambda v: v @ jax.jvp(jax.grad(loss), (at,), (v,))[1]
    more = curvature(gradient + moved) - curvature(gradient) + gradient @ bent
    return s @ s, -more / 2


# -- For the report ------------------------------------------------------------------------------


@cache
def report() -> dict[str, Any]:
    """The largest relative gaps over random models.

    `continuous` is of the rates, `discrete` of one step with its term of second order; `least` is
    the smallest that conditioning added to a rate, relative to the plain one.
    """

    def one(model: Model) -> tuple[Array, Array, Array]:
        rates, taken = decay(*model.parts), step(*model.parts, h=1e-2)
        return rates.gap, taken.gap, rates.extra / rates.plain

    with double():
        continuous, discrete, added = jax.device_get(
            jax.jit(jax.vmap(one))(random_models(DRAWS, 0))
        )
    return {
        "draws": DRAWS,
        "continuous": float(continuous.max()),
        "discrete": float(discrete.max()),
        "least": float(added.min()),
    }
