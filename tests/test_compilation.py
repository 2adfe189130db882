"""The count of what is compiled: programs are recorded, and answer without running."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.compilation import KINDS, PAGES, Recorded, table


def test_a_recorded_program_is_compiled_once_for_every_shape_and_answers_with_zeros():
    programs = {}
    traced = []

    def double(x):
        traced.append(x.shape)
        return {"twice": 2 * x + 1}

    recorded = Recorded("double", jax.jit(double), programs)
    shape = jax.eval_shape(recorded, jnp.ones(3))  # traces, and compiles nothing
    assert shape["twice"].shape == (3,)
    assert programs["double"]["operations"] == 0
    for size in (3, 3, 4):
        assert np.all(recorded(jnp.ones(size))["twice"] == np.zeros(size))
    assert traced == [(3,), (4,)]
    found = programs["double"]
    assert found["operations"] > 4
    assert all(found[kind] > 0 for kind in KINDS)


def test_the_table_has_a_line_for_every_program():
    program = {"operations": 120, "trace": 1.5, "lower": 0.25, "compile": 3.0}
    lines = table("step", {"seconds": 7.0, "traced": 3, "programs": {"_run": program}}).splitlines()
    assert lines[0] == "step: 7.0 s of CPU, residuals traced 3 times"
    assert lines[2].split() == ["_run", "120", "1.50", "0.25", "3.00"]
    assert "block" in PAGES
