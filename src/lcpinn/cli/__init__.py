"""The command line. A file is a command; importing it enters the command into `app`."""

from __future__ import annotations

import contextlib
import sys
from typing import NoReturn

# In the order in which --help lists them.
# isort: off
from lcpinn.cli import families as families
from lcpinn.cli import train as train
from lcpinn.cli import evaluate as evaluate
from lcpinn.cli import certify as certify
from lcpinn.cli import predict as predict
from lcpinn.cli import infer as infer
from lcpinn.cli import plot as plot
from lcpinn.cli import explore as explore
from lcpinn.cli import export as export
from lcpinn.cli import check as check
from lcpinn.cli import solve as solve
from lcpinn.cli import sweep as sweep
from lcpinn.cli import reproduce as reproduce
from lcpinn.cli.common import app as app


def main(args: list[str] | None = None) -> NoReturn:
    """The `lcpinn` command."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    app(args, prog_name="lcpinn")
    raise SystemExit(0)
