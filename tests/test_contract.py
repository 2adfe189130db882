"""Contracts of networks, ways of conditioning and weightings: kept here, asked of others."""

from dataclasses import replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Oscillator, perturbed

import lcpinn as lc
from lcpinn.explorer.program import of_solution
from lcpinn.network import (
    FNO,
    MLP,
    Concat,
    Conditioning,
    DeepONet,
    FiLM,
    Network,
    OperatorNetwork,
    Unseen,
)
from lcpinn.network.mlp import dense
from lcpinn.rows import Problem
from lcpinn.spec import spec
from lcpinn.weighting import Causal, Conditional, Fixed, ReLoBRaLo, SelfAdaptive, Weighting

PARTS: list[tuple[type, Any]] = [
    *((Network, part) for part in (MLP(), DeepONet(), FNO())),
    (OperatorNetwork, FNO()),
    *((Conditioning, part) for part in (FiLM(), Concat(), Unseen())),
    *(
        (Weighting, part)
        for part in (Fixed({}), Conditional(), SelfAdaptive(), ReLoBRaLo(), Causal())
    ),
]


@spec
class Linear(Network):
    """What a network must have, and no more; λ joins the inputs."""

    def init(self, key, num_features, num_outputs, dims, dtype):
        return {"only": dense(key, num_features + sum(dims.values()), num_outputs, dtype)}

    def apply(self, params, features, lam):
        for values in lam.values():
            features = features.concatenate(values)
        return features @ params["only"]["w"] + params["only"]["b"]


@spec
class Halved(Conditioning):
    """λ as further inputs, at half of its size: no reader of arrays knows that."""

    def extra_inputs(self, dim):
        return dim

    def join(self, features, lam):
        return features.concatenate(lam / 2)


@spec
class Incomplete:
    """A network in all but its contract."""

    def init(self, key, num_features, num_outputs, dims, dtype):
        return {}

    def apply(self, params, features, lam):
        return features


def untrained(network: Network) -> lc.Solution:
    protocol = replace(lc.protocol.smoke(Oscillator()), network=network)
    family = protocol.view(Oscillator())
    with jax.enable_x64(True):
        params = perturbed(Problem(family, network, jnp.float64))
    return lc.Solution(family, protocol, params, {})


@pytest.mark.parametrize(("contract", "part"), PARTS)
def test_every_part_keeps_its_contract(contract, part):
    assert isinstance(part, contract)
    others = {Network, Conditioning, Weighting} - set(contract.__mro__)
    assert not any(isinstance(part, other) for other in others)


def test_a_network_of_ones_own_needs_two_methods():
    solution = untrained(Linear())
    assert isinstance(Linear(), Network)
    t, d = np.linspace(0, 1, 5), 0.7
    program = of_solution(solution, points=5)
    np.testing.assert_allclose(program(t[:, None], [d])[:, 0], solution(t=t, d=d), atol=1e-12)
    assert Linear().words() == "Linear()"
    assert Linear().shrunk() == Linear()


def test_arrays_are_refused_where_no_reader_would_know_them(tmp_path):
    for network in (Linear(), MLP((4,), parameters=Halved())):
        with pytest.raises(lc.LcpinnError, match=r"arrays do not say how .* export it to \.onnx"):
            untrained(network).to_arrays(tmp_path / "u.npz")
    assert not (tmp_path / "u.npz").exists()


def test_what_a_part_lacks_is_said_before_anything_is_trained(tmp_path):
    smoke = lc.protocol.smoke(Oscillator())
    protocol = replace(smoke, network=cast(Any, Incomplete()))
    with pytest.raises(lc.LcpinnError, match="Incomplete is no Network, it has no pointwise") as no:
        lc.train(Oscillator(), protocol, out=tmp_path / "run", progress=False)
    assert "\n" not in str(no.value)
    assert not (tmp_path / "run").exists()
    with pytest.raises(lc.LcpinnError, match="MLP is no Weighting, it has no weigh"):
        lc.train(Oscillator(), replace(smoke, weighting=cast(Any, MLP())), progress=False)
