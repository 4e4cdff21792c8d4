"""Gaps are relative, as MIP solvers state them, in every unit of the data."""

import math

import numpy as np
import pytest

from solvers import Solution, relative_gap, solve
from solvers.allocation import AllocationProblem
from solvers.benchmark import run_benchmark
from solvers.dispersion import DispersionProblem
from solvers.solution import proves


def points(rng, n=9, unit=1.0):
    place = rng.random((n, 2))
    distances = np.linalg.norm(place[:, None] - place[None], axis=-1)
    return DispersionProblem(unit * distances, unit * rng.random(n), size=3)


def with_bound(problem, x, bound):
    return Solution(problem, "own", x, problem.objective(x), bound, "feasible", "iterations")


@pytest.mark.parametrize("unit", [1.0, 1e-7, 1e7])
def test_the_unit_of_the_data_does_not_change_the_gap(unit):
    problem = points(np.random.default_rng(0), unit=unit)
    x = np.zeros(problem.n, dtype=np.int8)
    x[:3] = 1
    value = problem.objective(x)
    solution = with_bound(problem, x, value + 0.015 * abs(value))
    assert solution.gap == pytest.approx(0.015)
    assert solution.absolute_gap == pytest.approx(0.015 * abs(value))


def test_gap_at_zero():
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(0.0, 1e-300) == math.inf
    assert relative_gap(-0.5, 0.5) == 2.0
    assert relative_gap(1e-300, 1e-300) == 0.0


def test_nothing_known_is_no_gap():
    problem = points(np.random.default_rng(0))
    assert with_bound(problem, np.eye(problem.n, dtype=np.int8)[:3].sum(0), None).absolute_gap is None


def test_a_proof_keeps_its_safe_measure_where_the_objective_crosses_zero():
    """Costs of about the same amount as the distances: the best value is a small difference of large terms."""
    distances = 1e3 * (np.ones((4, 4)) - np.eye(4))
    costs = np.full(4, 1e3 - 1e-9)
    problem = DispersionProblem(distances, costs, size=2)
    solution = solve(problem, "branch-and-bound")
    assert abs(solution.objective) < 1e-5
    assert solution.status == "optimal"
    assert proves(problem, solution.objective, solution.objective + 5e-7)


def test_a_comparison_measures_as_solutions_do(tmp_path):
    problem = AllocationProblem(sizes=np.array([5, 6, 7]), deviations=1e-3 * np.array([1.0, 2.0, 3.0]), total=6)
    row = run_benchmark(["proportional", "greedy"], {"groups": problem}, out=tmp_path).table.iloc[0]
    best = solve(problem, "greedy").objective
    found = solve(problem, "proportional").objective
    assert best < 1
    assert row["gap_to_best"] == pytest.approx((found - best) / best)
