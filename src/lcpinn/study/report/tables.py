"""The paper's tables: its numbers, ours by its protocol, and ours by `fast`."""

from __future__ import annotations

from lcpinn.evaluation import grid_values
from lcpinn.families import FAMILIES, built
from lcpinn.study.plan import SOLVER, methods, solved
from lcpinn.study.report.cells import Cell, Study, compared, paper_at, paper_cell, verdict
from lcpinn.study.report.markdown import (
    METHODS,
    NOT_RUN,
    cost,
    duration,
    error,
    judged,
    spread,
    table,
)

Lines = list[str]
PER = {"helmholtz-1d": "k", "schrodinger-1d": "alpha"}


def family_table(study: Study, family: str) -> Lines:
    """One row for each method: the paper's mean, ours, and whether they agree."""
    head = ["method", "paper", "its time", "ours", "our time", "device", "ours and the paper's"]
    rows = []
    for method in methods(family):
        ours, theirs = study.cell(family, method), paper_cell(family, method)
        if method == "fast":
            theirs = None
        rows.append(
            [
                METHODS[method],
                "–" if theirs is None else spread(theirs),
                "–" if theirs is None else duration(theirs.seconds),
                spread(ours),
                cost(ours),
                "–" if ours is None else ours.device,
                _beside_lc(ours, family) if method == "fast" else verdict(ours, theirs),
            ]
        )
    return table(head, rows)


def _beside_lc(fast: Cell | None, family: str) -> str:
    """`fast` is compared with the paper's LC-PINN."""
    paper = paper_cell(family, "paper")
    return NOT_RUN if fast is None or paper is None else compared(fast, paper)


def per_table(study: Study, family: str) -> Lines:
    """Every method at every coefficient of the paper's grid."""
    parameter = PER[family]
    named = [m for m in methods(family) if m != "fast"]
    head = [parameter]
    for method in named:
        head += [f"{METHODS[method]}, paper", "ours"]
    head += [METHODS["fast"]]
    rows = []
    for value in grid_values(built(family))[:, 0]:
        row = [f"{value:g}"]
        for method in named:
            theirs = paper_at(family, method, parameter, float(value))
            row += ["–" if theirs is None else spread(theirs)]
            row += [judged(study.at(family, method, **{parameter: float(value)}), theirs)]
        rows.append([*row, spread(study.at(family, "fast", **{parameter: float(value)}))])
    return table(head, rows)


def front_table(study: Study) -> Lines:
    """Buckley-Leverett against both references, and without viscosity."""
    family = "buckley-leverett"
    head = ["method", "paper", "against an accurate reference", "against the paper's", "ε = 0"]
    rows = []
    for method in methods(family):
        theirs = paper_cell(family, method) if method != "fast" else None
        other = study.measures(family, method, "paper_reference")
        jump = study.cell(family, method, "viscosity=0") if method != "fast" else None
        rows.append(
            [
                METHODS[method],
                "–" if theirs is None else spread(theirs),
                spread(study.cell(family, method)),
                spread(Cell.of(other)) if other else NOT_RUN,
                "–" if method == "fast" else spread(jump),
            ]
        )
    return table(head, rows)


def amortisation_table(study: Study) -> Lines:
    """K* = T_lc / T_baseline and A(100) = 100 T_baseline / T_lc; the most accurate is marked."""
    head = ["family", "baseline", "its error", "paper's K*", "K*", "A(100)", "K*, `fast`",
            "A(100), `fast`"]  # fmt: skip
    rows = []
    for family in FAMILIES:
        lc, fast = study.cell(family, "paper"), study.cell(family, "fast")
        best = most_accurate(study, family)
        for method in methods(family):
            if method in ("paper", "fast"):
                continue
            base = study.cell(family, method)
            name = METHODS[method] + (" **(most accurate)**" if method == best else "")
            own_error = error(base.mean) if base else NOT_RUN
            pays = [*_pays(lc, base), *_pays(fast, base)]
            rows.append([family, name, own_error, _papers(family, method), *pays])
        if solved(family):
            base = study.cell(family, SOLVER)
            largest = [r["error"]["dense_max"] for r in study.runs(family, SOLVER)]
            own_error = error(max(largest)) if largest else NOT_RUN
            pays = [*_pays(lc, base, once=True), *_pays(fast, base, once=True)]
            rows.append([family, METHODS[SOLVER], own_error, "–", *pays])
    return table(head, rows)


def most_accurate(study: Study, family: str) -> str | None:
    """The baseline with the lowest error."""
    cells = {m: study.cell(family, m) for m in methods(family) if m not in ("paper", "fast")}
    known = {method: cell.mean for method, cell in cells.items() if cell is not None}
    return min(known, key=lambda method: known[method]) if known else None


def _papers(family: str, method: str) -> str:
    """The paper's own break-even, from its minutes; it prints one for each family."""
    lc, base = paper_cell(family, "paper"), paper_cell(family, method)
    if lc is None or base is None or not lc.seconds or not base.seconds:
        return "–"
    return f"{lc.seconds / base.seconds:.2g}"


def _pays(one: Cell | None, base: Cell | None, *, once: bool = False) -> list[str]:
    """K* and A(100); a baseline that answers for every setting `once` pays for all of them."""
    if one is None or base is None or not one.seconds or not base.seconds:
        return [NOT_RUN, NOT_RUN]
    if one.device != base.device:
        return ["another device", "another device"]
    if once:
        always = "1" if one.seconds < base.seconds else "never"
        return [always, f"{base.seconds / one.seconds:.2g}"]
    return [f"{one.seconds / base.seconds:.2g}", f"{100 * base.seconds / one.seconds:.3g}"]
