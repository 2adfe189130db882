"""A protocol: everything about a training that is not the PDE, as one plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lcpinn.family import Family
from lcpinn.sampling import Sampling
from lcpinn.spec import describe, short, spec


@spec
class Protocol:
    """A network, a weighting, where the points lie, and the phases of the training.

    The last three say how it looks at a family, see `view`.
    """

    name: str
    network: Any
    weighting: Any
    phases: tuple[Any, ...]
    sampling: Sampling | None = Sampling()  # None where no phase draws random batches
    quadrature: Sampling = Sampling(rule="gauss")
    held_out: Sampling = Sampling(interior=64, face=16, num_lambda=64, rule="sobol", seed=1009)
    dtype: str = "float32"
    plain: bool = False  # leave out what the family's page does to help a network
    weighted: bool = True  # keep the family's prior over loss weights, if it has one
    at: Mapping[str, float] = field(default_factory=dict)  # coefficients held at one value

    def view(self, family: Family) -> Family:
        """The family as this protocol trains it."""
        family = family.plain() if self.plain else family
        family = family if self.weighted else family.unweighted()
        return family.at(**self.at)

    @property
    def setting(self) -> str:
        """The coefficients that are held, as `--at` takes them: k=3.25,nu=0.1."""
        return ",".join(f"{name}={short(value)}" for name, value in self.at.items())

    def __str__(self) -> str:
        setting = "".join(f", {name} = {value:g}" for name, value in self.at.items())
        lines = [f"{self.name} ({self.dtype}{setting})"]
        parts = {"network": self.network, "weighting": self.weighting}
        if self.sampling is not None:
            parts["sampling"] = self.sampling
        lines += [f"  {key}: {describe(value)}" for key, value in parts.items()]
        lines += [f"  phase {i + 1}: {describe(phase)}" for i, phase in enumerate(self.phases)]
        return "\n".join(lines)
