"""The measures of one solve, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers.benchmark import distance, primal_gap, primal_integral
from solvers.benchmark.table import time_to_incumbent, time_to_proof
from tests.thoroughly import tried

TRACE = [(0.5, None, 20.0), (1.0, 5.0, 20.0), (2.0, 8.0, 16.0), (4.0, 10.0, 16.0), (5.0, 10.0, 10.0)]


def test_primal_gap_is_berthold_s():
    assert primal_gap(None, 10.0) == 1.0
    assert primal_gap(10.0, 10.0) == primal_gap(0.0, 0.0) == 0.0
    assert primal_gap(5.0, 10.0) == primal_gap(20.0, 10.0) == 0.5
    assert primal_gap(-1.0, 10.0) == 1.0
    assert primal_gap(0.0, 10.0) == 1.0
    assert primal_gap(-5.0, -10.0) == 0.5


def test_primal_integral_adds_up_the_steps():
    # 1 s without a decision, 1 s at 5 of 10, 2 s at 8 of 10, then the best.
    assert primal_integral(TRACE, 10.0, 10.0) == pytest.approx(1 + 0.5 + 2 * 0.2)
    assert primal_integral(TRACE, 10.0, 3.0) == pytest.approx(1 + 0.5 + 0.2)
    assert primal_integral(TRACE, 10.0, 0.25) == 0.25
    assert primal_integral([], 10.0, 3.0) == 3.0


@tried(
    25,
    100,
    st.lists(st.tuples(st.floats(0, 20), st.none() | st.floats(-10, 10)), max_size=8),
    st.floats(-10, 10),
    st.floats(0.1, 20),
)
def test_primal_integral_is_a_riemann_sum(steps, best, end):
    trace = [(second, value, None) for second, value in sorted(steps, key=lambda step: step[0])]
    seconds = (np.arange(4000) + 0.5) * end / 4000
    held = [[None, *(value for _, value, _ in trace)][sum(step[0] <= t for step in trace)] for t in seconds[::40]]
    total = np.mean([primal_gap(value, best) for value in held]) * end
    assert primal_integral(trace, best, end) == pytest.approx(total, abs=end * (len(trace) + 1) * 0.02)


def test_times():
    assert time_to_incumbent(TRACE) == 4.0
    assert time_to_proof(TRACE, 1e-6) == 5.0
    assert time_to_proof(TRACE[:4], 1e-6) != time_to_proof(TRACE[:4], 1e-6)  # NaN
    assert math.isnan(time_to_incumbent(TRACE[:1]))


def test_distance_is_relative_to_the_best_value():
    assert distance(8.0, 10.0) == 0.2
    assert distance(0.3, 0.2) == pytest.approx(0.5)
    assert distance(3e-9, 2e-9) == pytest.approx(0.5)
    assert distance(-0.1, 0.2) == pytest.approx(1.5)
    assert distance(0.0, 0.0) == 0.0
    assert distance(0.5, 0.0) == math.inf
