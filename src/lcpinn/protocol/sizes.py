"""How large `fast` makes a network and its rows: by its inputs, the equation and the device.

The table is a first guess, made by measurement: which size an equation needs shows in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax

from lcpinn.family import Family
from lcpinn.optimiser.acceptance import Acceptance, GainRatio, ModelDriven

_ACCEPTANCE = GainRatio()


@dataclass(frozen=True)
class Size:
    """A network, its rows, and how the optimiser takes its steps."""

    widths: tuple[int, ...]
    frequency_scale: float
    interior: int
    faces: int
    solver: str
    dampings: int
    acceptance: Acceptance = _ACCEPTANCE
    degree: int = 5
    starts: int = 1
    patience: int = 6
    radius: float = 0.1


# By the number of coordinates and coefficients together. Solutions of linear equations are smooth
# and sines reach the last digits; nonlinear ones build fronts, which tanh meets with fewer units.
# Smooth ones are explored by the model loss: steps that go far at a high loss end orders of
# magnitude lower, with two inputs where rounding begins. The fewer the inputs, the smaller the
# trust region in which the model holds. Fronts do not bear it; there two starts are tried.
# On accelerators the floor of the factorisation decides: two-level Cholesky, or QR with few rows.
_EXPLORE = ModelDriven()
_SMOOTH_CPU = {
    2: Size((20, 20), 8.0, 2600, 200, "qr", 13, _EXPLORE, patience=8, radius=0.03),
    3: Size((28, 28), 5.0, 6000, 400, "qr", 5, _EXPLORE, patience=8),
    4: Size((28, 28), 4.0, 5000, 600, "cholesky", 5, _EXPLORE, patience=8),
}
_FRONTS_CPU = {
    2: Size((16, 16, 16), 3.0, 3000, 400, "cholesky", 9, starts=2),
    3: Size((16, 16, 16), 3.0, 3600, 600, "cholesky", 5),
    4: Size((16, 16, 16), 3.0, 3600, 800, "cholesky", 5),
}
_SMOOTH_ACCELERATOR = {
    2: Size((20, 20), 8.0, 2600, 200, "qr", 13, _EXPLORE, patience=8, radius=0.03),
    3: Size((48, 48), 5.0, 20_000, 1500, "two-level", 9, _EXPLORE, 7, patience=8, radius=0.03),
    4: Size((64, 64), 4.0, 28_000, 3000, "two-level", 9, _EXPLORE, 7, patience=8, radius=0.03),
}
_FRONTS_ACCELERATOR = {
    2: Size((40, 40, 40), 3.0, 20_000, 1500, "cholesky", 9, starts=2),
    3: Size((40, 40, 40), 3.0, 20_000, 2000, "cholesky", 9),
    4: Size((40, 40, 40), 3.0, 20_000, 3000, "cholesky", 9),
}


def size_of(family: Family, *, smooth: bool | None = None) -> Size:
    """The entry for a family on the device that JAX computes on.

    Whether solutions are `smooth` is guessed from the equation where it is not known.
    """
    smooth = is_smooth(family) if smooth is None else smooth
    if jax.default_backend() == "cpu":
        table = _SMOOTH_CPU if smooth else _FRONTS_CPU
    else:
        table = _SMOOTH_ACCELERATOR if smooth else _FRONTS_ACCELERATOR
    size = table[min(max(family.domain.dim + len(family.parameters.free), 2), 4)]
    # A point of a system has a row for each equation, and the network hardly grows with outputs.
    fewer = round(size.interior / len(family.outputs) ** 0.5)
    return replace(size, interior=fewer)


def is_smooth(family: Family) -> bool:
    """Linear equations, and ordinary ones: a front needs a second coordinate to move along."""
    return family.domain.dim == 1 or family.is_linear(inside=True)
