"""Values of a reference as observations: what the authors' code trains on beside the residuals.

Nothing but the reproduction of the paper's numbers uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.family import Data, Family
from lcpinn.sampling import Sampling, draws_after
from lcpinn.spec import spec


@spec
class ReferenceData:
    """`each` values at every one of some settings of a coefficient, or at every one of some times.

    At settings they lie at random points of the domain, at times on a grid along x of `cells`: its
    left ends, or the centres where the family has a reference of the paper's own. All come from
    the generator of the frozen points of `sampling`, where that ends.
    """

    sampling: Sampling
    each: int
    settings: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    times: tuple[float, ...] = ()
    cells: int = 0

    def of(self, family: Family, at: Mapping[str, float]) -> Data | None:
        """The observations; of a family held at one setting those at that setting, if any."""
        if family.exact is None and family.reference is None:
            raise LcpinnError(f"reference data: {family.name} has neither exact nor reference")
        if self.times:
            return self._at_times(family)
        ((name, values),) = self.settings.items()
        columns = self._at_settings(family, name, values)
        if name not in at:
            return Data(**columns)
        own = np.isclose(columns.pop(name), at[name])
        return Data(**{key: column[own] for key, column in columns.items()}) if own.any() else None

    def _at_settings(
        self, family: Family, name: str, values: tuple[float, ...]
    ) -> dict[str, np.ndarray]:
        rng, domain = draws_after(family, self.sampling), family.domain
        parts = []
        for value in values:
            points = domain.place(rng.random((self.each, domain.dim)), np.zeros((self.each, 0)))
            truth = family.truth(points, np.array([value]))
            assert truth is not None
            parts.append(np.column_stack([points, np.full(self.each, value), truth]))
        names = (*domain.names, name, *family.outputs)
        return dict(zip(names, np.concatenate(parts).T, strict=True))

    def _at_times(self, family: Family) -> Data:
        rng = draws_after(family, self.sampling)
        own = getattr(family, "paper_reference", None)
        low, high = family.domain.ranges["x"]
        cell = (high - low) / self.cells
        centres = low + cell * (np.arange(self.cells) + (0.0 if own is None else 0.5))
        t, x = [], []
        for time in self.times:
            # Burgers' points may repeat, those of cells may not.
            chosen = rng.choice(self.cells, self.each, replace=own is None)
            t.append(np.full(self.each, time))
            x.append(centres[chosen])
        t, x = np.concatenate(t), np.concatenate(x)
        order = {"t": t, "x": x}
        points = np.column_stack([order[name] for name in family.domain.names])
        truth = family.truth(points, np.zeros(0)) if own is None else own(t, x)[:, None]
        assert truth is not None
        return Data(**order, **{family.outputs[0]: truth[:, 0]})
