"""Running what is missing of a study on a Dask cluster.

A task is a run, trained and measured on a worker, and what comes back is its record: workers need
lcpinn, but neither the directory of the records nor anything else of this machine. The task's key
is the run's name, so that a run is never there twice, and a task whose worker dies is done again
elsewhere. What such a worker had trained is lost, unless `work` names a directory that the workers
share: then the run goes on from its last checkpoint, once its claim there has gone stale.

Workers should have one thread (`dask worker ADDRESS --nthreads 1`) and share no GPU with another.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lcpinn.compilation import enable_cache
from lcpinn.errors import LcpinnError
from lcpinn.study.execute import Say, execute
from lcpinn.study.run import Run
from lcpinn.study.store import Store

TIMEOUT = 10.0  # seconds for the scheduler to answer
POLL = 1.0  # seconds between looks at a run that another worker still claims


def execute_on(
    address: str,
    runs: Iterable[Run],
    store: Store,
    *,
    work: str | Path | None = None,
    say: Say = lambda line: None,
) -> list[Run]:
    """Have the missing records made by the workers of the scheduler at `address`.

    `work` is a directory on the workers for models and checkpoints, by default a temporary one for
    each run. A run that fails is reported in a line and the others go on; those that failed are
    returned. An interrupt cancels what has not begun; a worker ends the run that it is at.
    """
    runs = list(runs)
    trained = [run for run in runs if store.is_trained(run)]
    with _connected(address) as client, store.claim(r for r in runs if r not in trained) as own:
        place = None if work is None else str(work)
        futures = {client.submit(record, run, place, key=run.name): run for run in own}
        try:
            if futures and not client.scheduler_info()["workers"]:
                say(f"{address} has no workers yet: {len(futures)} runs wait for some")
            execute(trained, store, say=say)  # what this machine has the models of
            return _collect(client, futures, store, say)
        except BaseException:
            with contextlib.suppress(Exception):  # the scheduler may be what went away
                client.cancel(list(futures), force=True)
            raise


def record(run: Run, work: str | None) -> dict[str, Any]:
    """What a worker does: train and measure one run."""
    enable_cache()
    with tempfile.TemporaryDirectory(prefix="lcpinn-") as scratch:
        store = Store(Path(work or scratch), Path(scratch) / "records")
        execute([run], store)
        while (written := store.record(run)) is None:
            time.sleep(POLL)  # in a shared directory the claim of a dead worker has to go stale
            execute([run], store)
    return written


def _collect(client: Any, futures: dict[Any, Run], store: Store, say: Say) -> list[Run]:
    from distributed import as_completed

    failed: list[Run] = []
    for done, future in enumerate(as_completed(list(futures), loop=client.loop), start=1):
        run = futures[future]
        if future.status in ("cancelled", "lost"):
            raise LcpinnError(
                f"the scheduler at {client.scheduler.address} went away, or another client "
                f"cancelled {run.name}; what has come back is kept"
            )
        so_far = f"{done} of {len(futures)}"
        try:
            store.write(run, future.result())
            say(f"{so_far}: {run.name}: measured")
        except Exception as error:
            failed.append(run)
            say(f"{so_far}: {run.name}: {_in_one_line(error)}")
        future.release()
    return failed


def _in_one_line(error: Exception) -> str:
    from distributed import KilledWorker

    if isinstance(error, LcpinnError):
        return str(error)
    if isinstance(error, KilledWorker):
        return "every worker that had it died, out of memory perhaps; it is not tried again"
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise LcpinnError(
            "running on a cluster needs Dask: pip install 'lcpinn[cluster]'"
        ) from None
    try:
        client = Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise LcpinnError(f"there is no Dask scheduler at {address}: {reason}") from None
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # what it would say of a lost connection is said here
    try:
        with client:
            yield client
    finally:
        logger.setLevel(level)
