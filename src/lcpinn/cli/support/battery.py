"""A battery of checks for a family that somebody else wrote, before anything is trained.

A family that was built has names that bind; whether its terms are finite where training will look,
can be traced and differentiated, and agree with its exact solution, shows only when they are run.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lcpinn.domain import Box, Face
from lcpinn.evaluation import evaluation_points, grid_values
from lcpinn.family import Family
from lcpinn.interpreted import Seldom
from lcpinn.jet import expand
from lcpinn.locate import in_users_file, one_line
from lcpinn.network import MLP, FiLM
from lcpinn.precision import double
from lcpinn.quadrature import tensor
from lcpinn.rows import Problem, pointwise
from lcpinn.sampling import Batch, Points, Sampling, fixed, with_normals
from lcpinn.spectral.determinacy import FRAMES as DETERMINED_IN
from lcpinn.spectral.determinacy import determinacy
from lcpinn.spectral.interfaces import interfaces
from lcpinn.spectral.linearisation import linearised
from lcpinn.term import Term

TOLERANCE = 1e-8  # of an exact solution's residual, relative to the size of what cancels in it
NETWORK = MLP(widths=(6, 6), parameters=FiLM(hidden=4))
INSIDE = Sampling(interior=16, face=8, num_lambda=4, rule="sobol", seed=3)
MOST_CORNERS = 1024
NUM_SETTINGS, NUM_PLACES = 16, 32  # where an exact solution is put into the terms

# What every function here runs once; the compiler need not optimise it.
_QUICK = {"xla_backend_optimization_level": 0}


@dataclass(frozen=True)
class Finding:
    """One check's outcome; `applies` is False where there was nothing to check."""

    name: str
    ok: bool
    detail: str
    applies: bool = True


class _Wrong(Exception):
    """The family fails the check, for this reason."""


class _Void(Exception):
    """The check does not apply, for this reason."""


def check(family: Family) -> list[Finding]:
    """Run every check; each finding has a name, whether it is ok, and one line of detail."""
    bench = _Bench(family)
    findings = []
    traced = True
    with double():
        for name, step in CHECKS.items():
            findings.append(_find(name, step if traced else _not_tried, bench))
            traced = traced and (step is not _traces or findings[-1].ok)
    return findings


def _find(name: str, step: Callable[[_Bench], str], bench: _Bench) -> Finding:
    try:
        return Finding(name, True, step(bench))
    except _Void as reason:
        return Finding(name, True, str(reason), applies=False)
    except _Wrong as reason:
        return Finding(name, False, str(reason))
    except Exception as error:  # the user's own code may raise anything
        return Finding(name, False, bench.one_line(error))


def _not_tried(bench: _Bench) -> str:
    raise _Void("not tried: the family has to work under jit and vmap first")


# What the checks share: a small random network, points inside and points at the corners.


class _Bench:
    def __init__(self, family: Family):
        self.family = family
        self.problem = Problem(family, NETWORK, jnp.float64)

    @cached_property
    def params(self) -> Any:
        """Random, so that lambda and every bias matter."""
        rng = np.random.default_rng(0)
        shapes = jax.eval_shape(self.problem.init, jax.random.PRNGKey(0))
        return jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.normal(size=leaf.shape)), shapes)

    @cached_property
    def inside(self) -> Batch:
        """Each row one point with a lambda of its own, where the terms hold."""
        return fixed(self.family, INSIDE, jnp.float64)

    @cached_property
    def corners(self) -> Batch:
        """Every corner of the domain, on the terms' faces, with every corner of the parameters."""
        groups = self.family.groups
        batch = {w: self._corners(terms[0]) for w, terms in groups.items() if w != "data"}
        return with_normals(self.family, batch)

    def _corners(self, term: Term) -> Points:
        domain = self.family.domain
        settings = tensor([np.array(ends) for ends in self.family.parameters.ranges.values()])
        if not isinstance(domain, Box):
            # A shape has no corners in general: points of it, or of its boundary.
            settings = np.repeat(settings[:MOST_CORNERS], max(1, 64 // len(settings)), axis=0)
            face = term.faces[0] if term.faces else None
            return self.points(domain.sobol(len(settings), 29, face=face, parameters=settings),
                               settings)  # fmt: skip
        places = tensor([np.array(ends) for ends in domain.ranges.values()])
        if term.faces:
            axes = {name: i for i, name in enumerate(domain.names)}
            on = [places[:, axes[f.name]] == f.value for f in term.faces if isinstance(f, Face)]
            places = places[np.any(on, axis=0)]
        pairs = np.array([[*p, *lam] for p, lam in itertools.product(places, settings)])
        if len(pairs) > MOST_CORNERS:
            pairs = np.random.default_rng(0).permutation(pairs)[:MOST_CORNERS]
        return self.points(pairs[:, : domain.dim], pairs[:, domain.dim :])

    def points(self, places: np.ndarray, parameters: np.ndarray) -> Points:
        """One point at each of the parameters, as a batch has them."""
        num, prior = len(places), self.family.weights
        weights = np.zeros((num, 0)) if prior is None else prior.sobol(num, 5)
        arrays = (places[:, None], parameters, weights, np.full((num, 1), 1 / num))
        x, lam, w, quadrature = map(jnp.asarray, arrays)
        return Points(x, lam, w, quadrature, jnp.zeros((num, 1, 0)))

    @cached_property
    def probed(self) -> dict[str, dict[str, Any]]:
        """Residuals, Taylor coefficients and features, inside and at the corners."""
        places = {
            where: jax.tree.map(lambda *both: jnp.concatenate(both), points, self.corners[where])
            if where in self.corners else points
            for where, points in self.inside.items()
        }  # fmt: skip
        run = Seldom(self.probe, jax.jit(self.probe, compiler_options=_QUICK))
        return self._split(jax.device_get(run(self.params, places)))

    def _split(self, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What was computed for all points at once, apart."""
        parts: dict[str, dict[str, Any]] = {place: {} for place in ("inside", "corners")}
        for kind, by_key in values.items():
            for part in parts.values():
                part[kind] = {}
            for key, value in by_key.items():
                where = self.family.terms[key].where if kind == "residuals" else key
                axis = 0 if kind == "residuals" else 1  # coefficients come before rows
                num = len(self.inside[where].coordinates)
                inside, corners = np.split(value, [num], axis=axis)
                parts["inside"][kind][key] = inside
                if where in self.corners:
                    parts["corners"][kind][key] = corners
        return parts

    def probe(self, params: Any, batch: Batch) -> dict[str, Any]:
        family, problem = self.family, self.problem
        values: dict[str, Any] = {"features": {}, "series": {}, "residuals": {}}
        for where, points in batch.items():
            terms = family.groups[where]
            orders = family.orders(terms)
            values["features"][where] = problem.features(points, orders).coefficients
            values["series"][where] = series = problem.outputs(params, points, orders)
            for term in terms:
                values["residuals"][term.name] = pointwise(term, series, orders, points)
        return values

    def finite(self, kind: str, place: str, owner: str) -> None:
        """Complain about the first value that is not finite, and where it is."""
        batch = self.inside if place == "inside" else self.corners
        for key, values in self.probed[place][kind].items():
            residual = kind == "residuals"
            row = 0 if residual else 1  # coefficients come before rows
            bad = np.argwhere(~np.isfinite(np.moveaxis(values, row, 0)))
            if len(bad):
                where = self.family.terms[key].where if residual else key
                name = f"the term {key!r}" if residual else f"{owner} ({key})"
                raise _Wrong(f"{name}: NaN or infinite at {self.at(batch[where], int(bad[0][0]))}")

    def at(self, points: Points, row: int) -> str:
        """One row's coordinates and coefficients in words."""
        family = self.family
        names = (*family.domain.names, *family.parameters.names)
        values = (*np.asarray(points.coordinates)[row, 0], *np.asarray(points.parameters)[row])
        return ", ".join(f"{n} = {float(v):.6g}" for n, v in zip(names, values, strict=True))

    def one_line(self, error: Exception) -> str:
        """What went wrong in the user's code, and where."""
        hints = {
            "TracerBoolConversionError": "; choose with jnp.where instead of if",
            "TracerArrayConversionError": "; use jax.numpy instead of numpy",
            "ConcretizationTypeError": "; do without float() and int()",
        }
        file = inspect.getsourcefile(type(self.family))
        line = file and in_users_file(error, Path(file))
        return (line or one_line(error)) + hints.get(type(error).__name__, "")


# The checks, in the order in which they are run and shown.


def _names(bench: _Bench) -> str:
    """Every name binds: a family that did not could not have been built."""
    terms = bench.family.all_terms.values()
    return ", ".join(f"{t.name}({', '.join(dict.fromkeys(_arguments(t)))})" for t in terms)


def _arguments(term: Term) -> Iterable[str]:
    return (a.name for a in term.arguments)


def _traces(bench: _Bench) -> str:
    """Terms work under jit and vmap, and give the same values as one at a time."""
    family, inside = bench.family, bench.probed["inside"]
    for where, terms in family.groups.items():
        points, orders = bench.inside[where], family.orders(terms)
        for term, row in itertools.product(terms, range(min(2, len(points.parameters)))):
            one = term.residual(
                jnp.asarray(inside["series"][where][:, row, 0]),
                orders,
                points.coordinates[row, 0],
                points.parameters[row],
                points.observed[row, 0],
                None if points.normals is None else points.normals[row, 0],
            )
            many = inside["residuals"][term.name][row, 0]
            if not np.allclose(one, many, rtol=1e-6, atol=1e-9, equal_nan=True):
                raise _Wrong(
                    f"the term {term.name!r} is {np.asarray(one)} by itself but {many} under jit: "
                    "does it depend on anything besides its arguments?"
                )
    return "one at a time, batched and compiled give the same"


def _derivatives(bench: _Bench) -> str:
    """Every derivative that a term asks for exists and is finite, for a smooth network."""
    bench.finite("series", "inside", "the solution or a derivative of it")
    names = [a.name for t in bench.family.terms.values() for a in t.arguments if a.kind == "output"]
    num = sum(p.coordinates.shape[0] for p in bench.inside.values())
    return f"{', '.join(dict.fromkeys(names)) or 'none asked for'}: finite at {num} points"


def _inside(bench: _Bench) -> str:
    """Rows lie in the domain, wherever the page moves them to, and are finite there."""
    family = bench.family
    if family.collocate is not None and "interior" in bench.inside:
        points = bench.inside["interior"]
        move = jax.vmap(lambda place, lam: family.call("collocate", place, lam))
        moved = np.asarray(move(points.coordinates[:, 0], points.parameters))
        if len(strays := _outside(family, moved)):
            place = _words(family.domain.names, strays[0])
            raise _Wrong(f"collocate moves a row to {place}, outside the domain")
    bench.finite("residuals", "inside", "")
    return "every term is finite at random points and parameters"


def _at_corners(bench: _Bench) -> str:
    """Corners are where logarithms, roots and quotients break."""
    bench.finite("residuals", "corners", "")
    num = sum(len(points.coordinates) for points in bench.corners.values())
    return f"every term is finite at {num} corners of domain x parameters"


def _features(bench: _Bench) -> str:
    if bench.family.features is None:
        raise _Void("the network sees the coordinates: there is no features method")
    bench.finite("features", "inside", "features or a derivative of them")
    bench.finite("features", "corners", "features or a derivative of them")
    num = next(iter(bench.probed["inside"]["features"].values())).shape[-1]
    return f"{num} features, finite inside and at the corners"


def _ansatz(bench: _Bench) -> str:
    family = bench.family
    if family.ansatz is None:
        raise _Void("there is no ansatz method")
    bench.finite("series", "inside", "the ansatz or a derivative of it")
    bench.finite("series", "corners", "the ansatz or a derivative of it")
    void = [name for name in family.all_terms if name not in family.terms]
    made = f"makes {', '.join(void)} void" if void else "makes no term void"
    return f"finite inside and at the corners; {made}"


def _gradient(bench: _Bench) -> str:
    """A value may be finite where its derivative is not: behind a where() with a root in it."""

    def size(params: Any, batch: Batch, names: Sequence[str]) -> Array:
        """The gradient of these terms' sum, squared and summed."""

        def total(params: Any) -> Array:
            residuals = bench.problem.residuals(params, batch)
            return sum((jnp.sum(residuals[name]) for name in names), jnp.zeros(()))

        leaves = jax.tree.leaves(jax.grad(total)(params))
        return jnp.sum(jnp.stack([jnp.sum(leaf**2) for leaf in leaves]))

    # All of them at once, and one by one only where it remains to be said which it is.
    def of(*names: str) -> float:
        some = partial(size, names=names)
        run = Seldom(some, jax.jit(some, compiler_options=_QUICK))
        return float(run(bench.params, bench.inside))

    names = tuple(bench.family.terms)
    if not np.isfinite(of(*names)):
        for name in names:
            if not np.isfinite(of(name)):
                raise _Wrong(f"the gradient of the term {name!r} is NaN or infinite")
    return "finite by the network's parameters, in every term"


def _exact(bench: _Bench) -> str:
    """The exact solution, differentiated like a network, leaves nothing in any term."""
    family = bench.family
    if family.exact is None:
        other = "a numeric reference" if family.reference is not None else "no exact solution"
        raise _Void(f"does not apply: there is {other}")
    _count_outputs(family)
    num = NUM_SETTINGS if family.parameters.dim else 1
    settings, worst = family.parameters.sobol(num, 11), 0.0
    terms = [term for term in family.all_terms.values() if term.where != "data"]
    places = [_rows_of(bench, term, settings) for term in terms]
    for term, points, (residual, size) in zip(
        terms, places, _leftovers(family, terms, places, settings), strict=True
    ):
        if not np.all(np.isfinite(residual)):
            at = bench.at(points, int(np.argwhere(~np.isfinite(residual))[0][0]))
            raise _Wrong(f"the term {term.name!r} of the exact solution is NaN or infinite at {at}")
        relative = np.abs(residual) / np.where(size > 0, size, 1)
        worst = max(worst, float(relative.max()))
        if relative.max() > TOLERANCE:
            row = int(np.unravel_index(relative.argmax(), relative.shape)[0])
            raise _Wrong(
                f"it leaves {np.abs(residual[row]).max():.2g} in the term {term.name!r} at "
                f"{bench.at(points, row)} ({relative.max():.0e} of its size there)"
            )
    where = " at every lambda tried" if num > 1 else ""
    return f"solves every term, to {worst:.0e} of its size{where}"


def _count_outputs(family: Family) -> None:
    point = jax.ShapeDtypeStruct((family.domain.dim,), jnp.float64)
    parameters = jax.ShapeDtypeStruct((family.parameters.dim,), jnp.float64)
    shape = jax.eval_shape(lambda p, lam: family.call("exact", p, lam), point, parameters).shape
    if shape != (len(family.outputs),):
        outputs = ", ".join(family.outputs)
        raise _Wrong(f"exact returns values of shape {shape} for the outputs {outputs}")


def _rows_of(bench: _Bench, term: Term, settings: np.ndarray) -> Points:
    """Points where the term holds, be it void by the ansatz: NUM_PLACES or so at every setting."""
    family, faces = bench.family, term.faces or (None,)
    each = NUM_PLACES // len(faces) + 1
    parameters = np.repeat(settings, each, axis=0)
    places = [family.domain.sobol(len(parameters), 7, face=f, parameters=parameters) for f in faces]
    by_setting = np.concatenate([p.reshape(len(settings), each, -1) for p in places], axis=1)
    parameters = np.repeat(settings, by_setting.shape[1], axis=0)
    points = bench.points(by_setting.reshape(len(parameters), -1), parameters)
    if not term.asks_normals:
        return points
    normals = family.domain.normals(points.coordinates[:, 0], points.parameters, term.faces, jnp)
    return points._replace(normals=normals[:, None])


def _leftovers(
    family: Family, terms: Sequence[Term], places: Sequence[Points], settings: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of every term the exact solution's residual (rows, c), and the size of what cancels in it.

    The size is |r(0)| + sum over a of |dr/du_a| max |u_a|, the largest at the row's own lambda: a
    solution that is smooth at one end of the range has nothing to hide behind a layer at the other.
    The largest derivative u_a is that over the whole domain: a condition like u_x = 0 at a wall has
    no size of its own.
    """
    parameters = np.repeat(settings, NUM_PLACES, axis=0)
    inside = family.domain.sobol(len(parameters), 13, parameters=parameters)

    def every(places: Sequence[Points], inside: Array, parameters: Array) -> list[Any]:
        """For each term r, r(0), dr/du and u at its rows, and u inside."""
        return [
            _parts(family, term, points, (inside, parameters) if term.faces else None)
            for term, points in zip(terms, places, strict=True)
        ]

    def by_setting(values: np.ndarray) -> np.ndarray:
        return values.reshape(len(settings), -1, *values.shape[1:])

    run = Seldom(every, jax.jit(every, compiler_options=_QUICK))
    for residual, *rest in jax.device_get(run(places, inside, parameters)):
        zero, slope, *series = map(by_setting, rest)
        largest = np.max([np.abs(u).max(1) for u in series], axis=0)
        with np.errstate(invalid="ignore"):
            size = np.nansum(np.abs(slope) * largest[:, None, None], axis=(3, 4)).max(1)
            constant = np.nan_to_num(np.abs(zero), posinf=0.0).max(1)
        yield residual, np.repeat(size + constant, zero.shape[1], axis=0)


def _parts(
    family: Family, term: Term, points: Points, elsewhere: tuple[Array, Array] | None
) -> tuple[Array, ...]:
    """A term's r, r(0), dr/du and u at its rows; u elsewhere, too, where that is asked for."""
    orders = family.orders([term])

    def series(point: Array, lam: Array) -> Array:
        return expand(lambda p: family.call("exact", p, lam), point, orders)

    def parts(point: Array, lam: Array, normal: Array | None) -> tuple[Array, ...]:
        u = series(point, lam)
        residual = lambda s: term.residual(s, orders, point, lam, normal=normal)
        return residual(u), residual(jnp.zeros_like(u)), jax.jacfwd(residual)(u), u

    normals = None if points.normals is None else points.normals[:, 0]
    own = jax.vmap(parts)(points.coordinates[:, 0], points.parameters, normals)
    return own if elsewhere is None else (*own, jax.vmap(series)(*elsewhere))


def _truth(bench: _Bench) -> str:
    """What evaluation compares with answers at any point, with finite numbers."""
    family = bench.family
    for lam in family.parameters.sobol(2, 23):
        places: Float[np.ndarray, "n dim"] = family.domain.sobol(8, 19, parameters=lam)
        values = family.truth(places, lam)
        if values is None:
            raise _Void("does not apply: evaluation shows the validation residual alone")
        if values.shape != (len(places), len(family.outputs)):
            raise _Wrong(f"its values have shape {values.shape} at {len(places)} points")
        if not np.all(np.isfinite(values)):
            row = np.argwhere(~np.isfinite(values))[0][0]
            raise _Wrong(f"it is NaN or infinite at {_words(family.domain.names, places[row])}")
    return f"{'exact' if family.exact is not None else 'reference'} gives finite numbers"


def _evaluation(bench: _Bench) -> str:
    """The grids of the evaluation name what there is and lie where the network is trained."""
    family, wanted = bench.family, bench.family.evaluation
    grids = {"points": (wanted.points, family.domain.names, "coordinate")}
    grids["at"] = (wanted.at, family.parameters.names, "parameter")
    for attribute, (given, names, kind) in grids.items():
        if given is None:
            continue
        unknown = [n for n in given if n not in names] + [n for n in names if n not in given]
        if unknown:
            verb = "lacks the" if unknown[0] in names else "names no"
            raise _Wrong(f"evaluation.{attribute} {verb} {kind}: {unknown[0]!r}")
    settings, places = grid_values(family), evaluation_points(family)
    if len(strays := _outside(family, places)):
        place = _words(family.domain.names, strays[0])
        raise _Wrong(f"evaluation.points has {place}, outside the domain")
    strange = ~np.asarray(family.parameters.contains(settings))
    if strange.any():
        setting = _words(family.parameters.names, settings[strange][0])
        raise _Wrong(f"evaluation.at has {setting}, outside the prior")
    return f"{len(places)} points, {len(settings)} settings, inside domain and prior"


def _outside(family: Family, places: np.ndarray) -> np.ndarray:
    """Those of the places that lie outside the domain's ranges, by more than rounding."""
    low, high = np.array(list(family.domain.ranges.values())).T
    slack = 1e-6 * (high - low)
    return places[~np.all((places >= low - slack) & (places <= high + slack), axis=1)]


def _one_solution(bench: _Bench) -> str:
    """The terms leave nothing open and do not contradict each other."""
    known = determinacy(bench.family)
    if known.undecided:
        raise _Void(known.reason)
    if known.reason:
        raise _Wrong(known.reason)
    dim = bench.family.domain.dim
    if dim not in DETERMINED_IN:
        raise _Void(f"not tried with {dim} coordinates")
    outflow = f"; nothing is asked at {known.outflow}: a free outflow" if known.outflow else ""
    return (known.note or "the terms determine one solution, at the settings tried") + outflow


def _jumps(bench: _Bench) -> str:
    """What a page means where coefficients jump depends on how it is written: say what is taken."""
    if not isinstance(bench.family.domain, Box):
        raise _Void("not looked for: the domain is no box")
    jumps = interfaces(linearised(bench.family))
    return "; ".join(map(str, jumps)) or "no coefficient of a highest derivative jumps"


def _words(names: Iterable[str], values: Iterable[Any]) -> str:
    return ", ".join(f"{n} = {float(v):.6g}" for n, v in zip(names, values, strict=True))


CHECKS: dict[str, Callable[[_Bench], str]] = {
    "names": _names,
    "jit and vmap": _traces,
    "derivatives": _derivatives,
    "inside": _inside,
    "corners": _at_corners,
    "features": _features,
    "ansatz": _ansatz,
    "gradient": _gradient,
    "exact solution": _exact,
    "truth": _truth,
    "evaluation": _evaluation,
    "one solution": _one_solution,
    "jumps": _jumps,
}
