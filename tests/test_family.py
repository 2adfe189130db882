"""Families: what their names bind to, what they refuse, and where their terms hold."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import (
    Both,
    Coupled,
    Moving,
    Observed,
    Oscillator,
    Poisson,
    Ring,
    double,
    probe,
    quick,
)

import lcpinn as lc
from lcpinn.families import Helmholtz
from lcpinn.family import Family
from lcpinn.sampling import Sampling, draw, fixed
from lcpinn.shape import as_face
from lcpinn.term import Mark

pytestmark = pytest.mark.usefixtures("x64")


LINE = dict(domain=lc.Box(t=(0.0, 1.0), x=(0.0, 2.0)), parameters=lc.Uniform(k=(1.0, 2.0)))


def family(*names, mark=None, **attributes):
    """Build a family whose only term, `values`, has these arguments."""
    return lambda: probe(names or ("u",), mark, **(LINE | attributes))


def spoilt(method, **attributes):
    """Build a family whose only term is this method, under the name `values`."""
    return lambda: type("Probe", (Family,), LINE | {"values": method} | attributes)()


def on(**faces):
    """The mark of a term that holds on these faces."""
    marked: Any = lc.on(**faces)(lambda self: 0)
    return marked._lcpinn_mark


NAMES = "t, x, k, u, u_t, u_x, u_tt, u_xx"

ERRORS = {
    "misspelt": (
        family("u_xx", "kk"),
        f"'values' of Probe has no such name as 'kk'; did you mean 'k'? (there are {NAMES})",
    ),
    "a normal as others write it": (
        family("u", "nx", mark=on(x=0.0)),
        f"'values' of Probe has no such name as 'nx'; did you mean 'n_x'? (there are {NAMES}, "
        "n_t, n_x, u_n)",
    ),
    "nothing alike": (
        family("viscosity"),
        f"'values' of Probe has no such name as 'viscosity' (there are {NAMES})",
    ),
    "an output of another name": (
        family("T", "T_xx", "k"),
        "'values' of Probe has no such name as 'T'; is it a solution? They are named by "
        f"outputs = ('T',) (there are {NAMES})",
    ),
    "a further output": (
        family("u_xx", "laplacian_T"),
        "'values' of Probe has no such name as 'laplacian_T'; is it a solution? They are named by "
        f"outputs = ('u', 'T') (there are {NAMES})",
    ),
    "no underscore": (
        family("uxx"),
        f"'values' of Probe has no such name as 'uxx'; did you mean 'u_xx'? (there are {NAMES})",
    ),
    "no such axis": (
        family("u_xz"),
        "'values' of Probe asks for 'u_xz', but 'xz' names no coordinates; the domain has t, x",
    ),
    "derivative along a parameter": (
        family("u_k"),
        "'values' of Probe asks for 'u_k', but 'k' names no coordinates; the domain has t, x",
    ),
    "trailing underscore": (
        family("u_"),
        "'values' of Probe asks for 'u_', but '' names no coordinates; the domain has t, x",
    ),
    "star": (
        spoilt(lc.interior(lambda self, u, *rest: u)),
        "'values' of Probe: write its arguments out by name",
    ),
    "two stars": (
        spoilt(lc.interior(lambda self, **names: 0)),
        "'values' of Probe: write its arguments out by name",
    ),
    "keyword only": (
        spoilt(lc.interior(lambda self, *, u: u)),
        "'values' of Probe: write its arguments out by name",
    ),
    "features see no output": (
        family(features=lambda self, u: (u,)),
        "'features' of Probe has no such name as 'u' (there are t, x, k)",
    ),
    "features misspelt": (
        family(features=lambda self, tt: (tt,)),
        "'features' of Probe has no such name as 'tt'; did you mean 't'? (there are t, x, k)",
    ),
    "ansatz sees no derivative": (
        family(ansatz=lambda self, u_x: u_x),
        "'ansatz' of Probe has no such name as 'u_x' (there are t, x, k, u)",
    ),
    "exact sees no output": (
        family(exact=lambda self, x, u: u),
        "'exact' of Probe has no such name as 'u' (there are t, x, k)",
    ),
    "parameter and coordinate": (
        family(parameters=lc.Uniform(x=(0, 1))),
        "Probe: the parameter 'x' is already the name of a coordinate",
    ),
    "parameter and output": (
        family(parameters=lc.Uniform(u=(0, 1))),
        "Probe: the parameter 'u' is already the name of an output",
    ),
    "output and coordinate": (
        family("x", outputs=("x",)),
        "Probe: the output 'x' is already the name of a coordinate",
    ),
    "reserved": (
        family(domain=lc.Box(point=(0, 1))),
        "Probe: the coordinate 'point' is already the name of a reserved word",
    ),
    "parameter like a derivative": (
        family(parameters=lc.Uniform(u_x=(0, 1))),
        "Probe: parameter 'u_x' reads as a derivative; rename it",
    ),
    "parameter like a Laplacian": (
        family(parameters=lc.Uniform(laplacian_u=(0, 1))),
        "Probe: parameter 'laplacian_u' reads as a derivative; rename it",
    ),
    "reversed": (
        lambda: family(parameters=lc.Uniform(k=(2, 1)))(),
        "k: range (2.0, 1.0) is reversed; write (low, high)",
    ),
    "no domain": (
        family(domain=None),
        "Probe needs a domain, such as domain = lc.Box(x=(0.0, 1.0))",
    ),
    "no domain at all": (
        lambda: type("Bare", (Family,), {})(),
        "Bare needs a domain, such as domain = lc.Box(x=(0.0, 1.0))",
    ),
    "no terms": (
        lambda: type("Empty", (Family,), LINE | {"equation": lambda self, u: u})(),
        "Empty has no terms: mark a method with @lc.interior or @lc.on(...)",
    ),
    "parameters as a dict": (
        family(parameters={"k": (1, 2)}),
        "Probe.parameters must be a prior, such as lc.Uniform(k=(1, 10))",
    ),
    "parameters as weights": (
        family(parameters=lc.Simplex("values")),
        "Probe.parameters must be a prior, such as lc.Uniform(k=(1, 10))",
    ),
    "weight of no term": (
        family(weights=lc.Simplex("values", "wall")),
        "Probe.weights: weight 'wall' names no term; the terms are values",
    ),
    "inside is no face": (
        family(mark=on(x=1.0)),
        "term 'values' of Probe: x = 1.0 is not a face of the domain; its faces are 0.0 and 2.0",
    ),
    "one of two is no face": (
        family(mark=on(x=(0.0, 1.0))),
        "term 'values' of Probe: x = 1.0 is not a face of the domain; its faces are 0.0 and 2.0",
    ),
    "face of no coordinate": (
        family(mark=on(y=0.0)),
        "term 'values' of Probe: there is no coordinate y; the domain has t, x",
    ),
    "face of a parameter": (
        family(mark=on(k=1.0)),
        "term 'values' of Probe: there is no coordinate k; the domain has t, x",
    ),
    "face of a periodic coordinate": (
        family(mark=on(x=0.0), domain=lc.Box(x=lc.Periodic(0, 1))),
        "term 'values' of Probe: x is periodic and has no faces",
    ),
    "term called data": (
        lambda: type("Probe", (Family,), LINE | {"data": lc.interior(lambda self, u: u)})(),
        "Probe: a term cannot be called 'data': that is the term of lc.Data",
    ),
    "term called __init__": (
        lambda: type("Probe", (Family,), LINE | {"__init__": lc.interior(lambda self, u: u)})(),
        "Probe: a term cannot be called '__init__': a family has its own",
    ),
    "term called exact": (
        lambda: type("Probe", (Family,), LINE | {"exact": lc.interior(lambda self, u: u)})(),
        "Probe: a term cannot be called 'exact': a family has its own",
    ),
    "data as a tuple": (
        family(data=(1, 2, 3)),
        "Probe.data must be lc.Data(...), not a tuple",
    ),
    "data without a coordinate": (
        family(data=lc.Data(x=[0.0], u=[1.0])),
        "Probe: data lacks the coordinate 't'",
    ),
    "data without an output": (
        family(data=lc.Data(t=[0.0], x=[0.0], k=[1.0])),
        "Probe: data lacks an output (u)",
    ),
    "data with too much": (
        family(data=lc.Data(t=[0.0], x=[0.0], u=[1.0], v=[2.0])),
        "Probe: data has no use for the column 'v'",
    ),
    "data of unequal lengths": (
        lambda: lc.Data(x=[0.0, 1.0], u=[1.0]),
        "data: columns differ in length: {'x': 2, 'u': 1}",
    ),
    "data with NaN": (
        lambda: lc.Data(x=[0.0, 1.0], u=[1.0, np.nan], v=[np.inf, 0.0]),
        "data: u, v holds NaN or infinite values",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_clear_line(case):
    build, message = ERRORS[case]
    with pytest.raises(lc.LcpinnError) as caught:
        build()
    assert str(caught.value) == message


def test_a_hook_that_is_no_method_is_named():
    """A constant may well be called so by someone who does not know the hook."""
    with pytest.raises(lc.LcpinnError, match="scale"):
        family(scale=2.0)()


def test_every_face_of_a_domain_without_faces_is_an_error():
    with pytest.raises(lc.LcpinnError, match="no faces"):
        probe(["u"], Mark(()), domain=lc.Box(x=lc.Periodic(0, 1)))


# -- What names bind to --------------------------------------------------------------------------


def test_every_argument_gets_its_value():
    names = ["k", "point", "x", "u_x", "c", "t", "u"]
    made = probe(names[:1] + names[2:], **(LINE | dict(parameters=lc.Uniform(c=(0, 1), k=(1, 2)))))
    orders = made.orders(list(made.terms.values()))
    assert orders.indices == ((0, 0), (0, 1))
    residual = made.terms["values"].residual
    series = jnp.array([[7.0], [8.0]])
    got = residual(series, orders, jnp.array([0.25, 1.5]), jnp.array([0.5, 1.75]))
    assert got.tolist() == [1.75, 1.5, 8.0, 0.5, 0.25, 7.0]
    whole = probe(["point"], **LINE).terms["values"]
    function = whole.arguments[0]
    assert (function.name, function.kind, function.indices) == ("point", "point", ())


def test_a_tuple_is_several_components():
    """u_t - a v_x and v_t - b u_x, each with the values in its own place."""
    made = Coupled()
    term = made.terms["equation"]
    orders = made.orders([term])
    assert orders.indices == ((0, 0), (0, 1), (1, 0))
    series = jnp.array([[9.0, 9.0], [2.0, 3.0], [5.0, 7.0]])  # (u, v), their x, their t
    got = term.residual(series, orders, jnp.zeros(2), jnp.array([10.0, 100.0]))
    assert got.tolist() == [5.0 - 10 * 3.0, 7.0 - 100 * 2.0]


def test_derivatives_are_taylor_coefficients_times_factorials():
    made = probe(["u_xxt", "laplacian_u", "u_xx"], **LINE)
    term = made.terms["values"]
    orders = made.orders([term])
    series = jnp.arange(1.0, 1 + len(orders))[:, None]
    found = dict(zip(orders.indices, range(1, 1 + len(orders)), strict=True))
    got = term.residual(series, orders, jnp.zeros(2), jnp.ones(1))
    assert got.tolist() == [2 * found[1, 2], 2 * found[0, 2], 2 * found[0, 2]]


@pytest.mark.parametrize("rule", ["gauss", "sobol"])
@pytest.mark.parametrize("kind", ["term", "features"])
def test_a_vector_means_the_same_as_a_tuple(rule, kind):
    """That, or a clear refusal when the family is built; never a loss of the wrong shape."""
    if kind == "term":
        build = lambda join: spoilt(lc.interior(lambda self, u, x: join((u, x * u))))()
    else:
        build = lambda join: family(features=lambda self, t, x: join((x, jnp.sin(t))))()
    try:
        families = build(tuple), build(jnp.stack)
    except lc.LcpinnError:
        return
    losses = []
    for made in families:
        problem, params = double(made)
        batch = fixed(made, Sampling(4, 2, 1 if rule == "sobol" else 3, rule), jnp.float64)
        losses.append(float(quick(problem.loss)(params, batch, {"values": jnp.asarray(1.0)})))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-12)


def test_one_output_may_be_written_as_a_string():
    assert family("p_x", outputs="p")().outputs == ("p",)


def test_names_and_order_of_terms():
    assert Oscillator().name == "oscillator"
    assert Oscillator().term_names == ("equation", "start", "velocity")
    assert Observed().term_names == ("equation", "data")
    assert type("BuckleyLeverett", (Poisson,), {})().name == "buckley-leverett"

    class Damped(Oscillator):
        @lc.on(t=1.0)
        def start(self, u):
            return u - 2.0

        @lc.interior
        def extra(self, u):
            return u

    made = Damped()
    assert made.term_names == ("equation", "start", "velocity", "extra")
    assert [(f.name, f.value) for f in made.terms["start"].faces] == [("t", 1.0)]


# -- Where terms hold ----------------------------------------------------------------------------


def test_terms_at_the_same_place_share_points():
    made = Oscillator()
    assert {w: [t.name for t in ts] for w, ts in made.groups.items()} == {
        "interior": ["equation"],
        "t=0": ["start", "velocity"],
    }
    assert made.orders(made.groups["interior"]).indices == ((0,), (1,), (2,))
    assert made.orders(made.groups["t=0"]).indices == ((0,), (1,))
    assert set(fixed(made, Sampling(8, 4, 2, "sobol"), jnp.float64)) == {"interior", "t=0"}


@pytest.mark.parametrize("ends", [(0.0, 1.0), (2000.001, 2000.002), (1e6, 1e6 + 1)])
def test_different_faces_never_share_points(ends):
    class Ends(lc.Family):
        domain = lc.Box(x=ends)

        @lc.on(x=ends[0])
        def left(self, x):
            return x - ends[0]

        @lc.on(x=ends[1])
        def right(self, x):
            return x - ends[1]

    made = Ends()
    problem, params = double(made)
    batch = fixed(made, Sampling(4, 2, 1, "gauss"), jnp.float64)
    for name, r in quick(problem.residuals)(params, batch).items():
        np.testing.assert_array_equal(r, 0, err_msg=name)


TX, CUBE = lc.Box(t=(0, 1), x=(2, 3)), lc.Box(x=(0, 1), y=(0, 1), z=(0, 1))


@pytest.mark.parametrize(
    ("mark", "domain", "faces", "rules"),
    [
        (on(), TX, ["t=0", "t=1", "x=2", "x=3"], ["gauss", "sobol", "draw"]),
        (on(), lc.Box(t=(0, 1), x=lc.Periodic(2, 3)), ["t=0", "t=1"], ["gauss", "sobol"]),
        (on(), CUBE, [f"{q}={v}" for q in "xyz" for v in (0, 1)], ["gauss", "sobol"]),
        (on(x=(2.0, 3.0)), TX, ["x=2", "x=3"], ["gauss", "sobol"]),
        (on(t=0.0, x=3.0), TX, ["t=0", "x=3"], ["gauss", "sobol", "draw"]),
    ],
)
def test_points_lie_on_every_face_that_is_named_and_on_no_other(mark, domain, faces, rules):
    made = probe(["u"], mark, domain=domain, parameters=lc.Uniform(k=(5, 6)))
    own = [as_face(place) for place in made.terms["values"].faces]
    assert [f"{f.name}={f.value:g}" for f in own] == faces
    for rule in rules:
        sampling = Sampling(interior=9, face=4 * len(faces), num_lambda=2, rule=rule)
        if rule == "draw":
            step = quick(lambda key, s=sampling: draw(made, s, key, jnp.float64))
            batch = step(jax.random.key(0))
        else:
            batch = fixed(made, sampling, jnp.float64)
        (points,) = batch.values()
        where = np.asarray(points.coordinates).reshape(-1, domain.dim)
        on_face = {
            f"{name}={end:g}": where[:, i] == end
            for i, name in enumerate(domain.names)
            for end in domain.ranges[name]
            if name not in domain.periodic
        }
        assert [name for name, hits in on_face.items() if hits.any()] == faces
        assert np.stack(list(on_face.values())).any(0).all()
        # Every face has the same number of points, and rules give means.
        assert len({int(hits.sum()) for hits in on_face.values() if hits.any()}) == 1
        np.testing.assert_allclose(points.quadrature.sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("cls", [Observed, Both])
def test_draws_are_new_at_every_step_and_stay_in_the_domain(cls):
    made = cls()
    step = quick(lambda key: draw(made, Sampling(6, 4, 3), key, jnp.float64))
    first, second = step(jax.random.key(0)), step(jax.random.key(1))
    assert set(first) == set(made.groups)
    low, high = np.array(list(made.domain.ranges.values())).T
    for where, points in first.items():
        if where != "data":
            assert points.coordinates.shape[:2] == (3, 6 if where == "interior" else 4)
        assert np.all((points.coordinates >= low) & (points.coordinates <= high))
        assert np.all(made.parameters.contains(points.parameters))
        if made.parameters.dim:
            assert np.all(points.parameters[:, 0] != second[where].parameters[:, 0])
        if made.weights is not None:
            np.testing.assert_allclose(points.weights.sum(-1), 1)
    moved = first["interior"].coordinates != second["interior"].coordinates
    assert np.all(moved)


# -- An ansatz makes terms void ------------------------------------------------------------------


@pytest.mark.slow
def test_terms_that_the_ansatz_satisfies_are_not_sampled():
    made = Moving()
    assert made.term_names == ("equation", "start", "wall", "flux")
    assert tuple(made.terms) == ("equation", "flux")
    assert list(made.groups) == ["interior", "x=2"]
    assert list(fixed(made, Sampling(4, 4, 2, "gauss"), jnp.float64)) == ["interior", "x=2"]
    problem, params = double(made)
    batch = draw(made, Sampling(4, 4, 2), jax.random.key(0), jnp.float64)
    assert set(quick(problem.residuals)(params, batch)) == {"equation", "flux"}


def test_void_terms_have_no_component_in_the_weights():
    made = type("Weighted", (Moving,), {"weights": lc.Simplex()})()
    assert made.weights.names == ("equation", "flux", "data")


def test_a_void_condition_holds_exactly_on_its_face():
    """What was left out of training is satisfied by any network."""
    problem, params = double(Moving())
    bare = probe(["u", "x"], on(t=0.0), domain=Moving.domain, parameters=Moving.parameters)
    (points,) = fixed(bare, Sampling(4, 8, 2, "gauss"), jnp.float64).values()
    orders = bare.orders(list(bare.terms.values()))
    u = quick(lambda p: problem.outputs(params, p, orders)[0, ..., 0])(points)
    np.testing.assert_allclose(u, np.sin(np.pi * points.coordinates[..., 1] / 2), atol=1e-15)


def test_an_ansatz_that_holds_on_one_of_two_faces_leaves_the_term():
    made = probe(["u"], on(x=(0.0, 2.0)), ansatz=lambda self, u, x: x * u, **LINE)
    assert tuple(made.terms) == ("values",)


def test_an_ansatz_for_the_value_leaves_the_slope():
    ansatz = dict(ansatz=lambda self, u, t: 1 + t * u)
    assert tuple(type("Held", (Oscillator,), ansatz)().terms) == ("equation", "velocity")
    ansatz = dict(ansatz=lambda self, u, t: 1 + t**2 * u)
    assert tuple(type("Held", (Oscillator,), ansatz)().terms) == ("equation",)


def test_plain_is_the_same_family_with_every_condition_soft():
    helped = type("Weighted", (Moving,), {"weights": lc.Simplex()})()
    bare = helped.plain()
    assert (bare.features, bare.ansatz) == (None, None)
    assert tuple(bare.terms) == bare.term_names == ("equation", "start", "wall", "flux")
    assert list(bare.groups) == ["interior", "t=0", "x=0 x=2", "x=2"]
    assert bare.weights.names == ("equation", "start", "wall", "flux", "data")
    # The one it was made of is as before.
    assert tuple(helped.terms) == ("equation", "flux")
    assert list(helped.groups) == ["interior", "x=2"]
    assert helped.weights.names == ("equation", "flux", "data")
    assert helped.ansatz is not None
    assert Coupled().plain().term_names == Coupled().term_names


# -- Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Oscillator, None),  # conditioned on its parameters
        (Poisson, lc.Simplex("equation", "boundary", "data")),
        (Both, lc.Simplex("equation", "start", "velocity", "data")),
        (lambda: type("W", (Observed,), {"weights": lc.Cube()})(), lc.Cube("equation", "data")),
        (
            lambda: type("W", (Poisson,), {"weights": lc.LogCube("equation", low=0.1)})(),
            lc.LogCube("equation", low=0.1),
        ),
    ],
)
def test_weights_have_a_component_for_every_term_and_for_data(made, expected):
    assert made().weights == expected


def test_weights_may_name_terms_that_the_ansatz_made_void():
    made = type("W", (Moving,), {"weights": lc.Simplex("equation", "flux", "wall")})()
    assert made.weights.names == ("equation", "flux", "wall")


# -- Instances share nothing ---------------------------------------------------------------------


def test_two_instances_share_nothing():
    one, two = Helmholtz(1), Helmholtz(2)
    assert (one.domain.names, two.domain.names) == (("x",), ("x", "y"))
    assert one.orders(one.groups["interior"]).indices == ((0,), (1,), (2,))
    assert len(two.orders(two.groups["interior"])) == 5
    assert len(one.plain().terms["boundary"].faces) == 2
    assert len(two.plain().terms["boundary"].faces) == 4
    assert Helmholtz(3).parameters.ranges == {"k": (1.0, 5.0)}
    assert one.parameters.ranges == {"k": (1.0, 10.0)}


def test_what_one_instance_sets_no_other_sees():
    class Scaled(lc.Family):
        domain = lc.Box(x=(0.0, 1.0))

        def __init__(self, factor, data=None, weights=None):
            self.factor, self.data, self.weights = factor, data, weights

        @lc.interior
        def equation(self, x):
            return self.factor * x

    one = Scaled(1.0)
    nine = Scaled(9.0, data=lc.Data(x=[0.5], u=[1.0]), weights=lc.Cube())
    residual = lambda made: float(
        made.terms["equation"].residual(
            jnp.zeros((1, 1)), made.orders([]), jnp.array([2.0]), jnp.zeros(0)
        )[0]
    )
    assert (residual(one), residual(nine)) == (2.0, 18.0)
    one.factor = 3.0
    assert (residual(one), residual(nine)) == (6.0, 18.0)
    assert (one.data, one.weights) == (None, lc.Simplex("equation", "data"))
    assert (tuple(one.terms), tuple(nine.terms)) == (("equation",), ("equation", "data"))
    assert (Scaled.data, Scaled.weights) == (None, None)
    assert not hasattr(Scaled, "terms")


# -- Data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gauss", "sobol", "draw"])
def test_data_keeps_its_own_parameters(how):
    made = Observed()
    sampling = Sampling(4, 2, 2, how)
    if how == "draw":
        points = draw(made, sampling, jax.random.key(1), jnp.float64)["data"]
    else:
        points = fixed(made, sampling, jnp.float64)["data"]
    times = 22  # few observations, and m is unknown to them: each is there at many values of it
    assert points.coordinates[:, 0, 0].tolist() == [0.0, 0.5, 1.0] * times
    assert points.observed[:, 0, 0].tolist() == [1.0, 2.0, 4.0] * times
    assert points.parameters[:, 1].tolist() == [0.9, 0.2, 0.4] * times
    unknown = np.asarray(points.parameters[:, 0])  # m is drawn, each row its own
    assert np.all((unknown >= 2) & (unknown <= 3))
    assert len(set(unknown)) == 3 * times
    np.testing.assert_allclose(points.quadrature, 1 / (3 * times))


def test_data_rows_are_the_misfit_at_the_data_parameters():
    problem, params = double(Observed())
    batch = draw(problem.family, Sampling(4, 2, 2), jax.random.key(1), jnp.float64)
    got = quick(problem.residuals)(params, batch)["data"]
    zero = problem.family.orders([])
    values = quick(lambda points: problem.outputs(params, points, zero)[0, :, 0, 0])
    u = values(batch["data"])
    assert got.shape == (66, 1, 1)
    observed = np.tile([1.0, 2.0, 4.0], 22)
    np.testing.assert_allclose(got[:, 0, 0], u - observed, rtol=1e-14)
    # The same points at other k give other outputs: the data's own k did enter.
    other = batch["data"]._replace(parameters=batch["data"].parameters.at[:, 1].set(0.5))
    assert np.all(np.abs(values(other) - u) > 1e-6)


def test_data_of_one_output_among_several():
    made = type("Partly", (Coupled,), {"data": lc.Data(v_air=[3.0], x=[1.0], t=[0.25])})()
    orders = made.orders([made.terms["data"]])
    series = jnp.array([[10.0, 20.0]])
    got = made.terms["data"].residual(
        series, orders, jnp.zeros(2), jnp.zeros(2), observed=jnp.array([3.0])
    )
    assert got.tolist() == [17.0]
    points = fixed(made, Sampling(4, 4, 2, "gauss"), jnp.float64)["data"]
    assert points.coordinates.tolist() == [[[0.25, 1.0]]] * 64
    assert points.observed.tolist() == [[[3.0]]] * 64


def test_data_is_a_copy():
    column = np.array([1.0, 2.0])
    data = lc.Data(x=column, u=column)
    column[0] = 9.0
    assert data.columns["x"].tolist() == [1.0, 2.0]
    assert (len(data), repr(data)) == (2, "Data(x, u; 2 observations)")


# -- Truth ---------------------------------------------------------------------------------------


def test_truth_is_the_exact_solution_by_name():
    points, parameters = np.array([[0.25, 1.0], [0.5, -1.0]]), np.array([2.0, 0.5])
    t, x = points.T
    expected = np.stack([np.sin(x) * np.cos(t), 0.5 * np.cos(x) * np.sin(t)], axis=-1)
    np.testing.assert_allclose(Coupled().truth(points, parameters), expected, rtol=1e-14)
    assert Ring().truth(points, parameters[:1]) is None


@pytest.mark.parametrize(
    "reference",
    [lambda self, x, k, t: x + 10 * k + 100 * t, lambda self, point, k: point @ [100, 1] + 10 * k],
    ids=["names", "point"],
)
def test_truth_is_the_reference_by_name(reference):
    made = family(reference=reference)()
    got = made.truth(np.array([[0.5, 1.0], [0.25, 2.0]]), np.array([3.0]))
    assert got is not None
    np.testing.assert_allclose(got, [[81.0], [57.0]])


def exact_series(made, points, parameters, orders):
    """Taylor coefficients of the exact solution by nested autodiff: (s, n, outputs)."""
    exact = lambda p: made.call("exact", p, parameters)
    tensors = [exact, jax.jacfwd(exact), jax.hessian(exact)]

    def at(point):
        found = [t(point) for t in tensors]
        rows = []
        for index in orders.indices:
            axes = [i for i, n in enumerate(index) for _ in range(n)]
            factor = 2 if 2 in index else 1
            rows.append(found[len(axes)][(slice(None), *axes)] / factor)
        return jnp.stack(rows)

    return jax.vmap(at, out_axes=1)(points)


@pytest.mark.parametrize("make", [lambda d=d: Helmholtz(d) for d in (1, 2, 3)] + [Coupled])
def test_the_exact_solution_has_no_residual(make):
    made = make().plain()  # with its boundary terms
    rng = np.random.default_rng(7)

    @quick
    def residual(points, parameters, face_points):
        found = {}
        for where, terms in made.groups.items():
            at = points if where == "interior" else face_points[where]
            orders = made.orders(terms)
            series = exact_series(made, at, parameters, orders)
            for term in terms:
                one = lambda s, p, term=term, orders=orders: term.residual(s, orders, p, parameters)
                found[term.name] = jax.vmap(one, (1, 0))(series, at)
        return found

    batch = fixed(made, Sampling(4, 24, 1, "gauss"), jnp.float64)
    faces = {where: p.coordinates[0] for where, p in batch.items()}
    for _ in range(4):
        parameters = made.parameters.from_unit(rng.uniform(size=made.parameters.dim))
        points = made.domain.from_unit(rng.uniform(size=(16, made.domain.dim)))
        for name, r in residual(points, parameters, faces).items():
            # Its summands reach 3 (π² + k²), about 330.
            np.testing.assert_allclose(r, 0, atol=330 * 1e-14, err_msg=name)


def test_helmholtz_forcing_is_not_zero():
    """Guards the test above: the forcing at one point, by hand."""
    f = Helmholtz(1).forcing(jnp.array([0.25]), jnp.asarray(2.0))
    root = np.sqrt(0.5)
    expected = -(np.pi**2) * root * np.cos(0.5) - 4 * np.pi * root * np.sin(0.5)
    np.testing.assert_allclose(f, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((), "()"), (None, "None"), ("u", "'u'"), ({"u": 1}, "{'u': 1}"), (1j, "complex64 values"),
        (True, "bool values"), ([[1.0], "a"], "[[1.0], 'a']"),
    ],
)  # fmt: skip
def test_what_is_no_residual_is_one_line(value, said):
    class Odd(lc.Family):
        """Returns something else."""

        domain = lc.Box(x=(0.0, 1.0))

        @lc.interior
        def equation(self, u):
            return value

    with pytest.raises(lc.LcpinnError) as caught:
        lc.train(Odd(), lc.protocol.smoke(Odd()), progress=False)
    assert str(caught.value) == (
        f"the term 'equation' returns {said}: a residual is a real number, or a tuple of them"
    )


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\u202ewave", "etc/wave", 3, None, object()])
def test_a_name_has_to_be_one(name):
    class Named(lc.Family):
        """Called something."""

        domain = lc.Box(x=(0.0, 1.0))

        @lc.interior
        def equation(self, u):
            return u

    with pytest.raises(lc.LcpinnError, match=r"Named: its name is .*; write a word, as in 'wave'"):
        type("Named", (Named,), {"name": name})()
    assert type("Named", (Named,), {"name": "wave 2"})().name == "wave 2"


@pytest.mark.parametrize("outputs", [None, 3, (1, 2), ("u", None), lc])
def test_outputs_are_names(outputs):
    class Odd(lc.Family):
        """Outputs of another kind."""

        domain = lc.Box(x=(0.0, 1.0))

        @lc.interior
        def equation(self, u):
            return u

    with pytest.raises(lc.LcpinnError, match=r"Odd.outputs must be names, as in \('u', 'v'\), not"):
        type("Odd", (Odd,), {"outputs": outputs})()
