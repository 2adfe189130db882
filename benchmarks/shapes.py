"""Families on shapes: error, estimate and time of the defaults, and what sampling costs.

    python -m benchmarks.shapes [--families a,b] [--seeds 0,1] [--seconds 60]
                                [--out results/shapes-cpu.json]

Ten families with known solutions: three built-in ones whose shape depends on a coefficient, two in
three dimensions, two with a time, an implicit one, polygons, and Robin conditions by `u_n`. Each is
trained in this process; compilation counts. `--sampling` measures instead a million points of a
square with four holes, and a training step on a shape against one on a box with the same rows.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import lcpinn as lc
from benchmarks.stamp import stamp
from lcpinn.evaluation import evaluate
from lcpinn.families import ON_SHAPES, FourHoles
from lcpinn.files import write_json
from lcpinn.network import MLP
from lcpinn.precision import double
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, fixed


class Elbow(lc.Family):
    """Δu = 0 on an L-shaped plate, u = sin(kx) sinh(ky) / sinh(k) on its edges."""

    domain = lc.Polygon(x=[-1, 1, 1, 0, 0, -1], y=[-1, -1, 0, 0, 1, 1])
    parameters = lc.Uniform(k=(1.0, 3.0))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def edge(self, u, x, y, k):
        return u - self.exact(x, y, k)

    def exact(self, x, y, k):
        return jnp.sin(k * x) * jnp.sinh(k * y) / jnp.sinh(k)


class Torsion(lc.Family):
    """-Δu = 2 in an ellipse with half-axes a and 1, u = 0 on its rim: the torsion of a bar."""

    bar = lc.Inside(lambda x, y, a: (x / a) ** 2 + y**2 - 1, x=(-2, 2), y=(-1.1, 1.1))
    domain = bar
    parameters = lc.Uniform(a=(1.0, 1.9))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u + 2.0

    @lc.on()
    def rim(self, u):
        return u

    def exact(self, x, y, a):
        return a**2 / (a**2 + 1) * (1 - (x / a) ** 2 - y**2)


class Kite(lc.Family):
    """Δu = k² u on a kite, u = exp(k (0.6 x + 0.8 y)) on its edges."""

    domain = lc.Polygon(x=[0.0, 1.0, 0.0, -1.0], y=[-1.5, 0.0, 0.7, 0.0])
    parameters = lc.Uniform(k=(0.5, 2.0))

    @lc.interior
    def equation(self, u, laplacian_u, k):
        return laplacian_u - k**2 * u

    @lc.on()
    def edge(self, u, x, y, k):
        return u - self.exact(x, y, k)

    def exact(self, x, y, k):
        return jnp.exp(k * (0.6 * x + 0.8 * y))


class Shell(lc.Family):
    """Δu = 0 between spheres of radius r and 1, u = 1 on the inner and u_n = -u on the outer."""

    core = lc.Ball(x=0.0, y=0.0, z=0.0, radius="r")
    skin = lc.Ball(x=0.0, y=0.0, z=0.0, radius=1.0)
    domain = skin - core
    parameters = lc.Uniform(r=(0.3, 0.6))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on(core)
    def hot(self, u):
        return u - 1.0

    @lc.on(skin)
    def losing(self, u, u_n):
        return u_n + u

    # u = a + b / ρ: at ρ = 1, -b + a + b = 0, so that a = 0 and u = r / ρ.
    def exact(self, x, y, z, r):
        return r / jnp.sqrt(x**2 + y**2 + z**2)


class Bore(lc.Family):
    """Δu = 0 in a block with a bore through it, u = z log ρ on its surface."""

    block = lc.Box(x=(-1, 1), y=(-1, 1), z=(0, 1))
    domain = block - lc.Ball(x=0.0, y=0.0, radius=0.4)

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def surface(self, u, x, y, z):
        return u - self.exact(x, y, z)

    def exact(self, x, y, z):
        return z * jnp.log(x**2 + y**2) / 2


class Washer(lc.Family):
    """u_t = Δu / 4 in a ring, known at the start and on its rims."""

    ring = lc.Ball(x=0.0, y=0.0, radius=1.0) - lc.Ball(x=0.0, y=0.0, radius=0.4)
    domain = lc.Box(t=(0, 1)) * ring

    @lc.interior
    def equation(self, u_t, u_xx, u_yy):
        return u_t - (u_xx + u_yy) / 4

    @lc.on(t=0.0)
    def start(self, u, x, y):
        return u - self.exact(0.0, x, y)

    @lc.on(ring)
    def rims(self, u, t, x, y):
        return u - self.exact(t, x, y)

    def exact(self, t, x, y):
        return jnp.exp(-2 * t) * jnp.sin(2 * x + 0.5) * jnp.cos(2 * y)


class Meteor(lc.Family):
    """u_t = Δu / 10 in a ball, u = 0 on its surface: the slowest mode decays."""

    ball = lc.Ball(x=0.0, y=0.0, z=0.0, radius=1.0)
    domain = lc.Box(t=(0, 1)) * ball

    @lc.interior
    def equation(self, u_t, u_xx, u_yy, u_zz):
        return u_t - (u_xx + u_yy + u_zz) / 10

    @lc.on(t=0.0)
    def start(self, u, x, y, z):
        return u - self.exact(0.0, x, y, z)

    @lc.on(ball)
    def cold(self, u):
        return u

    def exact(self, t, x, y, z):
        return jnp.exp(-(jnp.pi**2) * t / 10) * jnp.sinc(jnp.sqrt(x**2 + y**2 + z**2))


FAMILIES: dict[str, Callable[[], lc.Family]] = ON_SHAPES | {
    made.__name__.lower(): made for made in (Elbow, Torsion, Kite, Shell, Bore, Washer, Meteor)
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "benchmarks.shapes", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--families", help=f"of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--seeds", default="0,1", help="default: 0,1")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each")
    parser.add_argument("--sampling", action="store_true", help="measure points and steps alone")
    parser.add_argument("--out", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    options = sys.argv[1:] if arguments is None else list(arguments)
    command = shlex.join(["python", "-m", "benchmarks.shapes", *options])
    found: dict[str, Any] = {"benchmark": "shapes", "stamp": stamp(0), "command": command}
    if given.sampling:
        found["sampling"] = sampling()
        for name, value in found["sampling"].items():
            print(f"{name:40}{value:10.3g}")
        _write(given.out, found)
        return
    names = list(FAMILIES) if given.families is None else given.families.split(",")
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        sys.exit(f"no family {unknown[0]!r} here; there are {', '.join(FAMILIES)}")
    found["runs"] = []
    print(f"{'family':12}{'seed':>5}{'mean':>10}{'largest':>10}{'estimate':>10}{'seconds':>9}")
    for name in names:
        for seed in map(int, given.seeds.split(",")):
            found["runs"].append(train(name, seed, given.seconds))
            print(_line(found["runs"][-1]), flush=True)
            _write(given.out, found)


def train(name: str, seed: int, seconds: float) -> dict[str, Any]:
    """One training by the defaults; its errors, and the estimate where the largest is."""
    family, begun = FAMILIES[name](), time.perf_counter()
    how = lc.protocol.fast(family, seconds=seconds)
    solution = lc.train(family, how, seed=seed, progress=False)
    spent = time.perf_counter() - begun
    error = evaluate(solution)
    estimate = solution.estimate(**error["dense_argmax"])
    return {
        "family": name,
        "seed": seed,
        "equation": (family.__doc__ or "").split("\n")[0],
        "inputs": family.domain.dim + len(family.parameters.free),
        "error": {key: error[key] for key in ("mean", "dense_max", "dense_argmax")},
        "estimate": {"error": _number(estimate.error), "reason": estimate.reason},
        "seconds": spent,
        "stopped": solution.run["training"]["stopped"],
    }


def sampling() -> dict[str, float]:
    """Seconds for a million points, and a step on a shape against one on a box."""
    domain = FourHoles().domain
    lam = FourHoles().parameters.sobol(1_000_000, 1)
    found = {
        "seconds, a million points inside": _timed(lambda: domain.sobol(len(lam), parameters=lam)),
        "seconds, a million on the boundary": _timed(
            lambda: domain.sobol(len(lam), face=domain.boundary(), parameters=lam)
        ),
    }
    found["step on a shape / step on a box"] = _step(FourHoles()) / _step(_boxed())
    return found


def _boxed() -> lc.Family:
    """The same terms, as many rows, on the square alone."""

    class Square(lc.Family):
        domain = lc.Box(x=(-1, 1), y=(-1, 1))
        parameters = lc.Uniform(r=(0.15, 0.35))

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u

        @lc.on(x=-1.0)
        def flux(self, u_x, x, y):
            return u_x - x * y

        @lc.on(x=1.0)
        def sides(self, u, x, y):
            return u - x * y

    return Square()


def _step(family: lc.Family) -> float:
    """Seconds for the loss and its gradient on 8192 rows."""
    with double():
        problem = Problem(family, MLP((32, 32, 32)), jnp.float64)
        params = problem.init(jax.random.PRNGKey(0))
        batch = fixed(family, Sampling(6144, 1024, 1, "sobol"), jnp.float64)
        weights = dict.fromkeys(family.terms, jnp.ones((1, 1)))
        run = jax.jit(jax.grad(problem.loss))
        jax.block_until_ready(run(params, batch, weights))
        return _timed(lambda: jax.block_until_ready(run(params, batch, weights)), 20)


def _timed(function: Callable[[], Any], repeats: int = 3) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return min(times)


def _number(value: float) -> float | None:
    return float(value) if value == value else None


def _line(row: dict[str, Any]) -> str:
    error, estimate = row["error"], row["estimate"]["error"]
    known = "-" if estimate is None else f"{estimate:.1e}"
    return (
        f"{row['family']:12}{row['seed']:5}{error['mean']:10.1e}{error['dense_max']:10.1e}"
        f"{known:>10}{row['seconds']:9.0f}"
    )


def _write(out: Path | None, found: dict[str, Any]) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, found)


if __name__ == "__main__":
    main()
