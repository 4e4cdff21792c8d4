"""The one shape of every problem: registry, run, solution, storage. Tested on a problem made up for the purpose."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import solvers
from solvers import (
    InvalidAnswer,
    InvalidOption,
    InvalidProblem,
    MissingBackend,
    Problem,
    Solution,
    UnknownMethod,
    method,
    methods,
    solve,
)
from solvers.balance import BalanceProblem
from solvers.certificates import check
from solvers.checks import frozen_array
from solvers.dispersion import DispersionProblem


@dataclass(frozen=True, eq=False)
class Nearest(Problem):
    """Minimise |x - target| over the integers 0 … 10."""

    target: float

    sense: ClassVar = "min"
    family: ClassVar = "tests"

    def objective(self, x):
        return abs(float(x) - self.target)

    def violation(self, x):
        return max(0.0, -float(x), float(x) - 10) + abs(float(x) - round(float(x)))


@method(Nearest, "scan", kind="exact")
def scan(problem, run):
    """Look at every integer."""
    for x in range(11):
        run.offer(x)
    run.tighten(run.objective)


@method(Nearest, "returns", kind="heuristic")
def returns(problem, run, *, value: float = 3.0):
    """Return a value."""
    return value


@method(Nearest, "lies", kind="exact")
def lies(problem, run):
    """Claim a bound above what it offers."""
    run.offer(0)
    run.tighten(problem.objective(0) + 1.0)


@method(Nearest, "rounds", kind="exact")
def rounds(problem, run):
    """Claim a bound above what it offers by less than rounding."""
    value = run.offer(3)
    run.tighten(value * (1 + 1e-13))


@method(Nearest, "stopped-by-hand", kind="exact")
def stopped_by_hand(problem, run):
    """Be interrupted in the middle."""
    run.offer(1)
    run.tighten(0.0)
    raise KeyboardInterrupt


@method(Nearest, "refutes", kind="exact")
def refutes(problem, run):
    """Claim that there is no feasible decision."""
    run.infeasible()


@method(Nearest, "broken", kind="exact")
def broken(problem, run):
    """Fail."""
    raise ZeroDivisionError("a bug of the method")


@method(Nearest, "elsewhere", kind="exact", requires="no_such_package_xyz", install="fedselect[xyz]")
def elsewhere(problem, run):
    """Need what is not there."""


def test_methods_lists_exact_ones_first_with_their_facts():
    found = methods(Nearest)
    assert next(m.name for m in found if m.kind == "exact") == "broken"
    assert [m.kind for m in found] == sorted((m.kind for m in found), key=["exact", "heuristic"].index)
    by_name = {m.name: m for m in found}
    assert by_name["returns"].options == {"value": 3.0}
    assert by_name["returns"].summary == "Return a value."
    assert by_name["elsewhere"].missing == ("no_such_package_xyz",)
    assert [m.name for m in methods(Nearest(2.2))] == [m.name for m in found]


def test_a_method_describes_itself():
    described = {entry.name: entry.describe() for entry in methods(Nearest)}
    assert described["scan"] == "scan (exact, for a Nearest): Look at every integer."
    assert described["returns"].splitlines()[1:] == ["  value: a number; 3.0"]


def test_what_an_option_accepts_is_said_in_words():
    (tree,) = (entry for entry in methods(DispersionProblem) if entry.name == "branch-and-bound")
    lines = tree.describe().splitlines()
    assert "  symmetries: an array; None" in lines
    assert "  policy: a Policy; Policy()" in lines  # and not its hundred fields
    with pytest.raises(InvalidOption, match="option 'bonus' must be an array; got 3"):
        solve(BalanceProblem([[1, 0], [0, 1]], size=1), "fed-cbs", bonus=3)


def test_exact_method_is_proved():
    solution = solve(Nearest(6.4), "scan")
    assert (float(solution.x), solution.status, solution.stopped) == (6, "optimal", "proved")
    assert solution.objective == pytest.approx(0.4)
    assert solution.gap == 0


def test_trace_improves_and_is_in_time_order():
    trace = solve(Nearest(6.4), "scan").trace
    objectives = [point.objective for point in trace if point.objective is not None]
    assert objectives == sorted(objectives, reverse=True)
    assert [p.second for p in trace] == sorted(p.second for p in trace)
    assert trace[-1].bound == pytest.approx(0.4)


def test_returned_decision_counts_and_options_reach_the_method():
    solution = solve(Nearest(6.4), "returns", value=7.0)
    assert solution.objective == pytest.approx(0.6)
    assert (solution.status, solution.stopped, solution.bound, solution.gap) == ("feasible", "iterations", None, None)


def test_infeasible_answer_is_refused_by_name():
    with pytest.raises(InvalidAnswer, match=r"'returns' returned an infeasible decision: it violates .* by 2"):
        solve(Nearest(6.4), "returns", value=12.0)


def test_bound_on_the_wrong_side_is_refused():
    with pytest.raises(InvalidAnswer, match="'lies' reported the bound"):
        solve(Nearest(6.4), "lies")


def test_a_second_method_s_wrong_bound_is_its_own():
    with pytest.raises(InvalidAnswer, match=r"'lies' reported the bound .* the one of 'returns'"):
        solve(Nearest(6.4), "returns", value=7.0, bound_by="lies")


def test_bound_beyond_the_objective_by_rounding_is_moved_onto_it():
    solution = solve(Nearest(6.4), "rounds")
    assert solution.bound == solution.objective


def test_interruption_returns_the_incumbent():
    solution = solve(Nearest(6.4), "stopped-by-hand")
    assert (float(solution.x), solution.status, solution.stopped) == (1, "feasible", "interrupted")


def test_a_proof_that_nothing_is_feasible():
    solution = solve(Nearest(6.4), "refutes")
    assert (solution.status, solution.stopped, solution.x, solution.gap) == ("infeasible", "proved", None, None)
    # A feasible decision in hand refutes the refutation.
    assert solve(Nearest(6.4), "refutes", start=6).status == "feasible"


def test_bugs_of_a_method_are_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        solve(Nearest(6.4), "broken")


def test_missing_backend_says_what_to_install():
    with pytest.raises(MissingBackend, match=r"no_such_package_xyz.*pip install '.*\[xyz\]'"):
        solve(Nearest(6.4), "elsewhere")


def test_unknown_method_suggests():
    with pytest.raises(UnknownMethod, match="no method 'scann' for a Nearest; did you mean 'scan'"):
        solve(Nearest(6.4), "scann")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"time_limit": 0}, "time_limit must be a positive number"),
        ({"time_limit": math.nan}, "time_limit must be a positive number"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"seed": 1.5}, "seed must be an integer of at least 0"),
        ({"speed": 3}, "has no option 'speed'"),
        ({"start": 20}, "start must be feasible; it violates a constraint by 10"),
    ],
)
def test_bad_arguments_are_sentences(arguments, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        solve(Nearest(6.4), "scan", **arguments)


def test_a_start_brings_its_bound_to_the_same_problem():
    proved = solve(Nearest(6.4), "scan")
    told = solve(Nearest(6.4), "returns", start=proved)
    assert (told.status, told.stopped, told.bound, told.bound_by) == ("optimal", "proved", proved.bound, "scan")
    assert told.trace[-1].bound == proved.bound
    other = solve(Nearest(6.3), "returns", start=proved)
    assert (other.status, other.bound, other.objective) == ("feasible", None, pytest.approx(0.3))
    near = solve(Nearest(6.4), "scan", start=solve(Nearest(6.4), "stopped-by-hand"))
    assert (near.bound, near.bound_by) == (near.objective, None)


def test_a_start_from_a_file_brings_what_its_certificate_proves(tmp_path):
    """Whoever writes a file may write any bound into it."""
    half = np.triu(np.random.default_rng(0).random((9, 9)), 1)
    problem = DispersionProblem(half + half.T, size=4)
    proved = solve(problem, certificate=True)
    assert proved.certificate is not None
    plain, shown = replace(proved, certificate=None), check(problem, proved.certificate)
    false = replace(proved, certificate=replace(proved.certificate, bound=proved.certificate.bound / 2))
    for kept, bound in ((plain, None), (false, None), (proved, shown)):
        start = Solution.load(kept.save(tmp_path / "start.npz"))
        assert not kept.is_received
        assert start.is_received
        assert start.bound == proved.bound
        found = solve(start.problem, "random", start=replace(start, seed=3))
        assert found.objective == proved.objective
        assert found.bound == bound


def test_start_is_never_lost():
    assert float(solve(Nearest(6.4), "returns", start=6).x) == 6


def test_solving_what_is_no_problem():
    with pytest.raises(InvalidProblem, match=r"takes a problem object.*got dict"):
        solve({}, "scan")


def test_solution_refuses_nan_bounds():
    with pytest.raises(InvalidAnswer, match="NaN"):
        Solution(Nearest(1), "scan", np.array(1.0), 0.0, math.nan, "feasible", "iterations")


def test_with_bound_keeps_the_tighter_and_proves():
    solution = solve(Nearest(6.4), "returns", value=6.0)
    assert solution.with_bound(0.1).bound == 0.1
    assert solution.with_bound(0.1).with_bound(0.05).bound == 0.1
    assert solution.with_bound(0.1).status == "feasible"
    assert solution.with_bound(0.4, by="hand").status == "optimal"
    assert solution.with_bound(0.4, by="hand").details["by"] == "hand"


def test_selected_needs_a_selection_problem():
    with pytest.raises(AttributeError, match=r"does not select clients$"):
        _ = solve(Nearest(6.4), "scan").selected
    with pytest.raises(AttributeError, match=r"does not select clients .selects where Nearest has a method selected.x"):
        _ = solve(Nearest(0.4), "scan").selected


def test_residuals_recompute():
    solution = solve(Nearest(6.4), "scan")
    assert solution.residuals() == {"objective_error": 0.0, "violation": 0.0}


def test_save_and_load_any_problem(tmp_path):
    path = Nearest(6.4).save(tmp_path / "nearest.npz")
    assert solvers.load(path).target == 6.4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nearest.npz"]
    with pytest.raises(InvalidProblem, match="holds a Nearest; a DispersionProblem was asked for"):
        DispersionProblem.load(path)


def test_loading_something_else_is_a_sentence(tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("not a problem")
    with pytest.raises(InvalidProblem, match="is not a problem file"):
        solvers.load(path)


def test_failed_save_leaves_nothing(tmp_path):
    problem = Nearest(6.4)
    object.__setattr__(problem, "target", object())  # what JSON cannot hold
    with pytest.raises(TypeError):
        problem.save(tmp_path / "nearest.npz")
    assert list(tmp_path.iterdir()) == []


def test_frozen_array_copies_what_could_change():
    data = np.ones(3)
    array = frozen_array(data, "data")
    data[0] = 7
    assert array[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2
    assert frozen_array(array, "data") is array


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([1.0, math.nan], "data must be finite; entry 1 is nan"),
        ([[1.0]], r"data must have 1 dimension\(s\); got shape \(1, 1\)"),
        (["a"], "data must be numbers"),
    ],
)
def test_frozen_array_says_what_is_wrong(value, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        frozen_array(value, "data")


def test_a_class_that_cloudpickle_only_begins_takes_no_types_place():
    """A process that unpickles two methods of a family makes its class twice, and drops the second, still empty."""
    from solvers.problem import _types

    type(Nearest)("Nearest", Nearest.__bases__, {"__module__": Nearest.__module__, "__qualname__": "Nearest"})
    assert _types["Nearest"] is Nearest
