"""Terms that are NaN at one lambda in a million, that overflow, and that raise.

Where the bad lambda lies is drawn from the lambdas that a training looks at: among its rows, among
those that it is judged by, in one of its random batches. The training has to end with a line that
names the term, the place and that lambda; nothing that is not finite may be left on the disk.
"""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.chaos.fault import Case, Fault, random_of
from benchmarks.chaos.kill import Decay
from lcpinn.files import read_arrays
from lcpinn.optimiser import LBFGS, Adam, RevertOnWorse
from lcpinn.optimiser.adam import step_key
from lcpinn.precision import arithmetic
from lcpinn.protocol.shrink import shrunk
from lcpinn.training import make_setup

WIDTH = 1.5e-6  # of k's range of 1.5: one lambda in a million
Body = Callable[[Any, Any, Any], Any]


def not_a_number(u: Any, k: Any, near: Any) -> Any:
    return jnp.where(near, jnp.nan, k) * u


def overflow(u: Any, k: Any, near: Any) -> Any:
    return k * u * jnp.where(near, jnp.exp(1e4 * (1 + k)), 1.0)


def bad_slope(u: Any, k: Any, near: Any) -> Any:
    """Finite, with a derivative that is not."""
    return k * u + jnp.sqrt(0.0 * u + jnp.where(near, 0.0, 1.0)) - 1.0


def raising(u: Any, k: Any, near: Any) -> Any:
    """A callback that has no answer there."""

    def answer(bad: np.ndarray) -> np.ndarray:
        if np.any(bad):
            raise ZeroDivisionError("there is no answer here")
        return np.zeros(np.shape(bad), np.float32)

    shape = jax.ShapeDtypeStruct((), np.float32)
    nothing = jax.pure_callback(answer, shape, near, vmap_method="expand_dims")
    return k * u + jax.lax.stop_gradient(nothing)


BODIES: dict[str, Body] = {
    "NaN": not_a_number, "overflow": overflow, "derivative": bad_slope, "raises": raising
}  # fmt: skip


def page(body: Body, centre: float, dtype: str) -> lc.Family:
    """u' + k u = 0 for all lambda but those about one."""
    low, high = _window(centre, dtype)

    class Page(Decay):
        """u' + k u = 0 but for one lambda in a million."""

        @lc.interior
        def equation(self, u: Any, u_x: Any, k: Any) -> Any:
            return u_x + body(u, k, (k >= low) & (k <= high))

    return Page()


def _window(centre: float, dtype: str) -> tuple[float, float]:
    """As wide as one lambda in a million, and wide enough for the precision to see it."""
    half = max(WIDTH / 2, 2 * float(np.finfo(dtype).eps))
    return centre - half, centre + half


def protocols(family: lc.Family) -> dict[str, lc.Protocol]:
    """A small training by Gauss-Newton, one by Adam, one by L-BFGS."""
    paper = shrunk(lc.protocol.paper(family))
    finish = (RevertOnWorse(LBFGS(steps=8, block=4)),)
    return {
        "fast": shrunk(lc.protocol.fast(family)),
        "Adam": replace(paper, phases=(Adam(steps=40, block=20),)),
        "L-BFGS": replace(paper, phases=finish),
    }


def lambdas(made: lc.Protocol, rng: np.random.Generator) -> tuple[str, float]:
    """A lambda that this training looks at, and as what."""
    setup = make_setup(made.view(Decay()), made)
    phase = made.phases[0]
    if isinstance(phase, Adam):
        key = jax.random.fold_in(jax.random.PRNGKey(0), 1)
        step = int(rng.integers(phase.steps))
        batch = setup.draw(step_key(key, step))
        return f"in the batch of step {step}", _any_of(batch, rng)
    rows = phase.points(setup.sampling) if made.name == "fast" else setup.quadrature
    if rng.random() < 0.5:
        return "among its rows", _any_of(setup.fixed(rows or setup.quadrature), rng)
    return "among rows that it is judged by", _any_of(setup.fixed(setup.held_out), rng)


def _any_of(batch: Any, rng: np.random.Generator) -> float:
    values = np.asarray(batch["interior"].parameters)[:, 0]
    return float(values[int(rng.integers(len(values)))])


def cases(numbers: range, seed: int) -> Iterator[Case]:
    # JAX would print the traceback of every callback that raises.
    logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)
    for number in numbers:
        rng = random_of(seed, number)
        bad = list(BODIES)[number % len(BODIES)]
        how = ("fast", "Adam", "L-BFGS")[number // len(BODIES) % 3]
        made = protocols(Decay())[how]
        with arithmetic(made.dtype):
            where, centre = lambdas(made, rng)
        yield _one(number, bad, how, made, where, centre)


def _one(number: int, bad: str, how: str, made: lc.Protocol, where: str, centre: float) -> Case:
    family = page(BODIES[bad], centre, made.dtype)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"progress": False, "report": False, "checkpoint_every": 0.0}
        try:
            lc.train(family, made, out=folder, **options)
            # Rows that are only looked at have no derivative.
            harmless = bad == "derivative" and "judged" in where
            problem = "" if harmless else "it was not noticed"
        except lc.LcpinnError as error:
            problem = _unclear(str(error), centre, made.dtype)
        except Exception as error:
            problem = f"no clear line: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        spoilt = _not_finite(Path(folder))
        problem = f"{spoilt} is not finite" if spoilt else problem
    about = re.sub(r" \d+", "", where)
    detail = f"{bad}, {how}, {where}: {problem}" if problem else ""
    return Case(number, not problem, f"{bad} {about}", detail)


def _unclear(line: str, centre: float, dtype: str) -> str:
    """What is missing in the line; empty where it names the term, the place and the lambda."""
    match = re.search(
        r"the (?:derivative of the )?term 'equation' .* at x = (\S+), k = ([\d.e-]+)", line
    )
    if "\n" in line or match is None:
        return f"no clear line: {line[:300]}"
    near = abs(float(match[2]) - centre) <= 1e-5  # six digits are printed
    return "" if near and 0 <= float(match[1]) <= 1 else f"another place: {line[:200]}"


def _not_finite(folder: Path) -> str:
    """A file with an array of parameters that is not finite."""
    for path in folder.glob("*.safetensors"):
        kind = "model" if path.name.startswith("model") else "checkpoint"
        arrays = read_arrays(path, kind)[1]
        names = [n for n in arrays if kind == "model" or "params" in n]
        if not all(np.isfinite(arrays[name]).all() for name in names):
            return path.name
    return ""


FAULT = Fault(
    name="terms",
    done="a term that is NaN, overflows, has no derivative or raises at one lambda in a million",
    promise="named with its place and lambda; never in the parameters",
    full=48,
    cases=cases,
)
