"""Random pages of families, by Hypothesis: each is built, or refused in one line.

Names, ranges, terms, shapes, priors, observations and hooks are drawn from what a page may have and
from what it may not. A page that is built has to say what it is, to get a protocol, and to be
traced: its residuals are evaluated abstractly.
"""

from __future__ import annotations

import inspect
import json
import operator
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import lcpinn as lc
from benchmarks.chaos.fault import Case, Fault
from lcpinn.locate import in_users_file
from lcpinn.sampling import fixed
from lcpinn.shape import Box
from lcpinn.training import identify, make_setup

CHUNK = 100  # pages that Hypothesis draws at once
LONGEST = 1500  # characters of a line
UNHEALTHY = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much,
             HealthCheck.large_base_example)  # fmt: skip
RARELY = 25  # one part in so many of a page is odd

# -- What a page is made of ------------------------------------------------------------------------

COORDINATES = ("x", "y", "t")
COEFFICIENTS = ("k", "nu", "a")
ODD_NAMES = (
    "", "1x", "é", "точка", "self", "point", "n_x", "laplacian_u", "u_x", "lambda", "class",
    "weights", "__init__", " x", "x.y", "</script>", "\u202ex", "x" * 300, "data", "interior", "u",
    "x y", "a=1", "\n", "None",
)  # fmt: skip
ODD_VALUES = (
    None, True, 0, -1, 3.5, 10**30, "x", "", b"x", (), [], {}, (1,), (1, 2, 3), ("0", "1"),
    float("nan"), float("inf"), np.zeros(3), np.ones((2, 2)), object(), lambda: 0, int, 1j,
    [[0, 1]], {"x": (0, 1)}, lc, np.float32(2), (None, 1), "0.5",
)  # fmt: skip

odd = st.sampled_from(ODD_VALUES)
number = st.one_of(
    st.floats(-3, 3), st.floats(), st.integers(-5, 5), st.sampled_from((0.0, 1.0, 1e300, 1e-300))
)
sound_range = st.tuples(st.floats(-2, 0), st.floats(0.5, 2))


def mostly(sound: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What a page may have, and once in a while what it may not."""
    return st.integers(1, RARELY).flatmap(lambda n: other if n == RARELY else sound)


def names_of(known: tuple[str, ...]) -> st.SearchStrategy[str]:
    return mostly(st.sampled_from(known), st.sampled_from(ODD_NAMES))


a_range = mostly(sound_range, st.one_of(st.tuples(number, number), odd))
quantity = mostly(
    st.one_of(st.floats(0.2, 1.5), st.sampled_from(COEFFICIENTS)),
    st.one_of(number, odd, st.just(lambda k: 0.5 + 0.1 * k), st.just(lambda missing: missing)),
)


@dataclass(frozen=True)
class Made:
    """A value that is made when the page is, so that what it raises is raised there."""

    kind: Any
    positional: tuple[Any, ...]
    named: dict[str, Any]

    def now(self) -> Any:
        named = {name: _now(value) for name, value in self.named.items()}
        return self.kind(*map(_now, self.positional), **named)


def made(kind: Any, *positional: Any, **named: Any) -> Made:
    return Made(kind, positional, named)


def _now(value: Any) -> Any:
    return value.now() if isinstance(value, Made) else value


boxes = st.builds(
    lambda ranges: made(lc.Box, **ranges),
    st.dictionaries(names_of(COORDINATES), a_range, min_size=0, max_size=3),
)
periodic_boxes = st.builds(
    lambda ends, ranges: made(lc.Box, **(ranges | {"x": made(lc.Periodic, *ends)})),
    mostly(sound_range, st.tuples(number, number)),
    st.dictionaries(names_of(("y", "t")), a_range, max_size=2),
)
balls = st.builds(
    lambda centre, radius: made(lc.Ball, **(centre | {"radius": radius})),
    st.dictionaries(names_of(("x", "y")), quantity, min_size=1, max_size=3),
    quantity,
)
polygons = st.builds(
    lambda x, y: made(lc.Polygon, x=x, y=y),
    mostly(st.just([0.0, 1.0, 0.5]), st.one_of(st.lists(quantity, max_size=5), odd)),
    mostly(st.just([0.0, 0.0, 1.0]), st.one_of(st.lists(quantity, max_size=5), odd)),
)
insides = st.builds(
    lambda function, ranges: made(lc.Inside, function, **ranges),
    mostly(st.just(lambda x, y: x * x + y * y - 1.0), odd),
    st.dictionaries(names_of(("x", "y")), a_range, min_size=1, max_size=2),
)
simple_shapes = st.one_of(balls, polygons, insides, boxes)


def _combined(one: Any, other: Any, how: Any) -> Made:
    return made(how, one, other)


OPERATORS = (operator.sub, operator.or_, operator.and_, operator.mul)
shapes = st.one_of(
    simple_shapes, st.builds(_combined, simple_shapes, simple_shapes, st.sampled_from(OPERATORS))
)
domains = mostly(
    st.integers(0, 9).flatmap(lambda n: shapes if n == 0 else periodic_boxes if n < 3 else boxes),
    odd,
)
positive_range = st.tuples(st.floats(0.1, 1), st.floats(1.5, 3))
priors = st.builds(
    lambda kind, ranges: made(kind, **ranges),
    st.sampled_from((lc.Uniform, lc.LogUniform)),
    st.dictionaries(names_of(COEFFICIENTS), mostly(positive_range, a_range), max_size=3),
)
parameters = mostly(
    st.one_of(priors, st.builds(_combined, priors, priors, st.just(operator.and_))), odd
)
outputs = mostly(
    st.sampled_from((("u",), ("u", "v"), ("u", "v_air"))),
    st.one_of(odd, st.lists(st.sampled_from(("u", "v", *ODD_NAMES)), max_size=3).map(tuple)),
)

ARGUMENTS = (
    *COORDINATES, *COEFFICIENTS, "u", "v", "u_x", "u_t", "u_xx", "u_xt", "v_y", "laplacian_u",
    "point", "u_n", "n_x", "u_xxxx", "v_air_x", "w", "u_z", "weights", "lam", "u_xxxxxx",
)  # fmt: skip
BODIES: tuple[Callable[..., Any], ...] = (
    lambda *v: sum(v, 0.0),
    lambda *v: v[0] if v else 0.0,
    lambda *v: v,
    lambda *v: jnp.exp(sum(v, 0.0)),
    lambda *v: list(v),
    lambda *v: jnp.zeros(3),
    lambda *v: "u",
    lambda *v: None,
    lambda *v: {"u": v},
    lambda *v: v[7],
    lambda *v: 1 / 0,
    lambda *v: float(sum(v, 0.0)),
    lambda *v: 1.0 if sum(v, 0.0) > 0 else 0.0,
    lambda *v: jnp.ones((2, 2)),
    lambda *v: 1j * sum(v, 0.0),
    lambda *v: np.nan,
    lambda *v: (),
)
bodies = mostly(st.sampled_from(BODIES[:4]), st.sampled_from(BODIES))


def arguments(known: list[str]) -> st.SearchStrategy[list[str]]:
    """Mostly such as the page has."""
    one = mostly(st.sampled_from(known or ARGUMENTS), st.sampled_from(ARGUMENTS))
    return st.lists(one, unique=True, min_size=1, max_size=5)


def places(domain: Any) -> st.SearchStrategy[Any]:
    """Inside, at an end of a coordinate, on a shape; or nowhere."""
    ranges = domain.named if isinstance(domain, Made) and domain.kind is lc.Box else {"x": (0, 1)}
    faces = [
        made(lc.on, **{name: end})
        for name, span in ranges.items()
        if isinstance(span, tuple)
        for end in span
    ]
    odd_faces = st.dictionaries(names_of(COORDINATES), st.one_of(number, odd, a_range), max_size=2)
    odd_places = st.one_of(
        odd_faces.map(lambda given: made(lc.on, **given)),
        st.one_of(shapes, odd).map(lambda value: made(lc.on, value)),
    )
    sound = st.one_of(st.just(lc.interior), st.sampled_from(faces or [made(lc.on)]))
    return mostly(sound, odd_places)


def _function(body: Callable[..., Any], names: list[str]) -> Any:
    """A method whose arguments have these names."""

    def method(self: Any, *values: Any) -> Any:
        return body(*values)

    written: Any = method
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["self", *(name for name in names if name != "self")]  # twice is no Python
    parameters = [inspect.Parameter(name, kind) for name in names]
    written.__signature__ = inspect.Signature(parameters)
    return written


def _term(place: Any, body: Callable[..., Any], names: list[str]) -> Any:
    return place(_function(body, names))


def hooks(known: list[str]) -> st.SearchStrategy[Any]:
    return st.builds(_function, bodies, arguments(known))


columns = st.dictionaries(
    names_of(("x", "t", "k", "u", "v")),
    mostly(st.lists(st.floats(0, 1), min_size=2, max_size=2), st.one_of(odd, st.lists(number))),
    max_size=4,
)
extras: dict[str, st.SearchStrategy[Any]] = {
    "weights": mostly(
        st.sampled_from((lc.Simplex, lc.Cube, lc.LogCube)).map(lambda kind: made(kind)), odd
    ),
    "data": mostly(columns.map(lambda c: made(lc.Data, **c)), odd),
    "evaluation": st.one_of(
        odd,
        st.builds(
            lambda points, at, dense: made(lc.Evaluation, points=points, at=at, dense=dense),
            st.one_of(odd, st.just({"x": 5})), st.one_of(odd, st.just({"k": (0.5, 1.0)})),
            st.one_of(odd, st.just(5)),
        ),
    ),
    "__doc__": odd,
    "name": st.one_of(odd, st.sampled_from(ODD_NAMES)),
}  # fmt: skip


HOOKS = ("features", "ansatz", "exact", "collocate", "scale")


@st.composite
def pages(draw: Any) -> dict[str, Any]:
    """The attributes of a page, some of them still to be made."""
    page: dict[str, Any] = {"domain": draw(domains)}
    for name, strategy in (("parameters", parameters), ("outputs", outputs)):
        if draw(st.booleans()):
            page[name] = draw(strategy)
    known = _known(page)
    for i in range(draw(mostly(st.integers(1, 3), st.just(0)))):
        drawn = (draw(places(page["domain"])), draw(bodies), draw(arguments(known)))
        page[draw(names_of((f"term{i}", "equation", "start")))] = made(_term, *drawn)
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from((*sorted(extras), *HOOKS)))
        page[name] = draw(hooks(known) if name in HOOKS else extras[name])
    return page


def _known(page: dict[str, Any]) -> list[str]:
    """Names that terms of this page may ask for."""
    of = lambda value: list(value.named) if isinstance(value, Made) else []
    coordinates = [name for name in of(page["domain"]) if name.isidentifier()]
    coefficients = [name for name in of(page.get("parameters")) if name.isidentifier()]
    values = page.get("outputs", ("u",))
    unknowns = [name for name in values if isinstance(name, str)] if type(values) is tuple else []
    slopes = [f"{u}_{x * n}" for u in unknowns for x in coordinates for n in (1, 2)]
    names = [*coordinates, *coefficients, *unknowns, *slopes]
    return [name for name in names if name.isidentifier() and not iskeyword(name)]


# -- What becomes of it ----------------------------------------------------------------------------


def outcome_of(page: dict[str, Any]) -> tuple[str, str]:
    """Whether it was built or refused, and what was wrong with that."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            family = _built(page)
            _use(family)
    except lc.LcpinnError as error:
        line = str(error)
        fault = "" if line.strip() and "\n" not in line and len(line) < LONGEST else "no clear line"
        return "refused", f"{fault}: {line[:300]!r}" if fault else ""
    except Exception as error:
        if _innermost(error) == __file__:  # the page's own mistake, which has a line of its own
            line = in_users_file(error, Path(__file__))
            return "raised by its own code", "" if line and "\n" not in line else f"no line: {line}"
        message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return "a traceback", f"{message} ({_place(error)}) of {_shown(page)}"
    return "built", ""


def _built(page: dict[str, Any]) -> lc.Family:
    attributes = {name: _now(value) for name, value in page.items()}
    return type("Page", (lc.Family,), attributes)()


def _use(family: lc.Family) -> None:
    """What every training begins with, without any arithmetic."""
    made_for = lc.protocol.smoke(family)
    view = made_for.view(family)
    json.dumps(identify(view, made_for, 0))
    if isinstance(view.domain, Box):  # points of shapes take their time
        setup = make_setup(view, made_for)
        params = jax.eval_shape(setup.problem.init, jax.random.PRNGKey(0))
        batch = fixed(view, made_for.held_out, setup.problem.dtype)
        jax.eval_shape(setup.problem.residuals, params, batch)


def _innermost(error: BaseException) -> str:
    """The file of the innermost frame; JAX's, where it refused a value that it was given."""
    return traceback.extract_tb(error.__traceback__)[-1].filename


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/lcpinn/" in frame.filename] or frames
    return f"{own[-1].filename.rpartition('/lcpinn/')[2]}, line {own[-1].lineno}"


def _shown(page: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_described(value)}" for name, value in page.items())[:600]


def _described(value: Any) -> str:
    if not isinstance(value, Made):
        return repr(value)[:80]
    named = [f"{name}={_described(v)}" for name, v in value.named.items()]
    name = getattr(value.kind, "__name__", "made")
    return f"{name}({', '.join((*map(_described, value.positional), *named))})"


def cases(numbers: range, given_seed: int) -> Iterator[Case]:
    """Chunks of a hundred, each after its own seed."""
    following = numbers.start
    while following < numbers.stop:
        asked = min(CHUNK - following % CHUNK, numbers.stop - following)
        for outcome, detail in _drawn(given_seed * 1_000_003 + following, asked):
            yield Case(following, not detail, outcome, detail)
            following += 1


def _drawn(own_seed: int, count: int) -> list[tuple[str, str]]:
    outcomes: list[tuple[str, str]] = []

    @seed(own_seed)
    @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=UNHEALTHY)  # fmt: skip
    @given(pages())
    def look(page: dict[str, Any]) -> None:
        if len(outcomes) < count:
            outcomes.append(outcome_of(page))

    look()
    return outcomes


FAULT = Fault(
    name="pages",
    done="random pages of families: names, ranges, terms, shapes, priors, hooks",
    promise="built, or refused in one line, and never a traceback",
    full=10_000,
    cases=cases,
    quick=False,  # some are large, and take minutes without
)
