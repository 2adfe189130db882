"""The battery passes on good families, and each check fails on one that is broken in its way."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import EVERY
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.cli import app
from lcpinn.cli.support.battery import CHECKS, Finding, _Bench, _find, check
from lcpinn.families import BUILT_IN


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_families_pass(name, examined):
    findings = check(BUILT_IN[name]())
    (known,) = examined
    assert known.is_determined, known.reason
    assert known.levels == ()
    assert [f.name for f in findings] == list(CHECKS)
    assert [f for f in findings if not f.ok] == []
    exact = next(f for f in findings if f.name == "exact solution")
    known = BUILT_IN[name]().exact is not None
    assert exact.applies == known
    assert ("to" if known else "a numeric reference") in exact.detail


class Sound(lc.Family):
    """u_x = k u, u(0) = 1, with an ansatz, features and an exact solution."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u, u_x, k):
        return u_x - k * u

    @lc.on(x=0.0)
    def start(self, u):
        return u - 1.0

    def features(self, x):
        return x, jnp.sin(x)

    def ansatz(self, u, x):
        return 1 + x * u

    def exact(self, x, k):
        return jnp.exp(k * x)


def one(family, name):
    """The finding of one check alone; the others would only cost time."""
    with jax.enable_x64(True):
        return _find(name, CHECKS[name], _Bench(family))


def test_a_single_observation_is_enough():
    class Gauged(Sound):
        data = lc.Data(x=[0.0], u=[1.0])

    finding = one(Gauged(), "jit and vmap")
    assert finding.ok, finding.detail


@pytest.mark.slow
def test_a_sound_family_passes_every_check():
    findings = {f.name: f for f in check(Sound())}
    assert all(f.ok and f.applies for f in findings.values())
    assert findings["names"].detail == "equation(u, u_x, k), start(u)"
    assert findings["features"].detail.startswith("2 features")
    assert findings["ansatz"].detail.endswith("makes start void")
    assert "u, u_x" in findings["derivatives"].detail


def variant(**methods):
    """Sound with some methods replaced; a replaced term keeps its place."""
    for name, method in methods.items():
        mark = getattr(getattr(Sound, name), "_lcpinn_mark", None)
        if mark is not None:
            method._lcpinn_mark = mark
    return type("Broken", (Sound,), methods)()


def branch(self, u, u_x, k):
    return u_x - k * u if u > 0 else u_x


def by_numpy(self, u, u_x, k):
    return u_x - np.exp(k) * u


def to_float(self, u, u_x, k):
    return u_x - float(k) * u


counter = iter(range(10_000))


def impure(self, u, u_x, k):
    return u_x - k * u + next(counter)


def guarded_root(self, u, u_x, k):
    return u_x - k * u + jnp.where(jnp.abs(u) < 1e3, 0.0, jnp.sqrt(jnp.abs(u) - 1e3))


BROKEN = {
    "branch": ("jit and vmap", dict(equation=branch), "test_check.py, line"),
    "hint": ("jit and vmap", dict(equation=branch), "jnp.where instead of if"),
    "numpy": ("jit and vmap", dict(equation=by_numpy), "jax.numpy instead of numpy"),
    "float": ("jit and vmap", dict(equation=to_float), "without float()"),
    "impure": ("jit and vmap", dict(equation=impure), "besides its arguments"),
    "features": (
        "derivatives",
        dict(features=lambda self, x: (x, jnp.sqrt(x - 0.5))),
        "NaN or infinite at x = 0.",
    ),
    "inside": (
        "inside",
        dict(equation=lambda self, u, u_x, k: u_x - jnp.log(k - 1.5) * u),
        "'equation': NaN or infinite at x = 0.",
    ),
    "corner": (
        "corners",
        dict(equation=lambda self, u, u_x, x, k: u_x - k * u / x),
        "'equation': NaN or infinite at x = 0, k = 1",
    ),
    "corner of lambda": (
        "corners",
        dict(equation=lambda self, u, u_x, k: u_x - u / (2 - k)),
        "'equation': NaN or infinite at x = 0, k = 2",
    ),
    "root of a feature": (
        "features",
        dict(features=lambda self, x: (x, jnp.sqrt(x))),
        "features or a derivative of them (interior): NaN or infinite at x = 0",
    ),
    "root in the ansatz": (
        "ansatz",
        dict(ansatz=lambda self, u, x: 1 + x * jnp.sqrt(x) * u),
        "the ansatz or a derivative of it (interior): NaN or infinite at x = 0",
    ),
    "gradient": ("gradient", dict(equation=guarded_root), "gradient of the term 'equation'"),
    "wrong exact": (
        "exact solution",
        dict(exact=lambda self, x, k: jnp.exp(k * x) + 1e-4 * x),
        "in the term 'equation' at x = ",
    ),
    "wrong start": (
        "exact solution",
        dict(exact=lambda self, x, k: 2 * jnp.exp(k * x)),
        "it leaves 1 in the term 'start' at x = 0",
    ),
    "exact is NaN": (
        "exact solution",
        dict(exact=lambda self, x, k: jnp.exp(k * x) * jnp.sqrt(x - 0.5) / jnp.sqrt(x - 0.5)),
        "exact solution is NaN or infinite at x = 0.",
    ),
    "exact of two": (
        "exact solution",
        dict(exact=lambda self, x, k: (x, k)),
        "shape (2,) for the outputs u",
    ),
    "truth": (
        "truth",
        dict(exact=None, reference=lambda self, x, k: np.where(x < 0.5, x, np.inf)),
        "it is NaN or infinite at x = 0.",
    ),
    "truth of one": (
        "truth",
        dict(exact=None, reference=lambda self, x, k: x[:1]),
        "shape (1, 1) at 8 points",
    ),
    "truth raises": (
        "truth",
        dict(exact=None, reference=lambda self, x, k: x.nothing),
        "AttributeError",
    ),
    "outside the prior": (
        "evaluation",
        dict(evaluation=lc.Evaluation(at={"k": (1.0, 3.0)})),
        "evaluation.at has k = 3, outside the prior",
    ),
    "outside the domain": (
        "evaluation",
        dict(evaluation=lc.Evaluation(points={"x": (0.5, 1.5)})),
        "evaluation.points has x = 1.5, outside the domain",
    ),
    "name of no parameter": (
        "evaluation",
        dict(evaluation=lc.Evaluation(at={"k": (1.0,), "q": (1.0,)})),
        "evaluation.at names no parameter: 'q'",
    ),
    "open": (
        "one solution",
        dict(equation=lambda self, u, u_x, k: 0 * u_x, exact=None),
        "the page does not determine u",
    ),
    "rows moved out": (
        "inside",
        dict(collocate=lambda self, x: 2.5 - x),
        "collocate moves a row to x = ",
    ),
    "parameter left out": (
        "evaluation",
        dict(evaluation=lc.Evaluation(at={})),
        "evaluation.at lacks the parameter: 'k'",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes", "says"), BROKEN.values(), ids=BROKEN)
def test_a_broken_family_fails(name, changes, says):
    if "equation" in changes:
        changes = {"features": None, "ansatz": None} | changes
    found = one(variant(**changes), name)
    assert not found.ok
    assert says in found.detail
    assert "\n" not in found.detail


def test_every_check_has_a_family_that_fails_it():
    """But for the names: a family whose names do not bind cannot be built. Jumps are only named."""
    assert {name for name, _, _ in BROKEN.values()} == set(CHECKS) - {"names", "jumps"}


def test_what_cannot_be_traced_is_not_tried_further():
    findings = check(variant(equation=branch, features=None, ansatz=None))
    assert [f.name for f in findings] == list(CHECKS)
    assert [f.name for f in findings if not f.ok] == ["jit and vmap"]
    assert all(not f.applies and "not tried" in f.detail for f in findings[2:])


def test_a_condition_without_a_size_of_its_own():
    """u_x = 0 at a wall, which rounding meets only to 1e-17, is compared with u_x elsewhere."""

    class Wall(lc.Family):
        domain = lc.Box(x=(0.0, 1.0))
        parameters = lc.Uniform(k=(1.0, 2.0))

        @lc.interior
        def equation(self, u_xx, u, k):
            return u_xx + k**2 * u

        @lc.on(x=1.0)
        def wall(self, u_x):
            return u_x

        def exact(self, x, k):
            return jnp.sin(k * (x - 1 + jnp.pi / (2 * k)))

    assert one(Wall(), "exact solution").ok


@pytest.mark.parametrize("slip", [0.0, 1e-6])
def test_a_smooth_solution_has_nothing_to_hide_behind_a_layer(slip):
    """Where nu is large all parts of the equation have size one; where it is small, 1 / nu."""

    class Layer(lc.Family):
        domain = lc.Box(x=(0.0, 1.0))
        parameters = lc.LogUniform(nu=(1e-5, 1.0))

        @lc.interior
        def equation(self, u_x, u_xx, nu):
            return nu * u_xx + u_x

        @lc.on(x=0.0)
        def start(self, u):
            return u

        def exact(self, x, nu):
            return -jnp.expm1(-x / nu) + jnp.where(nu > 0.1, slip * x, 0.0)

    found = one(Layer(), "exact solution")
    assert found.ok == (slip == 0.0)
    if slip:
        assert "in the term 'equation'" in found.detail


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", ["exact solution", "evaluation", "truth"])
def test_toy_families_pass(cls, name):
    assert one(cls(), name).ok


# The command


@pytest.mark.slow
def test_the_command_shows_a_table(decay, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    found = CliRunner().invoke(app, ["check", str(decay / "decay.py")])
    assert found.exit_code == 0
    assert found.stdout.startswith("decay\nu' = -k u, u(0) = 1, for every rate k.\n✓  names")
    assert "–  ansatz" in found.stdout
    assert found.stdout.endswith("ready to train\n")


@pytest.mark.slow
def test_a_failure_is_an_exit_code(decay, tmp_path):
    text = (decay / "decay.py").read_text()
    text = text.replace("u_t + k * u", "u_t + k * u / t").replace("u, u_t, k)", "u, u_t, t, k)")
    (tmp_path / "bad.py").write_text(text)
    found = CliRunner().invoke(app, ["check", str(tmp_path / "bad.py")])
    assert found.exit_code == 1
    assert "✗  corners" in found.stdout
    assert "2 of 13 checks failed" in found.stdout
    as_json = CliRunner().invoke(app, ["check", str(tmp_path / "bad.py"), "--json"])
    assert as_json.exit_code == 1
    report = json.loads(as_json.stdout)
    assert (report["family"], report["ok"]) == ("decay", False)
    findings = [Finding(**f) for f in report["checks"]]
    assert [f.name for f in findings if not f.ok] == ["corners", "exact solution"]


# -- Coefficients that jump ------------------------------------------------------------------------


def conductivity(x, at=0.7):
    return jnp.where(x < at, 1.0, 8.0)


class Bar(lc.Family):
    """k(x) u_xx = 1: not the same as (k u_x)_x = 1 where k jumps."""

    domain = lc.Box(x=(0.0, 2.0))
    parameters = lc.Uniform(h=(0.5, 5.0), a=(0.5, 1.5))

    @lc.interior
    def equation(self, u_xx, x, h):
        return h * conductivity(x) * u_xx - jnp.where(x < 0.4, 1.0, 2.0)

    @lc.on()
    def ends(self, u):
        return u


class MovingBar(Bar):
    """The same with a jump whose place is a coefficient."""

    @lc.interior
    def equation(self, u_xx, x, a):
        return conductivity(x, a) * u_xx - 1.0


class FluxForm(Bar):
    """k(x) T_x + q = 0, q_x = f."""

    outputs = ("T", "q")

    @lc.interior
    def equation(self, T_x, q, q_x, x):
        return conductivity(x) * T_x + q, q_x - jnp.where(x < 0.4, 1.0, 2.0)

    @lc.on()
    def ends(self, T):
        return T


class Plate(lc.Family):
    """u_t = k(x) (u_xx + u_yy)."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 2.0), y=(0.0, 1.0))
    parameters = lc.Uniform(h=(0.5, 5.0))

    @lc.interior
    def equation(self, u_t, laplacian_u, x, h):
        return u_t - h * conductivity(x) * laplacian_u


def test_a_jump_of_the_leading_coefficient_is_named():
    """And not that of the right-hand side, where nothing is ambiguous."""
    found = one(Bar(), "jumps")
    assert found.ok
    assert found.applies
    assert found.detail.startswith(
        "the coefficient of u_xx jumps at x = 0.7: u and u_x are taken as continuous there; "
    )
    assert "the coefficient times u_x, that is continuous" in found.detail
    assert "outputs u and q" in found.detail
    assert "0.4" not in found.detail


def test_in_flux_form_outputs_are_continuous():
    detail = one(FluxForm(), "jumps").detail
    assert detail == (
        "the coefficient of T_x jumps at x = 0.7: T and q are taken as continuous there"
    )


def test_a_jump_that_moves_with_a_coefficient_is_seen():
    detail = one(MovingBar(), "jumps").detail
    assert "u_xx jumps at a value of x that depends on the coefficients: u and u_x are" in detail


def test_a_jump_in_several_coordinates():
    detail = one(Plate(), "jumps").detail
    assert "the coefficient of u_xx jumps at x = 0.7: u and u_x are taken" in detail
    assert "jumps at t" not in detail
    assert "jumps at y" not in detail


@pytest.mark.parametrize("family", [Sound, lambda: BUILT_IN["helmholtz-2d"]()])
def test_smooth_coefficients_do_not_jump(family):
    found = one(family(), "jumps")
    assert (found.ok, found.detail) == (True, "no coefficient of a highest derivative jumps")


def test_a_steep_coefficient_is_no_jump():
    class Steep(Bar):
        @lc.interior
        def equation(self, u_xx, x):
            return (2 + jnp.tanh(200 * (x - 0.7))) * u_xx - 1.0

    assert one(Steep(), "jumps").detail.startswith("no coefficient")
