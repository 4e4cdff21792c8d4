"""The semidefinite relaxations: safe, ordered by strength, and of the values that another solver finds."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from solvers import InvalidOption, solve
from tests.solvers.dispersion.cases import random_problem, uniform_problem


@pytest.mark.parametrize("strength", ["basic", "nonnegative"])
def test_never_below_the_optimum(strength):
    rng = np.random.default_rng(3)
    for _ in range(150):
        problem = random_problem(rng, 10)
        truth = solve(problem, "brute-force")
        found = solve(problem, "sdp", strength=strength)
        assert found.bound >= truth.objective - 4 * problem.rounding


@pytest.mark.parametrize("strength", ["basic", "nonnegative"])
def test_inaccurate_multipliers_cannot_make_it_wrong(strength):
    for seed in range(3):
        problem = uniform_problem(12, 4, seed, weight=1.0)
        truth = solve(problem, "brute-force")
        found = solve(problem, "sdp", strength=strength, accuracy=0.3)
        assert truth.objective <= found.bound <= truth.objective + 0.5 * abs(truth.objective)


def by_cvxpy(problem, strength):
    """The value of the relaxation as the documentation states it, by SCS."""
    products, x = cp.Variable((problem.n, problem.n), symmetric=True), cp.Variable(problem.n)
    row = cp.reshape(x, (1, problem.n), order="C")
    constraints = [cp.bmat([[np.ones((1, 1)), row], [row.T, products]]) >> 0, cp.diag(products) == x]
    constraints += [cp.sum(x) == problem.size, cp.sum(products, 1) == problem.size * x]
    if strength == "nonnegative":
        constraints.append(products >= 0)
    gains = cp.sum(cp.multiply(problem.weight * problem.distances, products)) - problem.costs @ x
    return cp.Problem(cp.Maximize(gains), constraints).solve(solver="SCS", eps=1e-5)


def test_strengths_are_what_they_say():
    """Nearly the relaxations' values, which another solver finds from their statement."""
    problem = uniform_problem(20, 6, 1)
    found = {strength: solve(problem, "sdp", strength=strength).bound for strength in ("basic", "nonnegative")}
    assert found["nonnegative"] < found["basic"]
    for strength, bound in found.items():
        assert bound == pytest.approx(by_cvxpy(problem, strength), rel=2e-3)


def test_stops_early_and_stays_safe():
    problem = uniform_problem(150, 20, 1)
    best = solve(problem, "tabu", moves=5_000).objective
    assert solve(problem, "sdp", time_limit=0.01).bound >= best


def test_options_are_checked():
    problem = uniform_problem(8, 3)
    for options in ({"strength": "huge"}, {"engine": "cvxpy"}, {"accuracy": 0.0}, {"strength": "triangle"}):
        with pytest.raises(InvalidOption):
            solve(problem, "sdp", **options)
