"""CP-SAT in three linearisations and brute force: against enumeration, against each other, at the time limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from ortools.sat.python import cp_model

from solvers import InvalidOption, InvalidProblem, solve
from solvers.dispersion import DispersionProblem
from solvers.solution import proves
from tests.solvers.dispersion.instances import KINDS, naive_optimum, problems, random_problem
from tests.thoroughly import few_of, tried


@tried(25, 100, problems())
def test_brute_force_is_the_enumeration(problem):
    solution = solve(problem, "brute-force")
    optimum = naive_optimum(problem)
    assert solution.objective == pytest.approx(optimum, rel=1e-12, abs=1e-12)
    assert solution.bound >= optimum
    assert (solution.status, solution.stopped) == ("optimal", "proved")


@pytest.mark.parametrize("formulation", ["rlt", "product", "glover"])
@settings(max_examples=25, deadline=None)
@given(problem=problems(7))
def test_cp_sat_is_exact(formulation, problem):
    solution = solve(problem, "cp-sat", formulation=formulation)
    optimum = naive_optimum(problem)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(optimum, rel=1e-9, abs=1e-9 * problem.scale)
    assert solution.bound >= optimum - 1e-12 * abs(optimum)
    assert proves(problem, solution.objective, solution.bound)


@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("kind", KINDS)
def test_scale_of_the_values_does_not_matter(factor, kind):
    """A tiny instance is not called optimal for being tiny, and a huge one does not overflow."""
    problem = random_problem(np.random.default_rng(11), 12, 5, kind)
    scaled = DispersionProblem(problem.distances * factor, problem.costs * factor, size=5, weight=problem.weight)
    solution = solve(scaled, "cp-sat")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(factor * naive_optimum(problem), rel=1e-8)


def test_permutation_of_the_clients_does_not_matter():
    problem = random_problem(np.random.default_rng(8), 14, 5)
    order = np.random.default_rng(9).permutation(14)
    permuted = DispersionProblem(
        problem.distances[np.ix_(order, order)], problem.costs[order], size=5, weight=problem.weight
    )
    first, second = solve(problem, "cp-sat"), solve(permuted, "cp-sat")
    assert first.objective == pytest.approx(second.objective, rel=1e-12)
    assert sorted(order[second.selected]) == first.selected.tolist()


@pytest.mark.parametrize("formulation", few_of(["rlt", "glover"], 1))
def test_timeout_keeps_the_incumbent_and_a_valid_bound(formulation):
    """Like SciPy's test of the same purpose: a solution found before the limit is not thrown away."""
    problem = random_problem(np.random.default_rng(3), 120, 30)
    solution = solve(problem, "cp-sat", time_limit=1.0, formulation=formulation)
    assert (solution.status, solution.stopped) == ("feasible", "time-limit")
    assert problem.violation(solution.x) == 0
    assert solution.bound >= solution.objective


def test_out_of_time_before_the_first_bound():
    """Stating 180 000 products alone takes longer; the greedy incumbent and the trivial bound come back."""
    problem = random_problem(np.random.default_rng(4), 600, 60)
    solution = solve(problem, "cp-sat", time_limit=0.05)
    assert solution.status == "feasible"
    assert solution.objective <= solution.bound <= problem.trivial_bound()


def test_trace_of_a_solve_narrows():
    trace = solve(random_problem(np.random.default_rng(6), 24, 6), "cp-sat").trace
    bounds = [p.bound for p in trace if p.bound is not None]
    objectives = [p.objective for p in trace if p.objective is not None]
    assert bounds == sorted(bounds, reverse=True)
    assert objectives == sorted(objectives)
    assert bounds[-1] >= objectives[-1] - 1e-9


def test_one_worker_repeats():
    problem = random_problem(np.random.default_rng(7), 20, 6)
    first, second = (solve(problem, "cp-sat", seed=3) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert first.nodes == second.nodes


def test_interrupt_returns_the_incumbent(interrupt_after):
    problem = random_problem(np.random.default_rng(3), 120, 30)
    interrupt_after(cp_model.CpSolver, "solve")
    solution = solve(problem, "cp-sat", time_limit=60)
    assert solution.stopped == "interrupted"
    assert solution.status == "feasible"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"formulation": "qubo"}, "'formulation' must be 'rlt' or 'glover' or 'product' or 'tangent'; got 'qubo'"),
        ({"threads": 0}, "threads must be an integer of at least 1; got 0"),
    ],
)
def test_bad_options_are_sentences(options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        solve(random_problem(np.random.default_rng(0), 5, 2), "cp-sat", **options)


def test_brute_force_refuses_what_it_would_not_finish():
    problem = random_problem(np.random.default_rng(0), 60, 20)
    with pytest.raises(InvalidProblem, match=r"would look at about 10\^15 selections of 20 out of 60"):
        solve(problem, "brute-force")


def test_brute_force_at_the_time_limit_has_a_valid_bound():
    problem = random_problem(np.random.default_rng(0), 26, 10, "euclidean")
    solution = solve(problem, "brute-force", time_limit=0.2)
    assert solution.status == "feasible"
    assert solution.bound >= solve(problem, "local-search").objective
