"""Shapes in signatures are checked while the tests run: jaxtyping's import hook, with beartype.

`Float[Array, "l n"]` of a signature is compared with what is passed and returned, and axes of one
name with one another, at every call; what compiles is checked when it is traced. Other types are
the static checker's, and some tests pass wrong ones on purpose. Nothing of it is in the package.
"""

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray, install_import_hook

_SHAPED = re.compile(r"^from jaxtyping import .*\b(?:Bool|Complex|Float|Int|Num|Shaped)\b", re.M)


def modules(source: Path) -> list[str]:
    """The modules below src/ that have shapes in their signatures."""
    files = [path for path in sorted(source.rglob("*.py")) if _SHAPED.search(path.read_text())]
    return [
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for path in files
    ]


def install(source: Path) -> None:
    """Before any of lcpinn is imported."""
    install_import_hook(modules(source), "shapes.checked")
    jaxtyping.jaxtyped = functools.partial(where_shapes_are_said, jaxtyping.jaxtyped)


def where_shapes_are_said(jaxtyped: Any, made: Any = None, /, **options: Any) -> Any:
    """jaxtyping's decorator, which the hook has put on everything, where there is work for it.

    It takes a millisecond to decorate, functions within functions at each call, and binds the
    arguments three times whether or not there is anything to check.
    """
    if made is None:
        return functools.partial(where_shapes_are_said, jaxtyped, **options)
    function = made.__init__ if inspect.isclass(made) else made
    if inspect.isfunction(function) and not _is_shaped(function):
        return made
    return jaxtyped(made, **options)


_SHAPED_CODE: dict[CodeType, bool] = {}


def _is_shaped(function: Callable[..., Any]) -> bool:
    """Whether a signature says a shape; found out once for all functions of one definition."""
    code = function.__code__
    if code in _SHAPED_CODE:
        return _SHAPED_CODE[code]
    hints = [_meaning(hint, function.__globals__) for hint in function.__annotations__.values()]
    shaped = any(map(_says_a_shape, hints))
    if None not in hints:  # else a later definition may know the name
        _SHAPED_CODE[code] = shaped
    return shaped


def _meaning(hint: Any, names: dict[str, Any]) -> Any:
    """What a hint says; None where a name is not there yet, which jaxtyping then leaves out."""
    try:
        return get_type_hints(SimpleNamespace(__annotations__={"it": hint}), names)["it"]
    except Exception:
        return None


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with those of its annotations checked that say a shape."""
    annotations = function.__annotations__
    shaped = {name: hint for name, hint in annotations.items() if _says_a_shape(hint)}
    if not shaped:
        return function
    function.__annotations__ = shaped
    return beartype(function)


def _says_a_shape(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_says_a_shape(part) for part in get_args(hint))
