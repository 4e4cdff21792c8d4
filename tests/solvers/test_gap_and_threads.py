"""`solve(gap=..., threads=...)`: one word for all methods, whatever their backends call it."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import InvalidOption, methods, solve
from solvers.allocation import AllocationProblem
from solvers.benchmark import run_benchmark
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.registry import find

GAP = 0.2

#: One method of every group of backends.
GROUPS = [
    ("auto", {}),
    ("branch-and-bound", {}),
    ("dnn", {}),
    ("sdp", {}),
    ("cp-sat", {}),
    ("cp-sat", {"formulation": "tangent"}),
    ("milp", {"formulation": "glover"}),
    ("gurobi", {"formulation": "projected"}),
    ("cplex", {"formulation": "projected"}),
    ("scip", {"formulation": "projected"}),
]


def random_distances(n: int, m: int) -> DispersionProblem:
    rng = np.random.default_rng(0)
    distances = np.triu(rng.uniform(size=(n, n)), 1)
    return DispersionProblem(distances + distances.T, rng.uniform(size=n), size=m, weight=0.5)


@pytest.fixture(scope="module")
def problem() -> DispersionProblem:
    """24 clients at random distances, of which 6 are chosen: no external solver closes its gap at once."""
    return random_distances(24, 6)


@pytest.fixture(scope="module")
def larger() -> DispersionProblem:
    """Nor does our own tree here, which proves the other before it looks at the gap."""
    return random_distances(40, 10)


@pytest.mark.parametrize(("name", "options"), GROUPS, ids=lambda value: str(value))
def test_a_method_may_stop_at_a_gap(problem, larger, name, options):
    """What it says then is true: the gap is reached, by a decision and a bound that hold."""
    case = larger if name in ("auto", "branch-and-bound") else problem
    if find_missing(case, name):
        pytest.skip(f"{name} is not installed")
    solution = solve(case, name, gap=GAP, time_limit=600, **options)
    assert solution.stopped == "gap"
    assert solution.status == "feasible"
    assert solution.gap <= GAP
    whole = solve(case, "auto")
    assert whole.status == "optimal"
    assert solution.objective <= whole.objective + 1e-9 <= solution.bound + 2e-9


def find_missing(problem: DispersionProblem, name: str) -> tuple[str, ...]:
    return next(each.missing for each in methods(problem) if each.name == name)


def test_a_gap_saves_work(problem):
    whole, near = solve(problem, "cp-sat"), solve(problem, "cp-sat", gap=0.2)
    assert near.nodes < whole.nodes


def test_points_and_allocations_stop_too():
    points = PointDispersionProblem(np.random.default_rng(1).normal(size=(60, 3)), np.zeros(60), size=8, weight=0.5)
    solution = solve(points, "auto", gap=0.2, time_limit=600)
    assert solution.stopped == "gap"
    assert solution.gap <= 0.2
    allocation = AllocationProblem(sizes=[30, 40, 50], deviations=[1.0, 2.0, 3.0], total=20)
    found = solve(allocation, "cp-sat", gap=0.5, threads=2)
    assert found.stopped in ("gap", "proved")
    assert found.gap <= 0.5


def test_a_heuristic_reaches_a_gap_with_a_second_method(problem):
    with pytest.raises(InvalidOption, match="which promises none: name a second method with bound_by"):
        solve(problem, "tabu", gap=0.1)
    solution = solve(problem, "tabu", gap=0.1, bound_by="dnn", time_limit=600)
    assert solution.stopped == "gap"
    assert solution.status == "feasible"
    assert 0 < solution.gap <= 0.1
    assert solution.bound_by == "dnn"


@pytest.mark.parametrize("gap", [-0.1, float("nan"), float("inf"), True, "1 %", [0.1]])
def test_what_is_no_gap(problem, gap):
    with pytest.raises(InvalidOption, match=r"gap must be finite and non-negative; got .* .0.01 is one per cent"):
        solve(problem, gap=gap)


def test_threads_are_each_methods_own_option(problem):
    threaded = {each.name for each in methods(problem) if each.threads}
    assert {"auto", "branch-and-bound", "cp-sat", "gurobi"} <= threaded
    assert "greedy" not in threaded
    assert solve(problem, "auto", threads=2).objective == solve(problem, "auto").objective
    solution = solve(problem, "tabu", bound_by="branch-and-bound", threads=2)  # the second method's
    assert solution.status == "optimal"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "scip"}, "'scip' has no option for threads .methods of this problem that have: auto, branch-and"),
        ({"method": "greedy", "bound_by": "sdp"}, "'greedy' has no option for threads"),
        ({"workers": 1}, "has no option .workers.; did you mean .threads."),
        ({"threads": 0}, "threads must be an integer of at least 1; got 0"),
        ({"threads": 1.5}, "threads must be an integer of at least 1; got 1.5"),
    ],
)
def test_threads_that_cannot_be(problem, options, sentence):
    if find(problem, "auto") and options.get("method") == "scip" and find_missing(problem, "scip"):
        pytest.skip("scip is not installed")
    with pytest.raises(InvalidOption, match=sentence):
        solve(problem, **{"threads": 2, **options})


def test_a_benchmark_takes_both_as_options(larger, tmp_path):
    near = {"near": ("branch-and-bound", {"gap": 0.2, "threads": 2}), "whole": "branch-and-bound"}
    table = run_benchmark(near, {"larger": larger}, [0], 60, tmp_path).table.set_index("method")
    assert table.loc["near", "verdict"] == table.loc["whole", "verdict"] == "ok"
    assert table.loc["near", "stopped"] == "gap"
    assert 0 < table.loc["near", "gap"] <= 0.2
    with pytest.raises(InvalidOption, match="heuristic"):
        run_benchmark({"near": ("tabu", {"gap": 0.2})}, {"larger": larger}, [0], 60)
