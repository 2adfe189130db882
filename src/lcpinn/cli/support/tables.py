"""Tables of the command line: families, protocols, errors, runs and findings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from lcpinn.cli.support.battery import Finding
    from lcpinn.family import Family
    from lcpinn.inverse import Fit

MOST_ROWS = 20  # of a table of errors; result.json has them all
WIDE = 110  # columns of a terminal from which a table may have many of its own


def plain_table(**options: Any) -> Table:
    """A head with a line under it, and no frame."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)


def equation(family: Family) -> str:
    """The first line of a family's docstring."""
    return (type(family).__doc__ or "").strip().split("\n")[0]


def headline(console: Console, title: str, family: Family) -> None:
    console.print(Text(title, "bold"))
    if equation(family):
        console.print(Text(equation(family), "dim"))


def fact(console: Console, name: str, text: str, *, wrap: bool = True) -> None:
    """One line under a table; what does not fit goes on below itself."""
    for i, line in enumerate(text.splitlines()):
        room = max(console.width - 10, 20)
        pieces = textwrap.wrap(line, room, break_on_hyphens=False) if wrap else [line]
        for j, piece in enumerate(pieces):
            label = Text(f"{name if i == j == 0 else '':10}", "dim")
            console.print(label.append(piece, "default"), soft_wrap=True)


# -- Families ------------------------------------------------------------------------------------


def show_families(console: Console, known: Mapping[str, Family]) -> None:
    """Five columns; on a narrow terminal all but the name go under the equation."""
    table, wide = plain_table(), console.width >= WIDE
    table.add_column("family", no_wrap=True, style="bold")
    names = ("equation", "coordinates", "parameters", "terms")
    for name in names if wide else [", ".join(names)]:
        table.add_column(name)
    for name, family in known.items():
        facts = (
            _ranges(family.domain.ranges),
            _ranges(family.parameters.ranges) or ["(loss weights)"],
            family.term_names,
        )
        if wide:
            table.add_row(name, equation(family), *("\n".join(fact) for fact in facts))
        else:
            details = "; ".join(", ".join(fact) for fact in facts)
            table.add_row(name, Text(equation(family) + "\n").append(details, "dim"))
    console.print(table)


def _ranges(ranges: Mapping[str, tuple[float, float]]) -> list[str]:
    return [f"{name} in [{low:g}, {high:g}]" for name, (low, high) in ranges.items()]


# -- Protocols -----------------------------------------------------------------------------------

COLUMNS = 6  # families side by side in 80 characters
MARKS = {"yes": Text("✓", "green"), "at": Text("at", "cyan"), "no": Text("–", "dim")}


def show_protocols(console: Console, matrix: Mapping[str, Mapping[str, Mapping[str, str]]]) -> None:
    """Which protocol applies where: matrix[family][protocol] has `applies` and a `reason`."""
    families = list(matrix)
    for first in range(0, len(families), COLUMNS):
        _protocol_table(console, {name: matrix[name] for name in families[first : first + COLUMNS]})
    applied = {cell["applies"] for cells in matrix.values() for cell in cells.values()}
    if "at" in applied:
        fact(console, "at", "one setting of the coefficients for each training: give it with --at")
    for reason, families in _reasons(matrix).items():
        fact(console, "–", f"{reason}: not for {', '.join(families)}")


def _protocol_table(
    console: Console, matrix: Mapping[str, Mapping[str, Mapping[str, str]]]
) -> None:
    wide = console.width >= WIDE
    table = plain_table(padding=(0, 1 if wide else 0))
    table.add_column("protocol", no_wrap=True, style="bold")
    for family in matrix:
        title = family if wide else family.replace("-", "-\n")
        table.add_column(title, justify="center", no_wrap=True)
    for protocol in next(iter(matrix.values())):
        table.add_row(protocol, *(MARKS[cells[protocol]["applies"]] for cells in matrix.values()))
    console.print(table)
    console.print()


def _reasons(matrix: Mapping[str, Mapping[str, Mapping[str, str]]]) -> dict[str, list[str]]:
    """What a protocol needs -> families without it. A reason goes on with the family's own case."""
    reasons: dict[str, list[str]] = {}
    for family, cells in matrix.items():
        for cell in cells.values():
            if cell["applies"] == "no":
                reasons.setdefault(re.split("[;:] ", cell["reason"])[0], []).append(family)
    return reasons


def show_terms(console: Console, family: Family, protocols: Sequence[Mapping[str, Any]]) -> None:
    """What every protocol is for one family; on a narrow terminal in two columns."""
    headline(console, family.name, family)
    table, wide = plain_table(), console.width >= WIDE
    table.add_column("protocol", no_wrap=True, style="bold")
    names = ("network", "parameters", "points a step", "budget", "precision", "weighting")
    for name in names if wide else ["network, precision; points a step; budget; weighting"]:
        table.add_column(name, justify="right" if name == "parameters" else "left")
    for row in protocols:
        network, count = row["network"], row["parameters"]
        count = "as needed" if count is None else f"{count:,}"
        steps, weighting = _budget(row["budget"]), row["weighting"] if row["points"] else "–"
        if wide:
            cells = (network, count, _points(row["points"]), steps, row["precision"], weighting)
            table.add_row(row["name"], *cells)
        else:
            first = Text(f"{network}, {count} parameters, {row['precision']}\n")
            details = "; ".join((_points(row["points"]), steps, weighting))
            table.add_row(row["name"], first.append(details, "dim"))
    console.print()
    console.print(table)
    _explain(console, protocols)


def _explain(console: Console, protocols: Sequence[Mapping[str, Any]]) -> None:
    console.print()
    held = next((row["at"] for row in protocols if row["at"]), None)
    if held:
        alone = ", ".join(row["name"] for row in protocols if row["at"])
        fact(console, "at", f"one setting of the coefficients for each training: {alone}")
    plain = ", ".join(row["name"] for row in protocols if row["plain"])
    fact(console, "plain", f"without what the page does to help a network: {plain}")


def _points(points: Mapping[str, Any] | None) -> str:
    """`4 λ of 1024 + 100`, interior and faces; `λ from a grid of 20` where there is one."""
    if points is None:
        return "solver data"
    counts = f"{points['interior']} + {points['faces']}"
    if "lambdas" not in points:
        return f"{counts} rows"
    counts = counts if points["lambdas"] == 1 else f"{points['lambdas']} λ of {counts}"
    grid = f", λ from a grid of {points['grid']}" if "grid" in points else ""
    return counts + grid + (", fixed" if points["rule"] != "random" else "")


def _budget(budget: Mapping[str, float]) -> str:
    """`50,000 Adam, 1,500 L-BFGS`; seconds, epochs and nodes with their unit."""
    words = []
    for name, amount in budget.items():
        optimiser, unit = name.split()
        optimiser = {"LBFGS": "L-BFGS", "GaussNewton": "Gauss-Newton"}.get(optimiser, optimiser)
        forms = {"steps": "{} {}", "seconds": "{} s of {}", "epochs": "{} epochs"}
        forms["nodes"] = "at most {} nodes"
        words.append(forms[unit].format(f"{amount:,g}", optimiser))
    return ", ".join(words)


# -- Results -------------------------------------------------------------------------------------


def show_errors(console: Console, family: Family, error: Mapping[str, Any], protocol: str) -> None:
    """The error at each lambda, their mean and the largest; the paper's by the same method."""
    from lcpinn.study.paper import paper_at, paper_row

    paper, names = paper_row(family, protocol), family.parameters.names
    if not (family.parameters.free or any(paper_at(paper, row) for row in error["grid"])):
        paper = paper if not names else None  # it says nothing about this one setting
    table = plain_table()
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("error", justify="right")
    if paper:
        table.add_column("paper", justify="right", style="dim")

    def add(label: str, lam: Mapping[str, float], value: float, theirs: float | None = None,
            deviation: float | None = None) -> None:  # fmt: skip
        better = theirs is not None and value <= theirs
        cells = [f"{lam[n]:.5g}" if n in lam else "" for n in names]
        row = [label, *cells, Text(f"{value:.2e}", "green" if better else "")]
        spread = "" if deviation is None else f" ± {deviation:.1e}"
        table.add_row(*row, *([f"{theirs:.2e}{spread}" if theirs else ""] if paper else []))

    if names and len(error["grid"]) <= MOST_ROWS:
        for row in error["grid"]:
            add("", row, row["error"], *paper_at(paper, row))
        table.add_section()
    if family.parameters.free or not names:  # one setting has no mean and no largest
        add(_mean_of(names, error), {}, error["mean"],
            *((paper["mean"], paper.get("std")) if paper else ()))  # fmt: skip
    if family.parameters.free:
        add("largest", error["dense_argmax"], error["dense_max"])
    if "worst_slice" in error:
        add("worst weighting", {}, error["worst_slice"])
        table.add_row("spread", *[""] * len(names), f"{error['spread']:.2e}")
    _under_title(console, f"{family.name}: relative L² error", table)
    if paper and "wall_minutes" in paper:
        _about_paper(console, paper)


def _mean_of(names: Sequence[str], error: Mapping[str, Any]) -> str:
    if names:
        return f"mean of {len(error['grid'])}"
    return f"mean of {error['shots']} weightings" if "shots" in error else ""


def _about_paper(console: Console, paper: Mapping[str, Any]) -> None:
    minutes = f"{paper['wall_minutes']:g} minutes each on an Apple M4 Max"
    fact(console, "paper", f"{paper['method']}, {paper['seeds']} seeds, {minutes}")


def show_retrained(console: Console, results: Sequence[Mapping[str, Any]]) -> None:
    """One line for every setting that was trained in a batch."""
    names = list(results[0]["at"])
    table = plain_table()
    for name in (*names, "error", "residual", "seconds"):
        table.add_column(name, justify="right")
    for result in results:
        error, residual = result["error"]["mean"], result["validation"]["residual"]
        table.add_row(
            *(f"{result['at'][name]:.5g}" for name in names),
            "" if error is None else f"{error:.2e}",
            f"{residual:.2e}",
            f"{result['seconds']['total']:.1f}",
        )
    _under_title(console, f"{results[0]['family']}: relative L² error", table)


def show_sweep(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line for every run: its errors, or why there are none."""
    table = plain_table()
    for name in ("family", "protocol", *(["at"] if any(row["at"] for row in rows) else [])):
        table.add_column(name, overflow="fold")
    for name in ("seed", "error", "largest", "estimated", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    number = lambda value, form: "" if value is None else format(value, form)
    for row in rows:
        words = {True: "solved", False: "not solved", None: ""}[row["solved"]]
        if row["status"] != "done":
            words = Text(row["status"], "red" if row["status"] == "failed" else "dim")
        at = [row["at"]] if any(other["at"] for other in rows) else []
        errors = [number(row[k], ".1e") for k in ("error_mean", "error_max", "estimated_error")]
        table.add_row(row["family"], row["protocol"], *at, str(row["seed"]), *errors,
                      number(row["seconds"], ".1f"), words)  # fmt: skip
    _under_title(console, "relative L² error", table)


def _under_title(console: Console, title: str, table: Table) -> None:
    """As a title of the table it would be folded to the table's width."""
    console.print()
    console.print(Text(title, "bold"))
    console.print(table)
    console.print()


def validation(family: Family, residuals: Mapping[str, Any]) -> str:
    terms = ", ".join(f"{name} {residuals['terms'][name]:.2e}" for name in family.terms)
    return f"{residuals['residual']:.2e} on unseen points ({terms})"


def show_certificate(
    console: Console, family: Family, report: Mapping[str, Any], truth: Sequence[float] | None
) -> None:
    """A few of the settings and the worst; all of them are in the JSON."""
    rows = report["settings"]
    every = max(1, -(-len(rows) // MOST_ROWS))
    table = plain_table()
    for name in (*family.parameters.names, "residual", "estimated error"):
        table.add_column(name, justify="right")
    if truth is not None:
        table.add_column("true error", justify="right", style="dim")
    reasons: dict[str, int] = {}
    for i, row in enumerate(rows):
        if row["error"] is None:
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
        if i % every and row is not report["worst"]:
            continue
        shown = "–" if row["error"] is None else f"{row['error']:.1e}"
        cells = [*(f"{v:.4g}" for v in row["at"].values()), f"{row['residual']:.1e}", shown]
        cells += [] if truth is None else [f"{truth[i]:.1e}"]
        table.add_row(*cells, style="bold" if row is report["worst"] else None)
    console.print(table)
    console.print()
    for reason, count in reasons.items():
        fact(console, "–", f"no estimate at {count} of {len(rows)} settings: {reason}")
    if report["worst"] is not None:
        fact(console, "worst", estimate(report["worst"]))
    if report["passed"] is not None:
        verdict = "passed" if report["passed"] else "failed"
        fact(console, verdict, f"tolerance {report['tolerance']:g}")


def show_fit(console: Console, fitted: Fit) -> None:
    """The coefficients with their standard errors, and what to read them with."""
    from lcpinn.inverse import plus_minus

    table = plain_table()
    table.add_column("coefficient", style="bold")
    for name in ("value ± standard error", "range"):
        table.add_column(name, justify="right")
    for name, value in fitted.values.items():
        low, high = fitted.ranges[name]
        table.add_row(name, plus_minus(value, fitted.errors[name]), f"[{low:g}, {high:g}]")
    console.print(table)
    console.print()
    for name, text in fitted.facts().items():
        fact(console, name, text)
    for text in fitted.warnings:
        fact(console, "warning", text)


def estimate(judged: Mapping[str, Any]) -> str:
    """What the residual leads to, by the linearised equation."""
    at = ", ".join(f"{name} = {value:g}" for name, value in judged["at"].items())
    where = f" at {at}" if at else ""
    if judged["error"] is None:
        return f"none{where}: {judged['reason']}"
    return f"relative error about {judged['error']:.1e}{where}, by the linearised equation"


def times(seconds: Mapping[str, float | None]) -> str:
    words = {"compile": "compiling", "train": "training", "total": "in all"}
    spent = {word: seconds.get(key) for key, word in words.items()}
    return ", ".join(f"{value:.1f} s {word}" for word, value in spent.items() if value)


# -- Findings ------------------------------------------------------------------------------------


def show_findings(console: Console, family: Family, findings: Sequence[Finding]) -> None:
    headline(console, family.name, family)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for f in findings:
        mark, style = ("✓", "green") if f.ok else ("✗", "red")
        mark, style = (mark, style) if f.applies else ("–", "dim")
        table.add_row(Text(mark, style), f.name, Text(f.detail, "" if f.applies else "dim"))
    console.print(table)
    failed = sum(not f.ok for f in findings)
    if failed:
        console.print(f"[red]{failed} of {len(findings)} checks failed[/]")
    else:
        console.print("[green]ready to train[/]")
