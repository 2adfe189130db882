"""`lcpinn evaluate`: errors against the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

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

if TYPE_CHECKING:
    from lcpinn.solution import Solution


@app.command()
def evaluate(
    model: ModelArgument,
    against: Annotated[
        str | None,
        typer.Option(metavar="solver", help="Compare with `lcpinn solve` instead of the truth."),
    ] = None,
    family: FamilyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Errors of a trained network against the exact or reference solution.

    Where a family has neither, `--against solver` compares with what `lcpinn solve` finds.

    \b
    lcpinn evaluate runs/helmholtz-1d-fast-seed0
    lcpinn evaluate model.safetensors --family my_pde.py:MyFamily --json
    lcpinn evaluate runs/mine --family my_pde.py:MyFamily --against solver
    """
    from lcpinn.evaluation import result as result_of
    from lcpinn.study.paper import paper_row

    with blaming(family):
        solution = open_model(model, family)
        result = result_of(solution, against=against)
    if as_json:
        paper = paper_row(solution.family, solution.protocol.name)
        print_json({**result, "paper": paper})
        return
    show_result(stdout(), solution, result, told=False)


def show_result(
    console: Console, solution: Solution, result: Mapping[str, Any], *, told: bool
) -> None:
    """The table of errors, then what else there is to know; `told`: the meter has said why."""
    if result["error"]["grid"] is not None:
        tables.show_errors(console, solution.family, result["error"], solution.protocol.name)
    else:
        console.print(
            f"\n[bold]{solution.family.name}[/] has neither an exact nor a reference solution: "
            "see the residual on unseen points and what `lcpinn certify` makes of it, or compare "
            "with --against solver.\n"
        )
    tables.fact(console, "residual", tables.validation(solution.family, result["validation"]))
    if "estimate" in result["validation"]:
        tables.fact(console, "estimate", tables.estimate(result["validation"]["estimate"]))
    if not told or not console.is_terminal:  # where the meter's lines are not beside these
        tables.fact(console, "verdict", str(solution.verdict))
    if not told and result["stopped"]:
        tables.fact(console, "stopped", "\n".join(result["stopped"]))
    tables.fact(console, "time", tables.times(result["seconds"]) + f" on {result['device']}")
