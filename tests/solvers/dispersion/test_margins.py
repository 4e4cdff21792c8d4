"""One client, all clients, all but one: the answer is known, and the bound beside it holds in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import solve
from solvers.dispersion import DispersionProblem
from tests.thoroughly import tried

OURS = ["auto", "branch-and-bound", "brute-force", "sdp", "milp", "cp-sat"]


def problem_of(seed: int, size_from_n: int | None) -> DispersionProblem:
    """Entries over many orders of magnitude; ``size_from_n`` clients are left out, ``None``: all but one are."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    upper = np.triu(rng.random((n, n)) * 10.0 ** rng.integers(-12, 9, (n, n)), 1)
    costs = rng.standard_normal(n) * 10.0 ** rng.integers(-6, 3)
    return DispersionProblem(
        upper + upper.T, costs, size=1 if size_from_n is None else n - size_from_n, weight=rng.random()
    )


def exact(problem: DispersionProblem, x: np.ndarray) -> Fraction:
    chosen = np.flatnonzero(x)
    pairs = sum(Fraction(each) for each in problem.distances[np.ix_(chosen, chosen)].ravel().tolist())
    return Fraction(problem.weight) * pairs - sum(Fraction(each) for each in problem.costs[chosen].tolist())


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize("seed", range(5))
def test_one_client_has_no_gap_however_far_the_others_are(method, seed):
    """Distances that no selection of one client uses, up to 1e9 of them, once stood in the bound as rounding."""
    problem = problem_of(seed, None)
    found = solve(problem, method)
    assert found.bound == found.objective == -problem.costs.min()
    assert found.gap == 0.0
    assert found.status == "optimal"


@tried(40, 200, st.integers(0, 2**32 - 1))
def test_one_client_by_the_tree(seed):
    problem = problem_of(seed, None)
    found = solve(problem, "branch-and-bound")
    assert found.bound == found.objective == -problem.costs.min()


@tried(40, 200, st.integers(0, 2**32 - 1), st.sampled_from([0, 1]), st.sampled_from(["branch-and-bound", "auto"]))
def test_no_bound_below_the_exact_value(seed, left_out, method):
    problem = problem_of(seed, left_out)
    decisions = np.ones((1, problem.n)) if left_out == 0 else 1 - np.eye(problem.n)
    best = max(exact(problem, x) for x in decisions)
    found = solve(problem, method)
    assert Fraction(found.bound) >= best
    assert found.status == "optimal"


def test_all_clients_once_had_a_bound_a_unit_too_low(asserted):
    """A case where the evaluation rounds down: its value is no bound, and the bound is not the value."""
    rounded_down = asserted(at_least=10)
    for seed in range(200):
        problem = problem_of(seed, 0)
        found = solve(problem, "branch-and-bound")
        if Fraction(found.objective) < exact(problem, np.ones(problem.n)):
            assert Fraction(found.bound) >= exact(problem, np.ones(problem.n))
            rounded_down()
