"""Pictures: each is written, has its axes labelled, and says why where it does not apply."""

import dataclasses
import json
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from toy import Both, Coupled, Oscillator, of_kind, perturbed
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn import cli, plot
from lcpinn.families import Burgers, Helmholtz
from lcpinn.optimiser import Restarts
from lcpinn.plot import loss
from lcpinn.plot.style import STYLE, linear_scale, log_scale, number, setting, size_of, symbol
from lcpinn.plot.values import choose, planes
from lcpinn.rows import Problem


class Heated(lc.Family):
    """u_t = k (u_xx + u_yy), to have a time beside two coordinates, and no truth."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0), y=(0.0, 2.0))
    parameters = lc.LogUniform(k=(0.01, 1.0))

    @lc.interior
    def equation(self, u_t, u_xx, u_yy, k):
        return u_t - k * (u_xx + u_yy)


class Three(lc.Family):
    """u' = a + b + c: more coefficients than a map has axes."""

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.0, 1.0), b=(0.0, 1.0)) & lc.LogUniform(c=(0.1, 1.0))

    @lc.interior
    def equation(self, u_x, a, b, c):
        return u_x - a - b - c

    def exact(self, x, a, b, c):
        return (a + b + c) * x


def untrained(family):
    """A solution with random parameters: what a picture has on it does not depend on training."""
    protocol = lc.protocol.smoke(family)
    family = protocol.view(family)
    with jax.enable_x64(True):
        params = perturbed(Problem(family, protocol.network, jnp.float64))
    return lc.Solution(family, protocol, params, {})


FAMILIES = {
    "1-d": Helmholtz(1),
    "2-d": Helmholtz(2),
    "3-d": Helmholtz(3),
    "weights": Burgers(),
    "two outputs": Coupled(),
    "both": Both(),
    "no truth": Heated(),
    "three coefficients": Three(),
}


@pytest.fixture(scope="module")
def solutions():
    return {name: untrained(family) for name, family in FAMILIES.items()}


@pytest.fixture(autouse=True)
def _coarse(monkeypatch):
    """What is on a picture does not depend on its pixels."""
    monkeypatch.setitem(STYLE, "savefig.dpi", 60)


def axes_of(figure):
    """Every axes of a figure, those of its parts and colour bars included."""
    return figure.findobj(Axes)


def labels(figure):
    """The words on all axes of a figure."""
    return {
        text
        for axis in axes_of(figure)
        for text in (axis.get_xlabel(), axis.get_ylabel(), axis.get_title())
        if text
    }


RELATIVE = "relative $L^2$ error"
EXPECTED = {
    ("1-d", "solution"): {"$x$", "$u$"},
    ("1-d", "error"): {"$x$", "$k$", "absolute error of $u$", RELATIVE},
    ("1-d", "spread"): {"$k$", RELATIVE, "settings"},
    ("2-d", "solution"): {"$x$", "$y$", "$u$", "$k$ = 1", "$k$ = 5.5", "$k$ = 10"},
    ("2-d", "error"): {"$x$", "$y$", "$k$", "error of $u$", RELATIVE, "$k$ = 5.5"},
    ("3-d", "solution"): {"$x$", "$y$", "$z$", "$k$ = 1", "$k$ = 3", "$k$ = 5"},
    ("3-d", "error"): {"$x$", "$y$", "$z$", "$k$", "error of $u$, $z$ = 0.5", RELATIVE},
    ("weights", "solution"): {"$t$", "$x$", "$u$"},
    ("weights", "error"): {"$t$", "$x$", "absolute error of $u$", f"{RELATIVE} of $u$"},
    ("weights", "spread"): {
        *("$t$", "$x$", "deviation of $u$ across weightings", RELATIVE, "weightings"),
        *("weight of equation", "weight of boundary", "weight of initial", "weight of data"),
    },
    ("two outputs", "solution"): {"$t$", "$x$", "$u$", r"$v_{\mathrm{air}}$"},
    ("two outputs", "error"): {"error of $u$", r"error of $v_{\mathrm{air}}$", "$a$", "$b$"},
    ("two outputs", "spread"): {"$a$", "$b$", "settings"},
    ("both", "solution"): {"$t$", "$u$"},
    ("both", "spread"): {"$t$", "relative $L^2$ distance from the mean", "weight of start"},
    ("no truth", "solution"): {"$x$", "$y$", "$k$ = 0.01", "$k$ = 1"},
    ("three coefficients", "error"): {"$x$", "position in the range", RELATIVE},
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), EXPECTED)
def test_every_picture_is_written_with_its_axes_labelled(name, what, solutions, tmp_path):
    figure = solutions[name].plot(what, tmp_path / "picture.png")
    assert EXPECTED[name, what] <= labels(figure)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    width, height = figure.get_size_inches()
    assert width <= 7.0  # both columns of a page
    assert height <= 9.7


def test_curves_are_the_solution(solutions):
    solution = solutions["1-d"]
    (axis,) = axes_of(solution.plot(at=[{"k": 2.0}, {"k": 7.5}]))
    assert len(axis.lines) == 2
    for curve, k in zip(axis.lines, (2.0, 7.5), strict=True):
        np.testing.assert_array_equal(curve.get_ydata(), solution(x=curve.get_xdata(), k=k))
    styles = {(curve.get_color(), curve.get_linestyle()) for curve in axis.lines}
    assert len({colour for colour, _ in styles}) == len({dashes for _, dashes in styles}) == 2


@pytest.mark.slow
def test_fields_are_the_solution_and_the_error(solutions):
    solution = solutions["2-d"]
    (plane,) = planes(solution.family)
    x, y = plane.points.T
    value, truth = solution(x=x, y=y, k=2.0), np.sin(np.pi * x) * np.cos(2 * x)
    truth = truth * np.sin(np.pi * y) * np.cos(2 * y)
    expected = {"solution": value, "error": np.abs(value - truth)}
    for what, values in expected.items():
        images = solution.plot(what, at={"k": 2.0}).findobj(AxesImage)
        (image,) = (i for i in images if i.get_array().shape == (161, 161))
        shown = image.get_array().T.ravel()  # first coordinate across, second up
        np.testing.assert_allclose(shown, values, rtol=1e-9, atol=1e-12)


def test_error_over_lambda_marks_the_papers_grid(solutions):
    figure = solutions["1-d"].plot("error")
    (axis,) = (a for a in axes_of(figure) if a.get_xlabel() == "$k$")
    curve, grid, paper = axis.lines
    assert (curve.get_label(), grid.get_label()) == ("lcpinn", "paper’s grid")
    assert list(grid.get_xdata()) == [1.0, 3.25, 5.5, 7.75, 10.0]
    assert dict(zip(*paper.get_data(), strict=True))[3.25] == 0.00127
    report = solutions["1-d"].evaluate()
    np.testing.assert_allclose(grid.get_ydata(), [row["error"] for row in report["grid"]])
    assert max(curve.get_ydata()) == pytest.approx(report["dense_max"])


@pytest.mark.slow
def test_spread_has_a_point_for_every_weighting(solutions):
    solution = solutions["weights"]
    figure = solution.plot("spread")
    (axis,) = (a for a in axes_of(figure) if a.get_xlabel() == "weight of initial")
    (points,) = axis.lines
    draws = solution.family.weights.sobol(100, seed=0)
    np.testing.assert_array_equal(points.get_xdata(), draws[:, 2])
    assert max(points.get_ydata()) == pytest.approx(solution.evaluate()["worst_slice"])


@pytest.mark.slow
def test_spread_over_coefficients_counts_every_setting(solutions):
    solution = solutions["1-d"]
    figure = solution.plot("spread")
    (axis,) = (a for a in axes_of(figure) if a.get_ylabel() == "settings")
    assert sum(bar.get_height() for bar in axis.patches) == solution.family.evaluation.dense
    largest = axis.lines[-1].get_xdata()[0]
    assert largest == pytest.approx(solution.evaluate()["dense_max"])


@pytest.mark.slow
def test_the_corrected_solution_takes_the_networks_place(solutions):
    helmholtz = solutions["1-d"]
    figure = helmholtz.plot("solution", at={"k": 2.0}, corrected=True)
    (axis,) = axes_of(figure)
    x, y = axis.lines[0].get_data()
    np.testing.assert_allclose(y, np.sin(np.pi * x) * np.cos(2 * x), atol=1e-8)
    assert axis.get_ylabel().endswith(", corrected")


@pytest.mark.slow
def test_errors_of_the_corrected_solution_are_beside_the_networks(solutions):
    figure = solutions["1-d"].plot("error", at={"k": 2.0}, corrected=True)
    along, over = axes_of(figure)
    network, corrected = (line.get_ydata() for line in along.lines)
    assert np.nanmax(corrected) < 1e-6 * np.nanmax(network)
    named = {line.get_label(): line.get_data() for line in over.lines}
    assert named["corrected"][0].tolist() == [2.0]
    assert named["corrected"][1] < 1e-6 * named["lcpinn"][1].min()


def test_only_solution_and_error_are_drawn_corrected(solutions):
    with pytest.raises(lc.LcpinnError, match="solution or error, not the spread"):
        solutions["1-d"].plot("spread", corrected=True)


def test_pictures_leave_matplotlib_as_it_was(solutions, tmp_path):
    before = dict(matplotlib.rcParams)
    solutions["1-d"].plot("error", tmp_path / "error.svg")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_the_same_picture_is_the_same_file(suffix, solutions, tmp_path):
    for name in ("one", "two"):
        solutions["1-d"].plot("solution", tmp_path / f"{name}{suffix}")
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two


# The loss


def write_run(path, lines):
    path.mkdir(parents=True)
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def gauss_newton(step, loss, start, round_, **more):
    found = {"phase": 1, "step": step, "loss": loss, "validation": 2 * loss}
    return {**found, "start": start, "round": round_, **more}


# Two starts are tried for thirty steps each, the first goes on, and a third one follows. A line
# counts the starts after it.
RESTARTED = [
    *(gauss_newton(step, 10.0**-step, 1, 1) for step in (10, 20)),
    gauss_newton(30, 1e-30, 2, 2),
    *(gauss_newton(step, 1e-3, 2, 1) for step in (40, 50, 60)),
    *(gauss_newton(step, 1e-31, 2, 2) for step in (70, 80)),
    *(gauss_newton(step, 1e-32, 3, 3) for step in (90,)),
    gauss_newton(100, 1e-2, 3, 1),
]


def fast_solution(family):
    solution = untrained(family)
    run = {"training": {"seconds": {"compile": 4.0, "train": 18.0}}}
    protocol = lc.protocol.fast(family)
    (restarts,) = protocol.phases
    twice = dataclasses.replace(of_kind(Restarts, restarts), starts=2)
    protocol = dataclasses.replace(protocol, phases=(twice,))
    return lc.Solution(family, protocol, solution.params, run)


def test_loss_with_restarts(tmp_path):
    solution = fast_solution(Helmholtz(1))
    run = write_run(tmp_path / "run", RESTARTED)
    figure = solution.plot("loss", run=run)
    axis = figure.axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_yscale()) == ("step", "loss", "log")
    training, held_out = axis.lines[:2]
    x, y = map(np.asarray, training.get_data())
    assert list(x[~np.isnan(x)]) == list(range(10, 101, 10))
    assert [x[i - 1] for i in np.flatnonzero(np.isnan(x))] == [30, 60, 90]
    np.testing.assert_array_equal(held_out.get_ydata(), 2 * y)
    ends = [np.asarray(line.get_xdata()) for line in axis.lines]
    marked = [x[0] for x in ends if len(set(x)) == 1]
    assert {30, 60, 90} <= set(marked)
    assert loss.read(run / "metrics.jsonl", solution.protocol.phases).redrawn == [20, 60, 80]
    clock: Any = axis.child_axes[0]
    assert len(axis.child_axes) == 1
    assert clock.get_xlabel() == "seconds, at the mean pace"
    assert clock._functions[0](np.array([10.0, 100.0])).tolist() == [4.0, 22.0]


def test_loss_of_phases_with_terms(tmp_path):
    line = {"loss": 3.0, "terms": {"equation": 2.0, "boundary": 1.0}}
    lines = [{"phase": 1, "step": step, **line} for step in (20, 40)]
    lines += [{"phase": 2, "step": step, **line} for step in (5, 10)]
    solution = untrained(Helmholtz(1))
    figure = solution.plot("loss", tmp_path / "loss.png", run=write_run(tmp_path / "run", lines))
    axis = figure.axes[0]
    x = np.asarray(axis.lines[0].get_xdata())
    assert list(x) == pytest.approx([20, 40, np.nan, 45, 50], nan_ok=True)
    assert {"training rows", "equation", "boundary"} <= {line.get_label() for line in axis.lines}
    assert [text.get_text() for text in axis.texts] == ["Adam", "L-BFGS"]
    assert not axis.child_axes  # phases differ in their pace, and the log has no clock


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("{", "is damaged"),
        ('{"phase": 1}\n', "line 1 has no phase, step and loss"),
        ('{"phase": 7, "step": 1, "loss": 1}\n', "belongs to another run"),
    ],
)
def test_damaged_metrics_are_one_line(content, message, solutions, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(content)
    with pytest.raises(lc.LcpinnError, match=message) as raised:
        solutions["1-d"].plot("loss", run=tmp_path)
    assert "\n" not in str(raised.value)


# Where a picture does not apply


def test_reasons(solutions, tmp_path):
    unknown = untrained(Oscillator())
    with pytest.raises(lc.LcpinnError, match="neither exact nor reference"):
        unknown.plot("error")
    with pytest.raises(lc.LcpinnError, match="certify"):
        unknown.plot("spread")
    with pytest.raises(lc.LcpinnError, match=r"has no metrics\.jsonl"):
        unknown.plot("loss", run=tmp_path)
    with pytest.raises(lc.LcpinnError, match="a model alone"):
        unknown.plot("loss")
    with pytest.raises(lc.LcpinnError, match="there is no picture 'cat'"):
        unknown.plot("cat")
    with pytest.raises(lc.LcpinnError, match="no coefficient 'm' to draw at; there are: d"):
        unknown.plot(at={"m": 1.0})
    with pytest.raises(lc.LcpinnError, match=r"write \.png, \.svg or \.pdf"):
        unknown.plot(path=tmp_path / "u.gif")
    held = untrained(Helmholtz(1).at(k=2.0))
    with pytest.raises(lc.LcpinnError, match="one setting"):
        held.plot("spread")
    assert plot.applying(unknown, None) == ("solution",)
    assert plot.applying(solutions["weights"], None) == ("solution", "error", "spread")


# Words and scales


def test_words():
    assert [symbol(n) for n in ("x", "alpha", "v_air", "rate")] == [
        *("$x$", r"$\alpha$", r"$v_{\mathrm{air}}$", r"$\mathrm{rate}$")
    ]
    assert [number(v) for v in (3.25, -0.5, 1e-5, 2.5e-7)] == [
        *("3.25", "−0.5", "$10^{-5}$", r"$2.5 \times 10^{-7}$")
    ]
    assert size_of(0.000163) == r"$1.6 \times 10^{-4}$"
    assert setting(("k", "nu"), (3.25, 0.01)) == r"$k$ = 3.25, $\nu$ = 0.01"


def test_scales():
    norm: Any
    norm, _ = linear_scale(np.array([-1.0, 3.0]))
    assert (norm.vmin, norm.vmax) == (-3.0, 3.0)
    norm, _ = linear_scale(np.array([0.0, 3.0]))
    assert (norm.vmin, norm.vmax) == (0.0, 3.0)
    norm, _ = linear_scale(np.zeros(3))
    assert norm.vmin < norm.vmax
    norm, _ = log_scale(np.array([0.0, 1e-20, 1e-3]))
    assert (norm.vmin, norm.vmax) == pytest.approx((1e-9, 1e-3))
    norm, _ = log_scale(np.zeros(3))
    assert 0 < norm.vmin < norm.vmax


def test_settings_are_the_familys_own_or_those_asked_for(solutions):
    assert choose(solutions["2-d"], (), most=3)[:, 0].tolist() == [1.0, 5.5, 10.0]
    assert choose(solutions["1-d"], (), most=3)[:, 0].tolist() == [1.0, 5.5, 10.0]
    assert len(choose(solutions["two outputs"], (), most=3)) == 3
    asked = choose(solutions["two outputs"], [{"b": 0.2}], most=3)
    assert asked[0].tolist() == pytest.approx([2.0, 0.2])  # a is in the middle


# The command


@pytest.fixture
def home(decay, tmp_path):
    shutil.copytree(decay, tmp_path / "home")
    return tmp_path / "home"


def run(home, *args, code=0):
    family = f"{home / 'decay.py'}:Decay"
    done = CliRunner().invoke(cli.app, ["plot", *map(str, args), "--family", family])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.slow
def test_command_draws_all_that_apply(home):
    listed = run(home, home / "run").stdout.split()
    names = ["solution", "error", "loss", "spread"]
    expected = [home / "run/pictures" / f"{n}{s}" for n in names for s in (".png", ".svg")]
    assert listed == [str(path) for path in expected]
    assert all(path.stat().st_size > 1000 for path in expected)


@pytest.mark.slow
def test_command_writes_one_file(home, tmp_path):
    out = tmp_path / "deep" / "u.pdf"
    done = run(home, home / "run", "solution", "-o", out, "--at", "k=1", "--json")
    assert json.loads(done.stdout)["files"] == [str(out)]
    assert out.read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_a_model_in_its_run_has_a_loss_and_one_elsewhere_has_none(home, tmp_path):
    model = home / "run" / "model.safetensors"
    run(home, model, "loss", "-o", tmp_path / "loss.png")
    shutil.copy(model, tmp_path / "alone.safetensors")
    run(home, tmp_path / "alone.safetensors", "-o", tmp_path / "out")
    drawn = {path.stem for path in (tmp_path / "out").iterdir()}
    assert drawn == {"solution", "error", "spread"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("cat",), "there is no picture 'cat'; there are solution, error, loss, spread"),
        (("-o", "all.png"), "is one file for 4 pictures; name a directory"),
        (("error", "-o", "u.gif"), "write .png, .svg, .pdf, or name a directory"),
        (("solution", "--at", "m=1"), "there is no coefficient 'm' to draw at"),
        (("solution", "--at", "k"), "--at: 'k' is not NAME=VALUE"),
    ],
)
def test_command_refuses_in_one_line(args, message, home):
    said = run(home, home / "run", *args, code=2).stderr
    assert message in said
    assert said.count("\n") == 1


def test_command_says_why_a_picture_is_missing(home):
    (home / "run" / "metrics.jsonl").unlink()
    said = run(home, home / "run", "loss", code=2).stderr
    assert "no picture of the loss:" in said
    assert "has no metrics.jsonl" in said
