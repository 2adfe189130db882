"""The paper's tables: its numbers, ours by its protocols, and ours by `fast`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lcpinn.evaluation import grid_values
from lcpinn.families import FAMILIES, built
from lcpinn.study.changes import CHANGES
from lcpinn.study.plan import FIRST_WORDS, SOLVER, methods, of_first_study, solved, with_data
from lcpinn.study.report.cells import Cell, Study, paper_at, paper_cell, verdict
from lcpinn.study.report.markdown import (
    METHODS,
    NOT_RUN,
    by_seed,
    cost,
    duration,
    error,
    judged,
    spread,
    table,
)

Lines = list[str]
Note = Mapping[str, Any]
PER = {"helmholtz-1d": "k", "schrodinger-1d": "alpha"}


def family_table(study: Study, family: str) -> Lines:
    """One row for each method: the paper's mean, ours without data and with, and by `fast`."""
    head = ["method", "paper", "without data", "with data", "`fast`", "with data and the paper's"]
    rows = []
    for method in methods(family):
        if method == "fast":
            continue
        theirs, fast = paper_cell(family, method), study.cell(family, "fast")
        plain, data = both_cells(study, family, method)
        rows.append(
            [
                METHODS[method],
                "–" if theirs is None else spread(theirs),
                spread(plain),
                "–" if with_data(method) is None else spread(data),
                spread(fast) if method == "paper" else "–",
                agreement(study, family, method),
            ]
        )
    return table(head, rows)


def both_cells(study: Study, family: str, method: str) -> tuple[Cell | None, Cell | None]:
    """A method without data and with them, as the paper's authors measure errors."""
    data = with_data(method)
    plain = study.cell(family, method, published=True)
    return plain, None if data is None else study.cell(family, data, published=True)


def agreement(study: Study, family: str, method: str) -> str:
    """'agrees', or by how much it differs and whether a reason was shown by a run.

    What is compared with the paper's number is what that was made with: the training with data.
    """
    plain, data = both_cells(study, family, method)
    ours = plain if with_data(method) is None else data
    said = verdict(ours, paper_cell(family, method))
    if ours is None or said in ("agrees", "not in the paper"):
        return said
    shown = [note for note in differences(study, family) if note["method"] == method]
    if not shown:
        return f"{said}, and no reason is known"
    if not all(map(_is_shown(study), shown)):
        return f"{said}; see below"
    partly = any(note.get("partly") for note in shown)
    return f"{said}; explained in part, see below" if partly else f"{said}; the reason below"


def differences(study: Study, family: str) -> list[Note]:
    """What is written about a family's rows, beside the records."""
    return [note for note in study.notes.get("differences", ()) if note["family"] == family]


def _is_shown(study: Study) -> Callable[[Note], bool]:
    """Whether every run that a note rests on was made."""
    return lambda note: all(
        study.cell(note["family"], protocol, change) is not None
        for protocol, change in note["shown_by"]
    )


def note_lines(study: Study, family: str) -> Lines:
    """The notes of a family, each with the runs that switch the one thing."""
    lines = []
    for note in differences(study, family):
        lines.append(f"- {METHODS[note['method']]}: {note['words']}")
        for protocol, change in note["shown_by"]:
            cell = study.cell(family, protocol, change, published=True)
            how = ", ".join(filter(None, (METHODS[protocol], CHANGES[change].words * bool(change))))
            lines.append(f"    - {how}: {by_seed(cell)}")
    return lines


def times_table(study: Study, family: str) -> Lines:
    """What one training takes."""
    head = ["method", "paper", "without data", "with data", "device"]
    rows = []
    for method in methods(family):
        theirs, data = paper_cell(family, method), with_data(method)
        plain = study.cell(family, method)
        other = None if data is None else study.cell(family, data)
        devices = sorted({cell.device for cell in (plain, other) if cell is not None})
        rows.append(
            [
                METHODS[method],
                "–" if theirs is None or method == "fast" else duration(theirs.seconds),
                cost(plain),
                "–" if data is None else cost(other),
                "; ".join(devices) or "–",
            ]
        )
    return table(head, rows)


def per_table(study: Study, family: str) -> Lines:
    """Every method at every coefficient of the paper's grid."""
    parameter = PER[family]
    named = [m for m in methods(family) if m != "fast"]
    head = [parameter]
    for method in named:
        head += [f"{METHODS[method]}, paper", "without data", "with data"]
    head += [METHODS["fast"]]
    rows = []
    for value in grid_values(built(family))[:, 0]:
        row, at = [f"{value:g}"], {parameter: float(value)}
        for method in named:
            theirs = paper_at(family, method, parameter, float(value))
            row += ["–" if theirs is None else spread(theirs)]
            row += [spread(study.at(family, method, **at))]
            row += [judged(study.at(family, f"{method}-data", **at), theirs)]
        rows.append([*row, spread(study.at(family, "fast", **at))])
    return table(head, rows)


def front_table(study: Study) -> Lines:
    """Buckley-Leverett against both references, and without viscosity."""
    family = "buckley-leverett"
    head = ["method", "paper", "against an accurate reference", "against the paper's", "ε = 0"]
    rows = []
    named = [name for m in methods(family) for name in (m, with_data(m)) if name is not None]
    for method in named:
        theirs = None if method == "fast" else paper_cell(family, method)
        measured = bool(study.measures(family, method, "published"))
        other = study.cell(family, method, published=True) if measured else None
        inviscid = method in ("paper", "sa-pinn", "relobralo")
        jump = study.cell(family, method, "viscosity=0") if inviscid else None
        rows.append(
            [
                METHODS[method],
                "–" if theirs is None else spread(theirs),
                spread(study.cell(family, method)),
                spread(other),
                spread(jump) if inviscid else "–",
            ]
        )
    return table(head, rows)


def first_table(study: Study) -> Lines:
    """The first study: every result of it, under its own name."""
    head = ["family", "method", "what is changed", "paper", "paper (fresh points)"]
    rows = []
    kinds = dict.fromkeys((r.family, r.protocol, r.change) for r in of_first_study())
    for family, method, change in kinds:
        ours = study.cell(family, method, change, settings="")
        if ours is None:
            continue
        theirs = None if change else paper_cell(family, method)
        words = FIRST_WORDS.get(change, CHANGES[change].words) if change else "–"
        said = "–" if theirs is None else spread(theirs)
        rows.append([family, METHODS[method], words, said, judged(ours, theirs)])
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
            base = study.answered(family, method)
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
    others = [method for method in methods(family) if method not in ("paper", "fast")]
    cells = {method: study.answered(family, method) for method in others}
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
