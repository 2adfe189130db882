"""Training on domains that are no boxes: every method, interrupted runs, and many as one."""

import dataclasses
from functools import partial

import jax
import numpy as np
import pytest
from toy import Annulus, Interrupted, interrupt_after

import lcpinn as lc
from lcpinn.files import read_arrays
from lcpinn.network import DeepONet
from lcpinn.optimiser import LBFGS, Adam, GaussNewton, Restarts, RevertOnWorse
from lcpinn.protocol import methods, shrink
from lcpinn.weighting import Causal, SelfAdaptive


class Warming(lc.Family):
    """u_t = k Δu in a plate with a hole: the rim of the hole is hot, the sides are cold."""

    plate = lc.Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    hole = lc.Ball(x=0.2, y=0.0, radius=0.4)
    domain = lc.Box(t=(0.0, 1.0)) * (plate - hole)
    parameters = lc.Uniform(k=(0.1, 0.3))

    @lc.interior
    def equation(self, u_t, laplacian_u, k):
        return u_t - k * laplacian_u

    @lc.on(t=0.0)
    def start(self, u):
        return u

    @lc.on(hole)
    def hot(self, u, t):
        return u - t

    @lc.on(plate)
    def cold(self, u):
        return u


def tiny(method, family, steps=12, finish=True, **options):
    """A method of the paper with few points, a narrow network and as many steps as named."""
    made = shrink.shrunk(method(family, **options))
    adam = Adam(steps=steps, rate=1e-2, block=6)
    last = tuple(
        dataclasses.replace(phase, phase=LBFGS(steps=4, block=2))
        for phase in made.phases
        if finish and isinstance(phase, RevertOnWorse)
    )
    return dataclasses.replace(made, phases=(adam, *last))


METHODS = {
    "sa-pinn": (methods.sa_pinn, SelfAdaptive),
    "causal-pinn": (methods.causal_pinn, Causal),
    "pi-deeponet": (methods.pi_deeponet, DeepONet),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_methods_of_others_train_on_a_shape_in_time(name):
    method, kind = METHODS[name]
    if name != "pi-deeponet":  # which has the coefficients as inputs
        method = partial(method, at={"k": 0.2})
    family, protocol = Warming(), tiny(method, Warming(), finish=False)
    assert isinstance(protocol.network if kind is DeepONet else protocol.weighting, kind)
    solution = lc.train(family, protocol, progress=False, report=False)
    assert "12 steps" in solution.run["training"]["stopped"][0]
    inside, outside = (solution(t=0.5, x=x, y=0.0, k=0.2) for x in (-0.5, 0.2))
    assert np.isfinite(inside)
    assert np.isnan(outside)


def redrawn(family):
    """Two starts of Gauss-Newton; each round redraws points where residuals are large."""
    made = shrink.shrunk(lc.protocol.fast(family, steps=12))
    phase = made.phases[0].innermost
    assert isinstance(phase, GaussNewton)
    phase = dataclasses.replace(phase, steps=8, block=2, patience=2, rounds=3)
    return dataclasses.replace(made, phases=(Restarts(phase, starts=2, trial=2, max_starts=2),))


@pytest.mark.slow
@pytest.mark.parametrize("make", [partial(tiny, methods.paper), redrawn], ids=["paper", "fast"])
def test_an_interrupted_run_on_a_shape_ends_bit_identical(make, tmp_path, monkeypatch):
    """The state of a run has its points, each on the shape of its own lambda."""
    family = Annulus()
    protocol = make(family)

    def run(name, **options):
        out = tmp_path / name
        quiet = {"progress": False, "report": False}
        return lc.train(family, protocol, seed=3, out=out, **quiet, **options).params

    whole = run("whole", checkpoint_every=1e9)
    saved = interrupt_after(monkeypatch, 1)
    with pytest.raises(Interrupted):
        run("broken", checkpoint_every=0.0)
    _, arrays = read_arrays(tmp_path / "broken" / "checkpoint.safetensors", "checkpoint")
    assert max(int(value) for name, value in arrays.items() if name.endswith("step")) > 0
    resumed = run("broken", checkpoint_every=0.0, resume=True)
    assert len(saved) > 1
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.slow
def test_coefficients_that_leave_the_shape_alone_are_a_batch():
    make = partial(tiny, methods.pinn, steps=60, finish=False)
    members = lc.retrain(Warming(), make, [{"k": 0.1}, {"k": 0.3}], progress=False)
    alone = lc.train(Warming(), make(Warming(), at={"k": 0.3}), progress=False, report=False)
    place = {"t": 0.7, "x": np.array([-0.6, 0.8, 0.2]), "y": np.array([0.3, -0.4, 0.0])}
    values = members[1](**place, k=0.3)
    np.testing.assert_allclose(values, alone(**place, k=0.3), rtol=1e-5)
    assert not np.allclose(values[:2], members[0](**place, k=0.1)[:2], rtol=1e-4)
    assert np.isnan(values[2])
