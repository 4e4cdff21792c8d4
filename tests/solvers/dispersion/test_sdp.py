"""The semidefinite relaxations: safe, ordered by strength, and of one opinion whoever solves them."""

from __future__ import annotations

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


@pytest.mark.parametrize("strength", ["basic", "nonnegative", "triangle"])
def test_an_inaccurate_solver_cannot_make_it_wrong(strength):
    """A first-order solver at its loose default, from CVXPY."""
    for seed in range(3):
        problem = uniform_problem(12, 4, seed, weight=1.0)
        truth = solve(problem, "brute-force")
        found = solve(problem, "sdp", strength=strength, engine="cvxpy")
        assert truth.objective <= found.bound <= truth.objective + 0.5 * abs(truth.objective)


def test_strength_and_engines_agree():
    problem = uniform_problem(30, 6, 1)
    own = {s: solve(problem, "sdp", strength=s).bound for s in ("basic", "nonnegative")}
    cvxpy = {s: solve(problem, "sdp", strength=s, engine="cvxpy").bound for s in ("basic", "nonnegative", "triangle")}
    assert own["nonnegative"] < own["basic"]
    assert own["basic"] == pytest.approx(cvxpy["basic"], rel=2e-3)
    assert own["nonnegative"] == pytest.approx(cvxpy["nonnegative"], rel=5e-3)
    assert cvxpy["triangle"] <= cvxpy["nonnegative"] + 1e-6


def test_stops_early_and_stays_safe():
    problem = uniform_problem(150, 20, 1)
    best = solve(problem, "tabu", moves=5_000).objective
    assert solve(problem, "sdp", time_limit=0.01).bound >= best


def test_options_are_checked():
    problem = uniform_problem(8, 3)
    for options in ({"strength": "huge"}, {"engine": "abacus"}, {"accuracy": 0.0}, {"strength": "triangle"}):
        with pytest.raises(InvalidOption):
            solve(problem, "sdp", **options)
