"""L-BFGS of a batch: our line search, one evaluation at a time, beside optax's.

    python -m benchmarks.line_search [--members 1,4] [--steps 2000] [--out FILE.json]

helmholtz-1d by the network of `paper` in single precision on few points, the same start for both
after a thousand steps of Adam. Mapped over a batch, optax's search evaluates in both branches of a
condition, and all members wait for the longest search; ours evaluates for each member what that
needs next. What is shown are milliseconds of a step and the mean loss, block after block: towards
the end rounding is all that is left, and searches get long.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from benchmarks.stamp import stamp
from lcpinn.families import FAMILIES
from lcpinn.files import write_json
from lcpinn.network import MLP
from lcpinn.optimiser import LBFGS, Adam, lbfgs
from lcpinn.optimiser.lbfgs import LBFGSState, next_search, searched
from lcpinn.optimiser.line_search import MOST_EVALUATIONS, Search, Trial
from lcpinn.precision import arithmetic
from lcpinn.protocol import paper
from lcpinn.training import make_setup

BLOCKS = 10


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.line_search", description=about)
    parser.add_argument("--members", default="1,4", help="sizes of batches, separated by commas")
    parser.add_argument("--steps", type=int, default=2000, help="of L-BFGS, in ten blocks")
    parser.add_argument("--adam", type=int, default=1000, help="steps before them")
    parser.add_argument("--points", type=int, default=128, help="in the interior")
    parser.add_argument("--layers", type=int, default=4, help="of 64 units")
    parser.add_argument("--out", type=Path, help="write to this JSON file")
    given = parser.parse_args(arguments)
    runs = []
    for members in map(int, given.members.split(",")):
        for name in SEARCHES:
            runs.append(
                measured(name, members, given.adam, given.steps, given.points, given.layers)
            )
            print(line(runs[-1]), flush=True)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        options = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", "benchmarks.line_search", *options])
        made = {"benchmark": "line_search", "stamp": stamp(0), "command": command, "runs": runs}
        write_json(given.out, made)


def line(run: dict[str, Any]) -> str:
    each = "  ".join(f"{b['milliseconds']:.1f} ({b['loss']:.1e})" for b in run["blocks"])
    return f"{run['members']} of {run['search']}: ms a step (loss)  {each}"


def measured(
    name: str, members: int, adam: int, steps: int, points: int, layers: int
) -> dict[str, Any]:
    """Ten blocks of steps, each timed; compilation is not."""
    family = FAMILIES["helmholtz-1d"]()
    protocol = paper(family)
    few = {"interior": points, "face": 8}
    assert protocol.sampling is not None
    assert isinstance(protocol.network, MLP)
    protocol = replace(
        protocol,
        network=replace(protocol.network, widths=(64,) * layers),
        sampling=replace(protocol.sampling, **few),
        quadrature=replace(protocol.quadrature, num_lambda=8, **few),
    )
    block = max(1, steps // BLOCKS)
    with arithmetic(protocol.dtype), SEARCHES[name]():
        setup = make_setup(family, protocol)
        keys = jax.random.split(jax.random.PRNGKey(0), members)
        first = Adam(steps=adam, block=adam, final_rate=0.0).build(setup)
        finish = LBFGS(steps=steps, memory=50, block=block, patience=steps).build(setup)
        descend, search = first.run, finish.run
        assert descend is not None
        assert search is not None
        start = lambda key: descend(first.init(setup.problem.init(key), key))[0].params
        state = jax.jit(jax.vmap(lambda key: finish.init(start(key), key)))(keys)
        program = jax.jit(jax.vmap(search)).lower(state).compile()
        blocks = []
        for _ in range(BLOCKS):
            began = time.perf_counter()
            state, _ = jax.block_until_ready(program(state))
            spent = time.perf_counter() - began
            blocks.append({"milliseconds": 1e3 * spent / block, "loss": float(np.mean(state.loss))})
    return {"search": name, "members": members, "steps": steps, "adam": adam, "blocks": blocks}


@contextlib.contextmanager
def by_optax() -> Iterator[None]:
    """optax's zoom search in its place: a whole search where the library makes one evaluation."""
    before, lbfgs.one_evaluation = lbfgs.one_evaluation, _whole_search
    try:
        yield
    finally:
        lbfgs.one_evaluation = before


def _whole_search(
    loss: Callable[[Any], jax.Array], state: LBFGSState, search: Search
) -> tuple[LBFGSState, Search]:
    flat, unravel = ravel_pytree(state.params)
    method: Any = optax.scale_by_zoom_linesearch(MOST_EVALUATIONS, initial_guess_strategy="one")
    moved, after = method.update(
        search.direction,
        method.init(flat),
        flat,
        value=state.loss,
        grad=state.slope,
        value_fn=lambda vector: loss(unravel(vector)),
    )
    along = search.direction @ moved / jnp.maximum(search.direction @ search.direction, 1e-30)
    value = jnp.where(jnp.isfinite(after.value), after.value, jnp.inf)
    low = Trial(along, value, search.direction @ after.grad)
    new = searched(state, search._replace(low=low, gradient=after.grad))
    return new, next_search(new)


SEARCHES: dict[str, Callable[[], Any]] = {"ours": contextlib.nullcontext, "optax": by_optax}


if __name__ == "__main__":
    main()
