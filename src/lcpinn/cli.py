"""The command line: families, train, evaluate, certify, predict, check."""

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
from typing import Annotated, Any, NamedTuple, NoReturn

import jax
import numpy as np
import typer
from rich.console import Console
from typer.core import TyperGroup

from lcpinn import __version__, tables
from lcpinn import protocol as protocols
from lcpinn.check import check as run_checks
from lcpinn.columns import assignments, broadcast, grid_points, read_points, to_csv, write
from lcpinn.compilation import enable_cache
from lcpinn.errors import LcpinnError, OutsidePriorWarning
from lcpinn.evaluation import result as result_of
from lcpinn.evaluation import true_errors
from lcpinn.families import FAMILIES
from lcpinn.family import Family
from lcpinn.files import read_json
from lcpinn.locate import find_family, in_users_file, split
from lcpinn.paper import paper_row
from lcpinn.protocol import Protocol
from lcpinn.protocol.facts import facts
from lcpinn.retrain import member_name
from lcpinn.retrain import retrain as run_retraining
from lcpinn.rundir import OURS
from lcpinn.solution import Solution, load
from lcpinn.train import train as run_training

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
def families(
    family: Annotated[
        str | None,
        typer.Argument(metavar="[FAMILY]", help="One of them; file.py:Class is one too."),
    ] = None,
    with_protocols: Annotated[
        bool,
        typer.Option("--protocols", help="How they can be trained; of one family, on what terms."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the families that are built in, and what can train them.

    \b
    lcpinn families
    lcpinn families --protocols               which method applies where
    lcpinn families helmholtz-1d --protocols  what each gets: network, points...
    """
    with _blaming(family):
        if family is None:
            known = {name: make() for name, make in FAMILIES.items()}
        else:
            found = find_family(family)
            known = {found.name: found}
        if with_protocols and family is not None:
            _terms(known.popitem()[1], as_json)
        elif with_protocols:
            matrix = {name: _applicable(one) for name, one in known.items()}
            _print_json(matrix) if as_json else tables.show_protocols(_out(), matrix)
        elif as_json:
            _print_json([_about(name, one) for name, one in known.items()])
        else:
            tables.show_families(_out(), known)


def _about(name: str, family: Family) -> dict[str, Any]:
    return {
        "name": name,
        "equation": tables.equation(family),
        "coordinates": family.domain.ranges,
        "parameters": family.parameters.ranges,
        "outputs": family.outputs,
        "terms": family.term_names,
    }


def _applicable(family: Family) -> dict[str, dict[str, str]]:
    """Protocol -> whether it applies: `yes`, `at` (with a setting), or `no` and the reason."""
    found: dict[str, dict[str, str]] = {}
    for name in protocols.PROTOCOLS:
        try:
            held = protocols.example(name, family).at
            found[name] = {"applies": "at" if held else "yes"}
        except LcpinnError as error:
            found[name] = {"applies": "no", "reason": str(error)}
    return found


def _terms(family: Family, as_json: bool) -> None:
    """What each protocol is for this family, read off its values."""
    rows: dict[Any, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for name, make in protocols.PROTOCOLS.items():
        if make in rows:
            rows[make]["name"] += f", {name}"  # another name for the same
            continue
        try:
            rows[make] = {"name": name, **facts(family, protocols.example(name, family))}
        except LcpinnError as error:
            refused[name] = str(error)
    if as_json:
        _print_json({"family": family.name, "protocols": [*rows.values()], "not": refused})
        return
    console = _out()
    tables.show_terms(console, family, [*rows.values()])
    for reason in refused.values():
        tables.fact(console, "–", reason)


# -- train ---------------------------------------------------------------------------------------


@app.command()
def train(
    family: FamilyArgument,
    protocol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"How to train: {', '.join(protocols.PROTOCOLS)}."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Coefficients to hold. Given several times: one training for each, in one batch.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of all that is random.")] = 0,
    steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Of the first phase.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, metavar="S", help="To train for.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Default: runs/, family, protocol, setting and seed."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run there.")] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, metavar="S", help="Seconds between checkpoints.")
    ] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the result, no progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train one network for a whole family, or a baseline to compare it with.

    The run is kept in a directory: model, errors, a picture, and a checkpoint to go on from.

    \b
    lcpinn train helmholtz-1d
    lcpinn train my_pde.py:MyFamily --protocol smoke --out runs/first-try
    lcpinn train helmholtz-2d --protocol paper --resume
    lcpinn train burgers --protocol sa-pinn              a baseline of the paper
    lcpinn train helmholtz-1d --protocol pinn --at k=1 --at k=3.25
    lcpinn families --protocols                          which applies where
    """
    asked = _Asked(family, protocol, at or [], seed, steps, seconds, out)
    with _blaming(family):
        found = find_family(family)
        if len(asked.at) > 1:
            if resume:
                raise LcpinnError("--resume goes on with one training; give one --at")
            _train_batch(found, asked, overwrite, quiet, as_json)
        else:
            options = {"resume": resume, "checkpoint_every": checkpoint_every}
            _train_one(found, asked, overwrite, quiet, as_json, options)


class _Asked(NamedTuple):
    """What was typed, so that it can be typed again."""

    family: str
    protocol: str | None
    at: list[str]
    seed: int
    steps: int | None
    seconds: float | None
    out: Path | None

    def make(self, family: Family, at: Mapping[str, float] | None = None) -> Protocol:
        given = {"steps": self.steps, "seconds": self.seconds, "at": at or None}
        if self.protocol is None and not any(value is not None for value in given.values()):
            return protocols.default(family)
        name = self.protocol or protocols.default(family).name
        return protocols.by_name(name, family, **given)

    def settings(self) -> list[dict[str, float]]:
        return [assignments("--at", [text]) for text in self.at]

    def again(self, out: Path, *more: str) -> str:
        """The command, with the place of its run spelt out."""
        words = ["lcpinn", "train", self.family]
        options: list[tuple[str, Any]] = [("--protocol", self.protocol)]
        options += [("--at", text) for text in self.at]
        options += [("--seed", self.seed or None), ("--steps", self.steps)]
        options += [("--seconds", self.seconds), ("--out", out)]
        for name, value in options:
            words += [] if value is None else [name, str(value)]
        return shlex.join([*words, *more])


def _train_one(
    family: Family,
    asked: _Asked,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    options: Mapping[str, Any],
) -> None:
    chosen = asked.make(family, *asked.settings())
    names = (family.name, chosen.name, chosen.setting, f"seed{asked.seed}")
    out = asked.out or Path("runs") / "-".join(filter(None, names))
    if not quiet:
        _introduce(family, str(chosen), asked.seed, as_json)
    try:
        run = {"seed": asked.seed, "out": out, "progress": not quiet, "overwrite": overwrite}
        solution = run_training(family, chosen, **run, **options)
    except KeyboardInterrupt:
        begins = "" if (out / "checkpoint.safetensors").exists() else " (it had no checkpoint yet)"
        _fail(f"interrupted{begins}; go on with: {asked.again(out, '--resume')}", 130)
    result = read_json(out / "result.json")
    files = [str(out / name) for name in OURS if (out / name).exists()]
    if as_json:
        paper = paper_row(solution.family, chosen.name)
        _print_json({**result, "paper": paper, "files": files})
        return
    console = _out()
    _show_result(console, solution, result, told=not quiet)
    tables.fact(console, "files", f"{out}/: {', '.join(Path(f).name for f in files)}")
    _show_next(console, asked.family, solution.family, out)


def _train_batch(
    family: Family, asked: _Asked, overwrite: bool, quiet: bool, as_json: bool
) -> None:
    settings = asked.settings()
    chosen = asked.make(family, settings[0])
    out = asked.out or Path("runs") / f"{family.name}-{chosen.name}"
    if not quiet:
        _introduce(family, f"{len(settings)} settings, first {chosen}", asked.seed, as_json)
    try:
        run = {"out": out, "overwrite": overwrite, "progress": not quiet}
        solutions = run_retraining(family, asked.make, settings, (asked.seed,), **run)
    except KeyboardInterrupt:
        again = asked.again(out, "--overwrite")
        _fail(f"interrupted; a batch has no checkpoint: start again with: {again}", 130)
    places = [out / member_name(solution.protocol, asked.seed) for solution in solutions]
    results = [read_json(place / "result.json") for place in places]
    if as_json:
        _print_json([{**r, "out": str(p)} for r, p in zip(results, places, strict=True)])
        return
    console = _out()
    tables.show_retrained(console, results)
    tables.fact(console, "runs", f"{out}/: {', '.join(place.name for place in places)}")
    _show_next(console, asked.family, solutions[0].family, places[0])


def _introduce(family: Family, protocol: str, seed: int, as_json: bool) -> None:
    console = Console(stderr=as_json, highlight=False)
    tables.headline(console, f"{family.name}, seed {seed}", family)
    for line in protocol.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        console.print(textwrap.fill(line, console.width, subsequent_indent=indent), markup=False)


def _show_next(console: Console, text: str, family: Family, out: Path) -> None:
    """A command to go on with, at the middle of the coefficients that the network knows."""
    words = ["lcpinn", "predict", str(out)]
    ranges = family.parameters.ranges
    middle = {name: sum(ranges[name]) / 2 for name in family.parameters.free}
    if middle:
        words += ["--at", ",".join(f"{n}={v:.3g}" for n, v in middle.items())]
    if split(text)[0] is not None:
        words += ["--family", text]
    # In one piece however long it is, so that it can be copied.
    tables.fact(console, "next", shlex.join([*words, "-o", "out.csv"]), wrap=False)


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
        paper = paper_row(solution.family, solution.protocol.name)
        _print_json({**result, "paper": paper})
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
        tables.show_errors(console, solution.family, result["error"], solution.protocol.name)
    else:
        console.print(
            f"\n[bold]{solution.family.name}[/] has neither an exact nor a reference solution: "
            "the residual on unseen points is all there is to go by.\n"
        )
    tables.fact(console, "residual", tables.validation(solution.family, result["validation"]))
    if "estimate" in result["validation"]:
        tables.fact(console, "estimate", tables.estimate(result["validation"]["estimate"]))
    if not told and result["stopped"]:
        tables.fact(console, "stopped", "\n".join(result["stopped"]))
    tables.fact(console, "time", tables.times(result["seconds"]) + f" on {result['device']}")


# -- certify -------------------------------------------------------------------------------------


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
    with _blaming(family):
        solution = _load(model, family)
        report = solution.certificate(settings, tolerance)
        truth = true_errors(solution, [list(row["at"].values()) for row in report["settings"]])
    if picture is not None:
        from lcpinn.plot import certificate as draw  # Matplotlib takes half a second to load

        draw(solution, report, truth, picture)
    if as_json:
        _print_json({"family": solution.family.name, **report, "true_errors": truth})
    else:
        console = _out()
        tables.headline(console, solution.family.name, solution.family)
        tables.show_certificate(console, solution.family, report, truth)
        if picture is not None:
            tables.fact(console, "picture", str(picture))
    if report["passed"] is False:
        raise typer.Exit(1)


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
        tables.show_findings(_out(), found, findings)
    if not passed:
        raise typer.Exit(1)


def main(args: list[str] | None = None) -> NoReturn:
    """The `lcpinn` command."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    app(args, prog_name="lcpinn")
    raise SystemExit(0)


if __name__ == "__main__":
    main()
