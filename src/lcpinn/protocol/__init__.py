"""Protocols: everything about a training that is not the PDE, each a function of a family."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.protocol.fast_baselines import pi_deeponet_gn, pinn_gn
from lcpinn.protocol.gauss_newton import fast
from lcpinn.protocol.interpolation import interpolant
from lcpinn.protocol.methods import (
    BOUNDARY_WEIGHT,
    causal_pinn,
    fno,
    paper,
    pi_deeponet,
    pinn,
    relobralo,
    sa_pinn,
    smoke,
    unconditioned,
)
from lcpinn.protocol.paper_settings import settings_of_paper
from lcpinn.protocol.trial import without_trials
from lcpinn.protocol.value import Protocol

__all__ = [
    "BOUNDARY_WEIGHT",
    "DEFAULT",
    "PROTOCOLS",
    "WITH_DATA",
    "Protocol",
    "by_name",
    "causal_pinn",
    "default",
    "example",
    "fast",
    "fno",
    "interpolant",
    "outline",
    "paper",
    "pi_deeponet",
    "pi_deeponet_gn",
    "pinn",
    "pinn_gn",
    "reason_against",
    "relobralo",
    "sa_pinn",
    "settings_of_paper",
    "smoke",
    "takes",
    "unconditioned",
]

# `lc-pinn` is the method of the paper under its own name.
PROTOCOLS: dict[str, Callable[..., Protocol]] = {
    "fast": fast,
    "interpolant": interpolant,
    "paper": paper,
    "lc-pinn": paper,
    "unconditioned": unconditioned,
    "pinn": pinn,
    "sa-pinn": sa_pinn,
    "relobralo": relobralo,
    "causal-pinn": causal_pinn,
    "pi-deeponet": pi_deeponet,
    "fno": fno,
    "pinn-gn": pinn_gn,
    "pi-deeponet-gn": pi_deeponet_gn,
    "smoke": smoke,
}

# The paper's methods as its numbers were made: trained on values of the reference, too, and with
# L-BFGS taken back by the error against it. For the reproduction; nothing else is trained so.
WITH_DATA = ("paper", "pi-deeponet", "sa-pinn", "relobralo", "causal-pinn")
PROTOCOLS |= {f"{name}-data": partial(PROTOCOLS[name], data=True) for name in WITH_DATA}


def by_name(name: str, family: Family, **options: Any) -> Protocol:
    """The protocol that the command line calls by this name."""
    if name not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise LcpinnError(f"there is no protocol {name!r}; there are {known}")
    given = {key: value for key, value in options.items() if value is not None}
    refused = [key for key in given if not takes(name, key)]
    if refused:
        raise LcpinnError(f"the protocol {name!r} does not take {', '.join(refused)}")
    return PROTOCOLS[name](family, **given)


def takes(name: str, option: str) -> bool:
    """Whether a protocol has this option (`at`, `steps`, `seconds`)."""
    return option != "data" and option in inspect.signature(PROTOCOLS[name]).parameters


# To make one may take a trial of seconds, and whether it can be made is asked many times: of each
# family, by the name of the protocol, what was made or why it cannot be.
_Made = dict[str, Protocol | str]
_examples: WeakKeyDictionary[Family, _Made] = WeakKeyDictionary()
_outlines: WeakKeyDictionary[Family, _Made] = WeakKeyDictionary()  # without their trials


def example(name: str, family: Family) -> Protocol:
    """The protocol for a family, with its coefficients at their middle where it needs a setting."""
    return _once(name, family, _examples.setdefault(family, {}))


def outline(name: str, family: Family) -> Protocol:
    """The same without what trials would change: to know that it can be made, at which setting."""
    made = _examples.get(family, {})
    with without_trials():
        return _once(name, family, made if name in made else _outlines.setdefault(family, {}))


def _once(name: str, family: Family, known: _Made) -> Protocol:
    if name not in known:
        try:
            known[name] = _at_the_middle(name, family)
        except LcpinnError as error:
            known[name] = str(error)
    made = known[name]
    if isinstance(made, str):
        raise LcpinnError(made)
    return made


def _at_the_middle(name: str, family: Family) -> Protocol:
    try:
        return by_name(name, family)
    except LcpinnError:
        ranges = family.parameters.ranges
        middle = {n: sum(ranges[n]) / 2 for n in family.parameters.free}
        if not (middle and takes(name, "at")):
            raise
        return by_name(name, family, at=middle)


def reason_against(name: str, family: Family) -> str | None:
    """Why a protocol does not apply to a family, in one line; None where it does."""
    try:
        outline(name, family)
    except LcpinnError as error:
        return str(error)
    return None


DEFAULT = "fast"


def default(
    family: Family, *, seconds: float | None = None, tolerance: float | None = None
) -> Protocol:
    """What `train` uses when nothing is said."""
    return by_name(DEFAULT, family, seconds=seconds, tolerance=tolerance)
