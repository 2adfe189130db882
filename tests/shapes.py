"""Shapes in signatures are checked while the tests run: jaxtyping's import hook, with beartype.

`Float[Array, "l n"]` of a signature is compared with what is passed and returned, and axes of one
name with one another, at every call; what compiles is checked when it is traced. Other types are
the static checker's, and some tests pass wrong ones on purpose. Nothing of it is in the package.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

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
