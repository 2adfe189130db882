"""J'J over many rows and its Cholesky factor: time, memory, and the share of the device's peak.

The Jacobian is made chunk by chunk and never held, as in a training: helmholtz-2d in double
precision, three hidden layers of the width that comes closest to the number of parameters. Each
program is compiled ahead and timed by itself:

  normal     J'J and J'r, Jacobian included; N P² operations are counted, one triangle of J'J
  cholesky   of J'J + m I, P³/3 operations
  step       all of a Levenberg-Marquardt step, with the solver that a training would take here

The peak is the vendor's where it is listed, else that of the fastest general product measured here.
Bytes are what the compiled step asks for, and the largest use until then, of a GPU's memory or of
the process's; where J were held, N P numbers alone would come on top.
"""

from __future__ import annotations

import bisect
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jaxtyping import Array

from benchmarks.stamp import stamp
from lcpinn.devices import on_every_device
from lcpinn.equilibration import equilibrating, row_scales
from lcpinn.families.helmholtz import Helmholtz
from lcpinn.network import MLP
from lcpinn.optimiser import GainRatio
from lcpinn.optimiser.levenberg_marquardt import levenberg_marquardt_step
from lcpinn.optimiser.linear_model import RowSystem, gram
from lcpinn.optimiser.stage import Setup
from lcpinn.precision import double
from lcpinn.protocol import fast
from lcpinn.sampling import Batch, Sampling, fixed
from lcpinn.training import make_setup

SEED = 0
DAMPINGS = 5
ENOUGH = 60.0  # seconds of repetitions of one program, after which it is not run again
# Float64 in matrix products, as in the vendor's data sheet.
PEAKS = {"NVIDIA H200": 67e12, "NVIDIA H100 80GB HBM3": 67e12, "NVIDIA A100-SXM4-80GB": 19.5e12}
GRIDS = {"cpu": "1000x20000,2000x20000,2000x40000,3000x40000"}
ACCELERATOR_GRID = "5000x50000,10000x50000,10000x200000,20000x100000,20000x500000"

Grid = Sequence[tuple[int, int]]


def default_grid() -> str:
    return GRIDS.get(jax.default_backend(), ACCELERATOR_GRID)


def parse_grid(text: str) -> Grid:
    """Parameters and rows of every size, the smallest first."""
    sizes = [tuple(map(int, size.split("x"))) for size in text.split(",")]
    return sorted(((p, n) for p, n in sizes), key=lambda size: (size[0], size[1]))


def measure(
    grid: Grid,
    repeats: int,
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
    known: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """All sizes but those known; a line of the table for each as it is done, and all kept."""
    with double():
        best = _fastest_product()
        kind = jax.devices()[0].device_kind
        result: dict[str, Any] = {
            "benchmark": "roofline",
            "stamp": stamp(SEED),
            "setting": {"family": "helmholtz-2d", "dtype": "float64", "dampings": DAMPINGS},
            "peak": {"flops": PEAKS.get(kind, best), "listed": kind in PEAKS, "product": best},
            "sizes": list(known),
        }
        print(f"float64: {best / 1e9:.0f} GFLOP/s in a product, peak {_peak(result) / 1e9:.0f}")
        print(HEAD)
        for parameters, rows in grid:
            if any(s["asked"] == [parameters, rows] for s in known):
                continue
            timed = one_size(setup_of(parameters), rows, repeats)
            size: dict[str, Any] = {"asked": [parameters, rows], **timed}
            size["share"] = _shares(size, _peak(result))
            result["sizes"].append(size)
            keep(result)
            print(row(size), flush=True)
    return result


def _peak(result: dict[str, Any]) -> float:
    return result["peak"]["flops"]


def _shares(size: dict[str, Any], peak: float) -> dict[str, float]:
    """Of the peak, for what is counted."""
    p, n, seconds = size["parameters"], size["rows"], size["seconds"]
    counted = {"normal": n * p**2, "cholesky": p**3 / 3}
    return {name: flops / seconds[name] / peak for name, flops in counted.items()}


def _fastest_product() -> float:
    """Operations a second of a general product, the best of several."""
    size = 2048 if jax.default_backend() == "cpu" else 12_288
    matrix = jnp.ones((size, size))
    seconds, _ = _timed(_compiled(lambda a: a @ a, matrix), (matrix,), 5, fastest=True)
    return 2 * size**3 / seconds


def setup_of(parameters: int) -> Setup:
    """The network with three equal layers whose parameters are closest to so many."""
    family = Helmholtz(2)
    protocol = fast(family)

    def of_width(width: int) -> Setup:
        network = replace(protocol.network, widths=(width,) * 3)
        return make_setup(family, replace(protocol, network=network))

    def count(width: int) -> int:
        shapes = jax.eval_shape(of_width(width).problem.init, jax.random.PRNGKey(SEED))
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    above = 2 + bisect.bisect_left(range(2, 512), parameters, key=count)
    return of_width(min(above - 1, above, key=lambda width: abs(count(width) - parameters)))


def one_size(setup: Setup, rows: int, repeats: int, mesh: Mesh | None = None) -> dict[str, Any]:
    """Seconds and bytes of every program, on one device or on those of a mesh."""
    problem = setup.problem
    params = jax.jit(problem.init)(jax.random.PRNGKey(SEED))
    theta, unravel = ravel_pytree(params)
    batch = fixed(problem.family, Sampling(rows, 0, 1, "collocation"), problem.dtype)
    scales = jax.jit(partial(row_scales, problem, setup.weighting))(params, batch)
    solver = "cholesky" if jax.default_backend() == "cpu" else "two-level"

    def system(batch: Batch, scales: Any) -> RowSystem:
        scale = equilibrating(problem, scales)
        return RowSystem(problem, setup.weighting, unravel, batch, scale, mesh)

    def normal(theta: Array, batch: Batch, scales: Any) -> tuple[Array, Array]:
        return system(batch, scales).total(theta, lambda j, r: (gram(j), j.T @ r))

    def cholesky(normal: Array) -> Array:
        shift = 1e-10 * jnp.trace(normal)
        return jnp.linalg.cholesky(normal + shift * jnp.eye(len(normal), dtype=normal.dtype))

    def step(theta: Array, batch: Batch, scales: Any) -> Any:
        about = system(batch, scales)
        rule = GainRatio(corrections=0)
        linearised = lambda v: about.linearised(v, solver)
        # Small enough for the two-level solver to need both of its levels.
        damping = jnp.asarray(1e-12, theta.dtype)
        return levenberg_marquardt_step(
            about.rows, linearised, theta, damping, rule, num=DAMPINGS, solver=solver
        )

    given, seconds = on_every_device((theta, batch, scales), mesh), {}
    seconds["normal"], (matrix, _) = _timed(_compiled(normal, *given), given, repeats)
    seconds["cholesky"], _ = _timed(_compiled(cholesky, matrix), (matrix,), repeats)
    del matrix
    program = _compiled(step, *given)
    seconds["step"], _ = _timed(program, given, repeats)
    assert isinstance(problem.network, MLP)
    return {
        "widths": list(problem.network.widths),
        "parameters": int(theta.size),
        "rows": rows,
        "solver": solver,
        "seconds": seconds,
        "bytes": {
            "step": _program_bytes(program),
            "used": _largest_use(),
            "jacobian": rows * int(theta.size) * theta.dtype.itemsize,
        },
    }


def _compiled(function: Callable[..., Any], *like: Any) -> Any:
    return jax.jit(function).lower(*like).compile()


def _timed(
    program: Any, given: tuple[Any, ...], repeats: int, fastest: bool = False
) -> tuple[float, Any]:
    """Seconds of a compiled program: the median of several calls, or one that takes long."""
    times: list[float] = []
    value = None
    while len(times) < repeats and sum(times) < ENOUGH:
        value = None  # its memory is needed again
        begun = time.perf_counter()
        value = jax.block_until_ready(program(*given))
        times.append(time.perf_counter() - begun)
    return min(times) if fastest else statistics.median(times), value


def _program_bytes(program: Any) -> int:
    """What the program has allocated at once, as its compiler says."""
    known = program.memory_analysis()
    return known.argument_size_in_bytes + known.output_size_in_bytes + known.temp_size_in_bytes


def _largest_use() -> int:
    stats = jax.devices()[0].memory_stats() or {}
    of_process = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return stats.get("peak_bytes_in_use", of_process)


JTJ = "J'J s"
HEAD = (
    f"{'P':>7}{'N':>9}{JTJ:>10}{'of peak':>9}{'Cholesky s':>12}{'of peak':>9}{'step s':>10}"
    f"{'step GB':>9}{'used GB':>9}{'J would be':>12}"
)


def row(size: dict[str, Any]) -> str:
    """A line of the table."""
    seconds, share, of = size["seconds"], size["share"], size["bytes"]
    return (
        f"{size['parameters']:7}{size['rows']:9}{seconds['normal']:10.3f}{share['normal']:9.0%}"
        f"{seconds['cholesky']:12.3f}{share['cholesky']:9.0%}{seconds['step']:10.2f}"
        f"{of['step'] / 1e9:9.2f}{of['used'] / 1e9:9.2f}{of['jacobian'] / 1e9:12.2f}"
    )
