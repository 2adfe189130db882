"""The same training at many settings and seeds, as one compiled program.

Methods that know one lambda are trained anew for each. Such trainings differ in their coefficients
and in their random numbers alone, so that they can be members of one batch: the optimiser's own
`run`, mapped over the members.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from lcpinn.devices import alone, make_mesh, spread_along
from lcpinn.domain import Box
from lcpinn.errors import LcpinnError
from lcpinn.evaluation import write_result
from lcpinn.failure import explained
from lcpinn.family import Family
from lcpinn.optimiser import Setup, Stage, Stop
from lcpinn.precision import arithmetic
from lcpinn.progress import Meter, meter
from lcpinn.protocol import Protocol
from lcpinn.rundir import Checkpoint, RunDirectory
from lcpinn.solution import Solution, load
from lcpinn.spec import describe, fingerprint, to_plain
from lcpinn.training import identify, make_setup

MEMORY = 4 << 30  # bytes that the hidden values of all members together may take, on a CPU


def retrain(
    family: Family,
    make: Callable[..., Protocol],
    settings: Sequence[Mapping[str, float]] = ({},),
    seeds: Sequence[int] = (0,),
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_every: float = 30.0,
    progress: bool = True,
    at_once: int | None = None,
    devices: int | None = None,
    report: bool = True,
) -> list[Solution]:
    """One solution for every setting of the coefficients and every seed, settings outermost.

    `make(family, at=...)` is a protocol such as `lc.protocol.pinn`; an empty setting is not passed
    on, so that several seeds of `lc.protocol.paper` make a batch too. As many members run at once
    as fit into memory, or `at_once`; each ends as it would alone, up to rounding. With `out` every
    one gets a run directory in there, named after its setting and seed. Its seconds are its share
    of the batch's. Members are divided among `devices` of this machine, as `train` divides rows.
    While a batch trains there is a checkpoint of it beside them, every `checkpoint_every` seconds,
    from which `resume=True` goes on; members that are finished stay as they are. Without `report`
    only models are written. Phases that decide between compiled calls (Gauss-Newton, Restarts)
    cannot be batched.
    """
    made = [make(family, at=setting) if setting else make(family) for setting in settings]
    members = [(protocol, seed) for protocol in made for seed in seeds]
    _check_members(family, members)
    mesh = make_mesh(devices)
    if not alone():
        raise LcpinnError("a batch of trainings runs in one process; several train one network")
    first = members[0][0]
    with arithmetic(first.dtype):
        setup = make_setup(first.view(family), first)
        _check_phases(first)
        num = 1 if mesh is None else mesh.size
        size = min(at_once or num * _room(setup), len(members))
    with _opened(family, members, out, resume, overwrite) as directories:
        solutions: list[Solution] = []
        for start in range(0, len(members), size):
            part = members[start : start + size], directories[start : start + size]
            how = (checkpoint_every, resume, progress, mesh, report)
            solutions += _train_part(family, setup, *part, *how)
    return solutions


def _train_part(
    family: Family,
    setup: Setup,
    members: Sequence[tuple[Protocol, int]],
    directories: Sequence[RunDirectory],
    every: float,
    resume: bool,
    progress: bool,
    mesh: Mesh | None,
    report: bool,
) -> list[Solution]:
    """Members that train together; what they end with is written before others begin."""
    if resume and all(directory.finished() for directory in directories):
        return [load(directory.path or Path(), family) for directory in directories]
    # The last one again, until every device has as many.
    missing = -len(members) % (1 if mesh is None else mesh.size)
    full = [*members, *[members[-1]] * missing]
    checkpoint = _checkpoint(directories, len(full), every)
    if not resume:
        checkpoint.remove()
    with arithmetic(members[0][0].dtype), meter(progress) as shown:
        trained = _Batch(family, setup, full, shown, checkpoint, mesh).run()
    solutions = trained[: len(members)]
    for solution, directory in zip(solutions, directories, strict=True):
        if directory.path is not None:
            solution.save(directory.path / "model.safetensors")
            spent = sum(solution.run["training"]["seconds"].values())
            if report:
                write_result(solution, directory.path, spent)
    checkpoint.remove()
    return solutions


def _checkpoint(directories: Sequence[RunDirectory], num: int, every: float) -> Checkpoint:
    """Of `num` members that train together, named after them: others may have the same `out`."""
    identity = fingerprint([num, *(directory.identity for directory in directories)])
    first = directories[0].path
    file = None if first is None else first.parent / f"batch-{identity}.safetensors"
    return Checkpoint(file, identity, every)


def _check_members(family: Family, members: Sequence[tuple[Protocol, int]]) -> None:
    """They differ in their setting and seed alone, and each is there once."""
    if not members:
        raise LcpinnError("retrain needs at least one setting and one seed")
    if len({str(to_plain(dataclasses.replace(p, at={}))) for p, _ in members}) != 1:
        raise LcpinnError("only trainings that differ in their setting alone make a batch")
    names = [member_name(p, seed) for p, seed in members]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise LcpinnError(f"{twice} is there twice: every setting and seed is trained once")
    if len(counts := {num_observed(family, protocol) for protocol, _ in members}) > 1:
        numbers = ", ".join(map(str, sorted(counts)))
        raise LcpinnError(f"settings of a batch have equally many observations, not {numbers}")
    for protocol, _ in members:
        view = protocol.view(family)
        free, domain = view.parameters.free, view.domain
        moving = () if isinstance(domain, Box) else domain.shape.parameters
        if any(name in protocol.at for name in moving):
            raise LcpinnError(
                f"the domain depends on {', '.join(moving)}: train its settings one by one"
            )
        if protocol.at and free:
            raise LcpinnError(
                f"a batch holds every coefficient or none: at {protocol.setting}, "
                f"{', '.join(free)} would vary"
            )


def _check_phases(protocol: Protocol) -> None:
    obstacle = next((phase for phase in protocol.phases if not phase.mappable), None)
    if obstacle is not None:
        raise LcpinnError(
            f"{protocol.name} cannot be batched, since {type(obstacle).__name__} decides between "
            "compiled calls: train its settings one by one"
        )


def can_batch(protocol: Protocol) -> bool:
    """Whether several trainings by this protocol can be one program; nothing is built for it."""
    return all(phase.mappable for phase in protocol.phases)


def member_name(protocol: Protocol, seed: int) -> str:
    """What the directory of a member is called."""
    return "-".join(filter(None, (protocol.setting, f"seed{seed}")))


@contextlib.contextmanager
def _opened(
    family: Family,
    members: Sequence[tuple[Protocol, int]],
    out: str | Path | None,
    resume: bool,
    overwrite: bool,
) -> Iterator[list[RunDirectory]]:
    """The directories of all members, which are ours until they are done."""
    directories = []
    for protocol, seed in members:
        path = None if out is None else Path(out) / member_name(protocol, seed)
        directories.append(
            RunDirectory(path, identify(protocol.view(family), protocol, seed), every=np.inf)
        )
    # Those that are there come first: if one is refused, nothing has been written yet.
    is_new = lambda directory: directory.path is None or not directory.path.exists()
    with contextlib.ExitStack() as stack:
        for directory in sorted(directories, key=is_new):
            directory.open(resume=resume, overwrite=overwrite)
            stack.callback(directory.close)
        yield directories


def _room(setup: Setup) -> int:
    """How many members fit: a step keeps a few copies of every hidden value of every point."""
    shapes = jax.eval_shape(setup.problem.init, jax.random.PRNGKey(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    points = 0
    for sampling in (setup.sampling, setup.quadrature):
        if sampling is not None:
            points = max(points, (sampling.interior + sampling.face) * sampling.num_lambda)
    hidden = setup.problem.network.num_hidden
    family = setup.problem.family
    carried = max(len(family.orders(terms)) for terms in family.groups.values())
    size = (5 * points * hidden * carried + 50 * count) * jnp.dtype(setup.problem.dtype).itemsize
    return max(1, _memory() // size)


def _memory() -> int:
    """A quarter of an accelerator's own."""
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    return stats["bytes_limit"] // 4 if stats and "bytes_limit" in stats else MEMORY


def num_observed(family: Family, protocol: Protocol) -> int:
    """How many observations of its own a setting has."""
    if protocol.observed is None:
        return 0
    data = protocol.observed.of(protocol.bare(family), protocol.at)
    return 0 if data is None else len(data)


class Own(NamedTuple):
    """What members of a batch differ in, beside their seeds: coefficients, and observations."""

    coefficients: Float[Array, "*b p"]
    coordinates: Float[Array, "*b n dim"]
    observed: Float[Array, "*b n outputs"]

    @staticmethod
    def of(view: Family, protocol: Protocol) -> Own:
        """Of one member, on the host; empty where there is nothing to differ in."""
        # All coefficients are the setup's to hold, or they are drawn and none is.
        prior, data = view.parameters, view.data
        values = [] if prior.free else list(prior.held.values())
        if protocol.observed is None or data is None or not values:
            nothing = np.zeros((0, 0))
            return Own(np.array(values, float), nothing, nothing)  # pyright: ignore
        columns = lambda names: np.stack([data.columns[name] for name in names], axis=-1)
        where = columns(view.domain.names)
        return Own(np.array(values, float), where, columns(view.outputs))  # pyright: ignore

    def held_by(self, setup: Setup) -> Setup:
        """The setup of one member. Values may be traced: only those differ."""
        observed = (self.coordinates, self.observed) if self.observed.size else None
        setting = self.coefficients if self.coefficients.shape[-1] else None
        return dataclasses.replace(setup, coefficients=setting, observed=observed)


class _Batch:
    """Members that train together: leaves of their states have the members as first axis."""

    def __init__(
        self,
        family: Family,
        setup: Setup,
        members: Sequence[tuple[Protocol, int]],
        shown: Meter,
        checkpoint: Checkpoint,
        mesh: Mesh | None = None,
    ):
        self.family, self.setup, self.members, self.shown = family, setup, members, shown
        self.checkpoint, self.restored = checkpoint, checkpoint.restore()
        each = [Own.of(protocol.view(family), protocol) for protocol, _ in members]
        stacked = lambda *parts: jnp.asarray(np.stack(parts), setup.problem.dtype)
        keys = jnp.stack([jax.random.PRNGKey(seed) for _, seed in members])
        self.own, self.keys = jax.tree.map(
            lambda a: spread_along(0, a, mesh), (jax.tree.map(stacked, *each), keys)
        )
        self.seconds = {"compile": 0.0, "train": 0.0}
        self.learnt: Any = None  # by the weightings of the phase before
        self.stopped: list[list[str]] = [[] for _ in members]

    def run(self) -> list[Solution]:
        draw = lambda key: self.setup.problem.init(jax.random.fold_in(key, 0))
        params = jax.jit(jax.vmap(draw))(self.keys)
        first = 0
        if self.restored is not None:
            position = self.restored[0]
            first, self.stopped = position["phase"], position["stopped"]
            self.seconds = position["seconds"]
        for number, phase in list(enumerate(self.members[0][0].phases))[first:]:
            one = _member(self.own, 0).held_by(self.setup)
            with explained(one, phase, _member(params, 0)):
                params = self._through(number, phase, params)
        return [self._solution(i, _member(params, i)) for i in range(len(self.members))]

    def _stage(self, phase: Any, own: Own) -> Stage:
        return phase.build(own.held_by(self.setup))

    def _through(self, number: int, phase: Any, params: Any) -> Any:
        title = f"phase {number + 1}, {type(phase).__name__} of {len(self.members)} at once"
        stages = [self._stage(phase, _member(self.own, i)) for i in range(len(self.members))]
        keys = jax.vmap(lambda key: jax.random.fold_in(key, number + 1))(self.keys)
        begin, advance = self._programs(number, phase)
        state = begin(self.own, params, keys, self.learnt)
        if self.restored is not None:
            state, self.restored = self.restored[1](state), None
        self.shown.start(title, stages[0].total, int(np.max(state.step)))
        reasons = self._reasons(stages, state)
        first = True
        while any(reason is None for reason in reasons):
            begun, before = time.perf_counter(), np.asarray(state.step)
            state, info = jax.block_until_ready(advance(self.own, state))
            self.seconds["compile" if first else "train"] += time.perf_counter() - begun
            first = False
            reasons = self._reasons(stages, state)
            loss = np.asarray(info["loss"])
            self._check_progress(stages, state, before, loss, reasons)
            self.shown.update(int(np.max(state.step)), {"loss": float(np.median(loss))})
            if self.checkpoint.due() and any(reason is None for reason in reasons):
                where = {"phase": number, "stopped": self.stopped, "seconds": self.seconds}
                self.checkpoint.save(where, state)
        learnt = stages[0].learnt
        self.learnt = None if learnt is None else learnt(state)
        return self._finish(title, stages, state, reasons)

    def _programs(self, number: int, phase: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """A phase's `init` and `run` over all members; batches of the same size share them."""

        def begin(own: Own, params: Any, key: Any, learnt: Any) -> Any:
            stage = self._stage(phase, own)
            state = stage.init(params, key)
            if stage.adopt is None or learnt is None:
                return state
            return stage.adopt(state, learnt)

        advance = lambda own, s: self._stage(phase, own).run(s)  # pyright: ignore
        made = jax.jit(jax.vmap(begin)), jax.jit(jax.vmap(advance))
        return self.setup.programs.setdefault(f"phase {number}", made)

    def _finish(
        self, title: str, stages: list[Stage], state: Any, reasons: list[Stop | None]
    ) -> Any:
        ends = []
        for i, stage in enumerate(stages):
            params, note = stage.finish(_member(state, i))
            self.stopped[i].append(f"{title}: {reasons[i]}" + (f"; {note}" if note else ""))
            ends.append(params)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *ends)

    def _reasons(self, stages: list[Stage], state: Any) -> list[Stop | None]:
        """Why each member is over. Its scalars tell; nothing larger leaves the device."""
        scalars = jax.tree.map(lambda leaf: np.asarray(leaf) if leaf.ndim == 1 else leaf, state)

        def own(index: int) -> Any:
            is_scalar = lambda leaf: isinstance(leaf, np.ndarray)
            return jax.tree.map(lambda leaf: leaf[index] if is_scalar(leaf) else leaf, scalars)

        return [stage.stopped(own(i), {}) for i, stage in enumerate(stages)]

    def _check_progress(
        self,
        stages: list[Stage],
        state: Any,
        before: np.ndarray,
        loss: np.ndarray,
        reasons: list[Stop | None],
    ) -> None:
        """A member that stands still without being over met a value that is not finite."""
        for i, (stage, reason) in enumerate(zip(stages, reasons, strict=True)):
            stands = int(state.step[i]) == int(before[i]) or not np.isfinite(loss[i])
            if reason is None and stands and stage.diagnose is not None:
                raise LcpinnError(f"{self._who(i)}: {stage.diagnose(_member(state, i))}")

    def _who(self, index: int) -> str:
        protocol, seed = self.members[index]
        return ", ".join(filter(None, (f"seed {seed}", protocol.setting)))

    def _solution(self, index: int, params: Any) -> Solution:
        protocol, seed = self.members[index]
        share = {name: value / len(self.members) for name, value in self.seconds.items()}
        training = {
            "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
            "phases": [describe(p) for p in protocol.phases],
            "stopped": self.stopped[index],
            "seconds": share,
            "at_once": len(self.members),
        }
        run = identify(protocol.view(self.family), protocol, seed) | {"training": training}
        return Solution(protocol.view(self.family), protocol, params, run)


@jax.jit  # at once: one by one, every shape would be two programs
def _member(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)
