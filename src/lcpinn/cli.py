"""The command line: families, train, evaluate, predict, check."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import shlex
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import jax
import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from lcpinn import __version__
from lcpinn import protocol as protocols
from lcpinn.check import Finding
from lcpinn.check import check as run_checks
from lcpinn.columns import assignments, broadcast, grid_points, read_points, to_csv, write
from lcpinn.compilation import enable_cache
from lcpinn.errors import LcpinnError, OutsidePriorWarning
from lcpinn.evaluation import result as result_of
from lcpinn.families import FAMILIES
from lcpinn.family import Family
from lcpinn.files import read_json
from lcpinn.locate import find_family, in_users_file, split
from lcpinn.paper import paper_at, paper_row
from lcpinn.protocol import Protocol
from lcpinn.rundir import OURS
from lcpinn.solution import Solution, load
from lcpinn.train import train as run_training

MOST_ROWS = 20  # of a result's table; result.json has them all


# -- What every command shares -------------------------------------------------------------------


class _Group(TyperGroup):
    """Turns the library's errors into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with _warnings_in_one_line():
                return super().invoke(ctx)
        except LcpinnError as error:
            _fail(str(error), 2)
        except KeyboardInterrupt:
            _fail("interrupted", 130)


def _fail(message: str, code: int) -> NoReturn:
    _say(message)
    raise typer.Exit(code)


def _say(message: str) -> None:
    print("lcpinn:", " ".join(message.split()), file=sys.stderr, flush=True)


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What an answer should be read with goes to stderr; developers' warnings stay as they are."""
    otherwise = warnings.showwarning

    def show(message: Any, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, (OutsidePriorWarning, RuntimeWarning)):
            _say(f"warning: {message}")
        else:
            otherwise(message, category, *rest)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def _blaming(family: str | None) -> Iterator[None]:
    """An exception out of the user's own file becomes one line that says where it was."""
    try:
        yield
    except (LcpinnError, typer.Exit):
        raise
    except Exception as error:
        file = split(family)[0] if family else None
        line = in_users_file(error, file) if file else None
        if line is None:
            raise
        raise LcpinnError(line) from error


def _out() -> Console:
    return Console(highlight=False)


def _print_json(data: Any) -> None:
    print(json.dumps(_strict(data), indent=1, ensure_ascii=False))


def _strict(data: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(data, dict):
        return {key: _strict(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_strict(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FamilyArgument = Annotated[
    str, typer.Argument(metavar="FAMILY", help="A built-in name, file.py:Class, or file.py.")
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, or the directory of a run.")
]
FamilyOption = Annotated[
    str | None,
    typer.Option("--family", metavar="FILE:CLASS", help="The family, where it is not built in."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, nothing else.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"lcpinn {__version__} (JAX {jax.__version__}, Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train one network for a whole family of differential equations, then ask it anything.

    \b
    lcpinn families                  what is built in
    lcpinn train helmholtz-1d        for every wavenumber at once
    lcpinn predict runs/helmholtz-1d-fast-seed0 --at k=3.25
    lcpinn check my_pde.py:MyFamily  before training a family of your own
    """
    enable_cache()


# -- families ------------------------------------------------------------------------------------


@app.command()
def families(as_json: JsonOption = False) -> None:
    """List the families that are built in.

    \b
    lcpinn families
    lcpinn families --json
    """
    known = {name: make() for name, make in FAMILIES.items()}
    if as_json:
        _print_json([_about(name, family) for name, family in known.items()])
        return
    console = _out()
    console.print(_table_of(known, wide=console.width >= 110))


def _table_of(known: Mapping[str, Family], *, wide: bool) -> Table:
    """Five columns; on a narrow terminal all but the name go under the equation."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("family", no_wrap=True, style="bold")
    names = ("equation", "coordinates", "parameters", "terms")
    for name in names if wide else [", ".join(names)]:
        table.add_column(name)
    for name, family in known.items():
        facts = (
            _ranges(family.domain.ranges),
            _ranges(family.parameters.ranges) or ["(loss weights)"],
            family.term_names,
        )
        if wide:
            table.add_row(name, _equation(family), *("\n".join(fact) for fact in facts))
        else:
            details = "; ".join(", ".join(fact) for fact in facts)
            table.add_row(name, Text(_equation(family) + "\n").append(details, "dim"))
    return table


def _about(name: str, family: Family) -> dict[str, Any]:
    return {
        "name": name,
        "equation": _equation(family),
        "coordinates": family.domain.ranges,
        "parameters": family.parameters.ranges,
        "outputs": family.outputs,
        "terms": family.term_names,
    }


def _equation(family: Family) -> str:
    return (type(family).__doc__ or "").strip().split("\n")[0]


def _ranges(ranges: Mapping[str, tuple[float, float]]) -> list[str]:
    return [f"{name} in [{low:g}, {high:g}]" for name, (low, high) in ranges.items()]


# -- train ---------------------------------------------------------------------------------------


@app.command()
def train(
    family: FamilyArgument,
    protocol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"How to train: {', '.join(protocols.PROTOCOLS)}."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of all that is random.")] = 0,
    steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Of the first phase.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, metavar="S", help="To train for.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Default: runs/<family>-<protocol>-seed<N>."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run there.")] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, metavar="S", help="Seconds between checkpoints.")
    ] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the result, no progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train one network for a whole family.

    The run is kept in a directory: model, errors, a picture, and a checkpoint to go on from.

    \b
    lcpinn train helmholtz-1d
    lcpinn train burgers --protocol paper --seed 1
    lcpinn train my_pde.py:MyFamily --protocol smoke --out runs/first-try
    lcpinn train helmholtz-2d --protocol paper --resume
    """
    with _blaming(family):
        found = find_family(family)
        chosen = _protocol(found, protocol, steps=steps, seconds=seconds)
        if out is None:
            out = Path("runs") / f"{found.name}-{chosen.name}-seed{seed}"
        if not quiet:
            _introduce(found, chosen, seed, Console(stderr=as_json, highlight=False))
        try:
            solution = run_training(
                found,
                chosen,
                seed=seed,
                out=out,
                progress=not quiet,
                resume=resume,
                overwrite=overwrite,
                checkpoint_every=checkpoint_every,
            )
        except KeyboardInterrupt:
            again = {"--protocol": protocol, "--seed": seed or None, "--steps": steps}
            again |= {"--seconds": seconds, "--out": out}
            _fail(_interrupted(family, again, out), 130)
        result = read_json(out / "result.json")
    files = [str(out / name) for name in OURS if (out / name).exists()]
    if as_json:
        _print_json({**result, "paper": paper_row(found), "files": files})
        return
    console = _out()
    _show_result(console, solution, result, told=not quiet)
    _show_files(console, family, found, out, files)


def _protocol(family: Family, name: str | None, **options: Any) -> Protocol:
    given = {key: value for key, value in options.items() if value is not None}
    if name is None and not given:
        return protocols.default(family)
    return protocols.by_name(name or protocols.default(family).name, family, **given)


def _introduce(family: Family, protocol: Protocol, seed: int, console: Console) -> None:
    _headline(console, f"{family.name}, seed {seed}", family)
    for line in str(protocol).splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        console.print(textwrap.fill(line, console.width, subsequent_indent=indent), markup=False)


def _headline(console: Console, title: str, family: Family) -> None:
    console.print(Text(title, "bold"))
    if _equation(family):
        console.print(Text(_equation(family), "dim"))


def _interrupted(family: str, options: Mapping[str, Any], out: Path) -> str:
    words = ["lcpinn", "train", family]
    for name, value in options.items():
        words += [] if value is None else [name, str(value)]
    begins = "" if (out / "checkpoint.safetensors").exists() else " (it had no checkpoint yet)"
    return f"interrupted{begins}; go on with: {shlex.join([*words, '--resume'])}"


def _show_files(console: Console, text: str, family: Family, out: Path, files: list[str]) -> None:
    _show_fact(console, "files", f"{out}/: {', '.join(Path(f).name for f in files)}")
    words = ["lcpinn", "predict", str(out)]
    middle = {n: (low + high) / 2 for n, (low, high) in family.parameters.ranges.items()}
    if middle:
        words += ["--at", ",".join(f"{n}={v:.3g}" for n, v in middle.items())]
    if split(text)[0] is not None:
        words += ["--family", text]
    # In one piece however long it is, so that it can be copied.
    _show_fact(console, "next", shlex.join([*words, "-o", "out.csv"]), wrap=False)


def _show_fact(console: Console, name: str, fact: str, *, wrap: bool = True) -> None:
    """One line under a table; what does not fit goes on below itself."""
    for i, line in enumerate(fact.splitlines()):
        room = max(console.width - 10, 20)
        pieces = textwrap.wrap(line, room, break_on_hyphens=False) if wrap else [line]
        for j, piece in enumerate(pieces):
            label = Text(f"{name if i == j == 0 else '':10}", "dim")
            console.print(label.append(piece, "default"), soft_wrap=True)


# -- evaluate ------------------------------------------------------------------------------------


@app.command()
def evaluate(
    model: ModelArgument, family: FamilyOption = None, as_json: JsonOption = False
) -> None:
    """Errors of a trained network against the exact or reference solution.

    \b
    lcpinn evaluate runs/helmholtz-1d-fast-seed0
    lcpinn evaluate model.safetensors --family my_pde.py:MyFamily --json
    """
    with _blaming(family):
        solution = _load(model, family)
        result = result_of(solution)
    if as_json:
        _print_json({**result, "paper": paper_row(solution.family)})
        return
    _show_result(_out(), solution, result, told=False)


def _load(model: Path, family: str | None) -> Solution:
    if not model.exists():
        raise LcpinnError(f"there is no {model}")
    if model.is_dir() and not (model / "model.safetensors").exists():
        what = "a run that is not finished" if (model / "run.json").exists() else "no run"
        raise LcpinnError(f"{model} holds {what}: it has no model.safetensors")
    return load(model, None if family is None else find_family(family))


def _show_result(
    console: Console, solution: Solution, result: Mapping[str, Any], *, told: bool
) -> None:
    """The table of errors, then what else there is to know; `told`: the meter has said why."""
    if result["error"]["grid"] is not None:
        _show_errors(console, solution.family, result["error"])
    else:
        console.print(
            f"\n[bold]{solution.family.name}[/] has neither an exact nor a reference solution: "
            "the residual on unseen points is all there is to go by.\n"
        )
    _show_fact(console, "residual", _validation(solution.family, result["validation"]))
    if not told and result["stopped"]:
        _show_fact(console, "stopped", "\n".join(result["stopped"]))
    _show_fact(console, "time", _times(result["seconds"]) + f" on {result['device']}")


def _validation(family: Family, validation: Mapping[str, Any]) -> str:
    terms = ", ".join(f"{name} {validation['terms'][name]:.2e}" for name in family.terms)
    return f"{validation['residual']:.2e} on unseen points ({terms})"


def _times(seconds: Mapping[str, float | None]) -> str:
    words = {"compile": "compiling", "train": "training", "total": "in all"}
    spent = {word: seconds.get(key) for key, word in words.items()}
    return ", ".join(f"{value:.1f} s {word}" for word, value in spent.items() if value)


def _show_errors(console: Console, family: Family, error: Mapping[str, Any]) -> None:
    paper, names = paper_row(family), family.parameters.names
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{family.name}: relative L² error",
        title_justify="left",
        title_style="bold",
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("error", justify="right")
    if paper:
        table.add_column("paper", justify="right", style="dim")

    def add(label: str, lam: Mapping[str, float], value: float, theirs: float | None = None,
            deviation: float | None = None) -> None:  # fmt: skip
        better = theirs is not None and value <= theirs
        cells = [f"{lam[n]:.5g}" if n in lam else "" for n in names]
        row = [label, *cells, Text(f"{value:.2e}", "green" if better else "")]
        spread = "" if deviation is None else f" ± {deviation:.1e}"
        table.add_row(*row, *([f"{theirs:.2e}{spread}" if theirs else ""] if paper else []))

    if names and len(error["grid"]) <= MOST_ROWS:
        for row in error["grid"]:
            add("", row, row["error"], *paper_at(paper, row))
        table.add_section()
    label = f"mean of {len(error['grid'])}" if names else f"mean of {error['shots']} weightings"
    add(label, {}, error["mean"], *((paper["mean"], paper["std"]) if paper else ()))
    if names:
        add("largest", error["dense_argmax"], error["dense_max"])
    if "worst_slice" in error:
        add("worst weighting", {}, error["worst_slice"])
        table.add_row("spread", *[""] * len(names), f"{error['spread']:.2e}")
    console.print()
    console.print(table)
    console.print()
    if paper and "wall_minutes" in paper:
        minutes = f"{paper['wall_minutes']:g} minutes each on an Apple M4 Max"
        _show_fact(console, "paper", f"LC-PINN, four seeds, {minutes}")


# -- predict -------------------------------------------------------------------------------------


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
    with _blaming(family):
        solution = _load(model, family)
        fixed = assignments("--at", at or ())
        if points is not None:
            columns = read_points(points, solution.family, fixed)
        else:
            columns = grid_points(solution.family, fixed, assignments("--grid", _listed(grid)))
        weighting = None if weights is None else assignments("--weights", [weights])
        values = solution(weights=weighting, **columns)
    outputs = values if isinstance(values, dict) else {solution.family.outputs[0]: values}
    _deliver(broadcast({**columns, **outputs}), out, as_json)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [text]


def _deliver(columns: Mapping[str, np.ndarray], out: Path | None, as_json: bool) -> None:
    flat = {name: np.ravel(values) for name, values in columns.items()}
    num = len(next(iter(flat.values())))
    if out is None and as_json:
        _print_json({name: values.tolist() for name, values in flat.items()})
        return
    if out is None:
        sys.stdout.write(to_csv(flat))
        return
    write(columns, out)
    if as_json:
        _print_json({"out": str(out), "rows": num, "columns": list(columns)})
    else:
        _out().print(f"{out}: {num} rows of {', '.join(columns)}", soft_wrap=True, markup=False)


# -- check ---------------------------------------------------------------------------------------


@app.command()
def check(family: FamilyArgument, as_json: JsonOption = False) -> None:
    """Try a family out before training it: a minute that may save an hour.

    Terms are run at random points and at the corners of everything, traced, differentiated, and
    fed with the exact solution, which should leave nothing. Exit code 1 if a check fails.

    \b
    lcpinn check my_pde.py:MyFamily
    lcpinn check helmholtz-1d --json
    """
    with _blaming(family):
        found = find_family(family)
        findings = run_checks(found)
    passed = all(f.ok for f in findings)
    if as_json:
        details = [{"name": f.name, "ok": f.ok, "applies": f.applies, "detail": f.detail}
                   for f in findings]  # fmt: skip
        _print_json({"family": found.name, "ok": passed, "checks": details})
    else:
        _show_findings(_out(), found, findings)
    if not passed:
        raise typer.Exit(1)


def _show_findings(console: Console, family: Family, findings: list[Finding]) -> None:
    _headline(console, family.name, family)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for f in findings:
        mark, style = ("✓", "green") if f.ok else ("✗", "red")
        mark, style = (mark, style) if f.applies else ("–", "dim")
        table.add_row(Text(mark, style), f.name, Text(f.detail, "" if f.applies else "dim"))
    console.print(table)
    failed = sum(not f.ok for f in findings)
    if failed:
        console.print(f"[red]{failed} of {len(findings)} checks failed[/]")
    else:
        console.print("[green]ready to train[/]")


def main(args: list[str] | None = None) -> NoReturn:
    """The `lcpinn` command."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    app(args, prog_name="lcpinn")
    raise SystemExit(0)


if __name__ == "__main__":
    main()
