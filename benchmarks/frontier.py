"""Error against wall time: `fast`, a solver with interpolation, the paper's protocol, and others.

    python -m benchmarks.frontier [--families a,b] [--seconds 60] [--seed 0] [--jobs 1] [--rivals]
                                  [--out results/frontier-cpu.json]
    python -m benchmarks.frontier --install-rivals

Every contender runs in a process of its own that finds no compiled program. Its clock starts after
the imports and counts building and compiling; parameters are kept along the way and evaluated
after the run, or with the clock stopped. `interpolant` solves the page at nodes of its coefficients
and has no network; families without coefficients it does not apply to. Errors are means over the
family's grid of coefficients; the interpolant has solved some of those, so that of it the largest
error at others is taken. `paper` gets as many steps as fit: its step is timed first, off the clock.
`--rivals` adds what one would take instead: DeepXDE (Adam, then L-BFGS) and Scimba (natural
gradient) in one coordinate and on burgers, and pyMOR (a reduced basis of finite element solutions,
each mesh timed by itself) on helmholtz-2d. They have an environment of their own (.venv-rivals),
which `--install-rivals` makes, and get true values in a file, for the error that they report alone.
With `--jobs N` so many run at once, each on two cores of its own. A family that is measured again
replaces its old entry in the file; other families stay, and so do rivals that were not run, with
the stamp of their day. A picture is drawn beside the file; `--draw` does that alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.course import Snapshot, error_of, in_words, lowest, seconds_to, thinned
from benchmarks.panels import family_panels
from benchmarks.processes import WIDTH, among, as_they_end, core_slots
from benchmarks.stamp import stamp
from lcpinn import protocol as protocols
from lcpinn.errors import LcpinnError
from lcpinn.evaluation import evaluation_points, grid_values
from lcpinn.families import FAMILIES
from lcpinn.family import Family
from lcpinn.files import read_json, write_json
from lcpinn.optimiser import RevertOnWorse, Stage
from lcpinn.plot import COLOURS
from lcpinn.precision import precision_of
from lcpinn.protocol import Protocol
from lcpinn.spec import describe
from lcpinn.study.paper import paper_row
from lcpinn.threads import usable_cores
from lcpinn.training import make_setup

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-rivals"
SCRIPTS = Path(__file__).resolve().parent / "rivals"
RIVALS = {name: SCRIPTS / f"by_{name}.py" for name in ("deepxde", "scimba", "pymor")}
NETWORKS = ("deepxde", "scimba")
RIVALS_ON = {
    "helmholtz-1d": NETWORKS,
    "helmholtz-2d": ("pymor",),
    "schrodinger-1d": NETWORKS,
    "burgers": NETWORKS,
}

CALLS = 25  # compiled calls in the paper's Adam phase: each one may become a point
MOST = 28  # points that are evaluated of one curve
OURS = ("fast", "interpolant", "paper")
LABELS = {
    "fast": "lcpinn, fast",
    "interpolant": "lcpinn, interpolant, at its worst",
    "paper": "lcpinn, the paper's protocol",
    "deepxde": "DeepXDE, Adam and L-BFGS",
    "scimba": "Scimba, natural gradient",
    "pymor": "pyMOR, reduced basis",
}
CLOCK = "seconds after the imports; compilation counts, evaluation does not"

# "points": [{"seconds", "error", "step"}] and "seconds_to" levels, or "unavailable": why
Curve = dict[str, Any]
Entry = dict[str, Any]  # "curves" by contender, their "stamp", "seconds" and the "paper" 's numbers
Say = Callable[..., None]


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    if given.install_rivals:
        return install(given.environment)
    if given.one:
        return run_one(given.families[0], given.one, given.seconds, given.seed)
    if given.draw:
        return print(f"drawn: {draw(read_json(given.out), given.out.with_suffix('.png'))}")
    jobs = [(n, c) for n in given.families for c in contenders(n, rivals=given.rivals)]
    entries: dict[str, Entry] = {}
    for name, contender, curve in as_they_end(
        lambda job, cores: (*job, compete(*job, given, cores)), jobs, core_slots(given.jobs)
    ):
        print(f"{name:18}{LABELS[contender]:34}{summary(curve)}", flush=True)
        new = {"stamp": stamp(given.seed), "seconds": given.seconds, "paper": _published(name)}
        entry = entries.setdefault(name, new | {"curves": {}})
        entry["curves"][contender] = curve
        if given.jobs > 1:
            entry["stamp"]["cores"] = WIDTH  # of each
        entry["stamp"]["versions"] |= _rival_versions(entry["curves"])
        if given.out is not None:
            result = merged(given.out, name, entry)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(given.out, result)
    print(table(read_json(given.out)["families"] if given.out else entries))
    if given.out is not None:
        draw(read_json(given.out), given.out.with_suffix(".png"))
        print(f"written to {given.out} and {given.out.with_suffix('.png')}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.frontier", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--families", type=among(FAMILIES, "family"), default=list(FAMILIES),
                        help="a,b; default all")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="of every contender")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="at once, on two cores each")
    parser.add_argument(
        "--rivals", action="store_true", help=f"other libraries on {', '.join(RIVALS_ON)}"
    )
    parser.add_argument("--out", type=Path, help="write to this JSON file and a picture beside it")
    parser.add_argument("--draw", action="store_true", help="draw what the file has, run nothing")
    parser.add_argument("--install-rivals", action="store_true", help="make their environment")
    parser.add_argument("--environment", type=Path, default=ENVIRONMENT, help="where that is")
    parser.add_argument("--one", choices=OURS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.draw and given.out is None:
        parser.error("--draw draws what --out has")
    return given


def contenders(name: str, *, rivals: bool) -> list[str]:
    return [*OURS, *(RIVALS_ON.get(name, ()) if rivals else ())]


# -- The file ------------------------------------------------------------------------------------


def merged(out: Path, name: str, entry: Entry) -> dict[str, Any]:
    """What the file will hold: this entry, what it has of other families, and of rivals here."""
    old = read_json(out) if out.exists() else {}
    kept = old.get("families", {}) if old.get("benchmark") == "frontier" else {}
    families = kept | {name: entry | {"curves": _with_rivals(kept.get(name), entry["curves"])}}
    ordered = {known: families[known] for known in FAMILIES if known in families}
    return {"benchmark": "frontier", "clock": CLOCK, "stamp": entry["stamp"], "families": ordered}


def _with_rivals(before: Entry | None, curves: dict[str, Curve]) -> dict[str, Curve]:
    """The curves, and those of rivals that were measured before and not now, stamped."""
    if before is None:
        return curves
    missing = [r for r in RIVALS if r in before["curves"] and not curves.get(r, {}).get("points")]
    stamped = {r: {"stamp": before["stamp"]} | before["curves"][r] for r in missing}
    every = curves | stamped
    return {name: every[name] for name in LABELS if name in every}


def summary(curve: Curve) -> str:
    if "unavailable" in curve:
        return f"unavailable: {curve['unavailable']}"
    last = curve["points"][-1]
    return f"{last['error']:.1e} in {last['seconds']:.1f} s"


def table(families: dict[str, Entry]) -> str:
    """The last error of every contender, and how long it took to pass the levels on the way."""
    lines = [f"{'':52}{'error':>9}{'seconds':>9}{'to 1e-4':>8}{'1e-6':>8}{'1e-9':>8}"]
    for name, entry in families.items():
        for contender, curve in entry["curves"].items():
            if not curve.get("points"):
                continue
            last, when = curve["points"][-1], _date_of(curve)
            numbers = f"{last['error']:9.1e}{last['seconds']:9.1f}"
            reached = in_words(seconds_to(curve["points"]))
            lines.append(f"{name:18}{LABELS[contender]:34}{numbers}{reached}{when}")
    return "\n".join(lines)


def _date_of(curve: Curve) -> str:
    """When a curve was measured that is older than the rest."""
    return f" ({curve['stamp']['date'][:10]})" if "stamp" in curve else ""


def _published(name: str) -> dict[str, float]:
    row = paper_row(FAMILIES[name]()) or {}
    return {key: row[key] for key in ("mean", "wall_minutes") if key in row}


def _rival_versions(curves: dict[str, Curve]) -> dict[str, str]:
    """By library: deepxde/torch is the PyTorch below DeepXDE, which need not be the one here."""
    return {
        name if package == name else f"{name}/{package}": version
        for name in RIVALS
        for package, version in curves.get(name, {}).get("versions", {}).items()
    }


# -- Processes -----------------------------------------------------------------------------------


def compete(
    name: str, contender: str, given: argparse.Namespace, cores: Sequence[int] = ()
) -> Curve:
    """One contender in a fresh process, on some cores, any where none are named."""
    options = ["--seconds", str(given.seconds), "--seed", str(given.seed)]
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    if contender not in RIVALS:
        command = [*pinned, sys.executable, "-m", "benchmarks.frontier", "--one", contender]
        return collect([*command, "--families", name, *options], patience(given.seconds))
    python = _python_of(given.environment)
    if not python.exists():
        return {"unavailable": f"no {python}; python -m benchmarks.frontier --install-rivals"}
    options += ["--threads", str(len(cores) or usable_cores())]
    command = [*pinned, str(python), str(RIVALS[contender]), "--problem", name, *options]
    with TemporaryDirectory() as folder:
        truth = write_truth(FAMILIES[name](), Path(folder) / "truth.npz")
        return collect([*command, "--truth", str(truth)], patience(given.seconds))


def write_truth(family: Family, path: Path) -> Path:
    """The values that errors of our own are measured against, for another library's errors."""
    points, settings = evaluation_points(family), grid_values(family)
    values = [np.asarray(family.truth(points, lam))[:, 0] for lam in settings]
    np.savez(path, points=points, settings=settings, values=np.stack(values))
    return path


def patience(seconds: float) -> float:
    """When a process is given up: imports, a first look at the step, evaluations, a slow end."""
    return 3 * seconds + 300


def collect(command: list[str], limit: float) -> Curve:
    """Run a process that prints lines of JSON: points of its curve, and what else it has to say."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    curve: Curve = {"load": round(os.getloadavg()[0], 2), "points": []}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit
        )
        output, problem = done.stdout, _last_words(done) if done.returncode else None
    except subprocess.TimeoutExpired as expired:
        raw = expired.stdout or b""
        output = raw.decode() if isinstance(raw, bytes) else raw
        problem = f"not done after {limit:.0f} s"
    except OSError as error:
        output, problem = "", f"could not start: {error}"
    for line in output.splitlines():
        if not line.startswith("{"):  # a library's own chatter
            continue
        record = json.loads(line)
        if "error" in record:
            curve["points"].append(record)
        else:
            curve |= record
    if problem is not None:
        curve["problem" if curve["points"] else "unavailable"] = problem
    elif not curve["points"]:
        curve.setdefault("unavailable", "it ended without a result")
    if curve["points"]:
        curve["seconds_to"] = seconds_to(curve["points"])
    return curve


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return f"exit code {done.returncode}: {' | '.join(lines[-3:])}"[:500]


def _python_of(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(environment: Path) -> None:
    """An environment for the rivals: PyTorch alone first, so that nothing chooses its wheel."""
    pinned = SCRIPTS / "requirements.txt"
    torch = next(line for line in pinned.read_text().splitlines() if line.startswith("torch=="))
    if not _python_of(environment).exists():
        venv.create(environment, with_pip=True)
        (environment / ".gitignore").write_text("*\n")
    pip = [str(_python_of(environment)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, torch], check=True)
    subprocess.run([*pip, "-r", str(pinned), "-c", str(pinned)], check=True)
    print(f"the rivals are in {environment}")


# -- One contender of our own --------------------------------------------------------------------


def run_one(name: str, contender: str, seconds: float, seed: int) -> None:
    """`--one`: run and print lines of JSON, as the rivals do."""
    jax.config.update("jax_enable_compilation_cache", False)
    family = FAMILIES[name]()
    if contender != "paper":
        make = lambda: protocols.by_name(contender, family, seconds=seconds)
    else:
        protocol, timing = paper_within(family, seconds, seed)
        _say(timing=timing)
        make = lambda: protocol
    try:
        report(family, make, seed, _say)
    except LcpinnError as refused:
        _say(unavailable=str(refused))


def _say(**record: Any) -> None:
    print(json.dumps(record), flush=True)


def report(family: Family, make: Callable[[], Protocol], seed: int, say: Say) -> None:
    """Train as `lcpinn.train` does, then evaluate what was kept along the way."""
    begun = time.perf_counter()
    protocol = make()
    family = protocol.view(family)
    with precision_of(protocol.dtype):
        taken, stopped = follow(family, protocol, seed, begun)
    say(
        setting={
            "network": describe(protocol.network),
            "phases": [describe(phase) for phase in protocol.phases],
            "dtype": protocol.dtype,
        },
        parameters=sum(leaf.size for leaf in jax.tree.leaves(taken[-1].params())),
        stopped=stopped,
    )
    error = error_of(family, protocol)
    for one in thinned(taken, MOST):
        say(seconds=round(one.seconds, 4), error=error(one.params()), step=one.step)


def follow(
    family: Family, protocol: Protocol, seed: int, begun: float
) -> tuple[list[Snapshot], list[str]]:
    """Run every phase, with the randomness of `lcpinn.train`, and keep where it was."""
    setup, key = make_setup(family, protocol), jax.random.PRNGKey(seed)
    params = jax.jit(setup.problem.init)(jax.random.fold_in(key, 0))
    taken, stopped, before = [], [], 0
    for number, phase in enumerate(protocol.phases):
        stage: Stage = phase.build(setup)
        state = stage.init(params, jax.random.fold_in(key, number + 1))
        reason = stage.stopped(state, {})
        while reason is None:
            state, info = stage.advance(state)
            info = jax.device_get(info)
            seconds, step = time.perf_counter() - begun, before + int(state.step)
            taken.append(Snapshot(seconds, step, lambda state=state: lowest(state)))
            reason = stage.stopped(state, info)
        params, note = stage.finish(state)
        before += int(state.step)
        final = jax.block_until_ready(params)
        if taken and taken[-1].step == before:  # the same place, before the phase had the last word
            taken.pop()
        taken.append(Snapshot(time.perf_counter() - begun, before, lambda kept=final: kept))
        stopped.append(f"{reason}; {note}" if note else str(reason))
    return taken, stopped


# -- The paper's protocol in a given time --------------------------------------------------------


class Cost(NamedTuple):
    """Seconds of a phase: once (compilation, start and end), and for every step."""

    once: float
    step: float


def paper_within(family: Family, seconds: float, seed: int) -> tuple[Protocol, dict[str, Any]]:
    """`paper` with as many steps as fit, and how that number was found."""
    whole = protocols.paper(family)
    costs = phase_costs(family, whole, seed, least=min(1.0, seconds / 10))
    totals = [_inner(phase).steps for phase in whole.phases]
    steps, block = scaled_steps(seconds, costs, totals)
    protocol = protocols.paper(family, steps=steps)
    phases = [_resized(protocol.phases[0], block=block)]
    phases += [_resized(p, block=max(1, _inner(p).steps // 5)) for p in protocol.phases[1:]]
    # Too short for a single step of L-BFGS: it is left out.
    phases = [phase for phase in phases if _inner(phase).steps]
    timing = {
        "once": [round(cost.once, 3) for cost in costs],
        "ms_per_step": [round(1e3 * cost.step, 3) for cost in costs],
        "steps": [_inner(phase).steps for phase in phases],
        "steps_of_the_paper": totals,
    }
    return dataclasses.replace(protocol, phases=tuple(phases)), timing


def scaled_steps(seconds: float, costs: Sequence[Cost], totals: Sequence[int]) -> tuple[int, int]:
    """Steps of the first phase, and of one call; the other phases shrink in proportion.

    The calls are equally long, since one of another length would be compiled again.
    """
    remaining = seconds - sum(cost.once for cost in costs)
    each = sum(cost.step * total / totals[0] for cost, total in zip(costs, totals, strict=True))
    steps = min(max(int(remaining / each), 1), totals[0])
    block = max(1, steps // CALLS)
    return steps - steps % block, block


def phase_costs(family: Family, protocol: Protocol, seed: int, *, least: float) -> list[Cost]:
    """Each phase run for `least` seconds after its first call."""
    family = protocol.view(family)
    key, costs = jax.random.PRNGKey(seed), []
    with precision_of(protocol.dtype):
        setup = make_setup(family, protocol)
        params = jax.jit(setup.problem.init)(key)
        for phase in protocol.phases:
            begun = time.perf_counter()
            stage: Stage = _resized(phase, block=2).build(setup)
            state, _ = stage.advance(stage.init(params, key))
            first, compiled = int(state.step), time.perf_counter()
            while stage.stopped(state, {}) is None and time.perf_counter() - compiled < least:
                state, info = stage.advance(state)
                jax.block_until_ready(info)
            ended = time.perf_counter()
            step = (ended - compiled) / max(int(state.step) - first, 1)
            params, _ = stage.finish(state)
            closing = time.perf_counter() - ended
            costs.append(Cost(max(compiled - begun - first * step, 0.0) + closing, step))
    return costs


def _inner(phase: Any) -> Any:
    return phase.phase if isinstance(phase, RevertOnWorse) else phase


def _resized(phase: Any, **changes: Any) -> Any:
    if isinstance(phase, RevertOnWorse):
        return dataclasses.replace(phase, phase=_resized(phase.phase, **changes))
    return dataclasses.replace(phase, **changes)


# -- The picture ---------------------------------------------------------------------------------


def draw(result: dict[str, Any], path: Path) -> Path:
    """One small panel per family, error against seconds, both logarithmic."""
    figure = family_panels(
        result["families"],
        _panel,
        title=f"Error against wall time: {_machine(result['stamp'])}",
        ylabel="relative error",
        xlabel="seconds, compilation included",
    )
    figure.savefig(path)
    return path


def _machine(origin: dict[str, Any]) -> str:
    """The device, and how much of it a contender had."""
    device, cores = origin["device"], origin.get("cores")
    return device if cores is None or f" {cores} " in device else f"{device}, {cores} for each"


def _panel(axis: Axes, entry: dict[str, Any]) -> None:
    for contender, colour, marker in zip(LABELS, COLOURS, "oPsD^v", strict=True):
        curve = entry["curves"].get(contender, {})
        if not curve.get("points"):
            continue
        seconds, errors = ([p[key] for p in curve["points"]] for key in ("seconds", "error"))
        style = dict(color=colour, marker=marker, markersize=3.5, linewidth=1.3)
        axis.loglog(seconds, errors, label=LABELS[contender] + _date_of(curve), **style)
    if "mean" in entry["paper"]:
        minutes = entry["paper"].get("wall_minutes")
        axis.axhline(entry["paper"]["mean"], color="0.35", linestyle="--", linewidth=1)
        axis.annotate(
            f"published: {minutes:.0f} min" if minutes else "published",
            (0.99, entry["paper"]["mean"]),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=7,
            color="0.35",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
