"""`lcpinn solve`: the solution at one setting, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from lcpinn.cli.common import FamilyArgument, JsonOption, app, blaming, print_json, say
from lcpinn.cli.predict import deliver
from lcpinn.cli.support.columns import assignments, broadcast, grid_points, write
from lcpinn.errors import LcpinnError
from lcpinn.locate import find_family


@app.command()
def solve(
    family: FamilyArgument,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Parameters, and coordinates to hold fixed."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option(metavar="NAME=COUNT,...", help="Equispaced points per coordinate.")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Relative error to reach.")] = 1e-8,
    start: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A trained model to begin with.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="out.csv or out.npz; default: CSV on stdout.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Solve a family at one setting of its coefficients: no training, no network.

    Chebyshev and Fourier expansions whose resolution grows until two agree, or a march where there
    is a front. Exit code 1 if the tolerance is not reached; what is not resolved gets no numbers.

    \b
    lcpinn solve helmholtz-1d --at k=3.25 -o u.csv
    lcpinn solve my_pde.py:MyFamily --at a=2 --grid x=200,t=50 --tolerance 1e-10
    """
    from lcpinn.solution import load
    from lcpinn.spectral import solve as solve_at

    if out is not None and out.suffix not in (".csv", ".npz"):
        raise LcpinnError(f"-o {out}: write .csv or .npz")
    with blaming(family):
        page = find_family(family)
        fixed = assignments("--at", at or ())
        columns = grid_points(page, fixed, assignments("--grid", [] if grid is None else [grid]))
        setting = {name: float(columns[name]) for name in page.parameters.names}
        trained = None if start is None else load(start, page)
        solved = solve_at(page, tolerance=tolerance, start=trained, **setting)
        values = solved(**{name: columns[name] for name in page.domain.names})
    outputs = values if isinstance(values, dict) else {page.outputs[0]: values}
    every = broadcast({**columns, **outputs})
    if as_json:
        facts = {"error": solved.error, "reason": solved.reason, "resolution": solved.resolution}
        if out is not None:
            write(every, out)
            print_json({**facts, "out": str(out)})
        else:
            print_json({**facts, "values": {n: np.ravel(v).tolist() for n, v in every.items()}})
    else:
        deliver(every, out, as_json=False)
        sizes = ", ".join(f"{n} {v}" for n, v in solved.resolution.items())
        why = f"; {solved.reason}" if solved.reason else ""
        say(f"estimated error {solved.error:.1e} ({sizes}){why}")
    if solved.error > tolerance:
        raise typer.Exit(1)
