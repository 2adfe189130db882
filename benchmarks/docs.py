"""What the site in docs/ does not say by hand: pictures, results, and the command line.

    python -m benchmarks.docs            fill in docs/cli.md and docs/gallery/*.md
    python -m benchmarks.docs --check    say whether they are current; exit code 1 where not
    python -m benchmarks.docs --pictures [--families a,b] [--seconds 50]
                                         train every family and draw docs/pictures/NAME.png

Runs are kept in runs/docs/; one that is there is drawn again, and not trained again.

Pages are written by hand up to their marks. What stands between `<!-- facts:begin -->` and
`<!-- facts:end -->` is read off the family, between the marks of `results` off results/*.json, and
docs/cli.md is the command line's own help: a test notices where any of it is out of date.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer

import lcpinn as lc
from benchmarks import readme, scaling
from benchmarks.chaos import table as chaos_table
from benchmarks.pinnacle.registry import PROBLEMS
from benchmarks.shapes.training import factor
from lcpinn.cli import app
from lcpinn.families import BUILT_IN, FAMILIES, OF_PINNACLE, ON_SHAPES
from lcpinn.family import Family
from lcpinn.files import read_json, write_atomically
from lcpinn.spec import short
from lcpinn.study.paper import paper_at, paper_row

ROOT = Path(__file__).resolve().parent.parent
DOCS, RUNS = ROOT / "docs", ROOT / "runs" / "docs"
LARGEST_PICTURE = 200_000  # bytes


def pages() -> dict[Path, Callable[[str], str]]:
    """Every page with something in it that is made here: from what it says to what it should."""
    made: dict[Path, Callable[[str], str]] = {
        DOCS / "cli.md": lambda _: command_line(),
        DOCS / "gallery" / "index.md": lambda text: between(
            between(text, "facts", overview()), "results", readme.render(readme.collect())
        ),
        DOCS / "reliability.md": lambda text: between(text, "results", promises()),
        DOCS / "distributed.md": distributed,
        DOCS / "when.md": lambda text: between(text, "results", solver_beside_network()),
    }
    for name in FAMILIES:
        made[DOCS / "gallery" / f"{name}.md"] = lambda text, name=name: between(
            between(text, "facts", facts(FAMILIES[name]())), "results", results(name)
        )
    for name, make in ON_SHAPES.items():
        made[DOCS / "gallery" / f"{name}.md"] = lambda text, name=name, make=make: between(
            between(text, "facts", facts(make())), "results", results_on_shape(name)
        )
    for name, make in OF_PINNACLE.items():
        made[DOCS / "gallery" / f"{name}.md"] = lambda text, name=name, make=make: between(
            between(text, "facts", facts(make())), "results", results_of_pinnacle(make)
        )
    return made


def between(text: str, mark: str, content: str) -> str:
    """The text with this content between the two marks of that name."""
    pattern = rf"(<!-- {mark}:begin -->\n).*?(<!-- {mark}:end -->)"
    filled, count = re.subn(pattern, lambda m: f"{m[1]}\n{content}\n\n{m[2]}", text, flags=re.S)
    if count != 1:
        raise SystemExit(f"a page has lost its marks <!-- {mark}:begin --> and <!-- {mark}:end -->")
    return filled


def table(head: list[str], rows: list[list[str]], numbers: int = 0) -> str:
    """Markdown; the last columns, `numbers` of them, are set to the right."""
    align = ["---"] * (len(head) - numbers) + ["---:"] * numbers
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, align, *rows))


# -- Families ------------------------------------------------------------------------------------


def facts(family: Family) -> str:
    """What the family says about itself."""
    equation, _, more = (family.__doc__ or "").partition("\n")
    prior, domain = family.parameters, family.domain
    inputs = [f"`{n}` in [{short(a)}, {short(b)}]" for n, (a, b) in domain.ranges.items()]
    knobs = [f"`{n}` in [{short(a)}, {short(b)}]" for n, (a, b) in prior.ranges.items()]
    if family.weights is not None:
        names = ", ".join(f"`{n}`" for n in family.weights.names)
        knobs.append(f"the loss weights of {names}, on the {type(family.weights).__name__.lower()}")
    terms = [f"`{t.name}` ({_where(t.where)})" for t in family.all_terms.values()]
    imposed = [n for n in family.all_terms if n not in family.terms]
    rows = [
        ["coordinates", ", ".join(inputs)],
        ["knobs", "; ".join(knobs)],
        ["unknowns", ", ".join(f"`{n}`" for n in family.outputs)],
        ["terms", ", ".join(terms)],
        ["imposed exactly", ", ".join(f"`{n}`" for n in imposed) or "nothing"],
        ["truth", "`exact`" if family.exact is not None else "`reference`, a solver"],
    ]
    about = " ".join(more.split())
    lines = [f"```text\n{equation}\n```", about, table(["", ""], rows)]
    return "\n\n".join(line for line in lines if line)


def _where(where: str) -> str:
    return "inside" if where == "interior" else f"on {where.replace(' ', ', ')}"


def overview() -> str:
    """The families one below the other, with their pictures."""
    parts = []
    for name, make in BUILT_IN.items():
        equation = (make().__doc__ or "").partition("\n")[0]
        picture = f"[![{name}](../pictures/{name}.png)]({name}.md)"
        parts.append(f"**[{name}]({name}.md)**: {equation}\n\n{picture}")
    return "\n\n".join(parts)


def results(name: str) -> str:
    """The errors of one family on every machine, and those at each lambda where there are any."""
    family, found = FAMILIES[name](), []
    for result in readme.collect():
        if runs := readme._of(result, name):
            found.append({**result, "runs": runs})
    if not found:
        return readme.NOTHING
    head = ["", "seeds", "mean error, median", "worst seed", "largest, any λ and seed", "time"]
    rows = [_measured(result, bool(family.parameters.dim)) for result in found]
    if paper := paper_row(family):
        minutes = f"{paper['wall_minutes']:.0f}\u00a0min" if "wall_minutes" in paper else "–"
        error = f"{readme._error(paper['mean'])} (mean)"
        theirs = ["the paper, Apple M4 Max", str(paper["seeds"]), error, "–", "–", minutes]
        rows.append(theirs)
    parts = [table(head, rows, numbers=5)]
    if family.parameters.dim:
        parts.append("At each λ that the paper reports, the median over our seeds and its mean:")
        parts.append(_at_each(family, found))
    return "\n\n".join(parts)


def results_on_shape(name: str) -> str:
    """Errors of one family on a shape on every machine, and how far estimates of them are off."""
    head = [
        "",
        "seeds",
        "mean error, median",
        "largest, any λ and seed",
        "estimates off by at most",
    ]
    rows = []
    for path in sorted((ROOT / "results").glob("shapes-*.json")):
        result = read_json(path)
        runs = [r for r in result.get("runs", ()) if r["family"] == name and "failed" not in r]
        if not runs:
            continue
        factors = [factor(setting) for run in runs for setting in run["settings"]]
        known = [f for f in factors if f is not None]
        off = f"a factor of {max(known):.2f}" if known else "–"
        stamp = result["stamp"]
        rows.append([
            f"{runs[0]['device']}, {result['seconds']:g} s ({stamp['date'][:10]})",
            str(len(runs)),
            readme._error(np.median([run["error"]["mean"] for run in runs])),
            readme._error(max(run["error"]["dense_max"] for run in runs)),
            f"{off} ({len(known)} of {len(factors)} λ)",
        ])  # fmt: skip
    nothing = "_No results yet: `python -m benchmarks.shapes --out results/shapes-cpu.json`._"
    return table(head, rows, numbers=4) if rows else nothing


def problem_of(make: Callable[[], Family]) -> str:
    """The name under which the public benchmark has this family."""
    kind = type(make())
    return next(name for name, one in PROBLEMS.items() if isinstance(one.family(), kind))


def results_of_pinnacle(make: Callable[[], Family]) -> str:
    """Errors of the benchmark's problem that is this family, output by output, on every machine."""
    problem, outputs = problem_of(make), make().outputs
    rows = []
    for path in sorted((ROOT / "results").glob("pinnacle-*.json")):
        entry = read_json(path)["problems"].get(problem, {})
        for value in entry.get("values", []):  # none where it failed, or is to be measured yet
            at = ", ".join(f"{name} = {short(v)}" for name, v in value["at"].items())
            errors = [value["error"], *(value["outputs"][name] for name in outputs)]
            stamp = f"{entry['stamp']['device']}, {entry['seconds']:g} s"
            rows.append([f"{stamp} ({entry['stamp']['date'][:10]})", at])
            rows[-1] += [readme._error(error) for error in errors]
    head = ["", "at", "all outputs", *(f"`{name}`" for name in outputs)]
    nothing = f"_No results yet: `python -m benchmarks.pinnacle --problems {problem}`._"
    return table(head, rows, numbers=len(head) - 2) if rows else nothing


def _measured(result: dict[str, Any], over_lambda: bool) -> list[str]:
    runs, stamp = result["runs"], result["stamp"]
    errors = [run["error"]["mean"] for run in runs]
    largest = max(run["error"]["dense_max"] for run in runs)
    return [
        f"{stamp['device']} ({stamp['date'][:10]})",
        str(len(runs)),
        readme._error(np.median(errors)),
        readme._error(max(errors)),
        readme._error(largest) if over_lambda else "–",
        f"{np.median([run['seconds']['total'] for run in runs]):.0f}\u00a0s",
    ]


def _at_each(family: Family, found: list[dict[str, Any]]) -> str:
    names, paper = family.parameters.names, paper_row(family)
    settings = [{n: row[n] for n in names} for row in found[0]["runs"][0]["error"]["grid"]]
    devices = [result["stamp"]["device"] for result in found]
    rows = []
    for i, setting in enumerate(settings):
        theirs = paper_at(paper, setting)
        cells = [", ".join(f"{n} = {short(v)}" for n, v in setting.items())]
        for result in found:
            errors = [run["error"]["grid"][i]["error"] for run in result["runs"]]
            cells.append(readme._error(np.median(errors)))
        rows.append([*cells, readme._error(theirs[0]) if theirs else "–"])
    return table(["λ", *devices, "the paper"], rows, numbers=1 + len(devices))


# -- A solver beside the network -----------------------------------------------------------------


def solver_beside_network() -> str:
    """Seconds and largest errors of the interpolant and of `fast`, family by family; or why not."""
    measured = read_json(ROOT / "results" / "solve-cpu.json")["families"]
    networks = read_json(ROOT / "results" / "families-cpu.json")["runs"]
    head = [
        "family",
        "coordinates",
        "coefficients",
        "settings solved",
        "interpolant",
        "largest error",
    ]
    head += ["`fast`", "largest error"]
    rows, refused = [], []
    for name, entry in measured.items():
        over_all = entry.get("interpolant")
        if over_all is None:
            continue
        if over_all["error"] is None:
            refused.append(f"- `{name}`: {over_all['reason']}")
            continue
        sizes = [str(entry[key]) for key in ("coordinates", "coefficients")]
        seconds = f"{over_all['cpu_seconds']:.0f}\u00a0s"
        solved = [str(over_all["nodes"]), seconds, readme._error(over_all["error"])]
        rows.append([f"`{name}`", *sizes, *solved, *_network_beside(networks, name)])
    parts = [table(head, rows, numbers=7)]
    return "\n\n".join([*parts, *(["Refused:", "\n".join(refused)] if refused else [])])


def promises() -> str:
    """What was done to the library on purpose, and what became of it."""
    faults = read_json(ROOT / "results" / "chaos.json")["faults"]
    return f"{chaos_table.table(faults)}\n\n{chaos_table.stamps(faults)}"


def _network_beside(runs: list[dict[str, Any]], name: str) -> list[str]:
    """The median time of a training, and the largest error of the median seed."""
    of_family = [run for run in runs if run["family"] == name and run["protocol"] == "fast"]
    if not of_family:
        return ["–", "–"]
    seconds = np.median([run["seconds"]["total"] for run in of_family])
    largest = np.median([run["error"]["dense_max"] for run in of_family])
    return [f"{seconds:.0f}\u00a0s", readme._error(largest)]


# -- Many devices --------------------------------------------------------------------------------

TEN_MILLION, GPUS = 10_000_000, (1, 8, 64)


def distributed(text: str) -> str:
    """docs/distributed.md with what is measured: sizes, scaling, and the model of many GPUs."""
    measured = {name: _record(name) for name in ("roofline-cpu", "roofline-h200", "scaling-cpu")}
    for mark, make, needed in (
        ("sizes", sizes_beside_peak, ("roofline-cpu", "roofline-h200")),
        ("scaling", scaling_on_cores, ("scaling-cpu",)),
        ("model", modelled_gpus, ("roofline-h200",)),
    ):
        known = [record for name in needed if (record := measured[name]) is not None]
        text = between(text, mark, "\n\n".join(map(make, known)) or "Not measured yet.")
    return text


def _record(name: str) -> dict[str, Any] | None:
    path = ROOT / "results" / f"{name}.json"
    return read_json(path) if path.exists() else None


def sizes_beside_peak(result: dict[str, Any]) -> str:
    """Time and memory as parameters and rows grow, and the share of the peak."""
    head = ["P", "N", "J′J", "of the peak", "Cholesky", "of the peak", "step", "memory", "J alone"]
    rows = []
    for size in result["sizes"]:
        seconds, share, used = size["seconds"], size["share"], size["bytes"]
        cells = [f"{size[name]:,}".replace(",", "\u202f") for name in ("parameters", "rows")]
        for name in ("normal", "cholesky"):
            cells += [_seconds(seconds[name]), f"{share[name]:.0%}"]
        cells += [_seconds(seconds["step"]), _gigabytes(used["used"]), _gigabytes(used["jacobian"])]
        rows.append(cells)
    peak = f"{result['peak']['flops'] / 1e12:.3g} TFLOP/s"
    title = f"{result['stamp']['device']}, peak {peak}, `{result['command']}`:"
    return f"{title}\n\n{table(head, rows, numbers=len(head))}"


def scaling_on_cores(result: dict[str, Any]) -> str:
    """Seconds and the parallel efficiency on every number of devices."""
    head = ["", "devices", "P", "N", "J′J", "efficiency", "step", "efficiency"]
    rows = []
    for kind in ("strong", "weak"):
        alone = result[kind][0]
        for size in result[kind]:
            cells = [kind, *(str(size[name]) for name in ("devices", "parameters", "rows"))]
            for name in ("normal", "step"):
                gain = alone["seconds"][name] / size["seconds"][name]
                share = gain / (size["devices"] if kind == "strong" else 1)
                cells += [_seconds(size["seconds"][name]), f"{share:.0%}"]
            rows.append(cells)
    title = f"{result['stamp']['device']}, `{result['command']}`:"
    return f"{title}\n\n{table(head, rows, numbers=len(head) - 1)}"


def modelled_gpus(result: dict[str, Any]) -> str:
    """Ten million rows on 1, 8 and 64 GPUs."""
    model = scaling.model(result["sizes"], TEN_MILLION, GPUS)
    head = ["GPUs", "rows", "replicated", "all-reduce", "step", "efficiency"]
    timed = ("rows", "fixed", "all_reduce", "step")
    rows = [
        [str(s["devices"]), *(_seconds(s[name]) for name in timed), f"{s['efficiency']:.0%}"]
        for s in model["steps"]
    ]
    title = (
        f"{result['stamp']['device']}, P = {model['parameters']}, N = {model['rows']}, "
        f"{_gigabytes(model['bytes'])} all-reduced in every step:"
    )
    return f"{title}\n\n{table(head, rows, numbers=len(head))}"


def _seconds(value: float) -> str:
    return f"{value:.3g}\u00a0s" if value >= 1 else f"{1e3 * value:.3g}\u00a0ms"


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:.2g}\u00a0GB"


# -- The command line ----------------------------------------------------------------------------


def command_line() -> str:
    """docs/cli.md: every command with its arguments, options and examples."""
    root: Any = typer.main.get_command(app)
    parts = [
        "# Command line",
        "Made by `python -m benchmarks.docs` from the commands themselves; "
        "`lcpinn COMMAND --help` shows the same.",
        *_described(root.help or ""),
        "Errors are one line on stderr, and the exit code is 2 (130 if interrupted, 1 for a `check`"
        " or a `certify` that fails). Programs that were compiled are kept where the system keeps"
        " caches (`~/.cache/lcpinn` on Linux), or where `LCPINN_CACHE` says.",
    ]
    for name, command in root.commands.items():
        usage = " ".join(filter(None, ["lcpinn", name, *map(_usage, command.params)]))
        about = list(_described(command.help or ""))
        shown = [part for part in about if part.startswith("```bash")]
        parts += [f"## {name}", *(part for part in about if part not in shown)]
        parts += [f"```text\n{usage}\n```", table(["", "", ""], list(map(_row, command.params)))]
        parts += shown
    return "\n\n".join(parts) + "\n"


def _described(text: str) -> Iterator[str]:
    """Paragraphs, and what is set apart by typer's mark for text that keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if not paragraph.startswith("\b"):
            yield " ".join(paragraph.split())
            continue
        lines = [line.strip() for line in paragraph.splitlines()[1:]]
        if all(line.startswith("lcpinn") for line in lines):
            yield "```bash\n" + "\n".join(_commented(line) for line in lines) + "\n```"
        else:
            yield "```text\n" + "\n".join(lines) + "\n```"


def _commented(line: str) -> str:
    """What follows a command after two blanks is about it."""
    command, *about = re.split(r"\s{2,}", line)
    return f"{command}  # {' '.join(about)}" if about else command


def _is_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option"


def _usage(parameter: Any) -> str:
    if _is_option(parameter):
        return f"{parameter.opts[0]} {_value(parameter)}" if parameter.required else ""
    word = _value(parameter)
    word += " ..." if parameter.nargs == -1 and "..." not in word else ""
    return word if parameter.required or word.startswith("[") else f"[{word}]"


def _value(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    return parameter.metavar or parameter.name.upper()


def _row(parameter: Any) -> list[str]:
    names = ", ".join(f"`{opt}`" for opt in parameter.opts) if _is_option(parameter) else ""
    value = f"`{_value(parameter)}`" if _value(parameter) else ""
    about = (parameter.help or "").replace("|", "\\|")
    default = parameter.default
    if _is_option(parameter) and isinstance(default, (int, float, str, Path)):
        about += "" if isinstance(default, bool) else f" Default: `{default}`."
    return [names or value, value if names else "", about]


# -- Pictures ------------------------------------------------------------------------------------


def draw(name: str, seconds: float | None) -> Path:
    """Train a family as `lcpinn train` does, and draw the picture that such a run leaves.

    Of a family on a shape, the solution at several settings: the shape is the knob. Those of the
    public benchmark have pictures of their own.
    """
    from benchmarks.pinnacle.pictures import PICTURES, few_colours
    from lcpinn.plot import overview
    from lcpinn.plot import solution as over_settings

    family, out = BUILT_IN[name](), RUNS / name
    figure = over_settings.figure if name in ON_SHAPES else overview.figure
    if (out / "model.safetensors").exists():
        solution = lc.load(out)
    else:
        made = lc.protocol.fast(family, seconds=seconds)
        solution = lc.train(family, made, seed=0, out=out, overwrite=True, report=False)
    path = DOCS / "pictures" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    if name in OF_PINNACLE:
        drawn = few_colours(PICTURES[problem_of(BUILT_IN[name])](solution))
    else:
        drawn = small_png(figure(solution))
    write_atomically(path, drawn)
    return path


def small_png(drawn: Any) -> bytes:
    """A figure at the finest resolution that stays below the limit."""
    for dpi in (200, 180, 160, 140, 120, 100):
        buffer = io.BytesIO()
        drawn.savefig(buffer, format="png", dpi=dpi, metadata={})
        if buffer.tell() < LARGEST_PICTURE:
            return buffer.getvalue()
    raise SystemExit(f"a picture does not fit into {LARGEST_PICTURE / 1000:g} kB")


# -- The script ----------------------------------------------------------------------------------


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("benchmarks.docs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; 1 where they differ")
    parser.add_argument("--pictures", action="store_true", help="train, and draw the pictures")
    parser.add_argument("--families", help=f"of {', '.join(BUILT_IN)}; all by default")
    parser.add_argument("--seconds", type=float, help="time limit of each training")
    given = parser.parse_args(arguments)
    if given.pictures:
        for name in BUILT_IN if given.families is None else given.families.split(","):
            print(draw(name, given.seconds), flush=True)
        return
    old = []
    for path, make in pages().items():
        text = path.read_text() if path.exists() else ""
        if text != (wanted := make(text)):
            old.append(str(path.relative_to(DOCS.parent)))
            if not given.check:
                path.write_text(wanted)
    if old and given.check:
        sys.exit(f"not current: {', '.join(old)}; run python -m benchmarks.docs")
    print(f"written: {', '.join(old)}" if old else "docs/ is current")


if __name__ == "__main__":
    run(sys.argv[1:])
