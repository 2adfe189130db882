"""lcpinn: one physics-informed neural network for a whole family of differential equations.

A name is loaded when it is first used: JAX takes a second, which `lcpinn --help` does without.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lcpinn.errors import LcpinnError as LcpinnError
from lcpinn.errors import NotSolvedWarning as NotSolvedWarning
from lcpinn.errors import OutsidePriorWarning as OutsidePriorWarning

if TYPE_CHECKING:
    from lcpinn import network as network
    from lcpinn import optimiser as optimiser
    from lcpinn import protocol as protocol
    from lcpinn import weighting as weighting
    from lcpinn.family import Data as Data
    from lcpinn.family import Evaluation as Evaluation
    from lcpinn.family import Family as Family
    from lcpinn.grading import graded as graded
    from lcpinn.inverse import Fit as Fit
    from lcpinn.prior import Cube as Cube
    from lcpinn.prior import LogCube as LogCube
    from lcpinn.prior import LogUniform as LogUniform
    from lcpinn.prior import Simplex as Simplex
    from lcpinn.prior import Uniform as Uniform
    from lcpinn.protocol import Protocol as Protocol
    from lcpinn.retraining import retrain as retrain
    from lcpinn.shape import Ball as Ball
    from lcpinn.shape import Box as Box
    from lcpinn.shape import Inside as Inside
    from lcpinn.shape import Periodic as Periodic
    from lcpinn.shape import Polygon as Polygon
    from lcpinn.solution import Solution as Solution
    from lcpinn.solution import load as load
    from lcpinn.spectral import NumericalSolution as NumericalSolution
    from lcpinn.spectral import solve as solve
    from lcpinn.term import interior as interior
    from lcpinn.term import on as on
    from lcpinn.training import train as train
    from lcpinn.verdict import Verdict as Verdict

__version__ = "0.1.0"

# The module of every public name; None: it is a module itself.
_MODULES = {
    "Ball": "shape",
    "Box": "shape",
    "Cube": "prior",
    "Data": "family",
    "Evaluation": "family",
    "Family": "family",
    "Fit": "inverse",
    "Inside": "shape",
    "LcpinnError": "errors",
    "LogCube": "prior",
    "LogUniform": "prior",
    "NotSolvedWarning": "errors",
    "NumericalSolution": "spectral",
    "OutsidePriorWarning": "errors",
    "Periodic": "shape",
    "Polygon": "shape",
    "Protocol": "protocol",
    "Simplex": "prior",
    "Solution": "solution",
    "Uniform": "prior",
    "Verdict": "verdict",
    "graded": "grading",
    "interior": "term",
    "load": "solution",
    "network": None,
    "on": "term",
    "optimiser": None,
    "protocol": None,
    "retrain": "retraining",
    "solve": "spectral",
    "train": "training",
    "weighting": None,
}

__all__ = list(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _MODULES.get(name)
    if home is None and (name.startswith("_") or find_spec(f"lcpinn.{name}") is None):
        raise AttributeError(f"module 'lcpinn' has no attribute {name!r}")
    module = import_module(f"lcpinn.{home or name}")
    value = module if home is None else getattr(module, name)
    globals()[name] = value  # from now on without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
