"""What one linear solve on a box takes, by the number of functions along each coordinate.

    python -m benchmarks.boxes [--families helmholtz-2d,kovasznay] [--most 100]
                               [--out results/boxes-cpu.json]

For families with one, two or three outputs, with symmetries and without: a step of Newton's method
about the true solution, its rows made once before, so that nothing is compiled. Of each: the
unknowns, the blocks that symmetries leave, seconds of the wall and of the processor, or that
it is not affordable. BLAS has half of the cores, as in `lc.solve`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from benchmarks.processes import among
from benchmarks.stamp import stamp
from benchmarks.zoo import ZOO
from lcpinn.families import FAMILIES
from lcpinn.files import write_json
from lcpinn.jet import Orders, expand
from lcpinn.precision import double
from lcpinn.spectral.expansion import Expansion
from lcpinn.spectral.least_squares import NormalMatrix, TensorRows, TooLarge, iterative
from lcpinn.spectral.linearisation import Linearisation, linearised
from lcpinn.spectral.newton import ACCURACY
from lcpinn.threads import blas_threads

ALL = {
    name: (FAMILIES | ZOO)[name]
    for name in (
        "helmholtz-2d",
        "overtone",
        "acoustics",
        "kovasznay",
        "helmholtz-3d",
        "taylor-green",
    )
}
SIZES = {2: (32, 48, 64, 96), 3: (12, 16, 24, 32)}


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.boxes", description=about)
    parser.add_argument("--families", type=among(ALL, "family"), default=list(ALL), help="a,b")
    parser.add_argument("--most", type=int, default=100, help="functions along a coordinate")
    parser.add_argument("--out", type=Path, help="write to this JSON file")
    given = parser.parse_args(arguments)
    words = list(sys.argv[1:] if arguments is None else arguments)
    result: dict[str, Any] = {"benchmark": "boxes", "stamp": stamp(0), "solves": []}
    result["command"] = shlex.join(["python", "-m", "benchmarks.boxes", *words])
    for name in given.families:
        family = ALL[name]()
        for num in SIZES[family.domain.dim]:
            if num > given.most:
                continue
            entry = {"family": name, "outputs": len(family.outputs), **measure(family, num)}
            result["solves"].append(entry)
            print(line(entry), flush=True)
            if given.out is not None:
                write_json(given.out, result)


def measure(family: lc.Family, num: int) -> dict[str, Any]:
    """One linear solve with so many functions along each coordinate."""
    middle = np.asarray(family.parameters.from_unit(np.full(family.parameters.dim, 0.5)))
    terms = linearised(family)
    sizes = (num,) * family.domain.dim
    with double(), blas_threads():
        expansion = Expansion(terms, sizes)
        at = Linearisation(terms, middle, _truth(family, middle))
        blocks = expansion.rows(at, expansion.zero, expansion.base(at))
        # A residual of all wave lengths, as that of a network is.
        random = np.random.default_rng(0)
        blocks = [
            type(b)(b.collocation, random.standard_normal(b.residual.shape), b.slopes)
            for b in blocks
        ]
        matrix = NormalMatrix([TensorRows(block) for block in blocks])
        sides = [sum(len(index) for *_, index in block) for block in matrix.blocks]
        entry = {
            "sizes": sizes,
            "unknowns": sum(sides),
            "largest": max(sides),
            "blocks": len(sides),
        }
        wall, processor = time.perf_counter(), time.process_time()
        try:
            solved = iterative(blocks, ACCURACY)
        except TooLarge:
            return {**entry, "seconds": None, "cpu_seconds": None, "converged": False}
        spent = {
            "seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor
        }  # fmt: skip
    return {**entry, **spent, "converged": bool(np.isfinite(solved.remaining).all())}


def _truth(family: lc.Family, parameters: np.ndarray) -> Any:
    """The Taylor coefficients of the true solution, about which terms that are not linear vary."""

    def jet(points: np.ndarray, orders: Orders) -> np.ndarray:
        at = lambda q: jnp.atleast_1d(family.call("exact", q, jnp.asarray(parameters)))
        series = jax.jit(jax.vmap(lambda p: expand(at, p, orders)))(points)
        return np.asarray(jnp.moveaxis(series, 0, 1))

    return jet


def line(entry: dict[str, Any]) -> str:
    name, sizes = entry["family"], " x ".join(map(str, entry["sizes"]))
    what = f"{name:14} {sizes:14} {entry['unknowns']:6} unknowns in {entry['blocks']:3} blocks"
    if entry["seconds"] is None:
        return f"{what}: not affordable"
    unconverged = "" if entry["converged"] else ", not converged"
    wall, processor = entry["seconds"], entry["cpu_seconds"]
    return f"{what}: {wall:.2f} s, {processor:.2f} s of the processor{unconverged}"


if __name__ == "__main__":
    main()
