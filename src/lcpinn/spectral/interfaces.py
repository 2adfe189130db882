"""Where a coefficient of a highest derivative jumps, and what is taken as continuous there.

k(x) u_xx and (k(x) u_x)_x are different equations where k jumps, though they are the same on either
side: in the first u_x is continuous, in the second the flux k u_x. How a page is written says which
it means; this says what was understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lcpinn.domain import Box
from lcpinn.jet import MultiIndex
from lcpinn.spec import short
from lcpinn.spectral.jumps import Along, common, jumps_of, settings
from lcpinn.spectral.linearisation import Linearisation, LinearisedTerms, zero

NAMED = 3  # places that are listed one by one


class Interface(NamedTuple):
    """A derivative whose coefficient jumps at places along a coordinate: none where they move."""

    output: str
    order: int
    coordinate: str
    places: tuple[float, ...]
    continuous: tuple[str, ...]

    def __str__(self) -> str:
        leading = _derivative(self.output, self.coordinate, self.order)
        text = f"the coefficient of {leading} jumps at {self._where()}: "
        text += f"{_listed(self.continuous)} are taken as continuous there"
        if len(self.continuous) == 1:
            text = text.replace(" are taken", " is taken")
        if self.order == 1:
            return text
        below = _derivative(self.output, self.coordinate, self.order - 1)
        return (
            f"{text}; if it is the flux, the coefficient times {below}, that is continuous, write "
            f"the flux form: the flux as an output of its own (outputs {self.output} and q)"
        )

    def _where(self) -> str:
        if not self.places:
            return f"a value of {self.coordinate} that depends on the coefficients"
        listed = [short(float(f"{x:.6g}")) for x in self.places]
        if len(listed) > NAMED:
            listed = [f"{len(listed)} places from {listed[0]} to {listed[-1]}"]
        return f"{self.coordinate} = {_listed(listed)}"


def interfaces(terms: LinearisedTerms) -> list[Interface]:
    """For every coordinate of a box, and every output with a derivative along it."""
    domain = terms.family.domain
    if not isinstance(domain, Box):
        return []
    return [
        found
        for coordinate in range(domain.dim)
        for output, order in enumerate(terms.highest_orders(coordinate))
        if order > 0 and (found := _interface(terms, coordinate, output, order)) is not None
    ]


def _interface(
    terms: LinearisedTerms, coordinate: int, output: int, order: int
) -> Interface | None:
    """Jumps count if there are some at every setting that is tried, through different points."""
    family = terms.family
    name, (low, high) = list(family.domain.ranges.items())[coordinate]
    every = settings(family.parameters)
    lines = np.asarray(family.domain.sobol(len(every), seed=31))
    with np.errstate(all="ignore"):
        found = [
            jumps_of(_leading(terms, setting, line, coordinate, output, order), low, high)
            for setting, line in zip(every, lines, strict=True)
        ]
    if not all(len(places) for places in found):
        return None
    continuous = [
        _derivative(o, name, below)
        for o, highest in zip(family.outputs, terms.highest_orders(coordinate), strict=True)
        for below in range(highest)
    ]
    return Interface(
        family.outputs[output], order, name, common(found, low, high), tuple(continuous)
    )


def _leading(
    terms: LinearisedTerms, setting: np.ndarray, line: np.ndarray, coordinate: int, output: int,
    order: int,
) -> Along:  # fmt: skip
    """What all terms have of an output's highest derivative, along a line through a point."""
    family = terms.family
    index: MultiIndex = tuple(order if i == coordinate else 0 for i in range(family.domain.dim))
    at = Linearisation(terms, setting, zero(len(family.outputs)))
    having = [(t, o) for t in terms.interior if index in (o := family.orders([t])).indices]

    def numbers(x: np.ndarray) -> np.ndarray:
        points = np.repeat(line[None], len(x), axis=0)
        points[:, coordinate] = x
        columns = []
        for term, orders in having:
            shape = (len(orders), 1, len(family.outputs))
            about = np.random.default_rng(5).uniform(0.5, 1.5, shape)
            series = np.repeat(about, len(x), axis=1)
            _, slopes = at.slopes(term, orders, series, points)
            columns.append(slopes[:, :, orders.indices.index(index), output])
        return np.concatenate(columns, axis=1)

    return numbers


def _derivative(output: str, coordinate: str, order: int) -> str:
    return f"{output}_{coordinate * order}" if order else output


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
