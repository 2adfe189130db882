"""What a person sees while training: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, Protocol, Self

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text


class Meter(Protocol):
    """Told about each phase as it goes."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def start(self, title: str, total: int, step: int) -> None: ...
    def update(self, step: int, numbers: dict[str, Any]) -> None: ...
    def say(self, line: str) -> None: ...


def meter(show: bool) -> Meter:
    """The meter that fits where the output goes."""
    if not show:
        return Silent()
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines()


def words(numbers: dict[str, Any]) -> str:
    """Loss and its terms, and whatever else the optimiser reports, in one line."""
    hidden = ("terms", "seconds_left")
    parts = [f"{k} {_number(v)}" for k, v in numbers.items() if k not in hidden]
    terms = ", ".join(f"{k} {float(v):.1e}" for k, v in numbers.get("terms", {}).items())
    return "  ".join(parts) + (f"  ({terms})" if terms else "")


def _number(value: Any) -> str:
    whole = np.issubdtype(np.asarray(value).dtype, np.integer)
    return str(int(value)) if whole else f"{float(value):.2e}"


class Silent:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def start(self, title: str, total: int, step: int) -> None:
        pass

    def update(self, step: int, numbers: dict[str, Any]) -> None:
        pass

    def say(self, line: str) -> None:
        pass


class Lines(Silent):
    """A line every few seconds, for logs and pipes."""

    def __init__(self, every: float = 10.0):
        self.every, self.last, self.title, self.total = every, 0.0, "", 0

    def start(self, title: str, total: int, step: int) -> None:
        self.title, self.total, self.begun, self.first = title, total, time.monotonic(), step
        self.say(f"{title}: step {step} of {total}")

    def update(self, step: int, numbers: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self.last >= self.every or step >= self.total:
            self.last = now
            pace = (now - self.begun) / max(step - self.first, 1)
            remaining = min(pace * (self.total - step), float(numbers.get("seconds_left", np.inf)))
            self.say(f"{self.title}: {step}/{self.total}  {words(numbers)}  {remaining:.0f} s left")

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Bar:
    """A rich progress bar with the time left, and below it the loss and its terms."""

    def __init__(self, console: Console):
        self.progress = _WithNumbers(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            expand=True,
        )
        self.task: Any = None

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._clear()
        self.progress.stop()

    def start(self, title: str, total: int, step: int) -> None:
        self._clear()
        self.progress.numbers = "compiling"
        self.total, self.begun = total, time.monotonic()
        self.task = self.progress.add_task(
            title, total=total, completed=step, count=f"{step}/{total}"
        )

    def update(self, step: int, numbers: dict[str, Any]) -> None:
        self.progress.numbers = words(numbers)
        remaining = numbers.get("seconds_left")
        if remaining is None:
            self.progress.update(self.task, completed=step, count=f"{step}/{self.total}")
            return
        # A phase with a time budget is as far as its clock is, not its steps.
        spent = time.monotonic() - self.begun
        total = spent + float(remaining)
        self.progress.update(self.task, completed=spent, total=total, count=f"step {step}")

    def say(self, line: str) -> None:
        self.progress.console.print(line, highlight=False, markup=False)

    def _clear(self) -> None:
        """A phase that is over has said why; its bar would only repeat it."""
        self.progress.numbers = ""
        if self.task is not None:
            self.progress.remove_task(self.task)
            self.task = None


class _WithNumbers(Progress):
    """A line of its own for the numbers: beside the bar they leave no room for the time."""

    numbers = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.numbers:
            yield Text(f"  {self.numbers}", style="dim", no_wrap=True, overflow="ellipsis")
