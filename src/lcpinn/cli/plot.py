"""`lcpinn plot`: pictures of a solution, its error and its training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from lcpinn.errors import LcpinnError

if TYPE_CHECKING:
    from lcpinn.solution import Solution


@app.command()
def plot(
    model: ModelArgument,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="WHAT", help="solution, error, loss, spread; default: all."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE|DIR",
            help="One picture as .png, .svg or .pdf, or a directory for PNG and SVG of each.",
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Where to draw. Given several times: each."),
    ] = None,
    corrected: Annotated[
        bool,
        typer.Option("--corrected", help="Solution and error with the estimated error taken away."),
    ] = False,
    family: FamilyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a solution, its error, its training and its spread, as for a paper.

    \b
    solution  curves or fields over lambda, and slices at several times
    error     against the truth, over the domain and over lambda
    loss      of the training, from the run's metrics.jsonl
    spread    across loss weights, or of the error across coefficients

    \b
    lcpinn plot runs/demo
    lcpinn plot runs/demo error -o error.svg
    lcpinn plot runs/demo solution --at k=2 --at k=7.5 -o u.png
    lcpinn plot runs/demo error --at k=3.25 --corrected -o error.png
    """
    from lcpinn import plot as pictures  # Matplotlib takes half a second to load

    with blaming(family):
        solution = open_model(model, family)
        run = _run_directory(model)
        wanted = _wanted(solution, run, what or [], corrected)
        files = _files(wanted, out, model)
        settings = [assignments("--at", [text]) for text in at or ()]
        written = []
        for name, paths in files.items():
            figure = pictures.draw(name, solution, at=settings, run=run, corrected=corrected)
            written += [pictures.save(figure, path) for path in paths]
    if as_json:
        print_json({"family": solution.family.name, "files": [str(path) for path in written]})
        return
    for path in written:
        stdout().print(str(path), soft_wrap=True, markup=False)


def _run_directory(model: Path) -> Path | None:
    """Where the metrics of a model are: in its run's directory, if it is in one."""
    if model.is_dir():
        return model
    return model.parent if (model.parent / "run.json").exists() else None


def _wanted(solution: Solution, run: Path | None, what: list[str], corrected: bool) -> list[str]:
    """The pictures to draw: those asked for, if they can be drawn, or all that can."""
    from lcpinn import plot as pictures

    for name in what:
        if name not in pictures.PICTURES:
            known = ", ".join(pictures.PICTURES)
            raise LcpinnError(f"there is no picture {name!r}; there are {known}")
        reason = pictures.reason_against(name, solution, run)
        if reason is not None:
            raise LcpinnError(f"no picture of the {name}: {reason}")
    applying = pictures.applying(solution, run)
    if corrected:
        applying = tuple(name for name in applying if name in pictures.CORRECTED)
    return list(dict.fromkeys(what)) or list(applying)


def _files(wanted: list[str], out: Path | None, model: Path) -> dict[str, list[Path]]:
    """Where each picture goes: into one file, or as PNG and SVG into a directory."""
    from lcpinn.plot import FORMATS

    if out is not None and out.suffix and not out.is_dir():
        if out.suffix not in FORMATS:
            raise LcpinnError(f"-o {out}: write {', '.join(FORMATS)}, or name a directory")
        if len(wanted) > 1:
            raise LcpinnError(f"-o {out} is one file for {len(wanted)} pictures; name a directory")
        return {wanted[0]: [out]}
    home = out or (model if model.is_dir() else model.parent) / "pictures"
    return {name: [home / f"{name}.png", home / f"{name}.svg"] for name in wanted}
