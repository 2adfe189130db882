"""The ablations and the theory's measurements, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lcpinn.study.measure import SHOTS
from lcpinn.study.paper import numbers
from lcpinn.study.plan import OURS
from lcpinn.study.report.cells import Cell, Study
from lcpinn.study.report.markdown import METHODS, NOT_RUN, error, judged, spread, table

Lines = list[str]
# (what is said of it, family, protocol, change, the paper's ablation and its key)
Row = tuple[str, str, str, str, tuple[str, str] | None]

_DRAWS = "n_lambda (burgers, 25k steps, 2 seeds)"
_PRIOR = "prior (burgers, 25k steps, 2 seeds)"

ABLATIONS: dict[str, Sequence[Row]] = {
    "n-lambda": [
        (f"burgers, {n} λ a step, half the steps", "burgers", "paper", f"n_lambda={n}",
         (_DRAWS, str(n)))
        for n in (1, 4, 16)
    ],
    "prior": [
        ("burgers, uniform cube, half the steps", "burgers", "paper", "n_lambda=4",
         (_PRIOR, "uniform")),
        ("burgers, simplex, half the steps", "burgers", "paper", "prior=simplex", None),
        ("burgers, log-uniform cube, half the steps", "burgers", "paper", "prior=log-cube",
         (_PRIOR, "log-uniform")),
        ("helmholtz-1d, k uniform", "helmholtz-1d", "paper", "", None),
        ("helmholtz-1d, k log-uniform", "helmholtz-1d", "paper", "prior=log-uniform", None),
    ],
    "conditioning": [
        ("helmholtz-1d, FiLM", "helmholtz-1d", "paper", "",
         ("conditioning helmholtz-1d", "film+lbfgs")),
        ("helmholtz-1d, concat, Adam alone", "helmholtz-1d", "paper", "conditioning=concat",
         ("conditioning helmholtz-1d", "concat")),
        ("burgers, concat", "burgers", "paper", "", ("conditioning burgers", "concat")),
        ("burgers, FiLM and L-BFGS", "burgers", "paper", "conditioning=film",
         ("conditioning burgers", "film+lbfgs")),
    ],
    "lbfgs": [
        (f"{family}, {words}", family, "paper", change, None)
        for family in ("helmholtz-1d", "schrodinger-1d")
        for words, change in (("Adam, then L-BFGS", ""), ("Adam alone", "no-lbfgs"))
    ],
    "optimiser": [
        ("helmholtz-1d, network of `fast`, Gauss-Newton", "helmholtz-1d", "fast", "", None),
        ("helmholtz-1d, network of `fast`, Adam and L-BFGS", "helmholtz-1d", "fast", "by-adam",
         None),
    ],
}  # fmt: skip


def ablation_table(study: Study, name: str) -> Lines:
    """The runs of one ablation, beside the paper's where it has them.

    Its numbers were made with data, as those of its tables: what has one is trained so, too.
    """
    rows, compared = [], any(key is not None for *_, key in ABLATIONS[name])
    for words, family, protocol, change, key in ABLATIONS[name]:
        ours, theirs = study.cell(family, protocol, change, published=True), _paper(key)
        if theirs is None:
            rows.append([words, "–", spread(ours), "–"])
            continue
        said = spread(replace(theirs, seeds=4)) if theirs.std else error(theirs.mean)
        data = study.cell(family, f"{protocol}-data", change, published=True)
        rows.append([words, said, spread(ours), judged(data, theirs)])
    if not compared:
        return table(["setting", "ours"], [[words, ours] for words, _, ours, _ in rows])
    return table(["setting", "paper", "without data", "with data"], rows)


def _paper(key: tuple[str, str] | None) -> Cell | None:
    """The paper's number, with its deviation where it prints one."""
    if key is None:
        return None
    printed = numbers()["ablations"][key[0]][key[1]]
    mean, std = printed if isinstance(printed, list) else (printed, 0.0)
    return Cell(mean, std, 2)


def shots_table(study: Study) -> Lines:
    """The error of the mean over K weightings."""
    theirs = numbers()["ablations"]["shots (burgers, K -> rel_l2)"]
    head = ["K", "burgers, paper"]
    columns = [(f, p) for f in ("burgers", "buckley-leverett") for p in OURS]
    head += [f"{family}, {METHODS[protocol]}" for family, protocol in columns]
    rows = []
    for shots in SHOTS:
        printed = theirs.get(str(shots))
        row = [str(shots), "–" if printed is None else error(printed)]
        for column in columns:
            family, protocol = column
            each = [m[str(shots)] for m in study.measures(family, protocol, "shots")]
            beside = Cell(printed, 0.0, 4) if printed is not None and column == columns[0] else None
            row.append(judged(Cell.of(each) if each else None, beside))
        rows.append(row)
    return table(head, rows)


def invariance_table(study: Study) -> Lines:
    """How far answers differ between weightings, beside the size of the solution."""
    theirs = numbers()["ablations"][
        "lambda spread (burgers, K=200, per-point std / mean magnitude)"
    ]
    head = ["network", "mean deviation", "relative to the solution", "paper, relative",
            "error of the mean", "of the worst weighting"]  # fmt: skip
    rows = []
    for family in ("burgers", "buckley-leverett"):
        for protocol in OURS:
            each = study.measures(family, protocol, "invariance")
            slices = study.measures(family, protocol, "slices")
            rows.append(
                [
                    f"{family}, {METHODS[protocol]}",
                    error(float(np.mean([m["deviation"] for m in each]))) if each else NOT_RUN,
                    error(float(np.mean([m["relative"] for m in each]))) if each else NOT_RUN,
                    error(theirs["relative"])
                    if (family, protocol) == ("burgers", "paper")
                    else "–",
                    spread(study.cell(family, protocol)),
                    spread(Cell.of([max(s) for s in slices])) if slices else NOT_RUN,
                ]
            )
    return table(head, rows)
