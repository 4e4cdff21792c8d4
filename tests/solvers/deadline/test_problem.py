"""The deadline problem: exact times, order of uploads, FedCS's recursion, sentences."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from solvers import InvalidProblem, load
from solvers.deadline import DeadlineProblem


def finish(problem, order):
    """FedCS's recursion in fractions: Θ ← max(Θ, r) + u."""
    elapsed = None
    for k in order:
        ready = Fraction(problem.ready[k])
        elapsed = (ready if elapsed is None else max(elapsed, ready)) + Fraction(problem.upload[k])
    return elapsed


def test_uploads_go_in_the_order_of_readiness_and_ties_by_id():
    problem = DeadlineProblem([3, 0, 3, 1], [1, 2, 1, 4], 9)
    assert problem.order([1, 1, 1, 1]).tolist() == [1, 3, 0, 2]
    assert problem.finish_times([1, 1, 1, 1]).tolist() == [2, 6, 7, 8]
    assert problem.finish_times([0, 0, 0, 0]).tolist() == []
    assert problem.violation([1, 1, 1, 1]) == 0
    assert problem.selected([0, 1, 0, 1]).tolist() == [1, 3]


def test_times_are_exact():
    """Three tenths as binary numbers are a little more than the binary number 0.3."""
    tenths = DeadlineProblem([0, 0, 0], [0.1, 0.1, 0.1], 0.3)
    assert 0 < tenths.violation([1, 1, 1]) < 1e-16
    assert tenths.violation([1, 1, 0]) == 0
    assert DeadlineProblem([0, 0, 0], [1, 1, 1], 3).violation([1, 1, 1]) == 0
    wide = DeadlineProblem([0, 0], [1e-300, 1e300], 1e300)
    assert wide.violation([1, 1]) > 0
    assert wide.violation([0, 1]) == 0


def test_violation_is_the_exact_lateness():
    rng = np.random.default_rng(0)
    late = 0
    for case in range(300):
        n = int(rng.integers(1, 7))
        problem = DeadlineProblem(rng.normal(0, 3, n), rng.exponential(2, n), float(rng.normal(3, 3)))
        x = rng.integers(0, 2, n)
        end = finish(problem, problem.order(x).tolist())
        beyond = Fraction(0) if end is None else max(Fraction(0), end - Fraction(problem.deadline))
        assert problem.violation(x) == float(beyond), case
        late += beyond > 0
    assert 50 < late < 250


def test_no_order_ends_sooner():
    rng = np.random.default_rng(1)
    for _ in range(100):
        problem = DeadlineProblem(rng.uniform(0, 9, 6), rng.uniform(0, 3, 6), 100.0)
        everybody = np.ones(6, dtype=int)
        best = finish(problem, problem.order(everybody).tolist())
        assert all(finish(problem, rng.permutation(6).tolist()) >= best for _ in range(20))
        assert problem.finish_times(everybody)[-1] == float(best)


def test_single_precision_keeps_its_values():
    ready = np.array([0.1, 0.7], dtype=np.float32)
    problem = DeadlineProblem(ready, ready, 1.5)
    assert problem.ready.tolist() == [float(value) for value in ready]


def test_saved_and_loaded(tmp_path):
    for values in (None, [1.0, 2.5]):
        problem = DeadlineProblem([0.1, 1], [2, 3], 4.7, values)
        again = load(problem.save(tmp_path / "problem.npz"))
        assert isinstance(again, DeadlineProblem)
        assert again.whole == problem.whole
        assert again.objective([1, 1]) == problem.objective([1, 1])
        assert (again.values is None) == (values is None)


def test_values_are_added_with_one_rounding():
    values = [1e16, 1.0, 1.0, 1.0]
    assert DeadlineProblem(np.zeros(4), np.zeros(4), 1, values).objective([1, 1, 1, 1]) == math.fsum(values)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (([], [], 1.0), "ready is empty; there must be at least one client"),
        (([1.0], [1.0, 2.0], 1.0), "upload must have one entry per client, 1; got 2"),
        (([1.0, 1.0], [1.0, -2.0], 1.0), "upload must be non-negative; client 1 has -2"),
        (([1.0], [math.inf], 1.0), "upload must be finite; entry 0 is inf"),
        (([math.nan], [1.0], 1.0), "ready must be finite; entry 0 is nan"),
        (([1.0], [1.0], math.inf), "deadline must be finite; got inf"),
        (([1.0], [1.0], "soon"), "deadline must be finite; got 'soon'"),
        (([1.0], [1.0], 1.0, [-1.0]), "values must be non-negative; client 0 has -1"),
        (([1.0], [1.0], 1.0, [1.0, 2.0]), "values must have one entry per client, 1; got 2"),
        (([1.0, 1.0], [1.0, 1.0], 1.0, [1e308, 1e308]), "overflow; rescale them"),
        (([1e308], [1e308], 1.0), "state them in a larger unit"),
    ],
)
def test_bad_data_are_sentences(fields, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        DeadlineProblem(*fields)
