"""`lcpinn certify`: errors estimated without the truth."""

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


@app.command()
def certify(
    model: ModelArgument,
    family: FamilyOption = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0, metavar="E", help="Fail above this relative error.")
    ] = None,
    settings: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Values of each coefficient.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="PNG", help="Error against lambda.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate a network's error over all lambda, without knowing the true solution.

    The error satisfies the linearised equation with the residual on its right-hand side, which is
    solved at every setting. Exits with 1 where a tolerance is given and not kept.

    \b
    lcpinn certify runs/demo
    lcpinn certify runs/demo --tolerance 1e-6 -o certificate.png
    """
    from lcpinn.evaluation import true_errors

    with blaming(family):
        solution = open_model(model, family)
        report = solution.certificate(settings, tolerance)
        truth = true_errors(solution, [list(row["at"].values()) for row in report["settings"]])
    if picture is not None:
        from lcpinn.plot import certificate as pictured  # Matplotlib takes half a second to load

        pictured.write(solution, report, truth, picture)
    if as_json:
        print_json({"family": solution.family.name, **report, "true_errors": truth})
    else:
        console = stdout()
        tables.headline(console, solution.family.name, solution.family)
        tables.show_certificate(console, solution.family, report, truth)
        if picture is not None:
            tables.fact(console, "picture", str(picture))
    if report["passed"] is False:
        raise typer.Exit(1)
