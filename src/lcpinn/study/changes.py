"""What an ablation changes: a name for each, and what it does to the family or to the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Array

from lcpinn.errors import LcpinnError
from lcpinn.families import BuckleyLeverett
from lcpinn.family import Family
from lcpinn.network import FNO, Concat
from lcpinn.optimiser import LBFGS, Adam, Phase, RevertOnWorse, Supervised
from lcpinn.prior import Cube, LogCube, LogUniform, Simplex
from lcpinn.protocol import BOUNDARY_WEIGHT, Protocol
from lcpinn.protocol.paper_settings import Settings
from lcpinn.sampling import Sampling
from lcpinn.term import interior
from lcpinn.weighting import Causal, Fixed
from lcpinn.weighting.causal import ORIGINAL_CHUNKS


@dataclass(frozen=True)
class Change:
    """A change of the family that is trained, of how, or of both."""

    words: str
    family: Callable[[Family], Family] = lambda family: family
    protocol: Callable[[Protocol, Family], Protocol] = lambda protocol, family: protocol
    seeds: tuple[int, ...] | None = None  # where they are others than the budget's


def _draws(num: int) -> Change:
    def change(protocol: Protocol, family: Family) -> Protocol:
        assert protocol.sampling is not None
        sampling = replace(protocol.sampling, num_lambda=num)
        return replace(_shorter(protocol), sampling=sampling)

    return Change(f"{num} λ a step", protocol=change)


def _shorter(protocol: Protocol) -> Protocol:
    """Half of the steps, as in the paper's ablations of lambda's draws."""
    first, *others = protocol.phases
    return replace(protocol, phases=(first.scaled(0.5), *others))


def _weights(words: str, prior: Any) -> Change:
    return Change(
        words,
        family=lambda family: family.with_priors(weights=prior),
        protocol=lambda protocol, family: _shorter(protocol),
    )


def _log_uniform(family: Family) -> Family:
    return family.with_priors(parameters=LogUniform(**family.parameters.ranges))


def _by_adam(protocol: Protocol, family: Family) -> Protocol:
    """The network, points and family of `fast`, trained as the paper's text describes it."""
    weighting = Fixed({}) if family.weights is None else protocol.weighting
    return replace(
        protocol,
        weighting=weighting,
        phases=(Adam(), RevertOnWorse(LBFGS())),
        sampling=Sampling(),
        quadrature=Sampling(interior=256, face=25, num_lambda=32, rule="gauss"),
        held_out=Sampling(interior=64, face=16, num_lambda=64, rule="sobol", seed=1009),
    )


def _integral(protocol: Protocol, family: Family) -> Protocol:
    """R(<t) as an integral over t instead of a sum over 32 chunks."""
    causal = protocol.weighting
    assert isinstance(causal, Causal)
    return replace(protocol, weighting=replace(causal, eps=causal.eps / ORIGINAL_CHUNKS))


# -- One switch at a time: what explains a difference ----------------------------------------------


def _fresh_points(protocol: Protocol, family: Family) -> Protocol:
    assert protocol.sampling is not None
    return replace(protocol, sampling=replace(protocol.sampling, rule="random"))


def _iterations(num: int) -> Change:
    """The last phase with so many iterations of L-BFGS."""

    def shorter(phase: Phase) -> Phase:
        if isinstance(phase, RevertOnWorse):
            return replace(phase, phase=shorter(phase.phase))
        return replace(phase, steps=num) if isinstance(phase, LBFGS) else phase

    def change(protocol: Protocol, family: Family) -> Protocol:
        return replace(protocol, phases=tuple(map(shorter, protocol.phases)))

    return Change(f"{num} iterations of L-BFGS", protocol=change)


def _heavy_faces(protocol: Protocol, family: Family) -> Protocol:
    causal = protocol.weighting
    assert isinstance(causal, Causal)
    faces = [name for name, term in family.plain().terms.items() if term.faces]
    weights = dict.fromkeys(faces, BOUNDARY_WEIGHT)
    return replace(protocol, weighting=replace(causal, weights=weights))


def _small_set(protocol: Protocol, family: Family) -> Protocol:
    (phase,) = protocol.phases
    assert isinstance(phase, Supervised)
    return replace(protocol, phases=(replace(phase, samples=256, epochs=200),))


def _without_fourier(protocol: Protocol, family: Family) -> Protocol:
    """The Fourier matrices are drawn so small that untrained they are as good as none."""
    assert isinstance(protocol.network, FNO)
    network = replace(protocol.network, modes=0)
    return replace(_small_set(protocol, family), network=network)


class InviscidTerm(BuckleyLeverett):
    """s_t + f(s)_x = 0 in training, compared with the viscous solution.

    The SA-PINN of the authors' code has no viscous term.
    """

    @property
    def name(self) -> str:
        return "buckley-leverett"

    @interior
    def equation(self, s: Array, s_t: Array, s_x: Array) -> Array:
        return s_t + self.flux_slope(s) * s_x


def _film_of_weights(protocol: Protocol, family: Family) -> Protocol:
    """As the authors compared them: FiLM comes with L-BFGS, concatenation without."""
    network = replace(protocol.network, weights=protocol.network.parameters)  # pyright: ignore
    finish = Settings().finish()
    return replace(protocol, network=network, phases=(*protocol.phases[:1], *finish))


def _concatenated(protocol: Protocol, family: Family) -> Protocol:
    network = replace(protocol.network, parameters=Concat())  # pyright: ignore
    return replace(protocol, network=network, phases=protocol.phases[:1])


CHANGES: dict[str, Change] = {
    "": Change("as it is"),
    "viscosity=0": Change("ε = 0", family=lambda family: BuckleyLeverett(viscosity=0.0)),
    "n_lambda=1": _draws(1),
    "n_lambda=4": _draws(4),
    "n_lambda=16": _draws(16),
    "prior=cube": _weights("uniform on the cube", Cube()),
    "prior=simplex": _weights("uniform on the simplex", Simplex()),
    "prior=log-cube": _weights("log-uniform on the cube", LogCube()),
    "prior=log-uniform": Change("log-uniform coefficient", family=_log_uniform),
    "conditioning=concat": Change("concat, Adam alone", protocol=_concatenated),
    "conditioning=film": Change("FiLM, Adam and L-BFGS", protocol=_film_of_weights),
    "no-lbfgs": Change(
        "Adam alone",
        protocol=lambda p, family: replace(
            p, phases=tuple(phase for phase in p.phases if isinstance(phase, Adam))
        ),
    ),
    "causal=integral": Change("R(<t) an integral", protocol=_integral),
    "points=fresh": Change("points drawn anew at every step", protocol=_fresh_points),
    "lbfgs=1500": _iterations(1500),
    "faces=100": Change("faces weighted 100", protocol=_heavy_faces),
    "equation=inviscid": Change(
        "without a viscous term, as in the authors' code", family=lambda family: InviscidTerm()
    ),
    "set=256": Change(
        "256 conditions and 200 epochs, the defaults of the authors' script", protocol=_small_set
    ),
    "fourier=0": Change(
        "256 conditions and 200 epochs, without Fourier matrices", protocol=_without_fourier
    ),
    "seeds=4-11": Change("eight more seeds", seeds=tuple(range(4, 12))),
    "by-adam": Change("Adam and L-BFGS on the network of fast", protocol=_by_adam),
}


def change(name: str) -> Change:
    if name not in CHANGES:
        raise LcpinnError(f"there is no change {name!r}; there are {', '.join(CHANGES)}")
    return CHANGES[name]
