"""Statistics of few runs, against numbers worked out by hand and SciPy's tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedselect.errors import ConfigError
from fedselect.statistics import compare_means, half_width

FOUR = [1.0, 2.0, 3.0, 4.0]  # mean 2.5, deviation sqrt(5/3)


def test_intervals_by_hand():
    t = 3.182446305284263  # Student's, 3 degrees of freedom, 97.5 %
    assert half_width(FOUR) == pytest.approx(t * math.sqrt(5 / 3) / 2)
    assert half_width([*FOUR, math.nan]) == half_width(FOUR)
    assert half_width(FOUR, runs=3) == pytest.approx(t * math.sqrt(5 / 3) * math.sqrt(1 / 4 + 1 / 3))
    assert half_width(FOUR, 0.9) == pytest.approx(2.353363434801 * math.sqrt(5 / 3) / 2)
    assert half_width([1.0]) == math.inf
    assert math.isnan(half_width([]))


@pytest.mark.parametrize("number", [2.4, 2.0, 4.5])
def test_equivalence_is_the_larger_of_two_one_sided_tests(number):
    values, margin = np.array([2.41, 2.48, 2.39, 2.52, 2.44]), 0.3
    found = compare_means(values, number, margin=margin)
    low = stats.ttest_1samp(values, number - margin, alternative="greater").pvalue
    high = stats.ttest_1samp(values, number + margin, alternative="less").pvalue
    assert found.p_equivalent == pytest.approx(max(low, high))
    assert found.p == pytest.approx(stats.ttest_1samp(values, number).pvalue)
    inside = abs(found.difference) + half_width(values, 0.9) < margin  # the 90 % interval lies within the margin
    assert (found.verdict == "agrees") == inside


@pytest.mark.parametrize(
    ("values", "number", "margin", "runs", "verdict"),
    [
        ([0.001, -0.001, 0.0002], 0.0, 0.01, None, "agrees"),
        ([0.0, 0.0, 0.0], 0.0, 0.01, None, "agrees"),
        ([2.0, 2.0, 2.0], 0.0, 0.01, None, "higher"),
        ([1.0, 1.1, 0.9], 2.0, 0.1, None, "lower"),
        ([1.0, 1.4, 0.6], 1.1, 0.1, None, "inconclusive"),
        ([1.0, 1.0], 1.0, 0.1, None, "too few"),
        ([1.0, 1.01, 0.99, 1.0], 1.03, 0.01, None, "higher lower"),
        ([1.0, 1.02, 0.98, 1.0], 1.03, 0.01, 1, "inconclusive"),  # one run of the paper's may well be there
        ([1.0, 2.0, 3.0], math.nan, 0.1, None, ""),
        ([], 1.0, 0.1, None, ""),
    ],
)
def test_verdicts(values, number, margin, runs, verdict):
    assert compare_means(values, number, margin=margin, runs=runs).verdict in (verdict, *verdict.split())


def test_a_margin_is_positive():
    with pytest.raises(ConfigError, match=r"margin must be positive.*got 0"):
        compare_means(FOUR, 1.0, margin=0)


def test_an_interval_of_prediction_holds_the_mean_of_further_runs():
    """95 % of the means of three further runs; the interval of the mean itself holds far fewer."""
    rng = np.random.default_rng(0)
    ours, theirs = rng.standard_normal((600, 5)), rng.standard_normal((600, 3)).mean(axis=1)
    distance = np.abs(ours.mean(axis=1) - theirs)
    assert (distance <= [half_width(each, runs=3) for each in ours]).mean() == pytest.approx(0.95, abs=0.03)
    assert (distance <= [half_width(each) for each in ours]).mean() < 0.9
