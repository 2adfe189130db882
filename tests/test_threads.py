"""How many threads BLAS gets."""

import itertools
from contextlib import nullcontext

import pytest

from lcpinn import threads
from lcpinn.threads import ThreadTrial


@pytest.fixture
def asked(monkeypatch):
    """The numbers that BLAS was limited to, on a machine with four cores."""
    numbers = []
    monkeypatch.setattr(threads, "usable_cores", lambda: 4)
    limit = lambda num: numbers.append(num) or nullcontext()
    monkeypatch.setattr(threads, "blas_threads", limit)
    return numbers


def worked(trial, asked, seconds, times):
    """Which numbers of threads so many pieces of work had, that take `seconds[threads]` each."""
    asked.clear()
    for _ in range(times):
        with trial.blas_threads():
            trial.took(seconds[asked[-1]])
    return list(asked)


def test_all_cores_are_taken_where_they_are_faster(asked):
    had = worked(ThreadTrial(True), asked, {2: 1.0, 4: 0.6}, 20)
    assert had[:4] == [2, 2, 4, 2]  # a trial, beside what comes before and after it
    assert had[4:].count(4) > 12


def test_a_trial_that_costs_makes_trials_rarer(asked):
    had = worked(ThreadTrial(True), asked, {2: 1.0, 4: 3.0}, 100)
    trials = [i for i, num in enumerate(had) if num == 4]
    assert 3 <= len(trials) <= 6
    assert sorted(gaps := [b - a for a, b in itertools.pairwise(trials)]) == gaps


def test_work_that_grows_meanwhile_decides_nothing(asked):
    """Neither for all cores, whose piece was the first large one, nor against them."""
    trial = ThreadTrial(True)
    worked(trial, asked, {2: 1.0}, 2)
    worked(trial, asked, {4: 1.5}, 1)
    worked(trial, asked, {2: 2.0}, 1)
    assert trial.num == 2
    assert trial.wait == ThreadTrial.FIRST


def test_what_must_come_out_the_same_again_has_no_trials(asked):
    assert set(worked(ThreadTrial(False), asked, {2: 1.0, 4: 0.1}, 30)) == {2}


def test_a_single_core_has_nothing_to_try(asked, monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda: 1)
    assert set(worked(ThreadTrial(True), asked, {1: 1.0}, 30)) == {1}
