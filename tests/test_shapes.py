"""Shapes that a signature states are refused when they are not met; in the tests alone."""

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import pytest
import shapes
from jaxtyping import Array, Float, TypeCheckError, jaxtyped

from lcpinn.network.fno import convolve

SOURCE = Path(__file__).resolve().parent.parent / "src"


@pytest.mark.skipif("LCPINN_UNCHECKED" in os.environ, reason="asked for by LCPINN_UNCHECKED")
def test_axes_of_one_name_must_have_one_size():
    matrices, v = jnp.ones((3, 2, 4)), jnp.ones((8, 2))
    assert convolve(matrices, matrices, v).shape == (8, 4)
    with pytest.raises(TypeCheckError, match=r"lcpinn\.network\.fno\.convolve"):
        convolve(matrices, matrices[:2], v)
    with pytest.raises(TypeCheckError, match="imaginary"):
        convolve(matrices, matrices[0], v)


def test_what_is_returned_is_checked_too():
    @jaxtyped(typechecker=shapes.checked)
    def column(v: Float[Array, " n"], reshaped: bool) -> Float[Array, "n 1"]:
        return v[:, None] if reshaped else v

    assert column(jnp.ones(3), True).shape == (3, 1)
    with pytest.raises(TypeCheckError, match="return value"):
        column(jnp.ones(3), False)
    assert column(jnp.ones(3), cast(Any, 1)).shape == (3, 1)  # other types are not checked


Pair = tuple[Float[Array, " n"], Float[Array, " n"]]


def test_only_what_says_a_shape_is_wrapped():
    """By whatever name, in a function within another, or as a field."""
    decorate = partial(shapes.where_shapes_are_said, jaxtyped, typechecker=shapes.checked)

    def plain(v: Array, num: int) -> Array:
        return v[:num]

    def named(pair: "Pair") -> Array:
        return pair[0] + pair[1]

    @dataclass
    class Box:
        low: Float[Array, " n"]
        high: Float[Array, " n"]

    assert decorate(plain) is plain
    for one in (decorate(named), lambda pair: decorate(Box)(*pair)):
        one((jnp.ones(3), jnp.ones(3)))
        with pytest.raises(TypeCheckError):
            one((jnp.ones(3), jnp.ones((3, 1))))


def test_modules_with_shapes_are_those_that_are_hooked():
    hooked = shapes.modules(SOURCE)
    assert {"lcpinn.network.fno", "lcpinn.rows", "lcpinn.domain", "lcpinn.sampling"} <= set(hooked)
    assert "lcpinn.errors" not in hooked


def test_a_users_program_checks_nothing():
    """Neither the hook nor what it needs is imported by the package."""
    code = "import sys, lcpinn; print({'beartype', 'shapes'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
    )
    assert done.stdout.strip() == "set()"
