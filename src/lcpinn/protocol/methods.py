"""The paper's method and the baselines that it is compared with, on equal terms.

Backbone, points, budget and precision come from `settings_of_paper`, one place for all. A method is
what is left: a weighting, a way for lambda to enter, or another network. With `data` it is trained
as its authors trained it, on values of the reference too, and is called so: `paper-data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network import FNO, MLP, DeepONet, FiLM, Unseen
from lcpinn.optimiser import LBFGS, Adam, RevertOnWorse, Supervised
from lcpinn.protocol.paper_settings import Settings, settings_of_paper
from lcpinn.protocol.value import Protocol
from lcpinn.sampling import Sampling
from lcpinn.weighting import Causal, Conditional, Fixed, ReLoBRaLo, SelfAdaptive

# The paper does not state the boundary weight of the coefficient regime; its code has this one.
BOUNDARY_WEIGHT = 100.0


# -- One network for every lambda ----------------------------------------------------------------


def paper(family: Family, *, steps: int | None = None, data: bool = False) -> Protocol:
    """LC-PINN as the paper trains it: tanh 4x64, Adam with a cosine, L-BFGS for coefficients.

    `steps` shortens the Adam phase (and L-BFGS in proportion) for comparisons at equal time.
    """
    family, given = family.plain(), settings_of_paper(family, steps, data=data)
    conditioned = family.weights is not None
    return Protocol(
        name=_named("paper", data),
        network=given.network(),
        weighting=Conditional() if conditioned else Fixed(_faces(family, BOUNDARY_WEIGHT)),
        # The objective of loss-conditional training has no finish in the paper.
        phases=given.phases()[:1] if conditioned else given.phases(),
        sampling=given.sampling(4),
        quadrature=given.sampling(given.lambdas),
        dtype=given.dtype,
        plain=True,
        cube=True,
        observed=given.data,
    )


def unconditioned(family: Family, *, steps: int | None = None) -> Protocol:
    """Everything as in `paper`, lambda drawn at every step, but a network that does not see it."""
    twin = paper(family, steps=steps)
    assert isinstance(twin.network, MLP)
    network = replace(twin.network, parameters=Unseen(), weights=Unseen())
    return replace(twin, name="unconditioned", network=network)


def pi_deeponet(family: Family, *, steps: int | None = None, data: bool = False) -> Protocol:
    """PI-DeepONet: branch on the coefficients, trunk on the coordinates, their residuals."""
    needs_coefficients("pi-deeponet", family)
    given = settings_of_paper(family, steps, data=data)
    network = DeepONet(given.widths, given.widths, given.widths[-1], xavier="normal", raw=True)
    return Protocol(
        name=_named("pi-deeponet", data),
        network=network,
        weighting=Fixed(_faces(family.plain(), BOUNDARY_WEIGHT)),
        phases=given.phases(),
        sampling=given.sampling(4),
        quadrature=given.sampling(given.lambdas),
        dtype=given.dtype,
        plain=True,
        weighted=False,
        observed=given.data,
    )


def fno(family: Family, *, steps: int | None = None) -> Protocol:
    """FNO, supervised on solutions for random initial conditions; `steps` are epochs here.

    As in the authors' code it learns the last instant alone: the others are not its answer.
    """
    from lcpinn.optimiser.supervised import check

    network = FNO(times=4, grid=512, normal=True, last_gelu=True)
    check(family, network)
    epochs = Supervised().epochs if steps is None else steps
    phase = Supervised(epochs=epochs, batch=16, cosines=True, at_end=True, block=min(10, epochs))
    return Protocol(
        name="fno",
        network=network,
        weighting=Fixed({}),
        phases=(phase,),
        sampling=None,
        plain=True,
        weighted=False,
    )


# -- One network for one lambda ------------------------------------------------------------------

At = Mapping[str, float] | None


def pinn(family: Family, *, at: At = None, steps: int | None = None) -> Protocol:
    """A plain PINN with fixed weights, at one setting of the coefficients."""
    given = settings_of_paper(family, steps)
    weighting = Fixed(_faces(family.plain(), BOUNDARY_WEIGHT))
    return _single("pinn", family, at, given, weighting, given.phases())


def relobralo(
    family: Family, *, at: At = None, steps: int | None = None, data: bool = False
) -> Protocol:
    """ReLoBRaLo: the terms' weights follow how fast each of them falls. Adam alone."""
    given = settings_of_paper(family, steps, data=data)
    name = _named("relobralo", data)
    return _single(name, family, at, given, ReLoBRaLo(), (given.descent(),))


def causal_pinn(
    family: Family, *, at: At = None, steps: int | None = None, data: bool = False
) -> Protocol:
    """Causal-PINN: later times count once the equation holds at the earlier ones.

    Its weights change with the residuals, which a line search cannot follow: Adam alone.
    """
    name = _named("causal-pinn", data)
    if "t" not in family.domain.names:
        has = ", ".join(family.domain.names)
        raise LcpinnError(f"{name} needs a coordinate t; {family.name} has {has}")
    given = settings_of_paper(family, steps, data=data)
    return _single(name, family, at, given, Causal(), (given.descent(),))


def sa_pinn(
    family: Family, *, at: At = None, steps: int | None = None, data: bool = False
) -> Protocol:
    """SA-PINN: a weight for every point, ascended; then L-BFGS with the weights as they are."""
    given = settings_of_paper(family, data=data)
    adam = given.sa_budget[0] if steps is None else steps
    lbfgs = max(1, given.sa_budget[1] * adam // given.sa_budget[0])
    finish = replace(given.line_searches(lbfgs, block=50), weighted=True)
    weighting = SelfAdaptive(random_start=True, factor=0.5, relative=False, observations=False)
    phases = (given.descent(adam, constant=True), finish)
    return _single(_named("sa-pinn", data), family, at, given, weighting, phases)


def _single(
    name: str, family: Family, at: At, given: Settings, weighting: Any, phases: tuple[Any, ...]
) -> Protocol:
    """What methods that know one lambda have in common; they differ in weighting and phases."""
    return Protocol(
        name=name,
        network=MLP(given.widths, xavier="normal", raw=True),
        weighting=weighting,
        phases=phases,
        sampling=given.sampling(1),
        quadrature=given.sampling(1),
        held_out=Sampling(interior=4096, face=256, num_lambda=1, rule="sobol", seed=1009),
        dtype=given.dtype,
        plain=True,
        weighted=False,
        at=at_one_setting(name, family, at),
        observed=given.data,
    )


# -- What the functions share --------------------------------------------------------------------


def at_one_setting(name: str, family: Family, at: Mapping[str, float] | None) -> dict[str, float]:
    """The setting of every coefficient, or an error that says how to give one."""
    given = {name: float(value) for name, value in (at or {}).items()}
    family.parameters.at(**given)  # refuses unknown names and values out of range
    missing = [n for n in family.parameters.free if n not in given]
    if missing:
        example = ",".join(f"{n}={sum(family.parameters.ranges[n]) / 2:g}" for n in missing)
        raise LcpinnError(
            f"{name} trains one setting of the coefficients at a time: say which, as in "
            f"--at {example}"
        )
    return {name: given[name] for name in family.parameters.names if name in given}


def needs_coefficients(name: str, family: Family) -> None:
    if not family.parameters.free:
        raise LcpinnError(f"{name} needs coefficients for its branch; {family.name} has none")


def _named(name: str, data: bool) -> str:
    return f"{name}-data" if data else name


def _faces(family: Family, weight: float) -> dict[str, float]:
    return {name: weight for name, term in family.terms.items() if term.faces}


def smoke(family: Family) -> Protocol:
    """The same parts as `paper` at a size that trains in a second: for tests, not for results."""
    twin = paper(family)
    finish = (RevertOnWorse(LBFGS(steps=10, block=5)),) if family.plain().weights is None else ()
    return replace(
        twin,
        name="smoke",
        network=MLP(widths=(8, 8), parameters=FiLM(hidden=8)),
        phases=(Adam(steps=60, block=20), *finish),
        sampling=Sampling(interior=32, face=8, num_lambda=2),
        quadrature=Sampling(interior=16, face=4, num_lambda=4, rule="gauss"),
        held_out=Sampling(interior=8, face=4, num_lambda=8, rule="sobol", seed=1009),
        judged=False,
        cube=False,
    )
