"""Greedy and local search: what they promise, on instances small enough to enumerate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.neighbourhood import ascend, random_decision
from tests.solvers.dispersion.instances import KINDS, naive_optimum, problems, random_problem
from tests.thoroughly import tried


@tried(25, 100, problems(), st.integers(0, 2**31))
def test_ascent_ends_where_no_swap_improves(problem, seed):
    start = random_decision(problem, np.random.default_rng(seed))
    x = ascend(problem, start)
    value = problem.objective(x)
    assert value >= problem.objective(start) - 1e-9
    for a in np.flatnonzero(x):
        for b in np.flatnonzero(x == 0):
            y = x.copy()
            y[a], y[b] = 0, 1
            assert problem.objective(y) <= value + 1e-9 * (1 + problem.scale)


@tried(25, 100, problems())
def test_heuristics_never_beat_the_optimum_and_claim_no_bound(problem):
    optimum = naive_optimum(problem)
    for name in ("greedy", "local-search"):
        solution = solve(problem, name)
        assert solution.objective <= optimum + 1e-9 * (1 + abs(optimum))
        assert solution.bound is None
        assert solution.x.sum() == problem.size


@pytest.mark.parametrize("hot", [np.inf, 1e-5])
def test_annealing_wants_finite_temperatures_that_fall(hot):
    with pytest.raises(InvalidOption, match="must be finite and satisfy initial >= final > 0"):
        solve(DispersionProblem(1 - np.eye(4), size=2), "annealing", initial_temperature=hot)


def test_greedy_by_hand():
    """Costs pick client 1 first; then the gain 2·w·d − c picks 3 (2·5 − 4) before 2 (2·1 − 0) and 0 (2·2 − 1)."""
    distances = np.array([[0, 2, 0, 0], [2, 0, 1, 5], [0, 1, 0, 0], [0, 5, 0, 0]], dtype=float)
    problem = DispersionProblem(distances, costs=[1.0, -1.0, 0.0, 4.0], size=2)
    assert solve(problem, "greedy").selected.tolist() == [1, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_local_search_with_restarts_finds_the_optimum_of_small_instances(kind):
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(20):
        problem = random_problem(rng, 10, 4, kind)
        hits += solve(problem, "local-search").objective >= naive_optimum(problem) - 1e-9
    assert hits == 20


def test_same_seed_same_run():
    problem = random_problem(np.random.default_rng(1), 60, 12)
    first, second = (solve(problem, "local-search", seed=4, restarts=3) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert [p.objective for p in first.trace] == [p.objective for p in second.trace]


def test_local_search_starts_from_the_start():
    problem = random_problem(np.random.default_rng(2), 30, 8)
    best = solve(problem, "local-search", restarts=50)
    again = solve(problem, "local-search", restarts=0, start=best.x)
    assert again.objective == best.objective


def test_negative_restarts_are_refused():
    with pytest.raises(InvalidOption, match="'restarts' must be an integer, at least 0; got -1"):
        solve(random_problem(np.random.default_rng(0), 5, 2), "local-search", restarts=-1)


def test_time_limit_ends_endless_restarts():
    problem = random_problem(np.random.default_rng(0), 200, 40)
    solution = solve(problem, "local-search", restarts=10**9, time_limit=0.3)
    assert (solution.status, solution.stopped) == ("feasible", "time-limit")
