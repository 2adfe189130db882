"""From what a person types to a family: a built-in name, or a class in a file of their own."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lcpinn.errors import LcpinnError

if TYPE_CHECKING:
    from lcpinn.family import Family


def find_family(text: str) -> Family:
    """The family called 'helmholtz-1d', 'file.py:Class', or 'file.py' where it holds only one.

    In place of a class, a file may name an instance: 'file.py:wide' with wide = Channel(width=3).
    """
    from lcpinn.family import Family

    file, name = split(text)
    if file is None:
        return _built_in(text)
    module = _import(file)
    value = getattr(module, name, None) if name else _only_family(file, module)
    if isinstance(value, Family):
        return value
    if value is None:
        raise LcpinnError(f"{file} has no {name!r}; {_families_there(module)}")
    if not (isinstance(value, type) and issubclass(value, Family)):
        what = "a class" if isinstance(value, type) else f"of type {type(value).__name__}"
        known = _families_there(module)
        raise LcpinnError(f"{name!r} of {file} is {what}, but no lcpinn.Family; {known}")
    return _construct(file, value)


def split(text: str) -> tuple[Path | None, str]:
    """'file.py:Class' as its two parts; no file where the text is a built-in name."""
    if text.endswith(".py"):
        return Path(text), ""
    file, colon, name = text.rpartition(":")
    if colon and name.isidentifier() and file.endswith(".py"):
        return Path(file), name
    if "/" in text or "\\" in text or ".py" in text:
        raise LcpinnError(f"{text!r} is neither file.py nor file.py:Class")
    return None, text


def in_users_file(error: BaseException, file: Path) -> str | None:
    """One line about an error that came from the user's own file, or None where it did not."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _same(f.filename, file)]
    if not frames:
        return None
    # A term runs inside JAX, whose messages go on for paragraphs: the first line says what it is.
    return f"{file}, line {frames[-1].lineno}, in {frames[-1].name}: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """An exception in one line."""
    if isinstance(error, LcpinnError):
        return str(error)
    if isinstance(error, SystemExit):
        return "it ends Python; put what is to be run under if __name__ == '__main__':"
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    first = next((line.strip() for line in (message or "").splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


# Built-in names.


def _built_in(name: str) -> Family:
    from lcpinn.families import BUILT_IN, built

    if name in BUILT_IN:
        return built(name)
    close = difflib.get_close_matches(name.lower(), BUILT_IN, 2)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    known = ", ".join(BUILT_IN)
    raise LcpinnError(
        f"there is no family {name!r}{hint} (there are {known}; your own is file.py:Class)"
    )


# Files.


def _import(file: Path) -> ModuleType:
    if not file.is_file():
        what = "a directory" if file.is_dir() else "no such file"
        raise LcpinnError(f"cannot read {file}: {what}")
    path = file.resolve()
    # A name of its own, or a file called jax.py would take the place of JAX.
    name = f"lcpinn_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # the file may import its neighbours, as a script does
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        reason = f"{_where(error, file)}{one_line(error)}"
        raise LcpinnError(f"{file} cannot be imported: {reason}") from error
    return module


def _where(error: BaseException, file: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _same(f.filename, file)]
    return f"line {frames[-1].lineno}: " if frames else ""


def _same(filename: str, file: Path) -> bool:
    return Path(filename) == file.resolve()


def _families_in(module: ModuleType) -> dict[str, type[Family]]:
    """The families that the file itself defines."""
    from lcpinn.family import Family

    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Family)
        and value.__module__ == module.__name__
    }


def _families_there(module: ModuleType) -> str:
    names = ", ".join(_families_in(module))
    return f"its families are {names}" if names else "it defines no family"


def _only_family(file: Path, module: ModuleType) -> type[Family]:
    families = _families_in(module)
    if len(families) == 1:
        return next(iter(families.values()))
    if not families:
        raise LcpinnError(f"{file} defines no family: no class there inherits from lcpinn.Family")
    choices = ", ".join(f"{file}:{name}" for name in families)
    raise LcpinnError(f"{file} defines {len(families)} families; say which: {choices}")


def _construct(file: Path, cls: type[Family]) -> Family:
    missing = _required(cls)
    if missing:
        raise LcpinnError(
            f"{cls.__name__} of {file} needs {', '.join(missing)}; give them defaults, or make an "
            f"instance in the file and name that: {file}:instance"
        )
    try:
        return cls()
    except LcpinnError:
        raise
    except Exception as error:
        line = in_users_file(error, file) or f"{cls.__name__} of {file}: {one_line(error)}"
        raise LcpinnError(line) from error


def _required(cls: type[Family]) -> list[str]:
    """The constructor's arguments that have no default."""
    if cls.__init__ is object.__init__:
        return []
    parameters: list[Any] = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
