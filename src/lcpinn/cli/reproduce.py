"""`lcpinn reproduce`: the paper's tables, figures and ablations, beside our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lcpinn.cli.common import JsonOption, app, print_json, say, stdout
from lcpinn.cli.support import tables
from lcpinn.errors import LcpinnError
from lcpinn.study.budget import BUDGETS

if TYPE_CHECKING:
    from lcpinn.study.plan import Experiment
    from lcpinn.study.run import Run
    from lcpinn.study.store import Store


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME ...]", help="Tables, figures and ablations; default: all."),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(help="; ".join(f"{name}: {b.words}" for name, b in BUDGETS.items()) + "."),
    ] = "smoke",
    listed: Annotated[
        bool, typer.Option("--list", help="What there is and what is missing; run nothing.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PROTOCOL", help="Runs by this protocol alone; may be repeated."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="What is missing, program by program, with seconds here."),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(help="Begin no program that would not be over by then, as estimated."),
    ] = None,
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Only write the page out of the records.")
    ] = False,
    train_only: Annotated[
        bool, typer.Option("--train-only", help="Leave the models to be measured elsewhere.")
    ] = False,
    times: Annotated[
        bool,
        typer.Option("--times", help="Only time a step of every method alone on this device."),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS|local", help="Run on a Dask scheduler's workers, or here."),
    ] = None,
    cluster_work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Models and checkpoints on workers; default: temporary."),
    ] = None,
    work: Annotated[
        Path, typer.Option(metavar="DIR", help="Models and checkpoints of the runs.")
    ] = Path("runs/study"),
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The small records of finished runs; default: results/study for full, "
            "else in --work.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md",
            help="The page; default: docs/reproduction.md for full, else in --work.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """The paper's tables, figures and ablations beside ours: run what is missing, render the rest.

    Finished runs are skipped, killed ones go on from their checkpoint, and several processes that
    share --work and --results share the work.

    \b
    lcpinn reproduce                                 a minute: that everything works
    lcpinn reproduce --list --budget full            what the paper's study takes
    lcpinn reproduce --plan --budget full            in which order, and about how long
    lcpinn reproduce explain-burgers --budget full --seconds 480
    lcpinn reproduce helmholtz-1d burgers --budget cpu
    lcpinn reproduce --times --budget full           what a step takes, nothing beside it
    lcpinn reproduce --budget full --cluster tcp://127.0.0.1:8786
    """
    from lcpinn.study.execute import execute
    from lcpinn.study.plan import chosen, needed
    from lcpinn.study.store import Store

    experiments = chosen(names or ())
    runs = [r for r in needed(experiments, budget) if not only or r.protocol in only]
    if not runs:
        raise LcpinnError(f"no run of these experiments is by {', '.join(only or ())}")
    kept = Path("results/study") if budget == "full" else work / "records"
    store = Store(work, results or kept)
    if listed:
        _show(experiments, budget, store, as_json)
        return
    if plan:
        _show_plan(runs, store, as_json)
        return
    if times:
        from lcpinn.study.times import measure_times

        measured = measure_times(runs, store, say=say)
        if as_json:
            print_json(measured)
        return
    failed = []
    if not render_only and cluster is not None:
        from lcpinn.study.cluster import execute_on

        if train_only:
            raise LcpinnError("--train-only leaves models here: a cluster returns records alone")
        if seconds is not None:
            raise LcpinnError("--seconds is for this process: a cluster has its own")
        failed = execute_on(cluster, runs, store, work=cluster_work, say=say)
    elif not render_only:
        how = {"measured": not train_only, "progress": not quiet, "seconds": seconds}
        failed = execute(runs, store, **how, say=say)
    over = sum(store.is_over(run) for run in runs)
    page = None if train_only else _render(store, budget, report)
    if as_json:
        print_json({"runs": len(runs), "over": over, "page": None if page is None else str(page)})
    else:
        tables.fact(stdout(), "runs", f"{over} of {len(runs)} in {store.results}")
        if page is not None:
            tables.fact(stdout(), "page", str(page))
    if failed:
        raise typer.Exit(1)


def _render(store: Store, budget: str, report: Path | None) -> Path:
    from lcpinn.study.report.cells import Study  # Matplotlib takes half a second to load
    from lcpinn.study.report.page import render

    default = Path("docs/reproduction.md") if budget == "full" else store.work / f"{budget}.md"
    return render(Study.read(store, budget), report or default)


def _show_plan(runs: Sequence[Run], store: Store, as_json: bool) -> None:
    """Programs in the order in which they explain most, with an estimate for each."""
    from lcpinn.machine import device
    from lcpinn.study.cost import programs

    missing = [run for run in runs if not store.is_trained(run)]
    rows, total = [], 0.0
    for one in programs(missing):
        total += one.seconds
        rows.append({"program": one.words, "runs": len(one.runs), "seconds": one.seconds,
                     "since_begin": total})  # fmt: skip
    if as_json:
        print_json(rows)
        return
    shown = Table("program", "runs", "seconds", "in all", box=None, pad_edge=False)
    for row in rows:
        times = (f"{row['seconds']:.0f}", f"{row['since_begin']:.0f}")
        shown.add_row(row["program"], str(row["runs"]), *times)
    stdout().print(shown)
    where = f"on {device()}, as estimated"
    count = f"{len(missing)} of {len(runs)} runs"
    tables.fact(stdout(), "missing", f"{count}, {total / 60:.0f} min {where}")


def _show(experiments: Sequence[Experiment], budget: str, store: Store, as_json: bool) -> None:
    from lcpinn.study.plan import EXPERIMENTS, needed

    rows = []
    for one in experiments:
        runs = one.runs(budget)
        over = sum(store.is_over(run) for run in runs)
        rows.append({"name": one.name, "title": one.title, "runs": len(runs), "over": over})
    if as_json:
        print_json(rows)
        return
    shown = Table("name", "what", "runs", "there", box=None, pad_edge=False)
    for row in rows:
        shown.add_row(row["name"], row["title"], str(row["runs"]), str(row["over"]))
    stdout().print(shown)
    total = needed(EXPERIMENTS.values(), budget)
    tables.fact(stdout(), "budget", f"{budget}: {BUDGETS[budget].words}; {len(total)} runs in all")
