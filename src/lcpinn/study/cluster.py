"""Running what is missing of a study on a Dask cluster, be it one of this machine.

A task is a run, trained and measured on a worker, and what comes back is its record: workers need
lcpinn, but neither the directory of the records nor anything else of this machine. The task's key
is the run's name, so that a run is never there twice, and a task whose worker dies is done again
elsewhere. What such a worker had trained is lost, unless `work` names a directory that the workers
share: then the run goes on from its last checkpoint. A scheduler that goes away is waited for; what
was not done then is submitted again.

Workers should have one thread (`dask worker ADDRESS --nthreads 1`) and share no GPU with another.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lcpinn.compilation import enable_cache
from lcpinn.errors import LcpinnError
from lcpinn.study.execute import Over, Say, execute
from lcpinn.study.run import Run
from lcpinn.study.store import Store
from lcpinn.threads import usable_cores

LOCAL = "local"  # the address of a cluster that is started here, and ends with the study
TIMEOUT = 10.0  # seconds for the scheduler to answer
PATIENCE = 60.0  # seconds for a scheduler that went away to come back
POLL = 1.0  # seconds between looks at a run that another worker still claims


def execute_on(
    address: str,
    runs: Iterable[Run],
    store: Store,
    *,
    work: str | Path | None = None,
    workers: int | None = None,
    say: Say = lambda line: None,
    over: Over = lambda run, reason: None,
) -> list[Run]:
    """Have the missing records made by the workers of the scheduler at `address`, or `local` ones.

    `work` is a directory on the workers for models and checkpoints, by default a temporary one for
    each run; local workers share the store's, and `workers` is how many of them there are. A run
    that fails is reported in a line and the others go on; those that failed are returned. An
    interrupt cancels what has not begun; a worker ends the run that it is at.
    """
    runs, failed = list(runs), []
    with _local(workers, say) if address == LOCAL else contextlib.nullcontext(address) as reached:
        place = store.work.resolve() if address == LOCAL else work
        while True:
            remaining = [run for run in runs if run not in failed]
            try:
                with _connected(reached) as client:
                    _submitted(client, remaining, store, place, failed, say, over)
                return failed
            except _SchedulerLostError as lost:
                say(f"{lost}: waiting for it to come back")
                _wait_for(reached, lost)


class _SchedulerLostError(Exception):
    """The connection broke while runs were not over."""


def _submitted(
    client: Any,
    runs: Sequence[Run],
    store: Store,
    work: str | Path | None,
    failed: list[Run],
    say: Say,
    over: Over,
) -> None:
    """Have what is missing done by a scheduler's workers, and what has a model measured here."""
    trained = [run for run in runs if store.is_trained(run)]
    missing = [run for run in runs if run not in trained]
    place = None if work is None else str(work)
    # In a directory that workers share with this process the claims are theirs.
    shared = place is not None and Path(place).resolve() == store.work.resolve()
    with contextlib.nullcontext(missing) if shared else store.claim(missing) as own:
        futures = {client.submit(record, run, place, key=run.name): run for run in own}
        try:
            if futures and not client.scheduler_info()["workers"]:
                address = client.scheduler.address
                say(f"{address} has no workers yet: {len(futures)} runs wait for some")
            # What this machine has the models of.
            failed += execute(trained, store, say=say, over=over)
            _collect(client, futures, store, failed, say, over)
        except BaseException:
            with contextlib.suppress(Exception):  # the scheduler may be what went away
                client.cancel(list(futures), force=True)
            raise


def record(run: Run, work: str | None) -> dict[str, Any]:
    """What a worker does: train and measure one run."""
    enable_cache()
    reasons: list[str] = []
    over = lambda run, reason: reasons.append(reason) if reason else None
    with tempfile.TemporaryDirectory(prefix="lcpinn-") as scratch:
        place = Path(work or scratch)
        store = Store(place, place / "records")
        execute([run], store, over=over)
        while (written := store.record(run)) is None:
            if reasons:
                raise LcpinnError(reasons[0])
            time.sleep(POLL)  # in a shared directory another worker may be at it, or have died
            execute([run], store, over=over)
    return written


def _collect(
    client: Any, futures: dict[Any, Run], store: Store, failed: list[Run], say: Say, over: Over
) -> None:
    from distributed import as_completed

    for done, future in enumerate(as_completed(list(futures), loop=client.loop), start=1):
        run, so_far = futures[future], f"{done} of {len(futures)}"
        if future.status in ("cancelled", "lost"):
            raise _SchedulerLostError(
                f"the scheduler at {client.scheduler.address} went away, or another client "
                f"cancelled {run.name}"
            )
        try:
            store.write(run, future.result())
            say(f"{so_far}: {run.name}: measured")
            over(run, None)
        except Exception as error:
            failed.append(run)
            say(f"{so_far}: {run.name}: {_in_one_line(error)}")
            over(run, _in_one_line(error))
        future.release()


def _wait_for(address: str, lost: _SchedulerLostError) -> None:
    """Until a scheduler answers at an address again, or nobody would wait any longer."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            with _connected(address, timeout=min(TIMEOUT, PATIENCE)):
                return
        except LcpinnError:
            if time.monotonic() >= ends:
                raise LcpinnError(f"{lost}; what has come back is kept") from None
            time.sleep(POLL)


def _in_one_line(error: Exception) -> str:
    from distributed import KilledWorker

    if isinstance(error, LcpinnError):
        return str(error)
    if isinstance(error, KilledWorker):
        return "every worker that had it died, out of memory perhaps; it is not tried again"
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextlib.contextmanager
def _connected(address: str, timeout: float | None = None) -> Iterator[Any]:
    with _needing_dask():
        from distributed import Client
    try:
        client = Client(address, timeout=timeout or TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise LcpinnError(f"there is no Dask scheduler at {address}: {reason}") from None
    # What it would say of a lost connection is said here.
    with _silent("distributed.client"), client:
        yield client


@contextlib.contextmanager
def _local(workers: int | None, say: Say) -> Iterator[str]:
    """A scheduler and workers of this machine; a worker that dies comes back."""
    with _needing_dask():
        from distributed import LocalCluster
    num = workers or _workers_here()
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with _silent("distributed.nanny", "distributed.worker", "distributed.scheduler"):
        cluster: Any = LocalCluster(n_workers=num, **options)
        with cluster:
            say(f"local workers at {cluster.scheduler_address}: {num}")
            yield cluster.scheduler_address


def _workers_here() -> int:
    """A training uses two cores well; workers that share a GPU would share its memory, too."""
    return 1 if Path("/dev/nvidia0").exists() else max(1, usable_cores() // 2)


@contextlib.contextmanager
def _needing_dask() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise LcpinnError(
            "running on a cluster needs Dask: pip install 'lcpinn[cluster]'"
        ) from None


@contextlib.contextmanager
def _silent(*names: str) -> Iterator[None]:
    """These loggers say nothing short of a crash."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
