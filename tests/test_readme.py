"""What the README says is so: its code runs, its commands exist, its table is that of results/."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import documents
import pytest
import typer

import lcpinn as lc
from benchmarks import readme
from benchmarks.shapes.training import factor
from lcpinn.cli import app

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()
DESIGN = (ROOT / "docs" / "design.md").read_text()


def blocks(language):
    return documents.blocks(TEXT, language)


# The code


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_code_compiles(number):
    compile(blocks("python")[number], f"README.md, block {number + 1}", "exec")


@pytest.mark.slow
def test_code_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    """As one script, with a training that takes a second in place of one that takes a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lc.protocol, "default", lambda family, **_: lc.protocol.smoke(family))
    first, *rest = blocks("python")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(first, names)
    assert capsys.readouterr().out.startswith("[")  # the page is complete by itself
    for block in rest:
        exec(block, names)
    assert names["again"](t=0.3, d=0.7) == names["solution"](t=0.3, d=0.7)
    assert {name: values.shape for name, values in names["orbit"].items()} == {
        "u": (200,),
        "v": (200,),
    }
    assert (tmp_path / "runs" / "spiral" / "model.safetensors").exists()


def test_the_page_is_that_of_the_example():
    example = (ROOT / "examples" / "oscillator.py").read_text()
    page = blocks("python")[0].partition("class Oscillator")[2].partition("\n\n\nsolution")[0]
    assert page in example


# The commands


def commands():
    return documents.commands(TEXT)


def test_commands_and_their_options_exist():
    known = typer.main.get_group(app).commands
    called = [words[1:] for words in commands() if words[0] == "lcpinn"]
    assert {words[0] for words in called} == set(known)
    for name, *rest in called:
        options = {flag for parameter in known[name].params for flag in parameter.opts}
        assert {word for word in rest if word.startswith("-")} <= options


def test_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = [words[1] for words in commands() if words[0] == "make"]
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)


def test_a_python_that_is_missing_is_named_and_skipped():
    script, environment = ROOT / "tools" / "versions.sh", os.environ | {"PYTHONS": "3.99"}
    done = subprocess.run([script], env=environment, capture_output=True, text=True, check=True)
    assert "Python 3.99 is not on this machine: skipped" in done.stderr
    header, row = done.stdout.strip().splitlines()
    assert header.split() == ["Python", "JAX", "lint", "types", "tests"]
    assert row.split()[:5] == ["3.99", "-", "skipped:", "no", "python3.99"]


def test_protocols_are_the_ones_there_are():
    assert all(f"`{name}`" in TEXT for name in lc.protocol.PROTOCOLS)


# The documents


def test_links_lead_somewhere():
    for target in re.findall(r"(?<!!)\[[^]]*\]\(([^):#]+)\)", TEXT):
        assert (ROOT / target).exists(), target


def test_the_map_of_the_code_is_complete():
    """Every file and folder of the package is in docs/design.md."""
    package = ROOT / "src" / "lcpinn"
    names = [p.name for p in package.glob("*.py") if not p.name.startswith("__")]
    names += [f"{p.parent.name}/" for p in package.glob("*/__init__.py")]
    assert [name for name in names if f"`{name}`" not in DESIGN] == []


# The table


def run(family, seed, mean, dense, seconds=40.0, protocol="fast"):
    error = {"mean": mean, "dense_max": dense}
    return {"family": family, "protocol": protocol, "seed": seed, "parameters": 881,
            "error": error, "seconds": {"total": seconds}}  # fmt: skip


def result(device, runs):
    versions = {"jax": "0.10.0"}
    return {
        "stamp": {"device": device, "versions": versions, "date": "2026-01-02T03"},
        "runs": runs,
    }


RUNS = [
    run("burgers", 0, 1e-4, 1e-4),
    run("helmholtz-1d", 0, 3e-10, 2e-9),
    run("helmholtz-1d", 1, 1e-10, 4e-9),
    run("helmholtz-1d", 2, 2e-10, 3e-9),
    run("helmholtz-1d", 3, 1.0, 1.0, protocol="paper"),
]


def test_what_is_said_of_shapes_is_what_was_measured():
    runs = json.loads((ROOT / "results" / "shapes-cpu.json").read_text())["runs"]
    said = re.search(r"at most (\S+) at any λ; .*? within (\d+) % of the truth", TEXT)
    assert said
    assert len({(run["family"], run["seed"]) for run in runs}) == 20
    assert readme._error(max(run["error"]["dense_max"] for run in runs)) == said[1]
    factors = [factor(setting) for run in runs for setting in run["settings"]]
    assert max(f for f in factors if f is not None) <= 1 + float(said[2]) / 100
    given = sum(f is not None for f in factors)
    assert f"(at {given} of {len(factors)} settings)" in TEXT


def test_runs_of_other_benchmarks_are_no_rows(tmp_path):
    other = {"benchmark": "first-seconds", "stamp": {"device": "a CPU, 2 cores"}, "runs": [{}]}
    (tmp_path / "first-seconds-cpu.json").write_text(json.dumps(other))
    assert readme.collect(tmp_path) == []


def test_the_table_has_median_worst_and_largest():
    text = readme.render([result("Some CPU, 2 cores", RUNS)])
    caption, _, *table = text.splitlines()
    about = "1 to 3 seeds, at most 60 s a training with its compilation (2026-01-02, JAX 0.10.0):"
    assert caption == f"**Some CPU, 2 cores**, {about}"
    assert table[2:] == [
        "| helmholtz-1d | 9.4e-4 | 66 | 2.0e-10 | 3.0e-10 | 4.0e-9 |",
        "| burgers | 3.5e-3 | 25 | 1.0e-4 | 1.0e-4 | – |",
    ]


def test_a_cpu_that_took_longer_says_so():
    slow = [run("schrodinger-1d", 0, 1e-8, 1e-8, seconds=71.0)]
    assert "at most 80 s" in readme.render([result("Some CPU, 2 cores", slow)])


def test_an_accelerator_has_seconds():
    runs = [
        run("buckley-leverett", seed, 1e-4, 1e-4, seconds=s) for seed, s in enumerate((3, 9, 4))
    ]
    text = readme.render([result("NVIDIA H200", runs)])
    assert text.splitlines()[2].endswith("| seconds |")
    assert text.splitlines()[4] == "| buckley-leverett | 1.0e-2 | – | 1.0e-4 | 1.0e-4 | – | 4 |"


def test_only_files_of_families_count(tmp_path):
    from lcpinn.files import write_json

    write_json(tmp_path / "families-a.json", result("NVIDIA H200", RUNS))
    write_json(tmp_path / "families-b.json", result("Some CPU, 2 cores", RUNS))
    write_json(tmp_path / "step.json", {"benchmark": "step", "device": "Some CPU, 2 cores"})
    devices = [r["stamp"]["device"] for r in readme.collect(tmp_path)]
    assert devices == ["Some CPU, 2 cores", "NVIDIA H200"]
    assert readme.render(readme.collect(tmp_path / "none")) == readme.NOTHING


def test_the_table_in_the_readme_is_that_of_the_results(capsys):
    readme.run(["--check"])
    assert capsys.readouterr().out == "README.md agrees with results/\n"


@pytest.mark.slow
def test_another_table_is_noticed_and_replaced(tmp_path, monkeypatch, capsys):
    copy = tmp_path / "README.md"
    copy.write_text(readme.filled(TEXT, "| old |"))
    monkeypatch.setattr(readme, "README", copy)
    with pytest.raises(SystemExit, match="differs from results/"):
        readme.run(["--check"])
    readme.run([])
    readme.run(["--check"])
    assert copy.read_text() == readme.filled(TEXT, readme.render(readme.collect()))
    with pytest.raises(SystemExit, match="lost the marks"):
        readme.filled("nothing here", "")
