"""Baselines with the optimiser of `fast`: its effect can be told from that of the conditioning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lcpinn.family import Family
from lcpinn.network import MLP, DeepONet
from lcpinn.protocol.gauss_newton import fast
from lcpinn.protocol.methods import at_one_setting, needs_coefficients
from lcpinn.protocol.sizes import size_of
from lcpinn.protocol.value import Protocol


def pinn_gn(
    family: Family,
    *,
    at: Mapping[str, float] | None = None,
    seconds: float | None = None,
    steps: int | None = None,
) -> Protocol:
    """A plain PINN at one setting of the coefficients, fixed weights, trained as `fast` trains."""
    setting = at_one_setting("pinn-gn", family, at)
    made = fast(family.unweighted(), seconds=seconds, steps=steps, at=setting)
    return replace(made, name="pinn-gn", weighted=False)


def pi_deeponet_gn(
    family: Family, *, seconds: float | None = None, steps: int | None = None
) -> Protocol:
    """PI-DeepONet at the size of the network of `fast`, trained as that is."""
    needs_coefficients("pi-deeponet-gn", family)
    made, size = fast(family.unweighted(), seconds=seconds, steps=steps), size_of(family)
    assert isinstance(made.network, MLP)
    network = DeepONet(
        branch=(size.widths[0],),
        trunk=size.widths,
        latent=size.widths[-1],
        activation=made.network.activation,
        frequency_scale=made.network.frequency_scale,
    )
    return replace(made, name="pi-deeponet-gn", network=network, weighted=False)
