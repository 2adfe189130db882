"""The study: what its runs are called, which there are, who works on them, and how they end."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from test_protocol import PAIRS as APPLICABLE
from toy import of_kind
from typer.testing import CliRunner

import lcpinn as lc
from lcpinn.cli import app
from lcpinn.compilation import compiling_quickly
from lcpinn.families import FAMILIES, BuckleyLeverett, built
from lcpinn.files import read_arrays
from lcpinn.network import FNO, Concat, FiLM
from lcpinn.optimiser import LBFGS, Adam, RevertOnWorse, Supervised
from lcpinn.prior import Cube, LogCube, LogUniform
from lcpinn.protocol import outline
from lcpinn.protocol.shrink import shrunk
from lcpinn.rundir import RunDirectory
from lcpinn.sampling import Sampling
from lcpinn.saved import signature
from lcpinn.spec import to_plain
from lcpinn.study import cost
from lcpinn.study import execute as executing
from lcpinn.study import store as storing
from lcpinn.study.budget import BUDGETS
from lcpinn.study.changes import CHANGES
from lcpinn.study.execute import execute
from lcpinn.study.paper import numbers
from lcpinn.study.plan import (
    EXPERIMENTS,
    SWITCHES,
    chosen,
    methods,
    needed,
    of_first_study,
    one_method,
    with_data,
)
from lcpinn.study.run import Run
from lcpinn.study.store import Store
from lcpinn.training import make_setup
from lcpinn.weighting import Causal, Conditional

RUN = Run("burgers", "paper", budget="smoke")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "work", tmp_path / "results")


# -- Names ---------------------------------------------------------------------------------------

DIFFERENT = [
    RUN,
    replace(RUN, family="buckley-leverett"),
    replace(RUN, protocol="fast"),
    replace(RUN, seed=1),
    replace(RUN, budget="full"),
    replace(RUN, change="n_lambda=4"),
    replace(RUN, at={"k": 1.0}),
    replace(RUN, at={"k": 1.0 + 1e-15}),
    replace(RUN, settings=""),
    replace(RUN, protocol="paper-data"),
]


def test_different_runs_have_different_names():
    names = [run.name for run in DIFFERENT]
    assert len(set(names)) == len(names)
    assert all(set(name) <= set(f"{ALPHABET}=.,-_") for name in names)  # fit for a file


PAPER_HASH = "bf24e3d8"
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def test_equal_runs_have_equal_names():
    """However their coefficients are written down, and when read back from a record."""
    for run in DIFFERENT:
        assert Run.from_json(run.to_json()) == run
        assert Run.from_json(run.to_json()).name == run.name
    one, other = replace(RUN, at={"a": 2.0, "b": 0.5}), replace(RUN, at={"b": 0.5, "a": 2})
    assert one == other
    assert one.name == other.name
    assert "-a=2,b=0.5-seed0-" in one.name


def test_a_name_stays_what_it_was():
    """Records are kept under it: another hash would orphan them."""
    kept = Run("helmholtz-1d", "sa-pinn", 3, {"k": 3.25}, "full")
    assert kept.name == "full-helmholtz-1d-sa-pinn-code-k=3.25-seed3-" + kept.name[-8:]
    assert Run("burgers", "paper", settings="").name == "full-burgers-paper-seed0-db5bf371"
    assert Run("burgers", "fast").name == "full-burgers-fast-seed0-611b4a1a"
    assert Run("burgers", "paper").name == "full-burgers-paper-code-seed0-" + PAPER_HASH


def test_runs_of_the_first_study_are_kept_and_not_made():
    """`paper` was another protocol then: its records are never taken for those of today's."""
    first = of_first_study()
    assert {run.settings for run in first} == {""}
    assert len({run.name for run in first}) == len(first) > 100
    assert not {run.name for run in first} & {run.name for run in every_run("full")}
    assert Run.from_json(first[0].to_json()) == first[0]
    with pytest.raises(lc.LcpinnError, match=r"is of the first study: its record is kept, not"):
        first[0].how()


# -- The plan ------------------------------------------------------------------------------------

GRIDS = {
    "helmholtz-1d": [1.0, 3.25, 5.5, 7.75, 10.0],
    "helmholtz-2d": [1.0, 5.5, 10.0],
    "helmholtz-3d": [1.0, 3.0, 5.0],
    "schrodinger-1d": [0.5, 5.0, 10.0],
}
COUNTS = {  # of the full study
    "helmholtz-1d": 52 + 48,
    "schrodinger-1d": 24 + 20,
    "burgers": 24 + 16,
    "helmholtz-2d": 32 + 28,
    "helmholtz-3d": 32 + 28,
    "buckley-leverett": 22 + 12,
    "n-lambda": 12,
    "optimiser": 4,
}


@cache
def every_run(budget):
    return needed(EXPERIMENTS.values(), budget)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_run_can_be_built(budget, monkeypatch):
    """Its family and its protocol, at every budget."""
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")  # sizes of `fast` depend on it
    made = {}
    for run in every_run(budget):
        made.setdefault(run.kind, run)
    for run in made.values():
        family, protocol = run.of(), run.how()
        assert family.name == run.family
        assert protocol.name == run.protocol
        assert protocol.at == run.at
        assert protocol.phases
        assert all(phase.build for phase in protocol.phases)


@pytest.mark.parametrize("budget", BUDGETS)
def test_no_run_is_there_twice(budget):
    names = [run.name for run in every_run(budget)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_full_study_has_the_papers_grids_and_seeds(family):
    plain = [run for run in EXPERIMENTS[family].runs("full") if not run.change]
    for name in (*methods(family), "paper-data"):
        runs = [run for run in plain if run.protocol == name]
        assert {run.seed for run in runs} == {0, 1, 2, 3}
        settings = sorted({value for run in runs for value in run.at.values()})
        alone = name in ("pinn", "sa-pinn", "relobralo") and family in GRIDS
        assert settings == (GRIDS[family] if alone else [])
        assert len(runs) == 4 * max(1, len(settings))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_table_has_the_papers_rows_and_ours(family):
    rows = ["paper" if row == "lc-pinn" else row for row in numbers()["tables"][family]["rows"]]
    assert methods(family) == [*rows, "fast"]
    data = {with_data(name) for name in methods(family)} - {None}
    assert "paper-data" in data
    protocols = {run.protocol for run in EXPERIMENTS[family].runs("full")}
    assert protocols == {*methods(family), *data}


def test_how_many_runs_there_are():
    found = {name: len(EXPERIMENTS[name].runs("full")) for name in COUNTS}
    assert found == COUNTS
    every = sum(COUNTS[name] for name in FAMILIES)
    assert len(EXPERIMENTS["amortisation"].runs("full")) == every == 186 + 152
    assert len(EXPERIMENTS["solver"].runs("full")) == 4  # of families with coefficients, once
    once = len(needed([EXPERIMENTS[name] for name in FAMILIES], "full"))
    assert once == every
    assert {run.seed for run in every_run("cpu")} == {run.seed for run in every_run("smoke")} == {0}
    assert {run.family for run in every_run("smoke")} == {"helmholtz-1d", "burgers"}
    assert len(every_run("smoke")) < 30


def test_a_budget_takes_its_share_of_the_steps():
    def steps(budget):
        adam, finish = Run("helmholtz-1d", "paper", budget=budget).how().phases
        return [of_kind(Adam, adam).steps, of_kind(LBFGS, finish.innermost).steps]

    assert steps("full") == [50_000, 30_000]  # 1500 calls of 20
    assert steps("cpu") == [2_500, 1_500]
    fno = Run("burgers", "fno", budget="cpu").how()
    assert of_kind(Supervised, fno.phases[0]).epochs == 100
    assert Run("burgers", "fast", budget="cpu").how() == lc.protocol.fast(
        FAMILIES["burgers"](), seconds=50
    )


def test_experiments_are_called_by_name():
    assert [one.name for one in chosen(["burgers", "lbfgs"])] == ["burgers", "lbfgs"]
    assert [one.name for one in chosen(())] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (["reproduce", "tables"], "there is no experiment 'tables'; there are explain-most, "),
        (["reproduce", "burgers", "--only", "pinn"], "no run of these experiments is by pinn"),
        (["reproduce", "--budget", "all"], "there is no budget 'all'; there are smoke, cpu, full"),
    ],
)
def test_unknown_names_are_refused_in_one_line(asked, line):
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"lcpinn: {line}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (replace(RUN, family="heat"), "there is no family 'heat'"),
        (replace(RUN, protocol="adam"), "there is no protocol 'adam'; there are fast, "),
        (replace(RUN, change="more"), "there is no change 'more'; there are "),
    ],
)
def test_a_run_of_unknown_parts_is_refused(run, line):
    with pytest.raises(lc.LcpinnError, match=line):
        run.how()


# -- Changes -------------------------------------------------------------------------------------


def changed(name, family="burgers", protocol="paper"):
    """The family and the protocol as the change leaves them, beside those of the plain run."""
    run = Run(family, protocol, change=name)
    return run.of(), run.how(), replace(run, change="").how()


def but(protocol, **parts):
    """Equal apart from these parts."""
    return to_plain(replace(protocol, **dict.fromkeys(parts)))


def test_the_empty_change_changes_nothing():
    assert CHANGES[""].family(family := FAMILIES["burgers"]()) is family
    assert CHANGES[""].protocol(made := lc.protocol.paper(family), family) is made


@pytest.mark.parametrize("num", [1, 4, 16])
def test_n_lambda_is_the_draws_of_a_step(num):
    _, made, plain = changed(f"n_lambda={num}")
    assert plain.sampling is not None
    assert made.sampling == replace(plain.sampling, num_lambda=num)
    half = replace(of_kind(Adam, plain.phases[0]), steps=25_000)  # as in the paper
    assert made.phases == (half,)
    assert but(made, sampling=0, phases=0) == but(plain, sampling=0, phases=0)


@pytest.mark.parametrize(("name", "kind"), [("prior=cube", Cube), ("prior=log-cube", LogCube)])
def test_the_prior_of_the_weights(name, kind):
    family, made, plain = changed(name)
    before = FAMILIES["burgers"]().weights
    assert type(family.weights) is kind
    assert family.weights.names == before.names
    assert made.weighting == Conditional()
    assert [of_kind(Adam, phase).steps for phase in made.phases] == [25_000]
    assert but(made, phases=0) == but(plain, phases=0)


def test_the_prior_of_the_coefficients():
    family, made, plain = changed("prior=log-uniform", "helmholtz-1d")
    assert isinstance(family.parameters, LogUniform)
    assert family.parameters.ranges == FAMILIES["helmholtz-1d"]().parameters.ranges
    assert made == plain


FILM = FiLM(hidden=64, xavier="normal", gain=0.01)


@pytest.mark.parametrize(
    ("name", "family", "role", "way", "phases"),
    [
        ("conditioning=concat", "helmholtz-1d", "parameters", Concat(), [Adam]),
        ("conditioning=film", "burgers", "weights", FILM, [Adam, RevertOnWorse]),
    ],
)
def test_conditioning_is_the_networks(name, family, role, way, phases):
    """And the finish, which the authors have with FiLM alone."""
    _, made, plain = changed(name, family)
    assert getattr(plain.network, role) != way
    assert made.network == replace(plain.network, **{role: way})
    assert [type(phase) for phase in made.phases] == phases
    assert but(made, network=0, phases=0) == but(plain, network=0, phases=0)


def test_fresh_points_are_all_that_differs():
    _, made, plain = changed("points=fresh")
    frozen = of_kind(Sampling, plain.sampling)
    assert frozen.rule == "frozen"
    assert made == replace(plain, sampling=replace(frozen, rule="random"))


def test_fewer_iterations_are_all_that_differs():
    _, made, plain = changed("lbfgs=1500", "helmholtz-1d")
    few, many = (of_kind(LBFGS, one.phases[1].innermost) for one in (made, plain))
    assert (few.steps, many.steps) == (1500, 30_000)
    assert few == replace(many, steps=1500)
    assert but(made, phases=0) == but(plain, phases=0)


def test_the_faces_of_causal_pinn():
    _, made, plain = changed("faces=100", protocol="causal-pinn")
    heavy, light = (of_kind(Causal, one.weighting) for one in (made, plain))
    assert heavy == replace(light, weights={"boundary": 100.0, "initial": 100.0})
    assert light.weights == {}


def test_an_equation_without_its_viscous_term_has_the_viscous_reference():
    family, made, plain = changed("equation=inviscid", "buckley-leverett", "sa-pinn-data")
    arguments = [a.name for a in family.terms["equation"].arguments]
    assert arguments == ["s", "s_t", "s_x"]
    assert of_kind(BuckleyLeverett, family).viscosity == BuckleyLeverett().viscosity
    assert made == plain


def test_the_set_of_the_authors_script_is_smaller():
    _, made, plain = changed("set=256", "burgers", "fno")
    (phase,), (before,) = made.phases, plain.phases
    assert phase == replace(of_kind(Supervised, before), samples=256, epochs=200)
    assert but(made, phases=0) == but(plain, phases=0)


def test_without_fourier_matrices_each_point_is_on_its_own():
    """And nothing else is changed beside the set of the script."""
    _, made, plain = changed("fourier=0", "burgers", "fno")
    _, small, _ = changed("set=256", "burgers", "fno")
    assert but(made, network=0) == but(small, network=0)
    network = of_kind(FNO, made.network)
    assert network == replace(of_kind(FNO, plain.network), modes=0)
    tiny = replace(network, width=6, projection=5, grid=8)
    params = tiny.init(jax.random.PRNGKey(0), 2, 1, {}, jnp.float32)
    values = np.linspace(-1, 1, 8, dtype=np.float32)
    other = np.where(np.arange(8) == 3, 0.7, values)
    change = tiny.operator(params, jnp.asarray(other)) - tiny.operator(params, jnp.asarray(values))
    assert np.flatnonzero(np.any(np.abs(np.asarray(change)) > 0, axis=0)).tolist() == [3]


def test_a_change_may_have_seeds_of_its_own():
    """Others than those of the row that it stands beside, and none where there is one seed."""
    more = lambda budget: one_method("schrodinger-1d", "sa-pinn-data", budget, change="seeds=4-11")
    assert {run.seed for run in more("full")} == set(range(4, 12))
    assert len(more("full")) == 8 * 3  # at each of three alphas
    assert more("full")[0].how() == replace(more("full")[0], change="").how()
    assert more("cpu") == more("smoke") == []


def test_every_switch_stands_beside_the_run_without_it():
    for family, parts in SWITCHES.items():
        for protocol, change in parts:
            assert change in CHANGES
            assert (protocol, "") in parts or protocol not in methods(family), (family, change)


def test_no_lbfgs_is_adam_alone():
    _, made, plain = changed("no-lbfgs", "schrodinger-1d")
    assert [type(phase) for phase in plain.phases] == [Adam, RevertOnWorse]
    assert made.phases == plain.phases[:1]
    assert but(made, phases=0) == but(plain, phases=0)


def test_by_adam_keeps_the_network_of_fast():
    _, made, fast = changed("by-adam", "helmholtz-1d", "fast")
    assert made.network == fast.network
    assert (made.dtype, made.plain) == (fast.dtype, fast.plain) == ("float64", False)
    assert made.phases == (Adam(steps=50_000), RevertOnWorse(LBFGS(steps=1500)))
    assert made.sampling == Sampling(1024, 100, 4)


def test_viscosity_zero_is_the_family_without_it():
    family, made, plain = changed("viscosity=0", "buckley-leverett")
    assert isinstance(family, BuckleyLeverett)
    assert family.viscosity == 0
    assert BuckleyLeverett().viscosity > 0
    assert made == plain


def test_every_change_of_a_run_changes_it():
    kinds = {run.kind: run for run in every_run("cpu") if run.change}
    assert len(kinds) >= 8
    for run in kinds.values():
        plain = replace(run, change="")
        family, before = run.of(), plain.of()
        sees = lambda family: (family.parameters, family.weights, signature(family)["terms"])
        priors = sees(family) == sees(before)
        assert not (priors and run.how() == plain.how()), run.name


# -- Shrinking -----------------------------------------------------------------------------------


PAIRS = [*APPLICABLE, *(("lc-pinn", family) for family in FAMILIES)]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "family"), PAIRS)
def test_shrunk_protocols_keep_their_parts(protocol, family):
    """That each of them trains is in test_protocol.py."""
    made = built(family)
    whole = outline(protocol, made)
    small = shrunk(whole)
    assert [type(p) for p in small.phases] == [type(p) for p in whole.phases]
    assert [type(p.innermost) for p in small.phases] == [type(p.innermost) for p in whole.phases]
    assert type(small.network) is type(whole.network)
    kept = ("weighting", "dtype", "plain", "weighted", "at")
    assert [getattr(small, name) for name in kept] == [getattr(whole, name) for name in kept]
    if protocol.startswith("sa-pinn"):
        assert small.quadrature == small.sampling
    with jax.enable_x64(small.dtype == "float64"):
        setup = make_setup(small.view(made), small)
        shapes = jax.eval_shape(setup.problem.init, jax.random.PRNGKey(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) < 2500


# -- The store -----------------------------------------------------------------------------------

MANY = [Run("burgers", "paper", seed, budget="smoke") for seed in range(60)]


def test_a_record_is_there_whole_or_not_at_all(store):
    assert store.record(RUN) is None
    assert not store.is_over(RUN)
    store.write(RUN, {"error": 1.0})
    assert store.record(RUN) == {"error": 1.0}
    assert store.is_over(RUN)
    assert store.is_trained(RUN)  # its model may be long gone
    assert [file.name for file in store.results.iterdir()] == [f"{RUN.name}.json"]


def test_a_claim_is_ones_own_until_it_is_given_up(store):
    with store.claim(MANY[:2]) as first:
        assert first == MANY[:2]
        with store.claim(MANY[:3]) as second:
            assert second == MANY[2:3]
    with store.claim(MANY[:3]) as third:
        assert third == MANY[:3]
    assert not list(store.work.glob("*.claim"))


def test_a_claim_is_given_up_when_something_breaks(store):
    with pytest.raises(ZeroDivisionError), store.claim([RUN]):
        raise ZeroDivisionError
    with store.claim([RUN]) as own:
        assert own == [RUN]


def abandoned(store, runs, age=2 * storing.STALE):
    """Claims of a process that showed itself the last time so long ago."""
    store.work.mkdir(parents=True, exist_ok=True)
    for run in runs:
        file = store.work / f"{run.name}.claim"
        file.write_text("elsewhere 1 0")
        then = time.time() - age
        os.utime(file, (then, then))


def test_a_stale_claim_is_void(store):
    abandoned(store, [RUN])
    with store.claim([RUN]) as own:
        assert own == [RUN]


def test_a_live_claim_is_not(store, monkeypatch):
    abandoned(store, [RUN], age=storing.STALE / 2)
    with store.claim([RUN]) as own:
        assert own == []
    monkeypatch.setattr(storing, "BEAT", 0.05)
    monkeypatch.setattr(storing, "STALE", 0.5)
    with store.claim(MANY[1:2]) as own:
        time.sleep(1.0)
        with store.claim(MANY[1:2]) as other:
            assert (own, other) == (MANY[1:2], [])


def test_a_clock_that_jumps_voids_no_claim(store, monkeypatch):
    """Neither ahead nor back: whoever made it is alive."""
    now = time.time
    with store.claim([RUN]) as own:
        for jump in (86400.0, -86400.0):
            monkeypatch.setattr(storing.time, "time", lambda jump=jump: now() + jump)
            with store.claim([RUN]) as other:
                assert (own, other) == ([RUN], [])


CLAIM = """
import sys, time
from pathlib import Path
from lcpinn.study.run import Run
from lcpinn.study.store import Store

with Store(Path(sys.argv[1]), Path(sys.argv[1])).claim([Run(*sys.argv[2:4])]) as own:
    print(len(own), flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_what_a_killed_process_claimed_is_free_at_once(store):
    words = [sys.executable, "-c", CLAIM, str(store.work), "burgers", "paper"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "1\n"
        with store.claim([Run("burgers", "paper")]) as own:
            assert own == []
        other.kill()
        other.wait()
    with store.claim([Run("burgers", "paper")]) as own:
        assert own == [Run("burgers", "paper")]
    assert {p.name for p in store.work.iterdir()} == {".claims"}


def test_what_was_taken_over_is_not_given_up_twice(store):
    """A machine that slept for an hour leaves its successor's claim alone."""
    claim = store.work / f"{RUN.name}.claim"
    with store.claim([RUN]):
        abandoned(store, [RUN])
        taken = claim.read_text()
    assert claim.read_text() == taken


def test_threads_never_take_over_the_same_claim(store, monkeypatch):
    """Not even where there is time between the look at a stale claim and its end."""
    unlink = Path.unlink
    slowly = lambda *given, **options: (time.sleep(0.003), unlink(*given, **options))
    monkeypatch.setattr(Path, "unlink", slowly)
    abandoned(store, MANY)
    barrier = threading.Barrier(8)

    def take(_):
        barrier.wait()
        with store.claim(MANY) as own:
            barrier.wait()
            return [run.name for run in own]

    with ThreadPoolExecutor(8) as pool:
        taken = list(itertools.chain(*pool.map(take, range(8))))
    assert sorted(taken) == sorted(run.name for run in MANY)


TAKE = """
import sys, time
from pathlib import Path
from lcpinn.study.run import Run
from lcpinn.study.store import Store

home, me, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
wait = lambda name: [time.sleep(0.001) for _ in iter(lambda: (home / name).exists(), True)]
(home / f"{me} is here").touch()
wait(f"{other} is here")
runs = [Run("burgers", "paper", seed, budget="smoke") for seed in range(60)]
with Store(home / "work", home / "results").claim(runs) as own:
    (home / f"{me} is done").touch()
    wait(f"{other} is done")
print(*(run.name for run in own))
"""


@pytest.mark.slow
def test_processes_never_take_the_same_run(tmp_path):
    abandoned(Store(tmp_path / "work", tmp_path / "results"), MANY[::2])
    pair = ("one", "two"), ("two", "one")
    command = [sys.executable, "-c", TAKE, str(tmp_path)]
    both = [subprocess.Popen([*command, *who], stdout=subprocess.PIPE, text=True) for who in pair]
    taken = [process.communicate(timeout=120)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(itertools.chain(*taken)) == sorted(run.name for run in MANY)


def test_a_directory_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(lc.LcpinnError, match="cannot write to"),
        Store(tmp_path / "file" / "work", tmp_path).claim([RUN]),
    ):
        pass


# -- Running -------------------------------------------------------------------------------------

QUICK = Run(f"{toy.__file__}:Bent", "paper", budget="smoke")  # over loss weights, as burgers is
PAIR = [replace(QUICK, seed=seed) for seed in (0, 1)]
SETTINGS = [Run("helmholtz-1d", "relobralo", 0, {"k": k}, "smoke", "no-lbfgs") for k in (1.0, 3.25)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Two seeds, two settings and a run of the paper, each trained by itself and measured."""
    home = tmp_path_factory.mktemp("alone")
    store = Store(home / "work", home / "results")
    execute([*PAIR, *SETTINGS, RUN], store, batch=False)
    return store


def forbidden(*args, **options):
    raise AssertionError("nothing is to be trained here")


def params(store, run):
    return lc.load(store.model(run), run.of()).params


def bits(store, run):
    return [leaf.tobytes() for leaf in jax.tree.leaves(params(store, run))]


@pytest.mark.slow
def test_a_run_ends_as_a_record(alone):
    for run in (*PAIR, *SETTINGS, RUN):
        found = alone.record(run)
        assert Run.from_json(found["run"]) == run
        assert found["error"]["mean"] > 0
        assert found["seconds"]["total"] > 0
        assert found["at_once"] == 1
    assert bits(alone, PAIR[0]) != bits(alone, PAIR[1])
    assert {"shots", "slices", "field"} <= set(alone.record(RUN)["measures"])


@pytest.mark.slow
def test_finished_runs_are_skipped(alone, monkeypatch):
    monkeypatch.setattr(executing, "train", forbidden)
    monkeypatch.setattr(executing, "retrain", forbidden)
    before = {file: file.stat().st_mtime_ns for file in alone.results.iterdir()}
    said = []
    execute([*PAIR, *SETTINGS], alone, say=said.append)
    assert said == []
    assert {file: file.stat().st_mtime_ns for file in alone.results.iterdir()} == before


def test_runs_that_somebody_else_has_are_left_to_them(store, monkeypatch):
    monkeypatch.setattr(executing, "train", forbidden)
    with store.claim([QUICK]):
        execute([QUICK], store)
    assert not store.is_over(QUICK)


@pytest.mark.slow
def test_models_can_be_measured_later(alone, store, monkeypatch):
    store.directory(QUICK).mkdir(parents=True)
    store.model(QUICK).write_bytes(alone.model(QUICK).read_bytes())
    monkeypatch.setattr(executing, "train", forbidden)
    execute([QUICK], store, measured=False)
    assert not store.is_over(QUICK)
    execute([QUICK], store)
    assert store.record(QUICK)["error"] == alone.record(QUICK)["error"]


class Interrupted(BaseException):
    """As a person does it: an exception of the run itself would be reported."""


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_bits(alone, store, monkeypatch):
    save = RunDirectory.save

    def save_and_break(self, where, state):
        save(self, where, state)
        raise Interrupted

    monkeypatch.setattr(RunDirectory, "due", lambda self: True)
    with monkeypatch.context() as broken:
        broken.setattr(RunDirectory, "save", save_and_break)
        with pytest.raises(Interrupted):
            execute([QUICK], store)
    assert not store.is_trained(QUICK)
    assert not list(store.work.glob("*.claim"))
    file = store.directory(QUICK) / "checkpoint.safetensors"
    assert int(read_arrays(file, "checkpoint")[1]["step"]) == 20  # of 40
    execute([QUICK], store)
    lines = (store.directory(QUICK) / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 2  # of 20 steps each: the first half was not run again
    assert bits(store, QUICK) == bits(alone, QUICK)
    assert store.record(QUICK)["error"] == alone.record(QUICK)["error"]


@pytest.mark.slow
@pytest.mark.parametrize("runs", [PAIR, SETTINGS], ids=["seeds", "settings"])
def test_a_batch_ends_as_its_members_alone(alone, store, runs):
    """Up to what some ten steps in single precision make of rounding."""
    execute(runs, store)
    for run in runs:
        assert store.record(run)["at_once"] == 2
        held = lc.load(store.model(run), run.of()).family.parameters.held
        assert held == run.at
        pairs = zip(
            jax.tree.leaves(params(store, run)), jax.tree.leaves(params(alone, run)), strict=True
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
        mean = alone.record(run)["error"]["mean"]
        assert store.record(run)["error"]["mean"] == pytest.approx(mean, rel=1e-3)


def test_settings_of_a_batch_have_equally_many_observations():
    """None of the data lie at alpha = 5."""
    runs = one_method("schrodinger-1d", "sa-pinn-data", "full", seeds=(0, 1))
    found = executing._rectangles(runs, executing._num_observed)
    assert [(seeds, [one.at["alpha"] for one in own]) for seeds, own in found] == [
        ([0, 1], [0.5, 10.0]),
        ([0, 1], [5.0]),
    ]


def test_no_program_begins_that_would_not_end_in_time(store, monkeypatch):
    monkeypatch.setattr(executing, "train", forbidden)
    said = []
    execute([replace(RUN, budget="full")], store, seconds=1.0, say=said.append)
    assert len(said) == 1
    assert "left out, 1 such take about" in said[0]


def test_the_plan_says_what_programs_take():
    args = ["reproduce", "explain-most", "--plan", "--budget", "full", "--json"]
    found = CliRunner().invoke(app, [*args, "--results", str(Path("no such directory"))])
    rows = json.loads(found.stdout)
    assert rows[0]["program"] == "burgers, paper"
    assert all(row["runs"] == 4 and row["seconds"] > 1 for row in rows)
    assert rows[-1]["since_begin"] == pytest.approx(sum(row["seconds"] for row in rows))
    longer = {row["program"]: row["seconds"] for row in rows}
    assert longer["helmholtz-1d, paper"] > 2 * longer["helmholtz-1d, paper lbfgs=1500"]


def test_a_program_takes_longer_on_two_cores_than_on_an_accelerator(monkeypatch):
    runs = one_method("helmholtz-1d", "paper", "cpu")
    here = cost.seconds(runs)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert here > 3 * cost.seconds(runs)


def test_what_is_missing_need_not_be_one_product():
    runs = [Run("helmholtz-1d", "pinn", s, {"k": k}) for k in (1.0, 5.5, 10.0) for s in range(3)]
    missing = [run for run in runs if (run.seed, run.at["k"]) not in ((0, 5.5), (2, 10.0))]
    found = [
        (seed, setting.at["k"])
        for seeds, settings in executing._rectangles(missing)
        for setting in settings
        for seed in seeds
    ]
    assert sorted(found) == sorted((run.seed, run.at["k"]) for run in missing)


def test_the_compiler_is_left_as_it_was():
    asked = lambda: jax.config.values["jax_disable_most_optimizations"]
    before = asked()
    with contextlib.suppress(Interrupted), compiling_quickly():
        assert asked()
        raise Interrupted
    assert asked() == before
    with compiling_quickly(False):
        assert asked() == before
