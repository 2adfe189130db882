"""Pages that leave their solution open, or ask for two at once, and many that do neither."""

import importlib.util
import json
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from documents import blocks
from toy import the
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.certificate import Estimator
from lcpinn.cli import app
from lcpinn.families import FAMILIES
from lcpinn.jet import Orders, expand
from lcpinn.quadrature import tensor
from lcpinn.spectral import Linearisation, LinearisedRows, LinearisedTerms, ScatteredPoints
from lcpinn.spectral.basis import basis_on
from lcpinn.spectral.determinacy import determinacy, null_space
from lcpinn.spectral.least_squares import dense
from lcpinn.spectral.linearisation import zero, zeroth

ROOT = Path(__file__).parent.parent


pytestmark = pytest.mark.usefixtures("x64")


PAGE = '''
import lcpinn as lc

class Half(lc.Family):
    """u'' + k² u = 0, u(0) = 1, and nothing else."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u, u_xx, k):
        return u_xx + k**2 * u

    @lc.on(x=0.0)
    def start(self, u):
        return u - 1.0
'''


@cache
def half():
    names: dict = {"__name__": "page"}
    exec(compile(PAGE, "page.py", "exec"), names)
    return names["Half"]


class Heat(lc.Family):
    """u_t = a u_xx between two walls."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.1, 0.5))

    @lc.interior
    def equation(self, u_t, u_xx, a):
        return u_t - a * u_xx

    @lc.on(x=(0.0, 1.0))
    def wall(self, u):
        return u


class Wave(lc.Family):
    """u_tt = c² u_xx with one initial condition."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0))
    parameters = lc.Uniform(c=(0.5, 1.0))

    @lc.interior
    def equation(self, u_tt, u_xx, c):
        return u_tt - c**2 * u_xx

    @lc.on(x=(0.0, 1.0))
    def wall(self, u):
        return u

    @lc.on(t=0.0)
    def start(self, u, x):
        return u - jnp.sin(jnp.pi * x)


class Layer(lc.Family):
    """-ν u'' + u' = 1; what is free without a condition at x = 1 is e^(x/ν)."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.LogUniform(nu=(2e-3, 1.0))

    @lc.interior
    def equation(self, u_x, u_xx, nu):
        return -nu * u_xx + u_x - 1

    @lc.on(x=0.0)
    def start(self, u):
        return u


OPEN = {
    "oscillation": (lambda: half()(), "u: one function is free (is a condition at x = 1 missing?)"),
    "heat": (Heat, "functions are free (is a condition at t = 0 missing?)"),
    "wave": (Wave, "functions are free (is a condition at t = 0 missing?)"),
    "layer": (Layer, "one function is free (is a condition at x = 1 missing?)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPEN)
def test_a_page_that_leaves_its_solution_open(name):
    make, says = OPEN[name]
    known = determinacy(make())
    assert not known.is_determined
    assert known.reason.startswith("the page does not determine u: ")
    assert says in known.reason


def test_what_is_free_solves_the_equation_without_its_right_hand_side():
    """sin(kx) at the setting that is shown: zero at x = 0, and the ratio of u'' to u constant."""
    space = determinacy(half()()).null_space
    x = np.linspace(0, 1, 21)[:, None]
    orders = Orders(((0,), (1,), (2,)))
    u, _, second = space.basis.evaluate(space.coefficients[0], x, orders)[:, :, 0]
    assert abs(u[0]) < 1e-10
    ratio = 2 * second[1:] / u[1:]  # Taylor coefficients are derivatives by factorials
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    assert -4 < ratio[0] < -1


def judged(family, function, lam):
    """An estimate for a plain function of the point in place of a network."""

    def jet(params, points, parameters, weights, orders):
        at = lambda p: expand(lambda q: function(q, parameters), p, orders)
        return jnp.moveaxis(jax.vmap(at)(points), 0, 1)

    return Estimator(family, jet)(None, lam)


def test_an_open_page_gets_no_certificate():
    """cos(kx) solves it to rounding; so does cos(kx) + sin(kx)."""
    estimate = judged(half()(), lambda p, lam: jnp.cos(lam[0] * p), [1.5])
    assert np.isnan(estimate.error)
    assert "is a condition at x = 1 missing?" in estimate.reason


class Contradiction(lc.Family):
    """u' = -k u, u(0) = u(1) = 1."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u, u_x, k):
        return u_x + k * u

    @lc.on(x=0.0)
    def start(self, u):
        return u - 1.0

    @lc.on(x=1.0)
    def end(self, u):
        return u - 1.0


def test_conditions_that_contradict_each_other():
    known = determinacy(the(Contradiction))
    assert known.reason.startswith("the conditions cannot hold together")
    assert set(known.contradicting) == {"equation", "start", "end"}
    estimate = judged(the(Contradiction), lambda p, lam: jnp.exp(-lam[0] * p), [1.5])
    assert np.isnan(estimate.error)
    assert "cannot hold together" in estimate.reason


# -- Levels ---------------------------------------------------------------------------------------


class Insulated(lc.Family):
    """Δu = f with no flux through any wall: u up to a constant."""

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(a=(1.0, 2.0))

    @lc.interior
    def equation(self, laplacian_u, x, y, a):
        return laplacian_u + 2 * jnp.pi**2 * a * jnp.cos(jnp.pi * x) * jnp.cos(jnp.pi * y)

    @lc.on(x=(0.0, 1.0))
    def sides(self, u_x):
        return u_x

    @lc.on(y=(0.0, 1.0))
    def ends(self, u_y):
        return u_y


class Stokes(lc.Family):
    """μ Δ(u, v) = ∇p + (y, 0), u_x + v_y = 0 in a box: p up to a constant."""

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(mu=(1.0, 2.0))
    outputs = ("u", "v", "p")

    @lc.interior
    def momentum(self, laplacian_u, laplacian_v, p_x, p_y, y, mu):
        return mu * laplacian_u - p_x - y, mu * laplacian_v - p_y

    @lc.interior
    def mass(self, u_x, v_y):
        return u_x + v_y

    @lc.on()
    def wall(self, u, v):
        return u, v


@pytest.mark.slow
def test_a_neumann_problem_without_a_level():
    """Judged up to its constant, which may be anything."""
    family = the(Insulated)
    known = determinacy(family)
    assert known.is_determined
    assert known.levels == (("u", ("x", "y")),)

    def function(level, p, lam):
        exact = lam[0] * jnp.cos(jnp.pi * p[0]) * jnp.cos(jnp.pi * p[1])
        return (exact + 1e-4 * jnp.cos(jnp.pi * p[0]) + level)[None]

    estimates = [judged(family, lambda p, lam, c=c: function(c, p, lam), [1.5]) for c in (0.0, 7.0)]
    for estimate in estimates:
        assert estimate.error == pytest.approx(1e-4 * np.sqrt(2) / 1.5, rel=0.02)
        assert "up to a constant" in estimate.note


@pytest.mark.slow
def test_of_an_incompressible_flow_only_the_pressure_has_a_free_level():
    known = determinacy(the(Stokes))
    assert known.is_determined
    assert [output for output, _ in known.levels] == ["p"]
    assert "p up to a constant" in known.note


# -- Complete pages -------------------------------------------------------------------------------


class Growth(lc.Family):
    """u' = k u, u(0) = 1: grows by twenty digits and is determined all the same."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(45.0, 60.0))

    @lc.interior
    def equation(self, u, u_x, k):
        return u_x - k * u

    @lc.on(x=0.0)
    def start(self, u):
        return u - 1.0


class Thin(Layer):
    @lc.on(x=1.0)
    def end(self, u):
        return u


class Imposed(lc.Family):
    """Its conditions are the ansatz's alone."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u_xx, k):
        return u_xx + k

    def ansatz(self, u, x):
        return x + u * x * (1 - x)


def families_in(namespace):
    made = [v for v in namespace.values() if isinstance(v, type) and issubclass(v, lc.Family)]
    return {c.__name__: c for c in made if c is not lc.Family}


def of_file(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return families_in(vars(module))


def of_readme():
    found: dict = {}
    for code in blocks((ROOT / "README.md").read_text(), "python"):
        if "lc.Family" in code:
            names: dict = {"__name__": "readme", "lc": lc, "jnp": jnp, "np": np}
            cut = code.split("\n\n\nsolution =")[0].split("\n\n\nspiral =")[0]
            exec(compile(cut, "README.md", "exec"), names)
            found |= families_in(names)
    return found


# Those that are built in, and the zoo's, are examined by `check` as well: test_check.py and
# test_zoo.py ask the same of them.
COMPLETE = {
    "growth": Growth,
    "thin": Thin,
    "imposed": Imposed,
    "at a resonance": lambda: the(FAMILIES["helmholtz-1d"]).with_priors(lc.Uniform(k=(3.0, 3.3))),
    **{f"toy {n}": c for n, c in families_in(vars(toy)).items()},
    **{f"README {n}": c for n, c in of_readme().items()},
    **{f"{f.stem} {n}": c for f in sorted((ROOT / "examples").glob("*.py"))
       for n, c in of_file(f).items()},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPLETE)
def test_a_complete_page_is_never_accused(name):
    known = determinacy(COMPLETE[name]())
    assert known.is_determined, known.reason
    assert known.levels == ()


def test_a_free_outflow_is_named():
    """What Buckley and Leverett's page leaves open at x = 1 is settled by convention."""
    assert determinacy(the(FAMILIES["buckley-leverett"])).outflow == "x = 1"
    assert determinacy(the(FAMILIES["burgers"])).outflow == ""


def test_an_estimate_at_a_resonance_stays_as_it_is():
    family = the(FAMILIES["helmholtz-1d"])
    wrong = lambda p, lam: family.call("exact", p, lam) + 1e-6 * jnp.sin(2 * jnp.pi * p)
    assert judged(family, wrong, [np.pi]).error > 1e-7


# -- Shapes: points in no order, and a basis on their bounding box ---------------------------------


class Disc(lc.Family):
    """Δu = 0 on the unit disc, written on its bounding box; the points say where it is."""

    domain = lc.Box(x=(-1.1, 1.1), y=(-1.1, 1.1))
    weights = None

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on(x=1.1)
    def dirichlet(self, u, x, y):
        return u - self.exact(x, y)

    @lc.on(y=1.1)
    def neumann(self, u_x, u_y, x, y):
        return x * u_x + y * u_y

    def exact(self, x, y):
        return jnp.exp(x) * jnp.cos(y)


def on_disc(condition, num=14):
    family = the(Disc)
    terms, basis = LinearisedTerms(family), basis_on(family.domain, (num, num))
    angle = 2 * np.pi * np.arange(90) / 90
    square = tensor([np.linspace(-1, 1, 37)] * 2)
    inside = square[np.sum(square**2, axis=1) < 1]
    places = {"equation": inside, condition: np.stack([np.cos(angle), np.sin(angle)], axis=1)}
    at, rows = Linearisation(terms, np.zeros(0), zero(1)), []
    for name, points in places.items():
        term = family.all_terms[name]
        orders = family.orders([term])
        where = ScatteredPoints(basis, points, orders, term)
        rows.append(
            LinearisedRows(where, *at.slopes(term, orders, at.series(points, orders), points))
        )
    return basis, inside, rows


def test_a_frame_solves_on_a_disc():
    """Δ(eˣ cos y) = 0: redundant outside of the disc, and right inside."""
    basis, inside, rows = on_disc("dirichlet")
    solved = dense(rows, cutoff=1e-13)
    u = basis.evaluate(solved.coefficients[None], inside, zeroth(2))[0, :, 0]
    exact = np.exp(inside[:, 0]) * np.cos(inside[:, 1])
    assert np.linalg.norm(u - exact) / np.linalg.norm(exact) < 1e-8


@pytest.mark.slow
def test_redundancy_of_a_frame_is_no_open_page():
    """No function is free on the disc with u given on its rim; with its flux, a level is."""
    basis, inside, rows = on_disc("dirichlet")
    assert len(null_space(rows, basis, inside, 1)) == 0
    basis, inside, rows = on_disc("neumann")
    space = null_space(rows, basis, inside, 1)
    assert len(space) == 1
    level = basis.evaluate(space.coefficients[0], inside, zeroth(2))[0, :, 0]
    np.testing.assert_allclose(level, level[0], rtol=1e-4)


class Pipe(lc.Family):
    """Δu = 0 between a pipe of radius r and its casing: u = ln(ρ) / ln(r)."""

    pipe = lc.Ball(x=0.0, y=0.0, radius="r")
    casing = lc.Ball(x=0.0, y=0.0, radius=1.0)
    domain = casing - pipe  # pyright: ignore[reportAssignmentType]
    parameters = lc.Uniform(r=(0.4, 0.6))

    @lc.interior
    def equation(self, laplacian_u):
        return laplacian_u

    @lc.on(pipe)
    def hot(self, u):
        return u - 1.0

    @lc.on(casing)
    def cold(self, u):
        return u


class InsulatedPipe(Pipe):
    @lc.on(Pipe.casing)
    def cold(self, u_n):
        return u_n

    @lc.on(Pipe.pipe)
    def hot(self, u_n):
        return u_n


def test_a_page_on_a_shape():
    """Determined, or up to a level where only the flux is given."""
    known = determinacy(the(Pipe))
    assert known.is_determined
    assert known.levels == ()
    assert determinacy(the(InsulatedPipe)).levels == (("u", ("x", "y")),)


@pytest.mark.slow
def test_an_error_on_a_shape_is_estimated():
    def function(p, lam):
        radius = jnp.hypot(p[0], p[1])
        return (jnp.log(radius) / jnp.log(lam[0]) + 1e-3 * p[0] * p[1])[None]

    family, lam = the(Pipe), np.array([0.5])
    points = family.domain.sobol(4000, parameters=lam)
    exact = np.log(np.hypot(*points.T)) / np.log(0.5)
    expected = 1e-3 * np.linalg.norm(np.prod(points, axis=1)) / np.linalg.norm(exact)
    estimate = judged(family, function, lam)
    assert estimate.error == pytest.approx(expected, rel=0.15), estimate.reason


# -- The command line -----------------------------------------------------------------------------


@pytest.mark.slow
def test_check_says_what_is_open_and_draws_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("page.py").write_text(PAGE)
    done = CliRunner().invoke(app, ["check", "page.py:Half", "--json"])
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    (failed,) = [f for f in report["checks"] if not f["ok"]]
    assert failed["name"] == "one solution"
    assert "one function is free (is a condition at x = 1 missing?)" in failed["detail"]
    assert Path(report["picture"]).stat().st_size > 10_000
