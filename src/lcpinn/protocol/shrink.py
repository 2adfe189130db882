"""A protocol at a size that trains in a moment: all of its parts, none of its accuracy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lcpinn.network import FNO, MLP, DeepONet
from lcpinn.optimiser import LBFGS, GaussNewton, Restarts, RevertOnWorse, Supervised
from lcpinn.protocol.value import Protocol


def shrunk(protocol: Protocol) -> Protocol:
    """The same methods on few points, with narrow networks and few steps."""
    sampling, quadrature = protocol.sampling, protocol.quadrature
    if sampling is not None:
        sampling = replace(sampling, interior=32, face=8)
    fewer = replace(quadrature, interior=32, face=8, num_lambda=min(4, quadrature.num_lambda))
    return replace(
        protocol,
        network=_narrow(protocol.network),
        phases=tuple(_short(phase) for phase in protocol.phases),
        sampling=sampling,
        # A weight that belongs to a point stays with it.
        quadrature=sampling if quadrature == protocol.sampling else fewer,
        held_out=replace(protocol.held_out, interior=16, face=8),
    )


def _narrow(network: Any) -> Any:
    if isinstance(network, MLP):
        return replace(network, widths=(8,))
    if isinstance(network, DeepONet):
        return replace(network, branch=(6,), trunk=(6,), latent=6)
    return FNO(width=6, modes=6, blocks=2, times=6, projection=6, grid=32)


def _short(phase: Any) -> Any:
    if isinstance(phase, RevertOnWorse):
        return RevertOnWorse(_short(phase.phase))
    if isinstance(phase, Restarts):
        return replace(phase, phase=_short(phase.phase), starts=1, most=1)
    if isinstance(phase, GaussNewton):
        rows = replace(phase.rows, interior=48, face=16)
        return replace(phase, rows=rows, steps=4, block=4, ladder=3, seconds=None)
    if isinstance(phase, Supervised):
        return replace(phase, epochs=4, samples=8, batch=4, block=2)
    if isinstance(phase, LBFGS):
        return replace(phase, steps=4, block=4)
    return replace(phase, steps=40, block=20)
