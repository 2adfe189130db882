"""The zoo: every truth solves its page, and the benchmark keeps, resumes, counts and draws."""

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj
from toy import of_kind

import lcpinn as lc
from benchmarks.zoo import CLASSES, ZOO, __main__, classes_of, page, summary, training
from benchmarks.zoo.picture import draw
from benchmarks.zoo.smooth import Duffing
from benchmarks.zoo.stiff import DISSOCIATION, MICHAELIS, Enzyme
from benchmarks.zoo.training import without_own_solutions
from lcpinn.cli.support.battery import check
from lcpinn.family import HELP
from lcpinn.files import read_json
from lcpinn.jet import expand
from lcpinn.optimiser import OwnSolutions, Restarts
from lcpinn.quadrature import tensor, unit_sobol

NUM = 8  # places of each kind, and random settings
CLOSED = [name for name, made in ZOO.items() if made.exact is not None]
HARD = set(CLASSES) - {"smooth"}  # the classes that are there for their difficulty


def test_twenty_four_families_and_two_at_least_in_every_class():
    assert len(ZOO) == 24
    assert all(len(members) >= 2 for members in CLASSES.values())
    assert set().union(*CLASSES.values()) == set(ZOO.values())
    assert len(HARD) == 12
    assert classes_of("ring-wave") == ["dispersive", "long-times"]
    assert len(ZOO["loaded-string"].parameters.names) == 9


@pytest.mark.parametrize("name", ZOO)
def test_a_page_has_a_truth_and_no_help(name):
    family = ZOO[name]()
    assert family.name == name
    assert all(getattr(family, hook) is None for hook in HELP)
    assert (family.exact is None) != (family.reference is None)


# -- Closed forms, put into the terms --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_form_solves_every_term_at_corners_and_inside(name):
    family = ZOO[name]()
    corners = tensor([np.array(ends) for ends in family.parameters.ranges.values()])
    settings = np.concatenate([corners, family.parameters.sobol(NUM, 3)])
    with jax.enable_x64(True):
        run = jax.jit(
            lambda lam: jax.vmap(lambda one: leftovers(family, one))(lam),
            compiler_options={"xla_backend_optimization_level": 0},
        )
        relative = jax.device_get(run(jnp.asarray(settings)))
    assert set(relative) == set(family.all_terms)
    for term, values in relative.items():
        assert np.all(values < 1e-8), (term, settings[np.argmax(values.max(axis=-1))])


def leftovers(family, lam):
    """Of every term, each component's largest residual at one lambda, by the size of its parts.

    The size is that of the parts which cancel, with derivatives as large as they are at this
    lambda anywhere in the domain: a layer is judged by itself, not by a sharper one.
    """
    inside, worst = places(family), {}
    for term in family.all_terms.values():
        orders = family.orders([term])
        points = jnp.concatenate([places(family, face) for face in term.faces] or [inside])
        series = lambda p, o=orders: expand(lambda q: family.call("exact", q, lam), p, o)
        u = jax.vmap(series)(points)
        everywhere = jnp.concatenate([u, jax.vmap(series)(inside)]) if term.faces else u

        def parts(u, point, term=term, orders=orders):
            residual = lambda s: term.residual(s, orders, point, lam)
            return residual(u), residual(jnp.zeros_like(u)), jax.jacfwd(residual)(u)

        r, zero, slope = jax.vmap(parts)(u, points)
        size = jnp.sum(jnp.abs(slope) * jnp.abs(everywhere).max(0), (2, 3)).max(0)
        worst[term.name] = jnp.abs(r).max(0) / (size + jnp.abs(zero).max(0))
    return worst


def places(family, face=None):
    """Scattered over the domain or a face, a part of them close to its ends and to its middle."""
    s = unit_sobol(NUM, family.domain.dim, 5)
    s = np.concatenate([s, s**6, 1 - s**6, 0.5 + 0.5 * (2 * s - 1) ** 7])
    points = np.array(family.domain.from_unit(s))
    if face is not None:
        points[:, family.domain.names.index(face.name)] = face.value
    return jnp.asarray(points)


def test_a_closed_form_that_is_off_is_seen(monkeypatch):
    """One part in a million, in the sharpest layer alone."""
    made = ZOO["boundary-layer"]
    truth = made.exact
    slip = lambda self, x, nu: truth(self, x, nu) + jnp.where(nu < 2e-3, 1e-6 * jnp.exp(-x), 0)
    monkeypatch.setattr(made, "exact", slip)
    with pytest.raises(AssertionError):
        test_a_closed_form_solves_every_term_at_corners_and_inside("boundary-layer")


# -- References, beside another method -------------------------------------------------------------


@pytest.mark.parametrize("e", Duffing.parameters.ranges["e"])
def test_duffing_is_an_elliptic_cosine(e):
    t = np.linspace(0, 20, 301)
    _, cosine, _, _ = ellipj(np.sqrt(1 + e) * t, e / (2 * (1 + e)))
    np.testing.assert_allclose(Duffing().reference(t, e), cosine, atol=1e-9)


@pytest.mark.parametrize("e", Enzyme.parameters.ranges["e"])
def test_the_enzyme_by_an_implicit_method(e):
    t = np.linspace(0, 4, 301)

    def slope(_, y):
        s, c = y
        return [-s + (s + MICHAELIS - DISSOCIATION) * c, (s - (s + MICHAELIS) * c) / e]

    other = solve_ivp(slope, (0, 4), [1.0, 0.0], "Radau", t, rtol=1e-10, atol=1e-12)
    for mine, theirs in zip(Enzyme().reference(t, e), other.y, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_check_finds_every_page_ready(name, examined):
    assert [finding for finding in check(ZOO[name]()) if not finding.ok] == []
    (known,) = examined
    assert known.is_determined, known.reason
    assert known.levels == ()


# -- Where errors are measured ---------------------------------------------------------------------


def test_settings_of_the_errors():
    (nu,) = training.dense_settings(ZOO["boundary-layer"]()).T
    assert len(nu) == 181
    np.testing.assert_allclose(nu[[0, 90, -1]], [1e-3, 10**-1.5, 1.0])
    many = training.dense_settings(ZOO["loaded-string"]())
    assert many.shape == (training.CORNERS + training.SOBOL, 9)
    assert set(many[: training.CORNERS, 1]) == {-1.0, 1.0}
    plate = training.dense_settings(ZOO["plate"]())
    assert len(plate) == 16 + training.SOBOL


def test_errors_of_every_output_and_the_worst_of_all():
    family = ZOO["acoustics"]()

    class Off(lc.Solution):
        """p is off by a hundredth, v by two hundredths where a is largest."""

        def __init__(self):
            self.family = family

        def __call__(self, *, weights=None, shots=None, **named):
            t, x, a = named["t"], named["x"], named["a"]
            p, v = family.truth(np.stack([t, x], axis=-1), np.array([a])).T
            return {"p": 1.01 * p, "v": (1.02 if a == 2.0 else 1.0) * v}

    error = training.measure(Off())
    assert error["outputs"] == {"p": pytest.approx(0.01), "v": pytest.approx(0.02)}
    assert (error["worst"], error["at"]) == (pytest.approx(0.02), {"a": 2.0})
    assert error["mean"] == pytest.approx((0.01 * 180 + 0.02) / 181)
    assert error["settings"] == 181


# -- Verdicts and counts ---------------------------------------------------------------------------


def made_up(name, seed=0, worst=1e-6, solved=None, said=None, tolerance=1e-2):
    verdict = {"solved": solved, "error": said, "at": {}, "tolerance": tolerance, "reason": ""}
    return {
        "family": name,
        "seed": seed,
        "error": {"worst": worst, "mean": worst / 2},
        "seconds": {"total": 60.0},
        "steps": 9,
        "device": "abacus",
        "verdict": verdict,
    }


@pytest.mark.parametrize(
    ("worst", "solved", "said", "tolerance", "answer"),
    [
        (1e-3, True, 4e-4, 1e-2, False),
        (1e-3, True, 3e-4, 1e-2, True),
        (1e-3, False, 1e-6, 1e-2, False),
        (1e-3, None, None, 1e-2, False),
        (1e-3, True, None, 1e-2, False),
        (1e-1, True, None, 1e-2, True),
        (1e-13, True, 1e-15, 1e-2, False),
    ],
)
def test_a_verdict_is_wrong_where_it_says_solved_and_three_times_too_little(
    worst, solved, said, tolerance, answer
):
    run = made_up("heat", worst=worst, solved=solved, said=said, tolerance=tolerance)
    assert summary.wrong(run) is answer
    assert summary.wrong(run | {"verdict": None}) is None


def test_a_reference_is_trusted_less_than_a_closed_form():
    said = {"worst": 5e-10, "solved": True, "said": 1e-11}
    assert summary.wrong(made_up("heat", **said)) is True
    assert summary.wrong(made_up("duffing", **said)) is False


def test_counts_against_the_targets():
    runs = [
        made_up("heat", 0, 1e-4),
        made_up("heat", 1, 3e-4),
        made_up("wave", 0, 1e-7, True, 1e-9),
    ]
    runs += [made_up("spring", 0, 1e-7), {"family": "spring", "seed": 1, "failed": "killed"}]
    rows = {row["family"]: row for row in summary.summarise(runs)}
    assert list(rows) == ["heat", "wave", "spring"]
    assert (rows["heat"]["median"], rows["heat"]["worst"]) == (pytest.approx(2e-4), 3e-4)
    assert rows["spring"]["median"] == math.inf
    said = summary.against_targets(list(rows.values()), "cpu")
    assert "at most 1e-03:  2 (target 20: open)" in said
    assert "at most 1e-05:  1 (target 14: open)" in said
    assert "wrong verdicts: 1 of 4" in said
    assert "wrong, 1 of 1" in summary.table(list(rows.values()))
    whole = summary.summarise([made_up(name, worst=1e-4) for name in ZOO])
    assert "24 (target 23: reached)" in summary.against_targets(whole, "h200")
    assert " 0 (target 18: missed)" in summary.against_targets(whole, "h200")


def test_a_picture_of_all_of_it(tmp_path):
    runs = [made_up(name, seed, 10.0**-seed, bool(seed), 1e-3) for name in ZOO for seed in (0, 1)]
    runs[0] = {"family": "heat", "seed": 0, "failed": "killed"}
    result = {"runs": runs, "stamp": {"device": "abacus"}, "seconds": 60.0}
    assert draw(result, tmp_path / "zoo.png").stat().st_size > 30_000


# -- The command -----------------------------------------------------------------------------------


@pytest.fixture
def trained(monkeypatch):
    """The command without its processes; the list of what it trained."""
    asked_for = []

    def train(name, seed, asked, cores):
        asked_for.append((name, seed, cores))
        if (name, seed) in broken:
            return {"family": name, "seed": seed, "asked": asked, "failed": "killed"}
        return made_up(name, seed, solved=True, said=1e-9) | {"asked": asked}

    broken: set = set()
    monkeypatch.setattr(__main__, "train", train)
    origin = {"device": "abacus", "platform": "cpu"}
    monkeypatch.setattr(__main__, "stamp_in_fresh_process", lambda seeds, cores: dict(origin))
    return asked_for, broken


def test_families_and_classes_are_chosen_together(trained, capsys):
    __main__.main(["--classes", "long-times", "--families", "heat", "--seeds", "4"])
    assert {name for name, *_ in trained[0]} == {"heat", "spring", "ring-wave"}
    assert "wrong verdicts: 3 of 3" in capsys.readouterr().out


def test_what_is_kept_is_not_trained_again(trained, tmp_path):
    asked_for, broken = trained
    out = tmp_path / "new" / "zoo.json"
    broken.add(("heat", 1))
    options = ["--families", "heat,wave", "--seeds", "0,1", "--seconds", "7", "--out", str(out)]
    with pytest.raises(SystemExit, match="1 trainings failed"):
        __main__.main(options)
    written = json.loads(out.read_text())
    assert written["command"].startswith("python -m benchmarks.zoo --families heat,wave")
    order = [(run["family"], run["seed"]) for run in written["runs"]]
    assert order == [("heat", 0), ("heat", 1), ("wave", 0), ("wave", 1)]
    assert [run.get("wrong") for run in written["runs"]] == [True, None, True, True]
    assert out.with_suffix(".png").exists()
    asked_for.clear()
    broken.clear()
    __main__.main([*options, "--resume"])
    assert asked_for == [("heat", 1, [])]
    assert not any("failed" in run for run in json.loads(out.read_text())["runs"])
    with pytest.raises(SystemExit, match="were trained with"):
        __main__.main([*options, "--resume", "--seconds", "8"])
    out.write_text(json.dumps({"families": []}))
    with pytest.raises(SystemExit, match="earlier version"):
        __main__.main([*options, "--resume"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--families", "heaat"], "no family 'heaat' here; there are advection-diffusion"),
        (["--classes", "soup"], "no class 'soup' here; there are smooth"),
        (["--resume"], "--resume needs --out"),
    ],
)
def test_options_that_are_none(options, message, capsys):
    with pytest.raises(SystemExit):
        __main__.main(options)
    assert message in capsys.readouterr().err


def test_trainings_at_once_have_two_cores_each(trained, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {8, 9, 10, 11, 12}, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/taskset")
    assert __main__.core_slots(1) == [[]]
    assert __main__.core_slots(2) == [[8, 9], [10, 11]]
    with pytest.raises(SystemExit, match="--jobs 3 needs 6 cores; there are 5"):
        __main__.core_slots(3)
    with pytest.raises(SystemExit, match="at least 1"):
        __main__.core_slots(0)
    __main__.main(["--jobs", "2", "--seeds", "0"])
    assert len(trained[0]) == 24
    assert all(cores in ([8, 9], [10, 11]) for *_, cores in trained[0])


@pytest.mark.slow
def test_a_training_in_a_fresh_process_on_its_own_core():
    cores = [min(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else []
    asked = {"protocol": "smoke", "seconds": None, "jobs": 1}
    run = training.train_in_fresh_process("exchange", 3, asked, cores)
    assert (run["family"], run["class"], run["seed"]) == ("exchange", "stiff", 3)
    assert set(run["error"]["outputs"]) == {"a", "b"}
    assert run["error"]["worst"] == max(run["error"]["outputs"].values())
    assert 0 < run["error"]["mean"] <= run["error"]["worst"]
    assert run["steps"] > 0
    assert run["seconds"]["total"] > 0
    assert run["stopped"]
    assert "verdict" in run
    if cores and (os.cpu_count() or 1) > 1:
        assert run["device"].endswith(f"1 of {os.cpu_count()} cores")
    failed = training.train_in_fresh_process("exchange", 3, asked | {"seconds": 1.0}, cores)
    assert "does not take seconds" in failed["failed"]
    assert str(Path.cwd()) not in json.dumps(run)


def test_without_own_solutions_residual_rows_are_alone():
    family = ZOO["wave"]()
    protocol = lc.protocol.fast(family)
    restarts = of_kind(Restarts, protocol.phases[0])
    taught = replace(protocol, phases=(replace(restarts, phase=OwnSolutions(restarts.phase)),))
    assert without_own_solutions(taught) == protocol
    assert without_own_solutions(protocol) == protocol


def test_the_table_of_the_page_is_that_of_the_results():
    text = page.PAGE.read_text().partition(page.BEGIN)[2].partition(page.END)[0]
    assert text.strip() == page.render([read_json(file) for file in page.FILES])
