"""Why CP-SAT ended: told from its status and the clock, the same way by every method that runs it."""

from __future__ import annotations

import numpy as np
import pytest
from ortools.sat.python import cp_model

from solvers import solve
from solvers.allocation import AllocationProblem
from solvers.backends import cut_short, run_cp_sat, solver_for
from solvers.coverage import CoverageProblem
from solvers.registry import find
from solvers.run import Run
from solvers.schedule import ScheduleProblem
from solvers.weighting import ExclusionProblem


def small(time_limit=None):
    return Run(AllocationProblem([5, 5], [1, 2], 4), "cp-sat", time_limit, 0)


def solved(run, *constraints, coefficient=1):
    model = cp_model.CpModel()
    x = model.new_int_var(0, 10, "x")
    for constraint in constraints:
        model.add(constraint(x))
    model.maximize(coefficient * x)
    ended = cut_short(run, model, solver_for(run).solve(model))
    return ended, run.solution()


def test_a_proof_ends_nothing():
    ended, solution = solved(small())
    assert not ended
    assert solution.stopped == "iterations"  # nothing was reported to the run


def test_a_model_that_cp_sat_refuses_is_an_error():
    ended, solution = solved(small(), coefficient=2**62)
    assert ended
    assert solution.stopped == "error"
    assert "CP-SAT refused the model" in solution.message


def test_a_model_that_lost_its_feasible_points_is_an_error():
    ended, solution = solved(small(), lambda x: x >= 11)
    assert ended
    assert solution.stopped == "error"


@pytest.mark.parametrize(
    ("time_limit", "stopped"), [(None, "interrupted"), (60.0, "interrupted"), (1e-6, "time-limit")]
)
def test_the_clock_tells_an_interruption_from_the_limit(time_limit, stopped):
    run = small(time_limit)
    assert cut_short(run, None, cp_model.FEASIBLE) == (stopped == "interrupted")
    assert run.solution().stopped == stopped


def hard_allocation():
    return AllocationProblem(np.full(400, 5000), np.random.default_rng(0).lognormal(0, 1, 400), 3000)


def hard_coverage():
    return CoverageProblem(np.random.default_rng(0).random((150, 150)), 15)  # 3 % are left after ten seconds


@pytest.mark.parametrize("state", [hard_allocation, hard_coverage])
def test_ctrl_c_returns_the_incumbent(state, interrupt_after):
    """CP-SAT catches the signal; a method that goes on to its next model would never end."""
    problem = state()
    solve(problem, "cp-sat", time_limit=0.01)  # loads OR-Tools
    interrupt_after(cp_model.CpSolver, "solve")
    solution = solve(problem, "cp-sat", time_limit=60)
    assert (solution.status, solution.stopped) == ("feasible", "interrupted")
    assert problem.violation(solution.x) <= problem.tolerance


def test_no_handler_of_its_own_hears_ctrl_c():
    """CP-SAT's asks for memory wherever the signal finds it, and a process that was about to do so hangs."""
    assert not solver_for(small()).parameters.catch_sigint_signal


def test_a_false_bound_of_an_allocation_is_withdrawn(monkeypatch):
    bound = cp_model.CpSolver.best_objective_bound.fget
    monkeypatch.setattr(cp_model.CpSolver, "best_objective_bound", property(lambda solver: 1.5 * bound(solver)))
    solution = solve(AllocationProblem([5, 7, 9], [1, 2, 3], 9), "cp-sat")
    assert solution.objective == solve(AllocationProblem([5, 7, 9], [1, 2, 3], 9), "greedy").objective
    assert (solution.status, solution.bound) == ("feasible", None)
    assert "contradicts" in solution.details["notes"][0]


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (AllocationProblem([5, 7, 9], [1, 2, 3], 9), "cp-sat"),
        (ExclusionProblem([0.2, 0.5, 0.3], [0.1, 0.9, 0.4], 1.0, [0.5, 0.6, 0.7], [0.0, 0.1, 0.2]), "cp-sat"),
        (ScheduleProblem(np.eye(3, 4, dtype=bool) | np.eye(3, 4, 1, dtype=bool), 1), "min-cost-flow"),
    ],
)
def test_a_bound_that_rests_on_an_external_solver_is_claimed(problem, method, monkeypatch):
    claimed = []
    tighten = Run.tighten

    def noted(run, *values, is_claimed=False):
        claimed.append(is_claimed)
        tighten(run, *values, is_claimed=is_claimed)

    monkeypatch.setattr(Run, "tighten", noted)
    monkeypatch.setattr(Run, "proved", property(lambda run: False))  # no other bound ends it before
    find(problem, method).function(problem, Run(problem, method, None, 0))
    assert claimed[-1]


def test_an_error_in_a_callback_is_raised_in_the_caller():
    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(3)]
    model.maximize(sum(x))

    class Fails(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self):
            raise ValueError("of the callback")

    with pytest.raises(ValueError, match="of the callback"):
        run_cp_sat(None, solver_for(small()), model, Fails())
