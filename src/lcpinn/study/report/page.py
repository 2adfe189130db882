"""docs/reproduction.md: every number out of the records, every sentence that depends on one too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lcpinn.families import FAMILIES
from lcpinn.plot.style import save
from lcpinn.study import theory
from lcpinn.study.budget import BUDGETS
from lcpinn.study.paper import numbers
from lcpinn.study.plan import EXPERIMENTS, methods, needed, with_data
from lcpinn.study.report.ablations import (
    ABLATIONS,
    ablation_table,
    invariance_table,
    shots_table,
)
from lcpinn.study.report.cells import ALIKE, WITHIN, Cell, Study, paper_cell
from lcpinn.study.report.figures import FIGURES
from lcpinn.study.report.markdown import METHODS, duration
from lcpinn.study.report.tables import (
    PER,
    amortisation_table,
    both_cells,
    family_table,
    first_table,
    front_table,
    most_accurate,
    note_lines,
    per_table,
    times_table,
)

Lines = list[str]


def render(study: Study, path: Path) -> Path:
    """Write the page, and its figures into a directory beside it."""
    folder = path.parent / path.stem
    for name, (draw, _) in FIGURES.items():
        figure = draw(study)
        if figure is not None:
            save(figure, folder / f"{name}.png")
            save(figure, folder / f"{name}.svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(study, path.stem), encoding="utf-8")
    return path


def text(study: Study, folder: str) -> str:
    """The page; its figures lie in `folder`."""
    parts = [
        _head(study),
        _headline(study),
        *(_family(study, family, folder) for family in FAMILIES),
        _amortisation(study, folder),
        _ablations(study, folder),
        _theory(study, folder),
        _first_study(study),
        _missing(study),
    ]
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip() + "\n"


def _picture(study: Study, folder: str, name: str) -> Lines:
    draw, caption = FIGURES[name]
    if draw(study) is None:
        return [f"*{name}: not run.*", ""]
    return [
        f"![{caption}]({folder}/{name}.png)",
        "",
        f"*{caption}* ([SVG]({folder}/{name}.svg))",
        "",
    ]


def _head(study: Study) -> Lines:
    every = needed(EXPERIMENTS.values(), study.budget)
    devices = sorted({r["device"] for r in study.records.values()})
    versions = sorted({f"JAX {r['versions']['jax']}" for r in study.records.values()})
    dates = sorted(r["date"][:10] for r in study.records.values())
    days = sorted({*dates[:1], *dates[-1:]})
    when = f" ({' to '.join(days)})" if days else ""
    seeds = ", ".join(map(str, BUDGETS[study.budget].seeds))
    return [
        "# The paper, reproduced",
        "",
        f"Made by `lcpinn reproduce --budget {study.budget}` out of the records in "
        "`results/study/`; nothing here is typed by hand.",
        "",
        f"{len(study.records)} of {len(every)} runs are there, measured{when}, on "
        f"{'; '.join(devices) or 'no device yet'} with {', '.join(versions) or 'JAX'}. "
        f"Budget: {BUDGETS[study.budget].words}; seeds {seeds}, two of them in ablations. "
        "Errors are relative L² errors, means ± standard deviations over seeds (population). The "
        "paper's numbers were obtained in float32 on an Apple M4 Max; its standard deviations are "
        "taken as printed.",
        "",
        "**What is compared.** The paper's numbers come from the code that its authors published, "
        "which trains every network on 200 to 600 values of the reference as well, at the "
        "settings and times that are evaluated, and takes L-BFGS back by the error against it. "
        "*Without data* (`--protocol paper`) is the same method on residuals alone: the settings "
        "of that code where the text is silent or differs (random points drawn once, 30 000 "
        "iterations of L-BFGS, inputs, initial weights), and a choice by held-out residuals. "
        "*With data* (`--protocol paper-data`) is what the published numbers were made with. "
        "`fast` is Gauss-Newton on a small network in double precision, without data like every "
        "other claim of this project; FNO is supervised by definition.",
        "",
        "Errors in the columns *without data* and *with data* of the families' tables and of "
        "ablations are taken as the authors take them: over 20 (helmholtz-3d: 10) values of k for "
        "LC-PINN in two and three dimensions, snapshot by snapshot for burgers and "
        "buckley-leverett, as means over draws of loss weights. Other tables have errors on the "
        "grids of the text.",
        "",
        "**Times.** Runs that differ in seed and coefficient alone are trained as one program, and "
        "several programs share the GPU; `fast` and FNO train one by one, beside others as well. "
        f"{_clean(study)}'Agrees' means: the means are "
        f"within {WITHIN:g} standard deviations, the larger of the two, and within a factor of "
        f"{ALIKE:g}.",
    ]


def _clean(study: Study) -> str:
    """Which times can be compared."""
    shared = (
        "A time marked '1 of n' is a share of such a program: it compares methods within a family, "
        "and no more. "
    )
    if not study.times:
        return shared
    return (
        "Times are of steps that a method takes alone on the device (`lcpinn reproduce "
        f"--times`, {study.times['device']}, {study.times['date'][:10]}), as many as its runs "
        f"took, without compilation. {shared}"
    )


def _headline(study: Study) -> Lines:
    """Which of the paper's conclusions hold without data, in plain words, as far as there are runs.

    A family counts once its runs with and without data are there.
    """
    lines = ["## In plain words", ""]
    pairs = {family: both_cells(study, family, "paper") for family in FAMILIES}
    known = {f: (p, d) for f, (p, d) in pairs.items() if p is not None and d is not None}
    if not known:
        return [*lines, "Not written yet: the runs that it would rest on have not been made."]
    for data, words in ((1, "With"), (0, "Without")):
        inside = [family for family, cells in known.items() if _lands(cells[data], family)]
        outside = [family for family in known if family not in inside]
        said = f"- {words} the reference's values in training LC-PINN is within the paper's mean "
        said += f"plus two deviations on {_listed(inside)}"
        lines.append(said + (f", and not on {_listed(outside)}." if outside else "."))
    for family in known:
        lines += _ranking(study, family)
    missing = [family for family in FAMILIES if family not in known]
    if missing:
        lines.append(f"- Nothing is said of {_listed(missing)}: runs are missing.")
    return lines


def _lands(ours: Cell | None, family: str) -> bool:
    theirs = paper_cell(family, "paper")
    assert ours is not None and theirs is not None  # noqa: PT018
    return ours.mean <= theirs.mean + WITHIN * theirs.std


def _listed(families: Sequence[str]) -> str:
    return ", ".join(families) if families else "none of the families"


def _ranking(study: Study, family: str) -> Lines:
    """Who is the most accurate: in the paper, without data and with."""
    named = [method for method in methods(family) if method != "fast"]
    means: dict[str, dict[str, float]] = {"in the paper": {}, "without data": {}, "with data": {}}
    for method in named:
        cells = (paper_cell(family, method), *both_cells(study, family, method))
        for column, cell in zip(means, cells, strict=True):
            if cell is not None:
                means[column][method] = cell.mean
    num = dict.fromkeys(means, len(named)) | {"with data": sum(map(bool, map(with_data, named)))}
    least = {column: min(of, key=lambda m, of=of: of[m]) for column, of in means.items() if of}
    words = "; ".join(
        f"{column} {METHODS[best]}" + ("" if len(means[column]) == num[column] else " so far")
        for column, best in least.items()
    )
    return [f"- {family}, the lowest error of the paper's methods: {words}."]


def _first_study(study: Study) -> Lines:
    """Results under settings that `paper` no longer has."""
    if not study.first:
        return []
    lines = ["## The first study: fresh points", ""]
    lines += [
        "Earlier runs, residuals alone, as the paper's text can be read: points drawn anew at "
        "every step, 1024 of them inside, loss weights on the simplex, 1500 iterations of L-BFGS "
        "with a memory of 20, its line search begun at the last step's length, faces of "
        "Causal-PINN weighted 100. They are other trainings than those above and enter no other "
        "table. Errors are of the mean prediction over 100 (25) draws of loss weights, on the "
        "grids that the text names.",
        "",
        *first_table(study),
        "",
    ]
    for note in study.notes.get("first_study", ()):
        cell = study.cell(note["family"], note["method"], settings="")
        if cell is not None:
            lines.append(f"- {note['family']}, {METHODS[note['method']]}: {note['words']}")
    ended = lambda record: any("no decrease left" in note for note in record["stopped"])
    stalled = [record for record in study.first.values() if ended(record)]
    lines.append(
        f"- L-BFGS ended with 'no decrease left' in {len(stalled)} of these {len(study.first)} "
        "runs, some after a dozen steps: a defect of its line search, mended since."
    )
    return lines


def _family(study: Study, family: str, folder: str) -> Lines:
    notes = note_lines(study, family)
    lines = [f"## {family}", "", *family_table(study, family), "", *notes, *[""] * bool(notes)]
    lines += [*times_table(study, family), ""]
    lines += _picture(study, folder, f"fields-{family}")
    if family in PER:
        lines += [f"### {family}, each {PER[family]}", "", *per_table(study, family), ""]
        lines += _picture(study, folder, f"{family}-per-{PER[family]}")
    if family == "buckley-leverett":
        lines += ["### Both references, and no viscosity", "", *front_table(study), ""]
        lines += [
            "The paper compares with a local Lax-Friedrichs solution on 1000 cells, which is "
            "itself about 7e-3 away from the solution; against it, no method that does not see "
            "its values can appear better than that. With ε = 0 the solution has a jump: the "
            "paper reports errors near 0.5 for every method."
        ]
    return lines[:-1] if lines[-1] == "" else lines


def _amortisation(study: Study, folder: str) -> Lines:
    lines = ["## Amortisation", "", *amortisation_table(study), ""]
    lines += [
        "K* = T(LC-PINN) / T(baseline) is the number of settings from which one network costs less "
        "than retraining; A(100) = 100 T(baseline) / T(LC-PINN). Both from the times above. The "
        "paper gives K* against one baseline for each family; its other values here follow from "
        "its minutes. The solver with interpolation (`--protocol interpolant`) is no network: it "
        "solves the equation at nodes of its coefficients, once for all settings, so that A(K) is "
        "T(solver) / T(LC-PINN) for every K. Some settings of a grid are such nodes: its error is "
        "the largest over λ, where the others' are means over the grid.",
        "",
    ]
    lines += _inconsistencies(study)
    lines += _picture(study, folder, "frontier")
    return lines[:-1]


def _inconsistencies(study: Study) -> Lines:
    """Where the paper's text and its numbers part, and how ours come out."""
    lines = ["**Two statements of the paper, looked at.**", ""]
    lc, base = paper_cell("helmholtz-1d", "paper"), paper_cell("helmholtz-1d", "relobralo")
    theirs = [cell.seconds or 0 for cell in (base, lc) if cell is not None]
    lines.append(
        f"- It says that LC-PINN on helmholtz-1d takes less than five retrainings. By its own "
        f"minutes five of ReLoBRaLo take {5 * theirs[0] / 60:.1f} and LC-PINN "
        f"{theirs[1] / 60:.1f}."
    )
    ours, other = study.cell("helmholtz-1d", "paper"), study.cell("helmholtz-1d", "relobralo")
    if ours and other and ours.seconds and other.seconds:
        lines[-1] += (
            f" Ours: five times {duration(other.seconds)} against {duration(ours.seconds)}, so "
            f"that it {'holds here' if 5 * other.seconds > ours.seconds else 'fails here, too'}."
        )
    for family in FAMILIES:
        row = _strongest(family)
        best = most_accurate(study, family)
        if row is None or best is None:
            continue
        named, lowest = row
        lines.append(
            f"- {family}: the paper's K* is against {METHODS[named]}; the most accurate baseline "
            f"in its table is {METHODS[lowest]}, in ours {METHODS[best]}."
        )
    return [*lines, ""]


def _strongest(family: str) -> tuple[str, str] | None:
    """The baseline of the paper's K*, and the one with its lowest error."""
    row = numbers()["tables"]["amortisation"]["rows"].get(family)
    if row is None:
        return None
    rows = numbers()["tables"][family]["rows"]
    others = {name: cells["mean"] for name, cells in rows.items() if name != "lc-pinn"}
    return row["baseline"], min(others, key=lambda name: others[name])


def _ablations(study: Study, folder: str) -> Lines:
    lines = ["## Ablations", "", "### The number of weightings in the mean", ""]
    lines += [*shots_table(study), ""]
    for name in ABLATIONS:
        title = EXPERIMENTS[name].title.removeprefix("Ablation: ")
        lines += [f"### {title[:1].upper()}{title[1:]}", ""]
        lines += [*ablation_table(study, name), ""]
    return lines[:-1]


def _theory(study: Study, folder: str) -> Lines:
    gap = theory.report()
    lines = ["## Theory", "", "### Answers and loss weights", "", *invariance_table(study), ""]
    lines += _picture(study, folder, "spread")
    lines += [
        "### Local decay",
        "",
        "For the quadratic model the loss of a conditional parameterisation decays faster than "
        "that of the plain one by ‖(D_η B)ᵀ ∇L‖², exactly. Both sides computed for "
        f"{gap['draws']} random models agree to rounding ({_rounding(gap['continuous'])}), those "
        "of one step of gradient descent, with its term of second order, too "
        f"({_rounding(gap['discrete'])}).",
    ]
    return lines


def _rounding(gap: float) -> str:
    """The last digit of rounding differs between machines: the page should not."""
    return "below 1e-11" if gap < 1e-11 else f"{gap:.0e}"


def _missing(study: Study) -> Lines:
    if not study.missing:
        return ["## Not run", "", "Nothing: every run of this budget is there."]
    kinds: dict[tuple[str, ...], int] = {}
    for run in study.missing:
        kinds[run.kind] = kinds.get(run.kind, 0) + 1
    lines = ["## Not run", ""]
    for (family, protocol, _, change, *_), count in kinds.items():
        what = f"{family}, {METHODS.get(protocol, protocol)}"
        lines.append(f"- {what}{f', {change}' if change else ''}: {count} runs")
    return lines
