"""A run of a study as a plain value; its content names the directory that it is kept in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.families import BUILT_IN, built
from lcpinn.family import Family
from lcpinn.locate import find_family, split
from lcpinn.protocol import PROTOCOLS, Protocol, by_name, takes
from lcpinn.protocol.shrink import shrunk
from lcpinn.spec import digest, short, spec, to_plain
from lcpinn.study.budget import OWN, budget_of
from lcpinn.study.changes import change

BY_CODE, FIRST = "code", ""
# Protocols that were others in the first study.
REVISED = (
    "paper", "lc-pinn", "unconditioned", "pinn", "sa-pinn", "relobralo", "causal-pinn",
    "pi-deeponet", "fno",
)  # fmt: skip
OPTIONAL = ("options", "source", "settings")  # fields that not every record has


@spec
class Run:
    """One training: which family, by which protocol, with which seed, at which coefficients."""

    family: str
    protocol: str
    seed: int = 0
    at: Mapping[str, float] = field(default_factory=dict)
    budget: str = "full"
    change: str = ""  # what an ablation changes
    # Of a sweep: what its protocol is given beside the setting, and what stood in a user's file.
    options: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    # Of the paper's methods: as its authors' code has them, or "" for those of the first study,
    # with points drawn anew at every step, whose records are kept.
    settings: str = BY_CODE

    def __post_init__(self) -> None:
        if self.protocol not in REVISED:
            object.__setattr__(self, "settings", "")
        # Equal runs have equal names, however their coefficients were written down.
        at = {name: float(value) for name, value in sorted(self.at.items())}
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "options", dict(sorted(self.options.items())))

    @property
    def name(self) -> str:
        """Readable, and different for different runs by the hash at its end."""
        at = ",".join(f"{name}={short(value)}" for name, value in self.at.items())
        label = self.label.replace(".py", "").replace(":", "-")
        budget = "" if self.budget == OWN else self.budget
        how = (self.protocol, self.settings, self.change)
        words = (budget, label, *how, at, f"seed{self.seed}")
        return "-".join((*filter(None, words), self._hash))

    @property
    def _hash(self) -> str:
        # Where a file lies is not what is in it; and fields that runs of the paper do not have
        # leave their names as they were.
        content = {**to_plain(self), "family": self.label}
        missing = [name for name in OPTIONAL if not content[name]]
        return digest({k: v for k, v in content.items() if k not in missing})[:8]

    @property
    def label(self) -> str:
        """A family's name, or file.py:Class without the directory."""
        file, name = split(self.family)
        return self.family if file is None else ":".join(filter(None, (file.name, name)))

    def of(self) -> Family:
        """The family, changed as the ablation says."""
        family = change(self.change).family(_page(self.family, self.source))
        if budget_of(self.budget).small:
            coarse = dict.fromkeys(family.domain.names, 9)
            family = family.with_evaluation(points=coarse, dense=5)
        return family

    def how(self) -> Protocol:
        """The protocol at this budget."""
        if self.of_first_study:
            raise LcpinnError(f"{self.name} is of the first study: its record is kept, not made")
        family, budget = self.of(), budget_of(self.budget)
        options: dict[str, Any] = {"at": dict(self.at) or None, **self.options}
        # A protocol that cannot train towards a tolerance is judged by it all the same.
        if self.protocol in PROTOCOLS and not takes(self.protocol, "tolerance"):
            options.pop("tolerance", None)
        if self.protocol in PROTOCOLS and takes(self.protocol, "seconds"):
            options.setdefault("seconds", budget.seconds)
        made = change(self.change).protocol(by_name(self.protocol, family, **options), family)
        if budget.small:
            return shrunk(made)
        return replace(made, phases=tuple(phase.scaled(budget.share) for phase in made.phases))

    @property
    def kind(self) -> tuple[str, ...]:
        """Runs of one kind differ in seed and coefficients alone: they can share a program."""
        options = (str(self.options),) if self.options else ()
        how = (self.protocol, self.budget, self.change, self.settings)
        return (self.family, *how, *options)

    @property
    def of_first_study(self) -> bool:
        return self.protocol in REVISED and not self.settings

    def to_json(self) -> dict[str, Any]:
        unused = {"type"} | {name for name in OPTIONAL if not getattr(self, name)}
        return {key: value for key, value in to_plain(self).items() if key not in unused}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Run:
        return Run(**{"settings": "", **data})


def source_of(family: str) -> str:
    """A hash of the user's file that a family is in; empty for a built-in one."""
    file, _ = split(family)
    if file is None:
        return ""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise LcpinnError(f"cannot read {file}: {error.strerror}") from None


@cache
def _page(family: str, source: str) -> Family:
    """A built-in family, or that of a file as it was when the run was planned."""
    file, _ = split(family)
    if file is None:
        return built(family) if family in BUILT_IN else find_family(family)
    if source and source != source_of(family):
        raise LcpinnError(f"{file} has changed since its runs were planned: start again")
    return find_family(family)
