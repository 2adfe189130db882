"""`lcpinn export`: a solution for programs without JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
from lcpinn.cli.support.columns import assignments


@app.command()
def export(
    model: ModelArgument,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="FILE", help="A name in .onnx, .npz, .vtu or .nc."),
    ],
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For .vtu and .nc: parameters, and coordinates."),
    ] = None,
    family: FamilyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a trained network for programs without JAX.

    An ONNX graph is the whole solution, in double precision, checked against it before it is
    written; it needs the extra `onnx`. A .npz file has the network's arrays with a description,
    which a page of NumPy reads: see docs/export.md. A .vtu file (for ParaView) and a .nc file
    (netCDF) have the solution's values on a grid, at coefficients; they need the extra `data`.

    \b
    lcpinn export runs/demo -o helmholtz.onnx
    lcpinn export runs/demo -o helmholtz.npz
    lcpinn export runs/pipes -o u.vtu --at r=0.3,b=1
    """
    from lcpinn import export as exports

    with blaming(family):
        solution = open_model(model, family)
        written = exports.export(solution, out, assignments("--at", at or ()))
    if as_json:
        size = written.stat().st_size
        print_json({"family": solution.family.name, "out": str(written), "bytes": size})
    else:
        stdout().print(str(written), soft_wrap=True, markup=False)
