"""Settings for the whole test session, and a small trained model that several tests share."""

import gc
import os
from pathlib import Path

import jaxlib.version
import pytest
import shapes
import tracing
from hypothesis import settings

_ROOT = Path(__file__).resolve().parent.parent
MIN_SECONDS = 0.02
# Files that take five seconds or more with an empty cache, the longest first, so that workers, who
# get a whole file at a time, end together.
LONGEST = (
    "protocol", "certificate", "browser", "frame", "retrain", "inverse", "known_series", "cli",
    "zoo", "devices", "benchmarks", "fast", "chaos", "docs", "optimiser", "verdict", "gauss_newton",
    "train", "on_shapes", "training_on_shapes", "frontier", "reference", "study", "solver", "plot",
    "cluster", "pinnacle", "check", "operator_networks", "sweep", "interpolant", "explorer",
    "export", "interpolated", "units", "trial", "windows", "weighting", "readme", "rows",
    "own_solutions", "shape", "jet", "network", "descent_rows", "wheel", "theory", "determinacy",
    "lid_driven_cavity", "holes", "start", "solution", "reduced_basis", "families", "family",
    "prior", "bad_input",
)  # fmt: skip

# References and compiled programs outlive a session, so the second one is much faster.
os.environ.setdefault("LCPINN_CACHE", str(_ROOT / ".cache" / "lcpinn"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"
# Programs of the tests run for moments, so that compiling them is most of the time: the compiler
# optimises little, in the processes that tests start as well. Tests that take many steps with one
# program ask for `optimised`.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# What tracing.py does in this process, as far as others can be told from here.
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
startup, paths = str(_ROOT / "tests" / "startup"), os.environ.get("PYTHONPATH", "")
if startup not in paths:  # as it is in xdist's workers
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [startup, paths]))
if jaxlib.version.__version_info__ < (0, 11):
    # The older of two code generators takes a third of the time. Later versions have the newer one
    # alone, and end the process over a flag that they do not know.
    faster = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    asked = os.environ.get("XLA_FLAGS", "")
    if faster not in asked:  # as it is in xdist's workers
        os.environ["XLA_FLAGS"] = f"{asked} {faster}".strip()

# The first example of a property test compiles, which no deadline should count.
settings.register_profile("lcpinn", deadline=None)
settings.load_profile("lcpinn")

# From here on shapes in lcpinn's signatures are checked. LCPINN_UNCHECKED=1 leaves it out, to see
# what it costs.
if "LCPINN_UNCHECKED" not in os.environ:
    shapes.install(_ROOT / "src")

import jax  # noqa: E402  (reads the settings above)

from lcpinn import prediction  # noqa: E402
from lcpinn.certificate import estimator  # noqa: E402
from lcpinn.compilation import compiler_options, enable_cache  # noqa: E402
from lcpinn.inverse import misfit  # noqa: E402

tracing.settle()
# These evaluate a network on whole grids, again and again: optimised a little, they take a few
# hundredths of a second longer to compile, and a fifth of the time to run.
for module in (prediction, estimator, misfit):
    vars(module)["compiler_options"] = lambda: {
        **(compiler_options() or {}), "xla_backend_optimization_level": 1
    }  # fmt: skip

if directory := enable_cache():
    # Little optimised, most programs compile in less time than is worth a file to a user; but there
    # are thousands of them. Processes that tests start share them too.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(directory)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(MIN_SECONDS)


def pytest_collection_modifyitems(items):
    rank = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_collection_finish():
    gc.freeze()  # what was imported stays: it need not be gone through again and again


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
