"""What is loaded when: help does without JAX, and names are there when they are used."""

import json
import subprocess
import sys

import pytest

import lcpinn
from lcpinn import cli
from lcpinn.protocol import PROTOCOLS

HEAVY = ("jax", "matplotlib", "optax", "scipy")
HELP = f"""
import contextlib, io, json, sys
from lcpinn.cli import app, main

def shown(*words):
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return text.getvalue()

commands = [command.callback.__name__ for command in app.registered_commands]
texts = [shown(), *(shown(name) for name in commands)]
loaded = [name for name in {HEAVY} if name in sys.modules]
usage = ["Usage" in text for text in texts]
print(json.dumps({{"commands": commands, "usage": usage, "loaded": loaded}}))
"""


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_help_loads_neither_jax_nor_matplotlib():
    found = json.loads(python(HELP))
    assert {"train", "reproduce", "families"} < set(found["commands"])
    assert all(found["usage"])
    assert found["loaded"] == []


def test_a_training_begins_without_what_it_may_never_need():
    """SciPy's parts, optax and Matplotlib wait for who asks: together they take longer than JAX."""
    program = """
import json, sys
import lcpinn as lc
from lcpinn.families import built

family = built("helmholtz-1d")
protocol = lc.protocol.fast(family, seconds=1.0)
lc.train
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in %r]))
"""
    loaded = json.loads(python(program % (("matplotlib", "optax", "scipy"),)))
    heavy = ("linalg", "sparse", "special", "stats", "interpolate", "optimize", "integrate")
    assert not {"matplotlib", "optax", *(f"scipy.{name}" for name in heavy)} & set(loaded)
    assert "scipy" in loaded  # itself it loads its parts when they are used


@pytest.mark.slow
def test_names_are_loaded_when_they_are_used():
    program = "import sys, lcpinn; before = 'jax' in sys.modules; lcpinn.Box; "
    assert python(program + "print(before, 'jax' in sys.modules)").split() == ["False", "True"]


def test_every_public_name_is_there():
    from lcpinn import Box, network

    assert network is lcpinn.network
    assert Box is lcpinn.Box
    assert set(lcpinn.__all__) <= set(dir(lcpinn))
    for name in lcpinn.__all__:
        assert getattr(lcpinn, name) is not None
    everything: dict[str, object] = {}
    exec("from lcpinn import *", everything)
    assert set(lcpinn.__all__) <= set(everything)


def test_type_checkers_see_the_same_names():
    """The names imported for them are the public ones, from the same modules."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(lcpinn.__file__).read_text())
    pairs = [(node.module, alias.name) for node in ast.walk(tree)
             if isinstance(node, ast.ImportFrom) for alias in node.names
             if node.module and node.module.split(".")[0] == "lcpinn"]  # fmt: skip
    modules = {n: f"lcpinn.{m}" if m else "lcpinn" for n, m in lcpinn._MODULES.items()}
    assert {name: module for module, name in pairs} == modules


def test_unknown_names_are_attribute_errors():
    assert not hasattr(lcpinn, "Bx")
    assert not hasattr(lcpinn, "_Box")


@pytest.mark.slow
def test_a_name_is_a_module_or_something_in_one():
    """Once everything is imported no function stands where a module has the same name."""
    program = """
import importlib, pkgutil, sys, types, lcpinn
names = [m.name for m in pkgutil.walk_packages(lcpinn.__path__, "lcpinn.")]
names = [name for name in names if not name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
for name in names:
    parent, _, own = name.rpartition(".")
    if not isinstance(getattr(sys.modules[parent], own), types.ModuleType):
        print(name)
print(type(lcpinn.train).__name__, type(lcpinn.retrain).__name__)
"""
    assert python(program).split() == ["function", "function"]


def test_help_names_every_protocol():
    assert tuple(PROTOCOLS) == cli.train.PROTOCOLS
