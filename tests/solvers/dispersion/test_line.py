"""Lines are recognised wherever they lie, and nothing else is; ``line`` against enumeration and other methods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from solvers import InvalidProblem, solve
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.dispersion.line import Line, line_of
from solvers.run import Run
from tests.solvers.dispersion.cases import euclidean_problem, random_problem
from tests.thoroughly import tried


def on_a_line(n: int, m: int, seed: int = 0, costs: NDArray[np.float64] | None = None) -> PointDispersionProblem:
    """Places uniform on [0, 100]."""
    places = np.random.default_rng(seed).uniform(0, 100, (n, 1))
    return PointDispersionProblem(places, costs, size=m, weight=0.5)


def random_line(rng: np.random.Generator, largest: int = 12, least: int = 2) -> PointDispersionProblem:
    """Places drawn, on a lattice or at two ends, in any space at any scale, with costs from none to all that counts."""
    n, d = int(rng.integers(least, largest + 1)), int(rng.integers(1, 7))
    m, scale = int(rng.integers(1, n + 1)), 10.0 ** rng.integers(-6, 7)
    kinds = (rng.normal(size=n), rng.integers(0, 6, n), rng.choice([0, 10], n) + 0.1 * rng.normal(size=n))
    along = rng.normal(size=d)
    points = np.outer(kinds[rng.integers(3)], along / np.linalg.norm(along)) + rng.normal(size=d) * rng.choice([0, 9])
    costs = rng.normal(size=n) * scale * rng.choice([0, 0.01, 1, m, 10 * m])
    return PointDispersionProblem(scale * points, costs, size=m, weight=float(rng.choice([0.5, 1.0, 0.01])))


def seen(problem: DispersionProblem | PointDispersionProblem) -> Line | None:
    return line_of(problem, Run(problem, "test", None, 0))


def farthest_off(line: Line, distances: NDArray[np.float64]) -> float:
    """The largest difference to the line's distances, written out."""
    ideal = np.abs(line.at[:, None] - line.at)
    return float(np.abs(distances[np.ix_(line.order, line.order)] - ideal).max())


def is_the_optimum(problem, solution, best):
    assert solution.status == "optimal", (solution, problem)
    assert solution.objective == pytest.approx(best, abs=1.01e-6 * min(max(1.0, abs(best)), problem.scale))
    assert solution.bound >= best - 4 * problem.rounding


@pytest.mark.parametrize("seed", range(6))
def test_recognised_in_any_space_at_any_scale(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        points = random_line(rng, 60, least=4)
        matrix = points.expanded()
        for line in (seen(points), seen(matrix)):
            assert line is not None
            assert (np.diff(line.at) >= 0).all()
            assert sorted(line.order.tolist()) == list(range(points.n))
            assert farthest_off(line, matrix.distances) <= line.error <= 1e-9 * max(matrix.diameter, 1e-300)


def test_places_by_hand():
    line = seen(PointDispersionProblem(np.array([[3.0], [1.0], [2.0], [1.0]]), None, size=2))
    assert line is not None
    assert line.order.tolist() in ([1, 3, 2, 0], [0, 2, 1, 3])
    assert line.at == pytest.approx(np.sort([-1, -1, 0, 1]) if line.order[0] == 1 else [-1, 0, 1, 1])
    for problem in (PointDispersionProblem(np.ones((5, 3)), None, size=2), DispersionProblem(np.zeros((5, 5)), size=2)):
        line = seen(problem)
        assert line is not None
        assert (line.at == 0).all()


@pytest.mark.parametrize("shift", [1e-6, 1e-4, 0.1])
def test_a_client_off_the_line_is_noticed(shift):
    rng = np.random.default_rng(3)
    for _ in range(20):
        points = np.column_stack([rng.normal(size=30), np.zeros(30)])
        points[rng.integers(30), 1] += shift
        problem = PointDispersionProblem(points, None, size=5)
        for line in (seen(problem), seen(problem.expanded())):
            assert line is None or farthest_off(line, problem.expanded().distances) <= line.error < 2e-7 * 8
        assert shift < 1e-3 or (seen(problem), seen(problem.expanded())) == (None, None)


def test_what_distances_lack_is_in_the_error():
    rng = np.random.default_rng(4)
    for noise in (1e-12, 1e-9, 1e-8):
        h = np.triu(on_a_line(40, 5).expanded().distances / 100 + noise * rng.uniform(-1, 1, (40, 40)), 1)
        problem = DispersionProblem(np.maximum(h + h.T, 0), None, size=5)
        line = seen(problem)
        assert line is not None
        assert 0.3 * noise < farthest_off(line, problem.distances) <= line.error < 20 * noise + 1e-13


def test_nothing_else_is_recognised():
    rng = np.random.default_rng(6)
    for _ in range(50):
        points = PointDispersionProblem(rng.normal(size=(int(rng.integers(5, 30)), int(rng.integers(2, 5)))), size=2)
        assert seen(points) is None
        assert seen(points.expanded()) is None
        h = np.triu(10.0 ** rng.uniform(-279, 279, (8, 8)), 1)
        assert seen(DispersionProblem(h + h.T, None, size=2, weight=1e-10)) is None
    found = 0
    for _ in range(300):  # of any kind and scale, triangle inequality or not: no warning, and no wrong line
        problem = random_problem(rng)
        line = seen(problem)
        found += line is not None
        assert line is None or farthest_off(line, problem.distances) <= line.error
    assert found > 0


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        points = random_line(rng)
        matrix = points.expanded()
        best = solve(matrix, "brute-force").objective
        is_the_optimum(points, solve(points, "line"), best)
        is_the_optimum(matrix, solve(matrix, "line"), best)


@tried(
    15,
    60,
    st.lists(st.integers(0, 23), min_size=2, max_size=10),
    st.lists(st.integers(-3, 3), min_size=10, max_size=10),
    st.integers(1, 10),
)
def test_lattices_with_ties_and_repeated_points(places, costs, size):
    at = np.array(places) / 12
    costs = np.array(costs[: len(places)]) * 0.3
    problem = PointDispersionProblem(np.column_stack([at, 2 * at]), costs, size=min(size, len(places)), weight=0.5)
    is_the_optimum(problem, solve(problem, "line"), solve(problem.expanded(), "brute-force").objective)


def test_a_constant_in_the_costs_changes_nothing():
    costs = np.random.default_rng(1).normal(size=80)
    first, second = (solve(on_a_line(80, 20, 3, costs + c), "line") for c in (0.0, 100.0))
    assert second.objective == pytest.approx(first.objective - 20 * 100.0, rel=1e-12)
    assert np.array_equal(first.x, second.x)


def test_without_costs_the_ends_are_chosen():
    x = np.sort(np.random.default_rng(3).normal(size=50))
    solution = solve(DispersionProblem(np.abs(x[:, None] - x), None, size=10), "line")
    assert solution.selected.tolist() == [*range(5), *range(45, 50)]


def test_auto_takes_one_path_for_many_points_as_for_a_matrix():
    costs = np.random.default_rng(2).normal(size=5_000)
    for problem in (on_a_line(5_000, 50, 2, costs), on_a_line(500, 60, 2, costs[:500]).expanded()):
        solution = solve(problem, "auto")
        assert (solution.status, solution.nodes) == ("optimal", 1)
        assert solution.gap < 1e-9


@pytest.mark.parametrize("problem", [euclidean_problem(20, 5), PointDispersionProblem(np.eye(6), None, size=2)])
def test_other_problems_are_refused_in_a_sentence(problem):
    with pytest.raises(InvalidProblem, match=r"on a line, to 1e-7 .*not \(use 'auto'\)"):
        solve(problem, "line")


def test_a_table_too_large_is_refused():
    with pytest.raises(InvalidProblem, match="a table of 50000 clients by 25000 ranks; it accepts at most 2e"):
        solve(on_a_line(50_000, 25_000), "line")


def test_rounded_distances_are_proved_with_what_they_lack_in_the_bound():
    exact = on_a_line(100, 20, 1).expanded()
    for rounded in (exact.distances.astype(np.float32), np.round(exact.distances, 6)):
        problem = DispersionProblem(rounded, None, size=20, weight=0.5)
        solution = solve(problem, "line")
        assert solution.status == "optimal"
        assert 1e-9 < solution.gap < 1e-6
        assert solution.bound >= problem.objective(solve(exact, "line").x)
