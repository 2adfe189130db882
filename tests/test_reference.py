"""Reference solutions: against published values, conservation, and one another."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.interpolate import RectBivariateSpline
from scipy.special import erfc

from lcpinn.cache import cache_directory
from lcpinn.reference import (
    buckley_leverett,
    burgers,
    cached,
    distance_between_references,
    implicit,
    inviscid,
    lax_friedrichs,
    solve_burgers,
    spectral,
)
from lcpinn.reference.finite_volume import (
    FINAL_TIME,
    SNAPSHOTS,
    MovingGrid,
    _spline,
    flux,
    flux_slope,
    radau,
    tabulate,
    welge,
)

Array = NDArray[np.float64]
NU = 0.01 / np.pi
BURGERS_X = np.linspace(-1.0, 1.0, 256)
BURGERS_T = np.linspace(0.0, 1.0, 101)[:, None]


def relative(values: Array, reference: Array) -> float:
    return float(np.linalg.norm(values - reference) / np.linalg.norm(reference))


# Cache


class Computation:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return {"a": np.arange(3.0), "b": np.array(self.calls)}


@pytest.fixture
def computation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Computation:
    monkeypatch.setenv("LCPINN_CACHE", str(tmp_path / "cache"))
    return Computation()


def test_cache_hit_does_not_compute_again(computation: Computation) -> None:
    first = cached("case", 1, {"n": 3, "eps": 0.1}, computation)
    second = cached("case", 1, {"eps": 0.1, "n": 3}, computation)  # order does not matter
    assert computation.calls == 1
    np.testing.assert_array_equal(first["a"], second["a"])
    assert second["b"] == 1
    (file,) = cache_directory().iterdir()  # and no temporary file is left
    assert file.name.startswith("case-v1-")
    assert file.suffix == ".npz"


@pytest.mark.parametrize(
    ("name", "version", "settings"),
    [("case", 2, {"n": 3}), ("case", 1, {"n": 4}), ("other", 1, {"n": 3})],
)
def test_cache_key(computation: Computation, name: str, version: int, settings: dict) -> None:
    cached("case", 1, {"n": 3}, computation)
    assert cached(name, version, settings, computation)["b"] == 2
    assert cached("case", 1, {"n": 3}, computation)["b"] == 1


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "flipped"])
def test_damaged_file_is_computed_again(computation: Computation, damage: str) -> None:
    cached("case", 1, {}, computation)
    (file,) = cache_directory().iterdir()
    whole = file.read_bytes()
    middle = whole.index(np.arange(3.0).tobytes())
    file.write_bytes(
        {
            "empty": b"",
            "truncated": whole[: len(whole) // 2],
            "garbage": b"not an archive",
            "flipped": whole[:middle] + b"\xff" + whole[middle + 1 :],
        }[damage]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cached("case", 1, {}, computation)["b"] == 2
    assert cached("case", 1, {}, computation)["b"] == 2  # the repaired file is read


def test_unwritable_cache_only_warns(
    computation: Computation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LCPINN_CACHE", str(tmp_path / "file" / "below"))
    with pytest.warns(RuntimeWarning, match="LCPINN_CACHE") as caught:
        assert cached("case", 1, {}, computation)["b"] == 1
    assert len(caught) == 1


def test_objects_are_not_cached(computation: Computation) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        cached("case", 1, {}, lambda: {"a": np.array([None])})
    assert not list(cache_directory().iterdir())


def test_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCPINN_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert cache_directory() == Path("/a")
    monkeypatch.delenv("LCPINN_CACHE")
    assert cache_directory() == Path("/b/lcpinn")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "lcpinn"


# Burgers


def trapezoid(t: Array, x: Array, nu: float) -> Array:
    """The Cole-Hopf ratio by another rule: equal steps of 0.05 over |z| <= 15."""
    z = np.linspace(-15.0, 15.0, 601)
    phase = np.pi * (x[..., None] - np.sqrt(4.0 * nu * t)[..., None] * z)
    exponent = -(z**2) - np.cos(phase) / (2.0 * np.pi * nu)
    weight = np.exp(exponent - exponent.max(-1, keepdims=True))
    return -(weight * np.sin(phase)).sum(-1) / weight.sum(-1)


@pytest.fixture(scope="module")
def burgers_grid() -> Array:
    return burgers(BURGERS_T, BURGERS_X)


@pytest.mark.slow
def test_cole_hopf_quadrature_has_converged(burgers_grid: Array) -> None:
    fine = burgers(BURGERS_T, BURGERS_X, num_nodes=250)
    other = np.array([trapezoid(np.full(256, t), BURGERS_X, NU) for t in BURGERS_T[:, 0]])
    assert np.abs(burgers_grid - fine).max() < 1e-13
    assert np.abs(burgers_grid - other).max() < 1e-13


def test_cole_hopf_conditions(burgers_grid: Array) -> None:
    np.testing.assert_array_equal(burgers_grid[0], -np.sin(np.pi * BURGERS_X))
    assert np.abs(burgers_grid[:, [0, -1]]).max() < 1e-14
    np.testing.assert_allclose(burgers_grid, -burgers_grid[:, ::-1], atol=1e-14)


def test_cole_hopf_steepest_slope() -> None:
    """Basdevant et al. (1986): |u_x(t, 0)| is largest at πt = 1.6037, and is 152.00516 there."""
    h = 1e-4
    first, second = burgers(1.6037 / np.pi, np.array([h, 2 * h]))
    third = float(burgers(1.6037 / np.pi, 3 * h))
    slope = (45.0 * first - 9.0 * second + third) / (30.0 * h)  # sixth order for odd functions
    assert slope == pytest.approx(-152.00516, abs=1e-4)
    for shift in (-1e-3, 1e-3):
        assert abs(burgers(1.6037 / np.pi + shift, h)) < abs(first)


def test_cole_hopf_solves_the_equation() -> None:
    """Fourth-order differences of the values leave no residual."""
    t, x, nu, h = 0.3, np.linspace(-0.9, 0.9, 7), 0.05, 1e-3
    stencil = h * np.arange(-2, 3)[:, None]
    first = np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / (12.0 * h)
    second = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / (12.0 * h**2)
    along_x = burgers(t, x + stencil, nu)
    residual = (
        first @ burgers(t + stencil, x, nu)
        + along_x[2] * (first @ along_x)
        - nu * (second @ along_x)
    )
    assert np.abs(residual).max() < 1e-7


def test_cole_hopf_shapes_and_chunks() -> None:
    t, x = np.random.default_rng(0).uniform(0.0, 1.0, (2, 5000))
    whole = burgers(t, x)
    assert whole.shape == (5000,)
    np.testing.assert_array_equal(whole[4500:], burgers(t[4500:], x[4500:]))
    assert burgers(0.5, 0.2).shape == ()
    assert burgers(np.zeros((3, 1)), np.zeros(4)).shape == (3, 4)
    assert burgers(np.zeros(0), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"t": -0.1}, "non-negative"),
        ({"t": np.nan}, "non-negative"),
        ({"nu": 0.0}, "positive"),
        ({"nu": 1e-3}, "num_nodes >= 180"),
        ({"nu": 1e-5}, "too small"),
        ({"t": 5.0}, "num_nodes"),
    ],
)
def test_cole_hopf_refuses(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        burgers(**{"t": 0.5, "x": 0.1, **arguments})


def test_spectral_agrees_with_cole_hopf(burgers_grid: Array) -> None:
    values = spectral.burgers(BURGERS_T[:, 0], BURGERS_X)
    assert np.abs(values - burgers_grid).max() < 1e-6
    assert relative(values, burgers_grid) < 1e-7


@pytest.mark.slow
def test_spectral_moving_frame() -> None:
    """From 1/2 - sin(πx) the solution is that of -sin(πx), carried along at speed 1/2."""
    x = -1.0 + np.arange(128) / 64
    times = np.array([1.0, 0.0, 0.4])  # in any order
    values = solve_burgers(0.5 - np.sin(np.pi * x), times)
    expected = 0.5 + burgers(times[:, None], x - 0.5 * times[:, None])
    assert np.abs(values - expected).max() < 1e-6


def test_spectral_batch() -> None:
    x = -1.0 + np.arange(64) / 32
    waves = np.sin(np.pi * np.outer(np.arange(1, 4), x))
    initial = 0.3 * np.random.default_rng(1).standard_normal((2, 2, 3)) @ waves + 0.1
    values = solve_burgers(initial, [0.0, 0.5], nu=0.02, num_points=256)
    assert values.shape == (2, 2, 2, 64)
    np.testing.assert_allclose(values[0], initial, atol=1e-14)
    np.testing.assert_allclose(values[1].mean(-1), 0.1, atol=1e-7)  # momentum is conserved
    assert np.all(np.square(values[1]).mean(-1) < np.square(initial).mean(-1))  # energy is not
    alone = solve_burgers(initial[1, 0], [0.5], nu=0.02, num_points=256)
    np.testing.assert_array_equal(alone[0], values[1, 1, 0])
    np.testing.assert_array_equal(solve_burgers(initial, [0.0]), solve_burgers(initial, 0.0))
    with pytest.raises(ValueError, match="multiple"):
        solve_burgers(initial, [0.5], num_points=100)
    with pytest.raises(ValueError, match="non-negative"):
        solve_burgers(initial, [-0.5])


# Buckley-Leverett, inviscid


@pytest.mark.parametrize("mobility", [0.5, 2.0, 5.0])
def test_flux_and_tangent(mobility: float) -> None:
    s = np.linspace(0.0, 1.0, 11)
    step = cast(Any, s + 1e-30j)  # a complex step, where values are real otherwise
    slope = np.imag(flux(step, mobility)) / 1e-30
    np.testing.assert_allclose(flux_slope(s, mobility), slope, atol=1e-14)
    top, speed = welge(mobility)
    assert flux_slope(np.array(top), mobility) == pytest.approx(speed, rel=1e-14)
    dense = np.linspace(1e-3, 1.0, 2001)
    assert speed == pytest.approx((flux(dense, mobility) / dense).max(), rel=1e-6)


def test_front_speed() -> None:
    assert welge(2.0) == pytest.approx((0.816497, 1.112372), abs=5e-7)


@pytest.mark.parametrize("t", [0.1, 0.5])
@pytest.mark.parametrize("mobility", [0.5, 2.0])
def test_inviscid_conserves_mass(mobility: float, t: float) -> None:
    """One unit of saturation enters per unit of time, since f(1) = 1."""
    top, speed = welge(mobility)
    front = speed * t
    mass, _ = quad(lambda x: float(inviscid(t, x, mobility)), 0.0, front, epsabs=1e-12)
    assert mass == pytest.approx(t, abs=1e-9)
    behind, ahead = inviscid(t, front * np.array([1.0 - 1e-12, 1.0 + 1e-12]), mobility)
    assert ahead == 0.0
    assert behind == pytest.approx(top, abs=1e-5)
    # Rankine-Hugoniot: the jump to 0 moves at f(s)/s.
    assert flux(behind, mobility) / behind == pytest.approx(speed, rel=1e-9)


def test_inviscid_rarefaction_and_edges() -> None:
    x = np.linspace(0.05, 0.5, 10)
    np.testing.assert_allclose(flux_slope(inviscid(0.5, x)), x / 0.5, rtol=1e-13)
    np.testing.assert_array_equal(inviscid([0.0, 0.0, 0.5], [0.0, 0.3, 0.0]), [1.0, 0.0, 1.0])


def test_lax_friedrichs_tends_to_the_entropy_solution() -> None:
    errors = []
    for num_cells in (200, 800):
        x, s = lax_friedrichs([0.5], num_cells, viscosity=0.0, local=True)
        errors.append(np.abs(s[0] - inviscid(0.5, x)).mean())
    assert errors[0] < 7e-3
    assert errors[1] < 0.42 * errors[0]


# Buckley-Leverett, viscous


@pytest.fixture(scope="module", autouse=True)
def fresh_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The solution is computed by the code under test, not read from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LCPINN_CACHE", str(tmp_path_factory.mktemp("reference")))
        _spline.cache_clear()
        yield
        _spline.cache_clear()


BETWEEN = (0.05, 0.2345, 0.4987, 0.49999)  # off the nodes of the reference


@pytest.fixture(scope="module")
def solved() -> dict[int, tuple[Array, Array]]:
    """Nodes and values of fixed grids, at the snapshots first and then between them."""
    times = np.array([*SNAPSHOTS, *BETWEEN])
    order = np.argsort(times)
    grids = {n: implicit(times[order], n, extrapolate=False) for n in (800, 1600, 3200)}
    return {n: (x, s[np.argsort(order)]) for n, (x, s) in grids.items()}


@pytest.fixture
def fixed_grids(solved: dict[int, tuple[Array, Array]]) -> dict[int, tuple[Array, Array]]:
    return {n: (x, s[: len(SNAPSHOTS)]) for n, (x, s) in solved.items()}


@pytest.mark.slow
def test_reference_and_implicit_agree(fixed_grids: dict[int, tuple[Array, Array]]) -> None:
    """Second order from one grid, third from two; 1e-6 at the finest pair."""
    times = np.array(SNAPSHOTS)[:, None]
    plain = [relative(s, buckley_leverett(times, x)) for x, s in fixed_grids.values()]
    x = fixed_grids[800][0]
    reference = buckley_leverett(times, x)
    coarse, medium, fine = (s[:, :: n // 800] for n, (_, s) in fixed_grids.items())
    pairs = [relative((4 * b - a) / 3, reference) for a, b in ((coarse, medium), (medium, fine))]
    assert plain[1] == pytest.approx(7.5e-5, rel=0.05)
    assert plain[0] / plain[1] == pytest.approx(4.0, rel=0.05)
    assert plain[1] / plain[2] == pytest.approx(4.0, rel=0.05)
    assert pairs[0] / pairs[1] == pytest.approx(8.0, rel=0.1)
    assert pairs[1] < 2.5e-7
    assert np.abs((4 * fine - medium) / 3 - reference).max() < 1e-6


@pytest.mark.slow
def test_implicit_extrapolates() -> None:
    x, values = implicit(num_cells=400)
    (nodes, coarse), (_, fine) = (implicit(num_cells=n, extrapolate=False) for n in (200, 400))
    expected = (4 * fine[:, ::2] - coarse) / 3
    np.testing.assert_array_equal(x, nodes)
    np.testing.assert_array_equal(values, expected)


@pytest.mark.slow
def test_reference_is_converged() -> None:
    """Half the cells and half the steps: the nodes move by 1e-7, so the table is far below."""
    half = tabulate(2.0, 1e-2, num_cells=600, num_steps=100, num_stages=5)
    grid, spline = _spline(2.0, 1e-2)
    assert grid.num_cells == 1200
    inside = half["tau"] <= np.sqrt(FINAL_TIME)
    tau, eta = half["tau"][inside], half["eta"]
    assert np.abs(spline(tau, eta) - half["saturation"][inside]).max() < 1e-7
    # Between the nodes the coarser spline is as far off as its own estimate says.
    coarse = RectBivariateSpline(half["tau"], eta, half["saturation"], kx=5, ky=5)
    tau, eta = np.linspace(0.0, tau[-1], 333), np.linspace(0.0, 1.0, 2001)
    assert np.abs(spline(tau, eta) - coarse(tau, eta)).max() < half["estimate"] < 5e-6


@pytest.mark.slow
def test_reference_between_its_nodes(solved: dict[int, tuple[Array, Array]]) -> None:
    """Values at the snapshots and off them come from one smooth function."""
    (x, coarse), (_, fine) = solved[1600], solved[3200]
    values = ((4 * fine[:, ::2] - coarse) / 3)[len(SNAPSHOTS) :]
    assert np.abs(values - buckley_leverett(np.array(BETWEEN)[:, None], x)).max() < 2e-6


@pytest.mark.slow
def test_reference_conditions() -> None:
    t = np.linspace(0.0, 0.5, 101)
    assert buckley_leverett(t, 0.0) == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_array_equal(buckley_leverett(0.0, [1e-12, 0.5]), [0.0, 0.0])
    assert np.abs(buckley_leverett(t, 1.0)).max() < 1e-15
    grid = buckley_leverett(t[:, None], np.linspace(0.0, 1.0, 256))
    assert grid.shape == (101, 256)
    assert grid.min() > -1e-14
    assert grid.max() < 1.0 + 1e-14
    assert np.all(np.diff(grid, axis=1) < 1e-12)
    assert np.all(np.diff(grid, axis=0) > -1e-12)


@pytest.mark.slow
def test_reference_starts_as_an_error_function() -> None:
    """The correction to erfc(x / √(4εt)) is of order √t, down to any t."""
    xi = np.linspace(0.0, 4.0, 41)
    gaps = []
    for t in (1e-12, 1e-10, 1e-8):
        s = buckley_leverett(t, xi * np.sqrt(4.0 * 1e-2 * t))
        gaps.append(np.abs(s - erfc(xi)).max())
    assert gaps[0] == pytest.approx(gaps[1] / 10.0, rel=1e-2)
    assert gaps[1] == pytest.approx(gaps[2] / 10.0, rel=1e-2)
    assert gaps[2] < 1e-3


@pytest.mark.slow
def test_reference_conserves_mass() -> None:
    """d/dt ∫ s dx = f(1) - ε s_x(t, 0), integrated from 0.1 to 0.5."""
    x = np.linspace(0.0, 1.0, 4001)
    mass = [np.trapezoid(buckley_leverett(t, x), x) for t in (0.1, 0.5)]
    nodes, weights = np.polynomial.legendre.leggauss(20)
    h = 1e-3
    s = buckley_leverett(0.3 + 0.2 * nodes[:, None], h * np.arange(5))
    slope = s @ np.array([-25.0, 48.0, -36.0, 16.0, -3.0]) / (12.0 * h)
    inflow = 0.4 - 1e-2 * 0.2 * (weights @ slope)
    assert mass[1] - mass[0] == pytest.approx(inflow, abs=1e-7)


@pytest.mark.slow
def test_reference_with_other_coefficients() -> None:
    times = np.array([0.25, 0.5])
    x, values = implicit(times, num_cells=1600, mobility=1.0, viscosity=2e-2)
    reference = buckley_leverett(times[:, None], x, mobility=1.0, viscosity=2e-2)
    assert np.abs(values - reference).max() < 2e-6


def test_reference_warns_when_under_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = tabulate(2.0, 2e-3, num_cells=300, num_steps=50, num_stages=4)
    assert coarse["estimate"] > 1e-4
    monkeypatch.setattr("lcpinn.reference.finite_volume.cached", lambda *_: coarse)
    with pytest.warns(RuntimeWarning, match="accurate to"):
        buckley_leverett(0.1, 0.1, viscosity=2e-3)


@pytest.mark.parametrize(
    "arguments", [{"t": -0.1}, {"t": 0.6}, {"t": np.nan}, {"x": -0.1}, {"viscosity": 0.0}]
)
def test_reference_refuses(arguments: dict) -> None:
    with pytest.raises(ValueError, match=r"reference covers|inviscid"):
        buckley_leverett(**{"t": 0.1, "x": 0.1, **arguments})


def test_output_times_are_checked() -> None:
    for times in ([0.2, 0.1], [-0.1], [0.1, 0.1]):
        with pytest.raises(ValueError, match="increasing"):
            lax_friedrichs(times)
        with pytest.raises(ValueError, match="increasing"):
            implicit(times, extrapolate=False)


def test_radau_tableau() -> None:
    """Hairer & Wanner, table 5.6: the nodes and the last row for three stages."""
    nodes, derivative = radau(3)
    root = np.sqrt(6.0)
    np.testing.assert_allclose(nodes, [(4 - root) / 10, (4 + root) / 10, 1.0], atol=1e-14)
    weights = np.linalg.inv(derivative)[-1]
    np.testing.assert_allclose(weights, [(16 - root) / 36, (16 + root) / 36, 1 / 9], atol=1e-13)


def test_moving_grid_jacobian() -> None:
    """Against differences of the rate, for two stages at different times."""
    grid = MovingGrid(8, 2.0, 1e-2)
    s = np.random.default_rng(2).uniform(0.0, 1.0, (2, 7))
    tau = np.array([0.1, 0.6])
    lower, main, upper = grid.jacobian(s, tau)
    h = 1e-6
    for stage in range(2):
        banded = np.diag(main[stage]) + np.diag(lower[stage], -1) + np.diag(upper[stage], 1)
        for node in range(7):
            change = np.zeros_like(s)
            change[stage, node] = h
            column = (grid.rate(s + change, tau) - grid.rate(s - change, tau)) / (2.0 * h)
            np.testing.assert_allclose(column[stage], banded[:, node], atol=1e-6)
            assert not column[1 - stage].any()


@pytest.mark.slow
def test_distance_of_the_papers_reference() -> None:
    """The paper's reference is 1.4e-2 (global speed) or 0.9e-2 (local) away; first order."""
    distance = distance_between_references()
    assert distance["global"] == pytest.approx(1.368e-2, rel=5e-3)
    assert distance["local"] == pytest.approx(0.916e-2, rel=5e-3)
    coarser = distance_between_references(num_cells=500)
    assert coarser["global"] == pytest.approx(2.0 * distance["global"], rel=0.1)
    assert coarser["local"] == pytest.approx(2.0 * distance["local"], rel=0.1)
