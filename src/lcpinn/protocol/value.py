"""A protocol: everything about a training that is not the PDE, as one plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network.contract import Network
from lcpinn.optimiser.stage import Phase
from lcpinn.prior import Cube
from lcpinn.protocol.reference_data import ReferenceData
from lcpinn.sampling import Sampling
from lcpinn.spec import describe, short, spec
from lcpinn.weighting.contract import Weighting


@spec
class Protocol:
    """A network, a weighting, where the points lie, and the phases of the training.

    Those from `plain` on say how it looks at a family, see `view`.
    """

    name: str
    network: Network
    weighting: Weighting
    phases: tuple[Phase, ...]
    sampling: Sampling | None = Sampling()  # None where no phase draws random batches
    quadrature: Sampling = Sampling(rule="gauss")
    held_out: Sampling = Sampling(interior=64, face=16, num_lambda=64, rule="sobol", seed=1009)
    dtype: str = "float32"
    plain: bool = False  # leave out what the family's page does to help a network
    weighted: bool = True  # keep the family's prior over loss weights, if it has one
    at: Mapping[str, float] = field(default_factory=dict)  # coefficients held at one value
    judged: bool = True  # end with a verdict: the error is estimated
    cube: bool = False  # loss weights that the family leaves open lie on a cube, not on a simplex
    observed: ReferenceData | None = None  # what it is trained on beside the family's terms
    # Seconds that went into choosing it, of those that the training may take. Two equal runs may
    # differ in it, so that it is no part of what they are.
    spent: float = field(default=0.0, compare=False)

    def view(self, family: Family) -> Family:
        """The family as this protocol trains it."""
        family = self.bare(family)
        data = None if self.observed is None else self.observed.of(family, self.at)
        family = family.at(**self.at)
        return family if data is None else family.with_observations(data)

    def bare(self, family: Family) -> Family:
        """The same before coefficients are held and data are added."""
        family = family.plain() if self.plain else family
        family = family if self.weighted else family.unweighted()
        if self.cube and family.weights is not None and not family.has_own_weights:
            family = family.with_priors(weights=Cube())
        return family

    def check_parts(self) -> None:
        """Refuse a network or a weighting that lacks something of its contract."""
        for part, contract in ((self.network, Network), (self.weighting, Weighting)):
            required = [name for name in vars(contract) if not name.startswith("_")]
            missing = [name for name in required if not hasattr(part, name)]
            if missing:
                raise LcpinnError(
                    f"{type(part).__name__} is no {contract.__name__}, it has no "
                    f"{', '.join(missing)}: name {contract.__module__}.{contract.__name__} as its "
                    "base, which has defaults for what is not essential"
                )

    @property
    def seconds(self) -> float | None:
        """The time limit of its last phase, where it has one."""
        unit, amount = self.phases[-1].budget()
        return amount if unit == "seconds" else None

    @property
    def setting(self) -> str:
        """The coefficients that are held, as `--at` takes them: k=3.25,nu=0.1."""
        return ",".join(f"{name}={short(value)}" for name, value in self.at.items())

    def __str__(self) -> str:
        setting = "".join(f", {name} = {value:g}" for name, value in self.at.items())
        lines = [f"{self.name} ({self.dtype}{setting})"]
        parts: dict[str, Any] = {"network": self.network, "weighting": self.weighting}
        if self.sampling is not None:
            parts["sampling"] = self.sampling
        lines += [f"  {key}: {describe(value)}" for key, value in parts.items()]
        lines += [f"  phase {i + 1}: {describe(phase)}" for i, phase in enumerate(self.phases)]
        return "\n".join(lines)
