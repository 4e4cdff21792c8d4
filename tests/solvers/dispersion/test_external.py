"""Backends behind the same interface: same values, bounds on the right side."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from solvers import InvalidOption, methods, solve
from solvers.dispersion import DispersionProblem
from tests.solvers.dispersion.cases import euclidean_problem, random_problem, uniform_problem

BACKENDS = [
    ("milp", {"formulation": "tangent"}, "scipy"),
    ("milp", {"formulation": "glover"}, "scipy"),
    ("cp-sat", {"formulation": "tangent"}, "ortools"),
    ("gurobi", {"formulation": "nonconvex", "threads": 1}, "gurobipy"),
    ("gurobi", {"formulation": "projected", "threads": 1}, "gurobipy"),
    ("cplex", {"formulation": "nonconvex", "threads": 1}, "cplex"),
    ("cplex", {"formulation": "projected", "threads": 1}, "cplex"),
    ("scip", {"formulation": "nonconvex"}, "pyscipopt"),
    ("scip", {"formulation": "projected"}, "pyscipopt"),
]


@pytest.mark.parametrize(("method", "options", "package"), BACKENDS)
def test_small_problems(method, options, package):
    pytest.importorskip(package)
    rng = np.random.default_rng(4)
    for _ in range(12):
        problem = random_problem(rng, 8)
        truth = solve(problem, "brute-force")
        found = solve(problem, method, time_limit=10, **options)
        slack = 1e-5 * problem.scale + 10 * problem.rounding
        assert found.objective == pytest.approx(truth.objective, abs=slack)
        assert found.bound >= truth.objective - 4 * problem.rounding
        assert found.bound <= truth.objective + max(slack, 1e-4 * problem.scale)


@cache
def best_of_sixty(make):
    """A value that no bound may be below: the best of two heuristics, which is the optimum as far as anybody knows."""
    return max(solve(make(60, 12, 2), method, seed=0).objective for method in ("tabu", "local-search"))


@pytest.mark.parametrize(("method", "options", "package"), BACKENDS)
@pytest.mark.parametrize("make", [uniform_problem, euclidean_problem])
def test_bounds_hold_when_time_is_short(method, options, package, make):
    pytest.importorskip(package)
    found = solve(make(60, 12, 2), method, time_limit=0.5, **options)
    assert found.x is not None or method != "cp-sat"
    assert found.bound >= best_of_sixty(make) - 1e-9


@pytest.mark.parametrize("method", ["milp", "gurobi", "scip"])
def test_options_are_checked(method):
    pytest.importorskip({"milp": "scipy", "gurobi": "gurobipy", "scip": "pyscipopt"}[method])
    with pytest.raises(InvalidOption, match="formulation"):
        solve(uniform_problem(8, 3), method, formulation="magic")


def test_a_gap_below_0_is_refused_without_gurobi_too():
    (gurobi,) = (each for each in methods(DispersionProblem) if each.name == "gurobi")
    with pytest.raises(InvalidOption, match=r"option 'mip_gap' must be a number, at least 0; got -0\.1"):
        gurobi.check({"mip_gap": -0.1})


@pytest.mark.parametrize(("method", "options", "package"), BACKENDS)
def test_native_statuses_are_names(method, options, package):
    pytest.importorskip(package)
    solution = solve(uniform_problem(12, 4, 1), method, time_limit=300, **options)
    assert solution.native_status == "optimal"


@pytest.mark.parametrize(("method", "options", "package"), [each for each in BACKENDS if each[0] in ("gurobi", "scip")])
@pytest.mark.parametrize("unit", [1.0, 1e-7, 1e5])
def test_an_external_solver_can_prove(method, options, package, unit):
    """Nine clients: the widening of an external solver's bound is less than what a proof may leave open."""
    pytest.importorskip(package)
    problem = uniform_problem(9, 3, 5)
    problem = DispersionProblem(unit * problem.distances, unit * problem.costs, size=3, weight=problem.weight)
    solution = solve(problem, method, time_limit=300, **options)
    truth = solve(problem, "brute-force")
    assert (solution.status, solution.stopped) == ("optimal", "proved")
    assert solution.objective == pytest.approx(truth.objective, rel=1e-12)
    assert solution.bound >= truth.objective


@pytest.mark.parametrize("method", ["gurobi", "scip", "milp", "cp-sat"])
def test_a_model_too_large_for_its_time_leaves_the_incumbent(method):
    """Stating it is not interruptible, so it is not begun; the decision is the one others start from."""
    pytest.importorskip({"gurobi": "gurobipy", "scip": "pyscipopt", "milp": "scipy", "cp-sat": "ortools"}[method])
    problem = uniform_problem(150, 30, 3)
    solution = solve(problem, method, time_limit=0.2)
    assert solution.objective >= solve(problem, "greedy").objective
