"""What a step of every training method costs, and of fifteen trainings at once.

    python -m benchmarks.baselines [--families helmholtz-1d,burgers] [--protocols pinn,sa-pinn]
                                   [--repeats 5] [--seconds 20] [--out results/baselines-cpu.json]

Every phase of a method is built as `lcpinn.train` builds it, at its published size, and its
compiled calls are timed: on a CPU calls of about a second, on an accelerator the protocol's own.
The methods of a family take turns, so that other work on the machine meets all of them alike, and
are compared with the Adam step of `pinn`, which is always among them. Nothing is trained to its
end: a phase starts where the first call of the one before it ended, and a step of L-BFGS takes the
evaluations that its line search asks for there. On helmholtz-1d the five coefficients with three
seeds each are also one program, as in `lcpinn.retrain`. `--out` draws a picture beside the file:

    build_seconds     making the phase and its first state: points, a solver's data
    compile_seconds   the first call, less a later one
    points            where one evaluation of the loss takes its residuals
    times_pinn        milliseconds per step, over those of pinn's first phase
    times_alone       of a batch: over those of the same method by itself
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.stamp import stamp
from lcpinn.evaluation import grid_values
from lcpinn.families import FAMILIES
from lcpinn.family import Family
from lcpinn.files import write_json
from lcpinn.network import OperatorNetwork
from lcpinn.optimiser import (
    LBFGS,
    Adam,
    GaussNewton,
    Setup,
    Stage,
    Stop,
    StopReason,
    Supervised,
)
from lcpinn.optimiser.stage import keep
from lcpinn.optimiser.supervised import trained
from lcpinn.plot import COLOURS
from lcpinn.precision import precision_of
from lcpinn.protocol import PROTOCOLS, example, reason_against
from lcpinn.sampling import _faces
from lcpinn.training import make_setup

SEED = 0
REFERENCE = "pinn"
METHODS = ("pinn,sa-pinn,relobralo,causal-pinn,unconditioned,lc-pinn,pi-deeponet,fno,"
           "pinn-gn,pi-deeponet-gn,fast")  # fmt: skip
BATCHED, BATCHED_ON, SEEDS = ("pinn", "relobralo"), "helmholtz-1d", (0, 1, 2)
POINTS = 200_000  # that a CPU gets through in about a second, forward and backward
OPTIMISERS = {Adam: "Adam", LBFGS: "L-BFGS", GaussNewton: "Gauss-Newton", Supervised: "supervised"}

Row = dict[str, Any]
Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.baselines", description=about)
    parser.add_argument("--families", default="helmholtz-1d,burgers", help="a,b,...")
    parser.add_argument("--protocols", default=METHODS, help="a,b,...")
    parser.add_argument("--repeats", type=int, default=5, help="timed calls of each phase")
    parser.add_argument("--seconds", type=float, default=20.0, help="for the calls of one phase")
    parser.add_argument("--out", type=Path, help="write the result here, a picture beside it")
    given = parser.parse_args(arguments)
    families, methods = given.families.split(","), given.protocols.split(",")
    for name in {*families} - {*FAMILIES} | {*methods} - {*PROTOCOLS}:
        parser.error(f"there is no {name!r}")
    methods = [REFERENCE, *(method for method in methods if method != REFERENCE)]
    result = measure(families, methods, max(given.repeats, 1), given.seconds)
    options = sys.argv[1:] if arguments is None else list(arguments)
    if given.out is not None:
        if given.out.is_absolute():  # the file says nothing about this machine's folders
            options = [option.replace(str(given.out), given.out.name) for option in options]
        result["command"] = shlex.join(["python", "-m", "benchmarks.baselines", *options])
        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(given.out, result)
        print(f"written to {given.out} and {draw(result, given.out.with_suffix('.png'))}")


def measure(
    families: Sequence[str], methods: Sequence[str], repeats: int, seconds: float
) -> Result:
    """Every method on every family that it applies to; a table for each family as it is done."""
    setting = {"platform": jax.default_backend(), "repeats": repeats, "seconds": seconds}
    result: Result = {"benchmark": "baselines", "stamp": stamp(SEED), "setting": setting,
                      "phases": [], "left_out": {}}  # fmt: skip
    for name in families:
        family, phases = FAMILIES[name](), []
        reasons = {method: reason_against(method, family) for method in methods}
        for method in (m for m in methods if reasons[m] is None):
            print(f"{name}: {method} is being compiled", flush=True)
            phases += ready(name, method, family)
        for _ in range(repeats):
            for phase in phases:
                if not phase.calls or sum(phase.calls) < seconds:
                    phase.call()
        rows = compared([phase.timed() for phase in phases])
        result["phases"] += rows
        result["left_out"][name] = {m: reason for m, reason in reasons.items() if reason}
        print(table(name, rows, setting["platform"]))
        for method, reason in result["left_out"][name].items():
            print(f"  without {method}: {reason}")
    return result


# -- What is timed -------------------------------------------------------------------------------


@dataclass
class Running:
    """A phase after its first call: what is known of it, where it is, how long it has taken."""

    row: Row
    stage: Stage
    start: Any
    state: Any
    dtype: str
    first: float  # seconds of the first call, in which it is compiled
    calls: list[float] = field(default_factory=list)  # seconds of the others
    each: list[float] = field(default_factory=list)  # milliseconds per step in them

    def call(self) -> None:
        """One compiled call; a phase that has come to its end starts again."""
        with precision_of(self.dtype):
            if self.stage.stopped(self.state, {}):
                self.state = self.start
            before, begun = _step(self.state), time.perf_counter()
            self.state, _ = jax.block_until_ready(self.stage.advance(self.state))
            self.calls.append(time.perf_counter() - begun)
            self.each.append(1e3 * self.calls[-1] / max(_step(self.state) - before, 1))

    def timed(self) -> Row:
        compiling = max(self.first - statistics.median(self.calls), 0.0)
        ms = {"median": statistics.median(self.each), "min": min(self.each), "calls": self.each}
        return {**self.row, "compile_seconds": compiling, "ms_per_step": ms}


def ready(name: str, method: str, family: Family) -> list[Running]:
    """Every phase of a method, and its first one as a batch where that is measured."""
    protocol = example(method, family)
    with precision_of(protocol.dtype):
        setup = make_setup(protocol.view(family), protocol)
        params = jax.jit(setup.problem.init)(jax.random.PRNGKey(SEED))
        count = sum(leaf.size for leaf in jax.tree.leaves(trained(params)))
        about = {"family": name, "method": method, "parameters": count, "at_once": 1}
        found: list[Running] = []
        for phase in map(_bare, protocol.phases):
            points = num_points(phase, setup)
            row = about | {"optimiser": OPTIMISERS[type(phase)], "points": points}
            build = partial(sized(phase, points).build, setup)
            found.append(first_call(build, params, row, protocol.dtype))
            params = found[-1].state.params
        if name == BATCHED_ON and method in BATCHED:
            phase, settings = _bare(protocol.phases[0]), grid_values(family)
            num = len(settings) * len(SEEDS)
            row = found[0].row | {"at_once": num, "points": num * found[0].row["points"]}
            build = partial(batch, sized(phase, row["points"]), setup, settings)
            found.append(first_call(build, params, row, protocol.dtype))
    return found


def _bare(phase: Any) -> Any:
    """Without RevertOnWorse and Restarts, which do nothing within a step."""
    return _bare(phase.phase) if hasattr(phase, "phase") else phase


def sized(phase: Any, points: int) -> Any:
    """The phase with calls of the length that is timed."""
    if isinstance(phase, GaussNewton):
        return replace(phase, seconds=None)
    if jax.default_backend() != "cpu":
        return phase
    steps = 1 if isinstance(phase, Supervised) else POINTS // points  # epochs of many steps
    return replace(phase, block=min(max(steps, 1), phase.block))


def num_points(phase: Any, setup: Setup) -> int:
    """Points of one evaluation of the loss, as the sampling asks for them."""
    family, network = setup.problem.family, setup.problem.network
    if isinstance(phase, Supervised):
        assert isinstance(network, OperatorNetwork)
        return phase.batch * network.times * network.grid
    sampling: Any = setup.quadrature if isinstance(phase, LBFGS) else setup.sampling
    if isinstance(phase, GaussNewton):
        sampling = phase.sampling
    of_grid = sampling.grid and sampling.rule == "gauss"  # all of it; a random batch draws from it
    lambdas = len(family.parameters.grid(sampling.grid)) if of_grid else sampling.num_lambda
    places = [_faces(terms[0], sampling) for terms in family.groups.values()]
    return lambdas * sum(len(faces) * num for faces, num in places)


def first_call(build: Callable[[], Stage], params: Any, row: Row, dtype: str) -> Running:
    begun = time.perf_counter()
    stage = build()
    start = jax.block_until_ready(stage.init(params, jax.random.PRNGKey(SEED + 1)))
    built = time.perf_counter()
    state, _ = jax.block_until_ready(stage.advance(start))
    first = time.perf_counter() - built
    row = row | {"build_seconds": built - begun}
    return Running(row, stage, start, state, dtype, first)


def batch(phase: Any, setup: Setup, settings: np.ndarray) -> Stage:
    """The phase at every setting with every seed as one program, as `lcpinn.retrain` has it."""
    coefficients = jnp.repeat(jnp.asarray(settings, setup.problem.dtype), len(SEEDS), axis=0)
    keys = jnp.stack([jax.random.PRNGKey(seed) for seed in SEEDS] * len(settings))
    member = lambda held: phase.build(replace(setup, coefficients=held))

    @jax.jit
    def init(params: Any, key: Any) -> Any:
        del params, key  # members have their own
        drawn = jax.vmap(setup.problem.init)(keys)
        return jax.vmap(lambda c, p, k: member(c).init(p, k))(coefficients, drawn, keys)

    run = jax.jit(jax.vmap(lambda held, state: member(held).run(state)))
    done = Stop(StopReason.STEPS, "done")
    over = lambda state, info: done if _step(state) >= phase.steps else None
    return Stage(phase.steps, init, lambda state: run(coefficients, state), over, keep)


def _step(state: Any) -> int:
    return int(np.max(state.step))


def compared(rows: list[Row]) -> list[Row]:
    """With their ratios; the first row is the Adam step of `pinn`."""
    alone: dict[str, float] = {}
    for row in rows:
        ms = row["ms_per_step"]["median"]
        row["times_pinn"] = ms / alone.setdefault(REFERENCE, ms)
        if row["at_once"] > 1:
            row["times_alone"] = ms / alone[row["method"]]
        alone.setdefault(row["method"], ms)
    return rows


# -- In words and in a picture -------------------------------------------------------------------


def title(row: Row) -> str:
    if row["at_once"] > 1:
        return f"{row['method']}, {row['at_once']} at once"
    return row["method"] + (", L-BFGS" if row["optimiser"] == "L-BFGS" else "")


def table(name: str, rows: Sequence[Row], platform: str) -> str:
    """One line for each phase: on a CPU ratios come first, on an accelerator milliseconds."""
    order = ["times pinn", "ms per step"] if platform == "cpu" else ["ms per step", "times pinn"]
    head = [*order, "build s", "compile s", "parameters", "points"]
    lines = [f"{name:26}" + "".join(f"{cell:>12}" for cell in head)]
    for row in rows:
        cells = {"times pinn": row["times_pinn"], "ms per step": row["ms_per_step"]["median"]}
        line = f"{title(row):26}" + "".join(f"{_number(cells[cell]):>12}" for cell in order)
        line += f"{row['build_seconds']:12.1f}{row['compile_seconds']:12.1f}"
        line += f"{row['parameters']:12}{row['points']:12}"
        alone = f"   {row['times_alone']:.2f} times alone" if "times_alone" in row else ""
        lines.append(line + alone)
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def draw(result: Result, path: Path) -> Path:
    """A panel for each family: a bar for each phase, from the step of `pinn` to its own."""
    names = list(dict.fromkeys(row["family"] for row in result["phases"]))
    panels = [[row for row in result["phases"] if row["family"] == name] for name in names]
    sizes = [len(rows) + 1 for rows in panels]
    figure = Figure(figsize=(6.4, 0.2 * sum(sizes) + 1.6), layout="constrained", dpi=200)
    axes = np.atleast_1d(figure.subplots(len(panels), height_ratios=sizes, sharex=True))
    on_cpu = result["setting"]["platform"] == "cpu"
    colours: dict[str, str] = dict(zip(OPTIMISERS.values(), COLOURS, strict=False))
    for axis, name, rows in zip(axes, names, panels, strict=True):
        axis.set_title(name, fontsize=9)
        _bars(axis, rows, colours, on_cpu)
    label = "time of a step, pinn = 1" if on_cpu else "milliseconds per step"
    axes[-1].set_xlabel(label, fontsize=9)
    found = {row["optimiser"] for row in result["phases"]}
    handles = [Patch(color=c, label=label) for label, c in colours.items() if label in found]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.suptitle(f"A step of every method\n{result['stamp']['device']}", fontsize=10)
    figure.savefig(path)
    return path


def _bars(axis: Axes, rows: Sequence[Row], colours: dict[str, str], on_cpu: bool) -> None:
    values = [row["times_pinn"] if on_cpu else row["ms_per_step"]["median"] for row in rows]
    shades = [colours[row["optimiser"]] for row in rows]
    axis.set_xscale("log")
    axis.barh(range(len(rows)), np.subtract(values, values[0]), 0.7, values[0], color=shades)
    beside: dict[str, Any] = dict(
        xytext=(3, 0), textcoords="offset points", va="center", fontsize=7
    )
    for place, value in enumerate(values):
        axis.annotate(_number(value), (max(value, values[0]), place), **beside)
    axis.axvline(values[0], color="0.35", lw=1)
    axis.margins(x=0.1, y=0.02)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_yticks(range(len(rows)), [title(row) for row in rows])
    axis.tick_params(labelsize=8)
    axis.invert_yaxis()
    axis.grid(True, axis="x", color="0.9", lw=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
