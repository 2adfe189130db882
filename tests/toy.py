"""Small families that several tests share, and a network written without any series."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import lcpinn as lc
from lcpinn.family import Family
from lcpinn.network import MLP, Concat, FiLM, Network
from lcpinn.rows import Problem
from lcpinn.rundir import RunDirectory
from lcpinn.term import Mark

SMALL = MLP(widths=(5, 4), parameters=FiLM(hidden=3))

# Tests run everything once: compiling dominates, so the compiler need not optimise.
quick = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


Kind = TypeVar("Kind")


def of_kind(kind: type[Kind], value: object) -> Kind:
    """The value, which a test takes for one of this kind and fails if it is not."""
    assert isinstance(value, kind)
    return value


@functools.cache
def the(make: Callable[[], lc.Family]) -> Any:
    """One instance for all tests that only ask it: what is found out about a family, and compiled
    for it, is kept with the instance."""
    return make()


class Decay(lc.Family):
    """u' + k u = 0, u(0) = 1."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))
    evaluation = lc.Evaluation(points={"x": 17}, at={"k": (0.5, 1.0, 2.0)}, dense=9)

    @lc.interior
    def equation(self, u, u_x, k):
        return u_x + k * u

    @lc.on(x=0.0)
    def start(self, u):
        return u - 1.0

    def exact(self, x, k):
        return jnp.exp(-k * x)


class Oscillator(lc.Family):
    """u'' + 2 d u' + 400 u = 0, u(0) = 1, u'(0) = 0, for every damping d."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(d=(0.1, 2.0))

    @lc.interior
    def equation(self, u, u_t, u_tt, d):
        return u_tt + 2 * d * u_t + 400 * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0

    @lc.on(t=0.0)
    def velocity(self, u_t):
        return u_t


class Coupled(lc.Family):
    """u_t = a v_x, v_t = b u_x: two outputs, one with an underscore, and two coefficients."""

    domain = lc.Box(t=(0.0, 0.5), x=(-1.0, 2.0))
    parameters = lc.Uniform(a=(1.0, 3.0)) & lc.LogUniform(b=(0.1, 1.0))
    outputs = ("u", "v_air")

    @lc.interior
    def equation(self, u_t, u_x, v_air_t, v_air_x, a, b):
        return u_t - a * v_air_x, v_air_t - b * u_x

    @lc.on(t=0.0)
    def start(self, u, v_air, x):
        return u - jnp.sin(x), v_air

    @lc.on(x=(-1.0, 2.0))
    def wall(self, u, t, x, a, b):
        return u - jnp.sin(x) * jnp.cos(jnp.sqrt(a * b) * t)

    def exact(self, t, x, a, b):
        c = jnp.sqrt(a * b)
        return jnp.sin(x) * jnp.cos(c * t), c / a * jnp.cos(x) * jnp.sin(c * t)


class Ring(lc.Family):
    """u_t + c u_x = 0 on a circle."""

    domain = lc.Box(t=(0.0, 1.0), x=lc.Periodic(-1.0, 1.0))
    parameters = lc.Uniform(c=(0.5, 2.0))

    @lc.interior
    def equation(self, u_t, u_x, c):
        return u_t + c * u_x

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x)


class Annulus(lc.Family):
    """Δu = 0 between circles, u = 1 on the inner one, of radius r, and u_n = 0 on the outer."""

    pipe = lc.Ball(x=0.0, y=0.0, radius="r")
    casing = lc.Ball(x=0.0, y=0.0, radius=1.0)
    domain = casing - pipe
    parameters = lc.Uniform(r=(0.2, 0.5))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on(pipe)
    def hot(self, u):
        return u - 1.0

    @lc.on(casing)
    def insulated(self, u_n):
        return u_n

    def exact(self, x, y, r):
        return 1.0 + 0.0 * x


class Bratu(lc.Family):
    """u'' + a eᵘ = 0, u(0) = u(1) = 0: two branches, the lower one up to its fold at a = 3.51."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.5, 3.4))

    @lc.interior
    def equation(self, u, u_xx, a):
        return u_xx + a * jnp.exp(u)

    @lc.on()
    def wall(self, u):
        return u


class Moving(lc.Family):
    """u_t + c u_x = u_xx seen in a travelling frame; start and walls are imposed exactly."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 2.0))
    parameters = lc.Uniform(c=(0.5, 2.0))

    @lc.interior
    def equation(self, u_t, u_x, u_xx, c):
        return u_t + c * u_x - u_xx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x / 2)

    @lc.on(x=(0.0, 2.0))
    def wall(self, u):
        return u

    @lc.on(x=2.0)
    def flux(self, u_x, t):
        return u_x + t

    def features(self, t, x, c):
        return x - c * t, jnp.sin(x), t * x

    def ansatz(self, u, t, x, c):
        return jnp.exp(-c * t) * jnp.sin(jnp.pi * x / 2) + t * x * (2 - x) * u


class Observed(lc.Family):
    """u' = k u with observations that know k but not m."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(m=(2.0, 3.0), k=(0.0, 1.0))
    data = lc.Data(x=[0.0, 0.5, 1.0], k=[0.9, 0.2, 0.4], u=[1.0, 2.0, 4.0])

    @lc.interior
    def equation(self, u, u_x, k, m):
        return u_x - k * u * m


class Poisson(lc.Family):
    """u_xx = 1 with u = 0 at both ends: no parameters, so trained over its weights."""

    domain = lc.Box(x=(0.0, 1.0))

    @lc.interior
    def equation(self, u_xx):
        return u_xx - 1.0

    @lc.on()
    def boundary(self, u):
        return u


class Bent(Poisson):
    """With its solution, to know the error by: a study of it takes moments."""

    def exact(self, x):
        return x * (x - 1) / 2


class Both(Oscillator):
    """Conditioned on the damping and on the loss weights."""

    weights = lc.Simplex()


EVERY = (Oscillator, Coupled, Ring, Moving, Observed, Poisson, Both)


class Spiral(lc.Family):
    """u' = a v - b u, v' = -a u - b v: two outputs, one coefficient on a logarithmic range."""

    domain = lc.Box(t=(0.0, 2.0))
    parameters = lc.Uniform(a=(1.0, 3.0)) & lc.LogUniform(b=(0.05, 1.0))
    outputs = ("u", "v")

    @lc.interior
    def equation(self, u, v, u_t, v_t, a, b):
        return u_t - a * v + b * u, v_t + a * u + b * v

    @lc.on(t=0.0)
    def start(self, u, v):
        return u - 1.0, v

    def exact(self, t, a, b):
        return jnp.exp(-b * t) * jnp.cos(a * t), -jnp.exp(-b * t) * jnp.sin(a * t)


def probe(names, mark=None, **attributes):
    """A family with one term, whose residual has the named values as components."""

    def components(self, *args):
        return args

    values: Any = components  # to which attributes are given

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    values.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])
    values._lcpinn_mark = mark or Mark(None)
    return type("Probe", (Family,), {"values": values, **attributes})()


def perturbed(problem, scale=1.0):
    """Random network parameters away from their start: lambda and every bias matter."""
    rng = np.random.default_rng(0)

    def leaf(shape):
        values = rng.normal(size=shape.shape) / np.sqrt(max(shape.shape[0], 2))
        return jnp.asarray(scale * values, shape.dtype)

    return jax.tree.map(leaf, jax.eval_shape(problem.init, jax.random.key(0)))


def double(family: Family, network: Network = SMALL):
    """The problem in double precision, with perturbed network parameters."""
    problem = Problem(family, network, jnp.float64)
    return problem, perturbed(problem)


def plain(problem, params, point, parameters, weights=()):
    """The solution's outputs at one point: the network's formula without Taylor series."""
    family, network = problem.family, problem.network
    names = dict(zip(family.domain.names, point, strict=True)) | {"point": point}
    names |= dict(zip(family.parameters.names, parameters, strict=True))
    h = _features(family, names)
    lam = {}
    if family.parameters.dim:
        lam["parameters"] = family.parameters.normalise(parameters)
    if family.weights is not None:
        lam["weights"] = 2 * jnp.asarray(weights) - 1
    generated = []
    for role, values in lam.items():
        how = getattr(network, role)
        if isinstance(how, Concat):
            h = jnp.concatenate([h, values])
        else:
            generated.append(_generated(how, params["conditioning"][role], values))
    activation = {"tanh": jnp.tanh, "sine": jnp.sin}[network.activation]
    start = 0
    for layer, width in zip(params["layers"], network.widths, strict=False):
        z = layer["w"].T @ h + layer["b"]
        for flat in generated:
            gamma, beta = flat[start : start + width], flat[start + width : start + 2 * width]
            z = (1 + gamma) * z + beta
        start += 2 * width
        h = activation(z)
    out = params["layers"][-1]["w"].T @ h + params["layers"][-1]["b"]
    if family.ansatz is not None:
        out = _by_name(family.ansatz, names | dict(zip(family.outputs, out, strict=True)))
    return out


def _features(family, names):
    if family.features is not None:
        return _by_name(family.features, names)
    values = []
    for name, (low, high) in family.domain.ranges.items():
        s = (names[name] - low) / (high - low)
        angle = 2 * math.pi * s
        periodic = name in family.domain.periodic
        values += [jnp.sin(angle), jnp.cos(angle)] if periodic else [2 * s - 1]
    return jnp.stack(values)


def _generated(film, its, lam):
    if not film.degree:
        return its["w1"].T @ jnp.tanh(its["w0"].T @ lam + its["b0"]) + its["b1"]
    orders = np.indices((film.degree + 1,) * len(lam)).reshape(len(lam), -1).T
    orders = [tuple(o) for o in orders if 0 < sum(o) <= film.degree]
    orders.sort(key=lambda o: (sum(o), o))
    angles = jnp.arccos(lam)
    products = [jnp.prod(jnp.cos(jnp.array(o) * angles)) for o in orders]
    return its["w"].T @ jnp.stack(products)


def _by_name(function, names):
    value = function(*(names[a] for a in inspect.signature(function).parameters))
    return jnp.stack(value if isinstance(value, tuple) else (value,))


class Interrupted(Exception):
    """What ends a run in `interrupt_after`."""


def interrupt_after(monkeypatch, num):
    """Runs end with `Interrupted` when the checkpoint of this number is written, once.

    All checkpoints are in the list that is returned, those after it too: where, and the state.
    """
    save, saved = RunDirectory.save, []

    def save_and_break(self, where, state):
        save(self, where, state)
        saved.append((where, state))
        if len(saved) == num:
            raise Interrupted

    monkeypatch.setattr(RunDirectory, "save", save_and_break)
    return saved


def subjaxprs(jaxpr):
    """The jaxpr and every one inside it (jit, vmap, loops)."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    yield jaxpr
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                    yield from subjaxprs(inner)


def equations(function, *args):
    """Every operation that tracing the function records."""
    return [e for j in subjaxprs(jax.make_jaxpr(function)(*args)) for e in j.eqns]


class Bubble(lc.Family):
    """Δu = 0 outside of a ball of radius r in a cube."""

    domain = lc.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1)) - lc.Ball(x=0.1, y=0.0, z=0.0, radius="r")
    parameters = lc.Uniform(r=(0.2, 0.5))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on()
    def surface(self, u, x, y, z, r):
        return u - self.exact(x, y, z, r)

    def exact(self, x, y, z, r):
        return r / jnp.sqrt((x - 0.1) ** 2 + y**2 + z**2)


class Tunnel(lc.Family):
    """Δu = 0 in a strip that repeats itself along x, with a hole whose height is a coefficient."""

    strip = lc.Box(x=lc.Periodic(0.0, 2.0), y=(0.0, 1.0))
    hole = lc.Ball(x=1.0, y="h", radius=0.2)
    domain = strip - hole
    parameters = lc.Uniform(h=(0.4, 0.6))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on(strip)
    def walls(self, u):
        return u

    @lc.on(hole)
    def rim(self, u):
        return u - 1.0
