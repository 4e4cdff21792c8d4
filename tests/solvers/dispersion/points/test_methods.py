"""The methods for points: optimal against enumeration, bounds on the right side, and what happens at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import methods, solve
from solvers.dispersion import PointDispersionProblem
from solvers.dispersion.relaxations.points import PointRelaxation
from solvers.feasible_set import ONE, ZERO
from solvers.run import Run
from tests.solvers.dispersion.points.cases import random_points
from tests.solvers.dispersion.test_line import on_a_line
from tests.thoroughly import few_of


def _optimum(problem):
    return solve(problem.expanded(), "brute-force").objective


@pytest.mark.parametrize("method", ["auto", "branch-and-bound", "brute-force"])
@pytest.mark.parametrize("cases", few_of([100, 400], 1))
def test_exact_methods_find_the_optimum_of_the_matrix(method, cases):
    rng = np.random.default_rng(0)
    for _ in range(cases):
        problem = random_points(rng)
        best = _optimum(problem)
        solution = solve(problem, method)
        assert solution.status == "optimal", (solution, problem)
        assert solution.objective >= best - 2e-6 * min(max(1, abs(best)), problem.scale)
        assert solution.objective <= best + 2 * problem.rounding
        assert solution.bound >= best - 2 * problem.rounding


def test_tangents_bound_the_optimum_wherever_they_are_taken():
    rng = np.random.default_rng(1)
    for _ in range(300):
        problem = random_points(rng)
        best = _optimum(problem)
        x = np.zeros(problem.n, dtype=int)
        x[rng.choice(problem.n, problem.size, replace=False)] = 1
        relaxation = PointRelaxation(problem, Run(problem, "test", None, 0), x)
        assert relaxation.value() == pytest.approx(problem.objective(x), abs=relaxation.margin)
        for _ in range(3):
            assert relaxation.bound() >= best
            relaxation.climb()
            assert relaxation.y.sum() == problem.size  # exactly: weights are multiples of a power of two
            assert relaxation.y.min() >= 0
            assert relaxation.y.max() <= 1
        assert relaxation.gap() <= 1e-6 * (problem.scale + problem.weight * problem.diameter)


def test_reduced_costs_fix_nobody_that_a_better_decision_needs():
    rng = np.random.default_rng(2)
    fixed = 0
    for _ in range(300):
        problem = random_points(rng)
        solution = solve(problem.expanded(), "brute-force")
        x = np.zeros(problem.n, dtype=int)
        x[rng.choice(problem.n, problem.size, replace=False)] = 1
        relaxation = PointRelaxation(problem, Run(problem, "test", None, 0), x)
        relaxation.climb()
        state = relaxation.fixed(solution.objective - 1e-5 * problem.scale)
        fixed += np.count_nonzero(state)
        assert (solution.x[state == ONE] == 1).all()
        assert (solution.x[state == ZERO] == 0).all()
    assert fixed > 100


def test_what_reduced_costs_leave_is_solved_as_points_and_then_as_a_matrix():
    problem = PointDispersionProblem(np.random.default_rng(3).random((3_000, 4)), None, size=60, weight=0.5)
    solution = solve(problem, "branch-and-bound")
    assert solution.status == "optimal"
    # The same with a tree that takes next to nobody: points again, until few are left or it says what is open.
    small = solve(problem, "branch-and-bound", largest=5)
    assert small.objective <= solution.bound
    assert small.bound >= solution.objective
    assert small.status == "optimal" or "left open" in small.message


def test_large_problems_agree_with_the_matrix_within_both_gaps():
    rng = np.random.default_rng(4)
    for metric, points in (("euclidean", rng.random((700, 3))), ("hellinger", rng.dirichlet(np.full(8, 0.3), 700))):
        problem = PointDispersionProblem(points, rng.random(700) * 3, size=25, weight=0.05, metric=metric)
        ours, theirs = solve(problem), solve(problem.expanded(), time_limit=20.0)
        assert ours.status == "optimal"
        assert ours.objective <= theirs.bound + 2 * problem.rounding
        assert theirs.objective <= ours.bound + 2 * problem.rounding


@pytest.mark.parametrize("method", [entry.name for entry in methods(PointDispersionProblem)])
def test_every_method_decides_feasibly_and_repeatably(method):
    rng = np.random.default_rng(5)
    for n in (5, 9, 14) if method == "brute-force" else (5, 40, 900):
        problem = on_a_line(n, n // 3, costs=rng.normal(size=n)) if method == "line" else random_points(rng, n=n)
        first, second = (solve(problem, method, seed=3) for _ in range(2))
        assert problem.violation(first.x) == 0
        assert (first.x == second.x).all()
        assert first.bound == second.bound
        assert first.bound is None or first.bound >= first.objective


@pytest.mark.parametrize("method", [entry.name for entry in methods(PointDispersionProblem)])
def test_a_start_is_never_made_worse(method):
    n, m = (15, 5) if method == "brute-force" else (500, 20)
    problem = PointDispersionProblem(np.random.default_rng(6).random((n, 3)), None, size=m, weight=0.5)
    if method == "line":
        problem = on_a_line(500, 20)
    best = solve(problem, "auto")
    assert solve(problem, method, start=best.x).objective >= best.objective


def test_one_point_repeated_is_decided_by_costs():
    costs = np.random.default_rng(7).random(5_000)
    solution = solve(PointDispersionProblem(np.ones((5_000, 3)), costs, size=50))
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(-np.sort(costs)[:50].sum())


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_nearly_all_clients(left_out):
    problem = PointDispersionProblem(np.random.default_rng(8).random((400, 2)), None, size=400 - left_out, weight=0.5)
    solution = solve(problem)
    assert solution.status == "optimal"
    assert solution.objective <= solve(problem.expanded(), time_limit=20.0).bound + 2 * problem.rounding


def test_two_far_pairs_of_many_repeated_points():
    points = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 5.0]], 500, axis=0)
    solution = solve(PointDispersionProblem(points, None, size=4, weight=0.5), time_limit=600)
    assert solution.status == "optimal"
    # Two at (5, 5) and two at the other end, or two of each of both ends: pairs decide.
    assert solution.objective == pytest.approx(4 * 50**0.5)  # two at either end of the diagonal


def test_time_limit_leaves_a_decision(watchdog):
    problem = PointDispersionProblem(np.random.default_rng(9).random((60_000, 8)), None, size=3_000, weight=0.5)
    solution = solve(problem, time_limit=0.3)
    assert solution.x is not None
    assert solution.bound >= solution.objective


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    from solvers.dispersion import geometry

    problem = PointDispersionProblem(np.random.default_rng(10).random((20_000, 4)), None, size=300, weight=0.5)
    answers = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(geometry, "_threads", lambda threads=threads: threads)
        answers.append(solve(problem, "tangent"))
    assert len({a.bound for a in answers}) == len({a.objective for a in answers}) == 1
