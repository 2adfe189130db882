"""Solutions at nodes of the coefficients, and between them; against solutions that are known."""

import itertools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from toy import Bratu, Interrupted, Spiral, interrupt_after, the
from typer.testing import CliRunner

import lcpinn as lc
from benchmarks.shapes.families import Kite
from lcpinn.cli import app
from lcpinn.cli.train import _show_interpolant
from lcpinn.explorer.program import of_solution
from lcpinn.files import read_json
from lcpinn.interpolated import interpolated
from lcpinn.jet import Orders, Series
from lcpinn.network.interpolant import chebyshev, fourier
from lcpinn.precision import double
from lcpinn.protocol.interpolation import is_better_interpolated
from lcpinn.spectral import newton
from lcpinn.spectral.basis import Axis
from lcpinn.spectral.family_solver import FamilySolver, solve_family
from lcpinn.spectral.interpolation import Growth, stagnates, trimmed
from lcpinn.spectral.linearisation import zeroth
from lcpinn.spectral.sparse_grid import SparseGrid, box, evaluate
from lcpinn.verdict import Judge

# -- Families ------------------------------------------------------------------------------------


class Drifting(lc.Family):
    """u_t + c u_x = d u_xx around a circle, u(0, x) = sin x."""

    domain = lc.Box(t=(0.0, 1.0), x=lc.Periodic(0.0, 2 * np.pi))
    parameters = lc.Uniform(c=(-1.0, 1.0), d=(0.1, 0.3))

    @lc.interior
    def equation(self, u_t, u_x, u_xx, c, d):
        return u_t + c * u_x - d * u_xx

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(x)

    def exact(self, t, x, c, d):
        return jnp.exp(-d * t) * jnp.sin(x - c * t)


class FastSpiral(Spiral):
    """With faster turns."""

    parameters = lc.Uniform(a=(1.0, 4.0)) & lc.LogUniform(b=(0.05, 1.0))


class GentleBratu(Bratu):
    """Not as close to its fold."""

    parameters = lc.Uniform(a=(0.5, 2.5))


class Many(Spiral):
    """The same, were there five coefficients."""

    parameters = lc.Uniform(a=(1, 4), b=(0.1, 1), c=(0, 1), d=(0, 1), e=(0, 1))


class Disc(lc.Family):
    """Δu = -1 in a disc of radius r, u = 0 on its rim: the domain moves."""

    domain = lc.Ball(x=0.0, y=0.0, radius="r")
    parameters = lc.Uniform(r=(0.5, 1.0))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u + 1

    @lc.on()
    def rim(self, u):
        return u


class Sieve(lc.Family):
    """Δu = k in a disc with a hole, u = 0 on its rims: the domain stays."""

    domain = lc.Ball(x=0.0, y=0.0, radius=1.0) - lc.Ball(x=0.2, y=0.0, radius=0.3)
    parameters = lc.Uniform(k=(0.5, 1.0))

    @lc.interior
    def equation(self, laplacian_u, k):
        return laplacian_u - k

    @lc.on()
    def rims(self, u):
        return u


class Loose(Spiral):
    """No initial condition for v."""

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tmp_path_factory.mktemp("interpolant")


@pytest.fixture(scope="module")
def spiral(run):
    protocol = lc.protocol.interpolant(the(FastSpiral))
    return lc.train(the(FastSpiral), protocol, out=run, overwrite=True, progress=False)


def error_at(solution, lam, num=200):
    family = solution.family
    points = family.domain.sobol(num, seed=2)
    named = dict(zip(family.domain.names, points.T, strict=True))
    at = dict(zip(family.parameters.names, map(float, lam), strict=True))
    values = solution(**named, **at)
    columns = list(values.values()) if isinstance(values, dict) else [values]
    truth = family.truth(points, lam)
    return np.linalg.norm(np.stack(columns, -1) - truth) / np.linalg.norm(truth)


# -- The whole of it -----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_coefficients_are_below_the_tolerance_everywhere(spiral):
    for lam in spiral.family.parameters.sobol(30, seed=9):
        assert error_at(spiral, lam) < 1e-8


@pytest.mark.slow
def test_it_ends_with_a_verdict_that_is_near_the_truth(spiral, run):
    verdict = spiral.verdict
    assert verdict.solved
    true = error_at(spiral, np.array([verdict.at["a"], verdict.at["b"]]))
    assert verdict.error < 3 * true + 1e-12
    assert true < 3 * verdict.error + 1e-12
    assert read_json(run / "result.json")["verdict"]["solved"]


@pytest.mark.slow
def test_it_is_judged_between_its_nodes(spiral):
    """At nodes, such as the corners of the prior, nothing is missing whatever the polynomial."""
    with double():
        lam = spiral.protocol.network.doubtful(spiral.params)
        (estimate, *_) = Judge(spiral.problem, 1e-6)(spiral.params, num=1)
        first = np.asarray(spiral.family.parameters.from_unit((1 + lam[:1]) / 2))[0]
    np.testing.assert_allclose(list(estimate.at.values()), first)
    for row, selection in zip(lam.T, spiral.params["selections"], strict=True):
        num = len(selection) - 1
        nodes = np.cos(np.pi * np.arange(num + 1) / num)
        assert np.all(np.min(np.abs(row[:, None] - nodes), axis=1) > 0.1 / num**2)


def test_a_saved_model_answers_to_the_bit(spiral, run):
    again = lc.load(run, the(FastSpiral))
    for one, other in zip(
        jax.tree.leaves(spiral.params), jax.tree.leaves(again.params), strict=True
    ):
        assert one.tobytes() == other.tobytes()
    t, a = np.linspace(0, 2, 30), np.linspace(1, 4, 30)
    assert spiral(t=t, a=a, b=0.3)["v"].tobytes() == again(t=t, a=a, b=0.3)["v"].tobytes()


def test_points_with_a_lambda_of_their_own(spiral, monkeypatch):
    """In one piece, and in several where that would be too large."""
    t, a, b = np.linspace(0, 2, 64), np.linspace(1, 4, 64), np.geomspace(0.05, 1, 64)
    whole = spiral(t=t, a=a, b=b)["u"]
    np.testing.assert_allclose(whole, np.exp(-b * t) * np.cos(a * t), atol=1e-8)
    monkeypatch.setattr("lcpinn.network.interpolant.MOST", 100)
    again = lc.Solution(spiral.family, spiral.protocol, spiral.params, spiral.run)
    np.testing.assert_allclose(again(t=t, a=a, b=b)["u"], whole, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_coefficients_are_found_from_observations(spiral):
    t = np.linspace(0.1, 1.9, 15)
    values = spiral.family.truth(t[:, None], np.array([2.7, 0.2]))
    fit = spiral.fit(lc.Data(t=t, u=values[:, 0]), estimate=False)
    assert abs(fit.values["a"] - 2.7) < 1e-6
    assert abs(fit.values["b"] - 0.2) < 1e-6


def test_the_explorers_program_is_the_solution(spiral):
    t = np.linspace(0, 2, 40)
    values = of_solution(spiral, 16)(t[:, None], (3.1, 0.4))
    np.testing.assert_allclose(values[:, 0], spiral(t=t, a=3.1, b=0.4)["u"], atol=1e-13)


@pytest.mark.slow
def test_a_periodic_coordinate_and_its_derivatives():
    """The residual of the equation, by the network's own derivatives."""
    protocol = lc.protocol.interpolant(the(Drifting), tolerance=1e-7)
    solution = lc.train(the(Drifting), protocol, progress=False, report=False)
    for lam in solution.family.parameters.sobol(5, seed=4):
        assert error_at(solution, lam) < 1e-7
        assert solution.estimate(c=float(lam[0]), d=float(lam[1])).error < 1e-7


@pytest.mark.slow
def test_newtons_method_stays_on_the_branch():
    solution = lc.train(
        GentleBratu(), lc.protocol.interpolant(GentleBratu()), progress=False, report=False
    )
    x = np.linspace(0, 1, 50)
    for a in (0.6, 1.7, 2.4):
        np.testing.assert_allclose(solution(x=x, a=a), lc.solve(GentleBratu(), a=a)(x=x), atol=1e-8)


class Cubic(lc.Family):
    """u' = -a u - b u³, u(0) = 1."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.5, 4.0), b=(0.0, 4.0))

    @lc.interior
    def equation(self, u, u_t, a, b):
        return u_t + a * u + b * u**3

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0


def test_newtons_method_begins_with_the_last_polynomial(monkeypatch):
    """What is known between settings is a better guess of the next one than the nearest is."""
    solve, steps = newton.solve, []
    monkeypatch.setattr(newton, "solve", lambda *args: steps.append(1) or solve(*args))

    def known():
        steps.clear()
        with double():
            found = interpolated(Cubic(), tolerance=1e-7, seconds=60)
        assert found.enough
        return found, len(steps) / len(found.settings)

    guessed, few = known()
    monkeypatch.setattr(Growth, "_guess", lambda self, state: None)
    plain, many = known()
    assert len(guessed.settings) == len(plain.settings)
    assert few < 0.8 * many


@pytest.mark.slow
def test_a_shape_that_stays():
    """By a frame, whose coefficients are not unique; its values are, inside."""
    protocol = lc.protocol.interpolant(Kite(), tolerance=1e-7)
    solution = lc.train(Kite(), protocol, progress=False, report=False)
    for k in (0.61, 1.4, 1.93):
        assert error_at(solution, np.array([k])) < 1e-7


@pytest.mark.slow
def test_coefficients_that_are_held(spiral):
    protocol = lc.protocol.interpolant(the(FastSpiral), at={"b": 0.3}, tolerance=1e-6)
    solution = lc.train(the(FastSpiral), protocol, progress=False, report=False)
    assert error_at(solution, np.array([2.2, 0.3])) < 1e-6
    assert solution.num_params < spiral.num_params / 3


@pytest.mark.slow
def test_an_interrupted_run_ends_as_the_whole_one(tmp_path, monkeypatch):
    protocol = lc.protocol.interpolant(the(FastSpiral), at={"b": 0.3})
    whole = lc.train(the(FastSpiral), protocol, progress=False, report=False)
    monkeypatch.setattr("lcpinn.optimiser.interpolation.BLOCK", 0.0)  # a node at a time
    out = tmp_path / "broken"
    options = {"progress": False, "report": False, "checkpoint_every": 0.0}
    saved = interrupt_after(monkeypatch, 7)  # beyond the first grid
    with pytest.raises(Interrupted):
        lc.train(the(FastSpiral), protocol, out=out, **options)
    resumed = lc.train(the(FastSpiral), protocol, out=out, resume=True, **options)
    t = np.linspace(0, 2, 30)
    values = (one(t=t, a=1.9, b=0.3)["u"] for one in (resumed, whole))
    np.testing.assert_allclose(*values, rtol=0, atol=1e-12)
    assert [int(state.step) for _, state in saved[:7]] == list(range(1, 8))


# -- What it refuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (Many, "interpolant needs one to four coefficients; many has 5"),
        (Disc, "interpolant needs a shape that stays: .*its shape moves with λ"),
        (Sieve, "interpolant needs a shape without holes: solutions of sieve"),
        (lc.families.Burgers, "interpolant needs one to four coefficients; burgers has none"),
    ],
)
def test_what_the_page_rules_out_is_refused_before_anything_is_solved(family, message):
    with pytest.raises(lc.LcpinnError, match=f"^{message}"):
        lc.protocol.interpolant(family())


def test_what_the_solver_refuses_is_refused():
    with pytest.raises(lc.LcpinnError, match="loose: the page does not determine u and v"):
        lc.train(the(Loose), lc.protocol.interpolant(the(Loose)), progress=False)


def test_a_tolerance_is_a_positive_number():
    with pytest.raises(lc.LcpinnError, match="a tolerance is a positive number"):
        lc.protocol.interpolant(the(FastSpiral), tolerance=0.0)


def test_where_it_is_recommended():
    assert is_better_interpolated(the(FastSpiral))
    assert not is_better_interpolated(GentleBratu())
    assert not is_better_interpolated(the(Disc))
    assert not is_better_interpolated(the(Many))


@pytest.mark.slow
def test_a_training_says_where_it_would_be_the_better_tool(tmp_path):
    arguments = ["--protocol", "smoke", "--out", str(tmp_path / "run"), "--quiet"]
    result = CliRunner().invoke(app, ["train", "schrodinger-1d", *arguments])
    assert result.exit_code == 0
    assert "lcpinn train schrodinger-1d --protocol interpolant" in result.output


@pytest.mark.parametrize(
    ("solved", "missing", "said"), [(False, 1e-7, True), (False, 1e-3, False), (True, 1e-7, False)]
)
def test_a_polynomial_between_settings_is_offered_where_a_network_was_too_slow(
    solved, missing, said, capsys
):
    training = {"missing_between": missing, "solved_at": [{}] * 225}
    solution: Any = SimpleNamespace(
        family=GentleBratu(),
        run={"training": training},
        verdict=SimpleNamespace(solved=solved, tolerance=1e-6),
    )
    asked: Any = SimpleNamespace(family="fin.py")
    protocol: Any = SimpleNamespace(name="fast")
    _show_interpolant(Console(width=200), asked, solution, protocol)
    text = "--protocol interpolant --tolerance 1e-06   # a polynomial between 225 settings"
    assert (text in capsys.readouterr().out) == said


# -- Many settings -------------------------------------------------------------------------------


def test_many_settings_are_solved_in_one_basis():
    family = the(FastSpiral)
    settings = family.parameters.sobol(9, seed=1)
    solved = solve_family(family, settings, 1e-9)
    points = family.domain.sobol(50)
    assert solved.coefficients.shape == (9, 2, solved.basis.size)
    for values, lam in zip(solved(points), settings, strict=True):
        np.testing.assert_allclose(values, family.truth(points, lam), atol=1e-9)
    assert np.max(solved.errors) < 1e-9


class Tilted(lc.Family):
    """e u' + u + 10 u³ = 10 cos t, u(0) = 0: a layer of width e, far from Newton's first guess."""

    domain = lc.Box(t=(0.0, 4.0))
    parameters = lc.LogUniform(e=(1e-3, 1.0))

    @lc.interior
    def equation(self, u, u_t, t, e):
        return e * u_t + u + 10 * u**3 - 10 * jnp.cos(t)

    @lc.on(t=0.0)
    def start(self, u):
        return u


@pytest.mark.slow
def test_a_setting_that_is_too_far_off_is_reached_in_steps(monkeypatch):
    """Attempts from further away than a quarter of the range do not count here."""
    solver, attempt = FamilySolver(the(Tilted), 1e-7), FamilySolver._attempt

    def near_by(self, unit, parameters, seconds):
        places = [place for place, _ in (*self._solved, *self._waypoints)]
        if places and min(abs(place[0] - unit[0]) for place in places) > 0.26:
            raise lc.LcpinnError("too far")
        return attempt(self, unit, parameters, seconds)

    monkeypatch.setattr(FamilySolver, "_attempt", near_by)
    solver(np.array([1.0]))
    resolved = solver(np.array([0.03]))
    t = np.linspace(0, 4, 50)
    values = resolved.expansion.basis.evaluate(resolved.coefficients, t[:, None], zeroth(1))
    np.testing.assert_allclose(values[0, :, 0], lc.solve(the(Tilted), e=0.03)(t=t), atol=1e-6)
    assert len(solver.solved) == 2


# -- Sparse grids --------------------------------------------------------------------------------


def simplex(level, dim):
    levels = itertools.product(range(level + 1), repeat=dim)
    return SparseGrid(one for one in levels if sum(one) <= level)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_smolyaks_interpolant_is_exact_for_its_polynomials(dim):
    grid, rng = simplex(3, dim), np.random.default_rng(dim)
    assert len(grid.nodes) == len(grid.degrees)
    coefficients = rng.normal(size=(len(grid.degrees), 2))
    points = rng.uniform(-1, 1, (20, dim))
    found = grid.coefficients(evaluate(grid.degrees, coefficients, grid.nodes))
    np.testing.assert_allclose(found, coefficients, atol=1e-11)
    expected = evaluate(grid.degrees, coefficients, points)
    np.testing.assert_allclose(evaluate(grid.degrees, found, points), expected, atol=1e-11)


def test_a_sparse_grid_has_fewer_nodes_than_a_tensor():
    assert len(simplex(3, 3).nodes) == 69
    assert len(box(3, 3).nodes) == 9**3


def test_further_levels_keep_the_nodes_and_their_order():
    grid = box(1, 2)
    more = grid.with_levels(grid.candidates())
    assert more.nodes[: len(grid.nodes)].tobytes() == grid.nodes.tobytes()
    assert len(np.unique(more.positions, axis=0)) == len(more.positions)
    with pytest.raises(ValueError, match="closed downwards"):
        grid.with_levels([(3, 0)])


def test_what_is_missing_is_seen_where_it_is_missing():
    """Of exp(x) / (1.1 - y), much more along y."""
    grid = box(2, 2)
    x, y = grid.nodes.T
    sizes = np.abs(grid.coefficients(np.exp(x) / (1.1 - y)))
    assert grid.missing(sizes, (0, 3)) > 3 * grid.missing(sizes, (3, 0))
    assert grid.missing(np.zeros(len(sizes)), (3, 0)) == 0


def test_what_is_missing_beyond_a_constant_is_seen():
    """Of x exp(3 y) nothing at x = 0, where the lower levels along y lie."""
    grid = box(2, 2)
    x, y = grid.nodes.T
    sizes = np.abs(grid.coefficients(x * np.exp(3 * y)))
    assert grid.missing(sizes, (0, 3)) < 1e-14
    assert grid.missing(sizes, (1, 3)) > 0.01
    assert (1, 3) not in grid.candidates()
    assert grid.towards((1, 3)) == [(0, 3)]
    grown = grid.with_levels(grid.towards((1, 3)))
    assert grown.towards((1, 3)) == [(1, 3)]
    assert grown.towards((2, 4)) == [(0, 4), (1, 3), (1, 4), (2, 3)]
    x, y = grown.nodes.T
    sizes = np.abs(grown.coefficients(x * np.exp(3 * y)))
    assert grown.missing(sizes, (1, 3)) > 0.01


def test_more_of_the_same_is_noticed():
    assert stagnates(np.array([1e-2, 1e-6, 2e-6, 9e-7]))
    assert not stagnates(np.array([1e-2, 1e-6, 2e-6, 1e-9]))
    assert not stagnates(np.array([1.0, 1.0, 1.0, 1.0]))  # it may be about to be resolved


def test_functions_without_a_share_are_left_out():
    solutions = np.zeros((2, 1, 6, 5))
    solutions[:, 0, :3, :2] = 1.0
    solutions[1, 0, 4, 0] = 1e-5
    assert trimmed(solutions, 1e-4).shape == (2, 1, 3, 2)
    assert trimmed(solutions, 1e-6).shape == (2, 1, 5, 2)


# -- Functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("num", [1, 2, 7, 33])
def test_functions_by_doubling_are_those_of_the_solver(periodic, num):
    low, high, orders = -1.0, 1.0, Orders.closure([(2,)], 1)
    x = np.linspace(low, high, 11)
    angle = np.pi * (x - low)
    with double():
        if periodic:
            sine = np.stack([np.sin(angle), np.pi * np.cos(angle), -(np.pi**2) * np.sin(angle) / 2])
            cosine = np.stack(
                [np.cos(angle), -np.pi * np.sin(angle), -(np.pi**2) * np.cos(angle) / 2]
            )
            s, c = (Series(orders, jnp.asarray(part)[..., None]) for part in (sine, cosine))
            table = fourier(s, c, num)
        else:
            linear = jnp.asarray(np.stack([x, np.ones(11), np.zeros(11)]))[..., None]
            table = chebyshev(Series(orders, linear), num)
    axis = Axis(low, high, periodic, num)
    for order, part in enumerate(np.asarray(table.coefficients)):
        expected = axis.values(x, order) / (1, 1, 2)[order]
        np.testing.assert_allclose(part, expected, rtol=1e-10, atol=1e-10 * max(1, num**2) ** order)
