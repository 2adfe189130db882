"""What every method of the paper gets for a family: backbone, points, budget, precision.

One place for all of them, so that they are compared on equal terms. Where the paper's text is
silent, or differs from the code that its authors published, it is the code's setting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.family import Family
from lcpinn.network import MLP, Concat, FiLM
from lcpinn.optimiser import LBFGS, Adam, RevertOnWorse
from lcpinn.protocol.reference_data import ReferenceData
from lcpinn.sampling import Sampling

SEED = 42  # of the points, which all seeds and methods share
CALL = 20  # iterations of L-BFGS in a call: what the paper counts are calls,
CALL_EVALUATIONS = 25  # of which each may evaluate the loss so often


@dataclass(frozen=True)
class Settings:
    """Points for each draw of lambda and the budget; what the paper's ablations do not change."""

    interior: int = 2000
    face: int = 100
    adam: int = 50_000
    lbfgs: int = 1_500 * CALL
    sa_budget: tuple[int, int] = (10_000, 5_000)  # Adam and L-BFGS of SA-PINN
    widths: tuple[int, ...] = (64, 64, 64, 64)
    dtype: str = "float32"
    rule: str = "frozen"
    columns: tuple[str, ...] = ()
    history: int = 50  # pairs of L-BFGS,
    lambdas: int = 16  # the settings of its objective,
    redraw: int = 100 * CALL  # and after how many iterations those are drawn anew
    grid: int = 20  # settings of the mean error that the authors go back by
    data: ReferenceData | None = None

    def sampling(self, num_lambda: int) -> Sampling:
        points = (self.interior, self.face, num_lambda, self.rule, SEED)
        return Sampling(*points, columns=self.columns)

    def network(self) -> MLP:
        """LC-PINN's: coefficients by FiLM, loss weights beside the coordinates."""
        way = FiLM(hidden=64, xavier="normal", gain=0.01)
        return MLP(self.widths, parameters=way, weights=Concat(), xavier="normal", raw=True)

    def descent(self, steps: int | None = None, constant: bool = False) -> Adam:
        """Adam, its rate along a cosine to zero, or constant."""
        steps = self.adam if steps is None else steps
        adam = Adam(steps=steps, block=min(250, steps))
        return replace(adam, final_rate=adam.rate if constant else 0.0)

    def finish(self) -> tuple[RevertOnWorse, ...]:
        """L-BFGS on lambdas that stay for a while, kept only if it does no harm."""
        if not self.lbfgs:
            return ()
        phase = replace(self.line_searches(self.lbfgs, block=100), redraw=self.redraw)
        return (RevertOnWorse(phase, self.grid if self.data else 0),)

    def line_searches(self, steps: int, block: int) -> LBFGS:
        """So many iterations of L-BFGS, within what as many calls may evaluate."""
        evaluations = -(-steps // CALL) * CALL_EVALUATIONS
        return LBFGS(steps, self.history, evaluations, block=min(block, steps))

    def phases(self) -> tuple[Any, ...]:
        return (self.descent(), *self.finish())


_SETTINGS: dict[str, Settings] = {
    "burgers": Settings(face=200, lbfgs=0, columns=("x", "t")),
    "buckley-leverett": Settings(face=200, lbfgs=0),
    "helmholtz-1d": Settings(),
    "helmholtz-2d": Settings(4096, 400, 25_000, sa_budget=(5_000, 2_500)),
    "helmholtz-3d": Settings(8192, 600, 25_000, sa_budget=(5_000, 2_500), grid=10),
    "schrodinger-1d": Settings(1024, 64, sa_budget=(5_000, 2_500)),
}
_WAVENUMBERS = {"k": (1.0, 3.25, 5.5, 7.75, 10.0)}
# Values at each setting or time, then which; on Burgers' and Buckley and Leverett's grids.
_DATA: dict[str, tuple[int, dict[str, Any]]] = {
    "burgers": (50, {"times": (0.25, 0.5, 0.75, 1.0), "cells": 512}),
    "buckley-leverett": (40, {"times": (0.1, 0.2, 0.3, 0.4, 0.5), "cells": 1000}),
    "helmholtz-1d": (40, {"settings": _WAVENUMBERS}),
    "helmholtz-2d": (100, {"settings": _WAVENUMBERS}),
    "helmholtz-3d": (120, {"settings": {"k": (1.0, 2.0, 3.0, 4.0, 5.0)}}),
    "schrodinger-1d": (40, {"settings": {"alpha": (0.5, 2.875, 5.25, 7.625, 10.0)}}),
}


def settings_of_paper(family: Family, steps: int | None = None, *, data: bool = False) -> Settings:
    """What every method gets for this family; `steps` of Adam shorten all phases in proportion.

    With `data` the fixed values of the reference that the authors' code trains on, too.
    """
    given = _SETTINGS.get(family.name, Settings())
    if data:
        given = replace(given, data=_data(family, given))
    if steps is None:
        return given
    shorter = lambda num: num * steps // given.adam
    return replace(given, adam=steps, lbfgs=shorter(given.lbfgs))


def _data(family: Family, given: Settings) -> ReferenceData:
    if family.name not in _DATA:
        known = ", ".join(_DATA)
        raise LcpinnError(
            f"the paper's data are values of its own families, {known}: not of {family.name}"
        )
    each, where = _DATA[family.name]
    return ReferenceData(given.sampling(1), each, **where)
