"""The default: Gauss-Newton on a small network in double precision."""

from __future__ import annotations

from collections.abc import Mapping

from lcpinn.family import Family
from lcpinn.network import MLP, Concat, FiLM
from lcpinn.optimiser import GaussNewton, Restarts
from lcpinn.protocol.sizes import Size, is_smooth, size_of
from lcpinn.protocol.value import Protocol
from lcpinn.sampling import Sampling
from lcpinn.verdict import check_tolerance
from lcpinn.weighting import Conditional, Fixed

SECONDS = 50.0
PATIENT = 600.0  # seconds at most, where a tolerance is asked for
# How further starts draw the network, in turns, where the table's guess is not good enough: factors
# of the frequency scale, and slopes in lambda. Units whose frequency or steepness depends on the
# coefficients from the start, steeper and flatter ones: the estimated error decides between them.
DRAWS = ((1.0, 1.0), (3.0, 1.0), (1.0, 2.5), (0.5, 1.0), (3.0, 0.0))
MANY = 3  # coefficients beyond which dependence on them is taken to be nearly linear
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
    of device. A start goes on until nothing is gained, further starts follow until `seconds` (50 by
    default) are over, compilation included, and the lowest held-out loss wins. With `steps` a start
    ends after so many, and without `seconds` beside it no clock does: such a run can be repeated.
    Coefficients in `at` are held there instead of being inputs.

    With a `tolerance` the training goes on until the estimated error is below it, for at most
    `seconds` (600 by default then), and starts differ in how their networks are drawn: what an
    equation needs (steeper units, frequencies that depend on the coefficients) is tried, and the
    smallest estimated error wins.
    """
    check_tolerance(tolerance)
    setting = dict(at or {})
    family = family.at(**setting)
    smooth, size = is_smooth(family), size_of(family)
    network = _network(family, size, smooth, exponential=tolerance is not None)
    return Protocol(
        name="fast",
        network=network,
        weighting=Conditional() if family.weights is not None else Fixed({}),
        phases=(_optimiser(size, seconds, steps, tolerance),),
        sampling=None,
        held_out=Sampling(4096, 256, 1, "collocation", seed=1009),
        dtype="float64",
        at=setting,
    )


def _network(family: Family, size: Size, smooth: bool, *, exponential: bool) -> MLP:
    free = len(family.parameters.free)
    # Total degree: with several coefficients the features of lambda multiply. Answers are nearly
    # linear in many of them, which the last layer alone can tell.
    degree = {0: 1, 1: size.degree, 2: 2, 3: 2}.get(free, 1)
    # Sines and cosines of a periodic coordinate vary already; steep units on top overdo it.
    periodic = smooth and family.domain.periodic
    return MLP(
        widths=size.widths,
        activation="sine" if smooth else "tanh",
        parameters=FiLM(hidden=0, degree=degree, exponential=exponential),
        weights=Concat(gain=0.0),
        frequency_scale=min(size.frequency_scale, 1.5) if periodic else size.frequency_scale,
        readout=1 if free > MANY else 0,
    )


def _optimiser(
    size: Size,
    seconds: float | None,
    steps: int | None,
    tolerance: float | None,
) -> Restarts:
    if seconds is None and steps is None:
        seconds = SECONDS if tolerance is None else PATIENT
    phase = GaussNewton(
        sampling=Sampling(size.interior, size.faces, 1, "collocation"),
        acceptance=size.acceptance,
        steps=STEPS if steps is None else steps,
        solver=size.solver,
        dampings=size.dampings,
        radius=size.radius,
        patience=size.patience,
        tolerance=0.02,
        seconds=seconds,
    )
    # Where the loss may rise, a start that gains nothing for a while is not stagnating.
    gain = 1.2 if size.acceptance.monotone else 1.0
    if tolerance is None:
        return Restarts(phase, size.starts, gain=gain)
    return Restarts(phase, size.starts, gain=gain, tolerance=tolerance, draws=DRAWS)
