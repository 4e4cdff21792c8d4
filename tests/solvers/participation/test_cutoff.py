"""The cutoff problem: exact enumeration and Corollary 4's rule."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

import solvers
from solvers import InvalidProblem, methods, solve
from solvers.participation import CutoffProblem
from tests.thoroughly import tried


def bound_of_theorem_3(k, rates, horizon):
    return k * math.log(horizon) / horizon + sum((1 - p) ** (2 * k) for p in rates) / len(rates)


@pytest.mark.parametrize(("rate", "horizon", "cutoff"), [(0.02, 2000, 189), (0.02, 10_000, 228), (0.1, 10_000, 44)])
def test_corollary_4_table(rate, horizon, cutoff):
    """The reference's examples, and the rule's purpose: (1 − p)^(2K) ≤ 1/T, for the first time at K."""
    problem = CutoffProblem([0.9, rate, 1.0], horizon)
    solution = solve(problem, "corollary")
    assert solution.x == cutoff
    assert solution.status == "feasible"
    assert (1 - rate) ** (2 * cutoff) <= 1 / horizon < (1 - rate) ** (2 * (cutoff - 1))


def test_corollary_4_at_the_edges():
    assert solve(CutoffProblem([1.0], 100), "corollary").x == 1
    assert solve(CutoffProblem([0.999999], 2), "corollary").x == 1
    assert solve(CutoffProblem([1 - math.sqrt(0.1)], 10_000), "corollary").x == 4  # log₁₀ 10⁴ exactly


@tried(40, 200, st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6), st.integers(2, 400))
def test_enumerate_is_the_best_of_all(rates, horizon):
    problem = CutoffProblem(rates, horizon)
    values = [bound_of_theorem_3(k, rates, horizon) for k in range(1, 2 * horizon)]
    for method in ("enumerate", "auto"):
        solution = solve(problem, method)
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(min(values), rel=1e-12)
        assert solution.bound <= min(values) * (1 + 1e-15)


def test_time_limit_keeps_a_cutoff_and_a_bound():
    problem = CutoffProblem(np.random.default_rng(0).uniform(0.001, 0.01, 20_000), 10**6)
    solution, best = solve(problem, "enumerate", time_limit=1e-6), solve(problem)
    assert solution.stopped == "time-limit"
    assert solution.x >= 1
    assert solution.bound <= best.objective <= solution.objective


def test_file_and_methods(tmp_path):
    problem = CutoffProblem([0.1, 0.5], 100)
    assert solve(solvers.load(problem.save(tmp_path / "k.npz"))).objective == solve(problem).objective
    assert [m.name for m in methods(CutoffProblem)] == ["auto", "enumerate", "corollary"]


@pytest.mark.parametrize(
    ("rates", "horizon", "sentence"),
    [
        ([], 10, "rates is empty"),
        ([0.0], 10, r"rates must be positive and at most 1; client 0 has 0"),
        ([0.5, 1.5], 10, "client 1 has 1.5"),
        ([np.nan], 10, "rates must be finite"),
        ([0.5], 1, "horizon must be an integer of at least 2; got 1"),
        ([0.5], 10.5, "horizon must be an integer"),
        ([0.5], 10**400, r"horizon must be at most 10\^15"),
    ],
)
def test_bad_data_is_a_sentence(rates, horizon, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        CutoffProblem(rates, horizon)


@pytest.mark.parametrize("rate", [1e-20, 1e-300, 5e-324])
def test_rates_that_are_hardly_above_0_are_solved(rate):
    """Corollary 4's cutoff is beyond 2^62 there, which no decision is."""
    problem = CutoffProblem([rate], 100)
    assert solve(problem).x == 1
    assert solve(problem, "corollary").x == 2**61


def test_bad_decisions():
    problem = CutoffProblem([0.5], 10)
    assert problem.violation(0) == 1.0
    assert CutoffProblem([0.5, 1.0], 10).objective(0) == 1.0
    with pytest.raises(ValueError, match=r"must be an integer below 2\^62; got 1\.5"):
        problem.objective(1.5)
    with pytest.raises(ValueError, match="single number"):
        problem.objective([1, 2])
    for other in (None, {}, 3 + 0j, "3", 2**70, 2.0**70, np.nan, -np.inf):
        with pytest.raises(ValueError, match="x must be"):
            problem.objective(other)
