"""PINNacle's problems: pages, references against equations and published files, and the command."""

import io
import json
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from toy import the

import lcpinn as lc
from benchmarks.pinnacle import __main__, medium, metric, pictures, table, training
from benchmarks.pinnacle.flow import ALONG, ROUND, BackwardStep, corner_flow
from benchmarks.pinnacle.heat import heated_by_rim
from benchmarks.pinnacle.problem import Problem, Row
from benchmarks.pinnacle.published import HERE, columns, heat_conductivity_signs, load
from benchmarks.pinnacle.reference import cut_cells, evolution, finite_volume, holes, step
from benchmarks.pinnacle.reference.exponential import integrate
from benchmarks.pinnacle.reference.hyperbola import contour
from benchmarks.pinnacle.registry import LEFT_OUT, PROBLEMS, VISCOSITY, published_rows
from lcpinn.jet import expand
from lcpinn.reference import cavity, cole_hopf

PUBLISHED = """
Burgers 1d-C, Burgers 2d-C, Poisson 2d-C, Poisson 2d-CG, Poisson 3d-CG, Poisson 2d-MS, Heat 2d-VC,
Heat 2d-MS, Heat 2d-CG, Heat 2d-LT, NS 2d-C, NS 2d-CG, NS 2d-LT, Wave 1d-C, Wave 2d-CG, Wave 2d-MS,
GS, KS, PNd, HNd, PInv, HInv, Burgers-P, Poisson-P, Heat-P, NS-P, Wave-P, HNd-P
"""


def distance(values, truth):
    return np.linalg.norm(values - truth) / np.linalg.norm(truth)


# -- Pages and the registry ------------------------------------------------------------------------


def test_every_published_row_is_answered_or_left_out_with_a_reason():
    names = [name.strip() for name in PUBLISHED.replace("\n", " ").split(",")]
    assert len(names) == 28
    assert sorted(published_rows()) == sorted(names)
    assert all(len(row.reason) > 20 for row in LEFT_OUT)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_compared_within_its_ranges(name):
    problem = PROBLEMS[name]
    family = the(problem.family)
    assert (family.exact is not None) == (name in CLOSED)
    for setting in problem.settings:
        assert set(setting) == set(family.parameters.names)
        for key, value in setting.items():
            low, high = family.parameters.ranges[key]
            assert low <= value <= high
    assert set(problem.outputs or ()) <= set(family.outputs)
    truth = family.exact is not None or family.reference is not None
    assert truth or problem.files
    lam = np.array([problem.settings[0][key] for key in family.parameters.names])
    points = metric.test_points(family, problem, lam)
    covered = family.domain.covers(points, lam)
    assert points.shape[1] == family.domain.dim
    assert covered.mean() > 0.999  # nodes on a rim are inside up to rounding


def has_closed_form(make):
    """Read off a class: every process that collects tests asks, and would build all families."""
    return (make if isinstance(make, type) else make()).exact is not None


CLOSED = [name for name, problem in PROBLEMS.items() if has_closed_form(problem.family)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_form_solves_every_term_but_the_data(name):
    family = the(PROBLEMS[name].family)
    with jax.enable_x64(True):
        for lam in family.parameters.sobol(2, 5):
            for term in family.all_terms.values():
                if term.name != "data":
                    assert np.max(np.abs(left(family, term, lam))) < 1e-8, term.name


def left(family, term, lam):
    """The closed form's residuals at a few places, by the largest derivative that enters."""
    orders = family.orders([term])

    def one(point, normal):
        series = expand(lambda p: family.call("exact", p, lam), point, orders)
        size = 1 + jnp.max(jnp.abs(series))
        return term.residual(series, orders, point, lam, normal=normal) / size

    run = jax.jit(jax.vmap(one), compiler_options={"xla_backend_optimization_level": 0})
    settings = np.tile(lam, (8, 1))
    values = []
    for face in term.faces or (None,):
        points = family.domain.sobol(8, 3, face=face, parameters=settings)
        faces = () if face is None else (face,)
        normals = family.domain.normals(points, settings, faces) if faces else 0 * points
        values.append(np.asarray(run(jnp.asarray(points), jnp.asarray(normals))))
    return np.concatenate(values)


# -- Published files -------------------------------------------------------------------------------


def test_published_files_are_small_and_have_their_times_and_outputs():
    for file in HERE.glob("*.csv"):
        assert file.stat().st_size <= 100_000, file.name
    assert load("burgers1d").points.shape == (101 * 11, 2)
    assert load("lid_driven_a8").values.shape == (1800, 3)
    assert columns("heatinv_points").shape == (2500, 3)
    assert heat_conductivity_signs().shape == (256, 256)
    assert 0.4 < heat_conductivity_signs().mean() < 0.6


def test_the_published_burgers_file_is_over_a_hundredth_from_the_exact_solution():
    (t, x), values = load("burgers1d").points.T, load("burgers1d").values[:, 0]
    assert 1.2e-2 < distance(values, cole_hopf.burgers(t, x, VISCOSITY)) < 1.5e-2


# -- References ------------------------------------------------------------------------------------


def test_four_holes_meets_its_conditions_and_the_published_file():
    solved = holes.four_holes(0.1)
    assert solved.misfit < 1e-8
    (x, y), values = load("poisson1_cg_data").points.T, load("poisson1_cg_data").values[:, 0]
    assert distance(values, solved(x, y)) < 5e-5


@pytest.mark.slow
def test_the_screened_source_is_met_and_so_is_the_published_file():
    x, y, k, step = np.array([0.31]), np.array([-0.27]), 8.0, 1e-4
    at = lambda dx, dy: holes.screened_particular(x + dx, y + dy, k)
    around = at(step, 0) + at(-step, 0) + at(0, step) + at(0, -step)
    laplacian = (around - 4 * at(0, 0)) / step**2
    assert -laplacian + k**2 * at(0, 0) == pytest.approx(holes.screened_source(x, y), rel=1e-4)
    (x, y), values = load("poisson_boltzmann2d").points.T, load("poisson_boltzmann2d").values[:, 0]
    assert distance(values, holes.screened(x, y, k)) < 2e-4


@pytest.mark.slow
def test_the_cavity_agrees_with_the_published_file_and_with_a_finer_grid():
    (x, y), values = load("lid_driven_a4").points.T, load("lid_driven_a4").values
    flow = np.stack(cavity.cavity(4.0)(x, y), axis=-1)
    for column in (0, 1):
        assert distance(values[:, column], flow[:, column]) < 5e-4
    assert distance(values, flow) < 1e-3
    finer = np.stack(cavity._cavity(4.0, 28)(x, y), axis=-1)
    assert distance(flow, finer) < 1e-4
    assert cavity.cavity(4.0)(np.zeros(1), np.zeros(1))[2] == pytest.approx(0, abs=1e-12)


def test_an_inverse_transform_is_an_exponential():
    by = contour(0.1, 3.0, 20)
    for rate in (0.1, 1.0, 30.0):
        for time in (0.1, 1.0, 3.0):
            value = np.imag(np.sum(by.kernel(time) / (by.points + rate)))
            assert value == pytest.approx(np.exp(-rate * time), abs=1e-5)


def test_exponential_steps_are_of_fourth_order():
    exact = lambda t: 1 / (1 + np.exp(-t))  # u' = u - u²
    nonlinear = lambda t, u: -(u**2)
    errors = []
    for size in (0.1, 0.05):
        times = np.array([0.0, 2.0])
        states = integrate(np.array([1.0]), nonlinear, np.array([0.5]), times, size)
        errors.append(abs(states[-1, 0] - exact(2.0)))
    assert errors[0] < 1e-5
    assert 12 < errors[0] / errors[1] < 20


@pytest.mark.slow
def test_kuramoto_sivashinsky_is_the_same_with_half_the_modes():
    coarse, fine = (evolution._ks(1.0, num)[::100] for num in (256, 512))
    assert distance(coarse, fine[:, ::2]) < 1e-6
    assert np.max(np.abs(fine.mean(axis=1))) < 1e-10  # it conserves the mean


@pytest.mark.slow
def test_one_medium_has_the_closed_form():
    num, rate = 64, 26 * np.pi**2
    solved = finite_volume._solve(np.ones((num, num)))
    heat = finite_volume.Heat(np.ones((num, num)), solved["oscillation"], solved["transient"])
    x, y = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 17))
    waves = 200 * np.sin(np.pi * x) * np.sin(5 * np.pi * y)
    for time in (0.02, 0.4, 1.7):
        weight = 1 / (rate + 1j * np.pi)
        exact = waves * (np.imag(np.exp(1j * np.pi * time) * weight)
                         - np.exp(-rate * time) * np.imag(weight))  # fmt: skip
        u, q, _ = heat(np.full(x.shape, time), x, y)
        assert distance(u, exact) < 3e-2
        assert np.max(np.abs(q[:, 4])) < 1e-2 * np.max(np.abs(q))  # by symmetry


@pytest.mark.slow
def test_what_flows_into_the_block_is_lost_in_it():
    cells = (16, 40, 20)
    u, volume = cut_cells._solve(8.0, cells), cut_cells._shares(cells)
    x, y, z = np.meshgrid(*((np.arange(n) + 0.5) / n for n in cells), indexing="ij")
    kept = volume * (volume > cut_cells.SMALLEST)
    lost = np.sum(kept * np.where(z < 0.5, 64.0, 100.0) * u)
    assert lost == pytest.approx(np.sum(kept * cut_cells.source(x, y, z)), rel=1e-6)


def test_the_flow_over_a_step_keeps_its_mass_and_meets_its_conditions():
    flow = step._flow(0.05, 8)
    through = flow.u @ np.diff(step.grid(8)[1])
    np.testing.assert_allclose(through, 2 / 3, rtol=1e-9)
    rim = np.linspace(0, 2, 21)
    u, v, p = flow(np.full(21, 4.0), rim)
    np.testing.assert_allclose(np.stack([v, p]), 0, atol=1e-12)
    u, v, p = flow(np.linspace(0.1, 1.85, 21), np.ones(21))  # up to the last face
    np.testing.assert_allclose(np.stack([u, v]), 0, atol=1e-12)
    assert np.ptp(flow(np.zeros(5), np.linspace(0.2, 0.8, 5))[2]) < 0.1 * np.max(p)


@pytest.mark.slow
def test_the_published_flow_over_a_step_has_another_outlet():
    (x, y), published = load("ns_0_obstacle").points.T, load("ns_0_obstacle").values
    flow = np.stack(step._flow(0.01, 32)(x, y), axis=-1)
    assert distance(published, flow) > 6e-2
    # Before the step velocities agree; at the outlet the file's pressure is not zero.
    inlet, back = x < 1.5, (x == 4) & (y > 1.5)
    assert distance(published[inlet, 0], flow[inlet, 0]) < 3e-3
    assert published[back, 2].min() < -0.015


def test_cells_of_the_step_shrink_towards_its_corner_and_its_outlet():
    x, y = step.grid(16)
    assert (x[0], x[32], x[-1], y[0], y[16], y[-1]) == pytest.approx((0, 2, 4, 0, 1, 2))
    assert np.all(np.diff(x) > 0)
    np.testing.assert_allclose(np.diff(x), np.diff(x)[::-1])  # mirrored at the corner
    assert np.diff(x)[32] < 0.15 / 16
    assert np.diff(x)[-1] < 0.3 / 16
    assert np.diff(y)[16] < 0.15 / 16


@pytest.mark.parametrize(("power", "even"), [(ROUND, True), (ALONG, False)])
def test_flows_at_the_corner_are_those_of_stokes_and_stand_still_at_its_sides(power, even):
    flow = lambda place: jnp.stack(corner_flow(place[0], place[1], power, even=even))
    with jax.enable_x64(True):
        place = jnp.array([2.3, 0.6])
        slopes = jax.jit(jax.jacfwd(flow))(place)
        curved = jax.jit(jax.jacfwd(jax.jacfwd(flow)))(place)
        laplacian = jnp.trace(curved[:2], axis1=1, axis2=2)
        assert slopes[0, 0] + slopes[1, 1] == pytest.approx(0, abs=1e-12)
        np.testing.assert_allclose(slopes[2], laplacian, atol=1e-12)
        for side in ([1.4, 1.0], [2.0, 1.7]):
            np.testing.assert_allclose(flow(jnp.array(side))[:2], 0, atol=1e-12)


def test_a_rim_alone_leaves_its_curvature_and_meets_its_condition():
    """u_t - Δu = -u/(4r²) outside of a rim, and u_n = h (T - u) on it, at early and late times."""
    h, radius, temperature = 1.3, 0.4, 5.0
    u = lambda t, x, y: heated_by_rim(t, x, y, h, 1.0, 2.0, radius, temperature)
    with jax.enable_x64(True):
        for t, away in ((1e-4, 0.41), (0.1, 0.6), (3.0, 1.7)):
            at = (t, 1.0 + 0.6 * away, 2.0 + 0.8 * away)
            second = [jax.grad(jax.grad(u, i), i)(*at) for i in (1, 2)]
            equation = float(jax.grad(u)(*at) - sum(second))
            assert u(*at) > 1e-6
            assert equation == pytest.approx(float(-u(*at)) / (4 * away**2), rel=1e-6)
            rim = (t, 1.0 + radius, 2.0)
            flux = float(-jax.grad(u, 1)(*rim))
            assert flux == pytest.approx(h * (temperature - float(u(*rim))), rel=1e-9)


def test_rows_of_the_step_stay_in_the_channel_and_lie_in_its_layers():
    family, lam = BackwardStep(), np.array([0.01])
    points = np.asarray(family.domain.sobol(8192, 0, parameters=np.tile(lam, (8192, 1))))
    moved = np.asarray(jax.vmap(lambda p: family.call("collocate", p, lam))(points))
    assert family.domain.covers(moved, lam).all()
    layers = lambda at: (np.mean(4 - at[:, 0] < 0.02), np.mean(np.hypot(*(at - [2, 1]).T) < 0.1))
    for denser, even in zip(layers(moved), layers(points), strict=True):
        assert denser > 3 * even


def test_the_smoothed_distance_has_the_sign_of_the_medium():
    signs = heat_conductivity_signs()
    values, cells = medium.signed_distance(signs), np.arange(2, 256, 8)
    row, column = (v.ravel() for v in np.meshgrid(cells, cells, indexing="ij"))
    distances = jax.vmap(lambda x, y: medium.at_point(values, x, y))(
        (column + 0.5) / 256, (row + 0.5) / 256
    )
    assert np.mean((np.asarray(distances) > 0) == signs[row, column]) > 0.97
    assert medium.at_point(np.ones_like(values), jnp.zeros(()), jnp.ones(())) == pytest.approx(1.0)


def test_a_jump_of_the_flux_along_an_interface_has_no_divergence():
    family = PROBLEMS["two-media"].family()
    zero = dict.fromkeys(family.outputs, 0.0)

    def flux(place, **parts):
        return jnp.stack(family.ansatz(**zero | parts, t=0.5, x=place[0], y=place[1])[:3])

    with jax.enable_x64(True):
        places = np.random.default_rng(0).uniform(size=(64, 2))
        slopes = jax.jit(jax.vmap(jax.jacfwd(lambda place: flux(place, g=1.0))))(places)
        divergence = np.asarray(slopes[:, 1, 0] + slopes[:, 2, 1])
        assert np.max(np.abs(divergence)) < 1e-9 * np.max(np.abs(slopes))
        assert np.max(np.abs(slopes[:, 1:])) > 1
        kink = jax.jit(jax.vmap(lambda place: flux(place, k=1.0)))(places)
        assert np.all(kink[:, 0] > 0)
        assert family.ansatz(*np.ones(10), t=0.0, x=0.3, y=0.4)[0] == pytest.approx(0, abs=1e-12)


# -- Metric, command, table ------------------------------------------------------------------------


class Answer:
    """What a trained network of the cavity would be, off by a known share of the truth."""

    def __init__(self, family, share):
        self.family, self.share = family, share

    def __call__(self, x, y, a):
        return {name: (1 + self.share) * v
                for name, v in zip("uvp", self.family.reference(x, y, a), strict=True)}  # fmt: skip


def test_the_metric_stacks_all_outputs():
    assert metric.stacked_error(np.array([[3.0, 0.0]]), np.array([[0.0, 4.0]])) == 1.25
    problem = PROBLEMS["cavity"]
    entry = training.measured(cast(Any, Answer(problem.family(), 1e-2)), problem)
    (value,), (row,) = entry["values"], entry["rows"]
    assert value["error"] == pytest.approx(1e-2)
    assert value["outputs"] == pytest.approx(dict.fromkeys("uvp", 1e-2))
    assert value["published"] == pytest.approx(1e-2, rel=0.1)
    assert 1e-5 < value["reference"] < 1e-3
    assert row["ratio"] == pytest.approx(3.6)


def test_a_verdict_is_wrong_that_says_solved_above_three_times_its_error():
    values = [{"outputs": {"u": 1e-3, "p": 5e-2}}]
    said = lambda solved, error: {"solved": solved, "error": error, "tolerance": 1e-2}
    assert training.wrong(said(True, 1e-2), values, 1e-6) is True
    assert training.wrong(said(True, 2e-2), values, 1e-6) is False
    assert training.wrong(said(False, 2e-1), values, 1e-6) is False
    assert training.wrong(said(None, None), values, 1e-6) is None


def entry_of(name, error=1e-4, seconds=60.0, solved=True):
    problem = PROBLEMS[name]
    rows = [{"name": r.name, "error": error, "worst": error, "vanilla": r.vanilla, "best": r.best,
             "method": r.method, "ratio": r.best / error} for r in problem.rows]  # fmt: skip
    values = [{"at": dict(at), "error": error, "outputs": {"u": error}, "published": 1.5 * error,
               "reference": 3e-5} for at in problem.settings]  # fmt: skip
    return {
        "seconds": seconds, "seed": 0, "jobs": 1, "rows": rows, "values": values,
        "accuracy": problem.accuracy, "ranges": {"r": [0.05, 0.15]}, "wrong": False,
        "verdict": {"solved": solved, "error": error, "tolerance": 1e-2},
        "seconds_spent": {"total": 61.0},
        "stamp": {"device": "a device", "date": "2026-11-16T10:00:00+00:00"},
    }  # fmt: skip


def test_the_table_comes_out_of_the_results(tmp_path):
    result = {"benchmark": "pinnacle", "problems": {"four-holes": entry_of("four-holes")}}
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    file = tmp_path / "pinnacle-x.json"
    file.write_text(json.dumps(result))
    __main__.main(["--table", str(file), "--page", str(page)])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    line = next(row for row in text.splitlines() if row.startswith("| Poisson 2d-C |"))
    assert "| **1.0e-04** | 123 | 1.5e-04 | 3.0e-05 | solved (1.0e-04) |" in line
    assert "Of 2 rows 2 are below the best published error, 2 within a hundredth" in text
    assert all(row.name in text for row in LEFT_OUT)


def test_the_command_goes_on_where_its_file_ends(tmp_path, monkeypatch):
    trained = []

    def train(name, asked, cores):
        trained.append((name, asked["seconds"]))
        return entry_of(name, seconds=asked["seconds"]) if name != "step" else {
            **asked, "failed": "no memory"}  # fmt: skip

    monkeypatch.setattr(__main__, "train_in_fresh_process", train)
    out = tmp_path / "results" / "pinnacle.json"
    run = lambda names, *more: __main__.main(["--problems", names, "--out", str(out), *more])
    run("wave-1d,four-holes")
    run("four-holes,burgers-1d")
    assert trained == [("wave-1d", 60.0), ("four-holes", 60.0), ("burgers-1d", 60.0)]
    assert list(json.loads(out.read_text())["problems"]) == ["burgers-1d", "four-holes", "wave-1d"]
    run("four-holes", "--seconds", "5")
    run("four-holes", "--seconds", "5", "--again")
    assert trained[3:] == [("four-holes", 5.0)] * 2
    with pytest.raises(SystemExit, match="failed: step"):
        run("step")
    assert "failed" in json.loads(out.read_text())["problems"]["step"]


def test_networks_that_were_only_trained_are_measured_afterwards(tmp_path, monkeypatch):
    unmeasured = {
        key: value for key, value in entry_of("four-holes").items()
        if key not in ("rows", "values", "verdict", "wrong")
    }  # fmt: skip
    asked = []
    monkeypatch.setattr(
        __main__, "train_in_fresh_process", lambda name, job, cores: asked.append(job) or unmeasured
    )
    out, models = tmp_path / "pinnacle.json", str(tmp_path / "models")
    options = ["--out", str(out), "--models", models, "--problems", "four-holes"]
    __main__.main([*options, "--later"])
    assert asked[0]["later"] is True
    result = json.loads(out.read_text())
    assert table.measured_entries(result) == []
    assert "| four-holes" not in table.render([result])
    __main__.main([*options, "--later"])
    assert len(asked) == 1  # trained, if not measured
    monkeypatch.setattr(__main__, "measure_model", lambda name, entry, _: entry_of(name))
    __main__.main([*options, "--measure"])
    assert "Poisson 2d-C" in table.render([json.loads(out.read_text())])


def test_a_tolerance_may_be_a_share_of_what_was_published(capsys):
    share = __main__._share_or_number
    assert __main__._tolerance(share("best/100"), "wave-1d") == pytest.approx(9.79e-4)
    assert __main__._tolerance(share("1e-6"), "wave-1d") == 1e-6
    for refused in ("best/0", "-1", "worst/2"):
        with pytest.raises(SystemExit):
            __main__.main(["--tolerance", refused])
        assert "tolerance" in capsys.readouterr().err


def test_an_unknown_problem_is_refused(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["--problems", "navier"])
    assert "no problem 'navier' here" in capsys.readouterr().err


class Picture:
    """A smooth flow, or a temperature, with nothing where the family's shape has a hole."""

    def __init__(self, family):
        self.family = family

    def __call__(self, **at):
        shape = np.shape(at["x"])
        names = [*self.family.domain.names, *self.family.parameters.names]
        full = [np.broadcast_to(at[name], shape).ravel() for name in names]
        points = np.stack(full[: self.family.domain.dim], axis=-1)
        lam = np.array([column[0] for column in full[self.family.domain.dim :]])
        inside = self.family.domain.covers(points, lam).reshape(shape)
        u = np.where(inside, np.cos(at["y"]) * np.sin(at["x"]), np.nan)
        # Streamlines of a flow that never stands still are followed in few steps.
        return u if len(self.family.outputs) == 1 else {"u": 2.0 + u, "v": 0.1 * u, "p": u}


@pytest.mark.slow
@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_has_three_settings(name):
    figure = pictures.PICTURES[name](cast(Any, Picture(PROBLEMS[name].family())))
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert len(set(titles)) == 3
    image = Image.open(io.BytesIO(pictures.few_colours(figure, dpi=30)))
    assert image.size == tuple(round(30 * inches) for inches in figure.get_size_inches())
    assert 16 < len(image.getcolors() or ()) <= 64


class Plain(lc.Family):
    """u_x = 1, u(0) = 0: something that trains in a moment."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u_x, k):
        return u_x - k

    @lc.on(x=0.0)
    def start(self, u):
        return u

    def exact(self, x, k):
        return k * x


@pytest.mark.slow
def test_a_training_leaves_a_whole_entry(monkeypatch, capsys, tmp_path):
    problem = Problem(Plain, (Row("plain", ({"k": 1.5},), 1.0, 0.5, "all"),), accuracy=1e-12)
    monkeypatch.setitem(training.PROBLEMS, "plain", problem)
    job = {"problem": "plain", "seconds": 4.0, "seed": 0, "models": str(tmp_path)}
    monkeypatch.setattr(training.sys, "argv", ["-", json.dumps(job)])
    # A clock would make this a test of the machine.
    brief = lambda family, seconds, tolerance: lc.protocol.smoke(family)
    monkeypatch.setattr(training.lc.protocol, "fast", brief)
    training.train_here()
    entry = json.loads(capsys.readouterr().out.splitlines()[-1])
    solution = lc.load(tmp_path / "plain.safetensors", Plain())
    again = training.measured(solution, problem)
    assert entry["rows"][0]["error"] == pytest.approx(again["rows"][0]["error"], rel=1e-6)
    assert entry["rows"][0]["ratio"] == pytest.approx(0.5 / entry["rows"][0]["error"])
    assert entry["ranges"] == {"k": [1.0, 2.0]}
    assert entry["verdict"] == solution.verdict.to_json()
    assert entry["parameters"] == solution.num_params
    job |= {"later": True, "models": str(tmp_path / "later")}
    monkeypatch.setattr(training.sys, "argv", ["-", json.dumps(job)])
    training.train_here()
    trained = {"seed": 0, **json.loads(capsys.readouterr().out.splitlines()[-1])}
    assert not {"rows", "verdict"} & set(trained)
    completed = training.measure_model("plain", trained, tmp_path / "later")
    assert completed is not None
    assert completed["rows"][0]["error"] == pytest.approx(entry["rows"][0]["error"], rel=1e-6)
    assert training.measure_model("plain", trained | {"seed": 1}, tmp_path / "later") is None
