"""Why a compiled program broke, in the user's terms: no memory, or a term that raised."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import jax

from lcpinn.errors import LcpinnError
from lcpinn.files import in_one_line
from lcpinn.network.contract import Params
from lcpinn.nonfinite import find_raising
from lcpinn.optimiser.stage import Phase, Setup, Stage
from lcpinn.sampling import Batch

GIB = 1 << 30


class Position:
    """How far a training is: what it would be explained by if the next call broke."""

    stage: Stage | None = None
    state: Any = None


@contextlib.contextmanager
def explained(
    setup: Setup, phase: Phase, params: Params, position: Position | None = None
) -> Iterator[None]:
    """Errors of compiled programs become one line; `params` are those that a phase begins with."""
    try:
        yield
    except LcpinnError:
        raise
    except MemoryError as error:
        raise LcpinnError(out_of_memory(str(error), setup, phase)) from error
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if "RESOURCE_EXHAUSTED" in str(error) or "ut of memory" in str(error):
            raise LcpinnError(out_of_memory(str(error), setup, phase)) from error
        # A callback that raises comes out as the one or the other.
        asked = "allback" in str(error)
        line = _raised_by_a_term(setup, phase, params, position) if asked else None
        if line is None:
            raise
        raise LcpinnError(line) from error


def out_of_memory(said: str, setup: Setup, phase: Phase) -> str:
    """How much was wanted, for what, and what to lower."""
    wanted = _wanted(said)
    amount = "more than there is" if wanted is None else f"{wanted / GIB:.2g} GiB at once"
    sampling, network = phase.points(setup.sampling) or setup.quadrature, setup.problem.network
    shapes = jax.eval_shape(setup.problem.init, jax.random.PRNGKey(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    interior, faces = (n * sampling.num_lambda for n in (sampling.interior, sampling.face))
    points = f"{interior} interior and {faces} face points for {count} parameters"
    lower = "the points of its sampling (interior, face, num_lambda)"
    widths = getattr(network, "widths", None)
    if widths is not None:
        lower += f" or the widths of its network, now {widths}"
    kind = type(phase.innermost).__name__
    return f"out of memory: {kind} wanted {amount}, with {points}; lower {lower}"


def _wanted(said: str) -> int | None:
    """Bytes, as XLA and NumPy say them."""
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    pattern = r"(?:allocat\w+|requested|needs?)\D{0,20}([\d.]+) ?([kmgt]?)i?b"
    match = re.search(pattern, said.lower().replace("bytes", "b"))
    return None if match is None else int(float(match[1]) * units[match[2]])


def _raised_by_a_term(
    setup: Setup, phase: Phase, params: Params, position: Position | None
) -> str | None:
    """Which term's callback raised, where and at which lambda, and what it said."""
    for batch in _looked_at(setup, phase, position):
        line = find_raising(setup.problem, params, batch)
        if line is not None:
            where, _, said = line.partition(": ")
            # The user's own exception is the last line of a traceback.
            last = next((s for s in reversed(said.splitlines()) if s.strip()), "")
            return f"{where}: {in_one_line(last)}"
    return None


def _looked_at(setup: Setup, phase: Phase, position: Position | None) -> Iterator[Batch]:
    """The batches of the call that broke, and those that a phase has from its beginning."""
    stage = None if position is None else position.stage
    if position is not None and stage is not None and stage.upcoming is not None:
        yield from stage.upcoming(position.state)
    for rule in (phase.points(setup.sampling), setup.quadrature, setup.held_out):
        if rule is not None and rule.rule != "random":
            yield setup.fixed(rule)
