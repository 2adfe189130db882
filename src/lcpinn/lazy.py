"""Packages that are loaded when something of them is first used.

SciPy does so by itself: `import scipy` is cheap, and `scipy.linalg` is loaded where it is asked.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import optax as optax


class _Package:
    """Stands for a package until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if not TYPE_CHECKING:
    optax = _Package("optax")
