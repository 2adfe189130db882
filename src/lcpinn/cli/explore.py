"""`lcpinn explore`: a trained network as one HTML file."""

from __future__ import annotations

import webbrowser
from datetime import UTC, datetime
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
    say,
    stdout,
)
from lcpinn.cli.support import tables
from lcpinn.errors import LcpinnError


@app.command()
def explore(
    model: ModelArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="HTML", help="Default: explore.html beside the model."),
    ] = None,
    family: FamilyOption = None,
    settings: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Values of each coefficient to estimate errors at; 0: none."
        ),
    ] = None,
    corrected: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Values of each coefficient to show the corrected solution at, too.",
        ),
    ] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file in which the network runs: sliders for every coefficient.

    It needs no server and no network connection, only a browser, and can be sent to anyone. The
    error is estimated over all lambda as `lcpinn certify` does, which takes most of the time. With
    --corrected 5 the solution without its estimated error is in the page at five values of each
    coefficient, as values on a grid.

    \b
    lcpinn explore runs/demo --open
    lcpinn explore runs/demo --corrected 5
    lcpinn explore model.safetensors -o page.html --family my_pde.py:MyFamily
    """
    from lcpinn.explorer import explore as write_page

    path = out or (model / "explore.html" if model.is_dir() else model.with_suffix(".html"))
    if path.is_dir():
        raise LcpinnError(f"-o {path}: that is a directory; name a file in it")
    with blaming(family):
        solution = open_model(model, family)
        if settings != 0 and not as_json:
            say("estimating the error over lambda (--settings N: at how many values)")
        write_page(solution, path, settings, {"Model": _date(model)}, corrected)
    size = path.stat().st_size
    if as_json:
        print_json({"family": solution.family.name, "out": str(path), "bytes": size})
    else:
        console = stdout()
        tables.headline(console, solution.family.name, solution.family)
        tables.fact(console, "page", f"{path} ({size / 1e6:.1f} MB)", wrap=False)
    if show:
        webbrowser.open(path.resolve().as_uri())


def _date(model: Path) -> str:
    """When the model was written."""
    file = model / "model.safetensors" if model.is_dir() else model
    return f"{datetime.fromtimestamp(file.stat().st_mtime, UTC):%Y-%m-%d}"
