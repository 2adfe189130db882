"""What the paper shows, and the runs that each of its tables, figures and ablations needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.evaluation import grid_values
from lcpinn.families import FAMILIES, built
from lcpinn.protocol import reason_against, takes
from lcpinn.study.budget import BUDGETS
from lcpinn.study.paper import numbers
from lcpinn.study.run import Run

OURS = ("paper", "fast")  # LC-PINN by the paper's protocol, and by ours
SOLVER = "interpolant"  # what one would do without a network; nothing in it is random
TABLES = tuple(FAMILIES)
FEW = 2  # seeds of an ablation, as in the paper


@dataclass(frozen=True)
class Experiment:
    """A part of the report: its runs at a budget, in the order in which they matter."""

    name: str
    title: str
    runs: Callable[[str], list[Run]]


def methods(family: str) -> list[str]:
    """The protocols of a family's table: the paper's rows, in its order, then `fast`."""
    rows = numbers()["tables"][family]["rows"]
    return ["paper" if row == "lc-pinn" else row for row in rows] + ["fast"]


def one_method(
    family: str, protocol: str, budget: str, seeds: Iterable[int] | None = None, change: str = ""
) -> list[Run]:
    """All seeds of a method; one that knows a single lambda, at every lambda of the grid."""
    given = BUDGETS[budget]
    if given.families is not None and family not in given.families:
        return []
    seeds = given.seeds if seeds is None else [s for s in seeds if s in given.seeds]
    settings: list[dict[str, float]] = [{}]
    if protocol not in (*OURS, SOLVER) and takes(protocol, "at"):
        made = built(family)
        values = grid_values(made) if made.parameters.names else [()]
        names = made.parameters.names
        settings = [dict(zip(names, map(float, lam), strict=True)) for lam in values]
        if given.small:
            settings = settings[:2]
    return [Run(family, protocol, seed, at, budget, change) for seed in seeds for at in settings]


def _table(family: str) -> Experiment:
    def runs(budget: str) -> list[Run]:
        planned = [run for method in methods(family) for run in one_method(family, method, budget)]
        if family == "buckley-leverett":
            for method in ("paper", "sa-pinn", "relobralo"):
                planned += one_method(family, method, budget, range(FEW), "viscosity=0")
        return planned

    return Experiment(family, f"Table: {family}", runs)


def _per(family: str, parameter: str) -> Experiment:
    """The same runs as the family's table, looked at one lambda at a time."""
    name = f"{family}-per-{parameter}"
    return Experiment(name, f"Table and figure: {family}, each {parameter}", _table(family).runs)


def _ablation(name: str, title: str, parts: Iterable[tuple[str, str, str]]) -> Experiment:
    """Parts are (family, protocol, change)."""

    def runs(budget: str) -> list[Run]:
        few = range(FEW)
        return [r for f, p, change in parts for r in one_method(f, p, budget, few, change)]

    return Experiment(name, title, runs)


def _several(families: Iterable[str], protocols: Iterable[str]) -> Callable[[str], list[Run]]:
    return lambda budget: [
        run
        for family in families
        for protocol in protocols
        if reason_against(protocol, built(family)) is None
        for run in one_method(family, protocol, budget)
    ]


def solved(family: str) -> bool:
    """Whether a solver with interpolation answers for every setting of a family."""
    return reason_against(SOLVER, built(family)) is None


def _solver(budget: str) -> list[Run]:
    return [r for f in TABLES if solved(f) for r in one_method(f, SOLVER, budget, (0,))]


def _tried(budget: str) -> list[Run]:
    """One seed: whether an explanation holds, not how a method compares."""
    return one_method("burgers", "causal-pinn", budget, (0,), "causal=integral")


WEIGHTED = ("burgers", "buckley-leverett")

_ALL = [
    _table("helmholtz-1d"),
    _per("helmholtz-1d", "k"),
    _table("schrodinger-1d"),
    _per("schrodinger-1d", "alpha"),
    _table("burgers"),
    _table("helmholtz-2d"),
    _table("helmholtz-3d"),
    _table("buckley-leverett"),
    Experiment(
        "amortisation",
        "Table: after how many settings one network pays",
        lambda budget: [run for family in TABLES for run in _table(family).runs(budget)],
    ),
    Experiment("solver", "Table: what a solver with interpolation takes instead", _solver),
    Experiment(
        "frontier",
        "Figure: error against time as the number of settings grows",
        lambda budget: [r for f in ("helmholtz-1d", "burgers") for r in _table(f).runs(budget)],
    ),
    Experiment("fields", "Figure: solutions and errors", _several(FAMILIES, OURS)),
    Experiment("spread", "Figure: errors over the weightings", _several(WEIGHTED, OURS)),
    Experiment("shots", "Ablation: the number of weightings in the mean",
               _several(WEIGHTED, OURS)),
    _ablation("n-lambda", "Ablation: draws of lambda in a step",
              [("burgers", "paper", f"n_lambda={n}") for n in (1, 4, 16)]),
    _ablation("prior", "Ablation: how lambda is drawn",
              [("burgers", "paper", "n_lambda=4"), ("burgers", "paper", "prior=cube"),
               ("burgers", "paper", "prior=log-cube"), ("helmholtz-1d", "paper", ""),
               ("helmholtz-1d", "paper", "prior=log-uniform")]),
    _ablation("conditioning", "Ablation: concatenation against FiLM",
              [("helmholtz-1d", "paper", ""), ("helmholtz-1d", "paper", "conditioning=concat"),
               ("burgers", "paper", ""), ("burgers", "paper", "conditioning=film")]),
    _ablation("lbfgs", "Ablation: with and without L-BFGS",
              [(family, "paper", change) for family in ("helmholtz-1d", "schrodinger-1d")
               for change in ("", "no-lbfgs")]),
    _ablation("optimiser", "Ablation: Adam against Gauss-Newton on the same network",
              [("helmholtz-1d", "fast", ""), ("helmholtz-1d", "fast", "by-adam")]),
    Experiment("tried", "What was tried where results differ", _tried),
    Experiment("invariance", "Theory: how far answers depend on the loss weights",
               _several(WEIGHTED, OURS)),
]  # fmt: skip

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _ALL}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments of these names; all of them where none is named."""
    wanted = list(names) or list(EXPERIMENTS)
    unknown = [name for name in wanted if name not in EXPERIMENTS]
    if unknown:
        known = ", ".join(EXPERIMENTS)
        raise LcpinnError(f"there is no experiment {unknown[0]!r}; there are {known}")
    return [EXPERIMENTS[name] for name in wanted]


def needed(experiments: Iterable[Experiment], budget: str) -> list[Run]:
    """Every run once, in the order of the experiments."""
    if budget not in BUDGETS:
        raise LcpinnError(f"there is no budget {budget!r}; there are {', '.join(BUDGETS)}")
    by_run_name: dict[str, Any] = {}
    for experiment in experiments:
        for run in experiment.runs(budget):
            by_run_name.setdefault(run.name, run)
    return list(by_run_name.values())
