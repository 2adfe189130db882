"""What a training on an accelerator traces and compiles before its first step, page by page.

    python -m benchmarks.compilation [--pages block,step] [--out results/compilation-cpu.json]

Networks and rows have the sizes that `fast` gives them on an accelerator, but everything is
compiled for the CPU, in a fresh process for every page and one program after the other. Nothing of
it runs: a program that is asked answers with zeros. Counted are seconds of the processor, all
threads together, for tracing (with points and whatever else Python does), for lowering and for
compiling, and the operations of each lowered program: `_measure` takes the scales of rows,
`_run` steps, `_validated` looks at held-out rows, `_resampled` begins a round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

import lcpinn as lc
from benchmarks.pinnacle.registry import PROBLEMS
from benchmarks.processes import python_in_fresh_process
from benchmarks.shapes import FAMILIES as SHAPES
from benchmarks.stamp import stamp
from lcpinn import chunks
from lcpinn.families import FAMILIES
from lcpinn.files import write_json
from lcpinn.optimiser import GaussNewton, Setup, rounds
from lcpinn.precision import double
from lcpinn.protocol import gauss_newton as protocol
from lcpinn.protocol import sizes
from lcpinn.rows import Problem
from lcpinn.training import make_setup

PAGES: dict[str, Callable[[], lc.Family]] = {
    "helmholtz-2d": FAMILIES["helmholtz-2d"],
    "four-holes": SHAPES["four-holes"],
    **{name: PROBLEMS[name].family for name in ("cavity", "block", "step", "seventeen-holes")},
}
KINDS = ("trace", "lower", "compile")


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.compilation", description=about)
    parser.add_argument("--pages", default=",".join(PAGES), help="separated by commas")
    parser.add_argument("--out", type=Path, help="write to this JSON file")
    given = parser.parse_args(arguments)
    result: dict[str, Any] = {"benchmark": "compilation", "stamp": stamp(0), "pages": {}}
    for page in given.pages.split(","):
        result["pages"][page] = found = in_fresh_process(page)
        print(table(page, found), flush=True)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(given.out, result)


def in_fresh_process(page: str) -> dict[str, Any]:
    code = "from benchmarks.compilation import of_page; of_page()"
    done = python_in_fresh_process(code, page, cores=[])
    if done.returncode:
        sys.exit(f"{page} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def table(page: str, found: dict[str, Any]) -> str:
    lines = [f"{page}: {found['seconds']:.1f} s of CPU, residuals traced {found['traced']} times"]
    lines.append(f"  {'':20}{'operations':>12}" + "".join(f"{kind:>10}" for kind in KINDS))
    for name, program in found["programs"].items():
        cells = "".join(f"{program[kind]:10.2f}" for kind in KINDS)
        lines.append(f"  {name:20}{program['operations']:12}" + cells)
    return "\n".join(lines)


# -- Inside of the process that compiles -----------------------------------------------------------


def of_page() -> None:
    """All programs of a page's training; the last line that it prints is JSON."""
    family = PAGES[sys.argv[1]]()
    traced = count_traces()
    with double():
        as_on_an_accelerator()
        method = protocol.fast(family)
        began, programs = time.process_time(), {}
        setup = RecordedSetup(**vars(make_setup(family, method)))
        vars(setup)["recorded"] = programs
        phase = method.phases[0].innermost
        assert isinstance(phase, GaussNewton)
        stage = replace(phase, seconds=None).build(setup)
        key = jax.random.PRNGKey(0)
        state = stage.init(jax.jit(setup.problem.init)(key), key)
        state, _ = stage.advance(state)
        over = jnp.asarray(10 * rounds.LARGEST_DAMPING)
        stage.advance(state._replace(damping=over))  # a round that is over: the next one begins
    seconds = time.process_time() - began
    print(json.dumps({"seconds": seconds, "traced": traced["times"], "programs": programs}))


def as_on_an_accelerator() -> None:
    """The sizes and chunks of one, without a trial; programs are compiled one after the other."""
    replaced(sizes, jax=SimpleNamespace(default_backend=lambda: "gpu"))
    replaced(protocol, can_be_tried=lambda family: False)
    replaced(rounds, in_background=compiled_at_once)
    chunks.MEMORY["cpu"] = chunks.ACCELERATOR_MEMORY


def replaced(owner: Any, **others: Any) -> None:
    for name, other in others.items():
        setattr(owner, name, other)


def compiled_at_once(lowered: Any) -> Callable[[], Any]:
    compiled = lowered.compile()
    return lambda: compiled


def count_traces() -> dict[str, int]:
    """How often residuals are traced."""
    traced, residuals = {"times": 0}, Problem._residuals

    def counted(*args: Any) -> Any:
        traced["times"] += 1
        return residuals(*args)

    replaced(Problem, _residuals=counted)
    return traced


class RecordedSetup(Setup):
    """One whose programs are compiled, recorded, and never run."""

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        whole = function.func if isinstance(function, partial) else function
        recorded = vars(self)["recorded"]
        return Recorded(whole.__name__, super().jit(function, **options), recorded)


class Recorded:
    """A compiled function that answers with zeros."""

    def __init__(self, name: str, jitted: Any, programs: dict[str, Any]) -> None:
        self.name, self.jitted, self.programs = name, jitted, programs
        self.answers: dict[Any, Any] = {}

    def _timed(self, kind: str, work: Callable[[], Any]) -> Any:
        nothing = {"operations": 0} | dict.fromkeys(KINDS, 0.0)
        spent = self.programs.setdefault(self.name, nothing)
        began = time.process_time()
        done = work()
        spent[kind] += time.process_time() - began
        return done

    def __call__(self, *args: Any) -> Any:
        leaves, tree = jax.tree.flatten(args)
        if any(isinstance(leaf, Tracer) for leaf in leaves):  # asked for shapes alone
            return self._timed("trace", lambda: self.jitted(*args))
        shapes = (tree, *(jnp.shape(leaf) for leaf in leaves))
        if shapes not in self.answers:
            self.answers[shapes] = self.lower(*args).compile()
        return self.answers[shapes](*args)

    def lower(self, *args: Any) -> Any:
        traced = self._timed("trace", lambda: self.jitted.trace(*args))
        lowered = self._timed("lower", traced.lower)
        text = lowered.as_text()
        self.programs[self.name]["operations"] += sum(" = " in line for line in text.splitlines())
        zeros = lambda *_: jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), traced.out_info)

        def compiled(*options: Any) -> Callable[..., Any]:
            self._timed("compile", lambda: lowered.compile(*options))
            return zeros

        return SimpleNamespace(compile=compiled)


if __name__ == "__main__":
    main()
