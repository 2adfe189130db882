"""What a Gauss-Newton step costs, part by part, as the network and its rows grow.

    python -m benchmarks.gauss_newton [--large] [--repeats 5] [--out results/gauss-newton-cpu.json]
    python -m benchmarks.gauss_newton --grid [1000x10000,...] [--resume] [--out FILE]

helmholtz-2d in double precision, with three rows for every parameter (parameter space) and with one
row for every two (sample space). The parts are the optimiser's own functions, each compiled by
itself; the whole step is compiled as one program, as in a training. A factorisation that would take
more than `--limit` seconds at the next size, by the cube law, is left out from there on. With
`--out` a picture is drawn beside the file. `--large` goes on to sizes for an accelerator.

`--grid` is another table (benchmarks/roofline.py): J'J summed over chunks of many rows, and its
Cholesky factor, beside the device's peak; time and memory as parameters and rows grow.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from matplotlib.figure import Figure

from benchmarks import roofline
from benchmarks.stamp import stamp
from lcpinn.equilibration import equilibrating, row_scales
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.files import read_json, write_json
from lcpinn.network import MLP
from lcpinn.optimiser import GainRatio, damping
from lcpinn.optimiser.levenberg_marquardt import levenberg_marquardt_step
from lcpinn.optimiser.linear_model import Whole
from lcpinn.optimiser.stage import Setup
from lcpinn.plot import COLOURS
from lcpinn.precision import double
from lcpinn.protocol import fast
from lcpinn.rows import rows_and_jacobian, weighted_rows
from lcpinn.sampling import Batch, Sampling, fixed
from lcpinn.threads import blas_threads
from lcpinn.training import make_setup

SEED = 0
DAMPINGS = 9
LIMIT = 20.0  # seconds that a step may take
PATIENCE = 10.0  # seconds after which three repetitions are enough
WIDTHS = ((12, 12), (16, 16), (20, 20), (24, 24), (28, 28), (32, 32), (40, 40))
LARGE = ((48, 48), (40, 40, 40), (64, 64), (48, 48, 48), (64, 64, 64))
FACTORISE: dict[str, Callable[[Whole, Array], tuple[Array, Array]]] = {
    "qr": damping._qr,
    "two-level": damping._two_level,
    "cholesky": damping._cholesky,
}

Widths = tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.gauss_newton", description=about)
    parser.add_argument("--large", action="store_true", help="sizes for an accelerator, too")
    parser.add_argument("--repeats", type=int, default=5, help="timed repetitions of each part")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a step may take")
    parser.add_argument("--widths", help="these alone: 12x12,24x24x24")
    parser.add_argument(
        "--grid",
        nargs="?",
        const=roofline.default_grid(),
        help="parameters x rows, 1000x10000,2000x20000: J'J and Cholesky beside the peak",
    )
    parser.add_argument("--out", type=Path, help="write the result here, a picture beside it")
    parser.add_argument("--resume", action="store_true", help="keep the sizes of a grid in --out")
    given = parser.parse_args(arguments)
    if given.resume and (given.out is None or given.grid is None):
        parser.error("--resume needs --grid and --out")
    widths = WIDTHS + (LARGE if given.large else ())
    if given.widths is not None:
        widths = tuple(tuple(map(int, w.split("x"))) for w in given.widths.split(","))
    options = sys.argv[1:] if arguments is None else list(arguments)
    command = {"command": shlex.join(["python", "-m", "benchmarks.gauss_newton", *options])}
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
    if given.grid is not None:
        keep = lambda r: None if given.out is None else write_json(given.out, {**r, **command})
        out: Path | None = given.out
        resumed = given.resume and out is not None and out.exists()
        known = read_json(out)["sizes"] if resumed and out is not None else []
        roofline.measure(roofline.parse_grid(given.grid), given.repeats, keep, known)
        return
    result = measure(widths, given.repeats, given.limit) | command
    if given.out is not None:
        write_json(given.out, result)
        print(f"written to {given.out} and {draw(result, given.out.with_suffix('.png'))}")


def measure(widths: Sequence[Widths], repeats: int, limit: float = LIMIT) -> dict[str, Any]:
    """All sizes from small to large, in both spaces; a line of the table for each as it is done."""
    origin = stamp(SEED)
    sizes: list[dict[str, Any]] = []
    print(_head())
    with double():
        setups = sorted((_setup(w) for w in widths), key=_num_parameters)
        for setup in setups:
            count = _num_parameters(setup)
            for space, num_rows in (("parameter", 3 * count), ("sample", count // 2)):
                before = [s for s in sizes if s["space"] == space]
                solvers = _affordable(before, count, limit, space)
                if not solvers:
                    continue
                sizes.append({"space": space, **_one_size(setup, num_rows, solvers, repeats)})
                print(_row(sizes[-1]), flush=True)
    return {"benchmark": "gauss_newton", "stamp": origin, "setting": _setting(limit, repeats),
            "sizes": sizes}  # fmt: skip


def _setting(limit: float, repeats: int) -> dict[str, Any]:
    return {
        "family": "helmholtz-2d",
        "dtype": "float64",
        "dampings": DAMPINGS,
        "limit_seconds": limit,
        "repeats": repeats,
        "times": "milliseconds, medians",
    }


def _setup(widths: Widths) -> Setup:
    protocol = fast(Helmholtz(2))
    network = dataclasses.replace(protocol.network, widths=widths)
    return make_setup(Helmholtz(2), dataclasses.replace(protocol, network=network))


def _num_parameters(setup: Setup) -> int:
    shapes = jax.eval_shape(setup.problem.init, jax.random.PRNGKey(SEED))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def _affordable(before: list[dict[str, Any]], count: int, limit: float, space: str) -> list[str]:
    """The solvers whose step, by the cube law from the last size, stays within the limit."""
    names = list(FACTORISE) if space == "parameter" else ["sample-space"]
    if not before:
        return names
    last = before[-1]
    growth = (count / last["parameters"]) ** 3
    steps = last["ms"]["step"]
    return [n for n in names if n in steps and 1e-3 * steps[n] * growth <= limit]


# -- One size ------------------------------------------------------------------------------------


def _one_size(setup: Setup, num_rows: int, solvers: list[str], repeats: int) -> dict[str, Any]:
    """Milliseconds of every part. Everything that changes in a training is an argument here."""
    problem = setup.problem
    params = jax.jit(problem.init)(jax.random.PRNGKey(SEED))
    theta, unravel = ravel_pytree(params)
    # The boundary condition is built into the network: every row lies inside.
    batch = fixed(problem.family, Sampling(num_rows, 0, 1, "collocation"), problem.dtype)
    scales = jax.jit(partial(row_scales, problem, setup.weighting))(params, batch)

    def rows(theta: Array, batch: Batch, scales: Any) -> Array:
        scale = equilibrating(problem, scales)
        return weighted_rows(problem, setup.weighting, unravel(theta), batch, scale)

    def jacobian(theta: Array, batch: Batch, scales: Any) -> Whole:
        scale = equilibrating(problem, scales)
        return Whole(*rows_and_jacobian(problem, setup.weighting, unravel, theta, batch, scale))

    def losses(directions: Array, theta: Array, batch: Batch, scales: Any) -> Array:
        one = lambda p: jnp.sum(rows(theta + p, batch, scales) ** 2)
        return jax.vmap(one)(directions)

    def step(solver: str, theta: Array, centre: Array, batch: Batch, scales: Any) -> Any:
        # With fewer rows than parameters the solver is not asked for.
        return levenberg_marquardt_step(
            lambda v: rows(v, batch, scales),
            lambda v: jacobian(v, batch, scales),
            theta,
            centre,
            GainRatio(corrections=0),
            num=DAMPINGS,
            solver=solver if solver in FACTORISE else "cholesky",
        )

    time_of = partial(_median, repeats=repeats)
    ms: dict[str, Any] = {}
    with blas_threads():
        ms["rows"], _ = time_of(rows, theta, batch, scales)
        ms["jacobian"], model = time_of(jacobian, theta, batch, scales)
        # As small as in late steps, where the two-level solver needs both of its levels, and `qr`,
        # which begins as a Cholesky factorisation, is one.
        centre = 1e-13 * jnp.sum(model.matrix**2)
        dampings = damping.damping_grid(centre, DAMPINGS)
        if solvers == ["sample-space"]:
            sample_space = lambda *given: damping._sample_space(*given)[0].directions
            ms["solve"], directions = time_of(
                sample_space, model.matrix, model.rows, dampings, centre
            )
        else:
            factors = {n: time_of(FACTORISE[n], model, centre) for n in solvers}
            ms["factorise"] = {name: spent for name, (spent, _) in factors.items()}
            factor, c = factors[solvers[-1]][1]
            ms["conjugate_gradients"], directions = time_of(_solve, factor, c, dampings, centre)
        ms["losses"], _ = time_of(losses, directions, theta, batch, scales)
        ms["step"] = {
            name: time_of(partial(step, name), theta, centre, batch, scales)[0] for name in solvers
        }
    assert isinstance(problem.network, MLP)
    return {
        "widths": list(problem.network.widths),
        "parameters": int(theta.size),
        "rows": int(model.rows.size),
        "ms": ms,
    }


def _solve(factor: Array, c: Array, dampings: Array, centre: Array) -> Array:
    """The steps of all dampings from one factor."""
    invert, invert_transpose = damping._substitutions(factor)
    return invert(damping._all_dampings(invert, invert_transpose, c, dampings, centre)[0])


def _median(function: Callable, *arguments: Any, repeats: int) -> tuple[float, Any]:
    """Median milliseconds of the compiled function after one call that does not count."""
    compiled = jax.jit(function)
    value = jax.block_until_ready(compiled(*arguments))
    times: list[float] = []
    while len(times) < repeats and (len(times) < 3 or sum(times) < PATIENCE):
        begun = time.perf_counter()
        value = jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(times), value


# -- In words and in a picture -------------------------------------------------------------------

COLUMNS = {
    "rows": "rows",
    "jacobian": "jacobian",
    "qr": "qr",
    "two-level": "two-level",
    "cholesky": "cholesky",
    "solve": "sample sp.",
    "conjugate_gradients": "cg",
    "losses": "losses",
}


def parts(ms: dict[str, Any]) -> dict[str, float]:
    """The parts of a step beside each other, without the whole step."""
    alone = {k: v for k, v in ms.items() if k not in ("factorise", "step")}
    return {**alone, **ms.get("factorise", {})}


def _head() -> str:
    names = "".join(f"{name:>11}" for name in COLUMNS.values())
    return f"{'widths':10}{'P':>7}{'N':>7}{names}   whole step  (milliseconds)"


def _row(size: dict[str, Any]) -> str:
    ms = parts(size["ms"])
    cells = "".join(f"{ms[n]:11.2f}" if n in ms else f"{'–':>11}" for n in COLUMNS)
    steps = ", ".join(f"{name} {t:.1f}" for name, t in size["ms"]["step"].items())
    widths = "x".join(map(str, size["widths"]))
    return f"{widths:10}{size['parameters']:7}{size['rows']:7}{cells}   {steps}"


# Factorisations are solid, the rest dashed; colour and marker both tell the lines apart.
STYLES: dict[str, tuple[str, str, str, str]] = {
    "qr": ("QR", COLOURS[0], "o", "-"),
    "two-level": ("two-level Cholesky", COLOURS[1], "s", "-"),
    "cholesky": ("Cholesky", COLOURS[2], "^", "-"),
    "jacobian": ("Jacobian", COLOURS[3], "D", "--"),
    "losses": ("losses of the candidates", COLOURS[4], "v", "--"),
    "conjugate_gradients": ("conjugate gradients", COLOURS[5], "P", "--"),
    "rows": ("rows", "#000000", "x", "--"),
}


def draw(result: dict[str, Any], path: Path) -> Path:
    """Time of every part against the number of parameters, with three rows for each."""
    sizes = [s for s in result["sizes"] if s["space"] == "parameter"]
    lines = {
        name: [(s["parameters"], parts(s["ms"])[name]) for s in sizes if name in parts(s["ms"])]
        for name in STYLES
    }
    drawn = sorted((n for n in lines if lines[n]), key=lambda n: -lines[n][-1][1])
    figure = Figure(figsize=(6.4, 4.2), layout="constrained", dpi=200)
    axis = figure.subplots()
    for name in drawn:
        label, colour, marker, dash = STYLES[name]
        count, ms = zip(*lines[name], strict=True)
        axis.loglog(count, ms, dash, color=colour, marker=marker, ms=5, lw=1.4, label=label)
    first, last = sizes[0]["parameters"], sizes[-1]["parameters"]
    top = 2 * max(ms for line in lines.values() for _, ms in line[-1:])
    guide = [top * (first / last) ** 3, top]
    axis.loglog([first, last], guide, ":", color="0.45", lw=1.2, label="$P^3$", zorder=0)
    ticks = [s["parameters"] for s in sizes]
    axis.set_xticks(ticks, [str(t) for t in ticks], fontsize=8, rotation=30)
    axis.minorticks_off()
    axis.set(xlabel="parameters $P$ (rows $N = 3P$)", ylabel="milliseconds")
    axis.set_title(f"Gauss-Newton step, helmholtz-2d\n{result['stamp']['device']}", fontsize=10)
    axis.grid(True, color="0.9", lw=0.6)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path)
    return path


if __name__ == "__main__":
    main()
