"""One HTML file that holds the network, runs it, and needs nothing else: `solution.explore(...)`.

The page is `page.html` with everything put into it: Plotly's script, which draws, `run.js`, which
runs the network's program, the scripts that are the page itself (`page.js` and those it builds on,
in one scope), and the data that `contents` gathers here.
"""

from __future__ import annotations

import html
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lcpinn.errors import LcpinnError
from lcpinn.evaluation import arguments
from lcpinn.explorer.program import Program, encode, of_exact, of_level, of_solution
from lcpinn.family import Family
from lcpinn.files import write_atomically
from lcpinn.prior import Coefficients
from lcpinn.quadrature import tensor

if TYPE_CHECKING:
    from lcpinn.solution import Solution

SCRIPTS = ("run", "state", "compute", "controls", "figures", "certificate", "page")
DRAWS = 16  # of the loss weights, for their mean
LARGE = 1e9  # multiply-adds for one picture that take a browser about a second
# Points along a line, along either side of an image, and along a slice of a space-time image.
LINE, SIDE, TIMES, ACROSS, SLICE = 401, 81, 81, 201, 401


def explore(
    solution: Solution,
    path: str | Path,
    settings: int | None = None,
    facts: Mapping[str, str] | None = None,
    corrected: int = 0,
) -> Path:
    """Write the page; `settings` is how many values of each coefficient errors are estimated at.

    0 leaves the estimates out, which take most of the time. `corrected` is at how many the
    corrected solution is shown, too. `facts` are added to the footer.
    """
    plotly = _plotly()
    path, data = Path(path), contents(solution, settings, facts, corrected)
    for note in data["notes"]:
        warnings.warn(note, RuntimeWarning, stacklevel=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LcpinnError(f"cannot write to {path.parent}: {error.strerror}") from None
    write_atomically(path, assemble(data, plotly).encode())
    return path


@dataclass(frozen=True, repr=False)
class Embedded:
    """The page for a notebook, which shows it in the cell."""

    name: str
    page: str

    def __repr__(self) -> str:
        return f"<the page of {self.name}, {len(self.page) / 1e6:.1f} MB; a notebook shows it>"

    def _repr_html_(self) -> str:
        text = html.escape(self.page, quote=True)
        return f'<iframe srcdoc="{text}" style="width: 100%; height: 850px; border: 0"></iframe>'


def embedded(solution: Solution, settings: int | None = None, corrected: int = 0) -> Embedded:
    """The page that `explore` would write, to be shown in a notebook."""
    data = contents(solution, settings, corrected=corrected)
    return Embedded(solution.family.name, assemble(data, _plotly()))


def _plotly() -> str:
    """Plotly's script, out of its Python package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise LcpinnError(
            "the explorer draws with Plotly, which is not installed: pip install 'lcpinn[explore]'"
        ) from None
    return get_plotlyjs()


def assemble(data: Mapping[str, Any], plotly: str) -> str:
    """The page's text: the template with its parts put in, in one pass."""
    # "<" cannot end the script that holds the data if there is none.
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "title": html.escape(data["name"]),
        "style": _read("page.css"),
        "plotly": plotly,
        "data": plain,
        **{name: _read(f"{name}.js") for name in SCRIPTS},
    }
    pieces = _read("page.html").split("{{")
    text = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        text += [parts[name], rest]
    return "".join(text)


def _read(name: str) -> str:
    return (resources.files("lcpinn.explorer") / name).read_text(encoding="utf-8")


# -- What the page knows -------------------------------------------------------------------------


def contents(
    solution: Solution,
    settings: int | None = None,
    facts: Mapping[str, str] | None = None,
    corrected: int = 0,
) -> dict[str, Any]:
    """Everything that `page.js` needs, as plain JSON."""
    family, notes = solution.family, []
    program = of_solution(solution)
    level = of_level(family)
    grid = _grid(family)
    exact, reference = _truth(family, grid, notes)
    work = program.cost * math.prod(grid["counts"]) * (1 if family.weights is None else DRAWS)
    if work > LARGE:
        notes.append(
            f"a full picture takes about {work / 1e9:.1f} billion multiply-adds: "
            "it is drawn coarsely while a slider moves, and takes some seconds afterwards"
        )
    return {
        "name": family.name,
        "equation": (type(family).__doc__ or "").strip().split("\n")[0],
        "coordinates": [axis._asdict() for axis in family.domain.coordinates],
        "parameters": [axis._asdict() for axis in family.parameters.axes],
        "outputs": list(family.outputs),
        "weights": _weights(solution),
        "grid": grid,
        "program": program.to_json(),
        "cost": program.cost,
        "level": None if level is None else level.to_json(),
        "exact": None if exact is None else exact.to_json(),
        "reference": None if reference is None else encode(reference),
        "certificate": _certificate(solution, settings),
        "corrected": _corrected(solution, grid, corrected, notes),
        "facts": _facts(solution) | dict(facts or {}),
        "notes": notes,
    }


def _grid(family: Family) -> dict[str, Any]:
    """How the solution is shown, and on how many points along each coordinate."""
    names = family.domain.names
    if len(names) == 1:
        return {"kind": "curve", "counts": [LINE]}
    if len(names) == 2 and "t" in names:
        counts = [TIMES if name == "t" else ACROSS for name in names]
        return {"kind": "space-time", "counts": counts, "slice": SLICE}
    return {"kind": "field", "counts": [SIDE, SIDE]}


def _truth(
    family: Family, grid: Mapping[str, Any], notes: list[str]
) -> tuple[Program | None, np.ndarray | None]:
    """The exact solution as a program, or the reference on the grid where it is always the same."""
    if family.exact is not None:
        try:
            return of_exact(family), None
        except LcpinnError as error:
            notes.append(f"the exact solution is left out: {error}")
            return None, None
    if family.reference is None:
        return None, None
    if family.parameters.free or family.domain.dim > 2:
        notes.append("the reference solution is left out: a solver would have to run in the page")
        return None, None
    ranges = family.domain.ranges.values()
    axes = [np.linspace(*ends, n) for ends, n in zip(ranges, _sampled_counts(grid), strict=True)]
    return None, family.truth(tensor(axes), np.array(list(family.parameters.held.values())))


def _sampled_counts(grid: Mapping[str, Any]) -> list[int]:
    """Points along each coordinate that is drawn, of a grid that holds all grids of the page."""
    return [grid["slice"] if n == ACROSS else n for n in grid["counts"]]


def _weights(solution: Solution) -> dict[str, Any] | None:
    prior = solution.family.weights
    if prior is None:
        return None
    draws = solution._draws(None, DRAWS)
    lows = [low for low, _ in prior.ranges.values()]
    return {**prior.to_json(), "lows": lows, "draws": draws.tolist()}


def _certificate(solution: Solution, settings: int | None) -> dict[str, Any] | None:
    """Estimated errors over lambda, and the true ones beside them where they are known."""
    if settings == 0:
        return None
    from lcpinn.evaluation import true_errors

    family = solution.family
    num = _num_settings(family) if settings is None else settings
    rows = solution.certificate(num)["settings"]
    known = not (family.exact is None and family.parameters.free)
    truth = true_errors(solution, [list(row["at"].values()) for row in rows]) if known else None
    return {
        "at": [list(row["at"].values()) for row in rows],
        "error": [row["error"] for row in rows],
        "reason": [row["reason"] for row in rows],
        "residual": [row["residual"] for row in rows],
        "true": truth,
    }


def _corrected(
    solution: Solution, grid: Mapping[str, Any], num: int, notes: list[str]
) -> dict[str, Any] | None:
    """The corrected solution at `num` values of each coefficient, on the grid that is drawn.

    With three coordinates or more that is the plane which the page begins with.
    """
    if num == 0:
        return None
    family, counts = solution.family, _sampled_counts(grid)
    position, plane = [sum(ends) / 2 for ends in family.domain.ranges.values()], _plane(family)
    ranges = list(family.domain.ranges.values())
    axes = [np.array([middle]) for middle in position]
    for i, count in zip(plane, counts, strict=True):
        axes[i] = np.linspace(*ranges[i], count)
    points, settings, values = tensor(axes), [], []
    for lam in _tidy_settings(family.parameters, num):
        try:
            value = solution.corrected(**arguments(family, points, lam))
        except LcpinnError as error:
            notes.append(str(error))
            continue
        columns = value.values() if isinstance(value, dict) else (value,)
        values.append(encode(np.stack(list(columns), axis=-1)))
        settings.append(lam.tolist())
    kept = {"at": settings, "values": values, "counts": counts}
    return {**kept, "plane": plane, "position": position} if settings else None


def _plane(family: Family) -> list[int]:
    """The coordinates that are drawn at first: with a time among three or more, those of space."""
    names = family.domain.names
    if len(names) < 3:
        return list(range(len(names)))
    return [i for i, name in enumerate(names) if name != "t"][:2]


def _tidy_settings(prior: Coefficients, num: int) -> np.ndarray:
    """Settings (n, p) at which a slider may stand: with no more digits than it shows."""
    settings = prior.grid(num)
    for i, axis in enumerate(prior.axes):
        tidy = [float(f"{value:.{4 if axis.log else 6}g}") for value in settings[:, i]]
        settings[:, i] = np.clip(tidy, axis.low, axis.high)
    return settings


def _num_settings(family: Family) -> int:
    """Values of each coefficient: an estimate takes seconds with two or three coordinates."""
    free, dim = len(family.parameters.free), family.domain.dim
    if free <= 1:
        return {1: 41, 2: 16}.get(dim, 5)
    return max(2, round({1: 49, 2: 25}.get(dim, 8) ** (1 / free)))


def _facts(solution: Solution) -> dict[str, str]:
    """What a reader may want to know about where the page comes from."""
    from lcpinn import __version__

    run, protocol = solution.run, solution.protocol
    facts = {
        "Protocol": " at ".join(filter(None, (protocol.name, protocol.setting))),
        "Network": f"{type(protocol.network).__name__}, {solution.num_params:,} parameters",
    }
    if "seed" in run:
        facts["Seed"] = str(run["seed"])
    seconds = run.get("training", {}).get("seconds", {})
    if seconds:
        facts["Training"] = f"{sum(seconds.values()):.0f} s on {run.get('device', 'this machine')}"
    facts["Page"] = f"lcpinn {__version__}, {datetime.now(UTC):%Y-%m-%d}"
    return facts
