"""The numbers that the paper reports (paper.json), for a family and for one lambda."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lcpinn.families import FAMILIES
from lcpinn.family import Family
from lcpinn.files import read_json


def paper_row(family: Family) -> dict[str, Any] | None:
    """The paper's numbers for this family: its mean, and the error at each lambda where given."""
    if family.name not in FAMILIES:
        return None
    ours = FAMILIES[family.name]()
    if type(family) is not type(ours) or family.settings != ours.settings:
        return None
    tables = read_json(Path(__file__).parent / "paper.json")["tables"]
    row = tables[family.name]["rows"]["lc-pinn"]
    found = {key: row[key] for key in ("mean", "std", "wall_minutes") if key in row}
    at: list[dict[str, float]] = []
    for parameter in family.parameters.names:
        per = tables.get(f"{family.name}-per-{parameter}", {"rows": {}})["rows"]
        at += [
            {parameter: float(value), "error": cells["lc-pinn"][0], "std": cells["lc-pinn"][1]}
            for value, cells in per.items()
            if value != "mean"
        ]
    return {**found, "grid": at}


def paper_at(paper: Mapping[str, Any] | None, lam: Mapping[str, float]) -> tuple[float, ...]:
    """The paper's error at this lambda, where it gives one."""
    for row in paper["grid"] if paper else ():
        if all(math.isclose(lam[n], v) for n, v in row.items() if n not in ("error", "std")):
            return row["error"], row["std"]
    return ()
