"""A function that a page leaves free: it can be added to any solution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from lcpinn.family import Family
from lcpinn.plot.style import DOUBLE, colour_bar, image, in_style, line, linear_scale, save, symbol
from lcpinn.quadrature import tensor
from lcpinn.spectral.determinacy import Determinacy
from lcpinn.spectral.linearisation import zeroth


def free_function(family: Family, known: Determinacy, path: Path) -> Path:
    """The smoothest one, output by output; beyond two coordinates in the middle of the others."""
    return save(figure(family, known), path)


@in_style
def figure(family: Family, known: Determinacy) -> Figure:
    assert known.null_space is not None
    names, outputs = family.domain.names, known.outputs
    shown = names[:2]
    axes = [
        np.linspace(*ends, 101) if name in shown else np.array([sum(ends) / 2])
        for name, ends in family.domain.ranges.items()
    ]
    basis, function = known.null_space.basis, known.null_space.coefficients[0]
    values = basis.evaluate(function, tensor(axes), zeroth(len(names)))[0]
    values = values / np.abs(values).max()
    drawn = Figure(figsize=(0.75 * DOUBLE, 2.8))
    panels = np.atleast_1d(drawn.subplots(1, len(outputs)))
    for axis, output in zip(panels, outputs, strict=True):
        one = values[:, family.outputs.index(output)]
        axis.set(title=f"free in {symbol(output)}", xlabel=symbol(shown[0]))
        if len(shown) == 1:
            axis.plot(axes[0], one, **line(0))
            continue
        field = one.reshape(101, 101)
        edges = (*family.domain.ranges[shown[0]], *family.domain.ranges[shown[1]])
        colour_bar(image(axis, field, edges, *linear_scale(field)), axis)
        axis.set(ylabel=symbol(shown[1]))
    return drawn
