"""Error against wall time: `fast`, the paper's protocol in the same time, and other libraries.

    python -m benchmarks.frontier [--families a,b] [--seconds 60] [--seed 0] [--rivals]
                                  [--out results/frontier-cpu.json]
    python -m benchmarks.frontier --install-rivals

Every contender runs in a process of its own that finds no compiled program. Its clock starts after
the imports and counts building and compiling; parameters are kept along the way and evaluated
after the run, or with the clock stopped. `paper` gets as many steps as fit: its step is timed
first, off the clock. `--rivals` adds, on helmholtz-1d, what one would take instead: DeepXDE (Adam,
then L-BFGS) and Scimba (natural gradient), from an environment of their own (.venv-rivals), which
`--install-rivals` makes. A family that is measured again replaces its old entry in the file, the
others stay; a picture is drawn beside it.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.panels import family_panels
from benchmarks.processes import among
from benchmarks.stamp import stamp
from lcpinn import protocol as protocols
from lcpinn.evaluation import evaluation_points, grid_values, relative_error
from lcpinn.families import FAMILIES
from lcpinn.family import Family
from lcpinn.files import read_json, write_json
from lcpinn.network.mlp import Params
from lcpinn.optimiser import Restarts, RevertOnWorse, Stage
from lcpinn.plot import COLOURS
from lcpinn.precision import precision_of
from lcpinn.protocol import Protocol
from lcpinn.solution import Solution
from lcpinn.spec import describe
from lcpinn.study.paper import paper_row
from lcpinn.threads import usable_cores
from lcpinn.training import make_setup

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-rivals"
SCRIPTS = Path(__file__).resolve().parent / "rivals"
RIVALS = {"deepxde": SCRIPTS / "deepxde_helmholtz.py", "scimba": SCRIPTS / "scimba_helmholtz.py"}
RIVALS_ON = "helmholtz-1d"

CALLS = 25  # compiled calls in the paper's Adam phase: each one may become a point
MOST = 14  # points that are evaluated of one curve
LABELS = {
    "fast": "lcpinn, fast",
    "paper": "lcpinn, the paper's protocol",
    "deepxde": "DeepXDE, Adam and L-BFGS",
    "scimba": "Scimba, natural gradient",
}
CLOCK = "seconds after the imports; compilation counts, evaluation does not"

Curve = dict[str, Any]  # "points": [{"seconds", "error", "step"}], or "unavailable": why
Say = Callable[..., None]


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parse(arguments)
    if given.install_rivals:
        return install(given.environment)
    if given.one:
        return run_one(given.families[0], given.one, given.seconds, given.seed)
    for name in given.families:
        origin = stamp(given.seed)
        entry = {"stamp": origin, "seconds": given.seconds, "paper": _published(name), "curves": {}}
        for contender in contenders(name, rivals=given.rivals):
            curve = compete(name, contender, given)
            entry["curves"][contender] = curve
            print(f"{name:18}{LABELS[contender]:30}{summary(curve)}", flush=True)
        entry["stamp"]["versions"] |= _rival_versions(entry["curves"])
        if given.out is not None:
            result = merged(given.out, name, entry)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(given.out, result)
            draw(result, given.out.with_suffix(".png"))
    if given.out is not None:
        print(f"written to {given.out} and {given.out.with_suffix('.png')}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.frontier", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--families", type=among(FAMILIES, "family"), default=list(FAMILIES),
                        help="a,b; default all")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="of every contender")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rivals", action="store_true", help=f"other libraries on {RIVALS_ON}")
    parser.add_argument("--out", type=Path, help="write to this JSON file and a picture beside it")
    parser.add_argument("--install-rivals", action="store_true", help="make their environment")
    parser.add_argument("--environment", type=Path, default=ENVIRONMENT, help="where that is")
    parser.add_argument("--one", choices=("fast", "paper"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def contenders(name: str, *, rivals: bool) -> list[str]:
    return ["fast", "paper", *(RIVALS if rivals and name == RIVALS_ON else ())]


# -- The file ------------------------------------------------------------------------------------


def merged(out: Path, name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """What the file will hold: this entry, and those of other families that it has already."""
    old = read_json(out) if out.exists() else {}
    kept = old.get("families", {}) if old.get("benchmark") == "frontier" else {}
    families = kept | {name: entry}
    ordered = {known: families[known] for known in FAMILIES if known in families}
    return {"benchmark": "frontier", "clock": CLOCK, "stamp": entry["stamp"], "families": ordered}


def summary(curve: Curve) -> str:
    if "unavailable" in curve:
        return f"unavailable: {curve['unavailable']}"
    last = curve["points"][-1]
    return f"{last['error']:.1e} in {last['seconds']:.1f} s"


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


def compete(name: str, contender: str, given: argparse.Namespace) -> Curve:
    """One contender in a fresh process."""
    options = ["--seconds", str(given.seconds), "--seed", str(given.seed)]
    if contender not in RIVALS:
        command = [sys.executable, "-m", "benchmarks.frontier", "--one", contender]
        return collect([*command, "--families", name, *options], patience(given.seconds))
    python = _python_of(given.environment)
    if not python.exists():
        return {"unavailable": f"no {python}; python -m benchmarks.frontier --install-rivals"}
    options += ["--threads", str(usable_cores())]
    return collect([str(python), str(RIVALS[contender]), *options], patience(given.seconds))


def patience(seconds: float) -> float:
    """When a process is given up: imports, a first look at the step, evaluations, a slow end."""
    return 3 * seconds + 300


def collect(command: list[str], limit: float) -> Curve:
    """Run a process that prints lines of JSON: points of its curve, and what else it has to say."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
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
        curve["unavailable"] = "it ended without a result"
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


class Snapshot(NamedTuple):
    """The parameters that a run would have ended with, had it been stopped then."""

    seconds: float
    step: int
    params: Callable[[], Params]


def run_one(name: str, contender: str, seconds: float, seed: int) -> None:
    """`--one`: run and print lines of JSON, as the rivals do."""
    jax.config.update("jax_enable_compilation_cache", False)
    family = FAMILIES[name]()
    if contender == "fast":
        make = lambda: protocols.fast(family, seconds=seconds)
    else:
        protocol, timing = paper_within(family, seconds, seed)
        _say(timing=timing)
        make = lambda: protocol
    report(family, make, seed, _say)


def _say(**record: Any) -> None:
    print(json.dumps(record), flush=True)


def report(family: Family, make: Callable[[], Protocol], seed: int, say: Say) -> None:
    """Train as `lcpinn.train` does, then evaluate what was kept along the way."""
    begun = time.perf_counter()
    protocol = make()
    family = family.plain() if protocol.plain else family
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
    error = grid_error(family, protocol)
    for one in thinned(taken):
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
            taken.append(Snapshot(seconds, step, _ending(stage, phase, state)))
            reason = stage.stopped(state, info)
        params, note = stage.finish(state)
        before += int(state.step)
        final = jax.block_until_ready(params)
        if taken and taken[-1].step == before:  # the same place, before the phase had the last word
            taken.pop()
        taken.append(Snapshot(time.perf_counter() - begun, before, lambda kept=final: kept))
        stopped.append(f"{reason}; {note}" if note else str(reason))
    return taken, stopped


def _ending(stage: Stage, phase: Any, state: Any) -> Callable[[], Params]:
    """What the phase would return now. A check of the whole phase has nothing to say before."""
    if isinstance(phase, Restarts):
        return lambda: stage.finish(state)[0]
    return lambda: state.params


def thinned(taken: list[Snapshot], most: int = MOST) -> list[Snapshot]:
    """At most so many, evenly on a logarithmic axis, with the first and the last."""
    if len(taken) <= most:
        return taken
    times = np.log([one.seconds for one in taken])
    wanted = np.linspace(times[0], times[-1], most)
    nearest = {int(np.argmin(np.abs(times - at))) for at in wanted[:-1]}
    return [taken[i] for i in sorted(nearest | {len(taken) - 1})]


def grid_error(family: Family, protocol: Protocol) -> Callable[[Params], float]:
    """The mean error over the family's grid, as lcpinn.evaluation computes it, and only that."""
    points, names = evaluation_points(family), family.parameters.names
    cases = [(lam, family.truth(points, lam)) for lam in grid_values(family)]
    columns = {n: points[:, i] for i, n in enumerate(family.domain.names)}
    first: list[Solution] = []

    def error(params: Params) -> float:
        if not first:
            first.append(Solution(family, protocol, params, {}))
        # A copy shares the compiled programs of the first one; only the parameters are its own.
        solution = copy.copy(first[0])
        solution.__dict__.pop("_double", None)
        solution.params = jax.tree.map(np.asarray, params)
        errors = []
        for lam, truth in cases:
            assert truth is not None
            named: dict[str, Any] = dict(zip(names, map(float, lam), strict=True))
            value = solution(**columns, **named)
            parts = value.values() if isinstance(value, dict) else (value,)
            errors.append(relative_error(np.stack(list(parts), axis=-1), truth))
        return float(np.mean(errors))

    return error


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
    family = family.plain() if protocol.plain else family
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
        title=f"Error against wall time: {result['stamp']['device']}",
        ylabel="relative error, grid mean",
        xlabel="seconds, compilation included",
    )
    figure.savefig(path)
    return path


def _panel(axis: Axes, entry: dict[str, Any]) -> None:
    for contender, colour, marker in zip(LABELS, COLOURS, "osD^", strict=False):
        points = entry["curves"].get(contender, {}).get("points", [])
        if not points:
            continue
        seconds, errors = ([p[key] for p in points] for key in ("seconds", "error"))
        style = dict(color=colour, marker=marker, markersize=3.5, linewidth=1.3)
        axis.loglog(seconds, errors, label=LABELS[contender], **style)
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
