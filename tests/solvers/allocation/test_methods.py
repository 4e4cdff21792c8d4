"""Methods of the allocation problem: hand tables, enumeration, each other, KKT residuals, time limits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidOption, InvalidProblem, solve
from solvers.allocation import AllocationProblem
from solvers.allocation.methods import allocate_whole
from tests.thoroughly import few_of, tried

WHOLE = ("greedy", "cp-sat", "brute-force", "auto")
REAL = ("kkt", "cvxpy")

TENS = [10] * 10
# (N, H, S, u, best real allocation, best whole one), checked by enumeration; the last two columns to three digits.
TABLE = [
    ([50, 30, 20], [1, 2, 4], 10, None, [2.632, 3.158, 4.211], [3, 3, 4]),
    ([50, 30, 20], [1, 2, 4], 10, [20, 3, 2], [5, 3, 2], [5, 3, 2]),
    ([60, 25, 10, 5], [1, 1, 1, 1], 10, None, [5.647, 2.353, 1, 1], [6, 2, 1, 1]),
    ([97, 1, 1, 1], [1, 1, 1, 1], 10, None, [7, 1, 1, 1], [7, 1, 1, 1]),
    ([10, 40, 50], [4, 2, 3], 10, None, [1.481, 2.963, 5.556], [2, 3, 5]),
    (TENS, [1, 1.2, 0.8, 1.5, 0.5, 1, 1, 1, 1, 1], 10, None, [1] * 10, [1] * 10),
    (
        TENS,
        [3, 1.2, 0.8, 1.5, 0.5, 1, 1, 1, 1, 1],
        20,
        None,
        [4.957, 1.983, 1.322, 2.478, 1, 1.652, 1.652, 1.652, 1.652, 1.652],
        [4, 2, 1, 2, 1, 2, 2, 2, 2, 2],
    ),
    ([50, 30, 20], [1, 0, 2], 10, None, [5, 1, 4], [5, 1, 4]),
]


@pytest.mark.parametrize(("sizes", "deviations", "total", "upper", "real", "whole"), TABLE)
def test_hand_table(sizes, deviations, total, upper, real, whole):
    problem = AllocationProblem(sizes, deviations, total, upper=upper)
    for method in REAL:
        solution = solve(problem, method)
        np.testing.assert_allclose(solution.x, real, atol=5e-4)
        assert solution.status == "optimal"
    for method in WHOLE:
        solution = solve(problem, method)
        assert solution.x.tolist() == whole
        assert solution.status == "optimal"
        assert solution.bound <= solution.objective


def test_objectives_of_the_first_row():
    problem = AllocationProblem([50, 30, 20], [1, 2, 4], 10)
    assert solve(problem, "kkt").objective == pytest.approx(0.312, rel=1e-12)
    assert solve(problem, "greedy").objective == pytest.approx(0.314333, abs=5e-7)
    assert solve(problem, "proportional").objective == pytest.approx(0.441, rel=1e-12)


def test_rounding_is_not_optimal():
    """Largest remainders give (1, 3, 6) where (2, 3, 5) is better: Σa²/s is 7483.33 against 7433.33."""
    problem = AllocationProblem([10, 40, 50], [4, 2, 3], 10)
    rounded, best = solve(problem, "largest-remainder"), solve(problem, "greedy")
    assert rounded.x.tolist() == [1, 3, 6]
    assert (rounded.objective - best.objective) * 100**2 == pytest.approx(50)
    assert rounded.status == "feasible"
    assert rounded.bound <= best.objective


def test_proportional_leaves_no_group_empty():
    assert solve(AllocationProblem([60, 25, 10, 5], [4, 1, 1, 1], 10), "proportional").x.tolist() == [6, 2, 1, 1]
    assert solve(AllocationProblem([97, 1, 1, 1], [1, 9, 9, 9], 10), "proportional").x.tolist() == [7, 1, 1, 1]


def test_the_unbounded_real_optimum_is_neymans():
    problem = AllocationProblem([50, 30, 20], [1, 2, 4], 10)
    np.testing.assert_allclose(solve(problem, "kkt").x, 10 * np.array([50, 60, 80]) / 190, rtol=1e-14)


def enumerate_best(problem):
    """All allocations in whole clients, in plain Python: the smallest Σ c/s."""
    ranges = [range(a, b + 1) for a, b in zip(problem.lower.tolist(), problem.upper.tolist(), strict=True)]
    n = int(problem.sizes[problem.upper > 0].sum())
    best = math.inf
    for s in itertools.product(*ranges):
        if sum(s) == problem.total:
            value = math.fsum(
                (int(size) / n) ** 2 * (1 / x - 1 / int(size)) * float(h) ** 2
                for size, h, x in zip(problem.sizes, problem.deviations, s, strict=True)
                if x
            )
            best = min(best, value)
    return best


def random_problem(rng, largest=7):
    k = int(rng.integers(1, 5))
    sizes = rng.integers(1, largest + 1, k)
    upper = np.maximum(1, sizes - rng.integers(0, 3, k))
    lower = np.minimum(upper, rng.integers(1, 3, k))
    if k > 1 and rng.random() < 0.2:
        upper[0] = lower[0] = 0
    deviations = np.where(rng.random(k) < 0.15, 0.0, rng.lognormal(0, 1, k))
    if rng.random() < 0.3:
        deviations = np.round(deviations)  # ties
    total = int(rng.integers(max(1, lower.sum()), upper.sum() + 1))
    return AllocationProblem(sizes, deviations, total, lower, upper)


@pytest.mark.parametrize("cases", few_of([300, 1500], 1))
def test_thousands_of_small_cases_against_enumeration(cases):
    rng = np.random.default_rng(0)
    suboptimal = 0
    for _ in range(cases):
        problem = random_problem(rng)
        best = enumerate_best(problem)
        for method in ("greedy", "brute-force"):
            solution = solve(problem, method)
            assert solution.objective == pytest.approx(best, abs=1e-13 * max(1.0, best))
            assert solution.bound <= best + 1e-15
            assert solution.status == "optimal"
        assert solve(problem, "greedy").residuals()["exchange"] <= 1e-15
        assert solve(problem, "kkt").objective <= best + 1e-14 * max(1.0, best)
        for method in ("largest-remainder", "proportional"):
            solution = solve(problem, method)
            assert solution.bound <= best + 1e-15
            assert solution.objective >= best - 1e-14 * max(1.0, best)
        suboptimal += solve(problem, "largest-remainder").objective > best * (1 + 1e-9) + 1e-12
    assert 0 < suboptimal < cases / 10  # the heuristic is good, and the sample shows that it is not exact


def test_cp_sat_and_cvxpy_agree_on_random_problems():
    rng = np.random.default_rng(1)
    for _ in range(60):
        problem = random_problem(rng, largest=25)
        whole, integer = solve(problem, "greedy"), solve(problem, "cp-sat")
        assert integer.objective == pytest.approx(whole.objective, abs=1e-12, rel=1e-10)
        assert integer.bound <= whole.objective
        assert integer.status == "optimal"
        real, convex = solve(problem, "kkt"), solve(problem, "cvxpy")
        assert convex.objective == pytest.approx(real.objective, abs=1e-9, rel=1e-8)
        assert convex.bound <= real.objective + 1e-15
        assert real.bound <= convex.objective


@tried(
    40,
    200,
    groups=st.lists(st.tuples(st.integers(1, 10**6), st.floats(1e-3, 1e3)), min_size=1, max_size=30),
    part=st.floats(0, 1),
)
def test_the_conditions_of_both_kinds_hold(groups, part):
    sizes, deviations = zip(*groups, strict=True)
    total = len(sizes) + round(part * (sum(sizes) - len(sizes)))
    problem = AllocationProblem(sizes, deviations, total)
    real = solve(problem, "kkt")
    residuals = real.residuals()
    slack = 1e-9 * max(problem.scale, float(problem.costs.max()))
    assert residuals["stationarity"] <= slack
    assert residuals["complementarity"] <= slack
    assert residuals["dual_violation"] == 0
    assert real.status == "optimal"
    whole = solve(problem, "greedy")
    assert whole.x.sum() == total
    assert whole.residuals()["exchange"] <= 1e-12 * float(problem.costs.max())
    assert whole.status == "optimal"
    assert real.objective <= whole.objective * (1 + 1e-9)


def test_the_threshold_search_gives_what_the_heap_gives():
    """The same allocation, ties included, whether the clients are handed out one by one or by threshold first."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        k = int(rng.integers(2, 60))
        sizes = rng.integers(1, 200, k)
        deviations = rng.integers(1, 4, k) if rng.random() < 0.5 else rng.lognormal(0, 1, k)
        problem = AllocationProblem(sizes, deviations, int(rng.integers(k, sizes.sum() + 1)))
        bounds = problem.total, problem.lower, problem.upper
        one_by_one = allocate_whole(problem.costs, *bounds, by_heap=10**9)
        by_threshold = allocate_whole(problem.costs, *bounds, by_heap=3)
        assert problem.violation(by_threshold) == 0
        assert problem.objective(by_threshold) == pytest.approx(problem.objective(one_by_one), rel=1e-14)
        assert np.abs(by_threshold - one_by_one).max() <= 1
        np.testing.assert_array_equal(solve(problem, "greedy").x, allocate_whole(problem.costs, *bounds))


def test_ties_go_to_the_lowest_index():
    assert solve(AllocationProblem([9] * 5, [1] * 5, 12), "greedy").x.tolist() == [3, 3, 2, 2, 2]
    large = solve(AllocationProblem([9] * 2000, [1] * 2000, 5000), "greedy").x
    np.testing.assert_array_equal(large, np.where(np.arange(2000) < 1000, 3, 2))


def test_more_deviation_never_gets_fewer_clients():
    rng = np.random.default_rng(6)
    for _ in range(100):
        sizes, deviations = rng.integers(5, 50, 6), rng.lognormal(0, 1, 6)
        before = solve(AllocationProblem(sizes, deviations, 25)).x[2]
        deviations[2] *= 1 + rng.random()
        assert solve(AllocationProblem(sizes, deviations, 25)).x[2] >= before


def test_a_large_problem_is_proved_optimal():
    rng = np.random.default_rng(3)
    problem = AllocationProblem(rng.integers(1, 200, 20_000), rng.lognormal(0, 1, 20_000), 200_000)
    solution = solve(problem)
    assert solution.status == "optimal"
    assert solution.x.sum() == 200_000
    assert solution.residuals()["exchange"] == 0
    assert solve(problem, "kkt").objective <= solution.objective <= solve(problem, "largest-remainder").objective


def test_cp_sat_returns_its_incumbent_at_the_time_limit():
    rng = np.random.default_rng(0)
    problem = AllocationProblem(np.full(400, 5000), rng.lognormal(0, 1, 400), 3000)
    best = solve(problem, "greedy").objective
    for limit in (0.005, 0.3):
        solution = solve(problem, "cp-sat", time_limit=limit)
        assert (solution.status, solution.stopped) == ("feasible", "time-limit")
        assert problem.violation(solution.x) == 0
        assert solution.bound <= best <= solution.objective


def test_limits_of_size_are_sentences():
    with pytest.raises(InvalidProblem, match=r"brute-force would look at .* allocations over 10 groups"):
        solve(AllocationProblem([50] * 10, [1] * 10, 100), "brute-force")
    with pytest.raises(InvalidProblem, match=r"brute-force would look at .* allocations over 400 groups"):
        solve(AllocationProblem([2] * 400, [1] * 400, 600), "brute-force")  # only the last 200 groups reach the sum
    with pytest.raises(InvalidProblem, match="brute-force hands out at most 20000000 clients"):
        solve(AllocationProblem([10**12] * 2, [1] * 2, 10**12), "brute-force")
    with pytest.raises(InvalidProblem, match="cp-sat would tabulate"):
        solve(AllocationProblem([10**8] * 3, [1] * 3, 10**8), "cp-sat")
    huge = AllocationProblem([10**12, 10**12], [1, 3], 10**10)  # the threshold does not mind
    assert solve(huge, "greedy").x.tolist() == [2_500_000_000, 7_500_000_000]


def test_fully_sampled_groups_do_not_blur_the_bound():
    """A group of one client with a huge deviation costs nothing once sampled: its size must not enter the margin."""
    problem = AllocationProblem([1, 1, 50, 50], [1e6, 1e7, 1e-3, 2e-3], 20)
    for method in ("greedy", "kkt", "brute-force", "cp-sat"):
        solution = solve(problem, method)
        assert solution.status == "optimal"
        assert solution.bound == pytest.approx(solution.objective, rel=1e-9)
    everybody = solve(AllocationProblem([3, 7, 1], [5, 0.1, 1e9], 11))
    assert (everybody.status, everybody.objective, everybody.bound) == ("optimal", 0.0, 0.0)


def test_deviations_of_very_different_size():
    """Seventeen orders of magnitude and a budget of 10¹⁰: the threshold is found from the level, not from the range."""
    problem = AllocationProblem([10**11, 10**6, 10**11], [1e-9, 1e8, 1.0], 10**10)
    solution = solve(problem, "greedy")
    assert solution.x.tolist() == [10, 10**6, 10**10 - 10**6 - 10]
    assert solution.status == "optimal"
    assert solution.residuals()["exchange"] == 0


@pytest.mark.parametrize("method", [*WHOLE, "proportional", "largest-remainder"])
def test_a_start_in_whole_floats_is_one_in_whole_clients(method):
    """Else the answer would be a float, which claims to be a best one in real numbers."""
    problem = AllocationProblem(sizes=[60, 25, 10, 5], deviations=[1, 1, 1, 1], total=10)
    solution = solve(problem, method, start=np.array([6.0, 2.0, 1.0, 1.0]))
    assert solution.x.tolist() == [6, 2, 1, 1]
    assert solution.x.dtype == np.int64


@pytest.mark.parametrize("method", REAL)
def test_rounded_answers_take_no_real_start(method):
    problem = AllocationProblem(sizes=[60, 25, 10, 5], deviations=[1, 1, 1, 1], total=10)
    start = solve(problem, "kkt").x
    with pytest.raises(InvalidOption, match="start must be in whole clients"):
        solve(problem, method, rounded=True, start=start)
    assert solve(problem, method, rounded=True, start=[6.0, 2.0, 1.0, 1.0]).x.dtype == np.int64
