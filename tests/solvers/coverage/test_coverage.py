"""The coverage problem: enumeration, submodularity, greedy's guarantee, swaps, bounds, sentences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import InvalidProblem, load, methods, solve
from solvers.coverage import CoverageProblem
from solvers.coverage.lagrangian import Entries
from solvers.coverage.swaps import ascend
from solvers.run import Run
from solvers.subsets import from_clients
from tests.thoroughly import few_of


def value_of(similarity, chosen):
    return math.fsum(max(float(row[j]) for j in chosen) for row in similarity)


def best_of(problem):
    """The best value over all selections, in plain Python."""
    rows = problem.similarity.tolist()
    return max(value_of(rows, chosen) for chosen in itertools.combinations(range(problem.n), problem.size))


def random_problem(rng, largest=8):
    """Rectangular or square, of any sign, with ties or single precision, or distances between points."""
    n, rows = int(rng.integers(1, largest)), int(rng.integers(1, largest))
    kind = rng.integers(4)
    if kind == 0:
        similarity = rng.normal(size=(rows, n))
    elif kind == 1:
        similarity = rng.integers(-1, 3, (rows, n)).astype(float)
    elif kind == 2:
        similarity = rng.random((rows, n)).astype(np.float32)
    else:
        where = rng.random((n, 2))
        similarity = 1 - np.linalg.norm(where[:, None] - where, axis=2)
    return CoverageProblem(similarity, int(rng.integers(1, n + 1)))


@pytest.mark.parametrize(("seed", "cases"), few_of([(0, 120), (1, 1500)], 1))
def test_thousands_of_small_cases_against_enumeration(seed, cases):
    rng = np.random.default_rng(seed)
    proved = 0
    for case in range(cases):
        problem = random_problem(rng)
        best = best_of(problem)
        unit = min(max(1.0, abs(best)), problem.scale)
        for entry in methods(problem):
            if entry.name in ("cp-sat", "milp"):
                continue
            solution = solve(problem, entry.name)
            assert solution.objective <= best, (case, entry.name)
            assert solution.bound is None or solution.bound >= best, (case, entry.name)
            if entry.kind == "exact":
                assert solution.status == "optimal", (case, entry.name)
                assert solution.objective >= best - 1e-6 * unit, (case, entry.name)
                proved += 1
    assert proved == 3 * cases


def test_backends_against_enumeration():
    rng = np.random.default_rng(2)
    for _ in range(15):
        problem = random_problem(rng)
        best = best_of(problem)
        for name in ("cp-sat", "milp"):
            solution = solve(problem, name)
            assert solution.objective == pytest.approx(best, abs=1e-9)
            assert solution.bound >= best


def test_larger_ones_against_another_solver():
    """Trees that branch: 40 random points of six dimensions."""
    branched = 0
    for seed in range(4):
        where = np.random.default_rng(seed).random((40, 6))
        problem = CoverageProblem(3 - np.linalg.norm(where[:, None] - where, axis=2), 6)
        ours, theirs = solve(problem), solve(problem, "milp")
        assert ours.status == "optimal"
        assert ours.objective >= theirs.objective - 1e-6
        assert ours.objective <= theirs.bound
        branched += ours.nodes > 1
    assert branched


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_objective_is_monotone_and_submodular(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    rows, n = problem.similarity.tolist(), problem.n
    small = sorted(rng.choice(n, rng.integers(1, n + 1), replace=False).tolist())
    large = sorted({*small, *rng.choice(n, rng.integers(0, n + 1), replace=False).tolist()})
    gain = [value_of(rows, [*base, j]) - value_of(rows, base) for base in (small, large) for j in range(n)]
    assert min(gain) >= -1e-12
    assert all(first >= second - 1e-12 for first, second in zip(gain[:n], gain[n:], strict=True))


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_greedy_is_the_plain_greedy_and_reaches_its_guarantee(seed):
    rng = np.random.default_rng(seed)
    problem = CoverageProblem(rng.random((7, 7)), int(rng.integers(1, 8)))
    rows = problem.similarity.tolist()
    chosen: list[int] = []
    for _ in range(problem.size):
        chosen.append(max(set(range(7)) - set(chosen), key=lambda j: value_of(rows, [*chosen, j])))
    found = solve(problem, "greedy")
    assert found.objective == pytest.approx(value_of(rows, chosen), rel=1e-12)
    assert found.objective >= (1 - 1 / math.e) * best_of(problem)


def test_stochastic_greedy_depends_on_the_seed_and_is_greedy_with_a_full_sample():
    problem = CoverageProblem(np.random.default_rng(3).random((30, 30)), 5)
    values = {solve(problem, "stochastic-greedy", seed=seed, epsilon=0.7).objective for seed in range(10)}
    assert len(values) > 1
    assert solve(problem, "stochastic-greedy", epsilon=1e-9).objective == solve(problem, "greedy").objective
    assert max(values) <= solve(problem, "lagrangian").bound


def test_no_swap_improves_what_local_search_returns():
    rng = np.random.default_rng(4)
    for _ in range(30):
        problem = random_problem(rng, 10)
        start = np.sort(rng.choice(problem.n, problem.size, replace=False))
        run = Run(problem, "ascent", None, 0)
        run.offer(from_clients(start, problem.n))
        ascend(problem, run, start)
        chosen, rows = np.flatnonzero(run.x).tolist(), problem.similarity.tolist()
        for out, into in itertools.product(chosen, set(range(problem.n)) - set(chosen)):
            assert value_of(rows, [into, *(set(chosen) - {out})]) <= run.objective + 1e-9


def test_entries_are_all_that_matters_above_their_floor():
    columns = np.random.default_rng(5).random((9, 12))
    u = np.full(12, 0.6)
    entries = Entries(columns, np.array([1, 4, 7]), u, reach=0.2)
    for multipliers in (u, u - 0.2, u + 0.1):
        gains = np.maximum(entries.values - multipliers[entries.rows], 0)
        worth = np.bincount(entries.candidates, gains, 9)
        np.testing.assert_allclose(worth[[1, 4, 7]], np.maximum(columns[[1, 4, 7]] - multipliers, 0).sum(axis=1))
    entries.keep(np.array([4]), 9)
    assert set(entries.candidates.tolist()) == {4}


def test_representatives_and_files(tmp_path):
    single = np.array([[5, 4, 0], [4, 5, 5]], dtype=np.float32)
    problem = load(CoverageProblem(single, 2).save(tmp_path / "problem.npz"))
    assert isinstance(problem, CoverageProblem)
    assert problem.similarity.dtype == np.float32
    assert problem.representatives([1, 0, 1]).tolist() == [0, 2]
    assert problem.objective([1, 0, 1]) == 10
    assert problem.objective([0, 0, 0]) == -math.inf
    assert problem.violation([0, 0, 0]) == 2
    assert problem.violation([2, 0, 0]) == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (([1.0, 2.0], 1), r"similarity must have 2 dimension\(s\)"),
        ((np.zeros((0, 3)), 1), "a row and a column for at least one client"),
        (([[math.nan]], 1), r"similarity must be finite; entry \(0, 0\) is nan"),
        (([[1.0]], 2), "size must not exceed the number of clients, 1; got 2"),
        (([[1.0]], 0), "size must be an integer of at least 1; got 0"),
        (([[1.0]], True), "size must be an integer of at least 1; got True"),
        (([[1e300]], 1), "overflow; rescale them"),
        (([[1e-300]], 1), "too small to be computed with"),
    ],
)
def test_bad_data_are_sentences(fields, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        CoverageProblem(*fields)


def test_methods_for_small_problems_say_so():
    large = CoverageProblem(np.random.default_rng(6).random((501, 501)), 30)
    for name in ("milp", "cp-sat"):
        with pytest.raises(InvalidProblem, match="a variable for each entry"):
            solve(large, name)
    with pytest.raises(InvalidProblem, match=r"brute-force would look at .* selections"):
        solve(large, "brute-force")
