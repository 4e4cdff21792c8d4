"""Fronts of two terms against the enumeration of all selections, in exact arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from solvers import InvalidOption, InvalidProblem, frontier, solve
from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.certificates import check
from solvers.constraints import Budget, Quota
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from tests.thoroughly import few_of

Pair = tuple[Fraction, Fraction]


def decimal(value: float) -> Fraction:
    """A number as it is written."""
    return Fraction(repr(float(value)))


def non_dominated(pairs: set[Pair]) -> list[Pair]:
    """The pairs of which none has a first term as large and a second as small as another, by rising second term."""
    front: list[Pair] = []
    for first, second in sorted(pairs, key=lambda pair: (pair[1], -pair[0])):
        if not front or first > front[-1][0]:
            front.append((first, second))
    return front


def corners(front: list[Pair]) -> list[Pair]:
    """Those that no line between two others passes above or through."""
    hull: list[Pair] = []
    for first, second in front:
        while len(hull) > 1 and (hull[-1][0] - hull[-2][0]) * (second - hull[-2][1]) <= (first - hull[-2][0]) * (
            hull[-1][1] - hull[-2][1]
        ):
            hull.pop()
        hull.append((first, second))
    return hull


def kept(problem: Any) -> list[tuple[int, ...]]:
    """All selections that keep the constraints, as positions."""
    every = itertools.combinations(range(problem.n), problem.size)
    return [each for each in every if problem.violation(problem.feasible.decision(np.array(each))) == 0]


def terms(problem: Any, matrix: np.ndarray, chosen: tuple[int, ...]) -> Pair:
    """Distance term and cost term."""
    pairs = itertools.permutations(chosen, 2)
    distance = decimal(problem.weight) * sum((decimal(matrix[i, j]) for i, j in pairs), Fraction(0))
    return distance, sum((decimal(problem.costs[i]) for i in chosen), Fraction(0))


def drawn(seed: int) -> tuple[Any, np.ndarray]:
    """A small problem with its matrix: numbers that tie, decimals that tie but for rounding, or real ones."""
    rng = np.random.default_rng([seed, 7])
    n = int(rng.integers(2, 13))
    m = int(rng.integers(1, n + 1))
    kind = seed % 3
    values = [rng.integers(0, 9, (n, n)).astype(float), rng.integers(0, 9, (n, n)) / 10, rng.random((n, n))][kind]
    matrix = np.triu(values, 1) + np.triu(values, 1).T
    costs = [rng.integers(-5, 6, n).astype(float), rng.integers(-5, 6, n) / 10, rng.normal(size=n)][kind]
    stated: dict[str, Any] = {"size": m, "weight": float(rng.choice([0.5, 1.0]))}
    if n > 4 and rng.random() < 0.3:
        stated["quotas"] = [Quota(range(n // 2), at_most=max(1, m // 2))]
    if rng.random() < 0.2:
        stated["budgets"] = [Budget(rng.random(n), 0.6 * m, "seconds")]
    try:
        if seed % 5 == 0:
            kinds = np.arange(n) % 3 if n >= 3 else np.zeros(n, dtype=int)
            table = matrix[:3, :3] if n >= 3 else np.zeros((1, 1))
            full = table[np.ix_(kinds, kinds)]
            np.fill_diagonal(full, 0.0)
            return KindDispersionProblem(table, kinds, costs, **stated), full
        return DispersionProblem(matrix, costs, **stated), matrix
    except InvalidProblem:
        return None, matrix


@pytest.mark.parametrize("seeds", few_of([range(25), range(25, 125)], 1))
def test_fronts_are_complete_against_enumeration(seeds, asserted):
    cases = asserted(4 * len(seeds) // 5)
    found_pairs = 0
    for seed in seeds:
        problem, matrix = drawn(seed)
        if problem is None:
            continue
        front = frontier(problem)
        expected = non_dominated({terms(problem, matrix, chosen) for chosen in kept(problem)})
        assert front.complete, seed
        assert front.pairs.tolist() == [[float(first), float(second)] for first, second in expected], seed
        for solution, pair in zip(front, expected, strict=True):
            assert terms(problem, matrix, tuple(np.flatnonzero(solution.x).tolist())) == pair
            assert solution.status == "optimal"
            assert problem.violation(solution.x) == 0
        found_pairs += len(front)
        cases()
        if seed % 4 == 0:
            hull = frontier(problem, "supported")
            assert hull.complete
            assert hull.pairs.tolist() == [[float(first), float(second)] for first, second in corners(expected)], seed
    assert found_pairs > 2.4 * len(seeds)


def test_each_solution_proves_that_nothing_cheaper_is_as_far_apart():
    problem, _ = drawn(2)
    front = frontier(problem)
    assert len(front) > 2
    for solution, (distance, _) in zip(front, front.pairs, strict=True):
        assert solution.objective == pytest.approx(distance, rel=1e-12)
        assert solution.bound >= solution.objective
        assert solution.problem.constraint_names == ("cost term",)
        assert solution.problem.violation(solution.x) == 0
        assert solve(solution.problem, "brute-force").objective == pytest.approx(distance, rel=1e-12)
    certified = frontier(problem, certificate=True)
    assert certified.pairs.tolist() == front.pairs.tolist()
    for solution in certified:
        check(solution.problem, solution.certificate)
        assert solution.certificate.bound == pytest.approx(solution.objective, rel=1e-5)


def test_points_of_a_grid_tie_but_for_rounding():
    points = np.array([[x, y] for x in range(4) for y in range(3)], dtype=float) * 0.1
    costs = np.arange(12) % 4 + 0.0
    problem = PointDispersionProblem(points, costs, size=3)
    front = frontier(problem)
    matrix = np.linalg.norm(points[:, None] - points, axis=2)
    values = {}
    for chosen in kept(problem):
        distance, cost = matrix[np.ix_(chosen, chosen)].sum(), costs[list(chosen)].sum()
        values[cost] = max(values.get(cost, 0.0), distance)
    expected: list[list[float]] = []
    for cost, distance in sorted(values.items()):
        if not expected or distance > expected[-1][0] + 1e-12:
            expected.append([distance, cost])
    assert front.complete
    np.testing.assert_allclose(front.pairs, expected, rtol=1e-12)


def test_a_budget_of_a_dispersion_problem_is_swept_up_to_its_limit():
    rng = np.random.default_rng(0)
    matrix = np.triu(rng.integers(1, 9, (9, 9)).astype(float), 1)
    costs, seconds = rng.integers(0, 4, 9).astype(float), rng.integers(1, 9, 9) / 10
    problem = DispersionProblem(matrix + matrix.T, costs, size=3, budgets=[Budget(seconds, 1.5, "seconds")])
    front = frontier(problem, against="seconds")
    pairs = {
        (Fraction(problem.objective(problem.feasible.decision(np.array(each)))), sum(map(decimal, seconds[list(each)])))
        for each in kept(problem)
    }
    assert front.terms == ("objective", "seconds")
    assert front.pairs.tolist() == [[float(first), float(second)] for first, second in non_dominated(pairs)]
    assert front.pairs[-1, 1] <= 1.5
    free = DispersionProblem(problem.distances, size=3, budgets=problem.budgets)
    assert frontier(free).terms == ("objective", "seconds")  # where nothing costs, there is one second term


@pytest.mark.parametrize("family", ["coverage", "balance"])
@pytest.mark.parametrize("seeds", few_of([range(6), range(6, 30)], 1))
def test_the_limit_of_a_budget_is_swept_over_its_breakpoints(family, seeds, asserted):
    cases = asserted(2 * len(seeds) // 3)
    for seed in seeds:
        rng = np.random.default_rng([seed, 3])
        n = int(rng.integers(3, 10))
        m = int(rng.integers(1, n))
        use = rng.integers(0, 9, n) / 10 if seed % 2 else rng.random(n)
        budgets = [Budget(use, float(use.max()) * m * 0.9, "seconds"), Budget(rng.random(n), 0.7 * m, "bytes")]
        counts = rng.integers(0, 5, (n, 3))
        counts[:, 2] = 10 - counts[:, :2].sum(axis=1)
        try:
            if family == "coverage":
                problem: Any = CoverageProblem(rng.integers(0, 9, (6, n)) / 10, m, budgets=budgets)
            else:
                problem = BalanceProblem(counts, m, budgets=budgets)
        except InvalidProblem:  # no selection keeps both budgets
            continue
        sign = 1 if problem.sense == "max" else -1
        pairs = set()
        for each in kept(problem):
            if family == "coverage":
                first = sum(map(decimal, problem.similarity[:, list(each)].max(axis=1).tolist()), Fraction(0))
            else:
                first = Fraction(problem.objective(problem.feasible.decision(np.array(each))))
            pairs.add((sign * first, sum((decimal(use[i]) for i in each), Fraction(0))))
        front = frontier(problem, against="seconds")
        assert front.complete, seed
        expected = [[float(sign * first), float(second)] for first, second in non_dominated(pairs)]
        assert front.pairs.tolist() == expected, seed
        cases()
    with pytest.raises(InvalidProblem, match="names the budget that is the second term"):
        frontier(problem)


def test_coverage_is_weighed_against_its_costs():
    rng = np.random.default_rng(5)
    similarity, costs = rng.integers(0, 9, (6, 9)) / 10, rng.integers(0, 9, 9) / 10
    problem = CoverageProblem(similarity, 3, costs)
    front = frontier(problem)
    pairs = set()
    for each in kept(problem):
        first = sum(map(decimal, similarity[:, list(each)].max(axis=1).tolist()), Fraction(0))
        pairs.add((first, sum((decimal(costs[i]) for i in each), Fraction(0))))
    assert front.terms == ("covered similarity", "cost term")
    assert front.complete
    assert front.pairs.tolist() == [[float(first), float(second)] for first, second in non_dominated(pairs)]
    with pytest.raises(InvalidOption, match="for dispersion problems"):
        frontier(problem, "supported")


def test_points_are_spread_over_the_second_term():
    problem = DispersionProblem.from_points(np.random.default_rng(1).random((20, 2)), np.arange(20.0), size=5)
    every, few = frontier(problem), frontier(problem, 5)
    assert 2 <= len(few) <= 5 < len(every)
    assert not few.complete
    assert "5 limits" in few.message
    assert {tuple(pair) for pair in few.pairs.tolist()} <= {tuple(pair) for pair in every.pairs.tolist()}
    assert few.pairs[0].tolist() == every.pairs[0].tolist()
    assert few.pairs[-1].tolist() == every.pairs[-1].tolist()


@pytest.mark.parametrize("costs", [np.arange(6.0), np.arange(6.0) / 7, np.ones(6)])
def test_more_points_than_pairs_find_all_of_them(costs):
    """Sums of uses in sevenths are no whole numbers for a budget, and limits nearer than its tolerance come up."""
    problem = DispersionProblem.from_points(np.random.default_rng(1).random((6, 2)), costs, size=2)
    assert frontier(problem, points=2**70).pairs.tolist() == frontier(problem).pairs.tolist()


@pytest.mark.parametrize("points", [2, 3, 4, 5, 7])
def test_a_pair_uses_no_more_than_its_limit(points, asserted):
    """Limits between whole sums: against the best of enumeration at each."""
    cases, between = asserted(8), asserted(3 if points > 2 else 0)
    for seed in range(0, 60, 3):
        problem, matrix = drawn(seed)
        if problem is None or problem.size == problem.n or isinstance(problem, KindDispersionProblem):
            continue
        pairs = {terms(problem, matrix, chosen) for chosen in kept(problem)}
        best = non_dominated(pairs)
        low, high = best[0][1], best[-1][1]
        limits = [low + (high - low) * Fraction(k, points - 1) for k in range(points)]
        expected = {max((pair for pair in best if pair[1] <= limit), key=lambda pair: pair[0]) for limit in limits}
        found = frontier(problem, points=points).pairs.tolist()
        assert found == [[float(first), float(second)] for first, second in sorted(expected)], seed
        cases()
        if any(limit.denominator > 1 for limit in limits):
            between()


def test_a_front_that_is_cut_says_where():
    problem = DispersionProblem.from_points(np.random.default_rng(1).random((40, 2)), np.arange(40.0), size=8)
    front = frontier(problem, time_limit=1e-6)
    assert not front.complete
    assert "cut by time" in front.message
    assert "cut by time" in repr(front)
    with_some = frontier(problem, time_limit=0.5)
    if not with_some.complete and len(with_some):
        assert f"below {with_some.pairs[0, 1]:.12g}" in with_some.message


def test_a_table_and_a_picture():
    problem, _ = drawn(2)
    front = frontier(problem)
    frame = front.to_frame()
    assert frame["cost term"].is_monotonic_increasing
    assert frame["distance term"].is_monotonic_increasing
    assert frame["selected"].tolist() == [tuple(solution.selected.tolist()) for solution in front]
    axes = front.plot()
    assert axes.get_xlabel() == "cost term"
    assert axes.lines[0].get_ydata().tolist() == front.pairs[:, 0].tolist()
    assert (front[0], front[-1]) == (front.solutions[0], front.solutions[-1])
    with pytest.raises(TypeError, match="savefig"):
        front.plot("front.png")


@pytest.mark.parametrize("name", ["seconds", "bound", "status", "selected", "objective"])
def test_a_budget_may_have_the_name_of_a_column(name):
    use = np.arange(8.0)
    problem = DispersionProblem(drawn(2)[0].distances[:8, :8], size=3, budgets=[Budget(use, 20.0, name)])
    front = frontier(problem, against=name)
    frame = front.to_frame()
    assert frame.columns.is_unique
    assert frame.columns[:2].tolist() == ["objective", f"sum of {name}"]
    assert frame[["objective", f"sum of {name}"]].to_numpy().tolist() == front.pairs.tolist()
    assert frame["bound"].tolist() == [solution.bound for solution in front]


def test_what_has_no_second_term_is_refused():
    problem, _ = drawn(2)
    with pytest.raises(InvalidProblem, match="there is no budget 'money'; the problem's budgets: none"):
        frontier(problem, against="money")
    with pytest.raises(InvalidProblem, match="got AllocationProblem"):
        frontier(AllocationProblem([3, 4], [1.0, 2.0], 4))
    with pytest.raises(InvalidOption, match="at least 2"):
        frontier(problem, 1)
    with pytest.raises(InvalidOption, match="no argument 'pool'"):
        frontier(problem, pool=3)
    with pytest.raises(InvalidOption):
        frontier(problem, time_limit=-1.0)
    with pytest.raises(InvalidOption, match="keeps no pool"):
        frontier(problem, method="greedy")
