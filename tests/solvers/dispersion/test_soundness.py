"""Problems of every geometry without a time limit: bounds hold in exact arithmetic, and every search ends."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from solvers import InvalidProblem, methods, solve
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from tests.thoroughly import few_of

WORKER = Path(__file__).with_name("soundness.py")

KINDS = ("matrix", "single", "points", "kinds")

#: Cases in a process; every process solves each with every method of its own.
BATCH = 40

SEARCHES = ["local-search", "tabu", "memetic", "annealing", "auto", "branch-and-bound", "dnn", "sdp"]


def run(*arguments: object) -> str:
    """What the worker prints; a failure names the case at which it was stopped."""
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_500, check=False)
    begun = [line for line in done.stdout.splitlines() if line.startswith("begin")]
    assert done.returncode == 0, f"stopped after {begun[-1:]}: {done.stderr[-2_000:]}"
    return done.stdout


@pytest.mark.parametrize(
    ("kinds", "first", "last"),
    few_of([(",".join(KINDS), 0, 5), *((kind, b, b + BATCH) for b in (40, 80) for kind in KINDS)], 1),
)
def test_exact_and_over(kinds, first, last):
    """Random, tied, degenerate, equal-cost, circulant, float32, tiny and huge problems, by every method of our own."""
    printed = run(kinds, first, last).splitlines()
    assert [line for line in printed if line.startswith("FAULT")] == []
    solved = [int(line.split()[-1]) for line in printed if line.startswith("solved")]
    assert len(solved) == len(kinds.split(","))
    assert min(solved) >= 25


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "batch"), [(kind, b) for b in range(5) for kind in ("matrix", "points", "kinds", "single")]
)
def test_exact_under_side_constraints_at_their_edges(kind, batch):
    """What is feasible, answers and bounds of all methods, CP-SAT and HiGHS among them, and both checkers."""
    first = BATCH * batch
    printed = run(f"constrained-{kind}", first, first + (6 if batch == 0 else BATCH))
    assert [line for line in printed.splitlines() if line.startswith("FAULT")] == []
    assert int(printed.split()[-1]) >= 25


@pytest.mark.parametrize("method", SEARCHES)
def test_ends_where_rounding_of_the_costs_is_more_than_the_least_gain(method):
    """One of two clients with equal costs: gains of pure rounding once made the swap ascent endless."""
    problem = DispersionProblem([[0, 4], [4, 0]], costs=[-2, -2], size=1, weight=0.001)
    solution = solve(problem, method)
    assert solution.objective == 2.0


def circulant(n: int, seed: int) -> np.ndarray:
    steps = np.random.default_rng(seed).random(n)
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    h = steps[np.minimum(apart, n - apart)]
    np.fill_diagonal(h, 0)
    return h


@pytest.mark.parametrize("method", SEARCHES)
def test_a_common_cost_changes_nothing(method):
    """The costs' common part comes off before anything is added up: the same selection as without it."""
    for seed in range(6):
        h = circulant(11, seed)
        plain = solve(DispersionProblem(h, size=2), method)
        costly = solve(DispersionProblem(h, costs=np.full(11, 2.0**27), size=2), method)
        assert np.array_equal(plain.selected, costly.selected)


@pytest.mark.parametrize("method", [e.name for e in methods(DispersionProblem) if e.name not in ("line", "random")])
def test_single_precision_is_summed_in_double(method):
    """Sums in single precision once gave bounds below the optimum, and decisions that were not the best."""
    entry = next(e for e in methods(DispersionProblem) if e.name == method)
    if entry.missing:
        pytest.skip(f"needs {entry.missing}")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(6, 8))
        upper = np.triu(rng.random((n, n)) * 1e6, 1).astype(np.float32)
        h, costs = upper + upper.T, rng.normal(size=n)
        single = DispersionProblem(h, costs=costs, size=n // 2)
        double = DispersionProblem(h.astype(np.float64), costs=costs, size=n // 2)
        first, second = solve(single, method, seed=1), solve(double, method, seed=1)
        assert first.objective == pytest.approx(second.objective, rel=1e-15)
        if entry.kind != "heuristic":
            best = solve(double, "brute-force")
            exact = sum(Fraction(float(v)) for v in h[np.ix_(best.selected, best.selected)].ravel())
            exact -= sum(Fraction(v) for v in costs[best.selected].tolist())
            assert Fraction(first.bound) >= exact


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"distances": np.array([[0, 1e-310], [1e-310, 0]]), "size": 1}, "too small to be computed with"),
        ({"distances": np.array([[0, 1e-290], [1e-290, 0]]), "size": 2}, "too small"),
        ({"distances": np.array([[0, 1e-150], [1e-150, 0]]), "size": 2, "weight": 1e-150}, "at most 1e-300, too small"),
        ({"distances": np.zeros((2, 2)), "costs": [1e-300, 0], "size": 1}, "at most 1e-300, too small"),
        ({"distances": np.array([[0, 1e281], [1e281, 0]]), "size": 2}, "overflows; rescale them"),
        ({"distances": np.zeros((2, 2)), "costs": [1e281, 0], "size": 1}, r"costs up to 1e\+281 overflow"),
    ],
)
def test_numbers_beyond_the_stated_range_are_refused(given, message):
    """Below 1e-280 rounding errors underflow to 0, and with them the margins of bounds."""
    with pytest.raises(InvalidProblem, match=message):
        DispersionProblem(**given)
    kinds = {**given, "kinds": [0, 1]}
    with pytest.raises(InvalidProblem, match=message):
        KindDispersionProblem(**kinds)


def test_subnormal_weights_between_points_are_refused():
    with pytest.raises(InvalidProblem, match="too small"):
        PointDispersionProblem([[0.0], [1.0], [3.0]], size=2, weight=1e-290)
    PointDispersionProblem([[0.0], [1.0], [3.0]], costs=[1, 2, 3], size=2, weight=1e-290)  # costs decide


def geometries(rng: np.random.Generator, n: int, size: int, costs: np.ndarray) -> list:
    points = rng.random((n, 1))
    h = np.abs(points - points.T)
    weight = float(rng.random())
    return [
        DispersionProblem(h, costs=costs, size=size, weight=weight),
        PointDispersionProblem(points, costs=costs, size=size, weight=weight),
        KindDispersionProblem(h, kinds=np.arange(n), costs=costs, size=size, weight=weight),
        KindDispersionProblem([[float(rng.random())]], kinds=np.zeros(n, int), costs=costs, size=size, weight=weight),
        PointDispersionProblem(np.ones((n, 2)), costs=costs, size=size, weight=weight),
    ]


def exact_value(problem, x) -> Fraction:
    chosen = np.flatnonzero(x)
    value = -sum(Fraction(c) for c in problem.costs[chosen].tolist())
    weight = 2 * Fraction(problem.weight)
    for a, i in enumerate(chosen):
        for j in chosen[:a]:
            if isinstance(problem, PointDispersionProblem):
                distance = abs(Fraction(float(problem.points[i, 0])) - Fraction(float(problem.points[j, 0])))
            elif isinstance(problem, KindDispersionProblem):
                distance = Fraction(float(problem.distances[problem.kinds[i], problem.kinds[j]]))
            else:
                distance = Fraction(float(problem.distances[i, j]))
            value += weight * distance
    return value


@pytest.mark.parametrize("left_out", [0, 1])
def test_trivial_problems_have_bounds_beyond_the_exact_value(left_out):
    """All clients, all but one, one kind, all points equal: the rounded value itself is no bound."""
    rounded_down = dict.fromkeys(range(5), 0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 8))
        for place, problem in enumerate(geometries(rng, n, n - left_out, rng.normal(size=n) * 10)):
            best = max(exact_value(problem, x) for x in ([np.ones(n)] if left_out == 0 else 1 - np.eye(n)))
            solution = solve(problem, "branch-and-bound")
            assert solution.status == "optimal"
            assert Fraction(solution.bound) >= best
            rounded_down[place] += Fraction(solution.objective) < best
    assert all(rounded_down.values()), f"no value was rounded down in some geometry: {rounded_down}"


@pytest.mark.parametrize("common", [1e5, 1e9, 1e13, -1e16])
def test_all_but_one_is_proved_beside_a_huge_common_cost(common):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(10, 40))
        for problem in geometries(rng, n, n - 1, common + rng.normal(size=n))[:3]:
            solution = solve(problem, "branch-and-bound")
            assert solution.status == "optimal"
            gains = 2 * problem.weight * problem.geometry.sums()[0] + (common - problem.costs)
            assert solution.x[gains.argmin()] == 0


@pytest.mark.parametrize("limit", [1e-9, 1e-4, 1e-3])
def test_auto_has_a_decision_however_short_the_time(limit):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(30, 60))
        points = rng.random((n, 3))
        h = np.linalg.norm(points[:, None] - points, axis=2)
        for problem in (
            DispersionProblem(h, size=n // 3),
            PointDispersionProblem(points, size=n // 3),
            KindDispersionProblem(h[:9, :9], kinds=np.arange(n) % 9, costs=rng.random(n), size=n // 3),
        ):
            solution = solve(problem, "auto", time_limit=limit)
            assert solution.x is not None
            assert solution.bound is not None
