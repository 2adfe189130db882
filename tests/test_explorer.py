"""Programs against the solutions that they were traced from, and the page that holds them."""

import dataclasses
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from hooks import FUNCTIONS, WITHOUT, over_points
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.certificate.estimate import Correction, Estimate
from lcpinn.certificate.estimator import Estimator
from lcpinn.cli import app
from lcpinn.explorer import Program, explore, trace
from lcpinn.explorer.page import _tidy_settings, assemble, contents
from lcpinn.explorer.program import decode, of_exact
from lcpinn.families import FAMILIES, Burgers, Helmholtz
from lcpinn.network import FNO, MLP, Concat, DeepONet, FiLM, Unseen
from lcpinn.rows import Problem


def untrained(family, network=None):
    """A solution whose network is random: every parameter and every knob matters."""
    smoke = lc.protocol.smoke(family)
    protocol = dataclasses.replace(smoke, plain=False, network=network or smoke.network)
    with jax.enable_x64(True):
        params = toy.perturbed(Problem(family, protocol.network, jnp.float64))
    return lc.Solution(family, protocol, params, {"seed": 0, "device": "a machine"})


def compared(solution, program, num=300):
    """Outputs of program and solution at the same points, for two settings of lambda."""
    family, pairs = solution.family, []
    points = family.domain.sobol(num)
    named = {name: points[:, i] for i, name in enumerate(family.domain.names)}
    weights = np.zeros((2, 0)) if family.weights is None else family.weights.sobol(2, seed=3)
    for lam, w in zip(family.parameters.sobol(2, seed=3), weights, strict=True):
        setting = dict(zip(family.parameters.names, lam, strict=True))
        chosen = {} if not w.size else {"weights": dict(zip(family.weights.names, w, strict=True))}
        value = solution(**named, **setting, **chosen)
        columns = value.values() if isinstance(value, dict) else [value]
        pairs.append((program(points, lam, w), np.stack(list(columns), axis=-1)))
    return [np.stack(both) for both in zip(*pairs, strict=True)]


# -- Programs ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_program_computes_what_the_solution_does(name):
    family = FAMILIES[name]()
    solution = untrained(family, lc.protocol.fast(family).network)
    mine, theirs = compared(solution, solution.to_program())
    assert np.abs(theirs).max() > 0.01
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


NETWORKS = {
    "film": MLP(widths=(5, 4), parameters=FiLM(hidden=3), weights=FiLM(hidden=2)),
    "concat": MLP(widths=(5, 4), activation="sine", parameters=Concat(), weights=Concat()),
    "unseen": MLP(widths=(5, 4), parameters=Unseen(), weights=Unseen()),
    "polynomial": MLP(widths=(6,), parameters=FiLM(hidden=0, degree=3), frequency_scale=4.0),
    "deeponet": DeepONet(branch=(5,), trunk=(6, 4), latent=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("family", [toy.Coupled, toy.Ring, toy.Moving, toy.Both])
def test_every_network_with_outputs_periods_ansatz_and_weights(family, network):
    solution = untrained(family(), NETWORKS[network])
    mine, theirs = compared(solution, solution.to_program())
    assert mine.shape[-1] == len(solution.family.outputs)
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in FAMILIES if FAMILIES[n]().exact is not None])
def test_the_exact_solution_is_a_program_too(name):
    family = FAMILIES[name]()
    points, lam = family.domain.sobol(300), family.parameters.sobol(1, seed=2)[0]
    truth = family.truth(points, lam)
    assert truth is not None
    np.testing.assert_allclose(of_exact(family)(points, lam), truth, rtol=0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hooks_in_jax_numpy(name):
    function, points = over_points(FUNCTIONS[name]), np.linspace(0.013, 0.987, 150)[:, None]
    program = trace(function, points=64, coordinates=1, parameters=1)
    # One program, not one for every operation; but how often one takes the vote's start, which is
    # not neutral, XLA leaves open.
    compiled = function if name == "vote" else toy.quick(function)
    for k in (0.4, 1.7):
        with jax.enable_x64(True):
            expected = np.asarray(compiled(jnp.asarray(points), jnp.array([k]), None))
        np.testing.assert_allclose(program(points, [k]), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("what", WITHOUT)
def test_what_has_no_counterpart_is_named(what):
    with pytest.raises(lc.LcpinnError, match=what) as error:
        trace(over_points(WITHOUT[what]), points=8, coordinates=1, parameters=1)
    assert "\n" not in str(error.value)


def test_a_program_travels_as_json():
    solution = untrained(toy.Both())
    program = solution.to_program()
    again = Program.from_json(json.loads(json.dumps(program.to_json(), allow_nan=False)))
    points = solution.family.domain.sobol(20)
    np.testing.assert_array_equal(
        again(points, [0.5], [0.2, 0.3, 0.5, 0.0]), program(points, [0.5], [0.2, 0.3, 0.5, 0.0])
    )
    with pytest.raises(lc.LcpinnError, match="format 2"):
        Program.from_json(program.to_json() | {"format": 1})


@pytest.mark.slow
def test_any_number_of_points_in_runs_of_any_size():
    solution = untrained(toy.Coupled())
    points = solution.family.domain.sobol(70)
    whole = solution.to_program(points=128)(points, [2.0, 0.5])
    pieces = solution.to_program(points=16)(points, [2.0, 0.5])
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-14)
    assert solution.to_program()(points[:0], [2.0, 0.5]).shape == (0, 2)
    with pytest.raises(lc.LcpinnError, match="takes 2 parameters, not 1"):
        solution.to_program()(points, [2.0])


def test_a_program_holds_the_network_and_little_else():
    """Constants that are spread over the points are kept once, whatever the number of points."""
    solution = untrained(Burgers(), lc.protocol.fast(Burgers()).network)
    few, many = (solution.to_program(points=n) for n in (4, 256))
    size = lambda program: sum(c.size for c in program.constants)
    assert size(few) == size(many) < 1.1 * solution.num_params + 50
    assert len(many.operations) < 60
    assert 0.5 < many.cost / few.cost < 2


def test_what_does_not_depend_on_points_is_computed_once():
    program = untrained(Helmholtz(1)).to_program()
    first = len(program.inputs) + len(program.constants)
    varies = {0}
    for number, operation in enumerate(program.operations):
        if varies.intersection(operation.args):
            varies.add(first + number)
    assert program.once > 5
    assert varies == {0, *range(first + program.once, first + len(program.operations))}


def test_no_program_of_an_fno():
    protocol = lc.protocol.fno(Burgers())
    family = protocol.view(Burgers())
    assert isinstance(protocol.network, FNO)
    with pytest.raises(lc.LcpinnError, match="FNO is no function of a point"):
        lc.Solution(family, protocol, {}, {}).to_program()


# -- The page ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def helmholtz():
    return untrained(Helmholtz(1))


@pytest.fixture(scope="module")
def page(helmholtz, tmp_path_factory):
    path = helmholtz.explore(tmp_path_factory.mktemp("page") / "page.html", settings=3)
    return path.read_text(encoding="utf-8")


def held(text):
    """The data in a page."""
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S)[1])


@pytest.mark.slow
def test_the_page_refers_to_nothing_outside_of_it(page):
    plotly = max(re.findall(r"<script>(.*?)</script>", page, re.S), key=len)
    rest = page.replace(plotly, "")
    assert len(plotly) > 1e6
    assert "{{" not in rest
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]{2,}", rest)
    assert not re.search(r"""(?:src|href)=["'](?!data:,)|@import|url\(|fetch\(|XMLHttp""", rest)
    assert "default-src 'none'" in rest


@pytest.mark.slow
def test_the_page_knows_its_equation_and_its_errors(page, helmholtz):
    data, certificate = held(page), helmholtz.certificate(3)
    assert data["equation"].startswith("Δu + k² u = f")
    assert data["parameters"] == [{"name": "k", "low": 1.0, "high": 10.0, "log": False}]
    assert [at[0] for at in data["certificate"]["at"]] == [1.0, 5.5, 10.0]
    assert data["certificate"]["error"] == [row["error"] for row in certificate["settings"]]
    assert data["facts"]["Network"] == f"MLP, {helmholtz.num_params:,} parameters"
    assert data["facts"]["Seed"] == "0"
    program = Program.from_json(data["program"])
    np.testing.assert_array_equal(program([[0.3]], [2.0]), helmholtz.to_program()([[0.3]], [2.0]))


@pytest.mark.slow
def test_corrected_values_are_in_the_page_where_a_slider_can_stand(helmholtz):
    data = contents(helmholtz, 0, corrected=4)["corrected"]
    assert data["at"] == [[1.0], [4.0], [7.0], [10.0]]
    assert data["plane"] == [0]
    values = decode(data["values"][1])
    x = np.linspace(0, 1, data["counts"][0])
    np.testing.assert_allclose(values, helmholtz.corrected(x=x, k=4.0), rtol=0, atol=1e-13)
    assert contents(helmholtz, 0)["corrected"] is None


def test_settings_have_no_more_digits_than_a_slider():
    prior = lc.Uniform(a=(0.0, 1.0)) & lc.LogUniform(nu=(1e-3, 1.0))
    a, nu = _tidy_settings(prior, 4).T
    assert np.unique(a).tolist() == [0.0, 0.333333, 0.666667, 1.0]
    assert np.unique(nu).tolist() == [0.001, 0.01, 0.1, 1.0]


def test_where_nothing_is_corrected_the_page_says_why(helmholtz, monkeypatch):
    none = Correction(Estimate(np.nan, "it is not resolved"), None)
    monkeypatch.setattr(Estimator, "correction", lambda *args, **options: none)
    data = contents(untrained(Helmholtz(1)), 0, corrected=1)
    assert data["corrected"] is None
    assert data["notes"] == ["no correction at k = 5.5: it is not resolved"]


def test_words_of_the_family_cannot_leave_their_place(helmholtz):
    data = contents(helmholtz, 0) | {"name": "<b>&", "equation": "</script><script>alert(1)"}
    text = assemble(data, "var Plotly;")
    assert held(text)["equation"] == "</script><script>alert(1)"
    assert "<title>&lt;b&gt;&amp;</title>" in text
    assert "alert(1)" not in text.replace("\\u003cscript>alert(1)", "")


def test_the_reference_is_sampled_where_it_is_always_the_same():
    data = contents(untrained(Burgers()), 0)
    values = decode(data["reference"]).reshape(data["grid"]["counts"][0], data["grid"]["slice"])
    times, across = np.linspace(0, 1, len(values)), np.linspace(-1, 1, values.shape[1])
    expected = Burgers().truth(np.stack([np.full_like(across, times[40]), across], axis=-1), [])
    np.testing.assert_array_equal(values[40], expected[:, 0])
    assert len(data["weights"]["draws"]) == 16
    assert data["certificate"] is None


class Solved(toy.Oscillator):
    """A reference that takes a solver, for every damping."""

    def reference(self, t, d):
        return np.exp(-d * t)


class Sorted(toy.Oscillator):
    """An exact solution that the page has no counterpart of."""

    def exact(self, t):
        return jnp.sort(jnp.stack([t, 1 - t]))[0]


@pytest.mark.parametrize(
    ("family", "why"), [(Solved, "reference solution is left out"), (Sorted, "'sort'")]
)
def test_a_truth_that_cannot_be_in_the_page_is_left_out_and_said(family, why, tmp_path):
    with pytest.warns(RuntimeWarning, match=why):
        path = untrained(family()).explore(tmp_path / "page.html", settings=0)
    data = held(path.read_text(encoding="utf-8"))
    assert data["exact"] is None
    assert data["reference"] is None
    assert why in data["notes"][0]


def test_a_large_network_warns(tmp_path):
    large = untrained(Burgers(), MLP(widths=(64, 64)))
    with pytest.warns(RuntimeWarning, match=r"about \d+\.\d billion multiply-adds"):
        path = large.explore(tmp_path / "page.html", settings=0)
    assert "billion" in held(path.read_text(encoding="utf-8"))["notes"][0]


def test_without_plotly_the_extra_is_named(helmholtz, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(lc.LcpinnError, match=r"pip install 'lcpinn\[explore\]'"):
        explore(helmholtz, tmp_path / "page.html", 0)


# -- The command ---------------------------------------------------------------------------------


def invoke(*args):
    return CliRunner().invoke(app, ["explore", *map(str, args)])


@pytest.mark.slow
def test_the_command_writes_beside_the_model(helmholtz, tmp_path):
    helmholtz.save(tmp_path / "model.safetensors")
    done = invoke(tmp_path, "--settings", 3)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "explore.html").read_text(encoding="utf-8")
    assert "Δu + k² u = f" in done.stdout
    assert len(held(text)["certificate"]["error"]) == 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", held(text)["facts"]["Model"])


def test_the_command_writes_where_it_is_told_and_speaks_json(helmholtz, tmp_path):
    model = helmholtz.save(tmp_path / "model.safetensors")
    out = tmp_path / "new" / "page.html"
    done = invoke(model, "-o", out, "--settings", 0, "--json")
    assert done.exit_code == 0, done.output
    expected = {"family": "helmholtz-1d", "out": str(out), "bytes": out.stat().st_size}
    assert json.loads(done.stdout) == expected
    done = invoke(model, "-o", tmp_path)
    assert done.exit_code == 2
    assert "that is a directory" in done.stderr


def test_the_command_warns_in_one_line(tmp_path):
    model = untrained(Burgers(), MLP(widths=(64, 64))).save(tmp_path / "model.safetensors")
    done = invoke(model, "--settings", 0)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "model.html").exists()
    assert done.stderr.startswith("lcpinn: warning: a full picture takes about")
    assert done.stderr.count("\n") == 1
