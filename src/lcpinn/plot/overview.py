"""A run at a glance: the solution, its error, and the error over lambda side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from lcpinn.plot import error as errors
from lcpinn.plot import solution as solutions
from lcpinn.plot.outline import outline
from lcpinn.plot.style import above, in_style, save, setting, symbol
from lcpinn.plot.values import choose, gap_at, known, outputs_at, planes
from lcpinn.solution import Solution


def write(solution: Solution, path: Path) -> Path:
    """The solution, its error where the truth is known, and the error over lambda."""
    return save(figure(solution), path)


@in_style
def figure(solution: Solution) -> Figure:
    family = solution.family
    over = known(family) and len(family.parameters.free) == 1
    num = 1 + known(family) + over
    drawn = Figure(figsize=(3.1 * num, 2.9))
    axes = np.atleast_1d(drawn.subplots(1, num))
    if family.domain.dim == 1:
        chosen = choose(solution, (), most=5)
        solutions.curves(axes[0], solution, chosen)
        solutions.label_curves(axes[0], solution, chosen)
        if known(family):
            errors.curves(axes[1], solution, chosen)
    else:
        plane, lam = planes(family)[0], choose(solution, (), most=1)[0]
        name = symbol(family.outputs[0])
        solutions.field(axes[0], plane, outputs_at(solution, plane.points, lam)[:, 0], name)
        outline(axes[0], family, plane, lam)
        if known(family):
            gap = gap_at(solution, plane.points, lam)[:, 0]
            errors.field(axes[1], plane, gap, f"absolute error of {name}")
            outline(axes[1], family, plane, lam)
        if family.parameters.dim:
            axes[0].set_title(setting(family.parameters.names, lam))
    if over:
        errors.over_lambda(axes[-1], solution)
        above(axes[-1], 2)
    how = " at ".join(filter(None, (solution.protocol.name, solution.protocol.setting)))
    drawn.suptitle(f"{family.name}, {how} ({solution.num_params} parameters)", fontsize=10)
    return drawn
