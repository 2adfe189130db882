"""What the paper shows, and the runs that each of its tables, figures and ablations needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lcpinn.errors import LcpinnError
from lcpinn.evaluation import grid_values
from lcpinn.families import FAMILIES, built
from lcpinn.protocol import WITH_DATA, reason_against, takes
from lcpinn.study.budget import BUDGETS, Budget
from lcpinn.study.changes import CHANGES
from lcpinn.study.paper import numbers
from lcpinn.study.run import BY_CODE, Run

OURS = ("paper", "paper-data", "fast")  # LC-PINN by the paper's protocols, and by ours
SOLVER = "interpolant"  # what one would do without a network; nothing in it is random
TABLES = tuple(FAMILIES)
FEW = 2  # seeds of an ablation, as in the paper
# Changes that take no other code.
SWITCHED = (
    "points=fresh", "lbfgs=1500", "faces=100", "prior=simplex", "equation=inviscid", "set=256",
    "fourier=0", "seeds=4-11",
)  # fmt: skip


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


def with_data(protocol: str) -> str | None:
    """The same method trained on the reference's values, too; None where there is no such."""
    return f"{protocol}-data" if protocol in WITH_DATA else None


def one_method(
    family: str,
    protocol: str,
    budget: str,
    seeds: Iterable[int] | None = None,
    change: str = "",
    settings: str = BY_CODE,
) -> list[Run]:
    """All seeds of a method; one that knows a single lambda, at every lambda of the grid."""
    given = BUDGETS[budget]
    if given.families is not None and family not in given.families:
        return []
    if given.small and not _is_other_code(protocol, change):
        return []
    grid: list[dict[str, float]] = [{}]
    if protocol not in (*OURS, SOLVER) and takes(protocol, "at"):
        made = built(family)
        values = grid_values(made) if made.parameters.names else [()]
        names = made.parameters.names
        grid = [dict(zip(names, map(float, lam), strict=True)) for lam in values]
        if given.small:
            grid = grid[:2]
    return [
        Run(family, protocol, seed, at, budget, change, settings=settings)
        for seed in _seeds(given, change, seeds)
        for at in grid
    ]


def _is_other_code(protocol: str, change: str) -> bool:
    """Whether a run shows of the code what no other does: shrunk ones are for nothing else.

    One method with data is enough of those, and one without a change.
    """
    first_with_data = protocol == "paper-data" and not change
    return change not in SWITCHED and (first_with_data or not protocol.endswith("-data"))


def _seeds(given: Budget, change: str, asked: Iterable[int] | None) -> Iterable[int]:
    """Those of the budget, of them those that are asked for; or those of a change that has more."""
    if (more := CHANGES[change].seeds) is not None:
        return more if len(given.seeds) > 1 else ()
    return given.seeds if asked is None else [seed for seed in asked if seed in given.seeds]


def _table(family: str) -> Experiment:
    def runs(budget: str) -> list[Run]:
        both = [(method, with_data(method)) for method in methods(family)]
        named = [name for pair in both for name in pair if name is not None]
        planned = [run for method in named for run in one_method(family, method, budget)]
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


def _by_ours(families: Iterable[str]) -> Callable[[str], list[Run]]:
    return lambda budget: [r for f in families for p in OURS for r in one_method(f, p, budget)]


def solved(family: str) -> bool:
    """Whether a solver with interpolation answers for every setting of a family."""
    return reason_against(SOLVER, built(family)) is None


def _solver(budget: str) -> list[Run]:
    return [r for f in TABLES if solved(f) for r in one_method(f, SOLVER, budget, (0,))]


# What explains a row, in the order of how much: (protocol, change), with four seeds each. A run and
# the same one with a single thing switched stand side by side.
SWITCHES: dict[str, list[tuple[str, str]]] = {
    "helmholtz-1d": [
        ("paper", ""), ("paper-data", ""), ("paper", "lbfgs=1500"), ("paper", "points=fresh"),
        ("sa-pinn", ""), ("relobralo", ""), ("relobralo-data", ""), ("sa-pinn-data", ""),
        ("pi-deeponet-data", ""), ("pi-deeponet-data", "lbfgs=1500"),
    ],
    "burgers": [
        ("paper", ""), ("paper-data", ""), ("paper", "points=fresh"),
        ("paper-data", "points=fresh"), ("relobralo", ""), ("relobralo-data", ""),
        ("relobralo", "points=fresh"), ("causal-pinn", ""), ("causal-pinn-data", ""),
        ("causal-pinn", "faces=100"), ("causal-pinn", "points=fresh"), ("sa-pinn", ""),
        ("sa-pinn-data", ""), ("paper", "prior=simplex"), ("fno", ""), ("fno", "set=256"),
        ("fno", "fourier=0"),
    ],
    "schrodinger-1d": [
        ("paper", ""), ("paper-data", ""), ("paper", "lbfgs=1500"), ("sa-pinn", ""),
        ("sa-pinn-data", ""), ("sa-pinn-data", "seeds=4-11"), ("pi-deeponet-data", ""),
        ("pi-deeponet-data", "lbfgs=1500"),
    ],
    "buckley-leverett": [
        ("paper", ""), ("paper-data", ""), ("relobralo", ""), ("relobralo-data", ""),
        ("sa-pinn-data", "equation=inviscid"), ("sa-pinn-data", ""), ("sa-pinn", ""),
        ("paper", "points=fresh"),
    ],
    "helmholtz-2d": [("paper", ""), ("paper-data", ""), ("paper", "lbfgs=1500")],
    "helmholtz-3d": [("paper", ""), ("paper-data", ""), ("paper", "lbfgs=1500")],
}  # fmt: skip


# The same across families: what explains most in the least time on an accelerator.
_FIRST: list[tuple[str, str, str]] = [
    ("burgers", "paper", ""), ("burgers", "paper-data", ""),
    ("burgers", "causal-pinn", ""), ("burgers", "relobralo", ""),
    ("helmholtz-1d", "paper", ""), ("helmholtz-1d", "paper-data", ""),
    ("burgers", "causal-pinn-data", ""), ("burgers", "relobralo-data", ""),
    ("helmholtz-1d", "paper", "lbfgs=1500"), ("burgers", "paper", "points=fresh"),
    ("burgers", "paper-data", "points=fresh"),
    ("schrodinger-1d", "paper", ""), ("schrodinger-1d", "paper-data", ""),
    ("buckley-leverett", "paper", ""), ("buckley-leverett", "paper-data", ""),
    ("buckley-leverett", "relobralo-data", ""),
    ("buckley-leverett", "sa-pinn-data", "equation=inviscid"),
]  # fmt: skip


def _most(budget: str) -> list[Run]:
    return [r for f, p, change in _FIRST for r in one_method(f, p, budget, change=change)]


def _explaining(family: str) -> Experiment:
    def runs(budget: str) -> list[Run]:
        parts = SWITCHES[family]
        return [r for p, change in parts for r in one_method(family, p, budget, change=change)]

    return Experiment(f"explain-{family}", f"What explains the numbers of {family}", runs)


WEIGHTED = ("burgers", "buckley-leverett")
_BOTH = ("paper", "paper-data")  # the paper's ablations were made with data

_ALL = [
    Experiment("explain-most", "What explains most in the least time", _most),
    *(_explaining(family) for family in SWITCHES),
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
    Experiment("fields", "Figure: solutions and errors", _by_ours(FAMILIES)),
    Experiment("spread", "Figure: errors over the weightings", _by_ours(WEIGHTED)),
    Experiment("shots", "Ablation: the number of weightings in the mean", _by_ours(WEIGHTED)),
    _ablation("n-lambda", "Ablation: draws of lambda in a step",
              [("burgers", p, f"n_lambda={n}") for n in (1, 4, 16) for p in _BOTH]),
    _ablation("prior", "Ablation: how lambda is drawn",
              [*(("burgers", p, change) for change in ("n_lambda=4", "prior=log-cube")
                 for p in _BOTH),
               ("burgers", "paper", "prior=simplex"), ("helmholtz-1d", "paper", ""),
               ("helmholtz-1d", "paper", "prior=log-uniform")]),
    _ablation("conditioning", "Ablation: concatenation against FiLM",
              [(family, p, change)
               for family, other in (("helmholtz-1d", "concat"), ("burgers", "film"))
               for change in ("", f"conditioning={other}") for p in _BOTH]),
    _ablation("lbfgs", "Ablation: with and without L-BFGS",
              [(family, "paper", change) for family in ("helmholtz-1d", "schrodinger-1d")
               for change in ("", "no-lbfgs")]),
    _ablation("optimiser", "Ablation: Adam against Gauss-Newton on the same network",
              [("helmholtz-1d", "fast", ""), ("helmholtz-1d", "fast", "by-adam")]),
    Experiment("invariance", "Theory: how far answers depend on the loss weights",
               _by_ours(WEIGHTED)),
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


# (protocol, changes) of the first study, by family: what there are records of.
_FIRST_CHANGES: dict[str, dict[str, tuple[str, ...]]] = {
    "burgers": {
        "paper": ("n_lambda=1", "n_lambda=4", "n_lambda=16", "prior=cube", "prior=log-cube",
                  "conditioning=film"),
        "causal-pinn": ("causal=integral",),
    },
    "helmholtz-1d": {"paper": ("no-lbfgs", "prior=log-uniform", "conditioning=concat")},
    "schrodinger-1d": {"paper": ("no-lbfgs",)},
    "buckley-leverett": dict.fromkeys(("paper", "sa-pinn", "relobralo"), ("viscosity=0",)),
}  # fmt: skip


# What those changes were then, where they are others now.
FIRST_WORDS = {
    "conditioning=concat": "concat",
    "conditioning=film": "FiLM",
    "causal=integral": "R(<t) an integral, faces weighted one",
}


def first_study(family: str, protocol: str, change: str = "") -> list[Run]:
    """The runs of a method in the first study, with fresh points: none of them is made again."""
    return one_method(family, protocol, "full", change=change, settings="")


def of_first_study() -> list[Run]:
    """Every run that the first study may have left a record of."""
    runs = []
    for family in TABLES:
        changes = _FIRST_CHANGES.get(family, {})
        for protocol in methods(family):
            for change in ("", *changes.get(protocol, ())):
                runs += first_study(family, protocol, change)
    return [run for run in runs if run.of_first_study]


def needed(experiments: Iterable[Experiment], budget: str) -> list[Run]:
    """Every run once, in the order of the experiments."""
    if budget not in BUDGETS:
        raise LcpinnError(f"there is no budget {budget!r}; there are {', '.join(BUDGETS)}")
    by_run_name: dict[str, Any] = {}
    for experiment in experiments:
        for run in experiment.runs(budget):
            by_run_name.setdefault(run.name, run)
    return list(by_run_name.values())
