"""What a user writes: a PDE with its knobs, on one page.

A `Family` names its coordinates (`domain`), its coefficients (`parameters`) and its residual terms.
Terms are methods marked with `@interior` or `@on(...)`; their arguments are bound by name, so that
the signature alone says which derivatives of which outputs are needed, and a misspelt name fails
when the family is built rather than when it is trained.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from lcpinn.domain import Face, Part, Region, bind
from lcpinn.errors import LcpinnError
from lcpinn.jet import Orders, expand, parse_derivative, polynomial
from lcpinn.naming import TERM, Names
from lcpinn.precision import double
from lcpinn.prior import Coefficients, Product, Simplex, Weights
from lcpinn.probing import are_affine, void_terms
from lcpinn.shape import Box, Shape
from lcpinn.spec import short
from lcpinn.term import Argument, Mark, Term, components, lookup

HELP = ("features", "ansatz", "collocate", "scale")  # hooks that only a network needs
RESERVED = ("point", "self", "data")


# -- Optional attributes -------------------------------------------------------------------------


class Data:
    """Observations, as the term `data`: `Data(x=[...], k=[...], u=[...])`, equal lengths.

    Coordinates and at least one output are needed. A parameter that is left out is unknown to the
    observation, which then holds for every value of it.
    """

    def __init__(self, **columns: Any):
        arrays = {name: np.array(v, dtype=np.float64).ravel() for name, v in columns.items()}
        lengths = {name: len(v) for name, v in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise LcpinnError(f"data: columns differ in length: {lengths}")
        bad = [name for name, v in arrays.items() if not np.all(np.isfinite(v))]
        if bad:
            raise LcpinnError(f"data: {', '.join(bad)} holds NaN or infinite values")
        self.columns: Mapping[str, np.ndarray] = arrays
        self.mass: np.ndarray | None = None  # of each observation, one in all; None is evenly

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Data({', '.join(self.columns)}; {len(self)} observations)"


@dataclass(frozen=True)
class Evaluation:
    """Where a solution is compared with the truth.

    points: coordinate -> how many equispaced values, or the values; at: parameter -> values (the
    grid of the mean error; without it a few of each parameter, from five parameters on a Sobol
    set); shots: draws of the loss weights that a prediction averages.
    """

    points: Mapping[str, int | tuple[float, ...]] | None = None
    at: Mapping[str, tuple[float, ...]] | None = None
    shots: int = 100
    dense: int = 181


# -- The family ----------------------------------------------------------------------------------


class _Built(type):
    """Checks a family as soon as its constructor has run, whoever wrote that constructor."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        _check_term_names(cls)  # first: a term called __init__ would be called as one
        family = super().__call__(*args, **kwargs)
        # How it was made tells two members of one class apart when a model is loaded.
        family.settings = _settings(cls, args, kwargs)
        family._build()
        return family


def _check_term_names(cls: type) -> None:
    """A term must not take the place of what a family itself has under that name."""
    for owner in cls.__mro__:
        for name, method in vars(owner).items():
            if hasattr(method, "_lcpinn_mark") and hasattr(Family, name):
                what = "that is the term of lc.Data" if name == "data" else "a family has its own"
                raise LcpinnError(f"{cls.__name__}: a term cannot be called {name!r}: {what}")


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _settings(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if cls.__init__ is object.__init__:
        return ""
    bound = inspect.signature(cls.__init__).bind(None, *args, **kwargs)
    bound.apply_defaults()
    return ", ".join(f"{k}={v!r}" for k, v in list(bound.arguments.items())[1:])


class Family(metaclass=_Built):
    """A differential equation for every setting of its coefficients.

    Write `domain`, `parameters` and the terms; optionally `outputs`, `weights` (a prior over the
    loss weights to condition on), `exact` or `reference`, `data`, `evaluation`, and what helps a
    network with this equation in particular: `features` (what it sees of the coordinates), `ansatz`
    (conditions imposed exactly), `collocate` (where in the box the interior rows should lie) and
    `scale` (what interior rows are multiplied by). Unless `setting_corners` is set to False, one of
    seven rows of least squares lies at a corner of the coefficients' range. See docs/design.md.
    """

    # No annotation of `domain` would hold for both: a page assigns a Shape to the class; _build,
    # from which a type checker infers it, assigns the Domain to the instance.
    parameters: Coefficients = Product(())
    outputs: tuple[str, ...] = ("u",)
    weights: Weights | None = None
    data: Data | None = None
    value_targets: Callable[[Any, Any], Array] | None = None  # these four: see `compared_with`
    setting_quantiles: np.ndarray | None = None
    setting_corners: bool = True
    dense_at_ends: bool = False
    evaluation: Evaluation = Evaluation()

    settings: str = ""  # the constructor's arguments, in words
    _weighted: bool = True  # whether there may be a prior over loss weights

    features: Callable[..., Any] | None = None
    ansatz: Callable[..., Any] | None = None
    collocate: Callable[..., Any] | None = None
    scale: Callable[..., Any] | None = None
    exact: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(self).__name__).lower()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.domain!r}, {self.parameters!r}, terms {self.term_names}>"

    # Building: everything that can be wrong with the names is found here.

    def _build(self, void: Set[str] | None = None) -> None:
        """Bind names and check them; `void`: the terms that the ansatz satisfies, where known."""
        title = type(self).__name__
        given = getattr(self, "domain", None)
        shape = given.shape if isinstance(given, Region) else given
        if not isinstance(shape, Shape):
            raise LcpinnError(f"{title} needs a domain, such as domain = lc.Box(x=(0.0, 1.0))")
        if not isinstance(self.parameters, Coefficients):
            raise LcpinnError(f"{title}.parameters must be a prior, such as lc.Uniform(k=(1, 10))")
        try:
            self.domain = bind(shape, self.parameters, self._shapes())
        except LcpinnError as error:
            raise LcpinnError(f"{title}: {error}") from None
        if isinstance(self.outputs, str):
            self.outputs = (self.outputs,)
        if not isinstance(self.outputs, (tuple, list)) or not all(
            isinstance(name, str) for name in self.outputs
        ):
            kind = type(self.outputs).__name__
            raise LcpinnError(f"{title}.outputs must be names, as in ('u', 'v'), not {kind}")
        self.outputs = tuple(self.outputs)
        self._check_names(title)
        for hook in _HOOKS:
            if getattr(self, hook) is not None and not callable(getattr(self, hook)):
                raise LcpinnError(f"{title}.{hook} must be a method; call your own value otherwise")
        if self.weights is not None and not isinstance(self.weights, Weights):
            raise LcpinnError(f"{title}.weights must be a prior over terms, such as lc.Simplex()")
        kind = type(self.data).__name__
        if self.data is not None and not isinstance(self.data, Data):
            raise LcpinnError(f"{title}.data must be lc.Data(...), not {_a(kind)}")
        marks = self._marks()
        methods = tuple(getattr(self, name) for name in marks)
        names = Names(title, self.domain, self.parameters, self.outputs, methods)
        self._signatures = {
            hook: names.bind(hook, getattr(self, hook), allowed)
            for hook, allowed in _HOOKS.items()
            if getattr(self, hook) is not None
        }
        self.all_terms = {
            name: self._term(name, getattr(self, name), mark, names) for name, mark in marks.items()
        }
        if self.data is not None:
            self.all_terms["data"] = self._data_term(title, self.data)
        if not self.all_terms:
            raise LcpinnError(
                f"{title} has no terms: mark a method with @lc.interior or @lc.on(...)"
            )
        void = void_terms(self) if void is None else void
        self.terms = {name: t for name, t in self.all_terms.items() if name not in void}
        self._bind_weights(title)

    def _shapes(self) -> tuple[tuple[str, Shape], ...]:
        """The shapes on the family's page, by their names there."""
        named: dict[str, Shape] = {}
        for owner in (*reversed(type(self).__mro__), self):
            own = vars(owner).items()
            named |= {n: v for n, v in own if isinstance(v, Shape) and n != "domain"}
        return tuple(named.items())

    def _check_names(self, title: str) -> None:
        name = self.name  # of directories and files, too
        sound = isinstance(name, str) and name.isprintable() and name.strip()
        if not sound or any(mark in name for mark in "/\\"):
            said = repr(name)[:60] if isinstance(name, str) else f"a {type(name).__name__}"
            raise LcpinnError(f"{title}: its name is {said}; write a word, as in 'wave'")
        kinds = [
            ("coordinate", self.domain.names),
            ("output", self.outputs),
            ("parameter", self.parameters.names),
        ]
        seen: dict[str, str] = dict.fromkeys(RESERVED, "reserved word")
        for kind, names in kinds:
            for name in names:
                if name in seen:
                    raise LcpinnError(
                        f"{title}: the {kind} {name!r} is already the name of {_a(seen[name])}"
                    )
                seen[name] = kind
        for name in (*self.domain.names, *self.parameters.names):
            parsed = parse_derivative(name, self.outputs, self.domain.names)
            if parsed is not None:
                raise LcpinnError(
                    f"{title}: {seen[name]} {name!r} reads as a derivative; rename it"
                )

    def _marks(self) -> dict[str, Mark]:
        """Methods that are terms, with where they hold."""
        marks: dict[str, Mark] = {}  # of two classes, the derived one's: the other's may not hold
        for cls in reversed(type(self).__mro__):
            for name, method in vars(cls).items():
                mark = getattr(method, "_lcpinn_mark", None)
                if mark is not None:
                    marks[name] = mark
        return marks

    def _term(self, name: str, method: Callable, mark: Mark, names: Names) -> Term:
        if mark.faces is None:
            return Term(name, method, names.bind(name, method, TERM), (), "interior")
        arguments = names.bind(name, method, (*TERM, "normal"))
        try:
            faces = self._places(mark)
        except LcpinnError as error:
            raise LcpinnError(f"term {name!r} of {type(self).__name__}: {error}") from None
        if not faces:
            raise LcpinnError(f"term {name!r} of {type(self).__name__}: the domain has no faces")
        where = " ".join(map(place_label, faces))
        return Term(name, method, arguments, faces, where)

    def _places(self, mark: Mark) -> tuple[Face | Part, ...]:
        """The faces and parts of the boundary that a mark names."""
        domain, wanted = self.domain, mark.faces or ()
        if isinstance(domain, Box):
            whole = not wanted and not mark.shapes
            for shape in mark.shapes:
                if shape != domain:
                    raise LcpinnError(f"{shape!r} makes no boundary of the domain, {domain!r}")
                whole = True
            return tuple(domain.face(c, v) for c, v in (self._every_face() if whole else wanted))
        if not wanted and not mark.shapes:
            return (domain.boundary(),)
        names = {shape: n for n, shape in self._shapes() if n not in ("interior", "data")}
        parts = [domain.part(shape, names.get(shape, repr(shape))) for shape in mark.shapes]
        places = (*parts, *(domain.face(c, v) for c, v in wanted))
        for place in places:
            domain.check_boundary(place, place_label(place))
        return places

    def _every_face(self) -> list[tuple[str, float]]:
        domain = self.domain
        return [(c, v) for c in domain.names if c not in domain.periodic for v in domain.ranges[c]]

    def _data_term(self, title: str, data: Data) -> Term:
        observed = [o for o in self.outputs if o in data.columns]
        known = {*self.domain.names, *self.parameters.names, *self.outputs}
        missing = [c for c in self.domain.names if c not in data.columns]
        unknown = [c for c in data.columns if c not in known]
        if missing or unknown or not observed:
            problem = (
                f"lacks the coordinate {missing[0]!r}" if missing
                else f"has no use for the column {unknown[0]!r}" if unknown
                else f"lacks an output ({', '.join(self.outputs)})"
            )  # fmt: skip
            raise LcpinnError(f"{title}: data {problem}")
        if not isinstance(self.domain, Box):
            outside = self.domain.misplaced(*self._observed_at(data))
            if outside:
                raise LcpinnError(f"{title}: data: {outside}")
        zero = (0,) * self.domain.dim
        values = [Argument(o, "output", self.outputs.index(o), (zero,)) for o in observed]
        targets = [Argument(o, "observed", i) for i, o in enumerate(observed)]

        def misfit(*args: Array) -> tuple[Array, ...]:
            half = len(observed)
            return tuple(u - v for u, v in zip(args[:half], args[half:], strict=True))

        return Term("data", misfit, (*values, *targets), (), "data")

    def _observed_at(self, data: Data) -> tuple[np.ndarray, np.ndarray]:
        """The points (n, dim) of observations, and their parameters (n, p), nan where unknown."""
        points = np.stack([data.columns[name] for name in self.domain.names], axis=-1)
        unknown = np.full(len(points), np.nan)
        known = [data.columns.get(name, unknown) for name in self.parameters.names]
        return points, np.stack([unknown, *known], axis=-1)[:, 1:]

    def _bind_weights(self, title: str) -> None:
        components = (*self.terms, *(() if "data" in self.terms else ("data",)))
        self._given_weights = weights = self.weights
        if not self._weighted:
            self.weights = None
            return
        if weights is None and self.parameters.dim == 0:
            weights = Simplex()
        if weights is not None and not weights.names:
            weights = weights.named(components)
        if weights is not None:
            self.check_weight_names(weights.names, f"{title}.weights")
        self.weights = weights

    def check_weight_names(self, names: Sequence[str], owner: str) -> None:
        """A loss weight must name a term; `data` may be weighted even while nothing is observed."""
        known = (*self.all_terms, "data")
        for name in names:
            if name not in known:
                terms = ", ".join(self.term_names)
                raise LcpinnError(f"{owner}: weight {name!r} names no term; the terms are {terms}")

    @property
    def has_own_weights(self) -> bool:
        """Whether its page, or `with_priors`, says how loss weights are drawn."""
        return self._given_weights is not None

    def plain(self) -> Family:
        """The same equation without the help: coordinates as they are, every condition soft."""
        if not any(getattr(self, hook) is not None for hook in HELP):
            return self
        return self._rebuilt(**dict.fromkeys(HELP))

    def at(self, **values: float) -> Family:
        """The same equation with some coefficients, or all of them, held at a value."""
        if not values:
            return self
        prior, observed = self.parameters.at(**values), self.data
        if observed is not None and any(name in observed.columns for name in values):
            raise LcpinnError(
                f"{self.name} has observations at other values of {', '.join(values)}"
            )
        asked = self.evaluation.at
        if asked is not None:
            asked = {name: (values[name],) if name in values else asked[name] for name in asked}
        dense = self.evaluation.dense if prior.free else 1
        evaluation = dataclasses.replace(self.evaluation, at=asked, dense=dense)
        return self._rebuilt(parameters=prior, evaluation=evaluation)

    def unweighted(self) -> Family:
        """The same equation without a prior over loss weights, for methods that set their own."""
        return self if self.weights is None else self._rebuilt(_weighted=False)

    def with_priors(
        self, parameters: Coefficients | None = None, weights: Weights | None = None
    ) -> Family:
        """The same equation with lambda drawn differently: other ranges, or another measure."""
        given = {"parameters": parameters, "weights": weights}
        return self._rebuilt(**{name: prior for name, prior in given.items() if prior is not None})

    def with_observations(self, data: Data | None, **hooks: Callable[..., Any]) -> Family:
        """The same equation with other observations, and with hooks that come with them."""
        return self._rebuilt(data=data, **hooks)

    def compared_with(
        self,
        targets: Callable[[Any, Any], Array],
        quantiles: np.ndarray | None = None,
        *,
        corners: bool = False,
        dense_at_ends: bool = False,
    ) -> Family:
        """No equations, but the outputs compared with values inside of the domain.

        `targets` of points (n, dim) and their parameters (n, p) are values and what a difference
        from them is multiplied by, (n, 2 outputs). They are looked up when points are drawn.
        `quantiles` say how the settings of a single coefficient are spread: what even places of the
        unit interval are moved to. With `corners` some of them lie at corners of the range, which
        of several coefficients hardly any come close to; with `dense_at_ends` points lie denser at
        the ends of coordinates.
        """
        other, num = copy.copy(self), len(self.outputs)
        zero = (0,) * self.domain.dim
        values = [Argument(o, "output", i, (zero,)) for i, o in enumerate(self.outputs)]
        observed = [Argument("target", "observed", i) for i in range(2 * num)]

        def misfit(*args: Array) -> tuple[Array, ...]:
            compared = zip(args[:num], args[num : 2 * num], args[2 * num :], strict=True)
            return tuple((u - v) * factor for u, v, factor in compared)

        term = Term("values", misfit, (*values, *observed), (), "interior")
        other.all_terms = other.terms = {term.name: term}
        other.value_targets, other.setting_quantiles = targets, quantiles
        other.setting_corners, other.dense_at_ends = corners, dense_at_ends
        vars(other).pop("groups", None)
        return other

    def with_evaluation(self, **changes: Any) -> Family:
        """The same equation, compared at other points or settings; see `Evaluation`."""
        return self._rebuilt(evaluation=dataclasses.replace(self.evaluation, **changes))

    def _rebuilt(self, **changes: Any) -> Family:
        other = copy.copy(self)
        for name, value in ({"weights": self._given_weights} | changes).items():
            setattr(other, name, value)
        for cached in ("groups", "_exact", "_linear"):
            vars(other).pop(cached, None)
        same = changes.keys() <= {"weights", "_weighted", "evaluation"}  # nothing that terms see
        other._build(self.all_terms.keys() - self.terms.keys() if same else None)
        return other

    # What the rest of the library asks of a family.

    @property
    def term_names(self) -> tuple[str, ...]:
        return tuple(self.all_terms)

    @cached_property
    def groups(self) -> dict[str, tuple[Term, ...]]:
        """Terms that hold at the same places share their points and one pass of the network."""
        places: dict[str, list[Term]] = {}
        for term in self.terms.values():
            places.setdefault(term.where, []).append(term)
        return {where: tuple(terms) for where, terms in places.items()}

    def orders(self, terms: Sequence[Term]) -> Orders:
        return Orders.closure([i for t in terms for i in t.indices], self.domain.dim)

    def call(self, hook: str, point: Any, parameters: Any, outputs: Any = None) -> Array:
        """Call `features`, `ansatz` or `exact` at one point, arguments by name."""
        zero = Orders(((0,) * self.domain.dim,))
        series = None if outputs is None else outputs[None]
        values = [lookup(a, series, zero, point, parameters, None) for a in self._signatures[hook]]  # pyright: ignore[reportArgumentType]
        return components(getattr(self, hook)(*values))

    def impose(self, raw: Array, point: Array, parameters: Array, orders: Orders) -> Array:
        """Turn the network's Taylor coefficients into the solution's, through the ansatz."""
        if self.ansatz is None:
            return raw
        network = polynomial(raw, point, orders)
        return expand(lambda p: self.call("ansatz", p, parameters, network(p)), point, orders)

    @cached_property
    def _exact(self) -> Callable[[Any, Any], Array]:
        return jax.jit(jax.vmap(lambda p, lam: self.call("exact", p, lam), (0, None)))

    def is_initial_value(self) -> bool:
        """Whether a coordinate has conditions at one of its ends only: errors build up from it."""
        closed = {name: set() for name in self.domain.names if name not in self.domain.periodic}
        for term in self.all_terms.values():
            for face in term.faces:
                if isinstance(face, Face):
                    closed[face.name].add(face.value)
                    continue
                for name in {n for surface in face.surfaces for n in surface.names} & closed.keys():
                    closed[name] |= set(self.domain.ranges[name])
        return any(len(ends) == 1 for ends in closed.values())

    def is_linear(self, *, inside: bool = False) -> bool:
        """Whether every term is an affine function of the outputs and their derivatives; with
        `inside`, every interior term, whatever the conditions on the boundary are.

        Asked numerically: the second difference of an affine function vanishes, whatever units its
        arguments have.
        """
        return self._linear_inside and (inside or self._linear_on_boundary)

    @cached_property
    def _linear_inside(self) -> bool:
        return are_affine(self, [t for t in self.all_terms.values() if not t.faces])

    @cached_property
    def _linear_on_boundary(self) -> bool:
        return are_affine(self, [t for t in self.all_terms.values() if t.faces])

    def truth(self, points: np.ndarray, parameters: np.ndarray) -> np.ndarray | None:
        """The exact or reference solution (n, outputs) at points (n, dim) and one setting (p,)."""
        if self.exact is not None:
            num, points = len(points), np.asarray(points)
            if num and isinstance(self.domain, Region):
                # How many of a grid's points a shape has varies with its coefficients: programs
                # for powers of two, not for every number.
                points = points[np.arange(1 << (num - 1).bit_length()) % num]
            with double():
                return np.asarray(self._exact(points, np.asarray(parameters, float)))[:num]
        if self.reference is not None:
            columns: dict[str, Any] = {n: points[:, i] for i, n in enumerate(self.domain.names)}
            columns |= {n: float(parameters[i]) for i, n in enumerate(self.parameters.names)}
            columns["point"] = points
            value = self.reference(*(columns[a.name] for a in self._signatures["reference"]))
            return np.stack(value if isinstance(value, tuple) else (value,), axis=-1)
        return None


def place_label(place: Face | Part) -> str:
    """A face or a part of the boundary as a person would name it."""
    if isinstance(place, Part):
        return place.label
    return (
        f"{place.name}={short(place.value)}"
        if isinstance(place.value, float)
        else (f"{place.name}={getattr(place.value, '__name__', place.value)}")
    )


_HOOKS: dict[str, tuple[str, ...]] = {
    "features": ("coordinate", "parameter"),
    "ansatz": ("coordinate", "parameter", "output"),
    "collocate": ("coordinate", "parameter"),
    "scale": ("coordinate", "parameter"),
    "exact": ("coordinate", "parameter"),
    "reference": ("coordinate", "parameter"),
}
