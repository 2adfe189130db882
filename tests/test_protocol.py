"""Every protocol on every family that it applies to, and that all of them get the same terms."""

import dataclasses
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Coupled, Interrupted, Poisson, interrupt_after, of_kind

import lcpinn as lc
from lcpinn.equilibration import equilibrating
from lcpinn.families import FAMILIES
from lcpinn.family import HELP
from lcpinn.files import read_arrays
from lcpinn.network import FNO, MLP, DeepONet, Unseen
from lcpinn.optimiser import LBFGS, Adam, GaussNewton, RevertOnWorse, StopReason, Supervised
from lcpinn.optimiser.stage import Info, objective
from lcpinn.optimiser.supervised import relative_error
from lcpinn.protocol import (
    PROTOCOLS,
    WITH_DATA,
    by_name,
    example,
    outline,
    reason_against,
    settings_of_paper,
    shrink,
)
from lcpinn.protocol.facts import facts
from lcpinn.protocol.methods import BOUNDARY_WEIGHT
from lcpinn.rows import weighted_rows
from lcpinn.sampling import Sampling
from lcpinn.spec import from_plain, spec, to_plain
from lcpinn.training import make_setup
from lcpinn.weighting import Causal, Fixed, SelfAdaptive

NAMES = [name for name in PROTOCOLS if name != "lc-pinn"]  # which is `paper`


@cache
def family_of(name):
    return FAMILIES[name]()


@cache
def made_for(name, family):
    """As it is before a trial of frequency scales, which test_trial.py is about."""
    return outline(name, family_of(family))


# Where a protocol does not apply (checked below, with the reasons).
NOT = {
    "causal-pinn": {"helmholtz-1d", "helmholtz-2d", "helmholtz-3d", "schrodinger-1d"},
    "pi-deeponet": {"burgers", "buckley-leverett"},
    "pi-deeponet-gn": {"burgers", "buckley-leverett"},
    "fno": set(FAMILIES) - {"burgers"},
    "interpolant": {"burgers", "buckley-leverett"},
}
NOT |= {f"{name}-data": NOT[name] for name in WITH_DATA if name in NOT}
PAIRS = [(p, f) for p in NAMES for f in FAMILIES if f not in NOT.get(p, ())]
# The interpolant solves (test_interpolant.py); smoke is trained through all of its phases in
# test_optimiser.py.
TRAINED = [(p, f) for p, f in PAIRS if p not in ("interpolant", "smoke")]
# With data a method is the same but for one term: one family of each regime.
TRAINED = [
    (p, f) for p, f in TRAINED if not p.endswith("-data") or f in ("schrodinger-1d", "burgers")
]


# -- Training ------------------------------------------------------------------------------------


def shrunk(protocol):
    """The library's, with the first phase alone and as many steps as it takes to see it work."""
    made = shrink.shrunk(protocol)
    phase = made.phases[0].innermost
    if isinstance(phase, Supervised):
        phase = dataclasses.replace(phase, epochs=20, rate=1e-2, block=20)
    elif not isinstance(phase, GaussNewton):
        phase = dataclasses.replace(of_kind(Adam, phase), steps=150, rate=2e-2, block=50)
    sampling = made.sampling
    if sampling is not None:
        sampling = dataclasses.replace(sampling, interior=128, face=24)
    network = made.network
    if isinstance(network, DeepONet):  # six products of units that see [0, 1] are hardly curved
        network = dataclasses.replace(network, branch=(24,), trunk=(24, 24), latent=24)
    return dataclasses.replace(made, phases=(phase,), sampling=sampling, network=network)


def measure(setup, phase, state):
    """The training objective on points that stay the same, as a function of the parameters.

    Adaptive weights are left where they start: SelfAdaptive's and ReLoBRaLo's at one, Causal's
    without its exponential, which rises as the residual falls.
    """
    if isinstance(phase, Supervised):
        initial, truth = phase.data(setup.problem.family, setup.problem.network, jnp.float32)
        operator, end = setup.problem.network.operator, slice(-1 if phase.at_end else 0, None)
        return lambda params: relative_error(
            operator(params, initial)[:, end], truth[:, end]
        ).mean()
    if isinstance(phase, GaussNewton):
        scale = equilibrating(setup.problem, state.scales)
        batch = setup.fixed(setup.held_out)
        rows = partial(weighted_rows, setup.problem, setup.weighting, batch=batch, scale=scale)
        return lambda params: jnp.sum(rows(params) ** 2)
    if isinstance(setup.weighting, Causal):
        setup = dataclasses.replace(setup, weighting=dataclasses.replace(setup.weighting, eps=0.0))
    own = setup.sampling.rule == "frozen"  # trained on points that stay as they are
    batch = setup.fixed(setup.sampling if own else Sampling(64, 24, 5, "gauss"))
    return lambda params: objective(setup, batch)(params)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "family"), TRAINED)
def test_a_few_steps_lower_the_loss(name, family, tmp_path, monkeypatch):
    monkeypatch.setenv("LCPINN_CACHE", str(tmp_path))  # where the solver's data would be kept
    protocol, family = shrunk(made_for(name, family)), family_of(family)
    with jax.enable_x64(protocol.dtype == "float64"):
        setup, phase = make_setup(protocol.view(family), protocol), protocol.phases[0]
        stage = phase.build(setup)
        params = setup.problem.drawing()(jax.random.PRNGKey(1))
        state = stage.init(params, jax.random.PRNGKey(2))
        loss = jax.jit(measure(setup, phase, state))
        before, info = float(loss(state.params)), Info()
        while (reason := stage.stopped(state, info)) is None:
            state, info = stage.advance(state)
        after = float(loss(stage.finish(state)[0]))
    assert reason.reason is StopReason.STEPS
    assert after < 0.9 * before


@pytest.mark.slow
def test_an_interrupted_sa_pinn_ends_bit_identical(tmp_path, monkeypatch):
    """Interrupted in Adam, with its weights and their ascent in the checkpoint, then L-BFGS."""
    family = family_of("schrodinger-1d")
    made = shrunk(by_name("sa-pinn", family, at={"alpha": 5.0}))
    finish = RevertOnWorse(LBFGS(steps=4, block=2))
    adam = dataclasses.replace(of_kind(Adam, made.phases[0]), steps=12, block=3)
    protocol = dataclasses.replace(made, phases=(adam, finish), quadrature=made.sampling)

    def run(name, **options):
        out = tmp_path / name
        quiet = {"progress": False, "report": False}
        return lc.train(family, protocol, seed=2, out=out, **quiet, **options).params

    whole = run("whole", checkpoint_every=1e9)
    saved = interrupt_after(monkeypatch, 2)
    with pytest.raises(Interrupted):
        run("broken", checkpoint_every=0.0)
    header, arrays = read_arrays(tmp_path / "broken" / "checkpoint.safetensors", "checkpoint")
    assert (header["phase"], int(arrays["step"])) == (0, 6)
    before, after = (state.weighting["raw"]["equation"] for _, state in saved)
    assert (after > before).all()  # each point's weight climbs
    assert arrays["weighting.raw.equation"].tobytes() == np.asarray(after).tobytes()
    resumed = run("broken", checkpoint_every=0.0, resume=True)
    assert saved[-1][0]["phase"] == 1  # a checkpoint of L-BFGS came after
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        assert one.tobytes() == other.tobytes()


# -- Equal terms ---------------------------------------------------------------------------------

OTHERS = ("fast", "fno", "interpolant", "pinn-gn", "pi-deeponet-gn", "smoke")
ADAM = [(p, f) for p, f in PAIRS if p not in OTHERS]


@pytest.mark.parametrize(("name", "family"), ADAM)
def test_methods_that_adam_trains_have_equal_terms(name, family):
    """Backbone, points, budget and precision of the paper, but for what a docstring declares."""
    given, made = settings_of_paper(family_of(family)), made_for(name, family)
    assert made.dtype == given.dtype == "float32"
    assert (made.sampling.interior, made.sampling.face) == (given.interior, given.face)
    if name.startswith("pi-deeponet"):
        wide = (64,) * 4
        assert made.network == DeepONet(wide, wide, 64, xavier="normal", raw=True)
    else:
        assert isinstance(made.network, MLP)
        assert made.network.widths == given.widths == (64, 64, 64, 64)
        assert made.network.activation == "tanh"
        assert made.network.frequency_scale == 0
        assert (made.network.xavier, made.network.raw) == ("normal", True)
    assert made.phases == expected_phases(name, made, given)
    points = {(s.rule, s.seed, s.interior, s.face) for s in (made.sampling, made.quadrature)}
    assert points == {("frozen", 42, given.interior, given.face)}  # those of every seed and method
    assert made.sampling.num_lambda == (1 if made.at or not made.weighted else 4) or (
        name.startswith("pi-deeponet")
    )
    assert (made.observed is not None) == name.endswith("-data")


def expected_phases(name, made, given):
    data = name.endswith("-data")
    if name.startswith("sa-pinn"):
        adam, lbfgs = given.sa_budget
        return Adam(steps=adam, final_rate=1e-3), LBFGS(lbfgs, 50, lbfgs * 5 // 4, weighted=True)
    finish = LBFGS(given.lbfgs, 50, given.lbfgs * 5 // 4, block=100, redraw=2000)
    conditioned = type(made.weighting).__name__ == "Conditional"
    alone = conditioned or name.startswith(("causal-pinn", "relobralo")) or not given.lbfgs
    revert = RevertOnWorse(finish, given.grid if data else 0)
    return (Adam(steps=given.adam, final_rate=0.0), *(() if alone else (revert,)))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_budgets_are_those_of_the_paper(family):
    """Adam and L-BFGS, interior and face points, as its authors' code has them."""
    expected = {
        "burgers": (2000, 200, 50_000, 0),
        "buckley-leverett": (2000, 200, 50_000, 0),
        "helmholtz-1d": (2000, 100, 50_000, 30_000),
        "helmholtz-2d": (4096, 400, 25_000, 30_000),
        "helmholtz-3d": (8192, 600, 25_000, 30_000),
        "schrodinger-1d": (1024, 64, 50_000, 30_000),
    }[family]
    given = settings_of_paper(family_of(family))
    assert (given.interior, given.face, given.adam, given.lbfgs) == expected


def test_what_a_method_is():
    """What is left when the terms are equal."""
    helmholtz, burgers = family_of("helmholtz-1d"), family_of("burgers")
    faces = {"boundary": BOUNDARY_WEIGHT, "initial": BOUNDARY_WEIGHT}
    assert by_name("pinn", burgers).weighting == Fixed(faces)
    assert by_name("causal-pinn", burgers).weighting == Causal(eps=100.0)
    adaptive = by_name("sa-pinn", burgers).weighting
    assert adaptive == SelfAdaptive(
        random_start=True, factor=0.5, relative=False, observations=False
    )
    blind = by_name("unconditioned", helmholtz).network
    assert isinstance(blind, MLP)
    assert (blind.parameters, blind.weights) == (Unseen(), Unseen())
    fno = by_name("fno", burgers)
    assert isinstance(fno.network, FNO)
    assert (fno.network.width, fno.network.modes, fno.network.blocks) == (64, 64, 4)
    expected = Supervised(epochs=2000, batch=16, samples=512, rate=1e-3, weight_decay=1e-4)
    assert fno.phases == (dataclasses.replace(expected, cosines=True, at_end=True),)
    fast, alone = by_name("fast", helmholtz), by_name("pinn-gn", helmholtz, at={"k": 3.0})
    assert alone.phases == fast.phases
    assert isinstance(alone.network, MLP)
    assert isinstance(fast.network, MLP)
    assert alone.network.widths == fast.network.widths
    assert by_name("pi-deeponet-gn", helmholtz).phases == fast.phases
    assert by_name("lc-pinn", helmholtz) == by_name("paper", helmholtz)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_a_protocol_is_plain_data_and_says_what_it_trains(name, family):
    made, family = made_for(name, family), family_of(family)
    assert from_plain(to_plain(made)) == made
    view = made.view(family)
    assert view.parameters.held == made.at
    helped = name in ("fast", "pinn-gn", "pi-deeponet-gn")
    assert helped or all(getattr(view, hook) is None for hook in HELP)
    own = ("fast", "paper", "paper-data", "unconditioned", "smoke")
    weighted = name in own and not family.parameters.dim
    assert (view.weights is not None) == weighted
    told = facts(family, made)
    assert told["protocol"] == name
    assert told["precision"] == made.dtype


@pytest.mark.parametrize("name", ["paper", "pi-deeponet", "sa-pinn", "fast"])
def test_the_number_of_parameters_is_that_of_the_network(name):
    made, family = made_for(name, "helmholtz-1d"), family_of("helmholtz-1d")
    setup = make_setup(made.view(family), dataclasses.replace(made, dtype="float32"))
    leaves = jax.tree.leaves(jax.eval_shape(setup.problem.init, jax.random.PRNGKey(0)))
    assert facts(family, made)["parameters"] == sum(leaf.size for leaf in leaves)


def test_steps_shorten_all_phases_in_proportion():
    family = family_of("helmholtz-1d")
    at = {"k": 3.0}
    assert by_name("pinn", family, at=at, steps=5000).phases == (
        Adam(steps=5000, final_rate=0.0),
        RevertOnWorse(LBFGS(3000, 50, 3750, block=100, redraw=2000)),
    )
    assert by_name("sa-pinn", family, at=at, steps=100).phases == (
        Adam(steps=100, final_rate=1e-3, block=100),
        LBFGS(50, 50, 75, weighted=True),
    )
    fno = by_name("fno", family_of("burgers"), steps=7)
    assert of_kind(Supervised, fno.phases[0]).epochs == 7


def test_fast_by_steps_has_no_clock():
    """So that two runs can be compared: the same steps, whatever the machine does besides."""
    family = family_of("helmholtz-1d")
    for name, at in (("fast", None), ("pinn-gn", {"k": 3.0}), ("pi-deeponet-gn", None)):
        made = by_name(name, family, at=at, steps=7)
        phase = of_kind(GaussNewton, made.phases[0].innermost)
        assert (phase.steps, phase.seconds) == (7, None)
        assert facts(family, made)["budget"] == {"GaussNewton steps": 7}
    fast = by_name("fast", family, steps=7, seconds=3.0), by_name("fast", family)
    both, timed = (of_kind(GaussNewton, made.phases[0].innermost) for made in fast)
    assert (both.steps, both.seconds) == (7, 3.0)
    assert timed.seconds == 50.0


# -- What is made of a part that the library does not know ---------------------------------------


@spec
class Bump:
    """A user's own network."""

    width: int = 40

    def shrunk(self):
        return dataclasses.replace(self, width=2)

    def words(self):
        return f"bumps {self.width}"


def test_a_network_of_ones_own_shrinks_by_itself():
    made = dataclasses.replace(by_name("paper", Poisson()), network=Bump())
    assert shrink.shrunk(made).network == Bump(2)


# -- Where a protocol applies --------------------------------------------------------------------


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols_apply_where_they_can(name):
    refused = {f for f in FAMILIES if reason_against(name, family_of(f)) is not None}
    assert refused == NOT.get(name, set())


NEEDS = "needs coefficients for its branch; burgers has none"
ONE = "trains one setting of the coefficients at a time: say which, as in --at"


@pytest.mark.parametrize(
    ("name", "family", "options", "message"),
    [
        ("causal-pinn", "helmholtz-2d", {},
         "causal-pinn needs a coordinate t; helmholtz-2d has x, y"),
        ("fno", "helmholtz-1d", {},
         "fno needs solver data: helmholtz-1d has no solutions(initial, times)"),
        ("pi-deeponet", "burgers", {}, f"pi-deeponet {NEEDS}"),
        ("pi-deeponet-gn", "burgers", {}, f"pi-deeponet-gn {NEEDS}"),
        ("pinn", "helmholtz-1d", {}, f"pinn {ONE} k=5.5"),
        ("pinn-gn", "schrodinger-1d", {}, f"pinn-gn {ONE} alpha=5.25"),
        ("pinn", "helmholtz-1d", {"at": {"k": 11.0}}, "k = 11 lies outside its range [1, 10]"),
        ("pinn", "burgers", {"at": {"nu": 1.0}},
         "there is no coefficient 'nu' to hold; there are: none"),
        ("paper", "helmholtz-1d", {"at": {"k": 3.0}}, "the protocol 'paper' does not take at"),
        ("pinn", "burgers", {"seconds": 3.0}, "the protocol 'pinn' does not take seconds"),
        ("smoke", "burgers", {"steps": 3, "at": {"k": 1}},
         "the protocol 'smoke' does not take steps, at"),
    ],
)  # fmt: skip
def test_the_reason_is_one_line(name, family, options, message):
    with pytest.raises(lc.LcpinnError) as caught:
        by_name(name, family_of(family), **options)
    assert str(caught.value) == message


def test_an_unknown_protocol_is_told_what_there_is():
    there = "there is no protocol .sa.; there are fast, interpolant"
    with pytest.raises(lc.LcpinnError, match=there):
        by_name("sa", Poisson())


def test_a_users_own_family_has_the_baselines_too():
    """Settings are numbers in the family's order, whatever was given."""
    made = by_name("relobralo", Coupled(), at={"b": 0.5, "a": 2})
    assert (list(made.at), made.setting) == (["a", "b"], "a=2,b=0.5")
    assert isinstance(made.at["a"], float)
    with pytest.raises(lc.LcpinnError, match=r"say which, as in --at b=0\.55$"):
        by_name("relobralo", Coupled(), at={"a": 2.0})
    assert by_name("relobralo", Coupled().at(b=0.5), at={"a": 2.0}).at == {"a": 2.0}
    assert example("causal-pinn", Coupled()).at == {"a": 2.0, "b": 0.55}
    assert reason_against("pinn", Poisson()) is None
