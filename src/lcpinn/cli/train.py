"""`lcpinn train`: one training, or the same at several settings."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

import lcpinn as lc
from lcpinn.cli.common import (
    FamilyArgument,
    JsonOption,
    app,
    blaming,
    fail,
    print_json,
    say,
    stdout,
)
from lcpinn.cli.evaluate import show_result
from lcpinn.cli.support import tables
from lcpinn.cli.support.columns import assignments
from lcpinn.errors import LcpinnError, NotSolvedWarning
from lcpinn.locate import find_family, split

if TYPE_CHECKING:
    from lcpinn.family import Family
    from lcpinn.protocol import Protocol
    from lcpinn.solution import Solution

# The keys of lcpinn.protocol.PROTOCOLS, which --help lists without loading what they are made of.
PROTOCOLS = (
    "fast",
    "interpolant",
    "paper",
    "lc-pinn",
    "unconditioned",
    "pinn",
    "sa-pinn",
    "relobralo",
    "causal-pinn",
    "pi-deeponet",
    "fno",
    "pinn-gn",
    "pi-deeponet-gn",
    "smoke",
    "paper-data",
    "pi-deeponet-data",
    "sa-pinn-data",
    "relobralo-data",
    "causal-pinn-data",
)


@app.command()
def train(
    family: FamilyArgument,
    protocol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"How to train: {', '.join(PROTOCOLS)}."),
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
        int | None,
        typer.Option(min=1, metavar="N", help="Of the first phase; without a clock for fast."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, metavar="S", help="To train for.")] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="E", help="Train until the estimated error is below; else exit with 1."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Default: runs/, family, protocol, setting and seed."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run there.")] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, metavar="S", help="Seconds between checkpoints.")
    ] = 30.0,
    devices: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Default: every accelerator of this machine."),
    ] = None,
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="One of several processes, under Slurm or MPI."),
    ] = False,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where process 0 of several is to be reached."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many there are.")
    ] = None,
    process: Annotated[
        int | None, typer.Option(min=0, metavar="I", help="Which of them this is, from 0.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the result, no progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train one network for a whole family, or a baseline to compare it with.

    The run is kept in a directory: model, errors, a picture, and a checkpoint to go on from.

    \b
    lcpinn train helmholtz-1d
    lcpinn train helmholtz-1d --tolerance 1e-6           until it is solved
    lcpinn train my_pde.py:MyFamily --protocol smoke --out runs/first-try
    lcpinn train helmholtz-2d --protocol paper --resume
    lcpinn train helmholtz-2d --protocol interpolant     solved, no network
    lcpinn train burgers --protocol sa-pinn              a baseline of the paper
    lcpinn train helmholtz-1d --protocol pinn --at k=1 --at k=3.25
    lcpinn families --protocols                          which applies where
    lcpinn train helmholtz-3d --distributed              srun: one for each node
    """
    asked = _Asked(family, protocol, at or [], seed, steps, seconds, tolerance, out, devices)
    options = {
        "resume": resume, "overwrite": overwrite, "checkpoint_every": checkpoint_every,
        "progress": not quiet, "devices": devices,
    }  # fmt: skip
    with ending_at_once(), blaming(family):
        if distributed or (coordinator, processes, process) != (None, None, None):
            from lcpinn.devices import join_processes

            join_processes(coordinator, processes, process)
        page = find_family(family)
        if len(asked.at) > 1:
            if tolerance is not None:
                raise LcpinnError("--tolerance is for one training; give one --at")
            _train_batch(page, asked, options, as_json)
        else:
            _train_one(page, asked, options, as_json)


class _Asked(NamedTuple):
    """What was typed, so that it can be typed again."""

    family: str
    protocol: str | None
    at: list[str]
    seed: int
    steps: int | None
    seconds: float | None
    tolerance: float | None
    out: Path | None
    devices: int | None = None

    def make(self, family: Family, at: Mapping[str, float] | None = None) -> Protocol:
        given = {"steps": self.steps, "seconds": self.seconds, "at": at or None}
        asked = [*given.values(), self.tolerance]
        if self.protocol is None and not any(value is not None for value in asked):
            return lc.protocol.default(family)
        name = self.protocol or lc.protocol.DEFAULT
        # A protocol that cannot train towards a tolerance is judged by it all the same.
        if name in lc.protocol.PROTOCOLS and lc.protocol.takes(name, "tolerance"):
            given["tolerance"] = self.tolerance
        return lc.protocol.by_name(name, family, **given)

    def settings(self) -> list[dict[str, float]]:
        return [assignments("--at", [text]) for text in self.at]

    def again(self, out: Path, *more: str) -> str:
        """The command, with the place of its run spelt out."""
        words = ["lcpinn", "train", self.family]
        options: list[tuple[str, Any]] = [("--protocol", self.protocol)]
        options += [("--at", text) for text in self.at]
        options += [("--seed", self.seed or None), ("--steps", self.steps)]
        options += [("--seconds", self.seconds), ("--tolerance", self.tolerance), ("--out", out)]
        options += [("--devices", self.devices)]
        for name, value in options:
            words += [] if value is None else [name, str(value)]
        return shlex.join([*words, *more])


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """One of several processes that fails ends on the spot, so that the others notice.

    Leaving in order, it would wait for them, and they for it.
    """
    from lcpinn.devices import LostProcessError, alone, end_lost

    try:
        yield
    except BaseException as error:
        code = getattr(error, "exit_code", 2)
        if alone() or code < 2:
            raise
        if isinstance(error, LostProcessError):
            end_lost(str(error))
        if isinstance(error, LcpinnError):
            say(str(error))
        elif not isinstance(error, typer.Exit):
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)


def _train_one(family: Family, asked: _Asked, options: Mapping[str, Any], as_json: bool) -> None:
    from lcpinn.devices import is_first
    from lcpinn.rundir import OURS as RUN_FILES
    from lcpinn.study.paper import paper_row

    chosen = asked.make(family, *asked.settings())
    names = (family.name, chosen.name, chosen.setting, f"seed{asked.seed}")
    out = asked.out or Path("runs") / "-".join(filter(None, names))
    if options["progress"] and is_first():
        _introduce(family, str(chosen), asked.seed, as_json)
    try:
        run: dict[str, Any] = {"seed": asked.seed, "out": out, "tolerance": asked.tolerance}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotSolvedWarning)  # the verdict is printed below
            solution = lc.train(family, chosen, **run, **options)
    except KeyboardInterrupt:
        begins = "" if (out / "checkpoint.safetensors").exists() else " (it had no checkpoint yet)"
        fail(f"interrupted{begins}; go on with: {asked.again(out, '--resume')}", 130)
    if not is_first():
        return
    result = _result(out)
    files = [str(out / name) for name in RUN_FILES if (out / name).exists()]
    if as_json:
        paper = paper_row(solution.family, chosen.name)
        print_json({**result, "paper": paper, "files": files})
    else:
        console = stdout()
        show_result(console, solution, result, told=options["progress"])
        tables.fact(console, "files", f"{out}/: {', '.join(Path(f).name for f in files)}")
        if chosen.judged and not solution.verdict.solved:
            _show_advice(console, asked, solution, out)
        else:
            _show_next(console, asked.family, solution.family, out)
        _show_interpolant(console, asked, solution, chosen)
    if asked.tolerance is not None and not solution.verdict.solved:
        raise typer.Exit(1)


def _train_batch(family: Family, asked: _Asked, options: Mapping[str, Any], as_json: bool) -> None:
    from lcpinn.retraining import member_name

    settings = asked.settings()
    chosen = asked.make(family, settings[0])
    out = asked.out or Path("runs") / f"{family.name}-{chosen.name}"
    if options["progress"]:
        _introduce(family, f"{len(settings)} settings, first {chosen}", asked.seed, as_json)
    try:
        solutions = lc.retrain(family, asked.make, settings, (asked.seed,), out=out, **options)
    except KeyboardInterrupt:
        begins = "" if list(out.glob("batch-*.safetensors")) else " (it had no checkpoint yet)"
        fail(f"interrupted{begins}; go on with: {asked.again(out, '--resume')}", 130)
    places = [out / member_name(solution.protocol, asked.seed) for solution in solutions]
    results = [_result(place) for place in places]
    if as_json:
        print_json([{**r, "out": str(p)} for r, p in zip(results, places, strict=True)])
        return
    console = stdout()
    tables.show_retrained(console, results)
    tables.fact(console, "runs", f"{out}/: {', '.join(place.name for place in places)}")
    _show_next(console, asked.family, solutions[0].family, places[0])


def _result(run: Path) -> dict[str, Any]:
    from lcpinn.files import read_json

    return read_json(run / "result.json")


def _introduce(family: Family, protocol: str, seed: int, as_json: bool) -> None:
    console = Console(stderr=as_json, highlight=False)
    tables.headline(console, f"{family.name}, seed {seed}", family)
    for line in protocol.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        console.print(textwrap.fill(line, console.width, subsequent_indent=indent), markup=False)


def _show_advice(console: Console, asked: _Asked, solution: Solution, out: Path) -> None:
    """What to try where the answer is not good enough."""
    verdict = solution.verdict
    worst = ",".join(f"{n}={v:.6g}" for n, v in (verdict.at or _middle(solution.family)).items())
    page = [] if split(asked.family)[0] is None else ["--family", asked.family]
    advice = [(shlex.join(["lcpinn", "certify", str(out), *page]), "the error over all lambda")]
    time_up = any("the time is up" in reason for reason in solution.run["training"]["stopped"])
    if time_up and verdict.solved is False:
        longer = asked._replace(seconds=2 * (asked.seconds or solution.protocol.seconds or 60.0))
        advice.insert(0, (longer.again(out, "--overwrite"), "more time"))
    elif asked.tolerance is None and verdict.solved is False:
        patient = asked._replace(tolerance=verdict.tolerance)
        advice.insert(0, (patient.again(out, "--overwrite"), "until it is solved, if it can be"))
    if solution.family.domain.dim <= 3:
        at = ["--at", worst] if worst else []
        solver = shlex.join(["lcpinn", "solve", asked.family, *at])
        advice.append((solver, "one setting, without a network"))
    for i, (command, what) in enumerate(advice):
        text = f"{command}   # {what}"
        tables.fact(console, "next" if i == 0 else "or", text, wrap=False)


def _show_interpolant(
    console: Console, asked: _Asked, solution: Solution, protocol: Protocol
) -> None:
    """Say so where a solver does without a network what was trained here."""
    from lcpinn.protocol.interpolation import is_better_interpolated, reason_against_interpolation

    family, training = solution.family, solution.run["training"]
    if protocol.name == "interpolant":
        return
    words = ["lcpinn", "train", asked.family, "--protocol", "interpolant"]
    missing = training.get("missing_between")
    if is_better_interpolated(family):
        text = f"{shlex.join(words)}   # linear, with few coefficients: often 1e-8 in seconds"
        tables.fact(console, "or", text, wrap=False)
    elif (
        not solution.verdict.solved
        and missing is not None
        and missing <= solution.verdict.tolerance
        and not reason_against_interpolation(family)
    ):
        words += ["--tolerance", f"{solution.verdict.tolerance:g}"]
        num = len(training["solved_at"])
        text = f"{shlex.join(words)}   # a polynomial between {num} settings misses {missing:.0e}"
        tables.fact(console, "or", text, wrap=False)


def _show_next(console: Console, text: str, family: Family, out: Path) -> None:
    """A command to go on with, at the middle of the coefficients that the network knows."""
    words, middle = ["lcpinn", "predict", str(out)], _middle(family)
    if middle:
        words += ["--at", ",".join(f"{n}={v:.3g}" for n, v in middle.items())]
    if split(text)[0] is not None:
        words += ["--family", text]
    # In one piece however long it is, so that it can be copied.
    tables.fact(console, "next", shlex.join([*words, "-o", "out.csv"]), wrap=False)


def _middle(family: Family) -> dict[str, float]:
    ranges = family.parameters.ranges
    return {name: sum(ranges[name]) / 2 for name in family.parameters.free}
