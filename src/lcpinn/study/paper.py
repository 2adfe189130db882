"""The numbers that the paper reports (paper.json), for a family and for one lambda."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from lcpinn.families import FAMILIES, built
from lcpinn.family import Family

OURS = ("fast", "paper", "paper-data", "smoke")  # protocols of the paper's own method, LC-PINN


@cache
def numbers() -> dict[str, Any]:
    """All of them, as the file has them."""
    file = resources.files("lcpinn.study") / "paper.json"
    return json.loads(file.read_text(encoding="utf-8"))


def paper_row(family: Family, protocol: str = "paper") -> dict[str, Any] | None:
    """The paper's numbers for a family by the method that a protocol trains, if it has any.

    They are its mean, and the error at each lambda where given.
    """
    if family.name not in FAMILIES:
        return None
    ours = built(family.name)
    if type(family) is not type(ours) or family.settings != ours.settings:
        return None
    tables = numbers()["tables"]
    method = "lc-pinn" if protocol in OURS else protocol.removesuffix("-data")
    row = tables[family.name]["rows"].get(method)
    if row is None:
        return None
    reported = {"method": method, "seeds": 4}  # unless the row says otherwise
    reported |= {key: row[key] for key in ("mean", "std", "wall_minutes", "seeds") if key in row}
    at: list[dict[str, float]] = []
    for parameter in family.parameters.names:
        per = tables.get(f"{family.name}-per-{parameter}", {"rows": {}})["rows"]
        at += [
            {parameter: float(value), "error": cells[method][0], "std": cells[method][1]}
            for value, cells in per.items()
            if value != "mean" and method in cells
        ]
    return {**reported, "grid": at}


def paper_at(paper: Mapping[str, Any] | None, lam: Mapping[str, float]) -> tuple[float, ...]:
    """The paper's error at this lambda, where it gives one."""
    for row in paper["grid"] if paper else ():
        if all(math.isclose(lam[n], v) for n, v in row.items() if n not in ("error", "std")):
            return row["error"], row["std"]
    return ()
