"""Settings for the whole test session, and a small trained model that several tests share."""

import functools
import gc
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import jaxlib.version
import pytest
import shapes
from hypothesis import settings

_ROOT = Path(__file__).resolve().parent.parent
MIN_SECONDS = 0.02
# Files that take half a minute or so with an empty cache: these first, so that workers, which get
# a whole file at a time, end together.
LONGEST = (
    "protocol", "zoo", "frame", "retrain", "fast", "solver", "certificate", "gauss_newton",
    "docs", "cli", "inverse", "reference", "on_shapes", "train", "benchmarks", "own_solutions",
    "operator_networks", "pinnacle", "explorer", "optimiser", "check", "plot", "interpolant",
    "study", "determinacy", "jet", "network", "chaos", "verdict", "export", "browser", "frontier",
    "cluster", "holes", "devices", "wheel",
)  # fmt: skip

# References and compiled programs outlive a session, so the second one is much faster.
os.environ.setdefault("LCPINN_CACHE", str(_ROOT / ".cache" / "lcpinn"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"
# Programs of the tests run for moments, so that compiling them is most of the time: the compiler
# optimises little, in the processes that tests start as well. Tests that take many steps with one
# program ask for `optimised`.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if jaxlib.version.__version_info__ < (0, 11):
    # The older of two code generators takes a third of the time. Later versions have the newer one
    # alone, and end the process over a flag that they do not know.
    faster = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    asked = os.environ.get("XLA_FLAGS", "")
    if faster not in asked:  # as it is in xdist's workers
        os.environ["XLA_FLAGS"] = f"{asked} {faster}".strip()

# Tracing makes and drops objects by the million, hardly any in cycles: looking for those every few
# hundred takes a sixth of the time.
gc.set_threshold(50_000, 20, 100)

# The first example of a property test compiles, which no deadline should count.
settings.register_profile("lcpinn", deadline=None)
settings.load_profile("lcpinn")

# From here on shapes in lcpinn's signatures are checked. LCPINN_UNCHECKED=1 leaves it out, to see
# what it costs.
if "LCPINN_UNCHECKED" not in os.environ:
    shapes.install(_ROOT / "src")

import jax  # noqa: E402  (reads the settings above)

from lcpinn.compilation import enable_cache  # noqa: E402

# JAX notes the stack, which is deep below a test, for every operation that is traced, and writes
# some of it into what is compiled: a tenth of the time of either.
jax.config.update("jax_traceback_in_locations_limit", 0)
note_stacks = getattr(sys.modules.get("jaxlib._jax"), "set_tracebacks_enabled", None)
if note_stacks is not None:  # which no version promises
    note_stacks(False)


def share_contexts(lowering: Any, num: int = 50) -> None:
    """Let so many programs in a row be lowered in one context of MLIR.

    A new one for each, with all of its dialects, takes as long as lowering a small program does.
    """
    make = getattr(lowering, "make_ir_context", None)
    if make is None:  # which no version promises
        return
    programs, context_of = itertools.count(), functools.lru_cache(1)(lambda block: make())
    lowering.make_ir_context = lambda: context_of(next(programs) // num)


share_contexts(sys.modules.get("jax._src.interpreters.mlir"))

if directory := enable_cache():
    # Little optimised, most programs compile in less time than is worth a file to a user; but there
    # are thousands of them. Processes that tests start share them too.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(directory)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(MIN_SECONDS)


def pytest_collection_modifyitems(items):
    rank = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture
def x64():
    """Double precision, which JAX leaves off unless asked."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def optimised():
    """The compiler optimises as it does for users."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def examined(monkeypatch):
    """What `check` learns of how far the pages that it is given determine their solutions."""
    from lcpinn.cli.support import battery

    learnt, examine = [], battery.determinacy

    def determinacy(family):
        learnt.append(examine(family))
        return learnt[-1]

    monkeypatch.setattr(battery, "determinacy", determinacy)
    return learnt


DECAY = '''\
import jax.numpy as jnp
import lcpinn as lc


class Decay(lc.Family):
    """u' = -k u, u(0) = 1, for every rate k."""

    domain = lc.Box(t=(0.0, 1.0))
    parameters = lc.Uniform(k=(0.5, 2.0))

    @lc.interior
    def equation(self, u, u_t, k):
        return u_t + k * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1.0

    def exact(self, t, k):
        return jnp.exp(-k * t)
'''


@pytest.fixture(scope="session")
def decay(tmp_path_factory):
    """A directory with decay.py and a run of it, made by the command line."""
    from typer.testing import CliRunner

    from lcpinn.cli import app

    home = tmp_path_factory.mktemp("decay")
    (home / "decay.py").write_text(DECAY)
    family, out = f"{home / 'decay.py'}:Decay", str(home / "run")
    every = ["--checkpoint-every", "0"]
    done = CliRunner().invoke(app, ["train", family, "--protocol", "smoke", "--out", out, *every])
    assert done.exit_code == 0, done.output
    (home / "shown.txt").write_text(done.stdout)
    return home
