"""The allocation problem itself: what it accepts, its two kinds of decision, bounds, files."""

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidOption, InvalidProblem, load, solve
from solvers.allocation import AllocationProblem
from tests.thoroughly import tried

problem_module = importlib.import_module("solvers.allocation.problem")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], [], 1), "at least one group; got none"),
        (([5, 0], [1, 1], 1), "at least 1; group 1 has 0"),
        (([5, 2.5], [1, 1], 1), "whole numbers; got 2.5"),
        (([5, np.nan], [1, 1], 2), "finite; entry 1 is nan"),
        (([5, -1], [1, 1], 2), "between 0 and"),
        (([5, 5], [1], 2), "one entry per group, 2; got 1"),
        (([5, 5], [1, -1], 2), "non-negative; group 1 has -1"),
        (([5, 5], [1, np.inf], 2), "finite"),
        (([5, 5], [1, 1], 1), "at least 2, the fewest clients the 2 groups need; got 1"),
        (([5, 5], [1, 1], 11), "must not exceed the clients there are, 10; got 11"),
        (([5, 5], [1, 1], 2.0), "integer of at least 1; got 2.0"),
        (([5, 5], [1, 1], 0), "at least 1; got 0"),
        (([5, 5], [1, 1], 4, [1]), "lower must be one number or one per group, 2; got 1"),
        (([5, 5], [1, 1], 4, 1, [6, 5]), "must not exceed sizes; group 0 has 6 of 5"),
        (([5, 5], [1, 1], 4, [3, 1], [2, 5]), "lower must not exceed upper; group 0 has 3 and 2"),
        (([5, 5], [1, 1], 4, -1), "lower must lie between 0"),
        (([5, 5], [1e200, 1], 4), "out of range; rescale"),
        (([5, 5], [1e-200, 0], 4), "out of range; rescale"),
        (([5, 5], [1, 1], 1, 0), "at least 2, the fewest"),
    ],
)
def test_bad_input_is_a_sentence(arguments, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        AllocationProblem(*arguments)


def test_the_objective_is_equation_20():
    problem = AllocationProblem([50, 30, 20], [1, 2, 4], 10)
    assert problem.objective([5, 3, 2]) == pytest.approx(0.441, rel=1e-14)
    assert problem.objective([3, 3, 4]) == pytest.approx(0.943 / 3, rel=1e-14)
    by_hand = sum((n / 100) ** 2 * (1 / s - 1 / n) * h**2 for n, h, s in ((50, 1, 2.5), (30, 2, 3.5), (20, 4, 4)))
    assert problem.objective([2.5, 3.5, 4.0]) == pytest.approx(by_hand, rel=1e-14)
    assert problem.objective([50, 30, 20]) == 0
    assert AllocationProblem([5, 5], [1, 0], 2, lower=0).objective([0, 2]) == np.inf


def test_violation_is_in_clients_for_integers_and_relative_for_floats():
    problem = AllocationProblem([50, 30, 20], [1, 2, 4], 10)
    assert problem.violation([3, 3, 4]) == 0
    assert problem.violation([3, 3, 5]) == 1
    assert problem.violation([3.0, 3.0, 5.0]) == pytest.approx(0.1)
    assert problem.violation([0, 6, 4]) == 1
    assert AllocationProblem([50, 30, 20], [1, 2, 4], 10, upper=4).violation([2, 2, 6]) == 2
    with pytest.raises(ValueError, match="one entry per group, 3"):
        problem.violation([10])


def test_two_kinds_of_decision():
    problem = AllocationProblem([50, 30, 20], [1, 2, 4], 10)
    whole, real = solve(problem, "greedy"), solve(problem, "kkt")
    assert (whole.x.dtype, real.x.dtype) == (np.int64, np.float64)
    assert problem.integral(whole.x)
    assert not problem.integral(real.x)
    assert real.objective < whole.bound <= whole.objective
    rounded = solve(problem, "kkt", rounded=True)
    assert rounded.x.dtype == np.int64
    assert rounded.bound == real.bound <= whole.objective <= rounded.objective
    np.testing.assert_array_equal(rounded.raw, real.x)
    with pytest.raises(InvalidOption, match="start must be in whole clients for 'greedy'"):
        solve(problem, "greedy", start=real.x)
    assert solve(problem, "greedy", start=[5, 3, 2]).objective == whole.objective


def test_absent_groups():
    """Nobody available: no client, no cost, weights among the groups present, and the covered share says so."""
    problem = AllocationProblem([50, 30, 20], [1, 2, 4], 6, upper=[10, 0, 10])
    assert problem.lower.tolist() == [1, 0, 1]
    assert problem.covered == pytest.approx(0.7)
    assert problem.objective([3, 0, 3]) == pytest.approx(
        (50 / 70) ** 2 * (1 / 3 - 1 / 50) + (20 / 70) ** 2 * (1 / 3 - 1 / 20) * 16
    )
    for method in ("greedy", "kkt", "cvxpy", "cp-sat", "proportional", "largest-remainder", "brute-force"):
        x = solve(problem, method).x
        assert x[1] == 0
        assert x.sum() == pytest.approx(6)


def test_a_round_of_fedss_takes_everybody_when_too_few_are_available():
    problem = AllocationProblem.fedss([50, 30, 20], [1, 2, 4], available=[3, 0, 4], total=10)
    assert problem.total == 7
    assert solve(problem).x.tolist() == [3, 0, 4]
    assert AllocationProblem.fedss([50, 30], [1, 2], available=[1, 9], total=5, lower=2).lower.tolist() == [1, 2]
    with pytest.raises(InvalidProblem, match="no client is available"):
        AllocationProblem.fedss([50, 30], [1, 2], available=[0, 0], total=5)
    for wrong in ({"total": None}, {"lower": None}, {"lower": 2**70}):
        with pytest.raises(InvalidProblem, match=f"{next(iter(wrong))} must"):
            AllocationProblem.fedss([50, 30], [1, 2], **{"available": [1, 9], "total": 5, **wrong})
    with pytest.raises(InvalidProblem, match="lower must be one number or one per group, 2; got 3"):
        AllocationProblem.fedss([50, 30], [1, 2], available=[1, 9], total=5, lower=[1, 1, 1])
    with pytest.raises(InvalidProblem, match="the 3 groups need; got 2"):
        AllocationProblem.fedss([50, 30, 20], [1, 2, 4], available=[1, 1, 1], total=2)


def test_all_deviations_zero_means_proportional():
    problem = AllocationProblem([50, 30, 20], [0, 0, 0], 10)
    for method in ("greedy", "kkt", "cvxpy", "largest-remainder", "proportional"):
        solution = solve(problem, method)
        np.testing.assert_allclose(solution.x, [5, 3, 2], atol=1e-12)
        assert (solution.status, solution.objective) == ("optimal", 0.0)


def test_what_full_groups_leave_goes_to_groups_without_deviation():
    problem = AllocationProblem([4, 60, 30], [1, 0, 0], 34)
    assert solve(problem, "greedy").x.tolist() == [4, 20, 10]
    real = solve(problem, "kkt")
    np.testing.assert_allclose(real.x, [4, 20, 10])
    assert (real.status, real.objective) == ("optimal", 0.0)


def test_a_lower_bound_of_zero():
    """Needed for Neyman's own numbers; a group that costs something still gets a client where clients are whole."""
    problem = AllocationProblem([60, 25, 10, 5], [1, 1, 1, 1], 10, lower=0)
    np.testing.assert_allclose(solve(problem, "kkt").x, [6, 2.5, 1, 0.5])
    assert solve(problem, "greedy").x.tolist() == [6, 2, 1, 1]
    idle = AllocationProblem([60, 25, 10], [0, 0, 0], 2, lower=0)
    assert solve(idle, "greedy").x.tolist() == [1, 1, 0]
    assert solve(idle, "proportional").x.sum() == 2


def test_the_problem_is_immutable_and_survives_a_file(tmp_path):
    problem = AllocationProblem([50, 30, 20], [1, 2, 4], 10, upper=[20, 3, 2])
    with pytest.raises(ValueError, match="read-only"):
        problem.sizes[0] = 1
    again = load(problem.save(tmp_path / "allocation.npz"))
    assert isinstance(again, AllocationProblem)
    assert again.total == 10
    for name in ("sizes", "deviations", "lower", "upper"):
        np.testing.assert_array_equal(getattr(again, name), getattr(problem, name))
    assert solve(again).x.tolist() == [5, 3, 2]


@tried(
    40,
    200,
    groups=st.lists(st.tuples(st.integers(1, 9), st.floats(0, 5)), min_size=1, max_size=8),
    part=st.floats(0, 1),
    price=st.floats(0, 10),
)
def test_every_price_gives_valid_bounds(groups, part, price):
    sizes, deviations = zip(*[(n, 0.0 if h < 1e-3 else h) for n, h in groups], strict=True)
    total = len(sizes) + round(part * (sum(sizes) - len(sizes)))
    problem = AllocationProblem(sizes, deviations, total)
    whole, real = solve(problem, "greedy"), solve(problem, "kkt")
    assert problem.relaxed_bound(price) <= real.objective + 1e-12 * max(1.0, problem.scale)
    assert problem.integer_bound(price) <= whole.objective + 1e-15
    assert problem.relaxed_bound(price) <= problem.integer_bound(price) + 1e-9


def test_the_docstring_example_holds():
    assert doctest.testmod(problem_module) == (0, 3)
