"""Methods of the capping problem: hand tables, an independent reference, each other, and KKT residuals."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import methods, solve
from solvers.capping import CappingProblem
from solvers.errors import InvalidOption
from tests.thoroughly import few_of, tried

EXACT = ("exact-search", "bisection", "cvxpy", "auto")

# (k, σ, w, overflow set, α (None: nobody is capped), p), computed by hand from the case analysis of Eq. 21.
TABLE = [
    (2, 0, [10, 1, 1, 1], [0], 3, [1, 1 / 3, 1 / 3, 1 / 3]),
    (3, 0, [8, 4, 1, 1, 1, 1], [0], 4, [1, 1, 0.25, 0.25, 0.25, 0.25]),
    (3, 0.2, [8, 4, 1, 1, 1, 1], [0], 8, [1, 0.7, 0.325, 0.325, 0.325, 0.325]),
    (2, 0.25, [4, 2, 1, 1], [], None, [0.75, 0.5, 0.375, 0.375]),
    (2, 0, [3, 1, 1, 1], [], None, [1, 1 / 3, 1 / 3, 1 / 3]),
    (3, 0.1, [100, 100, 1, 1, 1], [0, 1], 30 / 7, [1, 1, 1 / 3, 1 / 3, 1 / 3]),
    (2, 0, [100, 100, 1, 1, 1], [], None, [200 / 203, 200 / 203, 2 / 203, 2 / 203, 2 / 203]),
    (3, 0.2, [5, 4, 1, 1, 1], [0], 35 / 6, [1, 31 / 35, 13 / 35, 13 / 35, 13 / 35]),
    (2, 0.1, [6, 3, 2, 1], [], None, [0.9, 0.5, 11 / 30, 7 / 30]),
    (1, 0, [5, 3, 2], [], None, [0.5, 0.3, 0.2]),
    (3, 0, [7, 2, 1], [0, 1], 1, [1, 1, 1]),  # k = K: the highest level is the smallest weight
    (2, 0.5, [7, 2, 1, 1], [], None, [0.5] * 4),  # σ = k/K: no mass to share out
]


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(("k", "floor", "w", "overflow", "alpha", "p"), TABLE)
def test_hand_table(method, k, floor, w, overflow, alpha, p):
    problem = CappingProblem(weights=w, size=k, floor=floor)
    solution = solve(problem, method)
    near = 2e-6 if method == "cvxpy" else 1e-13
    np.testing.assert_allclose(solution.x, p, atol=near)
    assert solution.status == "optimal"


@pytest.mark.parametrize("method", [name for name in EXACT if name != "cvxpy"])  # it knows a tie to its accuracy only
@pytest.mark.parametrize(("k", "floor", "w", "overflow", "alpha", "p"), TABLE)
def test_hand_table_of_the_level(method, k, floor, w, overflow, alpha, p):
    problem = CappingProblem(weights=w, size=k, floor=floor)
    solution = solve(problem, method)
    assert solution.details["overflow"].tolist() == overflow == problem.overflow(solution.x).tolist()
    assert solution.details["alpha"] == pytest.approx(math.inf if alpha is None else alpha, rel=1e-12)
    assert solution.details["cap"] == pytest.approx(math.inf if alpha is None else (1 - floor) * alpha, rel=1e-12)


@pytest.mark.parametrize(
    ("k", "floor", "w", "alpha", "printed"),
    [
        (3, 0.2, [5, 4, 1, 1, 1], 35 / 6, 6),
        (3, 0.25, [7, 6, 1, 1, 1], 9, 64 / 7),
        (3, 0.3, [8, 6, 1, 1, 1], 45 / 4, 34 / 3),
        (3, 0.1, [10, 9, 5, 1, 1], 10, 52 / 5),
    ],
)
def test_equations_22_and_23_as_printed_are_wrong(k, floor, w, alpha, printed):
    """The counter-examples: the printed partition passes its own test with an α that lifts a client above 1."""
    problem = CappingProblem(weights=w, size=k, floor=floor)
    assert solve(problem).details["alpha"] == pytest.approx(alpha)
    literal = solve(problem, "as-printed")
    assert literal.details["alpha"] == pytest.approx(printed)
    assert (literal.x, literal.stopped) == (None, "error")
    assert literal.raw.max() > 1.0001
    assert "as printed give probabilities up to 1." in literal.message


def test_as_printed_is_right_without_a_floor():
    rng = np.random.default_rng(3)
    for _ in range(100):
        problem = CappingProblem(log_weights=rng.normal(0, 2, 8), size=int(rng.integers(1, 8)))
        np.testing.assert_allclose(solve(problem, "as-printed").x, solve(problem).x, atol=1e-12)


def test_one_pass_loses_what_it_cuts_off():
    wrong = solve(CappingProblem(weights=[10, 1, 1, 1], size=2), "one-pass")
    np.testing.assert_allclose(wrong.raw, [1, 2 / 13, 2 / 13, 2 / 13])
    assert wrong.details["shortfall"] == pytest.approx(2 - 19 / 13)
    assert (wrong.x, wrong.status, wrong.stopped) == (None, "unknown", "error")
    assert "allots 1.46154 of 2" in wrong.message
    right = solve(CappingProblem(weights=[4, 2, 1, 1], size=2, floor=0.25), "one-pass")
    np.testing.assert_allclose(right.x, [0.75, 0.5, 0.375, 0.375])
    assert right.bound is None


def redistribute(w, k, floor):
    """An independent reference: allot in proportion, cap everybody above 1, again for the rest, in plain Python."""
    capped: set[int] = set()
    while True:
        rest = [i for i in range(len(w)) if i not in capped]
        left = k - len(w) * floor - len(capped) * (1 - floor)
        total = math.fsum(w[i] for i in rest)
        over = {i for i in rest if left * w[i] > (1 - floor) * total * (1 + 1e-12)}
        if not over or over == set(rest):
            return [1.0 if i in capped else min(1.0, floor + left * w[i] / total) for i in range(len(w))]
        capped |= over


@pytest.mark.parametrize(("block", "cases"), few_of([(0, 100), *((block, 400) for block in range(5))], 1))
def test_thousands_of_small_cases_against_plain_redistribution(block, cases):
    rng = np.random.default_rng(block)
    several = 0
    for _ in range(cases):
        n = int(rng.integers(2, 9))
        k = int(rng.integers(1, n))
        floor = float(rng.choice([0, rng.uniform(0, k / n), k / n]))
        w = rng.integers(1, 30, n) if rng.random() < 0.5 else np.exp(rng.normal(0, 3, n))
        problem = CappingProblem(weights=w, size=k, floor=floor)
        solution = solve(problem, "exact-search")
        np.testing.assert_allclose(solution.x, redistribute(w.tolist(), k, floor), atol=1e-11)
        np.testing.assert_allclose(solve(problem, "bisection").x, solution.x, atol=1e-12)
        assert solution.status == "optimal"
        several += len(solution.details["overflow"]) > 1
    assert several > cases // 20  # the sample does contain the interesting case


def test_cvxpy_agrees_on_random_problems():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(3, 40))
        k = int(rng.integers(1, n))
        problem = CappingProblem(log_weights=rng.normal(0, 4, n), size=k, floor=float(rng.uniform(0, k / n)))
        exact, convex = solve(problem), solve(problem, "cvxpy")
        assert convex.objective == pytest.approx(exact.objective, abs=1e-7, rel=1e-7)
        assert convex.bound <= exact.objective + 1e-15
        assert exact.bound <= convex.objective
        np.testing.assert_allclose(convex.x, exact.x, atol=1e-3)


@tried(
    40,
    300,
    logs=st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=25),
    part=st.floats(0, 1),
    quota=st.floats(0, 1),
    shift=st.floats(-1e4, 1e4),
)
def test_properties_of_the_allocation(logs, part, quota, shift):
    n = len(logs)
    k = 1 + round(part * (n - 1))
    floor = quota * k / n
    logs = np.array(logs)
    problem = CappingProblem(log_weights=logs, size=k, floor=floor)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        solution = solve(problem, "exact-search")
    p = solution.x
    assert p.sum() == pytest.approx(k, rel=1e-12)
    assert p.min() >= floor
    assert p.max() <= 1
    order = np.argsort(logs, kind="stable")
    assert (np.diff(p[order]) >= -1e-12).all()
    residuals = solution.residuals()
    assert residuals["stationarity"] < 1e-10
    assert residuals["complementarity"] < 1e-10 * max(1.0, float(np.ptp(logs)))
    assert residuals["dual_violation"] == 0
    assert solution.absolute_gap <= 1e-9 * max(1.0, abs(solution.objective))
    assert solution.bound <= solution.objective
    np.testing.assert_allclose(solve(problem, "bisection").x, p, atol=1e-10)
    moved = solve(CappingProblem(log_weights=logs + shift, size=k, floor=floor))
    np.testing.assert_allclose(moved.x, p, atol=1e-8)  # adding the shift rounds the logarithms


def test_a_larger_weight_never_gets_a_smaller_probability():
    rng = np.random.default_rng(5)
    for _ in range(200):
        logs = rng.normal(0, 3, 10)
        i = int(rng.integers(10))
        before = solve(CappingProblem(log_weights=logs, size=4, floor=0.1)).x[i]
        logs[i] += rng.exponential()
        assert solve(CappingProblem(log_weights=logs, size=4, floor=0.1)).x[i] >= before - 1e-12


def test_many_exact_ties_at_the_ceiling():
    """A thousand clients whose share is 1 exactly: none of them overflows, and the sum is right."""
    weights = np.r_[np.full(10, 50.0), np.full(1000, 1.0), np.full(500, 0.5)]
    problem = CappingProblem(weights=weights, size=1260)
    for method in ("exact-search", "bisection"):
        solution = solve(problem, method)
        np.testing.assert_allclose(solution.x, np.r_[np.ones(1010), np.full(500, 0.5)], rtol=1e-12)
        assert solution.details["overflow"].tolist() == list(range(10))


def test_weights_beyond_double_precision():
    problem = CappingProblem(log_weights=[1e4, 1e4, 9e3, -1e4, -1e4], size=3)
    for method in ("exact-search", "bisection"):
        solution = solve(problem, method)
        np.testing.assert_allclose(solution.x, [1, 1, 1, 0, 0], atol=1e-12)
        assert solution.status == "optimal"
        assert solution.details["log_alpha"] == pytest.approx(9000)
        assert solution.details["alpha"] == math.inf  # beyond 1e308; its logarithm is not
    below = solve(CappingProblem(log_weights=[-1e4, -1e4 - math.log(2), -1e4 - math.log(2)], size=1))
    np.testing.assert_allclose(below.x, [0.5, 0.25, 0.25], atol=1e-11)


def test_the_unshifted_projection_is_another_one():
    """With a floor, projecting the weights on {σ ≤ p ≤ 1} gives clip(λw, σ, 1): not what E3CS does."""
    p = solve(CappingProblem(weights=[8, 4, 1, 1, 1, 1], size=3, floor=0.2)).x
    assert np.abs(p - [1, 1, 0.25, 0.25, 0.25, 0.25]).max() == pytest.approx(0.3)


def test_a_time_limit_returns_a_feasible_answer():
    rng = np.random.default_rng(0)
    problem = CappingProblem(log_weights=rng.normal(0, 3, 2000), size=400)
    for entry in methods(problem):
        if entry.name in ("one-pass", "as-printed"):
            continue
        solution = solve(problem, entry.name, time_limit=1e-4)
        if solution.x is None:
            assert entry.name == "cvxpy"
            assert solution.stopped == "time-limit"
        else:
            assert problem.violation(solution.x) <= problem.tolerance


def test_larger_problems_are_proved_optimal():
    rng = np.random.default_rng(2)
    for spread in (0.1, 3, 3000):
        problem = CappingProblem(log_weights=rng.normal(0, spread, 20_000), size=3000, floor=0.01)
        a, b = solve(problem, "exact-search"), solve(problem, "bisection")
        assert (a.status, b.status) == ("optimal", "optimal")
        np.testing.assert_allclose(a.x, b.x, atol=1e-10)


def test_duals_are_taken_as_the_solution_has_them():
    problem = CappingProblem(weights=[1.0, 2.0, 9.0], size=2)
    solution = solve(problem, "exact-search")
    assert problem.kkt_residuals(solution.x, solution.duals) == problem.kkt_residuals(solution.x, **solution.duals)
    with pytest.raises(InvalidOption, match=r"takes the duals multiplier, upper: missing .* 'multiplier'"):
        problem.kkt_residuals(solution.x, {})
    read = {name: np.asarray(each).tolist() for name, each in solution.duals.items()}  # as JSON has them
    assert problem.kkt_residuals(solution.x, read) == problem.kkt_residuals(solution.x, solution.duals)
    for wrong in ({"upper": [0.0, 0.0]}, {"upper": "a"}, {"multiplier": None}):
        with pytest.raises(InvalidOption, match="takes the duals multiplier, upper"):
            problem.kkt_residuals(solution.x, read | wrong)
