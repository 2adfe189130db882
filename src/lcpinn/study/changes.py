"""What an ablation changes: a name for each, and what it does to the family or to the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.families import BuckleyLeverett
from lcpinn.family import Family
from lcpinn.network import Concat, Conditioning, FiLM
from lcpinn.optimiser import Adam
from lcpinn.prior import Cube, LogCube, LogUniform
from lcpinn.protocol import Protocol, settings_of_paper
from lcpinn.sampling import Sampling
from lcpinn.weighting import Causal, Fixed
from lcpinn.weighting.causal import ORIGINAL_CHUNKS


@dataclass(frozen=True)
class Change:
    """A change of the family that is trained, of how, or of both."""

    words: str
    family: Callable[[Family], Family] = lambda family: family
    protocol: Callable[[Protocol, Family], Protocol] = lambda protocol, family: protocol


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


def _through(way: Conditioning, role: str) -> Callable[[Protocol, Family], Protocol]:
    return lambda p, family: replace(p, network=replace(p.network, **{role: way}))


def _by_adam(protocol: Protocol, family: Family) -> Protocol:
    """The network, points and family of `fast`, trained as the paper trains."""
    given = settings_of_paper(family)
    weighting = Fixed({}) if family.weights is None else protocol.weighting
    return replace(
        protocol,
        weighting=weighting,
        phases=given.phases(),
        sampling=given.sampling(4),
        quadrature=given.quadrature(),
        held_out=Sampling(interior=64, face=16, num_lambda=64, rule="sobol", seed=1009),
    )


def _integral(protocol: Protocol, family: Family) -> Protocol:
    """R(<t) as an integral over t instead of a sum over 32 chunks, and faces weighted as inside."""
    causal = protocol.weighting
    assert isinstance(causal, Causal)
    eps = causal.eps / ORIGINAL_CHUNKS
    return replace(protocol, weighting=replace(causal, eps=eps, weights={}))


CHANGES: dict[str, Change] = {
    "": Change("as it is"),
    "viscosity=0": Change("ε = 0", family=lambda family: BuckleyLeverett(viscosity=0.0)),
    "n_lambda=1": _draws(1),
    "n_lambda=4": _draws(4),
    "n_lambda=16": _draws(16),
    "prior=cube": _weights("uniform on the cube", Cube()),
    "prior=log-cube": _weights("log-uniform on the cube", LogCube()),
    "prior=log-uniform": Change("log-uniform coefficient", family=_log_uniform),
    "conditioning=concat": Change("concat", protocol=_through(Concat(), "parameters")),
    "conditioning=film": Change("FiLM", protocol=_through(FiLM(hidden=64), "weights")),
    "no-lbfgs": Change(
        "Adam alone",
        protocol=lambda p, family: replace(
            p, phases=tuple(phase for phase in p.phases if isinstance(phase, Adam))
        ),
    ),
    "causal=integral": Change("R(<t) an integral, faces weighted one", protocol=_integral),
    "by-adam": Change("Adam and L-BFGS on the network of fast", protocol=_by_adam),
}


def change(name: str) -> Change:
    if name not in CHANGES:
        raise LcpinnError(f"there is no change {name!r}; there are {', '.join(CHANGES)}")
    return CHANGES[name]
