"""Whether a function is affine in an argument, by the operations that it is made of.

No values are tried: what is called affine is so at every point. An operation that is not known here
counts as curved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal

# Linear in all of their operands together.
LINEAR = frozenset((
    "add", "add_any", "sub", "neg", "reduce_sum", "concatenate", "stack", "pad", "copy", "copy_p",
    "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "slice", "transpose", "rev", "split",
))  # fmt: skip
BILINEAR = frozenset(("mul", "dot_general"))
# Linear in the first operand while the others stay as they are.
IN_THE_FIRST = frozenset(("div", "gather", "dynamic_slice"))
CALLS = frozenset(("jit", "pjit", "closed_call", "core_call"))


def is_affine(function: Callable[..., Any], argument: int, *shapes: Any) -> bool:
    """Whether an array function of arrays is affine in one of them; `shapes` as of `eval_shape`."""
    jaxpr = jax.make_jaxpr(function)(*shapes).jaxpr
    moving = [i == argument for i in range(len(jaxpr.invars))]
    return _outputs(jaxpr, moving) is not None


def _outputs(jaxpr: Jaxpr, moving: list[bool]) -> list[bool] | None:
    """Which outputs move with the inputs that do; None where one of them may do so in a curve."""
    known = {v for v, moves in zip(jaxpr.invars, moving, strict=True) if moves}
    moves = lambda v: not isinstance(v, Literal) and v in known
    for equation in jaxpr.eqns:
        operands = [moves(v) for v in equation.invars]
        if not any(operands):
            continue
        results = _results(equation, operands)
        if results is None:
            return None
        known |= {v for v, moved in zip(equation.outvars, results, strict=True) if moved}
    return [moves(v) for v in jaxpr.outvars]


def _results(equation: Any, moving: list[bool]) -> list[bool] | None:
    """The same of one operation, of whose operands some move."""
    name = equation.primitive.name
    if name in CALLS and "jaxpr" in equation.params:
        return _outputs(equation.params["jaxpr"].jaxpr, moving)
    affine = (
        name in LINEAR
        or (name in BILINEAR and sum(moving) == 1)
        or (name in IN_THE_FIRST and not any(moving[1:]))
        or (name == "select_n" and not moving[0])
        or (name == "convert_element_type" and _stays_real(equation.params["new_dtype"]))
    )
    return [True] * len(equation.outvars) if affine else None


def _stays_real(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)
