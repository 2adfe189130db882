"""`lcpinn predict`: values at any points and parameters."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from lcpinn.cli.common import (
    FamilyOption,
    JsonOption,
    ModelArgument,
    app,
    blaming,
    open_model,
    print_json,
    stdout,
)
from lcpinn.cli.support.columns import (
    assignments,
    broadcast,
    grid_points,
    read_points,
    to_csv,
    write,
)
from lcpinn.errors import LcpinnError


@app.command()
def predict(
    model: ModelArgument,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Parameters, and coordinates to hold fixed."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option(metavar="NAME=COUNT,...", help="Equispaced points per coordinate.")
    ] = None,
    points: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Points, in columns with names.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="TERM=VALUE,...", help="One weighting of the loss, not the mean."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="out.csv or out.npz; default: CSV on stdout.")
    ] = None,
    family: FamilyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Values of a trained network at any points and parameters.

    \b
    lcpinn predict runs/helmholtz-1d-fast-seed0 --at k=3.25
    lcpinn predict model.safetensors --at k=3.25 --grid x=200,y=50 -o u.npz
    lcpinn predict model.safetensors --points where.csv -o u.csv
    lcpinn predict runs/burgers-fast-seed0 --at t=0.5 --grid x=400
    """
    if out is not None and out.suffix not in (".csv", ".npz"):
        raise LcpinnError(f"-o {out}: write .csv or .npz")
    if grid is not None and points is not None:
        raise LcpinnError("give either --grid or --points, not both")
    with blaming(family):
        solution = open_model(model, family)
        fixed = assignments("--at", at or ())
        if points is not None:
            columns = read_points(points, solution.family, fixed)
        else:
            columns = grid_points(solution.family, fixed, assignments("--grid", _listed(grid)))
        weighting = None if weights is None else assignments("--weights", [weights])
        values = solution(weights=weighting, **columns)
    outputs = values if isinstance(values, dict) else {solution.family.outputs[0]: values}
    deliver(broadcast({**columns, **outputs}), out, as_json)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [text]


def deliver(columns: Mapping[str, np.ndarray], out: Path | None, as_json: bool) -> None:
    """Columns to a file or to stdout."""
    flat = {name: np.ravel(values) for name, values in columns.items()}
    num = len(next(iter(flat.values())))
    if out is None and as_json:
        print_json({name: values.tolist() for name, values in flat.items()})
        return
    if out is None:
        sys.stdout.write(to_csv(flat))
        return
    write(columns, out)
    if as_json:
        print_json({"out": str(out), "rows": num, "columns": list(columns)})
    else:
        stdout().print(f"{out}: {num} rows of {', '.join(columns)}", soft_wrap=True, markup=False)
