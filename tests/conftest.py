"""Settings for the whole test session, and a small trained model that several tests share."""

import os
from pathlib import Path

import pytest
import shapes
from hypothesis import settings

_ROOT = Path(__file__).resolve().parent.parent

# References and compiled programs outlive a session, so the second one is much faster.
os.environ.setdefault("LCPINN_CACHE", str(_ROOT / ".cache" / "lcpinn"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"

# The first example of a property test compiles, which no deadline should count.
settings.register_profile("lcpinn", deadline=None)
settings.load_profile("lcpinn")

# LCPINN_UNCHECKED=1 leaves it out, to see what it costs.
if "LCPINN_UNCHECKED" not in os.environ:
    shapes.install(_ROOT / "src")

from lcpinn.compilation import MIN_SECONDS, enable_cache  # noqa: E402  (imports JAX)

if directory := enable_cache():
    # Processes that tests start share the programs too.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(directory)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(MIN_SECONDS)

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
