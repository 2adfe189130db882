"""Protocols: everything about a training that is not the PDE, as one plain value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from lcpinn.batch import Sampling
from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network import MLP, Concat, FiLM
from lcpinn.optimiser import LBFGS, Adam, GaussNewton, Restarts, RevertOnWorse
from lcpinn.spec import describe, spec
from lcpinn.weighting import Conditional, Fixed


@spec
class Protocol:
    """A network, a weighting, where the points lie, and the phases of the training."""

    name: str
    network: Any
    weighting: Any
    phases: tuple[Any, ...]
    sampling: Sampling | None = Sampling()  # None where no phase draws random batches
    quadrature: Sampling = Sampling(rule="gauss")
    held_out: Sampling = Sampling(interior=64, face=16, num_lambda=64, rule="sobol", seed=1009)
    dtype: str = "float32"
    plain: bool = False  # leave out what the family's page does to help a network

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.dtype})"]
        parts = {"network": self.network, "weighting": self.weighting}
        if self.sampling is not None:
            parts["sampling"] = self.sampling
        lines += [f"  {key}: {describe(value)}" for key, value in parts.items()]
        lines += [f"  phase {i + 1}: {describe(phase)}" for i, phase in enumerate(self.phases)]
        return "\n".join(lines)


# Collocation counts and budgets of the paper, per draw of lambda: interior, faces, Adam, L-BFGS,
# and the size (lambdas, points each) of the frozen quadrature, which the paper leaves open.
_PAPER: dict[str, tuple[int, int, int, int, tuple[int, int]]] = {
    "burgers": (1024, 200, 50_000, 0, (16, 256)),
    "buckley-leverett": (1024, 200, 50_000, 0, (16, 256)),
    "helmholtz-1d": (1024, 100, 50_000, 1_500, (32, 256)),
    "helmholtz-2d": (4096, 400, 25_000, 1_500, (16, 1024)),
    "helmholtz-3d": (8192, 600, 25_000, 1_500, (8, 4096)),
    "schrodinger-1d": (1024, 64, 50_000, 1_500, (32, 256)),
}
_OTHERWISE = (1024, 100, 50_000, 1_500, (16, 256))

# The paper does not state the boundary weight of the coefficient regime; this one works.
BOUNDARY_WEIGHT = 100.0


def paper(family: Family, *, steps: int | None = None) -> Protocol:
    """The paper's protocol: tanh 4x64, Adam with a cosine schedule, L-BFGS for coefficients.

    `steps` shortens the Adam phase (and L-BFGS in proportion) for comparisons at equal time.
    """
    family = family.plain()
    interior, face, adam, lbfgs, (num_lambda, points) = _PAPER.get(family.name, _OTHERWISE)
    if steps is not None:
        adam, lbfgs = steps, lbfgs * steps // adam
    coefficients_only = family.weights is None
    phases: tuple[Any, ...] = (Adam(steps=adam),)
    if lbfgs and coefficients_only:
        phases += (RevertOnWorse(LBFGS(steps=lbfgs)),)
    return Protocol(
        name="paper",
        network=MLP(parameters=FiLM(hidden=64), weights=Concat()),
        weighting=_weighting(family),
        phases=phases,
        sampling=Sampling(interior=interior, face=face, num_lambda=4),
        quadrature=Sampling(interior=points, face=face // 4, num_lambda=num_lambda, rule="gauss"),
        plain=True,
    )


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


# By the number of coordinates and coefficients together. Solutions of linear equations are smooth
# and sines reach the last digits; nonlinear ones build fronts, which tanh meets with fewer units.
# A second start is tried where a step is cheap; elsewhere its time is better spent on the first.
_LINEAR_CPU = {
    2: _Size((20, 20), 8.0, 2600, 200, "qr", 7, starts=2),
    3: _Size((24, 24), 5.0, 3600, 400, "cholesky", 5),
    4: _Size((16, 16, 16), 4.0, 3000, 600, "cholesky", 5),
}
_NONLINEAR_CPU = {
    2: _Size((16, 16, 16), 3.0, 3000, 400, "cholesky", 9, starts=2),
    3: _Size((16, 16, 16), 3.0, 3600, 600, "cholesky", 5),
    4: _Size((16, 16, 16), 3.0, 3600, 800, "cholesky", 5),
}
_LINEAR_ACCELERATOR = {
    2: _Size((20, 20), 8.0, 3000, 400, "two-level", 9, starts=2),
    3: _Size((48, 48, 48), 5.0, 32_768, 2000, "two-level", 9, 7),
    4: _Size((40, 40, 40), 4.0, 24_000, 3000, "two-level", 9),
}
_NONLINEAR_ACCELERATOR = {
    2: _Size((32, 32, 32), 3.0, 12_000, 1500, "cholesky", 9, starts=2),
    3: _Size((32, 32, 32), 3.0, 16_000, 2000, "cholesky", 9),
    4: _Size((32, 32, 32), 3.0, 16_000, 3000, "cholesky", 9),
}


def fast(family: Family, *, seconds: float | None = None) -> Protocol:
    """Gauss-Newton on a small network in double precision: the default.

    Sizes follow from the number of inputs, from whether the equation is linear, and from the kind
    of device. Where steps are cheap two starts are tried, and the one with the lower held-out loss
    goes on until nothing is gained or `seconds` (50 by default) are over, compilation included.
    """
    linear = family.is_linear()
    on_cpu = jax.default_backend() == "cpu"
    if on_cpu:
        table = _LINEAR_CPU if linear else _NONLINEAR_CPU
    else:
        table = _LINEAR_ACCELERATOR if linear else _NONLINEAR_ACCELERATOR
    size = table[min(max(family.domain.dim + family.parameters.dim, 2), 4)]
    # Total degree: with several coefficients the features of lambda multiply.
    degree = {0: 1, 1: size.degree}.get(family.parameters.dim, 2)
    # Sines and cosines of a periodic coordinate vary already; steep units on top overdo it.
    reach = min(size.reach, 1.5) if linear and family.domain.periodic else size.reach
    optimiser = GaussNewton(
        rows=Sampling(size.rows, size.faces, 1, "collocation"),
        steps=3000,
        solver=size.solver,
        ladder=size.ladder,
        tolerance=0.02,
        seconds=50.0 if seconds is None else seconds,
    )
    return Protocol(
        name="fast",
        network=MLP(
            widths=size.widths,
            activation="sine" if linear else "tanh",
            parameters=FiLM(hidden=0, degree=degree),
            weights=Concat(gain=0.0),
            reach=reach,
        ),
        weighting=Conditional() if family.weights is not None else Fixed({}),
        phases=(Restarts(optimiser, starts=size.starts),),
        sampling=None,
        held_out=Sampling(4096, 256, 1, "collocation", seed=1009),
        dtype="float64",
    )


def smoke(family: Family) -> Protocol:
    """The same parts as `paper` at a size that trains in a second: for tests, not for results."""
    family = family.plain()
    phases: tuple[Any, ...] = (Adam(steps=60, block=20),)
    if family.weights is None:
        phases += (RevertOnWorse(LBFGS(steps=10, block=5)),)
    small = Sampling(interior=32, face=8, num_lambda=2)
    return Protocol(
        name="smoke",
        network=MLP(widths=(8, 8), parameters=FiLM(hidden=8)),
        weighting=_weighting(family),
        phases=phases,
        sampling=small,
        quadrature=Sampling(interior=16, face=4, num_lambda=4, rule="gauss"),
        held_out=Sampling(interior=8, face=4, num_lambda=8, rule="sobol", seed=1009),
        plain=True,
    )


def _weighting(family: Family) -> Any:
    if family.weights is not None:
        return Conditional()
    faces = [name for name, term in family.terms.items() if term.faces]
    return Fixed(dict.fromkeys(faces, BOUNDARY_WEIGHT))


PROTOCOLS: dict[str, Callable[..., Protocol]] = {"fast": fast, "paper": paper, "smoke": smoke}


def by_name(name: str, family: Family, **options: Any) -> Protocol:
    """The protocol that the command line calls by this name."""
    if name not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise LcpinnError(f"there is no protocol {name!r}; there are {known}")
    try:
        return PROTOCOLS[name](family, **{k: v for k, v in options.items() if v is not None})
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        given = ", ".join(k for k, v in options.items() if v is not None)
        raise LcpinnError(f"the protocol {name!r} does not take {given}") from None


def default(family: Family) -> Protocol:
    """What `train` uses when nothing is said."""
    return fast(family)
