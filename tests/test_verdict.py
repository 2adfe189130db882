"""Solved or not: what a training says of itself."""

import itertools
import json
import warnings

import numpy as np
import pytest

import lcpinn as lc
from lcpinn.certificate import Estimate
from lcpinn.verdict import Verdict, check_tolerance, from_estimates, settings_of, worst


def first(prior, num):
    return np.array(list(itertools.islice(settings_of(prior), num)))


def test_settings_begin_with_the_ends_and_fill_the_range():
    values = first(lc.Uniform(k=(1.0, 9.0)), 9)[:, 0]
    np.testing.assert_allclose(values, [1, 9, 5, 3, 7, 2, 6, 4, 8])


def test_settings_follow_the_measure_of_the_prior():
    values = first(lc.LogUniform(nu=(1e-4, 1.0)), 5)[:, 0]
    np.testing.assert_allclose(values, [1e-4, 1, 1e-2, 1e-3, 1e-1])


def test_settings_of_several_coefficients():
    prior = lc.Uniform(a=(0.0, 1.0), b=(2.0, 4.0))
    values = first(prior, 40)
    assert {tuple(v) for v in values[:4]} == {(0, 2), (0, 4), (1, 2), (1, 4)}
    np.testing.assert_allclose(values[4], [0.5, 3.0])
    assert len(np.unique(values, axis=0)) == 40
    assert np.all(prior.contains(values))
    # A quarter of the range has about a quarter of the rest.
    assert 6 <= np.sum(values[5:, 0] < 0.25) <= 12
    many = lc.Uniform(**{f"c{i}": (0.0, 1.0) for i in range(8)})
    np.testing.assert_allclose(first(many, 1)[0], 0.5)


def test_a_coefficient_that_is_held_stays():
    prior = lc.Uniform(a=(0.0, 1.0), b=(2.0, 4.0)).at(a=0.25)
    np.testing.assert_allclose(first(prior, 3), [[0.25, 2], [0.25, 4], [0.25, 3]])
    assert len(first(prior.at(b=3.0), 5)) == 1


def estimates(*errors):
    reason = lambda e: "a front" if np.isnan(e) else ""
    return [Estimate(e, reason(e), {"k": float(i)}) for i, e in enumerate(errors)]


def test_solved_where_every_estimate_is_within_the_tolerance():
    verdict = from_estimates(estimates(1e-8, 3e-7, 1e-9), 1e-6)
    assert verdict.solved is True
    assert (verdict.error, verdict.at, verdict.tolerance) == (3e-7, {"k": 1.0}, 1e-6)
    assert verdict.settings == 3
    assert str(verdict) == (
        "solved: the largest estimated error is 3.0e-07 at k = 1 (3 settings, tolerance 1e-06)"
    )


def test_not_solved_where_one_is_above():
    verdict = from_estimates(estimates(1e-8, 3e-5, np.nan), 1e-6)
    assert verdict.solved is False
    assert (verdict.error, verdict.at) == (3e-5, {"k": 1.0})
    assert "3.0e-05 at k = 1, above 1e-06" in str(verdict)


def test_nothing_can_be_said_where_one_is_not_known():
    verdict = from_estimates(estimates(1e-8, np.nan), 1e-6)
    assert verdict.solved is None
    assert verdict.error == 1e-8
    assert "cannot be estimated at k = 1: a front" in verdict.reason
    assert from_estimates(estimates(np.nan), 1e-6).error is None


def test_the_worst_is_unknown_if_one_is():
    assert worst(estimates(1.0, 3.0, 2.0)).error == 3.0
    assert worst(estimates(1.0, np.nan, 2.0)).reason == "a front"


def test_a_verdict_travels_as_json():
    verdict = from_estimates(estimates(1e-8, 3e-7), 1e-6)
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    with pytest.raises(lc.LcpinnError, match="no verdict"):
        Verdict.from_json({"solved": True, "guess": 1})


@pytest.mark.parametrize("bad", [0.0, -1e-3, np.inf, np.nan, "1e-6", True])
def test_a_tolerance_is_a_positive_number(bad):
    with pytest.raises(lc.LcpinnError, match="tolerance is a"):
        check_tolerance(bad)
