"""Solutions at one setting without a network, against solutions that are known."""

import json
import warnings
from typing import cast

import jax.numpy as jnp
import numpy as np
import pytest
from toy import Bratu
from typer.testing import CliRunner

import lcpinn as lc
from benchmarks.zoo import ZOO
from benchmarks.zoo.flow import Kovasznay, TaylorGreen
from benchmarks.zoo.layers import BoundaryLayer
from lcpinn.certificate import Estimator
from lcpinn.cli import app
from lcpinn.evaluation import evaluation_points, relative_error
from lcpinn.families import FAMILIES
from lcpinn.precision import double
from lcpinn.spectral import least_squares
from lcpinn.spectral import newton as newton_module
from lcpinn.spectral.basis import Axis, TensorBasis
from lcpinn.spectral.expansion import Expansion
from lcpinn.spectral.family_solver import FamilySolver
from lcpinn.spectral.linearisation import about_zero, linearised, zeroth
from lcpinn.spectral.newton import NotConverged, TimeIsUp, _continuation, first_solution, newton

ALL = FAMILIES | ZOO


def true_error(solved):
    family = solved.family
    points = evaluation_points(family)
    value = solved(**{n: points[:, i] for i, n in enumerate(family.domain.names)})
    columns = list(value.values()) if isinstance(value, dict) else [value]
    truth = family.truth(points, np.array(list(solved.at.values())))
    return relative_error(np.stack(columns, axis=-1), truth)


SMOOTH = {
    "helmholtz-1d": {"k": 3.25},
    "schrodinger-1d": {"alpha": 5.0},
    "helmholtz-2d": {"k": 5.5},
    "spring": {"d": 0.7},
    "duffing": {"e": 0.7},
    "heat": {"a": 0.1},
    "wave": {"c": 2.2},
    "acoustics": {"a": 1.3},
    "advection-diffusion": {"c": 1.0, "nu": 0.01},
    "transport": {"c": 0.5, "d": 0.1, "r": 1.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_solutions_are_found_to_ten_digits(name):
    solved = lc.solve(ALL[name](), **SMOOTH[name])
    assert solved.error <= 1e-8
    assert solved.reason == ""
    assert true_error(solved) < 1e-10


@pytest.mark.slow
def test_a_wave_that_newtons_method_finds_from_a_coarse_march():
    """Marches alone take more than a minute, to an error of 1e-5."""
    solved = lc.solve(ZOO["soliton"](), c=1.0, tolerance=1e-6)
    assert solved.error < 1e-6
    assert solved.reason == ""
    assert true_error(solved) < 1e-8


@pytest.mark.slow
def test_a_nonlinear_front_that_an_expansion_resolves():
    solved = lc.solve(ZOO["fisher"](), r=3.0, tolerance=1e-6)
    assert solved.error <= 1e-6
    assert true_error(solved) < 1e-6


def test_a_coordinate_gets_the_functions_that_it_needs():
    resolution = lc.solve(ZOO["heat"](), a=0.1).resolution
    assert resolution["x"] > resolution["t"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["burgers", "buckley-leverett"])
def test_a_front_is_marched_through(name, monkeypatch):
    """Two marches that agree say how far to trust it; a corner's layer is the ansatz's."""
    monkeypatch.setattr("lcpinn.spectral.solver.SHORT", 0.0)
    solved = lc.solve(FAMILIES[name](), tolerance=1e-3)
    assert solved.error <= 1e-3
    assert true_error(solved) < 1e-3
    assert solved.resolution["x"] > 30


@pytest.mark.slow
def test_three_coordinates():
    solved = lc.solve(FAMILIES["helmholtz-3d"](), k=2.0, tolerance=1e-6)
    assert true_error(solved) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("nu", [1.0, 0.03, 1e-3])
def test_layers_are_resolved(nu):
    solved = lc.solve(BoundaryLayer(), nu=nu)
    assert true_error(solved) < 1e-9
    assert solved.error <= 1e-8


def test_newtons_method_finds_the_lower_branch():
    """u = -2 ln(cosh((x - ½) b / 2) / cosh(b / 4)) with b = √(2a) cosh(b / 4)."""
    from scipy.optimize import brentq

    a, x = 3.0, np.linspace(0, 1, 101)
    # SciPy says that it may be a pair, which is for full_output=True.
    b = cast(float, brentq(lambda b: b - np.sqrt(2 * a) * np.cosh(b / 4), 0, 4.7))
    exact = -2 * np.log(np.cosh((x - 0.5) * b / 2) / np.cosh(b / 4))
    solved = lc.solve(Bratu(), a=a)
    np.testing.assert_allclose(solved(x=x), exact, atol=1e-9)


class Jump(lc.Family):
    """u_t + u_x = 0 from a step: no function of these is discontinuous."""

    domain = lc.Box(t=(0.0, 1.0), x=(-1.0, 2.0))
    parameters = lc.Uniform(c=(0.5, 1.0))

    @lc.interior
    def equation(self, u_t, u_x, c):
        return u_t + c * u_x

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.where(x < 0.0, 1.0, 0.0)

    @lc.on(x=-1.0)
    def inlet(self, u):
        return u - 1.0


class Four(lc.Family):
    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0), w=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, laplacian_u, k):
        return laplacian_u - k

    @lc.on()
    def wall(self, u):
        return u


class Open(lc.Family):
    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u, u_xx, k):
        return u_xx + k**2 * u

    @lc.on(x=0.0)
    def start(self, u):
        return u - 1.0


REFUSED = {
    "four coordinates": (Four, {"k": 1.0}, "three at most"),
    "a page that leaves it open": (Open, {"k": 1.0}, "one function is free"),
    "a coefficient that is not there": (
        BoundaryLayer,
        {"nu": 1.0, "k": 1.0},
        "no such coefficient as 'k'",
    ),
    "a coefficient left out": (BoundaryLayer, {}, "missing nu"),
    "no tolerance": (
        BoundaryLayer,
        {"nu": 1.0, "tolerance": 0.0},
        "the tolerance must lie between",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_solved_is_refused_in_words(name):
    make, setting, says = REFUSED[name]
    with pytest.raises(lc.LcpinnError, match=says):
        lc.solve(make(), **setting)


@pytest.mark.slow
def test_a_discontinuity_is_refused(monkeypatch):
    monkeypatch.setattr("lcpinn.spectral.solver.SECONDS", 0.3)
    with pytest.raises(lc.LcpinnError, match="not resolved at c = 1"):
        lc.solve(Jump(), c=1.0)


def test_a_solution_is_called_by_name_and_broadcasts():
    solved = lc.solve(ZOO["acoustics"](), a=1.3)
    fields = solved(t=np.linspace(0, 1, 3)[:, None], x=np.linspace(0, 1, 4))
    assert {name: v.shape for name, v in fields.items()} == {"p": (3, 4), "v": (3, 4)}
    assert solved(t=0.5, x=0.5, a=1.3)["p"].shape == ()
    with pytest.raises(lc.LcpinnError, match=r"that of a = 1\.3 alone"):
        solved(t=0.5, x=0.5, a=1.4)
    with pytest.raises(lc.LcpinnError, match="missing x"):
        solved(t=0.5)
    with pytest.raises(lc.LcpinnError, match="no such argument as 'y'"):
        solved(t=0.5, x=0.1, y=0.1)


@pytest.mark.slow
def test_a_shape_is_solved_by_an_extension_frame():
    from test_determinacy import Pipe

    solved = lc.solve(Pipe(), r=0.5, tolerance=1e-3)
    x, y = np.meshgrid(np.linspace(-1, 1, 21), np.linspace(-1, 1, 21))
    radius = np.hypot(x, y)
    inside = (radius > 0.5) & (radius < 1)
    exact = np.log(radius[inside]) / np.log(0.5)
    with warnings.catch_warnings():  # the grid has the hole's centre
        warnings.simplefilter("error")
        values = solved(x=x, y=y)
        assert np.isnan(solved(x=0.0, y=0.1))
    assert np.abs(values[inside] - exact).max() < 1e-3


def test_a_level_that_is_free_is_zero_on_average():
    class Insulated(lc.Family):
        domain = lc.Box(x=(0.0, 1.0))
        parameters = lc.Uniform(a=(1.0, 2.0))

        @lc.interior
        def equation(self, u_xx, x, a):
            return u_xx + a * jnp.pi**2 * jnp.cos(jnp.pi * x)

        @lc.on()
        def wall(self, u_x):
            return u_x

    x = np.linspace(0, 1, 11)
    solved = lc.solve(Insulated(), a=1.5)
    np.testing.assert_allclose(solved(x=x), 1.5 * np.cos(np.pi * x), atol=1e-9)
    assert "up to a constant" in solved.note


def test_an_expansion_at_scattered_points_is_that_of_its_table():
    basis = TensorBasis(
        (Axis(0.0, 1.0, False, 5), Axis(-1.0, 1.0, True, 4), Axis(0.0, 2.0, False, 3))
    )
    rng = np.random.default_rng(0)
    points, coefficients = rng.uniform(0, 1, (7, 3)), rng.normal(size=(2, basis.size))
    orders = zeroth(3)
    np.testing.assert_allclose(
        basis.evaluate(coefficients, points, orders), basis.table(points, orders) @ coefficients.T
    )
    larger = TensorBasis(tuple(Axis(a.low, a.high, a.periodic, a.num + 2) for a in basis.axes))
    np.testing.assert_allclose(
        larger.evaluate(basis.resized(coefficients, larger), points, orders),
        basis.evaluate(coefficients, points, orders),
    )


def test_a_thousand_functions_keep_their_accuracy():
    """T_k'' at points inside, against its trigonometric form."""
    theta = np.linspace(0.1, 3.0, 9)
    k = np.arange(1000)
    found = Axis(-1.0, 1.0, False, 1000).values(np.cos(theta), 2)
    angle = theta[:, None]
    exact = (k * np.sin(k * angle) * np.cos(angle) - k**2 * np.cos(k * angle) * np.sin(angle)) / (
        np.sin(angle) ** 3
    )
    assert np.abs(found - exact).max() < 1e-9 * np.abs(exact).max()


# -- Correcting a network ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    family = FAMILIES["helmholtz-1d"]()
    return lc.train(family, lc.protocol.smoke(family), progress=False, report=False)


@pytest.mark.slow
def test_a_network_without_its_error(trained):
    x = np.linspace(0, 1, 50)
    exact = lambda k: np.sin(np.pi * x) * np.cos(k * x)
    for k in (2.0, 5.0):
        before, after = trained(x=x, k=k) - exact(k), trained.corrected(x=x, k=k) - exact(k)
        assert np.linalg.norm(after) < 1e-4 * np.linalg.norm(before)
    both = trained.corrected(x=x, k=np.array([[2.0], [5.0]]))
    np.testing.assert_allclose(both[1], trained.corrected(x=x, k=5.0), atol=1e-12)


@pytest.mark.slow
def test_a_correction_is_kept_for_the_next_call(trained, monkeypatch):
    first = trained.corrected(x=0.3, k=2.0)
    monkeypatch.setattr(Estimator, "correction", None)
    assert trained.corrected(x=0.3, k=2.0) == first
    assert trained.corrected(x=[0.3, 0.4], k=2.0)[0] == pytest.approx(first, rel=1e-14)


@pytest.mark.slow
def test_evaluation_against_the_solver(trained):
    from lcpinn.evaluation import evaluate

    truth, solver = evaluate(trained), evaluate(trained, against="solver")
    assert solver["mean"] == pytest.approx(truth["mean"], rel=1e-6)
    assert solver["against"] == "solver"


@pytest.mark.slow
def test_a_trained_network_is_a_start(trained):
    solved = lc.solve(trained.family, k=3.25, start=trained)
    assert true_error(solved) < 1e-10


# -- The command line ----------------------------------------------------------------------------


def test_the_command_writes_a_table(tmp_path):
    out = tmp_path / "u.csv"
    done = CliRunner().invoke(
        app, ["solve", "helmholtz-1d", "--at", "k=3.25", "--grid", "x=5", "-o", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["error"] < 1e-8
    rows = np.genfromtxt(out, delimiter=",", names=True)
    np.testing.assert_allclose(
        rows["u"], np.sin(np.pi * rows["x"]) * np.cos(3.25 * rows["x"]), atol=1e-10
    )


def test_jax_settings_are_left_alone():
    before = jnp.asarray(1.0).dtype
    lc.solve(FAMILIES["helmholtz-1d"](), k=2.0)
    assert jnp.asarray(1.0).dtype == before == jnp.float32


def test_a_path_is_followed_in_steps_that_succeed():
    visited = []

    def solved(s, current):
        if s - current > 0.1:
            raise NotConverged
        visited.append(s)
        return np.asarray(s)

    assert _continuation(solved, np.zeros(())) == 1.0
    assert len(visited) >= 10
    with pytest.raises(NotConverged):
        _continuation(lambda s, current: solved(2.0, current), np.zeros(()))


# -- Newton's method and its time ------------------------------------------------------------------


def test_newton_ends_although_few_functions_leave_a_residual():
    terms = linearised(TaylorGreen())
    with double():
        expansion = Expansion(terms, (6, 6, 6), np.array([1.0]))
        solved = newton(expansion, about_zero(terms, [1.0]), expansion.zero)
    assert np.abs(solved).max() < 2.0
    assert np.abs(solved).max() > 0.1


class Bar(lc.Family):
    """u'' - c u³ = q, u = 0 at both ends: nothing at all without a load."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(q=(-1.0, 1.0), c=(1.0, 2.0))

    @lc.interior
    def equation(self, u_xx, u, q, c):
        return u_xx - c * u**3 - q

    @lc.on(x=(0.0, 1.0))
    def ends(self, u):
        return u


def test_nothing_is_a_solution_where_there_is_no_load():
    assert lc.solve(Bar(), q=0.0, c=1.5)(x=np.array([0.2, 0.5])).tolist() == [0.0, 0.0]


def test_a_family_is_solved_with_nothing_in_the_middle_of_it():
    solved = FamilySolver(Bar(), 1e-6)
    assert solved.settings.shape == (0, 2)
    for q in (0.0, 0.5, -0.5, 0.0):
        solved(np.array([q, 1.5]))
    sizes = [np.abs(one.coefficients).max() for one in solved.solved]
    assert sizes[0] == sizes[3] == 0
    assert sizes[1] == pytest.approx(sizes[2])


def test_when_the_time_is_up_no_other_way_is_tried(monkeypatch):
    terms, calls = linearised(Kovasznay()), []
    monkeypatch.setattr(newton_module, "solve", lambda *a: calls.append(1))
    with double():
        expansions = [Expansion(terms, (5, 5), np.array([40.0])) for _ in range(3)]
        with pytest.raises(TimeIsUp):
            first_solution(expansions, about_zero(terms, [40.0]), deadline=0.0)
    assert not calls


def test_factors_are_kept_for_rows_that_have_changed_little(monkeypatch):
    made = []

    class Counted(least_squares.NormalMatrix):
        def __init__(self, rows):
            made.append(len(rows))
            super().__init__(rows)

    monkeypatch.setattr(least_squares, "NormalMatrix", Counted)
    family = Kovasznay()
    terms, kept = linearised(family), least_squares.Preconditioner()
    with double():
        expansion = Expansion(terms, (20, 20), np.array([40.0]))
        first = newton(expansion, about_zero(terms, [40.0]), expansion.zero, preconditioner=kept)
        before = len(made)
        newton(expansion, about_zero(terms, [41.0]), first, preconditioner=kept)
    assert before < 4
    assert len(made) == before
