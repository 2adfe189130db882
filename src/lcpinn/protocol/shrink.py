"""A protocol at a size that trains in a moment: all of its parts, none of its accuracy."""

from __future__ import annotations

from dataclasses import replace

from lcpinn.protocol.value import Protocol


def shrunk(protocol: Protocol) -> Protocol:
    """The same methods on few points, with narrow networks and few steps."""
    sampling, quadrature = protocol.sampling, protocol.quadrature
    if sampling is not None:
        sampling = replace(sampling, interior=32, face=8)
    fewer = replace(quadrature, interior=32, face=8, num_lambda=min(4, quadrature.num_lambda))
    return replace(
        protocol,
        network=protocol.network.shrunk(),
        phases=tuple(phase.shrunk() for phase in protocol.phases),
        sampling=sampling,
        # A weight that belongs to a point stays with it.
        quadrature=sampling if quadrature == protocol.sampling else fewer,
        held_out=replace(protocol.held_out, interior=16, face=8),
    )
