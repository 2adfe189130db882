"""docs/reproduction.md: every number out of the records, every sentence that depends on one too."""

from __future__ import annotations

from pathlib import Path

from lcpinn.families import FAMILIES
from lcpinn.plot.style import save
from lcpinn.study import theory
from lcpinn.study.budget import BUDGETS
from lcpinn.study.changes import CHANGES
from lcpinn.study.paper import numbers
from lcpinn.study.plan import EXPERIMENTS, needed
from lcpinn.study.report.ablations import (
    ABLATIONS,
    ablation_table,
    invariance_table,
    shots_table,
)
from lcpinn.study.report.cells import ALIKE, WITHIN, Study, paper_cell, verdict
from lcpinn.study.report.figures import FIGURES
from lcpinn.study.report.markdown import METHODS, duration, error, spread
from lcpinn.study.report.tables import (
    PER,
    amortisation_table,
    family_table,
    front_table,
    most_accurate,
    per_table,
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
        "**What is compared.** All of ours train on residuals alone (FNO, which is supervised by "
        "definition, apart): no solver's data, no choice by the error against a reference. 'Ours' "
        "is the paper's protocol where nothing else is said: its network, points, steps and "
        "optimisers. `fast` is Gauss-Newton on a small network in double precision.",
        "",
        "**Times.** Runs that differ in seed and coefficient alone are trained as one program; a "
        "time marked '1 of n' is a share of such a program. Several programs shared the GPU, so "
        "that times compare methods within a family, and no more. 'Agrees' means: the means are "
        f"within {WITHIN:g} standard deviations, the larger of the two, and within a factor of "
        f"{ALIKE:g}. Where a result differs and no reason is given, none is known.",
    ]


def _headline(study: Study) -> Lines:
    """Whether LC-PINN by the paper's protocol lands where the paper does."""
    lines = ["## LC-PINN by the paper's protocol, in short", ""]
    for family in FAMILIES:
        ours, theirs = study.cell(family, "paper"), paper_cell(family, "paper")
        fast = study.cell(family, "fast")
        assert theirs is not None
        if ours is None:
            lines.append(f"- **{family}**: not run.")
            continue
        limit = theirs.mean + WITHIN * theirs.std
        inside = "within" if ours.mean <= limit else "above"
        said = f"- **{family}**: {spread(ours)}, {inside} the paper's mean plus two deviations"
        said += f" ({error(limit)})."
        if fast is not None:
            said += f" `fast`: {spread(fast)}, in {duration(fast.seconds)} on {fast.device}."
        lines.append(said)
        lines += [f"    - {reason}" for reason in _reasons(study, family)]
    return lines


def _reasons(study: Study, family: str) -> Lines:
    """What is known about a result above the paper's, out of the records."""
    ours, theirs = study.cell(family, "paper"), paper_cell(family, "paper")
    if ours is None or theirs is None or ours.mean <= theirs.mean + WITHIN * theirs.std:
        return []
    reasons = []
    records = study.runs(family, "paper")
    stalled = sum("no decrease left" in note for r in records for note in r["stopped"])
    if stalled:
        reasons.append(
            f"L-BFGS in float32 found no further decrease in {stalled} of {len(records)} seeds "
            "and ended early."
        )
    for change, words in TRIED.items():
        other = study.cell(family, "paper", change)
        if other is not None:
            reasons.append(f"Tried, {words}: {spread(other)}.")
    return [*reasons, OPEN]


TRIED = {
    "no-lbfgs": "Adam alone",
    "conditioning=concat": "λ concatenated instead of FiLM",
    "prior=log-uniform": "λ drawn log-uniformly",
}
OPEN = (
    "The paper leaves open the weight of the boundary term (100 here, in the coefficient regime), "
    "the number and places of L-BFGS's frozen points, and how its points are drawn."
)


# What is known where a baseline comes out otherwise than in the paper.
NOTES = {
    ("burgers", "causal-pinn"): (
        "w(t) = exp(-100 R(<t)) is all that the paper says of the mask; the sum over 32 chunks of "
        "the original method keeps late times dark for the whole budget. {causal=integral}"
    ),
    ("burgers", "relobralo"): (
        "The look-back and the averages are the published ones; the paper gives three numbers of "
        "its own and no more, so that the difference cannot be traced."
    ),
    ("burgers", "fno"): (
        "Trained on solutions exact to rounding, for sine series of six modes whose amplitudes "
        "fall as 1/m: -sin(πx) is such a series. The paper says 'six decaying modes' and no more; "
        "the error at one condition depends on how near the training set comes to it."
    ),
}


def _notes(study: Study, family: str) -> Lines:
    """Remarks on the baselines of a family whose results differ."""
    lines = []
    for (name, method), words in NOTES.items():
        ours, theirs = study.cell(family, method), paper_cell(family, method)
        if name != family or ours is None or verdict(ours, theirs) == "agrees":
            continue
        for change in ("causal=integral",):
            other = study.cell(family, method, change)
            said = "" if other is None else f"Tried, with {CHANGES[change].words}: {spread(other)}."
            words = words.replace(f"{{{change}}}", said)
        lines.append(f"- {METHODS[method]}: {words.strip()}")
    return [*lines, ""] if lines else []


def _family(study: Study, family: str, folder: str) -> Lines:
    lines = [f"## {family}", "", *family_table(study, family), "", *_notes(study, family)]
    lines += _picture(study, folder, f"fields-{family}")
    if family in PER:
        lines += [f"### {family}, each {PER[family]}", "", *per_table(study, family), ""]
        lines += _picture(study, folder, f"{family}-per-{PER[family]}")
    if family == "buckley-leverett":
        lines += ["### Both references, and no viscosity", "", *front_table(study), ""]
        lines += [
            "The paper compares with an explicit Lax-Friedrichs solution on 1000 cells, which is "
            "itself about 1e-2 away from the solution; against it, no method can appear better "
            "than that. With ε = 0 the solution has a jump: the paper reports errors near 0.5 for "
            "every method."
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
            f"that the statement {'holds' if 5 * other.seconds > ours.seconds else 'fails'} too."
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
    for (family, protocol, _, change), count in kinds.items():
        what = f"{family}, {METHODS.get(protocol, protocol)}"
        lines.append(f"- {what}{f', {change}' if change else ''}: {count} runs")
    return lines
