"""The swap heuristics."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem, read_mdplib
from tests.solvers.dispersion.cases import MDPLIB, mdplib, needs_mdplib, random_problem, uniform_problem

HEURISTICS = ["greedy", "local-search", "tabu", "memetic", "annealing", "random"]


@pytest.mark.parametrize("method", HEURISTICS)
def test_always_feasible_never_above_the_optimum(method):
    rng = np.random.default_rng(1)
    for _ in range(40):
        problem = random_problem(rng)
        truth = solve(problem, "brute-force")
        short = {"tabu": {"moves": 2_000}, "annealing": {"moves": 2_000}, "memetic": {"generations": 10}}
        found = solve(problem, method, seed=1, **short.get(method, {}))
        assert problem.violation(found.x) == 0
        assert found.objective <= truth.objective + 4 * problem.rounding


def test_tabu_finds_every_small_optimum():
    rng = np.random.default_rng(2)
    for _ in range(150):
        problem = random_problem(rng)
        truth = solve(problem, "brute-force")
        found = solve(problem, "tabu", moves=3_000)
        assert found.objective >= truth.objective - 4 * problem.rounding - 1e-9 * problem.scale


@pytest.mark.parametrize("method", ["tabu", "annealing", "random"])
def test_seed_repeats(method):
    problem = uniform_problem(80, 12)
    options = {"random": {"draws": 5}}.get(method, {"moves": 3_000})
    first, second = (solve(problem, method, seed=4, **options) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)


def test_never_worse_than_the_start():
    problem = uniform_problem(50, 10)
    start = solve(problem, "tabu", moves=5_000).x
    for method in HEURISTICS:
        assert solve(problem, method, start=start).objective >= problem.objective(start)


def test_single_precision_distances():
    problem = uniform_problem(60, 10)
    single = DispersionProblem(problem.distances.astype(np.float32), problem.costs, size=10, weight=problem.weight)
    found = solve(single, "tabu", moves=5_000)
    assert found.objective == pytest.approx(solve(problem, "tabu", moves=5_000).objective, rel=1e-5)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("tabu", {"moves": -1}),
        ("tabu", {"patience": 0}),
        ("annealing", {"moves": -1}),
        ("annealing", {"hot": 0.1, "cold": 0.2}),
        ("random", {"draws": 0}),
    ],
)
def test_options_are_checked(method, options):
    with pytest.raises(InvalidOption):
        solve(uniform_problem(10, 3), method, **options)


@needs_mdplib
@pytest.mark.parametrize(("name", "size", "best"), mdplib())
def test_best_known(name, size, best):
    problem = read_mdplib(f"{MDPLIB}/{name}.txt", size=size)
    found = solve(problem, "tabu", moves=400_000, time_limit=60)
    assert found.objective >= best - 2e-2
