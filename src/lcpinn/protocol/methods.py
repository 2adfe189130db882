"""The paper's method and the baselines that it is compared with, on equal terms.

Backbone, points, budget and precision come from `settings_of_paper`, one place for all. A method is
what is left: a weighting, a way for lambda to enter, or another network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network import FNO, MLP, Concat, DeepONet, FiLM, Unseen
from lcpinn.optimiser import LBFGS, Adam, RevertOnWorse, Supervised
from lcpinn.protocol.value import Protocol
from lcpinn.sampling import Sampling
from lcpinn.weighting import Causal, Conditional, Fixed, ReLoBRaLo, SelfAdaptive

# -- Equal terms ---------------------------------------------------------------------------------

# The paper does not state the boundary weight of the coefficient regime; this one works.
BOUNDARY_WEIGHT = 100.0


@dataclass(frozen=True)
class Settings:
    """Points for each draw of lambda and the budget; `frozen` is the quadrature of L-BFGS."""

    interior: int = 1024
    face: int = 100
    adam: int = 50_000
    lbfgs: int = 1_500
    frozen: tuple[int, int] = (16, 256)  # lambdas, points each: the paper leaves it open
    widths: tuple[int, ...] = (64, 64, 64, 64)
    dtype: str = "float32"

    def sampling(self, num_lambda: int, **options: Any) -> Sampling:
        return Sampling(self.interior, self.face, num_lambda, **options)

    def quadrature(self, num_lambda: int | None = None, **options: Any) -> Sampling:
        """As many points for one lambda alone as for all lambdas of a family."""
        lambdas, points = self.frozen
        if num_lambda == 1:
            points *= lambdas
        return Sampling(points, self.face // 4, num_lambda or lambdas, "gauss", **options)

    def phases(self) -> tuple[Any, ...]:
        """Adam, then L-BFGS on the frozen quadrature, kept only if it does no harm."""
        finish = (RevertOnWorse(LBFGS(steps=self.lbfgs)),) if self.lbfgs else ()
        return (Adam(steps=self.adam, block=min(250, self.adam)), *finish)


_SETTINGS: dict[str, Settings] = {
    "burgers": Settings(face=200, lbfgs=0),
    "buckley-leverett": Settings(face=200, lbfgs=0),
    "helmholtz-1d": Settings(frozen=(32, 256)),
    "helmholtz-2d": Settings(4096, 400, 25_000, frozen=(16, 1024)),
    "helmholtz-3d": Settings(8192, 600, 25_000, frozen=(8, 4096)),
    "schrodinger-1d": Settings(face=64, frozen=(32, 256)),
}


def settings_of_paper(family: Family, steps: int | None = None) -> Settings:
    """What every method gets for this family; `steps` of Adam shorten L-BFGS in proportion."""
    given = _SETTINGS.get(family.name, Settings())
    if steps is None:
        return given
    return replace(given, adam=steps, lbfgs=given.lbfgs * steps // given.adam)


# -- One network for every lambda ----------------------------------------------------------------


def paper(family: Family, *, steps: int | None = None) -> Protocol:
    """LC-PINN as the paper trains it: tanh 4x64, Adam with a cosine, L-BFGS for coefficients.

    `steps` shortens the Adam phase (and L-BFGS in proportion) for comparisons at equal time.
    """
    family, given = family.plain(), settings_of_paper(family, steps)
    conditioned = family.weights is not None
    return Protocol(
        name="paper",
        network=MLP(given.widths, parameters=FiLM(hidden=64), weights=Concat()),
        weighting=Conditional() if conditioned else Fixed(_faces(family, BOUNDARY_WEIGHT)),
        # The objective of loss-conditional training has no frozen quadrature in the paper.
        phases=given.phases()[:1] if conditioned else given.phases(),
        sampling=given.sampling(4),
        quadrature=given.quadrature(),
        dtype=given.dtype,
        plain=True,
    )


def unconditioned(family: Family, *, steps: int | None = None) -> Protocol:
    """Everything as in `paper`, lambda drawn at every step, but a network that does not see it."""
    twin = paper(family, steps=steps)
    network = MLP(settings_of_paper(family).widths, parameters=Unseen(), weights=Unseen())
    return replace(twin, name="unconditioned", network=network)


def pi_deeponet(family: Family, *, steps: int | None = None) -> Protocol:
    """PI-DeepONet: branch on the coefficients, trunk on the coordinates, residuals on a grid."""
    needs_coefficients("pi-deeponet", family)
    given, grid = settings_of_paper(family, steps), DEEPONET_GRID
    return Protocol(
        name="pi-deeponet",
        network=DeepONet(),
        weighting=Fixed(_faces(family.plain(), BOUNDARY_WEIGHT)),
        phases=given.phases(),
        sampling=given.sampling(4, grid=grid),
        quadrature=given.quadrature(grid=grid),
        dtype=given.dtype,
        plain=True,
        weighted=False,
    )


DEEPONET_GRID = 20  # coefficients that its residuals are taken at


def fno(family: Family, *, steps: int | None = None) -> Protocol:
    """FNO, supervised on solutions for random initial conditions; `steps` are epochs here."""
    from lcpinn.optimiser.supervised import check

    check(family, FNO())
    epochs = Supervised().epochs if steps is None else steps
    return Protocol(
        name="fno",
        network=FNO(),
        weighting=Fixed({}),
        phases=(Supervised(epochs=epochs, block=min(10, epochs)),),
        sampling=None,
        plain=True,
        weighted=False,
    )


# -- One network for one lambda ------------------------------------------------------------------


def pinn(
    family: Family, *, at: Mapping[str, float] | None = None, steps: int | None = None
) -> Protocol:
    """A plain PINN with fixed weights, at one setting of the coefficients."""
    return _single("pinn", family, at, steps, Fixed(_faces(family.plain(), BOUNDARY_WEIGHT)))


def relobralo(
    family: Family, *, at: Mapping[str, float] | None = None, steps: int | None = None
) -> Protocol:
    """ReLoBRaLo: the terms' weights follow how fast each of them falls."""
    return _single("relobralo", family, at, steps, ReLoBRaLo())


def causal_pinn(
    family: Family, *, at: Mapping[str, float] | None = None, steps: int | None = None
) -> Protocol:
    """Causal-PINN: later times count once the equation holds at the earlier ones."""
    if "t" not in family.domain.names:
        has = ", ".join(family.domain.names)
        raise LcpinnError(f"causal-pinn needs a coordinate t; {family.name} has {has}")
    weighting = Causal(weights=_faces(family.plain(), BOUNDARY_WEIGHT))
    # Its weights change with the residuals, which a line search cannot follow: Adam alone.
    made = _single("causal-pinn", family, at, steps, weighting)
    return replace(made, phases=made.phases[:1])


def sa_pinn(
    family: Family, *, at: Mapping[str, float] | None = None, steps: int | None = None
) -> Protocol:
    """SA-PINN: a weight for every point, ascended; then L-BFGS on the unweighted loss."""
    made = _single("sa-pinn", family, at, steps, SelfAdaptive())
    adam = SA_BUDGET[0] if steps is None else steps
    lbfgs = max(1, SA_BUDGET[1] * adam // SA_BUDGET[0])
    points = settings_of_paper(family).sampling(1, rule="sobol")
    return replace(
        made,
        phases=(Adam(steps=adam, block=min(250, adam)), RevertOnWorse(LBFGS(steps=lbfgs))),
        sampling=points,  # a weight belongs to a point: they stay where they are
        quadrature=points,
    )


SA_BUDGET = (10_000, 5_000)  # Adam and L-BFGS, its own as in the paper


def _single(
    name: str, family: Family, at: Mapping[str, float] | None, steps: int | None, weighting: Any
) -> Protocol:
    """What methods that know one lambda have in common; they differ in their weighting."""
    given, setting = settings_of_paper(family, steps), at_one_setting(name, family, at)
    return Protocol(
        name=name,
        network=MLP(given.widths),
        weighting=weighting,
        phases=given.phases(),
        sampling=given.sampling(1),
        quadrature=given.quadrature(1),
        held_out=Sampling(interior=4096, face=256, num_lambda=1, rule="sobol", seed=1009),
        dtype=given.dtype,
        plain=True,
        weighted=False,
        at=setting,
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
    )
