"""A little of every fault that `python -m benchmarks.chaos` does by the thousand.

That of a cluster is in test_cluster.py.
"""

import json
import subprocess
import sys

import pytest

from benchmarks.chaos import __main__ as chaos
from benchmarks.chaos import directory, disk, files, kill, memory, pages, process, terms
from benchmarks.chaos.fault import Case, Fault
from benchmarks.chaos.registry import FAULTS
from benchmarks.chaos.table import table


def broken(cases):
    """Which promises were not kept; all of them, if nothing was tried."""
    tried = list(cases)
    assert tried
    return [case.detail for case in tried if not case.passed]


@pytest.mark.slow
def test_a_killed_training_ends_as_another():
    assert broken(kill.cases(range(2), 1, kinds=("paper",), length=0.3, report=False)) == []


@pytest.mark.slow
def test_damaged_files_are_refused():
    assert broken(files.cases(range(90), 1)) == []


@pytest.mark.slow
def test_a_full_disk_loses_nothing():
    numbers = [3, 6]  # a line of metrics, a checkpoint
    assert broken(disk.cases(numbers, 1, kinds=("paper",), report=False)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 7])
def test_bad_terms_are_named(number):
    assert broken(terms.cases(range(number, number + 1), 1)) == []


@pytest.mark.slow
def test_too_little_memory_is_explained():
    assert broken(memory.cases(range(1, 2), 1)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3])
def test_directories_and_clocks(number):
    assert broken(directory.cases(range(number, number + 1), 1)) == []


@pytest.mark.slow
def test_random_pages_are_built_or_refused():
    assert broken(pages.cases(range(60), 1)) == []


# -- The bookkeeping -----------------------------------------------------------------------------


def fault(full=5, fails=()):
    def cases(numbers, seed):
        for number in numbers:
            bad = number in fails
            yield Case(number, not bad, "odd" if number % 2 else "even", "why" * bad, {"s": number})

    return Fault("some", "what is done", "what holds", full, cases)


@pytest.fixture
def run(monkeypatch, tmp_path):
    def go(made, *options):
        monkeypatch.setitem(FAULTS, "some", made)
        chaos.main(["--faults", "some", "--out", str(tmp_path / "chaos.json"), *options])
        return json.loads((tmp_path / "chaos.json").read_text())["faults"]["some"]

    return go


def test_a_run_can_be_split(run):
    first = run(fault(), "--count", "2")
    assert (first["cases"], first["kept"], first["outcomes"]) == (2, 2, {"even": 1, "odd": 1})
    assert {"date", "device", "versions", "seed"} <= set(first["stamp"])
    whole = run(fault())
    assert (whole["cases"], whole["outcomes"]) == (5, {"even": 3, "odd": 2})
    assert whole["figures"] == {"s": 4}
    assert run(fault())["stamp"] == whole["stamp"]  # nothing is left to do
    assert run(fault(), "--again", "--count", "1")["cases"] == 1


def test_a_broken_promise_is_the_exit_code(run, tmp_path):
    with pytest.raises(SystemExit, match="promises were broken: some"):
        run(fault(fails=(3,)))
    part = json.loads((tmp_path / "chaos.json").read_text())["faults"]["some"]
    assert (part["cases"], part["kept"]) == (5, 4)
    assert part["broken"] == [{"case": 3, "detail": "why"}]


def test_a_fault_may_have_fewer_cases_than_asked(run):
    few = Fault("some", "d", "p", 1000, lambda numbers, seed: iter([Case(0, True, "done")]))
    assert run(few)["full"] == 1


def test_the_table_is_made_of_the_results(run):
    text = table({"some": run(fault(), "--count", "3")})
    assert "| `some`: what is done | what holds | 3 of 5 | 3 | even 2; odd 1; at most 2 s |" in text


@pytest.mark.slow
def test_a_training_goes_on_without_its_first_process():
    """Case 0 of this seed kills the first of two; test_devices.py kills the second."""
    (case,) = process.cases(range(1), 1)
    assert (case.passed, case.outcome) == (True, "the first killed"), case.detail


@pytest.mark.slow
def test_a_process_without_its_coordinator_ends_with_a_line():
    """What JAX does to a process whose first one is gone is abort(), in a thread of its own."""
    code = (
        "import ctypes, threading\n"
        "from lcpinn.devices import _say_why_when_aborted\n"
        "_say_why_when_aborted()\n"
        "thread = threading.Thread(target=ctypes.CDLL(None).abort)\n"
        "thread.start(); thread.join()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.startswith("lcpinn: the first process does not answer: go on from the check")
