"""A run of the study as a plain value; its content names the directory that it is kept in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.families import FAMILIES, built
from lcpinn.family import Family
from lcpinn.protocol import PROTOCOLS, Protocol, by_name, takes
from lcpinn.protocol.shrink import shrunk
from lcpinn.spec import fingerprint, short, spec, to_plain
from lcpinn.study.budget import BUDGETS
from lcpinn.study.changes import change


@spec
class Run:
    """One training: which family, by which protocol, with which seed, at which coefficients."""

    family: str
    protocol: str
    seed: int = 0
    at: Mapping[str, float] = field(default_factory=dict)
    budget: str = "full"
    change: str = ""  # what an ablation changes

    def __post_init__(self) -> None:
        # Equal runs have equal names, however their coefficients were written down.
        at = {name: float(value) for name, value in sorted(self.at.items())}
        object.__setattr__(self, "at", at)

    @property
    def name(self) -> str:
        """Readable, and different for different runs by the hash at its end."""
        at = ",".join(f"{name}={short(value)}" for name, value in self.at.items())
        words = (self.family, self.protocol, self.change, at, f"seed{self.seed}")
        said = "-".join(word for word in words if word)
        return f"{self.budget}-{said}-{fingerprint(self)[:8]}"

    def of(self) -> Family:
        """The family, changed as the ablation says."""
        if self.family not in FAMILIES:
            raise LcpinnError(f"there is no family {self.family!r}")
        family = change(self.change).family(built(self.family))
        if BUDGETS[self.budget].small:
            coarse = dict.fromkeys(family.domain.names, 9)
            family = family.with_evaluation(points=coarse, dense=5)
        return family

    def how(self) -> Protocol:
        """The protocol at this budget."""
        family, budget = self.of(), BUDGETS[self.budget]
        options: dict[str, Any] = {"at": dict(self.at) or None}
        if self.protocol in PROTOCOLS and takes(self.protocol, "seconds"):
            options["seconds"] = budget.seconds
        made = change(self.change).protocol(by_name(self.protocol, family, **options), family)
        if budget.small:
            return shrunk(made)
        return replace(made, phases=tuple(phase.scaled(budget.share) for phase in made.phases))

    @property
    def kind(self) -> tuple[str, ...]:
        """Runs of one kind differ in seed and coefficients alone: they can share a program."""
        return (self.family, self.protocol, self.budget, self.change)

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in to_plain(self).items() if key != "type"}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Run:
        return Run(**data)
