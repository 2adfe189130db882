"""The command line. A file is a command; importing it enters the command into `app`."""

from __future__ import annotations

import contextlib
import sys
from typing import NoReturn

# In the order in which --help lists them.
# isort: off
from lcpinn.cli import families, train, evaluate, certify, predict, check
from lcpinn.cli.common import app

__all__ = ["app", "families", "train", "evaluate", "certify", "predict", "check", "main"]


def main(args: list[str] | None = None) -> NoReturn:
    """The `lcpinn` command."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    app(args, prog_name="lcpinn")
    raise SystemExit(0)
