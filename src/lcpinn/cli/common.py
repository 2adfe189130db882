"""What every command shares: the application, its errors and arguments, opening a model."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from lcpinn import __version__
from lcpinn.errors import LcpinnError, OutsidePriorWarning
from lcpinn.locate import find_family, in_users_file, split

if TYPE_CHECKING:
    from lcpinn.solution import Solution


class _Group(TyperGroup):
    """Turns the library's errors into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with _warnings_in_one_line():
                return super().invoke(ctx)
        except LcpinnError as error:
            fail(str(error), 2)
        except KeyboardInterrupt:
            fail("interrupted", 130)


class _Command(TyperCommand):
    """Runs with compiled programs kept on disk; its help needs neither them nor JAX."""

    def invoke(self, ctx: Any) -> Any:
        from lcpinn.compilation import enable_cache

        enable_cache()
        # Tracing makes and drops objects by the million, hardly any in cycles: looking for those
        # every few hundred takes a sixth of the time.
        gc.set_threshold(50_000, 20, 100)
        return super().invoke(ctx)


class _Application(typer.Typer):
    """All of its commands are `_Command`s."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().command(name, cls=_Command, **options)


def fail(message: str, code: int) -> NoReturn:
    say(message)
    raise typer.Exit(code)


def say(message: str) -> None:
    print("lcpinn:", " ".join(message.split()), file=sys.stderr, flush=True)


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What an answer should be read with goes to stderr; developers' warnings stay as they are."""
    otherwise = warnings.showwarning

    def show(message: Any, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, (OutsidePriorWarning, RuntimeWarning)):
            say(f"warning: {message}")
        else:
            otherwise(message, category, *rest)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def blaming(family: str | None) -> Iterator[None]:
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


def stdout() -> Console:
    return Console(highlight=False)


def print_json(data: Any) -> None:
    print(json.dumps(_strict(data), indent=1, ensure_ascii=False))


def _strict(data: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(data, dict):
        return {key: _strict(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_strict(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


app = _Application(
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
        jax, python = metadata.version("jax"), platform.python_version()
        print(f"lcpinn {__version__} (JAX {jax}, Python {python})")
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


def open_model(model: Path, family: str | None) -> Solution:
    from lcpinn.solution import load

    if not model.exists():
        raise LcpinnError(f"there is no {model}")
    if model.is_dir() and not (model / "model.safetensors").exists():
        what = "a run that is not finished" if (model / "run.json").exists() else "no run"
        raise LcpinnError(f"{model} holds {what}: it has no model.safetensors")
    return load(model, None if family is None else find_family(family))
