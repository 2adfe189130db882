"""Training: phase after phase, each a stage that this loop shows, checkpoints and resumes."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from lcpinn import protocol as protocols
from lcpinn.compilation import compiler_options
from lcpinn.devices import (
    agreed_arrays,
    agreed_data,
    alone,
    is_first,
    make_mesh,
    noticing_lost_processes,
    on_every_device,
    on_this_device,
)
from lcpinn.errors import LcpinnError, NotSolvedWarning
from lcpinn.evaluation import write_result
from lcpinn.failure import Position, explained
from lcpinn.family import Family
from lcpinn.machine import device, versions
from lcpinn.network.mlp import Params
from lcpinn.optimiser import Setup, Stage
from lcpinn.precision import arithmetic
from lcpinn.progress import Meter, meter
from lcpinn.protocol import Protocol
from lcpinn.rows import Problem
from lcpinn.rundir import RunDirectory
from lcpinn.solution import Solution, load, signature
from lcpinn.spec import describe, from_plain, to_plain
from lcpinn.verdict import Verdict, check_tolerance


def train(
    family: Family,
    protocol: Protocol | None = None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_every: float = 30.0,
    report: bool = True,
    tolerance: float | None = None,
    seconds: float | None = None,
    devices: int | None = None,
) -> Solution:
    """Train one network for the whole family and return its solution.

    With `out` the run is kept in that directory, with a checkpoint every `checkpoint_every`
    seconds; `resume=True` goes on from the last one, and ends as if it had never been interrupted
    (of a run that is finished it returns the result). Without `report` only the model is written,
    neither errors nor a picture, and no verdict is given.

    With a `tolerance` it trains until the estimated relative error is below it at every lambda that
    is looked at, for at most `seconds` (600 by default then), and warns with `NotSolvedWarning` if
    it is not reached; without one it warns above one per cent. `solution.verdict` says which. Both
    are for the default protocol; another one is trained as it is, and judged by the tolerance.

    Rows are divided among `devices` of this machine: all accelerators by default, and one CPU.
    Under `jax.distributed` it is so many of every process; the first process writes and judges,
    and the others return the same solution without a verdict.

    JAX's double precision is switched on for the length of the call if the protocol asks for it.
    """
    if not isinstance(family, Family):
        raise LcpinnError(f"{family!r} is no Family; pass an instance, such as Oscillator()")
    check_tolerance(tolerance)
    if protocol is None:
        asked = {"seconds": seconds, "tolerance": tolerance}
        given = {name: value for name, value in asked.items() if value is not None}
        protocol = protocols.default(family, **given)
    elif seconds is not None:
        raise LcpinnError("seconds is for the default protocol; a protocol has its own")
    if not isinstance(protocol, Protocol):
        raise LcpinnError(f"{protocol!r} is no Protocol; pass a value: lc.protocol.smoke(family)")
    protocol.check_parts()
    mesh = make_mesh(devices)
    protocol = _shared(protocol)
    family = protocol.view(family)
    run = identify(family, protocol, seed)
    directory = RunDirectory(
        Path(out) if out is not None and is_first() else None, run, every=checkpoint_every
    )
    progress, report = progress and is_first(), report and is_first()
    with _first_of_all():
        directory.open(resume=resume, overwrite=overwrite)
    with contextlib.closing(directory):
        if agreed_data(resume and directory.finished()):
            return _finished(family, protocol, run, directory)
        begun = time.perf_counter()
        with arithmetic(protocol.dtype), meter(progress) as shown, noticing_lost_processes():
            trained = _Training(family, protocol, seed, directory, shown, mesh).run()
        record = trained.record() | ({} if tolerance is None else {"tolerance": tolerance})
        solution = Solution(family, protocol, trained.params, run | {"training": record})
        if report and protocol.judged:
            spent, judging = sum(trained.seconds.values()), time.perf_counter()
            solution.run["verdict"] = solution.judged(tolerance, spent).to_json()
            solution.run["judged_in"] = time.perf_counter() - judging
            with meter(progress) as shown:
                shown.say(str(solution.verdict))
        if directory.path is not None:
            solution.save(directory.path / "model.safetensors")
            if report:
                write_result(solution, directory.path, time.perf_counter() - begun + trained.before)
    if report and protocol.judged:
        _warn(solution.verdict, tolerance)
    return solution


def _warn(verdict: Verdict, tolerance: float | None) -> None:
    """Say so where it is not solved, or, with a tolerance, where nothing can be said."""
    if verdict.solved is False or (verdict.solved is None and tolerance is not None):
        warnings.warn(str(verdict), NotSolvedWarning, stacklevel=3)


def identify(family: Family, protocol: Protocol, seed: int) -> dict[str, Any]:
    """What a run is, of a family as its protocol sees it: the content of run.json."""
    return {
        "family": signature(family),
        "protocol": to_plain(protocol),
        "seed": seed,
        "versions": versions(),
        "device": device(),
    }


def make_setup(family: Family, protocol: Protocol, mesh: Mesh | None = None) -> Setup:
    """What a protocol optimises for this family, and on which devices."""
    return Setup(
        Problem(family, protocol.network, jnp.dtype(protocol.dtype)),
        protocol.weighting,
        protocol.sampling,
        protocol.quadrature,
        protocol.held_out,
        mesh=mesh,
        spent=protocol.spent,
    )


def _shared(protocol: Protocol) -> Protocol:
    """The first process's protocol: what each made may depend on how long that took."""
    if alone():
        return protocol
    if protocol.network.shapes_vary:
        raise LcpinnError(f"{protocol.name} solves without rows to divide: run it in one process")
    return from_plain(agreed_data(to_plain(protocol)))


def _finished(
    family: Family, protocol: Protocol, run: dict[str, Any], directory: RunDirectory
) -> Solution:
    """The solution of a run that is over; the first process has the directory."""
    if alone():
        return load(directory.path or Path(), family)
    with arithmetic(protocol.dtype):
        if directory.path is None:
            problem = make_setup(family, protocol).problem
            like = problem.drawing()(jax.random.PRNGKey(0))
            return Solution(family, protocol, agreed_arrays(like), run)
        solution = load(directory.path, family)
        agreed_arrays(solution.params)
    return solution


@contextlib.contextmanager
def _first_of_all() -> Iterator[None]:
    """What only the first process does; if it cannot, the others hear of it."""
    refusal: LcpinnError | None = None
    try:
        yield
    except LcpinnError as error:
        refusal = error
    told = agreed_data(None if refusal is None else str(refusal))
    if told is not None:
        raise refusal or LcpinnError(told)


def _position(header: dict[str, Any]) -> dict[str, Any]:
    return {name: header[name] for name in ("phase", "stopped", "seconds")}


class _Training:
    """One run: its position, so that it can be written down and taken up again."""

    def __init__(
        self,
        family: Family,
        protocol: Protocol,
        seed: int,
        directory: RunDirectory,
        shown: Meter,
        mesh: Mesh | None = None,
    ):
        self.setup, self.protocol = make_setup(family, protocol, mesh), protocol
        self.directory, self.shown = directory, shown
        self.key = on_every_device(jax.random.PRNGKey(seed), mesh)
        self.params: Params = self._drawn(jax.random.fold_in(self.key, 0))
        self.phase, self.stopped, self.seconds = 0, [], {"compile": 0.0, "train": 0.0}
        self.facts: dict[str, Any] = {}
        self.position = Position()
        self.learnt: Any = None  # by the weighting of the phase before
        self.before = 0.0  # seconds spent before the checkpoint that this run goes on from

    def _drawn(self, key: Any) -> Params:
        """The parameters to start from."""
        problem = self.setup.problem
        if self.setup.mesh is None:
            return problem.drawing(once=True)(key)
        return self.setup.jit(problem.init, compiler_options=compiler_options(once=True))(key)

    def run(self) -> _Training:
        with _first_of_all():
            restored = self.directory.restore()
        position = agreed_data(None if restored is None else _position(restored[0]))
        if position is not None:
            self.phase, self.stopped = position["phase"], position["stopped"]
            self.seconds = position["seconds"]
            self.before = sum(self.seconds.values())
        self.directory.rewind_metrics()
        for phase in range(self.phase, len(self.protocol.phases)):
            self.phase = phase
            self.position = Position()
            with explained(self.setup, self.protocol.phases[phase], self.params, self.position):
                stage: Stage = self.protocol.phases[phase].build(self.setup)
                state = stage.init(self.params, jax.random.fold_in(self.key, phase + 1))
                if stage.adopt is not None and self.learnt is not None:
                    state = stage.adopt(state, self.learnt)
                if position is not None:
                    if restored is not None:
                        vary = self.protocol.network.shapes_vary
                        vary |= self.protocol.phases[phase].shapes_vary
                        state = restored[1](state, vary)
                    state, position = agreed_arrays(state), None
                self.params = self._through(stage, on_every_device(state, self.setup.mesh))
        self.params = on_this_device(self.params, self.setup.mesh)
        return self

    def _through(self, stage: Stage, state: Any) -> Params:
        """Run one stage to its end."""
        title = f"phase {self.phase + 1}, {type(self.protocol.phases[self.phase]).__name__}"
        self.shown.start(title, stage.total, int(state.step))
        reason, info, first = stage.stopped(state, {}), {}, True
        while reason is None:
            begun = time.perf_counter()
            self.position.stage, self.position.state = stage, state
            state, info = stage.advance(state)
            info = jax.device_get(info)
            # The first call of a stage compiles; what it computes besides is small in comparison.
            self.seconds["compile" if first else "train"] += time.perf_counter() - begun
            first = False
            self._record(int(state.step), info)
            reason = stage.stopped(state, info)
            if reason is None and self.directory.due():
                self._checkpoint(state)
        params, note = stage.finish(state)
        self.learnt = None if stage.learnt is None else stage.learnt(state)
        if stage.facts is not None:
            self.facts |= stage.facts()
        self.stopped = [*self.stopped, f"{title}: {reason}" + (f"; {note}" if note else "")]
        self.shown.say(self.stopped[-1])
        return params

    def _record(self, step: int, info: dict[str, Any]) -> None:
        self.shown.update(step, info)
        # The clock is for people; without it the log of a resumed run equals that of a whole one.
        plain = {k: jax.tree.map(float, v) for k, v in info.items() if k != "seconds_left"}
        self.directory.log({"phase": self.phase + 1, "step": step, **plain})

    def _checkpoint(self, state: Any) -> None:
        where = {"phase": self.phase, "stopped": self.stopped, "seconds": self.seconds}
        self.directory.save(where, state)

    def record(self) -> dict[str, Any]:
        count = sum(leaf.size for leaf in jax.tree.leaves(self.params))
        phases = [describe(p) for p in self.protocol.phases]
        return {
            "parameters": count,
            "phases": phases,
            "stopped": self.stopped,
            "seconds": self.seconds,
            **({} if self.setup.mesh is None else {"devices": self.setup.mesh.size}),
            **self.facts,
        }
