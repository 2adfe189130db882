"""The lid-driven cavity: Stokes' flow in its corners, and the flow that the network starts from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lcpinn as lc
from lcpinn.families import BUILT_IN, LidDrivenCavity
from lcpinn.families.lid_driven_cavity import corner_flow
from lcpinn.reference.cavity import VISCOSITY, _local


def test_flow_in_a_corner_is_stokes_flow_that_slides_along_the_lid_and_sticks_to_the_wall():
    place = lambda x, y: corner_flow(x, -y)  # y upwards from the lid

    def equations(x, y):
        u_x, v_x, p_x = jax.jacfwd(place, 0)(x, y)
        u_y, v_y, p_y = jax.jacfwd(place, 1)(x, y)
        second = (
            jax.jacfwd(jax.jacfwd(place, 0), 0)(x, y),
            jax.jacfwd(jax.jacfwd(place, 1), 1)(x, y),
        )
        laplacian = [second[0][i] + second[1][i] for i in (0, 1)]
        return u_x + v_y, VISCOSITY * laplacian[0] - p_x, VISCOSITY * laplacian[1] - p_y, u_y - v_x

    with jax.enable_x64(True):
        x, y = jnp.array([0.3, 0.02, 0.7]), jnp.array([-0.4, -0.5, -0.1])
        divergence, along, across, curl = jax.vmap(equations)(x, y)
        np.testing.assert_allclose(np.stack([divergence, along, across]), 0, atol=1e-12)
        assert np.min(np.abs(curl)) > 0.1
        lid, wall = corner_flow(x, 0 * x), corner_flow(0 * y, -y)
        np.testing.assert_allclose(lid[0], x, atol=1e-15)
        np.testing.assert_allclose([*lid[1:2], *wall[:2]], 0, atol=1e-15)


def test_the_network_starts_from_what_the_reference_subtracts():
    family, a = LidDrivenCavity(), 4.0
    x, y = np.array([0.1, 0.5, 0.97]), np.array([0.99, 0.3, 0.9])
    with jax.enable_x64(True):
        u, v, p = family.ansatz(0.0, 0.0, 0.0, x, y, a)
    local, pressure = _local(x, y)
    expected = [a * local["y"], -a * local["x"], a * pressure]
    np.testing.assert_allclose(np.stack([u, v, p]), expected, atol=1e-14)
    moved = family.ansatz(1.0, 2.0, 3.0, x, y, a)
    for value, before, unit in zip(moved, (u, v, p), (1.0, 2.0, 3.0), strict=True):
        np.testing.assert_allclose(value - before, a * unit)


def test_the_corners_have_values_and_derivatives():
    family = LidDrivenCavity()
    flow = lambda x: jnp.stack(family.ansatz(0.0, 0.0, 0.0, x, 1.0, 4.0))
    for corner in (0.0, 1.0):
        assert np.isfinite(flow(corner)).all()
        assert np.isfinite(jax.jacfwd(jax.jacfwd(flow))(corner)).all()


def test_it_is_built_in_with_its_range():
    family = BUILT_IN["lid-driven-cavity"]()
    assert family.name == "lid-driven-cavity"
    assert family.parameters.ranges == {"a": (2.0, 16.0)}
    assert LidDrivenCavity(32.0).parameters.ranges == {"a": (2.0, 32.0)}
    assert family.plain().ansatz is None


@pytest.mark.slow
def test_a_short_training_answers_for_every_speed_of_the_lid():
    family = LidDrivenCavity()
    solution = lc.train(family, lc.protocol.smoke(family), seed=0, progress=False)
    flow = solution(x=np.array([0.2, 0.8]), y=0.5, a=np.array([[2.0], [16.0]]))
    assert set(flow) == {"u", "v", "p"}
    assert all(values.shape == (2, 2) and np.isfinite(values).all() for values in flow.values())
