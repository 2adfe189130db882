"""What the rest of the library does on domains that are no boxes."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Annulus, double, of_kind, perturbed, quick
from typer.testing import CliRunner

import lcpinn as lc
from benchmarks import shapes
from lcpinn import cli
from lcpinn.cli.support import battery
from lcpinn.domain import Region
from lcpinn.evaluation import evaluate, evaluation_points
from lcpinn.families import ON_SHAPES, Pipes
from lcpinn.plot import domain_picture
from lcpinn.protocol.shrink import shrunk
from lcpinn.rows import Problem
from lcpinn.sampling import Sampling, draw, fixed, scatter


class Heated(lc.Family):
    """u_t = Δv in a disc, with two outputs and a condition on the rim that asks for the normal."""

    rim = lc.Ball(x=0.0, y=0.0, radius="r")
    domain = lc.Box(t=(0.0, 1.0)) * rim
    parameters = lc.Uniform(r=(0.5, 1.0))
    outputs = ("u", "v")

    @lc.interior
    def equation(self, u_t, laplacian_v):
        return u_t - laplacian_v

    @lc.on(t=0.0)
    def start(self, u, v):
        return u, v

    @lc.on(rim)
    def flux(self, u_n, v_n, n_x, n_y, x, y):
        return u_n - n_x * x, v_n - n_y * y


@functools.cache
def shared(make: type[lc.Family]) -> lc.Solution:
    """One for all that only ask it: its programs are compiled once."""
    return untrained(make())


def untrained(family: lc.Family) -> lc.Solution:
    protocol = lc.protocol.smoke(family)
    with jax.enable_x64(True):
        params = perturbed(Problem(protocol.view(family), protocol.network, jnp.float64))
    return lc.Solution(protocol.view(family), protocol, params, {})


RULES = ("gauss", "sobol", "collocation")


def check_batch(family: lc.Family, batch, tolerance: float) -> None:
    """Points lie where their terms hold, at their own lambda, and carry normals if asked for."""
    for where, points in batch.items():
        x, lam = np.asarray(points.coordinates), np.asarray(points.parameters)
        lam = np.broadcast_to(lam[:, None], (*x.shape[:2], lam.shape[-1]))
        level = of_kind(Region, family.domain).level_at(x, lam)
        faces = family.groups[where][0].faces
        if faces:
            assert np.abs(level).max() < tolerance
        else:
            assert level.max() <= tolerance
        assert np.isclose(np.asarray(points.quadrature).sum(), 1, atol=1e-5)
        asks = any(term.asks_normals for term in family.groups[where])
        assert (points.normals is not None) == asks
        if asks:
            normals = np.asarray(points.normals)
            np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [Annulus, Heated])
@pytest.mark.parametrize("rule", RULES)
def test_fixed_rules_lie_on_the_shape(make, rule):
    family = make()
    with jax.enable_x64(True):
        batch = fixed(family, Sampling(48, 16, 4, rule), jnp.float64)
    check_batch(family, batch, 1e-9)
    again = fixed(family, Sampling(48, 16, 4, rule), jnp.float32)
    assert all(p.coordinates.dtype == jnp.float32 for p in again.values())
    for where, points in batch.items():  # whose normals are NumPy's in double precision alone
        if points.normals is not None:
            rounded = np.asarray(again[where].normals)
            np.testing.assert_allclose(rounded, points.normals, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [Annulus, Heated])
def test_random_batches_are_drawn_under_jit_at_every_lambda(make):
    family = make()
    run = jax.jit(lambda key: draw(family, Sampling(64, 16, 4), key, jnp.float32))
    first, second = run(jax.random.PRNGKey(0)), run(jax.random.PRNGKey(1))
    check_batch(family, first, 1e-5)
    assert not np.array_equal(first["interior"].coordinates, second["interior"].coordinates)
    assert len(np.unique(np.asarray(first["interior"].parameters))) == 4


def test_candidates_of_a_redraw_lie_inside():
    family = Annulus()
    points = jax.jit(lambda key: scatter(family, 200, key, jnp.float32))(jax.random.PRNGKey(0))
    x, lam = np.asarray(points.coordinates)[:, 0], np.asarray(points.parameters)
    assert family.domain.covers(x, lam).all()


@pytest.mark.slow
def test_the_normal_derivative_is_the_slope_along_the_normal():
    """On a disc it is the radial derivative, and on a box that of the coordinate."""
    family = Heated()
    with jax.enable_x64(True):
        problem, params = double(family)
        batch = fixed(family, Sampling(8, 32, 4, "sobol"), jnp.float64)
        found = quick(problem.residuals)(params, batch)["flux"]
        points = batch["rim"]

        def value(p, lam):
            own = jax.tree.map(lambda a: a[:1, :1], points)._replace(
                coordinates=p[None, None], parameters=lam[None]
            )
            zero = family.orders([family.terms["start"]])
            return problem.outputs(params, own, zero)[0, 0, 0]

        slopes_at = quick(jax.jacfwd(value))
        for row in range(4):
            p, lam = points.coordinates[row, 0], points.parameters[row]
            slopes, p = np.asarray(slopes_at(p, lam)), np.asarray(p)
            n = np.array([0.0, *p[1:]]) / float(lam[0])
            expected = slopes @ n - np.array([n[1] * p[1], n[2] * p[2]])
            np.testing.assert_allclose(found[row, 0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_on_a_box_u_n_is_plus_or_minus_the_slope():
    class Walls(lc.Family):
        domain = lc.Box(x=(0.0, 1.0), y=(0.0, 2.0))

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u

        @lc.on(x=0.0)
        def left(self, u_n, u_x):
            return u_n + u_x

        @lc.on(x=1.0)
        def right(self, u_n, u_x, n_x):
            return u_n - n_x * u_x

        @lc.on(y=(0.0, 2.0))
        def ends(self, u_n, n_x, n_y, u_y):
            return u_n - n_y * u_y, n_x

    family = Walls()
    with jax.enable_x64(True):
        problem, params = double(family)
        batch = fixed(family, Sampling(16, 16, 2, "sobol"), jnp.float64)
        found = quick(problem.residuals)(params, batch)
    for name in ("left", "right", "ends"):
        np.testing.assert_allclose(found[name], 0, atol=1e-12)
    assert batch["interior"].normals is None


def test_a_solution_is_nan_outside_of_its_shape():
    solution = shared(Annulus)
    value = solution(x=[0.1, 0.35, 0.6, 1.2], y=0.0, r=np.array([[0.2], [0.5]]))
    np.testing.assert_array_equal(
        np.isnan(value), [[True, False, False, True], [True, True, False, True]]
    )
    assert np.isfinite(solution(x=0.2, y=0.0, r=0.2))  # the boundary belongs to it


@pytest.mark.slow
def test_corrected_values_are_those_of_the_shape_alone():
    """Its functions are singular in a hole: outside of the shape the answer is nan, as a call's."""
    solution = shared(Pipes)
    x = np.array([0.0, 0.05, 0.6, 0.9, 1.5])
    found = solution.corrected(x=x, y=0.1, r=0.3, b=0.95)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(solution(x=x, y=0.1, r=0.3, b=0.95)))
    truth = Pipes().truth(np.stack([x, np.full(5, 0.1)], axis=1), np.array([0.3, 0.95]))[:, 0]
    inside = np.isfinite(found)
    np.testing.assert_allclose(found[inside], truth[inside], atol=1e-4)
    assert np.isnan(solution.corrected(x=0.0, y=0.0, r=0.3, b=0.95))


@pytest.mark.slow
def test_errors_are_measured_inside():
    family = Annulus()
    solution = shared(Annulus)
    found = evaluate(solution)
    assert np.isfinite(found["mean"])
    points = evaluation_points(family)
    lam = np.array([0.2])
    inside = points[np.hypot(*points.T) >= 0.2]
    inside = inside[np.hypot(*inside.T) <= 1]
    value = solution(x=inside[:, 0], y=inside[:, 1], r=0.2)
    expected = np.linalg.norm(value - 1) / np.sqrt(len(inside))
    assert found["grid"][0]["error"] == pytest.approx(expected)
    assert family.domain.covers(points, lam).sum() == len(inside)


def test_models_of_shapes_are_saved_and_loaded(tmp_path):
    solution = shared(Annulus)
    path = solution.save(tmp_path / "model.safetensors")
    again = lc.load(path, Annulus())
    at: dict[str, Any] = {"x": 0.6, "y": 0.3, "r": 0.4}
    assert again(**at) == solution(**at)

    class Wider(Annulus):
        casing = lc.Ball(x=0.0, y=0.0, radius=2.0)
        domain = casing - Annulus.pipe

        @lc.on(casing)
        def insulated(self, u_n):
            return u_n

    Wider.__name__ = "Annulus"
    with pytest.raises(lc.LcpinnError, match="they differ in domain"):
        lc.load(path, Wider())


def test_a_held_radius_holds_the_shape():
    family = Annulus().at(r=0.3)
    assert not family.domain.moves
    points = family.domain.sobol(500)
    assert np.hypot(*points.T).min() > 0.3
    assert family.domain.contains(x=0.31, y=0.0)
    assert np.isnan(untrained(family)(x=0.25, y=0.0))


def test_a_time_coordinate_with_one_condition_makes_an_initial_value_problem():
    assert Heated().is_initial_value()
    assert not Annulus().is_initial_value()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["smoke", "paper", "pinn-gn"])
def test_protocols_train_on_shapes(protocol):
    """Few steps of each kind: random batches with L-BFGS, and rows that are redrawn."""
    family = Annulus() if protocol == "smoke" else Annulus().at(r=0.3)
    made = lc.protocol.PROTOCOLS[protocol]
    if protocol == "paper":
        how = shrunk(made(family, steps=3))
    elif protocol == "pinn-gn":
        how = made(family, at={"r": 0.3}, seconds=1)
    else:
        how = made(family)
    judged = protocol == "pinn-gn"  # a verdict on a shape, once
    solution = lc.train(family, how, progress=False, report=judged)
    assert np.isfinite(solution(x=0.7, y=0.1, r=0.3))


@pytest.mark.slow
def test_pictures_are_masked_and_outlined(tmp_path):
    solution = shared(Annulus)
    for what in ("solution", "error"):
        drawn = solution.plot(what, tmp_path / f"{what}.png")
        shown = [axis for axis in drawn.axes if axis.images]
        values = [of_kind(np.ndarray, axis.images[0].get_array()) for axis in shown]
        assert all(np.isnan(np.ma.filled(v, np.nan)).any() for v in values)
        assert all(len(axis.collections) for axis in shown)  # the outline
    assert solution._repr_html_().count("data:image/png;base64,") == 1
    assert solution.explore(settings=0)._repr_html_().startswith("<iframe srcdoc=")


def test_the_domain_is_drawn_with_its_boundaries(tmp_path):
    for family in (Annulus(), Heated()):
        path = domain_picture(family, tmp_path / f"{family.name}.png")
        assert path.stat().st_size > 10_000


@pytest.mark.slow
def test_check_draws_the_domain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(cli.app, ["check", "pipes"])
    assert found.exit_code == 0, found.output
    assert "pipes-domain.png" in found.output
    assert (tmp_path / "pipes-domain.png").exists()


@pytest.mark.parametrize("name", ON_SHAPES)
def test_built_in_families_have_exact_solutions(name):
    family = ON_SHAPES[name]()
    assert family.exact is not None
    assert family.is_linear()
    assert of_kind(Region, family.domain).moves


def test_a_radius_is_found_from_sensors():
    """From the network's own values: the fit knows nothing of where the hole is."""
    solution = shared(Annulus)
    points = Annulus().domain.sobol(40, 5, parameters=np.array([0.5]))
    values = solution(x=points[:, 0], y=points[:, 1], r=0.31)
    found = solution.fit(
        {"x": points[:, 0], "y": points[:, 1], "u": values}, sigma=1e-6, estimate=False
    )
    assert found.values["r"] == pytest.approx(0.31, abs=1e-5)
    inside_at_some = {"x": [0.25, *points[:, 0]], "y": [0.0, *points[:, 1]], "u": [1.0, *values]}
    found = solution.fit(inside_at_some, sigma=1.0, estimate=False)
    assert any("1 of 41 points lie outside of the domain" in line for line in found.warnings)


def test_observations_outside_of_the_shape_are_refused():
    solution = shared(Annulus)
    with pytest.raises(
        lc.LcpinnError, match=r"x = 0.1, y = 0 lies outside of the domain at every r"
    ):
        solution.fit({"x": [0.7, 0.1], "y": [0.0, 0.0], "u": [1.0, 1.0]})

    def seen(**columns):
        return type("Seen", (Annulus,), {"data": lc.Data(**columns)})

    seen(x=[0.4], y=[0.0], u=[1.0], r=[0.3])()
    seen(x=[0.2121], y=[0.2121], u=[1.0], r=[0.3])()  # on the rim, in four digits
    with pytest.raises(
        lc.LcpinnError, match=r"data: the point x = 0.4, y = 0 lies outside .* r = 0.45"
    ):
        seen(x=[0.7, 0.4], y=[0.0, 0.0], u=[1.0, 1.0], r=[0.3, 0.45])()
    with pytest.raises(lc.LcpinnError, match=r"x = 0.4, y = 0 lies outside of the domain at r = "):
        seen(x=[0.4], y=[0.0], u=[1.0])()
    at_rest = {"data": lc.Data(t=[0.5], x=[2.0], y=[0.0], u=[1.0], r=[0.7])}
    with pytest.raises(lc.LcpinnError, match=r"t = 0.5, x = 2, y = 0 lies outside"):
        type("Seen", (Heated,), at_rest)()


def test_observations_are_rows_on_a_shape():
    class Seen(Annulus):
        data = lc.Data(x=[0.6, -0.7], y=[0.0, 0.1], r=[0.3, 0.4], u=[1.0, 1.0])

    batch = fixed(Seen(), Sampling(16, 8, 2, "sobol"), jnp.float32)
    assert batch["data"].coordinates.shape == (2, 1, 2)
    assert batch["data"].normals is None


@pytest.mark.slow
def test_without_coefficients_the_loss_weights_are_conditioned_on():
    class Disc(lc.Family):
        domain = lc.Ball(x=0.0, y=0.0, radius=1.0)

        @lc.interior
        def equation(self, laplacian_u):
            return laplacian_u + 1.0

        @lc.on()
        def rim(self, u):
            return u

    batch = jax.jit(lambda key: draw(Disc(), Sampling(32, 8, 4), key, jnp.float32))(
        jax.random.PRNGKey(0)
    )
    assert batch["interior"].weights.shape == (4, 3)
    assert np.hypot(*np.asarray(batch["interior"].coordinates).reshape(-1, 2).T).max() < 1


def test_trainings_at_different_radii_are_no_batch():
    with pytest.raises(lc.LcpinnError, match="the domain depends on r: train its settings one by"):
        lc.retrain(Annulus(), lc.protocol.pinn, [{"r": 0.3}, {"r": 0.4}], progress=False)


# Values for other programs


@pytest.mark.slow
def test_a_grid_becomes_a_dataset_with_named_dimensions():
    pytest.importorskip("xarray")
    solution = shared(Pipes)
    data = solution.to_xarray(x=21, y=[0.0, 0.5], r=[0.3, 0.5], b=1.0)
    assert data["u"].dims == ("x", "y", "r")
    assert data["u"].shape == (21, 2, 2)
    assert float(data.b) == 1.0
    assert bool(data["u"].sel(x=0.0, y=0.0, r=0.3).isnull())
    expected = solution(x=1.0, y=0.0, r=0.5, b=1.0)
    np.testing.assert_allclose(data["u"].sel(x=1.0, y=0.0, r=0.5), expected)
    assert data.attrs["family"] == "pipes"
    with pytest.raises(lc.LcpinnError, match="missing r: give a value"):
        solution.to_xarray(x=3, y=3, b=1.0)
    with pytest.raises(lc.LcpinnError, match="no such argument as 'z'"):
        solution.to_xarray(z=3, r=0.3, b=1.0)


@pytest.mark.slow
def test_files_for_paraview_and_netcdf_read_back(tmp_path):
    meshio, xarray = pytest.importorskip("meshio"), pytest.importorskip("xarray")
    solution = shared(Pipes)
    model = solution.save(tmp_path / "model.safetensors")
    run = lambda *args: CliRunner().invoke(cli.app, ["export", str(model), *map(str, args)])
    out = tmp_path / "u.vtu"
    found = run("-o", out, "--at", "r=0.3,b=1")
    assert found.exit_code == 0, found.output
    mesh = meshio.read(out)
    radius = np.hypot(*mesh.points[:, :2].T)
    assert radius.min() >= 0.3 - 1e-6
    assert radius.max() <= 1 + 1e-6
    place = mesh.points[7]
    expected = solution(x=place[0], y=place[1], r=0.3, b=1.0)
    np.testing.assert_allclose(mesh.point_data["u"][7], expected)
    assert mesh.cells[0].type == "quad"
    out = Path(tmp_path / "u.nc")
    assert run("-o", out, "--at", "r=0.3,b=1").exit_code == 0
    with xarray.open_dataset(out, engine="scipy") as data:
        assert data["u"].dims == ("x", "y")
        assert float(data["r"]) == 0.3
    found = run("-o", tmp_path / "u.onnx", "--at", "r=0.3")
    assert found.exit_code == 2
    assert "a network answers for every r" in found.output


# The benchmark


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(shapes.FAMILIES) - set(ON_SHAPES)))
def test_solutions_of_the_benchmark_solve_their_pages(name):
    """The closed form leaves nothing in any term, at random points of the shape."""
    with jax.enable_x64(True):
        found = battery._exact(battery._Bench(shapes.FAMILIES[name]()))
    assert found.startswith("solves every term")


def test_the_benchmark_has_what_it_promises():
    made = [make() for make in shapes.FAMILIES.values()]
    assert len(made) == 10
    assert sum("z" in family.domain.names for family in made) >= 2
    assert sum("t" in family.domain.names for family in made) == 2
    assert sum(of_kind(Region, family.domain).moves for family in made) >= 3
