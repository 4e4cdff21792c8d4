"""Comparisons under paired seeds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from comparison import baseline_values, holm
from fedselect.statistics import half_width
from tests.thoroughly import tried


@tried(25, 100, st.lists(st.integers(-1000, 1000), min_size=2, max_size=9).filter(lambda values: len(set(values)) > 1))
def test_the_interval_is_that_of_students_t(values):
    low, high = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert half_width(pd.Series(values, dtype=float)) == pytest.approx((high - low) / 2)
    assert half_width(pd.Series([*values, math.nan])) == pytest.approx((high - low) / 2)


def test_one_number_says_nothing_of_the_others():
    assert half_width(pd.Series([3.0, math.nan])) == math.inf
    assert math.isnan(half_width(pd.Series([], dtype=float)))
    assert half_width(pd.Series([2.0, 2.0])) == 0.0


def test_a_row_meets_its_baseline_in_its_own_setting_and_seed():
    rows = pd.DataFrame(
        [
            ("iid", 0, "new", 10.0),
            ("iid", 0, "old", 30.0),
            ("iid", 1, "old", 50.0),
            ("iid", 1, "new", 20.0),
            ("non-iid", 0, "new", 40.0),
        ],
        columns=["split", "seed", "method", "rounds"],
        index=[7, 7, 1, 2, 3],  # labels do not matter
    )
    found = baseline_values(rows, "method", "old", ["split", "seed"], "rounds")
    np.testing.assert_array_equal(found, [30, 30, 50, 50, np.nan])


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, math.nan, 0.03, 0.005]), [0.03, 0.06, math.nan, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.6, 0.7]), [1.0, 1.0])
    assert holm([]).shape == (0,)
