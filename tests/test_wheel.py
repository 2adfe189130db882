"""A wheel is all that is needed: installed alone, it trains far from the directory it came from."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
FAMILY = '''
from pathlib import Path

import lcpinn as lc

Path("imported").write_text(lc.__file__)


class Decay(lc.Family):
    """u' = -a u, u(0) = 1"""

    domain = lc.Box(t=(0, 1))
    parameters = lc.Uniform(a=(1, 2))

    @lc.interior
    def equation(self, u, u_t, a):
        return u_t + a * u

    @lc.on(t=0.0)
    def start(self, u):
        return u - 1
'''


def run(*words, **options) -> str:
    """A command that sees nothing of this process's way to find lcpinn."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, env=environment, **options
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built without a connection, by the hatchling of this environment."""
    out = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", out, ROOT)
    (file,) = out.glob("lcpinn-*.whl")
    return file


def test_everything_is_in_it(wheel):
    package = ROOT / "src" / "lcpinn"
    files = {p.relative_to(ROOT / "src").as_posix() for p in package.rglob("*") if p.is_file()
             and "__pycache__" not in p.parts}  # fmt: skip
    assert any(name.endswith(".js") for name in files)
    assert any(name.endswith(".json") for name in files)
    assert files <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_it_trains_on_its_own(wheel, tmp_path):
    """In an empty environment that borrows dependencies, but not lcpinn, from this one."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    programs = home / ("Scripts" if os.name == "nt" else "bin")
    python = next(path for path in programs.iterdir() if path.stem == "python")
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel)
    (packages,) = home.rglob("site-packages")
    # Directories that a .pth file names are searched last, and their own .pth files, such as that
    # of an editable lcpinn, are not read.
    borrowed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n")

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "decay.py").write_text(FAMILY)
    lcpinn = next(path for path in programs.iterdir() if path.stem == "lcpinn")
    run(lcpinn, "train", "decay.py:Decay", "--protocol", "smoke", "--out", "run", cwd=elsewhere)
    assert Path((elsewhere / "imported").read_text()).parent == packages / "lcpinn"
    assert {"model.safetensors", "result.json", "solution.png"} <= {
        path.name for path in (elsewhere / "run").iterdir()
    }
