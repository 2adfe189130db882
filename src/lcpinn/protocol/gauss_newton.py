"""The default: Gauss-Newton on a small network in double precision."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lcpinn.family import Family
from lcpinn.network import MLP, Concat, FiLM
from lcpinn.optimiser import GaussNewton, OwnSolutions, Phase, Restarts
from lcpinn.protocol.choice import Choice, chosen
from lcpinn.protocol.magnitudes import units_of
from lcpinn.protocol.noise import restrained
from lcpinn.protocol.sizes import size_of
from lcpinn.protocol.trial import can_be_tried, tried
from lcpinn.protocol.value import Protocol
from lcpinn.sampling import Sampling
from lcpinn.shape.holes import visible_holes
from lcpinn.spectral.linearisation import linearised
from lcpinn.verdict import check_tolerance
from lcpinn.weighting import Conditional, Fixed

SECONDS = 50.0
PATIENT = 600.0  # seconds at most, where a tolerance is asked for
# How further starts draw the network, in turns, where the table's guess is not good enough: factors
# of the frequency scale, and slopes in lambda. Units whose frequency or steepness depends on the
# coefficients from the start, steeper and flatter ones: the estimated error decides between them.
DRAWS = ((1.0, 1.0), (3.0, 1.0), (1.0, 2.5), (0.5, 1.0), (3.0, 0.0))
MANY = 3  # coefficients beyond which dependence on them is taken to be nearly linear
PRODUCTS = 20  # polynomials in the coefficients that a last layer's weights may have
STRETCHED = 3  # the degree in a coefficient and in the variable beside it
OWN_SETTINGS, OWN_ROWS = 64, 0.25  # solved settings; their rows, as a share of the interior rows
STEPS = 3000  # at most, of one start; the clock or stagnation ends it long before


def fast(
    family: Family,
    *,
    seconds: float | None = None,
    steps: int | None = None,
    tolerance: float | None = None,
    at: Mapping[str, float] | None = None,
) -> Protocol:
    """Gauss-Newton on a small network in double precision: the default.

    Sizes follow from the number of inputs, from whether the equation is linear, and from the kind
    of device; how fast units oscillate, in linear equations of three inputs and more, from a trial
    that counts as training (lcpinn.protocol.trial). Where the domain has holes the network sees
    them (lcpinn.shape.holes). Where an output is to be found from noisy observations of others the
    network is small, so that it cannot follow the noise (lcpinn.protocol.noise).

    A start goes on until nothing is gained, further starts follow until `seconds` (50 by default)
    are over, compilation included, and the lowest held-out loss wins. With `steps` a start ends
    after so many, and without `seconds` beside it no clock does: such a run can be repeated.
    Coefficients in `at` are held there instead of being inputs.

    With a `tolerance` the training goes on until the estimated error is below it, for at most
    `seconds` (600 by default then), and starts differ in how their networks are drawn: what an
    equation needs (steeper units, frequencies that depend on the coefficients) is tried, and the
    smallest estimated error wins.
    """
    check_tolerance(tolerance)
    setting = dict(at or {})
    family = family.at(**setting)
    if tolerance is not None and seconds is None and steps is None:
        seconds = PATIENT
    choice = restrained(family, chosen(family, size_of(family), tolerance, seconds))
    began = time.perf_counter()
    network = _network(family, choice, exponential=tolerance is not None)
    network = replace(network, units=units_of(family))
    if network.activation == "sine" and not choice.carriers and can_be_tried(family):
        network = tried(family, network)
    spent = choice.spent + time.perf_counter() - began
    return Protocol(
        name="fast",
        network=network,
        weighting=Conditional() if family.weights is not None else Fixed({}),
        phases=(_optimiser(choice, seconds, steps, tolerance),),
        sampling=None,
        held_out=Sampling(4096, 256, 1, "collocation", seed=1009),
        dtype="float64",
        at=setting,
        spent=spent,
    )


def _network(family: Family, choice: Choice, *, exponential: bool) -> MLP:
    size, free = choice.size, len(family.parameters.free)
    # Total degree: with several coefficients the features of lambda multiply. Answers are nearly
    # linear in many of them, which the last layer alone can tell.
    sees = _modulating(family, choice)
    degree = {0: 1, 1: size.degree, 2: 2, 3: 2}.get(len(sees) or free, 1)
    slopes = choice.slopes
    if isinstance(slopes, tuple) and sees:
        slopes = tuple(slopes[i] for i in sees)
    if choice.stretch:
        degree = STRETCHED  # in two variables
    holes = bool(visible_holes(family))
    # Sines and cosines of a periodic coordinate vary already; steep units on top overdo it.
    slow = choice.activation == "sine" and family.domain.periodic
    return MLP(
        widths=size.widths,
        activation=choice.activation,
        parameters=FiLM(
            hidden=0,
            degree=degree,
            exponential=exponential,
            slopes=slopes,
            stretch=choice.stretch,
            beside=bool(choice.stretch),
            sees=sees,
        ),
        weights=Concat(gain=0.0),
        frequency_scale=min(size.frequency_scale, 1.5) if slow else size.frequency_scale,
        readout=_readout(free, choice),
        holes=holes,
        carriers=choice.carriers,
        sweeps=choice.sweeps,
        centres=choice.centres,
        kinks=_kinks(family),
        variables=choice.variables,
    )


def _modulating(family: Family, choice: Choice) -> tuple[int, ...]:
    """Positions of the coefficients that modulate the network; empty where all of them do.

    One that is held is constant, and polynomials of it would be parameters without a use.
    """
    prior = family.parameters
    names = choice.modulating or prior.free
    return tuple(prior.names.index(name) for name in names) if len(names) < prior.dim else ()


def _kinks(family: Family) -> tuple[float, ...]:
    """Where coefficients jump along the only coordinate, as the network sees it: in [-1, 1]."""
    if family.features is not None:
        return ()
    jumps = np.array(linearised(family).jumps)
    low, high = next(iter(family.domain.ranges.values()))
    return tuple(map(float, np.round(2 * (jumps - low) / (high - low) - 1, 12)))


def _readout(free: int, choice: Choice) -> int:
    """The degree of the last layer's weights in many coefficients: two in a regression, which has
    rows for it, unless there are so many that their products would be most of the network."""
    if free <= MANY:
        return 0
    if choice.modulating:
        return 1  # the others are loads, which solutions are linear in
    products = free * (free + 3) // 2  # polynomials of degree one and two
    return 2 if choice.between and products <= PRODUCTS else 1


def _share_of_slopes(choice: Choice) -> float:
    """Of the first layer's slopes, that which is not given by carriers: a trust region that is
    relative to all of them would let units lose the frequencies that they are given."""
    if not choice.carriers:
        return 1.0
    own = choice.size.frequency_scale**2 / 3  # of slopes that are spread evenly
    given = float(np.mean(np.square(choice.carriers)))
    given += float(np.mean(np.square(choice.sweeps))) if choice.sweeps else 0.0
    return float(np.sqrt(own / (own + given)))


def _optimiser(
    choice: Choice,
    seconds: float | None,
    steps: int | None,
    tolerance: float | None,
) -> Restarts:
    if seconds is None and steps is None:
        seconds = SECONDS
    size = choice.size
    phase: Phase = GaussNewton(
        sampling=Sampling(size.interior, size.faces, 1, "collocation"),
        acceptance=size.acceptance,
        steps=STEPS if steps is None else steps,
        solver=size.solver,
        dampings=size.dampings,
        radius=size.radius * _share_of_slopes(choice),
        patience=size.patience,
        tolerance=0.02,
        seconds=seconds,
    )
    if choice.own_solutions:
        rows = round(OWN_ROWS * size.interior / OWN_SETTINGS)
        phase = OwnSolutions(
            phase,
            OWN_SETTINGS,
            rows,
            seconds=choice.solving_seconds,
            between=choice.between,
            missing=tolerance or 1e-6,
        )
    # Where the loss may rise, a start that gains nothing for a while is not stagnating.
    decrease = 1.2 if size.acceptance.monotone else 1.0
    if tolerance is None:
        return Restarts(phase, size.starts, decrease=decrease)
    return Restarts(phase, size.starts, decrease=decrease, tolerance=tolerance, draws=DRAWS)
