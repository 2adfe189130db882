"""Solutions outside of JAX: ONNX graphs, and arrays with the reader that docs/export.md prints."""

import importlib.util
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Both, Bubble, Coupled, Moving, Ring, Tunnel, perturbed
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn import cli
from lcpinn.export import _erfcx_series, describe, export
from lcpinn.families import FAMILIES, Burgers, FourHoles, Helmholtz
from lcpinn.network import MLP, Concat, FiLM, Units, Unseen
from lcpinn.rows import Problem
from lcpinn.shape import Region

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "export.md").read_text()


def solution_of(family, protocol=None, **changes):
    """A network with random parameters: what a file holds does not depend on their training."""
    protocol = protocol or lc.protocol.fast(family)
    family = protocol.view(family)
    network = changes.get("network", protocol.network)
    with jax.enable_x64(True):
        params = perturbed(Problem(family, network, jnp.float64))
    held = {field: getattr(protocol, field) for field in protocol.__dataclass_fields__}
    return lc.Solution(family, lc.Protocol(**held | changes), params, {})


def inputs(solution, num=50):
    """Points, coefficients and loss weights, each with a row of its own."""
    family = solution.family
    middle = np.array([sum(ends) / 2 for ends in family.parameters.ranges.values()])
    at = middle if isinstance(family.domain, Region) else None
    found = {"coordinates": np.asarray(family.domain.sobol(num, parameters=at))}
    if family.parameters.free:
        found["parameters"] = np.asarray(family.parameters.sobol(num, seed=1))
    if family.weights is not None:
        found["weights"] = np.tile(family.weights.sobol(3, seed=2)[-1:], (num, 1))
    return found


def answers(solution, given):
    """The solution at these inputs, (n, outputs)."""
    family = solution.family
    named = dict(zip(family.domain.names, given["coordinates"].T, strict=True))
    if "parameters" in given:
        named |= dict(zip(family.parameters.names, given["parameters"].T, strict=True))
    if "weights" in given:
        named["weights"] = dict(zip(family.weights.names, given["weights"][0], strict=True))
    found = solution(**named)
    return np.stack(list(found.values()) if isinstance(found, dict) else [found], axis=-1)


# Arrays


@pytest.fixture(scope="module")
def reader():
    """What docs/export.md prints."""
    code = re.search(r"<!-- reader:begin -->\n```python\n(.*?)```", TEXT, re.S)
    names = {}
    exec(code.group(1), names)
    return names["read"]


def moving_features(points, parameters):
    (t, x), c = points.T, parameters[:, 0]
    return np.stack([x - c * t, np.sin(x), t * x], axis=1)


def moving_ansatz(u, points, parameters):
    (t, x), c = points.T, parameters[:, 0]
    return (np.exp(-c * t) * np.sin(np.pi * x / 2) + t * x * (2 - x) * u[:, 0])[:, None]


def hooks_of(family):
    """The hooks of a family in NumPy, as the document writes them."""
    if isinstance(family, Moving):
        return {"features": moving_features, "ansatz": moving_ansatz}
    blocks = re.findall(r"^```python\n(def .*?)```", TEXT, re.M | re.S)
    made = {}
    for block in blocks:
        if (name := block[4:].partition("(")[0]) in ("features", "ansatz"):
            names = {"np": np}
            exec(block.partition("\n\n")[0], names)
            made[name] = names[name]
    return {"helmholtz-1d": {"ansatz": made["ansatz"]}, "burgers": {"features": made["features"]}}[
        family.name
    ]


@pytest.mark.parametrize("family", [Helmholtz(1), Burgers(), Moving()], ids=lambda f: f.name)
def test_the_documented_reader_gives_the_solution(family, reader, tmp_path):
    solution = solution_of(family)
    given = inputs(solution)
    u = reader(solution.to_arrays(tmp_path / "u.npz"), **hooks_of(family))
    points = given.pop("coordinates")
    expected = answers(solution, {"coordinates": points, **given})
    np.testing.assert_allclose(u(points, **given), expected, rtol=1e-12, atol=1e-12)


NETWORKS = {
    "chebyshev": MLP((7, 5), "sine", FiLM(0, 3), Concat()),
    "in part": MLP((7, 5), "sine", FiLM(0, 3, sees=(0,)), Concat()),
    "tanh": MLP((7, 5, 4), "tanh", FiLM(6), FiLM(4)),
    "join": MLP((6,), "tanh", Concat(), Concat()),
    "unseen": MLP((6, 6), "sine", Unseen(), FiLM(0, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", [Coupled(), Ring(), Both()], ids=lambda f: f.name)
@pytest.mark.parametrize("how", NETWORKS)
def test_the_reader_knows_every_way_for_lambda_to_enter(family, how, reader, tmp_path):
    solution = solution_of(family, network=NETWORKS[how])
    given = inputs(solution)
    u = reader(solution.to_arrays(tmp_path / "u.npz"))
    points = given.pop("coordinates")
    expected = answers(solution, {"coordinates": points, **given})
    assert expected.shape == (50, len(family.outputs))
    np.testing.assert_allclose(u(points, **given), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [0, 1])
def test_the_reader_knows_units(degree, reader, tmp_path):
    rows = ((4.0, -2.0), (0.7, 0.1), (-0.3, 0.2))[: 1 + 2 * degree]
    units = Units((300.0, 0.0), rows, degree)
    solution = solution_of(Coupled(), network=MLP((6,), "sine", FiLM(0, 2), units=units))
    given = inputs(solution)
    u = reader(solution.to_arrays(tmp_path / "u.npz"))
    points = given.pop("coordinates")
    expected = answers(solution, {"coordinates": points, **given})
    assert expected[:, 0].min() > 100
    np.testing.assert_allclose(u(points, **given), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("family", [FourHoles(), Bubble(), Tunnel()], ids=lambda f: f.name)
def test_the_reader_knows_of_holes(family, reader, tmp_path):
    network = MLP((7, 5), "sine", FiLM(0, 2), frequency_scale=2.0, holes=True)
    solution = solution_of(family, network=network)
    given = inputs(solution)
    u = reader(solution.to_arrays(tmp_path / "u.npz"))
    points = given.pop("coordinates")
    expected = answers(solution, {"coordinates": points, **given})
    inside = np.isfinite(expected[:, 0])  # at their own coefficients some points are in a hole
    assert inside.sum() > 30
    answered = u(points, **given)[inside]
    np.testing.assert_allclose(answered, expected[inside], rtol=1e-12, atol=1e-12)


def test_the_mean_over_weightings_is_that_of_the_draws(reader, tmp_path):
    solution = solution_of(Burgers())
    path = solution.to_arrays(tmp_path / "u.npz")
    points = inputs(solution)["coordinates"]
    u, draws = reader(path, **hooks_of(solution.family)), np.load(path)["draws"]
    mean = np.mean([u(points, weights=np.tile(one, (50, 1))) for one in draws], axis=0)
    expected = solution(t=points[:, 0], x=points[:, 1])
    np.testing.assert_allclose(mean[:, 0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_held_coefficient_is_a_column_too(reader, tmp_path):
    family = Coupled()
    solution = solution_of(family, lc.protocol.fast(family, at={"b": 0.5}))
    given = inputs(solution)
    assert np.all(given["parameters"][:, 1] == 0.5)
    u = reader(solution.to_arrays(tmp_path / "u.npz"))
    expected = answers(solution, given)
    found = u(given["coordinates"], given["parameters"])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: Helmholtz(1), Burgers])
def test_arrays_of_a_network_that_sees_values_as_they_are(make, reader, tmp_path):
    """Raw coordinates and the logarithms of loss weights, by the reader's own scaling."""
    solution = solution_of(make(), lc.protocol.paper(make()))
    given, u = inputs(solution), reader(solution.to_arrays(tmp_path / "u.npz"))
    found = u(given["coordinates"], given.get("parameters"), given.get("weights"))
    np.testing.assert_allclose(found, answers(solution, given), rtol=1e-11, atol=1e-11)


def test_single_precision_is_widened(tmp_path):
    family = Helmholtz(1)
    solution = solution_of(family, lc.protocol.paper(family))
    solution.params = jax.tree.map(lambda a: np.asarray(a, np.float32), solution.params)
    arrays = np.load(solution.to_arrays(tmp_path / "u.npz"))
    assert {arrays[n].dtype for n in arrays.files if n != "about"} == {np.dtype(np.float64)}


def test_reader_refuses_without_the_hooks(reader, tmp_path):
    path = solution_of(Moving()).to_arrays(tmp_path / "u.npz")
    with pytest.raises(ValueError, match=r"moving needs its features\(t, x, c\)"):
        reader(path)
    with pytest.raises(ValueError, match=r"moving needs its ansatz\(u, t, x, c\)"):
        reader(path, features=moving_features)


def test_description_is_plain_and_complete(tmp_path):
    solution = solution_of(Coupled())
    held = np.load(solution.to_arrays(tmp_path / "new" / "u.npz"), allow_pickle=False)
    about = json.loads(str(held["about"]))
    assert about == json.loads(json.dumps(describe(solution)))
    assert about["parameters"]["kind"] == ["linear", "log"]
    assert about["parameters"]["low"] == [1.0, 0.1]
    assert about["outputs"] == ["u", "v_air"]
    assert about["features"] is None
    assert about["layers"] == sum(name.endswith(".w") and "layers" in name for name in held.files)


def test_other_networks_have_no_arrays(tmp_path):
    solution = solution_of(Helmholtz(1), lc.protocol.pi_deeponet(Helmholtz(1)))
    with pytest.raises(lc.LcpinnError, match=r"how DeepONet\(.*\) evaluates .* export it to"):
        solution.to_arrays(tmp_path / "u.npz")
    assert not (tmp_path / "u.npz").exists()


# ONNX

needs_onnx = pytest.mark.skipif(
    importlib.util.find_spec("jax2onnx") is None, reason="needs the extra onnx"
)


def run_graph(path, given):
    import onnxruntime  # pyright: ignore[reportMissingImports]

    return onnxruntime.InferenceSession(str(path)).run(None, given)[0]


@needs_onnx
@pytest.mark.parametrize("name", FAMILIES)
def test_graph_of_every_family(name, tmp_path):
    solution = solution_of(FAMILIES[name]())
    path = solution.to_onnx(tmp_path / "u.onnx")
    for num in (1, 50):  # any number of points
        given = inputs(solution, num)
        found = run_graph(path, given)
        assert found.dtype == np.float64
        expected = answers(solution, given)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@needs_onnx
@pytest.mark.parametrize("family", [Coupled(), Ring(), Moving(), Both()], ids=lambda f: f.name)
def test_graph_of_other_families(family, tmp_path):
    solution = solution_of(family)
    given = inputs(solution)
    found = run_graph(solution.to_onnx(tmp_path / "u.onnx"), given)
    np.testing.assert_allclose(found, answers(solution, given), rtol=1e-10, atol=1e-12)


@needs_onnx
def test_graph_of_one_setting_takes_coordinates_alone(tmp_path):
    family = Helmholtz(1)
    solution = solution_of(family, lc.protocol.pinn(family, at={"k": 3.25}))
    points = np.linspace(0, 1, 9)
    found = run_graph(solution.to_onnx(tmp_path / "u.onnx"), {"coordinates": points[:, None]})
    np.testing.assert_allclose(found[:, 0], solution(x=points), rtol=1e-10, atol=1e-12)


@needs_onnx
def test_graph_names_its_columns_and_leaves_jax_as_it_was(tmp_path):
    import onnxruntime  # pyright: ignore[reportMissingImports]

    before = jax.config.values["jax_enable_x64"]
    path = solution_of(Both()).to_onnx(tmp_path / "u.onnx")
    assert jax.config.values["jax_enable_x64"] == before
    session = onnxruntime.InferenceSession(str(path))
    assert {i.name: i.shape for i in session.get_inputs()} == {
        "coordinates": ["n", 1],
        "parameters": ["n", 1],
        "weights": ["n", 4],
    }
    held = session.get_modelmeta().custom_metadata_map
    assert held["weights"] == "equation, start, velocity, data"
    assert (held["family"], held["outputs"]) == ("both", "u")


@needs_onnx
def test_what_onnx_does_not_have_is_one_line(tmp_path):
    solution = solution_of(Burgers(), lc.protocol.fno(Burgers()))
    with pytest.raises(lc.LcpinnError, match="FNO"):
        solution.to_onnx(tmp_path / "u.onnx")

    class Odd(Ring):
        def ansatz(self, u, x):
            return u * jax.scipy.special.betainc(1.5, 2.5, x**2)

    # The converter's own incomplete beta function has four digits.
    with pytest.raises(lc.LcpinnError, match=r"differs from the solution|cannot") as raised:
        solution_of(Odd()).to_onnx(tmp_path / "u.onnx")
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


@needs_onnx
def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("lcpinn.export._erfcx_series", lambda: _erfcx_series(3))
    with pytest.raises(lc.LcpinnError, match="differs from the solution"):
        solution_of(FAMILIES["buckley-leverett"]()).to_onnx(tmp_path / "u.onnx")
    assert not list(tmp_path.iterdir())


def test_the_series_of_the_error_function():
    from scipy.special import erf

    z = np.linspace(0, 30, 3001)
    t = 2 / (2 + z)
    q = np.polynomial.chebyshev.chebval(2 * t - 1, _erfcx_series())
    np.testing.assert_allclose(1 - t * q * np.exp(-(z**2)), erf(z), rtol=0, atol=1e-14)


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(lc.LcpinnError, match=r"pip install 'lcpinn\[onnx\]'"):
        solution_of(Ring()).to_onnx(tmp_path / "u.onnx")


# The command


def test_command_writes_arrays(decay, tmp_path, reader):
    run, family = decay / "run", f"{decay / 'decay.py'}:Decay"
    out = tmp_path / "u.npz"
    done = CliRunner().invoke(
        cli.app, ["export", str(run), "-o", str(out), "--family", family, "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["bytes"] == out.stat().st_size
    u = reader(out)
    assert u(np.zeros((1, 1)), np.ones((1, 1))).shape == (1, 1)


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(lc.LcpinnError, match=r"\.onnx or \.npz"):
        export(solution_of(Ring()), tmp_path / "u.h5")
