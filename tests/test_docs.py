"""The site says what is so: its code and commands run, its numbers are those of results/."""

import functools
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from documents import anchors, blocks, commands, every_block, links, parses
from typer.testing import CliRunner

import lcpinn as lc
from benchmarks import docs as site
from lcpinn.cli import app
from lcpinn.families import BUILT_IN
from lcpinn.locate import find_family

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
# Its snippets read files that other programs have to write: tests/test_export.py runs them.
ELSEWHERE = {DOCS / "export.md"}


def name(page):
    return str(page.relative_to(DOCS).with_suffix(""))


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """In an empty directory, with trainings of a second in place of those of a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lc.protocol, "default", lc.protocol.smoke)
    return tmp_path


# The code


WITH_CODE = [p for p in PAGES if blocks(p.read_text(), "python") and p not in ELSEWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_a_page_runs_from_top_to_bottom(page, tiny):
    """As its reader would: files are saved, code is run, and so is the command line."""
    names = {"__name__": "page"}
    for block in every_block(page.read_text()):
        if block.text.startswith("--8<--"):
            continue
        if block.title:
            (tiny / block.title).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, str(page), "exec"), names)
        elif block.language == "bash" and page.stem == "getting-started":
            for words in commands(f"```bash\n{block.text}```"):
                if words[0] == "lcpinn":
                    run(words[1:])
    sys.modules.pop("fin", None)
    check = AFTERWARDS.get(name(page))
    if check is not None:
        check(names, tiny)


def run(words):
    if words[0] == "train":
        words = [*words, "--protocol", "smoke", "--overwrite"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, f"{words}: {done.output}"


def first_afternoon(names, where):
    assert names["several"].shape == (3, 101)
    x = np.linspace(0, 1, 7)
    np.testing.assert_array_equal(names["later"](x=x, m=2.0), names["solution"](x=x, m=2.0))
    assert names["fit"].freedom == 7
    left = {"u.csv", "certificate.png", "fit.png", "fin.png", "fin.npz", "runs/fin/explore.html"}
    assert {file for file in left if not (where / file).exists()} == set()
    assert {"solution.png", "solution.svg"} <= {p.name for p in (where / "pictures").iterdir()}


def a_pde(names, where):
    """The reference of the page solves its equation: by finite differences of the reference."""
    made, h = names["Complete"](), 1e-3
    t, x, a, p = np.array([0.4]), np.array([0.37]), 0.1, 0.45
    u = lambda dt=0.0, dx=0.0: made.reference(t + dt, x + dx, a, p)
    u_t, u_xx = (u(dt=h) - u(dt=-h)) / (2 * h), (u(dx=h) - 2 * u() + u(dx=-h)) / h**2
    np.testing.assert_allclose(u_t, a * u_xx + np.exp(-50 * (x - p) ** 2), rtol=1e-4)
    assert set(names["Imposed"]().terms) == {"equation"}


def a_method(names, where):
    assert names["again"].protocol == names["protocol"]
    assert isinstance(names["again"].protocol.network, names["Residual"])
    untrained = np.abs(np.exp(-1.0) - 0.0) / np.exp(-1.0)
    assert names["solution"].evaluate()["mean"] < untrained


AFTERWARDS = {
    "getting-started": first_afternoon,
    "extend/pde": a_pde,
    "extend/method": a_method,
}


# The commands


LINES = [(p, words[1:]) for p in PAGES for words in commands(p.read_text()) if words[0] == "lcpinn"]


@pytest.mark.parametrize(("page", "words"), LINES, ids=lambda v: v if isinstance(v, str) else None)
def test_a_command_parses(page, words):
    parses(words)


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(AssertionError, match="no command 'trian'"):
        parses(["trian", "burgers"])
    with pytest.raises(AssertionError, match="--protocl"):
        parses(["train", "burgers", "--protocl", "fast"])
    with pytest.raises(AssertionError, match="FAMILY"):
        parses(["train"])


def test_families_in_commands_exist(monkeypatch):
    monkeypatch.chdir(ROOT)
    takers = [words[1] for _, words in LINES if words[0] in ("train", "check")]
    for text in {t for t in takers if ".py" not in t or t.startswith("examples/")}:
        find_family(text)


# The examples


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_passes_its_check(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a picture of the domain is left
    done = CliRunner().invoke(app, ["check", str(file)])
    assert done.exit_code == 0, done.output
    assert f'--8<-- "examples/{file.name}"' in (DOCS / "examples.md").read_text()


def test_the_heated_wire_obeys_kohlrausch():
    """The relation that the example looks at holds for its exact solution."""
    wire = runpy.run_path(str(ROOT / "examples" / "heated_wire.py"))["HeatedWire"]()
    x, v, b = np.linspace(0, 1, 11), 3.0, 0.4
    phi, T = (np.asarray(field, float) for field in wire.exact(x, v, b))
    np.testing.assert_allclose(T + b * T**2 / 2, phi * (v - phi) / 2, atol=1e-5)


def test_the_rod_of_the_inverse_problem_is_resolved():
    """Its readings satisfy the equation, far better than the noise that is put on them."""
    rod = runpy.run_path(str(ROOT / "examples" / "inverse.py"))["Rod"]()
    h, a, b = 0.02, 0.7, 0.3
    t, x = np.meshgrid([0.5 - h, 0.5, 0.5 + h], [0.4 - h, 0.4, 0.4 + h])
    u = rod.reference(t, x, a, b)
    u_t, u_xx = (u[1, 2] - u[1, 0]) / (2 * h), (u[2, 1] - 2 * u[1, 1] + u[0, 1]) / h**2
    np.testing.assert_allclose(u_t, a * u_xx - b * u[1, 1], rtol=5e-3)


# What is generated


@pytest.mark.slow
def test_generated_pages_are_current(capsys):
    site.run(["--check"])
    assert capsys.readouterr().out == "docs/ is current\n"


@pytest.mark.slow
def test_a_page_that_is_not_current_is_noticed(tmp_path, monkeypatch):
    copy = tmp_path / "docs"
    (copy / "gallery").mkdir(parents=True)
    for page in site.pages():
        (copy / page.relative_to(DOCS)).write_text(page.read_text())
    monkeypatch.setattr(site, "DOCS", copy)
    (copy / "cli.md").write_text("# Old\n")
    burgers = copy / "gallery" / "burgers.md"
    burgers.write_text(re.sub(r"\d\.\de-\d", "9.9e-9", burgers.read_text()))
    with pytest.raises(SystemExit, match=r"not current: docs/cli.md, docs/gallery/burgers.md"):
        site.run(["--check"])
    site.run([])
    for page in site.pages():
        assert page.read_text() == (DOCS / page.relative_to(copy)).read_text()


def test_lost_marks_are_an_error():
    with pytest.raises(SystemExit, match="lost its marks <!-- facts:begin -->"):
        site.between("nothing here", "facts", "")


def test_every_family_has_a_page_and_a_picture():
    for family in BUILT_IN:
        text = (DOCS / "gallery" / f"{family}.md").read_text()
        assert f"(../pictures/{family}.png)" in text
        assert (DOCS / "pictures" / f"{family}.png").stat().st_size < site.LARGEST_PICTURE
        assert f"gallery/{family}.md" in (ROOT / "mkdocs.yml").read_text()


def test_every_command_is_described():
    text = site.command_line()
    for command in app.registered_commands:
        assert f"\n## {command.callback.__name__}\n" in text
    assert "| `--tolerance` | `E` | Fail above this relative error. |" in text


# The site


@functools.cache
def headings(page):
    return anchors(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for link in links(page.read_text()):
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or anchor in headings(file), link


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None:
        pytest.skip("THE SITE IS NOT TESTED: mkdocs is missing, pip install -e '.[docs]'")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    api = (tmp_path / "api.html").read_text()
    nav = (tmp_path / "index.html").read_text()
    assert ("reproduction.html" in nav) == (DOCS / "reproduction.md").exists()
    missing = [n for n in lc.__all__ if f'id="lcpinn.{n}' not in api]
    assert missing == []
    fetched = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?:https?:)?//[^\"]*")
    for page in tmp_path.rglob("*.html"):
        assert fetched.findall(page.read_text()) == [], page.name  # nothing from elsewhere
