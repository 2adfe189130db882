"""Families outside the paper: what `fast` makes of equations that it was not made for.

    python -m benchmarks.zoo [--families a,b] [--seed 0] [--seconds 50] [--out results/zoo-cpu.json]

One and two coordinates, one to three coefficients, one and two outputs, linear and not, initial and
boundary values, written as a user would write them: conditions as terms, no help for the network.
Each is trained once in this process; compilation counts, since no two share a program.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import lcpinn as lc
from benchmarks.stamp import stamp
from lcpinn.evaluation import evaluate, validate
from lcpinn.files import write_json


class AdvectionDiffusion(lc.Family):
    """u_t + c u_x = ν u_xx on a circle, for every speed and viscosity."""

    domain = lc.Box(t=(0.0, 1.0), x=lc.Periodic(-1.0, 1.0))
    parameters = lc.Uniform(c=(0.5, 2.0)) & lc.LogUniform(nu=(0.005, 0.05))

    @lc.interior
    def equation(self, u_t, u_x, u_xx, c, nu):
        return u_t + c * u_x - nu * u_xx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x)

    def exact(self, t, x, c, nu):
        return jnp.exp(-nu * jnp.pi**2 * t) * jnp.sin(jnp.pi * (x - c * t))


class Spring(lc.Family):
    """u'' + 2 d u' + 400 u = 0 over six periods, for every damping."""

    domain = lc.Box(t=(0.0, 2.0))
    parameters = lc.Uniform(d=(0.1, 2.0))

    @lc.interior
    def equation(self, u, u_t, u_tt, d):
        return u_tt + 2 * d * u_t + 400 * u

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 1.0, u_t

    def exact(self, t, d):
        w = jnp.sqrt(400 - d**2)
        return jnp.exp(-d * t) * (jnp.cos(w * t) + d / w * jnp.sin(w * t))


class Duffing(lc.Family):
    """u'' + u + e u³ = 0 over three to four periods, for every stiffness e."""

    domain = lc.Box(t=(0.0, 20.0))
    parameters = lc.Uniform(e=(0.1, 1.0))

    @lc.interior
    def equation(self, u, u_tt, e):
        return u_tt + u + e * u**3

    @lc.on(t=0.0)
    def start(self, u, u_t):
        return u - 1.0, u_t

    def reference(self, t, e):
        slope = lambda _, y: [y[1], -y[0] - e * y[0] ** 3]
        solved = solve_ivp(
            slope, (0, 20), [1.0, 0.0], "DOP853", dense_output=True, rtol=1e-12, atol=1e-13
        )
        return solved.sol(np.asarray(t))[0]


class Heat(lc.Family):
    """u_t = a u_xx with two decaying modes, for every conductivity."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.LogUniform(a=(0.02, 0.2))

    @lc.interior
    def equation(self, u_t, u_xx, a):
        return u_t - a * u_xx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x) - 0.5 * jnp.sin(3 * jnp.pi * x)

    @lc.on(x=(0.0, 1.0))
    def wall(self, u):
        return u

    def exact(self, t, x, a):
        mode = lambda n: jnp.exp(-a * (n * jnp.pi) ** 2 * t) * jnp.sin(n * jnp.pi * x)
        return mode(1) + 0.5 * mode(3)


class Wave(lc.Family):
    """u_tt = c² u_xx, for every speed."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(c=(1.0, 3.0))

    @lc.interior
    def equation(self, u_tt, u_xx, c):
        return u_tt - c**2 * u_xx

    @lc.on(t=0.0)
    def start(self, u, u_t, x):
        return u - jnp.sin(jnp.pi * x), u_t

    @lc.on(x=(0.0, 1.0))
    def wall(self, u):
        return u

    def exact(self, t, x, c):
        return jnp.sin(jnp.pi * x) * jnp.cos(c * jnp.pi * t)


class Acoustics(lc.Family):
    """p_t = a v_x, v_t = a p_x: two fields, for every speed."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.5, 2.0))
    outputs = ("p", "v")

    @lc.interior
    def equation(self, p_t, p_x, v_t, v_x, a):
        return p_t - a * v_x, v_t - a * p_x

    @lc.on(t=0.0)
    def start(self, p, v, x):
        return p - jnp.sin(jnp.pi * x), v

    @lc.on(x=(0.0, 1.0))
    def wall(self, p):
        return p

    def exact(self, t, x, a):
        phase = a * jnp.pi * t
        return jnp.sin(jnp.pi * x) * jnp.cos(phase), jnp.cos(jnp.pi * x) * jnp.sin(phase)


class Fisher(lc.Family):
    """u_t = u_xx + r u (1 - u): a travelling front, for every growth rate."""

    domain = lc.Box(t=(0.0, 1.0), x=(-5.0, 5.0))
    parameters = lc.Uniform(r=(1.0, 6.0))

    @lc.interior
    def equation(self, u, u_t, u_xx, r):
        return u_t - u_xx - r * u * (1 - u)

    @lc.on(t=0.0)
    def start(self, u, x, r):
        return u - self.exact(0.0, x, r)

    @lc.on(x=(-5.0, 5.0))
    def wall(self, u, t, x, r):
        return u - self.exact(t, x, r)

    def exact(self, t, x, r):
        return (1 + jnp.exp(jnp.sqrt(r / 6) * x - 5 * r / 6 * t)) ** -2


class Transport(lc.Family):
    """u_t + c u_x = d u_xx - r u: three coefficients."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(c=(0.0, 1.0), d=(0.05, 0.2), r=(0.0, 2.0))

    @lc.interior
    def equation(self, u, u_t, u_x, u_xx, c, d, r):
        return u_t + c * u_x - d * u_xx + r * u

    @lc.on(t=0.0)
    def start(self, u, x, c, d, r):
        return u - self.exact(0.0, x, c, d, r)

    @lc.on(x=(0.0, 1.0))
    def wall(self, u, t, x, c, d, r):
        return u - self.exact(t, x, c, d, r)

    def exact(self, t, x, c, d, r):
        return jnp.exp(-(r + 4 * d) * t) * jnp.cos(2 * (x - c * t))


ZOO: dict[str, type[lc.Family]] = {
    made.__name__.lower(): made
    for made in (AdvectionDiffusion, Spring, Duffing, Heat, Wave, Acoustics, Fisher, Transport)
}


def main(arguments: Sequence[str] | None = None) -> None:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("benchmarks.zoo", description=about)
    parser.add_argument("--families", help=f"of {', '.join(ZOO)}; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="time limit of each")
    parser.add_argument("--out", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    names = list(ZOO) if given.families is None else given.families.split(",")
    unknown = [name for name in names if name not in ZOO]
    if unknown:
        sys.exit(f"no family {unknown[0]!r} here; there are {', '.join(ZOO)}")
    options = sys.argv[1:] if arguments is None else list(arguments)
    command = shlex.join(["python", "-m", "benchmarks.zoo", *options])
    found: dict[str, Any] = {"benchmark": "zoo", "stamp": stamp(given.seed), "command": command}
    found["families"] = []
    print(f"{'family':20}{'mean':>10}{'largest':>10}{'residual':>10}{'seconds':>9}")
    for name in names:
        found["families"].append(train(name, given.seed, given.seconds))
        print(_line(found["families"][-1]), flush=True)
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(given.out, found)


def train(name: str, seed: int, seconds: float | None) -> dict[str, Any]:
    family, begun = ZOO[name](), time.perf_counter()
    solution = lc.train(
        family, lc.protocol.fast(family, seconds=seconds), seed=seed, progress=False
    )
    spent = time.perf_counter() - begun
    return {
        "family": name,
        "equation": (family.__doc__ or "").split("\n")[0],
        "error": evaluate(solution),
        "validation": validate(solution),
        "seconds": spent,
        "stopped": solution.run["training"]["stopped"],
    }


def _line(row: dict[str, Any]) -> str:
    error = row["error"]
    numbers = (error["mean"], error["dense_max"], row["validation"]["residual"])
    return f"{row['family']:20}" + "".join(f"{v:10.1e}" for v in numbers) + f"{row['seconds']:9.0f}"


if __name__ == "__main__":
    main()
