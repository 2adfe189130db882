"""`lcpinn sweep`: many trainings, in this process or on a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lcpinn.cli.common import JsonOption, app, print_json, say, stdout
from lcpinn.cli.support import tables
from lcpinn.cli.train import PROTOCOLS
from lcpinn.errors import LcpinnError

if TYPE_CHECKING:
    from lcpinn.study.run import Run
    from lcpinn.study.store import Store

RUNS = Path("runs/sweep")


@app.command()
def sweep(
    families: Annotated[
        list[str],
        typer.Argument(
            metavar="FAMILY",
            help="Built-in names, file.py:Class, or LIST.txt: a family a line, then protocols and "
            "settings of its own, if any, as in `burgers paper` and `helmholtz-1d pinn k=3.25`.",
        ),
    ],
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"How to train; may be given several times. One of {', '.join(PROTOCOLS)}.",
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Coefficients to hold. Given several times: one training for each.",
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="N|A,B,...", help="How many, or which.")] = "1",
    steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Of the first phase of each.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="To train each for.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0, metavar="E", help="Train each until its estimated error is below."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local",
            help="Run on a Dask scheduler's workers, or on some of this machine; default: one "
            "after the other, here.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With `local`: how many; default: cores / 2."),
    ] = None,
    cluster_work: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Models and checkpoints on workers elsewhere; default: temporary."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Models, checkpoints, records and sweep.csv.")
    ] = RUNS,
    to: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="The table; default: in --out.")
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="The runs and what is known of them; run nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the table, no progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train any list of families by any protocols with any seeds: one table of all of it.

    Finished runs are skipped, killed ones go on from their checkpoint, failed ones are tried again:
    the same command goes on where it was. A run that fails is a line of the table, and does not end
    the others; the exit code is then 1. On a cluster, a family of your own has to be at the same
    path on every worker.

    \b
    lcpinn sweep helmholtz-1d burgers --seeds 4
    lcpinn sweep families.txt --protocol fast --protocol paper --cluster local
    lcpinn sweep my_pde.py:MyFamily --seeds 0,3,7 --tolerance 1e-6
    lcpinn sweep families.txt --seeds 4 --cluster tcp://10.0.0.1:8786 --cluster-work /shared/sweep
    """
    from lcpinn.study.store import Store
    from lcpinn.study.sweep import entries, line, planned, rows, seeds_of, setting, write_csv

    if workers is not None and cluster != "local":
        raise LcpinnError("--workers is for --cluster local: other clusters have theirs")
    if cluster_work is not None and cluster in (None, "local"):
        raise LcpinnError("--cluster-work is for workers elsewhere; here, models are in --out")
    given = {"steps": steps, "seconds": seconds, "tolerance": tolerance}
    options = {name: value for name, value in given.items() if value is not None}
    settings = [setting(text) for text in at or ()]
    seeds_asked = seeds_of(seeds)
    runs = planned(entries(families), protocol or ["fast"], settings, seeds_asked, options)
    store, reasons = Store(out, out / "records"), {}
    failed: list[Run] = []
    if not listed:
        known = [run for run in runs if store.is_over(run)]
        with _told(len(runs), len(known), quiet) as (tell, advance):

            def over(run: Run, reason: str | None) -> None:
                if reason is not None:
                    reasons[run.name] = reason
                tell(line(rows([run], store, reasons)[0]))
                advance()

            failed = _perform(runs, store, cluster, workers, cluster_work, tell, over)
    table = rows(runs, store, reasons)
    if not listed:
        write_csv(to or out / "sweep.csv", table)
    if as_json:
        print_json(table)
    else:
        _show(table, None if listed else to or out / "sweep.csv")
    if failed:
        raise typer.Exit(1)


def _perform(
    runs: Sequence[Run],
    store: Store,
    cluster: str | None,
    workers: int | None,
    cluster_work: Path | None,
    tell: Callable[[str], None],
    over: Callable[[Run, str | None], None],
) -> list[Run]:
    """What is missing, by the mechanism of `reproduce`; the runs that failed."""
    if cluster is None:
        from lcpinn.study.execute import execute

        return execute(runs, store, over=over)
    from lcpinn.study.cluster import execute_on

    # Lines about single runs come through `over`.
    about = lambda text: None if any(run.name in text for run in runs) else tell(text)
    options = {"work": cluster_work, "workers": workers, "say": about, "over": over}
    return execute_on(cluster, runs, store, **options)


@contextlib.contextmanager
def _told(
    total: int, over: int, quiet: bool
) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """A bar over all runs on a terminal, with the lines above it; plain lines elsewhere."""
    if quiet:
        yield lambda text: None, lambda: None
        return
    console = Console(stderr=True, highlight=False)
    if over:
        say(f"{over} of {total} runs are there already")
    if not console.is_terminal:
        yield say, lambda: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("remaining"))  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total, completed=over)
        yield (
            lambda text: bar.console.print(text, markup=False, highlight=False),
            lambda: bar.advance(task),
        )


def _show(table: Sequence[dict[str, Any]], written: Path | None) -> None:
    console = stdout()
    tables.show_sweep(console, table)
    for row in table:
        if row["reason"]:
            at = " ".join(filter(None, (row["family"], row["protocol"], row["at"])))
            tables.fact(console, "failed", f"{at}, seed {row['seed']}: {row['reason']}")
    done = sum(row["status"] == "done" for row in table)
    tables.fact(console, "runs", f"{done} of {len(table)}")
    if written is not None:
        tables.fact(console, "table", str(written))
