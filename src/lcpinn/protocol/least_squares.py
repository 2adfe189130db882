"""Gauss-Newton on small networks in double precision: `fast`, and baselines trained alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax

from lcpinn.batch import Sampling
from lcpinn.family import Family
from lcpinn.network import MLP, Concat, DeepONet, FiLM
from lcpinn.optimiser import GaussNewton, Restarts
from lcpinn.protocol.methods import at_one_setting, needs_coefficients
from lcpinn.protocol.value import Protocol
from lcpinn.weighting import Conditional, Fixed


@dataclass(frozen=True)
class _Size:
    """A network and its rows, for so many inputs in all."""

    widths: tuple[int, ...]
    reach: float
    rows: int
    faces: int
    solver: str
    ladder: int
    degree: int = 5
    starts: int = 1
    corrections: int = 2
    roam: bool = False
    slack: float = 0.0
    patience: int = 6
    stride: float = 0.1


# By the number of coordinates and coefficients together. Solutions of linear equations are smooth
# and sines reach the last digits; nonlinear ones build fronts, which tanh meets with fewer units.
# Smooth ones roam: steps that go far at a high loss end orders of magnitude lower, with two inputs
# where rounding begins, so that none is left because it crawls. The fewer the inputs, the shorter
# the steps that keep what is within reach. Fronts do not forgive it; there two starts are tried.
# On accelerators, where roaming has not been measured, steps have some slack instead.
_SMOOTH_CPU = {
    2: _Size((20, 20), 8.0, 2600, 200, "qr", 13, corrections=0, roam=True, patience=8, stride=0.03),
    3: _Size((28, 28), 5.0, 6000, 400, "cholesky", 5, corrections=0, roam=True, patience=8),
    4: _Size((28, 28), 4.0, 5000, 600, "cholesky", 5, corrections=0, roam=True, patience=8),
}
_FRONTS_CPU = {
    2: _Size((16, 16, 16), 3.0, 3000, 400, "cholesky", 9, starts=2, corrections=0),
    3: _Size((16, 16, 16), 3.0, 3600, 600, "cholesky", 5),
    4: _Size((16, 16, 16), 3.0, 3600, 800, "cholesky", 5),
}
_SMOOTH_ACCELERATOR = {
    2: _Size((20, 20), 8.0, 3000, 400, "two-level", 13, starts=2, corrections=0),
    3: _Size((64, 64), 5.0, 28_000, 2000, "cholesky", 9, 7, slack=10.0, patience=20),
    4: _Size((64, 64), 4.0, 24_000, 3000, "cholesky", 9, slack=10.0, patience=20),
}
_FRONTS_ACCELERATOR = {
    2: _Size((40, 40, 40), 3.0, 20_000, 1500, "cholesky", 9, starts=2),
    3: _Size((40, 40, 40), 3.0, 20_000, 2000, "cholesky", 9),
    4: _Size((40, 40, 40), 3.0, 20_000, 3000, "cholesky", 9),
}


def fast(
    family: Family, *, seconds: float | None = None, at: Mapping[str, float] | None = None
) -> Protocol:
    """Gauss-Newton on a small network in double precision: the default.

    Sizes follow from the number of inputs, from whether the equation is linear, and from the kind
    of device. A start goes on until nothing is gained, further starts follow until `seconds` (50 by
    default) are over, compilation included, and the lowest held-out loss wins.
    Coefficients in `at` are held there instead of being inputs.
    """
    held = dict(at or {})
    family = family.at(**held)
    smooth, size, free = _is_smooth(family), _size(family), len(family.parameters.free)
    # Total degree: with several coefficients the features of lambda multiply.
    degree = {0: 1, 1: size.degree}.get(free, 2)
    # Sines and cosines of a periodic coordinate vary already; steep units on top overdo it.
    reach = min(size.reach, 1.5) if smooth and family.domain.periodic else size.reach
    optimiser = GaussNewton(
        rows=Sampling(size.rows, size.faces, 1, "collocation"),
        steps=3000,
        solver=size.solver,
        ladder=size.ladder,
        corrections=size.corrections,
        slack=size.slack,
        roam=size.roam,
        stride=size.stride,
        patience=size.patience,
        tolerance=0.02,
        seconds=50.0 if seconds is None else seconds,
    )
    return Protocol(
        name="fast",
        network=MLP(
            widths=size.widths,
            activation="sine" if smooth else "tanh",
            parameters=FiLM(hidden=0, degree=degree),
            weights=Concat(gain=0.0),
            reach=reach,
        ),
        weighting=Conditional() if family.weights is not None else Fixed({}),
        # While the loss may rise nothing seems to be gained.
        phases=(Restarts(optimiser, size.starts, gain=1.0 if size.roam or size.slack else 1.2),),
        sampling=None,
        held_out=Sampling(4096, 256, 1, "collocation", seed=1009),
        dtype="float64",
        at=held,
    )


def _is_smooth(family: Family) -> bool:
    """Linear equations, and ordinary ones: a front needs a second coordinate to move along."""
    return family.domain.dim == 1 or family.is_linear()


def _size(family: Family) -> _Size:
    smooth = _is_smooth(family)
    if jax.default_backend() == "cpu":
        table = _SMOOTH_CPU if smooth else _FRONTS_CPU
    else:
        table = _SMOOTH_ACCELERATOR if smooth else _FRONTS_ACCELERATOR
    return table[min(max(family.domain.dim + len(family.parameters.free), 2), 4)]


# -- Baselines with the same optimiser, so that its effect can be told from the conditioning's ----


def pinn_gn(
    family: Family, *, at: Mapping[str, float] | None = None, seconds: float | None = None
) -> Protocol:
    """A plain PINN at one setting of the coefficients, fixed weights, trained as `fast` trains."""
    held = at_one_setting("pinn-gn", family, at)
    made = fast(family.unweighted(), seconds=seconds, at=held)
    return replace(made, name="pinn-gn", weighted=False)


def pi_deeponet_gn(family: Family, *, seconds: float | None = None) -> Protocol:
    """PI-DeepONet at the size of the network of `fast`, trained as that is."""
    needs_coefficients("pi-deeponet-gn", family)
    made, size = fast(family.unweighted(), seconds=seconds), _size(family)
    assert isinstance(made.network, MLP)
    network = DeepONet(
        branch=(size.widths[0],),
        trunk=size.widths,
        latent=size.widths[-1],
        activation=made.network.activation,
        reach=made.network.reach,
    )
    return replace(made, name="pi-deeponet-gn", network=network, weighted=False)
