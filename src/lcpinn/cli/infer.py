"""`lcpinn infer`: coefficients from observations."""

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
from lcpinn.cli.support import tables
from lcpinn.cli.support.columns import assignments, read_observations
from lcpinn.errors import LcpinnError


@app.command()
def infer(
    model: ModelArgument,
    data: Annotated[
        Path, typer.Argument(metavar="DATA.csv", help="Coordinates and outputs, in named columns.")
    ],
    family: FamilyOption = None,
    sigma: Annotated[
        str | None,
        typer.Option(metavar="S", help="The noise, or NAME=S,... by output; default: estimated."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Coefficients that are known, or a coordinate."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="PNG", help="Data, fit and misfit.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the coefficients that explain observations, through a trained network.

    The network stays as it is. An empty cell is an output that was not
    observed; a coefficient that is a column is known. Standard errors are of
    the noise; warnings say where the data do not determine a coefficient.

    \b
    lcpinn infer runs/demo sensors.csv
    lcpinn infer runs/demo sensors.csv --sigma 0.01 -o fit.png
    lcpinn infer runs/spiral orbit.csv --family spiral.py:Spiral --at b=0.3
    """
    with blaming(family):
        solution = open_model(model, family)
        fixed = assignments("--at", at or ())
        columns = read_observations(data, solution.family, fixed)
        held = {n: v for n, v in fixed.items() if n in solution.family.parameters.names}
        columns = {name: column for name, column in columns.items() if name not in held}
        fitted = solution.fit(columns, at=held, sigma=_noise(sigma))
    if picture is not None:
        from lcpinn.plot import fit as pictured  # Matplotlib takes half a second to load

        pictured.write(solution, columns, fitted, picture)
    if as_json:
        print_json({"family": solution.family.name, **fitted.to_json()})
        return
    console = stdout()
    tables.headline(console, solution.family.name, solution.family)
    tables.show_fit(console, fitted)
    if picture is not None:
        tables.fact(console, "picture", str(picture))


def _noise(text: str | None) -> float | dict[str, float] | None:
    """`0.01`, or `u=0.01,v=0.2`."""
    if text is None:
        return None
    if "=" in text:
        return assignments("--sigma", [text])
    try:
        return float(text)
    except ValueError:
        raise LcpinnError(f"--sigma: {text!r} is not a number") from None
